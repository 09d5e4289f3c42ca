"""What a run writes and says beside its messages: reports, properties, annotations, kept traces, the table."""

from __future__ import annotations

import json
import os
import re
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import PLUGINS_OFF, run_pytest, run_pytest_apart

from pytest_kernelprof.documents import problem
from pytest_kernelprof.recordings import artifact_name

pytestmark = pytest.mark.usefixtures("needs_torch")

Run = Callable[..., pytest.RunResult]
SOURCE = """
    import pytest, torch

    def mask(x, m):
        return x.masked_fill(m, 0.0)

    def profile_of(profiled):
        return profiled(mask, torch.ones(4, 4), torch.ones(4, 4, dtype=torch.bool))

    @pytest.fixture
    def profile(profiled):
        return profile_of(profiled)
"""
PASSES = "\n    def test_passes(profile):\n        profile.assert_op_count('aten::copy_', 1)\n"
FAILS = "\n    def test_fails(profile):\n        profile.assert_no_op('aten::copy_')\n"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as on nobody's CI."""
    for name in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    def run(source: str, *arguments: str, name: str = "test_it") -> pytest.RunResult:
        pytester.makepyfile(**{name: SOURCE + source})
        return run_pytest(pytester, "--kernelprof", *arguments)

    return run


def report_of(folder: Path, name: str = "report.json") -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / name).read_text())
    assert problem(report, "report-1") is None
    return report


JSON = "--kernelprof-report=report.json"

# The JSON report


def test_each_test_has_the_verdict_that_fits_what_became_of_it(run: Run, pytester: pytest.Pytester) -> None:
    source = (
        PASSES
        + FAILS
        + """
    def test_not_measured(profile):
        profile.assert_kernel_count(5)

    def test_selector(profile):
        profile.assert_op_count("aten::copy_", 1, region="nope")

    def test_error(profiled):
        raise RuntimeError("mine")

    def test_measures_nothing(profiled):
        pass

    @pytest.mark.xfail(reason="known")
    def test_expected(profile):
        profile.assert_no_op("aten::copy_")

    @pytest.mark.xfail
    def test_better(profile):
        profile.assert_op_count("aten::copy_", 1)

    @pytest.mark.xfail(strict=True)
    def test_too_good(profile):
        profile.assert_op_count("aten::copy_", 1)

    @pytest.mark.kernelprof(device="cuda")
    def test_gpu(profiled):
        pass

    def test_plain(profile):
        assert profile.op_count == 3

    @pytest.fixture
    def broken(profile):
        profile.assert_no_op("aten::copy_")

    def test_set_up(broken):
        pass

    @pytest.fixture
    def late(profile):
        yield
        raise RuntimeError("late")

    def test_tear_down(late):
        pass

    def test_other():
        assert False
    """
    )
    run(source, JSON)

    report = report_of(pytester.path)
    assert {test["id"].partition("::")[2]: (test["outcome"], test["verdict"]) for test in report["tests"]} == {
        "test_passes": ("passed", "pass"),
        "test_fails": ("failed", "fail"),
        "test_not_measured": ("failed", "not measured"),
        "test_selector": ("failed", "error"),
        "test_error": ("failed", "error"),
        "test_measures_nothing": ("passed", "not measured"),
        "test_expected": ("xfailed", "expected failure"),
        "test_better": ("xpassed", "pass"),
        "test_too_good": ("failed", "fail"),
        "test_gpu": ("skipped", "skipped"),
        "test_plain": ("failed", "fail"),
        "test_set_up": ("error", "fail"),
        "test_tear_down": ("error", "error"),
    }
    assert report["verdict"] == "fail"
    told = {test["id"].partition("::")[2]: test["message"].partition("\n")[0] for test in report["tests"]}
    assert told["test_fails"] == "1 op a step, expected none (named 'aten::copy_')"
    assert told["test_error"] == "RuntimeError: mine"
    assert told["test_expected"] == "known"
    assert told["test_gpu"].startswith("needs cuda")
    assert "ops a step, expected 3" in told["test_plain"]
    assert told["test_measures_nothing"] == "it passed, and nothing was measured"


