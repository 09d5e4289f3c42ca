"""What torch's caching allocators did during a step. Loaded for recordings only: most traces tell nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .sites import Site


class DeviceMemory(NamedTuple):
    """What torch's caching allocator did on one GPU during a step.

    Attributes:
        device: Index of the GPU.
        peak_bytes: Most that was in use at a time, above what was in use when the step began.
        allocated_bytes: Sum of all blocks that it gave away, also of those that it got back and
            gave away again.
        driver_allocations: How often it asked the driver for memory.
    """

    device: int
    peak_bytes: int
    allocated_bytes: int
    driver_allocations: int


class Allocated(NamedTuple):
    """GPU memory that some ops asked the allocator for.

    Attributes:
        device: Index of the GPU.
        size_bytes: Sum of the blocks, in bytes, as the allocator rounded them.
        blocks: How many.
        chain: Names of the ops, outermost first; empty outside ops.
        site: The line of Python that called them, where that is known.
    """

    device: int
    size_bytes: int
    blocks: int
    chain: tuple[str, ...]
    site: Site | None = None


class Memory(NamedTuple):
    """What the allocators of the GPUs did during a step.

    Attributes:
        devices: Their statistics, one entry a GPU in use.
        why_not_measured: Why the statistics are not known; ``None`` if they are.
    """

    devices: tuple[DeviceMemory, ...] = ()
    why_not_measured: str | None = None

    def of_a_region(self) -> Memory:
        """Return what is known of a part of the step: nothing."""
        why = "the allocator's statistics are those of whole steps, not of regions"
        return Memory(why_not_measured=self.why_not_measured or why)
