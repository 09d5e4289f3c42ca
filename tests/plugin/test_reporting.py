"""What a run shows: messages, kept traces, shared profiles, the verdict not measured."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest
from builders import run_pytest, run_pytest_apart

pytestmark = pytest.mark.usefixtures("needs_torch")

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    def run(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=source)
        return run_pytest(pytester, "--kernelprof", *arguments)

    return run


MASKING = """
    import pytest, torch

    def mask(x, m):
        return x.masked_fill(m, 0.0)

    @pytest.fixture
    def profile(profiled):
        return profiled(mask, torch.ones(4, 4), torch.ones(4, 4, dtype=torch.bool))
"""


def test_a_failed_assertion_names_the_op_and_the_kept_trace(run: Run, pytester: pytest.Pytester) -> None:
    result = run(MASKING + "\n    def test_guard(profile):\n        profile.assert_no_op('aten::copy_')")

    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            ">       profile.assert_no_op('aten::copy_')",
            "E       AssertionError: 1 op a step, expected none (named 'aten::copy_')",
            "E *calls  *op  *inside  *at",
            "E *1  *aten::copy_  *aten::masked_fill > aten::clone  test_it.py:4 in mask",
            "E       trace: .kernelprof/test_guard-*.json.gz   open in https://ui.perfetto.dev",
            "test_it.py:*: AssertionError",
            "FAILED test_it.py::test_guard - AssertionError: 1 op a step, expected none*",
        ]
    )
    # Not a line of the package's own code.
    assert "checks.py" not in result.stdout.str()
    (kept,) = (pytester.path / ".kernelprof").glob("*.gz")
    with gzip.open(kept) as file:
        assert json.load(file)["pytest_kernelprof"]["steps"] == 3
    assert (pytester.path / ".kernelprof/.gitignore").read_text() == "*\n"


def test_a_plain_assert_shows_the_same_table_whole(run: Run) -> None:
    source = """
    import torch

    def many(x):
        return torch.stack([x.neg(), x.exp(), x.sqrt(), x.sin(), x.cos(), x.tan(), x.floor()]).relu().sigmoid()

    def test_method(profiled):
        profiled(many, torch.ones(4)).assert_op_count("*", 3)

    def test_plain(profiled):
        assert profiled(many, torch.ones(4)).op_count == 3

    def test_with_message(profiled):
        assert profiled(many, torch.ones(4)).op_count <= 3, "too many"

    def test_turned_round(profiled):
        assert 3 > profiled(many, torch.ones(4)).op_count
    """
    result = run(source)
    result.assert_outcomes(failed=4)
    lines = result.outlines

    def table(test: str) -> tuple[str, list[list[str]]]:
        start = next(i for i, line in enumerate(lines) if line.strip("_ ") == test)
        block = lines[start:]
        first = next(i for i, line in enumerate(block) if "ops a step, expected" in line)
        end = next(i for i, line in enumerate(block) if "trace: .kernelprof" in line)
        return block[first].split("E ")[-1].strip(), [line.split() for line in block[first + 1 : end]]

    _, method = table("test_method")
    assert any("(-v" in line for line in method)
    for test, expected in (
        ("test_plain", "expected 3"),
        ("test_with_message", "expected at most 3"),
        ("test_turned_round", "expected below 3"),
    ):
        headline, rows = table(test)
        assert headline.endswith(expected)
        assert rows == method
    assert "Full output truncated" not in result.stdout.str()
    result.stdout.fnmatch_lines(["E       AssertionError: too many"])


def test_verbose_shows_every_row(run: Run) -> None:
    source = """
    import torch
    def test_plain(profiled):
        many = lambda x: [getattr(x, name)() for name in
            ("neg", "exp", "sqrt", "sin", "cos", "tan", "floor", "sigmoid", "ceil", "round")]
        profiled(many, torch.ones(4)).assert_op_count("*", 3)
    """
    assert "... and 2 more (-v shows all)" in run(source).stdout.str()
    assert "-v shows all" not in run(source, "-v").stdout.str()


def test_passing_tests_keep_nothing(run: Run, pytester: pytest.Pytester) -> None:
    source = MASKING + (
        "\n    def test_guard(profile):"
        "\n        with pytest.raises(AssertionError, match='trace: .kernelprof/test_guard'):"
        "\n            profile.assert_no_op('aten::copy_')"
    )
    run(source).assert_outcomes(passed=1)

    assert not (pytester.path / ".kernelprof").exists()


def test_the_trace_is_kept_for_any_failure_of_its_test(run: Run, pytester: pytest.Pytester) -> None:
    result = run(MASKING + "\n    def test_guard(profile):\n        raise RuntimeError('mine')")

    result.stdout.fnmatch_lines(["*- kernelprof -*", "trace: .kernelprof/test_guard-*.json.gz   open in*"])
    assert list((pytester.path / ".kernelprof").glob("test_guard-*.json.gz"))


def test_traces_that_cannot_be_kept_do_not_hide_the_failure(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / ".kernelprof").write_text("a file where a folder should be")
    result = run(MASKING + "\n    def test_guard(profile):\n        profile.assert_no_op('aten::copy_')")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E       AssertionError: 1 op a step*", "*trace not kept: .kernelprof/test_guard*"])


def test_hostile_parameters_make_good_file_names(run: Run, pytester: pytest.Pytester) -> None:
    source = (
        MASKING
        + """
    @pytest.mark.parametrize("x", ["a/b\\\\..::[c]", "y" * 300, "\\n|`<script>"])
    def test_guard(profile, x):
        profile.assert_no_op("aten::copy_")
    """
    )
    run(source).assert_outcomes(failed=3)

    names = [path.name for path in (pytester.path / ".kernelprof").glob("*.gz")]
    assert len(names) == 3
    assert all(len(name) < 120 and name.isascii() for name in names)


# Not measured


def test_not_measured_fails_unless_told_to_skip(run: Run) -> None:
    source = MASKING + "\n    def test_guard(profile):\n        assert profile.kernel_count <= 5"
    failed = run(source)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["E *NotMeasured: kernels not measured: no GPU context; use device="])

    skipped = run(source, "--kernelprof-not-measured=skip", "-rs")
    skipped.assert_outcomes(skipped=1)
    skipped.stdout.fnmatch_lines(["SKIPPED*test_it.py*: kernels not measured: no GPU context; use device="])


def test_not_measured_is_no_expected_failure(run: Run) -> None:
    source = (
        MASKING
        + """
    @pytest.mark.xfail(raises=AssertionError)
    def test_expected(profile):
        profile.assert_no_memcpy()

    def test_raises(profile):
        with pytest.raises(AssertionError):
            profile.assert_no_memcpy()
    """
    )
    run(source).assert_outcomes(failed=2)


# Sharing


SHARED = """
    import pytest, torch

    CALLS = []

    def mask(x):
        CALLS.append(1)
        return x.neg()

    @pytest.fixture(scope="{scope}")
    def profile({scope}_profiled):
        return {scope}_profiled(mask, torch.ones(4))

    def test_one(profile):
        profile.assert_op_count("aten::neg", 1)
        assert profile.result is not None

    def test_two(profile):
        profile.assert_no_op("aten::copy_")
        assert len(CALLS) == 6

    def test_three(profile):
        profile.assert_op_count("aten::neg", 2)
