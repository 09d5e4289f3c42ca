"""ATen: PyTorch's own CUDA and HIP kernels."""

from __future__ import annotations

import re

from ..dtypes import cpp_dtype
from ..kernel_name import KernelName, Part, once
from ..rules import Rule, apply, direction_of, find, sourced
from ..signature import Term

_NAMESPACES = {
    "at::native": "PyTorch's own kernels",
    "at::cuda": "PyTorch's own kernels",
    "at": "PyTorch's own kernels",
    "(anonymous namespace)": "",
}
_SOURCE = "aten/src/ATen/native/cuda of PyTorch"
_DEPTHWISE = "depthwise convolution, on CUDA cores"

_LOOPS = ("elementwise_kernel", "ElementwiseKernel", "_elemwise_kernel", "kernelPointwiseApply")
# Kernels that apply a functor to every element: the functor decides (Loops.cuh, CUDALoops.cuh).
_FUNCTORS = sourced(
    f"functors of the loops in {_SOURCE}",
    Rule("*FillFunctor*|*::fill_kernel*", "fill", "sets every element"),
    Rule("*arange*|*linspace*|*logspace*|*range_cuda*|*eye*", "fill", "writes a sequence"),
    Rule("*copy_device_to_device*|*copy_kernel*|*CopyFunctor*", "copy", "copies or casts"),
    Rule("*batch_norm*|*BatchNorm*|*GroupNorm*|*LayerNorm*|*layer_norm*|*rms_norm*", "norm", "part of a normalization"),
    Rule("*softmax*|*SoftMax*", "softmax", "part of a softmax"),
    Rule(
        "*bernoulli*|*poisson*|*gamma_cuda*|*dirichlet*|*binomial*|*uniform*|*normal_kernel*|*random*|*dropout*",
        "random",
        "draws random numbers",
    ),
    Rule("*index*kernel*|*gather*|*scatter*|*take_put*|*unfold*", "index", "reads or writes by index"),
    Rule("*quantize*|*fake_quant*", "quantize", "quantizes"),
    Rule("fbgemm_gpu::*", "quantize", "converts to or from a small type"),
    Rule("*", "elementwise", "applies a function to every element"),
)

