"""Each cause is named where its pattern holds, and not where it only looks like it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from builders import Row, Rows, annotation, call, kernel, memcpy, op, write

from pytest_kernelprof import Hint, MisuseError, Profile, Trace, load_trace
from pytest_kernelprof.attribution import Explanation
from pytest_kernelprof.hints import CAUSES, SDPA_BACKEND, Cause, Scene, checked, hints_for
from pytest_kernelprof.sites import GRAPH_BREAK, Place, Site

ROOT = Path(__file__).parent.parent
H200 = ROOT / "tests/data/traces_h200"
MUTANTS = ROOT / "tests/data/mutants"
PAGE = (ROOT / "docs/hints.md").read_text()

AMPERE = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0}]}
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::x>(int)"
)
COPY = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::x>>(int)"
ADD = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<float>>(int)"
ALIGN2 = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align2>(Params)"
ALIGN8 = ALIGN2.replace("align2", "align8")
FFMA = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"
TO_NHWC = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true>(int)"
EFFICIENT = "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)"
TRIANGLE = "void at::native::triu_tril_kernel<float, int, true, 2, true>(int)"

Made = Callable[..., Trace]
"""Makes a trace of rows and metadata."""


def recorded(name: str) -> Trace:
    return load_trace(H200 / f"{name}.json.gz")


def mutant(name: str, profile: str) -> Trace:
    return load_trace(next((MUTANTS / name).glob(f"*.module-{profile}-[0-9a-f]*")))


def site(*inputs: str, call: str = "f", reasons: tuple[str, ...] = ()) -> Site:
    return Site("model.py", 12, "forward", call, inputs=inputs, why_not_fused=reasons)


def names(trace: Trace, classes: str, *, where: Site | None = None, **scene: Any) -> list[str]:
    """Return the names of the hints for some classes of events of the first step."""
    step = trace.steps[0]
    events = [event for one in classes.split() for event in getattr(step, one).seen]
    places = {event: Place(where) for event in events} if where else {}
    hints = hints_for(events, Scene(steps=trace.steps, environment=trace.environment, places=places, **scene))
    return [hint.link.rpartition("#")[2] for hint in hints]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(*rows: Rows, **metadata: Any) -> Trace:
        return load_trace(write(tmp_path / "made.json", *rows, **metadata))

    return make


def inside(*ops: str, then: Row, start: int = 1, correlation: int = 1, api: str = "cudaLaunchKernel") -> list[Row]:
    """Ops one in the other, a call in the innermost, and what it starts."""
    rows = [op(name, start + place, 40 - 2 * place) for place, name in enumerate(ops)]
    return [*rows, call(api, start + len(ops), correlation), then]


def launched(*ops: str, name: str, start: int = 1, correlation: int = 1) -> list[Row]:
    return inside(*ops, then=kernel(start + 50, correlation, name=name), start=start, correlation=correlation)


def copied(*ops: str, name: str, start: int = 1, correlation: int = 1) -> list[Row]:
    then = memcpy(start + 50, correlation, name=name)
    return inside(*ops, then=then, start=start, correlation=correlation, api="cudaMemcpyAsync")


def waiting(*ops: str, pageable: bool = True, name: str = "cudaStreamSynchronize") -> list[Row]:
    """A copy from the host in an op, and the wait for it."""
    kind = "Pageable" if pageable else "Pinned"
    rows = copied(*ops, name=f"Memcpy HtoD ({kind} -> Device)")
    return [*rows, call(name, len(ops) + 3, 9, dur=5)]


# masked_fill


def test_masked_fill() -> None:
    naive = recorded("attn_naive")

    assert names(naive, "memcpys") == names(naive, "memcpys kernels ops") == ["masked_fill"]


def test_no_masked_fill(made: Made) -> None:
    assert names(recorded("attn_naive"), "kernels") == []  # The kernel that fills is no copy.
    assert names(recorded("attn_inplace"), "kernels ops") == []
    assert names(recorded("misc_d2d"), "memcpys ops") == []
    copy = copied("aten::masked_fill", "aten::clone", "aten::copy_", name="Memcpy DtoD (Device -> Device)")
    larger = site("float32[4]", "bool[4, 4]", "0.0")
    assert names(made(copy), "memcpys", where=site("float32[4, 4]", "bool[4, 4]", "0.0")) == ["masked_fill"]
    assert names(made(copy), "memcpys", where=larger) == []  # Cannot be done in place.
    of_sdpa = copied("aten::scaled_dot_product_attention", "aten::masked_fill", "aten::clone", name="Memcpy DtoD (D)")
    assert names(made(of_sdpa), "memcpys") == []  # Nobody wrote that masked_fill.


def test_masked_fill_in_a_backward_pass(made: Made) -> None:
    ops = ("autograd::engine::evaluate_function: SquareBackward", "SquareBackward", "aten::masked_fill", "aten::clone")

    assert names(made(copied(*ops, name="Memcpy DtoD (Device -> Device)")), "memcpys") == ["masked_fill"]


# nonzero and item


@pytest.mark.parametrize(
    ("ops", "what"),
    [
        (["aten::index", "aten::nonzero"], "indexing with a boolean mask"),
        (["aten::index_put_", "aten::nonzero"], "indexing with a boolean mask"),
        (["aten::nonzero"], "nonzero"),
        (["aten::masked_select"], "masked_select"),
        (["aten::unique2", "aten::_unique2"], "unique"),
        (["aten::unique_consecutive"], "unique_consecutive"),
        (["aten::repeat_interleave", "aten::repeat_interleave", "aten::item"], "repeat_interleave"),
    ],
)
def test_nonzero(made: Made, ops: list[str], what: str) -> None:
    trace = made(
        [*(op(name, 1 + place, 20 - place) for place, name in enumerate(ops))], call("cudaStreamSynchronize", 9, 1)
    )

    assert names(trace, "host_syncs") == ["nonzero"]
    (hint,) = hints_for(trace.steps[0].host_syncs.seen, Scene(steps=trace.steps))
    assert what in hint.cause


def test_nonzero_as_recorded() -> None:
    trace = recorded("misc_nonzero_sync")

    assert names(trace, "host_syncs memcpys") == ["nonzero"]
    assert names(trace, "kernels") == []  # Kernels wait for nobody.


def test_no_nonzero(made: Made) -> None:
    assert names(made(op("aten::repeat_interleave", 1, 9)), "ops") == []  # With output_size= nothing waits.
    assert names(made(op("aten::where", 1, 9), op("aten::nonzero_static", 20, 9)), "ops") == []
    indexed = made(op("aten::index", 1, 9), call("cudaStreamSynchronize", 2, 1))
    assert names(indexed, "host_syncs") == []  # By numbers, not by a mask.


@pytest.mark.parametrize(
    ("ops", "what"),
    [
        (["aten::item", "aten::_local_scalar_dense"], "item() or a conversion"),
        (["aten::is_nonzero", "aten::item", "aten::_local_scalar_dense"], "the truth value of a tensor"),
        (["aten::allclose", "aten::is_nonzero", "aten::item"], "allclose asks"),
        (["aten::equal", "aten::item"], "equal asks"),
    ],
)
def test_item(made: Made, ops: list[str], what: str) -> None:
    trace = made(
        [*(op(name, 1 + place, 20 - place) for place, name in enumerate(ops))], call("cudaStreamSynchronize", 9, 1)
    )

    assert names(trace, "host_syncs") == names(trace, "ops") == ["item"]
    (hint,) = hints_for(trace.steps[0].host_syncs.seen, Scene(steps=trace.steps))
    assert what in hint.cause


def test_item_as_recorded() -> None:
    trace = recorded("misc_item")

    assert names(trace, "host_syncs memcpys") == ["item"]


def test_no_item(made: Made) -> None:
    assert "item" not in names(recorded("misc_nonzero_sync"), "host_syncs memcpys ops")
    assert "item" not in names(recorded("misc_d2h"), "host_syncs memcpys ops")
    own = made(op("aten::add", 1, 5), call("cudaDeviceSynchronize", 9, 1))
    assert names(own, "host_syncs") == []  # torch.cuda.synchronize() of the user's own.


# Copies from and to the host


def test_pageable(made: Made) -> None:
    assert names(recorded("misc_h2d_pageable"), "memcpys") == ["pageable"]
    assert names(recorded("misc_h2d_pageable"), "host_syncs") == ["pageable"]
    assert names(recorded("misc_d2h"), "memcpys") == ["pageable"]


def test_not_pageable(made: Made) -> None:
    assert names(recorded("misc_h2d_pinned_async"), "memcpys host_syncs") == []
    assert names(recorded("misc_item"), "memcpys host_syncs") == ["item"]  # Never two hints for one wait.
    amd = made(copied("aten::copy_", name="Memcpy HtoD (Host -> Device)"))
    assert names(amd, "memcpys") == []  # That trace does not tell.


def test_blocking_copy(made: Made) -> None:
    assert names(made(waiting("aten::to", "aten::copy_", pageable=False)), "host_syncs") == ["blocking_copy"]


def test_no_blocking_copy(made: Made) -> None:
    assert names(made(waiting("aten::to", "aten::copy_", pageable=True)), "host_syncs") == ["pageable"]
    assert (
        names(made(waiting("aten::to", "aten::copy_", pageable=False)), "memcpys") == []
    )  # The copy alone is no wait.
    assert names(recorded("misc_h2d_pinned_async"), "host_syncs memcpys") == []


# Copies on the GPU


def test_contiguous(made: Made) -> None:
    assert names(recorded("misc_transpose_contig"), "kernels") == ["contiguous"]
    assert "contiguous" in names(mutant("in_place_contiguous_after_the_transpose", "in_place"), "kernels")
    reshaped = launched("aten::reshape", "aten::clone", "aten::copy_", name=COPY)
    assert names(made(reshaped), "kernels") == ["contiguous"]


def test_not_contiguous(made: Made) -> None:
    assert names(made(op("aten::contiguous", 1, 9)), "ops") == []  # Nothing was copied.
    assert names(made(launched("aten::clone", "aten::copy_", name=COPY)), "kernels") == []  # Somebody wants a clone.
    assert names(recorded("misc_cat"), "kernels ops") == []
    by_matmul = launched("aten::matmul", "aten::reshape", "aten::clone", "aten::copy_", name=COPY)
    assert names(made(by_matmul), "kernels") == []  # There is no call to leave out.


def test_upcast(made: Made) -> None:
    assert "upcast" in names(mutant("in_place_an_extra_cast", "in_place"), "kernels")
    cast = launched("aten::to", "aten::_to_copy", "aten::copy_", name=CAST)
    assert names(made(cast), "kernels") == ["upcast"]
    automatic = launched("aten::layer_norm", "aten::to", "aten::_to_copy", "aten::copy_", name=CAST)
    assert names(made(automatic), "kernels") == ["upcast"]
    assert names(
        made(op("aten::to", 1, 9), op("aten::_to_copy", 2, 7)), "ops", where=site("bfloat16[4]", call="float")
    ) == ["upcast"]


def test_no_upcast(made: Made) -> None:
    moved = launched("aten::to", "aten::_to_copy", "aten::copy_", name=COPY)
    assert names(made(moved), "kernels") == []  # Another memory format, the same type.
    assert "upcast" not in names(recorded("attn_sdpa_math"), "kernels ops")  # There SDPA is what to mend.
    ops = [op("aten::add", 1, 20), op("aten::to", 2, 18), op("aten::_to_copy", 3, 16), op("aten::copy_", 4, 5)]
    assert names(made(*ops), "ops") == []  # On a CPU the 1 of x + 1.
    to_device = made(op("aten::to", 1, 9), op("aten::_to_copy", 2, 7))
    assert names(to_device, "ops", where=site("float32[4]", "cuda", call="to")) == []


def test_a_wide_operand_is_an_upcast(made: Made) -> None:
    trace = made(launched("aten::mul", name=ADD))

    assert names(trace, "kernels", where=site("bfloat16[8, 8]", "float32[1]")) == ["upcast"]
    for inputs in (["bfloat16[8, 8]", "0.5"], ["bfloat16[8, 8]", "float32[]"], ["bfloat16[8, 8]", "bfloat16[1]"], []):
        assert names(trace, "kernels", where=site(*inputs)) == []


# Attention


def test_math_sdpa() -> None:
    trace = recorded("attn_sdpa_math")

    assert names(trace, "kernels") == names(trace, "ops") == ["math_sdpa"]
    place = Place(site(reasons=("flash: Flash Attention does not support non-null attn_mask",)))
    kernels = trace.steps[0].kernels.seen
    (hint,) = hints_for(kernels, Scene(steps=trace.steps, places=dict.fromkeys(kernels, place)))
    assert "(flash: Flash Attention does not support non-null attn_mask)" in hint.cause


@pytest.mark.parametrize("name", ["attn_sdpa_flash", "attn_sdpa_efficient", "attn_sdpa_cudnn", "attn_naive"])
def test_no_math_sdpa(name: str) -> None:
    assert "math_sdpa" not in names(recorded(name), "kernels ops memcpys")


def test_sdpa_backend(made: Made) -> None:
    trace = made(launched("aten::scaled_dot_product_attention", "aten::_efficient_attention_forward", name=EFFICIENT))
    cannot = site(reasons=("flash: Flash attention does not support float32", "cudnn: runtime disabled"))
    disabled = site(reasons=("flash: Flash attention has been runtime disabled",))

    assert names(trace, "kernels", where=cannot) == ["sdpa_backend"]
    assert names(trace, "kernels", where=disabled, topic=SDPA_BACKEND) == ["sdpa_backend"]
    assert names(trace, "kernels", where=disabled) == []  # That is what somebody wants.
    assert names(trace, "kernels", topic=SDPA_BACKEND) == []  # Nobody knows why.
    flash = recorded("attn_sdpa_flash")
    assert names(flash, "kernels", where=site(reasons=("efficient: no",))) == []


# Matrix kernels


def test_tf32(made: Made) -> None:
    trace = made(launched("aten::matmul", "aten::mm", name=FFMA), **AMPERE)

    assert names(trace, "kernels", tf32_off=True) == ["tf32"]
    assert names(recorded("misc_mm_fp32"), "kernels", tf32_off=True) == ["tf32"]


def test_no_tf32(made: Made) -> None:
    matmul = launched("aten::matmul", "aten::mm", name=FFMA)
    assert names(made(matmul, **AMPERE), "kernels") == []  # Nobody knows the setting.
    assert names(made(matmul, **AMPERE), "kernels", tf32_off=False) == []
    volta = {"deviceProperties": [{"id": 0, "name": "Tesla V100", "computeMajor": 7, "computeMinor": 0}]}
    assert names(made(matmul, **volta), "kernels", tf32_off=True) == []
    for name in ("misc_mm_tf32", "misc_mm_bf16", "misc_mm_fp64"):
        assert names(recorded(name), "kernels", tf32_off=True) == []
    assert names(recorded("attn_sdpa_math"), "kernels", tf32_off=True) == ["math_sdpa"]


def test_alignment(made: Made) -> None:
    trace = made(launched("aten::linear", "aten::addmm", name=ALIGN2))
    (kernel_,) = trace.steps[0].kernels.seen
    place = Place(site("bfloat16[9477, 588]", "bfloat16[1152, 588]", "bfloat16[1152]"))

    assert names(recorded("misc_mm_odd_fp16"), "kernels") == ["alignment"]
    assert names(trace, "kernels") == ["alignment"]
    (hint,) = hints_for([kernel_], Scene(steps=trace.steps, places={kernel_: place}))
    assert hint.cause.startswith("588 is no multiple of 8: rows are not aligned to 16 bytes")


def test_no_alignment(made: Made) -> None:
    assert names(made(launched("aten::mm", name=ALIGN8)), "kernels") == []
    assert names(made(launched("aten::mm", name=ALIGN8.replace("align8", "align16"))), "kernels") == []
    aligned = site("bfloat16[64, 64]", "bfloat16[64, 64]")
    assert names(made(launched("aten::mm", name=ALIGN2)), "kernels", where=aligned) == []  # Then it is not that.
    assert names(recorded("misc_mm_fp32"), "kernels") == []


def test_channels_last(made: Made) -> None:
    assert names(recorded("misc_conv_fp16"), "kernels") == ["channels_last"]
    assert names(made(launched("aten::cudnn_convolution", name=TO_NHWC)), "kernels") == ["channels_last"]


def test_no_channels_last() -> None:
    assert names(recorded("misc_conv_fp16_cl"), "kernels memcpys ops") == []


# Training


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD"])
def test_optimizer(made: Made, optimizer: str) -> None:
    rows = [annotation(f"Optimizer.step#{optimizer}.step", 0, 90), *launched("aten::_foreach_add_", name=ADD)]

    assert names(made(*rows), "kernels") == names(made(*rows), "ops") == ["optimizer"]


def test_no_optimizer_as_recorded() -> None:
    assert "optimizer" not in names(recorded("misc_train"), "kernels ops")  # It counts its steps, and is fused.


def test_no_optimizer(made: Made) -> None:
    fused = [annotation("Optimizer.step#AdamW.step", 0, 90), *launched("aten::_fused_adamw_", name=ADD)]
    other = [annotation("Optimizer.step#Muon.step", 0, 90), *launched("aten::_foreach_add_", name=ADD)]
    zeroing = [annotation("Optimizer.zero_grad#AdamW.zero_grad", 0, 90), *launched("aten::_foreach_zero_", name=ADD)]

    for rows in (fused, other, zeroing, launched("aten::_foreach_add_", name=ADD)):
        assert names(made(*rows), "kernels ops") == []


def test_graph_break(made: Made) -> None:
    trace = made(launched("Torch-Compiled Region: 1/0", name=ADD))
    after = Site("model.py", 12, "forward, after a graph break", GRAPH_BREAK, exact=False)

    assert names(trace, "kernels", where=after) == ["graph_break"]
    (one,) = trace.steps[0].kernels.seen
    (hint,) = hints_for([one], Scene(steps=trace.steps, places={one: Place(after)}))
    assert hint.cause == "a graph break at line 12 cuts forward into several graphs"


def test_no_graph_break(made: Made) -> None:
    regions = [launched(f"Torch-Compiled Region: {n}/0", name=ADD, start=100 * n, correlation=n) for n in (1, 2)]

    assert names(made(*regions), "kernels ops") == []  # Two functions may have been compiled.
    whole = Site("model.py", 12, "forward", exact=False)
    assert names(made(*regions), "kernels", where=whole) == []


# Masks


@pytest.mark.parametrize("factory", ["aten::ones", "aten::ones_like", "aten::full"])
def test_mask(made: Made, factory: str) -> None:
    rows = [op(factory, 1, 5), *launched("aten::triu", name=TRIANGLE, start=10)]

    assert names(made(*rows), "kernels") == ["mask"]
    assert "mask" in names(mutant("naive_the_mask_is_rebuilt_on_each_call", "naive"), "kernels")


def test_no_mask(made: Made) -> None:
    of_data = [op("aten::mm", 1, 5), *launched("aten::triu", name=TRIANGLE, start=10)]
    assert names(made(*of_data), "kernels") == []
    assert names(made(*launched("aten::triu", name=TRIANGLE)), "kernels") == []  # Before it came nothing.
    assert "mask" not in names(recorded("attn_sdpa_math"), "kernels ops")  # SDPA's own.
    assert names(recorded("attn_naive"), "kernels ops") == ["masked_fill"]  # The mask was built before.


# The table, the page, the hook


def test_driver_allocations() -> None:
    from pytest_kernelprof.hints import DRIVER_ALLOCATIONS

    (hint,) = hints_for([], Scene(topic=DRIVER_ALLOCATIONS))

    assert hint.link == "docs/hints.md#driver_allocations"
    assert hints_for([], Scene(topic="peak_bytes")) == []
    assert hints_for([], Scene()) == []


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_every_cause_has_a_source_a_section_and_tests_for_and_against_it(cause: Cause) -> None:
    source = Path(__file__).read_text()

    assert cause.source
    assert f"\n### {cause.name}\n" in PAGE
    assert f"def test_{cause.name}(" in source
    denied = re.findall(r"def test_(?:no|not)_(\w+)\(", source)
    assert cause.name in denied or cause.name in ("sdpa_backend", "driver_allocations")  # Whose test has both.


def test_the_page_has_no_section_of_a_cause_that_does_not_exist() -> None:
    sections = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)

    assert sorted(sections) == sorted(cause.name for cause in CAUSES)


def test_a_recorded_trace_gets_hints_without_any_call() -> None:
    with pytest.raises(AssertionError) as caught:
        Profile(recorded("attn_naive")).assert_no_memcpy()

    assert "\n\nhint: masked_fill copies its input;" in str(caught.value)
    assert "line of Python" not in str(caught.value)


def test_at_most_three_hints_are_shown() -> None:
    trace = recorded("misc_train_item")
    with pytest.raises(AssertionError) as caught:
        Profile(trace, more_hints=lambda *_: [Hint("a", "b"), Hint("c", "d")]).assert_op_count("*", 0)

    assert str(caught.value).count("\nhint: ") == 3
    assert "... and 1 more hint (-v shows all)" in str(caught.value)


def test_a_pass_and_what_was_not_measured_ask_for_nothing(made: Made) -> None:
    def fail(*_: object) -> NoReturn:
        raise RuntimeError("asked")

    trace = made(op("aten::add", 1, 5))
    profile = Profile(trace, explain=fail, more_hints=fail)

    profile.assert_op_count("aten::add", 1)
    with pytest.raises(Exception, match="not measured"):
        profile.assert_kernel_count(1)
    with pytest.raises(AssertionError, match="0 ops a step"):
        made_empty = Profile(trace, explain=lambda: Explanation(why_not="block"))
        made_empty.assert_op_count("aten::nothing", 1)


def test_what_a_hook_returns_is_checked() -> None:
    hint = Hint("cause", "cure", "there")

    assert str(hint) == "hint: cause; cure (there)"
    assert str(Hint("cause", "cure")) == "hint: cause; cure"
    assert checked(None, "it") == checked([], "it") == []
    assert checked(hint, "it") == checked([hint], "it") == [hint]
    for wrong in ("text", 3, [hint, "text"], {"cause": "x"}):
        with pytest.raises(MisuseError, match="accepted: a Hint, a list of Hints, or None"):
            checked(wrong, "it")
