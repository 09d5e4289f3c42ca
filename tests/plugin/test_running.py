"""The flag, the skip and its tally, ``--kernelprof-require``, the summary; plain and under xdist."""

from __future__ import annotations

import pytest
from builders import run_pytest

pytestmark = pytest.mark.usefixtures("needs_torch")

GUARDS = """
    import pytest, torch

    def negate(x):
        return x.neg()

    @pytest.mark.kernelprof(device="cpu")
    def test_guard(profiled):
        profile = profiled(negate, torch.ones(4))
        profile.assert_op_count("aten::neg", 1)

    def test_plain_count(profiled):
        assert profiled(negate, torch.ones(4)).op_count == 1

    def test_other():
        pass
"""


@pytest.fixture(params=[(), ("-n2",)], ids=["plain", "xdist"])
def workers(request: pytest.FixtureRequest) -> tuple[str, ...]:
    arguments: tuple[str, ...] = request.param
    if arguments:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    return arguments


def test_without_the_flag_guards_are_skipped_and_counted_in_the_last_line(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(GUARDS)
    result = run_pytest(pytester, "-rs", *workers)

    result.assert_outcomes(passed=1, skipped=2)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*needs --kernelprof*"])
    assert result.outlines[-1] == "kernelprof: 2 tests were skipped (needs --kernelprof)"


def test_nothing_is_said_where_nothing_was_skipped(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_other(): pass")
    result = run_pytest(pytester)

    assert "kernelprof:" not in result.stdout.str()


def test_with_the_flag_guards_run_and_are_shown(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(GUARDS)
    result = run_pytest(pytester, "--kernelprof", "--kernelprof-require=2", *workers)

    result.assert_outcomes(passed=3)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["kernelprof: on (warmup 3, steps 3)", "*= kernelprof =*", "test *ops"])
    result.stdout.re_match_lines_random([r"test_with\w+\.py::test_guard +1$"])
    result.stdout.fnmatch_lines(["not measured: kernels, copies, syncs, tensor cores, GPU time"])


def test_the_ini_twin_switches_on(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GUARDS)
    pytester.makeini("[pytest]\nkernelprof = true\nkernelprof_steps = 2\nkernelprof_warmup = 1")
    result = run_pytest(pytester)

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["kernelprof: on (warmup 1, steps 2)"])


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="[tool.pytest] came with pytest 9.0")
def test_values_that_toml_typed_are_accepted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GUARDS)
    pytester.makepyprojecttoml(
        """
        [tool.pytest]
        kernelprof = true
        kernelprof_steps = 2
        kernelprof_steps_may_differ = false
        kernelprof_not_measured = "skip"
        kernelprof_activities = ["cpu"]
        """
    )
    result = run_pytest(pytester)

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["kernelprof: on (warmup 3, steps 2)"])


def test_values_in_ini_options_of_pyproject_are_accepted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GUARDS)
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nkernelprof = true\nkernelprof_steps = 2\n")
    result = run_pytest(pytester, "--kernelprof-warmup=2")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["kernelprof: on (warmup 2, steps 2)"])


@pytest.mark.parametrize(
    ("arguments", "ini", "message"),
    [
        (
            ("--kernelprof-steps=0",),
            "",
            "--kernelprof-steps='0' is not accepted; accepted: a whole number of at least 1",
        ),
        (("--kernelprof-steps=lots",), "", "--kernelprof-steps='lots' is not accepted"),
        (
            (),
            "kernelprof_warmup = -1",
            "kernelprof_warmup=*-1* is not accepted; accepted: a whole number of at least 0",
        ),
        ((), "kernelprof = maybe", "kernelprof*'maybe'"),
        (
            (),
            "kernelprof_not_measured = pass",
            "kernelprof_not_measured='pass' is not accepted; accepted: fail or skip",
        ),
        (("--kernelprof-activities=cuda",), "", "--kernelprof-activities='cuda' is not accepted; accepted: a list of"),
    ],
)
def test_wrong_options_are_usage_errors(
    pytester: pytest.Pytester, arguments: tuple[str, ...], ini: str, message: str
) -> None:
    pytester.makepyfile("def test_other(): pass")
    pytester.makeini(f"[pytest]\n{ini}")
    result = run_pytest(pytester, *arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message.replace('[', '[[]')}*"])


