"""Limits, assertions and their messages, on recorded traces and on traces made for a rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import Rows, annotation, call, kernel, launch, memcpy, memset, op, step, write

from pytest_kernelprof import MisuseError, NotMeasured, Profile, SelectorError, load_trace
from pytest_kernelprof.checks import Verdict
from pytest_kernelprof.limits import limit

DATA = Path(__file__).parent / "data/traces_h200"

Check = Callable[[Profile], object]
Make = Callable[..., Profile]


def profile_of(name: str, **options: Any) -> Profile:
    return Profile(load_trace(DATA / f"{name}.json.gz"), **options)


@pytest.fixture(scope="module")
def naive() -> Profile:
    return profile_of("attn_naive")


@pytest.fixture(scope="module")
def in_place() -> Profile:
    return profile_of("attn_inplace")


def made(tmp_path: Path, *rows: Rows, **options: Any) -> Profile:
    return Profile(load_trace(write(tmp_path / "t.json", *rows)), **options)


# Limits


@pytest.mark.parametrize(
    ("keywords", "low", "high", "words"),
    [
        ({"exactly": 5}, 5, 5, "5"),
        ({"exactly": 0}, 0, 0, "none"),
        ({"at_most": 5}, 0, 5, "at most 5"),
        ({"at_most": 0}, 0, 0, "none"),
        ({"at_least": 2}, 2, None, "at least 2"),
        ({"between": (1, 2)}, 1, 2, "1 to 2"),
        ({"at_least": 1, "at_most": 3}, 1, 3, "1 to 3"),
    ],
)
def test_limits(keywords: dict[str, Any], low: int, high: int | None, words: str) -> None:
    allowed = limit("check", **keywords)

    assert (allowed.low, allowed.high, allowed.words()) == (low, high, words)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, r"check\(\) needs a limit; accepted: exactly=, at_most=, at_least= or between="),
        ({"exactly": 2, "at_most": 3}, r"check\(exactly=2, at_most=3\) gives several limits; accepted: one of"),
        ({"between": (1, 2), "at_least": 1}, "gives several limits"),
        ({"between": (3, 1)}, "from 3 to 1 holds no number"),
        ({"at_least": 4, "at_most": 3}, "from 4 to 3 holds no number"),
        ({"between": 3}, "is no pair"),
        ({"between": (1, 2, 3)}, "is no pair"),
        ({"at_least": 0}, "always passes"),
        ({"exactly": -1}, "is no count"),
        ({"exactly": 1.5}, "is no count"),
        ({"exactly": "5"}, "is no count"),
        ({"exactly": True}, "is no count"),
    ],
)
def test_wrong_limits_are_refused_at_once(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(MisuseError, match=message):
        limit("check", **keywords)


@pytest.mark.parametrize(
    "check",
    [
        lambda p: p.assert_kernel_count(),
        lambda p: p.assert_kernel_count(5, at_most=3),
        lambda p: p.assert_kernel_count(5, name="gemm"),
        lambda p: p.assert_kernel("", exactly=1),
        lambda p: p.assert_no_memcpy(kind="D2D"),
        lambda p: p.assert_no_memcpy(pageable="yes"),
        lambda p: p.assert_memcpy_bytes(at_most="24 bananas"),
        lambda p: p.assert_no_host_sync(allow="aten::item"),
        lambda p: p.assert_no_host_sync(allow=[3]),
        lambda p: p.assert_kernel_sequence([]),
        lambda p: p.assert_kernel_sequence([...]),
        lambda p: p.assert_kernel_sequence("gemm"),
        lambda p: p.assert_kernel_sequence(["gemm", 3]),
        lambda p: p.assert_kernel_count(5, region="attn_bwd"),
        lambda p: p.assert_kernel_count(5, stream=99),
        lambda p: p.region("attn_bwd"),
    ],
)
def test_wrong_arguments_are_refused(naive: Profile, check: Check) -> None:
    with pytest.raises(MisuseError):
        check(naive)


def test_a_wrong_selector_names_the_closest(naive: Profile) -> None:
    with pytest.raises(MisuseError, match=r"name= is no selector; did you mean named=\?"):
        naive.assert_kernel_count(5, name="gemm")  # type: ignore[call-arg] # the mistake
    with pytest.raises(SelectorError, match="launched_by='aten::masked_fil'.*the closest: aten::masked_fill"):
        naive.assert_no_memcpy(launched_by="aten::masked_fil")


# What passes and what fails


@pytest.mark.parametrize(
    "check",
    [
        lambda p: p.assert_kernel_count(5),
        lambda p: p.assert_kernel_count(at_most=5),
        lambda p: p.assert_kernel_count(between=(5, 6)),
        lambda p: p.assert_kernel_count(2, named="nvjet_*"),
        lambda p: p.assert_kernel_count(2, matching="^nvjet"),
        lambda p: p.assert_kernel_count(1, launched_by="aten::mul"),
        lambda p: p.assert_kernel_count(5, region="attn_*", stream=7),
        lambda p: p.assert_kernel_count(0, region="attn_bwd", allow_empty=True),
        lambda p: p.assert_kernel("*softmax*"),
        lambda p: p.assert_kernel("nvjet_*", exactly=2),
        lambda p: p.assert_kernel("nvjet_*", 2),
        lambda p: p.assert_no_kernel("*triu_tril*"),
        lambda p: p.assert_launch_count(5),
        lambda p: p.assert_launch_count(2, api="cuLaunchKernelEx"),
        lambda p: p.assert_launch_count(1, api="cudaMemcpyAsync"),
        lambda p: p.assert_launch_count(0, api="cudaLaunchCooperativeKernel"),
        lambda p: p.assert_memcpy_count(1, kind="DtoD"),
        lambda p: p.assert_memcpy_count(1, launched_by="aten::masked_fill"),
        lambda p: p.assert_memcpy_bytes(268435456),
        lambda p: p.assert_memcpy_bytes(at_most="256 MiB"),
        lambda p: p.assert_no_memcpy(kind="HtoD"),
        lambda p: p.assert_no_memcpy(pageable=True),
        lambda p: p.assert_no_memset(ignore_library=True),
        lambda p: p.assert_memset_count(1),
        lambda p: p.assert_no_host_sync(),
        lambda p: p.assert_host_sync_count(0),
        lambda p: p.assert_op_count("aten::matmul", 2),
        lambda p: p.assert_op_count("aten::copy_", 1, launched_by="aten::masked_fill"),
        lambda p: p.assert_no_op("aten::item"),
        lambda p: p.assert_kernel_sequence(["nvjet_*", "*vector*", "*elementwise*", "*softmax*", "nvjet_*"]),
        lambda p: p.assert_kernel_sequence(["nvjet_*", ..., "*softmax*", ...]),
        lambda p: p.assert_kernel_sequence([..., "nvjet_*"]),
        lambda p: p.assert_kernel_sequence(["nvjet_*", "nvjet_*"], named="nvjet_*"),
    ],
)
def test_what_holds_of_naive_attention_passes(naive: Profile, check: Check) -> None:
    check(naive)


@pytest.mark.parametrize(
    ("check", "headline"),
    [
        (lambda p: p.assert_kernel_count(4), "5 kernels a step, expected 4"),
        (lambda p: p.assert_kernel_count(at_most=4), "5 kernels a step, expected at most 4"),
        (lambda p: p.assert_kernel_count(between=(6, 7)), "5 kernels a step, expected 6 to 7"),
        (lambda p: p.assert_kernel_count(1, named="nvjet_*"), "2 kernels a step, expected 1 (named 'nvjet_*')"),
        (
            lambda p: p.assert_kernel_count(0, launched_by="aten::mul", stream=7),
            "1 kernel a step, expected none (launched by 'aten::mul', stream 7)",
        ),
        (lambda p: p.assert_kernel("fmha_*"), "0 kernels a step, expected at least 1 (named 'fmha_*')"),
        (lambda p: p.assert_no_kernel("*softmax*"), "1 kernel a step, expected none (named '*softmax*')"),
        (lambda p: p.assert_launch_count(3), "5 launches a step, expected 3"),
        (
            lambda p: p.assert_launch_count(3, api="cuLaunchKernelEx"),
            "2 calls a step, expected 3 (named 'cuLaunchKernelEx')",
        ),
        (lambda p: p.assert_no_memcpy(), "1 memory copy a step, expected none"),
        (lambda p: p.assert_no_memcpy(kind="DtoD"), "1 memory copy a step, expected none (kind 'DtoD')"),
        (lambda p: p.assert_memcpy_count(2), "1 memory copy a step, expected 2"),
        (lambda p: p.assert_memcpy_bytes(at_most="1 MiB"), "256.0 MiB copied a step, expected at most 1.0 MiB"),
        (lambda p: p.assert_no_memset(), "1 Memset a step, expected none"),
        (lambda p: p.assert_host_sync_count(1), "0 host syncs a step, expected 1"),
        (lambda p: p.assert_op_count("aten::matmul", 1), "2 ops a step, expected 1 (named 'aten::matmul')"),
        (lambda p: p.assert_no_op("aten::copy_"), "1 op a step, expected none (named 'aten::copy_')"),
        (lambda p: p.assert_single_kernel(), "5 kernels a step, expected 1"),
        (lambda p: p.assert_graphed(), "5 kernels a step, expected none (outside a graph)"),
        (
            lambda p: p.assert_kernel_sequence(["nvjet_*", "nvjet_*"]),
            "kernels out of order at kernel 2 of ProfilerStep#2, expected 'nvjet_*' 'nvjet_*'",
        ),
        (
            lambda p: p.assert_kernel_sequence([..., "nvjet_*", "*softmax*"]),
            "kernels out of order at kernel 2 of ProfilerStep#2, expected ... 'nvjet_*' '*softmax*'",
        ),
        (
            lambda p: p.assert_kernel_sequence(["*", "*", "*", "*", "*", "*"]),
            "kernels out of order at the end, after 5 kernels of ProfilerStep#2, expected '*' '*' '*' '*' '*' '*'",
        ),
    ],
)
def test_what_does_not_hold_fails_with_one_clear_line(naive: Profile, check: Check, headline: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check(naive)

    assert str(caught.value).splitlines()[0] == headline


def test_the_whole_message_of_a_copy(naive: Profile) -> None:
    with pytest.raises(AssertionError) as caught:
        naive.assert_no_memcpy(kind="DtoD")

    assert str(caught.value) == (
        "1 memory copy a step, expected none (kind 'DtoD')\n"
        "\n"
        "kind    bytes      time      launched by\n"
        "DtoD    256.0 MiB  129.1 us  aten::masked_fill > aten::clone > aten::copy_\n"
        "in region attn_fwd\n"
        "\n"
        "hint: masked_fill copies its input; masked_fill_ works in place, where the input is not needed again\n"
        "  (docs/hints.md#masked_fill)"
    )


def test_the_whole_message_of_a_kernel_count(naive: Profile) -> None:
    with pytest.raises(AssertionError) as caught:
        naive.assert_kernel_count(2, named="nvjet_*64x512*")

    assert str(caught.value) == (
        "1 kernel a step, expected 2 (named 'nvjet_*64x512*')\n"
        "\n"
        "kernel                                         time     launched by\n"
        "nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT  84.3 us  aten::matmul > aten::bmm\n"
        "in region attn_fwd"
    )


def test_long_tables_are_cut_unless_verbose() -> None:
    short, long = profile_of("attn_sdpa_math"), profile_of("attn_sdpa_math", verbose=True)
    messages = []
    for profile in (short, long):
        with pytest.raises(AssertionError) as caught:
            profile.assert_kernel_count(1)
        messages.append(str(caught.value).partition("\n\nhint: ")[0].splitlines())

    assert messages[0][-2:] == ["... and 12 more (-v shows all)", "all in region attn_fwd"]
    assert len(messages[0]) == 3 + 8 + 2
    assert len(messages[1]) == 3 + 20 + 1
    assert all(line.isascii() for message in messages for line in message)


def test_the_message_names_the_kept_trace() -> None:
    profile = profile_of("attn_naive", keep_trace=lambda: ".kernelprof/x.json.gz")
    with pytest.raises(AssertionError) as caught:
        profile.assert_no_memcpy()

    assert str(caught.value).endswith("\n\ntrace: .kernelprof/x.json.gz   open in https://ui.perfetto.dev")


def test_in_place_attention_has_no_copy(in_place: Profile) -> None:
    in_place.assert_kernel_count(5)
    in_place.assert_no_memcpy()
    in_place.assert_no_memset(ignore_library=True)


@pytest.mark.parametrize("name", ["attn_sdpa_flash", "attn_sdpa_efficient", "attn_sdpa_cudnn", "misc_mm_bf16"])
def test_single_kernels_may_have_a_library_memset(name: str) -> None:
    profile_of(name).assert_single_kernel()


def test_a_reductions_memset_is_not_forgiven() -> None:
    profile = profile_of("misc_item")

    with pytest.raises(AssertionError, match="1 Memset a step, expected none"):
        profile.assert_no_memset(ignore_library=True)


def test_a_memset_before_another_event_than_a_library_kernel_is_not_forgiven(tmp_path: Path) -> None:
    rows = [call("cudaMemsetAsync", 1, 1), memset(2, 1), call("cudaMemcpyAsync", 3, 2), memcpy(4, 2)]
    profile = made(tmp_path, *rows, launch(5, 3, name="nvjet_sm90_x"))

    with pytest.raises(AssertionError):
        profile.assert_no_memset(ignore_library=True)


def test_host_syncs_name_the_op_and_are_allowed_by_op_region_or_call() -> None:
    profile = profile_of("misc_item")

    with pytest.raises(AssertionError) as caught:
        profile.assert_no_host_sync()
    assert str(caught.value).partition("\n\nhint: item() ")[0].splitlines() == [
        "1 host sync a step, expected none",
        "",
        "call                   took    made by",
        "cudaStreamSynchronize  7.1 us  aten::item > aten::_local_scalar_dense",
        "in region step",
    ]
    for allowed in ("aten::item", "step", "cudaStream*"):
        profile.assert_no_host_sync(allow=[allowed, "something that never occurs"])
    with pytest.raises(AssertionError, match=r"expected none \(allowed: aten::nonzero\)"):
        profile.assert_no_host_sync(allow=["aten::nonzero"])


def test_pageable_copies() -> None:
    pageable, pinned = profile_of("misc_h2d_pageable"), profile_of("misc_h2d_pinned_async")

    pageable.assert_memcpy_count(1, pageable=True)
    pinned.assert_no_memcpy(pageable=True)
    with pytest.raises(AssertionError, match=r"expected none \(pageable\)"):
        pageable.assert_no_memcpy(pageable=True)
    pinned.assert_no_host_sync()


def test_pageability_that_the_trace_does_not_tell_is_not_measured(tmp_path: Path) -> None:
    rows = [call("hipMemcpyAsync", 1, 1), memcpy(2, 1, name="Memcpy HtoD (Host -> Device)")]
    profile = made(tmp_path, *rows)

    with pytest.raises(NotMeasured, match="1 event without the field that the selection needs"):
        profile.assert_no_memcpy(pageable=True)
    profile.assert_memcpy_count(1, kind="HtoD")


def test_bytes_that_the_trace_does_not_tell_are_not_measured(tmp_path: Path) -> None:
    rows = [call("hipMemcpyAsync", 1, 1), memcpy(2, 1, size=None), call("hipMemcpyAsync", 3, 2), memcpy(5, 2, size=100)]
    profile = made(tmp_path, *rows)

    with pytest.raises(NotMeasured):
        profile.assert_memcpy_bytes(at_most=1000)
    with pytest.raises(AssertionError, match="100 B copied a step, expected at most 50 B"):
        profile.assert_memcpy_bytes(at_most=50)


def test_graphed(tmp_path: Path) -> None:
    graph = [call("cudaGraphLaunch", 1, 1), kernel(2, 1), kernel(5, 1)]
    made(tmp_path, *graph).assert_graphed()

    mixed = made(tmp_path, *graph, op("aten::copy_", 10, 5), launch(11, 2, name="copy_kernel"))
    with pytest.raises(AssertionError, match="1 kernel a step, expected none"):
        mixed.assert_graphed()
    for allowed in ("copy_kernel", "aten::copy_"):
        mixed.assert_graphed(allow=[allowed])

    nothing = made(tmp_path, step(1, 0, 10), launch(20, 1), annotation("x", 1, 2))
    with pytest.raises(AssertionError, match="none found"):
        nothing.assert_graphed()


# Steps that disagree


@pytest.fixture
def differing(tmp_path: Path) -> Make:
    rows: list[Rows] = [
        step(1, 0, 10),
        step(2, 10, 10),
        step(3, 20, 10),
        launch(1, 1, name="a"),
        launch(11, 2, name="a"),
    ]
    rows += [op("aten::add", 12, 5), launch(13, 3, name="b"), launch(21, 4, name="a")]
    return lambda **options: made(tmp_path, *rows, **options)


def test_steps_that_disagree_fail_only_the_classes_that_are_read(differing: Make) -> None:
    profile = differing()

    with pytest.raises(AssertionError) as caught:
        profile.assert_kernel_count(between=(1, 2))
    assert str(caught.value) == (
        "steps disagree: 1, 2 and 1 kernels, expected all alike (steps_may_differ=True accepts it)\n"
        "\n"
        "kernels of ProfilerStep#2 (+) against ProfilerStep#1 (-):\n"
        "    name    launched by\n"
        "    a\n"
        "+   b       aten::add"
    )
    with pytest.raises(AssertionError, match="steps disagree"):
        profile.assert_no_kernel("c")
    with pytest.raises(AssertionError, match="steps disagree"):
        assert profile.kernel_count == 1
    with pytest.raises(AssertionError, match="steps disagree"):
        len(profile.kernels)
    profile.assert_no_memcpy()
    assert [len(one.kernels) for one in profile.steps] == [1, 2, 1]


def test_equal_numbers_of_other_kernels_disagree_as_well(tmp_path: Path) -> None:
    profile = made(tmp_path, step(1, 0, 10), step(2, 10, 10), launch(1, 1, name="a"), launch(11, 2, name="b"))

    with pytest.raises(AssertionError) as caught:
        profile.assert_kernel_count(1)
    assert "steps disagree: each 1 kernel, but not the same" in str(caught.value)
    assert [line.split()[:2] for line in str(caught.value).splitlines()[4:]] == [["-", "a"], ["+", "b"]]


def test_steps_may_differ_holds_every_step_to_the_limit(differing: Make) -> None:
    profile = differing(steps_may_differ=True)

    profile.assert_kernel_count(between=(1, 2))
    profile.assert_kernel_count(at_least=1)
    with pytest.raises(AssertionError, match="2 kernels in ProfilerStep#2, expected 1"):
        profile.assert_kernel_count(1)
    assert len(profile.kernels) == 1
    assert profile.kernel_count <= 2
    assert profile.kernel_count != 3
    with pytest.raises(AssertionError, match="1, 2 kernels a step, expected every step to equal 1"):
        assert profile.kernel_count == 1
    with pytest.raises(AssertionError):
        assert not profile.kernel_count > 1


# Plain numbers


def test_counts_are_ints(naive: Profile) -> None:
    count = naive.kernel_count

    assert repr(count) == str(count) == "5"
    assert type(count + 1) is int
    assert isinstance(count, int)
    names: dict[int, str] = {count: "five"}
    assert names[5] == "five"
    assert [count < 6, count <= 5, count > 4, count >= 5, count != 4, count == 5, 5 == count, 4 < count] == [True] * 8  # noqa: SIM300
    assert (naive.memcpy_count, naive.memset_count, naive.launch_count, naive.op_count) == (1, 1, 5, 39)


def test_times_are_medians_with_their_spread(naive: Profile) -> None:
    times = sorted(one.gpu_time_ns for one in naive.steps)

    assert naive.gpu_time_ns == times[1] == 1_065_271
    assert naive.gpu_time_spread_ns == (times[0], times[2])
    assert naive.gpu_busy_ns <= naive.gpu_time_ns


def test_profiles_are_immutable(naive: Profile) -> None:
    with pytest.raises(AttributeError):
        naive.kernels = ()  # type: ignore[misc, assignment] # refused at run time as well
    with pytest.raises(AttributeError):
        naive.anything = 3  # type: ignore[attr-defined] # refused at run time as well
    with pytest.raises(AttributeError):
        naive.kernels[0].name = "other"  # type: ignore[misc] # refused at run time as well


def test_what_print_shows(naive: Profile) -> None:
    lines = str(naive).splitlines()

    assert lines[0].split() == ["step", "kernels", "copies", "memsets", "launches", "syncs", "ops", "GPU", "time"]
    assert lines[1].split() == ["ProfilerStep#2", "5", "1", "1", "5", "0", "39", "1.1", "ms"]
    assert any("aten::masked_fill > aten::clone > aten::copy_" in line for line in lines)
    assert naive.table() == str(naive)
    assert str(naive).isascii()


def test_regions_narrow(naive: Profile) -> None:
    narrowed = naive.region("attn_fwd")

    assert narrowed.kernel_count == 5
    narrowed.assert_memcpy_count(1)
    assert naive.regions == ("attn_fwd",)
    assert naive.region("attn_bwd", allow_empty=True).kernel_count == 0


def test_a_profile_of_a_trace_has_no_result(naive: Profile) -> None:
    with pytest.raises(NotMeasured, match="result not recorded"):
        _ = naive.result


def test_whatever_is_no_pass_is_not_green(naive: Profile) -> None:
    """A verdict of another copy of the module, say: it must not slip through."""
    with pytest.raises(AssertionError):
        naive._judge.judge(Verdict("pass", "a look-alike"))  # type: ignore[arg-type] # it only looks like one


# Sets and counts of steps that differ


@pytest.fixture
def copying(tmp_path: Path) -> Make:
    """Memcpys 0, 1, 1 a step; kernels alike, launched by another op in the second step."""
    rows: list[Rows] = [step(1, 0, 10), step(2, 10, 10), step(3, 20, 10)]
    for number, start in enumerate((0, 10, 20)):
        rows += [op("aten::y" if number == 1 else "aten::x", start + 1, 3), launch(start + 2, 10 + number)]
        rows += [call("cudaMemcpyAsync", start + 6, 20 + number), memcpy(start + 7, 20 + number)] if number else []
    return lambda **options: made(tmp_path, *rows, **options)


@pytest.mark.parametrize(
    "read",
    [
        lambda p: not p.memcpy_count,
        lambda p: p.memcpy_count <= 0.5,
        lambda p: p.memcpy_count == 0.0,
        lambda p: p.memcpy_count + 0,
        lambda p: int(p.memcpy_count),
    ],
)
def test_counts_that_differ_give_no_single_answer(copying: Make, read: Check) -> None:
    with pytest.raises(AssertionError, match="0, 1 memory copies a step, expected every step"):
        read(copying(steps_may_differ=True))


@pytest.mark.parametrize(
    "read",
    [
        lambda p: p.kernels.launched_by("aten::y").count,
        lambda p: p.kernels.where(lambda kernel: kernel.chain[0].name == "aten::y").count,
        lambda p: p.launches.all_calls.named("cudaMemcpyAsync").count,
        lambda p: bool(p.launches.launched_by("aten::y")),
        lambda p: len(p.memcpys),
        lambda p: p.memcpys == [],
    ],
)
def test_a_filter_that_the_steps_answer_differently_raises(copying: Make, read: Check) -> None:
    with pytest.raises(AssertionError, match="steps disagree"):
        read(copying())


def test_sets_compare_with_lists(naive: Profile, tmp_path: Path) -> None:
    assert naive.memsets != []
    assert naive.memcpys == list(naive.memcpys)
    unmeasured = made(tmp_path, step(1, 0, 10), op("aten::add", 1, 2))
    reads: list[Callable[[], bool]] = [lambda: unmeasured.memcpys == [], lambda: unmeasured.memcpys != [1]]
    for read in reads:
        with pytest.raises(NotMeasured):
            read()


def test_places_are_plain_globs(tmp_path: Path) -> None:
    profile = made(tmp_path, step(1, 0, 100), annotation("attn (warm)", 1, 50), op("load<gpu>", 2, 10), launch(4, 1))

    with pytest.raises(SelectorError, match="attn \\(warm\\)"):
        profile.region("attn")
    with pytest.raises(SelectorError):
        profile.assert_kernel_count(1, launched_by="load")
    profile.assert_kernel_count(1, region="attn (warm)", launched_by="load<*")


def test_a_mistyped_region_is_a_mistake_also_where_kernels_are_not_measured(tmp_path: Path) -> None:
    profile = made(tmp_path, step(1, 0, 100), annotation("two", 1, 50), op("aten::add", 2, 10))

    with pytest.raises(SelectorError, match="the closest: two"):
        profile.assert_kernel_count(1, region="tow")


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda p: p.assert_kernel(None), r"assert_kernel\(None\) is no pattern"),
        (lambda p: p.assert_op_count(None, at_least=1), "is no pattern"),
        (lambda p: p.assert_no_memset(ignore_library="no"), "ignore_library='no' is no truth value"),
        (lambda p: p.assert_no_op("x", allow_empty="no"), "allow_empty='no' is no truth value"),
        (lambda p: p.assert_no_host_sync(allow=None), "allow=None is no list of patterns"),
        (lambda p: p.assert_launch_count(0, api="cudaLaunchKernle"), "the closest: cudaLaunchKernel"),
        (lambda p: p.assert_launch_count(0, api="cudaDeviceSynchronize"), "launches, copies or sets nothing"),
    ],
)
def test_mistyped_arguments_are_refused(naive: Profile, check: Check, message: str) -> None:
    with pytest.raises(MisuseError, match=message):
        check(naive)


# checks()


def test_a_skip_inside_checks_does_not_hide_a_failure(naive: Profile) -> None:
    with pytest.raises(AssertionError, match="1 memory copy a step"), naive.checks():
        naive.assert_no_memcpy()
        pytest.skip("not today")
    with pytest.raises(pytest.skip.Exception), naive.checks():
        naive.assert_kernel_count(5)
        pytest.skip("not today")


def test_checks_collects_failures(naive: Profile) -> None:
    with pytest.raises(AssertionError) as caught, naive.checks():
        naive.assert_kernel_count(5)
        naive.assert_no_memcpy()
        naive.region("attn_fwd").assert_no_kernel("nvjet_*")

    told = str(caught.value)
    assert told.splitlines()[0] == "2 of 3 checks did not pass"
    assert "1. 1 memory copy a step, expected none" in told
    assert "2. 2 kernels a step, expected none (named 'nvjet_*')" in told


def test_a_single_failure_in_checks_reads_as_outside(naive: Profile) -> None:
    with pytest.raises(AssertionError, match="^1 memory copy a step, expected none"), naive.checks():
        naive.assert_no_memcpy()


def test_checks_pass_when_all_pass(naive: Profile) -> None:
    with naive.checks():
        naive.assert_kernel_count(5)


def test_in_checks_a_failure_beats_not_measured(tmp_path: Path) -> None:
    profile = made(tmp_path, step(1, 0, 20), call("cudaLaunchKernel", 2, 1), launch(6, 2))

    with pytest.raises(NotMeasured), profile.checks():
        profile.assert_kernel_count(1)
        profile.assert_no_memcpy()
    with pytest.raises(AssertionError, match="2 of 2 checks"), profile.checks():
        profile.assert_kernel_count(1)
        profile.assert_launch_count(1)


def test_in_checks_the_users_own_error_comes_first(naive: Profile) -> None:
    with pytest.raises(KeyError), naive.checks():
        naive.assert_no_memcpy()
        raise KeyError("mine")
    with pytest.raises(AssertionError, match="2 of 2 checks"), naive.checks():
        naive.assert_no_memcpy()
        assert naive.kernel_count == 4, "mine"
    naive.assert_kernel_count(5)


def test_checks_do_not_nest(naive: Profile) -> None:
    with pytest.raises(MisuseError, match=r"checks\(\) inside checks\(\)"), naive.checks(), naive.checks():
        pass
