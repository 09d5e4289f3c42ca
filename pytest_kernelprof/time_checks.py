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
from .errors import MisuseError
from .events import Event, GpuEvent
from .limits import Limit
from .model import Step
from .spread import FEWEST, Spread, spread_of
from .units import counted, format_ns

ROUNDS = 30
"""How often each of two functions is called, unless the user says so."""
_TOOK_NONE = "it took no time in the trace, whose clock is too coarse"
_TICK_NS = 32
"""GPU timestamps come in steps of 32 ns on an H200; those of CPUs are finer."""


class Times(NamedTuple):
    """How long something took, step by step.

    Attributes:
        what: What took so long, such as ``GPU time``.
        values: In nanoseconds, one a step.
        why_not_measured: Why some are lower bounds only; ``None`` if all are exact.
        shared: Who else used the GPU meanwhile; ``None`` if nobody is known to have.
        suffix: How the events were chosen, in brackets, or nothing.
        may_differ: Every step has to satisfy a limit by itself as well.
        repeats: More steps can be asked for.
        tick_ns: The smallest difference that the clock shows.
    """

    what: str
    values: tuple[int, ...]
    why_not_measured: str | None = None
    shared: str | None = None
    suffix: str = ""
    may_differ: bool = False
    repeats: bool = True
    tick_ns: int = 0

    @property
    def more(self) -> str:
        """What to do about noise, as a sentence ends."""
        return "; steps= takes more" if self.repeats else ""


def gpu_times(readings: Sequence[Reading], shared: str | None) -> Times:
    """Return the GPU time of the chosen events of each step.

    Args:
        readings: Kernels, copies and Memsets, or those of them that are asked for.
        shared: Who else used the GPU.
    """
    values, whys = [], []
    for events in zip(*(reading.chosen for reading in readings), strict=True):
        seen: list[GpuEvent] = [event for chosen in events for event in chosen.seen]
        values.append(sum(event.duration_ns or 0 for event in seen))
        whys += [chosen.why_not_measured for chosen in events if chosen.why_not_measured]
        whys += [f"{event.name} has no duration in the trace" for event in seen if event.duration_ns is None]
        whys += [_TOOK_NONE] if seen and not values[-1] else []
    why = next(iter(whys), None)
    return Times("GPU time", tuple(values), why, shared, readings[0].suffix(), tick_ns=_TICK_NS)


def cpu_times(steps: Sequence[Step], region: str | None = None) -> Times:
    """Return the CPU time of each step, or of the regions to which the steps are narrowed.

    Args:
        steps: The steps.
        region: What they are narrowed to, for the words.
    """
    values = tuple(0 if step.why_no_cpu_time else step.cpu_time_ns for step in steps)
    why = next((step.why_no_cpu_time for step in steps if step.why_no_cpu_time), None)
    why = why or (None if all(values) else _TOOK_NONE)
    return Times("CPU time", values, why, None, f" (region {region!r})" if region else "")


def within(times: Times, allowed: Limit, readings: Sequence[Reading] = ()) -> Verdict:
    """Check the median of times against a limit.

    Args:
        times: What was measured.
        allowed: The limit, in nanoseconds.
        readings: The events whose times they are: there must be some, and the steps must agree in
            them; where these differ, how long they took is no question any more.
    """
    return first_that_decides([_within(times, allowed, readings), *map(agreement, readings)])


def _within(times: Times, allowed: Limit, readings: Sequence[Reading]) -> Verdict:
    expected = f"expected {allowed.words()}{times.suffix}"
    spread = spread_of(times.values, times.tick_ns)
    measured = f"{times.what} {_words(spread, times)}"
    evidence: list[Event] = [event for reading in readings for event in reading.chosen[0].seen]
    too_slow = spread is not None and allowed.rules_out(spread.low, exact=False)
    if times.why_not_measured:
        if too_slow and not times.shared:  # What is missing would only add to it.
            return Verdict(Outcome.FAIL, f"{measured} at least, {expected}", evidence)
        return Verdict(Outcome.NOT_MEASURED, f"{times.what} not measured: {times.why_not_measured}; {expected}")
    idle = [place for place in range(len(times.values)) if readings and not _any_event(readings, place)]
    if idle:
        where = "a step" if len(idle) == len(times.values) else f"in {readings[0].steps[idle[0]]}"
        return Verdict(Outcome.FAIL, f"no {times.what} {where}: no GPU event found, {expected}", evidence)
    if times.shared:
        return _too_noisy(f"{times.shared}; {measured}, {expected}")
    if spread is None:
        return _too_noisy(f"a single step shows no spread; {measured}, {expected}{times.more}")
    if too_slow or spread.high < allowed.low:
        changes = tuple(change for reading in readings if not reading.may_differ for change in disagreement(reading))
        told = f"{measured}, {expected}{allowed.in_full(round(spread.median))}"
        return Verdict(Outcome.FAIL, told, evidence, changes)
    # A widened interval may reach below 0; no time does. Steps that may differ have no median that speaks for all.
    ends = (spread.low, spread.high, *(times.values if times.may_differ else ()))
    if all(allowed.holds(max(end, 0), exact=True) for end in ends):
        return PASSED
    return _too_noisy(f"{measured}, {expected}{times.more}", _steps_table(times))


