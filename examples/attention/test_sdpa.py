"""Shows guards on scaled_dot_product_attention: each backend by its kernels, ops, launches and name."""

from __future__ import annotations

from math import prod

import pytest
import sdpa
import torch
from findings import Guess, See
from shapes import MIB, Inputs, Shape, about

from pytest_kernelprof import Kernel, Profile

pytestmark = pytest.mark.kernelprof(device="cuda")


def only_kernel(profile: Profile) -> Kernel:
    """Return the kernel of a profile that must have one."""
    profile.assert_single_kernel()
    return profile.kernels[0]


def launched(kernel: Kernel) -> str:
    """Return the registers and threads of a kernel in words."""
    return f"{kernel.registers_per_thread} registers x {prod(kernel.block or ())} threads"


# Math: the textbook in FP32


def test_m1_twenty_kernels(math: Profile, seen: See) -> None:
    seen(f"{math.kernel_count} kernels")

    math.assert_sdpa_backend("math")
    math.assert_kernel_count(20)
    math.assert_guess(copy=5, elementwise=7, fill=4, gemm=2, softmax=1, reduction=1, memcpy=0)


def test_m1_the_calls_that_launch_them(math: Profile, guess: Guess, seen: See) -> None:
    calls = [call.name for call in math.launches]
    seen(", ".join(f"{calls.count(name)} through `{name}`" for name in sorted(set(calls))))

    with guess("math launches", math) as expected:
        for call, number in expected.items():
            math.assert_launch_count(number, api=call)


def test_m3_no_tensor_core_at_all(math: Profile) -> None:
    matmuls = [kernel.decoded for kernel in math.kernels.role("gemm")]

    assert [(name.tensor_cores, name.dtypes) for name in matmuls] == [("no", ("fp32",)), ("no", ("fp32",))]


def test_m3_the_names_of_both_matmuls(math: Profile, guess: Guess, seen: See) -> None:
    seen(", ".join(f"`{kernel.name}`" for kernel in math.kernels.role("gemm")))

    with guess("math matmul", math) as name:
        math.assert_kernel(name, exactly=2)


def test_m4_upcasts_q_k_and_v(math: Profile, seen: See) -> None:
    first = [kernel.decoded.role for kernel in math.kernels[:3]]
    seen(f"the first kernels: {', '.join(first)}; {math.ops.named('aten::_to_copy').count} casts in all")

    assert first == ["copy", "copy", "copy"]
    math.assert_kernel_sequence(["*direct_copy_kernel*lambda(float)*"] * 3 + [...])
    # Weights and result are cast back.
    copies = math.kernels.role("copy").launched_by("aten::_to_copy")
    assert [kernel.decoded.dtypes for kernel in copies[3:]] == [("fp32", "bf16"), ("fp32", "bf16")]


def test_m5_rebuilds_the_causal_mask_on_every_call(math: Profile, seen: See) -> None:
    expected = {"aten::ones": 1, "aten::tril": 1, "aten::scalar_tensor": 3, "aten::where": 3, "aten::add_": 1}
    seen(", ".join(f"{name.removeprefix('aten::')} {math.ops.named(name).count}" for name in expected))

    for name, number in expected.items():
        math.assert_op_count(name, number)
    math.assert_kernel("*triu_tril_kernel*", exactly=1)
    math.assert_kernel("*where*", exactly=2)
    math.assert_kernel_count(1, role="fill", launched_by="aten::ones")
    math.assert_kernel_count(3, role="fill", launched_by="aten::scalar_tensor")


def test_m6_extra_kernels_after_the_softmax(math: Profile, seen: See) -> None:
    after = math.kernels.launched_by("aten::_safe_softmax")
    seen(f"{after.count} kernels of `_safe_softmax`")

    math.assert_op_count("aten::_safe_softmax", 1)
    math.assert_kernel_sequence(
        ["*softmax*", "*isneginf*", "*reduce_kernel*", "*FillFunctor*", "*where*"], launched_by="aten::_safe_softmax"
    )


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("backend", ["math", "efficient"])
def test_m6_a_row_masked_everywhere_is_zero(inputs: Inputs, backend: str, seen: See) -> None:
    row = row_masked_everywhere(inputs, backend)
    seen(f"{backend} gives {row.abs().max():.3g}")

    assert (row == 0).all()