def test_a_failure_is_told_with_its_lines_and_its_trace(run: Run, pytester: pytest.Pytester) -> None:
    run(FAILS, JSON)

    report = report_of(pytester.path)
    (test,), (profile,) = report["tests"], report["profiles"]
    lines = (pytester.path / "test_it.py").read_text().splitlines()
    assert lines[test["at"]["line"] - 1].strip() == "profile.assert_no_op('aten::copy_')"
    assert lines[test["line"] - 1].startswith("def test_fails")
    (check,) = test["checks"]
    (guilty,) = check["at"]
    assert (guilty["file"], guilty["function"], guilty["exact"]) == ("test_it.py", "mask", True)
    assert lines[guilty["line"] - 1].strip() == "return x.masked_fill(m, 0.0)"
    assert (pytester.path / profile["trace"]).exists()
    for evidence in check["evidence"]:
        step = profile["details"]["steps"][evidence["step"]]
        kind = step[evidence["class"]]["kinds"][evidence["index"]]
        assert profile["details"]["kinds"][evidence["class"]][kind]["name"] == "aten::copy_"
    assert test["profiles"] == [profile["id"]] == ["test_it.py::test_fails#1"]


def test_budgets_and_narrowed_profiles_say_who_asked_and_of_what(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "budget.toml").write_text('[op."aten::copy_"]\nmax_calls = 1\n')
    source = """
    def test_it(profiled):
        def work(x):
            with torch.profiler.record_function("half"):
                return x.clone()
        profile = profiled.configure(steps_may_differ=True)(work, torch.ones(4))
        profile.region("half").assert_op_count("aten::clone", 1)
        profile.only_steps("0").assert_op_count("aten::clone", 1)
        with pytest.raises(AssertionError):
            profile.assert_no_op("aten::clone")
    """
    run(source, JSON, "--kernelprof-budget=budget.toml").assert_outcomes(passed=1)

    budget, region, step, expected = report_of(pytester.path)["tests"][0]["checks"]
    assert (budget["asked_by"], budget["assertion"]) == (
        'budget.toml: op "aten::copy_": max_calls = 1',
        "assert_op_count",
    ) or budget["asked_by"].startswith("budget.toml: ")
    assert (region["asked_by"], region["regions"], len(region["steps"])) == ("test", ["half"], 3)
    assert (step["regions"], step["steps"], step["steps_may_differ"]) == ([], ["ProfilerStep#0"], True)
    assert expected["outcome"] == "fail"


def without_times(report: dict[str, Any]) -> Any:
    """Return a report without what differs from one live run to the next: times, ids of processes, the date."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cleaned(one) for key, one in value.items() if not key.endswith("_ns") and key != "thread"}
        return [cleaned(one) for one in value] if isinstance(value, list) else value

    provenance = {key: value for key, value in report["provenance"].items() if key != "date"}
    return cleaned({**report, "provenance": provenance})


SHARED = """
    @pytest.fixture(scope="module")
    def shared(module_profiled):
        return profile_of(module_profiled.configure(name="shared"))

    @pytest.mark.parametrize("number", range(6))
    def test_shared(shared, number):
        shared.assert_op_count("aten::copy_", 1)

    @pytest.mark.xdist_group("together")
    def test_grouped(profile):
        profile.assert_no_op("aten::copy_")

    @pytest.mark.kernelprof(device="cuda>=99.0")
    @pytest.mark.parametrize("number", range(3))
    def test_of_a_missing_gpu(profile, number):
        pass
