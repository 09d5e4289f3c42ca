"""Assertions on what kernel names say, and their messages, on recorded traces and on traces made for a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from builders import Rows, annotation, call, launch, memcpy, op, step, write

from pytest_kernelprof import MisuseError, NotMeasured, Profile, SelectorError, load_trace
from pytest_kernelprof.matrix import MatrixTime, percent

DATA = Path(__file__).parent / "data/traces_h200"
TENSOR = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_NNT"
PLAIN = "ampere_sgemm_128x128_tn"
UNTOLD = "volta_h16gemm_128x128_tn"
STRANGE = "acme_kernel"
ENGINE = "cudnn::engines::brand_new"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, X>(int)"
COPY = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda"
    "(at::TensorIteratorBase&)::{lambda(float)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(int)"
)


def recorded(name: str, **options: Any) -> Profile:
    return Profile(load_trace(DATA / f"{name}.json.gz"), **options)


@pytest.fixture(scope="module")
def naive() -> Profile:
    return recorded("attn_naive")


@pytest.fixture(scope="module")
def math() -> Profile:
    return recorded("attn_sdpa_math")


def made(tmp_path: Path, *steps: list[str], durations: Sequence[int] | None = None, **options: Any) -> Profile:
    """Return a profile whose steps launch kernels of the given names, under one op each."""
    rows: list[Rows] = []
    correlation = 1
    for number, names in enumerate(steps):
        at = 1000 * number
        rows.append(step(number + 2, at, 900))
        for place, name in enumerate(names):
            ts = at + 10 + 20 * place
            rows.append(op("aten::thing", ts - 1, 6))
            duration = durations[place] if durations else 2
            rows.append(launch(ts, correlation, name=name, dur=duration))
            correlation += 1
    return Profile(load_trace(write(tmp_path / "t.json", *rows)), **options)


# Tensor cores


def test_matrix_kernels_on_tensor_cores_pass(naive: Profile, tmp_path: Path) -> None:
    naive.assert_tensor_cores()
    naive.assert_tensor_cores(at_least=1)
    naive.assert_tensor_cores(at_least=0.9, launched_by="aten::bmm")
    made(tmp_path, [TENSOR, FILL]).assert_tensor_cores()


def test_one_on_cuda_cores_is_a_failure_with_a_table(math: Profile) -> None:
    with pytest.raises(AssertionError) as caught:
        math.assert_tensor_cores()

    head, _, table, *rest = str(caught.value).split("\n", 3)
    assert head == "2 of 2 matrix kernels a step without tensor cores, expected all on tensor cores"
    assert table.split() == ["kernel", "role", "dtypes", "tensor", "cores", "time", "launched", "by"]
    assert rest[0].count("sm80_xmm") == 2


@pytest.mark.parametrize("names", [[FILL], []], ids=["others", "nothing"])
def test_no_matrix_kernel_at_all_is_a_failure(tmp_path: Path, names: list[str]) -> None:
    profile = made(tmp_path, [*names, COPY])

    with pytest.raises(AssertionError, match="no matrix kernel a step: none found, expected all on tensor cores"):
        profile.assert_tensor_cores()
    with pytest.raises(AssertionError, match="none found, expected at least 90%"):
        profile.assert_tensor_cores(at_least=0.9)


@pytest.mark.parametrize("name", [UNTOLD, STRANGE, ENGINE], ids=["matrix-kernel", "any-kernel", "of-cudnn"])
def test_a_name_that_does_not_tell_is_not_measured(tmp_path: Path, name: str) -> None:
    profile = made(tmp_path, [TENSOR, name])

    with pytest.raises(NotMeasured) as caught:
        profile.assert_tensor_cores()

    assert str(caught.value).startswith(
        f"tensor cores not measured: 1 kernel with a name that does not tell ({name}); a hook can teach it "
        "(docs/names.md#teaching); expected all on tensor cores"
    )


def test_a_certain_failure_beats_a_name_that_does_not_tell(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="1 of 2 matrix kernels a step without tensor cores"):
        made(tmp_path, [STRANGE, TENSOR, PLAIN]).assert_tensor_cores()


def test_a_bad_step_is_found_behind_a_good_one(tmp_path: Path) -> None:
    with pytest.raises(
        AssertionError, match="without tensor cores in ProfilerStep#3|1 of 1 matrix kernel in ProfilerStep"
    ):
        made(tmp_path, [TENSOR], [PLAIN], steps_may_differ=True).assert_tensor_cores()
    with pytest.raises(AssertionError, match="steps disagree"):
        made(tmp_path, [TENSOR], [TENSOR, TENSOR]).assert_tensor_cores()


@pytest.mark.parametrize(
    ("names", "durations", "share", "outcome"),
    [
        ([TENSOR, PLAIN], [9, 1], 0.9, None),
        ([TENSOR, PLAIN], [8, 2], 0.9, AssertionError),
        ([TENSOR, STRANGE], [9, 1], 0.9, None),
        ([TENSOR, STRANGE], [8, 2], 0.9, NotMeasured),
        ([TENSOR, PLAIN, STRANGE], [5, 4, 1], 0.9, AssertionError),
        ([TENSOR, UNTOLD], [1, 9], 0.5, NotMeasured),
        ([STRANGE], [5], 0.5, NotMeasured),
        ([TENSOR, FILL], [1, 99], 1, None),
    ],
)
def test_a_share_holds_only_however_the_unknown_came_out(
    tmp_path: Path, names: list[str], durations: Sequence[int] | None, share: float, outcome: type[Exception] | None
) -> None:
    profile = made(tmp_path, names, durations=durations)

    if outcome is None:
        profile.assert_tensor_cores(at_least=share)
    else:
        with pytest.raises(outcome):
            profile.assert_tensor_cores(at_least=share)


@pytest.mark.parametrize("share", [0, -1, 1.1, True, "0.9", float("nan"), float("inf")])
def test_a_share_must_be_one(naive: Profile, share: float) -> None:
    with pytest.raises(MisuseError, match="is no share; accepted: a number above 0 and up to 1"):
        naive.assert_tensor_cores(at_least=share)


def test_a_fraction_is_a_share(naive: Profile) -> None:
    naive.assert_tensor_cores(at_least=Fraction(1, 2))  # type: ignore[arg-type]  # more than is promised


def test_matrix_kernels_that_took_no_time_have_no_share(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="tensor cores not measured: the matrix kernels took no time"):
        made(tmp_path, [TENSOR], durations=[0]).assert_tensor_cores(at_least=0.5)


def test_a_matrix_kernel_without_a_duration_has_no_share(tmp_path: Path) -> None:
    call_and_kernel = launch(10, 1, name=TENSOR)
    del call_and_kernel[1]["dur"]
    rows: list[Rows] = [step(2, 0, 900), op("aten::mm", 9, 6), call_and_kernel]
    profile = Profile(load_trace(write(tmp_path / "t.json", *rows)))

    with pytest.raises(NotMeasured):
        profile.assert_tensor_cores(at_least=0.5)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (MatrixTime(), "none"),
        (MatrixTime(2, 10, 0), "100%"),
        (MatrixTime(2, 0, 10), "0%"),
        (MatrixTime(3, 99_999, 1), "99.9%"),
        (MatrixTime(3, 1, 99_999), "0.1%"),
        (MatrixTime(2, 5, 5), "50%"),
        (MatrixTime(2, 5, 0, 5), "50% to 100%"),
        (MatrixTime(0, 0, 0, 5), "unknown"),
        (MatrixTime(1, 5, undated=True), "unknown"),
    ],
)
def test_shares_in_words(time: MatrixTime, words: str) -> None:
    assert time.words() == words


def test_only_all_is_a_hundred_percent() -> None:
    assert [percent(share) for share in (0, 1, 0.9, 0.12345, 1e-9, 1 - 1e-9)] == [
        *("0%", "100%", "90%", "12.3%", "0.1%", "99.9%")
    ]


# Data types


def test_data_types(naive: Profile, math: Profile) -> None:
    naive.assert_dtypes({"bf16"})
    naive.assert_dtypes(["bf16", "fp32"], role="gemm")
    with pytest.raises(AssertionError, match=r"2 of 2 kernels a step with fp32, expected only bf16 \(role 'gemm'\)"):
        math.assert_dtypes({"bf16"}, role="gemm")


def test_a_name_without_a_type_is_not_measured() -> None:
    with pytest.raises(NotMeasured, match="data types not measured: 1 kernel with a name that does not tell"):
        recorded("attn_sdpa_cudnn").assert_dtypes({"bf16"})


def test_a_cast_on_load_hides_the_type(math: Profile) -> None:
    casts = math.kernels.where(lambda kernel: "LoadWithCast" in kernel.name)

    assert len(casts) == 3
    assert {kernel.decoded.dtypes for kernel in casts} == {()}
    with pytest.raises(NotMeasured):
        math.assert_dtypes({"fp32"}, launched_by="aten::_to_copy", named="*unrolled*")


def test_no_kernel_has_no_data_type(naive: Profile) -> None:
    with pytest.raises(AssertionError, match=r"no kernel a step: none found, expected only bf16 \(named 'nothing\*'\)"):
        naive.assert_dtypes({"bf16"}, named="nothing*")


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        ("bf16", "assert_dtypes('bf16') is no set of data types; accepted: such as {'bf16'}"),
        (set(), "is no set of data types"),
        ({"bfloat16"}, "assert_dtypes: 'bfloat16' is no data type; did you mean 'bf16'?"),
        ([None], "assert_dtypes: None is no data type; accepted: fp64, fp32"),
    ],
)
def test_wrong_data_types(naive: Profile, dtypes: Any, message: str) -> None:
    with pytest.raises(MisuseError) as caught:
        naive.assert_dtypes(dtypes)

    assert message in str(caught.value)


# Copies


def test_copies_by_engine_and_by_kernel(naive: Profile, math: Profile) -> None:
    recorded("attn_inplace").assert_no_copy()
    with pytest.raises(AssertionError) as caught:
        naive.assert_no_copy()
    assert str(caught.value).split("\n")[0] == "1 memory copy a step, expected none"
    with pytest.raises(AssertionError, match=r"5 copy kernels a step, expected none"):
        math.assert_no_copy()
    with pytest.raises(AssertionError, match="3 copy kernels a step"):
        recorded("misc_conv_fp16").assert_no_copy()
    math.assert_no_copy(launched_by="aten::_softmax")
    with pytest.raises(MisuseError, match="assert_no_copy takes no role=: it looks for the roles copy and layout"):
        naive.assert_no_copy(role="copy")


def test_both_kinds_of_copies_are_shown_in_tables_of_their_own(tmp_path: Path) -> None:
    rows: list[Rows] = [step(2, 0, 900), op("aten::copy_", 9, 60), launch(10, 1, name=COPY)]
    rows += [{**launch(30, 2)[0], "name": "cudaMemcpyAsync"}, memcpy(40, 2)]
    profile = Profile(load_trace(write(tmp_path / "t.json", *rows)))

    with pytest.raises(AssertionError) as caught:
        profile.assert_no_copy()

    head, *tables = str(caught.value).split("\n\n")
    assert head == "1 memory copy and 1 copy kernel a step, expected none"
    assert [table.split()[0] for table in tables] == ["kind", "kernel"]


def test_an_unknown_kernel_may_be_a_copy(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="copies not measured: 1 kernel with a name that does not tell"):
        made(tmp_path, [FILL, STRANGE]).assert_no_copy()
    with pytest.raises(AssertionError, match="1 copy kernel a step"):
        made(tmp_path, [COPY, STRANGE]).assert_no_copy()


# Attention backends


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("attn_sdpa_flash", "flash"),
        ("attn_sdpa_efficient", "efficient"),
        ("attn_sdpa_cudnn", "cudnn"),
        ("attn_sdpa_auto", "cudnn"),
        ("attn_sdpa_math", "math"),
        ("attn_kernels_fa3", "external"),
    ],
)
def test_attention_backends(name: str, backend: str) -> None:
    profile = recorded(name)

    profile.assert_sdpa_backend(backend)
    other = "flash" if backend != "flash" else "math"
    with pytest.raises(AssertionError, match=f"attention by {backend} a step, expected {other}"):
        profile.assert_sdpa_backend(other)


def test_no_attention_is_a_failure(naive: Profile) -> None:
    with pytest.raises(AssertionError, match="no attention a step: none found, expected flash"):
        naive.assert_sdpa_backend("flash")


def test_the_op_decides_where_one_kernel_serves_two_backends(tmp_path: Path) -> None:
    for called, backend in (
        ("aten::_scaled_dot_product_flash_attention", "flash"),
        ("aten::_scaled_dot_product_efficient_attention", "efficient"),
        ("vllm::attention", "external"),
    ):
        rows: list[Rows] = [step(2, 0, 900), op(called, 5, 60), launch(10, 1, name="attn_fwd")]
        Profile(load_trace(write(tmp_path / "t.json", *rows))).assert_sdpa_backend(backend)


def test_an_unknown_kernel_may_be_attention(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="the attention backend not measured: 1 kernel with a name"):
        made(tmp_path, [STRANGE]).assert_sdpa_backend("flash")


def test_an_op_of_attention_without_its_kernels_is_no_attention(math: Profile, tmp_path: Path) -> None:
    math.assert_sdpa_backend("math", named="sm80_xmma*")
    math.assert_sdpa_backend("math", launched_by="aten::_scaled_dot_product_attention_math")
    with pytest.raises(AssertionError, match="attention by math a step, expected flash"):
        math.assert_sdpa_backend("flash", launched_by="aten::_scaled_dot_product_attention_math")
    with pytest.raises(AssertionError, match=r"no attention a step: none found, expected math \(named 'nothing\*'\)"):
        math.assert_sdpa_backend("math", named="nothing*")

    on_cpu = [op("aten::_scaled_dot_product_attention_math", 20, 10)]
    elsewhere: list[Rows] = [op("aten::add", 40, 10), launch(45, 1, name=FILL)]
    profile = Profile(load_trace(write(tmp_path / "t.json", step(2, 0, 900), *on_cpu, *elsewhere)))
    with pytest.raises(AssertionError, match="no attention a step: none found, expected math"):
        profile.assert_sdpa_backend("math")


def test_wrong_backends(naive: Profile) -> None:
    with pytest.raises(MisuseError, match=r"assert_sdpa_backend\('flashh'\) is no backend; did you mean 'flash'\?"):
        naive.assert_sdpa_backend("flashh")


# Guesses


GUESS = """\
the guess is wrong: memcpy 1 (guessed none)

