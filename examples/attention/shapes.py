"""Shapes of the inputs, and how many bytes follow from them."""

from __future__ import annotations

from typing import NamedTuple

import torch

MIB = 1024**2
BYTES = 2
"""Of one element in bfloat16."""


class Shape(NamedTuple):
    """The shape of queries, keys and values: [batch, heads, sequence, head_dim]."""

    batch: int
    heads: int
    sequence: int
    head_dim: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Return the shape that *text* tells, such as ``8,16,1024,64``.

        Raises:
            ValueError: It does not tell four positive numbers.
        """
        parts = text.split(",")
        numbers = [int(part) for part in parts if part.isdecimal()]
        if len(numbers) != len(parts) or len(numbers) != 4 or 0 in numbers:
            raise ValueError(f"{text!r} is no shape; accepted: four positive numbers such as 8,16,1024,64")
        return cls(*numbers)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the queries, and of the result."""
        return self.batch * self.heads * self.sequence * self.head_dim * BYTES

    @property
    def score_bytes(self) -> int:
        """Bytes of one score matrix, [batch, heads, sequence, sequence]."""
        return self.batch * self.heads * self.sequence**2 * BYTES

    @property
    def fused_bytes(self) -> int:
        """Bytes of what a fused kernel leaves: the result, and the log-sum-exp of each query in float32."""
        return self.tensor_bytes + self.batch * self.heads * self.sequence * 4


def about(size: int) -> tuple[int, int]:
    """Return a range for a measured size: torch's allocator rounds up, small sizes by a few blocks of 2 MiB."""
    return size, size + (size // 50 if size > 8 * MIB else 5 * MIB)


BLOG = Shape(batch=8, heads=16, sequence=1024, head_dim=64)
"""The shape of "Attention is all you profile"."""


class Inputs(NamedTuple):
    """What attention is given.

    Attributes:
        q: Queries, [batch, heads, sequence, head_dim].
        k: Keys, the same shape.
        v: Values, the same shape.
        mask: True where a query must not see a key, [sequence, sequence]: the causal mask.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor

    @property
    def qkv(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, for kernels that know what causal means."""
        return self.q, self.k, self.v


def make_inputs(device: torch.device, shape: Shape, dtype: torch.dtype = torch.bfloat16) -> Inputs:
    """Return random inputs; on ``meta``, as under replay, they have shapes and no data."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, device=device, dtype=dtype) for _ in range(3))
    mask = torch.ones(shape.sequence, shape.sequence, dtype=torch.bool, device=device).triu(1)
    return Inputs(q, k, v, mask)
