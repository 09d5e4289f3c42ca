"""Reports of recorded traces: what is in them, whether verdicts can be redone, and what hostile names do to them."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from builders import Rows, annotation, kernel, launch, memcpy, op, step, write
from builders import call as api_call
from redoing import redone

from pytest_kernelprof import Profile, load_trace
from pytest_kernelprof.answers import answer_values
from pytest_kernelprof.cli import main
from pytest_kernelprof.documents import problem
from pytest_kernelprof.errors import KernelprofError
from pytest_kernelprof.judging import Answer, Noted
from pytest_kernelprof.report.github import append_summary, workflow_commands
from pytest_kernelprof.report.layout import Look
from pytest_kernelprof.report.markdown import COMMENT_BYTES, code, markdown
from pytest_kernelprof.report.run_table import View, run_table
from pytest_kernelprof.report.words import origins
from pytest_kernelprof.reporting import VERDICTS, document, profile_values, write_all

DATA = Path(__file__).parent / "data"
H200 = DATA / "traces_h200"
EXAMPLES = Path(__file__).parent.parent / "examples/attention/__kernelprof__/traces"
HOSTILE = [
    "pipe | pipe",
    "tick ` tick `` ticks ```",
    "line\nbreak\r\nand\x0bmore",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "\u202eright to left\u202c",
    "back\\slash\\| and \\` and \\\\|",
    "<script>alert(1)</script> & &lt; @everyone #1",
    "**bold** _it_ ~~gone~~ [link](http://x) ![i](x)",
    "</details></summary>```",
    "::error file=x::y",
    "%0A%25",
    "x" * 10_000,
]
"""Names that break tables, terminals and pages of those who take no care."""
BUDGET = """\
max_kernels = 5
max_launches = 5
no_memcpy = true
max_memcpy_bytes = 1000
no_copy = true
no_own_memset = true
no_host_sync = true
no_host_sync_but = ["aten::item"]
tensor_cores = true
min_tensor_cores = 0.9
dtypes = ["bf16"]
sdpa_backend = "math"
graphed = true
min_occupancy = 0.2
max_gpu_time = "500 us"
max_cpu_time = "2 ms"
max_peak_memory = "1 MiB"
no_device_allocation = true

[op."aten::copy_"]
calls = 1

[kernel."*gemm*"]
max_kernels = 1

