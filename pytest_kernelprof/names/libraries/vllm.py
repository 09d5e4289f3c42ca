"""vLLM and SGLang, which share many kernels and keep them under several namespaces."""

from __future__ import annotations

from ..dtypes import cpp_dtype
from ..kernel_name import KernelName, once
from ..rules import Rule, apply, by_rules, find, sourced
from ..signature import Term

_NAMESPACES = {"vllm": "vLLM", "sgl_kernel": "SGLang", "sgl_hip": "SGLang", "marlin": "Marlin, as bundled in vLLM"}
_RULES = sourced(
    "csrc of vLLM and sgl-kernel",
    # vLLM (csrc), SGLang (sgl-kernel) and their copies: the same kernels under several namespaces.
    Rule(
        "*rms_norm*|*rmsnorm*|*RMSNorm*|*fused_qknorm*|*layernorm*|*LayerNorm*|*qk_norm*", "norm", "normalization", (0,)
    ),
    Rule("*rotary_embedding*|*fused_rope*|*rope_*|*apply_rope*", "elementwise", "rotary position embedding", (0,)),
    Rule("*act_and_mul*|*silu_*|*gelu_*|*swiglu*", "elementwise", "activation times gate", (0,)),
    Rule(
        "*reshape_and_cache*|*concat_and_cache*|*copy_blocks*|*gather_cache*|*store_kvcache*",
        "copy",
        "writes the KV cache",
        (),
    ),
    Rule("*cross_device_reduce*|*all_reduce*|*allreduce*|*AllReduce*", "collective", "communicates", (0,)),
    Rule(
        "*paged_attention*_reduce_kernel|*MergeStates*|*merge_attn_states*|*merge_state*",
        "reduction",
        "combines parts of attention",
    ),
    Rule("*paged_attention*_mfma*|*QKV_mfma*", "attention", "attention over a paged cache, MFMA", (1,), (), "yes"),
    Rule("*paged_attention*", "attention", "attention over a paged cache", (), (), "no"),
    Rule(
        "*BatchPrefillWith*|*SinglePrefillWith*|*PrefillWithKVCache*",
        "attention",
        "attention of a prompt",
        tensor_cores="yes",
    ),
    Rule("*BatchDecodeWith*|*SingleDecodeWith*", "attention", "attention of one token, on CUDA cores"),
    Rule(
        "*moe_align_block_size*|*topkGating*|*topk_gating*|*moe_sum*|*grouped_topk*|*moe_permute*|*moe_unpermute*|*expandInputRows*|*count_and_sort_expert*",
        "moe",
        "routing of a mixture of experts",
    ),
    Rule("gemm_forward_4bit_cuda*", "gemm", "multiplication with 4-bit weights", tensor_cores="yes"),
    Rule("*marlin_repack*|permute_cols_kernel|*matrix_to_m16n8k16*", "layout", "reorders weights"),
    Rule("gemm_half_q_half_gptq*", "gemm", "multiplication with small weights, in half2 on CUDA cores"),
    Rule("Marlin|Marlin_24|MarlinMoE*", "gemm", "multiplication with small weights", tensor_cores="yes"),
    Rule("*quant*", "quantize", "quantizes", (0,)),
    Rule("*topk*|*TopK*|*sampling*|*Sampling*", "sort", "selects tokens"),
    Rule("*resolve_future_token*|*position*|*indices*", "index", "computes indices"),
)
# SGLang compiles kernels at run time in an unnamed namespace; vLLM's copies stand in none.
_UNNAMED = sourced(
    "jit_kernel of SGLang; csrc of vLLM",
    Rule("act_and_mul_kernel", "elementwise", "activation times gate", (0,)),
    Rule("fused_qknorm*", "norm", "RMS norm of Q and K", (2,)),
    Rule("fused_rope_store_kernel", "elementwise", "rotary position embedding and KV cache", (3,)),
    Rule("fused_rope_kernel", "elementwise", "rotary position embedding", (3,)),
    Rule("per_token_group_quant_*", "quantize", "quantizes"),
    Rule("wvSplitK*|LLMM1_kernel", "gemv", "matrix times vector, for few rows, by dot products", (0,)),
    Rule("groupnorm_kernel*", "norm", "group normalization", (0,)),
    Rule("moe_sum_kernel|moe_sorting_kernel|moe_align_block_size_kernel", "moe", "routing of a mixture of experts"),
    Rule("store_kvcache", "copy", "writes the KV cache"),
    Rule("rotary_embedding_kernel", "elementwise", "rotary position embedding", (0,)),
    Rule("resolve_future_token_ids_kernel|clamp_position_kernel", "index", "computes indices"),
)

_VLLM = ("vllm::", "marlin::", "marlin_moe", "gptq_marlin", "awq::")
_SGLANG = ("sgl_kernel::", "sgl_hip::", "sglang::")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of vLLM or SGLang says, or ``None`` if it is none."""
    base = term.base
    if base.startswith((*_VLLM, *_SGLANG)) or (base == "Marlin" and term.arguments):
        library = "sglang" if base.startswith(_SGLANG) else "vllm"
        # By the function alone: namespaces such as marlin_moe hold kernels of all kinds.
        decoded = by_rules(_RULES, term, library, _NAMESPACES, function_only=True)
        if decoded.role == "attention":
            return decoded._replace(attention_backend=library, direction="forward")
        return decoded
    if base.startswith("paged_attention_") and term.arguments:
        return _paged_attention(term)
    rule = find(_UNNAMED, base.removeprefix("(anonymous namespace)::")) if term.arguments else None
    return apply(rule, term, "other", {}) if rule else None


def _paged_attention(term: Term) -> KernelName | None:
    """Decode vLLM's paged attention for ROCm; AITER builds it with ck_tile's attention variants."""
    rule = find(_RULES, term.base)
    if rule is None:
        return None
    library = "aiter" if "ck_tile::" in term.text else "vllm"
    backend = library if rule.role == "attention" else None
    dtypes = once(
        dtype for argument in term.arguments[:3] if (dtype := cpp_dtype(argument)) in ("bf16", "fp16", "fp32")
    )
    instruction = "mfma_16x16" if "_mfma16" in term.base else None
    return apply(rule, term, library, _NAMESPACES, dtypes=dtypes, attention_backend=backend, instruction=instruction)
