"""TensorRT-LLM: generated attention and multiplications, routing of experts."""

from __future__ import annotations

import re

from ..dtypes import WORDS, cpp_dtype
from ..kernel_name import KernelName, Part, once
from ..rules import Rule, Word, Words, by_rules, compute_capability, sourced, words_of
from ..signature import Term

_NAMESPACES = {"tensorrt_llm": "TensorRT-LLM", "moe::dev": "TensorRT-LLM's kernels for a mixture of experts"}

# trtllm-gen: fmhaSm100aKernel_QkvE4m3OBfloat16H64..., bmm_Bfloat16_E4m3E4m3_Fp32_t128x8x128u2_..._sm100f
_TYPE = r"((?:Mx)?(?:Bfloat16|Fp16|Fp8|Fp32|E4m3|E2m1))"
_GENERATED_ATTENTION = re.compile(rf"fmhaSm(\d+)[a-z]*Kernel_Q(?:kv)?{_TYPE}(?:Kv{_TYPE})?O{_TYPE}(.*)")
# fmha_v2: kernels of TensorRT and FasterTransformer, generated per type and size, all on mma instructions.
_FMHA_V2 = re.compile(r"fmha_v2_(?:flash_attention_)?(fp16|bf16|int8|e4m3)_\w*sm(\d+)\w*kernel\w*")
_GENERATED_MATMUL = re.compile(r"(bmm|gemm)_([A-Za-z0-9]+)_([A-Za-z0-9]+)_Fp32_t(\d+x\d+x\d+)\w*_sm(\d+)[a-z]?")
_GENERATED_TYPES = {
    "Bfloat16": "bf16",
    "Fp16": "fp16",
    "E4m3": "fp8",
    "MxE4m3": "fp8",
    "E2m1": "fp4",
    "MxE2m1": "fp4",
    "Fp32": "fp32",
    "Fp8": "fp8",
}
_GENERATED_WORDS = Words(
    Word("bmm", "batched matrix multiplication"),
    Word("gemm", "matrix multiplication"),
    Word("Fp32", "summed in fp32"),
    Word("t@|t@u#", "a thread block calculates {0} at once"),
    Word("m@", "the tensor-core instruction has shape {0}"),
    Word("s#", "{0} stages"),
    Word("c@|cga@", "thread blocks in a cluster: {0}"),
    Word("swiGlu", "applies SwiGLU"),
    Word("sm#|sm#a|sm#f", "built for compute capability {capability}"),
)

_RULES = sourced(
    "cpp/tensorrt_llm/kernels of TensorRT-LLM",
    Rule("moe::dev::routing::*|moe::dev::finalize::*|moe::dev::permute::*", "moe", "routing of a mixture of experts"),
    Rule("moe::dev::activation::*", "moe", "activation of a mixture of experts"),
    Rule("*masked_multihead_attention*", "attention", "attention of one token", tensor_cores="unknown"),
    Rule("moe::dev::convertsf::*|*quantiz*|*cvt_fp*_to_fp*", "quantize", "quantizes"),
    Rule(
        "*routing*|*Routing*|*expandInputRows*|*finalizeMoe*|*moe*opk*|*moe*permute*|*expert*map*|*expert*sort*",
        "moe",
        "routing of a mixture of experts",
    ),
    Rule("*moe*|*expert*", "moe", "experts of a mixture", tensor_cores="unknown"),
    Rule("*allreduce*|*all_reduce*|*AllReduce*|*lamport*", "collective", "communicates"),
    Rule("*rmsNorm*|*rmsnorm*|*layernorm*|*RMSNorm*|*layerNorm*", "norm", "normalization"),
    Rule("*rope*|*Rope*|*activation*|*doActivation*", "elementwise", "by element"),
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of TensorRT-LLM says, or ``None`` if it is none."""
    generated = _generated_attention(term.base) or _generated_matmul(term.base) or _fmha_v2(term.base)
    if generated:
        return generated
    if not term.base.startswith(("tensorrt_llm::", "moe::dev::")):
        return None
    decoded = by_rules(_RULES, term, "tensorrt-llm", _NAMESPACES)
    # ``KernelParams<bf16, bf16, ...>``: the types stand one level deeper.
    if decoded.role == "attention":
        decoded = decoded._replace(attention_backend="trtllm")
    inner = next((one for one in term.arguments if one.base.endswith("KernelParams")), None)
    return decoded._replace(dtypes=once(_floating(inner or term)))


def _floating(term: Term) -> list[str]:
    found = (cpp_dtype(argument) for argument in term.arguments)
    return [dtype for dtype in found if dtype and dtype.startswith(("fp", "bf"))]


def _generated_attention(base: str) -> KernelName | None:
    match = _GENERATED_ATTENTION.fullmatch(base)
    if match is None:
        return None
    arch, query, keys, _, rest = match.groups()
    head = re.search(r"H(\d+)", rest)
    return KernelName(
        library="tensorrt-llm",
        role="attention",
        dtypes=once(_GENERATED_TYPES.get(name) for name in (query, keys) if name),
        arch=f"sm{arch}",
        instruction="tcgen05",
        tensor_cores="yes",
        attention_backend="trtllm",
        parts=(
            Part("fmha", "fused multi-head attention of TensorRT-LLM, generated"),
            Part(f"Sm{arch}", f"built for compute capability {compute_capability(arch)}"),
            Part(f"Qkv{query}", f"types of Q, K and V: {_GENERATED_TYPES.get(query, query)}"),
            *([Part(head[0], f"head dimension {head[1]}")] if head else []),
            Part(rest, "mask, cache layout, tile of Q and KV, scheduler"),
        ),
    )


def _fmha_v2(base: str) -> KernelName | None:
    match = _FMHA_V2.fullmatch(base)
    if match is None:
        return None
    dtype = WORDS[match[1]]
    return KernelName(
        library="tensorrt-llm",
        role="attention",
        dtypes=(dtype,),
        arch=f"sm{match[2]}",
        instruction="mma",
        tensor_cores="yes",
        attention_backend="trtllm",
        parts=(
            Part("fmha_v2", "fused multi-head attention of TensorRT, generated"),
            Part(match[1], f"data type {dtype}"),
            Part(f"sm{match[2]}", f"built for compute capability {compute_capability(match[2])}"),
        ),
    )


def _generated_matmul(base: str) -> KernelName | None:
    match = _GENERATED_MATMUL.fullmatch(base)
    if match is None:
        return None
    _, first, second, tile, arch = match.groups()
    names = re.findall(_TYPE, first + second)
    parts, _ = _GENERATED_WORDS.read(words_of(base))
    return KernelName(
        library="tensorrt-llm",
        role="gemm",
        dtypes=once(_GENERATED_TYPES.get(name) for name in names),
        arch=f"sm{arch}",
        tile=tile,
        instruction="tcgen05",
        tensor_cores="yes",
        parts=parts,
    )
