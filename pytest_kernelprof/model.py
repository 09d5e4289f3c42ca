"""A trace, read and joined: steps, orphans, environment. Everything is immutable."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import NotMeasured, SelectorError
from .events import FOREVER, Call, GpuEvent, Kernel, Memcpy, Memset, Op, Thread
from .eventset import EventSet, LaunchSet, Selection
from .names import glob

if TYPE_CHECKING:
    from .memory import Allocated, Memory


class Orphans(NamedTuple):
    """GPU events whose launch is not in the recording.

    Attributes:
        leaked: Launched before the recording, since they ran before anything that it launched.
        late: All others: they mean that launches are missing.
    """

    leaked: tuple[GpuEvent, ...] = ()
    late: tuple[GpuEvent, ...] = ()


class Range:
    """A ``record_function`` range, or a step.

    Attributes:
        name: Its name.
        start_ns: Start, in nanoseconds.
        end_ns: End, in nanoseconds; `FOREVER` if it never ended.
        thread: Where it was opened.
    """

    __slots__ = ("end_ns", "name", "start_ns", "thread")

    def __init__(self, name: str, start_ns: int, end_ns: int, thread: Thread) -> None:
        """Place a range."""
        self.name = name
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.thread = thread


class Step(NamedTuple):
    """What one call of the profiled function did, or one ``ProfilerStep#N`` of a trace.

    Attributes:
        name: The step's annotation, or ``(whole file)``.
        kernels: Kernels launched in the step.
        memcpys: Copies launched in the step.
        memsets: Memsets launched in the step.
        host_syncs: Calls that made the CPU wait.
        launches: Kernel and graph launches.
        ops: Operators.
        ranges: The regions opened in the step.
        timed: What the CPU time is taken of: the step, or the regions that it was narrowed to.
        untimed: Why neither CPU time nor memory are known, such as of a step that was cut.
        memory: What the allocators did; ``None`` where the trace tells nothing of it.
    """

    name: str
    kernels: EventSet[Kernel]
    memcpys: EventSet[Memcpy]
    memsets: EventSet[Memset]
    host_syncs: EventSet[Call]
    launches: LaunchSet
    ops: EventSet[Op]
    ranges: tuple[Range, ...] = ()
    timed: tuple[Range, ...] = ()
    untimed: str | None = None
    memory: Memory | None = None

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions opened in the step, one entry an opening."""
        return tuple(one.name for one in self.ranges)

    @property
    def complete(self) -> bool:
        """Whether the recording holds everything about the step that it was to hold."""
        return not any(lacks_something(getattr(self, name)) for name in CLASSES)

    @property
    def gpu_events(self) -> list[Kernel | Memcpy | Memset]:
        """Kernels, copies and memsets together, complete or not."""
        return [*self.kernels.seen, *self.memcpys.seen, *self.memsets.seen]

    @property
    def gpu_time_ns(self) -> int:
        """The sum of the durations of kernels, copies and memsets, in nanoseconds."""
        __tracebackhide__ = True
        return self.kernels.duration_ns + self.memcpys.duration_ns + self.memsets.duration_ns

    @property
    def gpu_busy_ns(self) -> int:
        """The time in which at least one of them ran, in nanoseconds."""
        __tracebackhide__ = True
        _ = self.gpu_time_ns  # Raises what has to be raised.
        spans: list[tuple[int, int]] = []
        for event in self.gpu_events:
            if event.start_ns is None:
                raise NotMeasured(f"busy time not measured: {event.name} has no start in the trace")
            spans.append((event.start_ns, event.start_ns + (event.duration_ns or 0)))
        return union_length(spans)

    @property
    def why_no_cpu_time(self) -> str | None:
        """Why the trace does not tell `cpu_time_ns`; ``None`` if it does."""
        if self.untimed:
            return self.untimed
        if not self.timed:
            return "the trace marks neither steps nor the region asked for"
        open_end = next((one.name for one in self.timed if one.end_ns == FOREVER), None)
        return None if open_end is None else f"the trace does not tell when {open_end} ended"

    @property
    def cpu_time_ns(self) -> int:
        """Wall-clock time that the call took on the CPU, in nanoseconds, or that its regions took.

        It ends when the call returns: the GPU may still be at work. The profiler's own cost, about
        a microsecond an op, is in it. Ranges of one thread that overlap count once.

        Raises:
            NotMeasured: The trace does not tell.
        """
        __tracebackhide__ = True
        if self.why_no_cpu_time:
            raise NotMeasured(f"CPU time not measured: {self.why_no_cpu_time}")
        spans: dict[Thread, list[tuple[int, int]]] = {}
        for one in self.timed:
            spans.setdefault(one.thread, []).append((one.start_ns, one.end_ns))
        return sum(map(union_length, spans.values()))

    @property
    def why_no_memory(self) -> str | None:
        """Why the trace does not tell what the allocators did; ``None`` if it does."""
        if self.memory is None:
            return "the trace holds no allocator statistics; only recordings of this plugin do"
        return self.memory.why_not_measured

    def select(self, selection: Selection) -> Step:
        """Return the step narrowed to what *selection* asks for."""
        __tracebackhide__ = True
        chosen: dict[str, Any] = {name: getattr(self, name).select(selection) for name in CLASSES}
        narrowed = self._replace(**chosen)
        return narrowed if selection.region is None else narrowed.timed_in(selection)

    def timed_in(self, selection: Selection) -> Step:
        """Return the step with CPU time narrowed to a region; what opens inside it on its thread stays.

        Raises:
            SelectorError: The region does not occur at all, and the selection does not allow that.
        """
        __tracebackhide__ = True
        self.ops.select(selection)
        inside = tuple(one for one in self.ranges if glob(selection.region or "*", one.name))
        return self._replace(
            timed=inside, ranges=_within(self.ranges, inside), memory=self.memory and self.memory.of_a_region()
        )


