"""Questions to NVIDIA's driver that torch cannot answer without another package, or only once CUDA runs.

Source:
    NVML API reference, ``nvmlDeviceGetComputeRunningProcesses_v3`` and the calls before it; CUDA
    Driver API, ``cuDeviceGetCount``. The libraries are parts of the driver; where they are missing
    or refuse, the answer is ``None``.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

_LIBRARY, _CUDA = ("nvml.dll", "nvcuda.dll") if sys.platform == "win32" else ("libnvidia-ml.so.1", "libcuda.so.1")
_NOT_INITIALIZED = 3
"""``CUDA_ERROR_NOT_INITIALIZED``."""
_MOST_PROCESSES = 256


class _Process(ctypes.Structure):
    """``nvmlProcessInfo_t``."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@lru_cache(maxsize=1)
def _library() -> Any:
    """Return the library, ready for questions; ``None`` if there is none."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        return library if library.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):
        return None


def cuda_has_begun() -> bool:
    """Return whether the driver runs in this process: from then on nobody can change which GPUs it sees.

    Counting GPUs is enough to start it, long before torch says that CUDA is initialized.
    """
    count = ctypes.c_int()
    try:
        answer: int = ctypes.CDLL(_CUDA).cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError):
        return False
    return answer != _NOT_INITIALIZED


def device_count() -> int | None:
    """Return how many NVIDIA GPUs the machine has, without starting CUDA."""
    library, count = _library(), ctypes.c_uint()
    if library is None or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return None
    return count.value


def compute_processes(uuid: str) -> list[int] | None:
    """Return the ids of the processes that have a CUDA context on a GPU.

    Args:
        uuid: Of the GPU, such as ``GPU-8f2...``.
    """
    library, handle = _library(), ctypes.c_void_p()
    if library is None or library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) != 0:
        return None
    count, found = ctypes.c_uint(_MOST_PROCESSES), (_Process * _MOST_PROCESSES)()
    try:
        failed = library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found)
    except AttributeError:  # A driver before 510.
        return None
    return None if failed else [found[place].pid for place in range(count.value)]
