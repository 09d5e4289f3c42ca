"""Live on the CPU: the line of Python of every op, and one word where there is none."""

from __future__ import annotations

import functools
import gc
import linecache
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from builders import run_pytest
from explaining import line_of, message_of, tells

from pytest_kernelprof import Profile, Profiled
from pytest_kernelprof.events import BACKWARD_NODE
from pytest_kernelprof.sites import Place

pytest.importorskip("torch", reason="torch is not installed")
import torch
from torch import nn

F = torch.nn.functional

X = torch.linspace(-1, 1, 16).reshape(4, 4)
MASK = torch.ones(4, 4, dtype=torch.bool).triu(1)

Step = Callable[..., torch.Tensor]


def explained_ops(profile: Profile) -> list[tuple[str, Place | None]]:
    """Return (chain, place) of each op of the first step; an op may have none."""
    assert profile._judge._explain is not None
    explanation = profile._judge._explain()
    assert not explanation.why_not
    found: list[tuple[str, Place | None]] = []
    for event in profile.steps[0].ops.seen:
        names = [*(op.name for op in event.chain), event.name]
        found.append((" > ".join(names), explanation.places[event]))
    return found


def places_of(profile: Profile) -> list[tuple[str, Place]]:
    """Return (chain, place) of each op of the first step, where each has one."""
    found = []
    for chain, place in explained_ops(profile):
        assert place is not None, chain
        found.append((chain, place))
    return found


def lines_of(profile: Profile, function: Callable[..., object]) -> dict[int, list[str]]:
    """Return by line of a function, counted from its ``def``, the outermost ops that it called."""
    start = function.__code__.co_firstlineno
    found: dict[int, list[str]] = {}
    for chain, place in places_of(profile):
        if " > " not in chain:
            found.setdefault(place.site.line - start, []).append(chain.removeprefix("aten::"))
        assert place.site.file == __file__
    return found


# Lines are exact


def test_every_op_of_a_function(profiled: Profiled) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = y @ y.transpose(0, 1)
        z = z.masked_fill(MASK, 0.0)

        return torch.softmax(z, -1).sum()

    profile = profiled(step, X)

    assert lines_of(profile, step) == {
        1: ["add"],
        2: ["transpose", "matmul"],
        3: ["masked_fill"],
        5: ["softmax", "sum"],
    }


def test_calls_inside_others_have_the_line_of_the_innermost_function(profiled: Profiled) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    def step(x: torch.Tensor) -> torch.Tensor:
        return inner(inner(x)).cos()

    profile = profiled(step, X)

    places = [(place.site.function, place.site.call) for _, place in places_of(profile)]
    assert places == [("inner", "exp"), ("inner", "exp"), ("step", "cos")]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.proj(x))  # here

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp()  # scores


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)  # head


def test_nested_modules(profiled: Profiled) -> None:
    with torch.no_grad():
        profile = profiled(Model(), X)

    outermost = [(chain, place.site) for chain, place in places_of(profile) if " > " not in chain]
    forward = line_of(Block.forward).partition(" ")[0].rpartition(":")[2]
    scores = line_of(Block.scores, "# scores").partition(" ")[0].rpartition(":")[2]
    head = line_of(Model.forward, "# head").partition(" ")[0].rpartition(":")[2]
    assert [(chain, str(site.line), site.function, site.module) for chain, site in outermost] == [
        ("aten::linear", forward, "forward", "Model.layers.0.proj"),
        ("aten::exp", scores, "scores", "Model.layers.0"),
        ("aten::linear", forward, "forward", "Model.layers.1.proj"),
        ("aten::exp", scores, "scores", "Model.layers.1"),
        ("aten::relu", head, "forward", "Model.head.0"),
        ("aten::linear", head, "forward", "Model.head.1"),
    ]
    assert outermost[0][1].inputs == ("float32[4, 4]", "float32[4, 4]", "None")


def test_a_method_that_is_called_twice(profiled: Profiled) -> None:
    block = Block()

    def step() -> torch.Tensor:
        a = block.scores(X)
        return a + block.scores(a)

    profile = profiled(step)

    assert [(place.site.function, place.site.call) for _, place in places_of(profile)][:2] == [("scores", "exp")] * 2
    message = message_of(profile.assert_no_op, "aten::exp")
    tells(message, "2  ", line_of(Block.scores, "# scores"), hint=None)


