"""Live on an H200: each classic regression of attention turns those tests of the examples red that it must.

Run this file alone: ``pytest tests/gpu/test_live_mutations.py``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from explaining import tells
from mutations import MUTATIONS, TOLD, blamed, failure, outcomes, prepare, unexpected

torch = pytest.importorskip("torch", reason="torch is not installed")

ASK = "import torch; print(*torch.cuda.get_device_capability() if torch.cuda.is_available() else ('no GPU',))"


@pytest.fixture(autouse=True, scope="module")
def _measured() -> None:
    # This process must not touch the GPU: with a second one on it, times are too noisy to judge.
    if torch.cuda.is_initialized():
        pytest.skip("this process holds the GPU already; run this file alone")
    found = subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True, text=True).stdout.strip()
    if found != "9 0":
        pytest.skip(f"which guesses a mutation breaks is known for compute capability 9.0; here: {found}")


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutant_turns_its_tests_red_and_no_other(name: str, tmp_path: Path) -> None:
    mutation = MUTATIONS[name]
    prepare(tmp_path, mutation)

    assert unexpected(outcomes(tmp_path, "--kernelprof"), mutation, live=True) == {}


@pytest.mark.parametrize("name", TOLD)
def test_the_failure_of_a_mutant_names_op_and_line_and_cure(name: str, tmp_path: Path) -> None:
    told = TOLD[name]
    prepare(tmp_path, MUTATIONS[name])

    message = failure(tmp_path, told.test, "--kernelprof")

    tells(message, told.op, blamed(tmp_path, told), hint=told.hint)
