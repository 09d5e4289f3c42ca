"""How long 200 recordings take to replay, as a whole run of pytest, beside 200 tests that do nothing.

Run: ``python benchmarks/replay.py``. Records 200 profiles on the CPU first (not timed), then alternates
the two runs. Both import torch, as tests of torch code do.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
GUARDS = """
import pytest, torch

@pytest.mark.parametrize("number", range(200))
def test_guard(profiled, number):
    profiled(torch.neg, torch.ones(4, device=profiled.device)).assert_op_count("aten::neg", 1)
"""
NOTHING = """
import pytest, torch

@pytest.mark.parametrize("number", range(200))
def test_nothing(number):
    torch.ones(4, device="meta")
"""


def run(folder: Path, *arguments: str) -> float:
    """Return the seconds that a run of pytest takes; it must pass."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Record, then measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_guards.py").write_text(GUARDS)
        (folder / "test_nothing.py").write_text(NOTHING)
        run(folder, "test_guards.py", "--kernelprof-record")
        pairs = [
            (run(folder, "test_guards.py", "--kernelprof-replay=always"), run(folder, "test_nothing.py"))
            for _ in range(ROUNDS)
        ]
    replayed, nothing = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"200 recordings replayed: median {replayed:.1f} s; 200 tests that do nothing: {nothing:.1f} s")
    print(f"ratio {replayed / nothing:.2f}")


if __name__ == "__main__":
    main()
