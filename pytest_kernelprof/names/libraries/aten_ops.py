"""Names of ATen's operators, as inductor joins them into the names of its kernels."""

from __future__ import annotations

# Operators that hold an underscore: without them ``native_layer_norm`` would be three ops. From the schemas of torch
# 2.13, as far as inductor fuses them.
COMPOUND = frozenset(
    """
    _embedding_bag _flash_attention_forward _flash_attention_backward _efficient_attention_forward
    _efficient_attention_backward _fused_rms_norm _fused_rms_norm_backward _int_mm _local_scalar_dense
    _log_softmax _log_softmax_backward_data _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _reshape_alias _safe_softmax _scaled_dot_product_attention_math
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable
    _scaled_grouped_mm _scaled_mm _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put
    _unsafe_masked_index _unsafe_view _weight_norm_interface _assert_async _adaptive_avg_pool2d
    _adaptive_avg_pool2d_backward adaptive_avg_pool2d adaptive_max_pool2d as_strided as_strided_scatter avg_pool2d
    avg_pool2d_backward avg_pool3d batch_norm batch_norm_backward binary_cross_entropy
    binary_cross_entropy_with_logits bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor clamp_max clamp_min constant_pad_nd convert_element_type convolution_backward cross_entropy_loss
    diagonal_scatter elu_backward embedding_backward embedding_bag embedding_dense_backward empty_like
    empty_permuted empty_strided flex_attention flex_attention_backward floor_divide full_like gelu_backward
    glu_backward grid_sampler_2d group_norm hardsigmoid_backward hardswish_backward hardtanh_backward huber_loss
    huber_loss_backward index_add index_copy index_fill index_put index_reduce index_select l1_loss layer_norm
    leaky_relu leaky_relu_backward lift_fresh log_sigmoid_backward log_sigmoid_forward log_softmax logical_and
    logical_not logical_or logical_xor masked_fill masked_scatter max_pool2d_with_indices
    max_pool2d_with_indices_backward max_pool3d_with_indices mse_loss mse_loss_backward nan_to_num
    native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward new_empty new_empty_strided new_full
    new_ones new_zeros nll_loss nll_loss_backward nll_loss_forward nll_loss2d_backward nll_loss2d_forward one_hot
    ones_like pixel_shuffle prepare_softmax_online rand_like randn_like reflection_pad2d repeat_interleave
    replication_pad2d rms_norm scalar_tensor scaled_dot_product_attention scatter_add scatter_reduce
    select_backward select_scatter sigmoid_backward silu_backward slice_backward slice_scatter smooth_l1_loss
    smooth_l1_loss_backward softplus_backward split_with_sizes tanh_backward threshold_backward tril_indices
    triu_indices unfold_backward upsample_bicubic2d upsample_bilinear2d upsample_bilinear2d_backward
    upsample_nearest2d upsample_nearest2d_backward var_mean view_as_complex view_as_real zeros_like mixed_mm
    mm_plus_mm
    """.split()
)
LONGEST = max(name.count("_") for name in COMPOUND) + 1
SINGLE = frozenset(
    """
    abs acos add addcdiv addcmul addmm alias all amax amin any arange argmax argmin atan atan2 baddbmm bernoulli
    bmm bool bucketize cat ceil chunk clamp clone contiguous convolution copy cos cosh cummax cumprod cumsum
    detach diagonal div dot dropout elu embedding empty eq erf exp exp2 expand expm1 eye fill flip floor fmod full
    gather ge gelu glu gt hardsigmoid hardswish hardtanh histc index isinf isnan le lerp lift linspace log log10
    log1p log2 logit logsumexp lt max maximum mean median min minimum mish mm mul multinomial ne neg nonzero norm
    ones permute pow prod rand randint randn randperm reciprocal relu remainder repeat reshape roll round rsqrt
    rsub scatter select sigmoid sign silu sin sinh slice softplus sort split sqrt square squeeze stack std sub sum
    t tan tanh to topk transpose tril triu trunc unbind unfold unsqueeze var view where xlogy zeros ge
    """.split()
)
VIEWS = frozenset(
    "alias as_strided chunk detach diagonal expand permute reshape _reshape_alias select slice split split_with_sizes "
    "squeeze t transpose unbind unsqueeze view _unsafe_view view_as_complex view_as_real lift_fresh".split()
)
COPIES = frozenset("_to_copy clone contiguous copy cat stack convert_element_type to repeat constant_pad_nd".split())
FILLS = frozenset(
    "arange empty empty_like empty_strided eye fill full full_like linspace new_full new_ones new_zeros ones ones_like "
    "scalar_tensor zeros zeros_like lift_fresh new_empty".split()
)
RANDOM = frozenset("rand randn randint rand_like randn_like bernoulli randperm".split())
INDEXING = frozenset(
    "index index_put index_select index_add gather scatter scatter_add _unsafe_index _unsafe_index_put".split()
)
EMBEDDINGS = frozenset("embedding embedding_dense_backward embedding_backward".split())
SOFTMAX = frozenset(
    "_softmax _log_softmax _safe_softmax log_softmax _softmax_backward_data _log_softmax_backward_data "
    "prepare_softmax_online".split()
)
MATRIX = {
    "gemm": frozenset("mm addmm bmm baddbmm _scaled_mm _int_mm mixed_mm mm_plus_mm _scaled_grouped_mm".split()),
    "convolution": frozenset("convolution convolution_backward".split()),
    "attention": frozenset("flex_attention flex_attention_backward scaled_dot_product_attention".split()),
}
