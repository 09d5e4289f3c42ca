"""The checks: one function each, from events step by step to a verdict. No pytest, no text layout.

A verdict is given only if it holds however the unknown would have come out: what was seen may
already break an ``at_most``, and then it is a failure although events are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import MisuseError
from .events import Event, Memcpy, Memset
from .eventset import EventSet, Selection
from .explain import graph_launch
from .limits import AT_LEAST_ONE, NONE, Limit
from .load.calls import CallKind, call_kind
from .memory import Allocated
from .names import base_name, close_names, decode_kernel, demangled, glob, matches
from .units import counted, format_bytes, plural

if TYPE_CHECKING:
    from .ledger.difference import Change

COPY_KINDS = ("HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA")
_LIBRARY_MEMSET_BYTES = 4
_BEFORE_BREAK = 2
"""So many kernels are shown before the one that is out of order."""
_MOST_TO_ALIGN = 4_000_000
"""Aligning two lists takes the product of their lengths; longer ones are told as they are."""


class Outcome(Enum):
    """What a check came to."""

    PASS = "pass"
    FAIL = "fail"
    NOT_MEASURED = "not measured"
    TOO_NOISY = "too noisy to judge"
    NO_ENTRY = "no ledger entry"


class ChangeLine(NamedTuple):
    """One line of what differs between two steps.

    Attributes:
        sign: ``+`` for an event that came, ``-`` for one that went, nothing for one that both have.
        event: The event; ``None`` where some that both have are left out.
    """

    sign: str
    event: Event | None


class Changes(NamedTuple):
    """What differs between the first step and others, in order.

    Attributes:
        noun: What one event is called.
        first: Name of the first step.
        steps: Names of those that differ from it, all in the same way.
        lines: The events.
    """

    noun: str
    first: str
    steps: tuple[str, ...]
    lines: tuple[ChangeLine, ...]


class GuessRow(NamedTuple):
    """One line of a guess beside what was seen.

    Attributes:
        role: A role, ``memcpy``, ``memset`` or ``host_sync``; ``unknown`` for kernels whose name says nothing.
        limit: What was guessed; ``None`` where nothing was.
        seen: The events.
        exact: Whether there can be no more of them.
        wrong: Whether it contradicts the guess.
    """

    role: str
    limit: Limit | None
    seen: tuple[Event, ...]
    exact: bool
    wrong: bool = False

    def guessed(self) -> str:
        """Return the guess in words."""
        return "not guessed" if self.limit is None else f"guessed {self.limit.words()}"


class Table(NamedTuple):
    """Lines of text that stand behind a verdict.

    Attributes:
        headers: What the columns hold.
        rows: The lines.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check.

    Attributes:
        outcome: What it came to.
        headline: One line: found, expected, and how it was chosen.
        evidence: The events behind it.
        changes: Where steps disagree: what came and went.
        view: How the evidence is shown: as ``events``, with what the ``names`` of kernels say, with
            their ``occupancy``, or in their ``order``.
        rows: A guess, line by line.
        table: Numbers that are of no single event.
        allocated: GPU memory behind it.
        remark: One more line, at the end.
        first: Place of the first event of the evidence in its step, where order matters.
        topic: What was asked for, where a hint depends on it.
        ledger: What changed against a ledger.
    """

    outcome: Outcome
    headline: str = ""
    evidence: Sequence[Event] = ()
    changes: tuple[Changes, ...] = ()
    view: str = "events"
    rows: tuple[GuessRow, ...] = ()
    table: Table | None = None
    allocated: Sequence[Allocated] = ()
    remark: str = ""
    first: int = 0
    topic: str = ""
    ledger: tuple[Change, ...] = ()

    @property
    def events(self) -> list[Event]:
        """The events that it is about: its evidence, and what came and went."""
        changed = (line.event for one in self.changes for line in one.lines if line.sign)
        return [*self.evidence, *(event for event in changed if event is not None)]


PASSED = Verdict(Outcome.PASS)


def pattern_of(check: str, pattern: Any) -> str:
    """Return the pattern that an assertion counts or forbids.

    Raises:
        MisuseError: It is no text, or empty.
    """
    if not isinstance(pattern, str) or not pattern:
        raise MisuseError(f"{check}({pattern!r}) is no pattern; accepted: text that is not empty")
    return pattern


def api_of(check: str, api: Any) -> str:
    """Return the pattern for a call that an assertion counts.

    Raises:
        MisuseError: It is no pattern, or the name of no call that launches, copies or sets.
    """
    name = pattern_of(check, api)
    if not set("*?") & set(name) and name != "INVALID" and call_kind(name) is CallKind.OTHER:
        close = get_close_matches(name, _KNOWN_CALLS, n=1, cutoff=0.0)
        raise MisuseError(f"{check}(api={api!r}) launches, copies or sets nothing; the closest: {close[0]}")
    return name


_KNOWN_CALLS = (
    *("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cudaGraphLaunch"),
    *("cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync", "cudaMemcpy", "cudaMemsetAsync", "cudaMemset"),
    *("hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipGraphLaunch", "hipMemcpyAsync"),
    *("hipMemcpyWithStream", "hipMemsetAsync", "urEnqueueKernelLaunch"),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One class of events, step by step, as an assertion reads it.

    Attributes:
        steps: Names of the steps.
        whole: The class in each step, as it was measured: steps must agree in it.
        chosen: The same narrowed by the assertion's selectors.
        may_differ: Every step has to satisfy the limit by itself instead.
        words: The selectors in words, for the headline.
        pattern: The pattern that an assertion itself counts; it may match nothing.
        alike_by: Who says that steps must be alike, if somebody does.
    """

    steps: tuple[str, ...]
    whole: tuple[EventSet[Any], ...]
    chosen: tuple[EventSet[Any], ...]
    may_differ: bool = False
    words: str = ""
    pattern: str = ""
    alike_by: str = ""

    def narrowed(self, judge: Callable[[Any], bool | None], words: str) -> Reading:
        """Return the reading with only the events that *judge* takes."""
        chosen = tuple(one.narrowed(judge, words) for one in self.chosen)
        told = ", ".join(filter(None, (self.words, words)))
        return replace(self, chosen=chosen, words=told)

    def select(self, selection: Selection) -> Reading:
        """Return the reading narrowed by *selection*."""
        chosen = tuple(one.select(selection) for one in self.chosen)
        told = ", ".join(filter(None, (self.words, selection.words())))
        return replace(self, chosen=chosen, words=told, pattern=selection.named or self.pattern)

    @property
    def noun(self) -> str:
        """What one event is called."""
        return self.whole[0].noun

    def suffix(self) -> str:
        """Return how the events were chosen, in brackets, or nothing."""
        return f" ({self.words})" if self.words else ""

    def where(self, place: int) -> str:
        """Return of which step a number is: of any, unless the steps may differ."""
        return f"in {self.steps[place]}" if self.may_differ and len(self.steps) > 1 else "a step"


