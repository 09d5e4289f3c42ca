"""Tables of text that fit a width: some cells can be told in fewer characters, others cannot.

By hand, in the style of tabulate: importing that takes longer than reading a small trace.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..names import ascii_only, shorten
from ..units import plural

if TYPE_CHECKING:
    from ..events import Event
    from ..sites import Place

T = TypeVar("T")

ROW_LIMIT = 8
_HEADER_PADDING = 2
_GAP = "  "
_NARROWEST, _WIDEST, _WITHOUT_TERMINAL = 60, 200, 120
_ELLIPSIS = "..."


class Look(NamedTuple):
    """How much is shown.

    Attributes:
        width: Columns that a table may take; ``None`` for as many as it needs.
        every_row: Show all rows of a table, not the worst alone.
        places: Where events come from, as far as that is known.
    """

    width: int | None = None
    every_row: bool = False
    places: Mapping[Event, Place | None] = {}

    @classmethod
    def of(cls, width: int | None, verbosity: int = 0, indent: int = 0) -> Look:
        """Return how a terminal of so many columns shows things.

        Args:
            width: Its columns, taken as 60 at least and 200 at most.
            verbosity: 1 shows every row, 2 every name in full as well.
            indent: Columns that something else takes in each line.
        """
        width = min(max(width or terminal_width(), _NARROWEST), _WIDEST)
        return cls(None if verbosity > 1 else width - indent, verbosity > 0)


def terminal_width() -> int:
    """Return the columns of the terminal: what ``COLUMNS`` says, else its own; 120 where there is none."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _WITHOUT_TERMINAL  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return _WITHOUT_TERMINAL


class Short(str):
    """A cell that can be told in fewer characters, down to `least`."""

    __slots__ = ()

    least = 14
    most = 56
    """Characters that it takes where there is no lack of room, if a table is to be read."""

    def within(self, width: int) -> str:
        """Return it in at most *width* characters: its middle is left out."""
        return shorten(self, width)


class Choice(Short):
    """A cell that can be told in several ways, the longest first."""

    __slots__ = ("ways",)

    ways: tuple[str, ...]

    most = 44

    def __new__(cls, ways: Sequence[str]) -> Choice:
        """Make a cell."""
        self = super().__new__(cls, ways[0])
        self.ways = tuple(ways)
        return self

    @property
    def least(self) -> int:  # type: ignore[override]
        """Characters of the shortest way, if they are not too many."""
        return min(len(self.ways[-1]), Chain.least)

    def within(self, width: int) -> str:
        """Return the longest way that has room, the shortest cut if none has."""
        return next((way for way in self.ways if len(way) <= width), None) or shorten(self.ways[-1], width)


class Chain(Short):
    """A chain of names, outermost first: the middle ones are left out first, then parts of names.

    Attributes:
        links: The names.
        endings: What is said after the last, in full, then in fewer words.
    """

    __slots__ = ("endings", "links")

    links: tuple[str, ...]
    endings: tuple[str, ...]

    least = 20
    most = 72

    def __new__(cls, links: Sequence[str], endings: Sequence[str] = ()) -> Chain:
        """Make a cell of names, and of what is said after the last."""
        self = super().__new__(cls, " > ".join(links) + "".join(endings[:1]))
        self.links = tuple(links)
        self.endings = tuple(endings)
        return self

    def within(self, width: int) -> str:
        """Return it in at most *width* characters, the innermost name last of all to go."""
        for ending in (*self.endings, ""):
            for links in self._fewer():
                told = " > ".join(links) + ending
                if len(told) <= width:
                    return told
        return shorten(" > ".join(links), width)

    def _fewer(self) -> Iterator[tuple[str, ...]]:
        """Yield the names, then fewer and fewer of them; the innermost stays."""
        links = self.links
        yield links
        for kept in range(len(links) - 2, 0, -1):
            yield (links[0], _ELLIPSIS, *links[-kept:])
        if len(links) > 1:
            yield (_ELLIPSIS, links[-1])


def table(headers: Sequence[str], items: Sequence[T], tell: Callable[[T], Sequence[str]], look: Look) -> str:
    """Return a table of the first items or of all of them, the rest counted.

    Args:
        headers: What the columns hold.
        items: What each row is about.
        tell: Returns the cells of a row; asked only for those that are shown, of thousands.
        look: How much is shown.
    """
    shown = shown_of(items, look)
    left = len(items) - len(shown)
    text = plain_table(headers, [tell(item) for item in shown], look.width)
    return f"{text}\n... and {left} more (-v shows all)" if left else text


def shown_of(items: Sequence[T], look: Look) -> Sequence[T]:
    """Return the items that a table shows."""
    return items if look.every_row else items[:ROW_LIMIT]


