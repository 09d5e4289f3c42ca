"""The traces of failed tests: kept where people find them, within limits, and taken away when they are old."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .files import locked, write_at_once
from .units import counted, format_bytes

FOLDER = ".kernelprof"
"""The folder, below pytest's root, of what is kept and not committed."""
_INDEX, _LOCK = ".kept", ".kept.lock"
"""The names of what we wrote, a line each: nothing else is ever removed, whatever it is called; and its lock."""
_LOCK_SECONDS = 60


class _Kept(NamedTuple):
    """A trace that is there: sorts by age, the oldest first."""

    modified: float
    size: int
    path: Path


class Artifacts:
    """The folder of kept traces."""

    def __init__(self, folder: Path, *, most: int, max_bytes: int, since: float) -> None:
        """Take part in a run.

        Args:
            folder: Where traces are kept.
            most: How many, of this run and of earlier ones.
            max_bytes: How much they may take together.
            since: When the run began, in seconds since the epoch.
        """
        self.folder = folder
        self.most = most
        self._max_bytes = max_bytes
        self._since = since

    def keep(self, source: Path, name: str) -> str | None:
        """Keep a trace, in place of one that the same test left behind, and of older ones where there is no room.

        Returns:
            Why it is not kept; ``None`` if it is.

        Raises:
            OSError: It cannot be written.
        """
        if not self.most:
            return "kernelprof_artifacts_max is 0"
        content, goal = gzip.compress(source.read_bytes(), mtime=0), self.folder / name
        self._begin()
        with locked(self.folder / _LOCK, _LOCK_SECONDS):
            others = self._make_room(goal, len(content))
            if len(others) >= self.most:
                return f"{counted(len(others), 'trace')} are kept already (kernelprof_artifacts_max = {self.most})"
            if sum(one.size for one in others) + len(content) > self._max_bytes:
                return f"those kept may take {format_bytes(self._max_bytes)} (kernelprof_artifacts_size)"
            if goal.is_symlink():  # Whoever made it: what it leads to is not ours.
                goal.unlink()
            write_at_once(content, goal)
            if name not in self._index():
                with (self.folder / _INDEX).open("a", encoding="utf-8") as file:
                    file.write(f"{name}\n")
        return None

    def forget(self, name: str) -> None:
        """Remove what a test left behind that passes now."""
        if name in self._index():
            with suppress(OSError):
                (self.folder / name).unlink()

    def tidy(self) -> None:
        """Remove traces of earlier runs until the rest keeps to the limits, and what is gone from the index."""
        index = self._index()
        if not index:
            return
        with suppress(OSError), locked(self.folder / _LOCK, _LOCK_SECONDS):
            kept = self._remove_old(self._kept(), self.most, self._max_bytes)
            names = "".join(f"{one.path.name}\n" for one in kept)
            write_at_once(names.encode(), self.folder / _INDEX)

    def _make_room(self, goal: Path, size: int) -> list[_Kept]:
        """Remove old traces until there is room for one more of so many bytes; return the others that are there."""
        others = [one for one in self._kept() if one.path != goal]
        return self._remove_old(others, self.most - 1, self._max_bytes - size)

    def _remove_old(self, kept: list[_Kept], most: int, max_bytes: int) -> list[_Kept]:
        left = list(kept)
        for one in kept:
            within = len(left) <= most and sum(other.size for other in left) <= max_bytes
            if within or one.modified >= self._since:
                break
            with suppress(OSError):
                one.path.unlink()
            left.remove(one)
        return left

    def _begin(self) -> None:
        """Make the folder; in one that we make, nothing is to be committed."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / ".gitignore").write_text("*\n")

    def _index(self) -> set[str]:
        try:
            return set((self.folder / _INDEX).read_text(encoding="utf-8").splitlines())
        except (OSError, ValueError):
            return set()

    def _kept(self) -> list[_Kept]:
        """Return the traces that we wrote and that are still there, the oldest first."""
        found = []
        for name in self._index():
            path = self.folder / name
            with suppress(OSError):
                told = path.lstat()
                found.append(_Kept(told.st_mtime, told.st_size, path))
        return sorted(found)