def test_decorated_functions(profiled: Profiled) -> None:
    def logged(function: Step) -> Step:
        @functools.wraps(function)
        def wrapper(*args: torch.Tensor) -> torch.Tensor:
            return function(*args).neg()  # wrapper

        return wrapper

    @torch.no_grad()
    @logged
    def step(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    profile = profiled(step, X)

    inside = step.__wrapped__.__wrapped__.__code__.co_firstlineno
    assert [(chain, place.site.function) for chain, place in places_of(profile)] == [
        ("aten::exp", "step"),
        ("aten::neg", "wrapper"),
    ]
    exp = places_of(profile)[0][1].site
    assert exp.line - inside == 3  # Python counts from the first decorator.
    assert exp.source == "return x.exp()"


def test_a_lambda(profiled: Profiled) -> None:
    profile = profiled(lambda: X.exp())

    message = message_of(profile.assert_no_op, "aten::exp")

    tells(message, "in <lambda>", "profile = profiled(lambda: X.exp())", hint=None)


def test_code_of_a_notebook(profiled: Profiled) -> None:
    cell = "def step():\n    y = x.exp()\n    return y.cos()\n"
    name = "<ipython-input-3-0123456789ab>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)  # As IPython does.
    variables = {"x": X}
    exec(compile(cell, name, "exec"), variables)

    message = message_of(profiled(variables["step"]).assert_no_op, "aten::cos")

    tells(message, f"{name}:3 in step", f"{name}:3 in step: return y.cos()", hint=None)


def test_code_without_a_source(profiled: Profiled) -> None:
    variables = {"x": X}
    exec("def step():\n    return x.exp()\n", variables)

    message = message_of(profiled(variables["step"]).assert_no_op, "aten::exp")

    tells(message, "<string>:2 in step", hint=None)


def test_functions_and_modules_of_torch_have_the_line_that_profiles(profiled: Profiled) -> None:
    profile = profiled(torch.relu, X)  # here

    message = message_of(profile.assert_no_op, "aten::relu")

    tells(message, "profile = profiled(torch.relu, X)  # here", "given float32[4, 4]", hint=None)
    again = profiled.configure(name="module")(nn.Sequential(nn.ReLU()), X)
    tells(message_of(again.assert_no_op, "aten::relu"), "in Sequential.0, given", hint=None)


@pytest.mark.parametrize("make", [nn.MultiheadAttention, nn.TransformerEncoderLayer])
def test_modules_keep_their_fused_path(profiled: Profiled, make: type[nn.Module]) -> None:
    module = make(8, 2, batch_first=True).eval()
    x = torch.ones(2, 4, 8)
    arguments = (x, x, x) if make is nn.MultiheadAttention else (x,)

    def step() -> None:
        module(*arguments)  # here

    with torch.no_grad():
        profile = profiled(step)

    tells(message_of(profile.assert_no_op, "aten::_native_multi_head_attention"), line_of(step), hint=None)


def test_what_operators_indexing_and_attributes_call(profiled: Profiled) -> None:
    def step() -> list[torch.Tensor]:
        a = X[0]
        b = a * 2
        c = b.reshape(2, 2).mT
        return [one for one in c]  # noqa: C416 - iterating calls unbind

    assert lines_of(profiled(step), step) == {1: ["select"], 2: ["mul"], 3: ["reshape", "mT"], 4: ["unbind"]}


# Backward passes


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        doubled = x.exp()
        return doubled * gradient


def test_backward_ops_have_the_line_of_their_forward_op(profiled: Profiled) -> None:
    w = torch.ones(4, 4, requires_grad=True)

    def step() -> None:
        y = w @ X
        z = y.sin()
        z.sum().backward()

    profile = profiled(step)

    start = step.__code__.co_firstlineno
    nodes = {
        chain.rpartition(" ")[2]: (place.site.line - start, place.backward and place.backward.line - start)
        for chain, place in places_of(profile)
        if chain.count(" > ") == 1 and chain.startswith(BACKWARD_NODE)
    }
    assert nodes == {
        "SumBackward0": (3, 3),
        "SinBackward0": (2, 3),
        "MmBackward0": (1, 3),
        "torch::autograd::AccumulateGrad": (3, None),
    }
    message = message_of(profile.assert_no_op, "aten::mm", launched_by="MmBackward0")
    tells(
        message,
        f"test_lines.py:{start + 1} in step",
        f"its backward pass began at tests/test_lines.py:{start + 3}",
        hint=None,
    )


@pytest.mark.parametrize("how", ["backward", "autograd.backward", "autograd.grad"])
def test_what_the_user_wrote_for_the_backward_pass_has_lines_of_its_own(profiled: Profiled, how: str) -> None:
    w = torch.ones(4, 4, requires_grad=True)

    def step() -> None:
        y = Square.apply(w)
        if how == "backward":
            y.sum().backward()
        elif how == "autograd.backward":
            torch.autograd.backward(y.sum())
        else:
            torch.autograd.grad(y.sum(), w)

    profile = profiled(step)

    start = Square.backward.__code__.co_firstlineno
    own = [
        (chain.rpartition(" ")[2], place.site.line - start)
        for chain, place in explained_ops(profile)
        if place is not None and place.site.function == "backward" and "SquareBackward > aten" in chain
    ]
    assert own == [("aten::exp", 3), ("aten::mul", 4)]


def test_what_a_checkpoint_calculates_again_has_its_own_line(profiled: Profiled) -> None:
    from torch.utils.checkpoint import checkpoint

    w = torch.ones(4, 4, requires_grad=True)

    def part(x: torch.Tensor) -> torch.Tensor:
        return x.sin()  # here

    def step() -> None:
        checkpoint(part, w, use_reentrant=False).sum().backward()

    profile = profiled(step)

    places = [place for chain, place in explained_ops(profile) if chain.endswith("aten::sin")]
    lines = {None if place is None else place.site.line for place in places}
    assert lines == {int(line_of(part).partition(" ")[0].rpartition(":")[2])}


# Compiled functions


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_of_a_compiled_function_the_function_is_known(profiled: Profiled) -> None:
    def compiled(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * 2
        return y.cos() + 1

    function = torch.compile(compiled, backend="aot_eager")

    def step() -> torch.Tensor:
        return function(X).neg()

    profile = profiled(step)

    sites = {chain.rpartition("::")[2]: place.site for chain, place in explained_ops(profile) if place}
    assert (sites["sin"].function, sites["sin"].line) == ("compiled", compiled.__code__.co_firstlineno)
    assert (sites["neg"].function, sites["neg"].line) == ("step", step.__code__.co_firstlineno)
    assert not sites["sin"].exact
    message = message_of(profile.assert_no_op, "aten::sin")
    tells(message, f"test_lines.py:{sites['sin'].line} def compiled", "the function is known, no line", hint=None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_graph_break_is_named(profiled: Profiled) -> None:
    def compiled(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    function = torch.compile(compiled, backend="aot_eager")
    line = compiled.__code__.co_firstlineno + 2

    message = message_of(profiled(lambda: function(X)).assert_op_count, "Torch-Compiled Region*", 1)

    tells(
        message,
        "def compiled",
        f"test_lines.py:{line}",
        f"a graph break at line {line} cuts compiled",
        hint="graph_break",
    )


# What held when it was profiled holds again


def test_modes_and_setup_hold_in_the_call_that_explains(profiled: Profiled) -> None:
    seen = []
    made = []

    def step(x: torch.Tensor) -> torch.Tensor:
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()))
        return x.exp()

    def setup() -> torch.Tensor:
        made.append(X.clone())
        return made[-1]

    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        profile = profiled.configure(setup=setup)(step)
    before = len(seen), len(made)

    message_of(profile.assert_no_op, "aten::exp")

    assert (len(seen), len(made)) == (before[0] + 2, before[1] + 2)  # The first fills autocast's cache.
    assert set(seen) == {(False, True, False)}


def test_the_pinned_backend_of_attention_holds_again(profiled: Profiled) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 1, 8, 4)
    with sdpa_kernel(SDPBackend.MATH):
        profile = profiled(F.scaled_dot_product_attention, q, q, q)

    message = message_of(profile.assert_no_op, "aten::_scaled_dot_product_attention_math")

    tells(
        message,
        "profile = profiled(F.scaled_dot_product_attention, q, q, q)",
        hint="math_sdpa",
    )


def test_the_order_of_attentions_that_torch_settles_in_its_first_call_holds_again(profiled: Profiled) -> None:
    """On a Hopper GPU torch puts cuDNN first, for good, in the first call of SDPA of a process."""
    order = torch._C._get_sdp_priority_order()
    settled = [*order[1:], order[0]]
    seen: list[list[int]] = []

    def step() -> torch.Tensor:
        torch._C._set_sdp_priority_order(settled if not seen else torch._C._get_sdp_priority_order())
        seen.append(torch._C._get_sdp_priority_order())
        return X.exp()

    try:
        message_of(profiled(step).assert_no_op, "aten::exp")
    finally:
        torch._C._set_sdp_priority_order(order)

    assert seen == [settled] * 7


def test_the_call_is_made_for_failures_alone_and_once(profiled: Profiled) -> None:
    calls = []

    def step() -> torch.Tensor:
        calls.append(1)
        return X.exp()

    profile = profiled(step)
    profile.assert_op_count("aten::exp", 1)
    assert len(calls) == 6

    first = message_of(profile.assert_no_op, "aten::exp")
    second = message_of(profile.assert_op_count, "aten::exp", 2)
    with pytest.raises(AssertionError) as both, profile.checks():
        profile.assert_no_op("aten::exp")
        profile.assert_op_count("aten::exp", 2)

    assert len(calls) == 7
    assert first.count("function was called once more") == second.count("function was called once more") == 1
    assert str(both.value).count("function was called once more") == 1
    assert str(both.value).count("test_lines.py:") == 4


# One word why not


@pytest.mark.usefixtures("needs_all_threads")
def test_a_thread_that_the_function_started_is_not_watched(profiled: Profiled) -> None:
    def step() -> None:
        thread = threading.Thread(target=X.exp)
        thread.start()
        thread.join()

    message = message_of(profiled(step).assert_no_op, "aten::exp")

    assert "\nno line of Python: bypassed\nfunction was called once more" in message


def test_within_autocast_the_function_is_called_twice(profiled: Profiled) -> None:
    linear = nn.Linear(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        profile = profiled(lambda: linear(X))

    message = message_of(profile.assert_no_op, "aten::linear")

    tells(message, "in <lambda>", "function was called twice more", hint="upcast")


def test_the_default_device_holds_again(profiled: Profiled) -> None:
    with torch.device("meta"):
        if torch.get_default_device().type != "meta":
            pytest.skip("this torch tells the default device that was set, not that of a with block")
        profile = profiled(lambda: torch.ones(3).exp())

    tells(message_of(profile.assert_no_op, "aten::exp"), "in <lambda>", hint=None)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_what_torch_compiles_of_its_own_has_the_line_that_profiles(profiled: Profiled) -> None:
    compiled = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), backend="aot_eager")
    profile = profiled(compiled, X)  # here

    def check() -> None:
        profile.assert_no_op("aten::tanh")

    message = message_of(check)

    tells(message, "profile = profiled(compiled, X)  # here", hint=None)
    assert "def check" not in message


