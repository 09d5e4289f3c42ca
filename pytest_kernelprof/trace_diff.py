"""What changed from one trace to another, step by step: events, operators, time."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .eventset import EventSet
from .ledger.difference import Change, changes
from .ledger.entry import Amount, Entry, Line, OpLine, line_of
from .load.building import WHOLE_FILE
from .model import GPU_CLASSES, Environment, Step, Trace, lacks_something
from .units import counted

_LEVEL = "names"
_PROPERTIES = tuple(name for name in Environment._fields if name != "rank")
_FEWEST_STEPS = 3
"""Fewer times than these say nothing of their spread."""
_MUCH = 1.1
"""A kernel that takes so many times as long is worth a line."""

_CLASSES = (*GPU_CLASSES, "calls", "ops")
_Kinds = dict[str, Counter[Line]]
"""By class of events, how many of each kind a step has."""


class Slower(NamedTuple):
    """A kind of kernel that takes more or less time than before, whatever the spread.

    Attributes:
        line: The kind.
        before_ns: Time of all of them in a step: the median over the steps.
        after_ns: The same after.
    """

    line: Line
    before_ns: int
    after_ns: int


class TraceDiff(NamedTuple):
    """What changed.

    Attributes:
        before: The trace before.
        after: The trace after.
        obstacles: Why the two cannot be compared; empty if they can.
        unknown: Properties that one of them does not tell.
        left_out: Classes of events that neither of them measured.
        notes: What else the reader should know.
        changed: By class of events that was compared, what changed in a step.
        times: Kernels that became slower or faster.
        uneven: What else is not alike, as sentences: steps that differ from each other in other ways than before,
            launches outside the steps.
    """

    before: Trace
    after: Trace
    obstacles: tuple[str, ...]
    unknown: tuple[str, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    changed: dict[str, list[Change]]
    times: tuple[Slower, ...]
    uneven: tuple[str, ...] = ()

    @property
    def equal(self) -> bool | None:
        """Whether nothing changed but times; ``None`` where nothing was compared."""
        return not (any(self.changed.values()) or self.uneven) if self.changed else None

    def events(self, change: Change) -> list[Any]:
        """Return the events behind a change: those that came, or those that went."""
        trace, some = (self.after, change.after) if change.after else (self.before, change.before)
        lines = {line for line, _ in some}
        return [
            one for one in _events(trace.steps[0], change.class_name).seen if _line(one, change.class_name) in lines
        ]


def diff(before: Trace, after: Trace) -> TraceDiff:
    """Compare two traces, whether they can be compared or not.

    Args:
        before: The trace before.
        after: The trace after.
    """
    left_out = tuple(name for name in _CLASSES if all(_nothing(trace, name) for trace in (before, after)))
    compared = [name for name in _CLASSES if name not in left_out]
    steps = [[_kinds(step, compared) for step in trace.steps] for trace in (before, after)]
    one, other = (_typical(of_one, compared) for of_one in steps)
    found = changes(one, other)
    return TraceDiff(
        before,
        after,
        (*_obstacles(before, after, compared), *_lost(before, after, left_out)),
        tuple(_unknown(before, after)),
        left_out,
        tuple(_notes(before, after, steps, compared)),
        {name: [change for change in found if change.class_name == name] for name in compared},
        tuple(_slower(before, after)) if "kernels" in compared else (),
        tuple(_uneven(before, after, steps, compared)),
    )


def _lost(before: Trace, after: Trace, left_out: Sequence[str]) -> Iterable[str]:
    """Yield that what launches started was measured in neither trace: it is not nothing."""
    for side, trace in (("before", before), ("after", after)):
        launches = sum(len(step.launches.seen) for step in trace.steps)
        if launches and "kernels" in left_out:
            yield f"kernels {side} were not measured, although there are {counted(launches, 'launch')}"


def _uneven(before: Trace, after: Trace, steps: Sequence[Sequence[_Kinds]], compared: Sequence[str]) -> Iterable[str]:
    """Yield what the typical steps do not show: how steps differ among themselves, and what is outside them."""
    for name in compared:
        one, other = ({frozenset(step[name].items()) for step in of_one} for of_one in steps)
        if one != other and max(len(one), len(other)) > 1:
            numbers = [", ".join(str(step[name].total()) for step in of_one) for of_one in steps]
            yield f"{name}: the steps do not differ in the same way: {numbers[0]} before, {numbers[1]} after"
    one_outside, other_outside = (len(trace.outside_steps.all_calls.seen) for trace in (before, after))
    if one_outside != other_outside:
        yield f"calls outside the steps: {one_outside} before, {other_outside} after"


def _unknown(before: Trace, after: Trace) -> Iterable[str]:
    """Yield the properties that one of two traces does not tell; a GPU of NVIDIA has no version of ROCm."""
    vendors = {_known(before, "vendor"), _known(after, "vendor")}
    senseless = {"nvidia": ("rocm",), "amd": ("cuda", "driver", "compute_capability")}
    left_out = senseless.get(vendors.pop() or "", ()) if len(vendors) == 1 else ()
    for name in _PROPERTIES:
        if name not in left_out and not (_known(before, name) and _known(after, name)):
            yield name


def _known(trace: Trace, name: str) -> Any:
    return getattr(trace.environment, name)


def _events(step: Step, class_name: str) -> EventSet[Any]:
    found: EventSet[Any] = step.launches.all_calls if class_name == "calls" else getattr(step, class_name)
    return found


def _line(event: Any, class_name: str) -> Line:
    return OpLine(event.name) if class_name == "calls" else line_of(event, _LEVEL)


def _nothing(trace: Trace, class_name: str) -> bool:
    return all(_events(step, class_name).unknown.nothing for step in trace.steps)


def _obstacles(before: Trace, after: Trace, compared: Sequence[str]) -> Iterable[str]:
    """Yield why two traces cannot be compared."""
    for name in _PROPERTIES:
        one, other = _known(before, name), _known(after, name)
        if one and other and one != other:
            yield f"{name.replace('_', ' ')} differs: {_told(one)} before, {_told(other)} after"
    if _has_steps(before) is not _has_steps(after):
        yield "one of them has steps, the other is one step as a whole"
    if not compared:
        yield "neither of them measured anything"
    for side, trace in (("before", before), ("after", after)):
        for name in compared:
            lossy = next((one for step in trace.steps if lacks_something(one := _events(step, name))), None)
            if lossy is not None:
                yield f"{name} {side} are incomplete: {lossy.why_not_measured}"


def _told(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _has_steps(trace: Trace) -> bool:
    return trace.steps[0].name != WHOLE_FILE


def _notes(before: Trace, after: Trace, steps: Sequence[Sequence[_Kinds]], compared: Sequence[str]) -> Iterable[str]:
    for side, trace, (first, *others) in zip(("before", "after"), (before, after), steps, strict=True):
        differing = [name for name in compared if any(one[name] != first[name] for one in others)]
        if differing:
            yield f"the steps {side} differ in {', '.join(differing)}: of each number the median is compared"
        if any(_events(step, "ops").unknown.unwatched for step in trace.steps) and "ops" in compared:
            yield f"ops {side} of threads that the profiler did not watch are unknown"


def _kinds(step: Step, classes: Iterable[str]) -> _Kinds:
    return {name: Counter(_line(event, name) for event in _events(step, name).seen) for name in classes}


def _typical(steps: Sequence[_Kinds], classes: Sequence[str]) -> Entry:
    """Return what a step launches: of each kind the median number over the steps."""
    lines: dict[str, dict[Line, Amount]] = {}
    for name in classes:
        kinds = dict.fromkeys(line for one in steps for line in one[name])
        numbers = {line: statistics.median_low([one[name][line] for one in steps]) for line in kinds}
        lines[name] = {line: Amount.exactly(number) for line, number in numbers.items() if number}
    return Entry(_LEVEL, {}, lines)


def _slower(before: Trace, after: Trace) -> Iterable[Slower]:
    """Yield the kinds of kernels whose times lie apart, the greatest difference first."""
    one, other = _times(before), _times(after)
    found = [
        Slower(line, round(statistics.median(one[line])), round(statistics.median(other[line])))
        for line in one
        if line in other and _lie_apart(one[line], other[line])
    ]
    return sorted(found, key=lambda slower: -abs(slower.after_ns - slower.before_ns))


def _times(trace: Trace) -> dict[Line, list[int]]:
    """Return, by kind of kernel that is in every step, the time that they take in each; none where one has no time."""
    sums: list[Counter[Line]] = []
    for step in trace.steps:
        total: Counter[Line] = Counter()
        for kernel in step.kernels.seen:
            if kernel.duration_ns is None:
                return {}
            total[line_of(kernel, _LEVEL)] += kernel.duration_ns
        sums.append(total)
    everywhere = set.intersection(*(set(total) for total in sums))
    return {line: [total[line] for total in sums] for line in sorted(everywhere, key=str)}


def _lie_apart(one: Sequence[int], other: Sequence[int]) -> bool:
    if min(len(one), len(other)) < _FEWEST_STEPS:
        return False
    low, high = sorted((one, other), key=statistics.median)
    return max(low) < min(high) and statistics.median(high) >= _MUCH * statistics.median(low)
