"""Ledgers in runs of pytest: what is written when, what is reported, and what fails."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest
import warm
from builders import Once, run_pytest

pytestmark = pytest.mark.usefixtures("needs_torch")

TESTS = """
    import pytest, torch

    def work(x):
        return torch.relu(x) + 1

    @pytest.mark.parametrize("size", [2, 4])
    def test_one(profiled, size):
        profiled(work, torch.ones(size)).assert_matches_ledger()

    class TestTwo:
        def test_named(self, profiled):
            profiled.configure(name="first")(work, torch.ones(2)).assert_matches_ledger()
            profiled.configure(name="second")(torch.neg, torch.ones(2)).assert_matches_ledger(level="names")
"""
PLACES = [
    ("TestTwo::test_named", "first"),
    ("TestTwo::test_named", "second"),
    ("test_one[2]", "1"),
    ("test_one[4]", "1"),
]


@pytest.fixture(autouse=True)
def _no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever runs these tests: what they start is no CI unless it says so."""
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ledger(pytester: pytest.Pytester, once: Once) -> Path:
    """Write TESTS and their ledger, and return its path."""

    def write() -> None:
        pytester.makepyfile(test_it=TESTS)
        run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=3)

    once("ledger", write)
    return pytester.path / "__kernelprof__/test_it.json"


def entries(ledger: Path) -> dict[tuple[str, str, str], Any]:
    document = json.loads(ledger.read_text())
    return {
        (test, profile, environment): entry
        for test, profiles in document["entries"].items()
        for profile, environments in profiles.items()
        for environment, entry in environments.items()
    }


def places(ledger: Path) -> list[tuple[str, str]]:
    return [place[:2] for place in entries(ledger)]


def edit(pytester: pytest.Pytester, *pairs: tuple[str, str], file: str | Path = "test_it.py") -> None:
    path = pytester.path / file
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    # The same second and size would leave the compiled file of before.
    shutil.rmtree(pytester.path / "__pycache__", ignore_errors=True)


def lines(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("kernelprof: ") and "warmup" not in line]


# Writing


def test_an_update_writes_an_entry_for_each_test_and_profile(pytester: pytest.Pytester, ledger: Path) -> None:
    assert places(ledger) == PLACES
    assert {place[2] for place in entries(ledger)} == {"cpu"}
    assert [entry["level"] for entry in entries(ledger).values()] == ["roles", "names", "roles", "roles"]
    assert {"count": 1, "op": "aten::relu"} in entries(ledger)["test_one[2]", "1", "cpu"]["ops"]

    before = ledger.read_bytes()
    again = run_pytest(pytester, "--kernelprof-update")
    again.assert_outcomes(passed=3)
    assert lines(again) == []
    assert ledger.read_bytes() == before


def test_the_first_run_adds_what_is_missing_and_says_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    result = run_pytest(pytester, "--kernelprof")
    result.assert_outcomes(passed=3)
    assert lines(result) == ["kernelprof: __kernelprof__/test_it.json: 4 entries written: 4 added"]
    result.stdout.fnmatch_lines(["test * ledger", "test_it.py::test_one[[]2[]] * new"])

    second = run_pytest(pytester, "--kernelprof")
    second.assert_outcomes(passed=3)
    assert lines(second) == []
    second.stdout.fnmatch_lines(["test_it.py::test_one[[]2[]] * same"])


@pytest.mark.parametrize("how", ["CI", "BUILD_NUMBER", "line", "ini"])
def test_a_missing_entry_fails_where_that_is_strict(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    pytester.makepyfile(test_it=TESTS)
    arguments = []
    if how == "line":
        arguments = ["--kernelprof-strict"]
    elif how == "ini":
        pytester.makeini("[pytest]\nkernelprof_strict = true")
    else:
        monkeypatch.setenv(how, "true")

    result = run_pytest(pytester, "--kernelprof", *arguments)

    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*LedgerError: no ledger entry for test_one[[]2[]], cpu",
            "*the ledger does not exist or is empty",
            "*to accept: pytest --kernelprof-update-new 'test_it.py::test_one[[]2[]]'",
            "test_it.py::test_one[[]2[]] * missing * error",
        ]
    )
    assert not (pytester.path / "__kernelprof__").exists()

    added = run_pytest(pytester, "--kernelprof-update-new", *arguments)
    added.assert_outcomes(passed=3)
    run_pytest(pytester, "--kernelprof", *arguments).assert_outcomes(passed=3)


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_what_says_that_this_is_no_ci_is_believed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CI", value)
    pytester.makepyfile(test_it=TESTS)
    run_pytest(pytester, "--kernelprof").assert_outcomes(passed=3)


