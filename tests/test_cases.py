"""Bug reports as inputs: each case gives the answer that EXPECTED.tsv asks for, but where design.md decides otherwise."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_kernelprof import NotMeasured, Profile, TraceError, load_trace
from pytest_kernelprof.cli import main

CASES = Path(__file__).parent / "data/cases"


def read_expected() -> Iterator[tuple[str, dict[str, str]]]:
    with (CASES / "EXPECTED.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            (name,) = [one for one in row["files"].split(",") if ".json" in one] or [None]
            if name:
                yield name, dict(part.partition("=")[::2] for part in row["expected"].split(";"))


EXPECTED = dict(read_expected())

DESIGN_WINS: dict[str, dict[str, str | None]] = {
    # What was not measured is null, and never 0.
    "13_empty_traceEvents.json": {"kernels": None},
    "38_wsl_no_kernels.json": {"kernels": None},
    "44_threads_without_ops.json": {"cpu_ops": None},
    # 17: no row has a category; those of "CPU functions" are operators.
    "17_legacy_autograd_list.json": {"cpu_ops": "1"},
    # Annotations are regions, and the op is what the cpu_op rows say.
    "22_external_id_mismatch.json": {"kernel_op": "record_param_comms"},
    # 26: a DtoD copy of the static input, as the parenthesis says.
    "26_graph_replay_extra_fills.json": {"memcpys": "1"},
    # 28: the fill is a kernel, as the parenthesis says.
    "28_rocm_names_and_blit_fill.json": {"memsets": "0"},
}

ONLY_LATER = ("tensor_core", "diff", "contains", "offset", "file_bytes", "verdict")
"""Keys that another test reads, or that names have to be decoded for."""

REFUSED = ("01_truncated_file.json", "10_gz_bitflip.json.gz")

INCOMPLETE = {
    "08_unterminated_array.json": ("kernels", "memcpys", "memsets", "host_syncs", "launches", "ops"),
    "13_empty_traceEvents.json": ("kernels", "memcpys", "memsets", "host_syncs", "launches", "ops"),
    "14_events_without_args_or_dur.json": ("kernels", "memcpys", "memsets", "launches"),
    "17_legacy_autograd_list.json": ("kernels", "memcpys", "memsets", "host_syncs", "launches"),
    "29_driver_api_launch.json": ("kernels", "memcpys", "memsets", "launches"),
    "38_wsl_no_kernels.json": ("kernels", "memcpys", "memsets"),
    "40_session_start_drop.json": ("kernels",),
    # Blocking copies on XPU do not tell whether they wait.
    "35_xpu_no_stream_grid.json": ("host_syncs",),
}
"""Classes that were not measured, case by case; all others were, in every class."""

WITHOUT_OPS = {
    **dict.fromkeys(
        ("07", "26", "29", "31", "44", "52", "53", "55", "74"), "no operator and no annotation in the trace"
    ),
    "43": "1 thread launched work without any op in the trace",
}
"""Cases whose operators nobody recorded: a warning, and no operator count."""

WARNINGS = {
    "02_windows_backslash_names.json": {"bad_escape": "byte 1507"},
    "04_control_chars_in_name.json": {"control_character": "byte 1532"},
    "05_non_utf8_bytes.json": {"not_utf8": "byte 1499"},
    "07_python_style_nan.json": {"not_a_number": "byte 1260", "bad_value": "$.traceEvents[1].args.est. achieved"},
    "08_unterminated_array.json": {"not_closed": "byte 1672"},
    "14_events_without_args_or_dur.json": {"not_an_event": "$.traceEvents[9]", "no_time": "1 GPU event"},
    "19_zero_timestamps.json": {"no_time": "2 GPU events"},
    "20_negative_duration.json": {"no_time": "1 GPU event"},
    "40_session_start_drop.json": {},
    "41_warmup_leak.json": {"leaked": "1 GPU event launched before the recording"},
    "55_while_node_graph.json": {"conditional_graph": "only the first round"},
}


def summary_of(name: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["show", "--format", "json", str(CASES / name)]) == 0
    (trace,) = json.loads(capsys.readouterr().out)["traces"]
    return trace


def sync_count(trace: Any) -> Any:
    return trace["totals"]["host_syncs"]


READ: dict[str, Callable[[Any], Any]] = {
    "kernels": lambda trace: trace["totals"]["kernels"],
    "memcpys": lambda trace: trace["totals"]["memcpys"],
    "memsets": lambda trace: trace["totals"]["memsets"],
    "cpu_ops": lambda trace: trace["totals"]["ops"],
    "syncs": sync_count,
    "leaked": lambda trace: trace["totals"]["orphans"]["leaked"],
    "steps": lambda trace: len(trace["steps"]),
    "per_step": lambda trace: ",".join(str(step["kernels"]) for step in trace["steps"]),
    "device": lambda trace: trace["environment"]["devices"][0],
    "rank": lambda trace: "unknown" if trace["environment"]["rank"] is None else trace["environment"]["rank"],
    "gpu_time": lambda trace: trace["totals"]["gpu_busy_ns"] // 1000,
    "kernel_op": lambda trace: ",".join(
        dict.fromkeys(row["launched_by"][-1] if row["launched_by"] else "(none)" for row in trace["kernels"])
    ),
    "occupancy": lambda trace: ",".join(occupancy(row) for row in trace["kernels"]),
}


def occupancy(row: Any) -> str:
    value = row["reported_occupancy"]
    return "unknown" if value is None else f"{value * 100:.0f}"


def test_every_json_case_is_here() -> None:
    assert len(EXPECTED) == 37
    assert sorted(EXPECTED) == sorted(path.name for path in CASES.glob("*.json*"))


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in REFUSED])
def test_numbers_are_those_asked_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    trace = summary_of(name, capsys)
    wanted: dict[str, str | None] = {**EXPECTED[name], **DESIGN_WINS.get(name, {})}

    for key, value in wanted.items():
        if key in ONLY_LATER:
            continue
        if key.startswith("launch."):
            seen = trace["launches"].get(key.removeprefix("launch."), 0)
        elif key.startswith("cpu_op."):
            seen = trace["ops"].get(key.removeprefix("cpu_op."), 0)
        else:
            seen = READ[key](trace)
        if key == "occupancy" and value == "unknown":
            assert set(seen.split(",")) == {"unknown"}
        else:
            assert (seen if value is None else str(seen)) == value, key


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in REFUSED])
def test_exactly_the_classes_that_can_be_wrong_are_not_measured(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    trace = summary_of(name, capsys)

    assert {reason.partition(":")[0] for reason in trace["incomplete"]} == set(INCOMPLETE.get(name, ()))
    assert trace["complete"] is (name not in INCOMPLETE)
    if name in INCOMPLETE and "kernels" in INCOMPLETE[name]:
        with pytest.raises(NotMeasured):
            Profile(load_trace(CASES / name)).assert_kernel_count(at_most=1000)


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in REFUSED])
def test_warnings_say_what_and_where(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {warning["code"]: warning["message"] for warning in summary_of(name, capsys)["warnings"]}
    wanted = dict(WARNINGS.get(name, {}))
    if name[:2] in WITHOUT_OPS:
        wanted["ops_not_recorded"] = f"ops not measured: {WITHOUT_OPS[name[:2]]}"

    assert set(found) == set(wanted)
    for code, words in wanted.items():
        assert words in found[code]


def test_a_trace_without_events_says_that_nothing_was_profiled(capsys: pytest.CaptureFixture[str]) -> None:
    reasons = summary_of("13_empty_traceEvents.json", capsys)["incomplete"]

    assert all("the trace holds no events: nothing was profiled" in reason for reason in reasons)
    with pytest.raises(NotMeasured, match="nothing was profiled"):
        Profile(load_trace(CASES / "13_empty_traceEvents.json")).assert_no_memcpy()


def test_a_truncated_file_is_refused_with_offset_and_length(capsys: pytest.CaptureFixture[str]) -> None:
    path = CASES / "01_truncated_file.json"

    assert main(["show", str(path)]) == 2

    shown = capsys.readouterr()
    assert shown.out.strip() == ""
    assert shown.err == f"kernelprof: {path}: JSON truncated at byte 2736 of 2744; record or copy the trace again\n"


def test_a_corrupt_gzip_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    path = CASES / "10_gz_bitflip.json.gz"

    assert main(["show", str(path)]) == 2

    shown = capsys.readouterr()
    assert (
        shown.err
        == f"kernelprof: {path}: gzip stream corrupt before byte 702: incorrect data check; record or copy the trace again\n"
    )
    with pytest.raises(TraceError):
        load_trace(path)


def test_launches_without_gpu_rows_name_the_cause_and_what_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    (kernels, *_) = summary_of("38_wsl_no_kernels.json", capsys)["incomplete"]

    assert kernels.startswith("kernels: 3 kernel launches recorded but no GPU event; look at: GPU profiling inside WSL")


def test_a_lost_kernel_spoils_its_own_step_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    steps = summary_of("40_session_start_drop.json", capsys)["steps"]
    profile = Profile(load_trace(CASES / "40_session_start_drop.json"), steps_may_differ=True)

    assert [step["complete"] for step in steps] == [False, True, True]
    assert profile.steps[0].kernels.why_not_measured == "1 call without a GPU event (cudaLaunchKernel by aten::add)"
    assert len(profile.steps[1].kernels) == len(profile.steps[2].kernels) == 1


def test_events_without_a_time_count_and_have_no_duration() -> None:
    profile = Profile(load_trace(CASES / "19_zero_timestamps.json"), steps_may_differ=True)

    assert [len(step.kernels) for step in profile.steps] == [1, 2]
    with pytest.raises(NotMeasured, match="time not measured"):
        _ = profile.steps[1].gpu_time_ns


def test_two_spellings_of_time_give_the_same_split(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((CASES / "37_absolute_vs_relative_ts.json").read_text())

    assert READ["per_step"](summary_of("37_absolute_vs_relative_ts.json", capsys)) == "1,1"
    assert "baseTimeNanoseconds" in document or all(isinstance(row["ts"], int) for row in document["traceEvents"])


def test_a_legacy_trace_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    (kernels, *_) = summary_of("17_legacy_autograd_list.json", capsys)["incomplete"]

    assert "legacy autograd-profiler trace: kernels are not recorded" in kernels
