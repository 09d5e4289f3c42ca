"""Several layers of one attention."""

from __future__ import annotations

from collections.abc import Callable

import torch

LAYERS = 4


def stack(
    attention: Callable[..., torch.Tensor],
    layers: int,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor,
) -> torch.Tensor:
    """Return what *layers* calls of *attention* make of the queries, one after the other."""
    for _ in range(layers):
        q = attention(q, k, v, mask)
    return q
