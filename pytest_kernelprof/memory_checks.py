"""Checks of GPU memory, from the statistics of torch's caching allocator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .checks import PASSED, Outcome, Table, Verdict, first_that_decides
from .errors import MisuseError
from .limits import Limit
from .memory import Allocated, DeviceMemory
from .model import Step
from .units import counted, format_bytes

_TOLD: dict[str, Callable[[int, str], str]] = {
    "peak_bytes": lambda number, step: f"{format_bytes(number)} above the start of {step} at the peak",
    "allocated_bytes": lambda number, step: f"{format_bytes(number)} allocated in {step}",
    "driver_allocations": lambda number, step: f"{counted(number, 'allocation')} from the driver in {step}",
}
"""What can be limited, and how it reads: fields of `DeviceMemory`."""

Look = Callable[[], tuple[Sequence[Allocated], str]]
"""Returns who was given GPU memory, nobody if that is not known, and where that is from, as a sentence."""


def memory(steps: Sequence[Step], field: str, allowed: Limit, device: Any, look: Look) -> Verdict:
    """Check a number in every step, on the GPU that has most of it.

    Args:
        steps: The steps.
        field: What is limited, one of `DeviceMemory`.
        allowed: The limit.
        device: Index of the GPU to look at; ``None`` for whichever has most.
        look: Tells who allocates; only a failure asks.

    Raises:
        MisuseError: *device* is no index of a GPU.
    """
    if device is not None and (isinstance(device, bool) or not isinstance(device, int) or device < 0):
        raise MisuseError(f"device={device!r} is no index of a GPU; accepted: a whole number of at least 0")
    verdict = first_that_decides([_of_step(step, field, allowed, device) for step in steps])
    verdict = replace(verdict, topic=field)
    return _explained(verdict, steps, look) if verdict.outcome is Outcome.FAIL else verdict


def _of_step(step: Step, field: str, allowed: Limit, device: int | None) -> Verdict:
    expected = f"expected {allowed.words()}"
    found, why = _devices(step, device)
    if why:
        return Verdict(Outcome.NOT_MEASURED, f"memory not measured: {why}; {expected}")
    most = max(found, key=lambda one: getattr(one, field))
    number: int = getattr(most, field)
    if allowed.holds(number, exact=True):
        return PASSED
    where = f" on GPU {most.device}" if len(_known(step)) > 1 else ""
    return Verdict(
        Outcome.FAIL,
        f"{_TOLD[field](number, step.name)}{where}, {expected}{allowed.in_full(number)}",
        table=_table(found),
    )


def _devices(step: Step, device: int | None) -> tuple[list[DeviceMemory], str | None]:
    """Return the statistics of the GPUs that are asked for, or why there are none."""
    if step.why_no_memory:
        return [], step.why_no_memory
    found = [one for one in _known(step) if device in (None, one.device)]
    there = ", ".join(str(one.device) for one in _known(step))
    return found, None if found else f"GPU {device} was not in use; in use: {there}"


def _known(step: Step) -> tuple[DeviceMemory, ...]:
    return step.memory.devices if step.memory else ()


def _table(devices: Sequence[DeviceMemory]) -> Table:
    rows = (
        (str(one.device), *map(format_bytes, (one.peak_bytes, one.allocated_bytes)), str(one.driver_allocations))
        for one in devices
    )
    return Table(("GPU", "peak", "allocated", "driver allocations"), tuple(rows))


def _explained(verdict: Verdict, steps: Sequence[Step], look: Look) -> Verdict:
    """Add who allocated, if the call that tells allocated as much as a step did."""
    allocated, source = look()
    if not allocated:
        return verdict
    sums = {one.device: 0 for one in _known(steps[0])}
    for one in allocated:
        sums[one.device] = sums.get(one.device, 0) + one.size_bytes
    if any({one.device: one.allocated_bytes for one in _known(step)} == sums for step in steps):
        return replace(verdict, allocated=allocated, remark=source)
    total = format_bytes(sum(sums.values()))
    return replace(verdict, remark=f"{source}, which allocated {total}, not as the steps did")
