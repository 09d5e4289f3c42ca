"""The code under guard: masks attention scores without a copy."""

from __future__ import annotations

import torch


def mask_scores(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return *scores* with minus infinity where *mask* is true; *scores* is overwritten.

    Args:
        scores: Attention scores, [batch, heads, query, key].
        mask: True where a query must not see a key, broadcast to *scores*.
    """
    return scores.masked_fill_(mask, float("-inf"))
