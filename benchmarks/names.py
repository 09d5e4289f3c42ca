"""How long decoding kernel names takes, cold, beside a plain loop of the same rules as regular expressions.

Run: ``python benchmarks/names.py``. Each side is a process of its own that imports what it needs and
goes through the 1,496 names of ``tests/data/names``, alternating, best of seven; interpreter start-up
is not counted. The plain loop compiles every pattern of every rule into a regular expression, once,
and takes the first that matches the name: it finds a role, and nothing else. Then a trace of 120,000
kernels is decoded: each distinct name once.
"""

from __future__ import annotations

import gzip
import importlib
import pkgutil
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

NAMES = Path(__file__).parent.parent / "tests/data/names/seen.txt.gz"
ROUNDS = 7
KERNELS = 120_000


def names() -> list[str]:
    with gzip.open(NAMES, "rt") as lines:
        return lines.read().splitlines()


def decoder(asked: list[str]) -> int:
    """Decode all names; return how many have a role."""
    from pytest_kernelprof.names import decode_kernel

    return sum(decode_kernel(name).recognized for name in asked)


def plain_loop(asked: list[str]) -> int:
    """Return how many names one of the rules matches, tried one after the other."""
    from pytest_kernelprof.names import libraries
    from pytest_kernelprof.names.rules import Rule

    patterns = []
    for module in pkgutil.iter_modules(libraries.__path__):
        loaded = importlib.import_module(f"{libraries.__name__}.{module.name}")
        for value in vars(loaded).values():
            rules = value if isinstance(value, tuple) else (value,)
            patterns += [rule.pattern for rule in rules if isinstance(rule, Rule) and rule.pattern != "*"]
    compiled = [re.compile(as_regex(pattern)) for pattern in patterns]
    return sum(any(pattern.search(name) for pattern in compiled) for name in asked)


def as_regex(pattern: str) -> str:
    """Return the globs of a rule as one regular expression for a whole name."""
    alternatives = (".*".join(map(re.escape, glob.split("*"))) for glob in pattern.split("|"))
    return rf"(?:^|[ :])(?:{'|'.join(alternatives)})(?:[<(]|$)"


SIDES: dict[str, Callable[[list[str]], int]] = {"decoder": decoder, "plain": plain_loop}


def once(side: str) -> None:
    """Print the seconds that one side takes in this process, imports included, and what it found."""
    asked = names()
    started = time.perf_counter()
    found = SIDES[side](asked)
    print(time.perf_counter() - started, found)


def compare() -> None:
    best = dict.fromkeys(SIDES, float("inf"))
    found = dict.fromkeys(SIDES, 0)
    for _ in range(ROUNDS):
        for side in SIDES:
            done = subprocess.run([sys.executable, __file__, side], capture_output=True, text=True, check=True)
            seconds, number = done.stdout.split()
            best[side] = min(best[side], float(seconds))
            found[side] = int(number)
    ours, plain = best["decoder"], best["plain"]
    print(
        f"{len(names()):,} names cold: decoder {ours * 1e3:.0f} ms ({found['decoder']} recognized), plain loop {plain * 1e3:.0f} ms"
    )
    print(f"ratio: {plain / ours:.1f} times as fast as the plain loop")


def trace() -> None:
    """Decode every kernel of a large trace; say how often a name was taken apart."""
    from pytest_kernelprof.names import decode_kernel
    from pytest_kernelprof.names.decoding import _decoded as taken_apart

    asked = names()[:200]
    kernels = (asked * (KERNELS // len(asked) + 1))[:KERNELS]
    taken_apart.cache_clear()
    started = time.perf_counter()
    for name in kernels:
        decode_kernel(name)
    seconds = time.perf_counter() - started
    print(
        f"{KERNELS:,} kernels with {len(asked)} names: {taken_apart.cache_info().misses} decoded, {seconds * 1e3:.0f} ms"
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        once(sys.argv[1])
    else:
        compare()
        trace()
