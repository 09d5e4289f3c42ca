"""Tables with a title, as text that fits a terminal or as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..names import ascii_only
from ..units import counted
from .layout import plain_table

_WIDEST_CELL = 200


class Section(NamedTuple):
    """A table.

    Attributes:
        title: What it is about.
        headers: What the columns hold.
        rows: The lines that are shown.
        left: How many more there are.
        notes: Sentences under it.
    """

    title: str
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    left: int = 0
    notes: Sequence[str] = ()


def section(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], most: int | None) -> Section:
    """Return a table of the first rows; ``None`` shows all."""
    shown = rows if most is None else rows[:most]
    return Section(title, headers, shown, len(rows) - len(shown))


def as_text(one: Section, width: int | None) -> str:
    """Return a table as text; its title is left out, since the headers say it."""
    parts = [plain_table(one.headers, one.rows, width)] if one.headers else []
    parts += [f"... and {counted(one.left, 'row')} more (--top shows more)"] if one.left else []
    return "\n".join([*parts, *map(ascii_only, one.notes)])


def as_markdown(one: Section, level: int = 3) -> str:
    """Return a table as Markdown, with its title as a heading."""
    parts = [f"{'#' * level} {escaped(one.title)}", ""]
    if one.headers:
        lines = [one.headers, ["---"] * len(one.headers), *one.rows]
        parts += ["| " + " | ".join(map(escaped, line)) + " |" for line in lines]
        parts += ["", f"... and {counted(one.left, 'row')} more"] if one.left else []
        parts += [""] if one.notes else []
    return "\n".join([*parts, *(escaped(note) for note in one.notes)])


def escaped(text: str, widest: int | None = _WIDEST_CELL) -> str:
    """Return text as it reads in a cell of a Markdown table, whatever it holds, its middle left out if it is long."""
    told = ascii_only(str(text))
    if widest is not None and len(told) > widest:
        told = f"{told[: widest - 43]}...{told[-40:]}"
    # Also <, which begins HTML, and &, which begins an entity.
    told = told.replace("&", "&amp;").replace("<", "&lt;")
    return told if told == "---" else re.sub(r"([\\`*_\[\]|~#])", r"\\\1", told)
