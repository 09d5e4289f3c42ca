"""CUTLASS: configurations spelled out in words, and kernels spelled out in types."""

from __future__ import annotations

import re

from ..dtypes import WORDS, cpp_dtype
from ..kernel_name import KernelName, Part, once
from ..mma import Operation, find_operation
from ..rules import Rule, Word, Words, apply, compute_capability, fits, words_of
from ..signature import Term

# ``cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x3_nn_align8``: the CUTLASS profiler's naming, which cuBLAS
# and cuDNN keep for the kernels that they instantiate.
_CONFIGURATION = re.compile(
    r"cutlass(?:3x)?_(?:(?:sm)?(?P<arch>\d+)[a-z]?_)?(?:wmma_)?(?:sparse_)?(?P<kind>tensorop|sptensorop|bstensorop|simt|wmma)_.+"
)
_WORDS = Words(
    Word("cutlass3x", "CUTLASS 3"),
    Word("cutlass", "CUTLASS, NVIDIA's templates for matrix kernels"),
    Word("sm#|sm#a", "built for compute capability {capability}; later GPUs can run it"),
    Word("tensorop", "multiplies on tensor cores"),
    Word("sptensorop", "multiplies on tensor cores, one operand 2:4 sparse"),
    Word("bstensorop", "multiplies on tensor cores, operands scaled by block"),
    Word("tnn|tnt|ntn|ntt|nnn|nnt|ttn|ttt", "layouts of A, B and the result: n column-major, t row-major"),
    Word("warpspecialized", "some warps load while others multiply"),
    Word("cooperative|pingpong", "how warp groups share tiles"),
    Word("epi", "the end of the kernel"),
    Word("tma", "through the bulk tensor copy engine"),
    Word("void", "no such operand"),
    Word("wmma", "through the warp-wide WMMA interface"),
    Word("simt", "multiplies by ordinary instructions on CUDA cores: no tensor cores"),
    Word("sparse", "one operand is 2:4 sparse"),
    Word("bf16|f16|tf32|f32|f64|s8|u8|s4|s32|e4m3|e5m2|e2m1", "data type"),
    Word("relu", "can apply relu"),
    Word("optimized", "uses precomputed offsets"),
    Word("analytic", "computes its offsets as it goes"),
    Word("align#", "operands are aligned to {0} elements"),
    Word("nn|nt|tn|tt", "layout of A and B: n column-major, t row-major"),
    Word("nhwc|nchw|ndhwc", "layout of the tensors: {0}"),
    Word("unity", "unit"),
    Word("stride", "stride"),
    Word("grouped", "many multiplications in one launch"),
)
_TILE = re.compile(r"\d+x\d+(?:x\d+)?")

_NAMESPACES = {"cutlass": "CUTLASS, NVIDIA's templates for matrix kernels"}
# What CUTLASS types say about the instruction: cutlass/arch/mma.h (OpClass*), gemm/warp (MmaSimt, MmaTensorOp),
# gemm/dispatch_policy.hpp (Gmma: WGMMA of sm_90, Umma: tcgen05 of sm_100), cute/arch/mma_sm*.hpp (SM80_16x8x16_...).
_ON_TENSOR_CORES = re.compile(
    r"OpClass\w*TensorOp|MmaTensorOp|MmaVoltaTensorOp|MmaComplexTensorOp|Gmma|Umma|UMMA|GMMA|SM(?:7|8|9|1\d)\d_\d+x\d+x\d+_|SM100_MMA"
)
_ON_CUDA_CORES = re.compile(r"OpClassSimt|MmaSimt|UniversalFMA")
_CUTE_ATOM = re.compile(r"SM(\d+)_(\d+x\d+x\d+)_")
_OPERATORS = {"Fprop": "forward", "Dgrad": "backward", "Wgrad": "backward"}


def decode(term: Term) -> KernelName | None:
    """Return what the name of a CUTLASS kernel says, or ``None`` if it is none.

    Source:
        The CUTLASS profiler's naming of kernels; cutlass/device_kernel.h, whose entry points are
        ``Kernel``, ``Kernel2`` and ``device_kernel``.
    """
    namespace, _, entry = term.base.partition("::")
    if not namespace.startswith("cutlass"):
        return None
    if not entry:
        return _configured(term.base, _library(namespace, "cutlass"), ()) if not term.arguments else None
    if not term.arguments or not fits("Kernel|Kernel2|device_kernel", entry):
        return None
    library = _library(namespace, "cutlass")
    outer = (Part(f"{namespace}::{entry}", f"the entry point of CUTLASS{_bundled(library)}"),)
    return _configured(term.arguments[0].base, library, outer) or _typed(term, library)


def _library(namespace: str, default: str) -> str:
    """``cutlass__5x_cudnn`` and ``cutlass_cudnn_infer`` are the copies inside cuDNN."""
    return next((name for name in ("cudnn", "cublas") if name in namespace), default)


def _bundled(library: str) -> str:
    return "" if library == "cutlass" else f", in the copy that {library} ships"


