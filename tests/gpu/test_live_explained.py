"""Live on a GPU: the cases of public reports fail with the op, the line of Python and the cure."""

from __future__ import annotations

from typing import Any

import pytest
from explaining import line_of, message_of, tells

from pytest_kernelprof import Profiled

try:
    import triton.language as tl
except ImportError:
    tl = None

torch = pytest.importorskip("torch", reason="torch is not installed")
F = torch.nn.functional
pytestmark = pytest.mark.kernelprof(device="cuda")


@pytest.fixture
def cuda() -> Any:
    return torch.device("cuda")


def test_58_sdpa_falls_to_math(profiled: Profiled, cuda: Any) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(4, 16, 512, 64, device=cuda, dtype=torch.bfloat16)

    def step() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            F.scaled_dot_product_attention(q, q, q, is_causal=True)  # here

    message = message_of(profiled(step).assert_kernel_count, at_most=2)

    tells(message, line_of(step), "scaled_dot_product_attention", "runtime disabled", hint="math_sdpa")


def test_58_the_reason_is_torchs(profiled: Profiled, cuda: Any) -> None:
    q = torch.randn(4, 16, 512, 512, device=cuda)  # float32, and wider than flash takes.

    def step() -> None:
        F.scaled_dot_product_attention(q, q, q, is_causal=True)  # here

    message = message_of(profiled(step).assert_sdpa_backend, "flash")

    tells(message, line_of(step), "flash: ", hint="sdpa_backend")


def test_59_another_backend_by_default(profiled: Profiled, cuda: Any) -> None:
    q = torch.randn(4, 16, 1024, 128, device=cuda, dtype=torch.bfloat16)

    def step() -> None:
        F.scaled_dot_product_attention(q, q, q, is_causal=True)  # here

    message = message_of(profiled(step).assert_no_kernel, "*")

    tells(message, line_of(step), "scaled_dot_product_attention", hint=None)


def test_61_an_up_cast_under_autocast(profiled: Profiled, cuda: Any) -> None:
    x = torch.randn(8192, 1024, device=cuda, dtype=torch.bfloat16)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            x.softmax(-1)  # here

    message = message_of(profiled(step).assert_no_copy)

    tells(message, line_of(step), "aten::softmax", hint="upcast")


def test_62_clip_grad_norm_waits(profiled: Profiled, cuda: Any) -> None:
    parameters = [torch.nn.Parameter(torch.randn(64, 64, device=cuda)) for _ in range(10)]
    for one in parameters:
        one.grad = torch.randn_like(one)

    def step() -> None:
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)  # here

    message = message_of(profiled(step).assert_no_host_sync)

    tells(message, line_of(step), "aten::_local_scalar_dense", hint="item")


def test_64_a_boolean_mask_waits(profiled: Profiled, cuda: Any) -> None:
    x = torch.randn(1 << 20, device=cuda)
    mask = x > 0

    def step() -> None:
        x[mask]  # here

    profile = profiled(step)

    tells(message_of(profile.assert_no_host_sync), line_of(step), "aten::nonzero", hint="nonzero")
    tells(message_of(profile.assert_no_memcpy, kind="DtoH"), line_of(step), "aten::nonzero", hint="nonzero")


def test_65_pageable_copies(profiled: Profiled, cuda: Any) -> None:
    host, device = torch.randn(1_000_000), torch.randn(1_000_000, device=cuda)

    def step() -> None:
        host.to("cuda", non_blocking=True)  # here
        device.to("cpu", dtype=torch.float16, non_blocking=True)  # there

    message = message_of(profiled(step).assert_no_memcpy, pageable=True)

    tells(message, line_of(step), "aten::copy_", hint="pageable")


def test_a_blocking_copy_from_pinned_memory(profiled: Profiled, cuda: Any) -> None:
    host = torch.randn(1_000_000).pin_memory()

    def step() -> None:
        host.to("cuda")  # here

    message = message_of(profiled(step).assert_no_host_sync)

    tells(message, line_of(step), "cudaStreamSynchronize", hint="blocking_copy")


def test_67_conversions_of_the_layout(profiled: Profiled, cuda: Any) -> None:
    conv = torch.nn.Conv2d(64, 64, 3, padding=1).to(cuda).half()
    x = torch.randn(16, 64, 56, 56, device=cuda, dtype=torch.half)

    def step() -> None:
        conv(x)  # here

    message = message_of(profiled(step).assert_no_copy)

    tells(message, line_of(step), "aten::cudnn_convolution", "in Conv2d", hint="channels_last")


