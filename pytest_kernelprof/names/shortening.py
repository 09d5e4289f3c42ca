"""Names in patterns and in tables."""

from __future__ import annotations

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
