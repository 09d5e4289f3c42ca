"""As it was yesterday: no count is written by hand, the ledger beside this file has them.

``pytest --kernelprof-update`` writes it anew.
"""

from __future__ import annotations

import pytest
import torch
from mlp import mlp

from pytest_kernelprof import Profiled

pytestmark = pytest.mark.kernelprof(device="cuda")

HIDDEN, INNER = 1024, 4096


@pytest.fixture
def weights(profiled: Profiled) -> list[torch.Tensor]:
    shapes = ((HIDDEN, INNER), (HIDDEN, INNER), (INNER, HIDDEN))
    return [torch.randn(shape, dtype=torch.bfloat16, device=profiled.device) for shape in shapes]


@pytest.mark.parametrize("tokens", [64, 4096])
def test_the_mlp_runs_the_kernels_of_yesterday(profiled: Profiled, weights: list[torch.Tensor], tokens: int) -> None:
    x = torch.randn(tokens, HIDDEN, dtype=torch.bfloat16, device=profiled.device)

    profiled(mlp, x, *weights).assert_matches_ledger()
