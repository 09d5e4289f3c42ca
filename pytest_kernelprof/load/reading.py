"""A trace file to columns and metadata, in one pass, in memory that does not grow with the file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import TraceError
from ..units import MAX_TRACE_BYTES
from .columns import Columns
from .filling import Filler
from .own import METADATA_KEY
from .problems import BAD_METADATA, NOT_CLOSED, TRAILING_COMMA, Problems
from .rows import CarefulDecoder, Row
from .scanning import Scan, Window, last_boundary
from .source import CHUNK_BYTES, chunks

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_METADATA = frozenset(
    (
        *("deviceProperties", "distributedInfo", "cuda_runtime_version", "cuda_driver_version"),
        *("hip_runtime_version", "hip_driver_version", METADATA_KEY),
    )
)


def is_fast() -> bool:
    """Return whether msgspec is loaded already, so that a file of a single piece gains by it as well.

    The standard library reads 150 KB in the time in which msgspec is imported.
    """
    return "msgspec" in sys.modules


class Document:
    """A trace file, read: rows as columns, and what stands beside them.

    Attributes:
        path: The file.
        columns: The events.
        metadata: The entries beside the list of events that anything depends on.
        problems: Single values that could not be read.
        closed: False if the list of events was not closed: events may be missing at its end.
        entries: How many entries the list of events holds.
    """

    def __init__(self, path: str) -> None:
        """Make an empty one."""
        self.path = path
        self.problems = Problems()
        self.columns = Columns()
        self.metadata: dict[str, Any] = {}
        self.closed = True
        self.entries = 0


def read(path: str, *, max_bytes: int = MAX_TRACE_BYTES, progress: Callable[[int], object] | None = None) -> Document:
    """Read a trace file, without joining anything.

    Args:
        path: The file, ``.json`` or ``.json.gz``.
        max_bytes: Most that is accepted, decompressed.
        progress: Is told how many more bytes of the file were read.

    Raises:
        TraceError: It cannot be read, or is no trace of torch.profiler; says what is wrong and where.
    """
    return _Reader(path, chunks(path, max_bytes, progress)).read()


def read_content(content: bytes, path: str) -> Document:
    """Read a trace that is in memory already; *path* is the name for messages."""
    pieces = (content[start : start + CHUNK_BYTES] for start in range(0, len(content), CHUNK_BYTES))
    return _Reader(path, pieces).read()


class _Reader:
    """Reads the file from its first byte to its last."""

    def __init__(self, path: str, pieces: Iterable[bytes]) -> None:
        self.document = Document(path)
        self.window = Window(path, iter(pieces))
        self.careful = CarefulDecoder(path, self.document.problems)
        self.filler = Filler(self.document.columns, self.document.problems)
        self.index = 0
        self.seen_rows = False

    def read(self) -> Document:
        window = self.window
        window.grow(len(_BYTE_ORDER_MARK))
        if window.content.startswith(_BYTE_ORDER_MARK):
            window.drop(len(_BYTE_ORDER_MARK))
        first = window.peek()
        if first == b"[":
            self.careful.root = "$"
            self._read_list(may_stay_open=True)
        elif first == b"{":
            self._read_members()
        elif not first:
            raise TraceError(f"{window.path}: the file is empty; record the trace again")
        else:
            raise window.error("no JSON object or list: no trace of torch.profiler", window.offset)
        if window.peek():
            raise window.error("JSON goes on after its end", window.offset)
        if not self.seen_rows:
            raise TraceError(
                f"{window.path}: no `traceEvents` beside its other entries: no trace of torch.profiler; "
                "expected what export_chrome_trace writes"
            )
        self.document.entries = self.index
        return self.document

    def _read_members(self) -> None:
        """Read the entries of the outer object; the list of events is one of them."""
        window = self.window
        window.drop(1)
        byte = window.peek()
        while byte != b"}":
            if not byte:
                return self._end_open()
            self._expect(b'"', "a key in quotes")
            key = self._text(window.string())
            self._expect(b":", "a colon")
            window.drop(1)
            self._read_member(key)
            byte = window.peek()
            if byte == b",":
                window.drop(1)
                byte = window.peek()
            elif byte:
                self._expect(b"}", "a comma")
        window.drop(1)
        return None

    def _expect(self, wanted: bytes, what: str) -> None:
        byte = self.window.peek()
        if not byte:
            raise self.window.truncated(self.window.offset)
        if byte != wanted:
            raise self.window.error(f"JSON malformed: expected {what}", self.window.offset)

    def _end_open(self) -> None:
        if not self.seen_rows:
            raise self.window.truncated(self.window.offset)
        # The list of events was whole: nothing that is counted is missing.
        self.document.problems.add(NOT_CLOSED, f"byte {self.window.offset}")

    def _read_member(self, key: str) -> None:
        window = self.window
        if key == "traceEvents":
            if self.seen_rows:
                raise window.error("a second `traceEvents`: no trace of torch.profiler", window.offset)
            if window.peek() not in (b"[", b""):
                raise window.error("`traceEvents` is no list: no trace of torch.profiler", window.offset)
            self._expect(b"[", "a list")
            self._read_list(may_stay_open=False)
            return
        content, began = window.value(keep=key in _METADATA)
        if key in _METADATA:
            try:
                self.document.metadata[key] = self.careful.values(content, began)
            except TraceError:
                self.document.problems.add(BAD_METADATA, f"$.{key}")

    def _text(self, quoted: bytes) -> str:
        try:
            return str(json.loads(quoted))
        except ValueError:
            return quoted.decode("utf-8", "replace")

    # The list of events

    def _read_list(self, *, may_stay_open: bool) -> None:
        window = self.window
        window.drop(1)
        self.seen_rows = True
        while window.grow(CHUNK_BYTES):
            if not self._take_fast() and self._take_scanned(may_stay_open=may_stay_open):
                return
        if self._take_last():
            return
        while not self._take_scanned(may_stay_open=may_stay_open):
            pass

    def _take_fast(self) -> bool:
        """Take all that is in view but the last entry; return False where that cannot be told."""
        boundary = last_boundary(self.window.content)
        if boundary is None:
            return False
        end, start = boundary
        from .fast_rows import integers, rows_of

        self.filler.integers = integers
        rows = rows_of(memoryview(self.window.content)[:end])
        if rows is None:
            return False
        self._take(rows)
        self.window.drop(start)
        return True

    def _take_last(self) -> bool:
        """Take all entries if the last bracket in the file closes the list, as it does in most.

        It does if what stands before it decodes: see `last_boundary`.
        """
        window = self.window
        end = window.content.rfind(b"]")
        piece = window.content[:end]
        if end < 0 or piece.rstrip().endswith(b",") or not self._take_sound(piece):
            return False
        window.drop(end + 1)
        return True

    def _take_scanned(self, *, may_stay_open: bool) -> bool:
        """Take the entries in view that are whole, or look further; return whether the list ended."""
        window, scan = self.window, Scan()
        scan.run(window.content)
        if scan.too_deep:
            raise window.error("nested too deeply for a trace of torch.profiler", window.offset + scan.position)
        if scan.closed is not None:
            self._take_closing(scan)
            return True
        if scan.commas:
            self._take_bytes(window.content[: scan.commas[-1]])
            window.drop(scan.commas[-1] + 1)
            return False
        if window.grow_by_half("end of an event"):
            return False
        return self._end_list(scan, may_stay_open=may_stay_open)

    def _take_closing(self, scan: Scan) -> None:
        """Take the last entries, and the bracket that closes the list."""
        window, closed = self.window, scan.closed or 0
        if window.content[closed : closed + 1] != b"]":
            raise window.error("JSON malformed: expected ]", window.offset + closed)
        last = window.content[:closed].rstrip()
        if last.endswith(b","):
            self.document.problems.add(TRAILING_COMMA, f"byte {window.offset + len(last) - 1}")
            last = last[:-1]
        if last.strip():
            self._take_bytes(last)
        window.drop(closed + 1)

    def _end_list(self, scan: Scan, *, may_stay_open: bool) -> bool:
        """Judge a file that ends inside the list of events."""
        window = self.window
        rest = window.content.strip()
        if rest and (scan.depth or not may_stay_open or not rest.endswith(b"}")):
            raise window.truncated(self._last_sense(window.content))
        if not may_stay_open:
            raise window.truncated(window.offset)
        if rest:
            self._take_bytes(window.content)
        window.drop(len(window.content))
        # The Trace Event Format lets a bare list end so; what was cut off there looks the same.
        self.document.problems.add(NOT_CLOSED, f"byte {window.offset}")
        self.document.closed = False
        return True

    def _last_sense(self, content: bytes) -> int:
        """Return the offset up to which an unfinished entry made sense."""
        text = "[" + content.decode("utf-8", "surrogateescape")
        try:
            json.JSONDecoder(strict=False).decode(text)
        except json.JSONDecodeError as error:
            return self.window.offset - 1 + len(text[: error.pos].encode("utf-8", "surrogateescape"))
        except (RecursionError, ValueError):
            pass
        return self.window.offset

    def _take_sound(self, piece: bytes) -> bool:
        """Take whole entries if nothing about them is strange; return whether that was so."""
        if not piece.strip():
            return True
        if is_fast():
            from .fast_rows import rows_of

            rows = rows_of(piece)
            if rows is not None:
                self._take(rows)
            return rows is not None
        entries = self.careful.sound_entries(piece)
        if entries is None:
            return False
        self._take_entries(entries)
        return True

    def _take_bytes(self, piece: bytes) -> None:
        """Take whole entries, however strange."""
        if not is_fast() or not self._take_sound(piece):
            self._take_entries(self.careful.values(b"[" + piece + b"]", self.window.offset - 1))

    def _take_entries(self, entries: list[Any]) -> None:
        rows, numbers = self.careful.rows(entries, self.index)
        self.filler.add(rows, numbers, self.careful.root)
        self.index += len(entries)

    def _take(self, rows: list[Row]) -> None:
        """Take rows of which each entry is one."""
        self.filler.add(rows, range(self.index, self.index + len(rows)), self.careful.root)
        self.index += len(rows)


def content_of(path: str | os.PathLike[str], *, max_bytes: int = MAX_TRACE_BYTES) -> bytes:
    """Return the whole content of a trace file, decompressed.

    Raises:
        TraceError: It cannot be opened or decompressed, or holds more than *max_bytes*.
    """
    return b"".join(chunks(os.fspath(path), max_bytes))