def _within(ranges: Sequence[Range], outer: Sequence[Range]) -> tuple[Range, ...]:
    """Return the ranges that lie in one of *outer* on the same thread."""
    starts: dict[Thread, list[int]] = {}
    reaches: dict[Thread, list[int]] = {}
    for one in sorted(outer, key=lambda one: one.start_ns):
        reach = reaches.setdefault(one.thread, [])
        starts.setdefault(one.thread, []).append(one.start_ns)
        reach.append(max(one.end_ns, reach[-1] if reach else one.end_ns))

    def is_inside(one: Range) -> bool:
        begun = bisect_right(starts.get(one.thread, ()), one.start_ns)
        return begun > 0 and one.end_ns <= reaches[one.thread][begun - 1]

    return tuple(one for one in ranges if is_inside(one))


def steps_named(steps: Sequence[Step], pattern: str) -> tuple[Step, ...]:
    """Return the steps whose names match the glob *pattern*; a number is that of a step.

    Raises:
        SelectorError: There is none.
    """
    wanted = f"*#{pattern}" if pattern.isdecimal() else pattern
    chosen = tuple(step for step in steps if glob(wanted, step.name))
    if not chosen:
        names = ", ".join(step.name for step in steps[:_MOST_NAMES]) + (", ..." if len(steps) > _MOST_NAMES else "")
        raise SelectorError(f"no step {pattern!r}; there are: {names}")
    return chosen


_MOST_NAMES = 8
CLASSES = ("kernels", "memcpys", "memsets", "host_syncs", "launches", "ops")
"""The classes of events that are counted and compared apart."""
GPU_CLASSES = CLASSES[:4]
"""Those of what a GPU did, and of what waited for it."""


def lacks_something(events: EventSet[Any]) -> bool:
    """Return whether a recording lost events of a set; ops of threads that nobody watched are not lost."""
    return events.why_not_measured is not None and not events.unknown.unwatched


def union_length(spans: Iterable[tuple[int, int]]) -> int:
    """Return the total length that the *spans* (start, end) cover, overlaps counted once."""
    total = 0
    reached: int | None = None
    for start, end in sorted(spans):
        if reached is None or start > reached:
            reached = start
        if end > reached:
            total += end - reached
            reached = end
    return total


class Environment(NamedTuple):
    """Where a trace was recorded; ``None`` where it does not tell.

    Attributes:
        vendor: ``nvidia``, ``amd``, ``intel``.
        devices: Names of the GPUs.
        compute_capability: Such as ``9.0``.
        arch: What the GPU runs, such as ``sm90`` or ``gfx942``.
        driver: Version of the CUDA driver interface.
        cuda: Version of the CUDA runtime.
        rocm: Version of ROCm.
        torch: Version of torch.
        cudnn: Version of cuDNN.
        python: Version of Python.
        rank: Rank in a distributed job.
    """

    vendor: str | None = None
    devices: tuple[str, ...] = ()
    compute_capability: str | None = None
    arch: str | None = None
    driver: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    torch: str | None = None
    cudnn: str | None = None
    python: str | None = None
    rank: int | None = None


class TraceWarning(NamedTuple):
    """Something that a reader of the numbers should know.

    Attributes:
        code: A short stable word.
        message: One sentence.
    """

    code: str
    message: str


class Trace(NamedTuple):
    """A trace file, read and joined.

    Attributes:
        path: The file.
        environment: Where it was recorded.
        steps: Its steps; a file without any has one, named ``(whole file)``.
        totals: Everything in the file, orphans and launches outside the steps included.
        outside_steps: Launches outside every step.
        orphans: GPU events without their launch.
        region_counts: How often each region was opened, in order of appearance.
        unplaced_regions: Regions of which some lack a start, an end or a thread; an empty name is any.
        incomplete: What the recording lost, class by class.
        warnings: What else is worth knowing.
        no_gpu: In a recording of this plugin: why it watched no GPU, ``None`` if it did.
        allocated: In a recording of this plugin: who was given how much GPU memory by the last call of the warm-up.
        shared_gpu: In a recording of this plugin: who else used the GPU, ``None`` if nobody is known to have.
    """

    path: str
    environment: Environment
    steps: tuple[Step, ...]
    totals: Step
    outside_steps: LaunchSet
    orphans: Orphans
    region_counts: dict[str, int]
    unplaced_regions: frozenset[str] = frozenset()
    incomplete: tuple[str, ...] = ()
    warnings: tuple[TraceWarning, ...] = ()
    no_gpu: str | None = None
    allocated: tuple[Allocated, ...] = ()
    shared_gpu: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the recording lost nothing; ops that nobody watched are a warning."""
        return not self.incomplete
