"""Matrix instructions as the libraries of NVIDIA write them into names: ``s16816gemm``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# m, n, k of the mma, wmma and imma instructions (PTX ISA, "Matrix Multiply-Accumulate Instructions"), written
# without a separator, as the CUTLASS profiler names its kernels.
SHAPES = {
    "884": "m8n8k4",
    "848": "m8n4k8",
    "1684": "m16n8k4",
    "1688": "m16n8k8",
    "16816": "m16n8k16",
    "16832": "m16n8k32",
    "16864": "m16n8k64",
    "168128": "m16n8k128",
    "168256": "m16n8k256",
    "8816": "m8n8k16",
    "8832": "m8n8k32",
    "88128": "m8n8k128",
    "161616": "m16n16k16",
    "32816": "m32n8k16",
    "83216": "m8n32k16",
}

# What the letter says: the type in which products are summed up (CUTLASS profiler documentation, BLAS naming).
LETTERS = {
    "s": "fp32",
    "h": "fp16",
    "d": "fp64",
    "i": "int32",
    "c": "complex64",
    "z": "complex128",
    "gc": "complex64",
    "gz": "complex128",
}

# The operand type where a name gives an instruction and no type.
_IMPLIED = {"s1688": "tf32", "s1684": "tf32", "h": "fp16", "d": "fp64", "c": "complex64", "z": "complex128"}
_IMPLIED_WITHOUT_SHAPE = {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int8", "c": "complex64", "z": "complex128"}

_OPERATION = re.compile(
    r"(gc|gz|[shdicz])(\d+|\d+x\d+x\d+)?(tf32|bf16|f16|fast)?"
    r"(spgemm|gemm|symm|hemm|syrk|herk|syr2k|her2k|trmm|fprop|dgrad|wgrad|cudnn|deconv)([A-Za-z0-9]*)"
)


class Operation(NamedTuple):
    """A word such as ``s16816gemm``.

    Attributes:
        word: The word.
        operation: ``gemm``, ``fprop``, ``dgrad``, ``wgrad``, ``cudnn``, ...
        instruction: ``s16816``, or ``None`` where no shape is given: no matrix instruction.
        shape: Its shape, such as ``m16n8k16``; ``None`` if there is none or the digits are none of the known.
        accumulator: The type in which products are summed up.
        operands: The type of the operands, as far as the word alone tells.
    """

    word: str
    operation: str
    instruction: str | None
    shape: str | None
    accumulator: str
    operands: str | None

    @property
    def tensor_cores(self) -> str:
        """``yes`` with a known shape, ``no`` without any, ``unknown`` with a shape nobody knows."""
        if self.instruction is None:
            return "no"
        return "yes" if self.shape else "unknown"

    def dtypes(self, named: tuple[str, ...]) -> tuple[str, ...]:
        """Return the data types of a kernel: those that its name gives, else those that the word implies."""
        return named or ((self.operands,) if self.operands else ())

    @property
    def meaning(self) -> str:
        """The word for people."""
        what = _OPERATIONS.get(self.operation, self.operation)
        if self.instruction is None:
            ordinary = _ORDINARY.get(self.word[0], "ordinary arithmetic")
            how = f"ordinary instructions ({ordinary}) on CUDA cores: no tensor cores"
            return f"{what} summed in {self.accumulator} by {how}"
        if self.shape is None:
            return f"{what} summed in {self.accumulator}; the shape is none of the known matrix instructions"
        return f"{what} by the tensor-core instruction {self.shape}, summed in {self.accumulator}"


_ORDINARY = {"s": "FFMA", "h": "HFMA2", "d": "DFMA", "i": "DP4A", "c": "FFMA", "z": "DFMA", "g": "FFMA"}
_OPERATIONS = {
    "gemm": "matrix multiplication",
    "spgemm": "matrix multiplication with a 2:4 sparse operand",
    "fprop": "convolution, forward",
    "dgrad": "convolution, gradient of the input",
    "wgrad": "convolution, gradient of the weights",
    "cudnn": "convolution",
    "deconv": "transposed convolution",
}


def operation(word: str) -> Operation | None:
    """Return what *word* says of a matrix operation, or ``None`` if it is no such word.

    Source:
        The CUTLASS profiler's naming: letter of the accumulator, m, n and k of the instruction,
        operation. Names of cuBLAS and cuDNN follow it; without digits the BLAS letter alone
        (``sgemm``) means ordinary arithmetic.
    """
    match = _OPERATION.fullmatch(word)
    if match is None:
        return None
    letter, digits, operand, name, _ = match.groups()
    shape = SHAPES.get(digits or "") or (_wide_shape(digits) if digits and "x" in digits else None)
    instruction = f"{letter}{digits}" if digits else None
    operands: str | None
    if operand in ("tf32", "bf16", "f16"):
        operands = {"tf32": "tf32", "bf16": "bf16", "f16": "fp16"}[operand]
    elif digits:
        operands = _IMPLIED.get(f"{letter}{digits}") or _IMPLIED.get(letter.removeprefix("g"))
    else:
        operands = _IMPLIED_WITHOUT_SHAPE.get(letter.removeprefix("g"))
    return Operation(word, name, instruction, shape, LETTERS[letter], operands)


def find_operation(words: Sequence[str]) -> tuple[int, Operation] | None:
    """Return the first of *words* that is a matrix operation: its place, and what it says."""
    return next(((place, found) for place, word in enumerate(words) if (found := operation(word))), None)


def _wide_shape(digits: str) -> str | None:
    """Return the shape of a warp-group or CTA-wide instruction: m is 64, 128 or 256 there."""
    m, n, k = digits.split("x")
    return f"m{m}n{n}k{k}" if m in ("64", "128", "256") else None
