"""`Profile`: what a profiled function did."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from . import checks
from .assertions import Assertions
from .attribution import Explanation
from .comparing import Repeatable
from .count import Count
from .errors import NotMeasured
from .events import Call, Event, Kernel, Memcpy, Memset, Op
from .eventset import EventSet, LaunchSet, Selection
from .hints import Hint, Scene, hints_for
from .judging import Checks, Judge, Noted, verdicts_of
from .load.own import NO_CONTEXT
from .matrix import matrix_time_of
from .memory import DeviceMemory
from .model import Environment, Orphans, Trace, TraceWarning, steps_named
from .report import text
from .report.layout import Look
from .units import plural

if TYPE_CHECKING:
    from .ledger.book import Slot


class Profile(Assertions):
    """What one step of a profiled function did. Immutable.

    Counts and sets are those of one step. Steps must agree: where they do not, a set of the class
    in which they differ raises `AssertionError` when it is read, unless ``steps_may_differ`` is
    set; then sets are those of the first step, and limits hold for every step by itself. What was
    not measured raises `NotMeasured`.
    """

    __slots__ = (
        *("_alike_by", "_judge", "_more_hints", "_origin", "_regions", "_repeatable", "_result", "_shown"),
        *("_slot", "_tf32_off", "_trace"),
        "steps_may_differ",
    )

    def __init__(
        self,
        trace: Trace,
        *,
        steps_may_differ: bool = False,
        verbose: bool = False,
        look: Look | None = None,
        keep_trace: Callable[[], str | None] | None = None,
        result: Callable[[], Any] | None = None,
        origin: str | None = None,
        repeatable: Repeatable | None = None,
        alike_by: str = "",
        explain: Callable[[], Explanation] | None = None,
        tf32_off: bool | None = None,
        more_hints: Callable[[Event, Profile], Sequence[Hint]] | None = None,
        slot: Slot | None = None,
        noted: Noted | None = None,
    ) -> None:
        """Make a profile of a trace.

        Args:
            trace: The trace, read.
            steps_may_differ: Let the steps differ; each must satisfy a limit by itself.
            verbose: Show every row in messages.
            look: How much messages show, in place of *verbose*; by default as much as the terminal has room for.
            keep_trace: Keeps the trace file and returns its path, for messages.
            result: Returns what the profiled function returned last.
            origin: Where a replayed recording comes from, for messages.
            repeatable: Can be called again, to be compared with another.
            alike_by: Who says that steps must be alike, for messages.
            explain: Returns where events come from, for messages.
            tf32_off: Whether float32 matmuls were kept from tensor cores; ``None`` if nobody knows.
            more_hints: Returns the hints that others have for an event.
            slot: Where it finds its ledger entry.
            noted: Takes note of verdicts on it.
        """
        self._trace = trace
        self._repeatable = repeatable
        self._regions: tuple[Selection, ...] = ()
        self._origin = origin
        self._alike_by = alike_by
        self._shown = look or Look.of(None, int(verbose))
        self._tf32_off = tf32_off
        self._more_hints = more_hints
        self._slot = slot
        self._judge = Judge(
            look=self._shown, keep_trace=keep_trace, origin=origin, explain=explain, hints=self._hints, noted=noted
        )
        self._result = result
        self.steps_may_differ = steps_may_differ

    # What was seen

    @property
    def environment(self) -> Environment:
        """Where the profile was recorded."""
        return self._trace.environment

    @property
    def orphans(self) -> Orphans:
        """GPU events whose launch is not in the recording.

        Raises:
            NotMeasured: No GPU event was recorded at all.
        """
        __tracebackhide__ = True
        kernels = self._trace.totals.kernels
        if kernels.unknown.nothing:
            raise NotMeasured(f"orphans not measured: {kernels.why_not_measured}")
        return self._trace.orphans

    @property
    def outside_steps(self) -> LaunchSet:
        """Launches outside every step, such as those of ``setup=``."""
        return self._trace.outside_steps

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the ``record_function`` ranges of a step, in order of appearance."""
        return tuple(dict.fromkeys(self.steps[0].regions))

    @property
    def region_names(self) -> frozenset[str]:
        """Names of the ``record_function`` ranges of any step."""
        return frozenset(name for step in self.steps for name in step.regions)

    @property
    def complete(self) -> bool:
        """Whether every class of events was measured in every step."""
        return all(step.complete for step in self.steps)

    @property
    def warnings(self) -> tuple[TraceWarning, ...]:
        """What else is worth knowing about the recording."""
        return self._trace.warnings

    @property
    def result(self) -> Any:
        """What the profiled function returned last; kept until the test ends.

        Raises:
            NotMeasured: There is none: the profile is of a block, of a trace, or its test ended.
        """
        __tracebackhide__ = True
        if self._result is None:
            raise NotMeasured("result not recorded: only profiled(function) keeps what the function returned")
        return self._result()

    @property
    def kernels(self) -> EventSet[Kernel]:
        """Kernels of a step, in the order of their launches."""
        return self._set("kernels")

    @property
    def memcpys(self) -> EventSet[Memcpy]:
        """Memory copies of a step."""
        return self._set("memcpys")

    @property
    def memsets(self) -> EventSet[Memset]:
        """Memsets of a step."""
        return self._set("memsets")

    @property
    def host_syncs(self) -> EventSet[Call]:
        """Calls of a step that made the CPU wait."""
        return self._set("host_syncs")

    @property
    def launches(self) -> LaunchSet:
        """Kernel and graph launches of a step; ``launches.all_calls`` adds copy and set calls."""
        chosen = self._set("launches")
        assert isinstance(chosen, LaunchSet)
        return chosen

    @property
    def ops(self) -> EventSet[Op]:
        """Operators of a step, nested ones included."""
        return self._set("ops")

    def _set(self, class_name: str) -> EventSet[Any]:
        first, *others = (getattr(step, class_name) for step in self.steps)
        if self.steps_may_differ or not others:
            return first  # type: ignore[no-any-return]
        return first.agreeing(tuple(others), self._refusal)  # type: ignore[no-any-return]

    def _refusal(self, sets: tuple[EventSet[Any], ...]) -> str | None:
        """Return why sets of several steps must not be read as one, or ``None`` if they agree."""
        verdict = checks.agreement(
            checks.Reading(tuple(step.name for step in self.steps), sets, sets, alike_by=self._alike_by)
        )
        return text.verdict_text(verdict, self._shown) if verdict.outcome is checks.Outcome.FAIL else None

    # Plain numbers

    @property
    def kernel_count(self) -> Count:
        """Kernels a step."""
        __tracebackhide__ = True
        return self._count("kernels")

    @property
    def memcpy_count(self) -> Count:
        """Memory copies a step."""
        __tracebackhide__ = True
        return self._count("memcpys")

    @property
    def memset_count(self) -> Count:
        """Memsets a step."""
        __tracebackhide__ = True
        return self._count("memsets")

    @property
    def host_sync_count(self) -> Count:
        """Calls a step that made the CPU wait."""
        __tracebackhide__ = True
        return self._count("host_syncs")

    @property
    def launch_count(self) -> Count:
        """Kernel and graph launches a step."""
        __tracebackhide__ = True
        return self._count("launches")

    @property
    def op_count(self) -> Count:
        """Operators a step, nested ones included."""
        __tracebackhide__ = True
        return self._count("ops")

    @property
    def gpu_time_ns(self) -> int:
        """Sum of the durations of kernels, copies and memsets, the median over the steps, in ns."""
        __tracebackhide__ = True
        return round(statistics.median(self._times("gpu_time_ns")))

    @property
    def gpu_time_spread_ns(self) -> tuple[int, int]:
        """Smallest and largest GPU time of a step, in ns."""
        __tracebackhide__ = True
        times = self._times("gpu_time_ns")
        return min(times), max(times)

    @property
    def gpu_busy_ns(self) -> int:
        """Time in which the GPU did anything, the median over the steps, in ns."""
        __tracebackhide__ = True
        return round(statistics.median(self._times("gpu_busy_ns")))

    @property
    def cpu_time_ns(self) -> int:
        """Wall-clock time of a call on the CPU, or of the regions in it, the median over the steps, in ns.

        It ends when the call returns: the GPU may still be at work.
        """
        __tracebackhide__ = True
        return round(statistics.median(self._times("cpu_time_ns")))

    @property
    def cpu_time_spread_ns(self) -> tuple[int, int]:
        """Smallest and largest CPU time of a step, in ns."""
        __tracebackhide__ = True
        times = self._times("cpu_time_ns")
        return min(times), max(times)

    @property
    def peak_memory_bytes(self) -> int:
        """Most GPU memory in use at a time, above the start of the step, in bytes.

        Of the step, and of the GPU, that has most.
        """
        __tracebackhide__ = True
        return max(one.peak_bytes for one in self._memory())

    @property
    def allocated_memory_bytes(self) -> int:
        """GPU memory that the allocator gave away in a step, freed or not, in bytes.

        Of the step, and of the GPU, that has most.
        """
        __tracebackhide__ = True
        return max(one.allocated_bytes for one in self._memory())

    def _memory(self) -> list[DeviceMemory]:
        __tracebackhide__ = True
        for step in self.steps:
            if step.why_no_memory:
                raise NotMeasured(f"memory not measured: {step.why_no_memory}")
        return [one for step in self.steps if step.memory for one in step.memory.devices]

    def _times(self, name: str) -> list[int]:
        __tracebackhide__ = True
        times = []
        for step in self.steps:
            times.append(getattr(step, name))  # noqa: PERF401 - a comprehension's frame would show in a failure
        return times

    def _count(self, class_name: str) -> Count:
        __tracebackhide__ = True
        reading = self._reading(class_name)
        for events in reading.whole:
            len(events)  # Raises what has to be raised.
        verdict = checks.agreement(reading)
        if verdict.outcome is not checks.Outcome.PASS:
            raise AssertionError(self._judge.message(verdict))
        numbers = [len(events.seen) for events in reading.whole]

        def explain(expected: str) -> str:
            found = ", ".join(str(number) for number in dict.fromkeys(numbers))
            noun = reading.noun if set(numbers) == {1} else plural(reading.noun)
            headline = f"{found} {noun} a step, expected {expected}"
            return self._judge.message(checks.Verdict(checks.Outcome.FAIL, headline, reading.whole[0].seen))

        return Count(numbers, explain)

    # Narrowing and showing

    def region(self, name: str, *, allow_empty: bool = False) -> Profile:
        """Return the profile of what was launched inside the regions that match the glob *name*.

        Raises:
            SelectorError: There is no such region, and *allow_empty* is False.
        """
        __tracebackhide__ = True
        selection = Selection(region=name, allow_empty=allow_empty)
        steps = tuple(step.select(selection) for step in self.steps)
        narrowed = copy(self)
        narrowed._trace = self._trace._replace(steps=steps)
        narrowed._regions = (*self._regions, selection)
        return narrowed

    def only_steps(self, pattern: str) -> Profile:
        """Return the profile of the steps whose names match the glob *pattern*; a number is that of a step.

        Raises:
            SelectorError: There is no such step.
        """
        __tracebackhide__ = True
        chosen = steps_named(self.steps, pattern)
        narrowed = copy(self)
        narrowed._trace = self._trace._replace(steps=chosen)
        return narrowed

    def table(self) -> str:
        """Return steps and GPU events as text: what ``print(profile)`` shows."""
        shown = text.profile_table(self.steps, self._shown)
        return f"{shown}\n\n{self._origin}" if self._origin else shown

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        first = self.steps[0]
        return f"<Profile: {len(self.steps)} steps, kernels {text.number(first.kernels)}>"

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the first step as plain values; ``None`` where not measured.

        ``measured`` says whether the recording holds its steps, and the GPU events if a GPU was
        watched.
        """
        first = self.steps[0]
        counts = {
            name: None if getattr(first, name).why_not_measured else len(getattr(first, name).seen)
            for name in ("kernels", "memcpys", "memsets", "launches", "host_syncs", "ops")
        }
        try:
            time_ns: int | None = self.gpu_time_ns
            spread_ns: list[int] | None = list(self.gpu_time_spread_ns)
        except NotMeasured:
            time_ns = spread_ns = None
        # Where a GPU is in use but was not watched, the profile measured too little to count.
        on_cpu = self._trace.no_gpu == NO_CONTEXT and counts["ops"] is not None
        matrix = matrix_time_of(self.steps)
        return {
            **counts,
            "gpu_time_ns": time_ns,
            "gpu_time_spread_ns": spread_ns,
            "tensor_cores": None if matrix is None else matrix.words(),
            "measured": on_cpu or counts["kernels"] is not None,
        }

    def _hints(self, verdict: checks.Verdict, explanation: Explanation) -> list[Hint]:
        """Return the hints for a failure, those of others last."""
        scene = Scene(
            steps=self.steps,
            environment=self.environment,
            places=explanation.places,
            tf32_off=self._tf32_off,
            topic=verdict.topic,
        )
        found = hints_for(verdict.events, scene)
        if self._more_hints is not None:
            found += [hint for event in verdict.events for hint in self._more_hints(event, self)]
        return list(dict.fromkeys(found))

    def verdicts(self, ask: Callable[[Profile], None]) -> list[tuple[checks.Verdict, str]]:
        """Return what assertions come to, each with its message, without raising it.

        Args:
            ask: Is given the profile, and makes the assertions.
        """
        found = verdicts_of(lambda: ask(self))
        return [(one, "" if one.outcome is checks.Outcome.PASS else self._judge.message(one)) for one in found]

    def checks(self) -> Checks:
        """Return a context manager that collects the failures of several assertions."""
        return self._judge.checks()