role         guess    seen           which
gemm         2        2              nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT, nvjet_sm90_tst_64x512_64x2_1x2_h_bz_coopB_NNT
elementwise  2        2              vectorized_elementwise_kernel (MulFunctor), elementwise_kernel (masked_fill_kernel)
softmax      1        1              softmax_warp_forward
memcpy       none     1       wrong  Memcpy DtoD (Device -> Device)

kind    bytes      time      launched by
DtoD    256.0 MiB  129.1 us  aten::masked_fill > aten::clone > aten::copy_
in region attn_fwd

hint: masked_fill copies its input; masked_fill_ works in place, where the input is not needed again
  (docs/hints.md#masked_fill)"""


def test_a_wrong_guess_stands_beside_the_trace(naive: Profile) -> None:
    with pytest.raises(AssertionError) as caught:
        naive.assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=0)

    shown = str(caught.value).split("\n\ntrace:")[0]
    assert [line.split()[:3] for line in shown.split("\n")] == [line.split()[:3] for line in GUESS.split("\n")]
    assert shown.split("\n")[0] == GUESS.split("\n")[0]


def test_right_guesses_pass(naive: Profile, math: Profile) -> None:
    naive.assert_guess(gemm=2, elementwise=2, softmax=1)
    naive.assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=1, memset=1, host_sync=0)
    naive.assert_guess(gemm=(1, 2), elementwise=2, softmax=1, norm=0)
    math.assert_guess(gemm=2, softmax=1, allow_others=True)
    recorded("attn_kernels_fa3").assert_guess(attention=1, fill=1)


