"""The outer structure of a JSON file that is not held in memory: where values begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import TraceError
from .source import CHUNK_BYTES

_SPACE = b" \t\n\r"
_LONGEST_PIECE = 16 * 1024**2
_DEEPEST = 500
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\],]', re.DOTALL)
_SCALAR_END = re.compile(rb"[,\]}\s]")
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_FURTHEST_TRIES = 200


class Window:
    """The part of a file that is being looked at.

    Attributes:
        path: The file, for messages.
        content: The bytes in view.
        offset: Where they begin in the decompressed file.
    """

    def __init__(self, path: str, chunks: Iterator[bytes]) -> None:
        """Start at the beginning of the file."""
        self.path = path
        self.content = b""
        self.offset = 0
        self._chunks = chunks
        self._ended = False

    def grow(self, size: int) -> bool:
        """Read on until at least *size* bytes are in view; return False if the file ends before."""
        parts, length = [self.content], len(self.content)
        while length < size and not self._ended:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
            else:
                parts.append(chunk)
                length += len(chunk)
        if len(parts) > 1:
            self.content = b"".join(parts)
        return length >= size

    def grow_by_half(self, what: str) -> bool:
        """Read on; return whether there was more.

        Raises:
            TraceError: *what* is being looked for is longer than anything in a trace.
        """
        if len(self.content) >= _LONGEST_PIECE:
            raise self.error(f"no {what} within {_LONGEST_PIECE >> 20} MiB", self.offset)
        before = len(self.content)
        self.grow(before * 3 // 2 + CHUNK_BYTES)
        return len(self.content) > before

    def drop(self, size: int) -> None:
        """Move on by *size* bytes."""
        self.content = self.content[size:]
        self.offset += size

    def peek(self) -> bytes:
        """Return the next byte that is no space, which then is the first in view; empty at the end."""
        while True:
            rest = self.content.lstrip(_SPACE)
            self.drop(len(self.content) - len(rest))
            if rest:
                return rest[:1]
            if not self.grow(CHUNK_BYTES) and not self.content:
                return b""

    def string(self) -> bytes:
        """Take a string in quotes; the first byte in view is its first quote."""
        while True:
            found = _TOKEN.match(self.content)
            if found and found.end() > 1:
                self.drop(found.end())
                return found[0]
            if not self.grow_by_half("end of a string"):
                raise self.truncated(self.offset)

    def value(self, *, keep: bool) -> tuple[bytes, int]:
        """Take any value; return its bytes, if they are to be kept, and where it began."""
        first, began = self.peek(), self.offset
        if first == b'"':
            return self.string(), began
        if first in (b"{", b"["):
            return self._nested(keep=keep), began
        while not (found := _SCALAR_END.search(self.content)):
            if not self.grow_by_half("end of a value"):
                raise self.truncated(self.offset)
        taken = self.content[: found.start()]
        self.drop(found.start())
        return taken, began

    def _nested(self, *, keep: bool) -> bytes:
        """Take an object or a list; what is not kept is not held in memory either."""
        parts: list[bytes] = []
        scan = Scan()
        while True:
            scan.run(self.content, stop_at_close=True)
            end = scan.position if scan.closed is None else scan.closed
            if keep:
                parts.append(self.content[:end])
                if sum(map(len, parts)) > _LONGEST_PIECE:
                    raise self.error(f"an entry of more than {_LONGEST_PIECE >> 20} MiB beside the events", self.offset)
            self.drop(end)
            if scan.closed is not None:
                return b"".join(parts)
            if scan.too_deep:
                raise self.error("nested too deeply for a trace of torch.profiler", self.offset)
            scan.position = 0
            if not self.grow_by_half("end of a string"):
                raise self.truncated(self.offset)

    def error(self, what: str, where: int) -> TraceError:
        """Return an error at a byte offset."""
        return TraceError(f"{self.path}: {what}, at byte {where}; record the trace again")

    def truncated(self, where: int) -> TraceError:
        """Return the error for a file that ended too early; *where* is how far it made sense."""
        length = self.offset + len(self.content)
        return TraceError(f"{self.path}: JSON truncated at byte {where} of {length}; record or copy the trace again")


def last_boundary(content: bytes) -> tuple[int, int] | None:
    """Return the end of an object near the end of *content* and the start of the one that follows it.

    It looks like a boundary between two entries of the list; a string may look the same. Whether it
    is one shows when what stands before it is decoded: no prefix of a list that ends inside a string
    or a nested value becomes whole by a closing bracket.
    """
    position = len(content)
    for _ in range(_FURTHEST_TRIES):
        position = content.rfind(b"}", 0, position)
        if position < 0:
            return None
        found = _BETWEEN.match(content, position)
        if found:
            return position + 1, found.end() - 1
    return None


class Scan:
    """Walks over brackets and strings, bit by bit.

    Attributes:
        position: How far it came.
        depth: Open brackets.
        commas: Where commas stood outside all of them.
        closed: Where the bracket closed that the walk began in, or began with.
        too_deep: It met more open brackets than any trace has.
    """

    def __init__(self) -> None:
        """Start at the beginning."""
        self.position = 0
        self.depth = 0
        self.commas: list[int] = []
        self.closed: int | None = None
        self.too_deep = False

    def run(self, content: bytes, *, stop_at_close: bool = False) -> None:
        """Walk on from `position`, until a string or the bytes end.

        Args:
            content: The bytes.
            stop_at_close: The first bracket is in them: stop after its twin. Otherwise it stands
                before them: stop at its twin.
        """
        depth = self.depth
        position = self.position
        for found in _TOKEN.finditer(content, position):
            token = found[0]
            if token in (b"{", b"["):
                depth += 1
                if depth > _DEEPEST:
                    self.too_deep = True
                    break
            elif token in (b"}", b"]"):
                if depth == 0 or (depth == 1 and stop_at_close):
                    self.closed = found.end() if stop_at_close else found.start()
                    break
                depth -= 1
            elif token == b",":
                if depth == 0:
                    self.commas.append(found.start())
            elif token == b'"':
                break  # Its end is not in view.
            position = found.end()
        else:
            position = len(content)
        self.depth, self.position = depth, position
