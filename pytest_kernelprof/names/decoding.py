"""`decode_kernel`: from the name of a kernel to what it says."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

from .demangling import demangled
from .kernel_name import KernelName, Part
from .signature import Term, signature

# Which file of rules may know a name, by how the qualified name begins; the first that does wins. A file is imported
# when the first such name comes by, so that reading a small trace loads only what it needs.
_FAMILIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("at::", "(anonymous namespace)::", "multi_tensor_apply", "softmax_warp", "cunn_", "compute_cuda"), "aten"),
    (("deep_gemm::", "deep_ep::", "flash_fwd_splitkv_mla", "get_mla_metadata", "sm90::", "sm100::"), "deep_gemm"),
    (("nvjet_",), "nvjet"),
    (("fmha_cutlass", "attention_kernel_b"), "xformers"),
    (("pytorch_flash::", "flash::", "flash_", "fmha_", "cutlass::device_kernel"), "flash_attention"),
    (("cutlass",), "cutlass"),
    (("sm",), "xmma"),
    (
        (
            "triton_",
            "attn_",
            "_attn",
            "bwd_",
            "kernel_",
            "reduce_segments",
            "reshape_and",
            "sage_",
            "_",
            "create_",
            "liger_",
            "awq_",
            "scaled_mm",
        ),
        "triton",
    ),
    (("compute_position", "alloc_", "write_req", "fused_", "moe_align"), "triton"),
    (("nccl", "rccl", "msccl"), "nccl"),
    (("fmhaSm", "fmha_v2_", "bmm_", "gemm_", "tensorrt_llm::", "moe::"), "tensorrt_llm"),
    (("flashinfer::", "kernel_cutlass_kernel_flashinfer"), "flashinfer"),
    (("split_embedding_", "dense_embedding_", "ssd_embedding_", "fbgemm_gpu::", "bounds_check_"), "fbgemm"),
    (("linearize_index_", "permute_pooled_", "recat_copy_"), "fbgemm"),
    (("vllm::", "sgl_", "sglang::", "marlin", "Marlin", "awq::", "paged_attention_"), "vllm"),
    (("transformer_engine::", "cuApply", "cuCompute", "scaled_"), "transformer_engine"),
    (("cusparse::",), "cusparse"),
    (("gen_", "generate_seed_pseudo"), "curand"),
    (("Cijk", "Custom"), "tensile"),
    (("ck::", "ck_tile::"), "composable_kernel"),
    (("__amd_rocclr",), "rocclr"),
    (("rocblas_",), "rocblas"),
    (("aiter::", "fmoe_"), "aiter"),
    (("rocprim::", "hipcub::"), "rocprim"),
    (("igemm_", "MIOpen", "miopen", "batched_transpose_", "gcnAsmConv"), "miopen"),
    (
        ("transpose_", "SubTensorOp", "Im2d2Col", "Im3d2Col", "Col2Im", "mlo", "naive_conv_", "gridwise_", "OpTensor"),
        "miopen",
    ),
)
# Files that are asked about every other name, in this order: their kernels share no beginning.
_OTHERS = ("cudnn", "cublas", "cusolver", "cub", "vllm", "cufft", "cusparse", "aten")

Decoder = Callable[[str], "KernelName | None"]


class _Taught:
    """What others have taught: the decoder that is asked before the rules."""

    decoder: Decoder | None = None


def teach(decoder: Decoder | None) -> Decoder | None:
    """Let *decoder* be asked about every name before the rules; return the one until now.

    While it is asked, `decode_kernel` answers by the rules alone, so that it may refine their answer.

    Args:
        decoder: Takes a demangled name and returns what it knows, or ``None``.
    """
    before = _Taught.decoder
    _Taught.decoder = decoder
    return before


def decode_kernel(name: str) -> KernelName:
    """Return what the name of a kernel says; what it does not say is unknown.

    Args:
        name: The name, as a trace holds it; mangled names are demangled.

    Returns:
        The decoded name. A name that no rule knows has library and role ``other`` and
        ``tensor_cores`` ``unknown``.
    """
    return _decoded(name, _Taught.decoder)


@lru_cache(maxsize=16384)
def _decoded(name: str, decoder: Decoder | None) -> KernelName:
    readable = demangled(name)
    decoded = _asked(decoder, readable) or _by_rules(readable)
    return decoded._replace(name=name, demangled=readable, parts=decoded.parts or (Part(readable),))


def _asked(decoder: Decoder | None, readable: str) -> KernelName | None:
    if decoder is None:
        return None
    before = teach(None)
    try:
        return decoder(readable)
    finally:
        teach(before)


def _by_rules(readable: str) -> KernelName:
    # Nsight Compute and cu++filt write the unnamed namespace in their own way.
    term = signature(readable.replace("<unnamed>", "(anonymous namespace)"))
    for module in _candidates(term):
        decoded: KernelName | None = import_module(f"{__package__}.libraries.{module}").decode(term)
        if decoded is not None:
            return decoded
    return KernelName()


def _candidates(term: Term) -> list[str]:
    claimed = [module for starts, module in _FAMILIES if term.base.startswith(starts)]
    return [*dict.fromkeys(claimed), *(module for module in _OTHERS if module not in claimed)]
