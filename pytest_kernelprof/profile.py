"""`Profile`: what a profiled function did, and the assertions on it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypedDict

from . import checks, name_checks
from .errors import MisuseError, NotMeasured, instead
from .events import Call, Kernel, Memcpy, Memset, Op
from .eventset import EventSet, LaunchSet, Selection
from .load.own import NO_CONTEXT
from .matrix import matrix_time_of
from .model import Environment, Orphans, Step, Trace, TraceWarning
from .report import text
from .units import plural

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .checks import Pattern, Reading, Verdict

_NONE = checks.Limit(0, 0)
_OF_OPS = ("launched_by", "region", "allow_empty")
_OF_GUESSES = ("named", "matching", "launched_by", "region", "stream", "allow_empty")
_AT_LEAST_ONE = checks.Limit(1, None)


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
            self._raise_all([*self._verdicts, checks.Verdict(outcome, str(error))])
        elif not isinstance(error, (Exception, KeyboardInterrupt, SystemExit, GeneratorExit)):
            # pytest.skip() and pytest.xfail(): what failed before them must not vanish.
            self._raise_all(self._verdicts)


class Profile:
    """What one step of a profiled function did. Immutable.

    Counts and sets are those of one step. Steps must agree: where they do not, a set of the class
    in which they differ raises `AssertionError` when it is read, unless ``steps_may_differ`` is
    set; then sets are those of the first step, and limits hold for every step by itself. What was
    not measured raises `NotMeasured`.
    """

    __slots__ = ("_keep_trace", "_origin", "_result", "_trace", "_verbose", "steps_may_differ")

    def __init__(
        self,
        trace: Trace,
        *,
        steps_may_differ: bool = False,
        verbose: bool = False,
        keep_trace: Callable[[], str | None] | None = None,
        result: Callable[[], Any] | None = None,
        origin: str | None = None,
    ) -> None:
        """Make a profile of a trace.

        Args:
            trace: The trace, read.
            steps_may_differ: Let the steps differ; each must satisfy a limit by itself.
            verbose: Show every row in messages.
            keep_trace: Keeps the trace file and returns its path, for messages.
            result: Returns what the profiled function returned last.
            origin: Where a replayed recording comes from, for messages.
        """
        self._trace = trace
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
        return Profile(
            self._trace._replace(steps=steps),
            steps_may_differ=self.steps_may_differ,
            verbose=self._verbose,
            keep_trace=self._keep_trace,
            result=self._result,
            origin=self._origin,
        )

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
        allowed = checks.limit("assert_kernel_count", exactly, at_most, at_least, between)
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
        allowed = checks.limit("assert_launch_count", exactly, at_most, at_least, between)
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
        allowed = _AT_LEAST_ONE if given == (None,) * 4 else checks.limit("assert_kernel", *given)
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
                    checks.count(self._reading("kernels"), checks.Limit(1, 1)),
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
        allowed = checks.limit("assert_memcpy_count", exactly, at_most, at_least, between)
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
        allowed = checks.limit("assert_memcpy_bytes", exactly, at_most, at_least, between, size=True)
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
        allowed = checks.limit("assert_memset_count", exactly, at_most, at_least, between)
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
        allowed = checks.limit("assert_host_sync_count", exactly, at_most, at_least, between)
        reading = checks.without_allowed(self._reading("host_syncs", selectors), allow)
        self._judge(checks.count(reading, allowed))

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
        allowed = checks.limit("assert_op_count", exactly, at_most, at_least, between)
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
            unmeasured = all(verdict.outcome is checks.Outcome.NOT_MEASURED for verdict in bad)
            headline = f"{len(bad)} of {len(verdicts)} checks did not pass"
            parts = [text.verdict_text(verdict, verbose=self._verbose) for verdict in bad]
            told = "\n\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1))
            outcome = checks.Outcome.NOT_MEASURED if unmeasured else checks.Outcome.FAIL
            self._raise(checks.Verdict(outcome, f"{headline}\n\n{told}"))

    def _raise(self, verdict: Verdict) -> NoReturn:
        __tracebackhide__ = True
        if verdict.outcome is checks.Outcome.NOT_MEASURED:
            raise NotMeasured(self._message(verdict))
        raise AssertionError(self._message(verdict))

    def _message(self, verdict: Verdict) -> str:
        told = text.verdict_text(verdict, verbose=self._verbose)
        kept = self._keep_trace()
        where = f"trace: {kept}   open in https://ui.perfetto.dev" if kept else None
        last = "\n".join(line for line in (where, self._origin) if line)
        return f"{told}\n\n{last}" if last else told
