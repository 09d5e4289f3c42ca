"""Events as a trace records them: ops and calls on the CPU, kernels, copies and Memsets on the GPU.

Times are integer nanoseconds since the trace's own zero. ``None`` means that the trace does not tell.

A trace has hundreds of thousands of events, and few of them are looked at: what was read stands in
columns, one table a class, and an event is a view of one row that is made when somebody asks.
Two views of the same row are equal.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from .names import KernelName, decode_kernel
from .occupancy import Multiprocessor, Occupancy, occupancy

Thread = tuple[int | str, int | str]
"""Process and thread id, as the trace has them."""

FOREVER = 1 << 62
"""A time in nanoseconds after every other: the end of what never ended."""

MISSING = -1 << 63
"""Stands in a column of times where the trace has none."""

NO_ID = -1
"""Stands in a column of ids or of row numbers where there is none."""

NO_DEVICE = -1
"""Stands for the device of an event that does not name its own."""

BACKWARD_NODE = "autograd::engine::evaluate_function"
"""How the names of the ops begin in which autograd runs one node of the backward graph."""

_SMALL_SHARED_MEMORY = 48 * 1024


class OpTable:
    """Operators, by start. The lists are columns: equally long, one entry an op.

    Attributes:
        names: As the dispatcher knows them.
        starts: In nanoseconds.
        durations: In nanoseconds; `MISSING` for an op that never ended.
        threads: Where they ran: places in `thread_keys`.
        thread_keys: Process and thread ids.
        sequence_numbers: `NO_ID` where there is none.
        parents: Row of the op that was opened last and is still open; `NO_ID` for none.
        regions: Regions around the start, outermost first.
        untold_regions: Rows of which the trace leaves open in which other regions they are.
    """

    __slots__ = (
        *("durations", "names", "parents", "regions", "sequence_numbers", "starts", "thread_keys", "threads"),
        *("_graph", "untold_regions"),
    )

    def __init__(self) -> None:
        """Make an empty table."""
        self._graph: _BackwardGraph | None = None
        self.names: list[str] = []
        self.starts = array("q")
        self.durations = array("q")
        self.threads = array("I")
        self.thread_keys: list[Thread] = []
        self.sequence_numbers = array("q")
        self.parents = array("q")
        self.regions: list[tuple[str, ...]] = []
        self.untold_regions: set[int] = set()

    def chain(self, innermost: int, now_ns: int) -> tuple[Op, ...]:
        """Return the ops open at a moment, outermost first.

        Args:
            innermost: Row of the last opened one, `NO_ID` for none.
            now_ns: The moment; ranges may intersect, so an outer one may have ended before it.
        """
        starts, durations, parents = self.starts, self.durations, self.parents
        rows = []
        while innermost >= 0:
            start = starts[innermost]
            if start + durations[innermost] > now_ns or start == now_ns:
                rows.append(innermost)
            innermost = parents[innermost]
        return tuple(Op(self, row) for row in reversed(rows))

    def forward_chain(self, chain: tuple[Op, ...]) -> tuple[Op, ...]:
        """Return the forward op that made the innermost backward node in a chain of ops, with the ops around it.

        torch numbers the nodes of each thread; an op carries the number that its thread will give
        next, so that the last op with a number is the one that made the node. (Source:
        ``at::sequence_number`` and torch/csrc/autograd/function.h; seen in traces of torch 2.11, 2.13.)

        Args:
            chain: Ops, outermost first.

        Returns:
            The chain of the forward op, itself last; empty outside a backward pass, and where the
            trace leaves it open: the number is not in it, ops of several threads carry it, two nodes
            of one name do, or the op that carries it cannot have made a node of this name.
        """
        node = next((op for op in reversed(chain) if op.name.startswith(BACKWARD_NODE)), None)
        number = NO_ID if node is None else self.sequence_numbers[node._row]
        if node is None or number == NO_ID:
            return ()
        if self._graph is None:
            self._graph = _BackwardGraph(self)
        maker = self._graph.maker(node._row)
        if maker is None:
            return ()
        made_by = Op(self, maker)
        return (*made_by.chain, made_by)


class _BackwardGraph:
    """Which ops may have made which backward nodes, by sequence number."""

    def __init__(self, ops: OpTable) -> None:
        self.ops = ops
        self.makers: dict[int, list[int]] = {}
        """Rows of the last op with a number on each thread."""
        self.nodes: Counter[tuple[int, str]] = Counter()
        names, parents, threads = ops.names, ops.parents, ops.threads
        for row, number in enumerate(ops.sequence_numbers):
            if number == NO_ID:
                continue
            name = names[row]
            if name.startswith(BACKWARD_NODE):
                self.nodes[number, name] += 1
                continue
            parent = parents[row]
            if parent != NO_ID and names[parent] == f"{BACKWARD_NODE}: {name}":
                continue  # The node itself, inside what evaluates it.
            known = self.makers.setdefault(number, [])
            known[:] = [one for one in known if threads[one] != threads[row]]
            known.append(row)

    def maker(self, node: int) -> int | None:
        """Return the row of the op that made a node, if there is no doubt."""
        ops = self.ops
        name, number = ops.names[node], ops.sequence_numbers[node]
        if self.nodes[number, name] > 1:
            return None  # A thread that was not watched counts as one that was does.
        rows = [
            row
            for row in self.makers.get(number, ())
            if ops.starts[row] < ops.starts[node] and _makes(ops.names[row], name)
        ]
        # On a CPU, a thread's backward pass runs on the thread itself.
        own = [row for row in rows if ops.threads[row] == ops.threads[node]]
        chosen = own or rows
        return chosen[0] if len(chosen) == 1 else None


def _makes(op: str, node: str) -> bool:
    """Return whether an op can have made a backward node, by name: ``aten::_to_copy`` makes ``ToCopyBackward0``."""
    made = re.sub(r"Backward\d*$", "", node.rpartition(" ")[2].rpartition("::")[2])
    one, other = (re.sub(r"[^a-z0-9]", "", name.lower()) for name in (op.rpartition("::")[2], made))
    return bool(other) and (one.startswith(other) or other.startswith(one))


class CallTable:
    """Runtime and driver calls, by start. The lists are columns, one entry a call.

    Attributes:
        ops: The ops that `parents` refers to.
        names: As the trace has them.
        starts: In nanoseconds.
        durations: In nanoseconds; `MISSING` where the trace has none.
        threads: Where they were made: places in `thread_keys`.
        thread_keys: Process and thread ids.
        correlation_ids: What ties them to GPU events; `NO_ID` where there is none.
        parents: Row of the innermost op around the call; `NO_ID` for none.
        regions: Regions around the call, outermost first.
        untold_regions: Rows of which the trace leaves open in which other regions they are.
    """

    __slots__ = (
        *("correlation_ids", "durations", "names", "ops", "parents", "regions", "starts", "thread_keys"),
        *("threads", "untold_regions"),
    )

    def __init__(self, ops: OpTable) -> None:
        """Make an empty table of calls made by *ops*."""
        self.ops = ops
        self.names: list[str] = []
        self.starts = array("q")
        self.durations = array("q")
        self.threads = array("I")
        self.thread_keys: list[Thread] = []
        self.correlation_ids = array("q")
        self.parents = array("q")
        self.regions: list[tuple[str, ...]] = []
        self.untold_regions: set[int] = set()


class Shape(NamedTuple):
    """How a kernel was launched: what `Kernel` says beside its times."""

    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers_per_thread: int | None = None
    shared_memory_bytes: int | None = None
    reported_occupancy_percent: float | None = None


class Transfer(NamedTuple):
    """What a copy moved: what `Memcpy` says beside its times."""

    kind: str | None = None
    size_bytes: int | None = None
    pageable: bool | None = None


class Fill(NamedTuple):
    """What a Memset wrote: what `Memset` says beside its times."""

    size_bytes: int | None = None
    next_kernel: str | None = None
    next_known: bool = True


D = TypeVar("D", Shape, Transfer, Fill)


class GpuTable(Generic[D]):
    """GPU events of one class, in the order of their launches. The lists are columns.

    Attributes:
        calls: The calls that `launches` refers to.
        names: As the trace has them.
        starts: In nanoseconds; `MISSING` where the GPU gave none.
        durations: In nanoseconds; `MISSING` where there is none.
        devices: Indexes of GPUs.
        streams: Stream ids.
        correlation_ids: What ties them to calls; `NO_ID` where there is none.
        launches: Row of the call that started each; `NO_ID` for an orphan.
        details: What only this class has.
        processors: What one multiprocessor of each device holds, where the trace tells.
    """

    __slots__ = (
        "calls",
        "correlation_ids",
        "details",
        "devices",
        "durations",
        "launches",
        "names",
        "processors",
        "starts",
        "streams",
    )

    def __init__(self, calls: CallTable) -> None:
        """Make an empty table of events started by *calls*."""
        self.calls = calls
        self.names: list[str] = []
        self.starts = array("q")
        self.durations = array("q")
        self.devices: list[int | None] = []
        self.streams: list[int | None] = []
        self.correlation_ids = array("q")
        self.launches = array("q")
        self.details: list[D] = []
        self.processors: Mapping[int, Multiprocessor] = {}


class _View:
    """One row of a table."""

    __slots__ = ("_row", "_table")

    _table: Any
    _row: int

    def __init__(self, table: Any, row: int) -> None:
        self._table = table
        self._row = row

    @property
    def name(self) -> str:
        """As the trace has it."""
        name: str = self._table.names[self._row]
        return name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _View) and self._table is other._table and self._row == other._row

    def __hash__(self) -> int:
        return hash((id(self._table), self._row))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class _CpuEvent(_View):
    """What ops and calls have in common."""

    __slots__ = ()

    @property
    def start_ns(self) -> int:
        """Start, in nanoseconds."""
        start: int = self._table.starts[self._row]
        return start

    @property
    def duration_ns(self) -> int | None:
        """Length, in nanoseconds; ``None`` for what never ended."""
        return _time(self._table.durations[self._row])

    @property
    def thread(self) -> Thread:
        """Where it ran."""
        thread: Thread = self._table.thread_keys[self._table.threads[self._row]]
        return thread

    @property
    def regions(self) -> tuple[str, ...]:
        """The ``record_function`` ranges around it, outermost first."""
        regions: tuple[str, ...] = self._table.regions[self._row]
        return regions

    @property
    def regions_known(self) -> bool:
        """False if the trace leaves open which regions an autograd op or launch belongs to."""
        return self._row not in self._table.untold_regions


class Op(_CpuEvent):
    """One call of an operator on the CPU."""

    __slots__ = ()

    _table: OpTable

    @property
    def chain(self) -> tuple[Op, ...]:
        """The ops around it, outermost first."""
        return self._table.chain(self._table.parents[self._row], self.start_ns)

    @property
    def forward_chain(self) -> tuple[Op, ...]:
        """In a backward pass, the forward op that made the node, last, and the ops around it; else empty."""
        return self._table.forward_chain((*self.chain, self))

    @property
    def sequence_number(self) -> int | None:
        """Links a backward op to the forward op that made it."""
        number = self._table.sequence_numbers[self._row]
        return None if number == NO_ID else number


class Call(_CpuEvent):
    """One runtime or driver call on the CPU: a launch, a copy, a synchronisation."""

    __slots__ = ()

    _table: CallTable

    @property
    def chain(self) -> tuple[Op, ...]:
        """The ops around the call, outermost first; empty outside ops."""
        return self._table.ops.chain(self._table.parents[self._row], self.start_ns)

    @property
    def forward_chain(self) -> tuple[Op, ...]:
        """In a backward pass, the forward op that made the node, last, and the ops around it; else empty."""
        return self._table.ops.forward_chain(self.chain)

    @property
    def correlation_id(self) -> int | None:
        """Ties the call to the GPU events that it started."""
        return _id(self._table.correlation_ids[self._row])


class GpuEvent(_View):
    """What kernels, copies and memsets have in common."""

    __slots__ = ()

    @property
    def start_ns(self) -> int | None:
        """Start on the GPU, in nanoseconds."""
        return _time(self._table.starts[self._row])

    @property
    def duration_ns(self) -> int | None:
        """Time on the GPU, in nanoseconds."""
        return _time(self._table.durations[self._row])

    @property
    def device(self) -> int | None:
        """Index of the GPU."""
        device: int | None = self._table.devices[self._row]
        return device

    @property
    def stream(self) -> int | None:
        """Stream id."""
        stream: int | None = self._table.streams[self._row]
        return stream

    @property
    def correlation_id(self) -> int | None:
        """Ties the event to its launch."""
        return _id(self._table.correlation_ids[self._row])

    @property
    def launch(self) -> Call | None:
        """The call that started it; ``None`` for an orphan."""
        row = self._table.launches[self._row]
        return None if row == NO_ID else Call(self._table.calls, row)

    @property
    def chain(self) -> tuple[Op, ...]:
        """The ops around the launch, outermost first; empty for an orphan or outside ops."""
        launch = self.launch
        return launch.chain if launch else ()

    @property
    def forward_chain(self) -> tuple[Op, ...]:
        """In a backward pass, the forward op that made the node, last, and the ops around it; else empty."""
        launch = self.launch
        return launch.forward_chain if launch else ()

    @property
    def thread(self) -> Thread | None:
        """Where it was launched; ``None`` for an orphan."""
        launch = self.launch
        return launch.thread if launch else None

    @property
    def regions(self) -> tuple[str, ...]:
        """The ``record_function`` ranges around the launch, outermost first."""
        launch = self.launch
        return launch.regions if launch else ()

    @property
    def regions_known(self) -> bool:
        """Whether the trace tells in which regions the event was launched."""
        launch = self.launch
        return launch is not None and launch.regions_known


class Kernel(GpuEvent):
    """One execution of a device function."""

    __slots__ = ()

    _table: GpuTable[Shape]

    @property
    def decoded(self) -> KernelName:
        """What the kernel's name says, such as its role, data types, whether it runs on tensor cores."""
        return decode_kernel(self.name)

    @property
    def shape(self) -> Shape:
        """How it was launched."""
        return self._table.details[self._row]

    @property
    def grid(self) -> tuple[int, int, int] | None:
        """Blocks in x, y, z."""
        return self.shape.grid

    @property
    def block(self) -> tuple[int, int, int] | None:
        """Threads a block in x, y, z."""
        return self.shape.block

    @property
    def registers_per_thread(self) -> int | None:
        """Registers a thread."""
        return self.shape.registers_per_thread

    @property
    def shared_memory_bytes(self) -> int | None:
        """Shared memory a block, in bytes."""
        return self.shape.shared_memory_bytes

    @property
    def reported_occupancy_percent(self) -> float | None:
        """The profiler's own estimate, in percent, unjudged; see `reported_occupancy`."""
        return self.shape.reported_occupancy_percent

    @property
    def reported_occupancy(self) -> float | None:
        """The profiler's own estimate as a fraction; ``None`` where it is no measurement.

        It reports 0 for every kernel with more than 48 KiB of shared memory a block, whatever ran.
        For small grids 0 is a rounded figure and stays 0.
        """
        percent = self.reported_occupancy_percent
        if percent is None or (percent == 0 and (self.shared_memory_bytes or 0) > _SMALL_SHARED_MEMORY):
            return None
        return percent / 100

    @property
    def occupancy(self) -> Occupancy | None:
        """The theoretical occupancy and what limits it; ``None`` where `why_no_occupancy` says why."""
        told = self._occupancy()
        return None if isinstance(told, str) else told

    @property
    def why_no_occupancy(self) -> str | None:
        """Why the trace does not tell the theoretical occupancy; ``None`` if it does.

        AMD's and Intel's traces never do. A kernel without registers does not exist: 0 is a gap.
        """
        told = self._occupancy()
        return told if isinstance(told, str) else None

    def _occupancy(self) -> Occupancy | str:
        _, block, registers, shared_memory, _ = self.shape
        processor = self._table.processors.get(NO_DEVICE if self.device is None else self.device)
        if block is None or min(block) < 1:
            return "the trace does not tell the block size"
        if registers is None or registers < 1:
            return "the trace does not tell the registers"
        if shared_memory is None or shared_memory < 0:
            return "the trace does not tell the shared memory"
        if processor is None:
            return "the trace does not tell what a multiprocessor of its GPU holds"
        found = occupancy(math.prod(block), registers, shared_memory, processor)
        return found or "its launch does not fit on the GPU of the trace"

    @property
    def theoretical_occupancy(self) -> float | None:
        """The theoretical occupancy, a fraction from 0 to 1; ``None`` where the trace does not tell enough."""
        found = self.occupancy
        return None if found is None else found.fraction


