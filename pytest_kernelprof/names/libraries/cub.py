"""CUB and Thrust: sort, scan, reduce and select, wherever they are bundled."""

from __future__ import annotations

import re

from ..kernel_name import KernelName
from ..rules import Rule, apply, find, sourced
from ..signature import Term

_NAMESPACES = {
    "cub": "CUB, NVIDIA's collective algorithms",
    "at_cuda_detail::cub": "CUB, as bundled in PyTorch",
    "thrust": "Thrust, NVIDIA's parallel algorithms",
}
# cub/device/dispatch/dispatch_*.cuh and kernels/*.cuh name their kernels Device<Algorithm>...Kernel.
_RULES = sourced(
    "cub/device/dispatch of CCCL",
    Rule("*DeviceRadixSort*|*DeviceSegmentedRadixSort*|*DeviceMergeSort*|*DeviceSegmentedSort*", "sort", "sorts"),
    Rule("*DeviceSegmentedReduce*|*DeviceReduce*", "reduction", "reduces"),
    Rule("*DeviceScan*|*DeviceCompactInit*", "scan", "running sum, or prepares one"),
    Rule(
        "*DeviceSelect*|*DevicePartition*|*DeviceThreeWayPartition*|*DeviceUnique*|*DeviceRle*",
        "index",
        "selects elements",
    ),
    Rule("*DeviceHistogram*", "index", "counts a histogram"),
    Rule("*DeviceMemcpy*|*BatchMemcpy*|*DeviceBatch*", "copy", "copies in batches"),
    Rule("*DeviceSpmv*|*DeviceSegmentFixup*", "other", "sparse matrix times vector"),
    Rule(
        "*DeviceFor*|*static_kernel|*transform_kernel*|*for_each*", "elementwise", "applies a function to every element"
    ),
    Rule("*EmptyKernel*", "other", "does nothing: it asks for the version of the code"),
)
# thrust/system/cuda/detail: every algorithm runs as _kernel_agent<Agent, ...>.
_AGENTS = sourced(
    "thrust/system/cuda/detail of CCCL",
    Rule("*sort*|*Sort*", "sort", "sorts"),
    Rule("*scan*|*Scan*", "scan", "running sum"),
    Rule("*reduce*|*Reduce*", "reduction", "reduces"),
    Rule(
        "*unique*|*partition*|*copy_if*|*set_operations*|*merge*|*Unique*|*Partition*|*select*",
        "index",
        "selects elements",
    ),
    Rule(
        "*parallel_for*|*ParallelFor*|*transform*|*for_each*|*generate*|*tabulate*|*fill*",
        "elementwise",
        "applies a function to every element",
    ),
)
_BUNDLED = re.compile(r"(?:[A-Za-z_0-9]+::)*?(cub|thrust)::")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a kernel of CUB or Thrust says, or ``None`` if it is none."""
    match = _BUNDLED.match(term.base)
    if match is None:
        return None
    rule = find(_RULES, term.base)
    if rule is None:
        names = " ".join([term.base, *(inner.base for inner in term.walk())])
        rule = find(_AGENTS, names) if match[1] == "thrust" else None
    if rule is None:
        return KernelName(library=match[1])
    return apply(rule, term, match[1], _NAMESPACES)
