"""The hook that teaches the plugin kernels of one's own, from a conftest file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import launch, op, run_pytest, step, write

ROOT = Path(__file__).parent.parent.parent
ACME = "acme_gemm_bf16_128x128"
JUDGED = """
    from pathlib import Path
    from pytest_kernelprof import Profile, load_trace

    def test_tensor_cores():
        profile = Profile(load_trace(Path(__file__).parent / "t.json"))
        profile.assert_tensor_cores()
        profile.assert_dtypes({"bf16"})
        profile.assert_guess(gemm=1)
        profile.assert_kernel_count(1, role="gemm")
"""


@pytest.fixture
def judged(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with a trace of one kernel that no rule knows, and a test that judges it."""
    write(pytester.path / "t.json", step(2, 0, 900), op("acme::mm", 5, 60), launch(10, 1, name=ACME))
    pytester.makepyfile(test_it=JUDGED)
    return pytester


def conftest_of_the_docs() -> str:
    page = (ROOT / "docs/names.md").read_text()
    blocks: list[str] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return next(block for block in blocks if "# conftest.py" in block)


def test_without_the_hook_the_kernel_is_unknown(judged: pytest.Pytester) -> None:
    result = run_pytest(judged)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *NotMeasured: tensor cores not measured: 1 kernel with a name*({ACME})*"])


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["plain", "xdist"])
def test_the_conftest_of_the_docs_teaches_it(judged: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    if arguments:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    judged.makeconftest(conftest_of_the_docs())

    run_pytest(judged, *arguments).assert_outcomes(passed=1)


def test_what_was_taught_ends_with_the_run(judged: pytest.Pytester) -> None:
    judged.makeconftest(conftest_of_the_docs())
    run_pytest(judged).assert_outcomes(passed=1)

    from pytest_kernelprof import decode_kernel

    assert not decode_kernel(ACME).recognized


def test_a_hook_goes_ahead_of_the_rules(judged: pytest.Pytester) -> None:
    judged.makeconftest(
        """
        from pytest_kernelprof import KernelName

        def pytest_kernelprof_decode_kernel(name):
            return KernelName(role="norm", tensor_cores="no", library="ours")
        """
    )
    judged.makepyfile(
        test_it="""
        from pytest_kernelprof import decode_kernel

        def test_names():
            assert decode_kernel("ampere_sgemm_128x128_tn").role == "norm"
        """
    )

    run_pytest(judged).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "answer", ["'gemm'", "{'role': 'gemm'}", "KernelName(role='gem')", "KernelName(dtypes='bf16')", "True"]
)
def test_wrong_answers_are_refused_with_the_hooks_name(judged: pytest.Pytester, answer: str) -> None:
    judged.makeconftest(
        f"""
        from pytest_kernelprof import KernelName

        def pytest_kernelprof_decode_kernel(name):
            return {answer}
        """
    )

    result = run_pytest(judged)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *MisuseError: the hook pytest_kernelprof_decode_kernel (*conftest.py) returned *; *"]
    )


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["plain", "xdist"])
def test_a_conftest_teaches_the_tests_of_its_folder_only(judged: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    if arguments:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    judged.makeconftest(conftest_of_the_docs())
    below = judged.mkpydir("below")
    below.joinpath("conftest.py").write_text(conftest_of_the_docs().replace('tensor_cores="yes"', 'tensor_cores="no"'))
    below.joinpath("test_below.py").write_text(
        "from pytest_kernelprof import decode_kernel\n\n"
        "def test_name():\n"
        f"    assert decode_kernel('{ACME}').tensor_cores == 'no'\n"
    )
    judged.makepyfile(test_zz_last=JUDGED)

    run_pytest(judged, "below/test_below.py", "test_it.py", "test_zz_last.py", *arguments).assert_outcomes(passed=3)


def test_an_assertion_that_fails_inside_the_hook_is_no_failed_check(judged: pytest.Pytester) -> None:
    judged.makeconftest("def pytest_kernelprof_decode_kernel(name):\n    assert name is None")

    result = run_pytest(judged)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *MisuseError: the hook pytest_kernelprof_decode_kernel (*) raised AssertionError*"])


def test_an_unknown_hook_of_ours_is_refused(judged: pytest.Pytester) -> None:
    judged.makeconftest("def pytest_kernelprof_decode_kernels(name): pass")

    result = run_pytest(judged)

    assert result.ret != 0
    assert "pytest_kernelprof_decode_kernels" in result.stdout.str() + result.stderr.str()


def test_a_hook_with_a_wrong_argument_is_refused_by_name(judged: pytest.Pytester) -> None:
    judged.makeconftest("def pytest_kernelprof_decode_kernel(kernel): pass")

    result = run_pytest(judged)

    assert result.ret != 0
    assert "pytest_kernelprof_decode_kernel" in result.stdout.str() + result.stderr.str()
