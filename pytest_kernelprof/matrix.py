"""How much of the time of matrix kernels ran on tensor cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .events import Kernel
from .model import Step


class MatrixTime(NamedTuple):
    """GPU time of matrix kernels (gemm, convolution, attention), in nanoseconds.

    Attributes:
        kernels: How many there are for certain.
        on_ns: On tensor cores.
        off_ns: On CUDA cores.
        open_ns: Of kernels whose name does not tell whether they are matrix kernels, or where they run.
        undated: Whether a kernel among them has no duration in the trace.
    """

    kernels: int = 0
    on_ns: int = 0
    off_ns: int = 0
    open_ns: int = 0
    undated: bool = False

    @property
    def least(self) -> float | None:
        """The smallest share that can be true: every open kernel is a matrix kernel on CUDA cores."""
        return self._share(self.on_ns, self.on_ns + self.off_ns + self.open_ns)

    @property
    def most(self) -> float | None:
        """The largest share that can be true: every open kernel is a matrix kernel on tensor cores."""
        return self._share(self.on_ns + self.open_ns, self.on_ns + self.off_ns + self.open_ns)

    def _share(self, part_ns: int, whole_ns: int) -> float | None:
        return None if self.undated or not whole_ns else part_ns / whole_ns

    def words(self) -> str:
        """Return the share in a word for a table: ``100%``, ``none``, ``50% to 75%`` or ``unknown``."""
        if not self.kernels and not self.open_ns and not self.undated:
            return "none"
        if self.least is None or self.most is None or not self.kernels:
            return "unknown"
        least, most = percent(self.least), percent(self.most)
        return least if least == most else f"{least} to {most}"


def matrix_time(kernels: Iterable[Kernel]) -> MatrixTime:
    """Return the time of the matrix kernels among *kernels*."""
    count = on = off = still_open = 0
    undated = False
    for kernel in kernels:
        decoded = kernel.decoded
        if decoded.is_matrix is False:
            continue
        count += bool(decoded.is_matrix)
        duration = kernel.duration_ns
        undated = undated or duration is None
        if decoded.is_matrix is None or decoded.tensor_cores == "unknown":
            still_open += duration or 0
        elif decoded.tensor_cores == "yes":
            on += duration or 0
        else:
            off += duration or 0
    return MatrixTime(count, on, off, still_open, undated)


def matrix_time_of(steps: Sequence[Step]) -> MatrixTime | None:
    """Return the time of the matrix kernels of all *steps*; ``None`` if the kernels of one were not measured."""
    if any(step.kernels.why_not_measured for step in steps):
        return None
    return matrix_time(kernel for step in steps for kernel in step.kernels.seen)


def percent(share: float) -> str:
    """Return a fraction in percent; only all of it is ``100%``, and only nothing ``0%``."""
    if share in (0, 1):
        return f"{share:.0%}"
    return f"{min(max(share, 0.001), 0.999):.1%}".replace(".0%", "%")