def _any_event(readings: Sequence[Reading], place: int) -> bool:
    return any(reading.chosen[place].seen for reading in readings)


def _too_noisy(told: str, table: Table | None = None) -> Verdict:
    return Verdict(Outcome.TOO_NOISY, f"too noisy to judge: {told}", table=table)


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
    why = fast.times.why_not_measured or slow.times.why_not_measured
    if why:
        return Verdict(Outcome.NOT_MEASURED, f"{what} not measured: {why}; {expected}")
    idle = next((side.name for side in (fast, slow) if not all(side.times.values)), None)
    if idle is not None:
        return Verdict(Outcome.NOT_MEASURED, f"{what} not measured: {idle} took none in a step; {expected}")
    ratios = spread_of([one / other for one, other in zip(slow.times.values, fast.times.values, strict=True)])
    assert ratios is not None
    # What a tick of the clock adds or takes on both sides.
    margin = sum(side.times.tick_ns / min(side.times.values) for side in (fast, slow))
    ratios = ratios._replace(low=ratios.low * (1 - margin), high=ratios.high * (1 + margin))
    interval = f"{_ratio(ratios.low)} to {_ratio(ratios.high)}"
    measured = f"{_ratio(ratios.median)} times as fast ({interval}) as {slow.name}, {what}"
    table = Table(("", f"median {what}", "smallest", "largest", "calls"), (_side_row(fast), _side_row(slow)))
    shared = fast.times.shared or slow.times.shared
    if shared:
        return _too_noisy(f"{shared}; {measured}, {expected}", table)
    if ratios.low >= by and (by != 1 or ratios.low > 1):
        return PASSED
    if ratios.high < by:
        return Verdict(Outcome.FAIL, f"{measured}, {expected}", table=table)
    return _too_noisy(f"{measured}, {expected}{fast.times.more}", table)


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


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
        MisuseError: It is no number of at least 1: what is slower is not faster.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not 1 <= float(value) < float("inf"):
        told = "a number of at least 1, such as 1.5 for one and a half times as fast"
        raise MisuseError(f"assert_faster_than(by={value!r}) is no factor; accepted: {told}")
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
    if isinstance(value, bool) or not isinstance(value, int) or value < FEWEST:
        raise MisuseError(
            f"assert_faster_than(steps={value!r}) is not enough; accepted: a whole number of at least {FEWEST}"
        )
    return value


def other_work(name: str, profiled: Sequence[Step], again: Sequence[Step]) -> str | None:
    """Return that a function does something else when it is called again; ``None`` if it does the same.

    Classes that were not measured on both sides tell nothing.

    Args:
        name: What to call it.
        profiled: The steps of its profile.
        again: The steps of later calls: each must be like one of those.
    """
    for kind in ("kernels", "memcpys", "memsets", "ops"):
        then, now = ([getattr(step, kind) for step in steps] for steps in (profiled, again))
        if any(events.why_not_measured for events in (*then, *now)):
            continue
        known = [Counter(event.name for event in events.seen) for events in then]
        for events in now:
            names = Counter(event.name for event in events.seen)
            if names not in known:
                return f"called again, {name} did something else: {_difference(names, known[0], events.noun)}"
    return None


def _difference(now: Counter[str], before: Counter[str], noun: str) -> str:
    if now.total() != before.total():
        return f"{counted(now.total(), noun)} where its profile has {before.total()}"
    return f"{next(iter(now - before))}, which its profile has not"