@pytest.mark.usefixtures("live")
def test_m6_nor_does_cudnn_give_nan(inputs: Inputs) -> None:
    assert not row_masked_everywhere(inputs, "cudnn").isnan().any()


def row_masked_everywhere(inputs: Inputs, backend: str) -> torch.Tensor:
    """Return what a backend gives for a query that may see no key."""
    visible = ~inputs.mask
    visible[0] = False
    with sdpa.pinned(backend):
        return sdpa.attention(*inputs.qkv, visible)[..., 0, :]


# Efficient


def test_e1_one_kernel(efficient: Profile) -> None:
    efficient.assert_single_kernel()
    efficient.assert_sdpa_backend("efficient")
    efficient.assert_tensor_cores()


def test_e1_the_name_of_the_kernel(efficient: Profile, guess: Guess, seen: See) -> None:
    seen(f"`{only_kernel(efficient).name.partition('(')[0]}`")

    with guess("efficient", efficient) as kernel:
        efficient.assert_kernel(kernel, exactly=1)


def test_e2_what_the_name_says(efficient: Profile, guess: Guess, seen: See) -> None:
    name = only_kernel(efficient).decoded
    seen(", ".join(part.text for part in name.parts[:8]))

    assert (name.role, name.direction, name.dtypes) == ("attention", "forward", ("bf16",))
    assert [part.text for part in name.parts[:5]] == ["fmha", "cutlass", "F", "bf16", "aligned"]
    assert name.parts[6].text == "rf"
    with guess("efficient", efficient) as kernel:
        assert f"{name.tile}_rf_{name.arch}" == kernel.removeprefix("fmha_cutlassF_bf16_aligned_")


# Flash


def test_f1_one_kernel_flash_attention_2(flash: Profile, seen: See) -> None:
    seen(f"{flash.kernel_count} kernel, `{'::'.join(part.text for part in flash.kernels[0].decoded.parts[:2])}`")

    flash.assert_single_kernel()
    flash.assert_sdpa_backend("flash")
    flash.assert_kernel("pytorch_flash::flash_fwd_kernel*", exactly=1)
    flash.assert_tensor_cores()
    flash.assert_dtypes({"bf16"})


def test_f2_the_scores_never_reach_memory(
    flash: Profile, naive: Profile, math: Profile, shape: Shape, guess: Guess, seen: See
) -> None:
    peaks = (f"{profile.peak_memory_bytes / MIB:.1f}" for profile in (flash, naive, math))
    seen("peak {} MiB above the inputs against {} for naive and {} for math".format(*peaks))

    flash.assert_peak_memory(between=about(shape.fused_bytes))
    naive.assert_peak_memory(between=about(2 * shape.score_bytes + shape.tensor_bytes))
    math.assert_peak_memory(at_least=4 * shape.score_bytes)
    with guess("math peak in score matrices", math) as (least, most):
        math.assert_peak_memory(between=(int(least * shape.score_bytes), int(most * shape.score_bytes)))


def test_f2_memory_is_linear_in_the_sequence(flash_by_length: dict[int, Profile], shape: Shape, seen: See) -> None:
    peaks = (f"{profile.peak_memory_bytes / MIB:.1f}" for profile in flash_by_length.values())
    seen(f"{', '.join(peaks)} MiB for S = {min(flash_by_length)} to {max(flash_by_length)}")

    for length, profile in flash_by_length.items():
        profile.assert_peak_memory(between=about(shape._replace(sequence=length).fused_bytes))


def test_f3_low_occupancy_by_design(flash: Profile, guess: Guess, seen: See) -> None:
    kernel = only_kernel(flash)
    occupancy = kernel.occupancy
    assert occupancy is not None
    seen(
        f"{kernel.reported_occupancy_percent:g}% reported; {launched(kernel)}, "
        f"{occupancy.blocks} blocks, {occupancy.warps} warps, {occupancy.fraction:.1%} theoretical"
    )

    assert (occupancy.blocks, occupancy.warps) == (2, 8)
    with guess("flash", flash) as registers:
        assert launched(kernel) == registers
    with guess("flash occupancy", flash) as fraction:
        flash.assert_occupancy(fraction)
    with guess("flash occupancy reported", flash) as percent:
        assert kernel.reported_occupancy_percent == percent


