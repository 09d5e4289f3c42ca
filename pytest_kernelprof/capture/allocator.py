"""What torch's caching allocator says of itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..load.allocations import allocated_in
from ..memory import Allocated
from ..sites import Site
from .devices import quiet

_UNCACHED = "PYTORCH_NO_CUDA_MEMORY_CACHING"


def why_no_figures(torch: Any) -> str | None:
    """Return why the allocator's statistics would be zeros that say nothing; ``None`` if they count.

    Source:
        torch, ``CUDAMallocAsyncAllocator.cpp``: "Many stat types are specific to the native
        allocator. We leave these untouched." Without caching, ``CUDACachingAllocator.cpp`` goes
        past them.
    """
    if os.environ.get(_UNCACHED, "0") not in ("", "0"):
        return f"without its cache ({_UNCACHED}) torch's allocator keeps no statistics"
    backend = torch.cuda.get_allocator_backend()
    return None if backend == "native" else f"the allocator {backend!r} keeps no statistics of this kind"


def figures_of(torch: Any, index: int) -> dict[str, int]:
    """Return what the caching allocator says of a device; nothing if it keeps no statistics."""
    try:
        figures = torch._C._cuda_memoryStats(index)
        size = figures["allocated_bytes"]["all"]
        return {
            **{key: size[key] for key in ("current", "peak", "allocated")},
            "driver": figures["num_device_alloc"],
            "reserved": figures["reserved_bytes"]["all"]["allocated"],
        }
    except (AttributeError, KeyError, RuntimeError):
        return {}


def used_between(start: dict[str, int], end: dict[str, int]) -> dict[str, int]:
    """Return what the allocator did between two readings, as a `Recording` has it.

    Segments that expand may grow without a call that is counted: then at least one was made.
    """
    return {
        "peak_bytes": end["peak"] - start["current"],
        "allocated_bytes": end["allocated"] - start["allocated"],
        "driver_allocations": max(end["driver"] - start["driver"], int(end["reserved"] > start["reserved"])),
    }


@contextmanager
def watching_allocations(torch: Any, path: Path, sites: Sequence[Site] = ()) -> Iterator[list[Allocated]]:
    """Record who is given GPU memory during a call; the list is filled when it has ended.

    A profile of its own: torch reports allocations only to a profiler that does not watch all
    threads (2.11 and 2.13), and steps are measured by one that does.

    Args:
        torch: The package.
        path: A file to write and remove.
        sites: What the regions of the call stand for, once it has ended.
    """
    found: list[Allocated] = []
    with quiet():
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        profiler.start()
    try:
        yield found
    finally:
        with quiet():
            profiler.stop()
    profiler.export_chrome_trace(str(path))
    found += allocated_in(path, sites)
    path.unlink()
