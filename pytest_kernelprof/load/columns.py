"""The rows of a file by what they are, as columns. No meaning beyond that."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ..events import D, Fill, Shape, Thread, Transfer

V = TypeVar("V", "array[int]", "list[Any]")


class Span:
    """One row with a place in time.

    Attributes:
        name: Its name.
        start_ns: In nanoseconds.
        end_ns: In nanoseconds; `FOREVER` if it never ended.
        thread: Number of its thread.
    """

    __slots__ = ("end_ns", "name", "start_ns", "thread")

    def __init__(self, name: str, start_ns: int, end_ns: int, thread: int) -> None:
        """Place a row."""
        self.name = name
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.thread = thread

    def holds(self, now_ns: int) -> bool:
        """Return whether a moment lies in the row; one that never ended holds all that follows."""
        return self.start_ns <= now_ns < self.end_ns


def in_order(values: V, order: Sequence[int] | None) -> V:
    """Return a column in another order of rows; ``None`` leaves it as it is."""
    if order is None:
        return values
    chosen = map(values.__getitem__, order)
    return array(values.typecode, chosen) if isinstance(values, array) else list(chosen)


class CpuColumns:
    """Ops or calls, in the order of the file.

    Attributes:
        names: Names.
        starts: In nanoseconds.
        durations: In nanoseconds; `MISSING` where there is none.
        threads: Numbers of threads.
        external_ids: `NO_ID` where there is none.
        ids: Sequence numbers of ops, correlation ids of calls; `NO_ID` where there is none.
    """

    def __init__(self) -> None:
        """Make empty columns."""
        self.names: list[str] = []
        self.starts = array("q")
        self.durations = array("q")
        self.threads = array("I")
        self.external_ids = array("q")
        self.ids = array("q")


class GpuColumns(Generic[D]):
    """GPU events of one class, in the order of the file: the columns of a `GpuTable`, and external ids."""

    def __init__(self) -> None:
        """Make empty columns."""
        self.names: list[str] = []
        self.starts = array("q")
        self.durations = array("q")
        self.devices: list[int | None] = []
        self.streams: list[int | None] = []
        self.correlation_ids = array("q")
        self.external_ids = array("q")
        self.details: list[D] = []


class Columns:
    """The rows of a file by kind.

    Attributes:
        ops: Operators.
        calls: Runtime and driver calls.
        zero_bytes: Correlation id and start of copies and sets of which the trace says: zero bytes.
        kernels: Kernels.
        memcpys: Copies.
        memsets: Memsets.
        annotations: ``record_function`` ranges that are no steps.
        steps: ``ProfilerStep#N`` windows.
        recording_end_ns: End of the recording where the file tells.
        unknown_device_rows: Categories that look like work of a device nobody here knows.
        legacy: The rows are those of the autograd profiler without Kineto.
        bad_steps: Rows of steps without a usable start, or of a phase that nobody here knows.
        bad_ops: Such rows of ops.
        bad_calls: Such rows of calls, and rows of GPU events of such a phase.
        bad_call_ids: Correlation ids of such calls: their GPU events are no orphans of before.
        unplaced_ops: Ops without a usable start or end.
        unplaced_regions: Regions without one.
        threads: Process and thread id of every thread above, each with its number.
    """

    def __init__(self) -> None:
        """Make empty columns."""
        self.ops = CpuColumns()
        self.calls = CpuColumns()
        self.zero_bytes: set[tuple[int, int]] = set()
        self.kernels = GpuColumns[Shape]()
        self.memcpys = GpuColumns[Transfer]()
        self.memsets = GpuColumns[Fill]()
        self.annotations: list[Span] = []
        self.steps: list[Span] = []
        self.threads: dict[Thread, int] = {}
        self.recording_end_ns: int | None = None
        self.unknown_device_rows: set[str] = set()
        self.legacy = False
        self.bad_steps = 0
        self.bad_ops = 0
        self.bad_calls = 0
        self.bad_call_ids: set[int] = set()
        self.unplaced_ops: set[str] = set()
        self.unplaced_regions: set[str] = set()
