"""Shows guards on the attention that masks in place: the copy must not come back."""

from __future__ import annotations

import pytest
from findings import Guess, See
from in_place import attention
from shapes import Inputs
from stack import LAYERS

from pytest_kernelprof import Profile

pytestmark = pytest.mark.kernelprof(device="cuda")


def test_i1_no_memcpy_any_more(in_place: Profile, seen: See) -> None:
    seen(f"{in_place.kernel_count} kernels + {in_place.memcpy_count} Memcpy + {in_place.memset_count} Memset")

    in_place.assert_no_memcpy()


def test_i1_five_kernels(in_place: Profile) -> None:
    in_place.assert_guess(gemm=2, elementwise=2, softmax=1)
    in_place.assert_kernel_sequence(["*", "*MulFunctor*", "*masked_fill*", "*softmax*", "*"])
    in_place.assert_no_memset(ignore_library=True)
    in_place.assert_tensor_cores()
    in_place.assert_dtypes({"bf16"}, role="gemm")


def test_i1_what_cublas_sets_before_a_matmul(in_place: Profile, guess: Guess) -> None:
    with guess("Memsets of cuBLAS", in_place) as sizes:
        assert [memset.size_bytes for memset in in_place.memsets] == sizes


def test_i2_fewer_ops_in_the_masking_step(in_place: Profile, naive: Profile, guess: Guess, seen: See) -> None:
    seen(f"{in_place.op_count} ops against {naive.op_count} a forward")

    in_place.assert_op_count("aten::masked_fill_", 1)
    in_place.assert_no_op("aten::clone")
    assert in_place.op_count < naive.op_count
    with guess("ops in place and naive", naive) as numbers:
        assert (int(in_place.op_count), int(naive.op_count)) == numbers


def test_i4_the_saving_repeats_per_layer(in_place_stack: Profile, naive_stack: Profile, seen: See) -> None:
    seen(f"{LAYERS} layers: {naive_stack.memcpy_count} copies against {in_place_stack.memcpy_count}")

    naive_stack.assert_memcpy_count(LAYERS, kind="DtoD", launched_by="aten::masked_fill")
    in_place_stack.assert_no_memcpy()
    in_place_stack.assert_kernel_count(5 * LAYERS)


@pytest.mark.usefixtures("live")
def test_n4_a_row_masked_everywhere_is_nan(inputs: Inputs, seen: See) -> None:
    mask = inputs.mask.clone()
    mask[0] = True
    result = attention(*inputs.qkv, mask)
    seen(f"in place: {result[..., 0, :].isnan().float().mean():.0%} of the row is NaN")

    assert result[..., 0, :].isnan().all()
    assert not result[..., 1:, :].isnan().any()


def test_the_host_never_waits(in_place: Profile) -> None:
    in_place.assert_no_host_sync()
