"""What "Attention is all you profile" found, and what was seen here: the tables behind the tests.

The blog post measured an A100-SXM4-80GB with torch 2.13. Ids stand in the names of the tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from shapes import BLOG, Shape

from pytest_kernelprof import Profile

See = Callable[[str], None]
"""Tells what a test saw, for the table at the end."""

BY_ARCHITECTURE: dict[str, dict[str, Any]] = {
    # What differs by compute capability: 8.0 is an A100, as published; 9.0 an H200, as measured with torch 2.11.
    "matmul": {"8.0": "*s16816*", "9.0": "nvjet_sm90_tst_*"},
    "Memsets of cuBLAS": {"8.0": [], "9.0": [4]},
    "matmuls through cuLaunchKernelEx": {"8.0": 0, "9.0": 2},
    "ops in place and naive": {"9.0": (30, 39)},
    "math matmul": {"8.0": "*sgemm*", "9.0": "sm80_xmma_gemm_f32f32_f32f32_f32_*_ffma_*"},
    "math launches": {"9.0": {"cudaLaunchKernel": 18, "cudaLaunchKernelExC": 2}},
    "math slower by": {"8.0": 3, "9.0": 2.3},
    "math peak in score matrices": {"9.0": (5.0, 5.05)},
    "efficient": {"8.0": "fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "9.0": "fmha_cutlassF_bf16_aligned_64x64_rf_sm80"},
    "flash": {"8.0": "255 registers x 128 threads", "9.0": "255 registers x 128 threads"},
    "flash occupancy": {"8.0": 0.125, "9.0": 0.125},
    "flash occupancy reported": {"8.0": 13, "9.0": 13},
    "cudnn": {
        "8.0": "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_*_128x64x64_*",
        "9.0": "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_*_64x128x64_*",
    },
    "cudnn name": {"8.0": "sm80 wmma 128x64x64", "9.0": "sm90 wgmma 64x128x64"},
    "Memsets of cuDNN": {"8.0": [], "9.0": [4]},
    "cudnn launched": {"8.0": "240 registers x 256 threads", "9.0": "168 registers x 384 threads"},
    "cudnn occupancy": {"8.0": 0.125, "9.0": 0.1875},
    "fastest first": {"8.0": ("flash", "cudnn", "efficient"), "9.0": ("cudnn", "flash", "efficient")},
    "unpinned": {"9.0": "cudnn"},
}

BY_PACKAGE: dict[str, dict[str, Any]] = {
    # Which kernel a pre-built FlashAttention runs, and how many fill kernels come before it.
    "flash-attn-2": {"kernel": "flash::flash_fwd_kernel*", "fills": 0},
    "flash-attn-3": {"kernel": "*FlashAttnFwdSm90*", "fills": 1},
}


class Claim(NamedTuple):
    """A finding of the blog post.

    Attributes:
        says: What it says.
        published: What was published of the A100.
        on_hopper: What is otherwise on an H200, if something is.
    """

    says: str
    published: str
    on_hopper: str = ""


CLAIMS: dict[str, Claim] = {
    "N1": Claim("naive: five kernels a forward, and a hidden Memcpy", "5 kernels + 1 Memcpy"),
    "N2": Claim("the Memcpy comes from `masked_fill`", "yes"),
    "N3": Claim("both matmuls run on tensor cores, in bf16", "`...s16816...`"),
    "N4": Claim("a row that is masked everywhere gives NaN", "yes"),
    "I1": Claim("in place: no Memcpy any more, five kernels", "5 kernels"),
    "I2": Claim("fewer CPU ops in the masking step", "fewer"),
    "I3": Claim(
        "faster than naive, and saves memory", "yes", "the peak does not fall, what is allocated in the step does"
    ),
    "I4": Claim("the saving repeats per layer", "argued"),
    "M1": Claim("sdpa math: twenty kernels a forward", "20"),
    "M2": Claim("slower than naive in place", "3.7x"),
    "M3": Claim("no tensor core at all: FP32 matmuls on CUDA cores", "`sgemm`"),
    "M4": Claim("upcasts q, k, v to FP32", "yes"),
    "M5": Claim("rebuilds the causal mask on every call", "`ones > tril`, `scalar_tensor > fill_`, `where`; `add_`"),
    "M6": Claim("`_safe_softmax` with extra kernels; a fully masked row gives 0, not NaN", "yes"),
    "E1": Claim("efficient: one kernel", "`fmha_cutlassF_bf16_aligned_64x64_rf_sm80`"),
    "E2": Claim("its name says: fused attention, CUTLASS, forward, bf16, aligned, tile, register file, sm80", "yes"),
    "F1": Claim("flash: one kernel, FlashAttention-2", "`pytorch_flash::flash_fwd_kernel`"),
    "F2": Claim("the scores never reach memory", "argued"),
    "F3": Claim("low occupancy is by design", "13% reported; 255 registers x 128 threads, 2 blocks, 8 of 64 warps"),
    "F4": Claim("fastest of the fused backends there", "146.8 us (efficient 277.9, cuDNN 186.3)", "cuDNN is"),
    "C1": Claim("cuDNN: one generated kernel", "`..._sm80_flash_fprop_wmma_f16_knob_6_128x64x64_...`"),
    "C2": Claim("its name says: generated, flash, forward, WMMA or WGMMA, fp16 pipe, knob, tile", "yes"),
    "C3": Claim("no `aten::transpose`; flash and efficient have four each", "0 against 4 and 4"),
    "C4": Claim("launched through `cuLaunchKernelEx`", "yes, alone in the series", "so are the matmuls of cuBLAS"),
    "C5": Claim(
        "0% achieved occupancy is a gap in the measurement",
        "0% reported; 240 registers x 256 threads: 1 block, 8 warps, 12.5%",
        "not for the launch: for shared memory above 48 KiB",
    ),
    "C6": Claim("the cost moved to the CPU", "CPU 214 us against flash 138, efficient 117"),
    "C7": Claim("GPU time between flash and efficient there", "186.3 us", "the fastest"),
    "K1": Claim("external FlashAttention: one attention kernel", "FA2 kernel"),
    "K2": Claim("the same numbers as naive within bf16 rounding", "-"),
    "G1": Claim("guess first, then look: a wrong guess shows guess and trace side by side", "the method of the series"),
}


class Guess:
    """What is expected here, where that differs by architecture: ``with guess("matmul", naive) as expected:``.

    An architecture that nobody has measured, or another shape, gets the guess of the nearest one. If
    what the block asserts then fails, the test is skipped with guess and seen: reported, not failed.
    """

    def __init__(self, shape: Shape) -> None:
        """Make one for inputs of *shape*."""
        self._shape = shape

    @contextmanager
    def __call__(self, what: str, profile: Profile) -> Iterator[Any]:
        """Give the guess of *what*, a row of `BY_ARCHITECTURE`, for the GPU of a profile."""
        known = BY_ARCHITECTURE[what]
        here = profile.environment.compute_capability or "unknown"
        nearest = here if here in known else nearest_to(here, known)
        try:
            yield known[nearest]
        except AssertionError as error:
            if nearest == here and self._shape == BLOG:
                raise
            where = f"compute capability {here}" if nearest != here else f"shape {','.join(map(str, self._shape))}"
            told = f"{what} was never measured for {where}; guess of {nearest} against seen"
            pytest.skip(f"{told}: {str(error).splitlines()[0]}")


def nearest_to(here: str, known: Iterable[str]) -> str:
    """Return the greatest of some compute capabilities below one, or the smallest of all."""
    return max((one for one in known if _key(one) < _key(here)), default=min(known, key=_key), key=_key)


def _key(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split(".") if part.isdecimal())


class Seen(NamedTuple):
    """What became of the tests of one finding.

    Attributes:
        id: Of the finding.
        tests: Names of its tests.
        result: ``failed``, ``passed``, ``partly`` where some were not judged, or ``skipped`` where none was.
        seen: What they saw.
        why: Why some were not judged.
    """

    id: str
    tests: list[str]
    result: str
    seen: str
    why: list[str]


def id_of(test: str) -> str | None:
    """Return the id of the finding that a test is about: ``N1`` for ``test_n1_...``."""
    found = re.match(r"test_([a-z]\d)_", test)
    return found[1].upper() if found and found[1].upper() in CLAIMS else None


def summarize(outcomes: Iterable[tuple[str, str, str, str]]) -> list[Seen]:
    """Return what became of each finding, in the order of `CLAIMS`, whatever the order of the tests.

    Args:
        outcomes: Of each test: its name, its outcome, what it saw and why it was skipped.
    """
    by_id: dict[str, list[tuple[str, str, str, str]]] = {}
    for outcome in sorted(outcomes):
        name = id_of(outcome[0])
        if name is not None:
            by_id.setdefault(name, []).append(outcome)
    return [_summary(name, by_id[name]) for name in CLAIMS if name in by_id]


def _summary(name: str, outcomes: list[tuple[str, str, str, str]]) -> Seen:
    results = {result for _, result, _, _ in outcomes}
    result = "failed" if results & {"error", "failed"} else "partly" if len(results) > 1 else results.pop()
    tests = dict.fromkeys(test.partition("[")[0] for test, *_ in outcomes)
    seen = dict.fromkeys(text for _, _, text, _ in outcomes if text)
    why = dict.fromkeys(text for _, _, _, text in outcomes if text)
    return Seen(name, list(tests), result, "; ".join(seen), list(why))


def sources(tests: Iterable[Iterable[tuple[str, object]]]) -> tuple[bool, list[str]]:
    """Return whether profiles were measured now, and the device and day of each recording that was replayed.

    Args:
        tests: The properties that pytest-kernelprof gave to each, as JUnit's XML has them.
    """
    found = set()
    for test in tests:
        told = {name: str(value) for name, value in test}
        profiles = [name.removesuffix("kernels") for name in told if re.fullmatch(r"kernelprof(\.\w+)?\.kernels", name)]
        found |= {told.get(f"{profile}replayed") for profile in profiles}
    return None in found, sorted(one for one in found if one is not None)


def page_table(findings: Iterable[Mapping[str, Any]], device: str) -> str:
    """Return the table of the documentation.

    Args:
        findings: `Seen` as mappings, of a run on a GPU.
        device: Its name.
    """
    lines = [f"| id | claim | A100 (published) | {device} (this run) | test |", "| --- | --- | --- | --- | --- |"]
    for row in findings:
        claim = CLAIMS[row["id"]]
        tests = ", ".join(f"`{test}`" for test in row["tests"])
        seen = row["seen"] if row["result"] == "passed" else f"**{row['result']}**: {row['seen']}"
        seen += f"; **otherwise here**: {claim.on_hopper}" if claim.on_hopper else ""
        lines.append(f"| {row['id']} | {claim.says} | {claim.published} | {seen} | {tests} |")
    return "\n".join(lines)