class Memcpy(GpuEvent):
    """One copy of memory by the copy engine."""

    __slots__ = ()

    _table: GpuTable[Transfer]

    @property
    def kind(self) -> str | None:
        """Direction, such as ``DtoD`` or ``HtoD``."""
        return self._table.details[self._row].kind

    @property
    def size_bytes(self) -> int | None:
        """Bytes copied."""
        return self._table.details[self._row].size_bytes

    @property
    def pageable(self) -> bool | None:
        """Whether host memory that is not pinned took part."""
        return self._table.details[self._row].pageable


class Memset(GpuEvent):
    """One fill of memory."""

    __slots__ = ()

    _table: GpuTable[Fill]

    @property
    def size_bytes(self) -> int | None:
        """Bytes set."""
        return self._table.details[self._row].size_bytes

    @property
    def next_kernel(self) -> str | None:
        """The kernel that follows on the same stream with no other event between."""
        return self._table.details[self._row].next_kernel

    @property
    def next_known(self) -> bool:
        """Whether the trace tells what follows."""
        return self._table.details[self._row].next_known


Event = Op | Call | GpuEvent


T_co = TypeVar("T_co", bound=Event, covariant=True)


class Views(Sequence[T_co]):
    """The events in some rows of a table; each is made when it is asked for."""

    __slots__ = ("_make", "_rows", "_table")

    def __init__(self, make: Callable[[Any, int], T_co], table: object, rows: Sequence[int]) -> None:
        """Make a sequence.

        Args:
            make: The class of the events.
            table: The table of that class.
            rows: Row numbers, in order.
        """
        self._make = make
        self._table = table
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Views[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | Views[T_co]:
        if isinstance(index, slice):
            return Views(self._make, self._table, self._rows[index])
        return self._make(self._table, self._rows[index])

    def __iter__(self) -> Iterator[T_co]:
        make, table = self._make, self._table
        return (make(table, row) for row in self._rows)


E = TypeVar("E", bound=Event)


def slowest_first(events: Sequence[E]) -> list[E]:
    """Return the events worst first: copies by bytes, calls and other GPU events by time, ops as they are."""

    def weight(event: E) -> int:
        if isinstance(event, Memcpy):
            return -(event.size_bytes or 0)
        return 0 if isinstance(event, Op) else -(event.duration_ns or 0)

    return sorted(events, key=weight)


def _time(value: int) -> int | None:
    return None if value == MISSING else value


def _id(value: int) -> int | None:
    return None if value == NO_ID else value
