"""Checks of time. A verdict is given only where the spread of what was measured allows one.

Times of one function vary from call to call, and from one run to the next by more; so a number is
the median over steps, and stands with the interval in which the true median lies (`spread`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

from .checks import PASSED, Outcome, Reading, Table, Verdict, agreement, disagreement, first_that_decides
from .errors import MisuseError, NotMeasured
from .events import Event, GpuEvent
from .limits import Limit
from .model import Step
from .spread import Spread, spread_of
from .units import counted, format_ns

FEWEST_ROUNDS = 14
"""With fewer pairs of calls, chance alone too often lets one side win all of them."""
ROUNDS = 30
"""How often each side is called, unless the user says so."""
_MORE = "steps= takes more"


class Times(NamedTuple):
    """How long something took, step by step.

    Attributes:
        what: What took so long, such as ``GPU time``.
        values: In nanoseconds, one a step.
        untold: Why some are lower bounds only; ``None`` if all are exact.
        shared: Who else used the GPU meanwhile; ``None`` if nobody is known to have.
        suffix: How the events were chosen, in brackets, or nothing.
    """

    what: str
    values: tuple[int, ...]
    untold: str | None = None
    shared: str | None = None
    suffix: str = ""


def gpu_times(readings: Sequence[Reading], shared: str | None) -> Times:
    """Return the GPU time of the chosen events of each step.

    Args:
        readings: Kernels, copies and Memsets, or those of them that are asked for.
        shared: Who else used the GPU.
    """
    values = []
    untold: str | None = None
    for place in range(len(readings[0].steps)):
        events = [reading.chosen[place] for reading in readings]
        seen: list[GpuEvent] = [event for chosen in events for event in chosen.seen]
        values.append(sum(event.duration_ns or 0 for event in seen))
        whys = [chosen.why_not_measured for chosen in events if chosen.why_not_measured]
        whys += [f"{event.name} has no duration in the trace" for event in seen if event.duration_ns is None]
        untold = untold or next(iter(whys), None)
    return Times("GPU time", tuple(values), untold, shared, readings[0].suffix())


def cpu_times(steps: Sequence[Step], region: str | None) -> Times:
    """Return the CPU time of each step, or of the regions to which the steps are narrowed.

    Args:
        steps: The steps.
        region: What they are narrowed to, for the words.
    """
    suffix = f" (region {region!r})" if region else ""
    try:
        return Times("CPU time", tuple(step.cpu_time_ns for step in steps), None, None, suffix)
    except NotMeasured as error:
        return Times("CPU time", (0,) * len(steps), str(error).partition(": ")[2], None, suffix)


def within(times: Times, allowed: Limit, readings: Sequence[Reading] = ()) -> Verdict:
    """Check the median of times against a limit.

    Args:
        times: What was measured.
        allowed: The limit, in nanoseconds.
        readings: The events whose times they are: there must be some, and the steps must agree in them.
    """
    return first_that_decides([_within(times, allowed, readings), *map(agreement, readings)])


def _within(times: Times, allowed: Limit, readings: Sequence[Reading]) -> Verdict:
    expected = f"expected {allowed.words()}{times.suffix}"
    spread = spread_of(times.values)
    measured = f"{times.what} {_words(spread, times)}"
    evidence: list[Event] = [event for reading in readings for event in reading.chosen[0].seen]
    too_slow = spread is not None and allowed.high is not None and spread.low > allowed.high
    if times.untold:
        if too_slow and not times.shared:  # What is missing would only add to it.
            return Verdict(Outcome.FAIL, f"{measured} at least, {expected}", evidence)
        return Verdict(Outcome.NOT_MEASURED, f"{times.what} not measured: {times.untold}; {expected}")
    if readings and not any(events.seen for reading in readings for events in reading.chosen):
        return Verdict(Outcome.FAIL, f"no {times.what} a step: no GPU event found, {expected}")
    if times.shared:
        return Verdict(Outcome.TOO_NOISY, f"too noisy to judge: {times.shared}; {measured}, {expected}")
    if spread is None:
        one = "too noisy to judge: a single step shows no spread"
        return Verdict(Outcome.TOO_NOISY, f"{one}; {measured}, {expected}; {_MORE}")
    if too_slow or spread.high < allowed.low:
        changes = tuple(change for reading in readings if not reading.may_differ for change in disagreement(reading))
        return Verdict(Outcome.FAIL, f"{measured}, {expected}", evidence, changes)
    if all(allowed.holds(max(end, 0), exact=True) for end in (spread.low, spread.high)):
        return PASSED
    return Verdict(Outcome.TOO_NOISY, f"too noisy to judge: {measured}, {expected}; {_MORE}", table=_steps_table(times))


def _words(spread: Spread | None, times: Times) -> str:
    if spread is None:
        return f"{format_ns(times.values[0])} a step"
    ends = f"{format_ns(spread.least)} to {format_ns(spread.most)}"
    return f"{format_ns(spread.median)} a step ({ends} in {spread.number} steps)"


def _steps_table(times: Times) -> Table:
    return Table(("step", times.what), tuple((str(place), format_ns(one)) for place, one in enumerate(times.values)))


class Side(NamedTuple):
    """One of two functions that were called alternately.

    Attributes:
        name: What to call it.
        times: What its calls took.
    """

    name: str
    times: Times


def faster_than(fast: Side, slow: Side, by: float) -> Verdict:
    """Check that one function is at least *by* times as fast as another.

    Each pair of neighbouring calls gives a ratio: what slows both down for a while cancels out. The
    interval for the median ratio must lie on one side of *by*.

    Args:
        fast: The one that must be faster.
        slow: The other one.
        by: How many times; for 1 it must be faster at all.
    """
    what = fast.times.what
    expected = expected_factor(by) + fast.times.suffix
    untold = fast.times.untold or slow.times.untold
    if untold:
        return Verdict(Outcome.NOT_MEASURED, f"{what} not measured: {untold}; {expected}")
    idle = next((side.name for side in (fast, slow) if not all(side.times.values)), None)
    if idle is not None:
        return Verdict(Outcome.NOT_MEASURED, f"{what} not measured: {idle} took none in a step; {expected}")
    ratios = spread_of([one / other for one, other in zip(slow.times.values, fast.times.values, strict=True)])
    assert ratios is not None
    measured = f"{ratios.median:.2f} times as fast ({ratios.low:.2f} to {ratios.high:.2f}) as {slow.name}, {what}"
    table = Table(("", f"median {what}", "smallest", "largest", "calls"), (_side_row(fast), _side_row(slow)))
    shared = fast.times.shared or slow.times.shared
    if shared:
        return Verdict(Outcome.TOO_NOISY, f"too noisy to judge: {shared}; {measured}, {expected}", table=table)
    if ratios.low >= by and (by != 1 or ratios.low > 1):
        return PASSED
    if ratios.high < by:
        return Verdict(Outcome.FAIL, f"{measured}, {expected}", table=table)
    return Verdict(Outcome.TOO_NOISY, f"too noisy to judge: {measured}, {expected}; {_MORE}", table=table)


def _side_row(side: Side) -> tuple[str, ...]:
    spread = spread_of(side.times.values)
    assert spread is not None
    times = (spread.median, spread.least, spread.most)
    return (side.name, *map(format_ns, times), str(spread.number))


def expected_factor(by: float) -> str:
    """Return how many times faster something must be, in words."""
    return "expected to be faster" if by == 1 else f"expected at least {by:g} times as fast"


def factor(value: Any) -> float:
    """Return how many times faster a function must be.

    Raises:
        MisuseError: It is no number above 0.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise MisuseError(f"assert_faster_than(by={value!r}) is no factor; accepted: a number above 0, such as 1.5")
    return float(value)


