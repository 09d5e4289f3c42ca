"""Ledgers without a run around: what an entry holds, what a difference reads like, what a file may be."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import mutations
import pytest
from builders import Row, annotation, call, launch, memcpy, memset, op, step, write
from ledgering import against, anew, book, entry, h200, key, profile

import pytest_kernelprof
from pytest_kernelprof import KernelprofError, LedgerError, MisuseError, NotMeasured, Profile, Trace, load_trace
from pytest_kernelprof.documents import path_at
from pytest_kernelprof.ledger.accounts import Accounts
from pytest_kernelprof.ledger.difference import changes
from pytest_kernelprof.ledger.document import (
    Entries,
    Place,
    Write,
    entry_from,
    ledgers_below,
    read,
    text_of,
    update,
    values_of,
)
from pytest_kernelprof.ledger.entry import (
    Amount,
    Entry,
    KernelLine,
    Line,
    MemcpyLine,
    environment_key,
    lost_ranges,
    merged,
    uses_gpu,
)
from pytest_kernelprof.model import GPU_CLASSES, Environment
from pytest_kernelprof.names import ROLES

DATA = Path(__file__).parent / "data"
PLACE = Place("test_it", "1", "sm90")
UPDATE = "pytest --kernelprof-update tests/test_it.py"


def message(one: Profile, **arguments: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        one.assert_matches_ledger(**arguments)
    return str(caught.value)


def told(one: Profile, **arguments: Any) -> list[str]:
    """Return headline and changes of a failure."""
    parts = message(one, **arguments).split("\n\n")
    return [parts[0], *parts[1].splitlines()]


# What a person would say of two traces


@pytest.mark.parametrize("level", ["roles", "names"])
@pytest.mark.parametrize("name", sorted(path.name[: -len(".json.gz")] for path in (DATA / "traces_h200").iterdir()))
def test_a_step_is_as_its_own_ledger_says(name: str, level: str) -> None:
    trace = h200(name)
    trace = trace._replace(steps=trace.steps[:1])
    made = entry(trace, level)
    if any(getattr(trace.steps[0], one).why_not_measured for one in made.lines):
        pytest.skip("the trace lacks events")
    ledger = book({Place("test_it", "1", key(trace)): made}, level=level)

    profile(trace, ledger, needs_gpu=False).assert_matches_ledger()

    assert [note.state for note in ledger.notes] == ["same"]


DIFFERENCES = {
    ("attn_inplace", "attn_naive"): ["+1 memory copy", "+1 Memcpy DtoD 256.0 MiB by aten::masked_fill"],
    ("attn_naive", "attn_inplace"): ["-1 memory copy", "-1 Memcpy DtoD 256.0 MiB by aten::masked_fill"],
    ("misc_mm_bf16", "misc_mm_fp32"): [
        "1 kernel changed, -1 Memset",
        "gemm bf16 tensor cores -> gemm fp32 CUDA cores",
        "-1 Memset 4 B by aten::matmul",
    ],
    ("misc_mm_fp32", "misc_mm_tf32"): [
        "1 kernel changed, +1 Memset",
        "gemm fp32 CUDA cores -> gemm tf32 tensor cores",
        "+1 Memset 4 B by aten::matmul",
    ],
    ("attn_naive", "misc_compiled_naive"): [
        "3 kernels fused into 1, -1 memory copy, 1 Memset changed",
        "-1 Memcpy DtoD 256.0 MiB by aten::masked_fill",
        "3 kernels fused into 1: 2 x elementwise bf16 (aten), softmax bf16 (aten) -> softmax (inductor)",
        "Memset 4 B by aten::matmul -> Memset 4 B by Torch-Compiled Region: *",
    ],
    ("attn_naive", "attn_sdpa_flash"): [
        "5 kernels fused into 1, -1 memory copy, -1 Memset",
        "-1 Memcpy DtoD 256.0 MiB by aten::masked_fill",
        "5 kernels fused into 1: 2 x elementwise bf16 (aten), 2 x gemm bf16 tensor cores (cublas), softmax bf16 (aten) ->",
        "  attention bf16 tensor cores (flash-attn)",
        "-1 Memset 4 B by aten::matmul",
    ],
    ("attn_sdpa_flash", "attn_sdpa_cudnn"): [
        "1 kernel changed, +1 Memset",
        "attention bf16 tensor cores (flash-attn) -> attention tensor cores (cudnn)",
        "+1 Memset 4 B by aten::scaled_dot_product_attention",
    ],
    ("misc_conv_fp16", "misc_conv_fp16_cl"): ["-3 kernels", "-3 layout fp16 (cudnn)"],
    ("misc_linear_bias", "misc_linear_gelu"): ["+1 kernel", "+1 elementwise bf16 (aten)"],
    ("misc_h2d_pinned_async", "misc_h2d_pageable"): [
        "1 memory copy changed, +1 host sync",
        "Memcpy HtoD 16.0 MiB -> Memcpy HtoD pageable 16.0 MiB by aten::copy_",
        "+1 cudaStreamSynchronize by aten::copy_",
    ],
    ("misc_train", "misc_train_item"): [
        "+4 kernels, +1 memory copy, +2 Memsets, +1 host sync",
        "+1 Memcpy DtoH 2 B by aten::item",
        "+1 cudaStreamSynchronize by aten::item",
        "+1 elementwise bf16 (aten): 3, the ledger has 2",
        "+2 gemm bf16 tensor cores (cublas): 7, the ledger has 5",
        "+1 reduction bf16 (aten): 3, the ledger has 2",
        "+1 Memset 4 B by aten::linear: 2, the ledger has 1",
        "+1 Memset 4 B by aten::sum",
    ],
}


@pytest.mark.parametrize(("before", "after"), DIFFERENCES, ids=" to ".join)
def test_a_difference_reads_as_a_person_would_say_it(before: str, after: str) -> None:
    headline, *lines = told(against(before, after))

    expected, *changes = DIFFERENCES[before, after]
    assert headline == f"the step differs from its ledger: {expected}"
    assert lines == changes


def test_good_news_is_said_to_be_good_and_still_asks_for_an_update() -> None:
    good = message(against("attn_naive", "attn_inplace"))
    bad = message(against("attn_inplace", "attn_naive"))

    assert "fewer than before: if that is meant, update the ledger" in good
    assert "fewer than before" not in bad
    for text in (good, bad):
        assert "to accept: pytest --kernelprof-update tests/test_it.py::test_it" in text


def test_a_failure_shows_what_came_with_its_ops_and_names_entry_and_command() -> None:
    text = message(against("attn_inplace", "attn_naive"))

    assert "DtoD    256.0 MiB" in text
    assert "aten::masked_fill > aten::clone > aten::copy_" in text
    assert "hint: masked_fill copies its input" in text
    assert "ledger: tests/__kernelprof__/test_it.json: test_it, sm90 (made on NVIDIA H200, cuda 13.0)" in text


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("pair", [("attn_naive", "attn_sdpa_flash"), ("attn_naive", "attn_sdpa_math")])
def test_changes_fit_the_terminal_and_long_lists_are_counted(pair: tuple[str, str], width: int) -> None:
    text = message(against(*pair, level="names", width=width))
    changes = text.split("\n\n")[1].splitlines()

    assert max(map(len, changes)) <= width
    assert (changes[-1] == "... and 4 more changes (-v shows all)") is (pair[1] == "attn_sdpa_math")


NOT_FUSED = [
    ({"fill": 2}, {"attention": 1}),
    ({"embedding": 2}, {"rnn": 1}),
    ({"collective": 2}, {"optimizer": 1}),
    ({"elementwise": 3, "copy": 1}, {"softmax": 1}),
    ({"gemm": 2}, {"norm": 1}),
]


def _kernels(roles: dict[str, int], library: str = "aten") -> Entry:
    lines: dict[Line, Amount] = {
        KernelLine(role, library, (), "no"): Amount(number, number) for role, number in roles.items()
    }
    return entry(h200("attn_naive"))._replace(lines={"kernels": lines, "memcpys": {}, "memsets": {}, "host_syncs": {}})


@pytest.mark.parametrize(("before", "after"), NOT_FUSED)
def test_kernels_that_another_cannot_contain_were_not_fused(before: dict[str, int], after: dict[str, int]) -> None:
    kinds = {change.kind for change in changes(_kernels(before), _kernels(after))}
    assert "fused" not in kinds
    assert "split" not in {change.kind for change in changes(_kernels(after), _kernels(before))}


def test_compiled_kernels_are_no_parts_of_compiled_kernels() -> None:
    before, after = _kernels({"elementwise": 1}, "inductor"), _kernels({"reduction": 3}, "inductor")
    assert [change.kind for change in changes(before, after)] == ["more", "fewer"]


def test_a_test_that_lost_the_gpu_that_is_there_is_compared_with_what_it_launched(tmp_path: Path) -> None:
    # On an H200, and nothing of the step ran there; the test does not say device=.
    trace = trace_of(tmp_path, step(1, 0, 50), op("aten::mul", 1, 20), *launch(900, 1))
    idle = trace._replace(environment=Environment("nvidia", ("NVIDIA H200",), "9.0", "sm90"), totals=trace.steps[0])
    assert not uses_gpu(idle)
    made = {PLACE: entry(h200("attn_naive"))}

    text = message(profile(idle, book(made, add=True), needs_gpu=False))

    assert text.startswith("the step differs from its ledger: -5 kernels")
    ledger = book({}, add=True)
    profile(idle, ledger, needs_gpu=False).assert_matches_ledger()
    assert [note.place.environment for note in ledger.notes] == ["cpu"]


def test_names_tell_apart_what_roles_do_not() -> None:
    # Both are flash attention in bf16 on tensor cores: FlashAttention 3 and the one in torch.
    assert told(against("attn_kernels_fa3", "attn_sdpa_flash"))[1:] == ["-1 fill int32 (aten)"]
    assert "attention bf16 tensor cores cutlass::device_kernel<" in message(
        against("attn_kernels_fa3", "attn_sdpa_flash", level="names")
    )


MUTANTS = sorted(path for path in (DATA / "mutants").iterdir() if path.is_dir())


def mutant_pairs() -> dict[str, tuple[Path, Path]]:
    """Return by mutant and profile the recordings of example and mutant; comparisons hold calls of two functions."""
    found = {}
    for path in sorted(path for folder in MUTANTS for path in folder.glob("*.json.gz")):
        original = mutations.ATTENTION / mutations.RECORDINGS / path.name
        if original.exists() and "_against_" not in path.name:
            mutant, profile = path.parent.name, path.name.removesuffix(".json.gz").rpartition("-")[0]
            found[f"{mutant}/{profile}"] = (original, path)
    return found


MUTANT_PAIRS = mutant_pairs()


def launched(trace: Trace) -> list[list[str]]:
    return [sorted(event.name for event in getattr(trace.steps[0], name).seen) for name in GPU_CLASSES]


@pytest.mark.parametrize(("original", "path"), MUTANT_PAIRS.values(), ids=MUTANT_PAIRS)
def test_a_mutation_of_attention_changes_the_ledger_where_it_changes_what_runs(original: Path, path: Path) -> None:
    before, after = load_trace(original), load_trace(path)
    ledger = book({PLACE: entry(before)})
    profile(before, anew(ledger)).assert_matches_ledger()

    if launched(before) == launched(after):
        profile(after, anew(ledger)).assert_matches_ledger()
    else:
        assert told(profile(after, anew(ledger), steps_may_differ=True))[0].partition(" differs from its ledger: ")[2]


SAID_OF_MUTANTS = {
    "flash_a_mask_that_it_does_not_take/test_sdpa.module-flash": [
        "attention bf16 tensor cores (flash-attn) -> attention bf16 tensor cores (xformers)",
        "+1 elementwise bf16 (aten)",
        "+2 fill bf16 (aten)",
    ],
    "in_place_an_extra_cast/test_in_place.module-in_place": [
        "softmax bf16 -> softmax fp32",
        "+1 copy fp32 bf16 (aten)",
        "+1 copy (aten)",
    ],
    "in_place_contiguous_after_the_transpose/test_in_place.module-in_place_stack": ["+4 copy bf16 (aten)"],
    "in_place_item_in_the_forward/test_in_place.module-in_place": [
        "+1 Memcpy DtoH 2 B by aten::item",
        "+1 cudaStreamSynchronize by aten::item",
    ],
    "in_place_masked_fill_for_masked_fill/test_in_place.module-in_place": [
        "+1 Memcpy DtoD 256.0 MiB by aten::masked_fill"
    ],
    "math_and_efficient_float32_inputs/test_sdpa.module-efficient": [
        "attention bf16 tensor cores -> attention fp32 tensor cores"
    ],
    "math_and_efficient_float32_inputs/test_sdpa.module-math": ["-2 copy fp32 bf16 (aten)", "-3 copy (aten)"],
    "math_tf32_is_switched_on/test_sdpa.module-math": [
        "2 x gemm fp32 CUDA cores -> gemm tf32 tensor cores",
        "+2 Memset 4 B by aten::scaled_dot_product_attention",
    ],
    "naive_and_in_place_float32_inputs/test_naive.module-naive": [
        "Memcpy DtoD 256.0 MiB -> Memcpy DtoD 512.0 MiB by aten::masked_fill",
        "2 x elementwise bf16 -> elementwise fp32",
        "softmax bf16 -> softmax fp32",
        "2 x gemm bf16 tensor cores -> gemm fp32 CUDA cores",
        "-1 Memset 4 B by aten::matmul",
    ],
    "naive_the_mask_is_rebuilt_on_each_call/test_naive.module-naive": [
        "+1 elementwise bool (aten)",
        "+1 fill bool (aten)",
    ],
    "pre_built_contiguous_after_a_transpose/test_prebuilt.module-prebuilt": ["+3 copy bf16 (aten)"],
}


@pytest.mark.parametrize("mutant", SAID_OF_MUTANTS)
def test_a_mutation_is_told_as_what_it_is(mutant: str) -> None:
    before, after = map(load_trace, MUTANT_PAIRS[mutant])

    assert told(profile(after, book({PLACE: entry(before)}), steps_may_differ=True))[1:] == SAID_OF_MUTANTS[mutant]


# Cases


def case(name: str, folder: Path, keep: Callable[[Row], bool] = lambda _: True) -> Trace:
    """Return a case as a trace of an H200, of the rows that *keep* takes."""
    document = json.loads((DATA / f"cases/{name}.json").read_text())
    document["traceEvents"] = [row for row in document["traceEvents"] if keep(row)]
    file = folder / "case.json"
    file.write_text(json.dumps(document))
    return load_trace(file)._replace(environment=Environment(vendor="nvidia", arch="sm90"))


@pytest.mark.parametrize(
    ("name", "level", "change"),
    [
        ("26_graph_replay_extra_fills", "roles", "+2 fill fp32 (aten)"),
        ("70_new_fill_kernel", "roles", "+1 fill fp32 (aten)"),
        ("70_new_fill_kernel", "names", "+1 fill fp32 (aten) vectorized_elementwise_kernel<FillFunctor>"),
    ],
)
def test_fill_kernels_that_an_upgrade_brought_are_named(tmp_path: Path, name: str, level: str, change: str) -> None:
    fills = {"26_graph_replay_extra_fills": (2, 3), "70_new_fill_kernel": (2,)}[name]

    def is_older(row: Row) -> bool:
        return row["name"] != "aten::fill_" and row.get("args", {}).get("correlation") not in fills

    before, after = case(name, tmp_path, is_older), case(name, tmp_path)
    ledger = book({PLACE: entry(before, level)}, level=level)

    profile(before, anew(ledger)).assert_matches_ledger()
    assert told(profile(after, anew(ledger)))[1:] == [change]


def test_one_kernel_or_two_depending_on_autotuning_is_a_range(tmp_path: Path) -> None:
    both = case("53_count_range_needed", tmp_path)
    one = case("53_count_range_needed", tmp_path, lambda row: row.get("args", {}).get("correlation") != 1)
    made = entry(both)
    assert told(profile(one, book({PLACE: made})))[1] == "-1 elementwise (inductor)"

    ranged = {
        line: Amount(0, 1) if isinstance(line, KernelLine) and line.role == "elementwise" else amount
        for line, amount in made.lines["kernels"].items()
    }
    ledger = book({PLACE: made._replace(lines={**made.lines, "kernels": ranged})})
    profile(one, anew(ledger)).assert_matches_ledger()
    profile(both, anew(ledger)).assert_matches_ledger()


# Noise


Change = Callable[[Row], None]


def noisy(change: Change) -> Any:
    """Return attn_naive as a trace whose rows were changed."""
    import gzip

    with gzip.open(DATA / "traces_h200/attn_naive.json.gz") as file:
        document = json.load(file)
    for row in document["traceEvents"]:
        change(row)
    return document


def _slower(row: Row) -> None:
    if row.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
        row["dur"] *= 1.7


def _other_stream(row: Row) -> None:
    args = row.get("args", {})
    if "stream" in args:
        args["stream"] = 42
        row["tid"] = 42


def _other_tile(row: Row) -> None:
    if row.get("name", "").startswith("nvjet_"):
        row["name"] = "nvjet_sm90_tst_64x8_64x16_1x4_v_bz_" + row["name"].rpartition("_")[2]


def _other_grid(row: Row) -> None:
    if row.get("cat") == "kernel":
        row["args"] |= {"grid": [7, 7, 7], "registers per thread": 99, "correlation": row["args"]["correlation"]}


@pytest.mark.parametrize("level", ["roles", "names"])
@pytest.mark.parametrize("change", [_slower, _other_stream, _other_tile, _other_grid])
def test_noise_is_no_change(tmp_path: Path, change: Change, level: str) -> None:
    file = tmp_path / "noisy.json"
    file.write_text(json.dumps(noisy(change)))
    ledger = book({PLACE: entry(h200("attn_naive"), level)}, level=level)

    profile(load_trace(file), ledger).assert_matches_ledger()


# What is compared, and what is not


def trace_of(tmp_path: Path, *rows: Row) -> Trace:
    return load_trace(write(tmp_path / "made.json", *rows))


def gpu_step(number: int, begin: int, *more: Row) -> list[Row]:
    return [step(number, begin, 50), op("aten::mul", begin + 1, 20), *launch(begin + 2, 10 * number), *more]


def test_a_count_may_be_a_range(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *gpu_step(1, 0), *launch(30, 11))
    made = entry(trace)
    (line,) = made.lines["kernels"]

    def with_range(low: int, high: int) -> Entries:
        return {
            Place("test_it", "1", "sm90"): made._replace(lines={**made.lines, "kernels": {line: Amount(low, high)}})
        }

    sm90 = trace._replace(environment=Environment(vendor="nvidia", arch="sm90"))
    profile(sm90, book(with_range(1, 3))).assert_matches_ledger()
    profile(sm90, book(with_range(2, 2))).assert_matches_ledger()
    assert told(profile(sm90, book(with_range(3, 5))))[1] == "-1 fill fp32 (aten): 2, the ledger has 3 to 5"
    assert told(profile(sm90, book(with_range(0, 1))))[1] == "+1 fill fp32 (aten): 2, the ledger has 0 to 1"


def test_a_range_is_kept_on_update_where_it_holds() -> None:
    line, other = KernelLine("gemm", "cublas", ("bf16",), "yes"), KernelLine("softmax", "aten", ("bf16",), "no")
    empty: dict[str, dict[Line, Amount]] = {"memcpys": {}, "memsets": {}, "host_syncs": {}}

    def made(**kernels: Amount | None) -> Entry:
        amounts = {line: kernels["gemm"], other: kernels["softmax"]}
        return entry(h200("attn_naive"))._replace(lines={"kernels": {k: v for k, v in amounts.items() if v}, **empty})

    before = made(gemm=Amount(1, 3), softmax=Amount(0, 1))
    assert merged(made(gemm=Amount(2, 2), softmax=None), before).lines["kernels"] == before.lines["kernels"]

    seen = made(gemm=Amount(5, 5), softmax=Amount(1, 1))
    assert merged(seen, before).lines["kernels"] == {line: Amount(5, 5), other: Amount(0, 1)}
    assert lost_ranges(merged(seen, before), before) == [(line, Amount(1, 3))]


def test_an_update_of_what_is_the_same_keeps_where_it_was_made() -> None:
    made = entry(h200("attn_naive"))
    elsewhere = made._replace(made_on={"device": "NVIDIA H100"})

    assert merged(made, elsewhere) is elsewhere
    assert merged(entry(h200("attn_inplace")), elsewhere).made_on == made.made_on


def test_steps_that_disagree_are_neither_compared_nor_written(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *gpu_step(1, 0), *gpu_step(2, 100), *launch(130, 21))
    sm90 = trace._replace(environment=Environment(vendor="nvidia", arch="sm90"))
    ledger = book({}, add=True, update=True)

    assert message(profile(sm90, ledger)).startswith("steps disagree: 1 and 2 kernels")
    assert [note.entry for note in ledger.notes] == [None]

    with pytest.raises(LedgerError, match="the steps differ, so nothing is written"):
        profile(sm90, ledger, steps_may_differ=True).assert_matches_ledger()
    assert [note.entry for note in ledger.notes] == [None, None]


def test_steps_that_may_differ_each_have_to_be_as_the_ledger_says(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *gpu_step(1, 0), *gpu_step(2, 100), *launch(130, 21))
    sm90 = trace._replace(environment=Environment(vendor="nvidia", arch="sm90"))
    made = entry(sm90)
    (line,) = made.lines["kernels"]
    ranged = made._replace(lines={**made.lines, "kernels": {line: Amount(1, 2)}})

    profile(sm90, book({PLACE: ranged}), steps_may_differ=True).assert_matches_ledger()
    text = message(profile(sm90, book({PLACE: made}, update=True), steps_may_differ=True))
    assert text.startswith("ProfilerStep#2 differs from its ledger: +1 kernel")
    assert "the steps differ, so nothing is written" in text


def test_what_was_not_measured_is_neither_compared_nor_written(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *gpu_step(1, 0), call("cudaLaunchKernel", 40, 99))
    sm90 = trace._replace(environment=Environment(vendor="nvidia", arch="sm90"))
    ledger = book({}, add=True, update=True)

    with pytest.raises(NotMeasured, match="^kernels not measured: .*; expected what the ledger has"):
        profile(sm90, ledger).assert_matches_ledger()
    assert [(note.state, note.entry) for note in ledger.notes] == [("not measured", None)]


def test_what_is_certain_fails_although_events_are_missing(tmp_path: Path) -> None:
    whole = trace_of(tmp_path, *gpu_step(1, 0))
    lossy = trace_of(tmp_path, *gpu_step(1, 0), *launch(30, 11), call("cudaLaunchKernel", 40, 99))
    sm90 = lossy._replace(environment=Environment(vendor="nvidia", arch="sm90"))
    # One more than the ledger has is one too many, whatever was lost; one less may be what was lost.
    text = message(profile(sm90, book({PLACE: entry(whole)}, update=True, add=True)))
    assert text.startswith("the step differs from its ledger: +1 kernel")
    assert "events are missing, so nothing is written" in text

    with pytest.raises(NotMeasured):
        profile(sm90, book({PLACE: entry(h200("attn_naive"))})).region("*", allow_empty=True)
        profile(
            sm90, book({PLACE: entry(trace_of(tmp_path, *gpu_step(1, 0), *launch(30, 11), *launch(40, 12)))})
        ).assert_matches_ledger()


def test_a_copy_of_unknown_size_is_not_compared_with_a_known_one(tmp_path: Path) -> None:
    def copying(size: int | None) -> Trace:
        rows = [*gpu_step(1, 0), call("cudaMemcpyAsync", 30, 12), memcpy(40, 12)]
        if size is None:
            del rows[-1]["args"]["bytes"]
        return trace_of(tmp_path, *rows)._replace(environment=Environment(vendor="nvidia", arch="sm90"))

    known, unknown = copying(4), copying(None)
    with pytest.raises(NotMeasured, match="bytes not measured: the trace does not tell them for Memcpy DtoD"):
        profile(unknown, book({PLACE: entry(known)})).assert_matches_ledger()
    profile(unknown, book({PLACE: entry(unknown)})).assert_matches_ledger()


def test_nothing_is_written_from_a_replay() -> None:
    ledger = book({}, add=True, update=True)
    with pytest.raises(LedgerError, match="nothing is written from a replay"):
        profile(h200("attn_naive"), ledger, replayed=True).assert_matches_ledger()
    changed = book({PLACE: entry(h200("attn_inplace"))}, add=True, update=True)
    text = message(profile(h200("attn_naive"), changed, replayed=True))
    assert "nothing is written from a replay" in text
    assert [note.entry for note in (*ledger.notes, *changed.notes)] == [None, None]


def test_a_profile_narrowed_to_a_region_has_an_entry_of_its_own(tmp_path: Path) -> None:
    rows = [step(1, 0, 100), annotation("attn", 1, 20), op("aten::mul", 2, 10), *launch(3, 1), *launch(40, 2)]
    trace = trace_of(tmp_path, *rows)._replace(environment=Environment(vendor="nvidia", arch="sm90"))
    ledger = book({}, add=True)
    one = profile(trace, ledger)

    one.assert_matches_ledger()
    one.region("attn").assert_matches_ledger()

    assert [note.place for note in ledger.notes] == [PLACE, Place("test_it", "1, region attn", "sm90")]
    assert [note.entry and note.entry.lines["kernels"] for note in ledger.notes] == [
        {KernelLine("fill", "aten", ("fp32",), "no"): Amount(number, number)} for number in (2, 1)
    ]


def test_a_ledger_of_the_other_level_is_not_comparable() -> None:
    text = message(against("attn_naive", "attn_naive"), level="names")
    assert text.startswith("the ledger entry is of level roles, the test asks for names")
    assert "--kernelprof-update" in text


def test_a_level_that_is_none_and_a_profile_without_a_test_are_misuse() -> None:
    with pytest.raises(MisuseError, match=r"\(level='role'\) is no level; did you mean 'roles'"):
        against("attn_naive", "attn_naive").assert_matches_ledger(level="role")
    with pytest.raises(MisuseError, match="needs a profile of a fixture"):
        Profile(h200("attn_naive")).assert_matches_ledger()
    with pytest.raises(MisuseError, match="needs a name= here"):
        profile(h200("attn_naive"), book({}), label=None).assert_matches_ledger()


def test_two_profiles_of_a_test_that_would_be_one_entry_are_refused() -> None:
    ledger = book({}, add=True)
    profile(h200("attn_naive"), ledger).assert_matches_ledger()
    profile(h200("attn_naive"), ledger).assert_matches_ledger()
    with pytest.raises(MisuseError, match="would be one ledger entry, and differ"):
        profile(h200("attn_inplace"), ledger).assert_matches_ledger()


def test_failures_are_collected_with_others() -> None:
    one = against("attn_inplace", "attn_naive")
    with pytest.raises(AssertionError, match="2 of 2 checks did not pass"), one.checks():
        one.assert_no_memcpy()
        one.assert_matches_ledger()
    missing = profile(h200("attn_naive"), book({}))
    with pytest.raises(LedgerError, match="no ledger entry for test_it, sm90"), missing.checks():
        missing.assert_matches_ledger()


# Environments


def test_a_missing_entry_says_which_there_are_and_what_would_differ() -> None:
    made = {
        Place("test_it", "1", "sm80"): entry(h200("attn_inplace")),
        Place("test_it", "1", "sm86"): entry(h200("attn_naive")),
        Place("test_it", "1", "cpu"): entry(h200("attn_naive"))._replace(lines={"ops": {}}),
    }
    with pytest.raises(LedgerError) as caught:
        profile(h200("attn_naive"), book(made)).assert_matches_ledger()

    assert str(caught.value).splitlines() == [
        "no ledger entry for test_it, sm90",
        "",
        "sm80: has an entry; against it: +1 memory copy",
        "sm86: has an entry, which would match",
        "cpu: has an entry, which is not comparable",
        "ledger: tests/__kernelprof__/test_it.json: test_it, sm90",
        "to accept: pytest --kernelprof-update-new tests/test_it.py::test_it",
    ]


def test_a_missing_entry_names_tests_that_come_close() -> None:
    made = {
        Place("test_is", "1", "sm90"): entry(h200("attn_naive")),
        Place("other", "1", "sm90"): entry(h200("attn_naive")),
    }
    with pytest.raises(LedgerError, match="the ledger has 2 other tests; close: test_is"):
        profile(h200("attn_naive"), book(made)).assert_matches_ledger()
    with pytest.raises(LedgerError, match="the ledger does not exist or is empty"):
        profile(h200("attn_naive"), book({})).assert_matches_ledger()


H200 = Environment("nvidia", ("NVIDIA H200",), "9.0", "sm90", cuda="13.0", torch="2.11.0+cu130", cudnn="91002")
MI300 = Environment("amd", ("AMD Instinct MI300X",), arch="gfx942", rocm="7.0.51831", torch="2.11.0")


@pytest.mark.parametrize(
    ("environment", "on_gpu", "parts", "expected"),
    [
        (H200, True, (), "sm90"),
        (H200, False, (), "cpu"),
        (H200, True, ("cuda", "torch"), "sm90-torch2.11-cuda13.0"),
        (H200, False, ("cuda", "torch", "device"), "cpu-torch2.11"),
        (H200, True, ("cudnn", "device", "rocm"), "sm90-cudnn91002-nvidia-h200"),
        (MI300, True, (), "gfx942"),
        (MI300, True, ("torch", "cuda", "rocm"), "gfx942-torch2.11-rocm7.0"),
        (MI300._replace(arch=None), True, (), "amd-instinct-mi300x"),
        (Environment("intel", ("Intel(R) Data Center GPU Max 1550",)), True, (), "intel-r-data-center-gpu-max-1550"),
    ],
)
def test_the_key_of_an_environment(
    environment: Environment, on_gpu: bool, parts: tuple[str, ...], expected: str
) -> None:
    assert environment_key(environment, on_gpu=on_gpu, parts=parts) == expected


@pytest.mark.parametrize(
    ("environment", "parts", "what"),
    [(Environment(), (), "device"), (H200._replace(torch=None), ("torch",), "torch")],
)
def test_an_environment_that_the_trace_does_not_tell_is_not_measured(
    environment: Environment, parts: tuple[str, ...], what: str
) -> None:
    with pytest.raises(NotMeasured, match=f"does not tell the {what} that its environment key needs"):
        environment_key(environment, on_gpu=True, parts=parts)


# Files


def entries() -> Entries:
    return {
        PLACE: entry(h200("attn_naive")),
        Place("test_it", "1", "cpu"): entry(h200("attn_naive"))._replace(lines={"ops": {}}),
        Place("TestA::test_b[x-1]", "two", "sm90"): entry(h200("misc_item"), "names"),
    }


def ledger_in(folder: Path, made: Entries | None = None) -> Path:
    file = folder / "test_it.json"
    file.write_text(text_of(made or entries()))
    return file


def read_back(file: Path) -> Entries:
    return read(file, "test_it.json", UPDATE)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert read_back(ledger_in(tmp_path)) == entries()
    assert {entry_from(json.loads(json.dumps(values_of(one)))) == one for one in entries().values()} == {True}
    assert read_back(tmp_path / "there_is_none.json") == {}


def test_a_ledger_has_a_line_for_each_kind_of_event_in_a_stable_order() -> None:
    text = text_of({PLACE: entry(h200("attn_naive"))})

    assert text == (
        "{\n"
        ' "schema": "kernelprof/ledger/1",\n'
        ' "entries": {\n'
        '  "test_it": {\n'
        '   "1": {\n'
        '    "sm90": {\n'
        '     "level": "roles",\n'
        '     "made_on": {"device": "NVIDIA H200", "cuda": "13.0"},\n'
        '     "kernels": [\n'
        '      {"count": 2, "role": "elementwise", "library": "aten", "dtypes": ["bf16"], "tensor_cores": "no"},\n'
        '      {"count": 2, "role": "gemm", "library": "cublas", "dtypes": ["bf16"], "tensor_cores": "yes"},\n'
        '      {"count": 1, "role": "softmax", "library": "aten", "dtypes": ["bf16"], "tensor_cores": "no"}\n'
        "     ],\n"
        '     "memcpys": [\n'
        '      {"count": 1, "kind": "DtoD", "bytes": 268435456, "by": "aten::masked_fill"}\n'
        "     ],\n"
        '     "memsets": [\n'
        '      {"count": 1, "bytes": 4, "by": "aten::matmul"}\n'
        "     ],\n"
        '     "host_syncs": []\n'
        "    }\n"
        "   }\n"
        "  }\n"
        " }\n"
        "}\n"
    )
    made = entries()
    assert text_of(dict(reversed(list(made.items())))) == text_of(made)
    assert "duration" not in text_of(made)


def test_one_changed_kernel_is_one_changed_line() -> None:
    naive, inplace = (text_of({PLACE: entry(h200(name))}).splitlines() for name in ("attn_naive", "attn_inplace"))
    assert [line for line in naive if line not in inplace] == [
        '     "memcpys": [',
        '      {"count": 1, "kind": "DtoD", "bytes": 268435456, "by": "aten::masked_fill"}',
    ]


def _edited(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


_KERNEL = '$.entries.test_it["1"].sm90.kernels'
BROKEN: dict[str, tuple[Callable[[str], str | bytes], str, str]] = {
    "cut": (
        lambda text: text[: len(text) // 2],
        r"\$\.entries.*: no JSON in line \d+, column \d+",
        "restore it from version control",
    ),
    "conflict": (
        _edited(
            '     "level": "roles",',
            '<<<<<<< HEAD\n     "level": "roles",\n=======\n     "level": "names",\n>>>>>>> main',
        ),
        r"""\$\.entries\["TestA::test_b\[x-1\]"\].*|\$\.entries\.test_it\["1"\]\.cpu: conflict marker '<<<<<<< HEAD' in line \d+""",
        f"take either side whole, then: {UPDATE}",
    ),
    "newer": (
        _edited("kernelprof/ledger/1", "kernelprof/ledger/2"),
        r"\$\.schema: kernelprof/ledger/2 is newer",
        "upgrade pytest-kernelprof",
    ),
    "other": (
        _edited("kernelprof/ledger/1", "something/else"),
        r"\$\.schema: no ledger: \"something/else\"",
        "restore it from version control",
    ),
    "no object": (lambda _: "[1]", r"\$\.schema: no ledger: null", "restore it"),
    "negative": (
        _edited('{"count": 2, "role": "elementwise"', '{"count": -2, "role": "elementwise"'),
        r"sm90\.kernels\[0\]\.count: -2 is not accepted; accepted: a whole number",
        "correct it by hand",
    ),
    "text": (
        _edited('{"count": 2, "role": "elementwise"', '{"count": "2", "role": "elementwise"'),
        r"sm90\.kernels\[0\]\.count: \"2\" is not accepted; accepted: a whole number",
        "correct it by hand",
    ),
    "fraction": (
        _edited('{"count": 2, "role": "elementwise"', '{"count": 2.5, "role": "elementwise"'),
        r"sm90\.kernels\[0\]\.count: 2.5 is not accepted; accepted: a whole number",
        "correct it by hand",
    ),
    "true": (
        _edited('{"count": 2, "role": "elementwise"', '{"count": true, "role": "elementwise"'),
        r"sm90\.kernels\[0\]\.count: true is not accepted; accepted: a whole number",
        "correct it by hand",
    ),
    "three": (
        _edited('{"count": 2, "role": "elementwise"', '{"count": [1, 2, 3], "role": "elementwise"'),
        r"sm90\.kernels\[0\]\.count: \[1, 2, 3\] is not accepted; accepted: a whole number",
        "correct it by hand",
    ),
    "turned range": (
        _edited('{"count": 2, "role": "elementwise"', '{"count": [3, 1], "role": "elementwise"'),
        r"sm90\.kernels\[0\]\.count: \[3, 1\] holds no number",
        "correct it by hand",
    ),
    "key": (
        _edited('"tensor_cores": "no"', '"tensor_cores": "no", "tensor_core": "no"'),
        r"sm90\.kernels\[\d\].*'tensor_core' is no key; did you mean 'tensor_cores'",
        "correct it by hand",
    ),
    "role": (
        _edited('"role": "elementwise"', '"role": "elementwize"'),
        r"kernels\[\d\]\.role: \"elementwize\" is not accepted; did you mean 'elementwise'",
        "correct it by hand",
    ),
    "missing": (_edited('"library": "aten", ', ""), r"kernels\[\d\]: 'library' is missing", "correct it by hand"),
    "class gone": (_edited(',\n     "host_syncs": []', ""), r": 'host_syncs' is missing", "correct it by hand"),
    "twice": (
        _edited(
            '      {"count": 2, "role": "elementwise", "library": "aten", "dtypes": ["bf16"], "tensor_cores": "no"},\n',
            2
            * '      {"count": 2, "role": "elementwise", "library": "aten", "dtypes": ["bf16"], "tensor_cores": "no"},\n',
        ),
        r"sm90\.kernels\[1\]: the same line twice",
        f"delete one, then: {UPDATE}",
    ),
    "key twice": (
        _edited(
            '    "sm90": {\n     "level": "roles"',
            '    "sm90": {"level": "roles", "ops": []},\n    "sm90": {\n     "level": "roles"',
        ),
        r"\$\.entries\.test_it\[\"1\"\]\.sm90: 'sm90' stands here twice",
        f"delete one, then: {UPDATE}",
    ),
    "not a number": (_edited('"bytes": 268435456', '"bytes": NaN'), r"\$: no JSON: NaN is no number", "restore it"),
    "binary": (lambda _: b"\xff\xfe\x00", r"\$: not UTF-8 at byte 0", "restore it"),
    "deep": (lambda _: "[" * 100_000, r"\$: no JSON: nested too deep|\$.*: no JSON", "restore it"),
    "many digits": (
        _edited("kernelprof/ledger/1", "kernelprof/ledger/" + "9" * 5000),
        r"\$\.schema: no ledger: ",
        "restore it",
    ),
    "mistyped": (
        _edited('{"count": 2, "role": "elementwise"', '{"cuont": 2, "role": "elementwise"'),
        r"kernels\[0\]: 'cuont' is no key; did you mean 'count'",
        "correct it by hand",
    ),
    "empty": (lambda _: "", r"\$: no JSON in line 1, column 1", "restore it"),
    "names without name": (
        lambda text: text.replace('"level": "roles"', '"level": "names"'),
        r"sm90\.kernels\[0\]: 'name' is missing, which level names needs",
        "correct it by hand",
    ),
    "ops and kernels": (
        _edited('"ops": []', '"ops": [], "kernels": []'),
        r"\.cpu\.kernels: an entry of a GPU has no ops",
        "correct it by hand",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_ledger_is_refused_in_one_line_with_place_and_cure_and_stays_as_it_is(
    tmp_path: Path, how: str
) -> None:
    change, where, cure = BROKEN[how]
    file = ledger_in(tmp_path)
    broken = change(file.read_text())
    file.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
    content = file.read_bytes()

    with pytest.raises(LedgerError, match=where) as caught:
        read_back(file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("test_it.json: $")
    assert cure in str(caught.value)
    assert len(str(caught.value)) < 500

    with pytest.raises(LedgerError):
        update(
            file,
            {PLACE: Write(entry(h200("attn_inplace")), replaces=True)},
            [],
            shown="test_it.json",
            command=UPDATE,
        )
    assert file.read_bytes() == content


def test_a_ledger_that_an_editor_laid_out_anew_is_the_same(tmp_path: Path) -> None:
    file = ledger_in(tmp_path)
    document = json.loads(file.read_text())
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(document, sort_keys=True, indent=4).replace("\n", "\r\n").encode())

    assert read_back(file) == entries()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": {"b": [1, {"c": @', "$.a.b[1].c"),
        ('{"a": 1, @', "$"),
        ('{"a b": ["x, y", @', '$["a b"][1]'),
        ("@", "$"),
        ('{"a": [[1, 2], [3, @', "$.a[1][1]"),
        ('{"a": {"b": 1}, "c": @', "$.c"),
        ('{"a\\"[": @', '$["a\\"["]'),
        ("}]@", "$"),
    ],
)
def test_the_path_of_a_place_in_a_broken_text(text: str, expected: str) -> None:
    assert path_at(text, text.index("@")) == expected


def test_a_ledger_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "test_it.json").mkdir()
    with pytest.raises(LedgerError, match=r"^test_it.json: \$: cannot be read: "):
        read_back(tmp_path / "test_it.json")


def test_roles_in_the_schema_are_those_of_kernel_names() -> None:
    schema = json.loads((Path(pytest_kernelprof.__file__).parent / "schemas/ledger-1.schema.json").read_text())
    assert tuple(schema["$defs"]["kernel"]["properties"]["role"]["enum"]) == ROLES


# Writing


def updated(file: Path, writes: Mapping[Place, Write] | None = None, unused: Collection[Place] = ()) -> list[str]:
    return update(file, writes or {}, unused, shown=file.name, command=UPDATE)


def test_an_update_adds_replaces_and_removes(tmp_path: Path) -> None:
    file = ledger_in(tmp_path)
    new, changed = Place("test_new", "1", "sm90"), entry(h200("attn_inplace"))

    updated(
        file,
        {PLACE: Write(changed, replaces=True), new: Write(changed, replaces=False)},
        [Place("test_it", "1", "cpu")],
    )

    assert read_back(file) == {
        PLACE: changed,
        new: changed,
        Place("TestA::test_b[x-1]", "two", "sm90"): entry(h200("misc_item"), "names"),
    }
    assert (tmp_path / ".locks/.gitignore").read_text() == "*\n"


def test_an_entry_that_somebody_else_added_meanwhile_stays(tmp_path: Path) -> None:
    file = ledger_in(tmp_path)
    updated(file, {PLACE: Write(entry(h200("attn_inplace")), replaces=False)})
    assert read_back(file) == entries()


def test_an_update_that_changes_nothing_does_not_touch_the_file(tmp_path: Path) -> None:
    file = ledger_in(tmp_path)
    file.chmod(0o600)
    before = file.stat()
    updated(file, {PLACE: Write(entry(h200("attn_naive")), replaces=True)})
    assert file.stat().st_mtime_ns == before.st_mtime_ns

    updated(file, {PLACE: Write(entry(h200("attn_inplace")), replaces=True)})
    assert file.stat().st_mode == before.st_mode


def test_a_ledger_without_entries_goes_with_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "__kernelprof__"
    folder.mkdir()
    file = ledger_in(folder, {PLACE: entry(h200("attn_naive"))})
    update(file, {}, [PLACE], shown=file.name, command=UPDATE)
    assert not folder.exists()


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    real = ledger_in(tmp_path)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    updated(link, {PLACE: Write(entry(h200("attn_inplace")), replaces=True)})
    assert link.is_symlink()
    assert read_back(real)[PLACE] == entry(h200("attn_inplace"))


def _add(file: str, number: int) -> None:
    made = entry(h200("attn_naive"))
    for test in range(5):
        update(
            Path(file),
            {Place(f"test_{number}_{test}", "1", "sm90"): Write(made, replaces=False)},
            [],
            shown="test_it.json",
            command=UPDATE,
        )


def test_processes_that_write_one_ledger_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "test_it.json"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add, args=(str(file), number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0

    assert sorted(place.test for place in read_back(file)) == [f"test_{n}_{t}" for n in range(4) for t in range(5)]
    assert list(tmp_path.glob(".half-*")) == []


def test_ledgers_are_found_below_a_folder_but_not_where_nobody_looks(tmp_path: Path) -> None:
    for folder in ("a/__kernelprof__", "a/b/__kernelprof__", "build/__kernelprof__", "a/__kernelprof__/traces"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "test_x.json").touch()
    found = [path.relative_to(tmp_path).as_posix() for path in ledgers_below(tmp_path, ["build", "_*"])]
    assert sorted(found) == ["a/__kernelprof__/test_x.json", "a/b/__kernelprof__/test_x.json"]


# Unused entries


LEDGER = Path("tests/__kernelprof__/test_it.json")


def accounts_of(*tests: tuple[Any, ...], collected: dict[str, list[str]] | None = None) -> Accounts:
    accounts = Accounts()
    for name, passed, keys, *notes in tests:
        accounts.add_test(
            {
                "file": str(LEDGER),
                "test": name,
                "passed": passed,
                "keys": keys,
                "notes": [{"place": place, "state": "same", "entry": None} for place in notes],
            }
        )
    if collected is not None:
        accounts.add_collected({str(LEDGER): collected})
    return accounts


def place(test: str, profile: str = "1", environment: str = "sm90") -> Place:
    return Place(test, profile, environment)


ALL = [
    place("test_a[x::y]"),
    place("test_a[x::y]", "two"),
    place("test_a[x::y]", "1", "sm80"),
    place("A::test_b"),
    place("A::B::test_c"),
]


HERE = ("somewhere", True, ["sm90"])


@pytest.mark.parametrize(
    ("accounts", "expected"),
    [
        # Nothing is known of a test that did not run, in a file that was not collected.
        (accounts_of(HERE), []),
        # A whole file without it: gone; with it, and not run: unknown.
        (
            accounts_of(
                HERE, collected={"": ["test_a[x::y]", "A"], "A": ["A::test_b", "A::B"], "A::B": ["A::B::test_c"]}
            ),
            [],
        ),
        (
            accounts_of(HERE, collected={"": ["test_a[z]", "A"], "A": ["A::B"], "A::B": []}),
            [one for one in ALL if one != ALL[2]],
        ),
        (accounts_of(HERE, collected={"": ["test_a[x::y]"]}), [ALL[3], ALL[4]]),
        # Where nothing was profiled, tests may not be there for another reason.
        (accounts_of(collected={"": []}), []),
        (accounts_of(("somewhere", True, ["sm80"]), collected={"": []}), [ALL[2]]),
        # A class that was not looked into.
        (accounts_of(HERE, collected={"": ["test_a[x::y]", "A"]}), []),
        # It ran, and asked for one of its entries.
        (accounts_of(("test_a[x::y]", True, ["sm90"], ALL[0])), [ALL[1]]),
        # It failed before it could ask.
        (accounts_of(("test_a[x::y]", False, ["sm90"], ALL[0])), []),
        # It profiled elsewhere, or not at all.
        (accounts_of(("test_a[x::y]", True, ["cpu"])), []),
        (accounts_of(("test_a[x::y]", True, []), HERE), []),
    ],
)
def test_which_entries_are_unused(accounts: Accounts, expected: list[Place]) -> None:
    assert accounts.unused(LEDGER, ALL, has_test_file=True) == expected


def test_all_entries_are_unused_where_the_test_file_is_gone() -> None:
    assert accounts_of().unused(LEDGER, ALL, has_test_file=False) == ALL


def test_different_results_of_one_test_are_not_written() -> None:
    accounts = Accounts()
    for name in ("attn_naive", "attn_inplace"):
        note = {"place": tuple(PLACE), "state": "new", "entry": values_of(entry(h200(name)))}
        accounts.add_test({"file": str(LEDGER), "test": "test_it", "passed": True, "keys": [], "notes": [note]})
    assert accounts.writes(LEDGER) == {}
    assert accounts.contradictions(LEDGER) == [PLACE]


# Details of lines


def test_lines_without_ops_around_say_so(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        step(1, 0, 90),
        call("cudaMemsetAsync", 5, 1),
        memset(9, 1),
        call("cudaMemcpyAsync", 20, 2),
        memcpy(25, 2),
    )
    lines = entry(trace).lines
    assert list(lines["memcpys"]) == [MemcpyLine("DtoD", 4, False, None)]
    assert [line.words() for name in ("memcpys", "memsets") for line in lines[name]] == [
        "Memcpy DtoD 4 B by (no op)",
        "Memset 4 B by (no op)",
    ]


def test_kernels_of_which_nothing_is_known_keep_their_names(tmp_path: Path) -> None:
    rows = [step(1, 0, 90), *launch(5, 1, name="mystery_kernel_v2"), *launch(9, 2, name="riddle")]
    lines = entry(trace_of(tmp_path, *rows)).lines["kernels"]
    assert sorted(line.words() for line in lines) == ["kernel mystery_kernel_v2", "kernel riddle"]


def test_every_error_of_a_ledger_is_ours() -> None:
    assert issubclass(LedgerError, KernelprofError)
    assert not issubclass(LedgerError, (AssertionError, NotMeasured))
