"""FlashAttention that somebody else has built: from the Hugging Face Hub, or from an installed package."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

Flash = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


def _from_the_hub() -> Flash:
    from kernels import get_kernel

    # Newer releases of kernels insist on a revision or a version; all take a revision.
    flash: Flash = get_kernel("kernels-community/flash-attn2", revision="main").flash_attn_func
    return flash


def _flash_attn() -> Flash:
    from flash_attn import flash_attn_func

    flash: Flash = flash_attn_func
    return flash


def _flash_attention_3() -> Flash:
    from fa3_fwd_interface import flash_attn_func

    flash: Flash = flash_attn_func
    return flash


SOURCES: dict[str, Callable[[], Flash]] = {
    "kernels-community/flash-attn2": _from_the_hub,
    "flash_attn": _flash_attn,
    "fa3_fwd_interface": _flash_attention_3,
}
"""Where it may come from; the first that is there is taken."""


@cache
def find() -> tuple[str, Flash]:
    """Return the name of the first source that is there, and its function.

    Raises:
        LookupError: None is, with what each said.
    """
    said = []
    for name, load in SOURCES.items():
        try:
            return name, load()
        except Exception as error:  # noqa: BLE001, PERF203 - no package, no network, a wrong build: the next may do
            said.append(f"{name}: {str(error).partition(chr(10))[0] or type(error).__name__}")
    raise LookupError(f"no pre-built FlashAttention ({'; '.join(said)})")


@torch.no_grad()
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return softmax(q k^T / sqrt(D)) v, causal.

    Args:
        q: Queries, [batch, sequence, heads, head_dim]: heads come third here.
        k: Keys, the same shape.
        v: Values, the same shape.
    """
    _, flash = find()
    result = flash(q, k, v, causal=True)
    return result[0] if isinstance(result, tuple) else result
