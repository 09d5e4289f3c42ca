"""How much ``profiled`` costs beside a bare ``torch.profiler.profile`` over the same calls, on a GPU.

Run: ``python benchmarks/live.py``. Each round measures both, one after the other, over the same
three calls of a step of about a millisecond; the first rounds are not counted. The bare side is
``torch.profiler.profile(activities=[CPU, CUDA])`` around the calls with a synchronisation at both
ends, and ``export_chrome_trace``. ``profiled`` does the same and adds the canary, a synchronisation
a step, and reading the file into a profile.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pytest_kernelprof.capture import Health
from pytest_kernelprof.options import Settings
from pytest_kernelprof.profiled import Live, Profiled
from pytest_kernelprof.report.layout import Look

ROUNDS, UNCOUNTED, STEPS = 20, 3, 3


def make_step(torch: Any) -> Any:
    """Return a naive attention forward, about 1 ms on an H200."""
    q, k, v = (torch.randn(8, 16, 1024, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    mask = torch.ones(1024, 1024, dtype=torch.bool, device="cuda").triu(1)

    @torch.no_grad()
    def step() -> Any:
        scores = torch.matmul(q, k.transpose(-2, -1)) * 0.125
        return torch.matmul(torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1), v)

    return step


def bare(torch: Any, step: Any, path: Path) -> float:
    """Return the seconds that a bare profile with its export takes."""
    activity = torch.profiler.ProfilerActivity
    torch.cuda.synchronize()
    start = time.perf_counter()
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as profiler:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))
    return time.perf_counter() - start


def ours(torch: Any, step: Any, folder: Path) -> float:
    """Return the seconds that ``profiled`` takes, its own reading included."""
    source = Live(test="benchmark", folder=folder, health=Health(), look=Look(), register=lambda *_: lambda: None)
    profiled = Profiled(Settings(warmup=0, steps=STEPS), source)
    torch.cuda.synchronize()
    start = time.perf_counter()
    profile = profiled(step)
    elapsed = time.perf_counter() - start
    profile.assert_memcpy_count(1)
    return elapsed


def main() -> int:
    """Run the comparison and print it; exit code 1 above the limit of 1.5."""
    import torch

    if not torch.cuda.is_available():
        print("needs a GPU that torch can use")
        return 2
    step = make_step(torch)
    for _ in range(5):
        step()
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS + UNCOUNTED):
            pair = (bare(torch, step, Path(folder) / f"bare{number}.json"), ours(torch, step, Path(folder)))
            if number >= UNCOUNTED:
                pairs.append(pair)
    ratio = statistics.median(mine for _, mine in pairs) / statistics.median(base for base, _ in pairs)
    base_ms, mine_ms = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {ROUNDS} rounds of {STEPS} calls")
    print(f"bare torch.profiler.profile + export: median {base_ms:.2f} ms")
    print(f"profiled:                             median {mine_ms:.2f} ms")
    print(f"ratio of medians {ratio:.2f} (limit 1.5)")
    spread = sorted(mine / base for base, mine in pairs)
    print(f"ratio pair by pair: min {spread[0]:.2f}, median {statistics.median(spread):.2f}, max {spread[-1]:.2f}")
    return int(ratio > 1.5)


if __name__ == "__main__":
    sys.exit(main())
