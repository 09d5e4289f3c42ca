"""Live on a GPU: xdist workers, each with a GPU of its own or all with the same.

The first file of its folder, and without a marker: this process must not use a GPU itself, since
the workers would then rightly find another process on theirs.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("xdist", reason="pytest-xdist is not installed")


@pytest.fixture(autouse=True)
def gpus() -> int:
    """Return how many there are; skip where there is none, or this process uses one."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    if torch.cuda.is_initialized():
        pytest.skip("this process uses a GPU already; run the file by itself")
    count: int = torch.cuda.device_count()
    return count


TIMED = """
    import pytest, torch

    @pytest.mark.kernelprof(device="cuda", steps=12)
    @pytest.mark.parametrize("number", range(4))
    def test_time(profiled, number):
        x = torch.ones(1024, device=profiled.device)
        profiled(torch.mul, x, 2).assert_gpu_time(at_most="1 s")
"""


@pytest.mark.parametrize(
    ("workers", "devices", "told"),
    [
        (2, "shared", "*TooNoisy: too noisy to judge: 2 xdist workers may share the GPU (kernelprof_devices = spread*"),
        (8, "spread", "*TooNoisy: too noisy to judge: * of 8 xdist workers share a GPU (? in all)*"),
    ],
)
def test_xdist_workers_share_the_gpu(
    pytester: pytest.Pytester, gpus: int, workers: int, devices: str, told: str
) -> None:
    if gpus >= 8:
        pytest.skip("there is a GPU for each of 8 workers")
    pytester.makepyfile(TIMED)
    result = pytester.runpytest_subprocess("--kernelprof", "-n", str(workers), f"--kernelprof-devices={devices}")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines([told])


def test_a_worker_with_a_gpu_of_its_own_judges_time(pytester: pytest.Pytester, gpus: int) -> None:
    pytester.makepyfile(TIMED)
    workers = str(gpus)
    pytester.runpytest_subprocess("--kernelprof", "-n", workers, "--kernelprof-devices=spread").assert_outcomes(
        passed=4
    )


def test_a_conftest_that_counts_gpus_is_too_early(pytester: pytest.Pytester, gpus: int) -> None:
    """Counting starts the driver, which from then on shows the same GPUs to everybody."""
    pytester.makeconftest("import torch; torch.cuda.is_available()")
    pytester.makepyfile(TIMED)
    result = pytester.runpytest_subprocess("--kernelprof", "-n", "2", "--kernelprof-devices=spread")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["*too noisy to judge: 2 xdist workers may share the GPU: CUDA had started before*"])


def test_each_worker_sees_a_gpu_of_its_own(pytester: pytest.Pytester, gpus: int) -> None:
    if gpus < 2:
        pytest.skip("needs two GPUs")
    pytester.makepyfile(
        """
        import os, pytest, torch

        @pytest.mark.kernelprof(device="cuda")
        @pytest.mark.parametrize("number", range(8))
        def test_gpu(profiled, number):
            assert torch.cuda.device_count() == 1
            profiled(torch.ones, 10, device="cuda").assert_kernel_count(1)
            worker = int(os.environ["PYTEST_XDIST_WORKER"][2:])
            print("GPU of worker", worker, torch.cuda.get_device_properties(0).uuid)
        """
    )
    result = pytester.runpytest_subprocess("--kernelprof", "-n", "2", "--kernelprof-devices=spread", "-rP")
    result.assert_outcomes(passed=8)
    seen = {tuple(line.split()[3:]) for line in result.outlines if line.startswith("GPU of worker")}
    assert len(seen) == 2
    assert len({uuid for _, uuid in seen}) == 2