def test_an_ini_may_be_lenient_on_ci(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    pytester.makeini("[pytest]\nkernelprof_strict = false")
    pytester.makepyfile(test_it=TESTS)
    run_pytest(pytester, "--kernelprof").assert_outcomes(passed=3)


def test_a_change_fails_and_an_update_accepts_it(pytester: pytest.Pytester, ledger: Path) -> None:
    edit(pytester, ("torch.relu(x) + 1", "torch.relu(x).clone() + 1"))
    before = ledger.read_bytes()

    result = run_pytest(pytester, "--kernelprof")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: the step differs from its ledger: +3 ops",
            "*+1 aten::clone",
            "*aten::clone * test_it.py:4 in work",
            "*ledger: __kernelprof__/test_it.json: test_one[[]2[]], cpu (made on *torch *)",
            "*to accept: pytest --kernelprof-update 'test_it.py::test_one[[]2[]]'",
            "test_it.py::test_one[[]2[]] * differs * fail",
        ]
    )
    run_pytest(pytester, "--kernelprof-update-new").assert_outcomes(failed=3)
    assert ledger.read_bytes() == before

    # Word for word the command of the message: one test only.
    updated = run_pytest(pytester, "--kernelprof-update", "test_it.py::test_one[2]")
    updated.assert_outcomes(passed=1)
    assert lines(updated) == ["kernelprof: __kernelprof__/test_it.json: 1 entry written: 1 updated"]
    run_pytest(pytester, "--kernelprof").assert_outcomes(passed=1, failed=2)
    run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=3)
    run_pytest(pytester, "--kernelprof").assert_outcomes(passed=3)


def test_a_range_that_somebody_wrote_is_kept_or_said_to_be_gone(pytester: pytest.Pytester, ledger: Path) -> None:
    edit(pytester, ('{"count": 1, "op": "aten::relu"}', '{"count": [1, 2], "op": "aten::relu"}'), file=ledger)
    run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=3)
    edit(pytester, ("torch.relu(x) + 1", "torch.relu(torch.relu(x)) + 1"))
    run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=3)
    assert ledger.read_text().count('{"count": [1, 2], "op": "aten::relu"}') == 3

    edit(pytester, ("torch.relu(torch.relu(x)) + 1", "torch.relu(torch.relu(torch.relu(x))) + 1"))
    result = run_pytest(pytester, "--kernelprof-update")
    assert "aten::relu: its range 1 to 2 is gone" in "\n".join(lines(result))
    assert ledger.read_text().count('{"count": 3, "op": "aten::relu"}') == 3


def test_update_is_no_ini_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    pytester.makeini("[pytest]\nkernelprof_update = true")
    result = run_pytest(pytester, "--kernelprof", "--strict-config")
    assert result.ret != 0


