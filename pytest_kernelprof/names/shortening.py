"""Names in patterns and in tables."""

from __future__ import annotations

from fnmatch import fnmatchcase

from .demangling import demangled
from .signature import base_name


def glob(pattern: str, name: str) -> bool:
    """Return whether the case-sensitive glob *pattern*, in which ``[`` is literal, matches *name*."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def matches(pattern: str, name: str) -> bool:
    """Return whether *pattern* matches the name of a GPU event, whole or without its C++ decoration.

    Case-sensitive, as ``fnmatch.fnmatchcase``, with ``[`` taken literally: names of kernels hold
    brackets, and a character class in a guard is a mistake more often than a wish.
    """
    readable = demangled(name)
    return glob(pattern, readable) or glob(pattern, base_name(readable)) or (readable != name and glob(pattern, name))


def shorten(name: str, width: int) -> str:
    """Return *name* in at most *width* characters, its middle replaced by ``...``."""
    name = "".join(c if c.isascii() and c.isprintable() else "?" for c in name)
    if len(name) <= width:
        return name
    tail = (width - 3) // 3
    return f"{name[: width - 3 - tail]}...{name[len(name) - tail :]}"
