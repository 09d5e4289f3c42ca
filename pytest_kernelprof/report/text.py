"""Verdicts, profiles and traces as ASCII text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import NotMeasured
from ..events import Call, Event, GpuEvent, Kernel, Memcpy, Memset, Op, slowest_first
from ..matrix import MatrixTime, matrix_time_of
from ..model import CLASSES, Step, Trace
from ..names import brief, demangled, shorten
from ..units import counted, format_bytes, format_ns, format_share

if TYPE_CHECKING:
    from ..checks import Change, GuessRow, Verdict
    from ..memory import Allocated

ROW_LIMIT = 8
_HEADER_PADDING = 2
_NAME_WIDTH = 56
_DECODED_WIDTH = 44
_CHAIN_WIDTH = 72
_TEST_WIDTH = 64


def verdict_text(verdict: Verdict, *, verbose: bool = False) -> str:
    """Return headline and tables of a verdict.

    Args:
        verdict: A failure, or one that was not measured.
        verbose: Show every row instead of the eight worst.
    """
    parts = [verdict.headline]
    if verdict.rows:
        parts.append(guess_table(verdict.rows))
    if verdict.table:
        parts.append(plain_table(*verdict.table))
    if verdict.allocated:
        parts.append(_allocated_table(verdict.allocated, verbose=verbose))
    if verdict.evidence and verdict.view in _VIEWS:
        parts.append(_VIEWS[verdict.view](verdict.evidence, verbose))
    else:
        by_class: dict[type, list[Event]] = {}
        for event in verdict.evidence:
            by_class.setdefault(type(event), []).append(event)
        parts += [event_table(events, verbose=verbose) for events in by_class.values()]
    if verdict.changes:
        parts.append(change_table(verdict.changes, verbose=verbose))
    if verdict.remark:
        parts.append(verdict.remark)
    return "\n\n".join(parts)


def event_table(events: Sequence[Event], *, verbose: bool = False) -> str:
    """Return events as a table, worst first, the rest counted."""
    first = events[0]
    if isinstance(first, Op):
        grouped = Counter((event.name, _chain(event)) for event in events)
        rows = [[str(number), shorten(name, _NAME_WIDTH), chain] for (name, chain), number in grouped.items()]
        return _table(("calls", "op", "inside"), rows, verbose=verbose)
    ranked = slowest_first(events)
    return _table(_HEADERS[type(first)], [_row(event) for event in ranked], verbose=verbose)


def _decoded_table(kernels: Sequence[Event], verbose: bool) -> str:
    """Return kernels as a table with what their names say, slowest first."""
    rows = []
    for kernel in slowest_first(kernels):
        if isinstance(kernel, Kernel):
            name = kernel.decoded
            told = [name.role, ", ".join(name.dtypes) or "unknown", name.tensor_cores]
            time = "unknown" if kernel.duration_ns is None else format_ns(kernel.duration_ns)
            rows.append([shorten(brief(kernel.name), _DECODED_WIDTH), *told, time, _chain(kernel)])
    return _table(("kernel", "role", "dtypes", "tensor cores", "time", "launched by"), rows, verbose=verbose)


def _occupancy_table(kernels: Sequence[Event], verbose: bool) -> str:
    """Return kernels as a table with their theoretical occupancy, the lowest first, and what limits it."""

    def fraction(event: Event) -> float:
        occupancy = event.occupancy if isinstance(event, Kernel) else None
        return 2 if occupancy is None else occupancy.fraction

    rows = [_occupancy_row(kernel) for kernel in sorted(kernels, key=fraction) if isinstance(kernel, Kernel)]
    headers = ("kernel", "threads", "registers", "shared memory", "occupancy", "limited by", "reported", "launched by")
    return _table(headers, rows, verbose=verbose)


def _occupancy_row(kernel: Kernel) -> list[str]:
    occupancy, reported = kernel.occupancy, kernel.reported_occupancy
    return [
        shorten(brief(kernel.name), _DECODED_WIDTH),
        _known(math.prod(kernel.block) if kernel.block else None),
        _known(kernel.registers_per_thread),
        _size(kernel.shared_memory_bytes),
        "unknown" if occupancy is None else format_share(occupancy.fraction),
        "unknown" if occupancy is None else ", ".join(occupancy.limited_by),
        "none" if reported is None else format_share(reported),
        _chain(kernel),
    ]


def _allocated_table(allocated: Sequence[Allocated], *, verbose: bool) -> str:
    """Return who was given GPU memory, as a table."""
    rows = [[format_bytes(one.size_bytes), str(one.blocks), str(one.device), _ops(one.chain)] for one in allocated]
    return _table(("bytes", "blocks", "GPU", "allocated by"), rows, verbose=verbose)


def guess_table(rows: Sequence[GuessRow]) -> str:
    """Return a guess beside what was seen, line by line."""
    cells = []
    for row in rows:
        numbers = Counter(shorten(brief(event.name), _DECODED_WIDTH) for event in row.seen)
        kernels = ", ".join(f"{number} x {name}" if number > 1 else name for name, number in numbers.items())
        guessed = "-" if row.limit is None else row.limit.words()
        cells.append([row.role, guessed, str(len(row.seen)), "wrong" if row.wrong else "", kernels])
    return plain_table(("role", "guess", "seen", "", "which"), cells)


_VIEWS = {"names": _decoded_table, "occupancy": _occupancy_table}
"""How evidence is shown where plain events do not say enough; see `Verdict`."""


def _name(event: Event, width: int) -> str:
    return shorten(demangled(event.name), width)


_HEADERS: dict[type, tuple[str, ...]] = {
    Kernel: ("kernel", "time", "stream", "launched by"),
    Memcpy: ("kind", "bytes", "time", "launched by"),
    Memset: ("bytes", "time", "stream", "launched by"),
    Call: ("call", "time", "made by"),
}


def _row(event: Event) -> list[str]:
    time = "unknown" if event.duration_ns is None else format_ns(event.duration_ns)
    if isinstance(event, Kernel):
        return [_name(event, _NAME_WIDTH), time, _known(event.stream), _chain(event)]
    if isinstance(event, Memcpy):
        kind = event.kind or shorten(event.name, 24)
        return [kind + (" pageable" if event.pageable else ""), _size(event.size_bytes), time, _chain(event)]
    if isinstance(event, Memset):
        return [_size(event.size_bytes), time, _known(event.stream), _chain(event)]
    return [shorten(event.name, _NAME_WIDTH), time, _chain(event)]


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else format_bytes(size_bytes)


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def _chain(event: Event) -> str:
    """Return the ops around an event, outermost first; the middle of a long chain left out."""
    if isinstance(event, GpuEvent):
        if event.launch is None:
            return "(launch not recorded)"
        if "GraphLaunch" in event.launch.name:
            return f"({event.launch.name})"
    return _ops([op.name for op in event.chain])


def _ops(chain: Sequence[str]) -> str:
    names = [shorten(name, 48) for name in chain]
    text = " > ".join(names) or "(no op)"
    while len(text) > _CHAIN_WIDTH and len(names) > 3:
        names = [names[0], "...", *names[3 if names[1] == "..." else 2 :]]
        text = " > ".join(names)
    return text


def change_table(changes: Sequence[Change], *, verbose: bool = False) -> str:
    """Return what came and went between the steps."""
    rows = [
        [change.step, f"{change.number:+d}", _name(change.event, _NAME_WIDTH), _chain(change.event)]
        for change in changes
    ]
    return _table(("step", "change", "name", "launched by"), rows, verbose=verbose)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, verbose: bool) -> str:
    shown = rows if verbose else rows[:ROW_LIMIT]
    left = len(rows) - len(shown)
    table = plain_table(headers, shown)
    return f"{table}\n... and {left} more (-v shows all)" if left else table


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without lines; cells are text that is shown as it is.

    By hand, in the style of tabulate: importing that takes longer than reading a small trace.
    """
    lines = [headers, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(headers))]
    widths = [max(width, len(header) + _HEADER_PADDING) for width, header in zip(widths, headers, strict=True)]
    cells = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in cells)


