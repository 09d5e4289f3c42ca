"""`KernelName`: what the name of a kernel says."""

from __future__ import annotations

from typing import Any, NamedTuple

ROLES = (
    *("gemm", "gemv", "convolution", "attention", "softmax", "norm", "reduction", "elementwise", "copy", "fill"),
    *("index", "sort", "scan", "random", "embedding", "optimizer", "collective", "layout", "quantize", "moe"),
    *("rnn", "fft", "other"),
)
"""What a kernel may be for."""

MATRIX_ROLES = ("gemm", "convolution", "attention")
"""The roles that belong on tensor cores; a gemv reads its matrix once and gains nothing there."""

COPY_ROLES = ("copy", "layout")
"""The roles that move a tensor without calculating: strided, casting and concatenating copies, and
conversions between layouts such as NCHW and NHWC."""

TENSOR_CORES = ("yes", "no", "unknown")

OTHER = "other"


class Part(NamedTuple):
    """A piece of a name.

    Attributes:
        text: The piece, as it stands in the demangled name.
        meaning: What it means; empty where the rules do not know.
    """

    text: str
    meaning: str = ""


class KernelName(NamedTuple):
    """What the name of a kernel says. What it does not say is ``None``, empty or ``unknown``.

    Attributes:
        name: The name, as it was given.
        demangled: The name as C++ writes it.
        library: Who wrote the kernel, such as ``cublas``, ``cudnn`` or ``aten``; ``other`` if unknown.
        role: What it is for, one of ``pytest_kernelprof.names.ROLES``.
        direction: ``forward`` or ``backward``.
        dtypes: The data types of its operands and its result, each once, such as ``("bf16",)``; of
            scaled or quantized operands those of the data. Accumulators are left out.
        arch: The architecture it was built for, such as ``sm90`` or ``gfx942``.
        tile: Elements of the result (and, where told, of the inner dimension) that a block
            calculates at once, such as ``128x256x64``.
        instruction: The matrix instruction, such as ``s16816``, ``wgmma`` or ``mfma_16x16x16``.
        tensor_cores: Whether it executes tensor-core (on AMD: matrix-core) instructions: ``yes``,
            ``no`` or ``unknown``.
        attention_backend: For attention, whose it is, such as ``flash``, ``efficient`` or ``cudnn``.
        fused_ops: The ops that a compiler fused into it or took as its neighbours, in the order of the name.
        parts: The name piece by piece, in order.
    """

    name: str = ""
    demangled: str = ""
    library: str = OTHER
    role: str = OTHER
    direction: str | None = None
    dtypes: tuple[str, ...] = ()
    arch: str | None = None
    tile: str | None = None
    instruction: str | None = None
    tensor_cores: str = "unknown"
    attention_backend: str | None = None
    fused_ops: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def recognized(self) -> bool:
        """Whether the name tells what the kernel is for; one that does not may hide any role.

        A role of ``other`` is an answer only beside a certain *no* to tensor cores: a kernel of
        cuDNN that no rule knows is ``other`` as well, and may be a convolution.
        """
        return self.role != OTHER or self.tensor_cores == "no"

    @property
    def in_nvidia_library(self) -> bool:
        """Whether it is of cuBLAS or cuDNN, which includes the CUTLASS kernels that cuBLAS instantiates."""
        if self.library == "cutlass":
            # cuBLAS names its configurations in words; a kernel of the user's own is a type.
            return "Kernel" in self.demangled and "<cutlass_" in self.demangled
        return self.library in ("cublas", "cublaslt", "cudnn")

    @property
    def is_matrix(self) -> bool | None:
        """Whether it multiplies matrices, or ``None`` if the name does not tell."""
        return self.role in MATRIX_ROLES if self.recognized else None

    def as_values(self) -> dict[str, Any]:
        """Return plain values, as ``kernelprof decode --format json`` prints them."""
        values = self._asdict()
        values.update(dtypes=list(self.dtypes), fused_ops=list(self.fused_ops))
        values["parts"] = [part._asdict() for part in self.parts]
        return values


def once(values: Any) -> tuple[str, ...]:
    """Return the values that are not empty, each once, in order."""
    return tuple(dict.fromkeys(value for value in values if value))
