"""What was wrong with single values, counted: nothing is replaced silently."""

from __future__ import annotations

from ..model import TraceWarning
from ..units import counted

BAD_VALUE = "bad_value"
NOT_AN_EVENT = "not_an_event"
UNIDENTIFIED = "unidentified_row"
UNKNOWN_CATEGORY = "unknown_category"
NOT_UTF8 = "not_utf8"
CONTROL_CHARACTER = "control_character"
BAD_ESCAPE = "bad_escape"
NOT_A_NUMBER = "not_a_number"
NOT_CLOSED = "not_closed"
TRAILING_COMMA = "trailing_comma"
BAD_METADATA = "bad_metadata"

_WORDS = {
    BAD_VALUE: ("value", "unreadable, taken as missing"),
    NOT_AN_EVENT: ("entry", "no event, left out"),
    UNIDENTIFIED: ("row", "without a readable category or phase: what it was is unknown"),
    UNKNOWN_CATEGORY: ("row", "of a category that nothing is counted from"),
    NOT_UTF8: ("stretch of bytes", "not UTF-8, replaced"),
    CONTROL_CHARACTER: ("raw control character", "forbidden in JSON, read as it is"),
    BAD_ESCAPE: ("backslash", "no valid escape (old torch on Windows), read as a backslash"),
    NOT_A_NUMBER: ("NaN or infinite value", "forbidden in JSON, taken as missing"),
    NOT_CLOSED: ("bracket", "not closed at the end of the file"),
    TRAILING_COMMA: ("comma", "before a closing bracket, skipped"),
    BAD_METADATA: ("entry", "unreadable, left out"),
}


class Problems:
    """Problems by kind: how many, and where the first one stands."""

    def __init__(self) -> None:
        """Start without any."""
        self._counts: dict[str, int] = {}
        self._first: dict[str, tuple[int, str]] = {}

    def add(self, code: str, where: str, number: int = 1, *, position: int = 0) -> None:
        """Count a problem.

        Args:
            code: One of the words above.
            where: Its place in the whole file: a JSON path, or a byte offset.
            number: How often it occurs there.
            position: What orders the places: rows are not looked at in the order of the file.
        """
        self._counts[code] = self._counts.get(code, 0) + number
        if code not in self._first or position < self._first[code][0]:
            self._first[code] = (position, where)

    def count(self, code: str) -> int:
        """Return how often a problem occurred."""
        return self._counts.get(code, 0)

    def warnings(self) -> list[TraceWarning]:
        """Return one warning a kind of problem."""
        found = []
        for code, number in self._counts.items():
            noun, told = _WORDS[code]
            _, where = self._first[code]
            place = f"at {where}" if number == 1 else f"the first at {where}"
            found.append(TraceWarning(code, f"{counted(number, noun)} ({place}): {told}"))
        return found