def number(events: Any) -> str:
    """Return the size of a set of events, or that it was not measured."""
    return "not measured" if events.why_not_measured else str(len(events.seen))


def step_rows(steps: Sequence[Step]) -> list[list[str]]:
    """Return one row a step: name, counts and GPU time."""
    return [
        [
            step.name,
            number(step.kernels),
            number(step.memcpys),
            number(step.memsets),
            number(step.launches),
            number(step.host_syncs),
            number(step.ops),
            gpu_time(step),
        ]
        for step in steps
    ]


STEP_HEADERS = ("step", "kernels", "copies", "memsets", "launches", "syncs", "ops", "GPU time")


def gpu_time(step: Step) -> str:
    """Return the step's GPU time, or that it was not measured."""
    try:
        return format_ns(step.gpu_time_ns)
    except NotMeasured:
        return "not measured"


def profile_table(steps: Sequence[Step], *, verbose: bool = False) -> str:
    """Return steps as a table, and under it the GPU events of the first step."""
    parts = [plain_table(STEP_HEADERS, step_rows(steps))]
    first = steps[0]
    for name in ("kernels", "memcpys", "memsets", "host_syncs"):
        events = getattr(first, name)
        if events.seen:
            parts.append(event_table(events.seen, verbose=verbose))
    matrix = matrix_time_of(steps)
    if matrix is not None:
        parts.append(f"tensor cores: {tensor_core_words(matrix, len(steps))}")
    whys = dict.fromkeys(
        f"{name} not measured: {why}"
        for step in steps
        for name in CLASSES
        if (why := getattr(step, name).why_not_measured)
    )
    if whys:
        parts.append("\n".join(whys))
    return "\n\n".join(parts)