# cuDNN


def test_c1_one_kernel(cudnn: Profile) -> None:
    cudnn.assert_single_kernel()
    cudnn.assert_sdpa_backend("cudnn")
    cudnn.assert_tensor_cores()


def test_c1_the_name_of_the_generated_kernel(cudnn: Profile, guess: Guess, seen: See) -> None:
    seen(f"`{only_kernel(cudnn).name}` + {cudnn.memset_count} Memset")

    with guess("cudnn", cudnn) as name:
        cudnn.assert_kernel(name, exactly=1)
    with guess("Memsets of cuDNN", cudnn) as sizes:
        assert [memset.size_bytes for memset in cudnn.memsets] == sizes


def test_c2_what_the_name_says(cudnn: Profile, guess: Guess, seen: See) -> None:
    name = only_kernel(cudnn).decoded
    said = [part.text for part in name.parts]
    seen(", ".join(said))

    assert (name.library, name.role, name.direction, name.tensor_cores) == ("cudnn", "attention", "forward", "yes")
    assert {"generated", "native", "sdpa", "flash", "fprop", "f16"} <= set(said)
    assert any(part.startswith("knob_") for part in said)
    with guess("cudnn name", cudnn) as expected:
        assert f"{name.arch} {name.instruction} {name.tile}" == expected


def test_c3_no_transpose_where_flash_and_efficient_have_four(
    cudnn: Profile, flash: Profile, efficient: Profile, seen: See
) -> None:
    seen("{} against {} and {}".format(*(one.ops.named("aten::transpose").count for one in (cudnn, flash, efficient))))

    cudnn.assert_no_op("aten::transpose")
    flash.assert_op_count("aten::transpose", 4)
    efficient.assert_op_count("aten::transpose", 4)


def test_c4_launched_through_the_driver(cudnn: Profile, flash: Profile, efficient: Profile) -> None:
    cudnn.assert_launch_count(1, api="cuLaunchKernelEx")
    cudnn.assert_launch_count(1)
    flash.assert_launch_count(0, api="cuLaunchKernelEx")
    efficient.assert_launch_count(0, api="cuLaunchKernelEx")


def test_c4_alone_or_with_the_matmuls(cudnn: Profile, naive: Profile, guess: Guess, seen: See) -> None:
    calls = [profile.launches.named("cuLaunchKernelEx").count for profile in (cudnn, naive)]
    seen(f"{calls[0]} through `cuLaunchKernelEx`; so do {calls[1]} matmuls of cuBLAS")

    with guess("matmuls through cuLaunchKernelEx", naive) as number:
        naive.assert_launch_count(number, api="cuLaunchKernelEx")


def test_c5_no_occupancy_reported_is_a_gap(cudnn: Profile, guess: Guess, seen: See) -> None:
    kernel = only_kernel(cudnn)
    occupancy = kernel.occupancy
    assert occupancy is not None
    seen(
        f"{kernel.reported_occupancy_percent:g}% reported; {launched(kernel)}: "
        f"{occupancy.blocks} block, {occupancy.warps} warps, "
        f"{occupancy.fraction:.2%} theoretical"
    )

    assert kernel.reported_occupancy_percent == 0
    assert kernel.reported_occupancy is None  # Not measured, and so never 0.
    assert (kernel.shared_memory_bytes or 0) > 48 * 1024
    with guess("cudnn launched", cudnn) as expected:
        assert launched(kernel) == expected
    with guess("cudnn occupancy", cudnn) as fraction:
        cudnn.assert_occupancy(fraction)


# All of them


def test_unpinned_attention_takes(auto: Profile, guess: Guess) -> None:
    with guess("unpinned", auto) as backend:
        auto.assert_sdpa_backend(backend)


@pytest.mark.parametrize("backend", ["math", "efficient", "flash", "cudnn"])
def test_the_host_never_waits_and_nothing_is_copied(backend: str, request: pytest.FixtureRequest) -> None:
    profile = request.getfixturevalue(backend)

    profile.assert_no_host_sync()
    profile.assert_no_memcpy()