def test_a_role_that_nobody_guessed_contradicts(math: Profile) -> None:
    with pytest.raises(AssertionError, match=r"the guess is wrong: copy 5 \(not guessed\)"):
        math.assert_guess(gemm=2, softmax=1)
    with pytest.raises(AssertionError, match=r"the guess is wrong: gemm 2 \(guessed 3\)"):
        math.assert_guess(gemm=3, allow_others=True)


def test_selectors_narrow_a_guess(naive: Profile, math: Profile) -> None:
    naive.assert_guess(gemm=2, launched_by="aten::bmm")
    naive.assert_guess(softmax=1, named="*softmax*")
    naive.assert_guess(elementwise=1, memcpy=1, launched_by="aten::masked_fill")
    naive.assert_guess(gemm=2, region="attn_fwd", allow_others=True)
    math.assert_guess(copy=5, launched_by="aten::_to_copy")
    with pytest.raises(AssertionError, match=r"the guess is wrong: gemm 2 \(guessed 1\)"):
        naive.assert_guess(gemm=1, launched_by="aten::bmm")
    with pytest.raises(SelectorError):
        naive.assert_guess(gemm=1, launched_by="aten::nothing")
    with pytest.raises(MisuseError, match=r"assert_guess\(role=\) is no role and no selector"):
        naive.assert_guess(gemm=1, role="gemm")


