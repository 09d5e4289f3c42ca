"""XMMA: the generator behind matrix kernels of cuBLAS, cuDNN and cuSPARSELt.

``sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_...``
"""

from __future__ import annotations

import re

from ..dtypes import WORDS
from ..kernel_name import KernelName, Part, once
from ..rules import Word, Words, compute_capability, words_of
from ..signature import Term

_TYPE = r"(?:cf32|cf64|tf32|bf16|f64|f32|f16|e4m3|e5m2|e2m1|i32|i8|u8|s8|s32)"
_OPERATIONS = re.compile(
    r"(?P<arch>sm\d+)_xmma_(?P<operation>(?:(?:sparse_)?gemm|depthwise|[fdw](?:prop|grad)|deconv|conv)[a-z0-9_]*?)"
    rf"_(?P<types>{_TYPE}+(?:_{_TYPE}+)*)_(?P<rest>.+)"
)
# Types that XMMA multiplies on tensor cores only; fp32 and fp64 it can multiply on both.
_TENSOR_TYPES = ("tf32", "bf16", "fp16", "fp8", "fp4", "int8")

_WORDS = Words(
    Word("tilesize@", "a thread block calculates {0} (rows, columns, inner) at once", "tile", "{0}"),
    Word("stage#", "a software pipeline of {0} stages"),
    Word("warpsize@", "warps in a thread block: {0}"),
    Word("warpgroupsize@", "warp groups in a thread block: {0}; they issue WGMMA", "cores", "wgmma"),
    Word("cgasize@", "thread blocks in a cluster: {0}"),
    Word("tensor@", "the tensor-core instruction has shape {0} (m, n, k)", "cores", "mma_{0}"),
    Word("ffma", "multiplies by ordinary FFMA instructions on CUDA cores: no tensor cores", "plain"),
    Word("dfma|hfma|hfma2|idp4a|simt", "multiplies by ordinary instructions on CUDA cores: no tensor cores", "plain"),
    Word("nhwckrsc|nchwkcrs|nhwc|nchw|ncdhw|ndhwc", "layout of the tensors: {0}"),
    Word("g#", "{0} groups"),
    Word("nn|nt|tn|tt", "layout of A and B: n as stored, t transposed"),
    Word("t|n", "layout of the result"),
    Word("aligna#|alignb#|alignc#", "this matrix is aligned to {0} bytes"),
    Word("t#r#s#", "the filter is {0}x{1}x{2}"),
    Word("betaTrue|betaFalse", "whether the result is added to"),
    Word("execute|kernel", "the entry point"),
    Word("segment|off|on", "whether the inner dimension is cut into segments"),
    Word("k", "the inner dimension"),
    Word("split", "adds up the parts of a split inner dimension, after the kernel of the same name that multiplies"),
    Word("5x", "built for generation 5 of the library's interface"),
    Word("cublas|cudnn|cusparselt", "the library that ships it", "library"),
    Word("trt", "TensorRT ships it", "library", "tensorrt"),
    Word("train|infer", "the part of the library that ships it"),
    Word("hmma|imma", "multiplies on tensor cores", "cores"),
)
_MEANINGS = {
    "gemm": "matrix multiplication",
    "sparse_gemm": "matrix multiplication with a 2:4 sparse operand",
    "depthwise": "convolution of every channel by itself",
    "fprop": "convolution, forward",
    "dgrad": "convolution, gradient of the input",
    "wgrad": "convolution, gradient of the weights",
    "deconv": "transposed convolution",
    "conv": "convolution",
}


def decode(term: Term) -> KernelName | None:
    """Return what the name of an XMMA kernel says, or ``None`` if it is none.

    Source:
        Names printed by cuDNN's and cuBLAS's logs beside the data types that were asked for. The
        first types are operand and result, the second those of the multiplication and of the sum,
        the third that of the scaling. ``ffma`` or ``tensor<shape>`` name the instruction;
        ``warpgroupsize`` stands where it is WGMMA (PTX ISA, sm_90). An ``execute_split_k_kernel``
        only adds up: in traces of an A100 and an H200 it follows the ``execute_kernel`` of the same
        name at once and takes a sixteenth to a third of its time, and on the H200 hardware counters
        find no tensor-core instruction in it, whatever instruction its name carries.
    """
    match = _OPERATIONS.fullmatch(term.base)
    if match is None:
        return None
    texts = match["types"].split("_")
    types = [_read_types(text) for text in texts]
    parts, fields = _WORDS.read(words_of(match["rest"]))
    operand, result = types[0][0], types[0][-1]
    product = types[1][0] if len(types) > 1 else operand
    kind = next(name for name in _MEANINGS if match["operation"].startswith(name))
    dtypes = once([product if product == "tf32" else operand, None if "tf32" in (operand, product) else result])
    adds_up = "execute_split_k_kernel" in match["rest"]
    return KernelName(
        library=fields.get("library", ["cublas" if "gemm" in kind else "cudnn"])[0],
        role="reduction" if adds_up else "gemm" if "gemm" in kind else "convolution",
        direction={"fprop": "forward", "dgrad": "backward", "wgrad": "backward"}.get(kind)
        or ("backward" if "wgrad" in match["operation"] or "dgrad" in match["operation"] else None),
        dtypes=dtypes,
        arch=match["arch"],
        tile=fields.get("tile", [None])[0],
        instruction=fields.get("cores", [None])[0],
        tensor_cores=_tensor_cores(fields, product, depthwise="depthwise" in match["operation"], adds_up=adds_up),
        parts=(
            Part(
                match["arch"],
                f"built for compute capability {compute_capability(match['arch'][2:])}; later GPUs can run it",
            ),
            Part("xmma", "NVIDIA's generator of matrix kernels"),
            Part(match["operation"], _MEANINGS[kind]),
            *_type_parts(texts, types),
            *parts,
        ),
    )


def _tensor_cores(fields: dict[str, list[str]], product: str, *, depthwise: bool, adds_up: bool) -> str:
    if "plain" in fields or depthwise:
        return "no"
    if adds_up:
        return "unknown"  # Counters of one GPU say no where the name of the pair says yes: we claim neither.
    return "yes" if "cores" in fields or product in _TENSOR_TYPES else "unknown"


def _read_types(text: str) -> list[str]:
    return [WORDS[word] for word in re.findall(_TYPE, text)]


def _type_parts(texts: list[str], types: list[list[str]]) -> list[Part]:
    meanings = ("operands {0}, result {1}", "multiplied as {0}, summed in {1}", "scaled in {1}")
    return [
        Part(text, meaning.format(pair[0], pair[-1]))
        for text, pair, meaning in zip(texts, types, meanings, strict=False)
    ]
