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

_GZIP_MAGIC = b"\x1f\x8b"
_TS_KEPT = msgspec.Raw(b"")


class Row(msgspec.Struct, gc=False):
    """One entry of ``traceEvents``; fields that nobody reads are skipped while decoding.

    ``ts`` and ``dur`` stay text: near 1.7e15 us, Unix time, a float steps by 250 ns.
    """

    ph: Optional[str] = None  # noqa: UP045 - msgspec evaluates annotations, also on Python 3.10
    cat: Optional[str] = None  # noqa: UP045
    name: Optional[str] = None  # noqa: UP045
    pid: Union[int, str, float, None] = None  # noqa: UP007
    tid: Union[int, str, float, None] = None  # noqa: UP007
    ts: msgspec.Raw = _TS_KEPT
    dur: msgspec.Raw = _TS_KEPT
    args: Any = None


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


def read(path: str) -> Document:
    """Return the rows and metadata of the trace file at *path*.

    Raises:
        TraceError: It cannot be opened, decompressed or decoded.
    """
    content = _decompressed(path, _bytes_of(path))
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
    text = bytes(raw).strip(b'"')
    whole, _, fraction = text.partition(b".")
    if len(fraction) <= 3 and fraction.isdigit() and whole.lstrip(b"-").isdigit():
        return int(whole + fraction.ljust(3, b"0"))
    if not fraction and whole.lstrip(b"-").isdigit():
        return int(whole) * 1000
    try:
        number = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if not number.is_finite() or abs(number) > Decimal(10) ** 18:
        return None
    return round(number * 1000)


def integer(args: Any, key: str) -> int | None:
    """Return ``args[key]`` as an integer; ROCm writes some numbers as text."""
    value = args.get(key) if isinstance(args, dict) else None
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def triple(args: Any, key: str) -> tuple[int, int, int] | None:
    """Return ``args[key]``, a list of three integers or its text, such as a grid."""
    value = args.get(key) if isinstance(args, dict) else None
    if isinstance(value, str):
        value = [int(part) for part in re.findall(r"\d+", value)]
    if isinstance(value, list) and len(value) == 3 and all(type(part) is int for part in value):
        return (value[0], value[1], value[2])
    return None
