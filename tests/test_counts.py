"""Counts of the recorded traces equal an independent count: plain json and a few lines, no shared code."""

from __future__ import annotations

import collections
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest

from pytest_kernelprof import NotMeasured, Profile, Step, load_trace

TRACES = sorted((Path(__file__).parent / "data/traces_h200").glob("*.json.gz"))
NAMES = {"kernel": "kernels", "gpu_memcpy": "memcpys", "gpu_memset": "memsets"}
WITHOUT_GPU_ROWS = "misc_empty_step"


def independent_counts(path: Path) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Return counts by step and of the whole file; a GPU row belongs to the step of its launch."""
    with gzip.open(path) as file:
        rows = [row for row in json.load(file, parse_float=Decimal)["traceEvents"] if row.get("ph") == "X"]
    launched = {row["args"]["correlation"]: row["ts"] for row in rows if row["cat"] in ("cuda_runtime", "cuda_driver")}
    windows = [row for row in rows if row["cat"] == "user_annotation" and row["name"].startswith("ProfilerStep#")]
    zero = {"kernels": 0, "memcpys": 0, "memsets": 0, "time": 0}
    total, steps = collections.Counter(zero), {row["name"]: collections.Counter(zero) for row in windows}
    for row in rows:
        if row["cat"] not in NAMES:
            continue
        duration = int(row["dur"] * 1000)
        total.update({NAMES[row["cat"]]: 1, "time": duration})
        start = launched.get(row["args"]["correlation"])
        for window in windows:
            if start is not None and window["ts"] <= start < window["ts"] + window["dur"]:
                steps[window["name"]].update({NAMES[row["cat"]]: 1, "time": duration})
    return {name: dict(count) for name, count in steps.items()}, dict(total)


def seen(step: Step) -> dict[str, int]:
    return {
        "kernels": len(step.kernels),
        "memcpys": len(step.memcpys),
        "memsets": len(step.memsets),
        "time": step.gpu_time_ns,
    }


def test_there_are_51_traces() -> None:
    assert len(TRACES) == 51


@pytest.mark.parametrize("path", [p for p in TRACES if WITHOUT_GPU_ROWS not in p.name], ids=lambda p: p.name[:-8])
def test_counts_equal_an_independent_count(path: Path) -> None:
    trace = load_trace(path)
    steps, total = independent_counts(path)

    assert {step.name: seen(step) for step in trace.steps if steps} == steps
    assert seen(trace.totals) == total
    if not steps:
        assert [step.name for step in trace.steps] == ["(whole file)"]
        assert seen(trace.steps[0]) == total


def test_naive_attention_is_five_kernels_a_step_although_the_file_holds_more() -> None:
    profile = Profile(load_trace(TRACES[2]))

    assert TRACES[2].name == "attn_naive.json.gz"
    assert [seen(step)["kernels"] for step in profile.steps] == [5, 5, 5]
    assert (profile.kernel_count, profile.memcpy_count, profile.memset_count) == (5, 1, 1)
    assert len(profile.orphans.leaked) == 2
    assert profile.orphans.late == ()
    assert [warning.code for warning in profile.warnings] == ["leaked"]
    assert profile.complete


def test_a_trace_without_gpu_rows_and_canary_is_not_measured() -> None:
    (path,) = (path for path in TRACES if WITHOUT_GPU_ROWS in path.name)
    profile = Profile(load_trace(path))

    for read in (
        lambda: profile.kernel_count,
        lambda: len(profile.kernels),
        lambda: bool(profile.memcpys),
        lambda: profile.gpu_time_ns,
        lambda: profile.assert_kernel_count(0),
        lambda: profile.assert_no_memcpy(),
        lambda: profile.assert_no_memset(),
    ):
        with pytest.raises(NotMeasured, match="no GPU event and no canary in the trace"):
            read()
    assert profile.launch_count == 0
    assert profile.host_sync_count == 0
    assert not profile.complete


@pytest.mark.parametrize(
    ("name", "syncs", "launches"),
    [
        ("attn_naive", 0, {"cudaLaunchKernel": 3, "cuLaunchKernelEx": 2}),
        ("attn_sdpa_math", 0, {"cudaLaunchKernel": 18, "cudaLaunchKernelExC": 2}),
        ("attn_sdpa_cudnn", 0, {"cuLaunchKernelEx": 1}),
        ("misc_item", 1, {"cudaLaunchKernel": 1}),
        ("misc_nonzero_sync", 1, {"cudaLaunchKernel": 4}),
        ("misc_d2h", 1, {}),
        ("misc_h2d_pinned_async", 0, {}),
        ("misc_graph_replay", 0, {"cudaGraphLaunch": 1}),
        ("misc_compiled_naive", 0, {"cuLaunchKernelEx": 2, "cuLaunchKernel": 1}),
        ("misc_train_item", 1, None),
    ],
)
def test_launches_and_syncs_a_step(name: str, syncs: int, launches: dict[str, int] | None) -> None:
    profile = Profile(load_trace(Path(__file__).parent / f"data/traces_h200/{name}.json.gz"))

    assert profile.host_sync_count == syncs
    if launches is not None:
        assert collections.Counter(launch.name for launch in profile.launches) == launches
