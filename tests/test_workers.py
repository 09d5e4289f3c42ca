"""xdist workers and other processes: who uses which GPU, and that time knows."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace

import pytest

from pytest_kernelprof import nvml, workers
from pytest_kernelprof.capture.neighbours import neighbour_on


@pytest.mark.parametrize(
    ("worker", "count", "visible", "mine", "why"),
    [
        (0, 2, "0,1", "0", None),
        (1, 2, "0,1", "1", None),
        (1, 2, " 5 , 3 ", "3", None),
        (1, 2, "GPU-aa,GPU-bb", "GPU-bb", None),
        (2, 3, "0,1", "0", "2 of 3 xdist workers share a GPU: there are 2 GPUs"),
        (1, 3, "0,1", "1", None),
        (3, 4, "7", "7", "4 of 4 xdist workers share a GPU: there is 1 GPU"),
        (9, 2, "0,1", "1", None),  # A worker that replaces one that crashed has a higher number.
        (0, 1, "0,1", "0", None),
    ],
)
def test_each_worker_takes_one_gpu(worker, count, visible, mine, why):
    environment = {"CUDA_VISIBLE_DEVICES": visible}
    assert workers.take_gpu(worker, count, environment) == why
    assert environment["CUDA_VISIBLE_DEVICES"] == mine


def test_gpus_are_counted_where_no_variable_lists_them(monkeypatch, tmp_path):
    monkeypatch.setattr(nvml, "device_count", lambda: 2)
    environment = {}
    assert workers.take_gpu(1, 2, environment) is None
    assert environment == {"CUDA_VISIBLE_DEVICES": "1"}

    monkeypatch.setattr(nvml, "device_count", lambda: None)
    for node, gpu in enumerate(("0", "4711", "4712")):
        (tmp_path / str(node)).mkdir()
        (tmp_path / str(node) / "gpu_id").write_text(f"{gpu}\n")
    monkeypatch.setattr(workers, "_AMD_NODES", tmp_path)
    environment = {}
    assert workers.take_gpu(1, 2, environment) is None
    assert environment == {"HIP_VISIBLE_DEVICES": "1"}


def test_without_a_known_gpu_nothing_is_promised(monkeypatch, tmp_path):
    monkeypatch.setattr(nvml, "device_count", lambda: None)
    monkeypatch.setattr(workers, "_AMD_NODES", tmp_path)
    environment = {}
    assert workers.take_gpu(0, 2, environment).endswith("how many GPUs there are is not known")
    assert workers.take_gpu(0, 1, environment) is None
    assert environment == {}
    assert workers.take_gpu(0, 2, {"CUDA_VISIBLE_DEVICES": ""}).endswith("is not known")


def test_sharing_is_said_of_several_workers_only():
    assert workers.share_gpu(1) is None
    assert workers.share_gpu(4).startswith("4 xdist workers may share the GPU")


class FakeNvml:
    """The driver's library, with what it is to answer."""

    def __init__(self, pids=(), *, count=2, fails=False):
        self.pids = pids
        self.count = count
        self.fails = fails

    def nvmlDeviceGetCount_v2(self, count):  # noqa: N802 - NVML's name
        count._obj.value = self.count
        return int(self.fails)

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):  # noqa: N802
        assert uuid == b"GPU-12"
        handle._obj.value = 1
        return int(self.fails)

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle, count, found):  # noqa: N802
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
def test_other_processes_on_a_gpu(monkeypatch, pids, why):
    monkeypatch.setattr(nvml, "_library", lambda: FakeNvml(pids))
    assert neighbour_on(TORCH, 0) == why


def test_a_driver_that_does_not_answer_tells_of_nobody(monkeypatch):
    monkeypatch.setattr(nvml, "_library", lambda: None)
    assert neighbour_on(TORCH, 0) is None
    assert nvml.device_count() is None
    monkeypatch.setattr(nvml, "_library", lambda: FakeNvml((1, 2), fails=True))
    assert neighbour_on(TORCH, 0) is None
    assert nvml.device_count() is None
    monkeypatch.setattr(nvml, "_library", FakeNvml)
    assert nvml.device_count() == 2
    old = SimpleNamespace(**vars(TORCH))
    old.cuda = SimpleNamespace(get_device_properties=lambda _: SimpleNamespace())
    assert neighbour_on(old, 0) is None


GUARDS = """
    import os, pytest

    @pytest.mark.parametrize("number", range(8))
    def test_gpu(profiled, number):
        print("SEEN", os.environ["PYTEST_XDIST_WORKER"], os.environ.get("CUDA_VISIBLE_DEVICES"), "END")
"""


def seen(result):
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
def test_workers_see_the_gpus_that_they_are_given(pytester, monkeypatch, arguments, expected):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    pytester.makepyfile(GUARDS)
    result = pytester.runpytest_subprocess("-n", "2", "-rP", *arguments)
    result.assert_outcomes(passed=8)
    assert seen(result) == expected


def test_a_run_without_workers_sees_all_gpus(pytester, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "none")
    pytester.makepyfile(GUARDS)
    result = pytester.runpytest_inprocess("-p", "no:xdist", "--kernelprof", "--kernelprof-devices=spread", "-rP")
    assert seen(result) == {("none", "3,5")}
    result.stdout.fnmatch_lines(["kernelprof: on (warmup 3, steps 3), GPUs spread over xdist workers"])


def test_wrong_values_are_refused(pytester):
    result = pytester.runpytest_inprocess("--kernelprof-devices=each")
    result.stderr.fnmatch_lines(["*--kernelprof-devices='each' is not accepted; accepted: shared or spread"])


def test_after_cuda_began_a_worker_shares(monkeypatch):
    from pytest_kernelprof import capture, plugin
    from pytest_kernelprof.options import RunOptions

    config = SimpleNamespace(workerinput={"workerid": "gw1", "workercount": 2})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setitem(__import__("sys").modules, "torch", SimpleNamespace())
    monkeypatch.setattr(capture, "cuda_has_begun", lambda: True)
    told = plugin._share_gpus(config, RunOptions(enabled=True, devices="spread"))
    assert told.endswith("CUDA had started before pytest-kernelprof could choose one")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,5"
    assert plugin._share_gpus(config, RunOptions(enabled=False, devices="spread")) is None