def test_an_unknown_kernel_blurs_a_guess(tmp_path: Path) -> None:
    profile = made(tmp_path, [TENSOR, STRANGE])

    with pytest.raises(NotMeasured, match="roles not measured: 1 kernel with a name that does not tell"):
        profile.assert_guess(gemm=2)
    with pytest.raises(AssertionError, match="2 kernels, one of unknown role too many"):
        profile.assert_guess(gemm=1)
    with pytest.raises(NotMeasured):
        profile.assert_guess(gemm=1, allow_others=True)
    with pytest.raises(AssertionError, match=r"gemm 1 \(guessed none\)"):
        profile.assert_guess(gemm=0, allow_others=True)
    profile.assert_guess(gemm=1, other=1)
    with pytest.raises(AssertionError, match=r"other 1 \(guessed 2\)"):
        profile.assert_guess(gemm=1, other=2)


@pytest.mark.parametrize(
    ("guess", "message"),
    [
        ({}, "assert_guess() guesses nothing; accepted: such as gemm=2, softmax=1, memcpy=0"),
        ({"gem": 2}, "assert_guess(gem=) is no role and no selector; did you mean gemv=?"),
        ({"memcpys": 1}, "assert_guess(memcpys=) is no role and no selector; did you mean memcpy=?"),
        ({"gemm": -1}, "assert_guess: gemm(exactly=-1) is no count"),
        ({"gemm": (2, 1)}, "assert_guess: gemm: from 2 to 1 holds no number"),
        ({"gemm": 1, "allow_others": 1}, "allow_others=1 is no truth value; accepted: True or False"),
    ],
)
def test_wrong_guesses_are_misuse(naive: Profile, guess: dict[str, Any], message: str) -> None:
    with pytest.raises(MisuseError) as caught:
        naive.assert_guess(**guess)

    assert str(caught.value).startswith(message)