def test_68_rows_that_are_not_aligned(profiled: Profiled, cuda: Any) -> None:
    linear = torch.nn.Linear(588, 1152).to(cuda).bfloat16()
    x = torch.randn(9477, 588, device=cuda, dtype=torch.bfloat16)

    def step() -> None:
        linear(x)  # here

    message = message_of(profiled(step).assert_no_kernel, "*align2*")

    tells(message, line_of(step), "588 is no multiple of 8", hint="alignment")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_71_a_graph_break(profiled: Profiled, cuda: Any) -> None:
    def compiled(x: Any) -> Any:
        y = x.sin() * 2
        torch._dynamo.graph_break()
        return y.cos() + 1

    function = torch.compile(compiled)
    x = torch.randn(1 << 20, device=cuda)

    message = message_of(profiled(lambda: function(x)).assert_kernel_count, 1)

    first = compiled.__code__.co_firstlineno
    tells(message, f"test_live_explained.py:{first} def compiled", f"break at line {first + 2}", hint="graph_break")


def test_73_many_small_ops(profiled: Profiled, cuda: Any) -> None:
    x = torch.ones(64, 64, device=cuda)

    def step() -> None:
        y = x
        for _ in range(200):
            y = y + 1  # here

    message = message_of(profiled(step).assert_kernel_count, at_most=20)

    tells(message, line_of(step), "aten::add", hint=None)


def test_float32_matmuls_without_tf32(profiled: Profiled, cuda: Any) -> None:
    a = torch.randn(1024, 1024, device=cuda)

    def step() -> None:
        a @ a  # here

    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("highest")
        profile = profiled(step)
    finally:
        torch.set_float32_matmul_precision(before)

    tells(message_of(profile.assert_tensor_cores), line_of(step), "aten::mm", hint="tf32")


def test_an_unfused_optimizer(profiled: Profiled, cuda: Any) -> None:
    model = torch.nn.Linear(64, 64, device=cuda)
    optimizer = torch.optim.AdamW(model.parameters())
    for one in model.parameters():
        one.grad = torch.ones_like(one)

    def step() -> None:
        optimizer.step()  # here

    message = message_of(profiled(step).assert_kernel_count, 1)

    tells(message, line_of(step), "AdamW", hint="optimizer")


def test_memory_from_the_driver(profiled: Profiled, cuda: Any) -> None:
    def step() -> None:
        torch.cuda.empty_cache()
        torch.empty(64 << 20, device=cuda)  # here

    message = message_of(profiled(step).assert_no_device_allocation)

    tells(message, line_of(step), "aten::empty", hint="driver_allocations")


def test_backward_passes_on_the_gpus_own_thread(profiled: Profiled, cuda: Any) -> None:
    class Square(torch.autograd.Function):  # type: ignore[name-defined]  # torch is a variable here
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x.masked_fill(x > 0, 0.0) * gradient  # inside

    w = torch.randn(256, 256, device=cuda, requires_grad=True)

    def step() -> None:
        y = Square.apply(w)
        z = y.exp()  # here
        z.sum().backward()  # began

    profile = profiled(step)

    message = message_of(profile.assert_no_kernel, "*", launched_by="ExpBackward0")
    tells(message, line_of(step), "its backward pass began at", line_of(step, "# began"), hint=None)
    tells(message_of(profile.assert_no_memcpy), line_of(Square.backward, "# inside"), hint="masked_fill")


def test_a_failure_leaves_no_memory_behind(profiled: Profiled, cuda: Any) -> None:
    x = torch.randn(1 << 20, device=cuda)
    profile = profiled(lambda: x * 2 + 1)
    message_of(profile.assert_kernel_count, 1)  # What is loaded once is loaded now.
    another = profiled.configure(name="another")(lambda: x * 2 + 1)
    before = torch.cuda.memory_allocated()

    message_of(another.assert_kernel_count, 1)

    assert torch.cuda.memory_allocated() == before


@pytest.mark.skipif(tl is None, reason="triton is not installed")
def test_a_triton_kernel_called_directly_names_its_function(profiled: Profiled, cuda: Any) -> None:
    import triton

    x = torch.zeros(1024, device=cuda)
    kernel = triton.jit(_fill)

    def step() -> None:
        kernel[(1,)](x)

    message = message_of(profiled(step).assert_no_kernel, "*")

    tells(message, f"test_live_explained.py:{step.__code__.co_firstlineno} def step", hint=None)


def _fill(out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Triton compiles annotations too
    tl.store(out + tl.arange(0, 1024), 1.0)


def test_the_replay_of_a_graph_names_its_function(profiled: Profiled, cuda: Any) -> None:
    x = torch.randn(64, 64, device=cuda, dtype=torch.bfloat16)
    for _ in range(3):
        x @ x
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x @ x

    def step() -> None:
        graph.replay()

    message = message_of(profiled(step).assert_no_kernel, "*")

    tells(message, f"test_live_explained.py:{step.__code__.co_firstlineno} def step", hint=None)
