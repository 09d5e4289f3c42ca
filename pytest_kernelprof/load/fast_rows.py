"""Pieces of JSON to rows, fast. Imported for large files only: that alone takes as long as reading a small one."""

from __future__ import annotations

from typing import Optional, Union

import msgspec

from ..events import NO_ID
from .numbers import split_integers
from .rows import Row

_NOTHING = msgspec.Raw(b"")
_Number = Union[int, float, str, None]  # noqa: UP007 - msgspec evaluates annotations
_Triple = Union[tuple[int, ...], str, int, float, None]  # noqa: UP007


class _Args(msgspec.Struct, frozen=True, gc=False):
    external_id: _Number = msgspec.field(default=NO_ID, name="External id")
    early_external_id: _Number = msgspec.field(default=NO_ID, name="external id")
    correlation: _Number = NO_ID
    sequence_number: _Number = msgspec.field(default=NO_ID, name="Sequence number")
    device: _Number = None
    stream: _Number = None
    bytes: _Number = None
    size: _Number = None
    grid: _Triple = None
    block: _Triple = None
    registers_per_thread: _Number = msgspec.field(default=None, name="registers per thread")
    shared_memory: _Number = msgspec.field(default=None, name="shared memory")
    achieved_occupancy: _Number = msgspec.field(default=None, name="est. achieved occupancy %")
    theoretical_occupancy: _Number = msgspec.field(default=None, name="theoretical occupancy %")


_NO_ARGS = _Args()


class _Row(msgspec.Struct, gc=False):
    """Fields that nobody reads are skipped while decoding. Without gc: a row holds no row."""

    ph: Optional[str] = None  # noqa: UP045 - msgspec evaluates annotations, also on Python 3.10
    cat: Optional[str] = None  # noqa: UP045
    name: Optional[str] = None  # noqa: UP045
    pid: Union[int, str] = NO_ID  # noqa: UP007
    tid: Union[int, str] = NO_ID  # noqa: UP007
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING
    args: _Args = _NO_ARGS


_DECODER = msgspec.json.Decoder(list[_Row])


_INTEGERS = msgspec.json.Decoder(list[int])


def integers(text: bytes) -> list[int]:
    """Return the integers of a list with commas between."""
    try:
        return _INTEGERS.decode(b"[" + text + b"]")
    except msgspec.DecodeError:  # JSON forbids leading zeros: a time below 1 us has them without its point.
        return split_integers(text)


def rows_of(piece: bytes | memoryview) -> list[Row] | None:
    """Return the rows of a piece, or ``None`` if anything in it is not as it should be.

    Args:
        piece: Whole entries of the list of events, with the commas between them.
    """
    content = b"".join((b"[", piece, b"]"))
    try:
        if not content.isascii():
            content.decode()  # In fields that it skips, msgspec takes any bytes.
        return _DECODER.decode(content)  # type: ignore[return-value]
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
