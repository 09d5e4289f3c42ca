"""Shows guards on a FlashAttention that somebody else has built: it must be what runs, and all that runs."""

from __future__ import annotations

import pytest
from findings import BY_PACKAGE, See

from pytest_kernelprof import Profile

pytestmark = pytest.mark.kernelprof(device="cuda")


def test_k1_one_attention_kernel(prebuilt: Profile, prebuilt_source: str, seen: See) -> None:
    kernels = prebuilt.kernels.role("attention")
    seen(f"{', '.join(str(kernel.decoded.attention_backend) for kernel in kernels)} from {prebuilt_source}")

    prebuilt.assert_kernel_count(1, role="attention")
    prebuilt.assert_sdpa_backend("external")
    prebuilt.assert_tensor_cores()
    prebuilt.assert_dtypes({"bf16"}, role="attention")
    prebuilt.assert_no_memcpy()


def test_k1_and_nothing_else_but_its_own_fill(prebuilt: Profile, seen: See) -> None:
    package = str(prebuilt.kernels.role("attention")[0].decoded.attention_backend)
    seen(f"{prebuilt.kernel_count} kernels: {', '.join(kernel.decoded.role for kernel in prebuilt.kernels)}")
    if package not in BY_PACKAGE:
        pytest.skip(f"{package} was never measured; seen: {prebuilt.kernel_count} kernels")

    prebuilt.assert_kernel(BY_PACKAGE[package]["kernel"], exactly=1)
    prebuilt.assert_guess(attention=1, fill=BY_PACKAGE[package]["fills"], memcpy=0)
    prebuilt.assert_no_memset(ignore_library=True)


def test_the_host_never_waits(prebuilt: Profile) -> None:
    prebuilt.assert_no_host_sync()
