"""Nothing measured is not zero, class by class: counting rules 3, 6, 7 and 9."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import Row, Rows, annotation, call, kernel, launch, memcpy, memset, op, row, step, write

from pytest_kernelprof import NotMeasured, Profile, load_trace

Check = Callable[[], object]

OURS = {"steps": 1, "canary_devices": [0], "no_gpu": None}


def canary(correlation: int = 900) -> list[Row]:
    return [annotation("pytest_kernelprof::canary", -50, 20), *launch(-45, correlation, gpu_ts=-40)]


def profile_of(tmp_path: Path, *rows: Rows, **metadata: Any) -> Profile:
    return Profile(load_trace(write(tmp_path / "trace.json", *rows, **metadata)))


def test_a_canary_makes_zero_a_measurement(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, canary(), step(0, 0, 10), pytest_kernelprof=OURS)

    assert (profile.kernel_count, profile.launch_count, profile.op_count) == (0, 0, 0)
    profile.assert_no_memcpy()
    assert profile.complete


def test_a_canary_that_did_not_arrive_makes_zero_no_measurement(tmp_path: Path) -> None:
    lost = canary()[:-1]
    profile = profile_of(tmp_path, lost, step(0, 0, 10), pytest_kernelprof=OURS)

    with pytest.raises(NotMeasured, match="the canary kernel on GPU 0 did not arrive") as caught:
        profile.assert_no_memcpy()
    assert "permission to read GPU counters" in str(caught.value)
    with pytest.raises(NotMeasured):
        assert profile.kernel_count <= 5


def test_without_the_canarys_call_launches_and_syncs_are_not_measured(tmp_path: Path) -> None:
    rows = [step(0, 0, 10), op("aten::add", 1, 2), call("cudaGetDevice", 3, 1)]
    profile = profile_of(tmp_path, *rows, pytest_kernelprof=OURS)

    checks: list[Check] = [profile.assert_no_host_sync, lambda: profile.assert_launch_count(0)]
    for check in checks:
        with pytest.raises(NotMeasured, match="the call that launches the canary is not in the trace"):
            check()
    profile.assert_op_count("aten::add", 1)


def test_without_a_context_gpu_numbers_are_not_measured(tmp_path: Path) -> None:
    note = {"steps": 1, "canary_devices": [], "no_gpu": "no GPU context; use device="}
    profile = profile_of(tmp_path, step(0, 0, 10), op("aten::add", 1, 2), pytest_kernelprof=note)

    profile.assert_op_count("aten::add", 1)
    checks: list[Check] = [
        profile.assert_no_host_sync,
        profile.assert_no_memset,
        lambda: profile.assert_launch_count(0),
    ]
    for check in checks:
        with pytest.raises(NotMeasured, match="no GPU context; use device="):
            check()


def test_what_the_plugin_did_itself_is_nowhere(tmp_path: Path) -> None:
    own = [
        annotation("pytest_kernelprof::synchronize", 20, 5),
        call("cudaDeviceSynchronize", 21, 901),
        call("cudaDeviceSynchronize", 60, 902),
    ]
    trace = load_trace(
        write(tmp_path / "t.json", canary(), op("aten::fill_", -48, 8), step(0, 0, 10), own, pytest_kernelprof=OURS)
    )

    assert (len(trace.totals.kernels), len(trace.totals.host_syncs), len(trace.totals.ops)) == (0, 0, 0)
    assert len(trace.outside_steps) == 0
    assert trace.region_counts == {}


def test_any_orphan_in_a_live_recording_is_not_measured(tmp_path: Path) -> None:
    early = kernel(-60, 77)
    profile = profile_of(tmp_path, early, canary(), step(0, 0, 10), launch(2, 1), pytest_kernelprof=OURS)

    with pytest.raises(NotMeasured, match="1 GPU event without a launch after a synchronisation"):
        profile.assert_kernel_count(1)


def test_fewer_steps_than_were_recorded_is_not_measured(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, canary(), step(0, 0, 10), pytest_kernelprof={**OURS, "steps": 3})

    with pytest.raises(NotMeasured, match="1 of 3 steps are in the recording: another profiler interfered"):
        profile.assert_no_op("aten::copy_")


# Orphans in foreign traces


def test_leaked_orphans_are_a_warning_and_in_no_step(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, kernel(1, 99), step(1, 0, 10), launch(2, 1))

    profile.assert_kernel_count(1)
    assert len(profile.orphans.leaked) == 1
    assert [warning.code for warning in profile.warnings] == ["leaked"]


@pytest.mark.parametrize(
    "late",
    [kernel(50, 99), kernel(0, 99), kernel(1, 99, stream=20)],
    ids=["after-a-joined-event", "without-timestamp", "on-a-stream-without-joined-events"],
)
def test_late_orphans_mean_that_launches_are_missing(tmp_path: Path, late: Row) -> None:
    profile = profile_of(tmp_path, step(1, 0, 10), launch(2, 1), late)

    assert len(profile.orphans.late) == 1
    checks: list[Check] = [lambda: profile.assert_kernel_count(1), profile.assert_no_memcpy, profile.assert_no_memset]
    for check in checks:
        with pytest.raises(NotMeasured, match="launches are missing"):
            check()
    with pytest.raises(NotMeasured, match="launches are missing"):
        profile.assert_launch_count(1)
    profile.assert_no_host_sync()


def test_a_zero_timestamp_never_defines_the_first_event_of_a_stream(tmp_path: Path) -> None:
    rows = [kernel(4, 99), *launch(2, 1, gpu_ts=0), *launch(3, 2, gpu_ts=8)]
    profile = profile_of(tmp_path, step(1, 0, 10), *rows)

    assert (len(profile.orphans.leaked), len(profile.orphans.late)) == (1, 0)
    profile.assert_kernel_count(2)
    with pytest.raises(NotMeasured, match="time not measured"):
        _ = profile.gpu_time_ns


# Launches without events


def test_a_lost_kernel_makes_kernels_not_measured_and_nothing_else(tmp_path: Path) -> None:
    rows = [step(1, 0, 10), op("aten::add", 1, 4), call("cudaLaunchKernel", 2, 1), *launch(6, 2)]
    profile = profile_of(tmp_path, *rows)

    with pytest.raises(NotMeasured, match=r"1 call without a GPU event \(cudaLaunchKernel by aten::add\)"):
        profile.assert_kernel_count(2)
    profile.assert_no_memcpy()
    profile.assert_no_memset()
    profile.assert_launch_count(2)


def test_a_certain_failure_beats_not_measured(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, step(1, 0, 20), call("cudaLaunchKernel", 2, 1), launch(6, 2), launch(8, 3))

    with pytest.raises(AssertionError, match="2 kernels a step, expected at most 1"):
        profile.assert_kernel_count(at_most=1)
    with pytest.raises(AssertionError, match="expected none"):
        profile.assert_no_kernel("*vectorized*")
    profile.assert_kernel_count(at_least=2)
    with pytest.raises(NotMeasured):
        profile.assert_kernel_count(at_least=3)
    with pytest.raises(NotMeasured):
        profile.assert_kernel_count(at_most=2)


def test_a_lost_launch_is_known_by_its_op(tmp_path: Path) -> None:
    rows = [step(1, 0, 20), op("aten::add", 1, 4), call("cudaLaunchKernel", 2, 1), op("aten::mul", 6, 5), *launch(7, 2)]
    profile = profile_of(tmp_path, *rows)

    profile.assert_kernel_count(1, launched_by="aten::mul")
    with pytest.raises(NotMeasured):
        profile.assert_kernel_count(0, launched_by="aten::add")


def test_a_lost_step_leaves_the_others_measured(tmp_path: Path) -> None:
    rows = [step(1, 0, 10), step(2, 10, 10), call("cudaLaunchKernel", 2, 1), *launch(12, 2)]
    trace = load_trace(write(tmp_path / "t.json", *rows))

    assert [one.complete for one in trace.steps] == [False, True]
    assert len(trace.steps[1].kernels) == 1
    assert not trace.complete


@pytest.mark.parametrize(
    ("name", "event", "check"),
    [
        ("cudaMemsetAsync", memset, "assert_no_memset"),
        ("cudaMemcpyAsync", memcpy, "assert_no_memcpy"),
        ("cuMemcpyDtoHAsync_v2", memcpy, "assert_no_memcpy"),
    ],
)
def test_lost_copies_and_memsets(tmp_path: Path, name: str, event: Callable[[int, int], Row], check: str) -> None:
    lost = profile_of(tmp_path, step(1, 0, 10), launch(1, 1), call(name, 2, 2))
    with pytest.raises(NotMeasured):
        getattr(lost, check)()
    lost.assert_kernel_count(1)

    seen = profile_of(tmp_path, step(1, 0, 10), launch(1, 1), call(name, 2, 2), event(4, 2))
    with pytest.raises(AssertionError):
        getattr(seen, check)()


def test_a_call_of_zero_bytes_rightly_has_no_event(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, step(1, 0, 10), launch(1, 1), call("hipMemcpyAsync", 2, 2, bytes=0))

    profile.assert_no_memcpy()


def test_launches_during_stream_capture_rightly_have_no_event(tmp_path: Path) -> None:
    rows = [
        step(1, 0, 30),
        call("cudaStreamBeginCapture", 1, 1),
        call("cudaLaunchKernel", 2, 2),
        call("cudaStreamEndCapture", 4, 3),
        call("cudaGraphLaunch", 6, 4),
        kernel(8, 4),
    ]
    profile = profile_of(tmp_path, *rows)

    profile.assert_kernel_count(1)
    after = profile_of(tmp_path, *rows, call("cudaLaunchKernel", 20, 5))
    with pytest.raises(NotMeasured):
        after.assert_kernel_count(1)
    elsewhere = profile_of(tmp_path, *rows, call("cudaLaunchKernel", 3, 5, tid=999))
    with pytest.raises(NotMeasured):
        elsewhere.assert_kernel_count(1)


def test_a_call_named_invalid_counts_as_a_launch_only_with_an_event(tmp_path: Path) -> None:
    rows = [step(1, 0, 20), call("INVALID", 1, 1), call("INVALID", 3, 2), kernel(5, 2), *launch(8, 3)]
    profile = profile_of(tmp_path, *rows)

    profile.assert_kernel_count(2)
    profile.assert_launch_count(2)
    profile.assert_launch_count(1, api="INVALID")


# Nothing there


def test_launches_without_any_gpu_row(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, step(1, 0, 10), call("cudaLaunchKernel", 1, 1), call("cudaLaunchKernel", 2, 2))

    with pytest.raises(NotMeasured, match="2 kernel launches recorded but no GPU event; look at: .* WSL"):
        profile.assert_kernel_count(at_most=5)
    profile.assert_launch_count(2)


def test_without_call_rows_launches_and_syncs_are_not_measured(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, step(1, 0, 10), op("aten::add", 1, 2))

    checks: list[Check] = [lambda: profile.assert_launch_count(0), profile.assert_no_host_sync]
    for check in checks:
        with pytest.raises(NotMeasured, match="no runtime or driver call in the trace"):
            check()
    profile.assert_op_count("aten::add", 1)


def test_rows_of_an_unknown_device_are_never_zero(tmp_path: Path) -> None:
    rows = [step(1, 0, 10), row("mtia_kernel", "fancy", 1, 2, device=0, correlation=4)]
    with pytest.raises(NotMeasured, match="rows of a device that is not understood: mtia_kernel"):
        profile_of(tmp_path, *rows).assert_kernel_count(0)
    with pytest.raises(NotMeasured, match="not understood"):
        profile_of(tmp_path, *rows, launch(2, 1)).assert_kernel_count(1)


def test_work_from_a_thread_without_ops_makes_op_counts_not_measured(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, step(1, 0, 20), op("aten::add", 1, 4), launch(2, 1), launch(8, 2, tid=55))

    profile.assert_kernel_count(2)
    with pytest.raises(NotMeasured, match="1 thread launched work without any op"):
        profile.assert_no_op("aten::copy_")


def test_a_step_that_was_cut_is_incomplete(tmp_path: Path) -> None:
    endless = step(2, 10, 10)
    del endless["dur"]
    trace = load_trace(write(tmp_path / "t.json", step(1, 0, 10), endless, launch(1, 1), launch(11, 2)))

    assert [one.complete for one in trace.steps] == [True, False]
    with pytest.raises(NotMeasured, match="ProfilerStep#2 was cut: it never ended"):
        Profile(trace).assert_kernel_count(1)


def test_a_step_that_outlasts_the_recording_is_incomplete(tmp_path: Path) -> None:
    span = row("Trace", "PyTorch Profiler (0)", 0, 15, pid="Spans")
    trace = load_trace(write(tmp_path / "t.json", span, step(1, 0, 10), step(2, 10, 10), launch(1, 1), launch(11, 2)))

    assert [one.complete for one in trace.steps] == [True, False]


def test_an_empty_last_step_is_dropped_with_a_warning(tmp_path: Path) -> None:
    trace = load_trace(write(tmp_path / "t.json", step(1, 0, 10), step(2, 10, 10), launch(1, 1)))

    assert [one.name for one in trace.steps] == ["ProfilerStep#1"]
    assert [warning.code for warning in trace.warnings] == ["empty_last_step"]


def test_the_profilers_own_synchronisation_is_no_host_sync(tmp_path: Path) -> None:
    end = call("cudaDeviceSynchronize", 50, 9)
    profile = profile_of(tmp_path, launch(1, 1), call("cudaDeviceSynchronize", 20, 8), end)
    profile.assert_host_sync_count(1)

    inside_op = profile_of(tmp_path, launch(1, 1), op("aten::item", 40, 30), end)
    inside_op.assert_host_sync_count(1)

    followed = profile_of(tmp_path, launch(1, 1), end, op("aten::add", 60, 2))
    followed.assert_host_sync_count(1)


@pytest.mark.parametrize("name", ["cuda_sync", "overhead"])
def test_rows_that_repeat_synchronisations_are_none(tmp_path: Path, name: str) -> None:
    profile = profile_of(tmp_path, launch(1, 1), row(name, "Stream Synchronize", 3, 2, stream=7))

    profile.assert_no_host_sync()


def test_everything_unmeasured_raises_however_it_is_read(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, step(1, 0, 10), op("aten::add", 1, 2))
    kernels = profile.kernels

    for read in (
        lambda: len(kernels),
        lambda: bool(kernels),
        lambda: list(kernels),
        lambda: kernels[0],
        lambda: kernels[:1],
        lambda: kernels.count,
        lambda: kernels.duration_ns,
        lambda: kernels.named("*"),
        lambda: kernels.matching("."),
        lambda: kernels.launched_by("aten::add"),
        lambda: kernels.in_region("x", allow_empty=True),
        lambda: kernels.on_stream(7),
        lambda: kernels.where(lambda _: True),
        lambda: "x" in kernels,
        lambda: list(reversed(kernels)),
        lambda: kernels == kernels,
        lambda: not kernels,
        lambda: profile.gpu_busy_ns,
        lambda: profile.memset_count,
    ):
        with pytest.raises(NotMeasured):
            read()
    assert not issubclass(NotMeasured, AssertionError)
    assert "not measured" in repr(kernels)


def test_nested_and_odd_metadata_do_not_pass_for_ours(tmp_path: Path) -> None:
    notes: list[Any] = ["text", 3, [], {"steps": "three"}]
    for note in notes:
        trace = load_trace(write(tmp_path / "t.json", step(1, 0, 10), pytest_kernelprof=note))
        with pytest.raises(NotMeasured):
            len(trace.steps[0].kernels)


def test_builders_write_json(tmp_path: Path) -> None:
    assert (
        json.loads(write(tmp_path / "t.json", step(1, 0, 10)).read_text())["traceEvents"][0]["name"] == "ProfilerStep#1"
    )


# Rows that cannot be read


def test_a_launch_that_cannot_be_read_does_not_make_its_event_leaked(tmp_path: Path) -> None:
    bad = call("cudaMemcpyAsync", 1, 50)
    del bad["ts"]
    profile = profile_of(tmp_path, step(1, 0, 100), launch(10, 1, gpu_ts=40), bad, memcpy(20, 50))

    assert (len(profile.orphans.leaked), len(profile.orphans.late)) == (0, 1)
    with pytest.raises(NotMeasured):
        profile.assert_no_memcpy()


@pytest.mark.parametrize("phase", ["B", None])
def test_rows_of_a_phase_that_is_not_understood_are_not_dropped(tmp_path: Path, phase: str | None) -> None:
    odd = {**call("cudaMemcpyAsync", 2, 9), "ph": phase}
    profile = profile_of(tmp_path, step(1, 0, 100), launch(10, 1), odd)

    for check in (profile.assert_no_memcpy, profile.assert_no_host_sync):
        with pytest.raises(NotMeasured, match="1 row of launches or GPU events cannot be read"):
            check()


@pytest.mark.parametrize("broken", [{"ts": "zz"}, {"ph": "B"}, {"ph": None}])
def test_a_step_that_cannot_be_read_is_not_simply_missing(tmp_path: Path, broken: Row) -> None:
    odd = {**step(2, 100, 100), **broken}
    profile = profile_of(tmp_path, step(1, 0, 100), launch(10, 1), odd, launch(110, 2), launch(120, 3))

    checks: list[Check] = [lambda: profile.assert_kernel_count(1), lambda: profile.assert_no_op("aten::add")]
    for check in checks:
        with pytest.raises(NotMeasured, match="1 row of steps cannot be read"):
            check()


@pytest.mark.parametrize("broken", [{"ts": "zz"}, {"ph": "B"}, {"name": ""}])
def test_an_op_that_cannot_be_read_is_not_simply_missing(tmp_path: Path, broken: Row) -> None:
    odd = {**op("aten::copy_", 5, 1), **broken}
    profile = profile_of(tmp_path, step(1, 0, 100), op("aten::add", 2, 2), odd, launch(10, 1))

    with pytest.raises(NotMeasured, match="1 row of ops cannot be read"):
        profile.assert_no_op("aten::copy_")
    profile.assert_kernel_count(1)


def test_calls_and_ops_are_of_no_stream_that_the_trace_tells(tmp_path: Path) -> None:
    rows = [op("aten::add", 2, 20), *launch(10, 1), call("cudaStreamSynchronize", 20, 3)]
    profile = profile_of(tmp_path, step(1, 0, 100), *rows)

    profile.assert_kernel_count(1, stream=7)
    checks: list[Check] = [
        lambda: profile.assert_no_host_sync(stream=7),
        lambda: profile.assert_launch_count(0, stream=7),
        lambda: profile.assert_no_op("aten::add", stream=7),
    ]
    for check in checks:
        with pytest.raises(NotMeasured, match="without the field that the selection needs"):
            check()


def test_a_runtime_that_is_not_understood_hides_launches_and_syncs_as_well(tmp_path: Path) -> None:
    other = row("hip_runtime", "hipStreamSynchronize", 3, 2, correlation=7)
    profile = profile_of(tmp_path, step(1, 0, 100), launch(10, 1), other)

    with pytest.raises(NotMeasured, match="not understood: hip_runtime"):
        profile.assert_no_host_sync()


def test_a_call_of_unknown_name_that_carries_a_kernel_is_a_launch(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, step(1, 0, 100), call("cudaFancyLaunch", 2, 1), kernel(4, 1))

    profile.assert_launch_count(1)


@pytest.mark.parametrize("broken", ["ts", "dur"])
def test_what_an_unplaced_op_or_region_encloses_is_not_measured(tmp_path: Path, broken: str) -> None:
    around = [op("aten::copy_", 1, 10), annotation("r", 1, 10)]
    for one in around:
        del one[broken]
    rows = [*around, call("cudaMemcpyAsync", 2, 1), memcpy(4, 1), op("aten::copy_", 50, 5), annotation("r", 50, 5)]
    profile = profile_of(tmp_path, step(1, 0, 100), *rows)

    profile.assert_memcpy_count(1)
    checks: list[Check] = [
        lambda: profile.assert_no_memcpy(launched_by="aten::copy_"),
        lambda: profile.assert_no_memcpy(region="r"),
    ]
    for check in checks:
        with pytest.raises(NotMeasured, match="the trace does not tell when"):
            check()


def test_launches_of_an_autograd_thread_between_nodes_belong_to_the_callers_region(tmp_path: Path) -> None:
    node = op("autograd::engine::evaluate_function: MmBackward0", 20, 10, tid=2)
    rows = [annotation("r", 1, 90), node, call("cudaMemcpyAsync", 35, 1, tid=2), memcpy(40, 1)]
    profile = profile_of(tmp_path, step(1, 0, 100), *rows)

    profile.assert_memcpy_count(1, region="r")


def test_a_zero_byte_call_without_correlation_excuses_no_other(tmp_path: Path) -> None:
    calls = [call("cudaMemcpyAsync", 60, None, bytes=0), call("cudaLaunchKernel", 70, None)]
    profile = profile_of(tmp_path, step(1, 0, 100), launch(10, 1), *calls)

    with pytest.raises(NotMeasured):
        profile.assert_kernel_count(1)


def test_a_memset_of_which_nobody_knows_what_follows_is_not_forgiven(tmp_path: Path) -> None:
    library = {"name": "nvjet_sm90_x"}
    memsets = [call("cudaMemsetAsync", 1, 1), memset(2, 1)]
    lost = profile_of(tmp_path, step(1, 0, 100), *memsets, call("cudaLaunchKernel", 3, 2), launch(5, 3, **library))
    timeless = profile_of(tmp_path, step(1, 0, 100), *memsets, launch(3, 2, gpu_ts=0), launch(5, 3, **library))
    sizeless = profile_of(tmp_path, step(1, 0, 100), call("cudaMemsetAsync", 1, 1), memset(2, 1, size=None))

    for profile in (lost, timeless, sizeless):
        with pytest.raises(NotMeasured):
            profile.assert_no_memset(ignore_library=True)


def test_orphans_of_a_trace_without_gpu_events_are_not_measured(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="orphans not measured"):
        _ = profile_of(tmp_path, step(1, 0, 10), op("aten::add", 1, 2)).orphans


def test_a_synchronisation_inside_a_region_of_another_thread_is_the_users(tmp_path: Path) -> None:
    rows = [*launch(1, 1), annotation("other", 40, 30, tid=9), call("cudaDeviceSynchronize", 50, 9)]

    profile_of(tmp_path, *rows).assert_host_sync_count(1)


def test_a_lost_event_of_a_later_step_makes_the_sets_not_measured(tmp_path: Path) -> None:
    rows = [step(1, 0, 10), step(2, 10, 10), *launch(1, 1), *launch(11, 2), call("cudaLaunchKernel", 15, 3)]
    profile = profile_of(tmp_path, *rows)

    with pytest.raises(NotMeasured):
        len(profile.kernels)
    # That the limit holds is certain; that the steps agree is not.
    with pytest.raises(NotMeasured):
        profile.assert_kernel_count(at_least=1)


@pytest.mark.parametrize(
    "metadata",
    [
        {"deviceProperties": 5},
        {"distributedInfo": {"rank": "--5"}},
        {"pytest_kernelprof": {"steps": 1, "canary_devices": 5}},
        {"pytest_kernelprof": {"steps": 1, "no_gpu": 7}},
    ],
)
def test_odd_metadata_are_no_traceback(tmp_path: Path, metadata: dict[str, Any]) -> None:
    load_trace(write(tmp_path / "t.json", step(1, 0, 10), launch(1, 1), **metadata))


@pytest.mark.parametrize("value", ["--5", "\u00b2", "9" * 5000])
def test_odd_numbers_are_no_traceback(tmp_path: Path, value: str) -> None:
    rows = launch(1, 1)
    rows[1]["args"]["correlation"] = value
    rows[1]["args"]["grid"] = value
    rows[1]["ts"] = value
    load_trace(write(tmp_path / "t.json", step(1, 0, 10), rows))
