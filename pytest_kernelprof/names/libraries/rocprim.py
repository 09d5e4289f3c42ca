"""rocPRIM and hipCUB."""

from __future__ import annotations

from ..kernel_name import KernelName
from ..rules import Rule, apply, find, sourced
from ..signature import Term

_NAMESPACES = {"rocprim": "rocPRIM, AMD's collective algorithms", "hipcub": "hipCUB"}

# rocPRIM: the configuration type among the template arguments names the algorithm.
_RULES = sourced(
    "rocprim/device of rocPRIM",
    Rule("*radix_sort*|*merge_sort*|*segmented_sort*|*block_sort*|*onesweep*", "sort", "sorts"),
    Rule("*scan*|*lookback*", "scan", "running sum, or prepares one"),
    Rule("*reduce*", "reduction", "reduces"),
    Rule("*partition*|*select*|*unique*|*run_length*|*histogram*|*nth_element*", "index", "selects elements"),
    Rule("*transform*|*for_each*|*adjacent*", "elementwise", "applies a function to every element"),
    Rule("*batch_memcpy*|*batch_copy*", "copy", "copies in batches"),
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of rocPRIM says, or ``None`` if it is none."""
    library = term.base.partition("::")[0]
    if library not in _NAMESPACES:
        return None
    names = " ".join([term.base, *(inner.base for inner in list(term.walk())[:6])])
    rule = find(_RULES, names)
    return apply(rule, term, library, _NAMESPACES) if rule else KernelName(library=library)