def test_update_and_a_replay_of_every_test_exclude_each_other(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    result = run_pytest(pytester, "--kernelprof-update", "--kernelprof-replay=always")
    result.stderr.fnmatch_lines(["ERROR: update and replay=always exclude each other: *"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    # An ini gives way.
    pytester.makeini("[pytest]\nkernelprof_replay = always")
    run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=3)


def test_a_replay_is_compared_and_writes_nothing(pytester: pytest.Pytester, ledger: Path) -> None:
    run_pytest(pytester, "--kernelprof-record").assert_outcomes(passed=3)
    edit(pytester, ("torch.relu(x) + 1", "unknown(x)"))
    run_pytest(pytester, "--kernelprof-replay=always").assert_outcomes(passed=3)

    ledger.unlink()
    result = run_pytest(pytester, "--kernelprof-replay=always")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*nothing is written from a replay"])
    assert not ledger.exists()


def test_shared_profiles_are_compared_by_the_test_that_asserts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest, torch

        @pytest.fixture(scope="module")
        def named(module_profiled):
            return module_profiled.configure(name="sum")(torch.sum, torch.ones(2))

        def test_one(named):
            named.assert_matches_ledger()

        def test_two(named):
            named.assert_matches_ledger()

        def test_nameless(module_profiled):
            module_profiled(torch.sum, torch.ones(2)).assert_matches_ledger()
        """
    )
    result = run_pytest(pytester, "--kernelprof-update")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*MisuseError: assert_matches_ledger() needs a name= here*"])
    assert places(pytester.path / "__kernelprof__/test_it.json") == [("test_one", "sum"), ("test_two", "sum")]


def test_keys_and_levels_of_the_project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=TESTS)
    pytester.makeini("[pytest]\nkernelprof_ledger_key = torch cuda\nkernelprof_ledger_level = names")
    run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=3)
    made = entries(pytester.path / "__kernelprof__/test_it.json")
    import torch

    assert {place[2] for place in made} == {"cpu-torch" + ".".join(torch.__version__.split(".")[:2])}
    assert {entry["level"] for entry in made.values()} == {"names"}


@pytest.mark.parametrize("option", ["--kernelprof-ledger-level=role", "--kernelprof-ledger-key=torch,python"])
def test_wrong_options_are_usage_errors(pytester: pytest.Pytester, option: str) -> None:
    pytester.makepyfile(test_it=TESTS)
    result = run_pytest(pytester, "--kernelprof", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --kernelprof-ledger-*is not accepted; accepted: *"])


# What cannot be read or written


def test_a_broken_ledger_fails_its_tests_in_one_line_and_is_not_overwritten(
    pytester: pytest.Pytester, ledger: Path
) -> None:
    text = ledger.read_text().replace('"level": "roles"', '"level": "role"', 1)
    ledger.write_text(text)
    for option in ("--kernelprof", "--kernelprof-update", "--kernelprof-update-new"):
        result = run_pytest(pytester, option)
        result.assert_outcomes(failed=3)
        result.stdout.fnmatch_lines(
            [
                'E *LedgerError: __kernelprof__/test_it.json: $.entries[[]"TestTwo::test_named"].first.cpu.level: "role" is no*'
            ]
        )
        assert ledger.read_text() == text


@pytest.mark.parametrize("option", ["--kernelprof", "--kernelprof-update", "--kernelprof-update-new"])
@pytest.mark.parametrize("what", ["ledger", "lock"])
def test_a_checkout_that_cannot_be_written_is_one_clear_line_and_no_green_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, option: str, what: str
) -> None:
    pytester.makepyfile(test_it=TESTS)

    def refused(content: bytes, goal: Path) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system", str(goal))

    # Root may write anywhere, so that modes do not do.
    if what == "ledger":
        monkeypatch.setattr("pytest_kernelprof.ledger.document.write_at_once", refused)
    else:
        (pytester.path / "__kernelprof__").mkdir()
        (pytester.path / "__kernelprof__/.locks").touch()
    result = run_pytest(pytester, option)
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    reason = {
        "ledger": "Read-only file system (__kernelprof__/test_it.json)",
        "lock": "File exists (__kernelprof__/.locks)",
    }
    assert lines(result) == [f"kernelprof: __kernelprof__/test_it.json: not written: {reason[what]}"]
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


# Unused entries


def unused(result: pytest.RunResult) -> list[str]:
    return [line.partition(": unused: ")[2] for line in lines(result) if ": unused: " in line]


GONE = [("def test_one", "def test_three")]
ONE_GONE = ["test_one[2], cpu", "test_one[4], cpu"]


def test_entries_of_a_test_that_is_gone_are_reported_and_removed_by_update(
    pytester: pytest.Pytester, ledger: Path
) -> None:
    edit(pytester, *GONE)
    result = run_pytest(pytester, "--kernelprof", "-k", "named")
    assert unused(result) == ONE_GONE
    assert lines(result)[-1] == "kernelprof: 2 ledger entries unused; --kernelprof-update removes what is unused"
    assert places(ledger) == PLACES

    updated = run_pytest(pytester, "--kernelprof-update")
    assert lines(updated)[-1] == "kernelprof: __kernelprof__/test_it.json: 4 entries written: 2 added, 2 removed"
    assert places(ledger) == [*PLACES[:2], ("test_three[2]", "1"), ("test_three[4]", "1")]
    assert unused(run_pytest(pytester, "--kernelprof")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "named"),
        ("-m", "not parametrize"),
        ("test_it.py::TestTwo",),
        ("test_it.py::test_one[2]",),
        ("--deselect", "test_it.py::test_one"),
        ("--lf",),
        ("--ignore", "test_it.py"),
        ("-x",),
        ("--collect-only",),
        ("-n2",),
        ("-n2", "-k", "named"),
        ("-n2", "--dist=loadgroup"),
    ],
    ids=" ".join,
)
def test_what_was_not_selected_is_not_unused(
    pytester: pytest.Pytester, ledger: Path, arguments: tuple[str, ...]
) -> None:
    if arguments in (("--lf",), ("-x",)):
        edit(pytester, ("def test_named(self, profiled):", "def test_named(self, profiled):\n        assert False"))
        run_pytest(pytester, "--kernelprof")
    before = ledger.read_bytes()
    assert unused(run_pytest(pytester, "--kernelprof", *arguments)) == []
    run_pytest(pytester, "--kernelprof-update", *arguments)
    assert ledger.read_bytes() == before


@pytest.mark.parametrize("arguments", [("-n2",), ("test_it.py",), ("-k", "two")], ids=" ".join)
def test_what_is_gone_is_unused_however_tests_are_selected(
    pytester: pytest.Pytester, ledger: Path, arguments: tuple[str, ...]
) -> None:
    edit(pytester, *GONE)
    assert unused(run_pytest(pytester, "--kernelprof", *arguments)) == ONE_GONE


def test_skipped_and_failed_tests_keep_their_entries(pytester: pytest.Pytester, ledger: Path) -> None:
    edit(
        pytester,
        ("def test_one(profiled, size):", "def test_one(profiled, size):\n    pytest.skip('today')"),
        ("def test_named(self, profiled):", "def test_named(self, profiled):\n        raise ValueError"),
    )
    result = run_pytest(pytester, "--kernelprof-update")
    result.assert_outcomes(skipped=2, failed=1)
    assert lines(result) == []
    assert places(ledger) == PLACES


def test_an_entry_that_a_passing_test_no_longer_asks_for_is_unused(pytester: pytest.Pytester, ledger: Path) -> None:
    edit(pytester, ('        profiled.configure(name="second")', "        #"))
    assert unused(run_pytest(pytester, "--kernelprof")) == ["TestTwo::test_named (second), cpu"]
    edit(pytester, (".assert_matches_ledger()", ".assert_op_count('*', at_least=1)"))
    assert len(unused(run_pytest(pytester, "--kernelprof"))) == 4


def test_entries_of_other_environments_stay(pytester: pytest.Pytester, ledger: Path) -> None:
    document = json.loads(ledger.read_text())
    document["entries"]["test_one[2]"]["1"]["sm90"] = {
        "level": "roles",
        "kernels": [],
        "memcpys": [],
        "memsets": [],
        "host_syncs": [],
    }
    ledger.write_text(json.dumps(document))
    assert unused(run_pytest(pytester, "--kernelprof")) == []
    run_pytest(pytester, "--kernelprof-update")
    assert ("test_one[2]", "1", "sm90") in entries(ledger)


def test_a_ledger_whose_test_file_is_gone_goes_as_a_whole(pytester: pytest.Pytester, ledger: Path) -> None:
    (pytester.path / "test_it.py").unlink()
    pytester.makepyfile(test_other="def test_nothing(): pass")
    result = run_pytest(pytester, "--kernelprof")
    assert len(unused(result)) == 4
    run_pytest(pytester, "--kernelprof-update")
    assert not ledger.parent.exists()


def test_a_foreign_file_beside_ledgers_is_left_alone(pytester: pytest.Pytester, ledger: Path) -> None:
    foreign = ledger.parent / "notes.json"
    foreign.write_text("{}")
    result = run_pytest(pytester, "--kernelprof-update")
    assert result.ret == 0
    assert lines(result) == []
    assert foreign.read_text() == "{}"


def test_a_run_that_is_off_says_nothing_of_ledgers(pytester: pytest.Pytester, ledger: Path) -> None:
    edit(pytester, *GONE)
    assert unused(run_pytest(pytester)) == []


def test_tests_that_are_there_only_with_a_gpu_or_an_option_keep_their_entries(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        test_it="""
        import os, pytest, torch

        ALL = "ALL" in os.environ

        @pytest.mark.parametrize("size", [2, 4, 8] if ALL else [2])
        def test_sizes(profiled, size):
            profiled(torch.neg, torch.ones(size)).assert_matches_ledger()

        if ALL:
            def test_more(profiled):
                profiled(torch.neg, torch.ones(2)).assert_matches_ledger()
        """
    )
    monkeypatch.setenv("ALL", "1")
    run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=4)
    ledger = pytester.path / "__kernelprof__/test_it.json"
    document = json.loads(ledger.read_text())
    for profiles in document["entries"].values():
        profiles["1"]["sm90"] = {"level": "roles", "kernels": [], "memcpys": [], "memsets": [], "host_syncs": []}
    ledger.write_text(json.dumps(document))
    monkeypatch.delenv("ALL")

    # The command that a failure prints judges no other test.
    run_pytest(pytester, "--kernelprof-update", "test_it.py::test_sizes[2]")
    assert len(entries(ledger)) == 8
    # A whole run does, in the environments in which it profiled.
    run_pytest(pytester, "--kernelprof-update")
    left = entries(ledger)
    assert [place for place in left if place[2] == "cpu"] == [("test_sizes[2]", "1", "cpu")]
    assert len([place for place in left if place[2] == "sm90"]) == 4


BEFORE_ASKING = {
    "a failed subtest": """
        import pytest, torch
        def test_it(profiled, subtests):
            with subtests.test("one"):
                BREAK
                profiled(torch.neg, torch.ones(2)).assert_matches_ledger()
            profiled(torch.neg, torch.ones(2))
    """,
    "a failed teardown": """
        import pytest, torch
        @pytest.fixture
        def asking(profiled):
            profile = profiled(torch.neg, torch.ones(2))
            yield
            BREAK
            profile.assert_matches_ledger()
        def test_it(asking):
            pass
    """,
    "a test that does nothing here": """
        import torch
        def test_other(profiled):
            profiled(torch.neg, torch.ones(2)).assert_matches_ledger()
        def test_it(profiled):
            if BREAK: return
            profiled(torch.neg, torch.ones(2)).assert_matches_ledger()
    """,
}


@pytest.mark.parametrize("how", BEFORE_ASKING)
def test_what_was_kept_from_asking_keeps_its_entry(pytester: pytest.Pytester, how: str) -> None:
    if "subtest" in how and pytest.version_tuple < (9, 0):
        pytest.skip("pytest 9 brings subtests")
    source = BEFORE_ASKING[how]
    well, broken = ("False", "True") if "nothing" in how else ("pass", "assert False")
    pytester.makepyfile(test_it=source.replace("BREAK", well))
    run_pytest(pytester, "--kernelprof-update")
    ledger = pytester.path / "__kernelprof__/test_it.json"
    before = ledger.read_bytes()
    shutil.rmtree(pytester.path / "__pycache__", ignore_errors=True)
    pytester.makepyfile(test_it=source.replace("BREAK", broken))

    result = run_pytest(pytester, "--kernelprof-update")

    assert unused(result) == []
    assert ledger.read_bytes() == before


def test_a_replay_makes_no_entry_unused(pytester: pytest.Pytester, ledger: Path) -> None:
    run_pytest(pytester, "--kernelprof-record").assert_outcomes(passed=3)
    edit(pytester, (".assert_matches_ledger()", ".assert_op_count('*', at_least=1)"))
    assert unused(run_pytest(pytester, "--kernelprof-replay=always")) == []


def test_a_ledger_of_a_file_that_only_doctest_collects_stays(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        bench_it="""
        import torch
        def test_it(profiled):
            profiled(torch.neg, torch.ones(2)).assert_matches_ledger()
        """
    )
    run_pytest(pytester, "--kernelprof-update", "bench_it.py").assert_outcomes(passed=1)
    ledger = pytester.path / "__kernelprof__/bench_it.json"
    pytester.makepyfile(test_other="import torch\ndef test_it(profiled): profiled(torch.neg, torch.ones(2))")
    result = run_pytest(pytester, "--kernelprof-update", "--doctest-modules")
    assert unused(result) == []
    assert ledger.exists()


def test_a_ledger_beside_a_doctest_in_text_stays(pytester: pytest.Pytester) -> None:
    (pytester.path / "test_doc.txt").write_text(
        ">>> import torch\n>>> profiled = getfixture('profiled')\n"
        ">>> profiled(torch.neg, torch.ones(2)).assert_matches_ledger()\n"
    )
    run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=1)
    result = run_pytest(pytester, "--kernelprof")
    result.assert_outcomes(passed=1)
    assert unused(result) == []


def test_ids_that_json_has_to_escape_are_recorded_and_replayed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=r"""
        import pytest, torch

        @pytest.mark.parametrize("word", ['q"q', "back\\slash", "100%22", "\u1234"])
        def test_it(profiled, word):
            def ignoring(x, text):
                return x.neg()
            profiled(ignoring, torch.ones(2, device=profiled.device), word).assert_matches_ledger()
        """
    )
    run_pytest(pytester, "--kernelprof-update", "--kernelprof-record").assert_outcomes(passed=4)
    run_pytest(pytester, "--kernelprof-replay=always").assert_outcomes(passed=4)


def test_two_levels_of_one_profile_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import torch
        def test_it(profiled):
            profile = profiled(torch.neg, torch.ones(2))
            profile.assert_matches_ledger()
            profile.assert_matches_ledger(level="names")
        """
    )
    result = run_pytest(pytester, "--kernelprof-update")
    result.stdout.fnmatch_lines(
        ["E *MisuseError: test_it asks for two levels of one ledger entry, which has one; drop one"]
    )


def test_two_profiles_of_one_name_are_refused_whichever_changed(pytester: pytest.Pytester) -> None:
    source = """
        import torch
        def test_it(profiled, module_profiled):
            module_profiled.configure(name="a")(torch.neg, torch.ones(2)).assert_matches_ledger()
            profiled.configure(name="a")(torch.SECOND, torch.ones(2)).assert_matches_ledger()
    """
    pytester.makepyfile(test_it=source.replace("SECOND", "neg"))
    run_pytest(pytester, "--kernelprof-update").assert_outcomes(passed=1)
    shutil.rmtree(pytester.path / "__pycache__", ignore_errors=True)
    pytester.makepyfile(test_it=source.replace("SECOND", "abs"))
    result = run_pytest(pytester, "--kernelprof-update")
    result.stdout.fnmatch_lines(
        ["E *MisuseError: two profiles of test_it would be one ledger entry, and differ; give*"]
    )


def test_ranges_stay_when_the_level_changes_where_lines_are_the_same(pytester: pytest.Pytester, ledger: Path) -> None:
    edit(pytester, ('{"count": 1, "op": "aten::relu"}', '{"count": [1, 2], "op": "aten::relu"}'), file=ledger)
    edit(
        pytester,
        ("torch.ones(size)).assert_matches_ledger()", 'torch.ones(size)).assert_matches_ledger(level="names")'),
    )
    result = run_pytest(pytester, "--kernelprof-update")
    assert "is gone" not in "\n".join(lines(result))
    assert ledger.read_text().count('{"count": [1, 2], "op": "aten::relu"}') == 3


# Several processes


def test_workers_that_update_one_file_lose_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_many="""
        import pytest, torch

        @pytest.mark.parametrize("number", range(200))
        def test_it(profiled, number):
            profiled.configure(warmup=1, steps=1)(torch.neg, torch.ones(2)).assert_matches_ledger()
        """
    )
    result = run_pytest(pytester, "--kernelprof-update", "-n4", "-q")
    result.assert_outcomes(passed=200)
    ledger = pytester.path / "__kernelprof__/test_many.json"
    assert lines(result) == ["kernelprof: __kernelprof__/test_many.json: 200 entries written: 200 added"]
    assert sorted(places(ledger)) == sorted((f"test_it[{number}]", "1") for number in range(200))
    assert ledger.read_text().count('"level"') == 200

    before = ledger.read_bytes()
    again = run_pytest(pytester, "--kernelprof-update", "-n4", "-q")
    assert lines(again) == []
    assert ledger.read_bytes() == before


