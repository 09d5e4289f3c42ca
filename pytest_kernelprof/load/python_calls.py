"""Functions of Python that ran, from a trace that was recorded with stacks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..events import Thread
from ..sites import GRAPH_BREAK, PythonCall, PythonCalls, Site
from .numbers import nanoseconds

_NAME = re.compile(r"(.+)\((\d+)\): (.+)")
_LAUNCHER = ("<string>", "launcher")
"""What inductor generates to launch a Triton kernel."""
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)")


def python_calls(path: Path, is_users: Callable[[str], bool], since_ns: int) -> dict[Thread, PythonCalls]:
    """Return the calls of functions that are the user's, by thread.

    Args:
        path: A trace, ``.json``.
        is_users: Tells whether code of a file is.
        since_ns: Calls that began before are left out: those around what was profiled.

    Source:
        torch, ``collection.cpp``: a row is named ``file(line): function``, where the line is that of
        the ``def`` (or of its first decorator) and the file is told from where Python found it.
        Dynamo, ``resume_execution.py``: what follows a graph break is a function named
        ``torch_dynamo_resume_in_<function>_at_<line>``. Inductor, ``triton_heuristics.py``: ``launcher``
        is code without a file.
    """
    found: dict[Thread, list[PythonCall]] = {}
    events = json.loads(path.read_bytes(), parse_float=str)["traceEvents"]
    for event in events:
        if event.get("cat") != "python_function":
            continue
        call = _call(event, is_users)
        if call is not None and call.start_ns >= since_ns:
            found.setdefault((event["pid"], event["tid"]), []).append(call)
    return {thread: PythonCalls(calls) for thread, calls in found.items()}


def _call(event: dict[str, Any], is_users: Callable[[str], bool]) -> PythonCall | None:
    named = _NAME.fullmatch(event["name"])
    start, length = (nanoseconds(str(event.get(key, "")).encode()) for key in ("ts", "dur"))
    if named is None or start is None or length is None:
        return None
    file = _resolved(named[1])
    if not is_users(file) or (file, named[3]) == _LAUNCHER:
        return None
    resumed = _RESUMED.fullmatch(named[3])
    if resumed:
        site = Site(file, int(resumed[2]), f"{resumed[1]}, after a graph break", GRAPH_BREAK, exact=False)
    else:
        site = Site(file, int(named[2]), named[3], exact=False)
    return PythonCall(start, start + length, site)


def _resolved(file: str) -> str:
    """Return the path of a file that is told from an entry of ``sys.path``."""
    if file.startswith("<"):
        return file
    candidates = (Path(folder, file) for folder in ("", *sys.path))
    return next((str(one) for one in candidates if one.is_file()), file)
