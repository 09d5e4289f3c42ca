"""cuBLAS and cuBLASLt: kernels named after an architecture, and small helpers."""

from __future__ import annotations

import re

from ..dtypes import WORDS, cpp_dtype
from ..kernel_name import KernelName, Part, once
from ..mma import find_operation
from ..rules import Rule, Word, Words, apply, find, sourced, words_of
from ..signature import Term

ARCHITECTURES = {
    "maxwell": "sm50",
    "pascal": "sm60",
    "volta": "sm70",
    "turing": "sm75",
    "ampere": "sm80",
    "hopper": "sm90",
}

_NAMED = re.compile(r"(?:maxwell|pascal|volta|turing|ampere|hopper)_[a-z0-9_]*?gemm(?:_\S*)?")
_NAMED_WORDS = Words(
    Word("maxwell|pascal|volta|turing|ampere|hopper", "written for {0}; later GPUs run it too"),
    Word("fp#|bf#|tf#|int#", "data type"),
    Word("@", "tile of the result that a thread block calculates", "tile", "{0}"),
    Word("sliced@", "the tile is shared out to {0} slices of the inner dimension"),
    Word("ldg#", "loads {0} elements at once"),
    Word("stages", "a software pipeline: its depth and its stages follow"),
    Word("relu", "can apply relu"),
    Word("f2f", "converts the result from fp32"),
    Word("splitK", "the inner dimension is split over thread blocks"),
    Word("nn|nt|tn|tt", "layout of A and B: n as stored, t transposed"),
    Word("v#", "version {0}"),
)

_NAMESPACES = {
    "cublasLt": "cuBLASLt",
    "internal": "inside cuBLAS",
    "epilogue": "inside cuBLAS",
    "cutlass1x": "CUTLASS 1, as bundled in cuBLAS",
}

_CUBLAS = "names and parameter types (cublasGemvParams, cublasSplitKParams, ...) of the kernels inside libcublas"
_RULES = sourced(
    _CUBLAS,
    Rule("internal::gemvx::kernel", "gemv", "matrix times vector, on CUDA cores", (2, 3, 4)),
    Rule("gemv*_kernel*", "gemv", "matrix times vector, on CUDA cores"),
    Rule("gemmSN_*_kernel*", "gemm", "matrix multiplication with few columns, on CUDA cores"),
    Rule("zgemm1x1_kernel*|cgemm1x1_kernel*", "gemm", "multiplication of 1x1 complex matrices, on CUDA cores"),
    Rule("gemmk1_kernel", "gemm", "matrix multiplication with inner dimension 1, on CUDA cores"),
    Rule("magma_*gemmEx_kernel", "gemm", "matrix multiplication in the way of MAGMA, on CUDA cores", (0, 1)),
    Rule("*splitKreduce_kernel", "reduction", "adds up the parts of a split inner dimension"),
    Rule("dot_kernel*", "reduction", "dot product of two vectors"),
    Rule("reduce_1Block_kernel*|asum_kernel*|nrm2_kernel*|iamax*_kernel*|iamin*_kernel*", "reduction", "adds up"),
    Rule("scal_kernel*|axpy_kernel*|*scal_kernel_val*|rot*_kernel*", "elementwise", "scales or adds vectors"),
    Rule("copy_kernel*|swap_kernel*", "copy", "copies vectors"),
    Rule("transpose_*kernel*|geam_*", "layout", "transposes a matrix"),
    Rule("*epilogue*Kernel", "elementwise", "bias and activation after the multiplication"),
    Rule(
        "*trsm*|*trsv*|*trmm*|*trmv*|*syrk*|*ger_kernel*|*getrf*|*getri*|*getrs*|*geqrf*|*matinv*",
        "other",
        "linear algebra",
    ),
)
_GEMV_TYPES = re.compile(r"cublasGemvTensor(?:Strided)?(?:Batched)?")
# Legacy kernels: a BLAS letter, gemm, and a tile or a variant.
_LEGACY = re.compile(r"[sdczh]gemm_(?:largek(?:_lds\d+)?|\d+x\d+x\d+_[NTC]{2}\w*|kernel\d\w*)")
_CUTLASS_1_PLAIN = ("IgemmTraits", "SgemmTraits", "DgemmTraits", "HgemmTraits")


