"""Live on a GPU: occupancy, time and memory, against the driver, the allocator and a process beside."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pytest_kernelprof import NotMeasured, Profiled, TooNoisy, theoretical_occupancy

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.kernelprof(device="cuda")
BATCH, HEADS, SEQUENCE, WIDTH = 8, 16, 1024, 64
SCORES = BATCH * HEADS * SEQUENCE * SEQUENCE * 2


@torch.no_grad()
def in_place(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores = scores * WIDTH**-0.5
    scores = scores.masked_fill_(mask, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


@torch.no_grad()
def naive(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores = scores * WIDTH**-0.5
    scores = scores.masked_fill(mask, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)


@torch.no_grad()
def sdpa(q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def pinned(backend: str) -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, backend))


def qkv(sequence: int = SEQUENCE) -> list[Any]:
    shape = (BATCH, HEADS, sequence, WIDTH)
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


def mask() -> Any:
    return torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool, device="cuda").triu(1)


# Memory


def by_the_allocator(function: Callable[..., Any], *args: Any) -> tuple[int, int]:
    """Return peak above the start, and bytes allocated, as torch's public functions tell."""
    function(*args)
    torch.cuda.reset_peak_memory_stats()
    start = torch.cuda.memory_stats()
    result = function(*args)
    end = torch.cuda.memory_stats()
    del result
    key = "allocated_bytes.all."
    return end[key + "peak"] - start[key + "current"], end[key + "allocated"] - start[key + "allocated"]


def test_naive_and_in_place_peak_alike_and_differ_by_one_score_matrix(profiled: Profiled) -> None:
    inputs = [*qkv(), mask()]
    one, other = profiled(naive, *inputs), profiled(in_place, *inputs)

    assert one.peak_memory_bytes == other.peak_memory_bytes
    assert one.peak_memory_bytes / SCORES == pytest.approx(2.06, abs=0.01)
    assert one.allocated_memory_bytes - other.allocated_memory_bytes == SCORES
    assert (one.peak_memory_bytes, one.allocated_memory_bytes) == by_the_allocator(naive, *inputs)
    one.assert_no_device_allocation()
    with pytest.raises(AssertionError, match=r"1.0 GiB allocated in ProfilerStep#0, expected at most 1.0 KiB") as error:
        one.assert_allocated_memory(at_most="1 KiB")
    assert re.search(r"256\.0 MiB +1 +0 +aten::masked_fill > .*empty.* test_live_numbers\.py:\d+", str(error.value))
    assert "function was called once more" in str(error.value)


def test_flash_grows_linearly_with_the_sequence(profiled: Profiled) -> None:
    peaks = []
    with pinned("FLASH_ATTENTION"):
        for sequence in (512, 1024, 2048, 4096):
            profile = profiled(sdpa, *qkv(sequence))
            profile.assert_sdpa_backend("flash")
            peaks.append(profile.peak_memory_bytes)

    assert [peak / peaks[0] for peak in peaks] == pytest.approx([1, 2, 4, 8], rel=0.02)


def test_a_step_that_grows_asks_the_driver(profiled: Profiled) -> None:
    kept = []
    with pytest.raises(AssertionError, match="from the driver in ProfilerStep#"):
        profiled(lambda: kept.append(torch.empty(1 << 28, device="cuda"))).assert_no_device_allocation()


def test_memory_of_a_function_that_resets_the_statistics_is_not_measured(profiled: Profiled) -> None:
    x = torch.ones(1 << 20, device="cuda")

    def resetting() -> Any:
        y = x * 2
        torch.cuda.reset_accumulated_memory_stats()
        return y

    with pytest.raises(NotMeasured, match="the function reset the allocator's statistics"):
        profiled(resetting).assert_allocated_memory(at_most="1 GiB")


def test_a_warm_step_after_a_single_call_finds_the_memory_of_that_call(profiled: Profiled) -> None:
    torch.cuda.empty_cache()
    profile = profiled.configure(warmup=1)(lambda: torch.empty(1 << 28, device="cuda"))
    profile.assert_no_device_allocation()
    profile.assert_peak_memory(4 << 28)


