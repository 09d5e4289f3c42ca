"""cuDNN: generated engines, the older assembly kernels, engines written in C++, recurrent networks."""

from __future__ import annotations

import re

from ..dtypes import WORDS
from ..kernel_name import KernelName, Part, once
from ..mma import find_operation
from ..rules import Rule, Word, Words, apply, direction_of, find, sourced, words_of
from ..signature import Term
from .cublas import ARCHITECTURES

# cuDNN generates and compiles kernels at run time and names them after the engine, the fused operations, the
# instruction and the knobs. The blog "Attention is all you profile" reads one piece by piece.
_GENERATED_WORDS = Words(
    Word("cudnn", "cuDNN"),
    Word("generated", "generated and compiled by cuDNN at run time"),
    Word("fort", "cuDNN's kernel generator"),
    Word("oss", "from cuDNN's open-source front end"),
    Word("native", "written for this operation, not assembled from others"),
    Word("sdpa", "scaled dot-product attention", "role", "attention"),
    Word("matmul|gemm", "matrix multiplication", "role", "gemm"),
    Word("conv|convolution", "convolution", "role", "convolution"),
    Word("layernorm|rmsnorm|batchnorm|norm", "normalization", "role", "norm"),
    Word("pointwise|elementwise", "element by element", "role", "elementwise"),
    Word("reduction", "sums up", "role", "reduction"),
    Word("sm#", "built for compute capability {capability}", "arch"),
    Word("flash", "in the way of FlashAttention: scores never reach memory"),
    Word("fprop", "forward", "direction", "forward"),
    Word("bprop", "backward", "direction", "backward"),
    Word("dgrad", "gradient of the input", "direction", "backward"),
    Word("wgrad", "gradient of the weights", "direction", "backward"),
    Word("wgmma", "tensor cores through WGMMA, the warp-group instruction of Hopper", "instruction"),
    Word("wmma", "tensor cores through the warp-wide matrix instructions", "instruction"),
    Word(
        "utcmma|umma|utchmma|utcqmma|tcgen#",
        "tensor cores through tcgen05, the instruction of Blackwell",
        "instruction",
        "tcgen05",
    ),
    Word("bf16|f16|fp8|f8|e4m3|f32|tf32|f64", "type of the operands' pipe"),
    Word("knob_#", "tuning choice {0}"),
    Word("@", "tile that a thread block calculates at once", "shape", "{0}"),
    Word("cga@", "thread blocks in a cluster: {0}"),
    Word("kernel#_#", "kernel {0} of the engine"),
)

_SHARED = "how warps or warp groups share the tile"
_NUMBERED = re.compile(r"knob_\d+|kernel\d+_\d+|[^_]+")

# volta_scudnn_128x64_relu_small_nn_v1, cudnn_infer_ampere_scudnn_..., _5x_cudnn_ampere_fp16_scudnn_fp16_...
_ASSEMBLED = re.compile(
    r"_{0,2}(?:(?:5x_)?cudnn_)?(?:(?:infer|train)_)?(maxwell|pascal|volta|turing|ampere|hopper)_([a-z0-9_]*?cudnn)((?:_\w+)?)"
)
_ASSEMBLED_WORDS = Words(
    Word("5x", "built for generation 5 of the library's interface"),
    Word("cudnn", "cuDNN"),
    Word("infer|train", "the part of cuDNN for inference or training"),
    Word("maxwell|pascal|volta|turing|ampere|hopper", "written for {0}; later GPUs run it too"),
    Word("fp#|bf#|tf#|int#", "data type"),
    Word("winograd", "by Winograd's algorithm"),
    Word("@", "tile of the result a thread block calculates", "tile", "{0}"),
    Word("sliced@", "the tile is shared out to {0} slices of the inner dimension"),
    Word("ldg#", "loads {0} elements at once"),
    Word("relu", "can apply relu"),
    Word("stridedB", "the second operand is strided: gradient of the input"),
    Word("splitK", "the inner dimension is split over thread blocks"),
    Word("xregs|interior|small|medium|large|exp", "variant for a range of sizes"),
    Word("nhwc|nchw", "layout of the tensors"),
    Word("nn|nt|tn|tt", "layout of the operands: n as stored, t transposed"),
    Word("v#", "version {0}"),
)

# ``xmma_cudnn::gemm::kernel<xmma_cudnn::implicit_gemm::fprop::Kernel_traits<xmma_cudnn::Ampere_hmma_fp16_traits...``
_XMMA_ARITHMETIC = re.compile(r"_(hmma|imma|bmma|gmma|ffma|hfma2|idp4a)_")