"""


def test_four_processes_write_the_report_that_one_writes(run: Run, pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    source = PASSES + FAILS + SHARED + "\n    def test_b(profile):\n        profile.assert_kernel_count(1)\n"
    pytester.makepyfile(test_another=SOURCE + PASSES)

    run(source, "--kernelprof-report=one.json", "--kernelprof-report=one.md")
    run(source, "--kernelprof-report=four.json", "--kernelprof-report=four.md", "-n4", "--dist=loadgroup")

    one, four = (report_of(pytester.path, f"{name}.json") for name in ("one", "four"))
    assert len(one["tests"]) == 14
    assert len(one["profiles"]) == 6
    assert without_times(one) == without_times(four)
    why = "because their device is missing (--kernelprof-replay=missing-device judges recordings)"
    assert one["notes"] == [f"kernelprof: 3 GPU tests were skipped {why}"]
    texts = [(pytester.path / f"{name}.md").read_text() for name in ("one", "four")]
    assert texts[0] == texts[1]


def test_replayed_runs_write_one_report_whatever_the_number_of_processes(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    pytest.importorskip("xdist")
    examples = Path(__file__).parent.parent.parent / "examples/attention"
    for name, more in (("one", ()), ("four", ("-n4",))):
        arguments = ("--kernelprof-replay=always", f"--kernelprof-report={tmp_path}/{name}.json", *more)
        result = run_pytest_apart(pytester, f"--rootdir={examples}", examples, *arguments)
        assert result.ret == 0

    one, four = (report_of(tmp_path, f"{name}.json") for name in ("one", "four"))
    assert one["replayed"] == sum(bool(test["profiles"]) for test in one["tests"]) == one["verdicts"]["pass"] > 40
    assert all(profile["replayed"]["device"] == "NVIDIA H200" for profile in one["profiles"])
    assert all(not profile["measured"] for profile in one["profiles"])
    # Several workers make the profile of a module; it is one.
    (note,) = one["notes"]
    assert re.fullmatch(r"kernelprof: 29 of 29 profiles replayed \(NVIDIA H200, 20\d\d-\d\d-\d\d\)", note)
    for report in (one, four):
        del report["provenance"]["date"]
    assert one == four


def test_a_worker_that_crashes_makes_it_no_pass(run: Run, pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    run(PASSES + "\n    def test_crash(profiled):\n        import os; os._exit(1)\n", JSON, "-n2")

    report = report_of(pytester.path)
    assert report["verdict"] == "error"
    assert any("test_crash" in one for one in report["problems"])


def test_what_cannot_be_collected_makes_it_no_pass(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_broken="import nowhere_at_all")

    run(PASSES, JSON, "--continue-on-collection-errors")

    report = report_of(pytester.path)
    assert report["verdict"] == "error"
    assert report["problems"] == ["could not be collected: test_broken.py"]


def test_too_few_profiles_make_it_no_pass(run: Run, pytester: pytest.Pytester) -> None:
    run(PASSES, JSON, "--kernelprof-report=report.md", "--kernelprof-require=2")

    report = report_of(pytester.path)
    assert report["verdict"] == "error"
    assert report["problems"] == ["kernelprof: 1 profile measured, --kernelprof-require=2"]
    assert "**kernelprof: 1 profile measured" in (pytester.path / "report.md").read_text()


def test_an_interrupted_run_is_no_pass(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SOURCE + PASSES + "\n    def test_stop(profiled):\n        raise KeyboardInterrupt\n")

    run_pytest_apart(pytester, "--kernelprof", JSON)

    report = report_of(pytester.path)
    assert (report["verdict"], report["problems"]) == ("error", ["1 test did not run to the end"])


def test_a_run_that_is_stopped_says_how_many_tests_are_missing(pytester: pytest.Pytester) -> None:
    source = "\n    def test_a(profile):\n        pytest.exit('enough', returncode=0)\n"
    pytester.makepyfile(test_it=SOURCE + source + PASSES)

    run_pytest_apart(pytester, "--kernelprof", JSON)

    report = report_of(pytester.path)
    assert report["verdict"] == "error"
    assert any("did not run to the end" in one for one in report["problems"])


def test_a_run_that_lost_its_flag_is_no_pass(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SOURCE + PASSES)

    run_pytest(pytester, JSON).assert_outcomes(skipped=1)

    report = report_of(pytester.path)
    assert report["verdict"] == "not measured"
    assert report["verdicts"]["skipped"] == 1
    assert report["tests"][0]["message"] == "needs --kernelprof"
    assert report["notes"] == ["kernelprof: 1 test was skipped (needs --kernelprof)"]


def test_only_the_last_run_of_a_test_that_runs_again_counts(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):
            for _ in range(2):
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
            return True
        """
    )
    run(PASSES, JSON).assert_outcomes(passed=1)

    report = report_of(pytester.path)
    assert len(report["tests"][0]["checks"]) == 1
    assert len(report["profiles"]) == 1


