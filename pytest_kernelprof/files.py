"""Files that are written at once or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_READABLE_BY_ALL = 0o644


def write_at_once(content: bytes, goal: Path) -> None:
    """Write *content* in one step: a reader sees the old file or the new one.

    A symbolic link stays one, and a file keeps its mode.

    Raises:
        OSError: The file cannot be written.
    """
    goal = goal.resolve()
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