def test_a_run_that_measured_too_little_fails(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(GUARDS)
    result = run_pytest(pytester, "--kernelprof", "--kernelprof-require=3", *workers)

    result.assert_outcomes(passed=3)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["kernelprof: 2 profiles measured, --kernelprof-require=3"])


def test_a_run_that_lost_its_flag_fails(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(GUARDS)
    result = run_pytest(pytester, "--kernelprof-require=1", *workers)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["kernelprof: 0 profiles measured, --kernelprof-require=1"])


def test_a_run_that_lost_its_gpu_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.kernelprof(device="xpu")
        def test_guard(profiled):
            raise AssertionError("not reached")

        @pytest.mark.skip(reason="mine")
        @pytest.mark.kernelprof(device="xpu")
        def test_skipped_for_another_reason(profiled):
            raise AssertionError("not reached")
        """
    )
    pytester.makeini("[pytest]\nkernelprof_require = 1")
    result = run_pytest(pytester, "--kernelprof", "-rs", "-q")

    result.assert_outcomes(skipped=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*SKIPPED*test_a_run_that_lost_its_gpu_fails.py*: needs xpu: torch * finds * here"])
    line = "kernelprof: 1 GPU test was skipped because its device is missing"
    assert result.outlines[-1] == f"{line} (--kernelprof-replay=missing-device judges recordings)"
    # There is nothing to replay before something is recorded.
    assert run_pytest(pytester, "--kernelprof-record").outlines[-1] == line


def test_a_profile_that_could_not_answer_its_test_was_not_measured(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        """
        import torch
        def test_guard(profiled):
            profiled(torch.neg, torch.ones(4)).assert_no_memcpy()
        """
    )
    arguments = ("--kernelprof", "--kernelprof-not-measured=skip", "--kernelprof-require=1", *workers)
    result = run_pytest(pytester, *arguments)

    result.assert_outcomes(skipped=1)
    assert result.ret == 1


def test_a_profile_of_a_run_counts_once_whatever_the_workers(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        """
        import pytest, torch

        @pytest.fixture(scope="session")
        def profile(session_profiled):
            return session_profiled(torch.neg, torch.ones(4))

        @pytest.mark.parametrize("number", range(4))
        def test_guard(profile, number):
            profile.assert_op_count("aten::neg", 1)
        """
    )
    assert run_pytest(pytester, "--kernelprof", "--kernelprof-require=2", *workers).ret == 1
    assert run_pytest(pytester, "--kernelprof", "--kernelprof-require=1", *workers).ret == 0


def test_only_listing_tests_requires_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GUARDS)
    pytester.makeini("[pytest]\nkernelprof_require = 1")

    assert run_pytest(pytester, "--collect-only", "-q").ret == 0


def test_the_skip_comes_before_other_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def inputs():
            raise RuntimeError("no GPU to build on")

        @pytest.mark.kernelprof(device="cuda>=99.0")
        def test_guard(inputs, profiled):
            pass
        """
    )
    for arguments in ((), ("--kernelprof",)):
        run_pytest(pytester, *arguments).assert_outcomes(skipped=1)