def test_ledgers_are_told_with_what_changed(run: Run, pytester: pytest.Pytester) -> None:
    source = "\n    def test_it(profile):\n        profile.assert_matches_ledger()\n"
    run(source, "--kernelprof-update", JSON).assert_outcomes(passed=1)
    report = report_of(pytester.path)
    assert report["profiles"][0]["ledger"] == "new"
    assert any("1 entry written" in note for note in report["notes"])

    changed = SOURCE.replace("masked_fill(m, 0.0)", "masked_fill(m, 0.0).exp()")
    for option, state, outcome in (("--kernelprof", "differs", "fail"), ("--kernelprof-update", "updated", "pass")):
        pytester.makepyfile(test_it=changed + source)
        run_pytest(pytester, option, JSON, "--kernelprof-report=report.md")
        report = report_of(pytester.path)
        assert report["profiles"][0]["ledger"] == state
        (check,) = report["tests"][0]["checks"]
        assert check["outcome"] == outcome
        assert [(one["class"], one["kind"], one["words"]) for one in check["changes"]] == [
            ("ops", "more", "+1 aten::exp")
        ]
        text = (pytester.path / "report.md").read_text()
        assert f"| `test_it.py::test_it` | {state} | +1 aten::exp |" in text


# Passes that say nothing


def test_a_shared_profile_counts_for_the_tests_that_read_it(run: Run, pytester: pytest.Pytester) -> None:
    source = """
    @pytest.fixture(scope="module")
    def shared(module_profiled):
        return profile_of(module_profiled.configure(name="shared"))

    def test_asserts(shared):
        shared.assert_op_count("aten::copy_", 1)

    def test_reads(shared):
        assert shared.op_count > 1

    def test_ignores(shared):
        pass

    def test_may_call(module_profiled):
        pass
    """
    result = run(source, JSON, "--junitxml=junit.xml")

    report = report_of(pytester.path)
    assert {test["id"].partition("::")[2]: test["verdict"] for test in report["tests"]} == {
        "test_asserts": "pass",
        "test_reads": "pass",
        "test_ignores": "not measured",
        "test_may_call": "not measured",
    } or report["tests"][0]["id"].endswith("test_asserts")
    told = {test["id"].partition("::")[2]: test["profiles"] for test in report["tests"]}
    assert told["test_asserts"] == told["test_reads"] == ["test_it.py#shared"]
    assert told["test_ignores"] == told["test_may_call"] == []
    result.stdout.fnmatch_lines(["kernelprof: 2 tests passed and measured nothing"])
    tree = ElementTree.parse(pytester.path / "junit.xml")
    names = {one.attrib["name"] for case in tree.iter("testcase") for one in case.iter("property")}
    assert "kernelprof.shared.ops" in names


def test_fixtures_that_a_test_asks_for_on_its_way_count_as_well(run: Run, pytester: pytest.Pytester) -> None:
    source = """
    def test_dynamic(request):
        profile_of(request.getfixturevalue("profiled")).assert_no_op("aten::copy_")
    """
    run(source, JSON).assert_outcomes(failed=1)

    report = report_of(pytester.path)
    assert report["verdict"] == "fail"
    assert report["profiles"][0]["trace"]


def test_assertions_that_come_to_no_verdict_make_no_pass(run: Run, pytester: pytest.Pytester) -> None:
    source = """
    def test_swallows(profile):
        with pytest.raises(BaseException):
            profile.assert_no_memcpy()
    """
    run(source, JSON).assert_outcomes(passed=1)

    (test,) = report_of(pytester.path)["tests"]
    assert (test["verdict"], test["message"]) == (
        "not measured",
        "it passed, and none of its assertions came to a verdict",
    )


# The option


def test_reports_of_an_ini_file_lie_below_the_root_and_those_of_the_line_where_it_is_called(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\nkernelprof = true\nkernelprof_report = out/a.json out/b.md\n")
    pytester.makepyfile(test_it=SOURCE + PASSES)
    (pytester.path / "below").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(pytester.path / "below")
        pytester.runpytest_inprocess(*PLUGINS_OFF, "..").assert_outcomes(passed=1)
        assert report_of(pytester.path, "out/a.json")["verdict"] == "pass"
        assert (pytester.path / "out/b.md").exists()
        result = pytester.runpytest_inprocess(*PLUGINS_OFF, "..", "--kernelprof-report=c.json")
    assert report_of(pytester.path, "below/c.json")["verdict"] == "pass"
    result.stdout.fnmatch_lines(["kernelprof: c.json: written"])


@pytest.mark.parametrize("name", ["report.xml", "report", ""])
def test_an_ending_that_says_no_form_is_a_usage_error(run: Run, name: str) -> None:
    result = run(PASSES, f"--kernelprof-report={name}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--kernelprof-report*is not accepted*.json, .md or .html*"])


