"""A report as Markdown for pull requests: what failed, what changed, short tables, the rest folded away."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..names import ascii_only, shorten
from ..units import counted, format_ns
from .sections import escaped
from .words import LEDGER_CHANGED, NOT_MEASURED, environments, found, mark, number, title, told_of

COMMENT_BYTES = 65_000
"""What fits into a comment on GitHub, which takes 65,536 characters."""
_WIDEST_CODE = 120
_LONGEST_MESSAGE = 6_000
_MOST_OPEN_ROWS = 20
"""Longer tables of profiles are folded away."""
_MOST_CHANGES = 8
_SPECIAL = re.compile(r"[`|\\]")
"""What ends a code span, or a cell of a table around it."""


class _Size(NamedTuple):
    """How much is shown: rows of a table, messages in full; ``None`` for all."""

    rows: int | None
    messages: int | None


def markdown(report: Mapping[str, Any], max_bytes: int) -> str:
    """Return a report as Markdown of at most so many bytes: messages go first, then rows of tables."""

    def text(size: _Size) -> str:
        return "\n".join(_blocks(report, size)) + "\n"

    def fits(size: _Size) -> bool:
        return len(text(size).encode()) <= max_bytes

    everything = _Size(None, None)
    if fits(everything):
        return text(everything)
    most = max(len(report["tests"]), len(report["profiles"]))
    if fits(_Size(None, 0)):
        return text(_Size(None, _largest(most, lambda number: fits(_Size(None, number)))))
    return (
        text(_Size(_largest(most, lambda number: fits(_Size(number, 0))), 0))
        .encode()[:max_bytes]
        .decode(errors="ignore")
    )


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to *most* that fits, taken that all smaller ones do; 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _blocks(report: Mapping[str, Any], size: _Size) -> Iterator[str]:
    yield from [f"## {escaped(title(report), None)}", ""]
    yield from [escaped(environments(report), 400), ""]
    for problem in report["problems"]:
        yield f"- **{escaped(problem, 400)}**"
    yield from [""] if report["problems"] else []
    yield from _failures(report, size)
    yield from _changes(report, size)
    yield from _profiles(report, size)
    for note in report["notes"]:
        yield f"- {escaped(note, 400)}"


def _failures(report: Mapping[str, Any], size: _Size) -> Iterator[str]:
    failed = [test for test in report["tests"] if told_of(test)]
    if not failed:
        return
    yield from ["### What did not pass", ""]
    rows = [[code(test["id"]), test["verdict"], escaped(found(test)), _where(test)] for test in failed]
    yield from _table(("test", "verdict", "found", "at"), rows, size.rows)
    folded = [test for test in failed if "\n" in test["message"] or len(test["message"]) > 200]
    traces = {one["id"]: one["trace"] for one in report["profiles"]}
    shown = folded if size.messages is None else folded[: size.messages]
    for test in shown:
        yield from _folded(f"{test['id']}: {found(test)}", _message(test, traces))
    if len(shown) < len(folded):
        yield from [f"... and {counted(len(folded) - len(shown), 'message')} more than there is room for", ""]


def _where(test: Mapping[str, Any]) -> str:
    """Return where to look: the line that launched what was not expected, else the one that asserted."""
    guilty = [one["at"][0] for one in test["checks"] if one["at"] and one["outcome"] != "pass"]
    place = next(iter(guilty), test["at"])
    return "" if place is None else code(f"{place['file']}:{place['line']}")


def _message(test: Mapping[str, Any], traces: Mapping[str, str | None]) -> list[str]:
    told = str(test["message"])
    if len(told) > _LONGEST_MESSAGE:
        told = f"{told[: _LONGEST_MESSAGE - 1000]}\n...\n{told[-900:]}"
    kept = [file for one in test["profiles"] if (file := traces.get(one)) and file not in told]
    return [*_fenced(told), *(f"trace: {code(file)}  " for file in kept)]


def _fenced(text: str) -> list[str]:
    """Return text in a block that nothing in it can end."""
    lines = [
        line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)
        for line in text.splitlines()
    ]
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def _folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    told = html.escape(ascii_only(shorten(summary, 200)))
    yield from [f"<details><summary>{told}</summary>", "", *lines, "", "</details>", ""]


def _changes(report: Mapping[str, Any], size: _Size) -> Iterator[str]:
    rows = []
    for test in report["tests"]:
        for one in test["checks"]:
            if one["changes"]:
                words = [escaped(change["words"]) for change in one["changes"][:_MOST_CHANGES]]
                left = len(one["changes"]) - len(words)
                words += [f"... and {left} more"] if left else []
                became = "differs" if one["outcome"] != "pass" else "updated"
                rows.append([code(test["id"]), became, "<br>".join(words)])
    if rows:
        yield from ["### What changed against the ledger", ""]
        yield from _table(("test", "ledger", "change"), rows, size.rows)


def _profiles(report: Mapping[str, Any], size: _Size) -> Iterator[str]:
    profiles = [one for one in report["profiles"] if not one["comparison"]]
    if not profiles:
        return
    yield from ["### Profiles", ""]
    rows = [_row(one) for one in profiles]
    untold = [place for place in range(1, 7) if all(row[place] == NOT_MEASURED for row in rows)]
    rows = [["" if place in untold else cell for place, cell in enumerate(row)] for row in rows]
    table = list(_table(*_filled(_HEADERS, rows), size.rows))
    table += [f"{NOT_MEASURED}: {', '.join(_HEADERS[place] for place in untold)}", ""] if untold else []
    yield from _folded(counted(len(rows), "profile"), table) if len(rows) > _MOST_OPEN_ROWS else table


_HEADERS = ("profile", "kernels", "copies", "syncs", "ops", "tensor cores", "GPU time", "ledger", "mark")


def _row(one: Mapping[str, Any]) -> list[str]:
    name = one["owner"] + ("" if one["name"] == "1" else f" ({one['name']})")
    counts = [number(one[key]) for key in ("kernels", "memcpys", "host_syncs", "ops")]
    time = NOT_MEASURED if one["gpu_time_ns"] is None else format_ns(one["gpu_time_ns"])
    ledger = one["ledger"] or ""
    state = f"**{ledger}**" if ledger in LEDGER_CHANGED else ledger
    return [code(name), *counts, number(one["tensor_cores"]), time, state, escaped(mark(one))]


def _filled(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Sequence[str], list[list[str]]]:
    """Return a table without columns that say nothing in any row."""
    kept = [place for place in range(len(headers)) if any(row[place] for row in rows)]
    return [headers[place] for place in kept], [[row[place] for place in kept] for row in rows]


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], most: int | None) -> Iterator[str]:
    shown = rows if most is None else rows[:most]
    if shown:
        yield from ("| " + " | ".join(line) + " |" for line in (headers, ["---"] * len(headers), *shown))
    if len(shown) < len(rows):
        yield from ["", f"... and {counted(len(rows) - len(shown), 'row')} more than there is room for"]
    yield ""


def code(text: str) -> str:
    """Return a name as code, also in a table, whatever it holds.

    Code spans know no escapes: a name with characters that would end one, or the cell, is told in HTML instead.
    GitHub looks for nobody to notify in either.
    """
    told = shorten(text, _WIDEST_CODE)
    if told.strip() and not _SPECIAL.search(told):
        return f"`{told.strip()}`"
    safe = "".join(c if c.isalnum() or c in " ./-=" else f"&#{ord(c)};" for c in told)
    return f"<code>{safe}</code>"
