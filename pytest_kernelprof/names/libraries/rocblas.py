"""rocBLAS: what Tensile does not generate."""

from __future__ import annotations

from ..dtypes import cpp_dtype
from ..kernel_name import KernelName, once
from ..rules import Rule, apply, find, sourced
from ..signature import Term

_RULES = sourced(
    "library/src/blas1, blas2 and blas3 of rocBLAS",
    Rule("rocblas_gemm_*general_kernel*", "gemm", "matrix multiplication, ordinary arithmetic"),
    Rule("rocblas_*gemv*|rocblas_*symv*|rocblas_*hemv*|rocblas_*trmv*", "gemv", "matrix times vector"),
    Rule("rocblas_*dot_*|rocblas_*nrm2*|rocblas_*asum*|rocblas_*iamax*|rocblas_*reduction*", "reduction", "adds up"),
    Rule("rocblas_*scal_*|rocblas_*axpy*|rocblas_*rot*", "elementwise", "scales or adds vectors"),
    Rule("rocblas_*copy_*|rocblas_*swap_*", "copy", "copies vectors"),
    Rule("rocblas_*trsm*|rocblas_*trsv*|rocblas_*trtri*|rocblas_*ger_*|rocblas_*syr_*", "other", "linear algebra"),
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of rocBLAS says, or ``None`` if it is none."""
    if not term.arguments:
        return None
    rule = find(_RULES, term.base)
    dtypes = once(dtype for one in term.arguments if (dtype := cpp_dtype(one)) and dtype[:2] in ("fp", "bf", "co"))
    return apply(rule, term, "rocblas", {}, dtypes=dtypes[:1]) if rule else KernelName(library="rocblas")
