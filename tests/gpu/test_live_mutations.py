"""Live on an H200: each classic regression of attention turns those tests of the examples red that it must."""

from __future__ import annotations

import pytest
from mutations import MUTATIONS, outcomes, prepare, unexpected

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.kernelprof(device="cuda")


@pytest.fixture(autouse=True)
def _measured(profiled):
    found = torch.cuda.get_device_capability()
    if found != (9, 0):
        pytest.skip(
            f"which guesses a mutation breaks is known for compute capability 9.0, this is {found[0]}.{found[1]}"
        )


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutant_turns_its_tests_red_and_no_other(name, tmp_path):
    mutation = MUTATIONS[name]
    prepare(tmp_path, mutation)

    assert unexpected(outcomes(tmp_path, "--kernelprof"), mutation, live=True) == {}
