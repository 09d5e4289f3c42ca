"""A trace as plain values: what ``kernelprof show --format json`` prints.

What was not measured is ``None``, never 0. A class that lost events keeps the number seen and
is named in ``incomplete``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..events import GpuEvent, Kernel, Memcpy
from ..eventset import EventSet
from ..model import Step, Trace, union_length
from ..names import decode_kernel

SCHEMA = "kernelprof/summary/1"
"""The name of what `summary` returns; ``schemas/summary-1.schema.json`` in this package describes it."""


def summary(traces: Sequence[Trace]) -> dict[str, Any]:
    """Return the document for *traces*."""
    return {"schema": SCHEMA, "traces": [trace_summary(trace) for trace in traces]}


def trace_summary(trace: Trace) -> dict[str, Any]:
    """Return one trace as plain values."""
    totals = trace.totals
    return {
        "file": trace.path,
        "complete": trace.complete,
        "incomplete": list(trace.incomplete),
        "environment": {**trace.environment._asdict(), "devices": list(trace.environment.devices)},
        "totals": {
            **_counts(totals),
            "ops": _count(totals.ops),
            "orphans": {"leaked": len(trace.orphans.leaked), "late": len(trace.orphans.late)},
            "outside_steps": _count(trace.outside_steps),
            "gpu_time_ns": _time(totals),
            "gpu_busy_ns": _busy(totals),
        },
        "steps": [
            {"name": step.name, **_counts(step), "gpu_time_ns": _time(step), "complete": step.complete}
            for step in trace.steps
        ],
        "regions": _regions(trace),
        "launches": _names(totals.launches.all_calls),
        "ops": _names(totals.ops),
        "kernels": _kernels(totals),
        "copies": _copies(totals),
        "warnings": [warning._asdict() for warning in trace.warnings],
    }


def _count(events: EventSet[Any]) -> int | None:
    return None if events.unknown.nothing else len(events.seen)


def _counts(step: Step) -> dict[str, int | None]:
    return {name: _count(getattr(step, name)) for name in ("kernels", "memcpys", "memsets", "host_syncs")}


def _time(step: Step) -> int | None:
    if step.kernels.unknown.nothing:
        return None
    return _known_time(step.gpu_events)


def _known_time(events: Sequence[GpuEvent]) -> int | None:
    """Return the sum of the times that are known; ``None`` where there are events, and none is."""
    known = [duration for event in events if (duration := event.duration_ns) is not None]
    return None if events and not known else sum(known)


def _busy(step: Step) -> int | None:
    if step.kernels.unknown.nothing:
        return None
    events = step.gpu_events
    spans = [
        (start, start + duration)
        for event in events
        if (start := event.start_ns) is not None and (duration := event.duration_ns) is not None
    ]
    return None if events and not spans else union_length(spans)


def _names(events: EventSet[Any]) -> dict[str, int] | None:
    return None if events.unknown.nothing else dict(Counter(event.name for event in events.seen))


def _regions(trace: Trace) -> list[dict[str, Any]]:
    kernels = trace.totals.kernels
    inside: Counter[str] = Counter()
    unknown = kernels.unknown.nothing
    if trace.region_counts and not unknown:
        for kernel in kernels.seen:
            inside.update(dict.fromkeys(kernel.regions, 1))
            unknown = unknown or (kernel.launch is not None and not kernel.regions_known)
    unplaced = trace.unplaced_regions
    return [
        {
            "name": name,
            "count": number,
            "kernels": None if unknown or name in unplaced or "" in unplaced else inside[name],
        }
        for name, number in trace.region_counts.items()
    ]


def launched_by(event: GpuEvent) -> tuple[str, ...] | None:
    """Return the ops around a launch, outermost first; ``None`` for an orphan."""
    return tuple(op.name for op in event.chain) if event.launch else None


def _kernels(totals: Step) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[Kernel]] = {}
    for kernel in totals.kernels.seen:
        # All but the last: the profiler's occupancy is none of what tells two kernels apart.
        key = (kernel.name, launched_by(kernel), kernel.shape[:-1], kernel.device, kernel.stream)
        groups.setdefault(key, []).append(kernel)
    return [_kernel_row(kernels) for kernels in groups.values()]


def _kernel_row(kernels: list[Kernel]) -> dict[str, Any]:
    first = kernels[0]
    shape = {"name": first.name, "count": len(kernels), **_shape_values(first)}
    return {**shape, "gpu_time_ns": _known_time(kernels), **_meaning_values(first)}


def kernel_values(kernel: Kernel) -> dict[str, Any]:
    """Return what is known of a kernel beside its times."""
    return {"name": kernel.name, **_shape_values(kernel), **_meaning_values(kernel)}


def _shape_values(kernel: Kernel) -> dict[str, Any]:
    return {
        "device": kernel.device,
        "stream": kernel.stream,
        "grid": list(kernel.grid) if kernel.grid else None,
        "block": list(kernel.block) if kernel.block else None,
        "registers_per_thread": kernel.registers_per_thread,
        "shared_memory_bytes": kernel.shared_memory_bytes,
    }


def _meaning_values(kernel: Kernel) -> dict[str, Any]:
    chain = launched_by(kernel)
    decoded = decode_kernel(kernel.name)
    occupancy = kernel.occupancy
    return {
        "role": decoded.role,
        "library": decoded.library,
        "dtypes": list(decoded.dtypes) or None,
        "tensor_cores": decoded.tensor_cores,
        "theoretical_occupancy": None if occupancy is None else occupancy.fraction,
        "occupancy_limited_by": None if occupancy is None else list(occupancy.limited_by),
        "reported_occupancy": kernel.reported_occupancy,
        "launched_by": None if chain is None else list(chain),
    }


def _copies(totals: Step) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[Memcpy]] = {}
    for copy in totals.memcpys.seen:
        groups.setdefault((copy.kind, copy.pageable, launched_by(copy)), []).append(copy)
    return [
        {
            "kind": kind,
            "count": len(copies),
            "bytes": None
            if any(one.size_bytes is None for one in copies)
            else sum(one.size_bytes or 0 for one in copies),
            "pageable": pageable,
            "launched_by": None if chain is None else list(chain),
        }
        for (kind, pageable, chain), copies in groups.items()
    ]
