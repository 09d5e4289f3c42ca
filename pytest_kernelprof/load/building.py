"""A document to a `Trace`: who belongs to which step."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..events import FOREVER, MISSING, NO_ID, Call, Kernel, Memcpy, Memset, Op, Views
from ..eventset import EventSet, LaunchSet, Vocabulary
from ..model import Range, Step, Trace, TraceWarning
from ..units import counted
from .calls import LAUNCHES, CallKind, call_kind, is_host_sync
from .columns import Columns, Span
from .completeness import blind_threads, incomplete, step_reasons, summary, unknown_of, unobserved
from .environment import environment, processors
from .joining import Joined, join
from .nesting import Nest, nest
from .own import ANNOTATION_PREFIX, METADATA_KEY
from .reading import Document

if TYPE_CHECKING:
    from ..memory import Memory
    from .recording import Recording

WHOLE_FILE = "(whole file)"

Rows = Sequence[int]
"""Rows of a table."""


class _Calls(NamedTuple):
    """Rows of calls: all, those that start or copy or set anything, launches, and those that wait."""

    all: Rows = ()
    working: Rows = ()
    launching: Rows = ()
    waiting: Rows = ()


_NO_CALLS = _Calls()


class _Group:
    """The rows of one step, or of the whole file."""

    __slots__ = ("calls", "kernels", "memcpys", "memsets", "ops", "spans")

    def __init__(
        self,
        ops: Rows = (),
        calls: _Calls = _NO_CALLS,
        spans: Sequence[Span] = (),
        *,
        kernels: Rows = (),
        memcpys: Rows = (),
        memsets: Rows = (),
    ) -> None:
        self.ops = ops
        self.calls = calls
        self.spans = spans
        self.kernels = kernels
        self.memcpys = memcpys
        self.memsets = memsets


def build(document: Document) -> Trace:
    """Return the model of a trace file."""
    columns = document.columns
    recording = _recording(document)
    nested = nest(columns)
    windows, warnings = _windows(columns, nested, foreign=recording is None)
    joined = join(columns, nested, windows)
    where = environment(document, recording)
    joined.gpu["kernels"].processors = processors(document, where.vendor)
    regions = [span for span in columns.annotations if not span.name.startswith(ANNOTATION_PREFIX)]
    everything = _everything(nested, joined, regions)
    make = _StepMaker(document, nested, joined, windows, recording)
    groups = _Grouping(nested, joined, regions, windows, everything)
    names = [window.name for window in windows] or [WHOLE_FILE]
    steps = tuple(make.step(name, groups.step(index), index) for index, name in enumerate(names))
    totals = make.step("(total)", everything, None)
    return Trace(
        path=document.path,
        environment=where,
        steps=steps,
        totals=totals,
        outside_steps=make.step("(outside steps)", groups.outside(), None).launches,
        orphans=joined.orphans,
        region_counts=dict(Counter(span.name for span in regions)),
        unplaced_regions=make.unplaced_regions,
        incomplete=summary(totals, steps),
        warnings=(*warnings, *document.problems.warnings(), *_warnings(joined, totals)),
        no_gpu=recording.no_gpu if recording else None,
        allocated=recording.known_allocated() if recording else (),
        shared_gpu=recording.shared_gpu if recording else None,
    )


def _recording(document: Document) -> Recording | None:
    """Return the plugin's own note; a trace of others has none."""
    note = document.metadata.get(METADATA_KEY)
    if note is None:
        return None
    from .recording import Recording

    return Recording.of(note)


def _everything(nested: Nest, joined: Joined, regions: list[Span]) -> _Group:
    ops: Rows = range(len(nested.ops.names))
    calls: Rows = range(len(nested.calls.names))
    if nested.own_ops:
        ops = [row for row in ops if row not in nested.own_ops]
    if joined.own_calls:
        calls = [row for row in calls if row not in joined.own_calls]
    names, kinds = nested.calls.names, joined.kinds
    waits = set(filter(is_host_sync, joined.names))
    working = [row for row in calls if kinds[row] is not CallKind.OTHER]
    launching = [row for row in working if kinds[row] in LAUNCHES]
    waiting = [row for row in calls if names[row] in waits] if waits else []
    by_use = _Calls(calls, working, launching, waiting)
    return _Group(ops, by_use, regions, **joined.rows)


def _windows(columns: Columns, nested: Nest, *, foreign: bool) -> tuple[list[Span], list[TraceWarning]]:
    """Return the steps that count, by start; a foreign trace may end with one that holds nothing."""
    steps = sorted(columns.steps, key=lambda step: step.start_ns)
    if len(steps) > 1 and foreign and _is_empty(steps[-1], columns, nested):
        return steps[:-1], [TraceWarning("empty_last_step", f"{steps[-1].name} holds nothing and was dropped")]
    return steps, []


