"""Names without what changes while the code stays the same: tiles, counters, hashes, addresses, ids.

Ledgers keep such names, so that the same code gives the same ledger twice. What is left out reads ``*``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from .demangling import demangled
from .shortening import functor_inside
from .signature import Term, signature

FOLDED = "*"


class Folding(NamedTuple):
    """One thing that changes while the code stays the same.

    Attributes:
        what: What it is, in a word or two.
        pattern: Where it stands in a name.
        replacement: What takes its place.
        why: Who changes it, and when.
    """

    what: str
    pattern: re.Pattern[str]
    replacement: str
    why: str


def _folding(what: str, pattern: str, replacement: str, why: str) -> Folding:
    return Folding(what, re.compile(pattern), replacement, why)


_END = r"(?=_|\b|$)"
FOLDINGS = (
    _folding(
        "address",
        r"0x[0-9a-fA-F]{4,}",
        FOLDED,
        "the CuTe DSL names a kernel by the repr of its objects, which holds where they lie in memory",
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
    ),
    _folding(
        "stages",
        r"(stages?_?)\d+" + _END,
        rf"\1{FOLDED}",
        "how many pieces of the inner dimension are in flight belongs to the tile",
    ),
    _folding("knob", r"(_knob)_\d+" + _END, rf"\1_{FOLDED}", "a configuration of cuDNN's generated kernels"),
    _folding(
        "hash",
        r"(?<![0-9A-Za-z])(?=[a-z2-7]*\d)[a-z2-7]{40,}(?![0-9A-Za-z])",
        FOLDED,
        "inductor names a compiled graph by a base32 digest of it and of its settings",
    ),
    _folding(
        "hash",
        r"(?<![0-9A-Za-z])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,}(?![0-9A-Za-z])",
        FOLDED,
        "compilers tell files apart by a digest of path and contents, such as _GLOBAL__N__1ab3c4d5_4_file_cu",
    ),
    _folding(
        "counter of Triton",
        r"\b(triton_\w*?)_\d+((?:\.kd)?)$",
        rf"\1_{FOLDED}\2",
        "inductor numbers the kernels of a program: another one in front renames all that follow",
    ),
    _folding(
        "specialisation of Triton",
        r"_0(?=\d*[dce])[dce]*1[dce0-9]*((?:\.kd)?)$",
        rf"_{FOLDED}\1",
        "Triton before 3.0 appends which arguments are 1 or divisible by 16",
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
    ),
)
"""In the order in which they are applied."""

_INNER_WIDTH = 120
# Templates that run whatever their argument is: the argument is the kernel.
_SHELLS = ("cutlass::Kernel", "cutlass::Kernel2", "cutlass::device_kernel", "flash::enable_sm90_or_later")


@lru_cache(maxsize=16384)
def folded(name: str) -> str:
    """Return the name of a kernel, an op or a call without what changes while the code stays the same.

    Of a C++ signature the qualified name is kept, in angle brackets the functor that a loop of
    PyTorch applies, or the kernel that a template of CUTLASS runs: ``at::native::vectorized_elementwise_kernel<
    CUDAFunctor_add>``. Parameters and other template arguments are left out; the data types among them
    are told apart by `decode_kernel`.

    Args:
        name: The name, as a trace holds it; mangled names are demangled.
    """
    term = signature(demangled(name).replace("<unnamed>", "(anonymous namespace)"))
    told = _without_arguments(term)
    for folding in FOLDINGS:
        told = folding.pattern.sub(folding.replacement, told)
    return told


def _without_arguments(term: Term) -> str:
    if not term.arguments:
        return term.base
    inner = _kernel_inside(term) if term.base.startswith(_SHELLS) else functor_inside(term)
    return f"{term.base}<{inner[:_INNER_WIDTH]}>" if inner else term.base


def _kernel_inside(term: Term) -> str | None:
    """Return the kernel that a shell runs, however many shells are nested."""
    while term.arguments and term.base.startswith(_SHELLS):
        term = term.arguments[0]
    return term.base
