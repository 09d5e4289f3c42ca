"""What naming lines of Python costs: nothing while tests pass, one call more where one fails.

Run: ``python benchmarks/explain.py``, on a GPU if torch finds one, else on the CPU. Each round profiles the same
attention twice, in either order, with ``kernelprof_explain = on-failure`` and with ``never``, and asserts what
holds; then once more with an assertion that fails, both ways. The first rounds are not counted.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pytest_kernelprof.capture import Health
from pytest_kernelprof.options import Settings
from pytest_kernelprof.profiled import Live, Profiled
from pytest_kernelprof.report.layout import Look

ROUNDS, UNCOUNTED = 40, 4
WAYS = ("never", "on-failure")


def make_step(torch: Any) -> Any:
    """Return a naive attention forward: about 1 ms on an H200; on a CPU a smaller one, of a few."""
    on_gpu = torch.cuda.is_available()
    device, shape = ("cuda", (8, 16, 1024, 64)) if on_gpu else ("cpu", (1, 4, 128, 64))
    q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))
    mask = torch.ones(shape[2], shape[2], dtype=torch.bool, device=device).triu(1)

    @torch.no_grad()
    def step() -> Any:
        scores = torch.matmul(q, k.transpose(-2, -1)) * 0.125
        return torch.matmul(torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1), v)

    return step


def seconds(step: Any, explain: str, folder: Path, *, fails: bool) -> float:
    """Return the seconds that a profile and an assertion take."""
    source = Live(
        test="benchmark",
        folder=folder,
        health=Health(),
        look=Look(112),
        register=lambda *_: lambda: None,
        explain=explain,
    )
    profiled = Profiled(Settings(), source)
    start = time.perf_counter()
    profile = profiled(step)
    message = ""
    try:
        profile.assert_op_count("aten::masked_fill", 2 if fails else 1)
    except AssertionError as error:
        message = str(error)
    elapsed = time.perf_counter() - start
    if ("explain.py:" in message) != (fails and explain == "on-failure"):
        raise RuntimeError(f"not what was to be measured: {message}")
    return elapsed


def compared(step: Any, folder: Path, *, fails: bool) -> tuple[float, list[float], dict[str, float]]:
    """Return the ratio of medians, the ratios pair by pair, and the medians in seconds."""
    pairs = []
    for number in range(ROUNDS + UNCOUNTED):
        order = WAYS if number % 2 else WAYS[::-1]
        took = {explain: seconds(step, explain, folder, fails=fails) for explain in order}
        if number >= UNCOUNTED:
            pairs.append(took)
    medians = {explain: statistics.median(pair[explain] for pair in pairs) for explain in WAYS}
    ratios = sorted(pair["on-failure"] / pair["never"] for pair in pairs)
    return medians["on-failure"] / medians["never"], ratios, medians


def main() -> int:
    """Run the comparison and print it; exit code 1 if passing tests pay more than 5%."""
    import torch

    step = make_step(torch)
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"{where}, torch {torch.__version__}, {ROUNDS} pairs")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for fails in (False, True):
            ratio, ratios, medians = compared(step, Path(folder), fails=fails)
            low, middle, high = ratios[ROUNDS // 10], statistics.median(ratios), ratios[-ROUNDS // 10]
            print(
                f"{'fails ' if fails else 'passes'}  " + ", ".join(f"{k} {1000 * v:.2f} ms" for k, v in medians.items())
            )
            print(f"        ratio of medians {ratio:.3f}; pair by pair {middle:.3f} (80%: {low:.3f} to {high:.3f})")
            worst = worst if fails else ratio
    return int(worst > 1.05)


if __name__ == "__main__":
    raise SystemExit(main())
