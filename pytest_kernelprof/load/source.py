"""A file to chunks of decompressed bytes; every reason why it cannot be opened, in one line."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from ..errors import TraceError
from ..units import MAX_TRACE_BYTES, format_bytes

CHUNK_BYTES = 256 * 1024
"""How much is read at a time. A study of reading found 128 to 256 KiB best."""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib: the largest window, with a gzip header
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe; save it to a file first"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def chunks(
    path: str, max_bytes: int = MAX_TRACE_BYTES, progress: Callable[[int], object] | None = None
) -> Iterator[bytes]:
    """Yield the content of a trace file, decompressed; memory does not grow with the file.

    Args:
        path: The file. Whether it is compressed is told by its first bytes, not by its name.
        max_bytes: Most that is accepted, decompressed.
        progress: Is told how many more bytes of the file were read, as it lies there.

    Raises:
        TraceError: It cannot be opened or decompressed, or holds more.
    """
    total = 0
    for chunk in _decompressed(path, _raw_chunks(path, progress)):
        total += len(chunk)
        if total > max_bytes:
            raise TraceError(
                f"{path}: holds more than {format_bytes(max_bytes)}; if it can be trusted, "
                "raise kernelprof_max_trace_size (on the command line --max-trace-size)"
            )
        yield chunk


def _raw_chunks(path: str, progress: Callable[[int], object] | None) -> Iterator[bytes]:
    try:
        # Asked before opening: opening a pipe waits for somebody to write.
        mode = os.stat(path).st_mode  # noqa: PTH116 - pathlib costs 4 ms of start-up
        if not stat.S_ISREG(mode):
            kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "no regular file")
            raise TraceError(f"{path}: {kind}; expected a trace, .json or .json.gz")
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            while chunk := file.read(CHUNK_BYTES):
                if progress is not None:
                    progress(len(chunk))
                yield chunk
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file; expected a trace, .json or .json.gz") from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise TraceError(f"{path!r}: {error}; expected a trace, .json or .json.gz") from None


def _decompressed(path: str, raw: Iterator[bytes]) -> Iterator[bytes]:
    first = next(raw, b"")
    if first[:2] != _GZIP_MAGIC:
        yield first
        yield from raw
        return
    yield from _members(path, chain((first,), raw))


def _members(path: str, raw: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what the gzip streams of a file hold: there may be several, with zeros between and after."""
    member, read = zlib.decompressobj(_GZIP_WINDOW), 0
    for packed in raw:
        read += len(packed)
        full = False
        while packed or full:
            if member.eof:
                packed = packed.lstrip(b"\0")
                if not packed:
                    break
                member = zlib.decompressobj(_GZIP_WINDOW)
            try:
                found = member.decompress(packed, CHUNK_BYTES)
            except zlib.error as error:
                told = str(error).partition(": ")[2] or str(error)
                place = (
                    f"in the {CHUNK_BYTES >> 10} KiB before byte {read}"
                    if read > CHUNK_BYTES
                    else f"before byte {read}"
                )
                raise TraceError(
                    f"{path}: gzip stream corrupt {place}: {told}; record or copy the trace again"
                ) from None
            yield found
            packed = member.unconsumed_tail or member.unused_data
            full = len(found) == CHUNK_BYTES and not member.eof
    if not member.eof:
        raise TraceError(f"{path}: gzip stream truncated at byte {read}; record or copy the trace again")