_RULES = sourced(
    _SOURCE,
    # Softmax.cu, PersistentSoftmax.cuh
    Rule(
        "*softmax_warp_forward*|*softmax_warp_backward*",
        "softmax",
        "softmax of rows of up to 1024",
        (0, 1),
        ("input", "output", "sum"),
    ),
    Rule("*cunn_SoftMaxForwardReg*", "softmax", "softmax of rows in registers", (0, 2), ("input", "sum", "output")),
    Rule("*cunn_SoftMax*", "softmax", "softmax", (1, 3), ("elements at once", "input", "sum", "output")),
    Rule("*cunn_SpatialSoftMax*|*host_softmax*|*softmax_*kernel*|*Softmax*ernel*", "softmax", "softmax", ()),
    # layer_norm_kernel.cu, group_norm_kernel.cu, Normalization.cuh, WeightNorm.cu, RenormKernel
    Rule("*layer_norm*|*LayerNorm*|*rms_norm*|*RMSNorm*", "norm", "layer normalization", (0,), ("data", "sums")),
    Rule(
        "*batch_norm*",
        "norm",
        "batch normalization",
        (0, 1),
    ),
    Rule(
        "*GroupNorm*|*RowwiseMoments*|*ComputeFusedParams*|*Compute1dBackwardFusedParams*",
        "norm",
        "group normalization",
        (0,),
    ),
    Rule(
        "*ComputeInternalGradients*|*ComputeBackwardFusedParams*|*GammaBetaBackward*|*GammaBeta1d*",
        "norm",
        "gradients of a normalization",
        (0,),
        direction="backward",
    ),
    Rule(
        "*cuComputePartGradGammaBeta*|*cuComputeGradGammaBeta*|*cuComputeGradInput*",
        "norm",
        "gradients of a normalization",
        (0,),
        direction="backward",
    ),
    Rule("*weight_norm*", "norm", "weight normalization"),
    # ForeachFunctors.cuh, MultiTensorApply.cuh, FusedAdamKernel.cu, FusedSgdKernel.cu
    Rule("*multi_tensor_apply*", "elementwise", "applies a function to a list of tensors"),
    # DistributionTemplates.h, Dropout.cu, Randperm.cu, Distributions.cu
    Rule(
        "*distribution_elementwise*|*distribution_*kernel*|*randperm*|*sampleMultinomial*|*_multinomial*",
        "random",
        "draws random numbers",
    ),
    Rule("*fused_dropout_kernel*", "random", "draws a mask and applies it", (0,)),
    Rule("*masked_scale*", "elementwise", "applies a mask", ()),
    Rule("at::cuda::philox::*", "random", "hands on the state of the random number generator"),
    # Reduce.cuh, reduction kernels, losses, pooling
    Rule("at::native::reduce_kernel*|at::native::*::reduce_kernel*", "reduction", "reduces along dimensions"),
    Rule("*nll_loss*|*ctc_loss*|*ClassNLLCriterion*|*cross_entropy*", "reduction", "negative log likelihood", (0,)),
    Rule(
        "*max_pool*|*avg_pool*|*adaptive_average_pool*|*adaptiveaveragepool*|*atomicadaptive*|*adaptivemaxpool*",
        "reduction",
        "pooling",
        (0,),
    ),
    Rule(
        "*chunk_cat_cuda*|*CatArrayBatchedCopy*|*split_with_sizes_copy*", "copy", "concatenates or splits tensors", (0,)
    ),
    # ScanKernels.cpp, ScanUtils.cuh
    Rule("*tensor_kernel_scan*|*cumsum*|*cumprod*", "scan", "running sum along a dimension", (0,)),
    # Sort.cu, SortStable.cu, TensorTopK.cu, Sorting.cu, Unique.cu
    Rule(
        "*bitonicSort*|*radixSort*|*warpMergeSort*|*segmented_sort*|*sort_postprocess*|*fill_index_and_segment*|*fill_reverse_indices*",
        "sort",
        "sorts",
    ),
    Rule(
        "*topk*|*TopK*|*gatherMedian*|*gatherKthValue*|*kthvalue*|*compute_mode*",
        "sort",
        "selects the largest elements",
        (0,),
    ),
    # EmbeddingBag.cu, Embedding.cu, EmbeddingBackwardKernel.cu
    Rule(
        "*embedding_backward*|*EmbeddingBag*|*embedding_bag*|*renorm_kernel*|*compute_grad_weight*|*krn_partial*|*sum_and_scatter*|*compute_num_of_partial_segments*|*write_num_of_segments*|*partial_segment_offset*",
        "embedding",
        "embedding table",
        (0,),
    ),
    # IndexKernel.cu, Indexing.cu, ScatterGatherKernel.cu, TensorTransformations, Bucketization.cu, SummaryOps
    Rule(
        "*indexSelect*|*indexFunc*|*index_*kernel*|*indexing_backward*",
        "index",
        "reads or writes by index",
        (0,),
    ),
    Rule("*gather*|*scatter*|*take*|*put_*|*searchsorted*|*bucketize*", "index", "reads or writes by index"),
    Rule(
        "*tril_indices*|*triu_indices*|*nonzero*|*flag_kernel*|*compute_cuda_kernel*|*repeat_interleave*",
        "index",
        "computes indices",
    ),
    Rule("*flip_cuda*|*roll_cuda*|*kernel_pointwise_flip*", "copy", "copies in another order"),
    Rule("*im2col*|*col2im*|*vol2col*|*col2vol*", "layout", "unfolds an image into a matrix"),
    Rule("*_fft_conjugate_copy*|*fft_fill_with_conjugate*", "copy", "completes a spectrum by its mirror image"),
    Rule("*glu_backward*|*adjacent_difference*", "elementwise", "applies a function to every element", (0,)),
    Rule(
        "*kernelHistogram*|*margin_loss*|*lpnorm_cleanup*|*adaptive_average*|*unpooling*", "reduction", "adds up", (0,)
    ),
    Rule("*write_indices*|*convert_indices*", "index", "computes indices"),
    Rule("*matrix_to_m16n8k16*", "layout", "reorders weights"),
    Rule("*triu_tril*", "elementwise", "keeps a triangle", (0,)),
    Rule("*upsample*|*grid_sampler*|*reflection_pad*|*replication_pad*", "elementwise", "resamples or pads", (0,)),
    Rule("*transform_bias_rescale_qkv*", "elementwise", "adds the bias to Q, K and V", (0,)),
    # DepthwiseConv2d.cu: <size, stride, type, index>, <size, type, index> or <type, index>; ...3d.cu: <type, sum, ...>
    Rule("*conv_depthwise2d_backward_kernel*", "convolution", _DEPTHWISE, (2,)),
    Rule("*conv_depthwise2d_forward_kernel", "convolution", _DEPTHWISE, (1,)),
    Rule("*depthwise*", "convolution", _DEPTHWISE, (0,)),
    Rule("*prepare_grouped_gemm_data*", "index", "prepares pointers for grouped multiplications"),
    Rule("*tinygemm_m16n8k16*", "gemm", "multiplication with 4-bit weights, m16n8k16", tensor_cores="yes"),
    Rule(
        "*int4mm*|*weight_int8pack_mm*|*tinygemm*", "gemm", "multiplication with small weights", tensor_cores="unknown"
    ),
    Rule(
        "*multimem_*|*one_shot_all_reduce*|*two_shot_all_reduce*|*barrier_kernel*|*symm_mem*",
        "collective",
        "symmetric memory",
        (0,),
    ),
    Rule(
        "*_assert_async*|*spin_kernel*|*unpack_pivots*|*to_dense_representation*|*cdist*|*pdist*|*amp_*|*unique*|*linalg*|*triangular*|*cross_kernel*|*renorm*",
        "other",
        "",
    ),
    Rule("*optimizer*|*adam*", "optimizer", "optimizer step"),
    Rule("*quantize*|*fake_quant*", "quantize", "quantizes"),
    Rule("*rnn*|*lstm_cell*|*gru_cell*", "rnn", "recurrent network"),
)

