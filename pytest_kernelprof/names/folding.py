"""Names without what changes while the code stays the same: tiles, counters, hashes, addresses, ids.

Ledgers keep such names, so that the same code gives the same ledger twice. What is left out reads ``*``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from .decoding import decode_kernel
from .demangling import demangled
from .signature import Term, signature

FOLDED = "*"


class Folding(NamedTuple):
    """One thing that changes while the code stays the same.

    Attributes:
        what: What it is, in a word or two.
        pattern: Where it stands in a name.
        replacement: What takes its place.
        why: Who changes it, and when.
        libraries: Whose names hold it, as `decode_kernel` tells; empty where the pattern itself says so. Elsewhere
            ``3x3`` is the size of a filter, and ``stage1`` another kernel than ``stage2``.
        of_ops: Names of ops hold it, too.
    """

    what: str
    pattern: re.Pattern[str]
    replacement: str
    why: str
    libraries: tuple[str, ...] = ()
    of_ops: bool = False


def _folding(
    what: str, pattern: str, replacement: str, why: str, libraries: tuple[str, ...] = (), *, of_ops: bool = False
) -> Folding:
    return Folding(what, re.compile(pattern), replacement, why, libraries, of_ops)


_PICKED = ("cublas", "cublaslt", "cudnn", "cutlass", "xformers", "hipblaslt", "rocblas", "miopen")
"""Libraries that pick a configuration by shape, or by timing, and write it into the name."""
_END = r"(?=_|\b|$)"
FOLDINGS = (
    _folding(
        "address",
        r"0x[0-9a-fA-F]{4,}",
        FOLDED,
        "the CuTe DSL names a kernel by the repr of its objects, which holds where they lie in memory",
        of_ops=True,
    ),
    _folding(
        "tuning of nvjet",
        r"\b(nvjet_(?:sm\d+_)?[a-z]{3,6})_(?:mma_)?\d+x\d+\w*?_((?:[a-z]*(?:bias|relu|gelu|ovscale)\w*_)?[NT]{3})\b",
        rf"\1_{FOLDED}_\2",
        "cuBLAS picks tile, stages, cluster and how tiles are walked by its heuristics, or by timing them",
    ),
    _folding(
        "tuning of Tensile",
        r"\b(Cijk_\w*?)_MT\d+x\d+x\d+\w*?((?:_GSU\w*PostGSU\w*)?)\b",
        rf"\1_MT{FOLDED}\2",
        "what follows the tile (MT) is the configuration that hipBLASLt picked for the shape",
    ),
    _folding(
        "tile",
        r"(?<!\d)\d+x\d+(?:x\d+)*(?!\d)",
        FOLDED,
        "tile, stages, warps and cluster of CUTLASS, cuBLAS, cuDNN and xFormers kernels are picked, or tuned, by shape",
        _PICKED,
    ),
    _folding(
        "stages",
        r"(stages?_?)\d+" + _END,
        rf"\1{FOLDED}",
        "how many pieces of the inner dimension are in flight belongs to the tile",
        _PICKED,
    ),
    _folding("knob", r"(_knob)_\d+" + _END, rf"\1_{FOLDED}", "a configuration of cuDNN's generated kernels", _PICKED),
    _folding(
        "hash",
        r"(?<![0-9A-Za-z])(?=[a-z2-7]*\d)[a-z2-7]{40,}(?![0-9A-Za-z])",
        FOLDED,
        "inductor names a compiled graph by a base32 digest of it and of its settings",
        of_ops=True,
    ),
    _folding(
        "hash",
        r"(_GLOBAL__N__)[0-9a-f]{8,}(?![0-9A-Za-z])",
        rf"\1{FOLDED}",
        "compilers tell files apart by a digest of path and contents: _GLOBAL__N__1ab3c4d5_4_file_cu",
    ),
    _folding(
        "counter of Triton",
        r"^(triton_\w*?)_\d+((?:\.kd)?)$",
        rf"\1_{FOLDED}\2",
        "inductor numbers the kernels of a program: another one in front renames all that follow",
        ("inductor",),
        of_ops=True,
    ),
    _folding(
        "specialisation of Triton",
        r"_0(?=\d*[dce])[dce]*1[dce0-9]*((?:\.kd)?)$",
        rf"_{FOLDED}\1",
        "Triton before 3.0 appends which arguments are 1 or divisible by 16",
        ("triton", "inductor", "other"),
    ),
    _folding(
        "id of NCCL",
        r"\b((?:nccl|msccl)\w*?(?:Generic|Kernel|Function|Func))_\d+\b",
        rf"\1_{FOLDED}",
        "NCCL and RCCL number the variants of their generic kernel, by unrolling and by build",
    ),
    _folding(
        "tuning of NCCL",
        r"\b(nccl(?:Dev)?Kernel_\w*?)_(?:RING|TREE|COLLNET_\w+?|NVLS(?:_TREE)?|PAT)_(?:LL128|LL|SIMPLE)" + _END,
        rf"\1_{FOLDED}",
        "NCCL picks algorithm and protocol by size and by who is how far away: ranks of one job differ in it",
    ),
    _folding(
        "number of a compiled region",
        r"\b(Torch-Compiled Region: )\d+/\d+(?:_\d+)*",
        rf"\1{FOLDED}",
        "torch.compile counts frames and their recompilations",
        of_ops=True,
    ),
)
"""In the order in which they are applied."""

_MOST_WORDS = 8
# Templates that run whatever their argument is: the argument is the kernel.
_SHELL = re.compile(r"cutlass\w*::(?:Kernel2?|device_kernel)|flash::enable_\w+")
# What template arguments hold beside what the kernel does: data types, which `decode_kernel` tells, numbers, and ways
# to reach memory and to divide work, which follow from shapes and strides.
_NOISE = re.compile(
    r"\W?(?:.*[*&]|.*\bconst|(?:un)?signed\b.*|-?\d.*|true|false|"
    r"(?:u?(?:char|short|int|long|longlong|float|double)|bool|void|half|__half|decltype|size_t|bfloat16|__nv_\w+|__hip_\w+)(?:\d+)?(?:_t)?|"
    r"Half|BFloat16|Float8\w*|complex|C10\w*|HIP_vector_type|ScalarType|pair|tuple|apply|operator\(\)|"
    r"[Aa]rray|OpaqueType|\w*TensorListMetadata|Null\w*|CUDAGeneratorImpl|integral_constant|"
    r"gpu_kernel_impl\w*|ReduceOp|func_wrapper_t|\w*OffsetCalculator|(?:Load|Store)With(?:out)?Cast|"
    r"\w*Policy\w*|policy\w*|\w*TileState|MemBoundScaling|)"
)


@lru_cache(maxsize=16384)
def folded(name: str) -> str:
    """Return the name of a kernel without what changes while the code stays the same.

    Of a C++ signature the qualified name is kept, in angle brackets what its template arguments say
    of what it does, such as the functor that a loop of PyTorch applies, or the kernel that a shell of
    CUTLASS runs: ``at::native::vectorized_elementwise_kernel<CUDAFunctor_add>``. Parameters, numbers,
    data types (`decode_kernel` tells them) and ways to reach memory are left out.

    Args:
        name: The name, as a trace holds it; mangled names are demangled.
    """
    readable = demangled(name).replace("<unnamed>", "(anonymous namespace)")
    library = decode_kernel(name).library
    told = _without_arguments(signature(readable))
    for folding in FOLDINGS:
        if not folding.libraries or library in folding.libraries:
            told = folding.pattern.sub(folding.replacement, told)
    return told


@lru_cache(maxsize=4096)
def folded_op(name: str) -> str:
    """Return the name of an op without what changes while the code stays the same.

    Args:
        name: The name, as a trace holds it.
    """
    for folding in FOLDINGS:
        if folding.of_ops:
            name = folding.pattern.sub(folding.replacement, name)
    return name


def _without_arguments(term: Term) -> str:
    """Return a name with what its template arguments say of what it does."""
    if not term.arguments:
        return term.base
    base = term.base
    words: list[str] = []
    while _SHELL.fullmatch(term.base) and term.arguments:
        term = term.arguments[0]
        words = [term.base]
    words += [word for one in term.walk() if not _NOISE.fullmatch(word := _word(one))]
    told = " ".join(list(dict.fromkeys(words))[:_MOST_WORDS])
    return f"{base}<{told}>" if told else base


def _word(term: Term) -> str:
    """Return the last name of a template argument; of a lambda, that of the function around it."""
    names = term.base.partition("::{lambda")[0].split("::")
    return names[-2] if names[-1] == "operator()" and len(names) > 1 else names[-1]
