"""What ``kernelprof show`` prints of a trace: where it was made, its steps, and what took the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..events import Call, Event, GpuEvent, Kernel, Memcpy, slowest_first
from ..matrix import matrix_time_of
from ..model import Environment, Step, Trace
from ..names import ascii_only, brief
from ..units import counted, format_bytes, format_ns, format_share
from .layout import Chain, Look, Short
from .sections import Section, as_markdown, as_text, section
from .text import STEP_HEADERS, step_rows, tensor_core_words, unmeasured

BY = ("op", "kernel", "role", "stream", "region")
"""What ``--by`` may group by."""
_NO_OP, _NO_REGION, _UNKNOWN = "(no op)", "(no region)", "(unknown)"


class View(NamedTuple):
    """What is shown of a trace.

    Attributes:
        by: What GPU events are grouped by, of `BY`; ``None`` shows kernels, copies and host syncs.
        top: Rows of a table that are shown; ``None`` for all.
    """

    by: str | None = None
    top: int | None = 10


def show_text(trace: Trace, view: View, look: Look) -> str:
    """Return a trace as text."""
    return "\n\n".join(["\n".join(_heading(trace)), *(as_text(one, look.width) for one in _sections(trace, view))])


def show_markdown(trace: Trace, view: View) -> str:
    """Return a trace as Markdown."""
    file, where, *warnings = _heading(trace)
    parts = [Section(file, notes=[where]), *([Section("Warnings", notes=warnings)] if warnings else [])]
    return "\n\n".join([as_markdown(parts[0], 2), *map(as_markdown, [*parts[1:], *_sections(trace, view)])])


def _heading(trace: Trace) -> Iterator[str]:
    yield printable(trace.path)
    yield environment_words(trace.environment)
    yield from warnings_of(trace)


def warnings_of(trace: Trace) -> Iterator[str]:
    """Yield what a reader of the numbers should know, a line each."""
    yield from (f"warning: {ascii_only(warning.message)}" for warning in trace.warnings)
    outside = len(trace.outside_steps.all_calls.seen)
    if outside:
        yield f"warning: {counted(outside, 'call that launches, copies or sets')} outside every step; in no count"


def environment_words(where: Environment) -> str:
    """Return in one line where a trace was recorded."""
    known = (
        ", ".join(f"{number} x {name}" if number > 1 else name for name, number in Counter(where.devices).items()),
        where.compute_capability and f"compute capability {where.compute_capability}",
        where.cuda and f"CUDA {where.cuda}",
        where.rocm and f"ROCm {where.rocm}",
        where.torch and f"torch {where.torch}",
        where.rank is not None and f"rank {where.rank}",
    )
    return ascii_only(", ".join(part for part in known if part)) or "recorded on an unknown machine"


def printable(path: str) -> str:
    """Return a path as it is, but for what would move the cursor or colour the terminal."""
    return "".join(character if character.isprintable() else "?" for character in path)


def _sections(trace: Trace, view: View) -> Iterator[Section]:
    steps = trace.steps
    yield section("Steps", STEP_HEADERS, step_rows(steps), view.top)
    events: list[GpuEvent] = [event for step in steps for event in step.gpu_events]
    kernels = [event for event in events if isinstance(event, Kernel)]
    total_ns = _time(events)
    if view.by in (None, "kernel", "role"):
        if kernels:
            yield _by_role(kernels, total_ns, view) if view.by == "role" else _by_name(kernels, total_ns, view)
    elif events:
        yield _grouped(view.by or "", events, total_ns, view)
    if view.by is None:
        copies = [event for event in events if isinstance(event, Memcpy)]
        if copies:
            yield _copies(copies, view)
        syncs = [event for step in steps for event in step.host_syncs.seen]
        if syncs:
            yield _syncs(syncs, view)
        yield from _tensor_cores(steps)
    whys = unmeasured(steps)
    if whys:
        yield Section("Not measured", notes=whys)


def _time(events: Sequence[Event]) -> int:
    return sum(event.duration_ns or 0 for event in events)


def _time_cells(events: Sequence[Event], total_ns: int) -> list[str]:
    """Return the time of events and their share; unknown where no event of them has a time."""
    if all(event.duration_ns is None for event in events):
        return ["unknown", "unknown"]
    time = _time(events)
    return [format_ns(time), format_share(time / total_ns) if total_ns else "0%"]


Groups = dict[tuple[str, ...], list[GpuEvent]]


def _groups(events: Sequence[GpuEvent], keys: Callable[[GpuEvent], Sequence[tuple[str, ...]]]) -> Groups:
    """Return events by what *keys* tells of each, the groups that took most time first."""
    found: Groups = {}
    for event in events:
        for key in keys(event):
            found.setdefault(key, []).append(event)
    return dict(sorted(found.items(), key=lambda item: (-_time(item[1]), item[0])))


def _by_name(kernels: Sequence[Kernel], total_ns: int, view: View) -> Section:
    rows = []
    for (name,), events in _groups(kernels, lambda event: [(event.name,)]).items():
        first = events[0]
        assert isinstance(first, Kernel)
        told = [Short(ascii_only(brief(name))), first.decoded.role, first.decoded.tensor_cores, str(len(events))]
        rows.append([*told, *_time_cells(events, total_ns)])
    return section("Kernels", ("kernel", "role", "tensor cores", "count", "time", "share"), rows, view.top)


def _by_role(kernels: Sequence[Kernel], total_ns: int, view: View) -> Section:
    def key(event: GpuEvent) -> list[tuple[str, ...]]:
        assert isinstance(event, Kernel)
        return [(event.decoded.role, event.decoded.tensor_cores)]

    rows = [
        [*names, str(len(events)), *_time_cells(events, total_ns)] for names, events in _groups(kernels, key).items()
    ]
    return section("Roles", ("role", "tensor cores", "count", "time", "share"), rows, view.top)


def _by_op(event: GpuEvent) -> list[tuple[str, ...]]:
    return [(event.chain[0].name if event.chain else _NO_OP,)]


def _by_stream(event: GpuEvent) -> list[tuple[str, ...]]:
    return [tuple("unknown" if one is None else str(one) for one in (event.device, event.stream))]


def _by_region(event: GpuEvent) -> list[tuple[str, ...]]:
    """Return every region around the launch: an event counts in each."""
    if not event.regions_known:
        return [(_UNKNOWN,)]
    return [(name,) for name in dict.fromkeys(event.regions)] or [(_NO_REGION,)]


_GROUPINGS: dict[str, tuple[tuple[str, ...], Callable[[GpuEvent], list[tuple[str, ...]]]]] = {
    "op": (("op",), _by_op),
    "stream": (("GPU", "stream"), _by_stream),
    "region": (("region",), _by_region),
}


def _grouped(by: str, events: Sequence[GpuEvent], total_ns: int, view: View) -> Section:
    headers, key = _GROUPINGS[by]
    rows = []
    for names, group in _groups(events, key).items():
        kernels = sum(isinstance(event, Kernel) for event in group)
        copies = sum(isinstance(event, Memcpy) for event in group)
        counts = [str(kernels), str(copies), str(len(group) - kernels - copies)]
        rows.append([*(Short(ascii_only(name)) for name in names), *counts, *_time_cells(group, total_ns)])
    return section(f"By {by}", (*headers, "kernels", "copies", "memsets", "GPU time", "share"), rows, view.top)


def _copies(copies: Sequence[Memcpy], view: View) -> Section:
    groups: dict[tuple[str, str, tuple[str, ...]], list[Memcpy]] = {}
    for copy in slowest_first(copies):
        kind = (copy.kind or ascii_only(copy.name)) + (" pageable" if copy.pageable else "")
        size = "unknown" if copy.size_bytes is None else format_bytes(copy.size_bytes)
        groups.setdefault((kind, size, tuple(op.name for op in copy.chain)), []).append(copy)
    rows = [
        [kind, size, str(len(events)), _time_cells(events, 0)[0], _chain(chain)]
        for (kind, size, chain), events in groups.items()
    ]
    return section("Copies", ("kind", "bytes each", "count", "time", "launched by"), rows, view.top)


def _syncs(syncs: Sequence[Call], view: View) -> Section:
    groups: dict[tuple[str, tuple[str, ...]], list[Call]] = {}
    for call in syncs:
        groups.setdefault((call.name, tuple(op.name for op in call.chain)), []).append(call)
    ordered = sorted(groups.items(), key=lambda item: -_time(item[1]))
    rows = [
        [Short(ascii_only(name)), str(len(events)), _time_cells(events, 0)[0], _chain(chain)]
        for (name, chain), events in ordered
    ]
    return section("Host syncs", ("host sync", "count", "took", "made by"), rows, view.top)


def _chain(names: Sequence[str]) -> Chain:
    return Chain([ascii_only(name) for name in names] or [_NO_OP])


def _tensor_cores(steps: Sequence[Step]) -> Iterator[Section]:
    matrix = matrix_time_of(steps)
    if matrix is not None:
        yield Section("Tensor cores", notes=[f"tensor cores: {tensor_core_words(matrix, len(steps))}"])
