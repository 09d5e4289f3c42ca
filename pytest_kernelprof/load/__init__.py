"""Trace file to model. The only package that knows the JSON that torch.profiler writes."""

from __future__ import annotations

import os

from ..model import Trace
from .building import build
from .reading import content_of, decode

__all__ = ["load_trace", "trace_from"]


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that torch.profiler wrote, ``.json`` or ``.json.gz``.

    Args:
        path: The file; whether it is compressed is told by its first bytes, not by its name.

    Raises:
        TraceError: The file cannot be read, or is no such trace; says what is wrong and where.
    """
    name = os.fspath(path)
    return trace_from(content_of(name), name)


def trace_from(content: bytes, path: str) -> Trace:
    """Return the trace that a file holds, given its content.

    Args:
        content: The content, decompressed.
        path: The file's name, for messages.

    Raises:
        TraceError: It is no trace of torch.profiler; says what is wrong and where.
    """
    return build(decode(content, path))
