"""What GitHub shows of a report: the summary of a step, and annotations at lines of files.

The limits are GitHub's: a summary of 1 MiB a step, above which it shows none of it, and ten errors and ten warnings a
step. (Source: its documentation of workflow commands, and of usage limits of annotations.)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..names import shorten
from .markdown import markdown
from .words import found, told_of

_SUMMARY_BYTES = 1024 * 1024
_LEAST_BYTES = 300
"""A summary in less room says nothing."""
_MOST, _WIDEST = 10, 200


def append_summary(report: Mapping[str, Any], file: Path) -> None:
    """Append a report to the summary of a step, in the room that is left.

    Raises:
        OSError: It cannot be written, or there is no room.
    """
    taken = file.stat().st_size if file.exists() else 0
    room = _SUMMARY_BYTES - taken - len(b"\n\n")
    if room < _LEAST_BYTES:
        raise OSError(f"the summary of the step is full ({taken} bytes)")
    with file.open("a", encoding="utf-8") as stream:
        stream.write(("\n" if taken else "") + markdown(report, room) + "\n")


def workflow_commands(
    tests: Iterable[Mapping[str, Any]], problems: Sequence[str], root: Path, environ: Mapping[str, str]
) -> Iterator[str]:
    """Yield a workflow command for each test that did not pass: at the line that launched what was not expected.

    Args:
        tests: The tests of a report.
        problems: What makes the run as a whole no pass, which comes first.
        root: What their files are told from.
        environ: ``GITHUB_WORKSPACE`` is what GitHub tells files from.
    """
    workspace = Path(environ.get("GITHUB_WORKSPACE") or root)
    told = [test for test in tests if told_of(test)]
    for problem in problems[:_MOST]:
        yield f"::error title=kernelprof::{_data(shorten(problem, 2 * _WIDEST))}"
    for level in ("error", "warning"):
        # What was not measured, and skipped for that as the user asked, is no error.
        those = [test for test in told if (test["outcome"] == "skipped") == (level == "warning")]
        most = max(0, _MOST - len(problems)) if level == "error" else _MOST
        for number, test in enumerate(those[:most], 1):
            left = len(those) - number if number == most else 0
            yield _annotation(level, test, root, workspace, f"{left} more tests did not pass" if left else "")


def _annotation(level: str, test: Mapping[str, Any], root: Path, workspace: Path, more: str) -> str:
    where = _place(test, root, workspace)
    properties = {**where, "title": shorten(f"kernelprof: {test['id']}", _WIDEST)}
    headline = shorten(found(test), 2 * _WIDEST) or test["verdict"]
    lines = [headline, f"in {shorten(test['id'], _WIDEST)}", *([more] if more else [])]
    listed = ",".join(f"{name}={_escaped(value)}" for name, value in properties.items())
    return f"::{level} {listed}::{_data(chr(10).join(lines))}"


def _place(test: Mapping[str, Any], root: Path, workspace: Path) -> dict[str, str]:
    """Return the first place that lies in the workspace: who launched it, else what asserted it, else the test."""
    guilty = [place for one in test["checks"] if one["outcome"] != "pass" for place in one["at"]]
    for place in (*guilty, test["at"], test):
        if place is None or place["line"] is None:
            continue
        file = os.path.relpath(root / place["file"], workspace)
        if not file.startswith("..") and (workspace / file).exists():
            return {"file": Path(file).as_posix(), "line": str(place["line"])}
    return {}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
