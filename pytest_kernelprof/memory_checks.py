"""Checks of GPU memory, from the statistics of torch's caching allocator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .checks import PASSED, Outcome, Table, Verdict, first_that_decides
from .errors import MisuseError
from .limits import Limit
from .model import Allocated, DeviceMemory, Step
from .units import counted, format_bytes

_FIELDS = {
    "peak_bytes": "above the start of {where} at the peak",
    "allocated_bytes": "allocated in {where}",
}
"""What is measured, and how it reads after a number of bytes."""


Look = Callable[[], Sequence[Allocated]]
"""Calls the function once more to see which ops allocate; empty where that cannot be done."""


def memory(steps: Sequence[Step], field: str, allowed: Limit, device: Any, look: Look) -> Verdict:
    """Check a number of bytes in every step, on the GPU that has most of them.

    Args:
        steps: The steps.
        field: ``peak_bytes`` or ``allocated_bytes``.
        allowed: The limit.
        device: Index of the GPU to look at; ``None`` for whichever has most.
        look: Tells who allocates, where the recording does not.

    Raises:
        MisuseError: *device* is no index of a GPU.
    """
    _check_device(device)
    return _explained(first_that_decides([_of_step(step, field, allowed, device) for step in steps]), steps, look)


def _check_device(device: Any) -> None:
    if device is not None and (isinstance(device, bool) or not isinstance(device, int) or device < 0):
        raise MisuseError(f"device={device!r} is no index of a GPU; accepted: such as 0")


def _of_step(step: Step, field: str, allowed: Limit, device: int | None) -> Verdict:
    expected = f"expected {allowed.words()}"
    found, why = _devices(step, device)
    if why:
        return Verdict(Outcome.NOT_MEASURED, f"memory not measured: {why}; {expected}")
    worst = max(found, key=lambda one: getattr(one, field))
    number = getattr(worst, field)
    if allowed.holds(number, exact=True):
        return PASSED
    where = f"on GPU {worst.device}, " if len(step.memory.devices) > 1 else ""
    told = _FIELDS[field].format(where=step.name)
    return Verdict(Outcome.FAIL, f"{format_bytes(number)} {told}, {where}{expected}", table=_table(found))


def _devices(step: Step, device: int | None) -> tuple[list[DeviceMemory], str | None]:
    """Return the statistics of the GPUs that are asked for, or why there are none."""
    if step.memory.why_not_measured:
        return [], step.memory.why_not_measured
    found = [one for one in step.memory.devices if device in (None, one.device)]
    there = ", ".join(str(one.device) for one in step.memory.devices)
    return found, None if found else f"GPU {device} was not in use; in use: {there}"


def _table(devices: Sequence[DeviceMemory]) -> Table:
    rows = (
        (str(one.device), *map(format_bytes, (one.peak_bytes, one.allocated_bytes)), str(one.driver_allocations))
        for one in devices
    )
    return Table(("GPU", "peak", "allocated", "driver allocations"), tuple(rows))


def no_device_allocation(steps: Sequence[Step], device: Any, look: Look) -> Verdict:
    """Check that in no step the allocator asked the driver for memory; arguments as for `memory`.

    Raises:
        MisuseError: *device* is no index of a GPU.
    """
    _check_device(device)
    return _explained(first_that_decides([_none_of_step(step, device) for step in steps]), steps, look)


def _none_of_step(step: Step, device: int | None) -> Verdict:
    found, why = _devices(step, device)
    if why:
        return Verdict(Outcome.NOT_MEASURED, f"driver allocations not measured: {why}; expected none")
    number = sum(one.driver_allocations for one in found)
    if not number:
        return PASSED
    told = f"{counted(number, 'allocation')} from the driver in {step.name}, expected none"
    return Verdict(Outcome.FAIL, f"{told}: nothing in the cache fitted", table=_table(found))


def _explained(verdict: Verdict, steps: Sequence[Step], look: Look) -> Verdict:
    """Add who allocated to a failure, if a call that told so allocated as much as the steps did."""
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    known = steps[0].memory.allocated
    allocated = known or look()
    if not allocated:
        return verdict
    remark = "the ops are those of the last call of the warm-up" if known else "function was called once more"
    sums = {one.device: 0 for one in steps[0].memory.devices}
    for one in allocated:
        sums[one.device] = sums.get(one.device, 0) + one.size_bytes
    if any({one.device: one.allocated_bytes for one in step.memory.devices} == sums for step in steps):
        return replace(verdict, allocated=allocated, remark=remark)
    return replace(verdict, remark=f"{remark}, and allocated {format_bytes(sum(sums.values()))}, not as the steps did")