def test_a_block_has_its_chain_alone(profiled: Profiled) -> None:
    with profiled.block() as handle:
        X.exp()

    message = message_of(handle.profile.assert_no_op, "aten::exp")

    assert "\nno line of Python: block" in message
    assert "once more" not in message


def failing_after(calls: list[int], what: Callable[[], object]) -> Step:
    def step() -> torch.Tensor:
        calls.append(1)
        if len(calls) > 6:
            what()
        return X.exp()

    return step


@pytest.mark.parametrize(
    ("what", "word"),
    [
        (lambda: {"y": 0}["x"], "raised KeyError"),
        (lambda: pytest.skip("not now"), "raised Skipped"),
        (lambda: pytest.fail("now"), "raised Failed"),
        (lambda: exit(3), "raised SystemExit"),
        (lambda: X * 2, "differs"),
    ],
)
def test_a_call_that_explains_nothing_changes_nothing(
    profiled: Profiled, what: Callable[[], object], word: str
) -> None:
    profile = profiled(failing_after([], what))
    told = []
    for _ in range(2):
        told.append(message_of(profile.assert_no_op, "aten::exp"))

    assert f"\nno line of Python: {word}" in told[0]
    assert told[0] == told[1]
    assert told[0].startswith("1 op a step, expected none (named 'aten::exp')\n")