def _events(events: EventSet[Any]) -> tuple[int, bool]:
    return len(events.seen), events.why_not_measured is None


def _bytes(events: EventSet[Memcpy]) -> tuple[int, bool]:
    sizes = [event.size_bytes for event in events.seen]
    return sum(size or 0 for size in sizes), events.why_not_measured is None and None not in sizes


def count(reading: Reading, allowed: Limit) -> Verdict:
    """Check how many events each step has."""
    return _measure(reading, allowed, _events, lambda number: counted(number, reading.noun))


def copied_bytes(reading: Reading, allowed: Limit) -> Verdict:
    """Check how many bytes each step copies."""
    return _measure(reading, allowed, _bytes, lambda number: f"{format_bytes(number)} copied")


def _measure(
    reading: Reading,
    allowed: Limit,
    measure: Callable[[EventSet[Any]], tuple[int, bool]],
    found: Callable[[int], str],
) -> Verdict:
    measured = [measure(events) for events in reading.chosen]
    expected = f"expected {allowed.words()}{reading.suffix()}"
    for position, (low, exact) in enumerate(measured):
        if allowed.rules_out(low, exact=exact):
            evidence = reading.chosen[position].seen or reading.whole[position].seen
            return Verdict(
                Outcome.FAIL,
                f"{_found(reading, [number for number, _ in measured], found, position)}, {expected}"
                f"{allowed.in_full(low)}",
                evidence,
                () if reading.may_differ else disagreement(reading),
                remark="" if reading.chosen[position].seen else closest(reading.pattern, reading.whole[position].seen),
            )
    if not all(allowed.holds(low, exact=exact) for low, exact in measured):
        return not_measured(reading, expected)
    return agreement(reading, expected)  # The limit holds for certain; that the steps agree may not.


