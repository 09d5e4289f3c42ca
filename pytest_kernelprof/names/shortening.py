"""A C++ signature without return type, template arguments and parameters."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

_PAIRS = {">": "<", ")": "("}
# Inside a qualified name these are words, although they hold brackets.
_ATOMS = re.compile(r"\(anonymous namespace\)|\{lambda[^{}]*\}|operator(?:\(\)|<<|>>|<|>)")


@lru_cache(maxsize=4096)
def base_name(name: str) -> str:
    """Return *name* without return type, template arguments and parameters.

    ``void at::native::softmax<float>(float*, int)`` becomes ``at::native::softmax``. A name that
    is no C++ signature is returned as it is.

    Args:
        name: A demangled name, as the trace holds it.
    """
    kept: list[str] = []
    open_brackets: list[str] = []
    position = 0
    while position < len(name):
        atom = _ATOMS.match(name, position)
        piece = atom[0] if atom else name[position]
        position += len(piece)
        if piece == "(" and not open_brackets and kept:
            break  # The parameters: nothing of the name follows.
        if piece in _PAIRS.values():
            open_brackets.append(piece)
        elif piece in _PAIRS:
            if not _close(open_brackets, piece):
                return name  # Unbalanced: text, not a signature.
        elif not open_brackets:
            kept.append(piece)
    bare = "".join(kept).strip()
    return name if open_brackets or not bare or bare == name else _without_return_type(bare, name)


def _close(open_brackets: list[str], closing: str) -> bool:
    """Take the bracket that *closing* closes from the list; return whether there was one.

    Inside parentheses ``<`` and ``>`` may compare instead of enclose.
    """
    opening = _PAIRS[closing]
    if opening == "<" and open_brackets and open_brackets[-1] == "(":
        return True
    while open_brackets and open_brackets[-1] != opening:
        open_brackets.pop()
    return bool(open_brackets and open_brackets.pop())


def _without_return_type(bare: str, name: str) -> str:
    if "<" not in name and " (" in name.replace("(anonymous namespace)", ""):
        return bare  # ``Memcpy DtoD (Device -> Device)``: words, not a signature.
    return bare.replace("(anonymous namespace)", "(anonymous\0namespace)").rsplit(" ", 1)[-1].replace("\0", " ")


def glob(pattern: str, name: str) -> bool:
    """Return whether the case-sensitive glob *pattern*, in which ``[`` is literal, matches *name*."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def matches(pattern: str, name: str) -> bool:
    """Return whether *pattern* matches the name of a GPU event, whole or without its C++ decoration.

    Case-sensitive, as ``fnmatch.fnmatchcase``, with ``[`` taken literally: names of kernels hold
    brackets, and a character class in a guard is a mistake more often than a wish.
    """
    return glob(pattern, name) or glob(pattern, base_name(name))


def shorten(name: str, width: int) -> str:
    """Return *name* in at most *width* characters, its middle replaced by ``...``."""
    name = "".join(c if c.isascii() and c.isprintable() else "?" for c in name)
    if len(name) <= width:
        return name
    tail = (width - 3) // 3
    return f"{name[: width - 3 - tail]}...{name[len(name) - tail :]}"
