"""torch.profiler to trace file. The only package that imports torch, inside functions."""

from __future__ import annotations

from .calls import BlockCapture, Target, profile_alternately, profile_calls, see_allocations, see_lines
from .checkup import Machine, machine, profile_something
from .devices import Health, check_health, create_context, cuda_has_begun, device_of, import_torch, missing_device

__all__ = [
    "BlockCapture",
    "Health",
    "Machine",
    "Target",
    "check_health",
    "create_context",
    "cuda_has_begun",
    "device_of",
    "import_torch",
    "machine",
    "missing_device",
    "profile_alternately",
    "profile_calls",
    "profile_something",
    "see_allocations",
    "see_lines",
]