def decode(term: Term) -> KernelName | None:
    """Return what the name of a cuBLAS kernel says, or ``None`` if it is none."""
    if term.base.startswith(tuple(ARCHITECTURES)):
        return _named_after_architecture(term)
    if term.base.startswith("cutlass1x::gemm::"):
        return _cutlass_1(term)
    if _LEGACY.fullmatch(term.base):
        dtype = {"s": "fp32", "d": "fp64", "c": "complex64", "z": "complex128", "h": "fp16"}[term.base[0]]
        rule = Rule(term.base, "gemm", "matrix multiplication by ordinary arithmetic on CUDA cores")
        return apply(rule, term, "cublas", {}, dtypes=(dtype,))
    return _helper(term)


def _named_after_architecture(term: Term) -> KernelName | None:
    name = term.text if "<" not in term.text else term.base
    words = words_of(name)
    placed = find_operation(words)
    if placed is None or _NAMED.fullmatch(name) is None:
        return None
    place, found = placed
    parts, fields = _NAMED_WORDS.read(words)
    if "tile" not in fields:
        return None
    told = [*parts[:place], Part(found.word, found.meaning), *parts[place + 1 :]]
    if "stages" in words[:-1]:
        pipeline = words.index("stages") + 1
        depth, _, stages = words[pipeline].partition("x")
        told[pipeline] = Part(words[pipeline], f"steps of {depth} along the inner dimension, {stages} in flight")
    typed = [WORDS.get(word) for word in words]
    return KernelName(
        library="cublas",
        role="gemm",
        dtypes=found.dtypes(once(typed)),
        arch=ARCHITECTURES[words[0]],
        tile=fields.get("tile", [None])[0],
        instruction=found.instruction,
        # A type that only tensor cores multiply, and no instruction: the name contradicts itself.
        tensor_cores="unknown" if found.tensor_cores == "no" and "tf32" in typed else found.tensor_cores,
        parts=tuple(told),
    )


def _cutlass_1(term: Term) -> KernelName:
    traits = [name for inner in term.walk() if (name := inner.base.rpartition("::")[2]).endswith("Traits")]
    cores = "no" if any(name in _CUTLASS_1_PLAIN for name in traits) else "unknown"
    meaning = "matrix multiplication; the traits say with which arithmetic (Igemm: DP4A on CUDA cores)"
    rule = Rule(term.base, "gemm", meaning, tensor_cores=cores, source="CUTLASS 1.3, gemm/*_traits.h")
    dtypes = ("int8",) if "IgemmTraits" in traits else ()
    return apply(rule, term, "cublas", _NAMESPACES, dtypes=dtypes)


def _helper(term: Term) -> KernelName | None:
    library = "cublaslt" if term.base.startswith(("cublasLt::", "epilogue::")) else "cublas"
    if term.base.startswith("cusolver"):
        return None
    if "cublas" not in term.text and not term.base.startswith("internal::gemvx::"):
        return None
    rule = find(_RULES, term.base)
    if rule is None:
        return KernelName(library=library)
    dtypes = {} if rule.types else {"dtypes": _tensor_types(term)}
    return apply(rule, term, library, _NAMESPACES, **dtypes)


def _tensor_types(term: Term) -> tuple[str, ...]:
    """Return the element types of the tensors among the template arguments."""
    tensors = (inner for inner in term.walk() if _GEMV_TYPES.fullmatch(inner.base) and inner.arguments)
    return once(cpp_dtype(tensor.arguments[0]) for tensor in tensors)
