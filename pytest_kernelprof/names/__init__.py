"""Kernel names: what they say, and how they are shortened and matched."""

from .decoding import decode_kernel, teach
from .demangling import demangled
from .dtypes import DTYPES
from .kernel_name import COPY_ROLES, MATRIX_ROLES, ROLES, TENSOR_CORES, KernelName, Part
from .shortening import ascii_only, brief, close_names, glob, matches, shorten
from .signature import base_name

__all__ = [
    "COPY_ROLES",
    "DTYPES",
    "MATRIX_ROLES",
    "ROLES",
    "TENSOR_CORES",
    "KernelName",
    "Part",
    "ascii_only",
    "base_name",
    "brief",
    "close_names",
    "decode_kernel",
    "demangled",
    "glob",
    "matches",
    "shorten",
    "teach",
]
