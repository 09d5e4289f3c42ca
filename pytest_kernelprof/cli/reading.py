"""Many traces: found, read one after the other or side by side, with a bar on a terminal."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..errors import KernelprofError

if TYPE_CHECKING:
    import argparse
    from concurrent.futures import Future

    from ..model import Trace

T = TypeVar("T")

_KILLED = "a process that read traces was killed, perhaps since memory ran out; use fewer --jobs"
_BAR = 24
_SILENT_SECONDS = 0.5
_BETWEEN_SECONDS = 0.1


class Failure(NamedTuple):
    """Why a file could not be read.

    Attributes:
        path: The file.
        message: One line.
    """

    path: str
    message: str


def files_of(patterns: Sequence[str]) -> list[str]:
    """Return the files that patterns name, each once, in order; one that matches nothing is kept, to be complained of.

    Shells expand globs themselves, unless they are quoted.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        matches = [pattern]
        if any(sign in pattern for sign in "*?[") and not os.path.lexists(pattern):
            from glob import glob

            matches = sorted(glob(pattern, recursive=True)) or [pattern]  # noqa: PTH207 - pathlib costs start-up
        found.update(dict.fromkeys(matches))
    return list(found)


def each(
    options: argparse.Namespace, work: Callable[[Trace], T], paths: Sequence[str] | None = None
) -> Iterator[T | Failure]:
    """Yield what *work* makes of each trace, in the order of the files; only the result of one is kept.

    Args:
        options: ``traces``, ``jobs`` and ``max_trace_size``.
        work: Takes a trace; a function of a module, so that another process finds it.
        paths: The files; by default those of the options.
    """
    paths = files_of(options.traces) if paths is None else paths
    progress = Progress(paths)
    try:
        if options.jobs > 1 and len(paths) > 1:
            yield from _side_by_side(paths, work, options, progress)
            return
        for path in paths:
            result = _made(path, work, options.max_trace_size, progress.read)
            progress.clear()
            yield result
    finally:
        progress.clear()


def _made(
    path: str, work: Callable[[Trace], T], max_bytes: int, progress: Callable[[int], object] | None = None
) -> T | Failure:
    from ..load import load_trace

    try:
        return work(load_trace(path, max_bytes=max_bytes, progress=progress))
    except KernelprofError as error:
        return Failure(path, str(error))


def _side_by_side(
    paths: Sequence[str], work: Callable[[Trace], T], options: argparse.Namespace, progress: Progress
) -> Iterator[T | Failure]:
    from collections import deque
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    executor = ProcessPoolExecutor(min(options.jobs, len(paths)), initializer=_end_with_parent)

    def submitted(path: str) -> Future[T | Failure] | None:
        try:
            return executor.submit(_made, path, work, options.max_trace_size)
        except BrokenProcessPool:  # A process was killed while the first files were still handed out.
            return None

    try:
        waiting = deque((path, submitted(path)) for path in paths)
        while waiting:
            path, future = waiting.popleft()
            result: T | Failure = Failure(path, f"{path}: not read: {_KILLED}")
            with suppress(BrokenProcessPool):
                result = future.result() if future else result
            progress.read(_size(path))
            progress.clear()
            yield result
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """Let Ctrl-C end a process that reads for another one, without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Progress:
    """A bar on standard error, where that is a terminal and reading takes a while."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Begin to read these files."""
        self._total = sum(map(_size, paths))
        self._read = 0
        self._begun = self._drawn = time.monotonic()
        self._shows = bool(self._total) and _is_terminal(sys.stderr)
        self._stands = False

    def read(self, number: int) -> None:
        """Take note that so many more bytes were read."""
        self._read += number
        now = time.monotonic()
        if self._shows and now - self._begun > _SILENT_SECONDS and now - self._drawn > _BETWEEN_SECONDS:
            self._drawn = now
            share = min(self._read / self._total, 1)
            bar = ("#" * round(share * _BAR)).ljust(_BAR, ".")
            self._write(f"\rreading [{bar}] {share:4.0%}")
            self._stands = True

    def clear(self) -> None:
        """Take the bar away, before anything else is written to the terminal."""
        if self._stands:
            self._write("\r" + " " * (_BAR + len("reading [] 100%")) + "\r")
            self._stands = False

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - pathlib costs start-up
    except OSError:
        return 0
