"""Triton: kernels that inductor generates, and well-known ones written by hand."""

from __future__ import annotations

import re

from ..dtypes import WORDS
from ..kernel_name import KernelName, Part, once
from ..rules import Rule, apply, direction_of, find, sourced
from ..signature import Term
from . import aten_ops as ops_table

# ``triton_poi_fused_add_mul_0``: kind, fused ops, a counter.
_GENERATED = re.compile(r"triton_(poi|red|per|tem|for|spl|split_scan|unk|mix)_fused_(.*?)(?:_(\d+))?(?:\.kd)?")
_UNNAMED_GENERATED = re.compile(
    r"triton_(?:poi|red|per|tem|for|spl)_fused_?(\d*)|triton_(?:_\d+(?:d\d+)*d?e?)?|triton__(?:\d+d)+\d*"
)
# While it tunes, inductor calls templates by what they calculate: ``triton_mm``.
_TUNED = re.compile(
    r"triton_(?P<op>mm|bmm|addmm|mm_plus_mm|scaled_mm|convolution\dd|flex_attention|flex_decoding)(?:_\d+)?"
)
_KINDS = {
    "poi": ("elementwise", "pointwise: one function of every element"),
    "red": ("reduction", "a reduction in a loop"),
    "per": ("reduction", "a persistent reduction: a row at a time, without a loop"),
    "tem": ("other", "a template filled in by inductor: it multiplies with tl.dot, on tensor cores"),
    "for": ("elementwise", "a list of tensors at once (foreach)"),
    "spl": ("scan", "a split scan"),
    "split_scan": ("scan", "a split scan"),
    "mix": ("reduction", "a reduction mixed with pointwise parts"),
    "unk": ("other", "of a kind that the name does not tell"),
}

