"""Op chains, regions and threads: counting rules 2 and 5, against values read from the traces by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import Row, Rows, annotation, kernel, launch, op, step, write

from pytest_kernelprof import Call, EventSet, NotMeasured, Profile, Step, load_trace
from pytest_kernelprof.events import Event, GpuEvent

DATA = Path(__file__).parent / "data/traces_h200"


def profile_of(name: str) -> Profile:
    return Profile(load_trace(DATA / f"{name}.json.gz"))


def chain(event: Event) -> str:
    return " > ".join(one.name for one in event.chain)


def launch_of(event: GpuEvent) -> Call:
    assert event.launch is not None
    return event.launch


def thread_id(event: Event) -> int | str:
    assert event.thread is not None
    return event.thread[1]


def test_naive_attention_by_hand() -> None:
    profile = profile_of("attn_naive")

    assert [chain(kernel) for kernel in profile.kernels] == [
        "aten::matmul > aten::bmm",
        "aten::mul",
        "aten::masked_fill > aten::masked_fill_",
        "aten::softmax > aten::_softmax",
        "aten::matmul > aten::bmm",
    ]
    (copy,) = profile.memcpys
    assert chain(copy) == "aten::masked_fill > aten::clone > aten::copy_"
    assert (copy.kind, copy.size_bytes, copy.pageable, copy.duration_ns) == ("DtoD", 268435456, False, 129055)
    assert launch_of(copy).name == "cudaMemcpyAsync"
    (memset,) = profile.memsets
    assert (memset.size_bytes, chain(memset)) == (4, "aten::matmul > aten::bmm")
    assert profile.regions == ("attn_fwd",)
    assert {kernel.regions for kernel in profile.kernels} == {("attn_fwd",)}


def test_backward_on_a_thread_whose_ops_and_launches_carry_other_ids() -> None:
    """The autograd thread's ops have thread id 718, its launches 716; the region is on thread 590."""
    profile = profile_of("misc_backward_shapes")

    assert [(chain(kernel), launch_of(kernel).thread[1], kernel.regions) for kernel in profile.kernels] == [
        ("aten::matmul > aten::mm", 590, ("fb",)),
        ("aten::matmul > aten::mm", 590, ("fb",)),
        ("aten::relu > aten::clamp_min", 590, ("fb",)),
        ("aten::sum > aten::sum", 590, ("fb",)),
        ("aten::ones_like > aten::fill_", 590, ("fb",)),
        (
            "autograd::engine::evaluate_function: ReluBackward0 > ReluBackward0 > aten::threshold_backward",
            716,
            ("fb",),
        ),
        *[("autograd::engine::evaluate_function: MmBackward0 > MmBackward0 > aten::mm", 716, ("fb",))] * 4,
        ("autograd::engine::evaluate_function: MmBackward0 > aten::add_", 716, ("fb",)),
        (
            "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
            " > torch::autograd::AccumulateGrad > aten::add_",
            716,
            ("fb",),
        ),
    ]
    # Two synchronisations end this file: the last is the profiler's own, the other the user's.
    assert [sync.name for sync in profile.host_syncs] == ["cudaDeviceSynchronize"]


def test_training_attributes_the_autograd_thread_to_its_region() -> None:
    profile = profile_of("misc_train")

    main = {launch_of(kernel).thread for kernel in profile.kernels if not chain(kernel).startswith("autograd::engine")}
    backward = [kernel for kernel in profile.kernels if chain(kernel).startswith("autograd::engine")]
    assert len(main) == 1
    assert backward
    assert {launch_of(kernel).thread for kernel in backward}.isdisjoint(main)
    assert {kernel.regions for kernel in backward} == {("train",)}
    assert len(profile.region("train").kernels) == len(profile.kernels) == 19
    optimizer = profile.region("Optimizer.step#AdamW.step").kernels
    assert {kernel.regions for kernel in optimizer} == {("train", "Optimizer.step#AdamW.step")}


def test_graph_replay_has_one_launch_and_no_ops() -> None:
    profile = profile_of("misc_graph_replay")

    assert [launch.name for launch in profile.launches] == ["cudaGraphLaunch"]
    assert {chain(kernel) for kernel in profile.kernels} == {""}
    assert {kernel.regions for kernel in profile.kernels} == {("step",)}
    assert len({kernel.correlation_id for kernel in profile.kernels}) == 1
    profile.assert_graphed()


