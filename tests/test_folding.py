"""What is left out of names, so that the same code gives the same ledger twice: a test for each rule."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pytest_kernelprof.names import decode_kernel
from pytest_kernelprof.names.folding import FOLDINGS, Folding, folded, folded_op

NAMES = Path(__file__).parent / "data/names"

# By rule: names that are one, how they are kept, and names that stay apart.
RULES = {
    "address": (
        ["kernel_cutlass_kernel_Norm_object_at_0x7f12ab34cd50_t", "kernel_cutlass_kernel_Norm_object_at_0x7f99_t"],
        "kernel_cutlass_kernel_Norm_object_at_*_t",
        "kernel_cutlass_kernel_Gate_object_at_0x7f12ab34cd50_t",
    ),
    "tuning of nvjet": (
        ["nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN", "nvjet_tst_64x16_64x16_2x4_2cta_v_bz_splitK_NTN"],
        "nvjet_tst_*_NTN",
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_bias_NTN",
    ),
    "tuning of Tensile": (
        [
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT160x256x64_MI16x16x1_SN_LDSB1_AFC1",
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x80x256_MI16x16x1_SN_LDSB1_AG0",
        ],
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT*",
        "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT160x256x64_MI16x16x1_SN_LDSB1_AFC1",
    ),
    "tile": (
        [
            "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
            "ampere_bf16_s16816gemm_bf16_256x64_ldg8_f2f_stages_32x4_tn",
        ],
        "ampere_bf16_s16816gemm_bf16_*_ldg8_f2f_stages_*_tn",
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn",
    ),
    "stages": (
        [
            "sm80_xmma_gemm_f16_tn_n_tilesize32x32x64_stage6_execute_kernel",
            "sm80_xmma_gemm_f16_tn_n_tilesize64x64x32_stage3_execute_kernel",
        ],
        "sm80_xmma_gemm_f16_tn_n_tilesize*_stage*_execute_kernel",
        "sm80_xmma_gemm_f16_nn_n_tilesize32x32x64_stage6_execute_kernel",
    ),
    "knob": (
        [
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x128x64_kernel0_0",
            "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3i_64x128x64_kernel0_0".replace(
                "3i", "31"
            ),
        ],
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_*_*_kernel0_0",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_6_64x128x64_kernel0_0",
    ),
    "hash": (
        [
            "## Call CompiledFxGraph fkq5abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop ##",
            "## Call CompiledFxGraph f2aaabcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop ##",
        ],
        "## Call CompiledFxGraph * ##",
        "## Call CompiledFxGraph ##",
    ),
    "counter of Triton": (
        ["triton_poi_fused_add_mul_0", "triton_poi_fused_add_mul_17"],
        "triton_poi_fused_add_mul_*",
        "triton_poi_fused_add_sub_0",
    ),
    "specialisation of Triton": (
        ["_attn_fwd_0d1d2", "_attn_fwd_0d1de2c"],
        "_attn_fwd_*",
        "kernel_unified_attention_2d",
    ),
    "id of NCCL": (
        ["ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic_4(ncclDevKernelArgs)"],
        "ncclDevKernel_Generic_*",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    ),
    "tuning of NCCL": (
        [
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL128(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_AllReduce_Sum_bf16_NVLS_TREE_SIMPLE(ncclDevKernelArgsStorage<4096ul>)",
        ],
        "ncclDevKernel_AllReduce_Sum_bf16_*",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    ),
    "number of a compiled region": (
        ["Torch-Compiled Region: 0/0", "Torch-Compiled Region: 12/3_1"],
        "Torch-Compiled Region: *",
        "Torch-Compiled Region",
    ),
    "template arguments": (
        [
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
            "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)",
        ],
        "at::native::vectorized_elementwise_kernel<CUDAFunctor_add>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, std::array<char*, 3ul> >(int)",
    ),
    "kernel in a shell": (
        [
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1>(cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1::Params)",
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x256_16x5_nn_align1>(cutlass_80_tensorop_s1688gemm_128x256_16x5_nn_align1::Params)",
        ],
        "cutlass::Kernel<cutlass_80_tensorop_s1688gemm_*_*_nn_align1>",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nt_align1>(cutlass_80_tensorop_s1688gemm_128x128_32x3_nt_align1::Params)",
    ),
}


def test_every_rule_has_names_here() -> None:
    assert {folding.what for folding in FOLDINGS} <= set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_what_changes_while_the_code_stays_the_same_is_left_out(rule: str) -> None:
    alike, kept, other = RULES[rule]

    fold = folded_op if alike[0].startswith(("##", "Torch")) else folded
    assert [fold(name) for name in alike] == [kept] * len(alike)
    assert fold(other) != kept


@pytest.mark.parametrize("folding", FOLDINGS, ids=lambda folding: folding.what)
def test_each_rule_is_needed_for_the_names_that_stand_for_it(folding: Folding, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_kernelprof.names import folding as module

    names = RULES[folding.what][0]
    if folding.what == "hash" and "GLOBAL" in folding.pattern.pattern:
        names = ["_GLOBAL__N__1ab3c4d5_4_file_cu::run", "_GLOBAL__N__99f0aa11_4_file_cu::run"]
        assert {folded(name) for name in names} == {"_GLOBAL__N__*_4_file_cu::run"}
    monkeypatch.setattr(module, "FOLDINGS", tuple(one for one in FOLDINGS if one is not folding))
    folded.cache_clear()
    try:
        assert len({folded(name) for name in names}) > 1 or folded(names[0]) != RULES[folding.what][1]
    finally:
        folded.cache_clear()


def test_names_of_no_kind_in_particular_stay_as_they_are() -> None:
    for name in ("my_kernel", "aten::copy_", "cudaLaunchKernel", "kernel_2d_v3", "conv2d_fwd_fp32_kernel"):
        assert folded(name) == name


def known_names() -> list[str]:
    with gzip.open(NAMES / "seen.txt.gz", "rt") as lines:
        return sorted({line.rstrip("\n") for line in lines})


def test_folding_real_names_keeps_them_apart_where_they_do_different_things() -> None:
    names = known_names()
    assert len(names) > 500
    kept = {name: folded(name) for name in names}

    assert all(kept.values())
    assert [name for name in names if len(kept[name]) > len(name) + 40] == []
    # One name, one role: what the ledger calls alike does alike.
    roles: dict[str, set[str]] = {}
    for name in names:
        roles.setdefault(kept[name], set()).add(decode_kernel(name).role)
    several = {name: found for name, found in roles.items() if len(found) > 1}
    assert len(several) <= len(roles) // 100, several


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("_fwd_kernel_stage1", "_fwd_kernel_stage2"),
        ("topk_stage1_kernel", "topk_stage2_kernel"),
        ("depthwise_conv3x3_kernel", "depthwise_conv5x5_kernel"),
        ("per_token_quant_1x128", "per_token_quant_128x128"),
        ("gemm_f16f16f16", "gemm_f32f32f32"),
        ("bf16bf16f32_gemm", "f16f16f32_gemm"),
        ("triton_attn_fwd_64", "triton_attn_fwd_128"),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
            "TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, "
            "std::plus<float>, float>(int)",
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
            "TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, "
            "std::multiplies<float>, float>(int)",
        ),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
            "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
            "unsigned int, float, 4> >(int)",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
            "at::native::prod_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
            "unsigned int, float, 4> >(int)",
        ),
        (
            "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16> >(int)",
            "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::gelu_kernel<c10::BFloat16> >(int)",
        ),
    ],
)
def test_kernels_of_different_code_stay_apart(one: str, other: str) -> None:
    assert folded(one) != folded(other)


def test_names_of_ops_are_not_those_of_kernels() -> None:
    for name in ("mylib::conv3x3", "mylib::pack_stage1", "aten::max_pool2d_2x2", "mylib::gemm_f32f32f32", "run_17"):
        assert folded_op(name) == name
    assert folded_op("triton_poi_fused_add_mul_17") == "triton_poi_fused_add_mul_*"
    assert folded_op("Torch-Compiled Region: 3/1") == "Torch-Compiled Region: *"


def test_real_names_that_were_folded_alike_once_are_told_apart() -> None:
    kept = {folded(name) for name in known_names()}
    for one, other in [
        (
            "index_elementwise_kernel<gpu_index_kernel index_kernel_impl>",
            "index_elementwise_kernel<gpu_index_kernel index_put_kernel_impl>",
        ),
        ("vectorized_elementwise_kernel<_hfp8_to_float_gpu>", "vectorized_elementwise_kernel<_float_to_hfp8_gpu>"),
    ]:
        assert {f"at::native::{one}", f"at::native::{other}"} <= kept
