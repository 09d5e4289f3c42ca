"""``kernelprof check``: whether traces keep to a budget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .arguments import add_traces, command, whole
from .output import complain
from .reading import Failure, each, files_of

if TYPE_CHECKING:
    import argparse

    from ..budget import Budget, BudgetLine
    from ..judging import Noted
    from ..model import Trace
    from ..profile import Profile
    from .output import Output

PASS, FAIL, NOT_JUDGED = "pass", "fail", "not judged"
_CODES = {PASS: 0, FAIL: 1, NOT_JUDGED: 2}
_FLAGS = (
    ("kernels", whole(0), "N", "so many kernels a step"),
    ("max-kernels", whole(0), "N", "so many kernels a step at most"),
    ("max-launches", whole(0), "N", "so many kernel and graph launches a step at most"),
    ("no-memcpy", None, None, "no memory copy"),
    ("no-copy", None, None, "no memory copy, and no kernel that only moves data"),
    ("no-memset", None, None, "no Memset"),
    ("no-own-memset", None, None, "no Memset but those of cuBLAS and cuDNN"),
    ("no-host-sync", None, None, "the host does not wait"),
    ("tensor-cores", None, None, "every matrix kernel runs on tensor cores"),
    ("sdpa-backend", str, "NAME", "the attention that ran: flash, efficient, cudnn, math or external"),
    ("max-gpu-time", str, "TIME", "GPU time a step, the median, such as 1.5ms"),
)
"""The limits that have a flag of their own; a budget has more."""
_BACKENDS = ("flash", "efficient", "cudnn", "math", "external")


class Judged(NamedTuple):
    """One limit and what became of it.

    Attributes:
        check: The limit, as a budget writes it.
        outcome: ``pass``, ``fail`` or ``not judged``.
        message: What was found; empty for a pass.
    """

    check: str
    outcome: str
    message: str


class File(NamedTuple):
    """A trace and what became of it.

    Attributes:
        file: The file.
        rank: Its rank in a distributed job, where it tells.
        checks: The limits.
        warnings: What a reader of the verdict should know, a line each.
    """

    file: str
    rank: int | None
    checks: tuple[Judged, ...]
    warnings: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The worst of its checks."""
        return max((one.outcome for one in self.checks), key=_CODES.__getitem__, default=NOT_JUDGED)