def _is_empty(step: Span, columns: Columns, nested: Nest) -> bool:
    if any(step.holds(span.start_ns) for span in columns.annotations) or _within(nested.ops.starts, step):
        return False
    names = nested.calls.names
    return not any(
        call_kind(names[row]) is not CallKind.OTHER or is_host_sync(names[row])
        for row in _within(nested.calls.starts, step)
    )


def _within(starts: array[int], step: Span) -> range:
    """Return the rows that start in a step, of a table that is in the order of starts."""
    return range(*_bounds(starts, (step.start_ns, step.end_ns)))


class _Grouping:
    """Finds the content of each step.

    A GPU event belongs to the step of its launch: the GPU runs late.
    """

    def __init__(
        self, nested: Nest, joined: Joined, regions: list[Span], windows: list[Span], everything: _Group
    ) -> None:
        self.nested = nested
        self.everything = everything
        self.windows = [(window.start_ns, window.end_ns) for window in windows]
        # A step that begins inside another takes over; nothing is in two.
        for position, (start, end) in enumerate(self.windows[:-1]):
            self.windows[position] = (start, min(end, self.windows[position + 1][0]))
        self.step_of_call = array("q", (NO_ID,)) * len(nested.calls.names)
        windows_or_all = self.windows or [(-FOREVER, FOREVER)]
        self.bounds = [_bounds(nested.calls.starts, window) for window in windows_or_all]
        for index, (first, last) in enumerate(self.bounds):
            self.step_of_call[first:last] = array("q", (index,)) * (last - first)
        self.gpu = {name: self._by_step(rows, joined.gpu[name].launches) for name, rows in joined.rows.items()}
        self.regions: dict[int, list[Span]] = {}
        starts = [start for start, _ in self.windows]
        for span in regions:
            index = bisect_right(starts, span.start_ns) - 1
            if index >= 0 and span.start_ns < self.windows[index][1]:
                self.regions.setdefault(index, []).append(span)

    def _by_step(self, rows: Rows, launches: array[int]) -> dict[int, Rows]:
        found: dict[int, Rows] = {}
        if isinstance(rows, range) and NO_ID not in launches:
            # All in the order of their launches: each step has a stretch of them.
            for index, (first, last) in enumerate(self.bounds):
                found[index] = range(bisect_left(launches, first), bisect_left(launches, last))
            return found
        by_step: dict[int, array[int]] = {}
        for row in rows:
            launch = launches[row]
            index = NO_ID if launch == NO_ID else self.step_of_call[launch]
            if index != NO_ID:
                by_step.setdefault(index, array("q")).append(row)
        found.update(by_step)
        return found

    def step(self, index: int) -> _Group:
        """Return the content of the step with this number; a file without steps is one."""
        gpu: dict[str, Rows] = {name: by_step.get(index, ()) for name, by_step in self.gpu.items()}
        everything = self.everything
        if not self.windows:
            return _Group(everything.ops, everything.calls, everything.spans, **gpu)
        window = self.windows[index]
        ops = _rows_within(everything.ops, self.nested.ops.starts, window)
        starts = self.nested.calls.starts
        calls = _Calls(*(_rows_within(rows, starts, window) for rows in everything.calls))
        return _Group(ops, calls, self.regions.get(index, ()), **gpu)

    def outside(self) -> _Group:
        """Return the calls that lie outside every step."""
        in_no_step = self.step_of_call
        if NO_ID not in in_no_step:
            return _Group()
        return _Group(
            calls=_Calls(*([row for row in rows if in_no_step[row] == NO_ID] for rows in self.everything.calls))
        )


def _rows_within(rows: Rows, starts: array[int], window: tuple[int, int]) -> Rows:
    first, last = _bounds(starts, window)
    if isinstance(rows, range):
        return range(first, last)
    return rows[bisect_left(rows, first) : bisect_left(rows, last)]


def _bounds(starts: array[int], window: tuple[int, int]) -> tuple[int, int]:
    """Return the first row that starts in a window, and the first one after it."""
    return bisect_left(starts, window[0]), bisect_left(starts, window[1])


