"""Shows claims about two implementations: which is faster, what it saves, and that they agree.

Times are compared in one run, alternately, and may be too noisy to judge; a test is then skipped
with what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from findings import Guess, See
from shapes import Shape, about

from pytest_kernelprof import Profile, TooNoisy

pytestmark = pytest.mark.kernelprof(device="cuda", steps=9)
Fused = dict[str, Profile]
CALLS = 20
"""How often each side of a comparison is called; more often where times on a CPU are close."""


def times(**profiles: Profile) -> str:
    """Return the GPU times of profiles, for the table."""
    return ", ".join(f"{name} {profile.gpu_time_ns / 1000:.1f} us" for name, profile in profiles.items())


def test_m2_math_is_slower_than_in_place(in_place: Profile, math: Profile, guess: Guess, seen: See) -> None:
    ratio = math.gpu_time_ns / in_place.gpu_time_ns
    seen(f"{ratio:.1f}x ({times(math=math, in_place=in_place)})")

    in_place.assert_faster_than(math, by=1.5, steps=CALLS)
    with guess("math slower by", math) as factor:
        in_place.assert_faster_than(math, by=factor, steps=CALLS)


def test_i3_in_place_is_faster_than_naive(in_place: Profile, naive: Profile, seen: See) -> None:
    seen(times(in_place=in_place, naive=naive))

    in_place.assert_faster_than(naive, by=1.05, steps=CALLS)


def test_i3_saves_allocations_and_not_the_peak(in_place: Profile, naive: Profile, shape: Shape, seen: See) -> None:
    peak, score = naive.peak_memory_bytes, shape.score_bytes
    saved = naive.allocated_memory_bytes - in_place.allocated_memory_bytes
    seen(f"peak {peak / score:.2f} score matrices for both; {saved / score:g} less allocated in the step")

    # Scaling and softmax hold two score matrices at once anyway; the result comes before they go.
    for profile in (naive, in_place):
        profile.assert_peak_memory(between=about(2 * score + shape.tensor_bytes))
    assert about(score)[0] <= saved <= about(score)[1]


@pytest.fixture(scope="module")
def fused(flash: Profile, efficient: Profile, cudnn: Profile) -> Fused:
    """The fused backends by name."""
    return {"flash": flash, "efficient": efficient, "cudnn": cudnn}


def assert_place(fused: Fused, backend: str, fastest_first: Sequence[str]) -> None:
    """Assert that a backend is faster than those that come after it, and slower than those before."""
    noisy = None
    for other in [name for name in fused if name != backend]:
        fast, slow = sorted((backend, other), key=fastest_first.index)
        try:
            fused[fast].assert_faster_than(fused[slow], steps=CALLS)
        except TooNoisy as error:  # The other pair may be wrong for certain.
            noisy = error
    if noisy:
        raise noisy


def test_f4_the_place_of_flash(fused: Fused, guess: Guess, seen: See) -> None:
    seen(times(**fused))

    with guess("fastest first", fused["flash"]) as order:
        assert_place(fused, "flash", order)


def test_c7_the_place_of_cudnn(fused: Fused, guess: Guess, seen: See) -> None:
    seen(f"fastest first: {', '.join(sorted(fused, key=lambda name: fused[name].gpu_time_ns))}")

    with guess("fastest first", fused["cudnn"]) as order:
        assert_place(fused, "cudnn", order)


def test_c6_the_cost_moved_to_the_cpu(fused: Fused, seen: See) -> None:
    seen("called in turn, the CPU times differ too little to be told apart")
    # In turn, each finds what the other left in the caches of the CPU, as in a model.
    fused["flash"].assert_faster_than(fused["cudnn"], on="cpu", steps=10 * CALLS)
    fused["efficient"].assert_faster_than(fused["flash"], on="cpu", steps=5 * CALLS)

    seen("called in turn, cudnn takes longer than flash, and flash than efficient")


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("variant", ["in_place", "math", "efficient", "flash", "cudnn", "prebuilt"])
def test_k2_the_same_numbers_as_naive(variant: str, naive: Profile, request: pytest.FixtureRequest, seen: See) -> None:
    result = request.getfixturevalue(variant).result
    if variant == "prebuilt":
        result = result.transpose(1, 2)
    seen(f"{variant} {(result - naive.result).abs().max():.3f}")

    # Results reach 4 and more, where neighbours in bfloat16 are 1/32 apart.
    torch.testing.assert_close(result, naive.result, atol=1 / 32, rtol=0)
