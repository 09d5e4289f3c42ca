"""Files that are written at once or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

_READABLE_BY_ALL = 0o644


def write_at_once(content: bytes, goal: Path) -> None:
    """Write *content* in one step: a reader sees the old file or the new one.

    A symbolic link stays one, and a file keeps its mode. What is no file, such as a device, is written to.

    Raises:
        OSError: The file cannot be written.
    """
    goal = goal.resolve()
    if goal.exists() and not goal.is_file():
        with goal.open("wb") as device:
            device.write(content)
        return
    mode = goal.stat().st_mode & 0o777 if goal.exists() else _READABLE_BY_ALL
    goal.parent.mkdir(parents=True, exist_ok=True)
    handle, half = tempfile.mkstemp(dir=goal.parent, prefix=".half-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(half).chmod(mode)
        Path(half).replace(goal)
    except BaseException:
        Path(half).unlink(missing_ok=True)
        raise


def locked(file: Path, seconds: float) -> AbstractContextManager[object]:
    """Return what lets no other process into its ``with`` block that locks the same file.

    Raises:
        OSError: In the block's place: others did not let go of it in so many seconds, or it cannot be written.
    """
    from filelock import FileLock

    return FileLock(file, timeout=seconds)
