"""xFormers' memory-efficient attention, which PyTorch bundles as the efficient SDPA backend."""

from __future__ import annotations

import re

from ..dtypes import WORDS, cpp_dtype
from ..kernel_name import KernelName, Part, once
from ..rules import Rule, apply, compute_capability
from ..signature import Term

_NAME = re.compile(
    r"fmha_cutlass(?P<direction>[FB])_(?P<type>f16|bf16|f32)_(?P<aligned>aligned|notaligned)_(?P<tile>\d+x\d+)"
    r"(?P<rest>(?:_(?:rf|gmem|k\d+|dropout|seqaligned))*)_(?P<arch>sm\d+)"
)
_WORDS = {
    "rf": "the output stays in registers (the register file) until it is written",
    "gmem": "the output is summed up in global memory: the head is too wide for registers",
    "dropout": "with dropout",
    "seqaligned": "sequences are multiples of the tile",
}
# DefaultGemmType in xFormers' kernel_forward.h: which operator class multiplies which type on which architecture.
_FIRST_ON_TENSOR_CORES = {"f16": 70, "bf16": 80, "f32": 80}


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of memory-efficient attention says, or ``None`` if it is none.

    Source:
        xFormers' csrc/attention/cuda/fmha: generate_kernels.py makes the names; DefaultGemmType
        in gemm_kernel_utils.h puts fp16 on tensor cores from sm_70, bf16 and fp32 (as TF32) from sm_80.
    """
    match = _NAME.fullmatch(term.base)
    if match is None:
        return _typed(term)
    arch, kind = match["arch"], match["type"]
    cores = int(arch[2:]) >= _FIRST_ON_TENSOR_CORES[kind]
    dtype = WORDS[kind]
    forward = match["direction"] == "F"
    return KernelName(
        library="xformers",
        role="attention",
        direction="forward" if forward else "backward",
        dtypes=(dtype,),
        arch=arch,
        tile=match["tile"],
        instruction="mma" if cores else None,
        tensor_cores="yes" if cores else "no",
        attention_backend="efficient",
        parts=(
            Part("fmha", "fused multi-head attention: scores, softmax and output in one kernel"),
            Part("cutlass", "written with CUTLASS (xFormers' memory-efficient attention)"),
            Part(match["direction"], "forward" if forward else "backward"),
            Part(kind, f"data type {dtype}" + (", multiplied as TF32" if kind == "f32" and cores else "")),
            Part(
                match["aligned"], f"pointers and strides are {'' if match['aligned'] == 'aligned' else 'not '}aligned"
            ),
            Part(match["tile"], "tile: queries by keys that a thread block takes at once"),
            *(Part(word, _word(word)) for word in match["rest"].split("_") if word),
            Part(arch, f"built for compute capability {compute_capability(arch[2:])}; later GPUs run it too"),
        ),
    )


def _typed(term: Term) -> KernelName | None:
    """Decode ``attention_kernel_batched_impl<AttentionKernel<cutlass::half_t, cutlass::arch::Sm80, ...>>``."""
    kernel = next(
        (inner for inner in term.walk() if inner.base.endswith(("AttentionKernel", "AttentionBackwardKernel"))), None
    )
    if kernel is None:
        return None
    dtype = next((dtype for one in kernel.arguments if (dtype := cpp_dtype(one))), None)
    arch = next((one.base.rpartition("Sm")[2] for one in kernel.arguments if "arch::Sm" in one.base), "")
    first = _FIRST_ON_TENSOR_CORES.get({"fp16": "f16", "bf16": "bf16", "fp32": "f32"}.get(dtype or "", ""))
    cores = "unknown" if first is None or not arch.isdigit() else "yes" if int(arch) >= first else "no"
    rule = Rule("*", "attention", "memory-efficient attention", tensor_cores=cores)
    forward = kernel.base.endswith("AttentionKernel")
    return apply(
        rule,
        term,
        "xformers",
        {},
        direction="forward" if forward else "backward",
        dtypes=once([dtype]),
        arch=f"sm{arch}" if arch else None,
        attention_backend="efficient",
    )


def _word(word: str) -> str:
    return _WORDS.get(word) or f"for head dimensions up to {word[1:]}"
