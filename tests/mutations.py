"""The classic regressions of attention, as edits of ``examples/attention``, and which of its tests each turns red."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import warm
from builders import PLUGINS_OFF

ROOT = Path(__file__).parent.parent
ATTENTION = ROOT / "examples/attention"
RECORDINGS = Path("__kernelprof__/traces")
MUTANTS = Path(__file__).parent / "data/mutants"
"""Recordings of the mutants, a folder each: of the profiles that differ from those of the examples."""


class Edit(NamedTuple):
    """One change of a source file.

    Attributes:
        file: The file in ``examples/attention``.
        old: Text that stands there once; empty for the end of the file.
        new: What takes its place.
    """

    file: str
    old: str
    new: str


class Mutation(NamedTuple):
    """A regression.

    Attributes:
        edits: What somebody changed.
        red: The tests that must fail by AssertionError, all others staying as they were.
        touches: Names of the profiles whose recordings change.
        values: Tests that only a live run can turn red, since a replay calculates nothing.
    """

    edits: tuple[Edit, ...]
    red: frozenset[str]
    touches: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()


def _tests(text: str) -> frozenset[str]:
    """Return ids of tests, written as ``module: test test; module: test``."""
    found = []
    for part in text.split(";") if text else ():
        module, _, tests = part.partition(":")
        found += [f"test_{module.strip()}.py::test_{test}" for test in tests.split()]
    return frozenset(found)


def _k2(variants: str) -> frozenset[str]:
    tests = [f"k2_the_same_numbers_as_naive[{variant}]" for variant in variants.split()]
    return _tests(f"compare: {' '.join(tests)}")


MUTATIONS: dict[str, Mutation] = {
    "in place: masked_fill for masked_fill_": Mutation(
        (Edit("in_place.py", "scores.masked_fill_(", "scores.masked_fill("),),
        red=_tests(
            "compare: i3_in_place_is_faster_than_naive i3_saves_allocations_and_not_the_peak; "
            "in_place: i1_no_memcpy_any_more i2_fewer_ops_in_the_masking_step "
            "i4_the_saving_repeats_per_layer"
        ),
        touches=frozenset({"in_place"}),
    ),
    "naive: the mask is rebuilt on each call": Mutation(
        (Edit("naive.py", "scores.masked_fill(mask,", "scores.masked_fill(torch.ones_like(mask).triu(1),"),),
        red=_tests(
            "in_place: i2_fewer_ops_in_the_masking_step; naive: g1_a_wrong_guess_shows_guess_and_trace_side_by_side n1_five_kernels_and_a_hidden_memcpy"
        ),
        touches=frozenset({"naive"}),
        values=_tests("naive: n4_a_row_masked_everywhere_is_nan"),
    ),
    "in place: item() in the forward": Mutation(
        (
            Edit(
                "in_place.py",
                "    weights =",
                "    if scores[0, 0, 0, 0].item() > 1e4:\n        raise OverflowError\n    weights =",
            ),
        ),
        red=_tests(
            "in_place: i1_no_memcpy_any_more i2_fewer_ops_in_the_masking_step "
            "i4_the_saving_repeats_per_layer the_host_never_waits"
        ),
        touches=frozenset({"in_place"}),
    ),
    "in place: contiguous() after the transpose": Mutation(
        (Edit("in_place.py", "k.transpose(-2, -1)", "k.transpose(-2, -1).contiguous()"),),
        red=_tests(
            "compare: i3_saves_allocations_and_not_the_peak; "
            "in_place: i1_five_kernels i2_fewer_ops_in_the_masking_step i4_the_saving_repeats_per_layer"
        ),
        touches=frozenset({"in_place"}),
    ),
    "in place: an extra cast": Mutation(
        (Edit("in_place.py", "torch.softmax(scores, dim=-1)", "torch.softmax(scores.float(), dim=-1).to(q.dtype)"),),
        red=_tests(
            "compare: i3_in_place_is_faster_than_naive i3_saves_allocations_and_not_the_peak "
            "m2_math_is_slower_than_in_place; "
            "in_place: i1_five_kernels i2_fewer_ops_in_the_masking_step i4_the_saving_repeats_per_layer"
        ),
        touches=frozenset({"in_place"}),
    ),
    "naive and in place: float32 inputs": Mutation(
        (
            Edit(
                "conftest.py",
                "(function, *first, *inputs)",
                '(function, *first, *(one.float() if name in ("naive", "in_place") and one.is_floating_point() else one '
                "for one in inputs))",
            ),
        ),
        red=_tests(
            "compare: i3_saves_allocations_and_not_the_peak m2_math_is_slower_than_in_place; "
            "in_place: i1_five_kernels i1_what_cublas_sets_before_a_matmul; "
            "naive: n1_five_kernels_and_a_hidden_memcpy n1_what_cublas_sets_before_a_matmul n3_both_matmuls_run_on_tensor_cores_in_bf16 "
            "n3_the_names_of_both_matmuls; "
            "sdpa: c4_alone_or_with_the_matmuls f2_the_scores_never_reach_memory"
        ),
        touches=frozenset({"naive", "in_place"}),
        values=_k2("cudnn efficient flash math prebuilt"),
    ),
    "math and efficient: float32 inputs": Mutation(
        (
            Edit(
                "conftest.py",
                "(sdpa.attention, *inputs.qkv)",
                '(sdpa.attention, *(one.float() if backend in ("math", "efficient") else one for one in inputs.qkv))',
            ),
        ),
        red=_tests(
            "sdpa: f2_the_scores_never_reach_memory e1_the_name_of_the_kernel e2_what_the_name_says m1_the_calls_that_launch_them "
            "m1_twenty_kernels m4_upcasts_q_k_and_v"
        ),
        touches=frozenset({"math", "efficient"}),
        values=_k2("efficient math"),
    ),
    "flash: a mask that it does not take": Mutation(
        (
            Edit(
                "conftest.py",
                "(sdpa.attention, *inputs.qkv)",
                '(sdpa.attention, *inputs.qkv, *([~inputs.mask] if backend == "flash" else []))',
            ),
            # Pinned to flash alone, torch would refuse; this is what people write instead.
            Edit(
                "sdpa.py",
                '"flash": SDPBackend.FLASH_ATTENTION',
                '"flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]',
            ),
        ),
        red=_tests(
            "compare: c6_the_cost_moved_to_the_cpu f4_the_place_of_flash; "
            "sdpa: f1_one_kernel_flash_attention_2 f2_the_scores_never_reach_memory "
            "f3_low_occupancy_by_design"
        ),
        touches=frozenset({"flash"}),
    ),
    "math: TF32 is switched on": Mutation(
        (Edit("sdpa.py", "BACKENDS = {", "torch.backends.cuda.matmul.allow_tf32 = True\nBACKENDS = {"),),
        red=_tests(
            "compare: m2_math_is_slower_than_in_place; sdpa: m3_no_tensor_core_at_all m3_the_names_of_both_matmuls"
        ),
        touches=frozenset({"math"}),
    ),
    "pre-built: contiguous() after a transpose": Mutation(
        (
            Edit(
                "prebuilt.py",
                "    result = flash(",
                "    q, k, v = (one.transpose(1, 2).contiguous().transpose(1, 2) for one in (q, k, v))\n    result = flash(",
            ),
        ),
        red=_tests("prebuilt: k1_and_nothing_else_but_its_own_fill"),
        touches=frozenset({"prebuilt"}),
    ),
    "guess: what the A100 does": Mutation(
        (
            Edit(
                "findings.py", "", 'for row in BY_ARCHITECTURE.values():\n    row["9.0"] = row.get("8.0", row["9.0"])\n'
            ),
        ),
        red=_tests(
            "compare: c7_the_place_of_cudnn f4_the_place_of_flash m2_math_is_slower_than_in_place; "
            "in_place: i1_what_cublas_sets_before_a_matmul; naive: n1_what_cublas_sets_before_a_matmul n3_the_names_of_both_matmuls; "
            "sdpa: c1_the_name_of_the_generated_kernel c2_what_the_name_says c4_alone_or_with_the_matmuls "
            "c5_no_occupancy_reported_is_a_gap m3_the_names_of_both_matmuls"
        ),
    ),
    "guess: one wrong number for each of some": Mutation(
        (
            Edit("test_naive.py", '"aten::clone", "aten::copy_"]]', '"aten::copy_"]]'),
            Edit("test_sdpa.py", '"aten::ones": 1', '"aten::ones": 2'),
            Edit("test_sdpa.py", '"*isneginf*"', '"*isnan*"'),
            Edit("test_sdpa.py", "== (2, 8)", "== (4, 16)"),
            Edit(
                "test_sdpa.py",
                'flash.assert_op_count("aten::transpose", 4)',
                'flash.assert_op_count("aten::transpose", 3)',
            ),
            Edit("test_sdpa.py", "cudnn.assert_launch_count(1)", "cudnn.assert_launch_count(2)"),
            Edit("test_compare.py", 'fused["cudnn"], on="cpu"', 'fused["cudnn"], by=2, on="cpu"'),
            Edit("test_sdpa.py", 'assert_sdpa_backend("efficient")', 'assert_sdpa_backend("flash")'),
            Edit("test_sdpa.py", 'assert_sdpa_backend("cudnn")', 'assert_sdpa_backend("flash")'),
            Edit("test_sdpa.py", "shape._replace(sequence=length).fused_bytes", "shape.fused_bytes"),
            Edit("test_sdpa.py", "assert (row == 0).all()", "assert (row == 1).all()"),
            Edit("test_prebuilt.py", 'assert_sdpa_backend("external")', 'assert_sdpa_backend("flash")'),
            Edit("findings.py", '"unpinned": {"9.0": "cudnn"}', '"unpinned": {"9.0": "flash"}'),
        ),
        red=_tests(
            "compare: c6_the_cost_moved_to_the_cpu; "
            "naive: n2_the_memcpy_comes_from_masked_fill; "
            "prebuilt: k1_one_attention_kernel; sdpa: c1_one_kernel e1_one_kernel f2_memory_is_linear_in_the_sequence unpinned_attention_takes c3_no_transpose_where_flash_and_efficient_have_four c4_launched_through_the_driver "
            "f3_low_occupancy_by_design m5_rebuilds_the_causal_mask_on_every_call "
            "m6_extra_kernels_after_the_softmax"
        ),
        values=_tests("sdpa: m6_a_row_masked_everywhere_is_zero[efficient] m6_a_row_masked_everywhere_is_zero[math]"),
    ),
    "values: a finite number for minus infinity": Mutation(
        (
            Edit("naive.py", 'float("-inf")', "torch.finfo(scores.dtype).min"),
            Edit("in_place.py", 'float("-inf")', "torch.finfo(scores.dtype).min"),
            Edit(
                "sdpa.py",
                "    return scaled",
                "    if attn_mask is not None:\n        attn_mask = torch.zeros_like(attn_mask, dtype=q.dtype).masked_fill(~attn_mask, torch.finfo(q.dtype).min)\n    return scaled",
            ),
        ),
        red=_tests(""),
        values=_tests(
            "in_place: n4_a_row_masked_everywhere_is_nan; "
            "naive: n4_a_row_masked_everywhere_is_nan; "
            "sdpa: m6_a_row_masked_everywhere_is_zero[math]"
        ),
    ),
    "values: another scale": Mutation(
        (Edit("naive.py", "** -0.5", "** -0.25"),),
        red=_tests(""),
        values=_k2("cudnn efficient flash in_place math prebuilt"),
    ),
}


class Told(NamedTuple):
    """What the failure of a mutant must tell on its first screen.

    Attributes:
        test: A test that it turns red.
        file: The file of the line that is to blame.
        text: What stands in that line of the mutant, and in no other.
        op: The op that is to blame, or its kernel.
        hint: The section of the page of hints; ``None`` where no cause of the table is at work.
    """

    test: str
    file: str
    text: str
    op: str
    hint: str | None


_SDPA_CALL = "return scaled_dot_product_attention("

TOLD = {
    "in place: masked_fill for masked_fill_": Told(
        "test_in_place.py::test_i1_no_memcpy_any_more",
        "in_place.py",
        "scores.masked_fill(",
        "aten::masked_fill > aten::clone > aten::copy_",
        "masked_fill",
    ),
    "naive: the mask is rebuilt on each call": Told(
        "test_naive.py::test_n1_five_kernels_and_a_hidden_memcpy", "naive.py", ".triu(1)", "aten::triu", "mask"
    ),
    "in place: item() in the forward": Told(
        "test_in_place.py::test_the_host_never_waits", "in_place.py", ".item()", "aten::_local_scalar_dense", "item"
    ),
    "in place: contiguous() after the transpose": Told(
        "test_in_place.py::test_i1_five_kernels", "in_place.py", ".contiguous()", "aten::contiguous", "contiguous"
    ),
    "in place: an extra cast": Told(
        "test_in_place.py::test_i1_five_kernels", "in_place.py", "scores.float()", "aten::_to_copy", "upcast"
    ),
    "naive and in place: float32 inputs": Told(
        "test_naive.py::test_n3_both_matmuls_run_on_tensor_cores_in_bf16",
        "naive.py",
        "scores = torch.matmul(q,",
        "aten::matmul > aten::bmm",
        "tf32",
    ),
    "math and efficient: float32 inputs": Told(
        "test_sdpa.py::test_m1_twenty_kernels", "sdpa.py", _SDPA_CALL, "aten::scaled_dot_product_attention", "math_sdpa"
    ),
    "flash: a mask that it does not take": Told(
        "test_sdpa.py::test_f1_one_kernel_flash_attention_2",
        "sdpa.py",
        _SDPA_CALL,
        "aten::_efficient_attention_forward",
        "sdpa_backend",
    ),
    "math: TF32 is switched on": Told(
        "test_sdpa.py::test_m3_the_names_of_both_matmuls",
        "sdpa.py",
        _SDPA_CALL,
        "aten::scaled_dot_product_attention",
        "math_sdpa",
    ),
    "pre-built: contiguous() after a transpose": Told(
        "test_prebuilt.py::test_k1_and_nothing_else_but_its_own_fill",
        "prebuilt.py",
        ".contiguous()",
        "aten::contiguous",
        "contiguous",
    ),
    "guess: what the A100 does": Told(
        "test_naive.py::test_n3_the_names_of_both_matmuls", "naive.py", "scores = torch.matmul(q,", "aten::bmm", None
    ),
    "guess: one wrong number for each of some": Told(
        "test_sdpa.py::test_e1_one_kernel", "sdpa.py", _SDPA_CALL, "_efficien", "sdpa_backend"
    ),
}
"""By mutation; those of values fail in asserts of the examples' own, which say nothing of a profile."""


