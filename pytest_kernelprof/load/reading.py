"""Bytes to rows: decompression, JSON, exact numbers. No meaning yet."""

from __future__ import annotations

import gzip
import re
import zlib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Optional, Union

import msgspec

from ..errors import TraceError

_LONGEST_NUMBER = 64
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")
_GZIP_MAGIC = b"\x1f\x8b"
_NO_TIME = msgspec.Raw(b"")


class Args(msgspec.Struct, frozen=True, gc=False):
    """The arguments that anything depends on; all others are skipped while decoding.

    Their types are not declared: ROCm writes some numbers as text, and a strange value must cost
    one field, not the file. `integer` and `triple` read them.
    """

    external_id: Any = msgspec.field(default=None, name="External id")
    correlation: Any = None
    sequence_number: Any = msgspec.field(default=None, name="Sequence number")
    device: Any = None
    stream: Any = None
    bytes: Any = None
    size: Any = None
    grid: Any = None
    block: Any = None
    registers_per_thread: Any = msgspec.field(default=None, name="registers per thread")
    shared_memory: Any = msgspec.field(default=None, name="shared memory")
    achieved_occupancy: Any = msgspec.field(default=None, name="est. achieved occupancy %")
    theoretical_occupancy: Any = msgspec.field(default=None, name="theoretical occupancy %")


NO_ARGS = Args()


class Row(msgspec.Struct, gc=False):
    """One entry of ``traceEvents``; fields that nobody reads are skipped while decoding.

    ``ts`` and ``dur`` stay text: near 1.7e15 us, Unix time, a float steps by 250 ns.
    """

    ph: Optional[str] = None  # noqa: UP045 - msgspec evaluates annotations, also on Python 3.10
    cat: Optional[str] = None  # noqa: UP045
    name: Optional[str] = None  # noqa: UP045
    pid: Union[int, str] = -1  # noqa: UP007
    tid: Union[int, str] = -1  # noqa: UP007
    ts: msgspec.Raw = _NO_TIME
    dur: msgspec.Raw = _NO_TIME
    args: Optional[Args] = NO_ARGS  # noqa: UP045


class Document(msgspec.Struct, gc=False):
    """A trace file: the rows, and the metadata that stand beside them."""

    traceEvents: list[Row]  # noqa: N815 - the key of the file
    deviceProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    cuda_runtime_version: Any = None
    cuda_driver_version: Any = None
    hip_runtime_version: Any = None
    hip_driver_version: Any = None
    pytest_kernelprof: Any = None
    path: str = ""


def decode(content: bytes, path: str) -> Document:
    """Return the rows and metadata of the trace file at *path*, given its content.

    Raises:
        TraceError: It cannot be decoded.
    """
    try:
        document = _decoded(content)
    except msgspec.ValidationError as error:
        raise TraceError(f"{path}: no trace of torch.profiler: {error}") from None
    except msgspec.DecodeError as error:
        raise TraceError(f"{path}: {_json_problem(str(error), content)}") from None
    except RecursionError:
        raise TraceError(f"{path}: nested too deeply for a trace of torch.profiler") from None
    document.path = path
    return document


def content_of(path: str) -> bytes:
    """Return the content of a trace file, decompressed.

    Raises:
        TraceError: It cannot be opened or decompressed.
    """
    return _decompressed(path, _bytes_of(path))


def _bytes_of(path: str) -> bytes:
    try:
        if not Path(path).is_file():
            kind = "no regular file" if Path(path).exists() else "no such file"
            raise TraceError(f"{path}: {kind}; expected a trace, .json or .json.gz")
        return Path(path).read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None


def _decompressed(path: str, content: bytes) -> bytes:
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except EOFError:
        raise TraceError(f"{path}: gzip stream truncated at byte {len(content)}; record the trace again") from None
    except (OSError, zlib.error) as error:
        raise TraceError(f"{path}: gzip stream corrupt: {error}; record the trace again") from None


def _decoded(content: bytes) -> Document:
    if not content.strip():
        raise msgspec.DecodeError("the file is empty")
    if content.lstrip()[:1] == b"[":
        return Document(traceEvents=msgspec.json.decode(content, type=list[Row]))
    return msgspec.json.decode(content, type=Document)


def _json_problem(problem: str, content: bytes) -> str:
    if "truncated" in problem:
        return f"JSON truncated at byte {len(content)} of {len(content)}; record the trace again"
    where = re.search(r"byte (\d+)", problem)
    line = f" (line {content[: int(where[1])].count(10) + 1})" if where else ""
    return f"{problem}{line}; record the trace again"


def nanoseconds(raw: msgspec.Raw) -> int | None:
    """Return a time in microseconds, as the file spells it, in whole nanoseconds.

    Returns:
        ``None`` if the field is missing or no finite number.

    Source:
        Trace Event Format: ``ts`` and ``dur`` are microseconds; Kineto writes three decimals.
    """
    text = bytes(raw)
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        # Three decimals, as Kineto writes them, or none: without the point these are nanoseconds.
        if text[-4:-3] == b".":
            return int(text[:-4] + text[-3:])
        return int(text) * 1000
    except ValueError:
        pass
    text = text.strip(b'"')
    if not text:
        return None
    try:
        number = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if not number.is_finite() or abs(number) > Decimal(10) ** 18:
        return None
    return round(number * 1000)


def integer(value: Any) -> int | None:
    """Return a field as an integer, also where it is text; ``None`` if it is missing or none."""
    if value is None or type(value) is int:
        return value
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def triple(value: Any) -> tuple[int, int, int] | None:
    """Return a field that is a list of three integers, or its text, such as a grid."""
    if isinstance(value, str):
        value = [int(part) for part in re.findall(r"[0-9]+", value[:_LONGEST_NUMBER])]
    if isinstance(value, list) and len(value) == 3 and all(type(part) is int for part in value):
        return (value[0], value[1], value[2])
    return None