def test_an_allocator_that_was_switched_off_is_not_measured(profiled: Profiled) -> None:
    if not hasattr(torch.cuda.memory, "caching_allocator_enable"):
        pytest.skip("this torch cannot switch its allocator off")
    torch.cuda.memory.caching_allocator_enable(False)
    try:
        profile = profiled(lambda: torch.empty(1 << 20, device="cuda"))
    finally:
        torch.cuda.memory.caching_allocator_enable(True)
    with pytest.raises(NotMeasured, match="switched off, or keeps no statistics"):
        profile.assert_allocated_memory(at_most="1 GiB")


GROWING = """
    import pytest, torch

    KEPT = []

    @pytest.mark.kernelprof(device="cuda")
    def test_grows(profiled):
        profile = profiled(lambda: KEPT.append(torch.empty(1 << 28, device="cuda")))
        profile.assert_no_device_allocation()

    @pytest.mark.kernelprof(device="cuda")
    def test_warm(profiled):
        x = torch.ones(1 << 20, device="cuda")
        profile = profiled(torch.mul, x, 2)
        profile.assert_no_device_allocation()
        profile.assert_allocated_memory(at_most=4 << 20)
"""


def outcomes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> pytest.RunResult:
    monkeypatch.setenv(name, value)
    pytester.makepyfile(GROWING)
    return pytester.runpytest_subprocess("--kernelprof", "-p", "no:xdist")