def test_groups_of_xdist_are_no_part_of_a_test(pytester: pytest.Pytester, ledger: Path) -> None:
    edit(pytester, ("@pytest.mark.parametrize", '@pytest.mark.xdist_group("g")\n@pytest.mark.parametrize'))
    result = run_pytest(pytester, "--kernelprof", "--kernelprof-strict", "-n2", "--dist=loadgroup")
    result.assert_outcomes(passed=3)


def test_a_test_that_another_plugin_runs_again_is_judged_anew(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from _pytest.runner import runtestprotocol

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(item, nextitem):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            for _ in range(2):
                item._initrequest()
                reports = runtestprotocol(item, nextitem=nextitem, log=True)
            return True
        """
    )
    pytester.makepyfile(
        test_it="""
        import torch

        RUNS = []

        def test_one(profiled):
            RUNS.append(1)
            profiled(torch.neg if len(RUNS) == 1 else torch.abs, torch.ones(2)).assert_matches_ledger()
        """
    )
    result = run_pytest(pytester, "--kernelprof-update")
    assert lines(result) == [
        "kernelprof: __kernelprof__/test_it.json: not written: test_one, cpu was measured twice, with different results"
    ]
    assert result.ret == pytest.ExitCode.TESTS_FAILED


# inline-snapshot


def test_counts_work_with_inline_snapshot(pytester: pytest.Pytester) -> None:
    pytest.importorskip("inline_snapshot")
    path = pytester.makepyfile(
        test_it="""
        import torch
        from inline_snapshot import snapshot

        def test_one(profiled):
            profile = profiled(torch.relu, torch.ones(2))
            assert profile.op_count <= snapshot()
            assert profile.op_count == snapshot()
        """
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            warm.python(),
            "-m",
            "pytest",
            "-p",
            "no:xdist",
            "-p",
            "no:hypothesispytest",
            "--kernelprof",
            *arguments,
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
        return subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, env=environment)

    assert run().returncode == 1
    run("--inline-snapshot=create")
    assert path.read_text().count("snapshot(2)") == 2
    assert run().returncode == 0

    path.write_text(path.read_text().replace("<= snapshot(2)", "<= snapshot(0)"))
    failed = run()
    assert failed.returncode == 1
    assert "AssertionError: 2 ops a step, expected at most 0" in failed.stdout
    run("--inline-snapshot=fix")
    assert path.read_text().count("snapshot(2)") == 2


def test_the_documentation_has_a_ledger_as_it_is_written(tmp_path: Path) -> None:
    from pytest_kernelprof.ledger.document import read, text_of

    page = (Path(__file__).parent.parent.parent / "docs/reference/ledgers.md").read_text()
    shown = page.partition("```json\n")[2].partition("```")[0]
    file = tmp_path / "shown.json"
    file.write_text(shown)

    assert text_of(read(file, "docs/reference/ledgers.md", "")) == shown
