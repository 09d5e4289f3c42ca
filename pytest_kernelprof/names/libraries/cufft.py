"""cuFFT."""

from __future__ import annotations

import re

from ..kernel_name import KernelName, once
from ..rules import Rule, apply, find, sourced
from ..signature import Term

_RULES = sourced(
    "names of the kernels inside libcufft, and the parameter types kernel_arguments_t and real_complex_args_t",
    Rule(
        "*vector_fft*|*prime_fft*|*regular_fft*|*bluestein*|*composite_*fft*",
        "fft",
        "Fourier transform",
    ),
    Rule("*spRadix*|*dpRadix*|*dpVector*|*spVector*|*fft_*kernel*", "fft", "Fourier transform"),
    Rule(
        "*preprocess_kernel|*postprocess_kernel|*packR2C*|*packC2R*",
        "fft",
        "packs real numbers",
    ),
)
_FIXED = re.compile(r"(?:[sd]p)?(?:Radix|Vector)\d+[A-Z]?.*|__nv_static_\d+.*(?:Radix|fft).*")
_OURS = ("kernel_arguments_", "real_complex_args_t", "RealComplex_st", "loadstore_modifier_t", "EPT<")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a cuFFT kernel says, or ``None`` if it is none."""
    base = term.base
    if base == "kernel_wrapper" and "RealComplex" in term.text:
        base = "packR2C" if "packR2C" in term.text else "unpackC2R"
    rule = find(_RULES, base)
    if rule is None or not (any(sign in term.text for sign in _OURS) or _FIXED.fullmatch(base)):
        return None
    dtype = "fp64" if "double" in term.text else "fp32" if "float" in term.text else None
    return apply(rule, term, "cufft", {}, dtypes=once([dtype]))