def test_compiled_code_shows_its_region_graph_and_triton_kernel() -> None:
    profile = profile_of("misc_compiled_naive")

    outer = [
        "Torch-Compiled Region: 0/0",
        "## Call CompiledFxGraph fhsxt4cvygyfp7ic7wcaw2hzxra27birkzpkkq3h2hcp5qpfqm2x ##",
    ]
    assert [kernel.chain[0].name for kernel in profile.kernels] == [outer[0]] * 3
    assert [kernel.chain[-1].name.split("_fused")[0] for kernel in profile.kernels] == [
        "aten::bmm",
        "triton_per",
        "aten::bmm",
    ]


def test_two_streams() -> None:
    profile = profile_of("misc_two_streams")

    assert [(kernel.stream, chain(kernel)) for kernel in profile.kernels] == [
        (30, "aten::matmul > aten::mm"),
        (7, "aten::mul"),
    ]
    assert len(profile.kernels.on_stream(30)) == 1


def test_item() -> None:
    profile = profile_of("misc_item")

    (sync,) = profile.host_syncs
    assert (sync.name, chain(sync)) == ("cudaStreamSynchronize", "aten::item > aten::_local_scalar_dense")
    (copy,) = profile.memcpys
    assert (copy.kind, copy.size_bytes, chain(copy)) == ("DtoH", 4, "aten::item > aten::_local_scalar_dense")
    (memset,) = profile.memsets
    assert chain(memset) == "aten::sum > aten::sum"


# The rules, on traces made for them


def test_a_kernel_belongs_to_the_step_of_its_launch_not_of_its_time(tmp_path: Path) -> None:
    trace = load_trace(
        write(tmp_path / "t.json", step(1, 0, 10), step(2, 10, 10), launch(9, 1, gpu_ts=15), launch(11, 2, gpu_ts=25))
    )

    assert [len(one.kernels) for one in trace.steps] == [1, 1]


def test_windows_are_half_open_and_cover_all_threads_and_processes(tmp_path: Path) -> None:
    first = launch(0, 1)
    rows: list[Rows] = [
        step(1, 0, 10, tid=1),
        step(2, 10, 10, tid=1),
        first,
        launch(10, 2, tid=5),
        launch(20, 3, tid=6),
    ]
    for one in first:
        one["pid"] = 999 if one["cat"] == "cuda_runtime" else one["pid"]
    trace = load_trace(write(tmp_path / "t.json", *rows))

    assert [len(one.kernels) for one in trace.steps] == [1, 1]
    assert [call.correlation_id for call in trace.outside_steps] == [3]


def test_external_id_is_never_used_against_time(tmp_path: Path) -> None:
    """The launch's thread has no ops; its ``External id`` names an op that was over by then."""
    rows = [op("aten::early", 0, 5, 7, tid=1), op("aten::around", 10, 10, 8, tid=1)]
    late = launch(12, 1, tid=2)
    late[0]["args"]["External id"] = 7
    right = launch(13, 2, tid=2)
    right[0]["args"]["External id"] = 8
    trace = load_trace(write(tmp_path / "t.json", *rows, late, right))

    assert [chain(one) for one in trace.steps[0].kernels] == ["", "aten::around"]


def test_the_nest_of_the_own_thread_beats_external_id(tmp_path: Path) -> None:
    rows = [op("record_param_comms", 0, 30, 17), op("nccl:_all_gather_base", 5, 10, 18)]
    started = launch(7, 1)
    started[0]["args"]["External id"] = 17
    trace = load_trace(write(tmp_path / "t.json", *rows, started))

    assert chain(trace.steps[0].kernels[0]) == "record_param_comms > nccl:_all_gather_base"


def test_intersecting_ranges_do_not_break_the_nest(tmp_path: Path) -> None:
    rows: list[Rows] = [op("aten::mm", 0, 10), op("aten::add", 8, 10), launch(4, 1), launch(12, 2), launch(9, 3)]
    trace = load_trace(write(tmp_path / "t.json", *rows))

    assert [chain(one) for one in trace.steps[0].kernels] == ["aten::mm", "aten::mm > aten::add", "aten::add"]


def test_annotations_are_regions_and_not_ops(tmp_path: Path) -> None:
    trace = load_trace(write(tmp_path / "t.json", annotation("outer", 0, 20), op("aten::add", 2, 10), launch(4, 1)))

    (one,) = trace.steps[0].kernels
    assert (chain(one), one.regions) == ("aten::add", ("outer",))
    assert [name.name for name in trace.steps[0].ops] == ["aten::add"]


