"""Composable Kernel (CK and ck_tile), AMD's templates."""

from __future__ import annotations

import re

from ..dtypes import cpp_dtype
from ..kernel_name import KernelName, once
from ..rules import Rule, apply, direction_of, find, sourced
from ..signature import Term

_NAMESPACES = {"ck": "Composable Kernel, AMD's templates", "ck_tile": "Composable Kernel's tile programming model"}
# include/ck and include/ck_tile/ops. The entry point or the class in it names the operation; xdl and xdlops stand for
# MFMA, wmma for the instruction of RDNA, dl and naive for ordinary arithmetic.
_RULES = sourced(
    "include/ck/tensor_operation/gpu and include/ck_tile/ops of Composable Kernel",
    Rule("*MoeSorting*|*moe_sorting*|*MoeSmoothquant*|*TopkSoftmax*", "moe", "routing of a mixture of experts"),
    Rule("*Fmha*SplitKVCombine*|*FmhaBwdOGradDotO*", "reduction", "combines parts of attention"),
    Rule("*FmhaBwdConvertQGrad*", "elementwise", "rounds a gradient"),
    Rule("*FmhaFwdAppendKV*", "copy", "appends to the KV cache"),
    Rule("*Fmha*|*fmha*", "attention", "fused attention", tensor_cores="?"),
    Rule(
        "*conv*fwd*|*conv*bwd*|*Conv*|*_bwd_weight*|*_bwd_data*",
        "convolution",
        "convolution",
        tensor_cores="?",
    ),
    Rule(
        "*QuantGemm*|*QuantGroupedGemm*|*gemm*_xdl*|*gemm*_wmma*|*Flatmm*",
        "gemm",
        "matrix multiplication",
        tensor_cores="?",
    ),
    Rule(
        "*Rmsnorm*|*rmsnorm*|*Layernorm*|*layernorm*|*normalization*|*batchnorm*|*BatchNorm*",
        "norm",
        "normalization",
    ),
    Rule("*softmax*|*Softmax*", "softmax", "softmax"),
    Rule("*smoothquant*|*Smoothquant*|*Quant*", "quantize", "quantizes"),
    Rule("*gemm*|*Gemm*|*GEMM*|*FusedMoe*", "gemm", "matrix multiplication", tensor_cores="?"),
    Rule("*reduce*|*Reduce*|*pool*", "reduction", "reduces"),
    Rule("*transpose*|*Permute*|*permute*|*image_to_column*", "layout", "converts the layout"),
    Rule("*elementwise*|*Elementwise*", "elementwise", "applies a function to every element"),
)
_MATRIX = re.compile(r"xdl|Xdl|XDL|mfma|Mfma|wmma|Wmma|WarpGemm|GridwiseMoeGemm")
_PLAIN = re.compile(r"_dl(?:_|$|\b)|Naive|naive|Dlops|_dpp|_Dl")
# GridwiseMoeGemm is built on xdlops only (grid/gridwise_moe_gemm.hpp).
# ck_tile's attention and gemm pipelines multiply through warp gemms only (ops/gemm/warp/warp_gemm.hpp: MFMA or WMMA).
_TILE_PIPELINE = re.compile(r"BlockFmha|GemmPipeline|BlockGemm|Flatmm|QuantG")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of Composable Kernel says, or ``None`` if it is none."""
    outer = term.base.partition("::")[0]
    if outer not in ("ck", "ck_tile"):
        return None
    names = [term.base, *(inner.base for inner in term.walk())]
    rule = find(_RULES, term.base) or next((rule for name in names[1:8] if (rule := find(_RULES, name))), None)
    if rule is None:
        return KernelName(library="ck")
    text = " ".join(names)
    cores = rule.tensor_cores
    if cores == "?":
        cores = "yes" if _MATRIX.search(text) else "no" if _PLAIN.search(term.base) else "unknown"
        if cores == "unknown" and _TILE_PIPELINE.search(text):
            cores = "yes"
    instruction = "wmma" if "wmma" in text.lower() else "mfma" if cores == "yes" else None
    return apply(
        rule._replace(tensor_cores=cores),
        term,
        "ck",
        _NAMESPACES,
        direction=_direction(term, text),
        dtypes=_dtypes(term, convolution=rule.role in ("convolution", "gemm")),
        instruction=instruction,
        attention_backend="ck" if rule.role == "attention" else None,
    )


def _direction(term: Term, text: str) -> str | None:
    return direction_of(term.base) or ("backward" if "Bwd" in text else "forward" if "Fwd" in text else None)


def _dtypes(term: Term, *, convolution: bool) -> tuple[str, ...]:
    """Return the type of the data: the first floating type; ``ushort`` stores bf16 (data_type.hpp: bhalf_t)."""
    for inner in term.walk():
        dtype = cpp_dtype(inner)
        if dtype in ("fp64", "fp32", "fp16", "bf16", "fp8"):
            return once([dtype])
        if dtype == "uint16" and convolution:
            return ("bf16",)
    return ()
