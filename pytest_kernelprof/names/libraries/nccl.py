"""NCCL and RCCL, and the all-reduce kernels of others."""

from __future__ import annotations

import re

from ..dtypes import WORDS
from ..kernel_name import KernelName, Part, once
from ..signature import Term

_NAME = re.compile(r"(?:nccl(?:Symk?)?(?:Dev)?|msccl)Kernel_(?P<operation>[A-Za-z]+)(?P<rest>(?:_[A-Za-z0-9]+)*)")
# NCCL before 2.8: ``ncclAllReduceRingLLKernel_sum_f32``.
_OLD_NAME = re.compile(
    r"nccl(?P<operation>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce|SendRecv)(?P<how>[A-Za-z0-9]*)Kernel(?P<rest>(?:_[a-z0-9]+)*)"
)
_OPERATIONS = {
    "AllReduce": "sums up over all ranks, and every rank gets the result",
    "AllGather": "every rank gets the parts of all",
    "ReduceScatter": "sums up over all ranks, and every rank gets its part",
    "Broadcast": "one rank sends to all",
    "Reduce": "sums up over all ranks, and one rank gets the result",
    "SendRecv": "sends between pairs of ranks",
    "AlltoAll": "every rank sends to every other",
    "Generic": "whatever collective it is told to",
}
_REDUCING = ("AllReduce", "ReduceScatter", "Reduce")
_WORDS = {
    "RING": "along a ring",
    "TREE": "along a tree",
    "COLLNET": "through the network's own reduction",
    "NVLS": "through NVLink's own reduction",
    "PAT": "along parallel trees",
    "LL": "low-latency protocol",
    "LL128": "low-latency protocol in 128-byte lines",
    "SIMPLE": "simple protocol, for large messages",
    "Sum": "sum",
    "Prod": "product",
    "Min": "minimum",
    "Max": "maximum",
    "MinMax": "minimum or maximum",
    "PreMulSum": "scaled sum",
    "SumPostDiv": "sum, then divided",
}
_TYPES = {
    **WORDS,
    "float": "fp32",
    "double": "fp64",
    "f8e4m3": "fp8",
    "f8e5m2": "fp8",
    "uint8": "uint8",
    "int32": "int32",
    "u32": "uint32",
    "uint32": "uint32",
    "i64": "int64",
    "int64": "int64",
    "u64": "uint64",
    "uint64": "uint64",
}


def decode(term: Term) -> KernelName | None:
    """Return what the name of an NCCL or RCCL kernel says, or ``None`` if it is none.

    Source:
        src/device/generate.py of NCCL, which makes ``ncclDevKernel_AllReduce_Sum_bf16_RING_LL``;
        before 2.19 ``ncclKernel_AllReduce_RING_LL_Sum_float``. Where nothing is reduced, the old
        names carry ``Sum_int8_t``, which says nothing. RCCL kept the names and builds only
        ``ncclDevKernel_Generic``.
    """
    match = _NAME.fullmatch(term.base) or _OLD_NAME.fullmatch(term.base)
    if match is None:
        return None
    operation = match["operation"]
    words = [word for word in match["rest"].split("_") if word]
    reduces = operation in _REDUCING
    dtypes = once(_TYPES.get(word) for word in words) if reduces else ()
    return KernelName(
        library="rccl" if operation == "Generic" else "nccl",
        role="collective",
        dtypes=dtypes,
        tensor_cores="no",
        parts=(
            Part(term.base.partition("_")[0], "NVIDIA's collective communication library, or AMD's twin of it"),
            Part(operation, _OPERATIONS.get(operation, "")),
            *(Part(word, _WORDS.get(word) or (_TYPES.get(word, "") if reduces else "")) for word in words),
        ),
    )
