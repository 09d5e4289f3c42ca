"""What changed against a ledger, as lines that a person would say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ledger.entry import KernelLine, Line, MemcpyLine, OpLine
from ..names import shorten
from .layout import Look, listed

if TYPE_CHECKING:
    from ..ledger.difference import Change, Some

_NAME_WIDTH = 48


def changes_text(changes: Sequence[Change], look: Look) -> str:
    """Return changes, a line each, the first ones only unless every row is shown."""
    return listed(changes, "change", lambda change: change_words(change, in_full=look.width is None), look)


def change_words(change: Change, *, in_full: bool = False, had: str = "the ledger has") -> str:
    """Return one change in words, such as ``gemm bf16 tensor cores -> gemm fp32 CUDA cores``.

    Args:
        change: The change.
        in_full: Do not shorten names.
        had: How to say how many there were before.
    """
    if change.regrouped:
        sides = f"{_several(change.before, in_full)} -> {_several(change.after, in_full)}"
        return f"{change.regrouped}: {sides}"
    if change.kind == "changed":
        ((old, number),), ((new, _),) = change.before, change.after
        times = f"{number} x " if number > 1 else ""
        return times + " -> ".join(_pair(old, new, in_full))
    sign, ((line, number),) = ("+", change.after) if change.after else ("-", change.before)
    told = f"{sign}{number} {_whole(line, in_full)}"
    # That none is left of what the ledger has, the number says.
    if change.range is None or (change.range[1] == 0 and change.range[0].low == number):
        return told
    return f"{told}: {change.range[1]}, {had} {change.range[0]}"


def _several(some: Some, in_full: bool) -> str:
    return ", ".join((f"{number} x " if number > 1 else "") + _whole(line, in_full) for line, number in some)


def _whole(line: Line, in_full: bool) -> str:
    return line.words() if in_full else _short(line).words()


def _pair(old: Line, new: Line, in_full: bool) -> tuple[str, str]:
    """Return a line and what took its place; what both have in common beside the role is said once, or not at all."""
    if not in_full:
        old, new = _short(old), _short(new)
    if isinstance(old, KernelLine) and isinstance(new, KernelLine):
        library = old.library != new.library
        if old.name == new.name:
            old, new = old._replace(name=None), new._replace(name=None)
        return old.words(library=library), new.words(library=library)
    if isinstance(old, MemcpyLine) and isinstance(new, MemcpyLine) and old.words(by=False) == new.words(by=False):
        told = [f"{one.words(by=False)} ({one.size_bytes} B)" for one in (old, new)]
        return told[0], f"{told[1]} by {new.by or '(no op)'}"
    if isinstance(old, (KernelLine, OpLine)) or isinstance(new, (KernelLine, OpLine)) or old.by != new.by:
        return old.words(), new.words()
    return old.words(by=False), new.words()


def _short(line: Line) -> Line:
    if isinstance(line, KernelLine) and line.name is not None:
        name = line.name.replace("at::native::", "").replace("(anonymous namespace)::", "")
        return line._replace(name=shorten(name, _NAME_WIDTH))
    return line
