"""Live capture on a CPU: calls, set-up, blocks, refusals; each leaves the next profile whole."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from pytest_kernelprof import CaptureError, MisuseError, NotMeasured, Profiled  # noqa: E402

pytestmark = pytest.mark.kernelprof(device="cpu")


class Calls:
    """Counts how often it is called, and raises in one call if asked to."""

    def __init__(self, fail_in: int | None = None) -> None:
        self.number = 0
        self.fail_in = fail_in

    def __call__(self, x: Any) -> Any:
        self.number += 1
        if self.number == self.fail_in:
            raise KeyError("cache")
        return x.neg()


@pytest.fixture
def x() -> Any:
    return torch.ones(4)


@pytest.fixture(autouse=True)
def whole_afterwards(profiled: Profiled, x: Any) -> Iterator[None]:
    """Whatever a test did, the next profile is whole."""
    yield
    profile = profiled.configure(name="afterwards", setup=lambda: x)(torch.neg)
    profile.assert_op_count("aten::neg", 1)
    assert len(profile.steps) == 3 or profiled._settings.steps != 3


def test_warm_up_then_measured_steps(profiled: Profiled, x: Any) -> None:
    calls = Calls()
    profile = profiled(calls, x)

    assert calls.number == 6
    assert [step.name for step in profile.steps] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert [len(step.ops) for step in profile.steps] == [1, 1, 1]


def test_configure_makes_another(profiled: Profiled, x: Any) -> None:
    calls = Calls()
    other = profiled.configure(warmup=1, steps=2)

    assert isinstance(other, Profiled)
    assert other is not profiled
    assert len(other(calls, x).steps) == 2
    assert calls.number == 3


@pytest.mark.kernelprof(warmup=0, steps=1)
def test_the_marker_configures(profiled: Profiled, x: Any) -> None:
    calls = Calls()
    profiled(calls, x)

    assert calls.number == 1


@pytest.mark.kernelprof(warmup=0)
class TestMarkers:
    """The closest marker wins, option by option."""

    @pytest.mark.kernelprof(steps=2)
    def test_they_add_up(self, profiled: Profiled, x: Any) -> None:
        calls = Calls()
        profiled(calls, x)

        assert calls.number == 2

    @pytest.mark.kernelprof(warmup=1)
    def test_the_closest_wins(self, profiled: Profiled, x: Any) -> None:
        calls = Calls()
        profiled.configure(steps=1)(calls, x)

        assert calls.number == 2


def test_keyword_arguments_are_the_functions_own(profiled: Profiled, x: Any) -> None:
    def function(x: Any, *, steps: int, name: str) -> Any:
        assert (steps, name) == (7, "mine")
        return x.neg()

    profiled(function, x, steps=7, name="mine").assert_op_count("aten::neg", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 3}, r"profiled.configure\(\): step=3 is no option; did you mean steps=\?"),
        ({"device": "cuda"}, "only the marker takes device="),
        ({"steps": 0}, "steps=0 is not accepted; accepted: a whole number of at least 1"),
        ({"steps": 2.5}, "steps=2.5 is not accepted"),
        ({"warmup": -1}, "warmup=-1 is not accepted"),
        ({"warmup": True}, "warmup=True is not accepted"),
        ({"steps_may_differ": "perhaps"}, "accepted: true or false"),
        ({"setup": 3}, "accepted: a function without arguments"),
        ({"name": ""}, "accepted: text that is not empty"),
        ({"activities": ["gpu"]}, "with cpu in it"),
        ({"activities": 3}, "with cpu in it"),
    ],
)
def test_wrong_options_are_refused_at_once(profiled: Profiled, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MisuseError, match=message):
        profiled.configure(**options)


def test_the_last_result_is_kept(profiled: Profiled, x: Any) -> None:
    assert torch.equal(profiled(torch.neg, x).result, -x)


def test_two_profiles_of_one_test(profiled: Profiled, x: Any) -> None:
    first = profiled(torch.neg, x)
    second = profiled.configure(name="sigmoid")(torch.sigmoid, x)

    first.assert_op_count("aten::neg", 1)
    second.assert_op_count("aten::sigmoid", 1)
    with pytest.raises(MisuseError, match="name='sigmoid' was given to two profiles of one test"):
        profiled.configure(name="sigmoid")(torch.sigmoid, x)


@pytest.mark.parametrize(
    ("made", "arguments"),
    [(None, ()), (3, (3,)), ((3, 4), (3, 4)), ([3, 4], ([3, 4],)), ({"a": 1}, ({"a": 1},)), (((3, 4),), ((3, 4),))],
)
def test_what_setup_returns_becomes_the_arguments(profiled: Profiled, made: Any, arguments: tuple[Any, ...]) -> None:
    seen = []
    profiled.configure(setup=lambda: made)(lambda *args: seen.append(args))

    assert seen == [arguments] * 6


def test_setup_is_called_before_every_call_outside_the_window(profiled: Profiled, x: Any) -> None:
    order = []

    def setup() -> Any:
        order.append("setup")
        return x.sigmoid()

    def function(y: Any) -> Any:
        order.append("call")
        return y.neg()

    profile = profiled.configure(setup=setup)(function)

    assert order == ["setup", "call"] * 6
    profile.assert_no_op("aten::sigmoid")
    profile.assert_op_count("aten::neg", 1)


def test_setup_makes_backward_possible(profiled: Profiled) -> None:
    weight = torch.ones(3, requires_grad=True)

    profile = profiled.configure(setup=lambda: (weight * 2).sum())(torch.Tensor.backward)

    profile.assert_op_count("autograd::engine::evaluate_function: MulBackward0", 1)
    profile.assert_no_op("aten::mul", allow_empty=True, launched_by="SumBackward0")


def test_arguments_and_setup_contradict(profiled: Profiled, x: Any) -> None:
    with pytest.raises(CaptureError, match="arguments and setup= were both given"):
        profiled.configure(setup=lambda: x)(torch.neg, x)


# Failures


def test_a_failure_in_the_first_call_is_the_users_own(profiled: Profiled, x: Any) -> None:
    with pytest.raises(KeyError, match="cache"):
        profiled(Calls(fail_in=1), x)


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_a_failure_in_a_later_call_says_in_which(profiled: Profiled, x: Any, number: int) -> None:
    with pytest.raises(CaptureError) as caught:
        profiled(Calls(fail_in=number), x)

    assert str(caught.value) == (
        f"Calls raised in call {number} of 6; use setup= or profiled.block() (KeyError: 'cache')"
    )
    assert isinstance(caught.value.__cause__, KeyError)


def test_backward_fails_in_the_second_call_and_says_so(profiled: Profiled) -> None:
    loss = torch.ones(3, requires_grad=True).square().sum()
    with pytest.raises(CaptureError, match=r"backward raised in call 2 of 6; use setup= or profiled.block\(\)"):
        profiled(loss.backward)


def test_setup_that_fails_says_so(profiled: Profiled) -> None:
    seen = []

    def setup() -> None:
        seen.append(1)
        if len(seen) == 5:
            raise RuntimeError("no more data")

    with pytest.raises(CaptureError, match="setup raised in call 5 of 6"):
        profiled.configure(setup=setup)(lambda: None)


@pytest.mark.parametrize("number", [1, 5])
def test_skips_and_interrupts_pass_through(profiled: Profiled, number: int) -> None:
    calls = []

    def function() -> None:
        calls.append(1)
        if len(calls) == number:
            pytest.skip("from inside")

    with pytest.raises(pytest.skip.Exception):
        profiled(function)


async def coroutine() -> int:
    return 1


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


class AsyncCall:
    async def __call__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (coroutine, "coroutine is a coroutine function: calling it runs nothing"),
        (generator, "generator is a generator function"),
        (async_generator, "async_generator is an async generator function"),
        (partial(partial(coroutine)), "is a coroutine function"),
        (AsyncCall(), "AsyncCall is a coroutine function"),
        (lambda: coroutine(), "<lambda> returned a coroutine: calling it ran nothing"),
        (lambda: generator(), "<lambda> returned a generator: calling it ran nothing"),
        (3, "not callable; pass the function and its arguments, not its result"),
        (None, "not callable"),
    ],
)
def test_what_a_call_only_starts_is_refused(profiled: Profiled, function: Any, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        profiled(function)


def test_running_a_coroutine_is_fine(profiled: Profiled, x: Any) -> None:
    async def work() -> Any:
        return x.neg()

    profiled(lambda: asyncio.run(work())).assert_op_count("aten::neg", 1)


def test_modules_builtins_and_partials_are_callable(profiled: Profiled, x: Any) -> None:
    profiled(torch.nn.Linear(4, 4), x).assert_op_count("aten::linear", 1)
    profiled(partial(torch.add, x), x).assert_op_count("aten::add", 1)
    profiled(x.neg).assert_op_count("aten::neg", 1)


# Other profilers


def test_an_active_profiler_is_refused(profiled: Profiled, x: Any) -> None:
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as outer,
        pytest.raises(CaptureError, match="a torch profiler is already active: two empty each other's traces"),
    ):
        profiled(torch.neg, x)
    assert outer.events() is not None


@pytest.mark.parametrize("warmup", [0, 3])
def test_a_profiler_inside_the_function_is_noticed(profiled: Profiled, x: Any, warmup: int) -> None:
    def function() -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            x.neg()

    with pytest.raises(CaptureError, match=r"another torch profiler was already running inside .*function \(call"):
        profiled.configure(warmup=warmup)(function)


def test_a_profiler_that_the_function_leaves_running_never_gives_a_wrong_count(profiled: Profiled, x: Any) -> None:
    started: list[Any] = []

    def function() -> None:
        if not started:
            started.append(torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]))
            started[0].start()
        x.neg()

    try:
        # Refused or not measured, as torch will have it; if there is a count, it is the true one.
        with suppress(CaptureError, NotMeasured):
            profiled.configure(warmup=0)(function).assert_op_count("aten::neg", 1)
    finally:
        if torch.autograd._profiler_enabled():
            started[0].stop()


# Blocks


def test_a_block_is_recorded_once(profiled: Profiled, x: Any) -> None:
    with profiled.block() as handle:
        x.neg()
        x.neg()

    (step,) = handle.profile.steps
    assert len(step.ops) == 2
    handle.profile.assert_op_count("aten::neg", 2)
    with pytest.raises(NotMeasured, match="result not recorded"):
        _ = handle.profile.result


def test_a_block_says_when_its_profile_is_asked_for_too_early(profiled: Profiled) -> None:
    handle = profiled.block()
    with pytest.raises(CaptureError, match="handle.profile exists after the block; the block has not begun"):
        _ = handle.profile
    with handle, pytest.raises(CaptureError, match="the block is still running"):
        _ = handle.profile


def test_a_block_that_raises(profiled: Profiled, x: Any) -> None:
    with pytest.raises(KeyError), profiled.block() as handle:
        raise KeyError("mine")
    with pytest.raises(CaptureError, match="the block raised"):
        _ = handle.profile


def test_a_block_is_not_entered_twice(profiled: Profiled) -> None:
    handle = profiled.block()
    with handle:
        pass
    with pytest.raises(CaptureError, match="entered twice"), handle:
        pass


def test_a_block_takes_no_setup(profiled: Profiled) -> None:
    with pytest.raises(MisuseError, match="takes no setup="):
        profiled.configure(setup=lambda: None).block()


def test_blocks_do_not_nest(profiled: Profiled, x: Any) -> None:
    with pytest.raises(CaptureError, match="already active"), profiled.block(), profiled.block():
        pass


def test_another_profiler_inside_a_block(profiled: Profiled, x: Any) -> None:
    with (
        pytest.raises(CaptureError, match="running inside the block"),
        profiled.block(),
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
    ):
        x.neg()


# The rest


def test_regions_of_the_user_are_kept_and_ours_are_not(profiled: Profiled, x: Any) -> None:
    def function() -> None:
        with torch.profiler.record_function("mine"):
            x.neg()
        x.sigmoid()

    profile = profiled(function)

    assert profile.regions == ("mine",)
    profile.region("mine").assert_op_count("*", 1)
    profile.assert_op_count("aten::sigmoid", 1)


def in_a_thread(x: Any) -> None:
    thread = threading.Thread(target=x.clone)
    thread.start()
    thread.join()


def in_a_pool(x: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(x.clone).result()


@pytest.mark.usefixtures("needs_all_threads")
@pytest.mark.parametrize("function", [in_a_thread, in_a_pool])
def test_ops_of_other_threads_are_seen(profiled: Profiled, x: Any, function: Callable[..., Any]) -> None:
    profile = profiled(function, x)

    profile.assert_op_count("aten::copy_", 1)
    with pytest.raises(AssertionError):
        profile.assert_no_op("aten::copy_")


def test_gpu_numbers_of_a_cpu_test_are_not_measured(profiled: Profiled, x: Any) -> None:
    profile = profiled(torch.neg, x)

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        pytest.skip("an earlier test of this process created a GPU context")
    with pytest.raises(NotMeasured, match="no GPU context; use device="):
        profile.assert_no_memcpy()
    assert profile.environment.torch == torch.__version__


def test_activities_without_gpu(profiled: Profiled, x: Any) -> None:
    profile = profiled.configure(activities="cpu")(torch.neg, x)

    profile.assert_op_count("aten::neg", 1)
    with pytest.raises(NotMeasured):
        profile.assert_kernel_count(0)


def test_the_device_to_build_on(profiled: Profiled) -> None:
    assert profiled.device == torch.device("cpu")


def test_steps_that_differ_disagree(profiled: Profiled, x: Any) -> None:
    calls = Calls()

    def function() -> None:
        calls(x)
        if calls.number % 2:
            x.sigmoid()

    with pytest.raises(AssertionError, match="steps disagree"):
        profiled(function).assert_op_count("aten::neg", 1)
    profiled.configure(steps_may_differ=True)(function).assert_op_count("aten::neg", 1)


class Holder:
    """Something that a weak reference can watch."""


_watched: list[Any] = []


def test_function_arguments_and_result_are_let_go_of_part_one(profiled: Profiled, x: Any) -> None:
    argument, result = Holder(), Holder()
    profile = profiled(lambda _: result, argument)
    _watched[:] = [weakref.ref(argument), weakref.ref(result), profile]

    assert profile.result is result


def test_function_arguments_and_result_are_let_go_of_part_two() -> None:
    if not _watched:
        pytest.skip("needs part one in the same process")
    gc.collect()

    assert [one() for one in _watched[:2]] == [None, None]
    with pytest.raises(NotMeasured, match="let go of when its test ended"):
        _ = _watched[2].result
