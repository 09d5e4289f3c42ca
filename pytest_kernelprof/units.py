"""Nanoseconds and bytes as people read and write them, and English plurals."""

from __future__ import annotations

import operator
import re
from typing import SupportsIndex

from .errors import MisuseError

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_BYTE_FACTORS: dict[str, int] = {
    **{unit.lower(): 1024**power for power, unit in enumerate(_BYTE_UNITS)},
    **{unit: 1000**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
}
MAX_TRACE_BYTES = 8 * 1024**3
"""Most that a trace may hold, decompressed, unless somebody says otherwise."""

_TIME_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))


def format_ns(duration_ns: int | float) -> str:
    """Return a duration in nanoseconds as text, such as ``129.4 us``."""
    for unit, size in _TIME_UNITS:
        if duration_ns >= size:
            return f"{duration_ns / size:.1f} {unit}"
    return f"{duration_ns:g} ns"


def format_bytes(size_bytes: int) -> str:
    """Return a number of bytes as text in binary units, such as ``256.0 MiB``."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    power = min((size_bytes.bit_length() - 1) // 10, len(_BYTE_UNITS) - 1)
    return f"{size_bytes / 1024**power:.1f} {_BYTE_UNITS[power]}"


def parse_bytes(value: SupportsIndex | str, argument: str) -> int:
    """Return *value*, an integer or text such as ``256 MiB``, in bytes.

    Args:
        value: What the user wrote.
        argument: The name of the argument, for the error.

    Raises:
        MisuseError: *value* is neither a whole number nor a number with a unit of bytes.
    """
    if not isinstance(value, (str, bool)):
        try:
            return operator.index(value)
        except TypeError:
            pass
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?B)\s*", str(value), re.IGNORECASE)
    if isinstance(value, str) and match and match[2].lower() in _BYTE_FACTORS:
        return round(float(match[1]) * _BYTE_FACTORS[match[2].lower()])
    raise MisuseError(f"{argument}={value!r} is no number of bytes; accepted: an int, or text such as '256 MiB'")


_PLURALS = {
    "memory copy": "memory copies",
    "launch": "launches",
    "kernel launch": "kernel launches",
    "entry": "entries",
    "backslash": "backslashes",
    "stretch of bytes": "stretches of bytes",
}


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    return _PLURALS.get(noun, noun + "s")


def counted(number: int, noun: str) -> str:
    """Return *number* with its noun in the right form: ``1 kernel``, ``2 kernels``."""
    return f"{number} {noun if number == 1 else plural(noun)}"
