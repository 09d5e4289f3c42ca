"""MIOpen."""

from __future__ import annotations

import re

from ..dtypes import WORDS
from ..kernel_name import KernelName, once
from ..rules import Rule, Word, Words, apply, direction_of, find, sourced, words_of
from ..signature import Term

# MIOpen: ConvAsmImplicitGemmGTCDynamic{Fwd,Bwd,Wrw}[Xdlops][NHWC]; gtcx is the generator for xdlops (MFMA).
_IMPLICIT_GEMM = re.compile(r"igemm_(fwd|bwd|wrw)(?:_data)?_gtc(x\d*|n\d*)?_(.+)")
_IMPLICIT_GEMM_WORDS = Words(
    Word("igemm", "convolution as an implicit matrix multiplication (MIOpen)"),
    Word("fwd", "forward", "direction", "forward"),
    Word("bwd", "gradient of the input", "direction", "backward"),
    Word("wrw", "gradient of the weights", "direction", "backward"),
    Word("gtcx|gtcx#", "generated for xdlops, the matrix instructions of CDNA"),
    Word("gtc", "generated for ordinary arithmetic"),
    Word("nhwc|nchw", "layout of the tensors"),
    Word("fp#|bf#", "data type", "type"),
    Word("bt@", "a work group calculates {0} at once", "tile", "{0}"),
    Word("wt@", "a wave calculates {0} at once"),
    Word("gkgs", "the inner dimension is split over work groups"),
)

_RULES = sourced(
    "src/kernels and src/solver of MIOpen",
    Rule(
        "batched_transpose_*|transpose_NCHW2CNHW*|transpose_CNHW2NCHW*|transpose_packed*",
        "layout",
        "converts the layout",
    ),
    Rule("MIOpenBatchNorm*|MIOpenGroupNorm*|MIOpenLayerNorm*|miopenBatchNorm*", "norm", "normalization"),
    Rule("SubTensorOpWithScalar*", "fill", "sets or scales a part of a tensor"),
    Rule(
        "SubTensorOpWithCastTensor*|SubTensorOpWithSubTensor*|SubTensorOpWithTransform*", "copy", "copies with a cast"
    ),
    Rule("Im2d2Col*|Im3d2Col*|Col2Im*", "layout", "unfolds an image into a matrix"),
    Rule("MIOpenSoftmax*|Softmax*_MIOpen", "softmax", "softmax"),
    Rule("mloPooling*|MIOpenPooling*", "reduction", "pooling"),
    Rule(
        "MIOpenActiv*|MIOpenNeuron*|OpTensor*|Op1dTensor*|Op2dTensor*|Op3dTensor*|Op4dTensor*|Op5dTensor*",
        "elementwise",
        "by element",
    ),
    Rule("miopenSp3AsmConvFury*|miopenSp3AsmConvRage*", "convolution", "Winograd", tensor_cores="unknown"),
    Rule("miopenSp3AsmConv*|*Winograd*", "convolution", "Winograd convolution, ordinary arithmetic"),
    Rule("naive_conv_*", "convolution", "convolution step by step, ordinary arithmetic"),
    Rule(
        "miopenGcnAsmConv*|gcnAsmConv*|MIOpenConv*|MIOpenCvBwd*|mlo*Conv*",
        "convolution",
        "convolution, ordinary arithmetic",
    ),
    Rule("gridwise_*convolution_*xdlops*", "convolution", "convolution on matrix cores", tensor_cores="yes"),
    Rule(
        "gridwise_*convolution_implicit_gemm_*|igemm_v4r1_*dynamic", "convolution", "convolution, ordinary arithmetic"
    ),
)
_STARTS = ("MIOpen", "miopen", "batched_transpose_", "transpose_NCHW2", "transpose_CNHW2", "transpose_packed")
_WORDS = (
    "SubTensorOp",
    "Im2d2Col",
    "Im3d2Col",
    "Col2Im",
    "mloPooling",
    "naive_conv_",
    "gridwise_convolution_",
    "gridwise_group_convolution_",
    "igemm_v4r1_",
    "gcnAsmConv",
    "OpTensor",
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of a MIOpen kernel says, or ``None`` if it is none."""
    base = term.base.removesuffix(".kd")
    if base.startswith("igemm_") and not base.startswith("igemm_v"):
        return _implicit_gemm(base)
    rule = find(_RULES, base) if base.startswith((*_STARTS, *_WORDS)) else None
    if rule is None or (base.startswith("batched_transpose_") and not base[len("batched_transpose_") :][:1].isdigit()):
        return None
    # ``half`` in the name of a transposition means 2 bytes: it copies bf16 too.
    dtypes = () if rule.role in ("layout", "fill", "copy") else once(WORDS.get(word) for word in base.split("_"))
    return apply(rule, term, "miopen", {}, dtypes=dtypes, direction=direction_of(base))


def _implicit_gemm(name: str) -> KernelName | None:
    match = _IMPLICIT_GEMM.fullmatch(name)
    if match is None:
        return None
    matrix = (match[2] or "").startswith("x")  # gtcn is generated for dot products.
    parts, fields = _IMPLICIT_GEMM_WORDS.read(words_of(name))
    return KernelName(
        library="miopen",
        role="convolution",
        direction=fields["direction"][0],
        dtypes=once(WORDS.get(word) for word in fields.get("type", ())),
        tile=fields.get("tile", [None])[0],
        instruction="mfma" if matrix else None,
        tensor_cores="yes" if matrix else "no",
        parts=parts,
    )