def listed(items: Sequence[T], noun: str, tell: Callable[[T], str], look: Look, most: int = ROW_LIMIT) -> str:
    """Return the first items or all of them, each a sentence that goes on in the next line where it is too long."""
    shown = items if look.every_row else items[:most]
    told = [_wrapped(ascii_only(tell(item)), look.width) for item in shown]
    left = len(items) - len(shown)
    return "\n".join(
        [*told, *([f"... and {left} more {noun if left == 1 else plural(noun)} (-v shows all)"] if left else [])]
    )


def _wrapped(line: str, width: int | None) -> str:
    if width is None or len(line) <= width:
        return line
    from textwrap import wrap

    return "\n".join(wrap(line, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False))


def fits(headers: Sequence[str], rows: Sequence[Sequence[str]], look: Look) -> bool:
    """Return whether a table has room for all these columns without taking words from a chain."""
    if look.width is None:
        return True
    columns = list(zip(*rows, strict=True))
    widths = _widths(headers, columns, look.width)
    return widths is not None and all(
        len(_fit(cell, room)) == len(cell)
        for column, room in zip(columns, widths, strict=True)
        for cell in column
        if isinstance(cell, Chain)
    )


def has_room(headers: Sequence[str], rows: Sequence[Sequence[str]], look: Look) -> bool:
    """Return whether a table has room for all these columns, if only for short cells."""
    return _widths(headers, list(zip(*rows, strict=True)), look.width) is not None


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return a table without lines, within *width* columns if it can be.

    Where even short cells leave no room, each row becomes a few lines of its own.
    """
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(headers)
    widths = _widths(headers, columns, width)
    if widths is None:
        assert width is not None
        return _records(headers, rows, width)
    lines = [headers, *([_fit(cell, room) for cell, room in zip(row, widths, strict=True)] for row in rows)]
    cells = ([cell.ljust(room) for cell, room in zip(line, widths, strict=True)] for line in lines)
    return "\n".join(_GAP.join(line).rstrip() for line in cells)


def _widths(headers: Sequence[str], columns: Sequence[Sequence[str]], width: int | None) -> list[int] | None:
    """Return the width of each column; ``None`` if they do not fit at all."""
    kinds = {
        place: cell
        for place, column in enumerate(columns)
        if (cell := next((one for one in column if isinstance(one, Short)), None)) is not None
    }
    padded, tight = (
        [
            max([len(header) + padding, *(len(cell) for cell in column)])
            for header, column in zip(headers, columns, strict=True)
        ]
        for padding in (_HEADER_PADDING, 0)
    )
    padded[-1] = tight[-1]  # Nothing follows the last.
    if width is None:
        return padded
    room = width - len(_GAP) * (len(headers) - 1)
    capped = {place: _cap(kind, room) for place, kind in kinds.items()}
    for natural in (padded, tight):
        wanted = [max(min(one, capped.get(place, one)), len(headers[place])) for place, one in enumerate(natural)]
        if sum(wanted) <= room:
            return wanted
    return _shared(wanted, kinds, headers, columns, room)


def _cap(kind: Short, room: int) -> int:
    """Return how long a cell may be: a wide terminal shows more of a long name."""
    return kind.most * max(1, room // (_WITHOUT_TERMINAL // 2))


def _shared(
    wanted: list[int], kinds: dict[int, Short], headers: Sequence[str], columns: Sequence[Sequence[str]], room: int
) -> list[int] | None:
    """Return widths within *room*: the columns that can be short share what the others leave."""
    room -= sum(one for place, one in enumerate(wanted) if place not in kinds)
    least = {place: min(wanted[place], max(kind.least, len(headers[place]))) for place, kind in kinds.items()}
    if room < sum(least.values()):
        return None
    fitted = list(wanted)
    # Chains first: who launched something matters more than the end of its name.
    for place in sorted(kinds, key=lambda place: (not isinstance(kinds[place], Chain), wanted[place] - least[place])):
        spare = room - sum(least.values())
        share = spare * 2 // 3 if isinstance(kinds[place], Chain) and len(least) > 1 else spare // len(least)
        fitted[place] = min(wanted[place], least[place] + share)
        if isinstance(kinds[place], Chain):
            # A chain gives up whole names: what is left over goes to the next column.
            fitted[place] = max(len(headers[place]), *(len(_fit(one, fitted[place])) for one in columns[place]))
        room -= fitted[place]
        del least[place]
    return fitted


def _records(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return each row as lines of a header and a cell."""
    indent = max(map(len, headers)) + len(_GAP)
    blocks = (
        "\n".join(
            f"{header:{indent}}{_fit(cell, width - indent)}".rstrip()
            for header, cell in zip(headers, row, strict=True)
            if cell
        )
        for row in rows
    )
    return "\n\n".join(blocks)


def _fit(cell: str, width: int) -> str:
    return cell.within(width) if isinstance(cell, Short) else cell
