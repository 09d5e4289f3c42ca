"""A budget as the default of every profiled test."""

from __future__ import annotations

import pytest
from builders import run_pytest

pytestmark = pytest.mark.usefixtures("needs_torch")

TESTS = """
    import pytest, torch

    @pytest.mark.kernelprof(device="cpu")
    class TestOnCpu:
        def test_clones(self, profiled):
            profiled(lambda x: x.clone(), torch.ones(4))

        def test_negates(self, profiled):
            profiled(torch.neg, torch.ones(4))

        def test_in_a_block(self, profiled):
            with profiled.block():
                torch.ones(4).clone()

        @pytest.mark.kernelprof(budget=False)
        def test_without(self, profiled):
            profiled(lambda x: x.clone(), torch.ones(4))

        @pytest.mark.kernelprof(budget="other.toml")
        def test_with_another(self, profiled):
            profiled(torch.neg, torch.ones(4))
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    (pytester.path / "budget.toml").write_text('max_kernels = 5\n[op."aten::clone"]\nmax_calls = 0\n')
    (pytester.path / "other.toml").write_text('[op."aten::neg"]\nmax_calls = 0\n')
    pytester.makepyfile(test_it=TESTS)
    return pytester


def test_every_profile_is_judged_unless_the_marker_says_otherwise(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nkernelprof_budget = budget.toml")
    result = run_pytest(project, "--kernelprof", "-v")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(
        [
            "test_it.py::TestOnCpu::test_clones FAILED*",
            "test_it.py::TestOnCpu::test_negates PASSED*",
            "test_it.py::TestOnCpu::test_in_a_block FAILED*",
            "test_it.py::TestOnCpu::test_without PASSED*",
            "test_it.py::TestOnCpu::test_with_another FAILED*",
        ]
    )
    result.stdout.fnmatch_lines(
        [
            "E       AssertionError: 1 limit of budget.toml broken",
            "E       op 'aten::clone': max_calls = 0",
            "E       1 op a step, expected none (named 'aten::clone')",
            "E       1        aten::clone  (outermost)  test_it.py:6 in <lambda>",
            "E       AssertionError: 1 limit of other.toml broken",
        ]
    )


def test_the_command_line_wins_and_is_below_the_current_folder(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nkernelprof_budget = budget.toml")
    result = run_pytest(project, "--kernelprof", "--kernelprof-budget=other.toml")
    result.assert_outcomes(passed=3, failed=2)


def test_a_gpu_that_was_not_measured_is_no_pass(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        import torch
        def test_it(profiled):
            profiled(torch.neg, torch.ones(4))
        """
    )
    result = run_pytest(project, "--kernelprof", "--kernelprof-budget=budget.toml")
    if result.parseoutcomes().get("passed"):
        pytest.skip("a GPU is in use here")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *NotMeasured: 1 limit of budget.toml not measured", "E *max_kernels = 5"])


def test_regions_that_a_test_does_not_have_are_left_out(project: pytest.Pytester) -> None:
    (project.path / "budget.toml").write_text('[region."decode"]\nno_memcpy = true\n[step.9]\nmax_kernels = 1\n')
    for arguments in ((), ("-n2",)):
        result = run_pytest(project, "--kernelprof", "--kernelprof-budget=budget.toml", *arguments)
        result.assert_outcomes(passed=4, failed=1)
        # A typo must not pass for a limit that was kept.
        result.stdout.fnmatch_lines(
            [
                "kernelprof: budget.toml: region 'decode' is in no profile of this run",
                "kernelprof: budget.toml: step '9' is in no profile of this run",
            ]
        )


def test_cpu_time_of_a_region_is_judged_on_a_test_for_the_cpu_where_it_has_one(project: pytest.Pytester) -> None:
    (project.path / "budget.toml").write_text('[region."decode"]\nmax_cpu_time = "1 h"\n'.replace("1 h", "1000 s"))
    result = run_pytest(project, "--kernelprof", "--kernelprof-budget=budget.toml", "-k", "negates")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(("text", "said"), [("max_kernel = 5", "did you mean 'max_kernels'"), (None, "cannot be read")])
def test_a_budget_that_cannot_be_read_stops_the_run_in_one_line(
    project: pytest.Pytester, text: str | None, said: str
) -> None:
    if text is None:
        (project.path / "budget.toml").unlink()
    else:
        (project.path / "budget.toml").write_text(text)
    result = run_pytest(project, "--kernelprof", "--kernelprof-budget=budget.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: budget.toml: *{said}*"])
    # Without --kernelprof nothing is profiled, and nobody minds.
    run_pytest(project, "--kernelprof-budget=budget.toml").assert_outcomes(skipped=5)


def test_a_marker_that_names_no_file(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        import pytest, torch
        @pytest.mark.kernelprof(device="cpu", budget=5)
        def test_it(profiled):
            pass
        """
    )
    result = run_pytest(project, "--kernelprof")
    result.stderr.fnmatch_lines(["*budget=5 is not accepted; accepted: a TOML file, or False for none"])
