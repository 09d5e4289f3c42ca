"""The keywords that pick events, and what an assertion reads through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from .checks import Reading
from .errors import MisuseError, instead
from .eventset import EventSet, Selection
from .model import Step


class Selectors(TypedDict, total=False):
    """Keywords that every assertion on events takes; see `Selection` for their meaning."""

    named: str
    matching: str
    launched_by: str
    region: str
    stream: int
    role: str
    allow_empty: bool


def selection(selectors: Selectors) -> Selection:
    """Return what keywords ask for.

    Raises:
        MisuseError: One of them does not exist, or has a value that is not accepted.
    """
    known = Selection._fields
    for name in selectors:
        if name not in known:
            raise MisuseError(f"{name}= is no selector; {instead(name, sorted(known), '{}=')}")
    return Selection(**selectors)


def reading(
    steps: Sequence[Step],
    class_name: str,
    selectors: Selectors | None = None,
    *,
    may_differ: bool,
    alike_by: str = "",
    part: Callable[[Step], EventSet[Any]] | None = None,
) -> Reading:
    """Return one class of events of all steps, narrowed.

    Args:
        steps: The steps.
        class_name: Such as ``kernels``.
        selectors: What narrows it.
        may_differ: Every step has to satisfy a limit by itself.
        alike_by: Who says that steps must be alike, if somebody does.
        part: Returns the events of a step, instead of those of the class.
    """
    __tracebackhide__ = True
    whole = tuple(part(step) if part else getattr(step, class_name) for step in steps)
    found = Reading(tuple(step.name for step in steps), whole, whole, may_differ, alike_by=alike_by)
    return found.select(selection(selectors)) if selectors else found


def gpu_readings(steps: Sequence[Step], selectors: Selectors, *, may_differ: bool, alike_by: str = "") -> list[Reading]:
    """Return kernels, copies and Memsets, or the kernels alone if a role is asked for."""
    __tracebackhide__ = True
    classes = ("kernels",) if "role" in selectors else ("kernels", "memcpys", "memsets")
    return [reading(steps, name, selectors, may_differ=may_differ, alike_by=alike_by) for name in classes]
