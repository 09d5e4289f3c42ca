"""cuRAND."""

from __future__ import annotations

from ..kernel_name import KernelName
from ..rules import Rule, apply
from ..signature import Term

_RULE = Rule("*", "random", "draws random numbers, or prepares to", source="cuRAND, curand_kernel.h")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a cuRAND kernel says, or ``None`` if it is none."""
    if term.base == "generate_seed_pseudo" or (term.base.startswith("gen_") and "curandState" in term.text):
        return apply(_RULE, term, "curand", {})
    return None
