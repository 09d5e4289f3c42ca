"""On the CPU: what it can show of the regressions of attention and of the public cases, with op, line and cure."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from explaining import line_of, message_of, tells
from mutations import ATTENTION, MUTATIONS, TOLD, blamed, prepare

from pytest_kernelprof import Profiled

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional

Inputs = tuple[Any, Any, Any, Any]
"""Queries, keys, values and a mask."""

X = torch.ones(4, 4)
NUMBERS = itertools.count()
FORBIDDEN = {
    "in place: masked_fill for masked_fill_": "aten::clone",
    "naive: the mask is rebuilt on each call": "aten::triu",
    "in place: item() in the forward": "aten::_local_scalar_dense",
    "in place: contiguous() after the transpose": "aten::clone",
    "in place: an extra cast": "aten::_to_copy",
}
"""By mutation: the op that its test forbids on a CPU."""


def attention_of(path: Path) -> Callable[..., Any]:
    """Import the attention of a file."""
    spec = importlib.util.spec_from_file_location(f"mutant_{next(NUMBERS)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    attention: Callable[..., Any] = module.attention
    return attention


@pytest.fixture
def inputs() -> Inputs:
    q, k, v = torch.ones(3, 1, 2, 8, 4, dtype=torch.bfloat16)
    return q, k, v, torch.ones(8, 8, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_mutant_of_attention(profiled: Profiled, tmp_path: Path, name: str, inputs: Inputs) -> None:
    told = TOLD[name]
    prepare(tmp_path, MUTATIONS[name])

    message = message_of(profiled(attention_of(tmp_path / told.file), *inputs).assert_no_op, FORBIDDEN[name])

    tells(message, f"{blamed(tmp_path, told)} in attention", told.op.partition(" > ")[0], hint=told.hint)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_was_not_mutated_gets_no_such_hint(profiled: Profiled, name: str, inputs: Inputs) -> None:
    told = TOLD[name]
    profile = profiled(attention_of(ATTENTION / told.file), *inputs)

    message = message_of(profile.assert_no_op, "*")

    assert f"#{told.hint})" not in message
    assert told.file in message


def test_case_58_math_attention(profiled: Profiled) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 8, 4)

    def step() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(q, q, q, is_causal=True)  # here

    message = message_of(profiled(step).assert_no_op, "aten::_softmax")

    tells(message, line_of(step), "aten::softmax", hint="math_sdpa")


def test_case_61_an_up_cast_under_autocast(profiled: Profiled) -> None:
    x = torch.randn(8, 16, dtype=torch.bfloat16)
    weight = torch.randn(16, 16)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            F.linear(x, weight)  # here

    message = message_of(profiled(step).assert_no_op, "aten::_to_copy")

    tells(message, line_of(step), "aten::linear > aten::to", hint="upcast")


def test_case_62_clip_grad_norm_waits(profiled: Profiled) -> None:
    parameters = [torch.nn.Parameter(torch.randn(4, 4)) for _ in range(3)]
    for one in parameters:
        one.grad = torch.randn_like(one)

    def step() -> None:
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)  # here

    message = message_of(profiled(step).assert_no_op, "aten::_local_scalar_dense")

    tells(message, line_of(step), "aten::is_nonzero > aten::item", hint="item")


def test_case_64_a_boolean_mask(profiled: Profiled) -> None:
    x = torch.randn(64)
    mask = x > 0

    def step() -> None:
        x[mask]  # here

    message = message_of(profiled(step).assert_no_op, "aten::nonzero")

    tells(message, line_of(step), "aten::index", hint="nonzero")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_case_71_a_graph_break(profiled: Profiled) -> None:
    def compiled(x: Any) -> Any:
        y = x.sin() * 2
        torch._dynamo.graph_break()
        return y.cos() + 1

    function = torch.compile(compiled, backend="aot_eager")
    x = torch.randn(64)
    line = compiled.__code__.co_firstlineno + 2

    message = message_of(profiled(lambda: function(x)).assert_op_count, "Torch-Compiled Region*", 1)

    tells(message, "def compiled", f"a graph break at line {line}", hint="graph_break")


def test_case_73_many_small_ops(profiled: Profiled) -> None:
    x = torch.ones(8, 8)

    def step() -> None:
        y = x
        for _ in range(200):
            y = y + 1  # here

    message = message_of(profiled(step).assert_op_count, "aten::add", at_most=20)

    tells(message, line_of(step), "200", hint=None)


@pytest.mark.parametrize("foreach", [True, False])
def test_an_unfused_optimizer(profiled: Profiled, foreach: bool) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    for one in model.parameters():
        one.grad = torch.ones_like(one)

    def step() -> None:
        optimizer.step()  # here

    message = message_of(profiled(step).assert_no_op, "aten::*lerp_*")

    tells(message, line_of(step), "AdamW", hint="optimizer")


def test_a_fused_optimizer(profiled: Profiled) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for one in model.parameters():
        one.grad = torch.ones_like(one)

    def step() -> None:
        optimizer.step()  # here

    message = message_of(profiled(step).assert_no_op, "aten::_fused_adamw_")

    tells(message, line_of(step), "aten::_fused_adamw_", hint=None)


def test_what_an_op_does_is_explained_where_the_op_itself_is_forbidden(profiled: Profiled) -> None:
    profile = profiled(lambda: (X.t().contiguous(), X.half(), X[X > 0]))

    for forbidden, hint in (("aten::contiguous", "contiguous"), ("aten::to", "upcast"), ("aten::index", "nonzero")):
        tells(message_of(profile.assert_no_op, forbidden), forbidden, hint=hint)


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: x.to(torch.uint8),
        lambda x: x.to(dtype=torch.float16),
        lambda x: x.to("cpu", torch.bool),
        lambda x: x.to(torch.ones(1, dtype=torch.float64)),
        lambda x: x.byte(),
    ],
)
def test_casts(profiled: Profiled, cast: Callable[[Any], Any]) -> None:
    tells(message_of(profiled(cast, X).assert_no_op, "aten::_to_copy"), "a cast of float32 to", hint="upcast")


@pytest.mark.parametrize(
    "no_cast",
    [
        lambda x: x.to(torch.float32, copy=True),
        lambda x: x.to(x, copy=True),
        lambda x: x[None, None].to(memory_format=torch.channels_last),
    ],
)
def test_no_casts(profiled: Profiled, no_cast: Callable[[Any], Any]) -> None:
    x = torch.ones(3, 4)
    tells(message_of(profiled(no_cast, x).assert_no_op, "aten::_to_copy"), "aten::_to_copy", hint=None)


def test_the_backward_pass_of_what_is_in_place_already_gets_no_hint(profiled: Profiled) -> None:
    w = torch.ones(4, 4, requires_grad=True)

    def step() -> None:
        scores = X @ w
        scores.masked_fill_(torch.eye(4, dtype=torch.bool), 0.0)
        scores.sum().backward()

    message = message_of(profiled(step).assert_no_op, "aten::masked_fill")

    tells(message, "MaskedFillBackward0", hint=None)


def test_a_mask_that_enlarges_gets_no_hint(profiled: Profiled) -> None:
    x, mask = torch.ones(1, 4, 8), torch.ones(3, 1, 8, dtype=torch.bool)

    tells(message_of(profiled(lambda: x.masked_fill(mask, 0.0)).assert_no_op, "aten::masked_fill"), "3", hint=None)


def test_a_closure_and_the_steps_of_a_fused_optimizer_get_no_hint(profiled: Profiled) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    sgd = torch.optim.SGD(model.parameters())
    for one in model.parameters():
        one.grad = torch.ones_like(one)

    def closure() -> Any:
        return model(X).relu().sum()

    fused = profiled.configure(name="fused")(optimizer.step)
    closed = profiled.configure(name="closed")(lambda: sgd.step(closure))

    tells(message_of(fused.assert_no_op, "aten::_foreach_add_"), "aten::_foreach_add_", hint=None)
    tells(message_of(closed.assert_no_op, "aten::relu"), "aten::relu", hint=None)


@pytest.mark.parametrize(
    "mask",
    [
        lambda: torch.ones(4, 4).tril(),
        lambda: X.new_ones(4, 4).tril(),
        lambda: torch.empty(4, 4).fill_(float("-inf")).triu_(1),
    ],
)
def test_masks(profiled: Profiled, mask: Callable[[], Any]) -> None:
    tells(message_of(profiled(mask).assert_no_op, "aten::tri*"), "in <lambda>", hint="mask")


def test_a_triangle_of_data_is_no_mask(profiled: Profiled) -> None:
    def step() -> Any:
        total = torch.zeros(4, 4)
        return total + X.tril()

    tells(message_of(profiled(step).assert_no_op, "aten::tril"), "in step", hint=None)
