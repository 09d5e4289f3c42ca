"""Who was given GPU memory, from a trace of one call that was recorded for that alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..memory import Allocated

_ALLOCATION = "[memory]"
_GPU_TYPES = (1, 6, 12)
"""CUDA, HIP and XPU."""


def allocated_in(path: Path) -> tuple[Allocated, ...]:
    """Return what each chain of ops was given, most bytes first.

    Source:
        Kineto, ``output_json.cpp``, ``[memory]``: ``Bytes`` is negative where memory is given
        back. torch, ``c10/core/DeviceType.h``: the numbers of ``Device Type``.
    """
    events = json.loads(path.read_bytes())["traceEvents"]
    threads: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("cat") == "cpu_op" or _is_gpu_allocation(event):
            threads.setdefault(event["tid"], []).append(event)
    return _together(one for rows in threads.values() for one in _of_thread(rows))


def _is_gpu_allocation(event: dict[str, Any]) -> bool:
    if event.get("name") != _ALLOCATION:
        return False
    args = event["args"]
    return args["Device Type"] in _GPU_TYPES and args["Bytes"] > 0


def _of_thread(rows: list[dict[str, Any]]) -> Iterator[Allocated]:
    """Yield the allocations of a thread, each with the ops that are open at its moment."""
    open_ops: list[tuple[float, str]] = []
    for row in sorted(rows, key=lambda row: (row["ts"], -row.get("dur", 0))):
        now = row["ts"]
        while open_ops and open_ops[-1][0] <= now:
            open_ops.pop()
        if row["name"] == _ALLOCATION:
            args = row["args"]
            yield Allocated(args["Device Id"], args["Bytes"], 1, tuple(name for _, name in open_ops))
        else:
            open_ops.append((now + row["dur"], row["name"]))


def _together(allocated: Iterable[Allocated]) -> tuple[Allocated, ...]:
    """Return what each chain of ops was given on each GPU, most bytes first."""
    sums: dict[tuple[int, tuple[str, ...]], tuple[int, int]] = {}
    for one in allocated:
        size, blocks = sums.get((one.device, one.chain), (0, 0))
        sums[one.device, one.chain] = (size + one.size_bytes, blocks + one.blocks)
    found = [Allocated(device, *numbers, chain) for (device, chain), numbers in sums.items()]
    return tuple(sorted(found, key=lambda one: -one.size_bytes))