"""


@pytest.mark.parametrize("scope", ["module", "session"])
def test_one_profile_serves_many_tests(run: Run, pytester: pytest.Pytester, scope: str) -> None:
    result = run(SHARED.format(scope=scope), "--kernelprof-require=1")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["test_it.py::test_one *1 *"])
    assert result.stdout.str().count("test_it.py::test_two") == 0
    (kept,) = (pytester.path / ".kernelprof").glob("*.gz")
    result.stdout.fnmatch_lines([f"*trace: .kernelprof/{kept.name}*"])


def test_the_modules_marker_configures_the_shared_fixture(run: Run) -> None:
    source = """
    import pytest, torch
    pytestmark = pytest.mark.kernelprof(steps=2, warmup=1)
    def test_one(module_profiled):
        assert len(module_profiled(torch.neg, torch.ones(4)).steps) == 2
    """
    run(source).assert_outcomes(passed=1)


def test_rows_say_which_profile_of_a_test(run: Run) -> None:
    source = """
    import torch
    def test_two(profiled):
        profiled(torch.neg, torch.ones(4))
        profiled.configure(name="again")(torch.neg, torch.ones(4))
    """
    result = run(source)

    result.stdout.fnmatch_lines(["test_it.py::test_two *", "test_it.py::test_two (again) *"])


def test_output_is_ascii(run: Run) -> None:
    result = run(
        MASKING + "\n    def test_guard(profile):\n        print(profile)\n        profile.assert_no_op('aten::copy_')"
    )

    assert all(line.isascii() for line in result.outlines if "kernelprof" in line or line.startswith("E "))


# Without torch


NO_TORCH = """
    import sys
    sys.modules["torch"] = None
"""


def test_without_torch_profiling_says_so_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(NO_TORCH)
    pytester.makepyfile(
        """
        import pytest

        def test_guard(profiled):
            profiled(len, "abc")

        @pytest.mark.kernelprof(device="cuda")
        def test_gpu(profiled):
            pass

        def test_other():
            pass
        """
    )
    result = run_pytest_apart(pytester, "--kernelprof", "-rs")

    result.assert_outcomes(failed=1, skipped=1, passed=1)
    result.stdout.fnmatch_lines(["E *CaptureError: profiling needs torch: pip install 'pytest-kernelprof[[]torch]'*"])
    result.stdout.fnmatch_lines(["SKIPPED*: needs cuda: profiling needs torch*"])
