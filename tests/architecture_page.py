"""Draws ``docs/architecture.svg`` from the imports of the code, and fills the table: ``python tests/architecture_page.py``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import pytest_kernelprof

ROOT = Path(__file__).parent.parent
PACKAGE = Path(pytest_kernelprof.__file__).parent
PAGE = ROOT / "docs/architecture.md"
PICTURE = ROOT / "docs/architecture.svg"


class Group(NamedTuple):
    """Modules that are one box.

    Attributes:
        name: What the box is called.
        row: Where it stands, from the top.
        column: Where it stands in its row, of 12, and how many columns it takes.
        modules: Top-level modules and subpackages of the package.
        does: What they do.
    """

    name: str
    row: int
    column: tuple[int, int]
    modules: tuple[str, ...]
    does: str


GROUPS = (
    Group(
        "pytest",
        0,
        (4, 8),
        ("plugin", "hookspecs"),
        "fixtures, hooks, options of a run; the only one that knows pytest",
    ),
    Group(
        "command line", 0, (0, 4), ("cli",), "`kernelprof`: show, check, diff, decode, report, doctor; no torch, no GPU"
    ),
    Group("profiling", 1, (4, 8), ("profiled",), "what the fixtures give: functions run live, or recordings replayed"),
    Group(
        "profile",
        2,
        (2, 3),
        ("profile", "assertions", "asking", "judging", "selecting", "comparing", "count", "budget"),
        "the fluent surface: sets, numbers, assertions, budgets; a verdict becomes an exception",
    ),
    Group("reporting", 1, (2, 2), ("reporting", "answers"), "a run, or traces, as one document and as files"),
    Group("doctor", 1, (0, 2), ("doctor",), "whether a machine can measure"),
    Group("report", 3, (0, 4), ("report",), "verdicts, profiles and traces as text, Markdown and a page"),
    Group(
        "checks",
        3,
        (4, 3),
        ("checks", "name_checks", "occupancy_checks", "memory_checks", "time_checks", "ledger_checks", "limits"),
        "one function a check: readings and limits in, a verdict out",
    ),
    Group("capture", 2, (5, 4), ("capture",), "functions in, a trace file out; the only one that knows torch"),
    Group(
        "recordings", 2, (9, 3), ("recordings", "artifacts"), "traces that are kept: recordings, those of failed tests"
    ),
    Group("ledger", 4, (3, 4), ("ledger", "trace_diff"), "ledgers and differences between traces"),
    Group("load", 4, (7, 5), ("load",), "a trace file in, the model out; the only one that knows the format"),
    Group(
        "model",
        5,
        (0, 12),
        ("model", "events", "eventset", "explain", "attribution", "sites", "hints", "matrix", "memory"),
        "events, sets, steps and traces, frozen; chains, lines of Python, hints",
    ),
    Group(
        "settings",
        6,
        (4, 3),
        ("options", "functions"),
        "ini, command line and marker as one frozen value; what is profiled",
    ),
    Group("names", 6, (0, 4), ("names", "occupancy"), "what a kernel's name says; theoretical occupancy"),
    Group(
        "ground",
        6,
        (7, 5),
        ("errors", "units", "files", "documents", "spread", "driver", "workers"),
        "errors, units, statistics, files, JSON schemas, NVIDIA's driver, xdist workers",
    ),
)

_WIDTH, _HEIGHT, _GAP, _ROW = 58, 54, 14, 96
_MARGIN = 16
_BASE = ("names", "settings", "ground")
"""Used by all above them: arrows to them would say nothing."""


def imports() -> dict[str, set[str]]:
    """Return, by group, the groups that it imports."""
    home = {module: group.name for group in GROUPS for module in group.modules}
    found: dict[str, set[str]] = {group.name: set() for group in GROUPS}
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own in ("__init__", "__main__"):
            continue
        layers = {layer_of(module) for module in imports_of(path)}
        found[home[own]] |= {home[layer] for layer in layers if layer in home} - {home[own]}
    return found


def imports_of(path: Path) -> Iterator[str]:
    """Yield the full name of every module that a file of the package imports, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                yield node.module or ""
            else:
                base = path.parent.relative_to(PACKAGE.parent).parts
                base = base[: len(base) - node.level + 1]
                names = [node.module] if node.module else [alias.name for alias in node.names]
                for name in names:
                    yield ".".join((*base, name))