_NAMESPACES = {
    "cudnn": "cuDNN",
    "cask_cudnn": "cuDNN's store of assembled kernels",
    "cask_cudnn_infer": "cuDNN's store of assembled kernels",
    "cask_cudnn_train": "cuDNN's store of assembled kernels",
    "cask__5x_cudnn": "cuDNN's store of assembled kernels",
    "cask_plugin__5x_cudnn": "cuDNN's store of assembled kernels",
}
_CUDNN = "names of the kernels inside libcudnn, and the algorithm names of its API (cudnnConvolutionFwdAlgo_t, ...)"
_RULES = sourced(
    _CUDNN,
    Rule(
        "*compute*OffsetsKernel*|*init_device_workspace_kernel",
        "other",
        "prepares indices for an implicit multiplication",
    ),
    Rule("*nchwToNhwc*|*nhwcToNchw*|*tensorTransformGeneric*|*foldedNhwcTo*", "layout", "converts the layout", (0, 1)),
    Rule("*nchwAddPadding*|*nhwcAddPadding*|*AddPadding*Kernel", "layout", "pads channels", (0, 1)),
    Rule("*kern_precompute_indices*|*computeOffsets*", "other", "prepares indices"),
    Rule("*flip_filter*", "layout", "mirrors the filter", (0, 1)),
    Rule("*im2col*|*col2im*", "layout", "unfolds an image into a matrix", (0,)),
    Rule(
        "*scalePackedTensor*|*setTensor*|*addTensor*|*op_generic_tensor*|*op_tensor*", "elementwise", "by element", (0,)
    ),
    Rule("*fft2d_r2c*|*fft2d_c2r*|*fft1d_*", "fft", "Fourier transform of tiles of a convolution", (0,)),
    Rule("*pointwise_mult_and_sum_complex*", "elementwise", "multiplies spectra"),
    Rule("*winograd*|*Winograd*", "convolution", "a pass of Winograd's algorithm", (1,)),
    Rule("*implicit_convolve_sgemm*", "convolution", "implicit multiplication in FP32 on CUDA cores", (0, 1)),
    Rule("*explicit_convolve_sgemm*", "convolution", "explicit multiplication in FP32 on CUDA cores", (0,)),
    Rule("*reduce_wgrad*|*wgrad2d_*_reduce*|*dgrad2d_*_reduce*", "reduction", "adds up the parts of a gradient", (0,)),
    Rule("*wgrad*_alg*", "convolution", "gradient of the weights, on CUDA cores", (0,)),
    Rule(
        "*dgrad_engine*|*dgrad_alg*engine*|*dgrad2d_alg*", "convolution", "gradient of the input, on CUDA cores", (0,)
    ),
    Rule("*_grouped_direct_kernel*|*conv3d_grouped*", "convolution", "grouped convolution, on CUDA cores"),
    Rule(
        "convolve*_engine*|implicit_convolve*|precomputed_convolve*",
        "convolution",
        "convolution by ordinary arithmetic on CUDA cores",
        (0, 1),
    ),
    Rule("wgrad2d_shmem_tiling*", "convolution", "gradient of the weights, on CUDA cores"),
    Rule("*convertTensor_kernel", "copy", "casts or scales a tensor", (0, 1)),
    Rule("*scaleTensor_kernel", "elementwise", "scales a tensor", (0,)),
    Rule("*lean_reduction_kernel", "reduction", "combines parts of attention"),
    Rule("*conv2d_c1_k1*|*dgrad2d_c1_k1*|*wgrad2d_c1_k1*", "convolution", "depthwise convolution, on CUDA cores"),
    Rule("*spatial_convolution*", "convolution", "convolution", tensor_cores="unknown"),
    Rule("*bn_fw_*|*bnFw*", "norm", "batch normalization", (0,), direction="forward"),
    Rule("*bn_bw_*|*bnBw*", "norm", "batch normalization", (0,), direction="backward"),
    Rule("*batchnorm*|*batch_norm*", "norm", "batch normalization", (0,)),
    Rule("*softmax_fw*|*softmax_bw*|*softmax*kernel*", "softmax", "softmax"),
    Rule("*pooling_fw*|*pooling_bw*|*maxPool*|*avgPool*", "reduction", "pooling"),
    Rule("*activation_fw*|*activation_bw*", "elementwise", "activation"),
    Rule("*dropout_fp*|*dropout_bp*", "random", "dropout"),
    Rule(
        "*compute_dot_do_o*", "reduction", "row sums of dO times O, for the backward of attention", direction="backward"
    ),
    Rule("*convert_dq_to_16bits*", "elementwise", "scales and rounds a gradient", direction="backward"),
    Rule("*fmha_reduce_head*", "reduction", "adds up gradients over heads that share K and V", direction="backward"),
)

# cudnnRNNForward and its backward: the persistent kernels say FMA or HMMA where they multiply.
_RNN = re.compile(
    r"(?:cudnn::)?(?:\w+::)*(?:(?:RNN|LSTM|GRU|GENERIC)_(elementWise|blockPersist|persist)_(\w+)|elemWiseRNNcell|(?:Persistent|persist)RNN\w*)"
)


