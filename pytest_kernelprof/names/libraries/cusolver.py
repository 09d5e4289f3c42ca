"""cuSOLVER and MAGMA."""

from __future__ import annotations

import re

from ..dtypes import cpp_dtype
from ..kernel_name import KernelName, once
from ..rules import Rule, apply, sourced
from ..signature import Term

# The routine names of LAPACK without their type letter (LAPACK Users' Guide, "Naming Scheme"). Kernels of cuSOLVER
# and MAGMA are named after the routine that they are a step of.
_ROUTINES = """
    getrf getf2 getrs getri gesvd gesvdj gesvdr gesvda geqrf geqr2 gelqf gebrd gebd2 gehrd gels geev gerc geru
    potrf potf2 potrs potri syevd syevj syevx sytrd sytd2 sytrf sygvd syrk syr2k symv syr2 heevd heevj hetrd
    hemv trtri trti2 trsm trmm trsv trmv ormtr ormqr ormbr orgqr org2r orgbr orgtr unmqr ungqr larf larft
    larfg larfb larfx lacpy laset laswp lascl lange lansy lanhe lartg lasr labrd latrd laed stedc steqr sterf
    stebz stein bdsqr bdsdc ipiv gtsv gesv xxtrf4 hseqr trevc jacobi
    """.split()
_ROUTINE = re.compile(
    rf"(?:[a-z]*_)?(?:batch(?:ed)?_|kernel_|magma_)?[sdczx]?(?:{'|'.join(_ROUTINES)})(?:[_A-Z0-9]\w*|batched\w*)?"
)
_SOLVER_HELPERS = re.compile(
    r"copy_info_kernel|ipiv_\w+|set_info_ker\w*|\w+_set_info_ker\w*|info_\w*kernel|cusolver\w*"
)
_TENSOR_WORDS = re.compile(r"(?i)mma|tensor|tc_")

_SOLVER = sourced(
    "names of the kernels inside libcusolver and MAGMA, after the routines of LAPACK",
    Rule("*", "other", "a step of a LAPACK routine, on CUDA cores"),
)[0]
_NAMESPACES = {"cusolver": "cuSOLVER", "magma": "MAGMA"}


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of cuSOLVER or MAGMA says, or ``None`` if it is none."""
    base, last = term.base, term.base.rpartition("::")[2]
    inner = term.arguments[0].base if last == "kernel" and term.arguments else last
    routine = _ROUTINE.fullmatch(inner)
    called = term.text != base  # With template arguments or parameters: a C++ function, not only a word.
    if (routine and called) or _SOLVER_HELPERS.fullmatch(inner):
        library = "magma" if "magma" in base else "cusolver"
        return apply(_SOLVER, term, library, _NAMESPACES, dtypes=floating_dtypes(term), **doubt(term))
    return None


def doubt(term: Term) -> dict[str, str]:
    """Return ``unknown`` for a name that speaks of matrix instructions, although its siblings use none."""
    return {"tensor_cores": "unknown"} if _TENSOR_WORDS.search(term.base) else {}


def floating_dtypes(term: Term) -> tuple[str, ...]:
    """Return the first floating-point type among the template arguments."""
    floats = ("fp64", "fp32", "fp16", "bf16", "complex64", "complex128")
    terms = (*term.arguments, *(inner for argument in term.arguments for inner in argument.arguments))
    return once(dtype for one in terms if (dtype := cpp_dtype(one)) in floats)[:1]
