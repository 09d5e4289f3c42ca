"""Other processes on a GPU."""

from __future__ import annotations

import os
from typing import Any

from ..driver import compute_processes


def neighbour_on(torch: Any, index: int) -> str | None:
    """Return who else has a CUDA context on a GPU, in words; ``None`` if nobody is known to.

    An idle context counts as well: whether it was idle all the time, nothing tells. In a container
    the ids of processes may be those of the host; then all that is known is how many there are.

    Args:
        torch: The package.
        index: Index of the GPU in this process.
    """
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    found = compute_processes(f"GPU-{uuid}") if uuid is not None and torch.version.hip is None else None
    others = [pid for pid in found or () if pid != os.getpid()]
    if found and len(others) == len(found):
        others = others[1:]  # One of them is this process, under another id.
        return f"{len(found)} processes use GPU {index}" if others else None
    return f"another process (pid {others[0]}) uses GPU {index} too" if others else None
