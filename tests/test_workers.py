"""xdist workers and other processes: who uses which GPU, and that time knows."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import run_pytest

from pytest_kernelprof import capture, driver, plugin, workers
from pytest_kernelprof.capture.neighbours import neighbour_on
from pytest_kernelprof.options import RunOptions


@pytest.mark.parametrize(
    ("worker", "count", "visible", "mine", "why"),
    [
        (0, 2, "0,1", "0", None),
        (1, 2, "0,1", "1", None),
        (1, 2, " 5 , 3 ", "3", None),
        (1, 2, "GPU-aa,GPU-bb", "GPU-bb", None),
        (2, 3, "0,1", "0", "2 of 3 xdist workers share a GPU (2 in all)"),
        (1, 3, "0,1", "1", None),
        (3, 4, "7", "7", "4 of 4 xdist workers share a GPU (1 in all)"),
        (2, 2, "0,1", "0", "this xdist worker replaces one that crashed, and may share its GPU with another"),
        (1, 2, "0,0,1", "1", None),
        (1, 2, "0,-1,1", "0", "2 of 2 xdist workers share a GPU (1 in all)"),
        (0, 1, "0,1", "0", None),
    ],
)
def test_each_worker_takes_one_gpu(worker: int, count: int, visible: str, mine: str, why: str | None) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": visible}
    assert workers.take_gpu(worker, count, environment) == why
    assert environment["CUDA_VISIBLE_DEVICES"] == mine


def test_gpus_are_counted_where_no_variable_lists_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver, "device_count", lambda: 2)
    environment: dict[str, str] = {}
    assert workers.take_gpu(1, 2, environment) is None
    assert environment == {"CUDA_VISIBLE_DEVICES": "1"}

    monkeypatch.setattr(driver, "device_count", lambda: None)
    for node, gpu in enumerate(("0", "4711", "4712")):
        (tmp_path / str(node)).mkdir()
        (tmp_path / str(node) / "gpu_id").write_text(f"{gpu}\n")
    monkeypatch.setattr(workers, "_AMD_NODES", tmp_path)
    environment = {}
    assert workers.take_gpu(1, 2, environment) is None
    assert environment == {"HIP_VISIBLE_DEVICES": "1"}


def test_amd_counts_among_what_the_runtime_shows() -> None:
    environment = {"ROCR_VISIBLE_DEVICES": "4,5"}
    assert workers.take_gpu(1, 2, environment) is None
    assert environment == {"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "1"}


def test_without_a_known_gpu_nothing_is_promised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver, "device_count", lambda: None)
    monkeypatch.setattr(workers, "_AMD_NODES", tmp_path)
    environment: dict[str, str] = {}
    assert (workers.take_gpu(0, 2, environment) or "").endswith("how many GPUs there are is not known")
    assert workers.take_gpu(0, 1, environment) is None
    assert environment == {}
    assert (workers.take_gpu(0, 2, {"CUDA_VISIBLE_DEVICES": ""}) or "").endswith("is not known")


def share(
    monkeypatch: pytest.MonkeyPatch, count: int, devices: str, *, begun: bool = False, enabled: bool = True
) -> tuple[str | None, str]:
    config: Any = SimpleNamespace(workerinput={"workerid": "gw1", "workercount": count})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setattr(capture, "cuda_has_begun", lambda: begun)
    told = plugin._share_gpus(config, RunOptions(enabled=enabled, devices=devices))
    return told, os.environ["CUDA_VISIBLE_DEVICES"]


def test_sharing_is_said_of_several_workers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert share(monkeypatch, 1, "shared") == (None, "3,5")
    advice = "4 xdist workers may share the GPU (kernelprof_devices = spread gives each its own)"
    assert share(monkeypatch, 4, "shared") == (advice, "3,5")
    assert share(monkeypatch, 2, "spread") == (None, "5")
    assert share(monkeypatch, 4, "spread") == ("2 of 4 xdist workers share a GPU (2 in all)", "5")
    assert share(monkeypatch, 2, "spread", enabled=False) == (None, "3,5")


def test_after_cuda_began_nobody_can_be_given_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    late = "2 xdist workers may share the GPU: CUDA had started before each could be given its own"
    assert share(monkeypatch, 2, "spread", begun=True) == (late, "3,5")
    assert share(monkeypatch, 1, "spread", begun=True) == (None, "3,5")


@pytest.mark.parametrize(
    ("answer", "torch_says", "begun"), [(0, False, True), (3, False, False), (3, True, True), (100, False, True)]
)
def test_cuda_has_begun_once_the_driver_answers(
    monkeypatch: pytest.MonkeyPatch, answer: int, torch_says: bool, begun: bool
) -> None:
    library = SimpleNamespace(cuDeviceGetCount=lambda _: answer)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    monkeypatch.setitem(
        sys.modules,
        "torch",
        SimpleNamespace(version=SimpleNamespace(hip=None), cuda=SimpleNamespace(is_initialized=lambda: torch_says)),
    )
    assert capture.cuda_has_begun() is begun


def test_whether_hip_has_begun_nothing_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_CUDA", "libnothing.so")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(hip="7.0")))
    assert capture.cuda_has_begun()


def test_two_variables_tell_nothing_for_certain() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "3"}
    assert workers.take_gpu(1, 2, environment) is not None
    assert environment == {"CUDA_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "3"}


def test_without_driver_and_torch_nothing_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(driver, "_CUDA", "libnothing.so")
    assert not capture.cuda_has_begun()


def test_workers_with_names_of_their_own_may_share(monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = SimpleNamespace(workerinput={"workerid": "alpha", "workercount": 2})
    monkeypatch.setattr(capture, "cuda_has_begun", lambda: False)
    told = plugin._share_gpus(config, RunOptions(enabled=True, devices="spread"))
    assert told == "2 xdist workers may share the GPU: the worker has a name of its own, 'alpha'"


class FakeNvml:
    """The driver's library, with what it is to answer."""

    def __init__(self, pids: tuple[int, ...] = (), *, count: int = 2, fails: bool = False) -> None:
        self.pids = pids
        self.count = count
        self.fails = fails

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802 - NVML's name
        count._obj.value = self.count
        return int(self.fails)

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:  # noqa: N802
        assert uuid == b"GPU-12"
        handle._obj.value = 1
        return int(self.fails)

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, found: Any) -> int:  # noqa: N802
        assert isinstance(handle, ctypes.c_void_p)
        count._obj.value = len(self.pids)
        for place, pid in enumerate(self.pids):
            found[place].pid = pid
        return 0