_REDUCTION = find(_RULES, "at::native::reduce_kernel") or _RULES[0]
# Lists of tensors: the functor decides (ForeachFunctors.cuh, fused_adam_impl.cu, FusedSgdKernel.cu).
_LIST_FUNCTORS = sourced(
    "ForeachFunctors.cuh and the Fused*Kernel.cu files of PyTorch; csrc of NVIDIA Apex",
    Rule(
        "*FusedAdam*|*FusedSgd*|*FusedAdagrad*|*FusedOptimizer*|*AdamFunctor*|*AdamCapturable*|*SGDFunctor*|*LAMB*|*NovoGrad*|*AdagradFunctor*",
        "optimizer",
        "a fused optimizer step on a list of tensors",
    ),
    Rule("*Norm*Functor*|*MaxNorm*", "reduction", "norms of a list of tensors"),
    Rule("*Copy*", "copy", "copies a list of tensors"),
)

_DOUBT = ("mma", "gemm", "mm_", "matmul", "atten", "attn", "tensorop", "tensor_core", "conv", "dot", "linear", "einsum")
# Names that PyTorch gives outside its namespace: in an unnamed one.
_UNNAMED = (
    "softmax_warp",
    "elementwise_kernel_with_index",
    "randperm",
    "indexing_backward_kernel",
    "multimem_",
    "searchsorted",
    "compute_cuda_kernel",
)


# Kernels that PyTorch compiles at run time (jiterator, native/cuda/jit_utils.cpp): only a word is left of them.
_COMPILED = r"(?P<reduction>reduction_)?[a-z0-9_]+?_(?:vectorized\d+_)?kernel"


def decode(term: Term) -> KernelName | None:
    """Return what the name of one of PyTorch's own kernels says, or ``None`` if it is none."""
    base = term.base
    if base == term.text:
        return _compiled(term)
    if base.startswith("multi_tensor_apply_kernel") and term.arguments:
        return _list_kernel(term, "apex")
    plain = base.removeprefix("(anonymous namespace)::")
    if not base.startswith("at::") and not plain.startswith((*_UNNAMED, "cunn_")):
        return None
    if not base.startswith("at::") and not term.arguments:
        return None
    last = base.rpartition("::")[2]
    if "multi_tensor_apply" in last:
        return _list_kernel(term, "aten")
    if any(word in last for word in _LOOPS) and not last.startswith(("index_", "_scatter_gather", "distribution_")):
        return _loop(term)
    rule = find(_RULES, base)
    if rule is None:
        # PyTorch's own kernels multiply on CUDA cores; what it bundles (CUTLASS, FlashAttention, tinygemm) has names
        # of its own, or says so in a word.
        ours = base.startswith(("at::native::", "at::cuda::")) and not any(word in base.lower() for word in _DOUBT)
        cores = "no" if ours else "unknown"
        return KernelName(library="aten", direction=direction_of(base), tensor_cores=cores)
    decoded = apply(rule, term, "aten", _NAMESPACES)
    if rule.role == "reduction" and "reduce_kernel" in last:
        return decoded._replace(dtypes=_reduced_types(term))
    return decoded


