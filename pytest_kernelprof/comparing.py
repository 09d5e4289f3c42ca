"""Two functions that are called alternately, and which of them is faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from .checks import Outcome, Reading, Verdict, agreement, first_that_decides
from .errors import MisuseError
from .eventset import Selection
from .judging import Judge
from .memory import Allocated
from .model import Step, Trace
from .selecting import Selectors, gpu_readings, reading, selection
from .time_checks import Side, Times, cpu_times, expected_factor, faster_than, gpu_times, other_work


class Repeatable(Protocol):
    """What a profile is of, as long as it can be called again.

    Attributes:
        name: What to call it.
    """

    @property
    def name(self) -> str:
        """What to call it."""

    def alternate(self, other: Repeatable, rounds: Rounds) -> Alternation:
        """Call this and another one in turn, so many times each."""

    def allocated(self, *, compiled: bool) -> Sequence[Allocated]:
        """Return who is given GPU memory by one more call; empty where that cannot be done."""


class Rounds(NamedTuple):
    """How often each of two functions is called.

    Attributes:
        number: So often.
        asked: The user said so; a recording with another number will not do.
    """

    number: int
    asked: bool


class Alternation(NamedTuple):
    """What was measured while two functions were called alternately.

    Attributes:
        halves: The steps of the one, and those of the other.
        judge: Raises verdicts on them.
    """

    halves: tuple[Trace, Trace]
    judge: Judge


class Compared(NamedTuple):
    """A profile that is compared with another.

    Attributes:
        steps: Its steps.
        regions: What it was narrowed to.
        may_differ: Its steps may differ, and later calls too.
        repeatable: What it is of; ``None`` if that cannot be called again.
    """

    steps: tuple[Step, ...]
    regions: tuple[Selection, ...]
    may_differ: bool
    repeatable: Repeatable | None


Clock = Callable[[Sequence[Step], Trace, bool], tuple[Times, list[Reading]]]
"""Returns the times of steps, and the events in which these must agree; is given their trace, and whether they may
differ."""


def clock_of(on: Any, selectors: Selectors) -> Clock:
    """Return what measures: GPU time of the chosen events, or CPU time of the calls or of a region.

    Raises:
        MisuseError: There is no such clock, or it cannot choose so.
    """
    if on not in ("gpu", "cpu"):
        raise MisuseError(f"assert_faster_than(on={on!r}) is no clock; accepted: 'gpu' or 'cpu'")
    if on == "cpu" and set(selectors) - {"region", "allow_empty"}:
        raise MisuseError("assert_faster_than(on='cpu') takes no selector but region=")
    chosen = selection(selectors)

    def gpu(steps: Sequence[Step], trace: Trace, may_differ: bool) -> tuple[Times, list[Reading]]:
        readings = gpu_readings(steps, selectors, may_differ=may_differ)
        return gpu_times(readings, trace.shared_gpu), readings

    def cpu(steps: Sequence[Step], _: Trace, may_differ: bool) -> tuple[Times, list[Reading]]:
        timed = steps if chosen.region is None else [step.timed_in(chosen) for step in steps]
        ops = reading(steps, "ops", may_differ=may_differ)
        # Ops that nobody watched say nothing about the time of those that were.
        known = not any(events.why_not_measured for events in ops.whole)
        return cpu_times(timed, chosen.region), [ops] if known else []

    return gpu if on == "gpu" else cpu


def compare(fast: Compared, slow: Compared, rounds: Rounds, by: float, clock: Clock) -> tuple[Verdict, Judge | None]:
    """Call two functions alternately, and check that the one is at least *by* times as fast as the other.

    Returns:
        The verdict, and who is to raise it: the trace that it is about is that of these calls.
        ``None`` where there were none.
    """
    __tracebackhide__ = True
    if fast.repeatable is None or slow.repeatable is None:
        return _not_compared("blocks and recorded traces cannot be called alternately", by), None
    found = fast.repeatable.alternate(slow.repeatable, rounds)
    sides: list[Side] = []
    verdicts: list[Verdict] = []
    for profile, name, trace in zip(
        (fast, slow), (fast.repeatable.name, slow.repeatable.name), found.halves, strict=True
    ):
        steps = trace.steps
        for region in profile.regions:
            steps = tuple(step.select(region) for step in steps)
        changed = other_work(name, profile.steps, steps)
        if changed:
            return _not_compared(changed, by), found.judge
        times, readings = clock(steps, trace, profile.may_differ)
        verdicts += map(agreement, readings)
        words = ", ".join(repr(region.region) for region in profile.regions)
        sides.append(Side(f"{name} (region {words})" if words else name, times))
    return first_that_decides([faster_than(sides[0], sides[1], by), *verdicts]), found.judge


def _not_compared(why: str, by: float) -> Verdict:
    return Verdict(Outcome.NOT_MEASURED, f"time not measured: {why}; {expected_factor(by)}")