class _StepMaker:
    """Makes the sets of a step, each with what is missing from it."""

    def __init__(
        self,
        document: Document,
        nested: Nest,
        joined: Joined,
        windows: list[Span],
        recording: Recording | None,
    ) -> None:
        columns = document.columns
        self.nested = nested
        self.joined = joined
        self.windows = windows
        self.recording_end_ns = columns.recording_end_ns
        self.unplaced_regions = frozenset(columns.unplaced_regions | _strayed(columns))
        self.home = {window.thread for window in windows}
        self.threads = list(columns.threads)
        self.recording = recording
        self.nothing = unobserved(document, joined, recording)
        self.of_file = incomplete(document, joined, recording)
        own = nested.own_ops
        names = nested.ops.names
        streams = {stream for name, rows in joined.rows.items() for stream in _streams(joined.gpu[name].streams, rows)}
        self.vocabulary = Vocabulary(
            frozenset(names[row] for row in range(len(names)) if row not in own) if own else frozenset(names),
            frozenset(span.name for span in columns.annotations if not span.name.startswith(ANNOTATION_PREFIX)),
            frozenset(streams),
            frozenset(columns.unplaced_ops | _strayed(columns)),
            self.unplaced_regions,
            frozenset(joined.gpu["kernels"].names),
        )

    def step(self, name: str, group: _Group, index: int | None) -> Step:
        """Return the step that holds *group*; *index* is that of its window, if it has one."""
        gpu, calls = self.joined.gpu, group.calls
        reasons = [self.of_file]
        unwatched = blind_threads(calls.all, self.nested, self.joined, self.home)
        if index is not None and self.windows:
            reasons.append(step_reasons(self.windows[index], self.recording_end_ns))
        elif self.joined.last_wait_untold:
            reasons.append({"host_syncs": ["an op that never ended may hold the profiler's own synchronisation"]})

        def options(noun: str, class_name: str) -> dict[str, Any]:
            unknown = unknown_of(class_name, self.nothing, reasons, unwatched, calls.all, self.joined)
            return {"noun": noun, "unknown": unknown, "vocabulary": self.vocabulary}

        def of_calls(rows: Rows) -> Views[Call]:
            return Views(Call, self.nested.calls, rows)

        window = self.windows[index] if index is not None and self.windows else None
        untimed = next((why for found in reasons for why in found.get("ops", ())), None)
        launching = options("launch", "launches")
        return Step(
            name=name,
            kernels=EventSet(Views(Kernel, gpu["kernels"], group.kernels), **options("kernel", "kernels")),
            memcpys=EventSet(Views(Memcpy, gpu["memcpys"], group.memcpys), **options("memory copy", "memcpys")),
            memsets=EventSet(Views(Memset, gpu["memsets"], group.memsets), **options("Memset", "memsets")),
            host_syncs=EventSet(of_calls(calls.waiting), **options("host sync", "host_syncs")),
            launches=LaunchSet(
                of_calls(calls.launching),
                all_calls=LaunchSet(of_calls(calls.working), **{**launching, "noun": "call"}),
                **launching,
            ),
            ops=EventSet(Views(Op, self.nested.ops, group.ops), **options("op", "ops")),
            ranges=tuple(map(self._range, group.spans)),
            timed=(self._range(window),) if window else (),
            untimed=untimed,
            memory=self._memory(index, untimed),
        )

    def _range(self, span: Span) -> Range:
        return Range(span.name, span.start_ns, span.end_ns, self.threads[span.thread])

    def _memory(self, index: int | None, untimed: str | None) -> Memory | None:
        return None if self.recording is None or index is None else self.recording.memory_of(index, untimed)


def _strayed(columns: Columns) -> set[str]:
    """Return the name that stands for any, if some rows do not say their thread and others do."""
    told = {NO_ID in thread for thread in columns.threads}
    return {""} if len(told) > 1 else set()


def _streams(streams: list[int | None], rows: Rows) -> set[int]:
    return {stream for row in rows if (stream := streams[row]) is not None}


def _warnings(joined: Joined, totals: Step) -> list[TraceWarning]:
    found = []
    if totals.ops.unknown.unwatched:
        found.append(TraceWarning("ops_not_recorded", f"ops not measured: {totals.ops.why_not_measured}"))
    if joined.orphans.leaked:
        found.append(
            TraceWarning(
                "leaked",
                f"{counted(len(joined.orphans.leaked), 'GPU event')} launched before the recording; in no step",
            )
        )
    timeless = sum(
        joined.gpu[name].durations[row] == MISSING
        for name, rows in joined.rows.items()
        if MISSING in joined.gpu[name].durations
        for row in rows
    )
    if timeless:
        found.append(TraceWarning("no_time", f"{counted(timeless, 'GPU event')} without a usable time"))
    if joined.conditional:
        told = "a CUDA graph with conditional nodes: of a loop in it, only the first round is in the trace"
        found.append(TraceWarning("conditional_graph", told))
    return found
