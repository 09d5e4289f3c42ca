"""What the names of copies say: direction, and which memory takes part."""

from __future__ import annotations

import re
from functools import lru_cache

_DIRECTION = re.compile(r"\b([HDAP]to[HDAP])\b")
_LONG_DIRECTION = re.compile(
    r"(Host|Device|Pinned|Pageable|Managed|Array)\s*(?:->|To)\s*(Host|Device|Pinned|Pageable|Managed|Array)"
)
_XPU_DIRECTION = re.compile(r"\b([HMD])2([HMD])\b")
_MEMORY = re.compile(r"\((\w+) -> (\w+)\)")


@lru_cache(maxsize=256)
def copy_kind(name: str) -> str | None:
    """Return the direction of a copy, such as ``DtoH``; ``None`` if its name does not tell.

    Source:
        Kineto, ``CuptiActivity.cpp`` (``Memcpy DtoH (Device -> Pinned)``), ``RocprofActivity``
        (``CopyDeviceToHost``), ``XpuptiActivity`` (``Memcpy M2D``, M being host memory).
    """
    short = _DIRECTION.search(name)
    if short:
        return short[1]
    long = _LONG_DIRECTION.search(name)
    if long:
        return f"{_letter(long[1])}to{_letter(long[2])}"
    xpu = _XPU_DIRECTION.search(name)
    if xpu:
        return f"{xpu[1].replace('M', 'H')}to{xpu[2].replace('M', 'H')}"
    return None


def _letter(memory: str) -> str:
    return "H" if memory in ("Pinned", "Pageable", "Host") else memory[0].replace("M", "D")


@lru_cache(maxsize=256)
def pageable(name: str) -> bool | None:
    """Return whether host memory that is not pinned takes part in the copy *name*.

    ``None`` where the name says no more than ``Host``: ROCm does not tell.
    """
    memory = _MEMORY.search(name)
    if not memory:
        return None if copy_kind(name) != "DtoD" else False
    if "Pageable" in memory.groups():
        return True
    return None if any(word in ("Host", "Unknown") for word in memory.groups()) else False
