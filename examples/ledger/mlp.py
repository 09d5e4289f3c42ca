"""The gated MLP of most language models of today."""

from __future__ import annotations

import torch


@torch.no_grad()
def mlp(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Return what the MLP adds to the residual stream.

    Args:
        x: Input, [tokens, hidden].
        gate: Weights of the gate, [hidden, inner].
        up: Weights of what is gated, [hidden, inner].
        down: Weights back to the residual stream, [inner, hidden].
    """
    gated = torch.nn.functional.silu(torch.matmul(x, gate)) * torch.matmul(x, up)
    return torch.matmul(gated, down)