NODE = "autograd::engine::evaluate_function: MmBackward0"


def backward(tid: int, ts: int, correlation: int, number: int) -> list[Row]:
    return [op(NODE, ts, 10, tid=tid, **{"Sequence number": number}), *launch(ts + 2, correlation, tid=tid)]


def forward(tid: int, ts: int, number: int) -> Row:
    return op("aten::mm", ts, 2, tid=tid, **{"Sequence number": number})


def test_of_two_threads_with_open_regions_the_sequence_numbers_decide(tmp_path: Path) -> None:
    rows: list[Rows] = [
        annotation("left", 0, 100, tid=1),
        annotation("right", 0, 100, tid=2),
        forward(1, 5, 3),
        forward(2, 5, 4),
        backward(9, 20, 1, 4),
        backward(9, 40, 2, 3),
    ]
    trace = load_trace(write(tmp_path / "t.json", *rows))

    assert [one.regions for one in trace.steps[0].kernels] == [("right",), ("left",)]


def test_regions_that_cannot_be_told_are_not_measured(tmp_path: Path) -> None:
    rows: list[Rows] = [
        annotation("left", 0, 100, tid=1),
        annotation("right", 0, 100, tid=2),
        forward(1, 5, 3),
        forward(2, 5, 3),
        backward(9, 20, 1, 3),
    ]
    profile = Profile(load_trace(write(tmp_path / "t.json", *rows)))

    assert profile.kernel_count == 1
    with pytest.raises(NotMeasured, match="1 event without the field that the selection needs"):
        profile.kernels.in_region("left")[0]
    with pytest.raises(NotMeasured):
        profile.assert_no_kernel("*", region="left")
    profile.assert_kernel_count(1)


def test_a_thread_that_ran_the_forward_runs_its_backward_in_its_own_regions(tmp_path: Path) -> None:
    """Backward on the CPU runs on the calling thread; the region of a bystander is not its own."""
    rows: list[Rows] = [annotation("bystander", 0, 100, tid=2), forward(1, 5, 3), backward(1, 20, 1, 3)]
    trace = load_trace(write(tmp_path / "t.json", *rows))

    assert [one.regions for one in trace.steps[0].kernels] == [()]


def test_regions_opened_on_the_autograd_thread_count_as_well(tmp_path: Path) -> None:
    rows: list[Rows] = [
        annotation("train", 0, 100, tid=1),
        forward(1, 5, 3),
        op(NODE, 20, 20, tid=9, **{"Sequence number": 3}),
        annotation("hook", 22, 10, tid=9),
        launch(24, 1, tid=9),
    ]
    trace = load_trace(write(tmp_path / "t.json", *rows))

    assert [one.regions for one in trace.steps[0].kernels] == [("train", "hook")]


def test_accumulate_grad_follows_the_node_before_it(tmp_path: Path) -> None:
    rows: list[Rows] = [
        annotation("left", 0, 100, tid=1),
        annotation("right", 0, 100, tid=2),
        forward(1, 5, 3),
        forward(2, 5, 4),
        backward(9, 20, 1, 4),
        op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 40, 10, tid=9),
        launch(42, 2, tid=9),
    ]
    trace = load_trace(write(tmp_path / "t.json", *rows))

    assert [one.regions for one in trace.steps[0].kernels] == [("right",), ("right",)]


def test_an_op_that_never_ended_encloses_nothing(tmp_path: Path) -> None:
    rows: list[Rows] = [op("aten::never_ended", 0, -1), op("aten::add", 2, 10), launch(4, 1)]
    trace = load_trace(write(tmp_path / "t.json", *rows))

    assert chain(trace.steps[0].kernels[0]) == "aten::add"
    assert len(trace.steps[0].ops) == 2


def test_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    rows = [
        step(1, 0, 100),
        annotation("outer", 1, 90),
        op("aten::a", 5, 50),
        op("aten::b", 10, 20),
        *launch(12, 1),
        *launch(40, 2),
        kernel(90, 1),
    ]
    there = load_trace(write(tmp_path / "a.json", *rows)).steps[0]
    back = load_trace(write(tmp_path / "b.json", *reversed(rows))).steps[0]

    for one in (there, back):
        assert [(k.correlation_id, chain(k), k.regions) for k in one.kernels] == [
            (1, "aten::a > aten::b", ("outer",)),
            (1, "aten::a > aten::b", ("outer",)),
            (2, "aten::a", ("outer",)),
        ]