# Roles as selectors


def test_roles_select(naive: Profile, math: Profile) -> None:
    naive.assert_kernel_count(2, role="gemm")
    naive.assert_kernel_count(0, role="fft", allow_empty=True)
    assert [kernel.decoded.role for kernel in naive.kernels.role("softmax")] == ["softmax"]
    with pytest.raises(AssertionError, match=r"5 kernels a step, expected none \(role 'copy'\)"):
        math.assert_kernel_count(0, role="copy")


def test_a_role_that_does_not_occur_is_an_error(naive: Profile) -> None:
    with pytest.raises(
        SelectorError, match="role='fft' does not occur in the profile; there is elementwise, gemm, softmax"
    ):
        naive.assert_kernel_count(0, role="fft")
    with pytest.raises(MisuseError, match=r"role='softmx' is no role; did you mean 'softmax'\?"):
        naive.kernels.role("softmx")
    with pytest.raises(MisuseError, match="role='gemm' picks kernels; memory copies have no role"):
        naive.assert_no_memcpy(role="gemm")


def test_an_unknown_kernel_may_have_any_role(tmp_path: Path) -> None:
    profile = made(tmp_path, [TENSOR, STRANGE])

    profile.assert_kernel_count(at_least=1, role="gemm")
    with pytest.raises(
        NotMeasured, match=r"kernels not measured: 1 kernel with a name that does not tell \(acme_kernel\)"
    ):
        profile.assert_kernel_count(1, role="gemm")
    with pytest.raises(NotMeasured):
        profile.assert_kernel_count(0, role="norm")
    with pytest.raises(AssertionError):
        profile.assert_kernel_count(0, role="gemm")
    profile.assert_kernel_count(1, role="other")
    assert repr(profile.kernels.named(TENSOR).role("gemm")) == f"<1 kernel, named {TENSOR!r}, role 'gemm'>"


