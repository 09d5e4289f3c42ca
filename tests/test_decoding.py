"""What kernel names say, against hardware counters, hand-made labels and the ops that launched them."""

from __future__ import annotations

import gzip
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_kernelprof import KernelName, MisuseError, decode_kernel, load_trace
from pytest_kernelprof.names import DTYPES, ROLES, TENSOR_CORES, Part, base_name, brief, demangled, matches, teach
from pytest_kernelprof.names.mma import operation
from pytest_kernelprof.names.taught import checked

DATA = Path(__file__).parent / "data"
NAMES = DATA / "names"


def table(name: str) -> list[dict[str, str]]:
    head, *lines = (NAMES / name).read_text().splitlines()
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


def readable(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Leave out mangled names where no demangler is installed: pycxxfilt needs Python 3.11."""
    return [row for row in rows if not demangled(row["name"]).startswith("_Z")]


def seen() -> list[str]:
    with gzip.open(NAMES / "seen.txt.gz", "rt") as lines:
        return lines.read().splitlines()


def launched_on_h200() -> dict[str, str]:
    with gzip.open(NAMES / "h200_ops.json.gz", "rt") as file:
        ops: dict[str, str] = json.load(file)
    return ops


# Against labels


def test_hardware_counters_are_never_contradicted() -> None:
    rows = table("labels_h200.tsv")
    told = [(decode_kernel(row["name"]).tensor_cores, row["tensor_cores"]) for row in rows]

    assert len(rows) == 257
    assert [pair for pair in told if pair[0] not in (pair[1], "unknown")] == []
    assert sum(mine == "unknown" for mine, _ in told) <= 0.03 * 257


def test_labels_of_other_gpus() -> None:
    rows = readable(table("labels_other.tsv"))
    decoded = [decode_kernel(row["name"]) for row in rows]
    pairs = list(zip(decoded, rows, strict=True))
    number = len(rows)

    assert number >= 120
    assert [(row["name"], mine.tensor_cores) for mine, row in pairs if not agrees(mine.tensor_cores, row)] == []
    asked = [(mine, row) for mine, row in pairs if row["tensor_cores"] != "unknown"]
    assert sum(mine.tensor_cores == "unknown" for mine, _ in asked) <= 0.1 * number
    assert sum(same_role(mine.role, row["role"]) for mine, row in pairs) >= 0.95 * number
    assert sum(same_library(mine.library, row["library"]) for mine, row in pairs) >= 0.9 * number
    # A complex product is labelled by the type of its parts there.
    types = [(mine.dtypes[:1], row["dtype"], row["name"]) for mine, row in pairs if row["dtype"]]
    assert [one for one in types if one[0] != (one[1],) and "cgemm" not in one[2]] == []
    assert [row["name"] for mine, row in pairs if row["direction"] and mine.direction != row["direction"]] == []
    named = [(mine.attention_backend, row["attention_backend"]) for mine, row in pairs if row["attention_backend"]]
    assert all(mine == label for mine, label in named)


def agrees(mine: str, row: dict[str, str]) -> bool:
    return mine in (row["tensor_cores"], "unknown")


def same_role(mine: str, label: str) -> bool:
    return mine == label or {mine, label} == {"gemm", "gemv"}


def same_library(mine: str, label: str) -> bool:
    alike = {"cublaslt": "cublas"}
    return alike.get(mine, mine) == alike.get(label, label)


def test_sixty_names_drawn_at_random_and_labelled_by_hand() -> None:
    rows = table("drawn.tsv")

    assert [row["name"] for row in rows] == random.Random(2026).sample(seen(), 60)
    wrong = [
        (row["name"], row["why"])
        for row in readable(rows)
        if (row["tensor_cores"], row["role"], row["library"])
        != ((one := decode_kernel(row["name"])).tensor_cores, one.role, one.library)
    ]
    assert wrong == []


ROLES_OF_OPS = {
    "aten::mm": {"gemm", "gemv", "reduction", "elementwise"},
    "aten::bmm": {"gemm", "gemv"},
    "aten::baddbmm": {"gemm"},
    "aten::_int_mm": {"gemm"},
    "aten::_scaled_mm": {"gemm"},
    "aten::dot": {"reduction"},
    "aten::addmv_": {"gemv"},
    "aten::cudnn_convolution": {"convolution", "gemm", "layout"},
    "aten::_conv_depthwise2d": {"convolution"},
    "aten::_flash_attention_forward": {"attention", "reduction"},
    "aten::_flash_attention_backward": {"attention", "reduction", "elementwise"},
    "aten::_efficient_attention_forward": {"attention"},
    "aten::_efficient_attention_backward": {"attention"},
    "aten::_cudnn_attention_forward": {"attention", "reduction"},
    "aten::_cudnn_attention_backward": {"attention", "reduction", "elementwise"},
    "aten::_softmax": {"softmax"},
    "aten::_log_softmax_backward_data": {"softmax"},
    "aten::native_layer_norm": {"norm"},
    "aten::native_group_norm_backward": {"norm"},
    "aten::cudnn_batch_norm": {"norm"},
    "aten::_fused_rms_norm": {"norm"},
    "aten::_fft_c2c": {"fft"},
    "aten::_fft_r2c": {"fft", "copy"},
    "aten::sort": {"sort"},
    "aten::topk": {"sort"},
    "aten::cumsum": {"scan"},
    "aten::index_select": {"index"},
    "aten::gather": {"index"},
    "aten::scatter_add_": {"index"},
    "aten::fill_": {"fill"},
    "aten::arange": {"fill"},
    "aten::copy_": {"copy", "elementwise"},
    "aten::cat": {"copy"},
    "aten::normal_": {"random"},
    "aten::uniform_": {"random"},
    "aten::sum": {"reduction"},
    "aten::mean": {"reduction"},
    "aten::max": {"reduction"},
    "aten::mul": {"elementwise"},
    "aten::gelu": {"elementwise"},
    "aten::where": {"elementwise"},
    "aten::masked_fill_": {"elementwise"},
    "aten::embedding_dense_backward": {"embedding"},
    "aten::_fused_adamw_": {"optimizer"},
    "aten::_fused_sgd_": {"optimizer"},
    "aten::_foreach_norm": {"reduction"},
    "aten::_foreach_copy_": {"copy"},
    "aten::quantize_per_tensor": {"quantize"},
}


def test_roles_agree_with_the_ops_that_launched_the_kernels() -> None:
    odd = [
        (op, decode_kernel(name).role, name)
        for name, op in launched_on_h200().items()
        if op in ROLES_OF_OPS and decode_kernel(name).role not in ROLES_OF_OPS[op]
    ]

    assert odd == []


def test_what_was_measured_of_doubtful_functions_is_not_contradicted() -> None:
    measured = {row["function"]: row["tensor_cores"] for row in table("measured_h200.tsv")}
    told = {
        name: (decode_kernel(name).tensor_cores, label)
        for name in launched_on_h200()
        if (label := measured.get(base_name(name).rpartition("::")[2]))
    }

    assert len(told) >= 50
    assert [name for name, (mine, label) in told.items() if mine not in (label, "unknown")] == []


def test_xmma_kernels_that_add_up_a_split_dimension_are_reductions_as_counters_say() -> None:
    rows = table("measured_xmma_h200.tsv")
    wrong = [
        row["name"] for row in rows if decode_kernel(row["name"]).tensor_cores not in (row["tensor_cores"], "unknown")
    ]
    adding = [decode_kernel(row["name"]) for row in rows if "execute_split_k_kernel" in row["name"]]
    others = [decode_kernel(row["name"]) for row in rows if "execute_kernel" in row["name"]]

    assert wrong == []
    assert [one.role for one in adding] == ["reduction"] * 6
    assert [(one.is_matrix, one.tensor_cores) for one in others] == [(True, "yes")] * 19


def test_hardly_a_name_of_a_gpu_with_many_libraries_is_unknown() -> None:
    decoded = [decode_kernel(name) for name in launched_on_h200()]

    assert sum(one.tensor_cores == "unknown" for one in decoded) <= 0.01 * len(decoded)
    assert sum(not one.recognized for one in decoded) <= 0.01 * len(decoded)


# Invented names are unknown


INVENTED = """
foo
my_kernel
frobnicate_bf16
turbo_gemm_sm90_128x128
super_fast_attention_fwd
tensor_core_magic_f16
wgmma_everything
acme::linear::forward_kernel
void acme::matmul_kernel<float, 128, 128>(float*, float*, float*)
nvjet_magic
nvjet_sm90_hello_world
ampere_dreams_gemm
volta_gemm
cutlass_of_wine
void cutlassic::Kernel<int>(int)
sm90_xmma_of_death
flashy_kernel
Cijk
triton
fmha_something_else
mma16816_lookalike
void flash_point<float>(float*)
softmax
kernel<128>
LSTM_fused_wmma<__half>(x)
RNN_gemm_hmma_fused<float>(x)
void mylib::LSTM_step<float>(x)
implicit_convolve_wmma<__half>(x)
wgrad_algebra<float>(x)
dgrad_engineered<float>(x)
curandom_shuffle
Cijk_hello
batched_transpose_hello
cusparseFoo
split_embedding_fish
generate_seed_pseudo_foo
xmma_fish
void dot_kernel<float>(float*)
void gemv_kernel<float, 4>(float*)
fused_everything
_my_kernel
bmm_fish
flash_fwd_kernel_launcher_stats
flash_fwd_hdim_lookup
sage_fwd_debug
_matmul_ogs_debug_dump
_rms_norm_debug
_routing_logger
volta_sgemm_layernorm
ampere_dgemm_profiler
Cijk_Ailk_Bljk_init
void cudnn_tools::nchwToNhwcKernel<float>(float*)
""".strip().splitlines()


@pytest.mark.parametrize("name", [*INVENTED, "", " ", "\x00", "\u00e9\u4e2d", "<", ">", "(", "a<b", "_Z", "_ZN", "*"])
def test_invented_names_are_unknown(name: str) -> None:
    decoded = decode_kernel(name)

    assert (decoded.role, decoded.tensor_cores, decoded.library) == ("other", "unknown", "other")
    assert (decoded.dtypes, decoded.attention_backend, decoded.direction) == ((), None, None)
    assert not decoded.recognized
    assert decoded.is_matrix is None
    assert decoded.name == name
    assert [part.meaning for part in decoded.parts] == [""]


@pytest.mark.parametrize(
    "name",
    [
        "void vllm::gptq_gemm_quant_kernel<__half>(int)",
        "void cudnn::engines::brand_new_kernel<float>(int)",
        "void cublas_brand_new<float>(cublasNewParams)",
        "triton_",
    ],
)
def test_a_kernel_of_a_known_library_may_still_be_anything(name: str) -> None:
    decoded = decode_kernel(name)

    assert decoded.library != "other"
    assert decoded.tensor_cores == "unknown"
    assert not decoded.recognized
    assert decoded.is_matrix is None


# Matrix instructions


@pytest.mark.parametrize(
    ("word", "cores", "operands"),
    [
        ("s16816gemm", "yes", None),
        ("h884gemm", "yes", "fp16"),
        ("s1688gemm", "yes", "tf32"),
        ("s1688tf32gemm", "yes", "tf32"),
        ("s161616gemm", "yes", None),
        ("i16832gemm", "yes", None),
        ("d884gemm", "yes", "fp64"),
        ("gz884gemm", "yes", "complex128"),
        ("s64x128x16gemm", "yes", None),
        ("s884cudnn", "yes", None),
        ("s1688fprop", "yes", "tf32"),
        ("sgemm", "no", "fp32"),
        ("hgemm", "no", "fp16"),
        ("gcgemm", "no", "complex64"),
        ("scudnn", "no", "fp32"),
        ("h16gemm", "unknown", "fp16"),
        ("s123gemm", "unknown", None),
    ],
)
def test_words_for_matrix_operations(word: str, cores: str, operands: str | None) -> None:
    found = operation(word)

    assert found is not None
    assert (found.tensor_cores, found.operands) == (cores, operands)


@pytest.mark.parametrize("word", ["gemm", "xgemm", "s16816", "relu", "", "1688gemm", "s16816gem"])
def test_other_words_are_no_matrix_operation(word: str) -> None:
    assert operation(word) is None


@pytest.mark.parametrize(
    ("name", "cores", "role", "dtypes"),
    [
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "yes", "gemm", ("fp16",)),
        ("volta_h884gemm_64x128_ldg8_nn", "yes", "gemm", ("fp16",)),
        ("turing_h1688gemm_128x128_ldg8_nn", "yes", "gemm", ("fp16",)),
        ("turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1", "yes", "convolution", ("fp16",)),
        ("turing_int8_i8816cudnn_int8_256x128_ldg16_relu_singleBuffer_small_nt_v1", "yes", "convolution", ("int8",)),
        ("volta_dgemm_64x64_nn", "no", "gemm", ("fp64",)),
        ("maxwell_fp16_sgemm_fp16_128x64_nn", "no", "gemm", ("fp16",)),
        ("cudnn_infer_ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "no", "convolution", ("fp32",)),
        (
            "sm80_xmma_gemm_i8f32_i8i32_f32_tn_n_tilesize128x128x64_stage3_tensor16x8x32_fused",
            "yes",
            "gemm",
            ("int8", "fp32"),
        ),
        ("sm80_xmma_gemm_cf32cf32_tf32f32_cf32_nn_n_tilesize64x64x16_stage3_tensor16x8x8_k", "yes", "gemm", ("tf32",)),
        (
            "sm80_xmma_gemm_f16f16_f16f16_f16_tn_n_tilesize32x32x64_stage6_warpsize2x2x1_tensor16x8x16_execute_kernel_trt",
            "yes",
            "gemm",
            ("fp16",),
        ),
        ("volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1", "yes", "convolution", ("fp16",)),
        ("nvjet_sm103_oohsh_128x128_256x7_2x2_2cta_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT", "yes", "gemm", ("fp4", "fp16")),
        ("nvjet_sm100_wwtst_128x128_256x7_2x2_2cta_v_bz_TNT", "yes", "gemm", ()),
        ("nvjet_sm120_tst_mma_64x32x64_8_16x32x64_tmaAB_alignCD4_bz_TNNN", "yes", "gemm", ("bf16",)),
        (
            "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f16_f16_128x128x64_2x1x1_0_tnt_align8",
            "yes",
            "gemm",
            ("fp16",),
        ),
        ("cutlass_80_sptensorop_f16_s16832spgemm_f16_128x128_64x3_tn_align8", "yes", "gemm", ("fp16",)),
        ("ampere_sgemm_tf32_128x64_tn", "unknown", "gemm", ("tf32",)),
        ("void pytorch_flash::flash_bwd_clear_dkvaccum_kernel<X>(P)", "no", "fill", ()),
        ("void trsm_left_kernel<float, 256>(cublasTrsmParams<float>)", "no", "other", ()),
        ("rocblas_gemvn_kernel<64, 4, long, float const*, float>(int)", "no", "gemv", ("fp32",)),
        ("fmha_v2_flash_attention_fp16_64_64_S_64_sm80_kernel_nl", "yes", "attention", ("fp16",)),
        (
            "void attention_kernel_batched_impl<AttentionKernel<cutlass::half_t, cutlass::arch::Sm80, true> >(P)",
            "yes",
            "attention",
            ("fp16",),
        ),
        (
            "void attention_kernel_batched_impl<AttentionKernel<float, cutlass::arch::Sm75, true> >(P)",
            "no",
            "attention",
            ("fp32",),
        ),
        ("void vllm::awq::gemm_forward_4bit_cuda_m16n128k32<128>(int)", "yes", "gemm", ()),
        ("_layer_norm_fwd_fused", "no", "norm", ()),
        ("void marlin::gptq_marlin_repack_kernel<256, 4, true, false>(unsigned int const*)", "no", "layout", ()),
        ("void marlin_moe_wna16::permute_cols_kernel<8>(int4 const*)", "no", "layout", ()),
        ("void marlin::Marlin<__half, 12, 256, 4, 4, 8, true, 4, 8, false>(int4 const*)", "yes", "gemm", ()),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernelMlaCuteSM80<X>(P)", "yes", "attention", ()),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<X>(P)", "no", "attention", ()),
        ("void ck::kernel_batched_gemm_softmax_gemm_xdl_cshuffle_v1<X>(P)", "yes", "gemm", ()),
        ("void ck::kernel_gemm_dl_v1r3<X>(P)", "no", "gemm", ()),
        ("void tensorrt_llm::kernels::cutlass_kernels::fused_moe_kernel<__half>(P)", "unknown", "moe", ("fp16",)),
        ("Custom_Cijk_Alik_Bljk_BBS_BH_MT256x256x64_MI16x16x1_shortname0_gfx950", "yes", "gemm", ("bf16",)),
        ("_w8a8_block_fp8_matmul", "yes", "gemm", ("fp8",)),
        ("_gemm_afp4_wfp4_reduce_kernel", "no", "reduction", ()),
        ("_fwd_kernel_splitK", "yes", "attention", ()),
        ("awq_dequantize_kernel", "no", "quantize", ()),
        ("aiter::mla_dec_stage1_bf16_a16w16_subQ128_mqa128", "yes", "attention", ("bf16",)),
        ("fmoe_fp8_g1u1_subGU_256", "yes", "moe", ("fp8",)),
        ("gridwise_convolution_implicit_gemm_v4r4_nchw_kcyx_nkhw", "no", "convolution", ()),
        ("gridwise_group_convolution_forward_implicit_gemm_v4r4_xdlops_nchw_kcyx_nkhw", "yes", "convolution", ()),
        ("igemm_fwd_gtcn2_nchwc_fp16x4_bx0_bt128x128x16", "no", "convolution", ()),
        ("gcnAsmConv1x1U", "no", "convolution", ()),
        ("void conv2d_grouped_direct_kernel<__half, __half>(int)", "no", "convolution", ()),
        ("ncclSymkDevKernel_AllReduce_AGxLL_R_Sum(ncclSymkDevWorkArgs4K)", "no", "collective", ()),
        (
            "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)0>(T2 *)",
            "no",
            "softmax",
            ("fp32",),
        ),
        ("void per_token_group_quant_8bit_kernel<c10::BFloat16>(P)", "no", "quantize", ()),
        ("triton_poi_fused_index_put_0", "no", "index", ()),
        ("nvjet_tss_512x16_64x3_2x1_v_bz_TNN", "yes", "gemm", ("bf16", "fp32")),
        ("sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_k", "unknown", "gemm", ("fp32",)),
        ("nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT", "yes", "gemm", ("bf16",)),
        ("nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", "yes", "gemm", ("fp8", "bf16")),
        (
            "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_2x1x1_0_tnn_align8",
            "yes",
            "gemm",
            ("bf16",),
        ),
        ("cutlass_80_simt_dgemm_128x64_8x5_nn_align1", "no", "gemm", ("fp64",)),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm75(P::Params)", "yes", "attention", ("fp16",)),
        ("fmha_cutlassF_f32_notaligned_64x64_rf_sm75(P::Params)", "no", "attention", ("fp32",)),
        ("fmha_cutlassB_bf16_aligned_128x64_k128_sm80(P::Params)", "yes", "attention", ("bf16",)),
        (
            "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_utcmma_f16_knob_3_128x128x128_1x1x1_kernel0_0",
            "yes",
            "attention",
            (),
        ),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_ISA90a_WG32_8_1", "yes", "gemm", ("fp16",)),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_1LDSB0_TT4_4_WG16_16_1_WGM8", "no", "gemm", ("fp32",)),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16_SE_1LDSB0_WG16_16_1_WGM8", "unknown", "gemm", ("fp32",)),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI16x16x16x1_SN_ISA1100_TT4_64_WG32_8_1", "yes", "gemm", ("fp16",)),
        ("Cijk_B_PostGSU2", "no", "reduction", ("bf16",)),
        ("igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_bt128x128x16_wt32x32x8", "yes", "convolution", ("fp16",)),
        ("igemm_fwd_gtc_nhwc_fp32_bx0_ex1_bt128x128x16", "no", "convolution", ("fp32",)),
        ("triton_tem_fused_addmm_3", "yes", "gemm", ()),
        ("triton_tem_fused_flex_attention_0", "yes", "attention", ()),
        ("triton_poi_fused_addmm_relu_0", "no", "elementwise", ()),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", "no", "collective", ("bf16",)),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*)", "no", "collective", ()),
        ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "no", "collective", ("fp32",)),
        ("void RNN_blockPersist_fp_RNN_HMMA<__half, __half, __half, 256>(cudnnRNNMode_t)", "yes", "rnn", ("fp16",)),
        ("void RNN_blockPersist_fp_RNN<float, float, float, 256>(cudnnRNNMode_t)", "no", "rnn", ("fp32",)),
        (
            "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<F, long>, F, long>(F, long)",
            "no",
            "elementwise",
            (),
        ),
        ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u>(float*)", "yes", "gemm", ()),
        (
            "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel_generic<float, int>(int)",
            "no",
            "convolution",
            ("fp32",),
        ),
        (
            "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, c10::Half, int>(int)",
            "no",
            "convolution",
            ("fp16",),
        ),
        (
            "void at::native::(anonymous namespace)::conv_depthwise2d_backward_kernel<3, 1, c10::BFloat16, int>(int)",
            "no",
            "convolution",
            ("bf16",),
        ),
        (
            "void at::native::(anonymous namespace)::conv_depthwise2d_grad_weight_kernel<float, unsigned int>(int)",
            "no",
            "convolution",
            ("fp32",),
        ),
        (
            "void at::native::(anonymous namespace)::conv_depthwise3d_cuda_kernel<c10::Half, float, 3, 3, 3, 1, 1, 1, 1, 1, 1>(int)",
            "no",
            "convolution",
            ("fp16",),
        ),
        (
            "void scaled_upper_triang_masked_softmax_warp_forward<__half, __half, float, 10>(__half*)",
            "no",
            "softmax",
            (),
        ),
    ],
)
def test_names_of_the_libraries(name: str, cores: str, role: str, dtypes: tuple[str, ...]) -> None:
    decoded = decode_kernel(name)

    assert (decoded.tensor_cores, decoded.role, decoded.dtypes) == (cores, role, dtypes)


def test_cutlass_types_tell_the_instruction() -> None:
    simt = "void cutlass::Kernel2<cutlass::gemm::kernel::Gemm<cutlass::gemm::warp::MmaSimt<float>, float> >(P)"
    tensor = simt.replace("MmaSimt", "MmaTensorOp")
    wgmma = (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::collective::CollectiveMma<"
        "cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4>, cutlass::half_t>, cutlass::half_t> >(P)"
    )

    assert [decode_kernel(name).tensor_cores for name in (simt, tensor, wgmma)] == ["no", "yes", "yes"]
    assert decode_kernel(wgmma).instruction == "wgmma"
    assert decode_kernel(simt.replace("MmaSimt", "Mma")).tensor_cores == "unknown"


# Roles of the recorded traces


def roles(name: str) -> list[str]:
    step = load_trace(DATA / f"traces_h200/{name}.json.gz").steps[0]
    return [kernel.decoded.role for kernel in step.kernels]


def test_the_naive_attention_reads_as_its_author_would_say_it() -> None:
    assert roles("attn_naive") == ["gemm", "elementwise", "elementwise", "softmax", "gemm"]
    assert roles("attn_inplace") == ["gemm", "elementwise", "elementwise", "softmax", "gemm"]


@pytest.mark.parametrize(
    ("name", "backend", "library"),
    [
        ("attn_sdpa_flash", "flash", "flash-attn"),
        ("attn_sdpa_efficient", "efficient", "xformers"),
        ("attn_sdpa_cudnn", "cudnn", "cudnn"),
        ("attn_kernels_fa3", "flash-attn-3", "flash-attn"),
    ],
)
def test_each_fused_attention_is_attention_once(name: str, backend: str, library: str) -> None:
    step = load_trace(DATA / f"traces_h200/{name}.json.gz").steps[0]
    attention = [kernel.decoded for kernel in step.kernels if kernel.decoded.role == "attention"]

    assert [(one.attention_backend, one.library, one.tensor_cores) for one in attention] == [(backend, library, "yes")]
    assert Counter(roles(name)) - Counter(attention=1) in (Counter(), Counter(fill=1))


def test_helpers_of_a_flash_backward_are_no_matrix_kernels() -> None:
    names = [name for name, op in launched_on_h200().items() if op == "aten::_flash_attention_backward"]
    helpers = [name for name in names if "dq_dk_dv_loop" not in name]

    assert len(helpers) >= 6
    assert {decode_kernel(name).is_matrix for name in helpers} == {False}
    assert {decode_kernel(name).direction for name in names} == {"backward"}


# Piece by piece: the six names of the blog


FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, "
    "Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, false, false, true, true, false, false>"
    "(pytorch_flash::Flash_fwd_params)"
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
            {
                "bf16": "data type",
                "s16816gemm": "tensor-core instruction m16n8k16",
                "128x128": "tile",
                "32x5": "5 in flight",
            },
        ),
        (
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)",
            {
                "fmha": "fused multi-head attention",
                "cutlass": "CUTLASS",
                "F": "forward",
                "bf16": "bf16",
                "aligned": "aligned",
                "64x64": "tile",
                "rf": "register file",
                "sm80": "8.0",
            },
        ),
        (
            FLASH,
            {
                "flash_fwd_kernel": "FlashAttention-2, forward",
                "cutlass::bfloat16_t": "bf16",
                "64": "head dimension",
                "128": "tile",
                "4": "warps",
                "true": "fits the tile: yes",
            },
        ),
        (
            "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_6_128x64x64_4x1x1_cga1x1x1_kernel0_0",
            {
                "generated": "generated and compiled by cuDNN",
                "sdpa": "scaled dot-product attention",
                "flash": "FlashAttention",
                "fprop": "forward",
                "wmma": "tensor cores",
                "f16": "pipe",
                "knob_6": "tuning choice 6",
                "128x64x64": "tile",
            },
        ),
        ("ampere_sgemm_128x128_tn", {"sgemm": "CUDA cores: no tensor cores", "128x128": "tile", "ampere": "ampere"}),
        (
            "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, X> >(P)",
            {"flash": "from a package", "flash_fwd_kernel": "FlashAttention-2, forward"},
        ),
    ],
    ids=["N3", "E2", "F1", "C2", "M3", "K1"],
)
def test_names_of_the_blog_are_explained_piece_by_piece(name: str, said: dict[str, str]) -> None:
    parts = decode_kernel(name).parts
    meanings = {part.text: part.meaning for part in parts}

    for piece, words in said.items():
        assert words in meanings[piece], (piece, meanings[piece])


def test_every_part_stands_in_the_name_in_order() -> None:
    for name in [*launched_on_h200(), *(row["name"] for row in table("labels_other.tsv")), *seen()]:
        decoded = decode_kernel(name)
        place = 0
        loose = decoded.library in ("inductor", "tensorrt-llm", "flashinfer") or "flash::Flash" in name
        for part in decoded.parts:
            found = decoded.demangled.find(part.text, 0 if loose else place)
            assert found >= 0, (name, part)
            place = found


def test_fields_hold_only_their_words() -> None:
    for name in [*launched_on_h200(), *seen()]:
        one = decode_kernel(name)
        assert one.role in ROLES
        assert one.tensor_cores in TENSOR_CORES
        assert one.direction in (None, "forward", "backward")
        assert set(one.dtypes) <= set(DTYPES)
        assert (one.attention_backend is not None) == (one.role == "attention"), name
        assert one.as_values()["parts"]
        json.dumps(one.as_values())


# Fused ops


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("triton_poi_fused_add_mul_0", ("add", "mul")),
        ("triton_red_fused_native_layer_norm_9", ("native_layer_norm",)),
        ("triton_poi_fused__unsafe_view_add_clone_12", ("_unsafe_view", "add", "clone")),
        ("triton_per_fused__softmax__to_copy_0", ("_softmax", "_to_copy")),
        ("triton_poi_fused_gelu_gelu_backward_view_2", ("gelu", "gelu_backward", "view")),
        ("triton_red_fused_add_aiter_sage_attn_mean_2", ("add", "aiter_sage_attn", "mean")),
        ("triton_poi_fused_7", ()),
    ],
)
def test_fused_ops_are_told_apart(name: str, ops: tuple[str, ...]) -> None:
    assert decode_kernel(name).fused_ops == ops


# Mangled names


MANGLED = "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib"


def test_mangled_names_are_demangled_and_matched() -> None:
    pytest.importorskip("pycxxfilt", reason="names stay mangled without pycxxfilt, which needs Python 3.11")

    decoded = decode_kernel(MANGLED)

    assert decoded.name == MANGLED
    assert decoded.demangled.startswith("void aiter::add_rmsnorm_quant_kernel<std::bfloat16_t, std::bfloat16_t, 64, 8")
    assert (decoded.library, decoded.role, decoded.dtypes) == ("aiter", "norm", ("bf16",))
    assert demangled(f"{MANGLED}.kd") == decoded.demangled
    for pattern in ("aiter::add_rmsnorm_quant_kernel", "*rmsnorm*", "_ZN5aiter*"):
        assert matches(pattern, MANGLED)


@pytest.mark.parametrize("name", ["_Z", "_ZN7cutlass13device_kernelI", "_Zfoo", "_Z3foo\x00i", "_ZN3\udc80a1bEv"])
def test_what_cannot_be_demangled_is_text(name: str) -> None:
    assert demangled(name) == name
    assert not decode_kernel(name).recognized


# Hostile names


@pytest.mark.parametrize(
    "name",
    [
        "void " + "a<" * 3000 + "x" + ">" * 3000,
        "void k<" + "(" * 2000 + ")" * 2000 + ">(int)",
        "<" * 5000,
        "nvjet_sm90_tst_64x64_64x4_1x1" + "_h" * 5000,
        "sm80_xmma_gemm_" + "f32" * 3000,
        "sm80_xmma_gemm_" + "f32f32_" * 1500 + "x",
        "fused_" + "a_" * 5000 + "1",
        "triton_poi_fused_" + "_" * 5000,
        "triton_poi_fused_" + "native_layer_" * 2000 + "0",
        "kernel_cutlass_kernel_flashinfer" + "a_" * 3000,
        "cutlass_80_tensorop_" + "s16816gemm_" * 2000,
        "ampere_" + "a" * 10_000 + "gemm",
        "Cijk_Ailk_Bljk_" + "MT1x1x1_" * 2000,
        "volta_" + "a_" * 3000 + "scudnn",
        "igemm_fwd_gtcx_" + "a_" * 5000,
        "void at::native::elementwise_kernel<{lambda(" + "int, " * 2000 + "int)#1}>(int)",
        "void at::native::elementwise_kernel<" + "std::tuple<" * 100_000 + "float" + ">" * 100_000 + ">(x)",
        "void at::native::elementwise_kernel<" + "std::tuple<int>, " * 100_000 + "float>(x)",
        "void k<" + "a<b>, " * 5000 + "c>(int)",
    ],
    ids=range(19),
)
def test_hostile_names_are_decoded_quickly(name: str) -> None:
    started = time.monotonic()

    decoded = decode_kernel(name)
    brief(name)

    # Generous: a pattern that backtracks would take minutes.
    assert time.monotonic() - started < 5
    assert decoded.name == name


# Teaching


def test_a_taught_decoder_goes_first_and_may_be_taken_back() -> None:
    def teacher(name: str) -> KernelName | None:
        return KernelName(library="acme", role="gemm", tensor_cores="yes") if name.startswith("acme") else None

    before = teach(teacher)
    try:
        decoded = decode_kernel("acme_gemm")
        assert (decoded.name, decoded.library, decoded.role, decoded.tensor_cores) == (
            "acme_gemm",
            "acme",
            "gemm",
            "yes",
        )
        assert decode_kernel("volta_sgemm_128x64_nt").library == "cublas"
    finally:
        assert teach(before) is teacher
    assert not decode_kernel("acme_gemm").recognized


def test_a_taught_decoder_may_refine_what_the_rules_say() -> None:
    before = teach(lambda name: decode_kernel(name)._replace(role="norm"))
    try:
        assert (decode_kernel(FLASH).role, decode_kernel(FLASH).tensor_cores) == ("norm", "yes")
    finally:
        teach(before)
    assert decode_kernel(FLASH).role == "attention"


def untyped(**fields: Any) -> KernelName:
    """Return a name as a hook without annotations may make it."""
    return KernelName(**fields)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (KernelName(library=""), "hook x returned library=''; accepted: text"),
        ("gemm", "hook x returned 'gemm'; accepted: a KernelName, or None"),
        ({"role": "gemm"}, "hook x returned {'role': 'gemm'}; accepted: a KernelName, or None"),
        (KernelName(role="gem"), "hook x returned role='gem'; did you mean 'gemv'?"),
        (untyped(tensor_cores=True), "hook x returned tensor_cores=True; accepted: yes, no, unknown"),
        (KernelName(direction="sideways"), "hook x returned direction='sideways'; accepted: forward, backward"),
        (untyped(dtypes="bf16"), "hook x returned dtypes='bf16'; accepted: a tuple of texts"),
        (KernelName(dtypes=("float16",)), "hook x returned dtypes='float16'; accepted: fp64, fp32"),
        (untyped(library=None), "hook x returned library=None; accepted: text"),
        (untyped(arch=90), "hook x returned arch=90; accepted: text"),
        (untyped(parts=("a",)), "hook x returned parts=('a',); accepted: pairs of a piece and its meaning"),
        (untyped(role=["gemm"]), "hook x returned role=['gemm']; did you mean 'gemm'?"),
    ],
)
def test_wrong_answers_of_a_hook_are_refused_with_its_name(value: Any, message: str) -> None:
    with pytest.raises(MisuseError) as caught:
        checked(value, "hook x")

    assert str(caught.value).startswith(message)


def test_right_answers_of_a_hook_are_taken() -> None:
    given = untyped(role="gemm", dtypes=["bf16"], parts=[("acme", "ours")])

    assert checked(None, "x") is None
    assert checked(given, "x") == given._replace(dtypes=("bf16",), parts=(Part("acme", "ours"),))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)",
            "vectorized_elementwise_kernel (FillFunctor)",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>(float*)",
            "softmax_warp_forward",
        ),
        (FLASH, "pytorch_flash::flash_fwd_kernel"),
        ("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_NNT", "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_NNT"),
    ],
)
def test_brief_names(name: str, short: str) -> None:
    assert brief(name) == short
