"""The traces of failed tests: kept where people find them, within limits, and taken away when they are old."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .recordings import write_gzip
from .units import counted, format_bytes

FOLDER = ".kernelprof"
"""The folder, below pytest's root, of what is kept and not committed."""
MOST, MAX_BYTES = 50, 1024**3
"""Limits, unless somebody says otherwise."""
_MARK = "#pytest-kernelprof:artifacts\n*\n"
"""Stands in the ``.gitignore`` of a folder from which we may remove; who names a folder of their own loses nothing."""
_NAME = re.compile(r"\w+-[0-9a-f]{8}\.json\.gz")


class _Kept(NamedTuple):
    """A trace that is there: sorts by age, the oldest first."""

    modified: float
    size: int
    path: Path


class Artifacts:
    """The folder of kept traces."""

    def __init__(self, folder: Path, *, most: int = MOST, max_bytes: int = MAX_BYTES) -> None:
        """Begin a run.

        Args:
            folder: Where traces are kept.
            most: How many, of this run and of earlier ones.
            max_bytes: How much they may take together.
        """
        self.folder = folder
        self.most = most
        self._max_bytes = max_bytes
        self._since = time.time()

    def keep(self, source: Path, name: str) -> str | None:
        """Keep a trace, in place of one that the same test left behind, and of older ones where there is no room.

        Returns:
            Why it is not kept; ``None`` if it is.

        Raises:
            OSError: It cannot be written.
        """
        goal = self.folder / name
        self._begin()
        write_gzip(source.read_bytes(), goal)
        self.tidy()
        others = [one for one in self._kept() if one.path != goal]
        if len(others) >= self.most:
            told = f"{counted(len(others), 'trace')} are kept already (kernelprof_artifacts_max = {self.most})"
        elif sum(one.size for one in others) + goal.stat().st_size > self._max_bytes:
            told = f"those kept take {format_bytes(self._max_bytes)} (kernelprof_artifacts_size)"
        else:
            return None
        goal.unlink(missing_ok=True)
        return told

    def forget(self, name: str) -> None:
        """Remove what a test left behind that passes now."""
        if self._is_ours():
            with suppress(OSError):
                (self.folder / name).unlink()

    def tidy(self) -> None:
        """Remove traces of earlier runs, the oldest first, until the rest keeps to the limits."""
        kept = self._kept()
        number, size = len(kept), sum(one.size for one in kept)
        for one in kept:
            if (number <= self.most and size <= self._max_bytes) or one.modified >= self._since or not self._is_ours():
                return
            with suppress(OSError):
                one.path.unlink()
            number, size = number - 1, size - one.size

    def _begin(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not any(self.folder.iterdir()):
            (self.folder / ".gitignore").write_text(_MARK)

    def _is_ours(self) -> bool:
        try:
            return (self.folder / ".gitignore").read_text() == _MARK
        except (OSError, ValueError):
            return False

    def _kept(self) -> list[_Kept]:
        """Return the traces that are there, the oldest first; other processes add some, and remove some."""
        found = []
        with suppress(OSError):
            for path in self.folder.iterdir():
                if _NAME.fullmatch(path.name):
                    with suppress(OSError):
                        told = path.stat()
                        found.append(_Kept(told.st_mtime, told.st_size, path))
        return sorted(found)
