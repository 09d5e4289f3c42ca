"""Memory: the allocator's statistics of each step, who allocated, and when nothing is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import Rows, annotation, launch, op, step, write

from pytest_kernelprof import MisuseError, NotMeasured, Profile, load_trace
from pytest_kernelprof.capture.allocator import figures_of, used_between, why_no_figures
from pytest_kernelprof.load.allocations import allocated_in
from pytest_kernelprof.memory import Allocated

MIB = 1 << 20
DATA = Path(__file__).parent / "data"


def entry(
    step_number: int, device: int = 0, peak: int = 2 * MIB, allocated: int = 5 * MIB, driver: int = 0
) -> dict[str, Any]:
    return {
        "step": step_number,
        "device": device,
        "peak_bytes": peak,
        "allocated_bytes": allocated,
        "driver_allocations": driver,
    }


def made(tmp_path: Path, allocator: list[dict[str, Any]], *, repeatable: Any = None, **note: Any) -> Profile:
    rows: list[Rows] = []
    for number in range(2):
        at = 1000 * number
        rows += [step(number, at, 900), annotation("part", at + 5, 100), op("aten::mul", at + 10, 20)]
        rows.append(launch(at + 12, number + 1))
    known = {"steps": 2, "canary_devices": [], "allocator": allocator, **note}
    path = write(tmp_path / f"{len(list(tmp_path.iterdir()))}.json", *rows, pytest_kernelprof=known)
    return Profile(load_trace(path), repeatable=repeatable)


BOTH = [entry(0), entry(1)]
WHO = [[0, 3 * MIB, 2, ["aten::softmax", "aten::_softmax"]], [0, 2 * MIB, 1, []]]


def test_limits_are_held_against_every_step(tmp_path: Path) -> None:
    profile = made(tmp_path, [entry(0), entry(1, peak=3 * MIB)])

    profile.assert_peak_memory(at_most="3 MiB")
    profile.assert_allocated_memory("5 MiB")
    profile.assert_allocated_memory(between=(MIB, "6 MiB"))
    profile.assert_no_device_allocation()
    assert (profile.peak_memory_bytes, profile.allocated_memory_bytes) == (3 * MIB, 5 * MIB)
    with pytest.raises(
        AssertionError, match=r"3.0 MiB above the start of ProfilerStep#1 at the peak, expected at most 2"
    ):
        profile.assert_peak_memory(at_most="2 MiB")
    with pytest.raises(
        AssertionError, match=r"2.0 MiB above the start of ProfilerStep#0 at the peak, expected at least 3"
    ):
        profile.assert_peak_memory(at_least="3 MiB")


def test_a_failure_names_the_ops_of_the_warm_up(tmp_path: Path) -> None:
    profile = made(tmp_path, BOTH, allocated=WHO)

    with pytest.raises(AssertionError) as error:
        profile.assert_allocated_memory(at_most="4 MiB")
    assert str(error.value).splitlines() == [
        "5.0 MiB allocated in ProfilerStep#0, expected at most 4.0 MiB",
        "",
        "GPU    peak     allocated    driver allocations",
        "0      2.0 MiB  5.0 MiB      0",
        "",
        "bytes    blocks    GPU    allocated by",
        "3.0 MiB  2         0      aten::softmax > aten::_softmax",
        "2.0 MiB  1         0      (no op)",
        "",
        "the ops are those of the last call of the warm-up",
    ]


class Again:
    name = "function"

    def __init__(self, *allocated: Allocated) -> None:
        self.found = allocated
        self.calls = 0

    def allocated(self, *, compiled: bool) -> tuple[Allocated, ...]:
        assert not compiled
        self.calls += 1
        return self.found


def test_without_a_recorded_warm_up_the_function_is_called_once_more_but_only_for_a_failure(tmp_path: Path) -> None:
    again = Again(Allocated(0, 5 * MIB, 3, ("aten::cat",)))
    profile = made(tmp_path, BOTH, repeatable=again)

    profile.assert_allocated_memory(at_most="5 MiB")
    assert again.calls == 0
    with pytest.raises(AssertionError) as error:
        profile.assert_peak_memory(at_most=0)
    assert again.calls == 1
    assert "5.0 MiB  3         0      aten::cat" in str(error.value)
    assert str(error.value).endswith("function was called once more")


def test_a_call_that_allocates_otherwise_explains_nothing(tmp_path: Path) -> None:
    profile = made(tmp_path, BOTH, repeatable=Again(Allocated(0, 7 * MIB, 3, ("aten::cat",))))

    with pytest.raises(AssertionError) as error:
        profile.assert_peak_memory(at_most=0)
    assert "aten::cat" not in str(error.value)
    assert str(error.value).endswith("function was called once more, which allocated 7.0 MiB, not as the steps did")


def test_a_number_that_reads_like_its_limit_is_told_in_full(tmp_path: Path) -> None:
    profile = made(tmp_path, BOTH)
    with pytest.raises(AssertionError) as error:
        profile.assert_peak_memory(at_most=2 * MIB - 152)
    headline = (
        "2.0 MiB above the start of ProfilerStep#0 at the peak, expected at most 2.0 MiB (2097152 B against 2097000 B)"
    )
    assert str(error.value).splitlines()[0] == headline
    with pytest.raises(AssertionError, match=r"5.0 MiB allocated in ProfilerStep#0, expected at least 6.0 MiB\n"):
        profile.assert_allocated_memory(at_least="6 MiB")


def test_asking_the_driver_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="2 allocations from the driver in ProfilerStep#1, expected none"):
        made(tmp_path, [entry(0), entry(1, driver=2)]).assert_no_device_allocation()


def test_several_devices(tmp_path: Path) -> None:
    profile = made(tmp_path, [entry(0), entry(0, 1, peak=8 * MIB), entry(1), entry(1, 1, peak=8 * MIB, driver=1)])

    profile.assert_peak_memory("2 MiB", device=0)
    profile.assert_peak_memory("8 MiB", device=1)
    profile.assert_peak_memory("8 MiB")
    profile.assert_no_device_allocation(device=0)
    with pytest.raises(AssertionError, match=r"8.0 MiB above .* at the peak on GPU 1, expected at most 2.0 MiB"):
        profile.assert_peak_memory(at_most="2 MiB")
    with pytest.raises(AssertionError, match="1 allocation from the driver in ProfilerStep#1 on GPU 1, expected none"):
        profile.assert_no_device_allocation()
    with pytest.raises(NotMeasured, match="memory not measured: GPU 2 was not in use; in use: 0, 1; expected at most"):
        profile.assert_peak_memory(at_most="2 MiB", device=2)
    wrong: Any
    for wrong in (-1, "0", True, 1.0):
        with pytest.raises(MisuseError, match="is no index of a GPU"):
            profile.assert_no_device_allocation(device=wrong)


@pytest.mark.parametrize(
    ("allocator", "note", "why"),
    [
        ([], {}, "holds no allocator statistics of the step"),
        ([entry(0)], {}, "holds no allocator statistics of the step"),
        ([entry(0), {**entry(1), "peak_bytes": "many"}], {}, "holds no allocator statistics of the step"),
        ([entry(0), {"step": 1}], {}, "holds no allocator statistics of the step"),
        (BOTH, {"no_allocator": "the allocator 'cudaMallocAsync' keeps no statistics"}, "'cudaMallocAsync' keeps no"),
        ([], {"no_gpu": "no GPU context; use device="}, "no GPU context; use device="),
        ([entry(0), entry(1, peak=-5)], {}, "the function reset the allocator's statistics"),
    ],
)
def test_what_is_not_known_is_not_measured(
    tmp_path: Path, allocator: list[dict[str, Any]], note: dict[str, Any], why: str
) -> None:
    profile = made(tmp_path, allocator, **note)
    for check in (profile.assert_peak_memory, profile.assert_allocated_memory):
        for limit in ({"at_most": "1 TiB"}, {"at_least": 1}):
            with pytest.raises(NotMeasured, match=f"memory not measured: .*{why}"):
                check(**limit)
    with pytest.raises(NotMeasured, match=why):
        profile.assert_no_device_allocation()
    for name in ("peak_memory_bytes", "allocated_memory_bytes"):
        with pytest.raises(NotMeasured, match=why):
            getattr(profile, name)


def test_a_step_that_breaks_the_limit_beats_one_that_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"5.0 MiB allocated in ProfilerStep#0"):
        made(tmp_path, [entry(0)]).assert_allocated_memory(at_most=MIB)


def test_a_region_has_no_memory_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="the allocator's statistics are those of whole steps, not of regions"):
        made(tmp_path, BOTH).region("part").assert_peak_memory(at_most="1 TiB")


def test_a_trace_of_others_has_none() -> None:
    with pytest.raises(NotMeasured, match="the trace holds no allocator statistics; only recordings of this plugin do"):
        Profile(load_trace(DATA / "traces_h200/attn_naive.json.gz")).assert_peak_memory(at_most="1 TiB")


def test_notes_of_strange_content_are_read_with_care(tmp_path: Path) -> None:
    profile = made(tmp_path, BOTH, allocated=[[0, 1], "x", [0, "many", 1, []], [0, 5 * MIB, 1, ["aten::cat", 7]]])
    assert profile._trace.allocated == (Allocated(0, 5 * MIB, 1, ("aten::cat", "7")),)


# What torch says


def memory_row(ts: int, size: int, *, kind: int = 1, device: int = 0, tid: int = 100) -> dict[str, Any]:
    args = {"Bytes": size, "Device Type": kind, "Device Id": device, "Total Allocated": 0}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": tid, "ts": ts, "args": args}


def test_allocations_belong_to_the_ops_that_are_open(tmp_path: Path) -> None:
    rows = [
        op("aten::softmax", 10, 20),
        op("aten::_softmax", 12, 10),
        memory_row(15, 512),
        memory_row(16, -512),
        memory_row(17, 1024),
        memory_row(23, 256),
        memory_row(40, 64),
        memory_row(18, 4096, kind=0, device=-1),
        memory_row(18, 2048, tid=7),
        memory_row(19, 128, device=1),
    ]
    path = write(tmp_path / "t.json", *rows)

    assert allocated_in(path) == (
        Allocated(0, 2112, 2, ()),
        Allocated(0, 1536, 2, ("aten::softmax", "aten::_softmax")),
        Allocated(0, 256, 1, ("aten::softmax",)),
        Allocated(1, 128, 1, ("aten::softmax", "aten::_softmax")),
    )


def fake_torch(backend: str = "native", figures: dict[str, Any] | None = None) -> SimpleNamespace:
    def stats(_: int) -> dict[str, Any]:
        if figures is None:
            raise RuntimeError("no statistics")
        return figures

    return SimpleNamespace(
        cuda=SimpleNamespace(get_allocator_backend=lambda: backend), _C=SimpleNamespace(_cuda_memoryStats=stats)
    )


def test_allocators_whose_statistics_are_zeros_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_NO_CUDA_MEMORY_CACHING", raising=False)
    assert why_no_figures(fake_torch()) is None
    assert "'cudaMallocAsync' keeps no" in (why_no_figures(fake_torch("cudaMallocAsync")) or "")
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    assert "without its cache" in (why_no_figures(fake_torch()) or "")


def test_figures() -> None:
    def figures(current: int, peak: int, allocated: int, driver: int, reserved: int) -> dict[str, Any]:
        size = {"current": current, "peak": peak, "allocated": allocated}
        return {
            "allocated_bytes": {"all": size},
            "reserved_bytes": {"all": {"allocated": reserved}},
            "num_device_alloc": driver,
        }

    start = figures_of(fake_torch(figures=figures(100, 100, 1000, 3, 5000)), 0)
    end = figures_of(fake_torch(figures=figures(120, 400, 1700, 3, 5000)), 0)
    assert used_between(start, end) == {"peak_bytes": 300, "allocated_bytes": 700, "driver_allocations": 0}
    # Expandable segments may grow without a counted call.
    grown = figures_of(fake_torch(figures=figures(120, 400, 1700, 3, 6000)), 0)
    assert used_between(start, grown)["driver_allocations"] == 1
    assert figures_of(fake_torch(), 0) == {}


# Replayed from an H200


def test_naive_and_in_place_attention_of_the_blog() -> None:
    folder = DATA.parent.parent / "examples/attention/__kernelprof__/traces"
    (naive,) = folder.glob("test_naive.module-naive-*")
    (in_place,) = folder.glob("test_in_place.module-in_place-*")
    one, other = (Profile(load_trace(path)) for path in (naive, in_place))
    scores = 8 * 16 * 1024 * 1024 * 2

    assert one.peak_memory_bytes == other.peak_memory_bytes == pytest.approx(2.06 * scores, rel=0.005)
    assert one.allocated_memory_bytes - other.allocated_memory_bytes == scores
    with pytest.raises(
        AssertionError, match="528.0 MiB above the start of ProfilerStep#0 at the peak, expected at most"
    ):
        one.assert_peak_memory(at_most="512 MiB")
