"""Trace file to model. The only package that knows the JSON that torch.profiler writes."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..model import Trace
from ..units import MAX_TRACE_BYTES
from .building import build
from .reading import content_of, read, read_content

__all__ = ["content_of", "load_trace", "trace_from"]


def load_trace(
    path: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_TRACE_BYTES,
    progress: Callable[[int], object] | None = None,
) -> Trace:
    """Read a trace that torch.profiler wrote, ``.json`` or ``.json.gz``.

    Args:
        path: The file; whether it is compressed is told by its first bytes, not by its name.
        max_bytes: Most that is accepted, in bytes, decompressed.
        progress: Is told, again and again, how many more bytes of the file were read.

    Raises:
        TraceError: The file cannot be read, or is no such trace; says what is wrong and where.
    """
    return build(read(os.fspath(path), max_bytes=max_bytes, progress=progress))


def trace_from(content: bytes, path: str) -> Trace:
    """Return the trace that a file holds, given its content.

    Args:
        content: The content, decompressed.
        path: The file's name, for messages.

    Raises:
        TraceError: It is no trace of torch.profiler; says what is wrong and where.
    """
    return build(read_content(content, path))
