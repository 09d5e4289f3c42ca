"""Bytes to numbers: exact times, and files that cannot be read are refused in one line."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest
from builders import launch, step, write

from pytest_kernelprof import KernelprofError, TraceError, load_trace
from pytest_kernelprof.load.copies import copy_kind, pageable
from pytest_kernelprof.load.numbers import nanoseconds

DATA = Path(__file__).parent / "data/traces_h200"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5095875099983.375", 5095875099983375),
        ("1712195495505582.988", 1712195495505582988),
        ("1700000000000099", 1700000000000099000),
        ("0.5", 500),
        ("0", 0),
        ("-1", -1000),
        ("-0.25", -250),
        ("12.3456", 12346),
        ("1.5e3", 1500000),
        ('"12.5"', 12500),
        ('"12us"', None),
        ("null", None),
        ('""', None),
        ("", None),
        ('"NaN"', None),
        ("1e99", None),
    ],
)
def test_times_are_exact_nanoseconds(text: str, expected: int | None) -> None:
    assert nanoseconds(text.encode()) == expected


@pytest.mark.parametrize("path", sorted(DATA.glob("*.gz"))[::7], ids=lambda path: path.name)
def test_starts_and_durations_equal_an_exact_count(path: Path) -> None:
    with gzip.open(path) as file:
        rows = json.load(file, parse_float=Decimal)["traceEvents"]
    expected = sorted(
        (int(row["ts"] * 1000), int(row["dur"] * 1000))
        for row in rows
        if row.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    )

    seen = sorted((event.start_ns, event.duration_ns) for event in load_trace(path).totals.gpu_events)

    assert seen == expected


def test_compression_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.json.gz", step(1, 0, 10), launch(1, 1))
    packed = tmp_path / "packed.json"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    assert len(load_trace(plain).steps[0].kernels) == len(load_trace(packed).steps[0].kernels) == 1


def test_a_top_level_array_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([step(1, 0, 10), *launch(1, 1)]))

    assert len(load_trace(path).steps[0].kernels) == 1


def test_metadata_may_follow_the_events(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    device = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0}
    path.write_text(
        json.dumps({"traceEvents": launch(1, 1), "deviceProperties": [device], "distributedInfo": {"rank": 3}})
    )

    where = load_trace(path).environment

    assert (where.devices, where.compute_capability, where.rank) == (("NVIDIA H200",), "9.0", 3)


def test_numbers_as_text_are_read(tmp_path: Path) -> None:
    rows = launch(1, 1)
    rows[1]["args"].update({"grid": "[2, 66, 1]", "stream": "7", "shared memory": "1024"})
    (kernel,) = load_trace(write(tmp_path / "t.json", rows)).steps[0].kernels

    assert (kernel.grid, kernel.stream, kernel.shared_memory_bytes) == ((2, 66, 1), 7, 1024)


def broken(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


PACKED = gzip.compress(json.dumps({"traceEvents": launch(1, 1)}).encode(), mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b'{"traceEvents": [{"ph": "X"', "JSON truncated at byte 27 of 27"),
        (b'{"traceEvents": [}', "JSON malformed: expected ], at byte 17"),
        (b'{"traceEvents": [{"ph": "X"} {"ph": "X"}]}', "JSON malformed: expecting ',' delimiter at byte 29"),
        (b'{"events": []}', "no `traceEvents` beside its other entries: no trace of torch.profiler"),
        (b'{"traceEvents": 3}', "`traceEvents` is no list: .*, at byte 16"),
        (b'{"traceEvents": [], "traceEvents": []}', "a second `traceEvents`"),
        (b'{"traceEvents": []} {}', "JSON goes on after its end, at byte 20"),
        (b"\xff\xfe{\x00", "no JSON object or list"),
        (b'"text"', "no JSON object or list"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (PACKED[:-12], "gzip stream truncated"),
        (PACKED[:20] + b"\x00\x00" + PACKED[22:], "gzip stream corrupt"),
    ],
)
def test_unreadable_files_are_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = broken(tmp_path, "broken.json", content)

    with pytest.raises(TraceError, match=message) as caught:
        load_trace(path)

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, KernelprofError)


def test_missing_files_and_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        load_trace(tmp_path / "missing.json")
    with pytest.raises(TraceError, match="a directory; expected a trace"):
        load_trace(tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "is_pageable"),
    [
        ("Memcpy DtoD (Device -> Device)", "DtoD", False),
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", True),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", False),
        ("Memcpy HtoD (Host -> Device)", "HtoD", None),
        ("CopyHostToDevice", "HtoD", None),
        ("Memcpy M2D", "HtoD", None),
        ("Memcpy D2M", "DtoH", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", False),
        ("something else", None, None),
    ],
)
def test_directions_of_copies(name: str, kind: str | None, is_pageable: bool | None) -> None:
    assert (copy_kind(name), pageable(name)) == (kind, is_pageable)
