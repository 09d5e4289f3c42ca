"""Nanoseconds and bytes as people read and write them, and English plurals."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import SupportsIndex

from .errors import MisuseError

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_BYTE_FACTORS: dict[str, int] = {
    **{unit.lower(): 1024**power for power, unit in enumerate(_BYTE_UNITS)},
    **{unit: 1000**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
}
MAX_TRACE_BYTES = 8 * 1024**3
"""Most that a trace may hold, decompressed, unless somebody says otherwise."""

_TIME_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1))


def format_ns(duration_ns: int | float) -> str:
    """Return a duration in nanoseconds as text, such as ``129.4 us``."""
    for unit, size in _TIME_UNITS[:-1]:
        if duration_ns >= size:
            return f"{duration_ns / size:.1f} {unit}"
    return f"{duration_ns:g} ns"


def whole_number(value: object) -> int | None:
    """Return *value* as an int if it is a whole number of at least 0, else ``None``; text and truth values are none."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    return number if number >= 0 and not isinstance(value, bool) else None


def _amount(value: object, factors: Mapping[str, int]) -> int | None:
    """Return a whole number of at least 0, or text of a number and a unit; ``None`` for anything else."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", value)
        factor = factors.get(match[2]) or factors.get(match[2].lower()) if match else None
        return round(float(match[1]) * factor) if match and factor else None
    return whole_number(value)


def parse_ns(value: SupportsIndex | str, where: str) -> int:
    """Return *value*, an integer in nanoseconds or text such as ``1.5 ms``, in nanoseconds.

    Args:
        value: What the user wrote.
        where: How the user wrote it, for the error.

    Raises:
        MisuseError: *value* is neither a whole number nor a number with a unit of time.
    """
    number = _amount(value, dict(_TIME_UNITS))
    if number is None:
        raise MisuseError(
            f"{where} is no time; accepted: a whole number of nanoseconds, or text such as '1.5 ms' or '80 us'"
        )
    return number


def format_share(share: float) -> str:
    """Return a fraction in percent with the digits that it needs, two at most: ``12.5%``, ``66.67%``."""
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"


def format_bytes(size_bytes: int) -> str:
    """Return a number of bytes as text in binary units, such as ``256.0 MiB``."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    power = min((size_bytes.bit_length() - 1) // 10, len(_BYTE_UNITS) - 1)
    return f"{size_bytes / 1024**power:.1f} {_BYTE_UNITS[power]}"


def parse_bytes(value: SupportsIndex | str, where: str) -> int:
    """Return *value*, an integer or text such as ``256 MiB``, in bytes.

    Args:
        value: What the user wrote.
        where: How the user wrote it, for the error.

    Raises:
        MisuseError: *value* is neither a whole number nor a number with a unit of bytes.
    """
    number = _amount(value, _BYTE_FACTORS)
    if number is None:
        raise MisuseError(f"{where} is no number of bytes; accepted: an int, or text such as '256 MiB'")
    return number


_PLURALS = {
    "memory copy": "memory copies",
    "launch": "launches",
    "call that launches, copies or sets": "calls that launch, copy or set",
    "kernel launch": "kernel launches",
    "entry": "entries",
    "ledger entry": "ledger entries",
    "backslash": "backslashes",
    "stretch of bytes": "stretches of bytes",
}


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    return _PLURALS.get(noun, noun + "s")


def counted(number: int, noun: str) -> str:
    """Return *number* with its noun in the right form: ``1 kernel``, ``2 kernels``."""
    return f"{number} {noun if number == 1 else plural(noun)}"
