"""Rows by what they are, as columns: ops, annotations, steps, calls, GPU events. No meaning beyond that."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic

from ..events import FOREVER, MISSING, NO_ID, D, Fill, Shape, Thread, Transfer
from .calls import MOVING, call_kind
from .copies import copy_kind, pageable
from .numbers import exact_ns, integer, is_missing, nanoseconds, number, split_integers, triple
from .own import STEP_PREFIX
from .problems import BAD_VALUE, Problems
from .rows import NO_ARGS, Row

_STEP = re.compile(re.escape(STEP_PREFIX) + r"\d+$")
_OP, _ANNOTATION, _CALL, _TRACE, _IGNORED, _UNKNOWN = "op", "annotation", "call", "trace", "ignored", "unknown"
_GPU_KINDS = ("kernel", "memcpy", "memset")
_KINDS: dict[str | None, str] = {
    **dict.fromkeys(("cpu_op", "operator"), _OP),
    "user_annotation": _ANNOTATION,
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver"), _CALL),
    "kernel": "kernel",
    **dict.fromkeys(("gpu_memcpy", "memcpy"), "memcpy"),
    **dict.fromkeys(("gpu_memset", "memset"), "memset"),
    "trace": _TRACE,
    # Rows that say nothing about what was launched: they repeat, describe or decorate.
    **dict.fromkeys(("gpu_user_annotation", "python_function", "overhead", "cuda_sync"), _IGNORED),
    **dict.fromkeys(("ac2g", "async_cpu_to_gpu", "fwdbwd", "forward_backward", "cpu_instant_event"), _IGNORED),
    **dict.fromkeys(("cuda_profiler_range", "cpu_to_cuda", "python"), _IGNORED),
}
"""Categories in lower case: releases before 1.12 wrote ``Operator``, ``Kernel``, ``Runtime``."""

_ACCELERATORS = re.compile(r"(hpu|mtia|glow|privateuse1|npu|mlu|musa|tpu|async_npu)", re.IGNORECASE)
"""Categories of devices that nobody here can count, whatever their rows hold."""

_LEGACY_CPU, _LEGACY_GPU = "CPU functions", "CUDA functions"
"""Process names of the autograd profiler without Kineto, whose rows have no category."""


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


class _Partition(dict["str | None", list[Row]]):
    """Category to the batch of rows of its kind; kinds that have several categories keep their order."""

    def __init__(self) -> None:
        self.batches: dict[str, list[Row]] = {}

    def __missing__(self, category: str | None) -> list[Row]:
        batch = self[category] = self.batches.setdefault(_kind(category), [])
        return batch


class _Threads(dict["int | str", int]):
    """Thread id to the number of the thread, in one process; a new one gets the next number."""

    def __init__(self, process: int | str, known: dict[Thread, int]) -> None:
        self._process = process
        self._known = known

    def __missing__(self, thread: int | str) -> int:
        number = self[thread] = self._known.setdefault((self._process, thread), len(self._known))
        return number


class _Placed:
    """Rows of one kind that have a name and a start. `durations` are `MISSING` where there is none."""

    __slots__ = ("batch", "durations", "names", "starts", "unique")

    def __init__(
        self, batch: list[Row], names: list[Any], unique: set[Any], starts: list[int], durations: list[int]
    ) -> None:
        self.batch = batch
        self.names = names
        self.unique = unique
        self.starts = starts
        self.durations = durations

    def add(self, row: Row, name: str, start: int, duration: int) -> None:
        self.batch.append(row)
        self.names.append(name)
        self.unique.add(name)
        self.starts.append(start)
        self.durations.append(duration)

    @property
    def columns(self) -> tuple[list[Any], list[int], list[int]]:
        return self.names, self.starts, self.durations


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
        zero_bytes: Correlation ids of copies and sets of which the trace says: zero bytes.
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
        integers: Reads many integers at once.
        threads: Process and thread id of every thread above, each with its number.
    """

    def __init__(self, problems: Problems) -> None:
        """Make empty columns; *problems* collects the values that cannot be read."""
        self.ops = CpuColumns()
        self.calls = CpuColumns()
        self.zero_bytes: set[int] = set()
        self.kernels = GpuColumns[Shape]()
        self.memcpys = GpuColumns[Transfer]()
        self.memsets = GpuColumns[Fill]()
        self.annotations: list[Span] = []
        self.steps: list[Span] = []
        self.recording_end_ns: int | None = None
        self.unknown_device_rows: set[str] = set()
        self.legacy = False
        self.bad_steps = 0
        self.bad_ops = 0
        self.bad_calls = 0
        self.bad_call_ids: set[int] = set()
        self.unplaced_ops: set[str] = set()
        self.unplaced_regions: set[str] = set()
        self.integers = split_integers
        self._processes: dict[int | str, _Threads] = {}
        self._problems = problems
        self._names: dict[str, str] = {}
        self.threads: dict[Thread, int] = {}
        self._shapes: dict[Any, Shape] = {}
        self._rows: Sequence[Row] = ()
        self._numbers: Sequence[int] = ()
        self._root = ""
        self._adders: dict[str, Callable[[list[Row]], None]] = {
            _OP: self._add_ops,
            _ANNOTATION: self._add_annotations,
            _CALL: self._add_calls,
            _TRACE: self._add_trace,
            _UNKNOWN: self._add_unknown,
            "kernel": self._add_kernels,
            "memcpy": self._add_memcpys,
            "memset": self._add_memsets,
        }

    def add(self, rows: Sequence[Row], numbers: Sequence[int], root: str) -> None:
        """Take rows of the list of events.

        Args:
            rows: The rows.
            numbers: The number of each in the list.
            root: JSON path of the list.
        """
        self._rows, self._numbers, self._root = rows, numbers, root
        partition = _Partition()
        for row in rows:
            partition[row.cat].append(row)
        for kind, batch in partition.batches.items():
            if kind is _IGNORED:
                continue
            complete = [row for row in batch if row.ph == "X"]
            if len(complete) < len(batch):
                # Durations may also be written as pairs of begin and end; torch.profiler never did.
                for row in batch:
                    if row.ph in ("B", "E", None):
                        self._add_unreadable(kind, row)
            if complete:
                self._adders[kind](complete)
        self._rows = ()

    # The rows of one kind

    def _add_ops(self, batch: list[Row]) -> None:
        self._add_cpu(self.ops, _OP, batch)

    def _add_calls(self, batch: list[Row]) -> None:
        args = self._add_cpu(self.calls, _CALL, batch)
        if not any(call_kind(name) in MOVING for name in {row.name for row in batch if row.name}):
            return
        nothing = [one for one in args if one.bytes in (0, "0") or one.size in (0, "0")]
        self.zero_bytes.update(value for one in nothing if (value := integer(one.correlation)) is not None)

    def _add_cpu(self, columns: CpuColumns, kind: str, batch: list[Row]) -> list[Any]:
        placed = self._placed(batch, kind)
        batch, names = placed.batch, placed.names
        if kind is _OP and any(map(_is_step, placed.unique)):
            return self._add_steps_and_ops(batch)
        args = [row.args for row in batch]
        columns.names += names
        # Making an array and adding it takes half as long as adding a list.
        columns.starts.extend(array("q", placed.starts))
        columns.durations.extend(array("q", placed.durations))
        columns.threads.extend(self._threads_of(batch))
        columns.external_ids.extend(self._external_ids(batch, args))
        if kind is _OP:
            ids = self._ids([one.sequence_number for one in args], batch, "Sequence number")
        else:
            ids = self._ids([one.correlation for one in args], batch, "correlation")
        columns.ids.extend(ids)
        return args

    def _add_steps_and_ops(self, batch: list[Row]) -> list[Any]:
        """Before 1.12 steps were operators."""
        steps = [row for row in batch if _is_step(row.name or "")]
        self._add_annotations(steps)
        return self._add_cpu(self.ops, _OP, [row for row in batch if not _is_step(row.name or "")])

    def _add_annotations(self, batch: list[Row]) -> None:
        placed = self._placed(batch, _ANNOTATION)
        threads = self._threads_of(placed.batch)
        for name, start, duration, thread in zip(*placed.columns, threads, strict=True):
            end = FOREVER if duration == MISSING else start + duration
            span = Span(name, start, end, thread)
            if _is_step(span.name):
                self.steps.append(span)
            else:
                self.annotations.append(span)
                if end == FOREVER:
                    self.unplaced_regions.add(span.name)

    def _add_kernels(self, batch: list[Row]) -> None:
        args = self._add_gpu(self.kernels, batch)
        keys = [
            (a.grid, a.block, a.registers_per_thread, a.shared_memory, a.achieved_occupancy, a.theoretical_occupancy)
            for a in args
        ]
        try:
            shapes = list(map(self._shapes.get, keys))
        except TypeError:  # Something in one of them cannot be hashed.
            self.kernels.details += [self._shape(row, one) for row, one in zip(batch, args, strict=True)]
            return
        for place, shape in enumerate(shapes):
            if shape is None:
                shapes[place] = self._new_shape(keys[place], batch[place], args[place])
        self.kernels.details += shapes  # type: ignore[arg-type]

    def _new_shape(self, key: tuple[Any, ...], row: Row, args: Any) -> Shape:
        known = self._problems.count(BAD_VALUE)
        shape = self._shape(row, args)
        # What was wrong is counted each time it is met.
        return self._shapes.setdefault(key, shape) if self._problems.count(BAD_VALUE) == known else shape

    def _shape(self, row: Row, args: Any) -> Shape:
        occupancy = args.achieved_occupancy
        if occupancy is None:
            occupancy = args.theoretical_occupancy  # Its name before May 2021.
        return Shape(
            self._value(triple, args.grid, row, "grid"),
            self._value(triple, args.block, row, "block"),
            self._value(integer, args.registers_per_thread, row, "registers per thread"),
            self._value(integer, args.shared_memory, row, "shared memory"),
            self._value(number, occupancy, row, "est. achieved occupancy %"),
        )

    def _add_memcpys(self, batch: list[Row]) -> None:
        args = self._add_gpu(self.memcpys, batch)
        for row, one in zip(batch, args, strict=True):
            name = row.name or ""
            self.memcpys.details.append(Transfer(copy_kind(name), self._size(row, one), pageable(name)))

    def _add_memsets(self, batch: list[Row]) -> None:
        args = self._add_gpu(self.memsets, batch)
        self.memsets.details += [Fill(self._size(row, one)) for row, one in zip(batch, args, strict=True)]

    def _size(self, row: Row, args: Any) -> int | None:
        size: int | None = self._value(_size, args.bytes, row, "bytes")
        return size

    def _add_gpu(self, columns: GpuColumns[Any], batch: list[Row]) -> list[Any]:
        """Add what all GPU events have.

        Source:
            Kineto, ``output_json.cpp`` and ``CuptiActivity.cpp``: the arguments of GPU rows.
        """
        starts, durations = self._gpu_times(batch)
        args = [row.args for row in batch]
        columns.names += self._interned([row.name or "(no name)" for row in batch])
        columns.starts.extend(array("q", starts))
        columns.durations.extend(array("q", durations))
        columns.devices += self._optional([one.device for one in args], batch, "device")
        columns.streams += self._optional([one.stream for one in args], batch, "stream")
        columns.correlation_ids.extend(self._ids([one.correlation for one in args], batch, "correlation"))
        columns.external_ids.extend(self._external_ids(batch, args))
        return args

    def _gpu_times(self, batch: list[Row]) -> tuple[Sequence[int], Sequence[int]]:
        # Kineto writes 0 where the GPU gave no time; nothing starts at the trace's zero.
        starts, durations = self._exact([row.ts for row in batch]), self._exact([row.dur for row in batch])
        if starts and durations and min(durations) >= 0 and 0 not in starts:
            return starts, durations
        found_starts, found_durations = [], []
        for row in batch:
            start, duration = self._ns(row, "ts") or None, self._ns(row, "dur")
            known = start is not None and duration is not None and duration >= 0
            found_starts.append(MISSING if start is None else start)
            found_durations.append(duration if known and duration is not None else MISSING)
        return found_starts, found_durations

    def _add_trace(self, batch: list[Row]) -> None:
        placed = self._placed(batch, _TRACE)
        known = [start + length for _, start, length in zip(*placed.columns, strict=True) if length != MISSING]
        if known:
            self.recording_end_ns = max(*known, self.recording_end_ns or known[0])

    def _add_unknown(self, batch: list[Row]) -> None:
        ops = [row for row in batch if row.cat is None and row.pid == _LEGACY_CPU]
        if ops:
            self.legacy = True
            self._add_ops(ops)
        for row in batch:
            if row.cat is None and row.pid == _LEGACY_GPU:
                self.legacy = True
            elif _looks_like_device_work(row):
                self.unknown_device_rows.add(row.cat or "(none)")

    def _add_unreadable(self, kind: str, row: Row) -> None:
        """Remember that something was there: a row that is dropped silently would make a count too small."""
        name = row.name or ""
        if kind in (_CALL, *_GPU_KINDS):
            self.bad_calls += 1
            correlation_id = integer(row.args.correlation) if row.args else None
            if kind is _CALL and correlation_id is not None:
                self.bad_call_ids.add(correlation_id)
        elif kind in (_OP, _ANNOTATION) and _is_step(name):
            self.bad_steps += 1
        elif kind is _OP:
            self.bad_ops += 1
            self.unplaced_ops.add(name)
        elif kind is _ANNOTATION:
            self.unplaced_regions.add(name)

    # Fields

    def _placed(self, batch: list[Row], kind: str) -> _Placed:
        """Return the rows that have a name and a start; the others are remembered as unreadable."""
        # Interned first: the set then hashes each name once in the whole file.
        names = self._interned([row.name for row in batch])
        unique = set(names)
        starts, durations = self._exact([row.ts for row in batch]), self._exact([row.dur for row in batch])
        if starts and durations and min(durations) >= 0 and None not in unique and "" not in unique:
            return _Placed(batch, names, unique, starts, durations)
        placed = _Placed([], [], set(), [], [])
        for row in batch:
            start, duration = self._ns(row, "ts"), self._ns(row, "dur")
            if start is None or not row.name:
                self._add_unreadable(kind, row)
                continue
            if duration is None or duration < 0:
                duration = MISSING
                if kind is _OP:
                    self.unplaced_ops.add(row.name)
            placed.add(row, self._names[row.name], start, duration)
        return placed

    def _exact(self, texts: list[Any]) -> list[int] | None:
        return exact_ns(texts, self.integers)

    def _ns(self, row: Row, field: str) -> int | None:
        text = bytes(getattr(row, field))
        value = nanoseconds(text)
        if value is None and not is_missing(text):
            self._problems.add(BAD_VALUE, self._where(row, field))
        return value

    def _interned(self, names: list[Any]) -> list[Any]:
        """Return the names, equal ones as one object: kernels have long names, and few."""
        intern = self._names.setdefault
        return list(map(intern, names, names))

    def _threads_of(self, batch: list[Row]) -> array[int]:
        """Return the number of the thread of each row, without making a key for every one."""
        processes = {row.pid for row in batch}
        if len(processes) == 1:
            numbers = self._threads_in(*processes)
            return array("I", [numbers[row.tid] for row in batch])
        return array("I", [self._threads_in(row.pid)[row.tid] for row in batch])

    def _threads_in(self, process: int | str) -> _Threads:
        found = self._processes.get(process)
        if found is None:
            found = self._processes[process] = _Threads(process, self.threads)
        return found

    def _external_ids(self, batch: list[Row], args: list[Any]) -> Iterable[int]:
        ids = [one.external_id for one in args]
        if NO_ID in ids:
            ids = [one.early_external_id if one.external_id == NO_ID else one.external_id for one in args]
        return self._ids(ids, batch, "External id")

    def _ids(self, values: list[Any], batch: list[Row], field: str) -> Iterable[int]:
        try:
            return array("q", values)
        except (TypeError, OverflowError):
            found = (self._value(integer, value, row, field) for value, row in zip(values, batch, strict=True))
            return [NO_ID if value is None else value for value in found]

    def _optional(self, values: list[Any], batch: list[Row], field: str) -> list[int | None]:
        if set(map(type, values)) <= {int, type(None)} and None not in map(integer, set(values) - {None}):
            return values
        return [self._value(integer, value, row, field) for value, row in zip(values, batch, strict=True)]

    def _value(self, read: Callable[[Any], Any], value: Any, row: Row, field: str) -> Any:
        """Return what *read* makes of a value; one that is there and makes no sense is counted."""
        if value is None:
            return None
        found = read(value)
        if found is None:
            self._problems.add(BAD_VALUE, self._where(row, f"args.{field}"))
        return found

    def _where(self, row: Row, field: str) -> str:
        number = next((n for n, one in zip(self._numbers, self._rows, strict=True) if one is row), "?")
        return f"{self._root}[{number}].{field}"


def is_counted(category: str | None) -> bool:
    """Return whether any count depends on rows of this category."""
    return _kind(category) not in (_IGNORED, _UNKNOWN)


def _kind(category: str | None) -> str:
    return _KINDS.get(category) or _KINDS.get((category or "").lower(), _UNKNOWN)


def _is_step(name: str) -> bool:
    return name.startswith(STEP_PREFIX) and _STEP.match(name) is not None


def _size(value: Any) -> int | None:
    size = integer(value)
    return size if size is not None and size >= 0 else None


def _looks_like_device_work(row: Row) -> bool:
    args = row.args or NO_ARGS
    if row.cat is not None and _ACCELERATORS.match(row.cat):
        return True
    return integer(args.device) is not None or (integer(args.correlation) or NO_ID) != NO_ID