def closest(pattern: str, events: Sequence[Event]) -> str:
    """Return which names come close to a pattern that chose none of the events, in one line; or nothing."""
    if not pattern:
        return ""
    names = {event.name: base_name(demangled(event.name)) for event in events}
    if any(matches(pattern, name) for name in names):
        return f"{pattern!r} occurs, but not where the other selectors look"
    close = close_names(pattern, names.values())
    return f"the closest to {pattern!r}: {', '.join(close)}" if close else ""


def _found(reading: Reading, numbers: Sequence[int], found: Callable[[int], str], position: int) -> str:
    if len(set(numbers)) == 1:
        return f"{found(numbers[0])} a step"
    return f"{found(numbers[position])} in {reading.steps[position]}"


def not_measured(reading: Reading, expected: str) -> Verdict:
    """Return the verdict that the reading does not allow one."""
    whys = [events.why_not_measured for events in (*reading.chosen, *reading.whole) if events.why_not_measured]
    why = whys[0] if whys else "a field that the check needs is missing from the trace"
    return Verdict(Outcome.NOT_MEASURED, f"{plural(reading.noun)} not measured: {why}; {expected}")


def agreement(reading: Reading, expected: str = "expected all steps alike") -> Verdict:
    """Return a pass, the failure that steps disagree in the class that was read, or that nobody knows."""
    if reading.may_differ or len(reading.steps) == 1:
        return PASSED
    if any(events.why_not_measured for events in reading.whole):
        return not_measured(reading, expected)
    changes = disagreement(reading)
    if not changes:
        return PASSED
    numbers = [len(events.seen) for events in reading.whole]
    told = f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]} {plural(reading.noun)}"
    if len(set(numbers)) == 1:
        told = f"each {counted(numbers[0], reading.noun)}, but not the same"
    by = f"steps_may_differ=False {reading.alike_by}" if reading.alike_by else "steps_may_differ=True accepts it"
    headline = f"steps disagree: {told}, expected all alike ({by})"
    return Verdict(Outcome.FAIL, headline, (), changes)


def disagreement(reading: Reading) -> tuple[Changes, ...]:
    """Return what came and went from the first step to the others; steps are alike as multisets of names.

    Nothing is said of a class that was not measured in every step.
    """
    if any(events.why_not_measured for events in reading.whole):
        return ()
    first = reading.whole[0].seen
    known = Counter(event.name for event in first)
    others: dict[frozenset[tuple[str, int]], tuple[list[str], Sequence[Event]]] = {}
    for step, events in zip(reading.steps[1:], reading.whole[1:], strict=True):
        names = Counter(event.name for event in events.seen)
        if names != known:
            others.setdefault(frozenset(names.items()), ([], events.seen))[0].append(step)
    return tuple(
        Changes(reading.noun, reading.steps[0], tuple(steps), tuple(_aligned(first, seen)))
        for steps, seen in others.values()
    )


def _aligned(before: Sequence[Event], after: Sequence[Event]) -> Iterator[ChangeLine]:
    """Yield what went and what came between two steps, in order, each with a neighbour from its own step.

    What only moved, neither came nor went: order is no difference between steps.
    """
    old, new = [event.name for event in before], [event.name for event in after]
    went, came = Counter(old) - Counter(new), Counter(new) - Counter(old)
    shown = -1  # The last event of *before* that a line was about.
    for start, end, new_start, new_end in _differences(old, new):
        lines = [ChangeLine("-", event) for event in _taken(before[start:end], went)]
        lines += [ChangeLine("+", event) for event in _taken(after[new_start:new_end], came)]
        if not lines:
            continue
        if start - 1 > shown + 1:
            yield ChangeLine("", None)
        if start - 1 > shown:
            yield ChangeLine("", before[start - 1])
        yield from lines
        shown = end - 1
        if end < len(before):
            yield ChangeLine("", before[end])
            shown = end
    if shown < len(before) - 1:
        yield ChangeLine("", None)


def _taken(events: Sequence[Event], left: Counter[str]) -> Iterator[Event]:
    """Yield the events that are among those *left*, and count them off."""
    for event in events:
        if left[event.name] > 0:
            left[event.name] -= 1
            yield event


