"""Each classic regression of attention turns those tests of the examples red that it must, by replay of recorded mutants."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations import (
    ATTENTION,
    MUTANTS,
    MUTATIONS,
    RECORDINGS,
    add_recordings,
    findings,
    outcomes,
    prepare,
    slug,
    unexpected,
)

pytestmark = pytest.mark.usefixtures("needs_torch")
REPLAY = "--kernelprof-replay=always"


def test_the_examples_replay_and_only_values_are_skipped(tmp_path: Path) -> None:
    prepare(tmp_path)
    add_recordings(tmp_path)

    kinds = outcomes(tmp_path, REPLAY)

    skipped = {test for test, kind in kinds.items() if kind != "passed"}
    assert {kinds[test] for test in skipped} == {"skipped"}
    assert {test.partition("[")[0].rpartition("::")[2] for test in skipped} == {
        "test_n4_a_row_masked_everywhere_is_nan",
        "test_m6_a_row_masked_everywhere_is_zero",
        "test_m6_nor_does_cudnn_give_nan",
        "test_k2_the_same_numbers_as_naive",
    }
    assert len(kinds) - len(skipped) >= 45


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutant_turns_its_tests_red_and_no_other(name: str, tmp_path: Path) -> None:
    mutation = MUTATIONS[name]
    prepare(tmp_path, mutation)
    add_recordings(tmp_path, name)

    assert unexpected(outcomes(tmp_path, REPLAY), mutation, live=False) == {}


def test_every_finding_was_seen_to_fail() -> None:
    module = findings()
    red = {module.id_of(test.rpartition("::")[2]) for one in MUTATIONS.values() for test in one.red | one.values}

    assert set(module.CLAIMS) <= red


def test_no_mutant_is_recorded_that_nobody_tests() -> None:
    folders = {path.name for path in MUTANTS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    names = {path.name for folder in folders for path in (MUTANTS / folder).iterdir()}

    assert folders <= {slug(name) for name in MUTATIONS}
    assert {slug(name) for name, one in MUTATIONS.items() if one.touches} <= folders
    # What a mutant changes, but for comparisons that only it makes, is a profile of the examples.
    known = {path.name for path in (ATTENTION / RECORDINGS).iterdir()}
    assert all("_against_" in name for name in names - known)
