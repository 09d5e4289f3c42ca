"""Reports: what a run of tests, or recorded traces, came to: one document of plain values, and the files made of it.

Everything that a report shows is in the document; ``schemas/report-1.schema.json`` describes it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from . import __version__
from .files import write_at_once
from .load.recording import Recording
from .model import Trace
from .profile import Profile
from .report.details import details
from .report.github import append_summary
from .report.html import html_page
from .report.markdown import COMMENT_BYTES, markdown
from .report.words import told_of

SCHEMA = "kernelprof/report/1"
VERDICTS = ("fail", "error", "not measured", "pass", "nothing asked", "expected failure", "skipped")
"""Verdicts on a test; of a run the worst of the first five counts."""
_SUMMARY = "GITHUB_STEP_SUMMARY"
_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1")
_RUNS = ("CI_JOB_URL", "BUILD_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL")
_GIT_SECONDS = 5
_WITHIN = ("test", "artifact")
"""What a run keeps with a profile for itself."""


def profile_values(
    trace: Trace,
    *,
    owner: str,
    name: str,
    note: Recording | None = None,
    file: str | None = None,
    comparison: bool = False,
    detailed: bool = False,
) -> dict[str, Any]:
    """Return a profile as plain values.

    Args:
        trace: Its trace.
        owner: The test, module or file that it belongs to.
        name: Its name, or its place in the order of calls.
        note: That of the recording, if it is replayed.
        file: Where the trace lies, as far as it does.
        comparison: It is of two functions that were called in turn.
        detailed: Add all events.
    """
    numbers = Profile(trace, steps_may_differ=True).summary()
    environment = trace.environment
    return {
        "id": profile_id(owner, name),
        "owner": owner,
        "name": name,
        "comparison": comparison,
        **numbers,
        "measured": numbers["measured"] and note is None,
        "complete": trace.complete,
        "incomplete": list(trace.incomplete),
        "warnings": [warning._asdict() for warning in trace.warnings],
        "environment": {**environment._asdict(), "devices": list(environment.devices)},
        "replayed": None if note is None else _replayed(note),
        "recorded": None,
        "ledger": None,
        "trace": file,
        "details": details(trace) if detailed else None,
    }


def profile_id(owner: str, name: str) -> str:
    """Return what reports call a profile."""
    return f"{owner}#{name}"


def _replayed(note: Recording) -> dict[str, Any]:
    where = f"{note.device or 'no GPU'}, {note.day}"
    return {"from": where, "device": note.device, "date": note.date, "test": note.test, "seal": note.seal}


def document(
    tests: Iterable[Mapping[str, Any]],
    *,
    problems: Sequence[str] = (),
    notes: Sequence[str] = (),
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a report as plain values, in an order that does not depend on which test ran first.

    Args:
        tests: What became of each, with its profiles.
        problems: Why the whole is no pass, whatever its tests are.
        notes: What else there is to say.
        about: Who made it; ``folder`` is where commits are looked up.
    """
    ordered = sorted(tests, key=_place)
    profiles = _profiles(ordered)
    verdicts = Counter(test["verdict"] for test in ordered)
    told = [_test(test, profiles) for test in ordered]
    return {
        "schema": SCHEMA,
        "verdict": _verdict(verdicts, problems),
        "verdicts": {name: verdicts[name] for name in VERDICTS},
        "replayed": sum(test["replayed"] for test in ordered),
        "provenance": _provenance(about),
        "problems": list(problems),
        "notes": list(notes),
        "tests": told,
        "profiles": [profiles[one] for one in _in_order(told, profiles)],
    }


def _place(test: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return where a test stands among others; numbers in its parameters count as numbers."""
    parts = re.split(r"(\d+)", test["id"])
    return test["file"], test["line"] or 0, parts[::2], [int(part) for part in parts[1::2]]


def _verdict(verdicts: Mapping[str, int], problems: Sequence[str]) -> str:
    """Return the verdict on the whole: where nothing was measured, it is no pass."""
    worst = next((name for name in VERDICTS[:5] if verdicts[name]), "not measured")
    return "error" if problems and worst not in ("fail", "error") else worst


def _profiles(tests: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return profiles by id; of one that several workers made, the one with which something is wrong."""
    found: dict[str, dict[str, Any]] = {}
    wrong: set[str] = set()
    for test in tests:
        for row in test["profiles"]:
            known, bad = row["id"] in found, told_of(test)
            if not known or (bad and row["id"] not in wrong):
                found[row["id"]] = {name: value for name, value in row.items() if name not in _WITHIN}
            wrong |= {row["id"]} if bad else set()
    return found


def _test(test: Mapping[str, Any], profiles: Mapping[str, Any]) -> dict[str, Any]:
    """Return a test with the ids of its profiles: its own, and those of others that it read."""
    own = [row["id"] for row in test["profiles"] if row["owner"] == test["id"]]
    read = [*test.get("read", ()), *(one["profile"] for one in test["checks"])]
    told = dict.fromkeys([*own, *(one for one in read if one in profiles)])
    return {**{name: value for name, value in test.items() if name != "read"}, "profiles": list(told)}


def _in_order(tests: Iterable[Mapping[str, Any]], profiles: Mapping[str, Any]) -> list[str]:
    """Return the ids of all profiles: as tests name them, then those that nobody asked anything."""
    return list(dict.fromkeys([*(one for test in tests for one in test["profiles"]), *sorted(profiles)]))


def _provenance(about: Mapping[str, Any]) -> dict[str, Any]:
    environ = os.environ
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "tool": about["tool"],
        "pytest_kernelprof": __version__,
        "pytest": about.get("pytest"),
        "python": platform.python_version(),
        "platform": platform.system().lower(),
        "commit": next((environ[name] for name in _COMMITS if environ.get(name)), None) or _commit(about["folder"]),
        "run": _run_url(environ),
    }


def _commit(folder: Path) -> str | None:
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _run_url(environ: Mapping[str, str]) -> str | None:
    """Return where CI shows the run."""
    server, repository, number = (
        environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    )
    if server and repository and number:
        return f"{server}/{repository}/actions/runs/{number}"
    return next((environ[name] for name in _RUNS if environ.get(name)), None)


# Files


def write_all(
    report: Mapping[str, Any], files: Sequence[Path], environ: Mapping[str, str]
) -> Iterator[tuple[Path, str | None]]:
    """Write a report to files; the ending of each decides on its form.

    Markdown is also appended to the summary of the step where GitHub runs it.

    Yields:
        Each file, and why it was not written, ``None`` if it was.
    """
    for file in files:
        yield file, _attempt(lambda file=file: write_at_once(_content(report, file), file))
    summary = environ.get(_SUMMARY)
    if summary and any(file.suffix == ".md" for file in files):
        why = _attempt(lambda: append_summary(report, Path(summary)))
        if why:
            yield Path(summary), why


def _attempt(write: Any) -> str | None:
    try:
        write()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _content(report: Mapping[str, Any], file: Path) -> bytes:
    if file.suffix == ".md":
        return markdown(report, COMMENT_BYTES).encode()
    if file.suffix == ".html":
        return html_page(report).encode("ascii")
    return f"{json.dumps(report, allow_nan=False, separators=(',', ':'))}\n".encode()
