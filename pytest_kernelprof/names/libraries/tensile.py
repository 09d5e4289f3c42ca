"""Tensile: the generator behind rocBLAS and hipBLASLt.

``Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x32x64_MI16x16x1_SN_..._ISA942_...``
"""

from __future__ import annotations

import re

from ..kernel_name import KernelName, Part, once
from ..signature import Term

_NAME = re.compile(r"(?P<custom>Custom\w*?_)?Cijk(?:_(?P<a>A[a-z]{3})_(?P<b>B[a-z]{3}))?_(?P<rest>\S+)")
_TYPES = {
    "B": "bf16",
    "H": "fp16",
    "S": "fp32",
    "D": "fp64",
    "C": "complex64",
    "Z": "complex128",
    "I8": "int8",
    "I": "int32",
    "4xi8": "int8",
    "F8": "fp8",
    "B8": "fp8",
    "F8B8": "fp8",
    "F4": "fp4",
    "F6": "fp6",
    "X": "tf32",
}
_HELPERS = {
    "PostGSU": ("reduction", "adds up the parts of a split inner dimension"),
    "GA": ("elementwise", "scales or clears the result beforehand"),
    "BetaOnly": ("elementwise", "scales the result beforehand"),
}
# Tensile's kernel parameters by their abbreviations (Tensile/Common.py, "Kernel parameters" in its documentation).
_PARAMETERS = {
    "AFEM": "multiple of elements that the free dimension is known to have",
    "AF0EM": "multiple of elements that the first free dimension is known to have",
    "AF1EM": "multiple of elements that the second free dimension is known to have",
    "ASEM": "multiple of elements that the inner dimension is known to have",
    "CLR": "reads from local memory are clustered",
    "DTVA": "A goes straight to registers",
    "DTVB": "B goes straight to registers",
    "DTLA": "A goes straight to local memory",
    "DTLB": "B goes straight to local memory",
    "EPS": "pointers to local memory are swapped by unrolling",
    "GRVWA": "elements of A that are read at once",
    "GRVWB": "elements of B that are read at once",
    "GRVW": "elements that are read at once",
    "GSU": "the inner dimension is shared out to several work groups",
    "LBSPPA": "padding of A in local memory",
    "LBSPPB": "padding of B in local memory",
    "LPA": "padding of A in local memory",
    "LPB": "padding of B in local memory",
    "LRVW": "elements that are read from local memory at once",
    "MIWT": "matrix instructions of a wave, in rows and columns",
    "MIAV": "accumulators stand in ordinary registers",
    "NEPBS": "elements that are stored in a batch",
    "NLCA": "coalesced loads of A",
    "NLCB": "coalesced loads of B",
    "ONLL": "the last steps are a loop of their own",
    "PGR": "tiles that are read ahead",
    "PLR": "steps that are read ahead from local memory",
    "SIA": "how instructions are scheduled",
    "SS": "A and B are exchanged",
    "SVW": "elements that are stored at once",
    "SK": "stream-K: work is shared out evenly",
    "SU": "work groups begin at different places",
    "TLDS": "how local memory is transposed",
    "VWA": "elements of A that a thread holds together",
    "VWB": "elements of B that a thread holds together",
    "VW": "elements that a thread holds together",
    "WGM": "the order of work groups",
    "WS": "threads of a wave",
    "K": "kernel language",
    "LDSB": "buffers in local memory",
    "NTA": "cache policy of A",
    "NTB": "cache policy of B",
    "NTC": "cache policy of C",
    "NTD": "cache policy of D",
}
_WORDS = (
    (re.compile(r"MT(\d+x\d+x\d+)"), "macro tile: a work group calculates {0} (rows, columns, inner) at once"),
    (re.compile(r"MI(\d+x\d+x\d+(?:x\d+)?)"), "matrix instruction {0}: runs on matrix cores (MFMA, on RDNA WMMA)"),
    (re.compile(r"TT(\d+)_(\d+)"), "thread tile {0}x{1}: without a matrix instruction, ordinary arithmetic"),
    (re.compile(r"ISA(\w+)"), "built for gfx{0}"),
    (re.compile(r"WG(\d+)_(\d+)_(\d+)"), "work group {0}x{1}, inner dimension split {2} ways"),
    (re.compile(r"Bias"), "adds a bias"),
    (re.compile(r"UserArgs"), "arguments in the way of hipBLASLt"),
    (re.compile(r"SAV|HA|HAS"), "scales and activations that it can apply"),
    (re.compile(r"SN|SE"), "source is assembly"),
)
_MATRIX = re.compile(r"_MI(\d+x\d+x\d+(?:x\d+)?)(?=_|$)")
_THREAD_TILE = re.compile(r"_TT\d+_\d+(?=_|$)")
_TILE = re.compile(r"_MT(\d+x\d+x\d+)")
_ISA = re.compile(r"_ISA(\w+?)(?=_|$)")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a Tensile kernel says, or ``None`` if it is none.

    Source:
        Tensile's documentation of kernel parameters (MT MacroTile, MI MatrixInstruction, TT
        ThreadTile, GSU GlobalSplitU) and of data types (H, B, S, D, ...: of the operands, of the
        result, of the arithmetic); KernelWriterBase names the helper kernels.
    """
    name = term.text.removesuffix(".kd")
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    rest = match["rest"]
    # The hand-tuned ones (Custom) are hipBLASLt's.
    library = "hipblaslt" if "_UserArgs" in name or match["custom"] else "tensile"
    helper = next(
        (helper for sign, helper in _HELPERS.items() if re.search(rf"^[A-Z0-9]+_(?:\w+_)?{sign}\d*", rest)), None
    )
    if helper is not None:
        return _decoded(name, library, *helper, rest, "no")
    if match["a"] is None or _TILE.search(name) is None:
        return None
    matrix, plain = _MATRIX.search(name), _THREAD_TILE.search(name)
    cores = "yes" if matrix else "no" if plain else "unknown"
    decoded = _decoded(name, library, "gemm", "matrix multiplication C = A B", rest, cores)
    tile, isa = _TILE.search(name), _ISA.search(name)
    return decoded._replace(
        arch=f"gfx{isa[1].lower()}" if isa and len(isa[1]) >= 3 else None,
        tile=tile[1] if tile else None,
        # On RDNA (gfx11, gfx12) the matrix instruction is WMMA, on CDNA MFMA.
        instruction=f"{_kind(isa)}_{matrix[1]}" if matrix else None,
    )


def _kind(isa: re.Match[str] | None) -> str:
    return "wmma" if isa and isa[1].startswith(("11", "12")) else "mfma"


def _decoded(name: str, library: str, role: str, meaning: str, rest: str, cores: str) -> KernelName:
    head = name[: len(name) - len(rest)].rstrip("_")
    types = rest.split("_")[0]
    return KernelName(
        library=library,
        role=role,
        dtypes=_types(types, rest),
        tensor_cores=cores,
        parts=(
            Part(head, f"{meaning}; the letters are the indices of C, A and B"),
            *(Part(word, _meaning(word, types)) for word in _pieces(rest)),
        ),
    )


def _pieces(rest: str) -> list[str]:
    """Return the words of a name; ``TT4_4`` and ``WG16_8_2`` are one word each."""
    return re.findall(r"(?:TT\d+_\d+|WG\d+_\d+_\d+|[^_]+)", rest)


def _meaning(word: str, types: str) -> str:
    if word == types:
        shown = _types(types, types)
        return f"types of operands, result and arithmetic: {', '.join(shown)}" if shown else ""
    for pattern, meaning in _WORDS:
        match = pattern.fullmatch(word)
        if match:
            return meaning.format(*match.groups())
    return _PARAMETERS.get(re.sub(r"^1(?=LDSB)|n?\d+$|[AM]+B(?:SK)?$", "", word), "")


def _types(word: str, rest: str) -> tuple[str, ...]:
    """Return the type of the operands: the first letter of ``BBS``, and of ``SB``, where B says batched."""
    if rest.startswith(("S_MX_", "SB_MX")) or "_X_" in rest[:8]:
        return ("tf32",)
    for spelled in ("F8B8", "4xi8", "I8", "F8", "B8", "F6", "F4"):
        if word.startswith(spelled):
            return once([_TYPES[spelled]])
    match = re.match(r"[BHSDCZ]", word)
    return once([_TYPES[match[0]]]) if match and re.fullmatch(r"[A-Z0-9]{1,6}", word) else ()
