"""Rows into columns: each field read as what it is, many rows at a time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from ..events import FOREVER, MISSING, NO_ID, Fill, Shape, Transfer
from .calls import MOVING, call_kind
from .columns import Columns, CpuColumns, GpuColumns, Span
from .copies import copy_kind, pageable
from .kinds import (
    ANNOTATION,
    CALL,
    IGNORED,
    KERNEL,
    MEMCPY,
    MEMSET,
    OP,
    PHASES,
    TRACE,
    UNKNOWN,
    is_accelerator,
    is_step,
    kind_of,
)
from .numbers import exact_ns, integer, is_missing, nanoseconds, number, split_integers, triple
from .problems import BAD_VALUE, UNIDENTIFIED, UNKNOWN_CATEGORY, Problems
from .rows import Row

_LEGACY_CPU, _LEGACY_GPU = "CPU functions", "CUDA functions"
"""Process names of the autograd profiler without Kineto, whose rows have no category."""


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

    def chosen(self, wanted: Callable[[str], bool]) -> _Placed:
        """Return the rows whose names are wanted."""
        found = _Placed([], [], set(), [], [])
        for row, name, start, duration in zip(self.batch, *self.columns, strict=True):
            if wanted(name):
                found.add(row, name, start, duration)
        return found

    @property
    def columns(self) -> tuple[list[Any], list[int], list[int]]:
        """Names, starts and durations."""
        return self.names, self.starts, self.durations


class Filler:
    """Fills columns with rows.

    Attributes:
        integers: Reads many integers at once.
    """

    def __init__(self, columns: Columns, problems: Problems) -> None:
        """Make a filler of *columns*; *problems* collects the values that cannot be read."""
        self.integers = split_integers
        self._columns = columns
        self._problems = problems
        self._processes: dict[int | str, dict[int | str, int]] = {}
        self._names: dict[str, str] = {}
        self._shapes: dict[Any, Shape] = {}
        self._rows: Sequence[Row] = ()
        self._numbers: Sequence[int] = ()
        self._number_by_id: dict[int, int] = {}
        self._root = ""
        self._adders: dict[str, Callable[[list[Row]], None]] = {
            OP: self._add_ops,
            ANNOTATION: self._add_annotations,
            CALL: self._add_calls,
            TRACE: self._add_trace,
            UNKNOWN: self._add_unknown,
            KERNEL: self._add_kernels,
            MEMCPY: self._add_memcpys,
            MEMSET: self._add_memsets,
        }

    def add(self, rows: Sequence[Row], numbers: Sequence[int], root: str) -> None:
        """Take rows of the list of events.

        Args:
            rows: The rows.
            numbers: The number of each in the list.
            root: JSON path of the list.
        """
        self._rows, self._numbers, self._root = rows, numbers, root
        self._number_by_id = {}
        for kind, batch in _by_kind(rows).items():
            if kind is IGNORED:
                continue
            complete = [row for row in batch if row.ph == "X"]
            if len(complete) < len(batch):
                for row in batch:
                    self._add_other_phase(kind, row)
            if complete:
                self._adders[kind](complete)
        self._rows = ()

    # The rows of one kind

    def _add_ops(self, batch: list[Row]) -> None:
        placed = self._placed(batch, OP)
        if any(map(is_step, placed.unique)):  # Before 1.12 steps were operators.
            self._add_spans(placed.chosen(is_step))
            placed = placed.chosen(lambda name: not is_step(name))
        columns = self._columns
        if MISSING in placed.durations:
            ends = zip(placed.names, placed.durations, strict=True)
            columns.unplaced_ops.update(name for name, duration in ends if duration == MISSING)
        args = self._add_cpu(columns.ops, placed)
        columns.ops.ids.extend(self._ids([one.sequence_number for one in args], placed.batch, "Sequence number"))

    def _add_calls(self, batch: list[Row]) -> None:
        placed = self._placed(batch, CALL)
        columns = self._columns
        args = self._add_cpu(columns.calls, placed)
        ids = self._ids([one.correlation for one in args], placed.batch, "correlation")
        columns.calls.ids.extend(ids)
        if any(call_kind(name) in MOVING for name in placed.unique):
            columns.zero_bytes.update(
                (number, start)
                for one, number, start in zip(args, ids, placed.starts, strict=True)
                if one.bytes in (0, "0") or one.size in (0, "0")
            )

    def _add_cpu(self, columns: CpuColumns, placed: _Placed) -> list[Any]:
        args = [row.args for row in placed.batch]
        columns.names += placed.names
        # Making an array and adding it takes half as long as adding a list.
        columns.starts.extend(array("q", placed.starts))
        columns.durations.extend(array("q", placed.durations))
        columns.threads.extend(self._threads_of(placed.batch))
        columns.external_ids.extend(self._external_ids(placed.batch, args))
        return args

    def _add_annotations(self, batch: list[Row]) -> None:
        self._add_spans(self._placed(batch, ANNOTATION))

    def _add_spans(self, placed: _Placed) -> None:
        columns, threads = self._columns, self._threads_of(placed.batch)
        for name, start, duration, thread in zip(*placed.columns, threads, strict=True):
            end = FOREVER if duration == MISSING else start + duration
            span = Span(name, start, end, thread)
            if is_step(name):
                columns.steps.append(span)
            else:
                columns.annotations.append(span)
                if end == FOREVER:
                    columns.unplaced_regions.add(name)

    def _add_kernels(self, batch: list[Row]) -> None:
        args = self._add_gpu(self._columns.kernels, batch)
        keys = [
            (a.grid, a.block, a.registers_per_thread, a.shared_memory, a.achieved_occupancy, a.theoretical_occupancy)
            for a in args
        ]
        try:
            shapes = list(map(self._shapes.get, keys))
        except TypeError:  # Something in one of them cannot be hashed.
            self._columns.kernels.details += [self._shape(row, one) for row, one in zip(batch, args, strict=True)]
            return
        for place, shape in enumerate(shapes):
            if shape is None:
                shapes[place] = self._new_shape(keys[place], batch[place], args[place])
        self._columns.kernels.details += shapes  # type: ignore[arg-type]

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
        args = self._add_gpu(self._columns.memcpys, batch)
        for row, one in zip(batch, args, strict=True):
            name = row.name or ""
            self._columns.memcpys.details.append(Transfer(copy_kind(name), self._size(row, one), pageable(name)))

    def _add_memsets(self, batch: list[Row]) -> None:
        args = self._add_gpu(self._columns.memsets, batch)
        self._columns.memsets.details += [Fill(self._size(row, one)) for row, one in zip(batch, args, strict=True)]

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
        placed = self._placed(batch, TRACE)
        known = [start + length for _, start, length in zip(*placed.columns, strict=True) if length != MISSING]
        if known:
            self._columns.recording_end_ns = max(*known, self._columns.recording_end_ns or known[0])

    def _add_unknown(self, batch: list[Row]) -> None:
        ops = [row for row in batch if row.cat is None and row.pid == _LEGACY_CPU]
        if ops:
            self._columns.legacy = True
            self._add_ops(ops)
        for row in batch:
            if row.cat is None and row.pid == _LEGACY_GPU:
                self._columns.legacy = True
            elif _looks_like_device_work(row):
                self._columns.unknown_device_rows.add(row.cat or "(none)")
            elif row.cat:
                number = self._number_of(row)
                self._problems.add(UNKNOWN_CATEGORY, f"{self._root}[{number}], {row.cat[:40]!r}", position=number)
            elif row.pid != _LEGACY_CPU:
                self._add_unidentified(row)

    def _add_other_phase(self, kind: str, row: Row) -> None:
        """Take a row that has no duration of its own: a name, an arrow, an instant; or something garbled."""
        if row.ph == "X":
            return
        if kind is not UNKNOWN:
            # torch.profiler writes what is counted as complete events and never as pairs of begin and end.
            self._add_unreadable(kind, row)
        elif row.ph is None or row.ph not in PHASES:
            self._add_unidentified(row)

    def _add_unidentified(self, row: Row) -> None:
        number = self._number_of(row)
        self._problems.add(UNIDENTIFIED, f"{self._root}[{number}]", position=number)

    def _add_unreadable(self, kind: str, row: Row) -> None:
        """Remember that something was there: a row that is dropped silently would make a count too small."""
        columns, name = self._columns, row.name or ""
        if kind in (CALL, KERNEL, MEMCPY, MEMSET):
            columns.bad_calls += 1
            correlation_id = integer(row.args.correlation)
            if kind is CALL and correlation_id is not None:
                columns.bad_call_ids.add(correlation_id)
        elif (kind in (OP, ANNOTATION) and is_step(name)) or (kind is ANNOTATION and not name):
            columns.bad_steps += 1  # Without a name it may have been one.
            columns.unplaced_regions.update(() if name else ("",))
        elif kind is OP:
            columns.bad_ops += 1
            columns.unplaced_ops.add(name)
        elif kind is ANNOTATION:
            columns.unplaced_regions.add(name)

    # Fields

    def _placed(self, batch: list[Row], kind: str) -> _Placed:
        """Return the rows that have a name and a start; the others are remembered as unreadable."""
        # Interned first: the set then hashes each name once in the whole file.
        names = self._interned([row.name for row in batch])
        unique = set(names)
        starts, durations = self._exact([row.ts for row in batch]), self._exact([row.dur for row in batch])
        sound = starts and durations and min(durations) >= 0 and 0 not in starts
        if sound and starts and durations and None not in unique and "" not in unique:
            return _Placed(batch, names, unique, starts, durations)
        placed = _Placed([], [], set(), [], [])
        for row in batch:
            start, duration = self._ns(row, "ts"), self._ns(row, "dur")
            # A start and a length of 0 are what Kineto writes where it lost both.
            lost = start is None or (start == 0 and duration == 0)
            if lost or start is None or not row.name:
                self._add_unreadable(kind, row)
                continue
            placed.add(row, self._names[row.name], start, MISSING if duration is None or duration < 0 else duration)
        return placed

    def _exact(self, texts: list[Any]) -> list[int] | None:
        return exact_ns(texts, self.integers)

    def _ns(self, row: Row, field: str) -> int | None:
        text = bytes(getattr(row, field))
        value = nanoseconds(text)
        if value is None and not is_missing(text):
            self._bad_value(row, field)
        return value

    def _interned(self, names: list[Any]) -> list[Any]:
        """Return the names, equal ones as one object: kernels have long names, and few."""
        intern = self._names.setdefault
        return list(map(intern, names, names))

    def _threads_of(self, batch: list[Row]) -> array[int]:
        """Return the number of the thread of each row, without making a key for every one."""
        processes = {row.pid for row in batch}
        if len(processes) != 1:
            return array("I", [self._thread(row.pid, row.tid) for row in batch])
        (process,) = processes
        numbers = self._processes.setdefault(process, {})
        try:
            return array("I", [numbers[row.tid] for row in batch])
        except KeyError:
            numbers.update({tid: self._thread(process, tid) for tid in {row.tid for row in batch}})
            return array("I", [numbers[row.tid] for row in batch])

    def _thread(self, process: int | str, thread: int | str) -> int:
        threads = self._columns.threads
        return threads.setdefault((process, thread), len(threads))

    def _external_ids(self, batch: list[Row], args: list[Any]) -> Sequence[int]:
        ids = [one.external_id for one in args]
        if NO_ID in ids:
            ids = [one.early_external_id if one.external_id == NO_ID else one.external_id for one in args]
        return self._ids(ids, batch, "External id")

    def _ids(self, values: list[Any], batch: list[Row], field: str) -> Sequence[int]:
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
            self._bad_value(row, f"args.{field}")
        return found

    def _bad_value(self, row: Row, field: str) -> None:
        number = self._number_of(row)
        self._problems.add(BAD_VALUE, f"{self._root}[{number}].{field}", position=number)

    def _number_of(self, row: Row) -> int:
        """Return the number of a row in the list of events; most files never ask."""
        if not self._number_by_id:
            self._number_by_id = {id(one): number for one, number in zip(self._rows, self._numbers, strict=True)}
        return self._number_by_id[id(row)]


def _by_kind(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows by kind; kinds that have several categories keep their order."""
    by_kind: dict[str, list[Row]] = {}
    by_category: dict[str | None, list[Row]] = {}
    for row in rows:
        try:
            by_category[row.cat].append(row)
        except KeyError:  # noqa: PERF203 - once a category
            batch = by_category[row.cat] = by_kind.setdefault(kind_of(row.cat), [])
            batch.append(row)
    return by_kind


def _size(value: Any) -> int | None:
    size = integer(value)
    return size if size is not None and size >= 0 else None


def _looks_like_device_work(row: Row) -> bool:
    if is_accelerator(row.cat):
        return True
    return integer(row.args.device) is not None or integer(row.args.correlation) not in (None, NO_ID)
