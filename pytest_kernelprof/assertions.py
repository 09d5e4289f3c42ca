"""What a profile can be asked to hold: its assertions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import checks, memory_checks, name_checks, occupancy_checks, time_checks
from .asking import Askable, questions
from .attribution import is_compiled
from .comparing import Compared, Repeatable, Rounds, clock_of, compare
from .errors import MisuseError
from .eventset import EventSet, Selection
from .judging import Judge
from .limits import AT_LEAST_ONE, BYTES, FRACTION, NONE, ONE, TIME, Limit, limit
from .memory import Allocated
from .model import Step, Trace
from .selecting import Selectors, gpu_readings, reading

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .checks import Pattern, Reading
    from .ledger.book import Slot

_OF_OPS = ("launched_by", "region", "allow_empty")
_OF_GUESSES = ("named", "matching", "launched_by", "region", "stream", "allow_empty")


@questions
class Assertions(Askable):
    """The assertions of a `Profile`."""

    __slots__ = ()

    _alike_by: str
    _judge: Judge
    _repeatable: Repeatable | None
    _slot: Slot | None
    _trace: Trace

    @property
    def steps(self) -> tuple[Step, ...]:
        """The measured steps, each with its own sets."""
        if self._judge.noted is not None:
            self._judge.noted.read()
        return self._trace.steps

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
        self._judge.judge(checks.count(self._reading("kernels", selectors), allowed))

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
        self._judge.judge(checks.count(reading, allowed))

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
        allowed = AT_LEAST_ONE if given == (None,) * 4 else limit("assert_kernel", *given)
        asked = Selection(named=checks.pattern_of("assert_kernel", pattern))
        self._judge.judge(checks.count(self._reading("kernels", selectors).select(asked), allowed))

    def assert_no_kernel(self, pattern: str, **selectors: Unpack[Selectors]) -> None:
        """Check that no kernel matches the glob *pattern*."""
        __tracebackhide__ = True
        asked = Selection(named=checks.pattern_of("assert_no_kernel", pattern))
        self._judge.judge(checks.count(self._reading("kernels", selectors).select(asked), NONE))

    def assert_kernel_sequence(self, patterns: Sequence[Pattern], **selectors: Unpack[Selectors]) -> None:
        """Check that the kernels of a step are these, in the order of their launches.

        Args:
            patterns: Globs, one a kernel; ``...`` stands for any run of kernels, also for none.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge.judge(checks.sequence(self._reading("kernels", selectors), patterns))

    def assert_single_kernel(self) -> None:
        """Check that a step is one kernel: no copy, and no Memset but those of cuBLAS and cuDNN."""
        __tracebackhide__ = True
        self._judge.judge(
            checks.first_that_decides(
                [
                    checks.count(self._reading("kernels"), ONE),
                    checks.count(self._reading("memcpys"), NONE),
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
        self._judge.judge(checks.count(checks.copies_of(self._reading("memcpys", selectors), kind, pageable), NONE))

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
        self._judge.judge(checks.count(checks.copies_of(self._reading("memcpys", selectors), kind, pageable), allowed))

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
        self._judge.judge(checks.copied_bytes(reading, allowed))

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
        self._judge.judge(name_checks.no_copy(self._reading("kernels", selectors), self._reading("memcpys", selectors)))

    def assert_tensor_cores(self, *, at_least: float | None = None, **selectors: Unpack[Selectors]) -> None:
        """Check that every matrix kernel of a step (gemm, convolution, attention) runs on tensor cores.

        No matrix kernel at all is a failure. A kernel whose name does not tell is *not measured*,
        unless another surely runs on CUDA cores. ``gemv`` is a role of its own and does not count.

        Args:
            at_least: The share of their time that must be on tensor cores, such as 0.9.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge.judge(name_checks.tensor_cores(self._reading("kernels", selectors), at_least))

    def assert_dtypes(self, dtypes: Collection[str], **selectors: Unpack[Selectors]) -> None:
        """Check that the names of the chosen kernels tell of no other data types than *dtypes*.

        No kernel at all is a failure; one whose name tells no type is *not measured*.

        Args:
            dtypes: Such as ``{"bf16"}``; see `KernelName.dtypes` for what counts.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge.judge(name_checks.dtypes(self._reading("kernels", selectors), dtypes))

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
        self._judge.judge(name_checks.sdpa_backend(kernels, ops, backend))

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
        self._judge.judge(name_checks.guess(readings, guessed, allow_others=allow_others))

    def assert_no_memset(self, *, ignore_library: bool = False, **selectors: Unpack[Selectors]) -> None:
        """Check that a step sets no memory.

        Args:
            ignore_library: Forgive Memsets of 4 bytes right before a kernel of cuBLAS or cuDNN,
                which these libraries make for themselves.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge.judge(checks.no_memset(self._reading("memsets", selectors), ignore_library=ignore_library))

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
        self._judge.judge(checks.count(self._reading("memsets", selectors), allowed))

    def assert_no_host_sync(self, *, allow: Sequence[str] = (), **selectors: Unpack[Selectors]) -> None:
        """Check that nothing in a step makes the CPU wait.

        Args:
            allow: Globs for ops, regions or calls that may.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge.judge(checks.count_without_allowed(self._reading("host_syncs", selectors), NONE, allow))

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
        self._judge.judge(checks.count_without_allowed(self._reading("host_syncs", selectors), allowed, allow))

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
            exactly: A fraction from 0 to 1; this and all limits may be missed by 0.0005 (0.05
                percentage points).
            at_most: The largest that passes.
            at_least: The smallest that passes.
            between: The smallest and the largest.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        allowed = limit("assert_occupancy", exactly, at_most, at_least, between, quantity=FRACTION)
        self._judge.judge(occupancy_checks.occupancy(self._reading("kernels", selectors), allowed))

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
        readings = gpu_readings(self.steps, selectors, may_differ=self.steps_may_differ, alike_by=self._alike_by)
        self._judge_times(time_checks.gpu_times(readings, self._trace.shared_gpu), allowed, readings)

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
        steps: Sequence[Step] = self.steps
        regions = [str(one.region) for one in self._regions]
        if region is not None:
            inside = Selection(region=region)
            steps = [step.timed_in(inside) for step in steps]
            regions.append(region)
        self._judge_times(time_checks.cpu_times(steps, ", ".join(regions)), allowed)

    def _judge_times(self, times: time_checks.Times, allowed: Limit, readings: Sequence[Reading] = ()) -> None:
        __tracebackhide__ = True
        times = times._replace(may_differ=self.steps_may_differ, repeats=self._repeatable is not None)
        self._judge.judge(time_checks.within(times, allowed, readings))

    def assert_faster_than(
        self,
        other: Assertions,
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
            by: How many times as fast it must be at least, from 1, which is any faster.
            on: ``gpu`` compares GPU time, ``cpu`` the time of the calls on the CPU.
            steps: How often each is called; by default 30, or as often as either was profiled.
            **selectors: As for `assert_gpu_time`; with ``on="cpu"``, ``region=`` alone.

        Raises:
            AssertionError: It is not.
            TooNoisy: The spread, or a shared GPU, forbids a verdict.
            NotMeasured: The two cannot be called alternately, such as blocks and recorded traces.
        """
        __tracebackhide__ = True
        if not isinstance(other, Assertions):
            raise MisuseError(f"assert_faster_than({other!r}) is no profile; accepted: what profiled() returns")
        factor = time_checks.factor(by)
        number = time_checks.rounds(steps, len(self.steps), len(other.steps))
        rounds = Rounds(number, asked=steps is not None)
        clock = clock_of(on, selectors)
        verdict, judge = compare(self._compared(), other._compared(), rounds, factor, clock)
        (judge or self._judge).judge(verdict)

    def _compared(self) -> Compared:
        return Compared(self.steps, self._regions, self.steps_may_differ, self._repeatable)

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
        self._judge.judge(memory_checks.memory(self.steps, "peak_bytes", allowed, device, self._look))

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
        self._judge.judge(memory_checks.memory(self.steps, "allocated_bytes", allowed, device, self._look))

    def assert_no_device_allocation(self, *, device: int | None = None) -> None:
        """Check that in no step the caching allocator had to ask the driver for memory.

        A warm step finds all it needs in the cache; asking the driver is slow, and can wait for the
        GPU.

        Args:
            device: Index of the GPU; by default all.
        """
        __tracebackhide__ = True
        self._judge.judge(memory_checks.memory(self.steps, "driver_allocations", NONE, device, self._look))

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
        self._judge.judge(checks.count(self._reading("ops", selectors).select(asked), allowed))

    def assert_no_op(self, pattern: str, **selectors: Unpack[Selectors]) -> None:
        """Check that no op of a step matches the glob *pattern*; works without a GPU."""
        __tracebackhide__ = True
        asked = Selection(named=checks.pattern_of("assert_no_op", pattern))
        self._judge.judge(checks.count(self._reading("ops", selectors).select(asked), NONE))

    def assert_graphed(self, *, allow: Sequence[str] = (), **selectors: Unpack[Selectors]) -> None:
        """Check that every kernel of a step came from a graph launch.

        Args:
            allow: Globs for kernels, ops or regions that may be launched without a graph.
            **selectors: As for `assert_kernel_count`.
        """
        __tracebackhide__ = True
        self._judge.judge(checks.graphed(self._reading("kernels", selectors), allow))

    def assert_matches_ledger(self, *, level: str | None = None) -> None:
        """Check that a step launches what the ledger beside the test file says.

        The ledger has an entry a test, profile and environment (``sm90``, ``gfx942``, ``cpu``): of a
        GPU the kernels, copies, Memsets and host syncs, of a CPU test the operators.
        ``--kernelprof-update`` writes it from what is measured.

        Args:
            level: ``roles`` tells kernels apart by library, role, data types and tensor cores,
                ``names`` by their names too, without tiles, counters, hashes and addresses; by
                default what ``kernelprof_ledger_level`` says, ``roles``.

        Raises:
            AssertionError: The step differs from its entry.
            LedgerError: There is no entry, and none may be written, or the ledger cannot be read.
            NotMeasured: Events are missing.
        """
        __tracebackhide__ = True
        if self._slot is None:
            raise MisuseError("assert_matches_ledger() needs a profile of a fixture: a ledger lies beside a test file")
        # Who asserts nothing of a ledger does not wait for it: the command line judges in a tenth of a second.
        from . import ledger_checks
        from .ledger.entry import entry_of

        page, classes = self._slot.page(self._trace, [str(one.region) for one in self._regions])
        level = ledger_checks.level_of(level, page.book.policy.level)
        readings = {name: self._reading(name) for name in classes}
        seen = [entry_of(step, classes, level, self._trace.environment) for step in self.steps]
        self._judge.judge(ledger_checks.matches_ledger(readings, seen, page))

    # How assertions read

    def _reading(
        self, class_name: str, selectors: Selectors | None = None, part: Callable[[Step], EventSet[Any]] | None = None
    ) -> Reading:
        __tracebackhide__ = True
        return reading(
            self.steps, class_name, selectors, may_differ=self.steps_may_differ, alike_by=self._alike_by, part=part
        )

    def _look(self) -> tuple[Sequence[Allocated], str]:
        """Return who was given GPU memory, from the recording or by one more call, and from which."""
        if self._trace.allocated:
            return self._trace.allocated, "the ops are those of the last call of the warm-up"
        found = self._repeatable.allocated(compiled=is_compiled(self.steps)) if self._repeatable else ()
        return found, "function was called once more"