# One by one, against tables derived from the rows without any of this package and read over by hand

ATTRIBUTION = Path(__file__).parent / "data/attribution"


def told(event: Event, kind: str, step: Step) -> tuple[str, ...]:
    """Return a line of a table: what the package says of an event."""
    names = (chain(event), " > ".join(op.name for op in event.forward_chain))
    return (step.name, kind, event.name[:80], str(thread_id(event)), " > ".join(event.regions), *names)


@pytest.mark.parametrize("table", sorted(ATTRIBUTION.glob("*.tsv")), ids=lambda path: path.stem)
def test_every_event_has_its_step_thread_regions_ops_and_forward_op(table: Path) -> None:
    profile = Profile(load_trace(DATA / f"{table.stem}.json.gz"), steps_may_differ=True)
    expected = [tuple(line.split("\t")) for line in table.read_text().splitlines()[1:]]

    seen = []
    for one in profile.steps:
        classes: dict[str, EventSet[Any]] = {
            "kernel": one.kernels,
            "memcpy": one.memcpys,
            "memset": one.memsets,
            "sync": one.host_syncs,
        }
        events = [(event, kind) for kind, events in classes.items() for event in events.seen]
        events.sort(key=lambda pair: (pair[0].launch if pair[1] != "sync" else pair[0]).start_ns)
        seen += [told(event, kind, one) for event, kind in events]

    # Kernels of one graph launch have no order of their own.
    assert sorted(seen) == sorted(expected)
    assert len(expected) >= 9


# Backward passes: the forward op by its sequence number


def op_with(name: str, start: int, duration: int, number: int | None = None, thread: int = 100, fwd: int = 0) -> Row:
    row = op(name, start, duration, tid=thread)
    if number is not None:
        row["args"].update({"Sequence number": number, "Fwd thread id": fwd})
    return row


def evaluated(node: str, start: int, duration: int, number: int, thread: int = 200) -> list[Row]:
    return [
        op_with(f"autograd::engine::evaluate_function: {node}", start, duration, number, thread, 1),
        op_with(node, start + 1, duration - 2, number, thread, 1),
    ]


def forward_of(tmp_path: Path, *rows: Row) -> str:
    (found,) = Profile(load_trace(write(tmp_path / "made.json", *rows))).kernels
    return " > ".join(one.name for one in found.forward_chain)


def test_the_last_op_with_a_number_made_the_node(tmp_path: Path) -> None:
    rows = [
        op_with("aten::linear", 10, 50, 7),
        op_with("aten::t", 12, 5, 7),
        op_with("aten::addmm", 20, 30, 8),
        *evaluated("AddmmBackward0", 100, 50, 8),
        *launch(110, 1, tid=200),
    ]
    assert forward_of(tmp_path, *rows) == "aten::linear > aten::addmm"
    rows[3:5] = evaluated("TBackward0", 100, 50, 7)
    assert forward_of(tmp_path, *rows) == "aten::linear > aten::t"


@pytest.mark.parametrize(
    "forward",
    [
        [],
        [op_with("aten::mm", 200, 5, 8)],
        [op_with("aten::mm", 10, 5, 9)],
        [op_with("aten::mm", 10, 5, 8), op_with("aten::mm", 20, 5, 8, thread=300)],
        [op_with("aten::add", 10, 5, 8)],
    ],
    ids=["not recorded", "later", "another number", "on two threads", "of another kind"],
)
def test_a_forward_op_that_the_trace_does_not_tell_is_left_out(tmp_path: Path, forward: list[Row]) -> None:
    assert forward_of(tmp_path, *forward, *evaluated("MmBackward0", 100, 50, 8), *launch(110, 1, tid=200)) == ""


def test_outside_a_backward_pass_there_is_no_forward_op(tmp_path: Path) -> None:
    assert forward_of(tmp_path, op_with("aten::mm", 10, 50, 8), *launch(20, 1)) == ""


def test_ops_and_syncs_of_a_backward_pass_have_their_forward_op() -> None:
    profile = profile_of("misc_train")

    ops = [one for one in profile.ops if one.name == "aten::gelu_backward"]
    assert [[made.name for made in one.forward_chain] for one in ops] == [["aten::gelu"]]
    assert [[made.name for made in one.forward_chain] for one in profile.ops if one.name == "aten::gelu"] == [[]]
    assert {thread_id(kernel) for kernel in profile.kernels} == {516, 593}


