"""Live on a GPU: counts equal an independent count over the exported file, and what is known of each case."""

from __future__ import annotations

import collections
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_kernelprof import Profile, Profiled

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.kernelprof(device="cuda")
CATEGORIES = {"kernel": "kernels", "gpu_memcpy": "memcpys", "gpu_memset": "memsets"}


def independent_count(path: str) -> dict[str, dict[str, int]]:
    """Count GPU rows by the step of the call with their correlation id; shares no code with the package."""
    rows = [row for row in json.loads(Path(path).read_text())["traceEvents"] if row.get("ph") == "X"]
    steps = [row for row in rows if row["name"].startswith("ProfilerStep#") and row["cat"] == "user_annotation"]
    calls = {row["args"]["correlation"]: row["ts"] for row in rows if row.get("cat") in ("cuda_runtime", "cuda_driver")}
    counts = {step["name"]: collections.Counter(kernels=0, memcpys=0, memsets=0) for step in steps}
    for row in rows:
        if row.get("cat") in CATEGORIES:
            called = calls[row["args"]["correlation"]]
            for step in steps:
                if step["ts"] <= called < step["ts"] + step["dur"]:
                    counts[step["name"]][CATEGORIES[row["cat"]]] += 1
    return {name: dict(count) for name, count in counts.items()}


def check(profile: Profile) -> None:
    """Compare every step with the independent count."""
    seen = {
        step.name: {name: len(getattr(step, name)) for name in ("kernels", "memcpys", "memsets")}
        for step in profile.steps
    }
    assert seen == independent_count(profile._trace.path)
    assert profile.complete
    assert len(profile.orphans.late) == len(profile.orphans.leaked) == 0


def test_elementwise_is_one_kernel(profiled: Profiled) -> None:
    x = torch.ones(1024, device="cuda")

    profile = profiled(lambda: x + 1)

    check(profile)
    profile.assert_single_kernel()
    profile.assert_launch_count(1, api="cudaLaunchKernel")
    profile.assert_no_host_sync()
    profile.assert_kernel("*vectorized_elementwise_kernel*", exactly=1)


def test_an_empty_function_runs_truly_nothing(profiled: Profiled) -> None:
    torch.ones(1, device="cuda")

    profile = profiled(lambda: None)

    check(profile)
    assert profile.kernel_count == 0
    assert profile.host_sync_count == 0
    assert profile.launch_count == 0
    profile.assert_kernel_count(0)
    profile.assert_no_memcpy()


def test_item_waits_and_copies(profiled: Profiled) -> None:
    x = torch.ones(1 << 20, device="cuda")

    profile = profiled(lambda: x.sum().item())

    check(profile)
    profile.assert_host_sync_count(1, launched_by="aten::_local_scalar_dense")
    profile.assert_memcpy_count(1, kind="DtoH")
    profile.assert_no_host_sync(allow=["aten::item"])
    with pytest.raises(AssertionError, match="1 host sync a step, expected none"):
        profile.assert_no_host_sync()


def test_pageable_and_pinned_copies(profiled: Profiled) -> None:
    pageable, pinned = torch.ones(1000), torch.ones(1000).pin_memory()

    slow = profiled(lambda: pageable.to("cuda"))
    fast = profiled(lambda: pinned.to("cuda", non_blocking=True))

    for profile in (slow, fast):
        check(profile)
        profile.assert_memcpy_count(1, kind="HtoD")
        profile.assert_memcpy_bytes(4000)
    slow.assert_memcpy_count(1, pageable=True)
    fast.assert_no_memcpy(pageable=True)
    fast.assert_no_host_sync()


def test_backward_belongs_to_the_region_that_called_it(profiled: Profiled) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(32, 64, device="cuda")

    def step() -> None:
        with torch.profiler.record_function("train"):
            optimizer.zero_grad(set_to_none=True)
            model(x).square().mean().backward()
            optimizer.step()

    profile = profiled(step)

    check(profile)
    assert profile.region("train").kernel_count == profile.kernel_count
    backward = [kernel for kernel in profile.kernels if "autograd::engine" in " ".join(op.name for op in kernel.chain)]
    assert backward
    assert {"train"} <= {region for kernel in backward for region in kernel.regions}
    profile.assert_op_count("autograd::engine::evaluate_function: AddmmBackward0", 2)


def test_graph_replay_counts_every_kernel_and_one_launch(profiled: Profiled) -> None:
    x = torch.ones(1 << 20, device="cuda")

    def work() -> Any:
        y = x
        for _ in range(5):
            y = y * 2 + 1
        return y

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    profile = profiled(graph.replay)

    check(profile)
    profile.assert_kernel_count(10)
    profile.assert_launch_count(1, api="cudaGraphLaunch")
    profile.assert_launch_count(1)
    profile.assert_graphed()


def test_launches_while_capturing_lack_events_rightly(profiled: Profiled) -> None:
    x = torch.ones(1 << 20, device="cuda")

    def capture_and_replay() -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x * 2
        graph.replay()

    profile = profiled.configure(steps_may_differ=True)(capture_and_replay)

    check(profile)
    # The launch that was captured left no event, and none is missing: its kernel ran in the graph.
    graphed = profile.kernels.where(
        lambda kernel: kernel.launch is not None and kernel.launch.name == "cudaGraphLaunch"
    )
    assert len(graphed) == 1
    assert len(profile.launches.named("cudaLaunchKernel")) == len(profile.kernels)


def test_two_streams(profiled: Profiled) -> None:
    x = torch.ones(1 << 20, device="cuda")
    side = torch.cuda.Stream()

    def step() -> Any:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(side)
        return y + 1

    profile = profiled(step)

    check(profile)
    profile.assert_kernel_count(2)
    streams = {kernel.stream for kernel in profile.kernels}
    assert len(streams) == 2
    for stream in streams:
        assert stream is not None
        profile.assert_kernel_count(1, stream=stream)


def test_work_of_another_thread_is_counted_with_its_ops(profiled: Profiled) -> None:
    x = torch.ones(1 << 20, device="cuda")

    def step() -> None:
        thread = threading.Thread(target=lambda: x * 2)
        thread.start()
        thread.join()

    profile = profiled(step)

    check(profile)
    profile.assert_kernel_count(1)
    profile.assert_op_count("aten::mul", 1)


def test_setup_stays_outside_the_window(profiled: Profiled) -> None:
    profile = profiled.configure(setup=lambda: torch.ones(1000).to("cuda"))(lambda x: x.mul_(2))

    check(profile)
    profile.assert_no_memcpy()
    profile.assert_kernel_count(1)
    assert len(profile.outside_steps.all_calls) >= 3


def test_block(profiled: Profiled) -> None:
    x = torch.ones(1024, device="cuda")
    with profiled.block() as handle:
        x + 1
        x * 2

    check(handle.profile)
    handle.profile.assert_kernel_count(2)


def test_gpu_time_is_known(profiled: Profiled) -> None:
    x = torch.ones(1 << 24, device="cuda")

    profile = profiled(lambda: x + 1)

    low, high = profile.gpu_time_spread_ns
    assert 0 < low <= profile.gpu_time_ns <= high
    assert profile.gpu_busy_ns <= high
    assert profile.environment.compute_capability == ".".join(map(str, torch.cuda.get_device_capability()))
    assert profile.environment.torch == torch.__version__
