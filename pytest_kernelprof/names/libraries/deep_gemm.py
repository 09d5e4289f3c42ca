"""DeepGEMM, FlashMLA and DeepEP."""

from __future__ import annotations

from ..kernel_name import KernelName
from ..rules import Rule, apply, by_rules, find, sourced
from ..signature import Term

_NAMESPACES = {"deep_gemm": "DeepGEMM", "deep_ep": "DeepEP"}
_RULES = sourced(
    "deep_gemm/include of DeepGEMM, csrc of DeepEP",
    Rule("deep_gemm::*gemm*", "gemm", "multiplication of scaled fp8 on WGMMA or tcgen05", tensor_cores="yes"),
    Rule("deep_gemm::*transpose*|deep_gemm::*layout*", "layout", "converts the layout of scales"),
    Rule("deep_ep::*dispatch*|deep_ep::*combine*|deep_ep::*notify*", "collective", "exchanges tokens between experts"),
)
_LATENT = sourced(
    "csrc of FlashMLA",
    Rule("*flash_fwd_splitkv_mla_combine*", "reduction", "combines parts of attention"),
    Rule("*flash_fwd_splitkv_mla*", "attention", "multi-head latent attention", tensor_cores="yes"),
    Rule("*get_mla_metadata*", "index", "shares out sequences"),
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of one of these kernels says, or ``None`` if it is none."""
    namespace = term.base.partition("::")[0]
    if namespace in _NAMESPACES:
        return by_rules(_RULES, term, namespace, _NAMESPACES)
    rule = find(_LATENT, term.base) if term.arguments else None
    if rule is None:
        return None
    attention = rule.role == "attention"
    return apply(rule, term, "flash-mla", {}, attention_backend="flash-mla" if attention else None)