def layer_of(module: str) -> str | None:
    """Return the top-level module or subpackage of ours that a full name is in."""
    parts = module.split(".")
    return parts[1] if parts[0] == "pytest_kernelprof" and len(parts) > 1 else None


def arrows() -> list[tuple[str, str]]:
    """Return the imports that the picture shows: those that no way over other groups implies."""
    found = imports()
    reach: dict[str, set[str]] = {}

    def below(name: str) -> set[str]:
        if name not in reach:
            reach[name] = set().union(*({other} | below(other) for other in found[name]))
        return reach[name]

    return [
        (group.name, other)
        for group in GROUPS
        for other in sorted(found[group.name] - set(_BASE))
        if not any(other in below(between) for between in found[group.name] - {other})
    ]


def picture() -> str:
    """Return the picture as SVG; readable on a light and on a dark page."""
    rows = 1 + max(group.row for group in GROUPS)
    width, height = 2 * _MARGIN + 12 * _WIDTH + 11 * _GAP, 2 * _MARGIN + (rows - 1) * _ROW + _HEIGHT
    boxes = {group.name: _box(group) for group in GROUPS}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        "<title>pytest-kernelprof: groups of modules and their imports</title>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6b7b"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    parts += [_arrow(boxes[one], boxes[other]) for one, other in arrows()]
    parts += [_drawn(group, boxes[group.name]) for group in GROUPS]
    return "\n".join([*parts, "</svg>", ""])


Box = tuple[int, int, int]
"""Left, top and width."""


def _box(group: Group) -> Box:
    first, number = group.column
    left = _MARGIN + first * (_WIDTH + _GAP)
    return left, _MARGIN + group.row * _ROW, number * _WIDTH + (number - 1) * _GAP


def _drawn(group: Group, box: Box) -> str:
    left, top, width = box
    shown = ", ".join(group.modules)
    most = width // 7
    if len(shown) > most:
        shown = shown[: shown.rindex(",", 0, most - 4)] + ", ..."
    middle = left + width // 2
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{_HEIGHT}" rx="6" fill="#eef3f8" stroke="#34495e"/>'
        f'<text x="{middle}" y="{top + 22}" text-anchor="middle" font-weight="bold" fill="#1b2733">{escape(group.name)}</text>'
        f'<text x="{middle}" y="{top + 41}" text-anchor="middle" font-size="11" fill="#3b4b5b">{escape(shown)}</text>'
    )


def _arrow(one: Box, other: Box) -> str:
    """Return an arrow from the lower edge of a box to the upper edge of another, or from side to side in a row."""
    if one[1] == other[1]:
        y = one[1] + _HEIGHT // 2
        start, end = (one[0] + one[2], other[0]) if one[0] < other[0] else (one[0], other[0] + other[2])
        return _line(start, y, end, y)
    low, high = max(one[0], other[0]), min(one[0] + one[2], other[0] + other[2])
    straight = (low + high) // 2
    if low < high:
        return _line(straight, one[1] + _HEIGHT, straight, other[1])
    return _line(one[0] + one[2] // 2, one[1] + _HEIGHT, other[0] + other[2] // 2, other[1])


def _line(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#5b6b7b" stroke-width="1.4" marker-end="url(#end)"/>'


def filled(page: str) -> str:
    """Return the page with its table of groups."""
    head, _, rest = page.partition("| --- | --- |\n")
    after = rest.partition("\n\n")[2]
    rows = [f"| {group.name} (`{'`, `'.join(group.modules)}`) | {group.does} |" for group in GROUPS]
    return f"{head}| --- | --- |\n" + "\n".join(rows) + f"\n\n{after}"


if __name__ == "__main__":
    PICTURE.write_text(picture())
    PAGE.write_text(filled(PAGE.read_text()))