def _configured(name: str, library: str, outer: tuple[Part, ...]) -> KernelName | None:
    match = _CONFIGURATION.fullmatch(name)
    words = words_of(name)
    placed = find_operation(words)
    if match is None or placed is None:
        return None
    place, found = placed
    parts, _ = _WORDS.read(words)
    told = [*parts[:place], Part(found.word, found.meaning), *parts[place + 1 :]]
    if match["arch"] and words[1] == match["arch"]:
        told[1] = Part(words[1], f"built for compute capability {compute_capability(words[1])}; later GPUs can run it")
    version_3 = words[0] == "cutlass3x"
    convolution = found.operation in ("fprop", "dgrad", "wgrad", "deconv")
    return KernelName(
        library=library,
        role="convolution" if convolution else "gemm",
        direction={"fprop": "forward", "dgrad": "backward", "wgrad": "backward"}.get(found.operation),
        dtypes=_dtypes_3(words[place + 1 :]) if version_3 else _dtypes(found, once(WORDS.get(word) for word in words)),
        arch=f"sm{match['arch']}" if match["arch"] else None,
        tile=_read_tiles(words, told, version_3=version_3),
        instruction=found.instruction,
        tensor_cores=_cores(match["kind"], found),
        parts=(*outer, *told),
    )


def _read_tiles(words: list[str], told: list[Part], *, version_3: bool) -> str | None:
    """Explain the tiles among *words* in *told*, and return the first with its step along the inner dimension.

    CUTLASS 2 writes rows and columns, then step and stages; CUTLASS 3 all three, then the cluster.
    """
    places = [place for place, word in enumerate(words) if _TILE.fullmatch(word)]
    if not places:
        return None
    first, *rest = places
    told[first] = Part(words[first], "tile of the result that a thread block calculates")
    if not rest:
        return words[first]
    if version_3:
        told[rest[0]] = Part(words[rest[0]], "thread blocks in a cluster")
        return words[first]
    inner, _, stages = words[rest[0]].partition("x")
    told[rest[0]] = Part(words[rest[0]], f"steps of {inner} along the inner dimension, {stages} stages")
    return f"{words[first]}x{inner}"


def _dtypes_3(words: list[str]) -> tuple[str, ...]:
    """Return the types that a name of CUTLASS 3 gives after the operation: A, B, accumulator, C and D."""
    types = [word for word in words[:5] if word in WORDS or word == "void"]
    if len(types) != 5:
        return ()  # Scaled by block: the words hold type and scale in one.
    return once([WORDS[types[0]], WORDS[types[1]], WORDS.get(types[4])])


def _dtypes(found: Operation, named: tuple[str, ...]) -> tuple[str, ...]:
    if found.operands == "tf32":
        # ``s1688fprop_optimized_tf32``, and ``s1688gemm`` without a type; ``s1688gemm_f16`` multiplies fp16.
        return named or ("tf32",)
    return found.dtypes(named)


def _cores(kind: str, found: Operation) -> str:
    if kind == "simt":
        return "no" if found.instruction is None else "unknown"
    return "yes" if found.shape else "unknown"


def _typed(term: Term, library: str) -> KernelName | None:
    """Decode a kernel whose configuration is a type: the classes in it say what it multiplies, and how."""
    names = [inner.base for inner in term.walk()]
    role, direction, meaning = _purpose(names)
    if role is None:
        return None
    tensor = any(_ON_TENSOR_CORES.search(name) for name in names)
    plain = any(_ON_CUDA_CORES.search(name) for name in names)
    hopper = role == "attention" and any(re.search(r"Sm(?:90|1\d\d)Fmha|Fmha\w*Sm(?:90|1\d\d)", name) for name in names)
    tensor = tensor or hopper
    cores = "no" if role in ("reduction", "gemv") else "yes" if tensor and not plain else "no" if plain else "unknown"
    atom = next((match for name in names if (match := _CUTE_ATOM.search(name))), None)
    instruction = next((word for sign, word in _INSTRUCTIONS if any(sign in name for name in names)), None)
    dtype = next((dtype for inner in term.walk() if (dtype := cpp_dtype(inner)) and not _is_integer(dtype)), None)
    rule = Rule(term.base, role, f"the entry point of CUTLASS{_bundled(library)}: {meaning}")
    return apply(
        rule,
        term,
        library,
        _NAMESPACES,
        direction=direction,
        tensor_cores=cores,
        instruction=instruction or (f"mma_{atom[2]}" if atom else None),
        dtypes=once([dtype]),
        arch=_arch(names),
    )


_INSTRUCTIONS = (("Umma", "tcgen05"), ("UMMA", "tcgen05"), ("Gmma", "wgmma"), ("GMMA", "wgmma"))


def _is_integer(dtype: str) -> bool:
    return dtype == "bool" or dtype.startswith(("int32", "int64", "uint", "int16"))


def _arch(names: list[str]) -> str | None:
    for name in names:
        match = re.search(r"(?:arch::Sm|Sm|SM)(\d{2,3})\b", name)
        if match:
            return f"sm{match[1]}"
    return None


def _purpose(names: list[str]) -> tuple[str | None, str | None, str]:
    if any("reduction::kernel::Reduce" in name for name in names):
        return "reduction", None, "adds up the parts of a split inner dimension"
    for name in names:
        if "::conv::" in name or "ImplicitGemmConvolution" in name:
            text = " ".join(names)
            direction = next((way for sign, way in _OPERATORS.items() if sign in text), None)
            return "convolution", direction, "convolution as an implicit matrix multiplication"
        if "Fmha" in name or "::fmha::" in name:
            direction = "backward" if "Bwd" in name else "forward" if "Fwd" in name else None
            return "attention", direction, "fused attention"
    if any(name.endswith("::Gemv") or "::GemvBatched" in name for name in names):
        return "gemv", None, "matrix times vector, on CUDA cores"
    if any("::gemm::" in name for name in names):
        return "gemm", None, "matrix multiplication"
    return None, None, ""
