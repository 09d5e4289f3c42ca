"""Transformer Engine, Apex and Megatron: fused kernels for training."""

from __future__ import annotations

from ..kernel_name import KernelName
from ..rules import Rule, apply, by_rules, find, sourced
from ..signature import Term

_NAMESPACES = {"transformer_engine": "Transformer Engine"}
_RULES = sourced(
    "transformer_engine/common of Transformer Engine",
    Rule("*normalization*|*ln_fwd*|*ln_bwd*|*rmsnorm*|*layernorm*", "norm", "normalization"),
    Rule("*softmax*", "softmax", "softmax"),
    Rule("*transpose*", "layout", "transposes, often with a cast to fp8"),
    Rule("*cast*|*quantize*|*amax*|*mxfp8*|*nvfp4*", "quantize", "quantizes"),
    Rule("*adam*|*multi_tensor*", "optimizer", "a fused step on a list of tensors"),
    Rule("*rope*|*activation*|*gated*|*swiglu*|*gelu*", "elementwise", "by element"),
    Rule("*permute*|*permutation*", "moe", "routing of a mixture of experts"),
)
# Apex and Megatron put their kernels into no namespace.
_BARE = sourced(
    "csrc of Apex and megatron/fused_kernels of Megatron-LM",
    Rule(
        "cuApplyLayerNorm*|cuApplyRMSNorm*|cuComputePartGrad*|cuComputeGrad*",
        "norm",
        "normalization",
    ),
    Rule("scaled_*masked_softmax_warp*|scaled_softmax_warp*", "softmax", "scaled and masked softmax of rows"),
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of one of these kernels says, or ``None`` if it is none."""
    if term.base.startswith("transformer_engine::"):
        return by_rules(_RULES, term, "transformer-engine", _NAMESPACES)
    rule = find(_BARE, term.base.removeprefix("(anonymous namespace)::")) if term.arguments else None
    return apply(rule, term, "apex", {}) if rule else None
