"""``kernelprof check``, ``diff``, ``doctor`` and many files: verdicts, exit codes, and what happens when things go wrong."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import warm
from builders import annotation, call, launch, memcpy, op, step, write
from pages import DOCS, blocks, commands

import pytest_kernelprof
from pytest_kernelprof import Profile, load_trace
from pytest_kernelprof.budget import RULES, BudgetLine, budget_of
from pytest_kernelprof.cli import _parser, main
from pytest_kernelprof.cli.reading import Progress, files_of
from pytest_kernelprof.doctor import BAD_CUPTI, Finding, exit_code
from pytest_kernelprof.errors import BudgetError
from pytest_kernelprof.report.sections import escaped
from pytest_kernelprof.trace_diff import diff

PAGE = DOCS / "reference/command.md"

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
H200 = DATA / "traces_h200"
NAIVE, IN_PLACE = str(H200 / "attn_naive.json.gz"), str(H200 / "attn_inplace.json.gz")
HOSTILE = "x|`*_<script>&amp;\x1b[31m\n\u202e" + "y" * 10_000


def run(capsys: pytest.CaptureFixture[str], *arguments: str | int | Path) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error."""
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def in_a_process(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [warm.python(), "-m", "pytest_kernelprof", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


# The page


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from ((name, option) for _, option in _options(command))
        yield from (("", option) for option in action.option_strings if option.startswith("--"))


def test_every_option_is_on_the_page_with_an_example_that_was_run() -> None:
    sessions = [block for block in blocks(PAGE.read_text()) if block.is_session]
    examples = [one.line.removeprefix("kernelprof ") for block in sessions for one in commands(block)]
    # What doctor prints is a machine's own, and json is long: they are told in words.
    in_words = {
        ("doctor", "--format"),
        ("doctor", "--folder"),
        ("", "--help"),
        ("decode", "--format"),
        ("diff", "--format"),
    }
    in_words |= {("diff", "--max-trace-size"), ("check", "--max-trace-size"), ("show", "--jobs")}
    in_words |= {("report", option) for command, option in _options(_parser()) if command == "check"}
    for command, option in _options(_parser()):
        if option == "--help" or (command, option) in in_words:
            continue
        assert any(one.startswith(command) and option in one.split() for one in examples), (command, option)


def test_every_limit_is_on_the_page() -> None:
    page = PAGE.read_text()
    for rule in RULES:
        assert f"`{rule.key}`" in page, rule.key


# check


def test_in_place_attention_keeps_to_five_kernels_without_a_copy(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", IN_PLACE, "--max-kernels", 5, "--no-memcpy")
    assert (code, out.splitlines()[-2:]) == (0, ["  ok    max_kernels = 5", "  ok    no_memcpy = true"])


def test_naive_attention_fails_with_the_copy_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", NAIVE, "--max-kernels", 5, "--no-memcpy")
    assert code == 1
    assert "FAIL  no_memcpy = true\n    1 memory copy a step, expected none" in out
    assert "aten::masked_fill > aten::clone > aten::copy_" in out


MALFORMED = [
    "01_truncated_file.json",
    "10_gz_bitflip.json.gz",
    "13_empty_traceEvents.json",
    "17_legacy_autograd_list.json",
    "38_wsl_no_kernels.json",
]


@pytest.mark.parametrize("name", MALFORMED)
def test_what_cannot_be_judged_is_2(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, _, err = run(capsys, "check", DATA / "cases" / name, "--max-kernels", 5, "--no-memcpy")
    assert code == 2
    assert "Traceback" not in err


def test_2_beats_1_and_every_file_is_reported_first(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "nowhere.json", NAIVE, IN_PLACE, "--no-memcpy")
    assert code == 2
    assert "nowhere.json: no such file" in err
    assert [line[:4] for line in out.splitlines() if line[:4] in ("ok  ", "FAIL", "????")] == ["????", "FAIL", "ok  "]
    assert out.splitlines()[-1] == "3 traces: 1 ok, 1 failed, 1 could not be judged"


def test_nothing_to_check_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check", NAIVE])
    assert caught.value.code == 2
    assert "nothing to check; accepted: --budget FILE, or flags" in capsys.readouterr().err


def test_a_flag_that_says_nonsense_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "check", NAIVE, "--max-gpu-time", "soon")[0] == 2
    with pytest.raises(SystemExit):
        main(["check", NAIVE, "--sdpa-backend", "flesh"])
    with pytest.raises(SystemExit):
        main(["check", NAIVE, "--max-kernels", "-1"])


def differing(folder: Path) -> Path:
    rows = [
        step(1, 0, 90),
        op("aten::mul", 1, 20),
        *launch(2, 1),
        step(2, 100, 90),
        op("aten::mul", 101, 20),
        *launch(102, 2),
    ]
    return write(folder / "differing.json", rows, launch(150, 3))


def test_steps_must_agree_unless_they_may_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = differing(tmp_path)
    code, out, _ = run(capsys, "check", trace, "--max-kernels", 2)
    assert code == 1
    assert (
        "steps disagree: 1 and 2 kernels, expected all alike (steps_may_differ=False by default; --steps-may-differ accepts it)"
        in out
    )
    assert run(capsys, "check", trace, "--max-kernels", 2, "--steps-may-differ")[0] == 0
    assert run(capsys, "check", trace, "--max-kernels", 1, "--steps-may-differ")[0] == 1


def budget(folder: Path, text: str) -> Path:
    path = folder / "budget.toml"
    path.write_text(text)
    return path


def test_each_rule_is_the_assertion_of_its_name() -> None:
    """One implementation: a rule asks the profile, and nothing else."""

    class Asked:
        def __init__(self) -> None:
            self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return lambda *args, **kwargs: self.calls.append((name, args, kwargs))

    asked = Asked()
    for rule in RULES:
        value = ["x"] if rule.value in ("dtypes", "patterns") else 1
        rule.judge(asked, value, {})  # type: ignore[arg-type] # stands in for a profile
    assert len(asked.calls) == len(RULES)
    for name, _, _ in asked.calls:
        assert callable(getattr(Profile, name)), name


def test_the_schema_of_budgets_has_every_rule() -> None:
    schema = json.loads((Path(pytest_kernelprof.__file__).parent / "schemas/budget-1.schema.json").read_text())
    keys = {rule.key for rule in RULES}
    assert set(schema["properties"]) == keys | {"region", "step", "kernel", "op"}
    of_kernels = {rule.key for rule in RULES if rule.of_kernels}
    assert set(schema["properties"]["kernel"]["additionalProperties"]["properties"]) == of_kernels
    for rule in RULES:
        assert schema["properties"][rule.key] == {"$ref": f"#/$defs/{rule.value}"}


def test_limits_hold_by_region_step_name_and_op(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        step(1, 0, 90),
        annotation("attn_1", 1, 30),
        op("aten::mul", 2, 10),
        *launch(3, 1),
        op("aten::copy_", 40, 10),
        call("cudaMemcpyAsync", 41, 2),
        memcpy(50, 2),
        step(2, 100, 90),
        annotation("attn_1", 101, 30),
        op("aten::mul", 102, 10),
        *launch(103, 3),
        op("aten::copy_", 140, 10),
        call("cudaMemcpyAsync", 141, 4),
        memcpy(150, 4),
    ]
    trace = write(tmp_path / "t.json", rows)

    def code(text: str) -> int:
        return run(capsys, "check", trace, "--budget", budget(tmp_path, text))[0]

    assert code('[region."attn_*"]\nno_memcpy = true\nkernels = 1') == 0
    assert code("no_memcpy = true") == 1
    assert code('[region."attm"]\nno_memcpy = true') == 2
    assert code("[step.2]\nmax_kernels = 0") == 1
    assert code('[step."Profiler*"]\nmax_kernels = 1') == 0
    assert code("[step.7]\nmax_kernels = 0") == 2
    assert code('[kernel."*elementwise*"]\nmax_kernels = 0') == 1
    assert code('[kernel."*triu*"]\nmax_kernels = 0') == 0
    assert code('[kernel."*triu*"]\nmin_kernels = 1') == 1
    assert code('[op."aten::copy_"]\ncalls = 1') == 0
    assert code('[op."aten::copy_"]\nmax_calls = 0') == 1


BROKEN_BUDGETS = {
    "max_kernel = 5": "$: 'max_kernel' is no key; did you mean 'max_kernels'?",
    "max_kernels = -1": "$.max_kernels: -1 is not accepted; accepted: a whole number from 0",
    "max_kernels = '5'": '$.max_kernels: "5" is not accepted; accepted: a whole number from 0',
    "no_memcpy = false": "$.no_memcpy: false is not accepted; accepted: true; leave it out otherwise",
    "[region.attn]\nmax_kernls = 1": "$.region.attn: 'max_kernls' is no key; did you mean 'max_kernels'?",
    "[region.attn]": "$.region.attn: {} is not accepted",
    '[kernel."*x*"]\nno_memcpy = true': "$.kernel[\"*x*\"]: 'no_memcpy' is no key",
    "[op.x]\nmax_call = 1": "$.op.x: 'max_call' is no key; did you mean 'max_calls'?",
    "max_gpu_time = 'soon'": "$.max_gpu_time: max_gpu_time = 'soon' is no time",
    "max_memcpy_bytes = '1 MB of it'": "$.max_memcpy_bytes: max_memcpy_bytes = '1 MB of it' is no number of bytes",
    "dtypes = ['bf17']": "$.dtypes: 'bf17' is no data type",
    "min_tensor_cores = 1.5": "$.min_tensor_cores: 1.5 is not accepted; accepted: a number above 0 and up to 1",
    "max_kernels = 1979-05-27": '$.max_kernels: "1979-05-27" is not accepted; accepted: a whole number from 0',
    "max_kernels = 5.0": "$.max_kernels: 5.0 is not accepted; accepted: a whole number",
    "min_kernels = 0": "$.min_kernels: 0 always passes; accepted: above 0",
    "min_occupancy = nan": "$.min_occupancy: nan always passes; accepted: above 0",
    '[region.""]\nmax_kernels = 1': '$.region: "" is not accepted; accepted: a glob that is not empty',
    "max_kernels = ": "no TOML: ",
    "": "$: limits nothing; accepted: such as max_kernels = 5",
}


@pytest.mark.parametrize("text", BROKEN_BUDGETS)
def test_a_wrong_budget_is_one_line_with_file_path_and_what_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = budget(tmp_path, text)
    code, out, err = run(capsys, "check", NAIVE, "--budget", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"kernelprof: {path}: {BROKEN_BUDGETS[text]}")
    assert err.count("\n") == 1


def test_a_budget_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="cannot be read: No such file"):
        budget_of(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(BudgetError, match="not UTF-8 at byte 0"):
        budget_of(tmp_path / "bad.toml")


def test_the_budget_of_the_page_is_read_in_order() -> None:
    page = PAGE.read_text()
    text = page.partition("```toml\n")[2].partition("```")[0]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        lines = budget_of(budget(Path(folder), text)).lines
    assert lines[0] == BudgetLine("max_kernels", 5)
    assert [line.scope for line in lines] == [None, None, None, "region", "kernel", "op"]


def test_plain_flags_load_no_validator() -> None:
    program = (
        "import sys; from pytest_kernelprof.cli import main; "
        f"main(['check', {NAIVE!r}, '--max-kernels', '5']); "
        "print([name for name in ('jsonschema', 'torch', 'filelock', 'tabulate') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_json_and_markdown_of_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", NAIVE, IN_PLACE, "--no-memcpy", "--format", "json")
    document = json.loads(out)
    assert (code, document["schema"], document["outcome"]) == (1, "kernelprof/check/1", "fail")
    assert [trace["outcome"] for trace in document["traces"]] == ["fail", "pass"]
    assert document["traces"][0]["checks"][0]["message"].startswith("1 memory copy a step, expected none")
    code, out, _ = run(capsys, "check", NAIVE, "--no-memcpy", "--format", "markdown")
    assert "| no\\_memcpy = true | fail | 1 memory copy a step, expected none |" in out


# show


@pytest.mark.parametrize("by", ["op", "kernel", "role", "stream", "region"])
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_groups_hold_every_event_once(capsys: pytest.CaptureFixture[str], by: str, form: str) -> None:
    code, out, _ = run(capsys, "show", NAIVE, "--by", by, "--top", 0, "--format", form)
    assert code == 0
    lines = [re.split(r"\s{2,}|\s*\|\s*", line.strip("| ")) for line in out.splitlines()]
    header = next(place for place, line in enumerate(lines) if line[0] in (by, "GPU") and len(line) > 3)
    rows = [line for line in lines[header + 1 :] if len(line) == len(lines[header])]
    column = lines[header].index("kernels" if by in ("op", "stream", "region") else "count")
    assert sum(int(row[column]) for row in rows if row[column].isdecimal()) == 15


def test_steps_and_regions_narrow(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", NAIVE, "--step", "ProfilerStep#[23]", "--region", "attn_fwd")
    assert "no step 'ProfilerStep#[23]'" in run(capsys, "show", NAIVE, "--step", "ProfilerStep#[23]")[2]
    code, out, err = run(capsys, "show", NAIVE, IN_PLACE, "--region", "attm_fwd")
    assert code == 2
    assert out == ""
    assert err.count("kernelprof: ") == 2
    assert "attn_fwd" in err


def test_json_has_everything_and_takes_no_view(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["show", NAIVE, "--format", "json", "--by", "op", "--top", "3"])
    assert caught.value.code == 2
    assert "--by, --top: for text and markdown; json always has everything" in capsys.readouterr().err
    _, out, _ = run(capsys, "show", NAIVE, "nowhere.json", IN_PLACE, "--format", "json")
    assert len(json.loads(out)["traces"]) == 2


def test_hostile_names_break_no_table_and_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [step(1, 0, 90), annotation(HOSTILE, 1, 50), op(HOSTILE, 2, 30), *launch(3, 1, name=HOSTILE)]
    rows += [call("cudaMemcpyAsync", 10, 2), memcpy(20, 2, name=HOSTILE)]
    trace = write(tmp_path / "hostile.json", rows)
    for arguments in (
        ("show", trace),
        *(("show", trace, "--by", by) for by in ("op", "kernel", "region", "role", "stream")),
        ("show", trace, "--format", "markdown"),
        ("check", trace, "--max-kernels", 0),
        ("check", trace, "--max-kernels", 0, "--format", "markdown"),
        ("diff", trace, NAIVE, "--force"),
        ("diff", trace, NAIVE, "--force", "--format", "markdown"),
    ):
        _, out, _ = run(capsys, *arguments)
        assert out.replace(str(tmp_path), "").isascii()
        assert "\x1b" not in out
        for line in out.splitlines():
            if line.startswith("|"):
                assert "<script" not in line
                assert len(line) < 2_000
    assert escaped("a|b`c<d>&") == "a\\|b\\`c&lt;d>&amp;"


# diff


def test_the_diff_of_naive_and_in_place_attention(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "diff", NAIVE, IN_PLACE)
    assert code == 1
    parts = out.replace("\n  aten::masked_fill", " aten::masked_fill").split("\n\n")
    assert parts[1:] == [
        "memory copies a step:\n  -1 Memcpy DtoD 256.0 MiB by aten::masked_fill > aten::clone > aten::copy_",
        "calls that launch, copy or set a step:\n  -1 cudaMemcpyAsync",
        "ops gone a step: 2 aten::as_strided, aten::clone, aten::copy_, aten::empty, aten::empty_like, 2 aten::expand, aten::masked_fill",
        "ops new a step: none",
        "none changed of: host syncs, kernels, Memsets\n",
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in H200.glob("*.json.gz")))
def test_a_trace_equals_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    trace = load_trace(H200 / name)
    code, out, _ = run(capsys, "diff", H200 / name, H200 / name)
    if any(reason for reason in trace.incomplete):
        assert code in (0, 2)
    else:
        assert (code, out.splitlines()[-1].partition(" in ")[0]) == (0, "nothing changed")


def test_times_alone_are_no_difference_but_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def timed(name: str, dur: float) -> Path:
        rows = []
        for number in range(3):
            rows += [step(number, 100 * number, 90), *launch(100 * number + 2, number + 1, dur=dur)]
        return write(tmp_path / name, rows)

    code, out, _ = run(capsys, "diff", timed("a.json", 10), timed("b.json", 15))
    assert code == 0
    assert "slower: fill fp32 (aten) at::native::vectorized_elementwise_kernel<FillFunctor>: 10.0 us -> 15.0 us" in out
    assert out.splitlines()[-1] == "nothing changed but times"
    assert "slower" not in run(capsys, "diff", timed("a.json", 10), timed("b.json", 10.5))[1]


def edited(name: str, folder: Path, change: Callable[[Any], None]) -> Path:
    with gzip.open(H200 / f"{name}.json.gz") as file:
        document = json.load(file)
    change(document)
    path = folder / "edited.json"
    path.write_text(json.dumps(document))
    return path


def test_traces_of_different_devices_get_no_verdict_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def other_device(document: Any) -> None:
        document["deviceProperties"][0]["name"] = "NVIDIA H100"

    other = edited("attn_naive", tmp_path, other_device)
    code, out, _ = run(capsys, "diff", NAIVE, other)
    assert code == 2
    assert "not comparable: devices differs: NVIDIA H200 before, NVIDIA H100 after" in out
    assert "no verdict (--force compares all the same)" in out
    assert "a step" not in out
    code, out, _ = run(capsys, "diff", NAIVE, other, "--force")
    assert code == 0
    assert "compared all the same (--force)" in out
    document = json.loads(run(capsys, "diff", NAIVE, other, "--format", "json")[1])
    assert (document["comparable"], document["equal"], document["changes"]) == (False, None, None)


def test_a_class_that_lost_events_gets_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def lose_a_kernel(document: Any) -> None:
        rows = document["traceEvents"]
        rows.remove([row for row in rows if row.get("cat") == "kernel"][-1])

    code, out, _ = run(capsys, "diff", NAIVE, edited("attn_naive", tmp_path, lose_a_kernel))
    assert code == 2
    assert "not comparable: kernels after are incomplete: " in out


def test_one_with_steps_and_one_without_are_not_comparable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_steps = write(tmp_path / "a.json", step(1, 0, 90), launch(2, 1))
    without = write(tmp_path / "b.json", launch(2, 1))
    code, out, _ = run(capsys, "diff", with_steps, without)
    assert (code, "one of them has steps, the other is one step as a whole" in out) == (2, True)
    assert run(capsys, "diff", without, without)[0] == 0


def test_ranks_that_differ_in_what_nccl_picked_are_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rank(name: str, kernel: str, number: int) -> Path:
        rows = [step(1, 0, 90), op("nccl:all_reduce", 1, 20), *launch(2, 1, name=kernel)]
        path = write(tmp_path / name, rows)
        document = json.loads(path.read_text())
        document["distributedInfo"] = {"rank": number}
        path.write_text(json.dumps(document))
        return path

    one = rank("0.json", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 0)
    other = rank("1.json", "ncclDevKernel_AllReduce_Sum_f32_TREE_LL128(ncclDevKernelArgsStorage<4096ul>)", 1)
    assert run(capsys, "diff", one, other)[0] == 0


def test_steps_that_differ_are_compared_by_their_medians(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = differing(tmp_path)
    code, out, _ = run(capsys, "diff", trace, trace)
    assert code == 0
    assert "note: the steps before differ in kernels, calls: of each number the median is compared" in out


def test_the_values_of_a_diff(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "diff", NAIVE, IN_PLACE, "--format", "json")[1])
    assert (document["schema"], document["comparable"], document["equal"]) == ("kernelprof/diff/1", True, False)
    (copy,) = [one for one in document["changes"] if one["class"] == "memcpys"]
    assert copy["before"] == [
        {"count": 1, "kind": "DtoD", "size_bytes": 268435456, "pageable": False, "by": "aten::masked_fill"}
    ]
    assert copy["launched_by"] == [["aten::masked_fill", "aten::clone", "aten::copy_"]]


def test_what_neither_measured_is_left_out_and_named() -> None:
    trace = load_trace(DATA / "traces_h200/misc_empty_step.json.gz")
    found = diff(trace, trace)
    assert "kernels" in found.left_out
    assert "kernels" not in found.changed


def with_more(folder: Path, name: str, where: str, number: int = 500) -> Path:
    """Return a trace of three steps with more kernels in one of them, or outside them all."""
    rows = []
    for index in range(3):
        begin = 10_000 * index
        rows += [step(index, begin, 5_000), op("aten::mul", begin + 1, 20), *launch(begin + 2, 1000 * index + 1)]
    more = {"in one step": 10_100, "outside": 6_000}.get(where)
    if more is not None:
        for index in range(number):
            rows += launch(more + 2 * index, 5_000 + index)
    return write(folder / name, rows)


@pytest.mark.parametrize("where", ["in one step", "outside"])
def test_what_the_typical_step_does_not_show_is_no_equality(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    one, other = with_more(tmp_path, "a.json", "nowhere"), with_more(tmp_path, "b.json", where)
    code, out, _ = run(capsys, "diff", one, other)
    assert code == 1
    assert "nothing changed" not in out
    said = {
        "in one step": "kernels: the steps do not differ in the same way: 1, 1, 1 before, 1, 501, 1 after",
        "outside": "calls outside the steps: 0 before, 500 after",
    }
    assert said[where] in out
    assert json.loads(run(capsys, "diff", one, other, "--format", "json")[1])["equal"] is False


def test_work_outside_the_steps_is_told_wherever_a_trace_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = with_more(tmp_path, "b.json", "outside", 100)
    warning = "warning: 100 calls that launch, copy or set outside every step; in no count"
    assert warning in run(capsys, "show", trace)[1]
    code, out, _ = run(capsys, "check", trace, "--max-kernels", 5)
    assert (code, warning in out) == (0, True)
    empty = write(
        tmp_path / "c.json", step(1, 0, 10), op("aten::mul", 1, 5), *[launch(100 + n, n + 1) for n in range(5)]
    )
    code, out, _ = run(capsys, "check", empty, "--max-kernels", 5)
    assert code == 2
    assert "all calls that launch, copy or set are outside the steps" in out


def test_warnings_stand_beside_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", DATA / "cases/55_while_node_graph.json", "--max-kernels", 3)
    assert code == 0
    assert "  warning: " in out
    document = json.loads(
        run(capsys, "check", DATA / "cases/55_while_node_graph.json", "--max-kernels", 3, "--format", "json")[1]
    )
    assert document["traces"][0]["warnings"]


def test_launches_whose_kernels_nobody_measured_are_an_obstacle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = DATA / "cases/38_wsl_no_kernels.json"
    code, out, _ = run(capsys, "diff", trace, trace)
    assert code == 2
    assert "not comparable: kernels before were not measured, although there are 3 launches" in out
    nothing = tmp_path / "nothing.json"
    nothing.write_text("[]")
    assert run(capsys, "diff", nothing, nothing, "--force")[0] == 2


def test_a_copy_of_one_byte_more_is_told_in_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def copying(name: str, size: int) -> Path:
        return write(tmp_path / name, step(1, 0, 90), call("cudaMemcpyAsync", 5, 1), memcpy(9, 1, size=size))

    _, out, _ = run(capsys, "diff", copying("a.json", 1 << 28), copying("b.json", (1 << 28) + 1))
    assert "Memcpy DtoD 256.0 MiB (268435456 B) -> Memcpy DtoD 256.0 MiB (268435457 B) by (no op)" in out.replace(
        "\n  ", " "
    )


def test_markdown_of_a_diff_leaves_nothing_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "diff", NAIVE, H200 / "attn_sdpa_math.json.gz")[1]
    markdown = run(capsys, "diff", NAIVE, H200 / "attn_sdpa_math.json.gz", "--format", "markdown", "--top", 0)[1]
    names = set(re.findall(r"aten::\w+", " ".join(text.split())))
    assert names <= set(re.findall(r"aten::\w+", markdown.replace("\\", "")))


# Many files


def eight(folder: Path) -> str:
    for rank in range(8):
        shutil.copy(NAIVE if rank % 2 else IN_PLACE, folder / f"rank{rank}.json.gz")
    return str(folder / "rank*.json.gz")


@pytest.mark.parametrize(
    "command", [("show",), ("show", "--format", "json"), ("check", "--no-memcpy", "--format", "json")]
)
def test_jobs_change_nothing_but_the_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    traces = eight(tmp_path)
    alone = run(capsys, *command, traces)
    together = run(capsys, *command, "--jobs", 3, traces)
    assert together == alone
    if command[0] == "check":
        assert [Path(one["file"]).name for one in json.loads(alone[1])["traces"]] == [
            f"rank{n}.json.gz" for n in range(8)
        ]


def test_a_broken_file_among_many_is_reported_in_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = eight(tmp_path)
    (tmp_path / "rank3.json.gz").write_text("{")
    for jobs in (1, 3):
        code, out, err = run(capsys, "check", traces, "--max-kernels", 5, "--jobs", jobs)
        assert code == 2
        assert err.count("\n") == 1
        assert "8 traces: 7 ok, 0 failed, 1 could not be judged" in out


def test_globs_are_found_once_and_in_order(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "[x].json"):
        (tmp_path / name).touch()
    found = files_of([str(tmp_path / "?.json"), str(tmp_path / "a.json"), str(tmp_path / "[x].json"), "none*.json"])
    assert [Path(path).name for path in found] == ["a.json", "b.json", "[x].json", "none*.json"]


def test_a_reader_that_leaves_changes_no_verdict(tmp_path: Path) -> None:
    traces = eight(tmp_path)
    command = f"{sys.executable} -m pytest_kernelprof check '{traces}' --no-memcpy | head -n 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 1
    assert result.stderr == ""
    command = f"{sys.executable} -m pytest_kernelprof show '{traces}' | head -n 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_process_that_was_killed_is_2_and_a_line_for_each_file(tmp_path: Path) -> None:
    body = ",\n".join([",\n".join(json.dumps(row) for row in launch(1, 1))] * 200_000)
    for number in range(3):
        (tmp_path / f"{number}.json").write_text('{"traceEvents": [\n' + body + "]}")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_kernelprof", "check", "--jobs", "2", "--no-memcpy", f"{tmp_path}/*.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("this system does not tell the children of a process")
    deadline = time.monotonic() + 30
    while not children.read_text().split() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(int(children.read_text().split()[-1]), signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "Traceback" not in err
    assert "a process that read traces was killed" in err
    assert "could not be judged" in out.splitlines()[-1]


def test_a_process_that_is_killed_while_files_are_handed_out_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    def refuse(*_: object) -> None:
        raise BrokenProcessPool

    monkeypatch.setattr(ProcessPoolExecutor, "submit", refuse)
    files = [write(tmp_path / f"{number}.json", launch(1, 1)) for number in range(2)]

    assert main(["check", "--jobs", "2", "--no-memcpy", *map(str, files)]) == 2
    out, err = capsys.readouterr()
    assert [line for line in err.splitlines() if "a process that read traces was killed" in line] == err.splitlines()
    assert len(err.splitlines()) == 2
    assert "could not be judged" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("closing", "code"),
    [("check {0} --no-memcpy >&-", 0), ("show {0} >&-", 0), ("decode <&-", 2), ("show nowhere.json 2>&-", 2)],
)
def test_closed_streams_are_no_traceback(closing: str, code: int) -> None:
    command = f"{sys.executable} -m pytest_kernelprof {closing.format(IN_PLACE)}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == code
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_names_of_files_do_not_reach_the_terminal_raw(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", "h/no\nsuch\x1b[31m.json", "--no-memcpy")
    assert code == 2
    assert err.count("\n") == 1
    assert "\x1b" not in out + err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("command", [("show",), ("check", "--max-kernels", "5"), ("diff", IN_PLACE)])
def test_a_full_disk_is_one_line_and_2(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "pytest_kernelprof", command[0], NAIVE, *command[1:]],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    assert result.returncode == 2
    assert result.stderr == "kernelprof: standard output: No space left on device\n"


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_it_with_one_line(tmp_path: Path, jobs: str) -> None:
    fifo = tmp_path / "trace.json"
    rows = ",\n".join(json.dumps(row) for row in launch(1, 1))
    fifo.write_text('{"traceEvents": [\n' + ",\n".join([rows] * 150_000) + "]}")
    shutil.copy(fifo, tmp_path / "other.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_kernelprof", "show", "--jobs", jobs, str(fifo), str(tmp_path / "other.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        # A shell starts what runs in the background with Ctrl-C ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "kernelprof: interrupted\n"


class Terminal:
    def __init__(self, is_terminal: bool = True) -> None:
        self.written = ""
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_is_drawn_on_a_terminal_only_and_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr("pytest_kernelprof.cli.reading.time.monotonic", lambda: next(clock))
    file = tmp_path / "x"
    file.write_bytes(b"0" * 100)
    progress = Progress([str(file)])
    progress.read(25)
    progress.read(50)
    assert terminal.written == (
        "\rreading [######..................]  25%\rreading [##################......]  75%" if is_terminal else ""
    )
    progress.clear()
    assert terminal.written.endswith("\r") is is_terminal


def test_short_reads_draw_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    Progress([NAIVE]).read(10)
    assert terminal.written == ""


# doctor


def test_doctor_looks_at_everything(tmp_path: Path) -> None:
    result = in_a_process("doctor", "--format", "json", "--folder", tmp_path, cwd=ROOT)
    findings = json.loads(result.stdout)["findings"]
    names = [one["what"] for one in findings]
    assert names[:4] == ["versions", "trace folder", "temporary folder", "other profilers"]
    assert all(one["cure"] for one in findings if one["state"] in ("wrong", "unknown"))
    states = {one["state"] for one in findings}
    assert result.returncode == (1 if "wrong" in states else 2 if "unknown" in states else 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("needs_torch")
def test_doctor_profiles_something() -> None:
    result = in_a_process("doctor", cwd=ROOT)
    assert re.search(r"^ok +profiling: three steps agree: \d+ ops? each$", result.stdout, re.MULTILINE)


def test_doctor_without_torch_could_not_look() -> None:
    program = (
        "import sys; sys.modules['torch'] = None; from pytest_kernelprof.cli import main; sys.exit(main(['doctor']))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 2
    assert re.search(r"^unknown +torch: profiling needs torch", result.stdout, re.MULTILINE)
    assert "cure: install it: pip install 'pytest-kernelprof[torch]'" in result.stdout


def test_doctor_finds_what_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / ".kernelprof").touch()
    environment = {**os.environ, "CUDA_INJECTION64_PATH": "/opt/tool.so"}
    result = in_a_process("doctor", "--folder", tmp_path, cwd=ROOT, env=environment)
    assert result.returncode == 1
    assert "wrong     other profilers: a CUDA tool is injected into processes (CUDA_INJECTION64_PATH)" in result.stdout
    assert re.search(r"^wrong +trace folder: .*cannot be written", result.stdout, re.MULTILINE)


def test_doctor_makes_no_folder_of_a_mistyped_name(tmp_path: Path) -> None:
    result = in_a_process("doctor", "--folder", tmp_path / "no", cwd=ROOT)
    assert result.returncode == 1
    assert "no such folder" in result.stdout
    assert not (tmp_path / "no").exists()


def test_exit_codes_of_doctor() -> None:
    def code(*states: str) -> int:
        return exit_code([Finding("x", state, "") for state in states])

    assert [code("ok", "note"), code("ok", "unknown"), code("unknown", "wrong", "ok")] == [0, 2, 1]


def test_bad_versions_of_cupti_have_sources() -> None:
    for one in BAD_CUPTI:
        assert one.since < one.before
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", one.source)


def test_the_page_shows_doctor_as_it_is() -> None:
    from pytest_kernelprof import doctor

    page = PAGE.read_text()
    shown = page.partition("_doctor_as_it_is -->\n~~~text\n")[2].partition("~~~")[0]
    known = {
        "versions",
        "trace folder",
        "temporary folder",
        "other profilers",
        "torch",
        "GPU",
        "CUPTI",
        "profiling",
        "canary",
    }
    states = {doctor.OK, doctor.WRONG, doctor.UNKNOWN, doctor.NOTE}
    lines = [line for line in shown.splitlines() if not line.startswith(" ")]
    assert lines
    for line in lines:
        found = re.match(r"(\w+) +([^:]+):", line)
        assert found is not None, line
        state, what = found.groups()
        assert state in states
        assert what in known
