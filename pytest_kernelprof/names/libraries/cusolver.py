"""cuSOLVER and MAGMA."""

from __future__ import annotations

import re

from ..dtypes import cpp_dtype
from ..kernel_name import KernelName, once
from ..rules import Rule, apply, fits
from ..signature import Term

# The routine names of LAPACK without their type letter (LAPACK Users' Guide, "Naming Scheme"). Kernels of cuSOLVER
# and MAGMA are named after the routine that they are a step of.
_ROUTINES = """
    getrf getf2 getrs getri gesvd gesvdj gesvdr gesvda gesvdbj syevbj gebal geqrSolve geqrf geqr2 gelqf gebrd
    gebd2 gehrd gels geev gerc geru potrf potf2 potrs potri syevd syevj syevx sytrd sytd2 sytrf sygvd syrk syr2k
    symv syr2 heevd heevj hetrd hemv trtri trti2 trsm trmm trsv trmv ormtr ormqr ormbr orgqr org2r orgbr orgtr
    unmqr ungqr larf larft larfg larfb larfx lacpy laset laswp lascl lange lansy lanhe lartg lasr labrd latrd laed
    stedc steqr sterf stebz stein bdsqr bdsdc ipiv gtsv gesv xxtrf4 hseqr trevc
    """.split()
_ROUTINE = re.compile(
    rf"(?:[a-z]*_)?(?:batch(?:ed)?_|kernel_|magma_)?[sdczx]?(?:{'|'.join(_ROUTINES)})(?:[_A-Z0-9]\w*|batched\w*)?"
)
# Helpers of the same routines, which carry no routine's name; read off traces of torch.linalg on an H200.
_HELPERS = """
    copy_info_kernel ipiv_* *set_info_ker* info_*kernel create_pivot_v* find_nan_kernel shift_right_kernel
    batch_symmetrize_kernel batch_eye_kernel batch_FnrmA_stage* offA_stage* colperm_kernel rowperm_kernel
    merge_ker scale_max column_rotate_batch* row_rotate_batch* svd_column_rotate_batch* svd_row_rotate_batch*
    svd_col_scale_kernel pegasus* batch_small_* bound_blocks_T reduce_scaling restore_quasitriangular_matrix
    scale_consistently find_col_topological_ordering find_row_topological_ordering init_X_diag_blocks_list
    init_iscomplex_blocks_list init_scales_blocks_list init_triangular_blocks_list normalize_vectors cusolverDn*
    """.split()
_TENSOR_WORDS = re.compile(r"(?i)mma|tensor|tc_")

_SOLVER = Rule(
    "*",
    "other",
    "a step of a LAPACK routine, on CUDA cores",
    source="names of the kernels inside libcusolver and MAGMA, after the routines of LAPACK",
)
_NAMESPACES = {"cusolver": "cuSOLVER", "magma": "MAGMA"}


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of cuSOLVER or MAGMA says, or ``None`` if it is none."""
    base, last = term.base, term.base.rpartition("::")[2]
    inner = term.arguments[0].base if last in ("kernel", "epilogue") and term.arguments else last
    routine = _ROUTINE.fullmatch(inner)
    called = term.text != base  # With template arguments or parameters: a C++ function, not only a word.
    ours = base.startswith(("cusolver::", "kernel::")) and not last.startswith("gemm")
    if called and fits("gemm*_skinny_kernel*", last):
        # A multiplication with few columns; with which instructions, nobody has measured.
        return apply(
            _SOLVER._replace(role="gemm", meaning="matrix multiplication", tensor_cores="unknown"), term, "cusolver", {}
        )
    if called and (ours or routine or any(fits(pattern, last) for pattern in _HELPERS)):
        library = "magma" if "magma" in base else "cusolver"
        rule = _SOLVER._replace(role="gemv") if last.startswith("gemv") else _SOLVER
        return apply(rule, term, library, _NAMESPACES, dtypes=floating_dtypes(term), **doubt(term))
    return None


def doubt(term: Term) -> dict[str, str]:
    """Return ``unknown`` for a name that speaks of matrix instructions, although its siblings use none."""
    return {"tensor_cores": "unknown"} if _TENSOR_WORDS.search(term.base) else {}


def floating_dtypes(term: Term) -> tuple[str, ...]:
    """Return the first floating-point type among the template arguments."""
    floats = ("fp64", "fp32", "fp16", "bf16", "complex64", "complex128")
    terms = (*term.arguments, *(inner for argument in term.arguments for inner in argument.arguments))
    return once(dtype for one in terms if (dtype := cpp_dtype(one)) in floats)[:1]
