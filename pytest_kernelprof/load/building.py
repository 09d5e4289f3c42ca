"""Rows to a `Trace`: who belongs to which step."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..events import Call, Kernel, Memcpy, Memset, Op
from ..eventset import EventSet, LaunchSet, Vocabulary
from ..model import Step, Trace, TraceWarning
from ..units import counted
from .calls import LAUNCHES, CallKind, call_kind, is_host_sync
from .completeness import blind_threads, incomplete, step_reasons, summary, unknown_of, unobserved
from .environment import environment
from .gpu_rows import GpuWork
from .joining import Joined, join
from .nesting import Nest, nest
from .own import ANNOTATION_PREFIX
from .reading import Document, integer
from .recording import Recording
from .sorting import FOREVER, Sorted, Span, sort_rows

WHOLE_FILE = "(whole file)"


@dataclass(slots=True)
class _Group:
    """The raw content of one step."""

    ops: list[Op] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    events: list[GpuWork] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)


def build(document: Document) -> Trace:
    """Return the model of a decoded trace file."""
    rows = sort_rows(document.traceEvents)
    recording = Recording.of(document.pytest_kernelprof)
    nested = nest(rows, _external_ids(rows))
    windows, warnings = _windows(rows, foreign=recording is None)
    joined = join(rows, nested, windows)
    regions = [span for span in rows.annotations if not span.name.startswith(ANNOTATION_PREFIX)]
    everything = _Group(nested.ops, joined.calls, joined.events, [span.name for span in regions])
    make = _StepMaker(rows, nested, joined, windows, recording, frozenset(everything.regions))
    groups = _grouped(nested, joined, regions, _step_finder(windows))
    names = [window.name for window in windows] or [WHOLE_FILE]
    steps = tuple(make.step(name, groups[index], index) for index, name in enumerate(names))
    totals = make.step("(total)", everything, None)
    return Trace(
        path=document.path,
        environment=environment(document, recording),
        steps=steps,
        totals=totals,
        outside_steps=make.step("(outside steps)", groups[None], None).launches,
        orphans=joined.orphans,
        region_counts=dict(Counter(everything.regions)),
        incomplete=summary(totals, steps),
        warnings=(*warnings, *_warnings(joined)),
        no_gpu=recording.no_gpu if recording else None,
    )


def _external_ids(rows: Sorted) -> dict[int, int]:
    return {
        correlation: external
        for _, row in rows.gpu
        if row.args
        and (correlation := integer(row.args.correlation)) is not None
        and (external := integer(row.args.external_id)) is not None
    }


def _windows(rows: Sorted, *, foreign: bool) -> tuple[list[Span], list[TraceWarning]]:
    """Return the steps that count; a foreign trace may end with one that holds nothing."""
    steps = rows.steps
    if len(steps) > 1 and foreign and _is_empty(steps[-1], rows):
        return steps[:-1], [TraceWarning("empty_last_step", f"{steps[-1].name} holds nothing and was dropped")]
    return steps, []


def _is_empty(step: Span, rows: Sorted) -> bool:
    if any(step.holds(span.start_ns) for kind in (rows.ops, rows.annotations) for span in kind):
        return False
    return not any(
        step.holds(span.start_ns) and (call_kind(span.name) is not CallKind.OTHER or is_host_sync(span.name))
        for span in rows.calls
    )


def _step_finder(windows: list[Span]) -> Callable[[int], int | None]:
    if not windows:
        return lambda _: 0
    starts = [window.start_ns for window in windows]
    ends = [FOREVER if window.end_ns is None else window.end_ns for window in windows]

    def find(now_ns: int) -> int | None:
        position = bisect_right(starts, now_ns) - 1
        return position if position >= 0 and now_ns < ends[position] else None

    return find


def _grouped(
    nested: Nest, joined: Joined, regions: list[Span], step_of: Callable[[int], int | None]
) -> dict[int | None, _Group]:
    """Return the content of each step by its index, and under ``None`` what lies outside.

    A GPU event belongs to the step of its launch: the GPU runs late.
    """
    groups: dict[int | None, _Group] = defaultdict(_Group)
    for op in nested.ops:
        groups[step_of(op.start_ns)].ops.append(op)
    for call in joined.calls:
        groups[step_of(call.start_ns)].calls.append(call)
    for event in joined.events:
        if event.launch:
            groups[step_of(event.launch.start_ns)].events.append(event)
    for region in regions:
        groups[step_of(region.start_ns)].regions.append(region.name)
    return groups


class _StepMaker:
    """Makes the sets of a step, each with what is missing from it."""

    def __init__(
        self,
        rows: Sorted,
        nested: Nest,
        joined: Joined,
        windows: list[Span],
        recording: Recording | None,
        regions: frozenset[str],
    ) -> None:
        self.rows = rows
        self.nested = nested
        self.joined = joined
        self.windows = windows
        self.home = {window.thread for window in windows}
        self.nothing = unobserved(rows, joined, recording)
        self.of_file = incomplete(rows, joined, recording)
        self.vocabulary = Vocabulary(
            frozenset(op.name for op in nested.ops),
            regions,
            frozenset(event.stream for event in joined.events if event.stream is not None),
            frozenset(rows.unplaced_ops),
            frozenset(rows.unplaced_regions),
        )

    def step(self, name: str, group: _Group, index: int | None) -> Step:
        """Return the step that holds *group*; *index* is that of its window, if it has one."""
        calls, kinds = group.calls, self.joined.kinds
        reasons = [self.of_file, blind_threads(calls, self.nested, self.joined, self.home)]
        if index is not None and self.windows:
            reasons.append(step_reasons(self.windows[index], self.rows.recording_end_ns))

        def options(noun: str, class_name: str) -> dict[str, Any]:
            unknown = unknown_of(class_name, self.nothing, reasons, calls, self.joined)
            return {"noun": noun, "unknown": unknown, "vocabulary": self.vocabulary}

        launching = options("launch", "launches")
        all_calls = LaunchSet([c for c in calls if kinds[c] is not CallKind.OTHER], **{**launching, "noun": "call"})
        return Step(
            name=name,
            kernels=EventSet((e for e in group.events if isinstance(e, Kernel)), **options("kernel", "kernels")),
            memcpys=EventSet((e for e in group.events if isinstance(e, Memcpy)), **options("memory copy", "memcpys")),
            memsets=EventSet((e for e in group.events if isinstance(e, Memset)), **options("Memset", "memsets")),
            host_syncs=EventSet((c for c in calls if is_host_sync(c.name)), **options("host sync", "host_syncs")),
            launches=LaunchSet([c for c in calls if kinds[c] in LAUNCHES], all_calls=all_calls, **launching),
            ops=EventSet(group.ops, **options("op", "ops")),
            regions=tuple(group.regions),
        )


def _warnings(joined: Joined) -> list[TraceWarning]:
    found = []
    if joined.orphans.leaked:
        found.append(
            TraceWarning(
                "leaked",
                f"{counted(len(joined.orphans.leaked), 'GPU event')} launched before the recording; in no step",
            )
        )
    timeless = sum(event.duration_ns is None for event in joined.events)
    if timeless:
        found.append(TraceWarning("no_time", f"{counted(timeless, 'GPU event')} without a usable time"))
    return found
