"""Names in patterns and in tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from .demangling import demangled
from .signature import base_name, signature


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


_WRAPPERS = ("gpu_kernel_impl", "BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "TensorListMetadata")
_TELLING = ("Functor", "Ops", "_kernel", "kernel_cuda", "Impl", "_functor")


def brief(name: str) -> str:
    """Return a kernel's name for a narrow column: the function's own, for PyTorch's loops with the functor.

    ``void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, ...>(...)``
    becomes ``vectorized_elementwise_kernel (FillFunctor)``.
    """
    term = signature(demangled(name))
    if not term.arguments:
        return term.base
    short = term.base.replace("at::native::", "").replace("(anonymous namespace)::", "")
    if not term.base.startswith("at::"):
        return short
    inner = (one.base.partition("::{lambda")[0].rpartition("::")[2] for one in term.walk())
    telling = (word for word in inner if any(sign in word for sign in _TELLING) and not word.startswith(_WRAPPERS))
    functor = next(telling, None)
    return f"{short} ({functor})" if functor else short


def ascii_only(text: str) -> str:
    """Return *text* with ``?`` for what is no printable ASCII: names are data, and may hold anything."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)


def shorten(name: str, width: int) -> str:
    """Return *name* in printable ASCII and at most *width* characters, its middle replaced by ``...``."""
    name = ascii_only(name)
    if len(name) <= width:
        return name
    if width <= 3:
        return "..."[:width]
    tail = (width - 3) // 3
    return f"{name[: width - 3 - tail]}...{name[len(name) - tail :]}"


_CLOSE_WIDTH = 80
_CLOSE, _AS_CLOSE = 0.65, 0.25
"""So much of a name must agree, and so much less than in the closest may agree in others."""


def close_names(pattern: str, names: Iterable[str], number: int = 3) -> list[str]:
    """Return the names that come close to a pattern that matches none of them, the closest first.

    A pattern is compared with whole names, and with the words in them, whatever the case: what
    people forget is a star, a namespace or a letter.
    """
    from difflib import SequenceMatcher

    wanted = re.sub(r"[*?]+", "", pattern).lower()
    space = wanted[: wanted.rfind("::") + 2] if "::" in wanted else ""
    found: dict[str, float] = {}
    for name in dict.fromkeys(names):
        low = name.lower()
        if space and low.startswith(space) and wanted not in low:
            low = low[len(space) :]  # That both are ``aten::`` makes them no more alike.
        if wanted and wanted in low:
            score = 1.0 + len(wanted) / len(low)
        else:
            words = [low, *(word for word in re.split(r"::|\W+", low) if len(word) > 3)]
            words += [word[: len(wanted) + 1] for word in words if len(word) > len(wanted) + 1]
            asked = wanted[len(space) :] if space and name.lower().startswith(space) else wanted
            score = max(SequenceMatcher(None, asked, word[:200]).ratio() for word in words)
        if score >= _CLOSE:
            found[shorten(name, _CLOSE_WIDTH)] = score
    best = max(found.values(), default=0)
    close = [name for name, score in found.items() if score > best - _AS_CLOSE]
    return sorted(close, key=lambda name: -found[name])[:number]
