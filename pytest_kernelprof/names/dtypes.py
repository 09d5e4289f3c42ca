"""Data types: how C++ and the libraries write them, and the words for them here."""

from __future__ import annotations

from .signature import Term

DTYPES = (
    *("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4"),
    *("int64", "int32", "int16", "int8", "int4", "uint64", "uint32", "uint16", "uint8", "bool"),
    *("complex128", "complex64", "complex32"),
)
"""Every data type that a decoded name may have."""

CPP_TYPES: dict[str, str] = {
    # C++ itself, on the 64-bit ABI of Linux.
    "double": "fp64",
    "float": "fp32",
    "long": "int64",
    "long long": "int64",
    "int": "int32",
    "short": "int16",
    "signed char": "int8",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "unsigned int": "uint32",
    "unsigned short": "uint16",
    "unsigned char": "uint8",
    "bool": "bool",
    "_Float16": "fp16",
    "__bf16": "bf16",
    "std::bfloat16_t": "bf16",
    # cuda_fp16.h, cuda_bf16.h, cuda_fp8.h and their HIP twins.
    "half": "fp16",
    "__half": "fp16",
    "__half2": "fp16",
    "half2": "fp16",
    "__nv_bfloat16": "bf16",
    "__nv_bfloat162": "bf16",
    "nv_bfloat16": "bf16",
    "__nv_fp8_e4m3": "fp8",
    "__nv_fp8_e5m2": "fp8",
    "__nv_fp4_e2m1": "fp4",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "float2": "complex64",
    "double2": "complex128",
    # c10/util of PyTorch.
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float8_e8m0fnu": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
    "c10::qint8": "int8",
    "c10::quint8": "uint8",
    # cutlass/numeric_types.h.
    "cutlass::half_t": "fp16",
    "cutlass::bfloat16_t": "bf16",
    "cutlass::tfloat32_t": "tf32",
    "cutlass::float_e4m3_t": "fp8",
    "cutlass::float_e5m2_t": "fp8",
    "cutlass::float_e2m1_t": "fp4",
    "cutlass::float_e3m2_t": "fp6",
    "cutlass::float_e2m3_t": "fp6",
    "cutlass::int4b_t": "int4",
}

_COMPLEX = {"fp64": "complex128", "fp32": "complex64", "fp16": "complex32"}
_COMPLEX_TYPES = ("c10::complex", "thrust::complex", "cuda::std::complex", "std::complex")

WORDS: dict[str, str] = {
    # In names made of words: cuBLAS, cuDNN, CUTLASS, Triton, MIOpen.
    "f64": "fp64",
    "fp64": "fp64",
    "f32": "fp32",
    "fp32": "fp32",
    "tf32": "tf32",
    "f16": "fp16",
    "fp16": "fp16",
    "half": "fp16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "f8": "fp8",
    "fp8": "fp8",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "e2m1": "fp4",
    "fp4": "fp4",
    "mxfp4": "fp4",
    "nvfp4": "fp4",
    "mxfp8": "fp8",
    "s8": "int8",
    "u8": "uint8",
    "i8": "int8",
    "int8": "int8",
    "s4": "int4",
    "s32": "int32",
    "i32": "int32",
    "cf32": "complex64",
    "cf64": "complex128",
}


def cpp_dtype(term: Term) -> str | None:
    """Return the data type that a C++ type is, or ``None``; a pointer or reference to one counts."""
    base = term.base.removesuffix(" const").rstrip("*& ").removesuffix(" const")
    if base in _COMPLEX_TYPES and term.arguments:
        inner = cpp_dtype(term.arguments[0])
        return _COMPLEX.get(inner or "")
    name = CPP_TYPES.get(base)
    if name is None and "::" in base:
        # ``cutlass__5x_cudnn::half_t``: libraries rename the namespaces of what they bundle.
        outer, _, last = base.rpartition("::")
        if outer.startswith("cutlass"):
            name = CPP_TYPES.get(f"cutlass::{last}")
    return name