def test_who_wants_to_stop_is_let(profiled: Profiled) -> None:
    def stop() -> NoReturn:
        raise KeyboardInterrupt

    profile = profiled(failing_after([], stop))

    with pytest.raises(KeyboardInterrupt):
        profile.assert_no_op("aten::exp")
    assert not torch.autograd.profiler._is_profiler_enabled


def test_within_another_profiler_the_line_is_not_looked_for(profiled: Profiled) -> None:
    profile = profiled(lambda: X.exp())

    with torch.profiler.profile():
        message = message_of(profile.assert_no_op, "aten::exp")

    assert "\nno line of Python: profiler" in message
    assert "\nno line of Python: profiler" in message_of(profile.assert_no_op, "aten::exp")  # It is not asked again.


def test_a_trace_that_cannot_be_read_explains_nothing(profiled: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_kernelprof import profiled as module

    def broken(*_: object, **__: object) -> NoReturn:
        raise LookupError("no such row")

    profile = profiled(lambda: X.exp())
    monkeypatch.setattr(module, "_seen", broken)

    message = message_of(profile.assert_no_op, "aten::exp")

    assert "\nno line of Python: unreadable\nfunction was called once more" in message


def test_an_op_that_nobody_called_through_torch_is_bypassed(profiled: Profiled) -> None:
    w = torch.ones(4, 4, requires_grad=True)
    profile = profiled(lambda: Square.apply(w))

    message = message_of(profile.assert_no_op, "Square")

    assert "\nno line of Python: bypassed" in message


def test_nothing_is_kept_alive(profiled: Profiled) -> None:
    class Big:
        tensor: torch.Tensor

    def step() -> Big:
        big = Big()
        kept.append(weakref.ref(big))
        big.tensor = X.exp()
        kept.append(weakref.ref(big.tensor))
        return big

    kept: list[weakref.ref[Any]] = []
    profile = profiled(step)
    message_of(profile.assert_no_op, "aten::exp")

    gc.collect()
    alive = [one for one in kept if one() is not None]
    assert len(alive) == 2  # What the last measured call returned, until the test ends.


def test_the_modes_of_torch_are_as_they_were(profiled: Profiled) -> None:
    run, ask = torch.autograd._engine_run_backward, torch.overrides.has_torch_function
    profile = profiled(failing_after([], lambda: {"y": 0}["x"]))
    message_of(profile.assert_no_op, "aten::exp")
    another = profiled.configure(name="another")(lambda: X.exp())
    message_of(another.assert_no_op, "aten::exp")

    assert torch.autograd._engine_run_backward is run
    assert torch._C._len_torch_function_stack() == 0
    assert torch.overrides.has_torch_function is ask


# Widths


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_column_has_room(pytester: pytest.Pytester, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    pytester.makepyfile(
        test_attention="""
        import torch

        def mask_the_scores_of_attention(scores, mask):
            return scores.masked_fill(mask, 0.0)

        def test_it(profiled):
            scores, mask = torch.ones(4, 4), torch.ones(4, 4, dtype=torch.bool)
            profiled(mask_the_scores_of_attention, scores, mask).assert_no_op("aten::copy_")
        """
    )
    result = run_pytest(pytester, "--kernelprof")

    lines = [line for line in result.outlines if line.startswith("E ") and " trace: " not in line]
    assert max(map(len, lines)) <= max(columns, 80)  # The headline is not cut.
    rows = [line for line in lines if "test_attention.py:4" in line]
    assert rows  # The narrowest has room for it under the table alone.
    assert columns == 60 or any("aten::copy_" in line for line in rows)


# Options


ONE = """
import torch
calls = []
def step():
    calls.append(1)
    return torch.ones(4).exp()
def test_it(profiled):
    profile = profiled(step)
    assert len(calls) == {after_profile}
    print(profile)
    profile.assert_op_count("aten::exp", 1)
    assert len(calls) == {after_profile}
    try:
        profile.assert_no_op("aten::exp")
    except AssertionError as error:
        message = str(error)
    assert len(calls) == {after_failure}
    assert {word!r} in message
"""


@pytest.mark.parametrize(
    ("option", "numbers"),
    [
        ([], {"after_profile": 6, "after_failure": 7, "word": "function was called once more"}),
        (["--kernelprof-explain=on-failure"], {"after_profile": 6, "after_failure": 7, "word": "in step"}),
        (["--kernelprof-explain=always"], {"after_profile": 7, "after_failure": 7, "word": "in step"}),
        (["--kernelprof-explain=never"], {"after_profile": 6, "after_failure": 6, "word": "no line of Python: never"}),
        (["-o", "kernelprof_explain=never"], {"after_profile": 6, "after_failure": 6, "word": "never"}),
    ],
)
def test_when_a_function_is_called_once_more(
    pytester: pytest.Pytester, option: list[str], numbers: dict[str, Any]
) -> None:
    pytester.makepyfile(ONE.format(**numbers))

    run_pytest(pytester, "--kernelprof", *option).assert_outcomes(passed=1)


def test_other_values_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")

    result = run_pytest(pytester, "--kernelprof-explain=sometimes")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'sometimes' is not accepted; accepted: on-failure, always or never*"])


WIDER = """
import pytest, torch
@pytest.fixture(scope="module")
def profile(module_profiled):
    return module_profiled(lambda: torch.ones(4).exp())
def test_first(profile):
    profile.assert_no_op("aten::exp")
kept = []
def test_keeps(profiled):
    kept.append(profiled(lambda: torch.ones(4).exp()))
def test_late():
    kept[0].assert_no_op("aten::exp")
"""


def test_profiles_of_wider_fixtures_can_be_explained_and_those_of_ended_tests_cannot(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WIDER)

    result = run_pytest(pytester, "--kernelprof")

    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["E*test_profiles*.py:4*", "E*function was called once more"])
    result.stdout.fnmatch_lines(["E*no line of Python: ended"])
    always = run_pytest(pytester, "--kernelprof", "--kernelprof-explain=always")
    assert "no line of Python" not in always.stdout.str()


def test_a_replay_says_so_in_a_word(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch
        def step():
            return torch.ones(4).exp()
        def test_it(profiled):
            profiled(step).assert_no_op("aten::exp")
        """
    )
    run_pytest(pytester, "--kernelprof-record")

    result = run_pytest(pytester, "--kernelprof-replay=always")

    result.stdout.fnmatch_lines(["E*no line of Python: replayed", "E*replayed: recorded on *"])


HOOKS = """
from pytest_kernelprof import Hint
def pytest_kernelprof_hints(event, profile):
    if event.name == "aten::exp":
        assert profile.ops.count == 2
        {answer}
"""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ('return Hint("exp is slow", "use exp2", "our wiki")', "hint: exp is slow; use exp2 (our wiki)"),
        ('return [Hint("a", "b"), Hint("c", "d")]', "hint: c; d"),
        ('raise KeyError("oops")', "hint: the hook pytest_kernelprof_hints (*) raised KeyError: 'oops'; no hint of*"),
        ('assert False, "oops"', "hint: the hook pytest_kernelprof_hints (*) raised AssertionError: oops*"),
        ('__import__("pytest").skip("oops")', "hint: the hook pytest_kernelprof_hints (*) raised Skipped: oops*"),
        ("assert profile.op_count == 17", "hint: the hook pytest_kernelprof_hints (*) raised AssertionError: *"),
        ('profile.assert_no_op("*")', "hint: the hook pytest_kernelprof_hints (*) raised AssertionError: *"),
        ('return "text"', "hint: the hook pytest_kernelprof_hints (*) returned 'text'; accepted: a Hint, a list of*"),
    ],
)
def test_hints_of_others(pytester: pytest.Pytester, answer: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(HOOKS.format(answer=answer))
    pytester.makepyfile(
        """
        import torch
        x = torch.ones(4)
        def step():
            return x.exp().cos()
        def test_it(profiled):
            profile = profiled(step)
            profile.assert_op_count("aten::exp", 1)
            profile.assert_no_op("aten::exp")
        """
    )

    result = run_pytest(pytester, "--kernelprof")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*1 op a step, expected none (named 'aten::exp')", f"E       {told}"])
