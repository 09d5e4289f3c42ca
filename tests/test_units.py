"""Numbers as people read and write them."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kernelprof import MisuseError
from pytest_kernelprof.units import counted, format_bytes, format_ns, format_share, parse_bytes, parse_ns


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1000, "1.0 us"), (129_400, "129.4 us"), (1_065_271, "1.1 ms"), (4.7e9, "4.7 s")],
)
def test_durations(ns: float, text: str) -> None:
    assert format_ns(ns) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (4, "4 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (268435456, "256.0 MiB"), (1 << 50, "1024.0 TiB")],
)
def test_sizes(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7), ("256 MiB", 1 << 28), ("1.5KiB", 1536), ("2 kB", 2000), ("12 B", 12), ("0 B", 0)],
)
def test_sizes_are_parsed(value: int | str, expected: int) -> None:
    assert parse_bytes(value, f"at_most={value!r}") == expected


@pytest.mark.parametrize("value", ["24 bananas", "MiB", "", "1e3", 1.5, None, True, "-1 B"])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(MisuseError, match="at_most=.* is no number of bytes; accepted"):
        parse_bytes(value, f"at_most={value!r}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7), ("250 ns", 250), ("80us", 80_000), ("1.5 ms", 1_500_000), (" 2 s ", 2_000_000_000), ("0 s", 0)],
)
def test_times_are_parsed(value: int | str, expected: int) -> None:
    assert parse_ns(value, f"at_most={value!r}") == expected


@pytest.mark.parametrize("value", ["80", "80 min", "us", "", 1.5, None, True, -1, "-1 us", "1e3 us"])
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(MisuseError, match="at_most=.* is no time; accepted"):
        parse_ns(value, f"at_most={value!r}")


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.125, "12.5%"), (2 / 3, "66.67%"), (1, "100%"), (0.1, "10%"), (0.1875, "18.75%")]
)
def test_shares(share: float, text: str) -> None:
    assert format_share(share) == text


def test_plurals() -> None:
    assert [counted(n, "kernel") for n in (0, 1, 2)] == ["0 kernels", "1 kernel", "2 kernels"]
    assert counted(2, "memory copy") == "2 memory copies"