def test_of_two_nodes_with_one_number_and_name_neither_is_told(tmp_path: Path) -> None:
    """The thread of one of them was not watched: its numbers are those of the other's."""
    rows = [op_with("aten::mm", 10, 5, 8), *evaluated("MmBackward0", 100, 50, 8), *evaluated("MmBackward0", 300, 50, 8)]
    assert forward_of(tmp_path, *rows, *launch(110, 1, tid=200)) == ""


def test_a_backward_pass_on_its_own_thread_is_led_to_the_ops_of_that_thread(tmp_path: Path) -> None:
    rows = [op_with("aten::mm", 10, 5, 8, thread=200), op_with("aten::mm", 20, 5, 8, thread=300)]
    rows[0]["name"], rows[1]["name"] = "aten::mm", "aten::mm"
    assert forward_of(tmp_path, *rows, *evaluated("MmBackward0", 100, 50, 8), *launch(110, 1, tid=200)) == "aten::mm"


def test_of_nested_backward_passes_the_innermost_counts(tmp_path: Path) -> None:
    """Reentrant checkpointing runs a forward and a backward pass inside a node."""
    rows = [
        op_with("CheckpointFunction", 10, 20, 3),
        *evaluated("CheckpointFunctionBackward", 100, 100, 3),
        op_with("aten::addmm", 110, 10, 40, thread=200),
        *evaluated("AddmmBackward0", 130, 40, 40),
    ]
    node = "autograd::engine::evaluate_function: CheckpointFunctionBackward > CheckpointFunctionBackward"
    assert forward_of(tmp_path, *rows, *launch(140, 1, tid=200)) == f"{node} > aten::addmm"
    assert forward_of(tmp_path, *rows, *launch(105, 1, tid=200)) == "CheckpointFunction"


def test_ops_that_the_engine_itself_runs_can_make_nodes(tmp_path: Path) -> None:
    """A double backward leads to the sum of gradients, a direct child of what evaluates a node."""
    rows = [
        op_with("aten::mul", 10, 5, 3),
        *evaluated("MulBackward0", 100, 50, 3, thread=100),
        op_with("aten::add", 145, 4, 11),
        *evaluated("AddBackward0", 200, 50, 11, thread=100),
    ]
    made_by = "autograd::engine::evaluate_function: MulBackward0 > aten::add"
    rows[1]["dur"] = 60  # The node ends before the engine adds.
    assert forward_of(tmp_path, *rows, *launch(210, 1)) in (made_by, f"{made_by.replace(' >', ' > MulBackward0 >')}")


@pytest.mark.parametrize(
    ("op_name", "node", "expected"),
    [
        ("aten::_to_copy", "ToCopyBackward0", True),
        ("aten::nll_loss_forward", "NllLossBackward0", True),
        ("aten::max_pool2d_with_indices", "MaxPool2DWithIndicesBackward0", True),
        ("aten::add_", "AddBackward0", True),
        ("aten::tanh_backward", "TanhBackwardBackward0", True),
        ("Mine", "MineBackward", True),
        ("aten::cos", "SinBackward0", False),
        ("aten::add", "MmBackward0", False),
        ("aten::zero_", "torch::autograd::CppNode<Lookup>", False),
        ("aten::addmm", "NativeLayerNormBackward0", False),
    ],
)
def test_which_ops_can_make_a_node(op_name: str, node: str, expected: bool) -> None:
    from pytest_kernelprof.events import _makes

    assert _makes(op_name, f"autograd::engine::evaluate_function: {node}") is expected


def test_regions_that_are_untold_are_unknown_in_tables(tmp_path: Path) -> None:
    from pytest_kernelprof.explain import notes
    from pytest_kernelprof.report.text import _regions

    class Untold:
        regions = ("a",)
        regions_known = False

    untold: Any = Untold()
    assert _regions(untold) == "unknown"
    assert notes([untold]) == []


def test_a_compiled_kernel_outside_ops_still_reads_as_a_sentence(tmp_path: Path) -> None:
    from pytest_kernelprof.explain import origin

    name = "triton_poi_fused_mul_relu_0"
    path = write(tmp_path / "made.json", op(name, 0, 20), *launch(5, 1, name=name))
    (found,) = Profile(load_trace(path)).kernels

    assert origin(found).links == ("(no op)",)
    assert origin(found).endings == (", fuses mul, relu", ", fuses 2 ops")
