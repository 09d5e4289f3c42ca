"""Shows guards on the naive attention: its kernels, and the copy that nobody wrote."""

from __future__ import annotations

import pytest
import torch
from naive import attention

from pytest_kernelprof import Profiled

pytestmark = pytest.mark.kernelprof(device="cuda")
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def test_n1_five_kernels_and_one_hidden_copy(profiled: Profiled, inputs: Inputs, score_bytes: int) -> None:
    profile = profiled(attention, *inputs)

    with profile.checks():
        profile.assert_kernel_count(5)
        profile.assert_memcpy_count(1, kind="DtoD")
        profile.assert_memcpy_bytes(score_bytes)
        # cuBLAS may clear 4 bytes before its matmul (it does on Hopper); nothing else is set.
        profile.assert_no_memset(ignore_library=True)


def test_n2_the_copy_comes_from_masked_fill(profiled: Profiled, inputs: Inputs) -> None:
    profile = profiled(attention, *inputs)

    profile.assert_memcpy_count(1, launched_by="aten::masked_fill")
    (copy,) = profile.memcpys
    assert [op.name for op in copy.chain] == ["aten::masked_fill", "aten::clone", "aten::copy_"]


def test_n3_both_matmuls_run_on_tensor_cores_in_bf16(profiled: Profiled, inputs: Inputs) -> None:
    profile = profiled(attention, *inputs)

    profile.assert_tensor_cores()
    profile.assert_dtypes({"bf16"}, role="gemm")
    # What its author would say it does, and the copy that nobody wrote.
    profile.assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=1)


def test_the_host_never_waits(profiled: Profiled, inputs: Inputs) -> None:
    profiled(attention, *inputs).assert_no_host_sync()
