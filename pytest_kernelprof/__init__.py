"""Assert on what the GPU really did.

The fixtures need no import. These names are for annotations, for catching errors and for reading
traces; they are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .count import Count
    from .errors import (
        BudgetError,
        CaptureError,
        KernelprofError,
        LedgerError,
        MisuseError,
        NotMeasured,
        ReplayError,
        SelectorError,
        TooNoisy,
        TraceError,
    )
    from .events import Call, Kernel, Memcpy, Memset, Op
    from .eventset import EventSet
    from .hints import Hint
    from .load import load_trace
    from .model import Step, Trace
    from .names import KernelName, decode_kernel
    from .occupancy import Occupancy, theoretical_occupancy
    from .profile import Profile
    from .profiled import Profiled

__all__ = [
    "BudgetError",
    "Call",
    "CaptureError",
    "Count",
    "EventSet",
    "Hint",
    "Kernel",
    "KernelName",
    "KernelprofError",
    "LedgerError",
    "Memcpy",
    "Memset",
    "MisuseError",
    "NotMeasured",
    "Occupancy",
    "Op",
    "Profile",
    "Profiled",
    "ReplayError",
    "SelectorError",
    "Step",
    "TooNoisy",
    "Trace",
    "TraceError",
    "decode_kernel",
    "load_trace",
    "theoretical_occupancy",
]

_HOMES = {
    **dict.fromkeys(
        (
            "BudgetError",
            "CaptureError",
            "KernelprofError",
            "LedgerError",
            "MisuseError",
            "NotMeasured",
            "ReplayError",
            "SelectorError",
            "TooNoisy",
            "TraceError",
        ),
        "errors",
    ),
    **dict.fromkeys(("Call", "Kernel", "Memcpy", "Memset", "Op"), "events"),
    "EventSet": "eventset",
    "Hint": "hints",
    **dict.fromkeys(("Step", "Trace"), "model"),
    **dict.fromkeys(("KernelName", "decode_kernel"), "names"),
    **dict.fromkeys(("Occupancy", "theoretical_occupancy"), "occupancy"),
    "Count": "count",
    "Profile": "profile",
    "Profiled": "profiled",
    "load_trace": "load",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
