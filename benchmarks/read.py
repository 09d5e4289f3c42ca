"""Compares reading a large trace with named peers, alternating in one run, best of three.

    python benchmarks/read.py [--megabytes 215] [--stacks] [--hta PYTHON]
    python benchmarks/read.py --sizes 1 10 100 1000 [--chart FILE.svg]

Every measurement is a process of its own: the time of the read alone, and the peak memory of the
process. ``--hta`` names the interpreter of an environment with HolisticTraceAnalysis, whose parser
is then compared as well. ``--sizes`` reads traces of these sizes instead, to show that time and
memory grow with the file and no faster; ``--chart`` draws what was seen.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import write

_TIMED = """
import resource, sys, time
path = sys.argv[1]
{setup}
start = time.perf_counter()
{work}
spent = time.perf_counter() - start
print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_WAYS = {
    "json.load": ("import json", "result = json.load(open(path))"),
    "ours, joined": ("from pytest_kernelprof import load_trace", "result = load_trace(path)"),
    "ours, without joins": ("from pytest_kernelprof.load.reading import read", "result = read(path)"),
}
_HTA = (
    "from hta.configs.parser_config import ParserConfig; from hta.common.trace_parser import parse_trace_dataframe",
    "result = parse_trace_dataframe(path, ParserConfig.get_default_cfg())",
)
_GZIP_WAYS = {
    "json.load, .gz": ("import gzip, json", "result = json.load(gzip.open(path))"),
    "ours, joined, .gz": _WAYS["ours, joined"],
}


def measure(python: str, way: tuple[str, str], path: Path) -> tuple[float, float]:
    """Return seconds and MiB of one read in a fresh process."""
    program = _TIMED.format(setup=way[0], work=way[1])
    done = subprocess.run([python, "-c", program, str(path)], capture_output=True, text=True, check=True)
    seconds, memory = done.stdout.split()[-2:]
    return float(seconds), float(memory)


def compare(ways: dict[str, tuple[str, tuple[str, str]]], path: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Return the best time and its memory of each way; the rounds alternate between them."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (python, way) in ways.items():
            found[name].append(measure(python, way, path))
    return {name: min(runs) for name, runs in found.items()}


def show(results: dict[str, tuple[float, float]], peer: str) -> None:
    """Print seconds, MiB and both as ratios to a peer."""
    seconds, memory = results[peer]
    for name, (own_seconds, own_memory) in results.items():
        print(
            f"{name:24}{own_seconds:8.2f} s {own_memory:8.0f} MiB   {seconds / own_seconds:5.2f} times as fast, "
            f"{own_memory / memory:5.2f} of the memory"
        )


def show_growth(folder: Path, sizes: list[float]) -> list[tuple[float, float, float]]:
    """Print how time and memory grow with the file; return MB, seconds and MiB of each."""
    found = []
    for size in sizes:
        path = folder / "t.json"
        events = write(path, size)
        seconds, memory = min(measure(sys.executable, _WAYS["ours, joined"], path) for _ in range(3))
        megabytes = path.stat().st_size / 1e6
        found.append((megabytes, seconds, memory))
        print(f"{megabytes:8.1f} MB {events:9} events {seconds:8.3f} s {memory:8.1f} MiB", flush=True)
    return found


def chart(found: list[tuple[float, float, float]]) -> str:
    """Return seconds and MiB over MB as an SVG picture, both axes logarithmic: a line of slope 1 is linear."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 300" font-family="sans-serif" font-size="12">',
        '<rect width="640" height="300" fill="white"/>',
    ]
    for left, column, unit, name in ((60, 1, "s", "time"), (380, 2, "MiB", "peak memory of the process")):
        low = math.floor(math.log10(min(row[column] for row in found)))
        high = math.ceil(math.log10(max(row[column] for row in found)))
        right = math.ceil(math.log10(max(row[0] for row in found)) - 0.1)

        def place(x: float, y: float, *, left: int = left, low: int = low, high: int = high, right: int = right) -> str:
            across, up = math.log10(x) / right, (math.log10(y) - low) / (high - low)
            return f"{left + 220 * max(across, 0):.1f},{260 - 210 * up:.1f}"

        parts.append(f'<text x="{left}" y="30" font-weight="bold">{name}</text>')
        for power in range(low, high + 1):
            start, end = place(1, 10**power), place(10**right, 10**power)
            parts.append(f'<polyline points="{start} {end}" stroke="#ddd"/>')
            x, y = start.split(",")
            parts.append(f'<text x="{float(x) - 6}" y="{float(y) + 4}" text-anchor="end">{10**power:g} {unit}</text>')
        for power in range(right + 1):
            x, _ = place(10**power, 10**low).split(",")
            parts.append(f'<text x="{x}" y="280" text-anchor="middle">{10**power:g} MB</text>')
        points = [place(row[0], row[column]) for row in found]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#0a58ca" stroke-width="2"/>')
        parts += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3" fill="#0a58ca"/>' for p in points]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Compare as the command line asks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=float, default=215.0)
    parser.add_argument("--stacks", action="store_true", help="with Python frames")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hta", metavar="PYTHON", help="interpreter that can import HolisticTraceAnalysis")
    parser.add_argument("--sizes", type=float, nargs="*", default=[], help="in MB: show the growth instead")
    parser.add_argument("--chart", type=Path, metavar="FILE.svg", help="draw the growth")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.sizes:
            found = show_growth(Path(folder), options.sizes)
            if options.chart:
                options.chart.write_text(chart(found))
            return
        plain, packed = Path(folder, "t.json"), Path(folder, "t.json.gz")
        events = write(plain, options.megabytes, stacks=options.stacks)
        print(f"{plain.stat().st_size / 1e6:.0f} MB, {events} events, Python {sys.version.split()[0]}")
        ways = {name: (sys.executable, way) for name, way in _WAYS.items()}
        if options.hta:
            ways["HolisticTraceAnalysis"] = (options.hta, _HTA)
        results = compare(ways, plain, options.rounds)
        show(results, "json.load")
        if options.hta:
            ratio = results["HolisticTraceAnalysis"][0] / results["ours, joined"][0]
            print(f"ours, joined, is {ratio:.1f} times as fast as HolisticTraceAnalysis")
        write(packed, options.megabytes, stacks=options.stacks)
        show(
            compare({n: (sys.executable, way) for n, way in _GZIP_WAYS.items()}, packed, options.rounds),
            "json.load, .gz",
        )


if __name__ == "__main__":
    main()
