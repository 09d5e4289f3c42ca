"""Trace file to model. The only package that knows the JSON that torch.profiler writes."""

from __future__ import annotations

import os

from ..model import Trace
from .building import build
from .reading import read

__all__ = ["load_trace"]


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that torch.profiler wrote, ``.json`` or ``.json.gz``.

    Args:
        path: The file; whether it is compressed is told by its first bytes, not by its name.

    Raises:
        TraceError: The file cannot be read, or is no such trace; says what is wrong and where.
    """
    return build(read(os.fspath(path)))
