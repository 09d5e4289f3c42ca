"""Attention in one call of torch, which has four ways to calculate it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

BACKENDS = {
    "math": SDPBackend.MATH,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def pinned(backend: str) -> AbstractContextManager[None]:
    """Let torch use this backend and no other; ``auto`` leaves the choice to torch."""
    return nullcontext() if backend == "auto" else sdpa_kernel(BACKENDS[backend])


@torch.no_grad()
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None) -> torch.Tensor:
    """Return softmax(q k^T / sqrt(D)) v, causal unless a mask is given.

    Args:
        q: Queries, [batch, heads, sequence, head_dim].
        k: Keys, the same shape.
        v: Values, the same shape.
        attn_mask: True where a query may see a key, [sequence, sequence].
    """
    return scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, is_causal=attn_mask is None)
