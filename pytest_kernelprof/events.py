"""Events as a trace records them: ops and calls on the CPU, kernels, copies and Memsets on the GPU.

Times are integer nanoseconds since the trace's own zero. ``None`` means that the trace does not tell.
Events are msgspec structs and not dataclasses: a trace has hundreds of thousands of them, and a
frozen struct is made more than ten times faster. They form no cycles, so the garbage collector need
not look at them.
"""

from __future__ import annotations

import msgspec

Thread = tuple[int | str, int | str]
"""Process and thread id, as the trace has them."""


class Op(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One call of an operator on the CPU.

    Attributes:
        name: As the dispatcher knows it, such as ``aten::copy_``.
        start_ns: Start, in nanoseconds.
        duration_ns: Length, in nanoseconds; ``None`` for an op that never ended.
        thread: Where it ran.
        chain: The ops around it, outermost first.
        regions: The ``record_function`` ranges it ran in, outermost first.
        regions_known: False if the trace leaves open which regions an autograd op belongs to.
        sequence_number: Links a backward op to the forward op that made it.
    """

    name: str
    start_ns: int
    duration_ns: int | None
    thread: Thread
    chain: tuple[Op, ...] = ()
    regions: tuple[str, ...] = ()
    regions_known: bool = True
    sequence_number: int | None = None


class Call(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One runtime or driver call on the CPU: a launch, a copy, a synchronisation.

    Attributes:
        name: As the trace has it, such as ``cudaLaunchKernel``.
        start_ns: Start, in nanoseconds.
        duration_ns: Length, in nanoseconds.
        thread: Where it was made.
        correlation_id: Ties the call to the GPU events that it started.
        chain: The ops around the call, outermost first; empty outside ops.
        regions: The ``record_function`` ranges around it, outermost first.
        regions_known: False if the trace leaves open which regions an autograd launch belongs to.
    """

    name: str
    start_ns: int
    duration_ns: int | None
    thread: Thread
    correlation_id: int | None = None
    chain: tuple[Op, ...] = ()
    regions: tuple[str, ...] = ()
    regions_known: bool = True


class GpuEvent(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """What kernels, copies and memsets have in common.

    Attributes:
        name: As the trace has it.
        start_ns: Start on the GPU, in nanoseconds.
        duration_ns: Time on the GPU, in nanoseconds.
        device: Index of the GPU.
        stream: Stream id.
        correlation_id: Ties the event to its launch.
        launch: The call that started it; ``None`` for an orphan.
    """

    name: str
    start_ns: int | None
    duration_ns: int | None
    device: int | None
    stream: int | None
    correlation_id: int | None
    launch: Call | None

    @property
    def chain(self) -> tuple[Op, ...]:
        """The ops around the launch, outermost first; empty for an orphan or outside ops."""
        return self.launch.chain if self.launch else ()

    @property
    def regions(self) -> tuple[str, ...]:
        """The ``record_function`` ranges around the launch, outermost first."""
        return self.launch.regions if self.launch else ()

    @property
    def regions_known(self) -> bool:
        """Whether the trace tells in which regions the event was launched."""
        return self.launch is not None and self.launch.regions_known


class Kernel(GpuEvent, frozen=True, kw_only=True, eq=False, gc=False):
    """One execution of a device function.

    Attributes:
        grid: Blocks in x, y, z.
        block: Threads a block in x, y, z.
        registers_per_thread: Registers a thread.
        shared_memory_bytes: Shared memory a block, in bytes.
        reported_occupancy_percent: The profiler's own estimate, in percent, unjudged.
    """

    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers_per_thread: int | None = None
    shared_memory_bytes: int | None = None
    reported_occupancy_percent: float | None = None


class Memcpy(GpuEvent, frozen=True, kw_only=True, eq=False, gc=False):
    """One copy of memory by the copy engine.

    Attributes:
        kind: Direction, such as ``DtoD`` or ``HtoD``.
        size_bytes: Bytes copied.
        pageable: Whether host memory that is not pinned took part.
    """

    kind: str | None = None
    size_bytes: int | None = None
    pageable: bool | None = None


class Memset(GpuEvent, frozen=True, kw_only=True, eq=False, gc=False):
    """One fill of memory.

    Attributes:
        size_bytes: Bytes set.
        next_kernel: The kernel that follows on the same stream with no other event between.
        next_known: Whether the trace tells what follows.
    """

    size_bytes: int | None = None
    next_kernel: str | None = None
    next_known: bool = True


Event = Op | Call | GpuEvent