def tensor_core_words(time: MatrixTime, steps: int) -> str:
    """Return how much of the time of matrix kernels was on tensor cores, as a sentence's end."""
    words = time.words()
    if words == "none":
        return "no matrix kernel (gemm, convolution, attention)"
    if words == "unknown":
        return "unknown, since a kernel's name does not tell"
    number = counted(time.kernels, "matrix kernel")
    return f"{words} of matrix time ({number})" if steps == 1 else f"{words} of matrix time ({number} in {steps} steps)"


def trace_text(trace: Trace) -> str:
    """Return what ``kernelprof show`` prints of a trace."""
    where = trace.environment
    known = (
        ", ".join(where.devices),
        where.compute_capability and f"compute capability {where.compute_capability}",
        where.cuda and f"CUDA {where.cuda}",
        where.rocm and f"ROCm {where.rocm}",
        where.torch and f"torch {where.torch}",
        where.rank is not None and f"rank {where.rank}",
    )
    lines = [trace.path, ", ".join(part for part in known if part) or "recorded on an unknown machine"]
    lines += [f"warning: {warning.message}" for warning in trace.warnings]
    return "\n".join(lines) + "\n\n" + profile_table(trace.steps)


def summary_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table at the end of a run, one line a profile."""
    from tabulate import tabulate

    def shown(value: object) -> str:
        return "not measured" if value is None else str(value)

    cells = [
        [
            shorten(row["test"], _TEST_WIDTH) + ("" if row["profile"] == "1" else f" ({shorten(row['profile'], 16)})"),
            shown(row["kernels"]),
            shown(row["memcpys"]),
            shown(row["host_syncs"]),
            shown(row["ops"]),
            shown(row["tensor_cores"]),
            "not measured" if row["gpu_time_ns"] is None else format_ns(row["gpu_time_ns"]),
            f"replayed ({row['replayed']})" if row.get("replayed") else "",
        ]
        for row in rows
    ]
    headers = ["test", "kernels", "copies", "syncs", "ops", "tensor cores", "GPU time", "mark"]
    if not any(row.get("replayed") for row in rows):
        headers, cells = headers[:-1], [cell[:-1] for cell in cells]
    text = tabulate(cells, headers=headers, tablefmt="plain", disable_numparse=True)
    return "\n".join(line.rstrip() for line in text.splitlines())
