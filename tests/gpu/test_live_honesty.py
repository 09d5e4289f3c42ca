"""Live on a GPU: what was not measured is never green, and one bad test does not spoil the next."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_kernelprof import Profiled

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.kernelprof(device="cuda")

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, profiled: Profiled) -> Run:
    """Run a test file in a fresh process; using ``profiled`` makes these tests need a GPU as well."""

    def run(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(textwrap.dedent(source))
        plugin = () if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") is None else ("-p", "pytest_kernelprof.plugin")
        return pytester.runpytest_subprocess(*plugin, "--kernelprof", *arguments)

    return run


def test_a_profiler_that_delivers_nothing_is_not_measured(run: Run) -> None:
    result = run(
        """
        import pytest, torch
        from pytest_kernelprof import capture

        @pytest.fixture(autouse=True)
        def cupti_delivers_nothing(monkeypatch):
            real = torch.profiler.profile
            cpu = [torch.profiler.ProfilerActivity.CPU]
            monkeypatch.setattr(torch.profiler, "profile", lambda activities, **options: real(activities=cpu))

        @pytest.mark.kernelprof(device="cuda")
        def test_guard(profiled):
            x = torch.ones(1024, device="cuda")
            profile = profiled(lambda: x + 1)
            profile.assert_no_memcpy()

        @pytest.mark.kernelprof(device="cuda")
        def test_plain(profiled):
            x = torch.ones(1024, device="cuda")
            assert profiled(lambda: x + 1).kernel_count <= 5
        """,
        "--kernelprof-require=1",
    )

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*NotMeasured: memory copies not measured: the canary kernel on GPU 0 did not arrive*"]
    )
    result.stdout.fnmatch_lines(["*NotMeasured: kernels not measured: the canary kernel*"])
    result.stdout.fnmatch_lines(["kernelprof: 0 profiles measured, --kernelprof-require=1"])


def test_the_example_is_not_measured_either_when_nothing_is_delivered(run: Run, pytestconfig: pytest.Config) -> None:
    examples = pytestconfig.rootpath / "examples/attention"
    nothing = """

@pytest.fixture(autouse=True, scope="session")
def cupti_delivers_nothing():
    real = torch.profiler.profile
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.profiler, "profile", lambda activities, **options: real(activities=cpu))
        yield
"""
    for path in examples.glob("*.py"):
        shutil.copy(path, ".")
    Path("conftest.py").write_text(Path("conftest.py").read_text() + nothing)
    result = run("", "-k", "i1", "test_in_place.py")

    result.assert_outcomes(failed=3)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["E *NotMeasured: kernels not measured: the canary kernel on GPU 0*"])
    assert "AssertionError" not in result.stdout.str()


def test_a_cpu_test_creates_no_gpu_context(run: Run) -> None:
    result = run(
        """
        import torch
        def test_cpu(profiled):
            profile = profiled(lambda: torch.ones(4) + 1)
            profile.assert_op_count("aten::add", 1)
            assert not torch.cuda.is_initialized()
            assert "no GPU context; use device=" in profile.kernels.why_not_measured
        """
    )

    result.assert_outcomes(passed=1)


def test_a_device_side_assert_loses_later_gpu_tests_only(run: Run) -> None:
    result = run(
        """
        import pytest, torch

        @pytest.mark.kernelprof(device="cuda")
        def test_breaks(profiled):
            index = torch.tensor([7], device="cuda")
            profiled(lambda: torch.zeros(3, device="cuda")[index])

        @pytest.mark.kernelprof(device="cuda")
        def test_gpu_after(profiled):
            x = torch.ones(4, device="cuda")
            profiled(lambda: x + 1).assert_kernel_count(1)

        def test_cpu_after(profiled):
            profile = profiled(lambda: torch.ones(4) + 1)
            profile.assert_op_count("aten::add", 1)

        def test_cpu_after_again(profiled):
            profile = profiled(lambda: torch.ones(4) + 1)
            profile.assert_op_count("aten::add", 1)
            with pytest.raises(Exception, match="CUDA context lost in .*test_breaks"):
                profile.assert_kernel_count(0)
        """
    )

    result.assert_outcomes(failed=1, errors=1, passed=2)
    result.stdout.fnmatch_lines(["*the CUDA context was lost: *device-side assert*"])
    result.stdout.fnmatch_lines(["*NotMeasured: not measured: CUDA context lost in *::test_breaks"])


def test_a_context_lost_elsewhere_is_noticed(run: Run) -> None:
    result = run(
        """
        import pytest, torch

        def test_breaks_without_us():
            torch.zeros(3, device="cuda")[torch.tensor([7], device="cuda")]

        @pytest.mark.kernelprof(device="cuda")
        def test_gpu_after(profiled):
            pass

        def test_cpu_after(profiled):
            profiled(lambda: torch.ones(4) + 1).assert_op_count("aten::add", 1)
        """
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*CUDA context lost in a test before *::test_gpu_after"])


def test_another_profiler_inside_or_outside(run: Run) -> None:
    result = run(
        """
        import torch
        from torch.profiler import profile, ProfilerActivity

        def inner():
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
                torch.ones(4, device="cuda") + 1

        def test_inside(profiled):
            profiled.configure(warmup=0)(inner)

        def test_next_is_whole(profiled):
            x = torch.ones(4, device="cuda")
            profiled(lambda: x + 1).assert_kernel_count(1)

        def test_outside(profiled):
            with profile(activities=[ProfilerActivity.CPU]):
                profiled(lambda: torch.ones(4) + 1)

        def test_last_is_whole(profiled):
            x = torch.ones(4, device="cuda")
            profiled(lambda: x + 1).assert_kernel_count(1)
        """
    )

    result.assert_outcomes(failed=2, passed=2)
    result.stdout.fnmatch_lines(["*CaptureError: another torch profiler was already running inside inner*"])
    result.stdout.fnmatch_lines(["*CaptureError: a torch profiler is already active*"])


def test_an_exception_leaves_the_next_test_whole(run: Run) -> None:
    result = run(
        """
        import torch
        calls = []

        def fails_in_call_five():
            calls.append(1)
            if len(calls) == 5:
                raise KeyError("cache")
            return torch.ones(4, device="cuda") + 1

        def test_fails(profiled):
            profiled(fails_in_call_five)

        def test_next_is_whole(profiled):
            x = torch.ones(4, device="cuda")
            profiled(lambda: x + 1).assert_kernel_count(1)
        """
    )

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*raised in call 5 of 6; use setup= or profiled.block() (KeyError: 'cache')"])


def test_counts_are_the_same_in_four_workers(run: Run) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    result = run(
        """
        import pytest, torch

        @pytest.mark.kernelprof(device="cuda")
        @pytest.mark.parametrize("i", range(8))
        def test_add(profiled, i):
            a = torch.ones(1024, device="cuda")
            profile = profiled(lambda: a + 1)
            assert profile.kernel_count == 1
            profile.assert_single_kernel()
        """,
        "-n4",
        "--kernelprof-require=8",
    )

    result.assert_outcomes(passed=8)
