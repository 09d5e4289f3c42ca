"""AITER, AMD's kernels for inference."""

from __future__ import annotations

import re

from ..dtypes import WORDS, cpp_dtype
from ..kernel_name import KernelName, once
from ..rules import Rule, apply, find, sourced
from ..signature import Term

_NAMESPACES = {"aiter": "AITER, AMD's kernels for inference"}
_RULES = sourced(
    "csrc and hsa of AITER",
    Rule(
        "aiter::fmha_fwd_*|aiter::fmha_v3_fwd*",
        "attention",
        "fused attention, assembly",
        tensor_cores="yes",
        direction="forward",
    ),
    Rule("aiter::fmha_bwd_*dot*|aiter::fmha_bwd_odo*", "reduction", "row sums of dO times O", direction="backward"),
    Rule(
        "aiter::fmha_bwd_*convert*|aiter::fmha_bwd_*dq_shuffle*",
        "elementwise",
        "rounds a gradient",
        direction="backward",
    ),
    Rule("aiter::fmha_bwd_*", "attention", "fused attention, assembly", tensor_cores="yes", direction="backward"),
    Rule("aiter::*mla*reduce*|aiter::*mla*combine*|aiter::pa_*reduce*", "reduction", "combines parts of attention"),
    Rule(
        "aiter::mla_*|aiter::pa_*",
        "attention",
        "attention over a cache, assembly with MFMA",
        tensor_cores="yes",
    ),
    Rule(
        "aiter::*paged_attention*",
        "attention",
        "attention over a cache",
        tensor_cores="unknown",
    ),
    Rule(
        "aiter::*topk*|aiter::moe_sorting*|aiter::*moe_sum*|aiter::*moe_align*",
        "moe",
        "routing of a mixture of experts",
    ),
    Rule("aiter::fmoe_*|aiter::*moe_stage*", "moe", "experts of a mixture", tensor_cores="yes"),
    Rule("aiter::*rmsnorm*|aiter::*rms_norm*|aiter::*layernorm*|aiter::*layer_norm*", "norm", "normalization"),
    Rule(
        "aiter::*all_reduce*|aiter::*cross_device*|aiter::*allgather*|aiter::*reduce_scatter*",
        "collective",
        "communicates",
    ),
    Rule("aiter::*act_and_mul*|aiter::*rope*|aiter::*rotary*|aiter::*silu*|aiter::*gelu*", "elementwise", "by element"),
    Rule("aiter::*reshape_and_cache*|aiter::*concat_and_cache*", "copy", "writes the KV cache"),
    Rule("aiter::*quant*", "quantize", "quantizes"),
    Rule("aiter::*gemm*|aiter::*flatmm*", "gemm", "matrix multiplication, assembly with MFMA", tensor_cores="yes"),
)

_EXPERTS = Rule("fmoe_*", "moe", "experts of a mixture, assembly", tensor_cores="yes", source="hsa of AITER")


def decode(term: Term) -> KernelName | None:
    """Return what the name of an AITER kernel says, or ``None`` if it is none."""
    if term.base.startswith("fmoe_"):
        bare = re.fullmatch(r"fmoe_(?:fp8|bf16|fp16|int8)_\w+", term.base)
        return (
            apply(_EXPERTS, term, "aiter", _NAMESPACES, dtypes=once([WORDS.get(term.base.split("_")[1])]))
            if bare
            else None
        )
    if not term.base.startswith("aiter::"):
        return None
    rule = find(_RULES, term.base)
    if rule is None:
        return KernelName(library="aiter")
    words = once(WORDS.get(word) for word in term.base.rpartition("::")[2].split("_"))
    dtypes = words or once(cpp_dtype(argument) for argument in term.arguments[:2])
    attention = rule.role == "attention"
    return apply(
        rule,
        term,
        "aiter",
        _NAMESPACES,
        dtypes=dtypes,
        attention_backend="aiter" if attention else None,
        instruction="mfma" if attention and rule.tensor_cores == "yes" else None,
    )
