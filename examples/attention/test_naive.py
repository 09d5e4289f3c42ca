"""Shows guards on the naive attention: its kernels, and the copy that nobody wrote."""

from __future__ import annotations

import pytest
from findings import Guess, See
from naive import attention
from shapes import Inputs, Shape

from pytest_kernelprof import Profile

pytestmark = pytest.mark.kernelprof(device="cuda")


def test_n1_five_kernels_and_a_hidden_memcpy(naive: Profile, shape: Shape, seen: See) -> None:
    seen(f"{naive.kernel_count} kernels + {naive.memcpy_count} Memcpy + {naive.memset_count} Memset")
    with naive.checks():
        naive.assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=1)
        naive.assert_kernel_sequence(["*", "*MulFunctor*", "*masked_fill*", "*softmax*", "*"])
        naive.assert_memcpy_bytes(shape.score_bytes, kind="DtoD")
        naive.assert_no_memset(ignore_library=True)


def test_n1_what_cublas_sets_before_a_matmul(naive: Profile, guess: Guess) -> None:
    with guess("Memsets of cuBLAS", naive) as sizes:
        assert [memset.size_bytes for memset in naive.memsets] == sizes


def test_n2_the_memcpy_comes_from_masked_fill(naive: Profile, seen: See) -> None:
    chains = [[op.name for op in copy.chain] for copy in naive.memcpys]
    seen("`" + " > ".join(chains[0]) + "`" if chains else "no Memcpy")

    assert chains == [["aten::masked_fill", "aten::clone", "aten::copy_"]]
    assert [copy.launch.name for copy in naive.memcpys if copy.launch] == ["cudaMemcpyAsync"]


def test_n3_both_matmuls_run_on_tensor_cores_in_bf16(naive: Profile) -> None:
    naive.assert_kernel_count(2, role="gemm")
    naive.assert_tensor_cores()
    naive.assert_dtypes({"bf16"}, role="gemm")


def test_n3_the_names_of_both_matmuls(naive: Profile, guess: Guess, seen: See) -> None:
    seen(", ".join(f"`{kernel.name}`" for kernel in naive.kernels.role("gemm")))

    with guess("matmul", naive) as name:
        naive.assert_kernel(name, exactly=2)


@pytest.mark.usefixtures("live")
def test_n4_a_row_masked_everywhere_is_nan(inputs: Inputs, seen: See) -> None:
    mask = inputs.mask.clone()
    mask[0] = True
    result = attention(*inputs.qkv, mask)
    seen(f"naive: {result[..., 0, :].isnan().float().mean():.0%} of the row is NaN")

    assert result[..., 0, :].isnan().all()
    assert not result[..., 1:, :].isnan().any()


def test_g1_a_wrong_guess_shows_guess_and_trace_side_by_side(naive: Profile, seen: See) -> None:
    with pytest.raises(AssertionError) as failure:
        naive.assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=0)
    headline, _, *table = str(failure.value).splitlines()
    seen(headline)

    assert headline == "the guess is wrong: memcpy 1 (guessed none)"
    assert ["memcpy", "none", "1", "wrong", "Memcpy", "DtoD"] in [row.split() for row in table]


def test_the_host_never_waits(naive: Profile) -> None:
    naive.assert_no_host_sync()