def test_the_marker_alone_makes_a_guard(pytester: pytest.Pytester) -> None:
    """The profile may come through another fixture."""
    pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.kernelprof(device="cpu")
        def test_guard():
            pass
        """
    )
    run_pytest(pytester).assert_outcomes(skipped=1)
    run_pytest(pytester, "--kernelprof").assert_outcomes(passed=1)


def test_a_fixture_asked_for_at_run_time_is_skipped_and_counted_as_well(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_guard(request): request.getfixturevalue('profiled')")
    result = run_pytest(pytester)

    result.assert_outcomes(skipped=1)
    assert result.outlines[-1] == "kernelprof: 1 test was skipped (needs --kernelprof)"


def test_help_and_markers(pytester: pytest.Pytester) -> None:
    text = run_pytest(pytester, "--help").stdout.str()
    for option in ("--kernelprof ", "--kernelprof-require=N", "--kernelprof-steps=N", "kernelprof_not_measured"):
        assert option in text
    markers = run_pytest(pytester, "--markers").stdout.str()
    assert "@pytest.mark.kernelprof(device=, warmup=, steps=" in markers


def test_no_option_takes_an_optional_value(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_other(): pass")
    result = run_pytest(pytester, "--kernelprof-require")

    assert result.ret == pytest.ExitCode.USAGE_ERROR


MISTAKES = """
    import pytest

    @pytest.mark.kernelprof(step=5)
    def test_one(profiled): pass

    @pytest.mark.kernelprof("cuda")
    def test_two(profiled): pass

    @pytest.mark.kernelprof(device="tpu")
    def test_three(profiled): pass

    @pytest.mark.kernelprof(warmup="some")
    class TestFour:
        def test_four(self, profiled): pass
"""


@pytest.mark.parametrize("arguments", [(), ("--kernelprof",), ("-k", "nothing")])
def test_marker_mistakes_stop_collection_in_one_line_each(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_it=MISTAKES)
    result = run_pytest(pytester, *arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: test_it.py::test_one: kernelprof marker: step=5 is no option; did you mean steps=?",
            "test_it.py::test_two: kernelprof marker: takes keywords only, got 'cuda'; such as device='cuda'",
            "test_it.py::test_three: kernelprof marker: device='tpu' is not accepted; accepted: cpu, cuda, rocm,*",
            "test_it.py::TestFour::test_four: kernelprof marker: warmup='some' is not accepted; accepted: a whole*",
        ]
    )
    assert len([line for line in result.errlines if line.strip()]) == 4


def test_marker_mistakes_stop_a_distributed_run_as_well(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    pytester.makepyfile(test_it=MISTAKES)
    result = run_pytest(pytester, "--kernelprof", "-n2")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = result.stdout.str() + result.stderr.str()
    assert "test_it.py::test_one: kernelprof marker: step=5 is no option; did you mean steps=?" in told
    assert "INTERNALERROR" not in told


def test_quiet_runs_work(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GUARDS)
    quiet = run_pytest(pytester, "--kernelprof", "-q")
    quiet.assert_outcomes(passed=3)
    assert "GPU time" not in quiet.stdout.str()
    assert run_pytest(pytester, "--kernelprof", "-p", "no:terminal").ret == 0


def test_junit_xml_is_written(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GUARDS)
    run_pytest(pytester, "--kernelprof", "--junitxml=out.xml").assert_outcomes(passed=3)

    assert "test_guard" in (pytester.path / "out.xml").read_text()


def test_a_trace_above_the_limit_is_refused_live_and_in_replay(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GUARDS)
    run_pytest(pytester, "--kernelprof-record", "-k", "guard").assert_outcomes(passed=1)

    for mode in ("--kernelprof", "--kernelprof-replay=always"):
        result = run_pytest(pytester, mode, "-k", "guard", "--kernelprof-max-trace-size=1 KiB")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            ["E *holds more than 1.0 KiB; if it can be trusted, raise kernelprof_max_trace_size*"]
        )
    pytester.makeini("[pytest]\nkernelprof_max_trace_size = 64 MiB\n")
    run_pytest(pytester, "--kernelprof", "-k", "guard").assert_outcomes(passed=1)


@pytest.mark.parametrize("size", ["lots", "0", "-5", "1 parsec"])
def test_a_limit_that_is_none_is_a_wrong_call(pytester: pytest.Pytester, size: str) -> None:
    pytester.makepyfile(GUARDS)
    result = run_pytest(pytester, "--kernelprof", f"--kernelprof-max-trace-size={size}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*accepted: a number of bytes, or text such as 512 MiB or 8 GiB*"])
