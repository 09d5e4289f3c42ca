"""Shows guards on the attention that masks in place: the copy must not come back."""

from __future__ import annotations

import pytest
import torch
from in_place import attention

from pytest_kernelprof import Profiled

pytestmark = pytest.mark.kernelprof(device="cuda")
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def test_i1_no_copy_any_more(profiled: Profiled, inputs: Inputs) -> None:
    profiled(attention, *inputs).assert_no_memcpy()


def test_i1_five_kernels(profiled: Profiled, inputs: Inputs) -> None:
    profile = profiled(attention, *inputs)

    profile.assert_kernel_count(5)
    profile.assert_kernel_sequence([..., "*softmax*", ...])
    profile.assert_no_memset(ignore_library=True)


def test_i2_masking_takes_no_more_than_its_own_op(profiled: Profiled, inputs: Inputs) -> None:
    profile = profiled(attention, *inputs)

    profile.assert_op_count("aten::masked_fill_", 1)
    profile.assert_no_op("aten::clone")


def test_the_host_never_waits(profiled: Profiled, inputs: Inputs) -> None:
    profiled(attention, *inputs).assert_no_host_sync()
