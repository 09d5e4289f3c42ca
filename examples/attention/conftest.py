"""Inputs that all attention examples share: the shapes of "Attention is all you profile"."""

from __future__ import annotations

import pytest
import torch

from pytest_kernelprof import Profiled

BATCH, HEADS, SEQUENCE, HEAD_DIM = 8, 16, 1024, 64
SCORE_BYTES = BATCH * HEADS * SEQUENCE * SEQUENCE * 2
"""Bytes of one score matrix in bfloat16."""

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@pytest.fixture
def inputs(profiled: Profiled) -> Inputs:
    """Return q, k, v, [batch, heads, sequence, head_dim], and the causal mask."""
    device = profiled.device
    q, k, v = (torch.randn(BATCH, HEADS, SEQUENCE, HEAD_DIM, device=device, dtype=torch.bfloat16) for _ in range(3))
    mask = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool, device=device).triu(1)
    return q, k, v, mask


@pytest.fixture
def score_bytes() -> int:
    """Return the bytes of one score matrix, [batch, heads, sequence, sequence] in bfloat16."""
    return SCORE_BYTES