def _differences(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    """Return the stretches in which two lists differ: start and end in the one, and in the other."""
    from difflib import SequenceMatcher

    head = next((place for place, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
    head = min(len(old), len(new)) if head is None else head
    shorter = min(len(old), len(new)) - head
    tail = next((place for place in range(shorter) if old[-1 - place] != new[-1 - place]), shorter)
    middle, other = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle) * len(other) > _MOST_TO_ALIGN:
        return [(head, head + len(middle), head, head + len(other))]
    codes = SequenceMatcher(None, middle, other, autojunk=False).get_opcodes()
    return [
        (head + start, head + end, head + from_, head + to) for what, start, end, from_, to in codes if what != "equal"
    ]


Pattern = str | EllipsisType


def sequence(reading: Reading, patterns: Sequence[Pattern]) -> Verdict:
    """Check that the kernels of each step match *patterns*, in order; ``...`` is any run of kernels."""
    if isinstance(patterns, (str, bytes)) or not isinstance(patterns, Sequence):
        raise MisuseError(f"assert_kernel_sequence({patterns!r}) is no list; accepted: a list of patterns and ...")
    if not any(isinstance(pattern, str) for pattern in patterns):
        raise MisuseError(f"assert_kernel_sequence({list(patterns)!r}) names no kernel; accepted: patterns and ...")
    for pattern in patterns:
        if pattern is not ... and (not isinstance(pattern, str) or not pattern):
            raise MisuseError(f"assert_kernel_sequence: {pattern!r} is no pattern; accepted: text or ...")
    shown = " ".join("..." if pattern is ... else repr(pattern) for pattern in patterns)
    expected = f"expected {shown}{reading.suffix()}"
    for position, events in enumerate(reading.chosen):
        if events.why_not_measured:
            return not_measured(reading, expected)
        names = [event.name for event in events.seen]
        reached = _furthest_match(patterns, names)
        if reached is not None:
            where = (
                f"kernel {reached + 1}" if reached < len(names) else f"the end, after {counted(len(names), 'kernel')}"
            )
            return Verdict(
                Outcome.FAIL,
                f"kernels out of order at {where} of {reading.steps[position]}, {expected}",
                events.seen[max(0, reached - _BEFORE_BREAK) :],
                view="order",
                first=max(0, reached - _BEFORE_BREAK),
            )
    return agreement(reading)


def _furthest_match(patterns: Sequence[Pattern], names: Sequence[str]) -> int | None:
    """Return where matching got stuck, as an index into *names*, or ``None`` if all match."""
    reachable = {0}
    furthest = 0
    for pattern in patterns:
        if pattern is ...:
            reachable = set(range(min(reachable), len(names) + 1))
        else:
            assert isinstance(pattern, str)
            reachable = {at + 1 for at in reachable if at < len(names) and matches(pattern, names[at])}
        if not reachable:
            return furthest
        furthest = min(reachable) if pattern is ... else max(furthest, min(reachable))
    return None if len(names) in reachable else max(reachable)


def no_memset(reading: Reading, *, ignore_library: bool) -> Verdict:
    """Check that no step sets memory, apart from what cuBLAS and cuDNN do for themselves.

    Raises:
        MisuseError: *ignore_library* is no truth value.
    """
    if not isinstance(ignore_library, bool):
        raise MisuseError(f"ignore_library={ignore_library!r} is no truth value; accepted: True or False")
    if ignore_library:
        reading = reading.narrowed(_no_library_memset, "library Memsets ignored")
    return count(reading, NONE)


def _no_library_memset(memset: Memset) -> bool | None:
    """Judge whether somebody else than cuBLAS or cuDNN set these bytes.

    They set 4, right before a kernel of their own. ATen's reductions set 4, 32 and 128 bytes too,
    before kernels of theirs.
    """
    if memset.size_bytes is None:
        return None
    if memset.size_bytes != _LIBRARY_MEMSET_BYTES:
        return True
    if not memset.next_known:
        return None
    return memset.next_kernel is None or not decode_kernel(memset.next_kernel).in_nvidia_library


def copies_of(reading: Reading, kind: str | None, pageable: bool | None) -> Reading:
    """Return the copies of one direction, or of host memory that is pageable or not.

    Raises:
        MisuseError: *kind* is no direction, or *pageable* no truth value.
    """
    if kind is not None:
        if kind not in COPY_KINDS:
            raise MisuseError(f"kind={kind!r} is no direction; accepted: {', '.join(COPY_KINDS)}")
        reading = reading.narrowed(lambda copy: None if copy.kind is None else copy.kind == kind, f"kind {kind!r}")
    if pageable is not None:
        if not isinstance(pageable, bool):
            raise MisuseError(f"pageable={pageable!r} is no truth value; accepted: True or False")
        words = "pageable" if pageable else "not pageable"
        reading = reading.narrowed(lambda copy: None if copy.pageable is None else copy.pageable is pageable, words)
    return reading


def without_allowed(reading: Reading, allow: Sequence[str]) -> Reading:
    """Return the events that no pattern of *allow* names by op, region or call (or kernel).

    Raises:
        MisuseError: *allow* is no list of patterns.
    """
    if not isinstance(allow, (list, tuple)) or not all(isinstance(pattern, str) and pattern for pattern in allow):
        raise MisuseError(f"allow={allow!r} is no list of patterns; accepted: names of ops, regions or calls")
    if not allow:
        return reading

    def judge(event: Any) -> bool | None:
        if any(_allows(pattern, event) for pattern in allow):
            return False
        return True if event.regions_known else None

    return reading.narrowed(judge, f"allowed: {', '.join(allow)}")


def _allows(pattern: str, event: Event) -> bool:
    """Return whether a pattern of *allow* names an event, an op or a region around it."""
    return matches(pattern, event.name) or any(glob(pattern, place) for place in _places(event))


def _places(event: Event) -> tuple[str, ...]:
    return (*(op.name for op in event.chain), *event.regions)


def count_without_allowed(reading: Reading, allowed: Limit, allow: Sequence[str]) -> Verdict:
    """Check how many events each step has that no pattern of *allow* names."""
    return _with_unmatched(count(without_allowed(reading, allow), allowed), reading, allow)


def _with_unmatched(verdict: Verdict, reading: Reading, allow: Sequence[str]) -> Verdict:
    """Return a failure with a line for each pattern of *allow* that names nothing."""
    if verdict.outcome is not Outcome.FAIL or verdict.remark:
        return verdict
    seen = [event for events in reading.whole for event in events.seen]
    return replace(verdict, remark="\n".join(filter(None, (_unmatched(pattern, seen) for pattern in allow))))


def _unmatched(pattern: str, events: Sequence[Event]) -> str:
    """Return that a pattern of *allow* names nothing, with what comes close; nothing if it names something."""
    if any(_allows(pattern, event) for event in events):
        return ""
    close = close_names(pattern, sorted({name for event in events for name in (event.name, *_places(event))}))
    return f"allow={pattern!r} names nothing here" + (f"; the closest: {', '.join(close)}" if close else "")


def graphed(reading: Reading, allow: Sequence[str]) -> Verdict:
    """Check that every kernel came from a graph launch, and that there is one.

    Args:
        reading: The kernels.
        allow: Patterns for kernels, ops or regions that may be launched without a graph.
    """
    present = count(reading, AT_LEAST_ONE)
    if present.outcome is Outcome.FAIL and not present.changes:
        return Verdict(Outcome.FAIL, f"no kernel a step: none found, expected all from a graph{reading.suffix()}")
    stray = without_allowed(reading, allow).narrowed(lambda kernel: graph_launch(kernel) is None, "outside a graph")
    verdict = _with_unmatched(count(stray, NONE), reading, allow)
    return first_that_decides([verdict, present])


def decided(verdicts: Sequence[Verdict], *readings: Reading) -> Verdict:
    """Return the verdict on all steps; where each passes, whether they agree."""
    found = first_that_decides(verdicts)
    return found if found.outcome is not Outcome.PASS else first_that_decides([*map(agreement, readings)])


def failed(reading: Reading, headline: str, evidence: Sequence[Event], view: str) -> Verdict:
    """Return a failure with its evidence, and with what came and went where the steps must agree."""
    changes = () if reading.may_differ else disagreement(reading)
    return Verdict(Outcome.FAIL, headline, evidence, changes, view)


def first_that_decides(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the first failure, else the first that could not be judged, else a pass."""
    order = (Outcome.FAIL, Outcome.NOT_MEASURED, Outcome.TOO_NOISY, Outcome.NO_ENTRY, Outcome.PASS)
    return min(verdicts, key=lambda verdict: order.index(verdict.outcome))
