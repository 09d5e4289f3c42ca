"""Which NVIDIA library a kernel comes from, as far as a Memset before it must be forgiven.

Only cuBLAS and cuDNN are told here; every other name is ``None``. Each rule carries the source of
its meaning. Where both build kernels of one family (``xmma``), the operation decides: ``gemm`` is
cuBLAS, ``fprop``, ``dgrad`` and ``wgrad`` are cuDNN.
"""

from __future__ import annotations

import re
from functools import lru_cache

_RULES: tuple[tuple[str, str], ...] = (
    # cuDNN names its generated engines, its own namespaces and its CUTLASS builds after itself.
    ("cudnn", r"cudnn|_scudnn_|_h?cudnn_"),
    # XMMA convolutions (fprop, dgrad, wgrad): cuDNN's heuristics print these engine names.
    ("cudnn", r"^(?:void )?(?:sm\d+_xmma_(?:fprop|dgrad|wgrad)|implicit_convolve_|wgrad_alg|flip_filter)|winograd"),
    # nvjet: the GEMM family of cuBLAS since 12.x on Hopper and Blackwell.
    ("cublas", r"^nvjet_"),
    # XMMA and architecture-named GEMMs: what cublasLt reports as its algorithm's kernel.
    ("cublas", r"^(?:void )?sm\d+_xmma_gemm|^(?:maxwell|volta|turing|ampere|hopper)_[a-z0-9_]*gemm"),
    # CUTLASS GEMMs that ship inside cuBLAS: cutlass::Kernel or Kernel2 around cutlass_<arch>_<name>.
    ("cublas", r"^(?:void )?cutlass::Kernel2?<cutlass_\d+_|^cutlass_\d+_(?:tensorop|simt|wmma)"),
    # cuBLAS's own namespaces and its small helpers.
    ("cublas", r"cublasLt|cublas|^(?:void )?(?:gemv|gemmSN|gemmk1|sgemm_|dot_kernel|reduce_1Block)"),
    ("cublas", r"^(?:void )?(?:gemv\w*|dot)::|splitKreduce_kernel|^(?:void )?gemv2[NT]_kernel"),
)


@lru_cache(maxsize=4096)
def kernel_library(name: str) -> str | None:
    """Return ``cublas`` or ``cudnn`` where *name* says so, otherwise ``None``.

    Args:
        name: A kernel's name, as the trace holds it.

    Source:
        The naming of the libraries; each rule above says which.
    """
    for library, pattern in _RULES:
        if re.search(pattern, name):
            return library
    return None
