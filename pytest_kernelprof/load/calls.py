"""What the names of runtime and driver calls mean.

Source: the CUDA runtime and driver API references, the HIP runtime API reference and the Unified
Runtime specification; the names that Kineto writes are the functions' own, with the suffixes of
their versions (``_v2``, ``_ptsz``, ``_spt``).
"""

from __future__ import annotations

import re
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

_SUFFIX = r"(?:_v\d+|_ptsz|_ptds|_spt)*$"
_LAUNCHES = re.compile(
    r"(?:cudaLaunch(?:Cooperative)?Kernel(?:ExC|MultiDevice)?|cudaLaunch"
    r"|cuLaunch(?:Cooperative)?Kernel(?:Ex|MultiDevice)?|cuLaunch(?:Grid(?:Async)?)?"
    r"|hip(?:Ext|Hcc)?(?:Module)?Launch(?:Cooperative)?(?:MultiKernel|Kernel)(?:ExC|Ex|MultiDevice)?"
    r"|hipExtLaunchMultiKernelMultiDevice|hipDrvLaunchKernelEx|hipLaunchByPtr"
    r"|urEnqueue(?:Cooperative)?KernelLaunch\w*|pi(?:ext)?Enqueue(?:Cooperative)?KernelLaunch\w*)" + _SUFFIX
)
_GRAPH_LAUNCHES = re.compile(
    r"(?:cuda|cu|hip)GraphLaunch" + _SUFFIX + r"|urEnqueueGraphExp$|urCommandBufferEnqueueExp$"
)
_COPIES = re.compile(
    r"(?:cuda|cu|hip)Memcpy\w*$|urEnqueue(?:USMMemcpy|MemBuffer(?:Copy|Read|Write))\w*$"
    r"|pi(?:ext)?(?:USM)?Enqueue(?:Memcpy|MemBuffer(?:Copy|Read|Write))\w*$"
)
_SETS = re.compile(
    r"(?:cuda|cu|hip)Memset\w*$|urEnqueue(?:USMFill|MemBufferFill)\w*$"
    r"|pi(?:ext)?(?:USM)?Enqueue(?:Fill|Memset|MemBufferFill)\w*$"
)
_WAITS = re.compile(
    r"(?:cuda|hip)(?:Stream|Device|Event|Thread)Synchronize"
    + _SUFFIX
    + r"|cu(?:Stream|Ctx|Event)Synchronize"
    + _SUFFIX
    + r"|urQueueFinish$|urEventWait$|piQueueFinish$|piEventsWait$"
)
_BLOCKING_COPY = re.compile(r"(?:cuda|cu|hip)Memcpy(?!\w*Async)\w*$")
_CAPTURE = re.compile(r"(?:cuda|cu|hip)Stream(Begin|End)Capture\w*$")
_XPU_COPY = re.compile(r"urEnqueue(?:USMMemcpy|MemBuffer)|pi(?:ext)?(?:USM)?Enqueue(?:Memcpy|MemBuffer)")
_PROFILER_WAITS = ("cudaDeviceSynchronize", "hipDeviceSynchronize")


@lru_cache(maxsize=1024)
def call_kind(name: str) -> CallKind:
    """Return what the call *name* does."""
    for kind, pattern in (
        (CallKind.KERNEL_LAUNCH, _LAUNCHES),
        (CallKind.GRAPH_LAUNCH, _GRAPH_LAUNCHES),
        (CallKind.COPY, _COPIES),
        (CallKind.SET, _SETS),
    ):
        if pattern.match(name):
            return kind
    return CallKind.OTHER


@lru_cache(maxsize=1024)
def is_host_sync(name: str) -> bool:
    """Return whether the call *name* makes the CPU wait.

    ``cudaMemcpyAsync`` never does here: what it waits for, if anything, is not in its name.
    """
    return bool(_WAITS.match(name) or _BLOCKING_COPY.match(name))


def may_block_untold(name: str) -> bool:
    """Return whether the call may or may not wait, which no trace tells: copies on XPU."""
    return bool(_XPU_COPY.match(name))


def ends_a_profile(name: str) -> bool:
    """Return whether torch.profiler makes this call itself when it stops."""
    return name in _PROFILER_WAITS


def capture_boundary(name: str) -> str | None:
    """Return ``Begin`` or ``End`` for a call that opens or closes stream capture."""
    match = _CAPTURE.match(name)
    return match[1] if match else None
