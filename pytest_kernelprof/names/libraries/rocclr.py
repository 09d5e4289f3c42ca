"""ROCclr: the runtime's own kernels."""

from __future__ import annotations

from ..kernel_name import KernelName
from ..rules import Rule, apply, find, sourced
from ..signature import Term

# ROCclr's own kernels, behind hipMemset and copies that no engine does (device/blitcl.cpp).
_RULES = sourced(
    "rocclr/device/blitcl.cpp of clr",
    Rule("__amd_rocclr_fillBuffer*|__amd_rocclr_fillImage*", "fill", "sets memory, for hipMemset"),
    Rule(
        "__amd_rocclr_copyBuffer*|__amd_rocclr_copyImage*|__amd_rocclr_stream*", "copy", "copies memory, for hipMemcpy"
    ),
    Rule("__amd_rocclr_*", "other", "a kernel of the runtime itself"),
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of ROCclr says, or ``None`` if it is none."""
    rule = find(_RULES, term.base.removesuffix(".kd"))
    return apply(rule, term, "rocclr", {}) if rule else None
