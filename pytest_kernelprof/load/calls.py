"""What the names of runtime and driver calls mean.

Source: the CUDA runtime and driver API references, the HIP runtime API reference and the Unified
Runtime specification; the names that Kineto writes are the functions' own, with the suffixes of
their versions (``_v2``, ``_ptsz``, ``_spt``).
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache


class CallKind(Enum):
    """What a call does, as far as counting goes."""

    KERNEL_LAUNCH = "kernel launch"
    GRAPH_LAUNCH = "graph launch"
    COPY = "copy"
    SET = "set"
    OTHER = "other"


LAUNCHES = (CallKind.KERNEL_LAUNCH, CallKind.GRAPH_LAUNCH)
MOVING = (CallKind.COPY, CallKind.SET)

_VERSIONS = ("ptsz", "ptds", "spt")

_KERNEL_LAUNCHES = frozenset(
    (
        *(f"cudaLaunch{how}Kernel{more}" for how in ("", "Cooperative") for more in ("", "ExC", "MultiDevice")),
        *(f"cuLaunch{how}Kernel{more}" for how in ("", "Cooperative") for more in ("", "Ex", "MultiDevice")),
        *("cudaLaunch", "cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync"),
        *(
            f"hip{kind}{module}Launch{how}{what}{more}"
            for kind in ("", "Ext", "Hcc")
            for module in ("", "Module")
            for how in ("", "Cooperative")
            for what in ("Kernel", "MultiKernel")
            for more in ("", "ExC", "Ex", "MultiDevice")
        ),
        *("hipDrvLaunchKernelEx", "hipLaunchByPtr"),
    )
)
_XPU_LAUNCHES = tuple(
    f"{layer}{how}KernelLaunch" for layer in ("urEnqueue", "piEnqueue", "piextEnqueue") for how in ("", "Cooperative")
)
_GRAPH_LAUNCHES = frozenset(
    ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch", "urEnqueueGraphExp", "urCommandBufferEnqueueExp")
)
_COPIES = ("cudaMemcpy", "cuMemcpy", "hipMemcpy")
_XPU_COPIES = (
    *("urEnqueueUSMMemcpy", "urEnqueueMemBufferCopy", "urEnqueueMemBufferRead", "urEnqueueMemBufferWrite"),
    *("piextUSMEnqueueMemcpy", "piEnqueueMemBufferCopy", "piEnqueueMemBufferRead", "piEnqueueMemBufferWrite"),
)
_SETS = (
    *("cudaMemset", "cuMemset", "hipMemset", "urEnqueueUSMFill", "urEnqueueMemBufferFill"),
    *("piextUSMEnqueueFill", "piextUSMEnqueueMemset", "piEnqueueMemBufferFill"),
)
_WAITS = frozenset(
    (
        *(f"{api}{what}Synchronize" for api in ("cuda", "hip") for what in ("Stream", "Device", "Event", "Thread")),
        *("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"),
        *("urQueueFinish", "urEventWait", "piQueueFinish", "piEventsWait"),
    )
)
_CAPTURES = tuple(f"{api}Stream{boundary}Capture" for api in ("cuda", "cu", "hip") for boundary in ("Begin", "End"))
_PROFILER_WAITS = ("cudaDeviceSynchronize", "hipDeviceSynchronize")


def _unversioned(name: str) -> str:
    """Return a name without the suffixes of its version."""
    base, _, suffix = name.rpartition("_")
    while base and (suffix in _VERSIONS or (suffix[:1] == "v" and suffix[1:].isdecimal())):
        name = base
        base, _, suffix = name.rpartition("_")
    return name


@lru_cache(maxsize=1024)
def call_kind(name: str) -> CallKind:
    """Return what the call *name* does."""
    plain = _unversioned(name)
    if plain in _KERNEL_LAUNCHES or plain.startswith(_XPU_LAUNCHES):
        return CallKind.KERNEL_LAUNCH
    if plain in _GRAPH_LAUNCHES:
        return CallKind.GRAPH_LAUNCH
    if plain.startswith((*_COPIES, *_XPU_COPIES)):
        return CallKind.COPY
    return CallKind.SET if plain.startswith(_SETS) else CallKind.OTHER


@lru_cache(maxsize=1024)
def is_host_sync(name: str) -> bool:
    """Return whether the call *name* makes the CPU wait.

    ``cudaMemcpyAsync`` never does here: what it waits for, if anything, is not in its name.
    """
    return _unversioned(name) in _WAITS or (name.startswith(_COPIES) and "Async" not in name)


def may_block_untold(name: str) -> bool:
    """Return whether the call may or may not wait, which no trace tells: copies on XPU."""
    return name.startswith(_XPU_COPIES)


def ends_a_profile(name: str) -> bool:
    """Return whether torch.profiler makes this call itself when it stops."""
    return name in _PROFILER_WAITS


def capture_boundary(name: str) -> str | None:
    """Return ``Begin`` or ``End`` for a call that opens or closes stream capture."""
    if not name.startswith(_CAPTURES):
        return None
    return "Begin" if "StreamBeginCapture" in name else "End"