# Kernels written by hand whose names are known; the Python files are the source of what they do.
_BY_HAND = (
    *sourced(
        "triton.tools and the Triton tutorials; AOTriton (tritonsrc/flash.py), behind SDPA on ROCm",
        Rule("attn_fwd|_attn_fwd|_fwd_kernel_flash*", "attention", "flash attention with tl.dot", tensor_cores="yes"),
        Rule("_attn_fwd_inner", "attention", "flash attention with tl.dot", tensor_cores="yes"),
        Rule(
            "bwd_kernel_dk_dv|bwd_kernel_dq|bwd_kernel_fuse|_attn_bwd",
            "attention",
            "flash attention, backward, with tl.dot",
            tensor_cores="yes",
            direction="backward",
        ),
        Rule(
            "_attn_bwd_preprocess|bwd_preprocess*|attn_bwd_preprocess*",
            "reduction",
            "row sums of dO times O",
            direction="backward",
        ),
    ),
    *sourced(
        "vllm/attention/ops/triton_unified_attention.py, chunked_prefill_paged_decode.py",
        Rule(
            "kernel_unified_attention_2d|kernel_unified_attention_3d|kernel_paged_attention_2d*",
            "attention",
            "attention over a paged cache, with tl.dot",
            tensor_cores="yes",
        ),
        Rule("reduce_segments", "reduction", "combines parts of attention"),
        Rule("reshape_and_cache_flash_kernel|reshape_and_cache_kernel_flash", "copy", "writes the KV cache"),
    ),
    *sourced(
        "torch/sparse/_triton_ops.py",
        Rule(
            "_bsr_strided_addmm_kernel|_bsr_strided_dense_rowspace_kernel|_sampled_addmm_kernel",
            "gemm",
            "block-sparse multiplication with tl.dot",
            tensor_cores="yes",
        ),
        Rule("_bsr_softmax_kernel", "softmax", "softmax of a block-sparse matrix"),
    ),
    *sourced(
        "aiter/ops/triton",
        Rule("sage_fwd", "attention", "quantized attention (SageAttention) with tl.dot", tensor_cores="yes"),
        Rule("sage_quant_*", "quantize", "quantizes Q, K and V"),
        Rule("_fused_qk_rope_reshape_and_cache_kernel", "elementwise", "rotary position embedding and KV cache"),
    ),
    *sourced(
        "triton_kernels: matmul_ogs.py, routing.py, topk.py",
        Rule(
            "_matmul_ogs_*x*_*x*|_p_matmul_ogs_*x*_*x*|_matmul_ogs|_p_matmul_ogs",
            "gemm",
            "multiplication for a mixture of experts, with tl.dot",
            tensor_cores="yes",
        ),
        Rule("_finalize_matmul|_finalize_matmul_scatter*", "reduction", "adds up parts and scatters them"),
        Rule("_reduce_grouped*", "reduction", "adds up the experts' results"),
        Rule("_topk_forward|_topk_backward", "moe", "picks the experts"),
        Rule(
            "_sum_bitmatrix_rows|_sum_bitmatrix_memset|_combined_routing_compute|_combined_routing_memset|_compute_bitmatrix"
            "|_routing_compute_expt_offs|_routing_compute_indx|_routing_clear_bitmatrix|_routing_memset_indx|_routing_shard_offs"
            "|_expt_data_compute|_expt_data_memset",
            "moe",
            "routing to experts",
        ),
    ),
    *sourced(
        "sglang/srt/layers/attention, sglang/srt/model_executor/forward_batch_info.py, vllm/v1/attention/backends",
        Rule(
            "create_flashinfer_kv_indices_triton|_copy_page_indices_kernel|compute_position_kernel|alloc_decode_kernel|alloc_extend_kernel|write_req_to_token_pool_triton|create_flashmla_kv_indices_triton",
            "index",
            "computes indices of the KV cache",
        ),
    ),
    *sourced(
        "sglang/srt/layers/quantization, vllm/model_executor/layers/quantization and vllm/lora/ops",
        Rule(
            "_w8a8_block_fp8_matmul*|_w8a8_block_int8_matmul*|_w8a8_triton_block_scaled_mm*|awq_gemm_kernel|scaled_mm_kernel",
            "gemm",
            "multiplication of quantized matrices, with tl.dot",
            tensor_cores="yes",
        ),
        Rule(
            "_lora_shrink_kernel*|_lora_expand_kernel*",
            "gemm",
            "multiplication with adapters, with tl.dot",
            tensor_cores="yes",
        ),
        Rule(
            "_per_token_group_quant_fp8*|_per_token_group_quant_8bit*|awq_dequantize_kernel",
            "quantize",
            "quantizes or the reverse",
        ),
    ),
    *sourced(
        "aiter/ops/triton: gemm_a8w8.py, gemm_a16w16.py, gemm_afp4wfp4.py, moe_op.py",
        Rule("_gemm_a*_reduce_kernel*", "reduction", "adds up the parts of a split inner dimension"),
        Rule(
            "_gemm_a8w8*kernel*|_gemm_a16_w16*kernel*|_gemm_a16w16*kernel*|_gemm_afp4_wfp4*kernel*|_gemm_afp4wfp4*kernel*",
            "gemm",
            "multiplication with tl.dot",
            tensor_cores="yes",
        ),
        Rule("_fused_moe_kernel", "moe", "experts of a mixture, with tl.dot", tensor_cores="yes"),
    ),
    *sourced(
        "xformers/ops/fmha/_triton/splitk_kernels.py",
        Rule("_fwd_kernel_splitK", "attention", "attention with K and V split, with tl.dot", tensor_cores="yes"),
        Rule("_splitK_reduce", "reduction", "combines parts of attention"),
    ),
    *sourced(
        "sglang/srt/layers/attention/triton_ops/decode_attention.py",
        Rule(
            "_fwd_grouped_kernel_stage1",
            "attention",
            "attention of one token, heads grouped for tl.dot",
            tensor_cores="yes",
        ),
        Rule("_fwd_kernel_stage1", "attention", "attention of one token, by sums on CUDA cores"),
        Rule("_fwd_kernel_stage2", "reduction", "combines parts of attention"),
    ),
    *sourced(
        "the layer norm tutorial of Triton; flash_attn/ops/triton; liger_kernel/ops",
        Rule(
            "_layer_norm_fwd_fused|_layer_norm_bwd_dx_fused|_layer_norm_bwd_dwdb|_layer_norm_fwd_1pass_kernel|_layer_norm_bwd_kernel"
            "|_layer_norm_forward_kernel|_layer_norm_backward_kernel|_rms_norm_forward_kernel|_rms_norm_backward_kernel"
            "|_rms_norm_kernel|_group_norm_forward_kernel|_group_norm_backward_kernel",
            "norm",
            "normalization",
        ),
        Rule("_swiglu_*_kernel|_geglu_*_kernel|_triton_rope", "elementwise", "by element"),
        Rule("liger_cross_entropy_kernel", "softmax", "cross entropy with its softmax"),
    ),
    *sourced(
        "vllm/model_executor/layers/fused_moe/fused_moe.py",
        Rule(
            "fused_moe_kernel|fused_moe_kernel_gptq_awq", "moe", "experts of a mixture, with tl.dot", tensor_cores="yes"
        ),
        Rule("moe_align_block_size_stage*|_silu_and_mul_post_quant_kernel", "moe", "routing to experts"),
    ),
)
_NNC = re.compile(r"fused_([a-z0-9_]+?)_(\d{12,})")
_NNC_RULE = Rule("*", "elementwise", "TorchScript's NNC fused it", source="torch/csrc/jit/tensorexpr of PyTorch")
_COMPILED_TYPES = re.compile(r"bf16|fp16|fp8|mxfp4|fp32")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a Triton kernel says, or ``None`` if it is none that is known.

    Source:
        torch/_inductor/codegen/triton.py and wrapper.py: ``triton_`` + kind + ``fused`` + the
        names of the ATen ops that the kernel stems from + a counter. Names of matrix ops in a
        pointwise kernel or a reduction only say whose bias or activation it applies.
    """
    name = term.base
    generated = _GENERATED.fullmatch(name)
    if generated:
        return _generated(generated[1], generated[2], generated[3])
    tuned = _TUNED.fullmatch(name)
    if tuned:
        op = tuned["op"]
        role = "attention" if "flex" in op else "convolution" if "conv" in op else "gemm"
        template = Rule(name, role, _KINDS["tem"][1], tensor_cores="yes")
        return apply(template, term, "inductor", {}, attention_backend="flex" if role == "attention" else None)
    if _UNNAMED_GENERATED.fullmatch(name):
        return _unnamed(name)
    if term.arguments or "(" in term.text:
        return None
    fused = _NNC.fullmatch(name)
    if fused:
        return apply(_NNC_RULE, term, "other", {}, fused_ops=split_ops(fused[1]))
    bare = name.removesuffix(".kd")
    rule = find(_BY_HAND, bare)
    if rule is None:
        return None
    dtypes = once(WORDS[word] for word in _COMPILED_TYPES.findall(bare))
    attention = rule.role == "attention"
    direction = rule.direction or direction_of(bare)
    if attention and direction is None:
        direction = "forward"
    backend = "aotriton" if bare == "attn_fwd" or bare.startswith("bwd_kernel") else "triton"
    return apply(
        rule, term, "triton", {}, dtypes=dtypes, direction=direction, attention_backend=backend if attention else None
    )


def _unnamed(name: str) -> KernelName:
    """``triton_`` and ``triton__0d1d2d``, from before inductor named its kernels: kind and ops are unknown."""
    kind = name.split("_")[1]
    role, meaning = _KINDS.get(kind, ("other", "generated by inductor without a telling name"))
    return KernelName(
        library="inductor",
        role=role,
        tensor_cores="no" if kind in _KINDS and kind != "tem" else "unknown",
        parts=(Part(name, meaning),),
    )


def split_ops(text: str) -> tuple[str, ...]:
    """Return the ops whose names were joined by underscores, each once, in order.

    Words that belong to no known op are taken together as one: a custom op's name.
    """
    words = text.split("_")
    ops: list[str] = []
    unknown: list[str] = []
    place = 0
    while place < len(words):
        lead = "_" if words[place] == "" else ""
        start = place + 1 if lead else place
        for length in range(min(ops_table.LONGEST, len(words) - start), 0, -1):
            candidate = lead + "_".join(words[start : start + length])
            if candidate in ops_table.COMPOUND or (length == 1 and candidate in ops_table.SINGLE):
                break
        else:
            unknown.append("_".join(words[place : start + 1]))
            place = start + 1
            continue
        if unknown:
            ops.append("_".join(unknown))
            unknown = []
        ops.append(candidate)
        place = start + length
    if unknown:
        ops.append("_".join(unknown))
    return once(op.strip() for op in ops if op.strip("_"))


def _generated(kind: str, fused: str, counter: str | None) -> KernelName:
    if fused.isdigit():
        fused, counter = "", fused
    ops = split_ops(fused)
    default, meaning = _KINDS[kind]
    role = _role(kind, default, ops)
    template = kind == "tem"
    return KernelName(
        library="inductor",
        role=role,
        direction="backward" if any("backward" in op for op in ops) else None,
        tensor_cores="unknown" if kind == "unk" or (template and not ops) else "yes" if template else "no",
        attention_backend="flex" if role == "attention" else None,
        fused_ops=ops,
        parts=(
            Part("triton", "written in Triton by inductor, the compiler behind torch.compile"),
            Part(kind, meaning),
            Part("fused", "the ops it stems from follow"),
            *(Part(op, _op_meaning(op, kind)) for op in ops),
            *([Part(counter, "counter")] if counter else []),
        ),
    )


def _op_meaning(op: str, kind: str) -> str:
    if kind != "tem" and any(op in ops for ops in ops_table.MATRIX.values()):
        return "calculated by another kernel; this one takes up its result"
    return "a view: costs nothing by itself" if op in ops_table.VIEWS else f"the op {op}"


def _role(kind: str, role: str, ops: tuple[str, ...]) -> str:
    if kind == "tem":
        return next((name for name, members in ops_table.MATRIX.items() if members.intersection(ops)), "other")
    if kind in ("red", "per", "mix"):
        if any("norm" in op for op in ops if op != "norm"):
            return "norm"
        return "softmax" if ops_table.SOFTMAX.intersection(ops) else role
    if kind == "poi":
        rest = [op for op in ops if op not in ops_table.VIEWS]
        if rest and ops_table.EMBEDDINGS.issuperset(rest):
            return "embedding"
        if rest and ops_table.RANDOM.issuperset(rest):
            return "random"
        if rest and ops_table.INDEXING.issuperset(rest):
            return "index"
        if rest and ops_table.FILLS.issuperset(rest):
            return "fill"
        if ops_table.COPIES.issuperset(rest) and ops:
            return "copy"
    return role
