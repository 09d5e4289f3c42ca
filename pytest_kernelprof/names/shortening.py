"""A C++ signature without return type, template arguments and parameters."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

_OPENING, _CLOSING = "<(", ">)"
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
    depth = position = 0
    while position < len(name):
        atom = _ATOMS.match(name, position)
        if atom:
            if depth == 0:
                kept.append(atom[0])
            position = atom.end()
            continue
        character = name[position]
        if character in _OPENING:
            if character == "(" and depth == 0 and kept:
                break  # The parameters: nothing of the name follows.
            depth += 1
        elif character in _CLOSING:
            depth -= 1
            if depth < 0:
                return name  # Unbalanced: text, not a signature.
        elif depth == 0:
            kept.append(character)
        position += 1
    bare = "".join(kept).strip()
    if depth != 0 or not bare:
        return name
    return _without_return_type(bare)


def _without_return_type(bare: str) -> str:
    protected = bare.replace("(anonymous namespace)", "(anonymous\0namespace)")
    last = protected.rsplit(" ", 1)[-1] if protected.startswith(("void ", "static ", "auto ")) else protected
    return last.replace("\0", " ")


def matches(pattern: str, name: str) -> bool:
    """Return whether the glob *pattern* matches *name*, whole or without its C++ decoration.

    Case-sensitive, as ``fnmatch.fnmatchcase``, with ``[`` taken literally: names of kernels hold
    brackets, and a character class in a guard is a mistake more often than a wish.
    """
    glob = pattern.replace("[", "[[]")
    return fnmatchcase(name, glob) or fnmatchcase(base_name(name), glob)


def shorten(name: str, width: int) -> str:
    """Return *name* in at most *width* characters, its middle replaced by ``...``."""
    name = "".join(c if c.isascii() and c.isprintable() else "?" for c in name)
    if len(name) <= width:
        return name
    tail = (width - 3) // 3
    return f"{name[: width - 3 - tail]}...{name[len(name) - tail :]}"
