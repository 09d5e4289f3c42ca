"""Mangled names, as very long kernel names stay in traces, made readable."""

from __future__ import annotations

from functools import lru_cache

_KERNEL_DESCRIPTOR = ".kd"


@lru_cache(maxsize=4096)
def demangled(name: str) -> str:
    """Return *name* demangled; a name that is not mangled, or cannot be demangled, as it is.

    LLVM's demangler does the work, through pycxxfilt, which is imported when the first mangled
    name comes by. Where it is not installed (it needs Python 3.11), mangled names stay text.

    Args:
        name: A kernel's name, as the trace holds it.

    Source:
        The Itanium C++ ABI: mangled names begin with ``_Z``. ROCm's tools append ``.kd``, for
        kernel descriptor (AMDGPU usage guide of LLVM).
    """
    if not name.startswith("_Z"):
        return name
    try:
        import pycxxfilt
    except ImportError:
        return name
    mangled = name.removesuffix(_KERNEL_DESCRIPTOR)
    try:
        return pycxxfilt.itanium_demangle(mangled) or name
    except ValueError:  # No valid mangled name; a UnicodeEncodeError is one too.
        return name
