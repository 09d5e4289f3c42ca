"""Shows a first guard, live on a CPU: masking in place copies nothing.

Change ``masked_fill_`` in masking.py into ``masked_fill`` and the guard goes red.
"""

from __future__ import annotations

import pytest
import torch
from masking import mask_scores

from pytest_kernelprof import Profiled


@pytest.mark.kernelprof(device="cpu")
def test_masking_copies_nothing(profiled: Profiled) -> None:
    scores = torch.randn(2, 4, 128, 128)
    mask = torch.ones(128, 128, dtype=torch.bool).triu(1)

    profile = profiled(mask_scores, scores, mask)

    profile.assert_no_op("aten::copy_")
    profile.assert_op_count("aten::masked_fill_", 1)
