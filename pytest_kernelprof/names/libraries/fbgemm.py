"""FBGEMM: embedding tables and sparse features."""

from __future__ import annotations

from ..kernel_name import KernelName
from ..rules import Rule, by_rules, sourced
from ..signature import Term

_NAMESPACES = {"fbgemm_gpu": "FBGEMM"}
_RULES = sourced(
    "fbgemm_gpu of FBGEMM",
    Rule(
        "*_find_long_segments|*grad_indice_weights*",
        "embedding",
        "prepares an embedding table",
    ),
    Rule(
        "split_embedding_*|dense_embedding_*|ssd_embedding_*|*embedding_codegen*", "embedding", "embedding tables", (0,)
    ),
    Rule(
        "*_to_float_*|*_float_to_*|*quantize*|*qparam*|*FP8rowwise*|*hfp8*",
        "quantize",
        "converts to or from a small type",
    ),
    Rule("*permute_pooled_embs*|*recat_copy_async*", "copy", "reorders embeddings"),
    Rule(
        "*permute_*|*linearize_index_kernel|*bounds_check_indices*|*bucketize*|*offsets_range*|*lengths*|*jagged*|*index_select*",
        "index",
        "reorders sparse features",
    ),
)
_STARTS = (
    *("split_embedding_codegen_", "split_embedding_backward_codegen_", "dense_embedding_codegen_"),
    *("dense_embedding_backward_codegen_", "ssd_embedding_codegen_", "fbgemm_gpu::"),
)
_BARE = (
    "bounds_check_indices_kernel",
    "linearize_index_kernel",
    "permute_pooled_embs_kernel",
    "recat_copy_async_kernel",
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of an FBGEMM kernel says, or ``None`` if it is none."""
    if term.base.startswith(_STARTS) or (term.base.startswith(_BARE) and term.arguments):
        return by_rules(_RULES, term, "fbgemm", _NAMESPACES)
    return None