def test_expandable_segments_ask_the_driver_as_well(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = outcomes(pytester, monkeypatch, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*from the driver in ProfilerStep#*"])


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "without its cache"),
        ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", "cudaMallocAsync"),
    ],
)
def test_an_allocator_without_statistics_is_not_measured(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    result = outcomes(pytester, monkeypatch, name, value)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([f"*NotMeasured: memory not measured: *{why}*"])


def test_a_gpu_that_comes_into_use_late_leaves_memory_not_measured(profiled: Profiled) -> None:
    if torch.cuda.device_count() < 2 or torch._C._cuda_hasPrimaryContext(1):
        pytest.skip("needs a second GPU that is not in use")
    with profiled.block() as handle:
        torch.ones(1 << 20, device="cuda:1")
    with pytest.raises(NotMeasured, match="cuda:1 came into use during the recording"):
        handle.profile.assert_peak_memory(at_most="1 GiB")


def test_memory_is_told_device_by_device(profiled: Profiled) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    here, there = (torch.ones(1 << 20, device=f"cuda:{index}") for index in range(2))

    def both() -> Any:
        return here * 2, (there * 2) * 3

    profile = profiled(both)
    profile.assert_peak_memory(4 << 20, device=0)
    profile.assert_peak_memory(8 << 20, device=1)
    profile.assert_peak_memory(8 << 20)
    with pytest.raises(AssertionError, match=r"8.0 MiB above .* on GPU 1, expected at most 6.0 MiB"):
        profile.assert_peak_memory(at_most="6 MiB")
    with pytest.raises(NotMeasured, match="GPU 5 was not in use; in use: 0, 1"):
        profile.assert_no_device_allocation(device=5)


# Time


def test_in_place_is_faster_than_math_twenty_times_of_twenty(profiled: Profiled) -> None:
    tensors, hidden = qkv(), mask()
    with pinned("MATH"):
        math = profiled.configure(name="math")(sdpa, *tensors)
    for turn in range(20):
        fast = profiled.configure(name=f"in place {turn}")(in_place, *tensors, hidden)
        # Outside the block that pinned the backend: it must be pinned again for the comparison.
        fast.assert_faster_than(math, by=2)
        with pytest.raises(AssertionError, match=r"times as fast .* as in place \d+, GPU time, expected to be faster"):
            math.assert_faster_than(fast)


@pytest.mark.parametrize("size", [16, 512, 2048])
def test_nothing_is_faster_than_itself(profiled: Profiled, size: int) -> None:
    x = torch.randn(size, size, device="cuda")
    for turn in range(10):
        profile = profiled.configure(name=str(turn))(torch.matmul, x, x)
        for clock in ("gpu", "cpu"):
            with pytest.raises((AssertionError, TooNoisy), match="expected at least 1.05 times as fast"):
                profile.assert_faster_than(profile, by=1.05, on=clock)


def test_a_function_that_does_something_else_later_is_not_compared(profiled: Profiled) -> None:
    calls = []

    def changing(x: Any) -> Any:
        calls.append(1)
        return x @ x if len(calls) <= 6 else x + x

    x = torch.ones(512, 512, device="cuda")
    profile = profiled(changing, x)
    with pytest.raises(NotMeasured, match="called again, .*changing did something else"):
        profile.assert_faster_than(profiled(torch.matmul, x, x))


def test_autocast_grad_mode_and_stream_hold_again(profiled: Profiled) -> None:
    model = torch.nn.Linear(256, 256, device="cuda")
    x = torch.randn(64, 256, device="cuda")
    stream = torch.cuda.Stream()
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.cuda.stream(stream):
        one = profiled.configure(name="autocast")(model, x)
    with torch.inference_mode():
        other = profiled.configure(name="inference")(model, x)
    one.assert_dtypes({"bf16"}, role="gemm")
    # Had it been called otherwise, it would have run other kernels, and nothing would be compared.
    for fast, slow in ((one, one), (other, other), (one, other), (other, one)):
        with pytest.raises((AssertionError, TooNoisy), match="expected at least 100 times as fast"):
            fast.assert_faster_than(slow, by=100)
    assert not torch.is_autocast_enabled("cuda")
    assert not torch.is_inference_mode_enabled()


BUSY = """
import sys, torch
a = torch.randn(2048, 2048, device="cuda")
print("ready", flush=True)
while True:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""


def test_beside_another_process_time_is_too_noisy(profiled: Profiled) -> None:
    x = torch.ones(1024, 1024, device="cuda")
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        profile = profiled.configure(name="beside")(torch.matmul, x, x)
        with pytest.raises(TooNoisy, match=r"too noisy to judge: another process \(pid \d+\) uses GPU 0 too"):
            profile.assert_gpu_time(at_most="1 s")
        with pytest.raises(TooNoisy, match="uses GPU 0 too"):
            profile.assert_faster_than(profile)
        profile.assert_kernel_count(1)
        other.kill()
    profiled.configure(name="alone", steps=12)(torch.matmul, x, x).assert_gpu_time(at_most="1 s")


# Occupancy


def test_occupancy_is_what_the_driver_computes(profiled: Profiled) -> None:
    triton = pytest.importorskip("triton", reason="triton is not installed")
    import triton.language as tl

    # Triton compiles annotations too, and names its constants in capitals.
    @triton.jit
    def double(x, y, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
        at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        tl.store(y + at, tl.load(x + at) * 2)

    x = torch.ones(1 << 16, device="cuda")
    capability = torch.cuda.get_device_capability()
    for size, warps in ((32, 1), (1024, 4), (8192, 4), (16384, 8), (1024, 32)):
        y = torch.empty_like(x)
        compiled = double[(len(x) // size,)](x, y, SIZE=size, num_warps=warps)
        profile = profiled(
            lambda size=size, warps=warps, y=y: double[(len(x) // size,)](x, y, SIZE=size, num_warps=warps)
        )
        blocks = ctypes.c_int()
        shared = compiled.metadata.shared
        failed = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(blocks), ctypes.c_void_p(compiled.function), 32 * warps, ctypes.c_size_t(shared)
        )
        assert failed == 0
        (kernel,) = profile.kernels
        most = torch.cuda.get_device_properties(0).max_threads_per_multi_processor // 32
        assert kernel.occupancy is not None
        assert kernel.registers_per_thread is not None
        assert kernel.shared_memory_bytes is not None
        assert kernel.occupancy.blocks == blocks.value
        assert kernel.theoretical_occupancy == blocks.value * warps / most
        assert kernel.theoretical_occupancy == theoretical_occupancy(
            32 * warps, kernel.registers_per_thread, kernel.shared_memory_bytes, capability
        )
        profile.assert_occupancy(blocks.value * warps / most)


def test_reported_zero_is_no_measurement_and_decides_nothing(profiled: Profiled) -> None:
    with pinned("CUDNN_ATTENTION"):
        profile = profiled(sdpa, *qkv())
    (kernel,) = profile.kernels.role("attention")
    assert kernel.reported_occupancy is None
    profile.assert_occupancy(at_least=0.1, role="attention")
    with pytest.raises(AssertionError) as error:
        profile.assert_occupancy(at_least=0.9, role="attention")
    assert "18.75%" in str(error.value)
    assert re.search(r"registers, shared memory(\s+reported)?\s+none", str(error.value))  # In a row, or in lines.
