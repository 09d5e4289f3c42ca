"""Lines of the user's Python."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

LIBRARIES = ("torch", "triton", "functorch", "pytest_kernelprof")
"""Packages whose code is not the user's."""
_INSTALLED = ("site-packages", "dist-packages")
_GENERATED = ("<frozen ", "<eval_with_key>", "<__array_function__")
GRAPH_BREAK = "graph break"
"""What a `Site` calls where a compiled function goes on after one."""


class Site(NamedTuple):
    """A place in the user's code, and what it called.

    Attributes:
        file: Path of the file, or what stands for one, such as ``<string>``.
        line: Number of the line; where only the function is known, that of its ``def``.
        function: Name of the function around it.
        call: What was called there, such as ``masked_fill``.
        module: Path of the innermost ``nn.Module`` whose forward it is, such as ``Model.layers.0.attn``.
        inputs: What the call was given, tensors by dtype and shape.
        why_not_fused: Why SDPA could not take a fused implementation, in torch's words.
        exact: False where only the function is known.
    """

    file: str
    line: int
    function: str
    call: str = ""
    module: str = ""
    inputs: tuple[str, ...] = ()
    why_not_fused: tuple[str, ...] = ()
    exact: bool = True

    @property
    def source(self) -> str:
        """The line itself; empty where it cannot be read, or is only a ``def``."""
        return linecache.getline(self.file, self.line).strip() if self.exact else ""

    def line_only(self) -> Site:
        """Return the line without what it called."""
        return self._replace(call="", module="", inputs=(), why_not_fused=())

    @property
    def begins_a_backward_pass(self) -> bool:
        """Whether the call ran a backward pass: then an op's own line is that of its forward op."""
        return self.call in ("backward", "grad")


class Place(NamedTuple):
    """Where an event comes from.

    Attributes:
        site: The line that called the op; of a backward op, that of its forward op where that is known.
        backward: The line that began the backward pass.
    """

    site: Site
    backward: Site | None = None


class PythonCall(NamedTuple):
    """A Python function that ran, from a trace with stacks.

    Attributes:
        start_ns: Start, in nanoseconds.
        end_ns: End, in nanoseconds.
        site: The function.
    """

    start_ns: int
    end_ns: int
    site: Site


class PythonCalls:
    """The functions that ran on a thread, one inside the other."""

    def __init__(self, calls: Iterable[PythonCall]) -> None:
        """Order *calls*."""
        self._calls = sorted(calls, key=lambda call: (call.start_ns, -call.end_ns))
        self._starts = [call.start_ns for call in self._calls]
        self._around: list[int] = []
        opened: list[int] = []
        for number, call in enumerate(self._calls):
            while opened and self._calls[opened[-1]].end_ns <= call.start_ns:
                opened.pop()
            self._around.append(opened[-1] if opened else -1)
            opened.append(number)

    def at(self, now_ns: int) -> Site | None:
        """Return the innermost function that runs at a moment."""
        number = bisect_right(self._starts, now_ns) - 1
        while number >= 0 and self._calls[number].end_ns <= now_ns:
            number = self._around[number]
        return self._calls[number].site if number >= 0 else None

    def first_in(self, start_ns: int, end_ns: int) -> Site | None:
        """Return the first function that begins within a time."""
        number = bisect_left(self._starts, start_ns)
        found = number < len(self._calls) and self._starts[number] < end_ns
        return self._calls[number].site if found else None


@cache
def is_users(file: str) -> bool:
    """Return whether code of a file is the user's: not torch's, not ours, not Python's own, not generated."""
    if file.startswith(_GENERATED) or "torchinductor_" in file:
        return False
    if file.startswith("<"):
        return True
    parts = Path(file).parts
    if parts[0] in LIBRARIES:
        return False  # Of generated code there is no file to find: it is told from where the package lies.
    installed = [place for place, part in enumerate(parts[:-1]) if part in _INSTALLED]
    if installed:
        return parts[installed[-1] + 1].removesuffix(".py") not in LIBRARIES
    return not any(file.startswith(folder) for folder in _own_folders())


@lru_cache(maxsize=1)
def _own_folders() -> tuple[str, ...]:
    """Return the folders of Python's library, and of libraries that are not installed but checked out."""
    paths = sysconfig.get_paths()
    found = [paths["stdlib"], paths["platstdlib"]]
    loaded = (sys.modules.get(name) for name in LIBRARIES)
    found += [str(Path(one.__file__).parent) for one in loaded if one is not None and one.__file__]
    return tuple(f"{folder}{os.sep}" for folder in dict.fromkeys(found))


def shown_path(file: str) -> str:
    """Return a path as short as it can be told: from the current folder, or from where packages are installed."""
    if file.startswith("<"):
        return file
    for folder in _starts():
        if file.startswith(f"{folder}{os.sep}"):
            return file[len(folder) + 1 :]
    return file


def _starts() -> Iterator[str]:
    yield str(Path.cwd())
    yield from sorted((one for one in sys.path if one), key=len, reverse=True)
