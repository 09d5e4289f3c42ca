"""FlashInfer."""

from __future__ import annotations

import re

from ..dtypes import WORDS
from ..kernel_name import KernelName, Part, once
from ..rules import Rule, apply, direction_of, find, sourced
from ..signature import Term

_NAMESPACES = {"flashinfer": "FlashInfer"}
_RULES = sourced(
    "include/flashinfer and flashinfer/norm of FlashInfer",
    Rule("*rmsnorm*|*RMSNorm*|*LayerNorm*", "norm", "normalization", (0,)),
    Rule("*BatchPrefillWith*|*SinglePrefillWith*|*PrefillWithKVCache*", "attention", "of a prompt", tensor_cores="yes"),
    Rule("*CuteSM80*|*MLAPage*|*TensorCore*", "attention", "attention by matrix instructions", tensor_cores="yes"),
    Rule("*BatchDecodeWith*|*SingleDecodeWith*", "attention", "attention of one token, on CUDA cores"),
    Rule("*MergeState*", "reduction", "combines parts of attention"),
    Rule("*Append*", "copy", "writes the KV cache"),
    Rule("*Rotary*|*Rope*", "elementwise", "rotary position embedding"),
    Rule("*act_and_mul*|*activation*", "elementwise", "activation times gate", (0,)),
    Rule("*allreduce*|*AllReduce*|*moe_finalize*|*lamport*", "collective", "communicates"),
    Rule("*Sampling*|*TopK*|*TopP*|*MinP*", "sort", "selects tokens"),
    Rule("*quant*|*Quant*", "quantize", "quantizes"),
)

# CuTe DSL names a kernel after the Python class it comes from.
_DSL = re.compile(r"kernel_cutlass_kernel_flashinfer(\w+?)_(?:object_at|tensorptr)\w*")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a FlashInfer kernel says, or ``None`` if it is none."""
    if term.base.startswith("kernel_cutlass_kernel_flashinfer"):
        return _dsl(term.base)
    if not term.base.startswith("flashinfer::"):
        return None
    rule = find(_RULES, term.base)
    if rule is None:
        return KernelName(library="flashinfer")
    attention = rule.role == "attention"
    return apply(
        rule,
        term,
        "flashinfer",
        _NAMESPACES,
        direction="forward" if attention else direction_of(term.base),
        attention_backend="flashinfer" if attention else None,
    )


def _dsl(base: str) -> KernelName | None:
    match = _DSL.fullmatch(base)
    if match is None:
        return None
    rule = find(_RULES, match[1])
    dtypes = re.findall(r"tensorptr(bf16|f16|f32)", base)
    role = rule.role if rule else "other"
    return KernelName(
        library="flashinfer",
        role=role,
        dtypes=once(WORDS[dtype] for dtype in dtypes),
        tensor_cores=rule.tensor_cores if rule else "unknown",
        parts=(
            Part("kernel_cutlass_kernel", "compiled from Python by the CuTe DSL of CUTLASS"),
            Part(match[1], f"FlashInfer: {rule.meaning}" if rule else "FlashInfer"),
        ),
    )