def test_a_report_that_cannot_be_written_fails_the_run(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "file").write_text("")

    result = run(PASSES, "--kernelprof-report=file/report.json")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["kernelprof: file/report.json: not written: *"])


def test_nothing_is_written_where_nothing_runs(run: Run, pytester: pytest.Pytester) -> None:
    run(PASSES, JSON, "--collect-only")

    assert not (pytester.path / "report.json").exists()


def test_events_are_left_out_of_a_report_that_has_no_room_for_them(run: Run, pytester: pytest.Pytester) -> None:
    """Markdown alone needs none, and under xdist they would cross from the workers."""
    pytester.makeconftest(
        """
        def pytest_runtest_logreport(report):
            for row in getattr(report, "kernelprof_test", {}).get("profiles", ()):
                print("details:", row["details"] is not None)
        """
    )
    assert "details: False" in run(PASSES, "--kernelprof-report=report.md", "-s").stdout.str()
    assert "details: True" in run(PASSES, JSON, "-s").stdout.str()


# JUnit


def test_junit_has_counts_verdict_and_trace_of_each_test(run: Run, pytester: pytest.Pytester) -> None:
    source = (
        PASSES
        + FAILS
        + """
    def test_two(profiled):
        profiled(torch.ones, 4).assert_op_count("aten::ones", 1)
        profiled.configure(name="a \\x1b|<&>\\n name")(torch.ones, 4).assert_op_count("aten::ones", 1)

    def test_other():
        pass
    """
    )
    run(source, "--junitxml=junit.xml")

    tree = ElementTree.parse(pytester.path / "junit.xml")
    found = {
        case.attrib["name"]: {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
        for case in tree.iter("testcase")
    }
    assert found["test_other"] == {}
    passed = found["test_passes"]
    assert passed["kernelprof.verdict"] == "pass"
    assert passed["kernelprof.kernels"] == passed["kernelprof.gpu_time_ns"] == "not measured"
    assert int(passed["kernelprof.ops"]) > 3
    assert "kernelprof.trace" not in passed
    failed = found["test_fails"]
    assert failed["kernelprof.verdict"] == "fail"
    assert (pytester.path / failed["kernelprof.trace"]).exists()
    assert {name for name in found["test_two"] if name.endswith(".ops")} == {"kernelprof.ops", "kernelprof.a_name.ops"}
    assert not any("kernelprof_" in name for names in found.values() for name in names)


# GitHub


def test_github_gets_a_summary_and_annotations(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    result = run(PASSES + FAILS, "--kernelprof-report=report.md", "-q")

    assert summary.read_text().strip() == (pytester.path / "report.md").read_text().strip()
    line = next(
        number
        for number, one in enumerate((pytester.path / "test_it.py").read_text().splitlines(), 1)
        if "return x.masked_fill" in one
    )
    commands = [one for one in result.outlines if one.startswith("::")]
    assert commands == [
        f"::error file=test_it.py,line={line},title=kernelprof%3A test_it.py%3A%3Atest_fails::"
        "1 op a step, expected none (named 'aten::copy_')%0Ain test_it.py::test_fails"
    ]


def test_there_are_no_annotations_elsewhere_and_no_summary_without_markdown(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))

    result = run(FAILS, JSON)

    assert not any(line.startswith("::") for line in result.outlines)
    assert not (pytester.path / "summary.md").exists()


# Kept traces


def kept(folder: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[0] for path in folder.glob("*.json.gz"))


MANY = """
    @pytest.mark.parametrize("number", range(5))
    def test_many(profile, number):
        profile.assert_no_op("aten::copy_")
"""


def test_old_traces_make_room_for_new_ones(run: Run, pytester: pytest.Pytester) -> None:
    folder = pytester.path / ".kernelprof"
    run(FAILS, name="test_old")
    (old,) = folder.glob("*.json.gz")
    os.utime(old, (time.time() - 3600,) * 2)
    (pytester.path / "test_old.py").unlink()

    run(MANY, "--kernelprof-artifacts-max=5")

    assert len(kept(folder)) == 5
    assert not old.exists()


def test_no_more_traces_are_kept_than_there_is_room_for(run: Run, pytester: pytest.Pytester) -> None:
    result = run(MANY, "--kernelprof-artifacts-max=2", JSON)

    assert len(kept(pytester.path / ".kernelprof")) == 2
    told = "E *trace not kept: .kernelprof/test_many_2-*: 2 traces are kept already (kernelprof_artifacts_max = 2)"
    result.stdout.fnmatch_lines([told])
    assert len([line for line in result.outlines if "ui.perfetto.dev" in line]) == 2
    assert [bool(one["trace"]) for one in report_of(pytester.path)["profiles"]] == [True, True, False, False, False]


def test_traces_take_no_more_than_the_size_that_is_allowed(run: Run, pytester: pytest.Pytester) -> None:
    run(FAILS)
    (one,) = (pytester.path / ".kernelprof").glob("*.json.gz")
    size = one.stat().st_size

    result = run(MANY, f"--kernelprof-artifacts-size={3 * size}")

    left = list((pytester.path / ".kernelprof").glob("*.json.gz"))
    assert 1 <= len(left) <= 3
    assert sum(path.stat().st_size for path in left) <= 3 * size
    result.stdout.fnmatch_lines(["*trace not kept: *(kernelprof_artifacts_size)"])


def test_none_are_kept_if_none_are_wanted_and_messages_name_none(run: Run, pytester: pytest.Pytester) -> None:
    result = run(FAILS, "--kernelprof-artifacts-max=0")

    assert not (pytester.path / ".kernelprof").exists()
    assert "ui.perfetto.dev" not in result.stdout.str()


def test_a_test_that_passes_again_takes_its_trace_away(run: Run, pytester: pytest.Pytester) -> None:
    run(PASSES.replace("1)", "2)"))
    assert kept(pytester.path / ".kernelprof") == ["test_passes"]

    run(PASSES)

    assert kept(pytester.path / ".kernelprof") == []


def test_a_folder_of_ones_own_is_named_by_the_message_and_loses_nothing(run: Run, pytester: pytest.Pytester) -> None:
    folder = pytester.path / "mine"
    folder.mkdir()
    foreign = folder / "precious-0123abcd.json.gz"
    foreign.write_text("precious")
    os.utime(foreign, (0, 0))

    result = run(MANY, "--kernelprof-artifacts=mine", "--kernelprof-artifacts-max=3")

    assert foreign.read_text() == "precious"
    assert not (folder / ".gitignore").exists()
    assert len(kept(folder)) == 3 + 1
    result.stdout.fnmatch_lines(["*trace: mine/test_many_0-*.json.gz   open in https://ui.perfetto.dev"])


def test_what_is_called_like_a_kept_trace_is_ours_only_if_we_wrote_it(run: Run, pytester: pytest.Pytester) -> None:
    folder = pytester.path / ".kernelprof"
    folder.mkdir()
    dated = folder / "baseline-20261130.json.gz"
    dated.write_text("precious")
    os.utime(dated, (0, 0))
    (pytester.path / "precious").write_text("precious")
    (folder / artifact_name("test_it.py::test_many[0]", "1")).symlink_to(pytester.path / "precious")

    for _ in range(2):
        run(MANY, "--kernelprof-artifacts-max=2")

    assert dated.read_text() == "precious"
    assert (pytester.path / "precious").read_text() == "precious"
    assert kept(folder) == ["baseline", "test_many_0", "test_many_1"]


def test_processes_keep_to_the_limit_together(run: Run, pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    run(MANY.replace("range(5)", "range(12)"), "--kernelprof-artifacts-max=4", "-n2", JSON)

    assert len(kept(pytester.path / ".kernelprof")) == 4
    named = [one["trace"] for one in report_of(pytester.path)["profiles"] if one["trace"]]
    assert len(named) == 4
    assert all((pytester.path / one).exists() for one in named)


def test_a_test_that_was_expected_to_fail_keeps_nothing(run: Run, pytester: pytest.Pytester) -> None:
    run("\n    @pytest.mark.xfail" + FAILS)

    assert kept(pytester.path / ".kernelprof") == []


# The table


def table_of(result: pytest.RunResult) -> list[str]:
    lines = result.outlines
    start = next(number for number, line in enumerate(lines) if re.fullmatch(r"=+ kernelprof =+", line.strip()))
    found = []
    for line in lines[start + 1 :]:
        if line.startswith(("=", "kernelprof:")):
            break
        found += [line] if line else []
    return found


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    source = PASSES + FAILS + "\n    def test_" + "long_" * 40 + "(profile):\n        pass\n"

    lines = table_of(run(source, "--tb=no"))

    assert max(map(len, lines)) <= width
    assert len([line for line in lines if "test_" in line]) == 3
    assert any(line.split()[-1] == "fail" for line in lines)


def test_quiet_runs_have_no_table_and_verbose_ones_whole_names(run: Run) -> None:
    source = PASSES + "\n    def test_" + "long_" * 40 + "(profile):\n        pass\n"

    assert not re.search(r"=+ kernelprof =+", run(source, "-q").stdout.str())
    assert any("..." in line for line in table_of(run(source)))
    assert any("long_" * 40 in line for line in table_of(run(source, "-vv")))


@pytest.mark.parametrize("colour", ["yes", "no"])
def test_colour_says_nothing_that_words_do_not(run: Run, colour: str) -> None:
    source = PASSES + FAILS + "\n    def test_unmeasured(profile):\n        profile.assert_kernel_count(1)\n"

    text = run(source, f"--color={colour}", "--tb=no").stdout.str()

    rows = [line for line in text.splitlines() if "test_it.py::test_" in line and "not measured" in line]
    failed, unmeasured = (next(line for line in rows if name in line) for name in ("test_fails", "test_unmeasured"))
    assert ("\x1b[31m" in failed, "\x1b[33m" in unmeasured) == ((colour == "yes"),) * 2
    assert re.sub(r"\x1b\[\d*m", "", failed).split()[-1] == "fail"


def test_the_table_is_ordered_and_cut_as_asked(run: Run) -> None:
    source = """
    @pytest.mark.parametrize("number", [2, 4, 3])
    def test_it(profiled, number):
        profiled(lambda x: [x.exp() for _ in range(number)], torch.ones(4))
    """
    lines = table_of(run(source, "--kernelprof-sort=ops", "--kernelprof-top=2"))

    assert [re.findall(r"test_it\[(\d)\]", line) for line in lines[1:3]] == [["4"], ["3"]]
    assert lines[-1] == "... and 1 more (--kernelprof-top=0 shows all)"


# Hostile names


def test_hostile_names_break_no_report_and_no_terminal(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    source = """
    NAMES = ["a|b", "`c`", "\\x1b[31md", "e\\nf", "<b>&@everyone", "\\u202eg", "::error::x", "%0Ah", "i" * 10_000]

    @pytest.mark.parametrize("name", NAMES, ids=NAMES)
    def test_it(profiled, name):
        def work(x):
            with torch.profiler.record_function(name):
                return x.clone()
        profile = profiled.configure(name=name)(work, torch.ones(4))
        with profile.checks():
            profile.assert_no_op("aten::clone")
            profile.assert_op_count("aten::clone", 2, region="*")
    """
    name = "test_a|`b`"
    result = run(source, JSON, "--kernelprof-report=report.md", "--junitxml=junit.xml", name=name)

    result.assert_outcomes(failed=9)
    report = report_of(pytester.path)
    assert [len(test["checks"]) for test in report["tests"]] == [2] * 9
    assert all(check["outcome"] == "fail" for test in report["tests"] for check in test["checks"])
    assert ElementTree.parse(pytester.path / "junit.xml")
    text = (pytester.path / "report.md").read_text()
    assert all(one == "\n" or one.isprintable() for one in text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 9 + 2 + 9 + 2
    assert all("\x1b" not in line for line in table_of(result))
    commands = [line for line in result.outlines if line.startswith("::")]
    assert [line.partition(" ")[0] for line in commands] == ["::error"] * 9


def test_the_page_shows_how_a_kept_trace_is_named() -> None:
    page = (Path(__file__).parent.parent.parent / "docs/reference/reports.md").read_text()
    name = artifact_name("test_masking.py::test_masking_copies_nothing", "1")

    assert f"```text\ntrace: .kernelprof/{name}   open in https://ui.perfetto.dev\n```" in page