def _compiled(term: Term) -> KernelName | None:
    match = re.fullmatch(_COMPILED, term.base)
    if match is None or not (match["reduction"] or "_vectorized" in term.base):
        return None
    rule = _REDUCTION if match["reduction"] else _FUNCTORS[-1]
    return apply(rule, term, "aten", _NAMESPACES)


def _loop(term: Term) -> KernelName:
    functor = _functor(term)
    rule = find(_FUNCTORS, functor.base if functor else "")
    assert rule is not None
    name = apply(rule, term, "aten", _NAMESPACES)
    if functor is None:
        return name
    direction = direction_of(functor.base) or direction_of(term.base)
    # With a cast on load or store the functor's types are not those in memory, which the name does not tell.
    dtypes = () if _casts(term) else _functor_types(functor)
    parts = tuple(_functor_part(part, functor, rule.meaning, dtypes) for part in name.parts)
    return name._replace(direction=direction, dtypes=dtypes, parts=parts)


def _casts(term: Term) -> bool:
    """Return whether a loop casts dynamically: since PyTorch 1.13 ``gpu_kernel_impl`` runs only where it does."""
    names = [argument.base for argument in term.arguments]
    return any("WithCast" in name or re.match(r"at::native::gpu_kernel_impl(?!_nocast)", name) for name in names)


def _functor_part(part: Part, functor: Term, meaning: str, dtypes: tuple[str, ...]) -> Part:
    if functor.text not in part.text:
        return part
    return Part(part.text, f"the function: {meaning}" + (f" ({', '.join(dtypes)})" if dtypes else ""))


def _functor(term: Term) -> Term | None:
    """Return the functor of a loop: the first argument that is no number, without PyTorch's wrapper around it."""
    for argument in term.arguments:
        if argument.base.isdigit() or cpp_dtype(argument):
            continue
        if "gpu_kernel_impl" in argument.base and argument.arguments:
            return argument.arguments[0]
        return argument
    return None


_COPY_TARGETS = {
    "bfloat16_copy_kernel_cuda": "bf16",
    "float16_copy_kernel_cuda": "fp16",
    "bfloat16tofloat32_copy_kernel_cuda": "fp32",
    "float16tofloat32_copy_kernel_cuda": "fp32",
}


def _functor_types(functor: Term) -> tuple[str, ...]:
    """Return the types that a functor is written for.

    Source:
        Functors take their types as template arguments (BinaryFunctor: first, second, result),
        lambdas as parameters. Copy.cu: ``bfloat16_copy_kernel_cuda`` casts its parameter to bf16.
    """
    target = next((dtype for name, dtype in _COPY_TARGETS.items() if f"::{name}" in functor.base), None)
    if "{lambda(" in functor.base and functor.parameters:
        # The outer functions' parameters come first; the innermost lambda's are the element types.
        count = functor.base.rpartition("{lambda(")[2].partition(")")[0].count(",") + 1
        types = [cpp_dtype(one) for one in functor.parameters[-count:]]
    else:
        types = [cpp_dtype(one) for one in functor.arguments[:3]]
    dtypes = once([*types, target])
    # A mask or a comparison beside data is no data type of the kernel's.
    return tuple(dtype for dtype in dtypes if dtype != "bool") or dtypes


def _reduced_types(term: Term) -> tuple[str, ...]:
    """Return the element type of ``reduce_kernel<512, 1, ReduceOp<scalar, ...>>``."""
    for argument in term.arguments:
        if argument.base.endswith("ReduceOp") and argument.arguments:
            return once([cpp_dtype(argument.arguments[0])])
    return ()


def _list_kernel(term: Term, library: str) -> KernelName:
    names = " ".join(inner.base for inner in term.walk())
    rule = find(_LIST_FUNCTORS, names) or find(_RULES, "multi_tensor_apply")
    assert rule is not None
    functor = next((inner for inner in term.arguments if "Functor" in inner.base), None)
    types = once(cpp_dtype(argument) for argument in functor.arguments[:2]) if functor else ()
    return apply(rule, term, library, _NAMESPACES, dtypes=types)
