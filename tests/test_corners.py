"""Corners of the rules in which a reader can be right for a thousand traces and wrong for the next."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import MAIN, Row, Rows, annotation, call, kernel, launch, memset, op, row, step

from pytest_kernelprof import EventSet, Trace
from pytest_kernelprof.events import BACKWARD_NODE
from pytest_kernelprof.load import trace_from
from pytest_kernelprof.load.numbers import exact_ns

WORKER = 200
ID_5: dict[str, Any] = {"External id": 5}


@pytest.fixture(autouse=True)
def _both(reader: None) -> None:
    """Every corner with both readers."""


def trace_of(*rows: Rows) -> Trace:
    flat = [one for part in rows for one in (part if isinstance(part, list) else [part])]
    return trace_from(json.dumps({"traceEvents": flat}).encode(), "t.json")


def why(events: EventSet[Any]) -> str:
    assert events.why_not_measured is not None
    return events.why_not_measured


def without(field: str, one: Row) -> Row:
    return {key: value for key, value in one.items() if key != field}


@pytest.mark.parametrize(
    "odd",
    [
        without("dur", annotation("region", 5, 1)),
        without("dur", step(1, 5, 1)),
        without("ts", memset(9, 7)),
        without("dur", row("Trace", "PyTorch Profiler (0)", 0, 9)),
        without("dur", op("aten::relu", 3, 1)),
        without("dur", kernel(9, 8)),
    ],
    ids=lambda one: one["name"],
)
def test_the_only_row_of_its_kind_may_lack_a_time(odd: Row) -> None:
    trace = trace_of(launch(1, 1), odd)

    assert len(trace.totals.kernels.seen) in (1, 2)


def test_many_times_at_once_are_none_if_one_is_missing() -> None:
    assert exact_ns([b""]) is None
    assert exact_ns([b"1.000", b""]) is None
    assert exact_ns([]) == []
    assert exact_ns([b"1.000", b"-0.500", b"12.345"]) == [1000, -500, 12345]
    assert exact_ns([b"7", b"-2"]) == [7000, -2000]
    assert exact_ns([b"7", b"2.5"]) is None


def test_one_zero_byte_copy_excuses_no_other() -> None:
    copies = [call("cudaMemcpyAsync", 10, 0, bytes=0), call("cudaMemcpyAsync", 20, 0), call("cudaMemcpyAsync", 30, 0)]
    for one in copies:
        del one["args"]["correlation"]
    trace = trace_of(launch(1, 1), copies)

    assert why(trace.totals.memcpys).startswith("2 calls without a GPU event")


def graph_on_a_thread_without_ops(**of_last: Any) -> Trace:
    return trace_of(
        op("aten::mm", 0, 50, external_id=5),
        call("cudaGraphLaunch", 10, 3, tid=WORKER),
        kernel(20, 3, **ID_5),
        kernel(25, 3, **of_last),
    )


def test_the_op_of_a_graph_is_told_by_any_of_its_kernels() -> None:
    for of_last in ({}, ID_5):
        kernels = graph_on_a_thread_without_ops(**of_last).totals.kernels
        assert [[one.name for one in event.chain] for event in kernels] == [["aten::mm"], ["aten::mm"]]


def test_a_call_without_a_correlation_is_linked_to_nothing() -> None:
    sync = call("cudaStreamSynchronize", 10, 0, tid=WORKER)
    stray = kernel(90, 0, **ID_5)
    del sync["args"]["correlation"], stray["args"]["correlation"]
    trace = trace_of(op("aten::mm", 0, 50, external_id=5), launch(1, 1), sync, stray)

    assert trace.totals.host_syncs.seen[0].chain == ()


def node(ts: int, dur: int, number: int = 1, tid: int = WORKER) -> Row:
    return op(f"{BACKWARD_NODE}: MulBackward0", ts, dur, tid=tid, **{"Sequence number": number})


def test_regions_of_the_caller_stand_once() -> None:
    trace = trace_of(
        annotation("train", 0, 100), annotation("train", 1, 90), node(10, 20), launch(12, 1, tid=WORKER), launch(40, 2)
    )
    backward, forward = trace.totals.kernels

    assert backward.regions == ("train",)
    assert forward.regions == ("train", "train")


def test_a_thread_that_ran_forward_ops_too_belongs_to_itself() -> None:
    trace = trace_of(
        annotation("other", 0, 100),
        node(0, 10),
        op("aten::mm", 5, 95, tid=WORKER),
        op("aten::add", 20, 10, tid=WORKER, **{"Sequence number": 4}),
        launch(22, 1, tid=WORKER),
    )

    assert trace.totals.kernels[0].regions == ()


@pytest.mark.parametrize("length", [0, 20])
def test_an_op_that_is_equal_to_its_node_is_inside_it(length: int) -> None:
    inner = op("aten::mul", 10, length, tid=WORKER, **{"Sequence number": 1})
    trace = trace_of(annotation("train", 0, 100), inner, node(10, length), launch(10, 1, tid=WORKER))
    (event,) = trace.totals.kernels

    assert [one.name for one in event.chain] == [f"{BACKWARD_NODE}: MulBackward0", "aten::mul"]
    assert event.regions == ("train",)


def test_true_is_no_correlation_id() -> None:
    wrong = call("cudaLaunchKernel", 30, 9)
    wrong["args"]["correlation"] = True
    trace = trace_of(launch(1, 1), wrong)

    assert "1 call without a GPU event" in why(trace.totals.kernels)
    assert [one.message for one in trace.warnings if one.code == "bad_value"] == [
        "1 value (at $.traceEvents[2].args.correlation): unreadable, taken as missing"
    ]


def test_the_first_strange_value_is_the_first_in_the_file() -> None:
    early, late = op("aten::relu", 1, 1), launch(2, 1)
    early["dur"], late[1]["args"]["stream"] = "soon", "x"
    for rows in ([early, *late], [*late, early]):
        (warning,) = [one for one in trace_of(rows).warnings if one.code == "bad_value"]
        assert warning.message.startswith(f"2 values (the first at $.traceEvents[{0 if rows[0] is early else 1}].")


def test_steps_that_are_operators_are_read_once() -> None:
    old = op("ProfilerStep#1", 0, 10)
    old["dur"] = "soon"
    trace = trace_of(old, op("ProfilerStep#2", 10, 10), op("aten::relu", 11, 2), launch(12, 1))

    assert [one.name for one in trace.steps] == ["ProfilerStep#1", "ProfilerStep#2"]
    assert [one.message[:7] for one in trace.warnings if one.code == "bad_value"] == ["1 value"]
    vocabulary = trace.totals.ops._vocabulary
    assert vocabulary is not None
    assert "ProfilerStep#1" not in vocabulary.unplaced_ops
    assert len(trace.totals.kernels.launched_by("*")) == 1


def test_what_follows_a_memset_at_the_same_moment_is_unknown() -> None:
    trace = trace_of(call("cudaGraphLaunch", 1, 3), memset(10, 3), kernel(10, 3), kernel(12, 3))

    assert trace.totals.memsets[0].next_known is False
    assert trace_of(call("cudaGraphLaunch", 1, 3), memset(10, 3), kernel(12, 3)).totals.memsets[0].next_known is True


def test_threads_by_number_and_by_name_are_apart() -> None:
    trace = trace_of(
        op("aten::mm", 0, 50, tid=MAIN),
        op("aten::add", 0, 50, tid=str(MAIN)),
        launch(10, 1),
        launch(11, 2, tid=str(MAIN)),
    )

    assert [event.chain[0].name for event in trace.totals.kernels] == ["aten::mm", "aten::add"]


def test_more_threads_than_a_pass_each_is_worth() -> None:
    rows = [
        part
        for number in range(40)
        for part in (op(f"aten::op{number}", number, 100, tid=number), *launch(number + 50, number, tid=number))
    ]
    trace = trace_of(rows)

    assert [event.chain[0].name for event in trace.totals.kernels] == [f"aten::op{number}" for number in range(40)]


EVERY = ("kernels", "memcpys", "memsets", "host_syncs", "launches", "ops")


def not_measured(trace: Trace) -> set[str]:
    return {name for name in EVERY if getattr(trace.totals, name).why_not_measured}


@pytest.mark.parametrize("phase", ["x", "", "XX", "Y", "i", "B", None])
def test_a_row_that_is_counted_and_garbled_does_not_vanish(phase: str | None) -> None:
    for garbled, spoiled in (
        (call("cudaStreamSynchronize", 50, 9), {"host_syncs"}),
        (op("aten::add", 50, 5), {"ops"}),
        (kernel(60, 3), {"kernels"}),
        (annotation("region", 50, 5), set()),
        (step(2, 50, 5), set(EVERY)),
    ):
        rows = [op("aten::mm", 0, 9), *launch(1, 1), {**garbled, "ph": phase}]
        trace = trace_of(rows)
        assert spoiled <= not_measured(trace), garbled["name"]
        if garbled["name"] == "region":
            assert "region" in trace.unplaced_regions


@pytest.mark.parametrize("category", ["", None])
def test_a_row_without_a_category_may_be_anything(category: str | None) -> None:
    trace = trace_of(op("aten::mm", 0, 9), launch(1, 1), {**op("aten::add", 20, 5), "cat": category})

    assert not_measured(trace) == set(EVERY)
    assert [one.message for one in trace.warnings] == [
        "1 row (at $.traceEvents[3]): without a readable category or phase: what it was is unknown"
    ]


def test_rows_of_other_tools_are_left_alone() -> None:
    trace = trace_of(
        op("aten::mm", 0, 9),
        launch(1, 1),
        row("FEE", "f (x.py:1)", 0, 9),
        {"ph": "M", "name": "process_name", "pid": 1},
    )

    assert not_measured(trace) == set()
    assert [one.message for one in trace.warnings] == [
        "1 row (at $.traceEvents[3], 'FEE'): of a category that nothing is counted from"
    ]


@pytest.mark.parametrize("correlation", ["abc", None, "", [1], 1.5, 1e30])
def test_an_event_without_an_id_did_not_leak(correlation: object) -> None:
    rows = [step(1, 0, 100), call("cudaGraphLaunch", 1, 1), kernel(10, 1), kernel(20, 1), kernel(30, 1)]
    rows[2]["args"]["correlation"] = correlation
    trace = trace_of(rows)

    assert len(trace.orphans.late) == 1
    assert "launches are missing" in why(trace.steps[0].kernels)


def test_a_graph_without_events_may_have_held_copies() -> None:
    trace = trace_of(step(1, 0, 100), call("cudaGraphLaunch", 1, 1), step(2, 100, 100), launch(101, 2))

    assert not_measured(trace) == {"kernels", "memcpys", "memsets"}
    assert trace.steps[1].complete


@pytest.mark.parametrize("thread", [[1], None, {}, "gone"])
def test_a_range_on_an_unknown_thread_makes_narrowed_counts_unknown(thread: object) -> None:
    region, inner = annotation("attn", 100, 50), op("aten::mm", 100, 50)
    for one in (region, inner):
        if thread == "gone":
            del one["tid"]
        else:
            one["tid"] = thread
    trace = trace_of(annotation("attn", 0, 50), op("aten::mm", 0, 50), region, inner, launch(10, 1), launch(110, 2))

    assert len(trace.totals.kernels) == 2
    assert len(trace.totals.ops) == 2
    for narrowed in (
        trace.totals.kernels.in_region("attn"),
        trace.totals.kernels.launched_by("aten::mm"),
    ):
        assert "does not tell the name or the thread" in why(narrowed)


def test_a_range_without_a_name_may_be_the_region_that_is_asked_for() -> None:
    trace = trace_of(
        op("aten::mm", 0, 9), launch(1, 1), {**annotation("attn", 0, 50), "name": 5}, annotation("x", 0, 9)
    )

    assert not_measured(trace) == set(EVERY)  # It may have been a step, too.


def test_a_call_at_the_time_zero_without_a_length_has_lost_its_time() -> None:
    trace = trace_of(op("aten::mm", 10, 9), launch(11, 1), call("cudaStreamSynchronize", 0, 9, dur=0))

    assert "host_syncs" in not_measured(trace)


@pytest.mark.parametrize("half", ["cudaStreamBeginCapture", "cudaStreamEndCapture"])
def test_half_a_capture_excuses_no_launch(half: str) -> None:
    trace = trace_of(call("cudaLaunchKernel", 5, 7), call(half, 3 if "Begin" in half else 9, 8), launch(20, 1))

    assert "kernels" in not_measured(trace)


def test_the_older_names_of_calls_on_xpu() -> None:
    def xpu(name: str, ts: int, correlation: int) -> Row:
        return {**call(name, ts, correlation), "cat": "xpu_runtime"}

    trace = trace_of(
        step(1, 0, 100),
        [xpu("piEnqueueKernelLaunch", 1, 1), kernel(10, 1), xpu("piQueueFinish", 20, 2)],
        step(2, 100, 100),
        xpu("piextEnqueueCooperativeKernelLaunch", 101, 3),
    )

    assert [len(one.host_syncs) for one in trace.steps] == [1, 0]
    assert [one.complete for one in trace.steps] == [True, False]
    assert trace.environment.vendor == "intel"


@pytest.mark.parametrize("category", ["cuda_event", "collective_comm", "cuda_sync"])
def test_rows_that_describe_what_others_count_spoil_nothing(category: str) -> None:
    extra = row(category, "Event", 5, 1, correlation=1, stream=7, device=0)

    assert not_measured(trace_of(op("aten::mm", 0, 9), launch(1, 1), extra)) == set()


def test_an_op_without_an_end_may_hold_the_last_synchronisation() -> None:
    rows = [op("aten::mm", 0, 9), *launch(1, 1), call("cudaDeviceSynchronize", 50, 2)]
    assert len(trace_of(rows).totals.host_syncs) == 0

    rows[0]["dur"] = "soon"
    assert "an op that never ended" in why(trace_of(rows).totals.host_syncs)


def test_a_region_without_an_end_has_no_number_of_kernels() -> None:
    from pytest_kernelprof.report.summary import trace_summary

    trace = trace_of(
        op("aten::mm", 0, 9), launch(1, 1), annotation("whole", 0, 50), without("dur", annotation("cut", 0, 1))
    )

    assert trace_summary(trace)["regions"] == [
        {"name": "whole", "count": 1, "kernels": 1},
        {"name": "cut", "count": 1, "kernels": None},
    ]