TORCH = SimpleNamespace(
    cuda=SimpleNamespace(get_device_properties=lambda _: SimpleNamespace(uuid="12")), version=SimpleNamespace(hip=None)
)


@pytest.mark.parametrize(
    ("pids", "why"),
    [
        ((), None),
        ((os.getpid(),), None),
        ((4711,), None),  # In a container this process has another id.
        ((os.getpid(), 4711), "another process (pid 4711) uses GPU 0 too"),
        ((4711, os.getpid(), 4712), "another process (pid 4711) uses GPU 0 too"),
        ((4711, 4712), "2 processes use GPU 0"),
    ],
)
def test_other_processes_on_a_gpu(monkeypatch: pytest.MonkeyPatch, pids: tuple[int, ...], why: str | None) -> None:
    monkeypatch.setattr(driver, "_library", lambda: FakeNvml(pids))
    assert neighbour_on(TORCH, 0) == why


def test_a_driver_that_does_not_answer_tells_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_library", lambda: None)
    assert neighbour_on(TORCH, 0) is None
    assert driver.device_count() is None
    monkeypatch.setattr(driver, "_library", lambda: FakeNvml((1, 2), fails=True))
    assert neighbour_on(TORCH, 0) is None
    assert driver.device_count() is None
    monkeypatch.setattr(driver, "_library", FakeNvml)
    assert driver.device_count() == 2
    old = SimpleNamespace(**vars(TORCH))
    old.cuda = SimpleNamespace(get_device_properties=lambda _: SimpleNamespace())
    assert neighbour_on(old, 0) is None


GUARDS = """
    import os, pytest

    @pytest.mark.parametrize("number", range(8))
    def test_gpu(profiled, number):
        print("SEEN", os.environ["PYTEST_XDIST_WORKER"], os.environ.get("CUDA_VISIBLE_DEVICES"), "END")
"""


def seen(result: pytest.RunResult) -> set[tuple[str, str]]:
    lines = [line.split() for line in result.outlines if line.startswith("SEEN")]
    return {(worker, gpu) for _, worker, gpu, _ in lines}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--kernelprof", "--kernelprof-devices=spread"), {("gw0", "3"), ("gw1", "5")}),
        (("--kernelprof", "-o", "kernelprof_devices=spread"), {("gw0", "3"), ("gw1", "5")}),
        (("--kernelprof", "--kernelprof-devices=shared"), {("gw0", "3,5"), ("gw1", "3,5")}),
        (("--kernelprof",), {("gw0", "3,5"), ("gw1", "3,5")}),
    ],
)
def test_workers_see_the_gpus_that_they_are_given(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    expected: set[tuple[str, str]],
) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    pytester.makepyfile(GUARDS)
    result = run_pytest(pytester, "-n", "2", "-rP", *arguments)
    result.assert_outcomes(passed=8)
    assert seen(result) == expected


def test_a_run_without_workers_sees_all_gpus(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "none")
    pytester.makepyfile(GUARDS)
    result = run_pytest(pytester, "-p", "no:xdist", "--kernelprof", "--kernelprof-devices=spread", "-rP")
    assert seen(result) == {("none", "3,5")}
    result.stdout.fnmatch_lines(["kernelprof: on (warmup 3, steps 3), GPUs spread over xdist workers"])


def test_wrong_values_are_refused(pytester: pytest.Pytester) -> None:
    result = run_pytest(pytester, "--kernelprof-devices=each")
    result.stderr.fnmatch_lines(["*--kernelprof-devices='each' is not accepted; accepted: shared or spread"])
