"""Times ``kernelprof check`` as whole processes: eight ranks side by side, and a small trace beside ``python -c pass``.

    python benchmarks/cli.py [--megabytes 40] [--rounds 5]

The eight ranks are checked with ``--jobs 2`` and with one job, alternating; the small trace with plain
flags and Python doing nothing, alternating. Medians of the ratios. Peak memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from generate import write

RANKS = 8
SMALL = Path(__file__).parent.parent / "tests/data/traces_h200/attn_inplace.json.gz"


def seconds(command: Sequence[str]) -> float:
    """Return how long a process takes."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def ratio(one: Sequence[str], other: Sequence[str], rounds: int) -> tuple[float, float, float]:
    """Return the median ratio of two commands, alternating, and the median time of each."""
    pairs = [(seconds(one), seconds(other)) for _ in range(rounds)]
    return (
        statistics.median(a / b for a, b in pairs),
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
    )


def main() -> None:
    """Print both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    kernelprof = [sys.executable, "-m", "pytest_kernelprof", "check"]

    small, ours, theirs = ratio(
        [*kernelprof, str(SMALL), "--max-kernels", "5", "--no-memcpy"],
        [sys.executable, "-c", "pass"],
        4 * options.rounds,
    )
    print(f"a small trace with plain flags: {small:.1f} times `python -c pass` ({ours:.3f} s, {theirs:.3f} s)")

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "rank0.json"), options.megabytes)
        for rank in range(1, RANKS):
            Path(folder, f"rank{rank}.json").hardlink_to(Path(folder, "rank0.json"))
        ranks = [*kernelprof, f"{folder}/rank*.json", "--max-kernels", "1000000"]
        one_file = [*kernelprof, f"{folder}/rank0.json", "--max-kernels", "1000000"]
        seconds(one_file)
        peak_of_one = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        found, together, alone = ratio([*ranks, "--jobs", "2"], [*ranks, "--jobs", "1"], options.rounds)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(
        f"{RANKS} ranks of {options.megabytes:g} MB, two jobs against one: {found:.2f} ({together:.2f} s, {alone:.2f} s)"
    )
    print(f"peak memory of a process: {peak // 1024} MiB for {RANKS} files, {peak_of_one // 1024} MiB for one of them")


if __name__ == "__main__":
    main()