def decode(term: Term) -> KernelName | None:
    """Return what the name of a cuDNN kernel says, or ``None`` if it is none."""
    base = term.base
    if base.startswith("cudnn_generated_"):
        return _generated(base)
    if _ASSEMBLED.fullmatch(base):
        return _assembled(base)
    if base.startswith("xmma_") and "::" in base:
        return _xmma(term)
    rnn = _RNN.fullmatch(base)
    if rnn and term.arguments:
        return _rnn(term, rnn)
    ours = _OURS.search(term.text) is not None
    rule = find(_RULES, base)
    if rule is None:
        return KernelName(library="cudnn") if ours else None
    if not ours and not _is_bare_engine(term):
        return None
    return apply(rule, term, "cudnn", _NAMESPACES)


# Without the word cudnn: depthwise kernels, engines by the type of their parameters, passes of the FFT convolution.
_BARE = re.compile(
    r"(?:conv2d|dgrad2d|wgrad2d)_c1_k1_(?:nhwc|nchw)\w*|wgrad2d_shmem_tiling\w*|(?:conv|dgrad|wgrad)[23]d_grouped_direct_kernel|flip_filter|fft[12]d_[rc]2[rc]_\d+(?:x\d+)?"
    r"|pointwise_mult_and_sum_complex|convolve_common_engine_\w+"
)
# cuDNN's namespaces, its own and the copies inside it, and the types of its interface.
_OURS = re.compile(r"(?:\b|_)cudnn::|\bcudnn\w*(?:_t|Struct)\b|\bcask_\w*::|^cudnn_[a-z]+_\w+$")
_ENGINE_PARAMETERS = re.compile(r"\bkernel_(?:conv|grad)\w*_params\b")


def _is_bare_engine(term: Term) -> bool:
    """Return whether a name without the word cudnn is one of cuDNN's all the same."""
    return _BARE.fullmatch(term.base) is not None or _ENGINE_PARAMETERS.search(term.text) is not None


def _generated(name: str) -> KernelName:
    parts, fields = _GENERATED_WORDS.read(_NUMBERED.findall(name))
    role = fields.get("role", ["other"])[0]
    instruction = fields.get("instruction", [None])[0]
    tile, *shares = fields.get("shape", [None])
    parts = tuple(Part(part.text, _SHARED) if part.text in shares else part for part in parts)
    return KernelName(
        library="cudnn",
        role=role,
        direction=fields.get("direction", [None])[0],
        dtypes=(),  # The pipe's type stands in the name, the operands' (bf16 too runs as f16) does not.
        arch=fields.get("arch", [None])[0],
        tile=tile,
        instruction=instruction,
        tensor_cores="yes" if instruction else "no" if role in ("norm", "elementwise", "reduction") else "unknown",
        attention_backend="cudnn" if role == "attention" else None,
        parts=parts,
    )


def _assembled(name: str) -> KernelName | None:
    words = words_of(name.strip("_"))
    placed = find_operation(words)
    if placed is None:
        return None
    _, found = placed
    parts, fields = _ASSEMBLED_WORDS.read(words)
    arch = next(ARCHITECTURES[word] for word in words if word in ARCHITECTURES)
    return KernelName(
        library="cudnn",
        role="convolution",
        direction=direction_of(name),
        dtypes=found.dtypes(once(WORDS.get(word) for word in words)),
        arch=arch,
        tile=fields.get("tile", [None])[0],
        instruction=found.instruction,
        tensor_cores="no" if "winograd" in words and found.instruction is None else found.tensor_cores,
        parts=tuple(Part(found.word, found.meaning) if part.text == found.word else part for part in parts),
    )


def _xmma(term: Term) -> KernelName:
    """Decode a kernel of XMMA that is spelled out in types."""
    names = " ".join([term.base, *(inner.base for inner in term.walk())])
    convolution = "implicit_gemm" in names or "ext::depthwise" in names
    arithmetic = _XMMA_ARITHMETIC.search(names)
    cores = "unknown" if arithmetic is None else "yes" if arithmetic[1].endswith("mma") else "no"
    rule = Rule("*", "convolution" if convolution else "gemm", "a matrix kernel of XMMA", tensor_cores=cores)
    return apply(rule, term, "cudnn", _NAMESPACES, direction=direction_of(names))


def _rnn(term: Term, match: re.Match[str]) -> KernelName:
    kind, rest = match[1] or "elementWise", match[2] or ""
    if "HMMA" in rest or "TensorOp" in rest:
        cores = "yes"
    elif kind == "elementWise" or rest.endswith(("FMA", "fp_RNN", "fp_LSTM", "fp_GRU")):
        cores = "no"  # Measured: the twins on tensor cores end in _HMMA.
    else:
        cores = "unknown"
    how = ", multiplied on tensor cores" if cores == "yes" else ""
    rule = Rule(term.base, "rnn", f"recurrent network{how}", (0,), tensor_cores=cores, source=_CUDNN)
    direction = (
        "backward" if re.search(r"_b[pw]", term.base) else "forward" if re.search(r"_f[pw]", term.base) else None
    )
    return apply(rule, term, "cudnn", _NAMESPACES, direction=direction)
