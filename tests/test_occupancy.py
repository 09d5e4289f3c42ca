"""Theoretical occupancy: against the driver, Nsight Compute, NVIDIA's textbook, a simulation and other GPUs' traces."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import Rows, launch, step, write

from pytest_kernelprof import MisuseError, NotMeasured, Profile, load_trace, theoretical_occupancy
from pytest_kernelprof.occupancy import MULTIPROCESSORS, Multiprocessor, occupancy

DATA = Path(__file__).parent / "data"
H200 = {
    "id": 0,
    "name": "NVIDIA H200",
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "warpSize": 32,
    "sharedMemPerMultiprocessor": 233472,
}


def table(name: str) -> list[dict[str, str]]:
    with (DATA / "occupancy" / name).open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def shape(row: dict[str, str]) -> tuple[int, int, int]:
    return int(row["threads_per_block"]), int(row["registers_per_thread"]), int(row["shared_memory_bytes"])


# The function


def test_every_launch_that_nsight_compute_saw_agrees() -> None:
    rows = table("nsight_compute_h200.tsv")
    assert len(rows) == 147
    for row in rows:
        percent = 100 * theoretical_occupancy(*shape(row), "9.0")
        assert abs(percent - float(row["theoretical_occupancy_percent"])) <= 0.05, row


def test_every_answer_of_the_driver_agrees() -> None:
    checked = 0
    with gzip.open(DATA / "occupancy/driver_h200.tsv.gz", "rt") as file:
        for line in file:
            threads, registers, shared, blocks = map(int, line.split())
            found = occupancy(threads, registers, shared, MULTIPROCESSORS["9.0"])
            assert (found.blocks if found else 0) == blocks, line
            checked += 1
    assert checked == 31533


def test_what_profilers_reported_on_other_gpus_agrees() -> None:
    rows = table("reported_other.tsv")
    assert len({row["compute_capability"] for row in rows}) == 6
    for row in rows:
        percent = 100 * theoretical_occupancy(*shape(row), row["compute_capability"])
        assert abs(percent - int(row["reported_percent"])) <= 0.5, row


TEXTBOOK = [
    # CUDA C++ Best Practices Guide, "Calculating Occupancy": 128 threads x 37 registers give 75% with 12 blocks,
    # 320 threads 63% with 4 blocks; for 100% a thread can use at most 32 registers.
    ("7.0", 128, 37, 0, 48 / 64, ("registers",)),
    ("7.0", 320, 37, 0, 40 / 64, ("registers",)),
    ("7.0", 256, 32, 0, 1, ("registers", "warps")),
    ("7.0", 256, 33, 0, 48 / 64, ("registers",)),
    # Volta Tuning Guide: 96 KB of shared memory a multiprocessor, 32 blocks. Turing: 32 warps, 16 blocks, 64 KB.
    ("7.0", 128, 32, 49152, 8 / 64, ("shared memory",)),
    ("7.0", 32, 16, 0, 32 / 64, ("blocks",)),
    ("7.5", 32, 16, 0, 16 / 32, ("blocks",)),
    ("7.5", 1024, 64, 0, 1, ("registers", "warps")),
    ("7.5", 256, 32, 32768, 16 / 32, ("shared memory",)),
    # NVIDIA Ampere GPU Architecture Tuning Guide: 8.0 has 64 warps, 32 blocks, 164 KB; 8.6 has 48 warps, 16
    # blocks, 100 KB; 1 KB of every block is the system's.
    ("8.0", 1024, 32, 0, 1, ("registers", "warps")),
    ("8.0", 128, 255, 0, 0.125, ("registers",)),
    ("8.0", 256, 240, 0, 0.125, ("registers",)),
    ("8.0", 128, 32, 163 * 1024, 4 / 64, ("shared memory",)),
    ("8.0", 128, 32, 81 * 1024, 8 / 64, ("shared memory",)),
    ("8.0", 128, 32, 81 * 1024 + 1, 4 / 64, ("shared memory",)),
    ("8.6", 1024, 32, 0, 32 / 48, ("warps",)),
    ("8.6", 512, 32, 0, 1, ("warps",)),
    ("8.6", 64, 32, 0, 32 / 48, ("blocks",)),
    ("8.6", 256, 32, 49 * 1024, 16 / 48, ("shared memory",)),
    ("8.9", 64, 32, 0, 1, ("warps", "blocks")),
    # NVIDIA Hopper and Blackwell Tuning Guides: 64 warps, 32 blocks, 228 KB.
    ("9.0", 384, 168, 134_144, 0.1875, ("registers", "shared memory")),
    ("9.0", 128, 32, 227 * 1024, 4 / 64, ("shared memory",)),
    ("9.0", 32, 32, 0, 32 / 64, ("blocks",)),
    ("10.0", 128, 32, 227 * 1024, 4 / 64, ("shared memory",)),
    ("10.0", 192, 168, 0, 12 / 64, ("registers",)),
    ("10.0", 1024, 32, 0, 1, ("registers", "warps")),
    ("12.0", 1024, 32, 0, 32 / 48, ("warps",)),
    ("12.1", 128, 32, 99 * 1024, 4 / 48, ("shared memory",)),
]


@pytest.mark.parametrize(("capability", "threads", "registers", "shared", "expected", "limited_by"), TEXTBOOK)
def test_textbook_cases(
    capability: str, threads: int, registers: int, shared: int, expected: float, limited_by: tuple[str, ...]
) -> None:
    assert theoretical_occupancy(threads, registers, shared, capability) == pytest.approx(expected, abs=1e-12)
    found = occupancy(threads, registers, shared, MULTIPROCESSORS[capability])
    assert found is not None
    assert found.limited_by == limited_by


def simulated(threads: int, registers: int, shared: int, processor: Multiprocessor) -> int:
    """Return how many blocks are resident when they are placed one by one, each warp where most registers are free."""
    free = [processor.registers // 4] * 4
    left, warps_left, blocks = processor.shared_memory_bytes, processor.warps, 0
    warps = (threads + 31) // 32
    need = (registers * 32 + 255) // 256 * 256
    block_shared = shared + processor.reserved_bytes
    block_shared += -block_shared % processor.shared_memory_unit
    while blocks < processor.blocks and warps_left >= warps and left >= block_shared:
        for _ in range(warps):
            place = free.index(max(free))
            if free[place] < need:
                return blocks
            free[place] -= need
        left -= block_shared
        warps_left -= warps
        blocks += 1
    return blocks


@pytest.mark.parametrize("capability", MULTIPROCESSORS)
def test_a_simulation_places_as_many_blocks(capability: str) -> None:
    draw, processor = random.Random(2026), MULTIPROCESSORS[capability]
    for _ in range(400):
        threads, registers = draw.randint(1, 1024), draw.randint(1, 255)
        shared = draw.choice([0, draw.randint(0, 4096), draw.randint(0, processor.shared_memory_bytes)])
        found = occupancy(threads, registers, shared, processor)
        assert (found.blocks if found else 0) == simulated(threads, registers, shared, processor)
        assert found is None or 0 < found.fraction <= 1
        assert found is None or found.warps == found.blocks * -(-threads // 32)


def test_more_of_anything_never_raises_occupancy() -> None:
    draw = random.Random(7)
    for _ in range(500):
        capability = draw.choice(list(MULTIPROCESSORS))
        processor = MULTIPROCESSORS[capability]
        threads, registers, shared = draw.randint(1, 1024), draw.randint(1, 254), draw.randint(0, 90_000)
        here = occupancy(threads, registers, shared, processor)
        more = occupancy(threads, registers + 1, shared + 128, processor)
        assert (more.blocks if more else 0) <= (here.blocks if here else 0)


@pytest.mark.parametrize("spelling", ["9.0", (9, 0), [9, 0], 9.0])
def test_spellings_of_a_compute_capability(spelling: Any) -> None:
    assert theoretical_occupancy(384, 168, 134_144, spelling) == 0.1875


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 32, 0, "9.0"), "threads_per_block=0 is not possible; accepted: a whole number, 1 to 1024"),
        ((1025, 32, 0, "9.0"), "threads_per_block=1025 is not possible"),
        ((128, 256, 0, "9.0"), "registers_per_thread=256 is not possible; accepted: a whole number, 0 to 255"),
        ((128, -1, 0, "9.0"), "registers_per_thread=-1"),
        ((128, 32, -1, "9.0"), "shared_memory_bytes=-1 is not possible; accepted: a whole number, at least 0"),
        ((128.0, 32, 0, "9.0"), "threads_per_block=128.0 is not possible"),
        ((True, 32, 0, "9.0"), "threads_per_block=True is not possible"),
        ((128, 32, 0, "6.0"), "compute_capability='6.0' is not known; accepted: 7.0, 7.2, 7.5, 8.0"),
        ((128, 32, 0, "sm_90"), "compute_capability='sm_90' is not known"),
        ((128, 32, 0, None), "compute_capability=None is not known"),
        ((128, 32, 0, (9, 7)), r"compute_capability=\(9, 7\) is not known"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(MisuseError, match=message):
        theoretical_occupancy(*arguments)


def test_what_does_not_fit_has_none() -> None:
    assert theoretical_occupancy(1024, 65, 0, "9.0") == 0
    assert theoretical_occupancy(128, 32, 232_448, "9.0") == 4 / 64
    assert theoretical_occupancy(128, 32, 232_449, "9.0") == 0


# In traces


def made(
    tmp_path: Path, *kernels: dict[str, Any], devices: Sequence[dict[str, Any]] = (H200,), **metadata: Any
) -> Profile:
    rows: list[Rows] = [step(0, 0, 1000)]
    for number, arguments in enumerate(kernels, 1):
        known: dict[str, Any] = {
            "grid": [1000, 1, 1],
            "block": [256, 1, 1],
            "registers per thread": 32,
            "shared memory": 0,
        }
        known = {key: value for key, value in {**known, **arguments}.items() if value is not None}
        rows.append(launch(10 * number, number, **known))
    known = {"deviceProperties": list(devices), "cuda_runtime_version": 13000, **metadata}
    return Profile(load_trace(write(tmp_path / "t.json", *rows, **known)))


def test_the_chosen_kernels_are_judged(tmp_path: Path) -> None:
    profile = made(
        tmp_path,
        {"name": "low", "registers per thread": 255, "block": [128, 1, 1], "est. achieved occupancy %": 13},
        {"name": "full", "est. achieved occupancy %": 0},
    )

    profile.assert_occupancy(0.125, named="low")
    profile.assert_occupancy(exactly=1, named="full")
    profile.assert_occupancy(between=(0.12, 0.13), named="low")
    profile.assert_occupancy(at_least=0.125)
    with pytest.raises(AssertionError) as error:
        profile.assert_occupancy(at_least=0.5)
    assert str(error.value).splitlines() == [
        "1 of 2 kernels a step with a theoretical occupancy of 12.5%, expected at least 50%",
        "",
        "kernel    threads    registers    shared memory    occupancy    limited by    reported    launched by",
        "low       128        255          0 B              12.5%        registers     13%         (no op)",
    ]
    assert [one.theoretical_occupancy for one in profile.kernels] == [0.125, 1]
    low = profile.kernels[0].occupancy
    assert low is not None
    assert low.limited_by == ("registers",)


def test_limits_allow_what_profilers_round(tmp_path: Path) -> None:
    profile = made(
        tmp_path,
        {"block": [1024, 1, 1]},
        devices=[
            {
                **H200,
                "computeMajor": 8,
                "computeMinor": 6,
                "maxThreadsPerMultiprocessor": 1536,
                "sharedMemPerMultiprocessor": 102400,
            }
        ],
    )

    profile.assert_occupancy(0.6667)
    profile.assert_occupancy(at_least=0.6667)
    profile.assert_occupancy(at_most=0.6666)
    with pytest.raises(AssertionError, match="of 66.67%, expected 66%"):
        profile.assert_occupancy(0.66)


def test_a_reported_zero_decides_nothing(tmp_path: Path) -> None:
    profile = made(tmp_path, {"shared memory": 98304, "est. achieved occupancy %": 0})

    (kernel,) = profile.kernels
    assert kernel.reported_occupancy is None
    assert kernel.theoretical_occupancy == 0.25
    profile.assert_occupancy(at_least=0.2)


def test_the_device_of_the_kernel_decides(tmp_path: Path) -> None:
    small = {**H200, "id": 1, "computeMajor": 8, "computeMinor": 6, "maxThreadsPerMultiprocessor": 1536}
    profile = made(tmp_path, {"block": [1024, 1, 1]}, {"block": [1024, 1, 1], "device": 1}, devices=(H200, small))

    assert [round(one.theoretical_occupancy or 0, 4) for one in profile.kernels] == [1, 0.6667]


def test_what_the_trace_says_of_its_device_goes_before_the_table(tmp_path: Path) -> None:
    half = {**H200, "regsPerMultiprocessor": 32768, "sharedMemPerMultiprocessor": "nonsense"}
    profile = made(tmp_path, {}, devices=[half])

    assert profile.kernels[0].theoretical_occupancy == 0.5


@pytest.mark.parametrize(
    ("kernel", "options", "why"),
    [
        ({"registers per thread": None}, {}, "the trace does not tell the registers"),
        ({"registers per thread": 0}, {}, "the trace does not tell the registers"),
        ({"shared memory": None}, {}, "the trace does not tell the shared memory"),
        ({"block": None}, {}, "the trace does not tell the block size"),
        ({"block": [0, 1, 1]}, {}, "the trace does not tell the block size"),
        ({"shared memory": 999_999}, {}, "its launch does not fit on the GPU of the trace"),
        ({}, {"devices": []}, "what a multiprocessor of its GPU holds"),
        ({"device": 3}, {}, "what a multiprocessor of its GPU holds"),
        ({}, {"devices": [{**H200, "computeMajor": 13}]}, "what a multiprocessor of its GPU holds"),
        ({}, {"devices": [{**H200, "warpSize": 64}]}, "what a multiprocessor of its GPU holds"),
        ({}, {"devices": [{**H200, "name": "AMD Instinct MI300X"}]}, "what a multiprocessor of its GPU holds"),
    ],
)
def test_what_the_trace_does_not_tell_is_not_measured(
    tmp_path: Path, kernel: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    profile = made(tmp_path, {"name": "known"}, {"name": "gap", **kernel}, **options)

    assert profile.kernels[1].theoretical_occupancy is None
    for limit in ({"at_least": 0.01}, {"at_most": 0.99}, {"between": (0, 0.5)}):
        with pytest.raises(NotMeasured, match=why):
            profile.assert_occupancy(**limit, named="gap")


def test_a_kernel_that_surely_breaks_the_limit_beats_one_that_is_not_measured(tmp_path: Path) -> None:
    profile = made(
        tmp_path, {"name": "gap", "registers per thread": None}, {"name": "low", "registers per thread": 255}
    )

    with pytest.raises(AssertionError, match="1 of 2 kernels a step with a theoretical occupancy of 12.5%"):
        profile.assert_occupancy(at_least=0.5)
    with pytest.raises(NotMeasured):
        profile.assert_occupancy(at_most=0.5)


def test_no_kernel_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no kernel a step: none found, expected an occupancy of at least 50%"):
        made(tmp_path, {}).assert_occupancy(at_least=0.5, named="absent*")


@pytest.mark.parametrize("limit", [{"at_least": 50}, {"exactly": "0.5"}, {"at_most": -0.1}, {"exactly": True}])
def test_percent_is_no_fraction(tmp_path: Path, limit: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match="is no fraction; accepted: a number from 0 to 1, such as 0.125 for 12.5%"):
        made(tmp_path, {}).assert_occupancy(**limit)


def test_a_limit_that_always_passes_is_refused(tmp_path: Path) -> None:
    for limit in ({"at_most": 1}, {"between": (0, 1)}, {"at_least": 0}):
        with pytest.raises(MisuseError, match="always passes"):
            made(tmp_path, {}).assert_occupancy(**limit)


def test_amd_is_not_measured() -> None:
    profile = Profile(load_trace(DATA / "cases/28_rocm_names_and_blit_fill.json"))
    with pytest.raises(NotMeasured, match="the trace does not tell"):
        profile.assert_occupancy(at_least=0.1)


def test_the_fused_optimizer_fails_and_shows_its_registers() -> None:
    profile = Profile(load_trace(DATA / "cases/74_fused_adam_low_occupancy.json"))
    with pytest.raises(AssertionError, match="1 of 2 kernels") as error:
        profile.assert_occupancy(named="*multi_tensor_apply*", at_least=0.8)
    (row,) = str(error.value).splitlines()[3:]
    assert row.split()[-9:] == ["256", "60", "0", "B", "50%", "registers", "67%", "(no", "op)"]


def test_attention_of_the_blog() -> None:
    for name, expected in (("attn_sdpa_flash", 0.125), ("attn_sdpa_cudnn", 0.1875)):
        profile = Profile(load_trace(DATA / f"traces_h200/{name}.json.gz"))
        profile.assert_occupancy(expected, role="attention")
