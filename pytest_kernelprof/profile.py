"""`Profile`: what a profiled function did, and the assertions on it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, SupportsIndex, TypedDict

from . import checks, memory_checks, name_checks, occupancy_checks, time_checks
from .errors import MisuseError, NotMeasured, TooNoisy, instead
from .events import Call, Kernel, Memcpy, Memset, Op
from .eventset import EventSet, LaunchSet, Selection
from .limits import BYTES, FRACTION, TIME, Limit, limit
from .load.own import NO_CONTEXT
from .matrix import matrix_time_of
from .model import Allocated, DeviceMemory, Environment, Orphans, Step, Trace, TraceWarning
from .report import text
from .units import plural

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .checks import Pattern, Reading, Verdict

_NONE = Limit(0, 0)
_OF_OPS = ("launched_by", "region", "allow_empty")
_OF_GUESSES = ("named", "matching", "launched_by", "region", "stream", "allow_empty")
_AT_LEAST_ONE = Limit(1, None)


class Selectors(TypedDict, total=False):
    """Keywords that every assertion on events takes; see `Selection` for their meaning."""

    named: str
    matching: str
    launched_by: str
    region: str
    stream: int
    role: str
    allow_empty: bool


def _selection(selectors: Selectors) -> Selection:
    known = Selection._fields
    for name in selectors:
        if name not in known:
            raise MisuseError(f"{name}= is no selector; {instead(name, sorted(known), '{}=')}")
    return Selection(**selectors)


class Count(int):
    """A number of events. A failing ``assert profile.kernel_count == 5`` shows the events.

    It is an ``int``: its repr is the number, and arithmetic gives plain ints. Where
    ``steps_may_differ`` let the steps differ, a comparison must come out the same for every step;
    otherwise it raises.
    """

    values: tuple[int, ...]
    explain: Callable[[str], str]

    def __new__(cls, values: Sequence[int], explain: Callable[[str], str]) -> Count:
        """Make a count of *values*, one a step; *explain* gives the failure text."""
        self = super().__new__(cls, values[0])
        self.values = tuple(values)
        self.explain = explain
        return self

    def _every(self, operation: Callable[[int], Any], words: str) -> Any:
        """Return the result of *operation*, which must be the same for the count of every step."""
        __tracebackhide__ = True
        results = [operation(value) for value in self.values]
        if any(result != results[0] for result in results):
            raise AssertionError(self.explain(f"every step {words}"))
        return results[0]

    def __eq__(self, other: object) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value == other, f"to equal {other}")

    def __ne__(self, other: object) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value != other, f"not to equal {other}")

    def __lt__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value < other, f"to be below {other}")

    def __le__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value <= other, f"to be at most {other}")

    def __gt__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value > other, f"to be above {other}")

    def __ge__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._every(lambda value: value >= other, f"to be at least {other}")

    def __bool__(self) -> bool:
        __tracebackhide__ = True
        return bool(self._every(bool, "to be zero, or none"))

    def _single(self) -> int:
        """Return the number to calculate with: the steps must have the same."""
        __tracebackhide__ = True
        self._every(lambda value: value, "to be alike, to calculate with")
        return self.values[0]

    def __int__(self) -> int:
        __tracebackhide__ = True
        return self._single()

    __index__ = __trunc__ = __int__

    def __float__(self) -> float:
        __tracebackhide__ = True
        return float(self._single())

    def __add__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() + other

    def __radd__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return other + self._single()

    def __sub__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() - other

    def __rsub__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return other - self._single()

    def __mul__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() * other

    def __rmul__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return other * self._single()

    def __truediv__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() / other

    def __rtruediv__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return other / self._single()

    def __floordiv__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() // other

    def __mod__(self, other: Any) -> Any:
        __tracebackhide__ = True
        return self._single() % other

    __hash__ = int.__hash__

    def __getnewargs__(self) -> Any:
        return (self.values, _no_explanation)


def _no_explanation(expected: str) -> str:
    return f"expected {expected}"


_collector: ContextVar[list[Verdict] | None] = ContextVar("kernelprof_checks", default=None)


class Checks:
    """Collects the failures of the assertions inside its ``with`` block and raises them together.

    A class and no ``@contextmanager``, so that a failure points at the user's line.
    """

    def __init__(self, raise_all: Callable[[list[Verdict]], None]) -> None:
        """Make a collector; *raise_all* raises what was collected."""
        self._raise_all = raise_all
        self._verdicts: list[Verdict] = []

    def __enter__(self) -> Checks:
        if _collector.get() is not None:
            raise MisuseError("checks() inside checks(); one block collects everything in it")
        self._verdicts = []
        self._token = _collector.set(self._verdicts)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        __tracebackhide__ = True
        _collector.reset(self._token)
        if error is None:
            self._raise_all(self._verdicts)
        elif isinstance(error, (AssertionError, NotMeasured)) and self._verdicts:
            outcome = checks.Outcome.FAIL if isinstance(error, AssertionError) else checks.Outcome.NOT_MEASURED
            outcome = checks.Outcome.TOO_NOISY if isinstance(error, TooNoisy) else outcome
            self._raise_all([*self._verdicts, checks.Verdict(outcome, str(error))])
        elif not isinstance(error, (Exception, KeyboardInterrupt, SystemExit, GeneratorExit)):
            # pytest.skip() and pytest.xfail(): what failed before them must not vanish.
            self._raise_all(self._verdicts)


class Repeatable(Protocol):
    """What a profile is of, as long as it can be called again.

    Attributes:
        name: What to call it.
    """

    @property
    def name(self) -> str:
        """What to call it."""

    def alternate(self, other: Repeatable, rounds: int) -> tuple[Profile, Profile]:
        """Return profiles of this and another one, called alternately."""

    def allocated(self) -> Sequence[Allocated]:
        """Call it once more and return who was given GPU memory; empty where that cannot be done."""


class Profile:
    """What one step of a profiled function did. Immutable.

    Counts and sets are those of one step. Steps must agree: where they do not, a set of the class
    in which they differ raises `AssertionError` when it is read, unless ``steps_may_differ`` is
    set; then sets are those of the first step, and limits hold for every step by itself. What was
    not measured raises `NotMeasured`.
    """

    __slots__ = (
        *("_keep_trace", "_origin", "_regions", "_repeatable", "_result", "_trace", "_verbose"),
        "steps_may_differ",
    )

    def __init__(
        self,
        trace: Trace,
        *,
        steps_may_differ: bool = False,
        verbose: bool = False,
        keep_trace: Callable[[], str | None] | None = None,
        result: Callable[[], Any] | None = None,
        origin: str | None = None,
        repeatable: Repeatable | None = None,
    ) -> None:
        """Make a profile of a trace.

        Args:
            trace: The trace, read.
            steps_may_differ: Let the steps differ; each must satisfy a limit by itself.
            verbose: Show every row in messages.
            keep_trace: Keeps the trace file and returns its path, for messages.
            result: Returns what the profiled function returned last.
            origin: Where a replayed recording comes from, for messages.
            repeatable: Can be called again, to be compared with another.
        """
        self._trace = trace
        self._repeatable = repeatable
        self._regions: tuple[Selection, ...] = ()
        self._origin = origin
        self._verbose = verbose
        self._keep_trace = keep_trace or (lambda: None)
        self._result = result
        self.steps_may_differ = steps_may_differ

    # What was seen

    @property
    def steps(self) -> tuple[Step, ...]:
        """The measured steps, each with its own sets."""
        return self._trace.steps

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
        verdict = checks.agreement(checks.Reading(tuple(step.name for step in self.steps), sets, sets))
        return None if verdict.outcome is checks.Outcome.PASS else text.verdict_text(verdict)

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
        """Sum of the durations of kernels, copies and memsets: the median over the steps, in ns."""
        __tracebackhide__ = True
        return round(statistics.median(self._times()))

    @property
    def gpu_time_spread_ns(self) -> tuple[int, int]:
        """Smallest and largest GPU time of a step, in ns."""
        __tracebackhide__ = True
        return min(self._times()), max(self._times())

    @property
    def gpu_busy_ns(self) -> int:
        """Time in which the GPU did anything: the median over the steps, in ns."""
        __tracebackhide__ = True
        return round(statistics.median(step.gpu_busy_ns for step in self.steps))

    @property
    def cpu_time_ns(self) -> int:
        """Wall-clock time of a call on the CPU, or of the regions in it: the median over the steps, in ns.

        It ends when the call returns: the GPU may still be at work.
        """
        __tracebackhide__ = True
        return round(statistics.median(step.cpu_time_ns for step in self.steps))

    @property
    def cpu_time_spread_ns(self) -> tuple[int, int]:
        """Smallest and largest CPU time of a step, in ns."""
        __tracebackhide__ = True
        times = [step.cpu_time_ns for step in self.steps]
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
            if step.memory.why_not_measured:
                raise NotMeasured(f"memory not measured: {step.memory.why_not_measured}")
        return [one for step in self.steps for one in step.memory.devices]

    def _times(self) -> list[int]:
        __tracebackhide__ = True
        times = []
        for step in self.steps:
            times.append(step.gpu_time_ns)  # noqa: PERF401 - a comprehension's frame would show in a failure
        return times

    def _count(self, class_name: str) -> Count:
        __tracebackhide__ = True
        reading = self._reading(class_name)
        for events in reading.whole:
            len(events)  # Raises what has to be raised.
        verdict = checks.agreement(reading)
        if verdict.outcome is not checks.Outcome.PASS:
            raise AssertionError(self._message(verdict))
        numbers = [len(events.seen) for events in reading.whole]

        def explain(expected: str) -> str:
            found = ", ".join(str(number) for number in dict.fromkeys(numbers))
            noun = reading.noun if set(numbers) == {1} else plural(reading.noun)
            headline = f"{found} {noun} a step, expected {expected}"
            return self._message(checks.Verdict(checks.Outcome.FAIL, headline, reading.whole[0].seen))

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
        narrowed = Profile(
            self._trace._replace(steps=steps),
            steps_may_differ=self.steps_may_differ,
            verbose=self._verbose,
            keep_trace=self._keep_trace,
            result=self._result,
            origin=self._origin,
            repeatable=self._repeatable,
        )
        narrowed._regions = (*self._regions, selection)
        return narrowed

    def table(self) -> str:
        """Return steps and GPU events as text: what ``print(profile)`` shows."""
        shown = text.profile_table(self.steps, verbose=self._verbose)
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
        except NotMeasured:
            time_ns = None
        # Where a GPU is in use but was not watched, the profile measured too little to count.
        on_cpu = self._trace.no_gpu == NO_CONTEXT and counts["ops"] is not None
        matrix = matrix_time_of(self.steps)
        return {
            **counts,
            "gpu_time_ns": time_ns,
            "tensor_cores": None if matrix is None else matrix.words(),
            "measured": on_cpu or counts["kernels"] is not None,
        }

    def checks(self) -> Checks:
        """Return a context manager that collects the failures of several assertions."""
        return Checks(self._raise_all)

    # Assertions

    def assert_kernel_count(
        self,
        exactly: SupportsIndex | None = None,
        *,
        at_most: SupportsIndex | None = None,
        at_least: SupportsIndex | None = None,
        between: tuple[SupportsIndex, SupportsIndex] | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check how many kernels a step runs.

        Args:
            exactly: The only number that passes.
            at_most: The largest that passes.
            at_least: The smallest that passes.
            between: The smallest and the largest.
            **selectors: ``named=``, ``matching=``, ``launched_by=``, ``region=``, ``stream=``.

        Raises:
            AssertionError: The number is another, or the steps disagree.
            NotMeasured: The trace does not tell.
            MisuseError: The arguments contradict each other.
        """
        __tracebackhide__ = True
        allowed = limit("assert_kernel_count", exactly, at_most, at_least, between)
        self._judge(checks.count(self._reading("kernels", selectors), allowed))

    def assert_launch_count(
        self,
        exactly: SupportsIndex | None = None,
        *,
        at_most: SupportsIndex | None = None,
        at_least: SupportsIndex | None = None,
        between: tuple[SupportsIndex, SupportsIndex] | None = None,
        api: str | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check how many kernel and graph launches a step makes.

        Args:
            exactly: The only number that passes.
            at_most: The largest that passes.
            at_least: The smallest that passes.
            between: The smallest and the largest.
            api: A glob for one call, such as ``cuLaunchKernelEx``; calls that copy or set memory
                count only when it names them.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        allowed = limit("assert_launch_count", exactly, at_most, at_least, between)
        if api is None:
            reading = self._reading("launches", selectors)
        else:
            reading = self._reading("launches", selectors, part=lambda step: step.launches.all_calls)
            reading = reading.select(Selection(named=checks.api_of("assert_launch_count", api)))
        self._judge(checks.count(reading, allowed))

    def assert_kernel(
        self,
        pattern: str,
        exactly: SupportsIndex | None = None,
        *,
        at_most: SupportsIndex | None = None,
        at_least: SupportsIndex | None = None,
        between: tuple[SupportsIndex, SupportsIndex] | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check that kernels match the glob *pattern*: at least one, unless a limit says otherwise."""
        __tracebackhide__ = True
        given = (exactly, at_most, at_least, between)
        allowed = _AT_LEAST_ONE if given == (None,) * 4 else limit("assert_kernel", *given)
        asked = Selection(named=checks.pattern_of("assert_kernel", pattern))
        self._judge(checks.count(self._reading("kernels", selectors).select(asked), allowed))

    def assert_no_kernel(self, pattern: str, **selectors: Unpack[Selectors]) -> None:
        """Check that no kernel matches the glob *pattern*."""
        __tracebackhide__ = True
        asked = Selection(named=checks.pattern_of("assert_no_kernel", pattern))
        self._judge(checks.count(self._reading("kernels", selectors).select(asked), _NONE))

    def assert_kernel_sequence(self, patterns: Sequence[Pattern], **selectors: Unpack[Selectors]) -> None:
        """Check that the kernels of a step are these, in the order of their launches.

        Args:
            patterns: Globs, one a kernel; ``...`` stands for any run of kernels, also for none.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge(checks.sequence(self._reading("kernels", selectors), patterns))

    def assert_single_kernel(self) -> None:
        """Check that a step is one kernel: no copy, and no Memset but those of cuBLAS and cuDNN."""
        __tracebackhide__ = True
        self._judge(
            checks.first_that_decides(
                [
                    checks.count(self._reading("kernels"), Limit(1, 1)),
                    checks.count(self._reading("memcpys"), _NONE),
                    checks.no_memset(self._reading("memsets"), ignore_library=True),
                ]
            )
        )

    def assert_no_memcpy(
        self, *, kind: str | None = None, pageable: bool | None = None, **selectors: Unpack[Selectors]
    ) -> None:
        """Check that a step copies no memory.

        Args:
            kind: Only this direction, such as ``DtoD``.
            pageable: True: only copies from or to pageable host memory; False: only others.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge(checks.count(checks.copies_of(self._reading("memcpys", selectors), kind, pageable), _NONE))

    def assert_memcpy_count(
        self,
        exactly: SupportsIndex | None = None,
        *,
        at_most: SupportsIndex | None = None,
        at_least: SupportsIndex | None = None,
        between: tuple[SupportsIndex, SupportsIndex] | None = None,
        kind: str | None = None,
        pageable: bool | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check how many memory copies a step makes; arguments as for `assert_no_memcpy`."""
        __tracebackhide__ = True
        allowed = limit("assert_memcpy_count", exactly, at_most, at_least, between)
        self._judge(checks.count(checks.copies_of(self._reading("memcpys", selectors), kind, pageable), allowed))

    def assert_memcpy_bytes(
        self,
        exactly: SupportsIndex | str | None = None,
        *,
        at_most: SupportsIndex | str | None = None,
        at_least: SupportsIndex | str | None = None,
        between: tuple[SupportsIndex | str, SupportsIndex | str] | None = None,
        kind: str | None = None,
        pageable: bool | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check how many bytes a step copies; limits are numbers or text such as ``256 MiB``."""
        __tracebackhide__ = True
        allowed = limit("assert_memcpy_bytes", exactly, at_most, at_least, between, quantity=BYTES)
        reading = checks.copies_of(self._reading("memcpys", selectors), kind, pageable)
        self._judge(checks.copied_bytes(reading, allowed))

    def assert_no_copy(self, **selectors: Unpack[Selectors]) -> None:
        """Check that a step copies nothing: no Memcpy, and no kernel that only moves data.

        Strided and casting copies, concatenations and conversions of the layout (NCHW to NHWC) are
        kernels: their roles are ``copy`` and ``layout``.

        Args:
            **selectors: As for `assert_kernel_count`, but ``role=``.
        """
        __tracebackhide__ = True
        if "role" in selectors:
            raise MisuseError("assert_no_copy takes no role=: it looks for the roles copy and layout, and for Memcpys")
        self._judge(name_checks.no_copy(self._reading("kernels", selectors), self._reading("memcpys", selectors)))

    def assert_tensor_cores(self, *, at_least: float | None = None, **selectors: Unpack[Selectors]) -> None:
        """Check that every matrix kernel of a step (gemm, convolution, attention) runs on tensor cores.

        No matrix kernel at all is a failure. A kernel whose name does not tell is *not measured*,
        unless another surely runs on CUDA cores. ``gemv`` is a role of its own and does not count.

        Args:
            at_least: The share of their time that must be on tensor cores, such as 0.9.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge(name_checks.tensor_cores(self._reading("kernels", selectors), at_least))

    def assert_dtypes(self, dtypes: Collection[str], **selectors: Unpack[Selectors]) -> None:
        """Check that the names of the chosen kernels tell of no other data types than *dtypes*.

        No kernel at all is a failure; one whose name tells no type is *not measured*.

        Args:
            dtypes: Such as ``{"bf16"}``; see `KernelName.dtypes` for what counts.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge(name_checks.dtypes(self._reading("kernels", selectors), dtypes))

    def assert_sdpa_backend(self, backend: str, **selectors: Unpack[Selectors]) -> None:
        """Check which implementation of attention ran in a step, and that no other did.

        Args:
            backend: ``flash``, ``efficient``, ``cudnn`` or ``math`` of
                ``scaled_dot_product_attention``, or ``external``: a kernel of another package.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        kernels = self._reading("kernels", selectors)
        ops = self._reading("ops", {key: value for key, value in selectors.items() if key in _OF_OPS})  # type: ignore[arg-type]
        self._judge(name_checks.sdpa_backend(kernels, ops, backend))

    def assert_guess(self, *, allow_others: bool = False, **guessed: Any) -> None:
        """Check a guess of what a step does, role by role: ``assert_guess(gemm=2, softmax=1, memcpy=0)``.

        A failure shows guess and trace side by side. Kernels of a role that the guess does not
        name contradict it; copies, Memsets and host syncs count only where they are named.

        Args:
            allow_others: Accept kernels of roles that the guess does not name.
            **guessed: By role, or ``memcpy``, ``memset`` and ``host_sync``: how many, or the
                smallest and the largest number as a pair. ``other`` counts kernels of unknown names
                too, and so vouches for them. Selectors, but ``role=``, narrow what is looked at;
                ``named=`` and ``matching=`` among kernels only.
        """
        __tracebackhide__ = True
        selectors: Any = {name: guessed.pop(name) for name in _OF_GUESSES if name in guessed}
        places: Any = {name: value for name, value in selectors.items() if name not in ("named", "matching")}
        readings = {"kernel": self._reading("kernels", selectors)}
        for name, source in name_checks.OTHER_CLASSES.items():
            if name in guessed:
                readings[name] = self._reading(source, places)
        self._judge(name_checks.guess(readings, guessed, allow_others=allow_others))

    def assert_no_memset(self, *, ignore_library: bool = False, **selectors: Unpack[Selectors]) -> None:
        """Check that a step sets no memory.

        Args:
            ignore_library: Forgive Memsets of 4 bytes right before a kernel of cuBLAS or cuDNN,
                which these libraries make for themselves.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge(checks.no_memset(self._reading("memsets", selectors), ignore_library=ignore_library))

    def assert_memset_count(
        self,
        exactly: SupportsIndex | None = None,
        *,
        at_most: SupportsIndex | None = None,
        at_least: SupportsIndex | None = None,
        between: tuple[SupportsIndex, SupportsIndex] | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check how many Memsets a step makes."""
        __tracebackhide__ = True
        allowed = limit("assert_memset_count", exactly, at_most, at_least, between)
        self._judge(checks.count(self._reading("memsets", selectors), allowed))

    def assert_no_host_sync(self, *, allow: Sequence[str] = (), **selectors: Unpack[Selectors]) -> None:
        """Check that nothing in a step makes the CPU wait.

        Args:
            allow: Globs for ops, regions or calls that may.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge(checks.count(checks.without_allowed(self._reading("host_syncs", selectors), allow), _NONE))

    def assert_host_sync_count(
        self,
        exactly: SupportsIndex | None = None,
        *,
        at_most: SupportsIndex | None = None,
        at_least: SupportsIndex | None = None,
        between: tuple[SupportsIndex, SupportsIndex] | None = None,
        allow: Sequence[str] = (),
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check how often a step makes the CPU wait; *allow* as for `assert_no_host_sync`."""
        __tracebackhide__ = True
        allowed = limit("assert_host_sync_count", exactly, at_most, at_least, between)
        reading = checks.without_allowed(self._reading("host_syncs", selectors), allow)
        self._judge(checks.count(reading, allowed))

    def assert_occupancy(
        self,
        exactly: float | None = None,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        between: tuple[float, float] | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check the theoretical occupancy of every chosen kernel of a step; see `theoretical_occupancy`.

        The profiler's own figure stands beside it in a failure, and decides nothing. No kernel at
        all is a failure; a kernel of which the trace tells too little (AMD, Intel) is *not measured*.

        Args:
            exactly: A fraction from 0 to 1, met within 0.0005 (0.05 percentage points).
            at_most: The largest that passes.
            at_least: The smallest that passes.
            between: The smallest and the largest.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        allowed = limit("assert_occupancy", exactly, at_most, at_least, between, quantity=FRACTION)
        self._judge(occupancy_checks.occupancy(self._reading("kernels", selectors), allowed))

    def assert_gpu_time(
        self,
        *,
        at_most: SupportsIndex | str | None = None,
        at_least: SupportsIndex | str | None = None,
        between: tuple[SupportsIndex | str, SupportsIndex | str] | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check the GPU time of a step: the median over the steps, of kernels, copies and Memsets together.

        Where the spread of the steps, another process or another xdist worker on the GPU forbids a
        verdict, it is *too noisy to judge* (`TooNoisy`). ``configure(steps=...)`` takes more steps.

        Args:
            at_most: The largest that passes: nanoseconds, or text such as ``1.5 ms``.
            at_least: The smallest that passes.
            between: The smallest and the largest.
            **selectors: As for `assert_kernel_count`; ``role=`` leaves kernels only.
        """
        __tracebackhide__ = True
        allowed = limit("assert_gpu_time", None, at_most, at_least, between, quantity=TIME)
        readings = self._gpu_readings(selectors)
        self._judge(time_checks.within(time_checks.gpu_times(readings, self._trace.shared_gpu), allowed, readings))

    def assert_cpu_time(
        self,
        *,
        at_most: SupportsIndex | str | None = None,
        at_least: SupportsIndex | str | None = None,
        between: tuple[SupportsIndex | str, SupportsIndex | str] | None = None,
        region: str | None = None,
    ) -> None:
        """Check the wall-clock time of a call on the CPU: the median over the steps; works without a GPU.

        It ends when the call returns: the GPU may still be at work. The profiler's own cost, about
        a microsecond an op, is in it.

        Args:
            at_most: The largest that passes: nanoseconds, or text such as ``1.5 ms``.
            at_least: The smallest that passes.
            between: The smallest and the largest.
            region: A glob for ``record_function`` ranges: their time instead of that of the call.
        """
        __tracebackhide__ = True
        allowed = limit("assert_cpu_time", None, at_most, at_least, between, quantity=TIME)
        self._judge(time_checks.within(self._cpu_times(region), allowed))

    def assert_faster_than(
        self,
        other: Profile,
        *,
        by: float = 1.0,
        on: str = "gpu",
        steps: int | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check that this function is faster than that of another profile of the same test.

        Both are called again, in turn, under the modes and switches under which they were profiled,
        so that what drifts meets both alike. A verdict needs the interval of the ratio on one side
        of *by*; everything else is *too noisy to judge* (`TooNoisy`).

        Args:
            other: The slower one.
            by: How many times as fast it must be at least; 1 is any faster.
            on: ``gpu`` compares GPU time, ``cpu`` the time of the calls on the CPU.
            steps: How often each is called; by default 30, or as often as either was profiled.
            **selectors: As for `assert_gpu_time`; ``region=`` only where ``on="cpu"``.

        Raises:
            AssertionError: It is not.
            TooNoisy: The spread, or a shared GPU, forbids a verdict.
            NotMeasured: The two cannot be called alternately, such as blocks and recorded traces.
        """
        __tracebackhide__ = True
        factor, rounds = time_checks.factor(by), self._rounds(other, steps)
        if on not in ("gpu", "cpu"):
            raise MisuseError(f"assert_faster_than(on={on!r}) is no clock; accepted: 'gpu' or 'cpu'")
        region = selectors.get("region")
        if on == "cpu" and set(selectors) - {"region"}:
            raise MisuseError("assert_faster_than(on='cpu') takes no selector but region=")
        mine, theirs, why = self._alternately(other, rounds)
        if why:
            told = f"{on.upper()} time not measured: {why}; {time_checks.expected_factor(factor)}"
            self._judge(checks.Verdict(checks.Outcome.NOT_MEASURED, told))
            return
        sides = []
        for profile, name in ((mine, "this"), (theirs, "other")):
            times = (
                profile._cpu_times(region)
                if on == "cpu"
                else time_checks.gpu_times(profile._gpu_readings(selectors), profile._trace.shared_gpu)
            )
            sides.append(time_checks.Side(profile._repeatable.name if profile._repeatable else name, times))
        mine._judge(time_checks.faster_than(sides[0], sides[1], factor))

    def assert_peak_memory(
        self,
        exactly: SupportsIndex | str | None = None,
        *,
        at_most: SupportsIndex | str | None = None,
        at_least: SupportsIndex | str | None = None,
        between: tuple[SupportsIndex | str, SupportsIndex | str] | None = None,
        device: int | None = None,
    ) -> None:
        """Check the most GPU memory in use at a time during a step, above what was in use at its start.

        Blocks of torch's caching allocator, rounded up as it does (512 bytes); what it merely keeps
        in its cache is not in use. Every step must pass.

        Args:
            exactly: The only number that passes, in bytes or text such as ``256 MiB``.
            at_most: The largest that passes.
            at_least: The smallest that passes.
            between: The smallest and the largest.
            device: Index of the GPU; by default the one that has most.
        """
        __tracebackhide__ = True
        allowed = limit("assert_peak_memory", exactly, at_most, at_least, between, quantity=BYTES)
        self._judge(memory_checks.memory(self.steps, "peak_bytes", allowed, device, self._look))

    def assert_allocated_memory(
        self,
        exactly: SupportsIndex | str | None = None,
        *,
        at_most: SupportsIndex | str | None = None,
        at_least: SupportsIndex | str | None = None,
        between: tuple[SupportsIndex | str, SupportsIndex | str] | None = None,
        device: int | None = None,
    ) -> None:
        """Check how much GPU memory was allocated during a step in total, freed or not.

        It differs from the peak: what is freed and allocated again counts twice. Arguments as for
        `assert_peak_memory`.
        """
        __tracebackhide__ = True
        allowed = limit("assert_allocated_memory", exactly, at_most, at_least, between, quantity=BYTES)
        self._judge(memory_checks.memory(self.steps, "allocated_bytes", allowed, device, self._look))

    def assert_no_device_allocation(self, *, device: int | None = None) -> None:
        """Check that in no step the caching allocator had to ask the driver for memory.

        A warm step finds all it needs in the cache; asking the driver is slow, and can wait for the
        GPU.

        Args:
            device: Index of the GPU; by default all.
        """
        __tracebackhide__ = True
        self._judge(memory_checks.no_device_allocation(self.steps, device, self._look))

    def assert_op_count(
        self,
        pattern: str,
        exactly: SupportsIndex | None = None,
        *,
        at_most: SupportsIndex | None = None,
        at_least: SupportsIndex | None = None,
        between: tuple[SupportsIndex, SupportsIndex] | None = None,
        **selectors: Unpack[Selectors],
    ) -> None:
        """Check how many ops match the glob *pattern* in a step; works without a GPU."""
        __tracebackhide__ = True
        allowed = limit("assert_op_count", exactly, at_most, at_least, between)
        asked = Selection(named=checks.pattern_of("assert_op_count", pattern))
        self._judge(checks.count(self._reading("ops", selectors).select(asked), allowed))

    def assert_no_op(self, pattern: str, **selectors: Unpack[Selectors]) -> None:
        """Check that no op of a step matches the glob *pattern*; works without a GPU."""
        __tracebackhide__ = True
        asked = Selection(named=checks.pattern_of("assert_no_op", pattern))
        self._judge(checks.count(self._reading("ops", selectors).select(asked), _NONE))

    def assert_graphed(self, *, allow: Sequence[str] = (), **selectors: Unpack[Selectors]) -> None:
        """Check that every kernel of a step came from a graph launch.

        Args:
            allow: Globs for kernels, ops or regions that may be launched without a graph.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge(checks.graphed(self._reading("kernels", selectors), allow))

    # How assertions work

    def _gpu_readings(self, selectors: Selectors) -> list[Reading]:
        """Return kernels, copies and Memsets, or the kernels alone if a role is asked for."""
        __tracebackhide__ = True
        classes = ("kernels",) if "role" in selectors else ("kernels", "memcpys", "memsets")
        return [self._reading(name, selectors) for name in classes]

    def _look(self) -> Sequence[Allocated]:
        return self._repeatable.allocated() if self._repeatable else ()

    def _cpu_times(self, region: str | None) -> time_checks.Times:
        __tracebackhide__ = True
        narrowed = self if region is None else self.region(region)
        words = ", ".join(str(one.region) for one in narrowed._regions)
        return time_checks.cpu_times(narrowed.steps, words or None)

    def _rounds(self, other: Profile, steps: int | None) -> int:
        __tracebackhide__ = True
        if not isinstance(other, Profile):
            raise MisuseError(f"assert_faster_than({other!r}) is no profile; accepted: what profiled() returns")
        return time_checks.rounds(steps, len(self.steps), len(other.steps))

    def _alternately(self, other: Profile, rounds: int) -> tuple[Profile, Profile, str | None]:
        """Return profiles of both, called alternately, narrowed as they are; or why there are none."""
        __tracebackhide__ = True
        if self._repeatable is None or other._repeatable is None:
            return self, other, "blocks and recorded traces cannot be called alternately"
        found = []
        for profile, again in zip((self, other), self._repeatable.alternate(other._repeatable, rounds), strict=True):
            for selection in profile._regions:
                again = again.region(str(selection.region), allow_empty=selection.allow_empty)
            found.append(again)
            why = None
            if not profile.steps_may_differ:
                name = again._repeatable.name if again._repeatable else "it"
                why = time_checks.other_work(name, profile.steps, again.steps)
            if why:
                return self, other, why
        return found[0], found[1], None

    def _reading(
        self, class_name: str, selectors: Selectors | None = None, part: Callable[[Step], EventSet[Any]] | None = None
    ) -> Reading:
        __tracebackhide__ = True
        whole = tuple(part(step) if part else getattr(step, class_name) for step in self.steps)
        reading = checks.Reading(tuple(step.name for step in self.steps), whole, whole, self.steps_may_differ)
        return reading.select(_selection(selectors)) if selectors else reading

    def _judge(self, verdict: Verdict) -> None:
        """Raise unless *verdict* is a pass: whatever else it may be, it must not be green."""
        __tracebackhide__ = True
        collected = _collector.get()
        if collected is not None:
            collected.append(verdict)
        elif verdict.outcome is not checks.Outcome.PASS:
            self._raise(verdict)

    def _raise_all(self, verdicts: list[Verdict]) -> None:
        __tracebackhide__ = True
        bad = [verdict for verdict in verdicts if verdict.outcome is not checks.Outcome.PASS]
        if len(bad) == 1:
            self._raise(bad[0])
        if bad:
            outcomes = {verdict.outcome for verdict in bad}
            headline = f"{len(bad)} of {len(verdicts)} checks did not pass"
            parts = [text.verdict_text(verdict, verbose=self._verbose) for verdict in bad]
            told = "\n\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1))
            order = (checks.Outcome.FAIL, checks.Outcome.NOT_MEASURED, checks.Outcome.TOO_NOISY)
            outcome = next(one for one in order if one in outcomes)
            self._raise(checks.Verdict(outcome, f"{headline}\n\n{told}"))

    def _raise(self, verdict: Verdict) -> NoReturn:
        __tracebackhide__ = True
        if verdict.outcome is checks.Outcome.TOO_NOISY:
            raise TooNoisy(self._message(verdict))
        if verdict.outcome is checks.Outcome.NOT_MEASURED:
            raise NotMeasured(self._message(verdict))
        raise AssertionError(self._message(verdict))

    def _message(self, verdict: Verdict) -> str:
        told = text.verdict_text(verdict, verbose=self._verbose)
        kept = self._keep_trace()
        where = f"trace: {kept}   open in https://ui.perfetto.dev" if kept else None
        last = "\n".join(line for line in (where, self._origin) if line)
        return f"{told}\n\n{last}" if last else told
