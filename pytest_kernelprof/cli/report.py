"""``kernelprof report``: what recorded traces hold, and what became of limits, as files for people and programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import add_traces, command
from .check import FAIL, NOT_JUDGED, PASS, add_limits, judged, limits_of
from .output import complain
from .reading import Failure, each, files_of

if TYPE_CHECKING:
    import argparse

    from ..budget import BudgetLine
    from ..judging import Answer
    from ..model import Trace
    from .output import Output

_VERDICTS = {PASS: "pass", FAIL: "fail", NOT_JUDGED: "not measured"}
_CODES = {"pass": 0, "nothing asked": 0, "fail": 1, "not measured": 2, "error": 2}


def add(commands: Any) -> None:
    """Add the command."""
    parser = command(
        commands,
        "report",
        "write reports of traces",
        "Write what traces hold, and what became of limits if there are any, as pytest --kernelprof-report does of a "
        "run. Exits as check does; without limits with 0 if every file could be read, else 2.",
        run,
    )
    add_traces(parser)
    parser.add_argument(
        "-o",
        "--output",
        action="append",
        required=True,
        metavar="FILE",
        help="the report: .json for programs, .md for reviewers, .html to look at; may be given several times",
    )
    add_limits(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """Write the reports; the worst exit code of all traces."""
    from ..options import parse_reports, shows_events
    from ..reporting import document, write_all

    try:
        names = parse_reports(options.output)
    except ValueError as error:
        options.refuse(f"argument -o/--output: {', '.join(options.output)!r} is not accepted; accepted: {error}")
    paths = files_of(options.traces)
    _refuse_to_replace(paths, names, options)
    lines = limits_of(options)
    work = partial(
        reported,
        lines=lines,
        may_differ=options.steps_may_differ,
        verbose=options.verbose,
        detailed=shows_events(names),
    )
    tests = []
    for path, result in zip(paths, each(options, work, paths), strict=True):
        if isinstance(result, Failure):
            complain(result.message)
            result = _test(path, "error", result.message)
        tests.append(result)
    report = document(tests, about={"tool": "kernelprof", "folder": Path.cwd()})
    code = max(_CODES[test["verdict"]] for test in tests)
    for file, why in write_all(report, [Path(name) for name in names], os.environ):
        if why:
            complain(f"{file}: not written: {why}")
            code = 2
        else:
            output.line(f"{file}: written")
    return code


def _refuse_to_replace(paths: Sequence[str], names: Sequence[str], options: argparse.Namespace) -> None:
    """Refuse a report that would take the place of a trace that it is about."""
    read = {os.path.realpath(path) for path in paths}
    for name in names:
        if os.path.realpath(name) in read:
            options.refuse(f"argument -o/--output: {name!r} is one of the traces")


def reported(
    trace: Trace, *, lines: Sequence[BudgetLine], may_differ: bool, verbose: bool, detailed: bool
) -> dict[str, Any]:
    """Return what reports tell of a trace, as if it were a test."""
    from ..answers import answer_values
    from ..judging import Noted
    from ..reporting import profile_values

    profile = profile_values(trace, owner=trace.path, name="1", file=trace.path, detailed=detailed)
    checks: list[dict[str, Any]] = []

    def saw(answer: Answer) -> None:
        checks.append(answer_values(answer, profile["id"], trace.steps))

    if not lines:
        return _test(trace.path, "nothing asked", profiles=[profile])
    found = judged(trace, lines=lines, may_differ=may_differ, verbose=verbose, noted=Noted(profile["id"], saw))
    told = [f"{one.check}: {one.message}" for one in found.checks if one.outcome != PASS]
    return _test(trace.path, _VERDICTS[found.outcome], "\n\n".join(told), [profile], checks)


def _test(
    file: str,
    verdict: str,
    message: str = "",
    profiles: Sequence[dict[str, Any]] = (),
    checks: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    return {
        "id": file,
        "file": file,
        "line": None,
        "outcome": None,
        "verdict": verdict,
        "message": message,
        "at": None,
        "replayed": False,
        "profiles": list(profiles),
        "checks": list(checks),
    }
