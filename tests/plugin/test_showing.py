"""The hook that sees every profile before its test does."""

from __future__ import annotations

import pytest
from builders import run_pytest

TESTS = """
    import torch

    def test_function(profiled):
        profiled.configure(name="relu")(torch.relu, torch.ones(4))

    def test_block(profiled):
        with profiled.block() as handle:
            torch.relu(torch.ones(4))
        assert handle.profile.op_count

    def test_shared(module_profiled):
        module_profiled(torch.relu, torch.ones(4))
"""
WRITES = """
    def pytest_kernelprof_profile(profile, request):
        print(f"saw {request.node.name}: {profile.ops.named('aten::relu').count} relu")
"""
RULES = """
    def pytest_kernelprof_profile(profile, request):
        profile.assert_no_op("aten::relu")
"""

pytestmark = pytest.mark.usefixtures("needs_torch")


def test_it_sees_the_profiles_of_functions_blocks_and_wider_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(WRITES)
    pytester.makepyfile(test_it=TESTS)

    result = run_pytest(pytester, "--kernelprof", "-s")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["*saw test_function: 1 relu*", "*saw test_block: 1 relu*", "*saw test_it.py: 1 relu*"],
    )


def test_what_it_asserts_fails_the_test_at_the_line_that_profiles(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(RULES)
    pytester.makepyfile(test_it=TESTS)

    result = run_pytest(pytester, "--kernelprof")

    result.assert_outcomes(failed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["E*AssertionError: 1 op a step, expected none (named 'aten::relu')"] * 3)
    result.stdout.fnmatch_lines([">*profile.assert_no_op(*"] * 3)
    for inner in ("*profiled.py*", "*plugin/__init__.py*", "*pluggy*.py*"):
        result.stdout.no_fnmatch_line(inner)


def test_it_is_asked_for_replayed_profiles_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS.replace("module_profiled(torch", "module_profiled.configure(name='m')(torch"))
    run_pytest(pytester, "--kernelprof-record").assert_outcomes(passed=3)
    pytester.makeconftest(RULES)

    run_pytest(pytester, "--kernelprof-replay=always").assert_outcomes(failed=3)


def test_a_conftest_is_asked_for_the_tests_below_it_only(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(**{"strict/test_a": TESTS, "free/test_b": TESTS})
    (pytester.path / "strict/conftest.py").write_text(RULES.replace("\n    ", "\n"))

    run_pytest(pytester, "--kernelprof").assert_outcomes(passed=3, failed=3)


def test_it_comes_ahead_of_a_budget(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(WRITES)
    pytester.makefile(".toml", budget='[op."aten::relu"]\nmax_calls = 0\n')
    pytester.makepyfile(test_it=TESTS)

    result = run_pytest(pytester, "--kernelprof-budget=budget.toml", "--kernelprof", "-k", "function")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*saw test_function: 1 relu*"])
