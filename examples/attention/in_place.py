"""The naive attention with its one hidden copy removed."""

from __future__ import annotations

import torch


@torch.no_grad()
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return softmax(q k^T / sqrt(D)) v, masked.

    Args:
        q: Queries, [batch, heads, sequence, head_dim].
        k: Keys, the same shape.
        v: Values, the same shape.
        mask: True where a query must not see a key, [sequence, sequence].
    """
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores = scores * q.shape[-1] ** -0.5
    scores = scores.masked_fill_(mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights, v)
