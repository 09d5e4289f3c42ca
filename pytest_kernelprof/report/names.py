"""Decoded kernel names as ASCII text."""

from __future__ import annotations

from collections.abc import Sequence

from ..names import KernelName, shorten

_PIECE_WIDTH = 44
_LINE_WIDTH = 4096


def names_text(names: Sequence[KernelName]) -> str:
    """Return what ``kernelprof decode`` prints: each name, what it comes to, and its pieces."""
    return "\n\n".join(name_text(name) for name in names)


def name_text(name: KernelName) -> str:
    """Return one name, what it comes to, and its pieces with their meaning."""
    lines = [shorten(name.demangled, _LINE_WIDTH) or "(empty name)", f"  {facts(name)}"]
    width = min(_PIECE_WIDTH, max(len(part.text) for part in name.parts))
    for part in name.parts:
        piece = shorten(part.text, _PIECE_WIDTH).ljust(width)
        lines.append(f"    {piece}  {shorten(part.meaning, _LINE_WIDTH) or '-'}")
    return "\n".join(lines)


def facts(name: KernelName) -> str:
    """Return in one line what is known of a kernel, what it is for first."""
    if not name.recognized and name.library == "other":
        return "unknown: no rule knows this name; tensor cores: unknown"
    told = [
        " ".join(filter(None, (name.role, name.direction))),
        f"library {name.library}",
        ", ".join(name.dtypes),
        name.arch,
        name.tile and f"tile {name.tile}",
        name.attention_backend and f"backend {name.attention_backend}",
        f"tensor cores: {name.tensor_cores}" + (f" ({name.instruction})" if name.instruction else ""),
    ]
    fused = f"; fused ops: {', '.join(name.fused_ops)}" if name.fused_ops else ""
    return "; ".join(filter(None, told)) + fused
