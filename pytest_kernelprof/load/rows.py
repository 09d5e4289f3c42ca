"""Pieces of JSON to rows of the list of events: carefully, with the standard library.

`fast_rows` decodes sound pieces of large files; what it refuses comes here, and so do small files,
since importing msgspec costs more than it saves on them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ..errors import TraceError
from ..events import NO_ID
from .problems import (
    BAD_ESCAPE,
    BAD_VALUE,
    CONTROL_CHARACTER,
    NOT_A_NUMBER,
    NOT_AN_EVENT,
    NOT_UTF8,
    UNIDENTIFIED,
    Problems,
)

_LONGEST_INTEGER = 20
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f]")
_NOT_UTF8 = re.compile(r"[\udc80-\udcff]+")
_HOLE = re.compile(r"\x00|[\udc80-\udcff]{64}")
"""Zero bytes, and long stretches that are no text: what a disk leaves where it lost a block."""

_AGAIN = "record the trace again"


class Args:
    """The arguments that anything depends on.

    Their types are not declared: ROCm writes some numbers as text, and a strange value must cost
    one field, not the file.
    """

    __slots__ = (
        *("achieved_occupancy", "block", "bytes", "correlation", "device", "early_external_id", "external_id", "grid"),
        *("registers_per_thread", "sequence_number", "shared_memory", "size", "stream", "theoretical_occupancy"),
    )

    def __init__(self, args: dict[str, Any]) -> None:
        """Take the arguments that matter from those of a row."""
        if any(type(value) is bool for value in args.values()):
            # Python takes True for 1; here it is a value of the wrong kind.
            args = {key: str(value) if isinstance(value, bool) else value for key, value in args.items()}
        get = args.get
        self.external_id = get("External id", NO_ID)
        self.early_external_id = get("external id", NO_ID)  # Its spelling before 1.12, in some rows.
        self.correlation = get("correlation", NO_ID)
        self.sequence_number = get("Sequence number", NO_ID)
        self.device = get("device")
        self.stream = get("stream")
        self.bytes = get("bytes")
        self.size = get("size")
        self.grid = _hashable(get("grid"))
        self.block = _hashable(get("block"))
        self.registers_per_thread = get("registers per thread")
        self.shared_memory = get("shared memory")
        self.achieved_occupancy = get("est. achieved occupancy %")
        self.theoretical_occupancy = get("theoretical occupancy %")


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Row:
    """One entry of the list of events; `fast_rows` makes rows that look the same.

    ``ts`` and ``dur`` stay text, as bytes or a view of them: near 1.7e15 us, Unix time, a float
    steps by 250 ns.
    """

    __slots__ = ("args", "cat", "dur", "name", "ph", "pid", "tid", "ts")

    ph: str | None
    cat: str | None
    name: str | None
    pid: int | str
    tid: int | str
    ts: Any
    dur: Any
    args: Any

    def __init__(self, entry: dict[str, Any], bad: Callable[[str], None]) -> None:
        """Take the fields that matter.

        Args:
            entry: The object.
            bad: Called with the name of each field that cannot be read.
        """
        for field in ("ph", "cat", "name"):
            value = entry.get(field)
            if value is not None and not isinstance(value, str):
                bad(field)
                value = None
            setattr(self, field, value)
        for field in ("pid", "tid"):
            value = entry.get(field, NO_ID)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if not isinstance(value, (int, str)):
                bad(field)
                value = NO_ID
            setattr(self, field, value)
        self.ts = _text(entry.get("ts"))
        self.dur = _text(entry.get("dur"))
        args = entry.get("args")
        if args is not None and not isinstance(args, dict):
            bad("args")
            args = None
        self.args = Args(args) if args else NO_ARGS


class _Float(float):
    """A number that remembers how it was spelled."""

    __slots__ = ("text",)

    text: bytes


def _float(text: str) -> float:
    value = _Float(text)
    value.text = text.encode()
    return value


def _integer(text: str) -> int | float:
    # The limit of Python on digits must not decide; no field has numbers of this size.
    return int(text) if len(text) <= _LONGEST_INTEGER else float(text)


def _text(value: Any) -> bytes:
    if value is None:
        return b""
    if type(value) is int:
        return b"%d" % value
    if isinstance(value, str):
        return b'"' + value.encode("utf-8", "replace") + b'"'
    text: bytes = getattr(value, "text", b"?")
    return text


NO_ARGS = Args({})


class CarefulDecoder:
    """Decodes any piece, mends what is certain, and says where the rest is wrong.

    Attributes:
        path: The file, for messages.
        problems: Collects what was mended and what could not be read.
        root: JSON path of the list of events.
    """

    def __init__(self, path: str, problems: Problems) -> None:
        """Make a decoder."""
        self.path = path
        self.problems = problems
        self.root = "$.traceEvents"

    def sound_entries(self, piece: bytes) -> list[Any] | None:
        """Return the values of a piece; ``None`` if anything in it needs care.

        Args:
            piece: Whole entries of the list of events, with the commas between them.
        """
        try:
            entries: list[Any] = _STRICT.decode("[" + piece.decode() + "]")
        except (ValueError, RecursionError):
            return None
        return entries

    def rows(self, entries: list[Any], index: int) -> tuple[list[Row], list[int]]:
        """Return the rows among decoded entries, and the number of each.

        Args:
            entries: Entries of the list of events.
            index: Number of the first one.
        """
        rows: list[Row] = []
        numbers: list[int] = []
        for number, entry in enumerate(entries, index):
            row = self._row(entry, number)
            if row is not None:
                rows.append(row)
                numbers.append(number)
        return rows, numbers

    def _row(self, entry: Any, number: int) -> Row | None:
        place = f"{self.root}[{number}]"
        if not isinstance(entry, dict):
            self.problems.add(NOT_AN_EVENT, place, position=number)
            return None
        wrong: list[str] = []
        row = Row(entry, wrong.append)
        for field in wrong:
            self.problems.add(BAD_VALUE, f"{place}.{field}", position=number)
        if "cat" in wrong or "ph" in wrong:
            self.problems.add(UNIDENTIFIED, place, position=number)
            return None
        return row

    def values(self, content: bytes, offset: int) -> Any:
        """Return a JSON value that stands at a byte offset.

        Raises:
            TraceError: It is none.
        """
        spelled = content.decode("utf-8", "surrogateescape")
        hole = _HOLE.search(spelled)
        if hole:
            where = _byte(offset, spelled, hole.start())
            raise TraceError(f"{self.path}: no text at {where}: a part of the file was lost; record or copy it again")
        text = self._replaced(spelled, offset)
        try:
            return _STRICT.decode(text)
        except json.JSONDecodeError as error:
            if "control character" in error.msg:
                number = len(_CONTROL.findall(text)) or 1
                self.problems.add(CONTROL_CHARACTER, _byte(offset, spelled, error.pos), number)
        except (RecursionError, ValueError) as error:
            raise self._too_deep(error, offset) from None
        try:
            return self._lenient(text, offset, spelled)
        except json.JSONDecodeError as error:
            told = f"{error.msg[0].lower()}{error.msg[1:]}".removesuffix(" at")
            where = _byte(offset, spelled, error.pos)
            raise TraceError(f"{self.path}: JSON malformed: {told} at {where}; {_AGAIN}") from None
        except (RecursionError, ValueError) as error:
            raise self._too_deep(error, offset) from None

    def _replaced(self, spelled: str, offset: int) -> str:
        """Return text without the bytes that are not UTF-8, each replaced by one character."""
        wrong = list(_NOT_UTF8.finditer(spelled))
        if not wrong:
            return spelled
        self.problems.add(NOT_UTF8, _byte(offset, spelled, wrong[0].start()), len(wrong))
        return _NOT_UTF8.sub(lambda found: "\ufffd" * len(found[0]), spelled)

    def _lenient(self, text: str, offset: int, spelled: str) -> Any:
        """Decode what JSON forbids and the eye still reads in one way only."""
        nonsense = []

        def constant(word: str) -> float:
            nonsense.append(word)
            return float(word)

        decoder = json.JSONDecoder(strict=False, parse_float=_float, parse_int=_integer, parse_constant=constant)
        try:
            value = decoder.decode(text)
        except json.JSONDecodeError as error:
            # A path of Windows, unescaped: every backslash that escapes nothing was meant as one.
            mended = _ESCAPE.sub(lambda found: found[0] if len(found[0]) > 1 else "\\\\", text)
            added = len(mended) - len(text)
            if not added:
                raise
            nonsense.clear()
            try:
                value = decoder.decode(mended)
            except json.JSONDecodeError:
                raise error from None
            self.problems.add(BAD_ESCAPE, _byte(offset, spelled, error.pos), added)
        if nonsense:
            first = min(found for word in set(nonsense) if (found := text.find(word)) >= 0)
            self.problems.add(NOT_A_NUMBER, _byte(offset, spelled, first), len(nonsense))
        return value

    def _too_deep(self, error: Exception, offset: int) -> TraceError:
        what = "nested too deeply" if isinstance(error, RecursionError) else f"JSON malformed: {error}"
        return TraceError(f"{self.path}: {what} for a trace of torch.profiler, near byte {offset}; {_AGAIN}")


def _refuse(word: str) -> float:
    raise json.JSONDecodeError(f"{word} is no JSON", word, 0)


_STRICT = json.JSONDecoder(parse_float=_float, parse_int=_integer, parse_constant=_refuse)


def _byte(offset: int, spelled: str, position: int) -> str:
    return f"byte {offset + len(spelled[:position].encode('utf-8', 'surrogateescape'))}"