def blamed(folder: Path, told: Told) -> str:
    """Return the line that a mutant's failure must name, as a table tells it where room is scarce: ``naive.py:20``."""
    lines = (folder / told.file).read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if told.text in line)
    return f"{told.file}:{number}"


def failure(folder: Path, test: str, *arguments: str) -> str:
    """Run one test in *folder*; return the message with which it fails."""
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", *PLUGINS_OFF, "--tb=short", *arguments)
    command = [warm.python(), "-m", "pytest", *options, test]
    run = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    lines = [
        line.removeprefix("E").removeprefix("   ") for line in run.stdout.splitlines() if re.match(r"E( |$)", line)
    ]
    if not lines:
        raise RuntimeError(run.stdout + run.stderr)
    return "\n".join(lines)


TIMES = _tests(
    "compare: m2_math_is_slower_than_in_place i3_in_place_is_faster_than_naive f4_the_place_of_flash "
    "c7_the_place_of_cudnn c6_the_cost_moved_to_the_cpu"
)
"""What may be too noisy to judge, live."""


def findings() -> ModuleType:
    """Import ``findings`` of the examples, whose folder is not on the path of the tests, and let it be imported anew."""
    known = set(sys.modules)
    sys.path.insert(0, str(ATTENTION))
    try:
        return importlib.import_module("findings")
    finally:
        sys.path.remove(str(ATTENTION))
        for name in set(sys.modules) - known:
            if (ATTENTION / f"{name}.py").exists():
                del sys.modules[name]


