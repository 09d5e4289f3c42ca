"""cuSPARSE."""

from __future__ import annotations

from ..kernel_name import KernelName
from ..rules import Rule, apply
from ..signature import Term
from .cusolver import doubt, floating_dtypes

_NAMESPACES = {"cusparse": "cuSPARSE"}
_RULE = Rule(
    "*", "other", "a step of a sparse operation, on CUDA cores", source="cuSPARSE, whose kernels stand in its namespace"
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of a cuSPARSE kernel says, or ``None`` if it is none."""
    if not term.base.startswith(("cusparse::", "convert_CooToCsr_kernel", "convert_CsrToCoo_kernel")):
        return None
    return apply(_RULE, term, "cusparse", _NAMESPACES, dtypes=floating_dtypes(term), **doubt(term))
