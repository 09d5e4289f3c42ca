"""Times joining kernels to the ops that launched them, at 30,000, 60,000 and 120,000 kernels, beside ``json.load``.

    python benchmarks/chains.py [--kernels 30000 60000 120000]

A trace of that many kernels is read once; then its rows are joined, and each kernel is asked for
its chain, its regions, and the forward op of a backward pass. Best of three, in processes of their own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import write

_MB_PER_KERNEL = 217 / 110_453
_PROGRAM = """
import json, sys, time
from pytest_kernelprof.load.building import build
from pytest_kernelprof.load.reading import read
path = sys.argv[1]
start = time.perf_counter()
json.load(open(path))
peer = time.perf_counter() - start
document = read(path)
start = time.perf_counter()
trace = build(document)
joined = time.perf_counter() - start
kernels = trace.totals.kernels.seen
asked = [(kernel.regions, [op.name for op in kernel.chain], len(kernel.forward_chain)) for kernel in kernels]
assert all(chain for _, chain, _ in asked)
print(len(kernels), peer, joined, time.perf_counter() - start)
"""


def measure(path: Path) -> tuple[int, float, float, float]:
    """Return kernels, and seconds: of json.load, of joining, and of joining with all chains."""
    runs = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _PROGRAM, str(path)], capture_output=True, text=True, check=True)
        number, peer, joined, chained = done.stdout.split()
        runs.append((int(number), float(peer), float(joined), float(chained)))
    return runs[0][0], min(run[1] for run in runs), min(run[2] for run in runs), min(run[3] for run in runs)


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, nargs="+", default=[30_000, 60_000, 120_000])
    for number in parser.parse_args().kernels:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "trace.json")
            write(path, number * _MB_PER_KERNEL)
            kernels, peer, joined, chained = measure(path)
        print(
            f"{kernels:8,} kernels: joined {joined:.2f} s, with every chain {chained:.2f} s "
            f"({1e6 * chained / kernels:.1f} us a kernel), {chained / peer:.2f} of json.load ({peer:.2f} s)"
        )


if __name__ == "__main__":
    main()