def slug(name: str) -> str:
    """Return the name of the folder with a mutant's recordings."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def prepare(folder: Path, mutation: Mutation | None = None) -> None:
    """Copy the examples to *folder*, and edit them there."""
    folder.mkdir(exist_ok=True)
    for path in ATTENTION.glob("*.py"):
        shutil.copy(path, folder)
    shutil.copy(MUTANTS / "kinds.py", folder)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for edit in mutation.edits if mutation else ():
        text = (folder / edit.file).read_text()
        if edit.old and text.count(edit.old) != 1:
            raise ValueError(f"{edit.file} holds {edit.old!r} {text.count(edit.old)} times")
        (folder / edit.file).write_text(text.replace(edit.old, edit.new) if edit.old else text + edit.new)


def add_recordings(folder: Path, name: str | None = None) -> None:
    """Copy the recordings of the examples to *folder*, and over them those of a mutant."""
    shutil.copytree(ATTENTION / RECORDINGS, folder / RECORDINGS)
    if name is not None and (MUTANTS / slug(name)).exists():
        shutil.copytree(MUTANTS / slug(name), folder / RECORDINGS, dirs_exist_ok=True)


def outcomes(folder: Path, *arguments: str) -> dict[str, str]:
    """Run the tests in *folder*; return ``passed``, ``skipped`` or the type of the exception for each."""
    options = ("-q", "-p", "kinds", "-p", "no:cacheprovider", "-p", "no:xdist", *PLUGINS_OFF, *arguments)
    command = [warm.python(), "-m", "pytest", *options, "."]
    run = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    found = folder / "kinds.json"
    if not found.exists():
        raise RuntimeError(run.stdout + run.stderr)
    kinds: dict[str, str] = json.loads(found.read_text())
    found.unlink()
    return kinds


def unexpected(kinds: Mapping[str, str], mutation: Mutation, *, live: bool) -> dict[str, str]:
    """Return the tests that did not become what they must.

    Args:
        kinds: What became of each test.
        mutation: What was done to the examples.
        live: On a GPU, where claims about values are judged, and a time may be too noisy.
    """
    wrong = {}
    for test, kind in kinds.items():
        must = "AssertionError" if test in mutation.red else "passed"
        if _is_value(test):
            must = "skipped" if not live else "AssertionError" if test in mutation.values else "passed"
        noisy = live and kind == "skipped" and must == "passed" and test in TIMES
        if kind != must and not noisy:
            wrong[test] = f"{kind}, must be {must}"
    missing = (mutation.red | mutation.values) - set(kinds)
    return {**wrong, **dict.fromkeys(missing, "did not run")}


def _is_value(test: str) -> bool:
    return any(f"::test_{name}" in test for name in ("n4_", "k2_", "m6_a_row", "m6_nor"))
