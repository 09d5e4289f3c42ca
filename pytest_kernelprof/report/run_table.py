"""The table at the end of a run: one line a profile, within the width of the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..names import ascii_only, shorten
from ..units import format_ns
from .layout import Look
from .words import NOT_MEASURED, WORRYING, mark

_HEADERS = ("test", "kernels", "copies", "syncs", "ops", "tensor cores", "GPU time", "ledger", "mark")
_SHORT = tuple(header.replace(" ", "\n") for header in _HEADERS[1:])
"""The same without the first, where there is little room."""
_KEYS = {"gpu-time": "gpu_time_ns", "kernels": "kernels", "copies": "memcpys", "syncs": "host_syncs", "ops": "ops"}
"""What `--kernelprof-sort` orders by."""
_WIDEST_TEST, _WIDEST_NAME = 64, 16
_NARROWEST_TEST = 24
_UNKNOWN = "-"


class Line(NamedTuple):
    """A line of the table.

    Attributes:
        text: The line.
        verdict: That on its test, for the colour; empty for other lines.
    """

    text: str
    verdict: str = ""


class View(NamedTuple):
    """What is shown of a run.

    Attributes:
        look: The width of the terminal, and whether names are cut.
        sort: What has most of this comes first; ``run`` for the order in which tests ran.
        top: Lines that are shown; 0 for all.
    """

    look: Look
    sort: str = "run"
    top: int = 0


def run_table(rows: Sequence[Mapping[str, Any]], verdicts: Mapping[str, str], view: View) -> list[Line]:
    """Return the table.

    Args:
        rows: The profiles of the run.
        verdicts: Those on tests, by id.
        view: What is shown.
    """
    ordered = _sorted(rows, view.sort)
    shown = ordered[: view.top] if view.top else ordered
    told = [verdicts.get(row["test"], "") for row in shown]
    lines = _table(shown, told, view.look)
    if len(shown) < len(rows):
        lines.append(Line(f"... and {len(rows) - len(shown)} more (--kernelprof-top=0 shows all)"))
    return lines


def _sorted(rows: Sequence[Mapping[str, Any]], sort: str) -> Sequence[Mapping[str, Any]]:
    """Return rows in order; what was not measured comes last."""
    if sort not in _KEYS:
        return rows
    key = _KEYS[sort]
    return sorted(rows, key=lambda row: (row[key] is None, -(row[key] or 0)))


def _table(rows: Sequence[Mapping[str, Any]], verdicts: Sequence[str], look: Look) -> list[Line]:
    """Return the widest form that has room: with all words, with short ones, or sentences."""
    cells = [_cells(row, verdict) for row, verdict in zip(rows, verdicts, strict=True)]
    width = look.width
    for widest in (None, _WIDEST_TEST):
        table = _tabulated(_HEADERS, [_name(row, widest) for row in rows], cells)
        if width is None or max(map(len, table)) <= width:
            return _coloured(table, verdicts)
    assert width is not None
    return _short(rows, verdicts, width) or _sentences(rows, verdicts, look)


def _cells(row: Mapping[str, Any], verdict: str, unknown: str = NOT_MEASURED, replayed: str | None = None) -> list[str]:
    """Return what is told of a profile beside its name."""
    time = row["gpu_time_ns"]
    counts = [row[name] for name in ("kernels", "memcpys", "host_syncs", "ops", "tensor_cores")]
    # In words: colour is not enough.
    marks = [verdict if verdict in WORRYING else "", mark(row) if replayed is None or not mark(row) else replayed]
    return [
        *(unknown if count is None else str(count) for count in counts),
        unknown if time is None else format_ns(time),
        row["ledger"] or "",
        ", ".join(filter(None, marks)),
    ]


def _name(row: Mapping[str, Any], widest: int | None) -> str:
    """Return the test, and the profile where it is not its first; folders go first where there is no room."""
    name = "" if row["name"] == "1" else f" ({shorten(row['name'], _WIDEST_NAME)})"
    test = ascii_only(row["test"])
    if widest is None:
        return test + name
    file, _, rest = test.partition("::")
    room = widest - len(name)
    ways = (test, f"{file.rpartition('/')[2]}::{rest}", rest or file)
    return (next((way for way in ways if len(way) <= room), None) or shorten(ways[-1], room)) + name


def _tabulated(headers: Sequence[str], names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines; columns that say nothing in any line are left out."""
    from tabulate import tabulate

    lines = [[name, *more] for name, more in zip(names, cells, strict=True)]
    kept = [place for place in range(len(headers)) if any(line[place] for line in lines)]
    picked = [[line[place] for place in kept] for line in (headers, *lines)]
    text = tabulate(picked[1:], headers=picked[0], tablefmt="plain", disable_numparse=True)
    return [line.rstrip() for line in text.splitlines()]


def _coloured(lines: Sequence[str], verdicts: Sequence[str]) -> list[Line]:
    """Return the lines of a table, the last of which have verdicts."""
    heading = [""] * (len(lines) - len(verdicts))
    return [Line(text, verdict) for text, verdict in zip(lines, (*heading, *verdicts), strict=True)]


def _short(rows: Sequence[Mapping[str, Any]], verdicts: Sequence[str], width: int) -> list[Line]:
    """Return the table with short cells, which are explained under it; nothing where not even those have room."""
    cells = [_cells(row, verdict, _UNKNOWN, "replayed") for row, verdict in zip(rows, verdicts, strict=True)]
    untold = [place for place in range(len(_SHORT)) if all(line[place] == _UNKNOWN for line in cells)]
    cells = [["" if place in untold else cell for place, cell in enumerate(line)] for line in cells]
    headers = (_HEADERS[0], *_SHORT)
    room = width - max(map(len, _tabulated(headers, [_HEADERS[0]] * len(rows), cells))) + len(_HEADERS[0])
    if room < _NARROWEST_TEST:
        return []
    table = _tabulated(headers, [_name(row, min(room, _WIDEST_TEST)) for row in rows], cells)
    notes = [f"{NOT_MEASURED}: {', '.join(_HEADERS[1 + place] for place in untold)}"] if untold else []
    notes += [f"{_UNKNOWN} {NOT_MEASURED}"] if any(_UNKNOWN in line for line in cells) else []
    return _coloured(table, verdicts) + [Line(line) for note in notes for line in _wrapped(note, width)]


def _sentences(rows: Sequence[Mapping[str, Any]], verdicts: Sequence[str], look: Look) -> list[Line]:
    """Return a line with the name of each profile, and what is told of it in sentences under it."""
    width = look.width or 0
    lines = []
    for row, verdict in zip(rows, verdicts, strict=True):
        lines.append(Line(_name(row, None if look.every_row else width), verdict))
        lines += [Line(f"  {line}", verdict) for line in _wrapped(_sentence(row, verdict), width - 2)]
    return lines


def _sentence(row: Mapping[str, Any], verdict: str) -> str:
    cells = dict(zip(_HEADERS[1:], _cells(row, verdict), strict=True))
    marks = cells.pop("mark")
    unknown = [name for name, cell in cells.items() if cell == NOT_MEASURED]
    known = [f"{name} {cell}" for name, cell in cells.items() if cell and cell != NOT_MEASURED]
    told = [", ".join(known), f"{NOT_MEASURED}: {', '.join(unknown)}" if unknown else "", marks]
    return "; ".join(filter(None, told))


def _wrapped(text: str, width: int) -> list[str]:
    from textwrap import wrap

    return wrap(text, width, break_on_hyphens=False)
