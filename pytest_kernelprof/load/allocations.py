"""Who was given GPU memory, from a trace of one call that was recorded for that alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..memory import Allocated
from ..sites import Site
from .own import SITE_PREFIX

_ALLOCATION = "[memory]"
_GPU_TYPES = (1, 6, 12)
"""CUDA, HIP and XPU."""


def allocated_in(path: Path, sites: Sequence[Site] = ()) -> tuple[Allocated, ...]:
    """Return what each chain of ops was given, most bytes first.

    Args:
        path: The trace.
        sites: What its regions stand for, if they stand for lines of Python.

    Source:
        Kineto, ``output_json.cpp``, ``[memory]``: ``Bytes`` is negative where memory is given
        back. torch, ``c10/core/DeviceType.h``: the numbers of ``Device Type``.
    """
    events = json.loads(path.read_bytes())["traceEvents"]
    regions = {f"{SITE_PREFIX}{number}": site for number, site in enumerate(sites)}
    threads: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("cat") == "cpu_op" or event.get("name") in regions or _is_gpu_allocation(event):
            threads.setdefault(event["tid"], []).append(event)
    return _together(one for rows in threads.values() for one in _of_thread(rows, regions))


def _is_gpu_allocation(event: dict[str, Any]) -> bool:
    if event.get("name") != _ALLOCATION:
        return False
    args = event["args"]
    return args["Device Type"] in _GPU_TYPES and args["Bytes"] > 0


def _of_thread(rows: list[dict[str, Any]], regions: dict[str, Site]) -> Iterator[Allocated]:
    """Yield the allocations of a thread, each with the ops that are open at its moment."""
    opened: list[tuple[float, str]] = []
    for row in sorted(rows, key=lambda row: (row["ts"], -row.get("dur", 0))):
        now = row["ts"]
        while opened and opened[-1][0] <= now:
            opened.pop()
        if row["name"] == _ALLOCATION:
            args = row["args"]
            chain = tuple(name for _, name in opened if name not in regions)
            site = next((regions[name] for _, name in reversed(opened) if name in regions), None)
            yield Allocated(args["Device Id"], args["Bytes"], 1, chain, site)
        else:
            opened.append((now + row["dur"], row["name"]))


def _together(allocated: Iterable[Allocated]) -> tuple[Allocated, ...]:
    """Return what each chain of ops was given on each GPU, most bytes first."""
    sums: dict[tuple[int, tuple[str, ...], Site | None], tuple[int, int]] = {}
    for one in allocated:
        key = (one.device, one.chain, one.site and one.site.line_only())
        size, blocks = sums.get(key, (0, 0))
        sums[key] = (size + one.size_bytes, blocks + one.blocks)
    found = [Allocated(device, *numbers, chain, site) for (device, chain, site), numbers in sums.items()]
    return tuple(sorted(found, key=lambda one: -one.size_bytes))
