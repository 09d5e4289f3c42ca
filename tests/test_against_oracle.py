"""Counts, times, chains and regions equal those that brute force finds."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from oracle import Oracle

from pytest_kernelprof import Trace, load_trace

OWN = sorted((Path(__file__).parent / "data/traces_h200").glob("*.json.gz"))
PUBLIC = Path(os.environ.get("KERNELPROF_PUBLIC_TRACES", Path(__file__).parents[2] / "shared/data/traces_public"))
"""Traces of others: read where they are, never copied into the project."""

SMALL = 25_000
"""Most events of a trace that brute force takes: it compares every launch with every range."""


def manifest() -> list[dict[str, str]]:
    if not (PUBLIC / "MANIFEST.tsv").is_file():
        return []
    with (PUBLIC / "MANIFEST.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.fixture
def public() -> list[dict[str, str]]:
    """Return the rows of the manifest; skip where the traces of others are not at hand."""
    rows = manifest()
    if not rows:
        pytest.skip("the public traces are not here (KERNELPROF_PUBLIC_TRACES)")
    return rows


def compare(path: Path) -> int:
    """Compare every GPU event that has a launch; return how many the rules leave open."""
    oracle, trace = Oracle(path), load_trace(path)
    untold = 0
    seen = Counter(
        (event.name, event.launch.name, event.launch.start_ns, tuple(op.name for op in event.chain), event.regions)
        for event in trace.totals.gpu_events
        if event.launch and event.regions_known
    )
    wanted: Counter[tuple[Any, ...]] = Counter()
    for row, launch, chain, regions in oracle.launches():
        if regions is None:
            untold += 1
        else:
            wanted[row["name"], launch["name"], launch["start"], tuple(chain), tuple(regions)] += 1
    assert seen == wanted
    return untold


def sums(trace: Trace) -> tuple[int, int]:
    """Return the sum of all starts and of all durations of a trace in which no event lacks one."""
    events = trace.totals.gpu_events
    starts = [event.start_ns for event in events if event.start_ns is not None]
    durations = [event.duration_ns for event in events if event.duration_ns is not None]
    assert len(starts) == len(durations) == len(events)
    return sum(starts), sum(durations)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name[:-8])
def test_chains_and_regions_of_recorded_traces(path: Path) -> None:
    assert compare(path) == 0


@pytest.mark.parametrize("path", OWN[::5], ids=lambda path: path.name[:-8])
def test_sums_of_recorded_traces(path: Path) -> None:
    assert sums(load_trace(path)) == Oracle(path).sums()


def test_public_traces_have_the_counts_of_their_manifest(public: list[dict[str, str]]) -> None:
    for row in public:
        totals = load_trace(PUBLIC / row["file"]).totals
        wanted = [int(row[name]) for name in ("kernels", "memcpys", "memsets")]
        seen = [getattr(totals, name) for name in ("kernels", "memcpys", "memsets")]
        if not any(wanted):
            assert all(events.unknown.nothing for events in seen), row["file"]
        else:
            assert [len(events.seen) for events in seen] == wanted, row["file"]


def test_public_traces_have_exact_times(public: list[dict[str, str]]) -> None:
    for row in public:
        oracle, trace = Oracle(PUBLIC / row["file"]), load_trace(PUBLIC / row["file"])
        assert sums(trace) == oracle.sums()
        assert oracle.counts() == {
            name: len(getattr(trace.totals, name).seen) for name in ("kernels", "memcpys", "memsets")
        }


def test_public_traces_have_the_chains_and_regions_of_brute_force(public: list[dict[str, str]]) -> None:
    small = [PUBLIC / row["file"] for row in public if int(row["events"]) <= SMALL]

    assert sum(compare(path) for path in small) == 0
    assert len(small) >= 22