[region."attn_*"]
max_kernels = 5
"""


def reported(folder: Path, traces: Sequence[Path | str], *arguments: str, code: int | None = None) -> dict[str, Any]:
    """Return the JSON report of traces."""
    file = folder / "report.json"
    found = main(["report", *map(str, traces), "-o", str(file), *arguments])
    assert code is None or found == code
    report: dict[str, Any] = json.loads(file.read_text())
    # Of many traces that takes seconds, which tests/test_schemas.py spends.
    assert len(traces) > 10 or problem(report, "report-1") is None
    return report


# The document


def test_every_verdict_can_be_redone_from_the_report_alone(tmp_path: Path) -> None:
    (tmp_path / "budget.toml").write_text(BUDGET)
    traces = [*sorted(H200.glob("*.json.gz")), *sorted(EXAMPLES.glob("*.json.gz"))[:12]]

    report = reported(tmp_path, traces, "--budget", str(tmp_path / "budget.toml"))

    profiles = {one["id"]: one for one in report["profiles"]}
    compared: Counter[tuple[str, str]] = Counter()
    for test in report["tests"]:
        for check in test["checks"]:
            if check["outcome"] in ("pass", "fail"):
                compared[check["assertion"], check["outcome"]] += 1
                assert redone(check, profiles[check["profile"]]) == check["outcome"], (test["id"], check["headline"])
    assert sum(compared.values()) > 800
    both = [name for name, _ in compared if {(name, "pass"), (name, "fail")} <= set(compared)]
    assert len(set(both)) >= 14


def test_the_counts_are_those_of_the_events(tmp_path: Path) -> None:
    report = reported(tmp_path, sorted(H200.glob("*.json.gz")), code=0)

    assert report["verdict"] == "nothing asked"
    assert len(report["profiles"]) == len(report["tests"]) == 51
    for one in report["profiles"]:
        first = one["details"]["steps"][0]
        for name in ("kernels", "memcpys", "memsets", "host_syncs", "ops"):
            if one[name] is not None:
                assert len(first[name]["kinds"]) == one[name]
        for name in ("kernels", "memcpys", "memsets"):
            for place in (first[name] or {"launches": []})["launches"]:
                assert place is not None
                assert 0 <= place < len(first["calls"]["kinds"])


def test_a_copy_is_told_with_its_evidence(tmp_path: Path) -> None:
    report = reported(tmp_path, [H200 / "attn_naive.json.gz"], "--no-memcpy", "--max-kernels", "5", code=1)

    (test,), (profile,) = report["tests"], report["profiles"]
    passed, failed = test["checks"]
    assert (passed["assertion"], passed["arguments"]) == ("assert_kernel_count", {"at_most": 5})
    assert (passed["outcome"], passed["message"], passed["evidence"]) == ("pass", "", [])
    assert failed["asked_by"] == "no_memcpy = true"
    assert failed["headline"] == "1 memory copy a step, expected none"
    (evidence,) = failed["evidence"]
    column = profile["details"]["steps"][evidence["step"]][evidence["class"]]
    kind = profile["details"]["kinds"]["memcpys"][column["kinds"][evidence["index"]]]
    assert (kind["kind"], kind["bytes"]) == ("DtoD", 268435456)
    assert kind["launched_by"] == ["aten::masked_fill", "aten::clone", "aten::copy_"]
    assert (report["verdict"], test["verdict"], test["outcome"]) == ("fail", "fail", None)
    assert report["verdicts"] == {name: int(name == "fail") for name in VERDICTS}


def test_what_was_not_measured_is_null_and_no_pass(tmp_path: Path) -> None:
    report = reported(tmp_path, [H200 / "misc_empty_step.json.gz"], "--no-memcpy", code=2)

    (profile,), (test,) = report["profiles"], report["tests"]
    assert report["verdict"] == test["verdict"] == "not measured"
    assert profile["memcpys"] is None
    assert profile["details"]["steps"][0]["memcpys"] is None
    assert profile["details"]["steps"][0]["unmeasured"]["memcpys"]


def test_an_unreadable_trace_is_in_the_report_and_makes_it_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = DATA / "cases/01_truncated_file.json"

    report = reported(tmp_path, [H200 / "attn_inplace.json.gz", broken], "--no-memcpy", code=2)

    assert [test["verdict"] for test in report["tests"]] == ["error", "pass"]
    assert report["verdict"] == "error"
    assert str(broken) in capsys.readouterr().err


def test_no_test_at_all_is_no_pass() -> None:
    report = document([], about={"tool": "pytest", "folder": Path()})

    assert report["verdict"] == "not measured"
    assert "nothing was measured" in markdown(report, COMMENT_BYTES)


def test_problems_of_the_run_are_no_pass(tmp_path: Path) -> None:
    test = passed(tmp_path)

    assert document([test], about=ABOUT)["verdict"] == "pass"
    report = document([test], problems=["a worker crashed"], about=ABOUT)
    assert report["verdict"] == "error"
    assert markdown(report, COMMENT_BYTES).startswith("## kernelprof: 1 problem of the run, 1 passed\n")


def test_numbers_in_parameters_count_as_numbers(tmp_path: Path) -> None:
    tests = [passed(tmp_path, f"test_it.py::test_it[{number}-b2]") for number in (100, 9, 10)]

    report = document(tests, about=ABOUT)

    assert [test["id"].partition("[")[2] for test in report["tests"]] == ["9-b2]", "10-b2]", "100-b2]"]


ABOUT = {"tool": "pytest", "pytest": "9.2", "folder": Path(__file__).parent}


def passed(folder: Path, name: str = "test_it.py::test_it", **more: Any) -> dict[str, Any]:
    """Return what a run knows of a test that passed."""
    file = write(folder / "t.json", step(0, 0, 100), op("aten::add", 1, 20), launch(2, 1))
    profile = profile_values(load_trace(file), owner=name, name="1", detailed=True)
    return {
        "id": name,
        "file": name.partition("::")[0],
        "line": 3,
        "outcome": "passed",
        "verdict": "pass",
        "message": "",
        "at": None,
        "replayed": False,
        "profiles": [profile],
        "checks": [],
        **more,
    }


def failed(folder: Path, name: str, message: str, **more: Any) -> dict[str, Any]:
    told = {"outcome": "failed", "verdict": "fail", "message": message, "at": {"file": "test_it.py", "line": 7}}
    return passed(folder, name, **{**told, **more})


def test_a_profile_that_several_workers_made_is_there_once_and_the_bad_one_counts(tmp_path: Path) -> None:
    good, bad = passed(tmp_path, "test_it.py::test_a"), failed(tmp_path, "test_it.py::test_b", "no")
    for test, kernels in ((good, 1), (bad, 2)):
        test["profiles"][0] |= {"id": "test_it.py#shared", "owner": "test_it.py", "kernels": kernels}

    for order in ([good, bad], [bad, good]):
        (profile,) = document(order, about=ABOUT)["profiles"]
        assert profile["kernels"] == 2


def answers(trace: Path, ask: Any) -> list[dict[str, Any]]:
    """Return what reports tell of the assertions that *ask* makes of the profile of a trace."""
    found: list[Answer] = []
    loaded = load_trace(trace)
    profile = Profile(loaded, noted=Noted("t#1", found.append))
    with suppress(AssertionError, KernelprofError):
        ask(profile)
    return [answer_values(one, "t#1", loaded.steps) for one in found]


def test_arguments_are_told_by_name_selectors_included() -> None:
    def ask(profile: Profile) -> None:
        profile.assert_kernel_count(2, role="gemm")
        profile.region("attn_*").assert_kernel("*softmax*", between=(1, 2), launched_by="aten::softmax")
        profile.assert_kernel_sequence([..., "*softmax*", ...])
        profile.assert_dtypes({"bf16"}, named="*nvjet*")
        profile.assert_guess(gemm=2, elementwise=2, softmax=1, memcpy=(0, 1))

    told = answers(H200 / "attn_naive.json.gz", ask)

    assert [(one["assertion"], one["arguments"]) for one in told] == [
        ("assert_kernel_count", {"exactly": 2, "role": "gemm"}),
        ("assert_kernel", {"pattern": "*softmax*", "between": [1, 2], "launched_by": "aten::softmax"}),
        ("assert_kernel_sequence", {"patterns": ["...", "*softmax*", "..."]}),
        ("assert_dtypes", {"dtypes": ["bf16"], "named": "*nvjet*"}),
        ("assert_guess", {"gemm": 2, "elementwise": 2, "softmax": 1, "memcpy": [0, 1]}),
    ]
    assert [one["outcome"] for one in told] == ["pass"] * 5
    assert [one["regions"] for one in told] == [[], ["attn_*"], [], [], []]
    assert [(one["role"], one["guessed"], one["seen"]) for one in told[4]["guess"]] == [
        ("gemm", "2", 2),
        ("elementwise", "2", 2),
        ("softmax", "1", 1),
        ("memcpy", "at most 1", 1),
    ]


def test_what_could_not_be_judged_is_told_as_well() -> None:
    naive = H200 / "attn_naive.json.gz"
    (selector,) = answers(naive, lambda profile: profile.assert_kernel_count(1, region="nope"))
    (misuse,) = answers(naive, lambda profile: profile.assert_kernel_count("five"))
    (unmeasured,) = answers(H200 / "misc_empty_step.json.gz", lambda profile: profile.assert_no_memcpy())

    assert (selector["outcome"], selector["arguments"]) == ("error", {"exactly": 1, "region": "nope"})
    assert "does not occur" in selector["headline"]
    assert (misuse["outcome"], misuse["arguments"]) == ("error", {"exactly": "five"})
    assert unmeasured["outcome"] == "not measured"


def test_several_checks_together_are_told_one_by_one_and_hints_asked_once() -> None:
    asked: list[str] = []

    def hint(event: Any, profile: Profile) -> list[Any]:
        asked.append(event.name)
        profile.assert_kernel_count(99)  # A hook's own assertion is no check of the test.
        return []

    found: list[Answer] = []
    profile = Profile(
        load_trace(H200 / "attn_naive.json.gz"),
        noted=Noted("t#1", found.append),
        more_hints=lambda event, one: hint(event, one) if not asked else [],
    )
    with pytest.raises(AssertionError), profile.checks():
        profile.assert_no_memcpy()
        profile.assert_kernel_count(5)

    assert [one.verdict.outcome.value for one in found if one.verdict] == ["fail", "pass"]


# Markdown


def parsed(text: str) -> Any:
    """Return Markdown as GitHub reads it: tables, and HTML in between."""
    markdown_it = pytest.importorskip("markdown_it")
    return markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)


def tables(text: str) -> list[list[int]]:
    """Return how many cells each row of each table has; it is Markdown's reader that counts."""
    found: list[list[int]] = []
    for token in parsed(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append(0)
        elif token.type in ("td_open", "th_open"):
            found[-1][-1] += 1
    return found


def rendered(text: str) -> str:
    markdown_it = pytest.importorskip("markdown_it")
    shown: str = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    return shown


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_a_name_in_a_cell_stays_a_name_in_a_cell(name: str) -> None:
    text = f"| a | b |\n| --- | --- |\n| {code(name)} | 1 |\n\nafter"

    assert tables(text) == [[2, 2]]
    assert code(name).isascii()
    assert "<script" not in rendered(text)
    assert "<p>after</p>" in rendered(text)


def hostile_report(folder: Path) -> dict[str, Any]:
    """Return the report of tests, files, kernels, regions and messages with hostile names."""
    tests = []
    for number, name in enumerate(HOSTILE):
        test = failed(folder, f"{name}::{name}", f"{name}\n```\n</details>\n{name}", line=number)
        test["checks"] = [
            {
                "profile": test["profiles"][0]["id"],
                "assertion": "assert_matches_ledger",
                "arguments": {},
                "asked_by": "test",
                "regions": [name],
                "steps": [],
                "steps_may_differ": False,
                "outcome": "fail",
                "headline": name,
                "message": name,
                "at": [{"file": name, "line": 1, "function": name, "exact": True}],
                "evidence": [],
                "changes": [{"class": "kernels", "kind": "more", "words": name, "before": [], "after": []}],
                "guess": [],
            }
        ]
        test["profiles"][0]["ledger"] = "differs"
        tests.append(test)
    report = document(tests, problems=HOSTILE, notes=HOSTILE, about=ABOUT)
    assert problem(report, "report-1") is None
    return report


def test_hostile_names_break_no_table_and_no_block(tmp_path: Path) -> None:
    text = markdown(hostile_report(tmp_path), 10**7)

    number = len(HOSTILE)
    widths = [set(rows) for rows in tables(text)]
    assert widths[:2] == [{4}, {3}]
    assert len(widths[2]) == 1
    assert [len(rows) for rows in tables(text)] == [number + 1] * 3
    shown = rendered(text)
    assert "<script" not in shown
    assert shown.count("<details>") == shown.count("</details>") == number
    assert all(one == "\n" or one.isprintable() for one in text)
    assert max(map(len, text.splitlines())) < 12_000


def test_the_report_fits_where_it_goes_and_says_what_is_left_out(tmp_path: Path) -> None:
    long = "\n".join(f"line {number} of a long message" for number in range(200))
    tests = [failed(tmp_path, f"test_it.py::test_{number}", long, line=number) for number in range(400)]
    report = document(tests, about=ABOUT)

    for limit in (1_000_000, 200_000, COMMENT_BYTES, 20_000, 3_000, 400):
        text = markdown(report, limit)
        assert len(text.encode()) <= limit
        assert limit in (1_000_000, 400) or len(text.encode()) > 0.85 * limit
        assert "400 failed" in text
        assert all(len(set(rows)) == 1 for rows in tables(text))
        if limit < 1_000_000 and limit > 1_000:
            assert "more than there is room for" in text
    assert "test_399" in markdown(report, 10**7)


def test_the_markdown_tells_what_failed_where_and_what_changed(tmp_path: Path) -> None:
    (tmp_path / "naive.json.gz").write_bytes((H200 / "attn_naive.json.gz").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert main(["report", "naive.json.gz", "-o", "report.md", "--no-memcpy"]) == 1

    text = (tmp_path / "report.md").read_text()
    assert text.startswith("## kernelprof: 1 failed\n\nNVIDIA H200, CUDA 13.0, ")
    assert "| `naive.json.gz` | fail | no\\_memcpy = true: 1 memory copy a step, expected none |  |" in text
    assert "| `naive.json.gz` | 5 | 1 | 0 | 39 | 100% | 1.1 ms |" in text
    assert "DtoD    256.0 MiB" in text


def test_names_of_a_trace_are_data(tmp_path: Path) -> None:
    """Kernels, regions and ops with hostile names, from the file to the report."""
    rows: list[Rows] = [step(0, 0, 10_000)]
    for number, name in enumerate(HOSTILE):
        at = 10 + 100 * number
        rows += [annotation(name, at, 90), op(name, at + 1, 80), launch(at + 5, number + 1, name=name)]
        rows += [api_call("cudaMemcpyAsync", at + 20, 500 + number), memcpy(at + 25, 500 + number)]
    trace = write(tmp_path / "a|`b`\x1b[31m.json", *rows)

    report = reported(tmp_path, [trace], "--no-memcpy", "--max-kernels", "1", "-o", str(tmp_path / "r.md"), code=1)

    kinds = report["profiles"][0]["details"]["kinds"]
    assert [one["name"] for one in kinds["kernels"]] == HOSTILE
    assert [one["regions"] for one in kinds["kernels"]] == [[name] for name in HOSTILE]
    text = (tmp_path / "r.md").read_text()
    assert "\x1b" not in text
    assert all(len(set(rows)) == 1 for rows in tables(text))
    assert (tmp_path / "report.json").read_text().isascii()


# GitHub


def test_the_summary_of_a_step_is_appended_to_within_its_limit(tmp_path: Path) -> None:
    report = document([failed(tmp_path, "test_it.py::test_it", "no")], about=ABOUT)
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")

    append_summary(report, summary)
    assert summary.read_text().startswith("before\n\n## kernelprof: 1 failed\n")

    summary.write_text("x" * (1024 * 1024 - 900))
    append_summary(report, summary)
    assert summary.stat().st_size <= 1024 * 1024

    summary.write_text("x" * (1024 * 1024 - 100))
    with pytest.raises(OSError, match="summary of the step is full"):
        append_summary(report, summary)


def test_markdown_goes_to_the_summary_as_well_and_json_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    reported(tmp_path, [H200 / "attn_naive.json.gz"], code=0)
    assert not summary.exists()
    reported(tmp_path, [H200 / "attn_naive.json.gz"], "-o", str(tmp_path / "r.md"), code=0)
    assert "## kernelprof: 1 trace" in summary.read_text()
    summary.write_text("x" * (1024 * 1024 - 100))
    reported(tmp_path, [H200 / "attn_naive.json.gz"], "-o", str(tmp_path / "r.md"), code=2)
    assert "summary of the step is full" in capsys.readouterr().err


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_an_annotation_is_one_line_whatever_a_test_is_called(tmp_path: Path, name: str) -> None:
    (tmp_path / "test_it.py").write_text("")
    test = failed(tmp_path, f"test_it.py::{name}", f"{name}\nmore")

    (line,) = workflow_commands([test], [], tmp_path, {"GITHUB_WORKSPACE": str(tmp_path)})

    assert "\n" not in line
    assert "\r" not in line
    assert "\x1b" not in line
    match = re.fullmatch(r"::error file=test_it\.py,line=7,title=([^:,]*)::(.*)", line)
    assert match is not None
    assert len(match[1]) < 700


def test_an_annotation_stands_at_the_guilty_line_where_that_is_in_the_workspace(tmp_path: Path) -> None:
    for file in ("model.py", "test_it.py"):
        (tmp_path / file).write_text("")
    test = failed(tmp_path, "test_it.py::test_it", "1 memory copy a step, expected none")

    def at(*places: tuple[str, int]) -> str:
        checks = [
            {
                "outcome": "fail",
                "headline": "",
                "message": "",
                "at": [{"file": file, "line": line} for file, line in places],
            }
        ]
        (told,) = workflow_commands([{**test, "checks": checks}], [], tmp_path, {})
        return told.partition(",title")[0]

    assert at(("model.py", 27)) == "::error file=model.py,line=27"
    assert at(("../elsewhere.py", 27)) == "::error file=test_it.py,line=7"
    assert at(("<string>", 1), ("model.py", 3)) == "::error file=model.py,line=3"
    assert at() == "::error file=test_it.py,line=7"


def test_files_are_told_from_the_workspace_also_where_pytest_runs_below_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/test_it.py").write_text("")
    test = failed(tmp_path, "test_it.py::test_it", "no")

    (line,) = workflow_commands([test], [], tmp_path / "sub", {"GITHUB_WORKSPACE": str(tmp_path)})

    assert line.startswith("::error file=sub/test_it.py,line=7,")


def test_ten_annotations_are_all_that_github_shows(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("")
    tests = [failed(tmp_path, f"test_it.py::test_{number}", "no") for number in range(13)]
    skipped = [
        failed(tmp_path, f"test_it.py::test_s{number}", "x", verdict="not measured", outcome="skipped")
        for number in range(2)
    ]

    lines = list(workflow_commands([*tests, *skipped, passed(tmp_path)], ["a worker\ncrashed"], tmp_path, {}))

    assert [line.partition(" ")[0] for line in lines] == ["::error"] * 10 + ["::warning"] * 2
    assert lines[0] == "::error title=kernelprof::a worker?crashed"
    assert "4 more tests did not pass" in lines[9]


# Files


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    trace = str(H200 / "attn_naive.json.gz")

    assert main(["report", trace, "-o", str(tmp_path / "file/r.json"), "-o", str(tmp_path / "r.md")]) == 2

    assert "r.json: not written" in capsys.readouterr().err
    assert (tmp_path / "r.md").exists()


def test_a_report_takes_the_place_of_no_trace_and_of_no_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_bytes(gzip.decompress((H200 / "attn_naive.json.gz").read_bytes()))
    (tmp_path / "link.json").symlink_to(trace)
    before = trace.read_bytes()
    for name in ("trace.json", "link.json"):
        with pytest.raises(SystemExit):
            main(["report", str(trace), "-o", str(tmp_path / name)])
    assert trace.read_bytes() == before
    assert "is one of the traces" in capsys.readouterr().err

    (tmp_path / "device.json").symlink_to("/dev/full")
    assert main(["report", str(trace), "-o", str(tmp_path / "device.json")]) == 2
    assert Path("/dev/full").is_char_device()
    assert "not written: No space left" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["report.txt", "report", "report.md.bak"])
def test_an_ending_that_says_no_form_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", "x.json", "-o", name])

    assert ".json, .md or .html" in capsys.readouterr().err


def test_a_report_replaces_the_one_before_and_makes_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "new/folder/report.json"
    report = document([passed(tmp_path)], about=ABOUT)

    for _ in range(2):
        assert list(write_all(report, [file], {})) == [(file, None)]

    assert json.loads(file.read_text()) == report
    assert [path.name for path in file.parent.iterdir()] == ["report.json"]


def test_provenance_says_which_commit_and_where_ci_shows_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1", "GITHUB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    assert document([], about={"tool": "pytest", "folder": Path("/")})["provenance"]["commit"] is None

    for name, value in {
        "GITHUB_SHA": "c0ffee",
        "GITHUB_SERVER_URL": "https://example.org",
        "GITHUB_REPOSITORY": "me/it",
        "GITHUB_RUN_ID": "7",
    }.items():
        monkeypatch.setenv(name, value)
    told = document([], about=ABOUT)["provenance"]

    assert (told["commit"], told["run"]) == ("c0ffee", "https://example.org/me/it/actions/runs/7")


# The table at the end of a run


def row(test: str, **more: Any) -> dict[str, Any]:
    values = {"name": "1", "kernels": 5, "memcpys": 1, "host_syncs": 0, "ops": 39, "tensor_cores": "100%"}
    return {"test": test, **values, "gpu_time_ns": 1_100_000, "ledger": None, "replayed": None, **more}


ON_CPU = dict.fromkeys(("kernels", "memcpys", "host_syncs", "tensor_cores", "gpu_time_ns"))
REPLAYED = {"from": "NVIDIA H200, 2026-11-30"}
ROWS = [
    row("tests/models/test_attention.py::test_masking_in_place_makes_no_copy[bf16-4096]", ledger="differs"),
    row("tests/test_cpu.py::test_one", **ON_CPU),
    row("tests/test_replayed.py::test_one", replayed=REPLAYED, name="warm"),
    *(row(f"tests/test_it.py::{name}") for name in HOSTILE),
]
VERDICT = {ROWS[0]["test"]: "fail", ROWS[1]["test"]: "not measured"}


@pytest.mark.parametrize("width", range(60, 201, 10))
def test_the_table_fits_the_terminal_and_drops_nothing(width: int) -> None:
    lines = run_table(ROWS, VERDICT, View(Look.of(width)))

    told = [line.text for line in lines]
    assert max(map(len, told)) <= width
    assert all(line.isascii() and line.isprintable() for line in told)
    text = " ".join(" ".join(told).split())
    for word in ("1.1 ms", "100%", "39", "differs", "fail", "not measured", "replayed", "(warm)"):
        assert word in text
    assert [line.verdict for line in lines if "fail" in line.text][:1] == ["fail"]


def test_devices_and_days_of_recordings_are_each_told_once() -> None:
    made = ("NVIDIA H200, 2026-11-30", "no GPU, 2026-12-01", "NVIDIA H200, 2026-10-07", "NVIDIA H200, 2026-11-02")
    rows = [row(f"test_it.py::test_{number}", replayed={"from": one}) for number, one in enumerate(made)]

    assert (
        origins([row("test_live.py::test_one"), *rows]) == "NVIDIA H200, 2026-10-07 to 2026-11-30; no GPU, 2026-12-01"
    )


def test_a_terminal_of_any_width_shows_every_profile() -> None:
    for width in (60, 100, 140, 200):
        told = "\n".join(line.text for line in run_table(ROWS[:3], {}, View(Look.of(width))))
        assert "test_masking" in told
        assert told.count("test_one") == 2


def test_columns_that_nobody_measured_are_said_once_where_room_is_scarce() -> None:
    rows = [row(f"tests/test_cpu.py::test_{number}", **ON_CPU) for number in range(3)]

    narrow = [line.text for line in run_table(rows, {}, View(Look.of(80)))]
    wide = [line.text for line in run_table(rows, {}, View(Look.of(160)))]

    assert narrow[0].split() == ["test", "ops"]
    assert narrow[-1] == "not measured: kernels, copies, syncs, tensor cores, GPU time"
    assert wide[1].count("not measured") == 5


def test_names_are_cut_unless_everything_is_to_be_shown() -> None:
    long = row("tests/test_it.py::test_" + "x" * 300)

    assert any("..." in line.text for line in run_table([long], {}, View(Look.of(120))))
    assert any(long["test"] in line.text for line in run_table([long], {}, View(Look.of(120, verbosity=2))))


@pytest.mark.parametrize(
    ("sort", "order"),
    [("run", "abc"), ("gpu-time", "bac"), ("kernels", "cab"), ("copies", "cba"), ("syncs", "abc"), ("ops", "bca")],
)
def test_the_table_is_ordered_by_what_has_most(sort: str, order: str) -> None:
    rows = [
        row("a", gpu_time_ns=2, kernels=2, memcpys=0, ops=1),
        row("b", gpu_time_ns=3, kernels=1, memcpys=1, ops=3),
        row("c", gpu_time_ns=None, kernels=3, memcpys=2, ops=2, host_syncs=None),
    ]

    lines = run_table(rows, {}, View(Look.of(120), sort))

    assert [line.text[0] for line in lines[1:]] == list(order)


def test_the_first_lines_of_the_table_and_how_many_more_there_are() -> None:
    rows = [row(name) for name in "abcde"]

    assert [line.text[0] for line in run_table(rows, {}, View(Look.of(120), top=2))[1:3]] == ["a", "b"]
    assert run_table(rows, {}, View(Look.of(120), top=2))[-1].text == ("... and 3 more (--kernelprof-top=0 shows all)")
    assert len(run_table(rows, {}, View(Look.of(120), top=5))) == 6


def test_kernels_without_a_launch_have_no_place_among_calls(tmp_path: Path) -> None:
    """A leaked kernel is in no step, so that every event of a step leads to its call."""
    trace = write(tmp_path / "t.json", kernel(1, 99), step(0, 0, 100), launch(20, 1))

    (profile,) = reported(tmp_path, [trace])["profiles"]

    assert profile["details"]["steps"][0]["kernels"]["launches"] == [0]
