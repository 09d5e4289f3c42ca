"""GPU rows to kernels, copies and memsets."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec

from ..events import Call, GpuEvent, Kernel, Memcpy, Memset
from .reading import NO_ARGS, Args, Row, integer, nanoseconds, triple

GpuWork = Kernel | Memcpy | Memset

_DIRECTION = re.compile(r"\b([HDAP]to[HDAP])\b")
_LONG_DIRECTION = re.compile(
    r"(Host|Device|Pinned|Pageable|Managed|Array)\s*(?:->|To)\s*(Host|Device|Pinned|Pageable|Managed|Array)"
)
_XPU_DIRECTION = re.compile(r"\b([HMD])2([HMD])\b")
_MEMORY = re.compile(r"\((\w+) -> (\w+)\)")


def gpu_event(kind: str, row: Row, calls: dict[int, Call]) -> GpuWork:
    """Return the event that a GPU row describes.

    Args:
        kind: ``kernel``, ``memcpy`` or ``memset``.
        row: The row.
        calls: Runtime and driver calls by correlation id.

    Source:
        Kineto, ``output_json.cpp`` and ``CuptiActivity.cpp``: the arguments of GPU rows.
    """
    args = row.args or NO_ARGS
    correlation_id = integer(args.correlation)
    # Kineto writes 0 where the GPU gave no time; nothing starts at the trace's zero.
    start_ns = nanoseconds(row.ts) or None
    duration_ns = nanoseconds(row.dur)
    known = start_ns is not None and duration_ns is not None and duration_ns >= 0
    common: dict[str, Any] = {
        "name": row.name or "(no name)",
        "start_ns": start_ns,
        "duration_ns": duration_ns if known else None,
        "device": integer(args.device),
        "stream": integer(args.stream),
        "correlation_id": correlation_id,
        "launch": calls.get(correlation_id) if correlation_id is not None else None,
    }
    if kind == "memcpy":
        return Memcpy(
            **common,
            kind=copy_kind(common["name"]),
            size_bytes=_size(args),
            pageable=pageable(common["name"]),
        )
    if kind == "memset":
        return Memset(**common, size_bytes=_size(args))
    return Kernel(
        **common,
        grid=triple(args.grid),
        block=triple(args.block),
        registers_per_thread=integer(args.registers_per_thread),
        shared_memory_bytes=integer(args.shared_memory),
        reported_occupancy_percent=_occupancy(args),
    )


def _size(args: Args) -> int | None:
    size = integer(args.bytes)
    return size if size is not None and size >= 0 else None


def _occupancy(args: Args) -> float | None:
    for value in (args.achieved_occupancy, args.theoretical_occupancy):  # Its name before May 2021.
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


def copy_kind(name: str) -> str | None:
    """Return the direction of a copy, such as ``DtoH``; ``None`` if its name does not tell.

    Source:
        Kineto, ``CuptiActivity.cpp`` (``Memcpy DtoH (Device -> Pinned)``), ``RocprofActivity``
        (``CopyDeviceToHost``), ``XpuptiActivity`` (``Memcpy M2D``, M being host memory).
    """
    short = _DIRECTION.search(name)
    if short:
        return short[1]
    long = _LONG_DIRECTION.search(name)
    if long:
        return f"{_letter(long[1])}to{_letter(long[2])}"
    xpu = _XPU_DIRECTION.search(name)
    if xpu:
        return f"{xpu[1].replace('M', 'H')}to{xpu[2].replace('M', 'H')}"
    return None


def _letter(memory: str) -> str:
    return "H" if memory in ("Pinned", "Pageable", "Host") else memory[0].replace("M", "D")


def pageable(name: str) -> bool | None:
    """Return whether host memory that is not pinned takes part in the copy *name*.

    ``None`` where the name says no more than ``Host``: ROCm does not tell.
    """
    memory = _MEMORY.search(name)
    if not memory:
        return None if copy_kind(name) != "DtoD" else False
    if "Pageable" in memory.groups():
        return True
    return None if any(word in ("Host", "Unknown") for word in memory.groups()) else False


def stream_key(event: GpuEvent) -> tuple[int | None, int | None]:
    """Return what identifies the queue that the event ran in."""
    return event.device, event.stream


def launch_order(event: GpuEvent) -> tuple[int, int]:
    """Sort by launch, then by start: streams race, launches do not."""
    start = event.start_ns or 0
    return (event.launch.start_ns if event.launch else start), start


def with_next_kernels(events: Iterable[GpuWork]) -> list[GpuWork]:
    """Return the events; each Memset knows the kernel that follows at once on its stream.

    Where a row of the stream has no time, or any row no stream, nobody knows what follows.
    """
    events = list(events)
    streams: dict[object, list[GpuWork]] = defaultdict(list)
    for event in events:
        streams[stream_key(event)].append(event)
    blind = {key for key, stream in streams.items() if any(event.start_ns is None for event in stream)}
    everywhere = any(event.stream is None for event in events)
    following = {
        id(event): after
        for stream in streams.values()
        for event, after in pairwise(sorted(stream, key=lambda event: event.start_ns or 0))
    }

    def completed(event: GpuWork) -> GpuWork:
        if not isinstance(event, Memset):
            return event
        after = following.get(id(event))
        name = after.name if isinstance(after, Kernel) else None
        known = not everywhere and stream_key(event) not in blind
        return msgspec.structs.replace(event, next_kernel=name, next_known=known)

    return [completed(event) for event in events]