def rounds(value: Any, *asked: int) -> int:
    """Return how often each of two functions is called.

    Args:
        value: What the assertion asks for; ``None`` leaves it to the profiles.
        *asked: How many steps the profiles have.

    Raises:
        MisuseError: *value* is no number of calls, or too small a one.
    """
    if value is None:
        return max(ROUNDS, *asked)
    if isinstance(value, bool) or not isinstance(value, int) or value < FEWEST_ROUNDS:
        raise MisuseError(
            f"assert_faster_than(steps={value!r}) is not enough; accepted: a whole number of at least {FEWEST_ROUNDS}"
        )
    return value


def other_work(name: str, profiled: Sequence[Step], again: Sequence[Step]) -> str | None:
    """Return that a function does something else when it is called again; ``None`` if it does the same.

    Args:
        name: What to call it.
        profiled: The steps of its profile.
        again: The steps of later calls.
    """
    known = [kinds for step in profiled if (kinds := _work(step)) is not None]
    for step in again:
        work = _work(step)
        if known and work is not None and work not in known:
            told = f"{counted(sum(work.values()), 'event')} where its profile has {sum(known[0].values())}"
            if sum(work.values()) == sum(known[0].values()):
                told = f"{next(iter(work - known[0]))}, which its profile has not"
            return f"called again, {name} did something else: {told}"
    return None


def _work(step: Step) -> Counter[str] | None:
    """Return what a step ran, by name; ``None`` if that is not known."""
    for events in (step.kernels, step.ops):
        if events.why_not_measured is None:
            return Counter(event.name for event in events.seen)
    return None
