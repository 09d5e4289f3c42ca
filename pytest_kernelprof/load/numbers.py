"""Numbers as files spell them, exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ..events import FOREVER

_LONGEST_NUMBER = 64
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")
_LARGEST = 1 << 63
_LATEST = FOREVER // 2  # A start and a length together stay before the end of time; Unix time does until 2043.
_DIGITS = b"0123456789"
_ZEROS = bytes.maketrans(_DIGITS, b"0" * 10)


def split_integers(text: bytes) -> list[int]:
    """Return the integers of a list with commas between."""
    return list(map(int, text.split(b",")))


def exact_ns(texts: Sequence[Any], integers: Callable[[bytes], list[int]] = split_integers) -> list[int] | None:
    """Return times in microseconds in whole nanoseconds, many at once.

    Args:
        texts: What the file spells, as bytes or a view of them.
        integers: Reads a list of integers.

    Returns:
        ``None`` unless each has exactly three decimals, as Kineto writes them since 2.4, or each
        has none, as it did before: `nanoseconds` then reads them one by one. An integer a row made
        by Python takes ten times as long as all these passes together.
    """
    number = len(texts)
    if not number:
        return []
    joined = b",".join(texts)
    try:
        zeros = joined.translate(_ZEROS)
        length = len(zeros) // number  # Where all are equally long, with the comma.
        if length < 20 and (zeros + b",") == (b"0" * (length - 4) + b".000,") * number:
            return integers(joined.replace(b".", b""))
        marks = joined.translate(None, _DIGITS)
        signed = b"-" in marks
        marks = marks.replace(b"-", b"")
        if marks == b".," * (number - 1) + b".":
            if zeros.count(b".000,") != number - 1 or not zeros.endswith(b".000"):
                return None
            # Without the point, a number with three decimals is in nanoseconds.
            found = integers(joined.replace(b".", b""))
        elif marks == b"," * (number - 1):
            found = [value * 1000 for value in integers(joined)]
        else:
            return None
    except ValueError:
        return None
    if len(found) != number:
        return None  # A text is empty.
    sane = max(found) < _LATEST and (not signed or min(found) > -_LATEST)
    return found if sane else None


def nanoseconds(text: bytes) -> int | None:
    """Return a time in microseconds, as the file spells it, in whole nanoseconds.

    Args:
        text: A JSON number, or one in quotes.

    Returns:
        ``None`` if the field is missing or no finite number.

    Source:
        Trace Event Format: ``ts`` and ``dur`` are microseconds; Kineto writes three decimals.
    """
    text = text.strip(b'" ')
    if not text or len(text) > _LONGEST_NUMBER:
        return None
    from decimal import Decimal, InvalidOperation

    try:
        number = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    # Compared before it is multiplied: 1e999999 would be a number of a million digits.
    if not number.is_finite() or abs(number) >= _LATEST // 1000:
        return None
    return round(number * 1000)


def is_missing(text: bytes) -> bool:
    """Return whether a field is absent, or ``null``."""
    return text in (b"", b"null")


def integer(value: Any) -> int | None:
    """Return a field as an integer of 64 bits, also where it is text; ``None`` if it is none."""
    if type(value) is int:
        number = value
    elif isinstance(value, str):
        if not _WHOLE_NUMBER.fullmatch(value.strip()):
            return None
        number = int(value)
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    else:
        return None
    return number if -_LARGEST <= number < _LARGEST else None


def number(value: Any) -> float | None:
    """Return a field as a finite number, also where it is text; ``None`` if it is none."""
    if isinstance(value, str):
        try:
            value = float(value[:_LONGEST_NUMBER])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return float(value) if abs(value) < _LARGEST else None


def triple(value: Any) -> tuple[int, int, int] | None:
    """Return a field that is a list of three integers, or its text, such as a grid."""
    if isinstance(value, str):
        if "-" in value:
            return None
        value = [int(part) for part in re.findall(r"[0-9]+", value[:_LONGEST_NUMBER])]
    if isinstance(value, (list, tuple)) and len(value) == 3 and all(type(part) is int for part in value):
        return (value[0], value[1], value[2])
    return None
