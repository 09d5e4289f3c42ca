"""Guards of many shapes, recorded on an H200 and replayed everywhere: same verdicts, same messages.

Copied to ``test_guards.py`` to run, since many are meant to fail. What needs a GPU (streams, graphs,
pinned memory) is made inside the profiled functions or by ``setup=``, which replay does not call.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from pytest_kernelprof import Profile, Profiled

pytestmark = pytest.mark.kernelprof(device="cuda")


def scores_of(q: Any, k: Any) -> Any:
    return torch.matmul(q, k.transpose(-2, -1)) * 0.125


@torch.no_grad()
def naive(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return torch.matmul(torch.softmax(scores_of(q, k).masked_fill(mask, float("-inf")), dim=-1), v)


@torch.no_grad()
def in_place(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return torch.matmul(torch.softmax(scores_of(q, k).masked_fill_(mask, float("-inf")), dim=-1), v)


def inputs(device: Any) -> tuple[Any, ...]:
    q, k, v = (torch.randn(2, 4, 256, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    return q, k, v, torch.ones(256, 256, dtype=torch.bool, device=device).triu(1)


def double(x: Any) -> Any:
    return x * 2


def test_naive_kernels(profiled: Profiled) -> None:
    profile = profiled(naive, *inputs(profiled.device))
    profile.assert_kernel_count(5)
    profile.assert_no_host_sync()


def test_naive_copy_fails(profiled: Profiled) -> None:
    profiled(naive, *inputs(profiled.device)).assert_no_memcpy()


def test_naive_bytes(profiled: Profiled) -> None:
    profiled(naive, *inputs(profiled.device)).assert_memcpy_bytes(2 * 4 * 256 * 256 * 2)


def test_in_place_no_copy(profiled: Profiled) -> None:
    profiled(in_place, *inputs(profiled.device)).assert_no_memcpy()


def test_in_place_memset(profiled: Profiled) -> None:
    profiled(in_place, *inputs(profiled.device)).assert_no_memset(ignore_library=True)


def test_sequence_passes(profiled: Profiled) -> None:
    profiled(in_place, *inputs(profiled.device)).assert_kernel_sequence([..., "*softmax*", ...])


def test_sequence_fails(profiled: Profiled) -> None:
    profiled(in_place, *inputs(profiled.device)).assert_kernel_sequence(["*softmax*", ...])


def test_single_kernel(profiled: Profiled) -> None:
    profiled(double, torch.ones(1024, device=profiled.device)).assert_single_kernel()


def test_plain_assert_fails(profiled: Profiled) -> None:
    assert profiled(naive, *inputs(profiled.device)).kernel_count == 4


def test_checks_fail_together(profiled: Profiled) -> None:
    profile = profiled(naive, *inputs(profiled.device))
    with profile.checks():
        profile.assert_no_memcpy(kind="DtoD")
        profile.assert_no_kernel("*softmax*")
        profile.assert_kernel_count(5)


def test_item_fails(profiled: Profiled) -> None:
    profiled(lambda x: x.sum().item(), torch.ones(4096, device=profiled.device)).assert_no_host_sync()


def test_item_allowed(profiled: Profiled) -> None:
    profile = profiled(lambda x: x.sum().item(), torch.ones(4096, device=profiled.device))
    profile.assert_no_host_sync(allow=["aten::item"])
    profile.assert_memcpy_count(1, kind="DtoH", launched_by="aten::item")


def test_boolean_mask(profiled: Profiled) -> None:
    x = torch.ones(4096, device=profiled.device)
    profile = profiled(lambda x: x[x > 0], x)
    profile.assert_op_count("aten::nonzero", 1)
    profile.assert_host_sync_count(1)


def test_pageable_copy_fails(profiled: Profiled) -> None:
    profile = profiled.configure(setup=lambda: torch.ones(1000))(lambda x: x.to("cuda"))
    profile.assert_memcpy_count(1, kind="HtoD")
    profile.assert_no_memcpy(pageable=True)


def test_pinned_copy(profiled: Profiled) -> None:
    profile = profiled.configure(setup=lambda: torch.ones(1000).pin_memory())(lambda x: x.to("cuda", non_blocking=True))
    profile.assert_no_memcpy(pageable=True)
    profile.assert_no_host_sync()


def two_streams(x: Any) -> Any:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    return y + 1


def test_two_streams(profiled: Profiled) -> None:
    profile = profiled.configure(steps_may_differ=True)(two_streams, torch.ones(1 << 20, device=profiled.device))
    profile.assert_kernel_count(2)
    assert len({kernel.stream for kernel in profile.kernels}) == 2


class Replayed:
    """Captures a graph when it is first called, and replays it from then on."""

    def __init__(self) -> None:
        self.graph: Any = None

    def __call__(self, x: Any) -> None:
        if self.graph is None:
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                for _ in range(3):
                    x = x * 2
        self.graph.replay()


def test_graph(profiled: Profiled) -> None:
    profile = profiled(Replayed(), torch.ones(1 << 16, device=profiled.device))
    profile.assert_kernel_count(3)
    profile.assert_launch_count(1)
    profile.assert_graphed()


def test_graph_fails(profiled: Profiled) -> None:
    profiled(double, torch.ones(1024, device=profiled.device)).assert_graphed()


def train(model: Any, x: Any) -> None:
    with torch.profiler.record_function("train"):
        model.zero_grad(set_to_none=True)
        model(x).square().mean().backward()


def test_backward_region(profiled: Profiled) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to(profiled.device)
    profile = profiled(train, model, torch.randn(32, 64, device=profiled.device))
    assert profile.region("train").kernel_count == profile.kernel_count
    profile.assert_op_count("autograd::engine::evaluate_function: AddmmBackward0", 2)


def test_region_that_is_not_there_raises(profiled: Profiled) -> None:
    profiled(double, torch.ones(1024, device=profiled.device)).assert_kernel_count(1, region="train")


def test_block(profiled: Profiled) -> None:
    x = torch.ones(1024, device=profiled.device)
    with profiled.block() as handle:
        x + 1
        x * 2
    handle.profile.assert_kernel_count(2)


def test_two_profiles(profiled: Profiled) -> None:
    x = torch.ones(1024, device=profiled.device)
    first = profiled(double, x)
    second = profiled.configure(name="in place")(torch.Tensor.mul_, x, 2)
    first.assert_op_count("aten::mul", 1)
    second.assert_no_op("aten::mul")
    second.assert_op_count("aten::mul_", 1)


class TestInAClass:
    def test_count(self, profiled: Profiled) -> None:
        profiled(double, torch.ones(1024, device=profiled.device)).assert_kernel_count(1)

    def test_count_fails(self, profiled: Profiled) -> None:
        profiled(double, torch.ones(1024, device=profiled.device)).assert_kernel_count(2)


@pytest.mark.parametrize("name", ["a/b::[c]", "x" * 300, "plain"], ids=["a/b::[c]", "x" * 300, "plain"])
def test_parameters(profiled: Profiled, name: str) -> None:
    profiled(double, torch.ones(1024, device=profiled.device)).assert_kernel_count(1)


def test_steps_that_disagree_fail(profiled: Profiled) -> None:
    sizes = iter([8, 8, 8, 8, 16, 8])

    def grow(x: Any) -> None:
        for _ in range(next(sizes) // 8):
            x = x * 2

    profiled(grow, torch.ones(1024, device=profiled.device)).assert_kernel_count(1)


def in_a_thread(x: Any) -> None:
    thread = threading.Thread(target=lambda: x * 2)
    thread.start()
    thread.join()


def test_ops_of_another_thread(profiled: Profiled) -> None:
    profile = profiled(in_a_thread, torch.ones(1024, device=profiled.device))
    profile.assert_kernel_count(1)
    profile.assert_op_count("aten::mul", 1)


def test_memory_of_other_kinds_fails(profiled: Profiled) -> None:
    profiled(lambda x: x.to(torch.float64), torch.ones(1024, device=profiled.device)).assert_no_op("aten::_to_copy")


def nothing() -> None:
    return None


def test_nothing_is_measured_nothing(profiled: Profiled) -> None:
    profile = profiled(nothing)
    assert profile.kernel_count == 0
    profile.assert_no_memcpy()


def test_sort(profiled: Profiled) -> None:
    profiled(lambda x: x.sort(), torch.randn(1 << 12, device=profiled.device)).assert_memcpy_count(at_most=0)


@pytest.fixture(scope="module")
def shared(module_profiled: Profiled) -> Profile:
    return module_profiled.configure(name="shared")(double, torch.ones(2048, device=module_profiled.device))


def test_shared_fixture_passes(shared: Profile) -> None:
    shared.assert_kernel_count(1)


def test_shared_fixture_fails(shared: Profile) -> None:
    shared.assert_no_kernel("*elementwise*")


@pytest.mark.kernelprof(trace="one trace")
def test_shared_trace_passes(profiled: Profiled) -> None:
    profiled(double, torch.ones(4096, device=profiled.device)).assert_kernel_count(1)


@pytest.mark.kernelprof(trace="one trace")
def test_shared_trace_fails(profiled: Profiled) -> None:
    profiled(double, torch.ones(4096, device=profiled.device)).assert_op_count("aten::mul", 2)


@pytest.mark.kernelprof(steps=5, warmup=1)
def test_other_settings(profiled: Profiled) -> None:
    profile = profiled(double, torch.ones(1024, device=profiled.device))
    assert len(profile.steps) == 5
    profile.assert_launch_count(1, api="cudaLaunchKernel")


# Occupancy, time and memory

SCORES = 2 * 4 * 256 * 256 * 2
"""Bytes of one score matrix."""


def test_occupancy(profiled: Profiled) -> None:
    profile = profiled(in_place, *inputs(profiled.device))
    profile.assert_occupancy(role="softmax", at_least=0.5)


def test_occupancy_fails(profiled: Profiled) -> None:
    profiled(in_place, *inputs(profiled.device)).assert_occupancy(at_least=0.5)


def test_memory(profiled: Profiled) -> None:
    naive_step = profiled.configure(name="naive")(naive, *inputs(profiled.device))
    in_place_step = profiled.configure(name="in place")(in_place, *inputs(profiled.device))
    assert naive_step.peak_memory_bytes == in_place_step.peak_memory_bytes
    assert naive_step.allocated_memory_bytes - in_place_step.allocated_memory_bytes == SCORES
    in_place_step.assert_peak_memory(between=(2 * SCORES, 3 * SCORES))
    in_place_step.assert_no_device_allocation()


def test_peak_memory_fails(profiled: Profiled) -> None:
    profiled(naive, *inputs(profiled.device)).assert_peak_memory(at_most=SCORES)


def test_allocated_memory_fails(profiled: Profiled) -> None:
    profiled(naive, *inputs(profiled.device)).assert_allocated_memory(at_most="3 MiB")


def test_memory_of_a_region_is_not_measured(profiled: Profiled) -> None:
    profiled(train_step, torch.ones(64, 64, device=profiled.device)).region("train").assert_peak_memory(at_most=1)


def train_step(x: Any) -> Any:
    with torch.profiler.record_function("train"):
        return x @ x


KEPT: list[Any] = []


def keep(x: Any) -> None:
    KEPT.append(torch.empty(64 << 20, device=x.device))


def test_driver_allocation_fails(profiled: Profiled) -> None:
    profiled(keep, torch.ones(1, device=profiled.device)).assert_no_device_allocation()


def matmul(x: Any) -> Any:
    return x @ x


def matmul_five_times(x: Any) -> Any:
    for _ in range(5):
        y = x @ x
    return y


def square(device: Any) -> Any:
    return torch.ones(1024, 1024, device=device, dtype=torch.bfloat16)


def test_gpu_time(profiled: Profiled) -> None:
    profile = profiled.configure(steps=12)(matmul, square(profiled.device))
    profile.assert_gpu_time(at_most="1 s", at_least=1)
    profile.assert_gpu_time(at_most="1 s", role="gemm")


def test_gpu_time_fails(profiled: Profiled) -> None:
    profiled.configure(steps=12)(matmul, square(profiled.device)).assert_gpu_time(at_most=1)


def test_gpu_time_of_one_step_is_too_noisy(profiled: Profiled) -> None:
    profiled.configure(steps=1)(matmul, square(profiled.device)).assert_gpu_time(at_most="1 s")


def test_cpu_time_of_a_region(profiled: Profiled) -> None:
    profile = profiled.configure(steps=20)(train_step, square(profiled.device))
    profile.assert_cpu_time(at_most="1 s", region="train")
    assert profile.region("train").cpu_time_ns < profile.cpu_time_ns


def test_cpu_time_fails(profiled: Profiled) -> None:
    profiled.configure(steps=20)(train_step, square(profiled.device)).assert_cpu_time(at_most="1 us", region="tr*")


def test_faster(profiled: Profiled) -> None:
    once = profiled.configure(name="once")(matmul, square(profiled.device))
    five = profiled.configure(name="five times")(matmul_five_times, square(profiled.device))
    once.assert_faster_than(five, by=3)
    once.assert_faster_than(five, by=3, role="gemm")
    once.assert_faster_than(five, steps=30)


def test_faster_fails(profiled: Profiled) -> None:
    once = profiled.configure(name="once")(matmul, square(profiled.device))
    five = profiled.configure(name="five times")(matmul_five_times, square(profiled.device))
    five.assert_faster_than(once)


def test_nothing_is_faster_than_itself(profiled: Profiled) -> None:
    once = profiled(matmul, square(profiled.device))
    once.assert_faster_than(once, by=1.05)


def test_a_block_is_compared_with_nothing(profiled: Profiled) -> None:
    x = square(profiled.device)
    once = profiled(matmul, x)
    with profiled.block() as handle:
        matmul(x)
    once.assert_faster_than(handle.profile)