def add(commands: Any) -> None:
    """Add the command."""
    parser = command(
        commands,
        "check",
        "say whether traces keep to a budget",
        "Judge traces as tests judge live profiles. Exits with 0 if all is good, 1 if a check failed, 2 if something "
        "could not be judged.",
        run,
    )
    add_traces(parser)
    parser.add_argument(
        "--format", choices=("text", "json", "markdown"), default="text", help="how to print it (default: text)"
    )
    add_limits(parser)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the limits, and how failures are shown."""
    parser.add_argument("--budget", metavar="FILE", help="limits in TOML, such as max_kernels = 5")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every row of what a failure is about")
    for name, parse, metavar, help_ in _FLAGS:
        if name == "sdpa-backend":
            parser.add_argument(f"--{name}", choices=_BACKENDS, help=help_)
        elif parse is None:
            parser.add_argument(f"--{name}", action="store_true", default=None, help=help_)
        else:
            parser.add_argument(f"--{name}", type=parse, metavar=metavar, help=help_)
    parser.add_argument(
        "--steps-may-differ", action="store_true", help="the steps of a trace need not agree; each keeps to the limits"
    )


def run(options: argparse.Namespace, output: Output) -> int:
    """Judge traces and print what became of them; the worst exit code of all."""
    budget = limits_of(options)
    if not budget:
        options.refuse("nothing to check; accepted: --budget FILE, or flags such as --max-kernels 5 --no-memcpy")
    work = partial(judged, lines=budget, may_differ=options.steps_may_differ, verbose=options.verbose)
    found: list[File] = []
    paths = files_of(options.traces)
    for path, result in zip(paths, each(options, work, paths), strict=True):
        if isinstance(result, Failure):
            complain(result.message)
            result = File(path, None, (Judged("readable", NOT_JUDGED, result.message),))
        found.append(result)
        if options.format == "text":
            output.line(_text(result))
            output.flush()
    if options.format == "json":
        import json

        output.line(json.dumps(_values(found), indent=1))
    elif options.format == "markdown":
        output.line(_markdown(found))
    elif len(found) > 1:
        output.line(_summary(found))
    return max(_CODES[one.outcome] for one in found)


def limits_of(options: argparse.Namespace) -> Sequence[BudgetLine]:
    """Return the limits of the file and of the flags; none where there are none."""
    from ..budget import BudgetLine, budget_of, check_values

    lines: list[BudgetLine] = []
    if options.budget is not None:
        from pathlib import Path

        budget: Budget = budget_of(Path(options.budget))
        lines += budget.lines
    keys = [name.replace("-", "_") for name, *_ in _FLAGS]
    given = [BudgetLine(key, value) for key in keys if (value := getattr(options, key)) is not None]
    check_values(given, "command line")
    return (*lines, *given)


def judged(
    trace: Trace,
    *,
    lines: Sequence[BudgetLine],
    may_differ: bool,
    verbose: bool = False,
    noted: Noted | None = None,
) -> File:
    """Return what becomes of each limit; *noted* takes note of the verdicts."""
    from ..profile import Profile
    from ..report.layout import Look
    from ..report.show import warnings_of

    profile = Profile(
        trace,
        steps_may_differ=may_differ,
        look=Look.of(None, int(verbose), indent=4),
        alike_by="" if may_differ else "by default; --steps-may-differ accepts it",
        noted=noted,
    )
    checks = tuple(_judged(profile, line) for line in lines)
    if trace.outside_steps.all_calls.seen and not any(step.launches.all_calls.seen for step in trace.steps):
        why = "all calls that launch, copy or set are outside the steps: the steps say nothing"
        checks = (*checks, Judged("work in the steps", NOT_JUDGED, why))
    return File(trace.path, trace.environment.rank, checks, tuple(warnings_of(trace)))


def _judged(profile: Profile, line: BudgetLine) -> Judged:
    from ..asking import asked_by
    from ..checks import Outcome
    from ..errors import KernelprofError

    try:
        with asked_by(str(line)):
            found = profile.verdicts(line.judge)
    except KernelprofError as error:
        return Judged(str(line), NOT_JUDGED, str(error))
    if not found:
        return Judged(str(line), NOT_JUDGED, "nothing was asserted")
    outcomes = {Outcome.PASS: PASS, Outcome.FAIL: FAIL}
    worst = max(found, key=lambda one: _CODES[outcomes.get(one[0].outcome, NOT_JUDGED)])
    return Judged(str(line), outcomes.get(worst[0].outcome, NOT_JUDGED), worst[1])


_SIGNS = {PASS: "ok", FAIL: "FAIL", NOT_JUDGED: "????"}


def _text(file: File) -> str:
    from ..report.show import printable

    rank = "" if file.rank is None else f" (rank {file.rank})"
    lines = [f"{_SIGNS[file.outcome]:4}  {printable(file.file)}{rank}", *(f"  {one}" for one in file.warnings)]
    for one in file.checks:
        lines.append(f"  {_SIGNS[one.outcome]:4}  {one.check}")
        lines += [f"    {printable(line)}".rstrip() for line in one.message.splitlines()]
    return "\n".join(lines)


def _summary(files: Sequence[File]) -> str:
    from ..units import counted

    outcomes = [one.outcome for one in files]
    told = f"{counted(len(files), 'trace')}: {outcomes.count(PASS)} ok, {outcomes.count(FAIL)} failed"
    return f"{told}, {outcomes.count(NOT_JUDGED)} could not be judged"


def _values(files: Sequence[File]) -> dict[str, Any]:
    return {
        "schema": "kernelprof/check/1",
        "outcome": max((one.outcome for one in files), key=_CODES.__getitem__),
        "traces": [
            {
                "file": file.file,
                "rank": file.rank,
                "outcome": file.outcome,
                "warnings": list(file.warnings),
                "checks": [one._asdict() for one in file.checks],
            }
            for file in files
        ],
    }


def _markdown(files: Sequence[File]) -> str:
    from ..report.sections import Section, as_markdown

    rows = [
        [file.file, one.check, one.outcome, one.message.partition("\n")[0]] for file in files for one in file.checks
    ]
    table = Section(_summary(files), ("trace", "check", "outcome", "found"), rows)
    details = [
        f"<details><summary>details</summary>\n\n```text\n{_text(file).replace('```', '` ` `')}\n```\n\n</details>"
        for file in files
        if file.outcome != PASS
    ]
    return "\n\n".join([as_markdown(table, 2), *details])