def test_a_role_inside_a_region_is_told_apart(tmp_path: Path) -> None:
    rows: list[Rows] = [step(2, 0, 900), annotation("a", 5, 20), op("aten::mm", 9, 6), launch(10, 1, name=TENSOR)]
    rows += [op("aten::thing", 39, 6), launch(40, 2, name=STRANGE)]
    profile = Profile(load_trace(write(tmp_path / "t.json", *rows)))

    profile.region("a").assert_kernel_count(1, role="gemm")
    profile.assert_kernel_count(1, role="gemm", region="a")


# What is shown


def test_the_share_stands_in_the_table_and_in_the_summary(naive: Profile, math: Profile, tmp_path: Path) -> None:
    assert "tensor cores: 100% of matrix time (6 matrix kernels in 3 steps)" in str(naive)
    assert "tensor cores: 0% of matrix time (6 matrix kernels in 3 steps)" in str(math)
    assert "tensor cores: no matrix kernel" in str(recorded("misc_zeros"))
    assert "tensor cores: unknown, since a kernel's name does not tell" in str(made(tmp_path, [STRANGE]))
    assert [profile.summary()["tensor_cores"] for profile in (naive, math)] == ["100%", "0%"]


def test_every_step_has_its_part_in_the_share(tmp_path: Path) -> None:
    profile = made(tmp_path, [TENSOR], [PLAIN], steps_may_differ=True)

    assert profile.summary()["tensor_cores"] == "50%"
    assert "tensor cores: 50% of matrix time (2 matrix kernels in 2 steps)" in str(profile)


def test_lost_kernels_leave_no_share(tmp_path: Path) -> None:
    rows: list[Rows] = [
        step(2, 0, 900),
        op("aten::mm", 5, 60),
        launch(10, 1, name=TENSOR),
        call("cudaLaunchKernel", 40, 2),
    ]
    profile = Profile(load_trace(write(tmp_path / "t.json", *rows)))

    assert profile.summary()["tensor_cores"] is None
    assert "tensor cores:" not in str(profile)


def test_nothing_measured_has_no_share(tmp_path: Path) -> None:
    profile = Profile(load_trace(write(tmp_path / "t.json", step(2, 0, 900), op("aten::mm", 9, 6))))

    assert profile.summary()["tensor_cores"] is None
    assert "tensor cores" not in str(profile)
    checks: list[Callable[[], None]] = [
        profile.assert_tensor_cores,
        profile.assert_no_copy,
        lambda: profile.assert_dtypes({"bf16"}),
        lambda: profile.assert_sdpa_backend("flash"),
        lambda: profile.assert_guess(gemm=0),
        lambda: profile.assert_guess(gemm=1),
        lambda: profile.assert_kernel_count(0, role="gemm"),
        lambda: profile.assert_tensor_cores(at_least=0.1),
    ]
    for check in checks:
        with pytest.raises(NotMeasured):
            check()
