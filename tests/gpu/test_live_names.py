"""Live on a GPU: what the names of kernels say agrees with what was asked of torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from pytest_kernelprof import NotMeasured, Profiled

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.kernelprof(device="cuda>=8.0")


def made(*shape: int, dtype: Any = torch.bfloat16, **options: Any) -> Any:
    return torch.randn(*shape, device="cuda", dtype=dtype, **options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_half_precision_matmuls_run_on_tensor_cores(profiled: Profiled, dtype: Any) -> None:
    profile = profiled(torch.matmul, made(512, 512, dtype=dtype), made(512, 512, dtype=dtype))

    profile.assert_tensor_cores()
    profile.assert_tensor_cores(at_least=1)
    profile.assert_dtypes({"bf16" if dtype is torch.bfloat16 else "fp16"}, role="gemm")
    profile.assert_no_copy()
    assert "tensor cores: 100% of matrix time" in str(profile)


def test_fp32_matmuls_do_not_unless_tf32_is_allowed(profiled: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = made(512, 512, dtype=torch.float32), made(512, 512, dtype=torch.float32)

    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    plain = profiled(torch.matmul, a, b)
    with pytest.raises(AssertionError, match=r"(\d+) of \1 matrix kernels? a step without tensor cores"):
        plain.assert_tensor_cores()
    plain.assert_dtypes({"fp32"}, role="gemm")

    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    fast = profiled.configure(name="tf32")(torch.matmul, a, b)
    fast.assert_tensor_cores()
    fast.assert_dtypes({"tf32"}, role="gemm")


def attend(q: Any, k: Any, v: Any, backend: Any) -> Any:
    with torch.nn.attention.sdpa_kernel(backend):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("flash", "FLASH_ATTENTION"),
        ("efficient", "EFFICIENT_ATTENTION"),
        ("cudnn", "CUDNN_ATTENTION"),
        ("math", "MATH"),
    ],
)
def test_the_pinned_backend_is_the_one_that_is_told(profiled: Profiled, name: str, backend: str) -> None:
    q, k, v = (made(2, 4, 256, 64) for _ in range(3))

    profile = profiled(attend, q, k, v, getattr(torch.nn.attention.SDPBackend, backend))

    profile.assert_sdpa_backend(name)
    for other in {"flash", "efficient", "cudnn", "math", "external"} - {name}:
        with pytest.raises(AssertionError, match=f"attention by {name} a step, expected {other}"):
            profile.assert_sdpa_backend(other)
    if name != "math":
        profile.assert_guess(attention=1)
        profile.assert_tensor_cores()


def test_the_backward_of_flash_is_one_attention_kernel_and_helpers(profiled: Profiled) -> None:
    q, k, v = (made(2, 4, 256, 64, requires_grad=True) for _ in range(3))

    def step() -> None:
        attend(q, k, v, torch.nn.attention.SDPBackend.FLASH_ATTENTION).sum().backward()

    profile = profiled(step)
    attention = profile.kernels.role("attention")

    assert [kernel.decoded.direction for kernel in attention] == ["forward", "backward"]
    profile.assert_sdpa_backend("flash")
    profile.assert_tensor_cores()
    profile.assert_kernel_count(at_least=1, named="*flash_bwd_dot_do_o*", role="reduction")


def test_a_hidden_copy_is_found_whoever_makes_it(profiled: Profiled) -> None:
    x, mask = made(256, 256), torch.ones(256, 256, dtype=torch.bool, device="cuda")

    with pytest.raises(AssertionError, match="1 memory copy a step, expected none"):
        profiled.configure(name="engine")(lambda: x.masked_fill(mask, 0.0)).assert_no_copy()
    with pytest.raises(AssertionError, match="1 copy kernel a step, expected none"):
        profiled.configure(name="cast")(lambda: x.float()).assert_no_copy()
    with pytest.raises(AssertionError, match="1 copy kernel a step, expected none"):
        profiled.configure(name="strided")(lambda: x.t().contiguous()).assert_no_copy()


def test_convolutions_and_norms_have_their_roles(profiled: Profiled) -> None:
    layer = torch.nn.Conv2d(64, 64, 3).to("cuda", torch.float16, memory_format=torch.channels_last)
    x = made(8, 64, 32, 32, dtype=torch.float16).to(memory_format=torch.channels_last)

    with torch.no_grad():
        profile = profiled(layer, x)
        norm = profiled.configure(name="norm")(torch.nn.functional.layer_norm, made(64, 512), (512,))

    profile.assert_kernel_count(1, role="convolution")
    profile.assert_tensor_cores()
    norm.assert_guess(norm=1)


def test_a_kernel_that_nobody_knows_is_not_measured(profiled: Profiled, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    kernel = acme_kernel(tmp_path)
    x, weight = made(256), made(256, 256)

    def step() -> Any:
        kernel[(1,)](x, BLOCK=256)
        return weight @ weight

    profile = profiled(step)

    with pytest.raises(NotMeasured, match=r"a name that does not tell \(_acme_double\)"):
        profile.assert_tensor_cores()
    with pytest.raises(NotMeasured):
        profile.assert_no_copy()
    profile.assert_kernel_count(at_least=1, role="gemm")


ACME = """
import triton
import triton.language as tl


@triton.jit
def _acme_double(x, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(x + place, tl.load(x + place) * 2)
"""


def acme_kernel(folder: Path) -> Any:
    """Return a kernel in Triton, which wants its source in a file."""
    path = folder / "acme.py"
    path.write_text(ACME)
    spec = importlib.util.spec_from_file_location("acme", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module._acme_double
