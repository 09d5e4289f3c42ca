"""nvjet: the matrix kernels of cuBLAS for Hopper and later.

``nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT``
"""

from __future__ import annotations

import re

from ..kernel_name import KernelName, Part, once
from ..rules import Word, Words, words_of
from ..signature import Term

# nvjet: the matrix kernels of cuBLAS from CUDA 12.x on, for Hopper and Blackwell. Read off pairs of cublasLt calls
# and kernel names; all of them executed tensor-core instructions wherever hardware counters were read.
_NAME = re.compile(r"nvjet_(?:sm\d+_)?([a-z]{3,6})_\d+x\d+_\d+x\d+_\d+x\d+(?:_[A-Za-z0-9]+)*")
# On consumer Blackwell (sm_120), which has warp-wide instructions only: tile, stages, tile of a warp.
_WARP_WIDE = re.compile(r"nvjet_(?:sm\d+_)?([a-z]{3,6})_mma_(\d+x\d+x\d+)_(\d+)_(\d+x\d+x\d+)(?:_[A-Za-z0-9]+)*")
_TYPES = {"t": "bf16", "h": "fp16", "s": "fp32", "d": "fp64", "q": "fp8", "o": "fp4"}
_WORDS = Words(
    Word("nvjet", "a matrix multiplication of cuBLAS for Hopper and later, always on tensor cores"),
    Word("sm#", "built for compute capability {capability}", "arch"),
    Word("h", "tiles are walked horizontally"),
    Word("v", "tiles are walked vertically"),
    Word("2cta", "two thread blocks share one matrix instruction"),
    Word("bz", "the result is overwritten (beta is zero)"),
    Word("badd", "the result is added to (beta is not zero)"),
    Word("coopA", "two warp groups cooperate on one tile, split along A"),
    Word("coopB", "two warp groups cooperate on one tile, split along B"),
    Word("splitK", "the inner dimension is split over thread blocks; another kernel adds up the parts"),
    Word("bias", "adds a bias"),
    Word("relubias|reluauxbias|relu", "applies relu, after a bias where it says so"),
    Word("gelubias|geluauxbias|gelu", "applies gelu, after a bias where it says so"),
    Word("ovscale", "scales by an outer vector (row-wise scaling of fp8)"),
    Word("algo#", "variant {0}"),
    Word("NNN|NNT|NTN|NTT|TNN|TNT|TTN|TTT", "layouts of A, B and the result: N as stored, T transposed"),
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of an nvjet kernel says, or ``None`` if it is none."""
    name = term.base
    warp_wide = _WARP_WIDE.fullmatch(name)
    if warp_wide:
        return _warp_wide(name, warp_wide)
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    letters = match[1]
    words = words_of(name)
    parts, fields = _WORDS.read(words)
    first = words.index(letters, 1)
    tile, depth, cluster = words[first + 1 : first + 4]
    inner, stages = depth.split("x")
    kinds = [_TYPES.get(letter) for letter in letters]
    told = list(parts)
    told[first] = Part(letters, _type_words(letters, kinds))
    told[first + 1] = Part(tile, "tile of the result that a thread block calculates")
    told[first + 2] = Part(depth, f"steps of {inner} along the inner dimension, {stages} in flight")
    told[first + 3] = Part(cluster, "thread blocks in a cluster")
    arch = fields.get("arch", [None])[0]
    return KernelName(
        library="cublas",
        role="gemm",
        # One unknown letter, and the types are not told: a list that lacks one would be wrong.
        dtypes=once([*kinds[:-2], kinds[-1]]) if None not in kinds else (),
        arch=arch,
        tile=f"{tile}x{inner}",
        instruction="wgmma" if arch == "sm90" else "tcgen05" if arch else None,
        tensor_cores="yes",
        parts=tuple(told),
    )


def _warp_wide(name: str, match: re.Match[str]) -> KernelName:
    letters, tile, stages, warp = match.groups()
    kinds = [_TYPES.get(letter) for letter in letters]
    parts, fields = _WORDS.read(words_of(name))
    meanings = {
        letters: _type_words(letters, kinds),
        "mma": "through the warp-wide matrix instructions",
        tile: "tile of the result that a thread block calculates, and the step along the inner dimension",
        stages: f"{stages} steps in flight",
        warp: "tile of a warp",
    }
    return KernelName(
        library="cublas",
        role="gemm",
        dtypes=once([*kinds[:-2], kinds[-1]]) if None not in kinds else (),
        arch=fields.get("arch", [None])[0],
        tile=tile,
        instruction="mma",
        tensor_cores="yes",
        parts=tuple(Part(part.text, meanings.get(part.text, part.meaning)) for part in parts),
    )


def _type_words(letters: str, kinds: list[str | None]) -> str:
    shown = [kind or f"type {letter!r}" for kind, letter in zip(kinds, letters, strict=True)]
    return f"operands {', '.join(dict.fromkeys(shown[:-2]))}, summed in {shown[-2]}, result {shown[-1]}"
