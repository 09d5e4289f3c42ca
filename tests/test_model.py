"""Event sets: filters return new sets, and names that do not occur are no empty success."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import Rows, call, launch, memcpy, op, step, write

from pytest_kernelprof import Kernel, MisuseError, Profile, SelectorError, load_trace
from pytest_kernelprof.eventset import EventSet
from pytest_kernelprof.model import union_length

DATA = Path(__file__).parent / "data/traces_h200"


@pytest.fixture(scope="module")
def profile() -> Profile:
    return Profile(load_trace(DATA / "attn_naive.json.gz"))


def test_a_set_is_a_sequence(profile: Profile) -> None:
    kernels = profile.kernels

    assert len(kernels) == kernels.count == 5
    assert kernels[0] == list(kernels)[0]  # noqa: RUF015 - indexing is what is tested
    assert kernels[0] != kernels[1]
    assert len({*kernels, *kernels}) == 5
    assert kernels[0] in kernels
    assert [one.name for one in reversed(kernels)] == [one.name for one in kernels][::-1]
    assert len(kernels[1:3]) == 2
    assert kernels.index(kernels[2]) == 2
    assert kernels.duration_ns == sum(kernel.duration_ns or 0 for kernel in kernels) == 935480


def test_filters_return_new_sets_and_remember(profile: Profile) -> None:
    gemms = profile.kernels.named("nvjet_*").launched_by("aten::matmul").on_stream(7).in_region("attn_fwd")

    assert len(gemms) == 2
    assert len(profile.kernels) == 5
    assert repr(gemms) == ("<2 kernels, named 'nvjet_*', launched by 'aten::matmul', stream 7, region 'attn_fwd'>")


def test_names_match_whole_or_without_decoration(profile: Profile) -> None:
    for pattern in ("*softmax_warp_forward*", "(anonymous namespace)::softmax_warp_forward", "void (anonymous*"):
        assert len(profile.kernels.named(pattern)) == 1, pattern
    assert len(profile.kernels.named("NVJET*")) == 0
    assert len(profile.kernels.matching(r"^nvjet_sm90_.*_NNT$")) == 1
    assert len(profile.kernels.where(lambda kernel: kernel.registers_per_thread == 168)) == 2


def test_launches_and_all_calls(profile: Profile) -> None:
    assert len(profile.launches) == 5
    assert len(profile.launches.all_calls) == 7
    assert len(profile.launches.launched_by("aten::bmm").all_calls) == 3
    assert len(profile.launches.where(lambda call: call.chain[-1].name == "aten::bmm").all_calls) == 3


def test_launches_can_be_asked_where_the_calls_that_copy_cannot(tmp_path: Path) -> None:
    """Steps that agree in launches and not in copies; a copy outside every op."""
    rows: list[Rows] = [
        step(0, 0, 100),
        op("aten::add", 5, 20),
        launch(10, 1),
        step(1, 200, 100),
        op("aten::add", 205, 20),
    ]
    copies: list[Rows] = [launch(210, 2), call("cudaMemcpyAsync", 240, 3), memcpy(250, 3)]
    launches = Profile(load_trace(write(tmp_path / "t.json", *rows, *copies))).launches

    added = launches.where(lambda call: call.chain[-1].name == "aten::add")

    assert len(added) == 1
    with pytest.raises(AssertionError, match="steps disagree"):
        len(added.all_calls)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (lambda kernels: kernels.launched_by("aten::matmull"), "the closest: aten::matmul"),
        (
            lambda kernels: kernels.in_region("attn"),
            "region='attn' does not occur in the profile; the closest: attn_fwd",
        ),
        (lambda kernels: kernels.on_stream(8), "stream=8 does not occur in the profile; there is 7"),
        (lambda kernels: kernels.named("nvjet", allow_empty=False), "nvjet"),
    ],
)
def test_what_does_not_occur_raises_with_the_closest(
    profile: Profile, select: Callable[[EventSet[Kernel]], object], message: str
) -> None:
    with pytest.raises(SelectorError, match="does not occur") as caught:
        select(profile.kernels)
    assert message in str(caught.value)


def test_allow_empty_accepts_it(profile: Profile) -> None:
    assert len(profile.kernels.launched_by("aten::conv2d", allow_empty=True)) == 0
    assert len(profile.kernels.launched_by("aten::transpose")) == 0  # It occurs, and launches nothing.


@pytest.mark.parametrize(
    "select",
    [
        lambda kernels: kernels.named(""),
        lambda kernels: kernels.named(3),
        lambda kernels: kernels.matching("("),
        lambda kernels: kernels.on_stream("7"),
        lambda kernels: kernels.on_stream(True),
    ],
)
def test_wrong_selectors_are_refused(profile: Profile, select: Callable[[EventSet[Kernel]], object]) -> None:
    with pytest.raises(MisuseError):
        select(profile.kernels)


def test_busy_time_counts_overlaps_once() -> None:
    assert union_length([(0, 10), (5, 12), (20, 25), (21, 22)]) == 17
    assert union_length([]) == 0


def test_an_empty_set_is_empty() -> None:
    assert not EventSet()
    assert len(EventSet()) == 0


def test_a_set_takes_no_part_in_hashing(profile: Profile) -> None:
    with pytest.raises(TypeError):
        hash(profile.kernels)
    assert profile.kernels == profile.kernels
    assert profile.kernels != "kernels"
