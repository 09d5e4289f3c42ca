"""What became of each profiled test: collected where it runs, told where the run ends."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import NotMeasured
from ..options import shows_events
from ..units import counted
from .kept import KeptTraces
from .ledgers import test_of

if TYPE_CHECKING:
    from ..artifacts import Artifacts
    from ..judging import Answer, Noted
    from ..model import Trace
    from . import Run

_ATTRIBUTE = "kernelprof_test"
"""Of the last report of a test; under xdist it crosses to the controller with it."""
_WORST = ("fail", "error", "not measured", "expected failure", "skipped", "pass")
"""Verdicts on a test, the worst first."""
_BEGUN = "kernelprof_begun"
_CRASHED = "???"
"""What xdist says when a worker crashed: the report is of no phase of the test."""


@dataclass(slots=True)
class Record:
    """What is known of one test so far.

    Attributes:
        outcome: As pytest says: ``passed``, ``failed``, ``error``, ``skipped``, ``xfailed`` or ``xpassed``.
        verdict: What that means for what was asserted, one of those that a report knows.
        message: Why, in full.
        line: File and line of that, from pytest's root.
        replayed: Its profiles are to be judged by recordings.
        profiles: Rows of the profiles that were made in it.
        read: Ids of the profiles that it asked anything of.
        outcomes: What its assertions came to.
        checks: What was asserted, of whichever profile, for reports.
        is_ours: It asked for a fixture of ours, if only by ``getfixturevalue``.
    """

    outcome: str = "passed"
    verdict: str = "pass"
    message: str = ""
    line: tuple[str, int] | None = None
    replayed: bool = False
    profiles: list[dict[str, Any]] = field(default_factory=list)
    read: dict[str, None] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    is_ours: bool = False

    def note(self, outcome: str, verdict: str, message: str, line: tuple[str, int] | None) -> None:
        """Take note of a phase of the test; the worst of all counts."""
        if _WORST.index(verdict) < _WORST.index(self.verdict):
            self.outcome, self.verdict, self.message, self.line = outcome, verdict, message, line
        elif self.outcome == "passed":
            self.outcome = outcome


_RECORD = pytest.StashKey[Record]()


class Results:
    """The results of one run."""

    def __init__(self, run: Run) -> None:
        """Make them; `Run` does."""
        self.run = run
        self.config = run.config
        self.tests: dict[str, dict[str, Any]] = {}
        self.expected: set[str] = set()
        self.known: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        self.lines: list[tuple[str, bool]] = []
        self.kept = KeptTraces(self.get_artifacts, run.shown)
        self.begun = time.time()
        self._artifacts: Artifacts | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker when the run began: traces that are older are those of another one."""
        node.workerinput[_BEGUN] = self.begun

    def get_artifacts(self) -> Artifacts:
        """Return the folder of the traces of failed tests."""
        if self._artifacts is None:
            from ..artifacts import FOLDER, Artifacts

            options = self.run.options
            on_line = self.config.getoption("kernelprof_artifacts") is not None
            base = self.config.invocation_params.dir if on_line else self.config.rootpath
            folder = base / (options.artifacts or FOLDER)
            begun = getattr(self.config, "workerinput", {}).get(_BEGUN, self.begun)
            self._artifacts = Artifacts(
                folder, most=options.artifacts_max, max_bytes=options.artifacts_size, since=begun
            )
        return self._artifacts

    def wants_details(self) -> bool:
        """Return whether a report has all events of each profile."""
        return shows_events(self.run.options.report)

    # One test

    def record(self, item: pytest.Item) -> Record:
        """Return what is known of a test."""
        return item.stash.setdefault(_RECORD, Record())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all profiles of the run, in the order in which their tests ended."""
        return [row for test in self.tests.values() for row in test["profiles"]]

    def made(self, row: dict[str, Any], trace: Trace) -> Noted:
        """Take note of a profile; return what takes note of what is asked of it."""
        from ..judging import Noted

        profile = row["id"]
        self.known[profile] = row
        record = self.current()
        if record is not None:
            record.profiles.append(row)

        def saw(answer: Answer) -> None:
            record = self.current()
            if record is None:
                return
            record.outcomes.append(answer.outcome)
            if self.run.options.report:
                from ..answers import answer_values

                record.checks.append(answer_values(answer, profile, trace.steps, self._file_name))

        def read() -> None:
            record = self.current()
            if record is not None:
                record.read[profile] = None

        return Noted(profile, saw, read)

    def current(self) -> Record | None:
        """Return what is known of the test that runs, which is one of ours."""
        if self.run.item is None:
            return None
        record = self.record(self.run.item)
        record.is_ours = True
        return record

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Forget what an earlier run of the same test noted: some plugins run a test again."""
        item.stash[_RECORD] = Record(is_ours=self.run.is_profiled(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the last report of a test tell what became of it."""
        record, error = self.record(item), call.excinfo.value if call.excinfo else None
        lines: list[str] = []
        if error is not None and not isinstance(error, (pytest.skip.Exception, pytest.xfail.Exception)):
            # Before pytest words its report, in which the message says where the trace is.
            lines = self.kept.keep(test_id(item), error)
        report = yield
        if not record.is_ours:
            return report
        self._note_not_measured(record, error)
        record.note(*self._phase(item, report, call))
        if record.replayed:
            setattr(report, REPLAYED, True)
        if report.failed:
            report.sections += [("kernelprof", line) for line in lines]
        elif error is not None:
            self.kept.forget(test_id(item))
        if report.when == "teardown":
            self.kept.test_ended()
            values = self._values(item, record)
            if record.outcome == "passed":
                self._forget(record.profiles)
            setattr(report, _ATTRIBUTE, values)
            report.user_properties += _properties(values["verdict"], self._seen(record))
        return report

    def _note_not_measured(self, record: Record, error: BaseException | None) -> None:
        """A profile that could not answer its test counts for nothing in --kernelprof-require."""
        if isinstance(error, NotMeasured):
            for row in record.profiles:
                row["measured"] = False

    def _phase(
        self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]
    ) -> tuple[str, str, str, tuple[str, int] | None]:
        """Return outcome, verdict, message and line of a phase of a test."""
        error = call.excinfo.value if call.excinfo else None
        if report.failed:
            outcome = "failed" if report.when == "call" else "error"
            message = str(report.longrepr) if error is None else _message_of(error)
            return outcome, _verdict_of(error), message, self._line(item, call)
        if report.skipped:
            expected = hasattr(report, "wasxfail")
            message = report.wasxfail if expected else skipped_for(report)
            if expected:
                return "xfailed", "expected failure", message, None
            return "skipped", "not measured" if isinstance(error, NotMeasured) else "skipped", message, None
        return ("xpassed" if hasattr(report, "wasxfail") else "passed"), "pass", "", None

    def _line(self, item: pytest.Item, call: pytest.CallInfo[None]) -> tuple[str, int] | None:
        """Return the line of the test's file at which it failed, else the line that raised."""
        entries = list(call.excinfo.traceback) if call.excinfo else []
        own = [entry for entry in entries if Path(entry.path) == item.path] or entries
        return (self.from_root(Path(own[-1].path)), own[-1].lineno + 1) if own else None

    def _file_name(self, file: str) -> str:
        """Return a file of Python as ids of tests have it; what stands for one, and installed ones, as messages do."""
        from ..sites import shown_path

        path = Path(file)
        return self.from_root(path) if path.is_relative_to(self.config.rootpath) else shown_path(file)

    def from_root(self, path: Path) -> str:
        """Return a path as ids of tests have it: from pytest's root."""
        try:
            return Path(os.path.relpath(path, self.config.rootpath)).as_posix()
        except ValueError:  # Another drive on Windows.
            return path.as_posix()

    def _values(self, item: pytest.Item, record: Record) -> dict[str, Any]:
        file, line, _ = item.location
        verdict, message = record.verdict, record.message
        seen = self._seen(record)
        if verdict == "pass":
            why = _why_no_pass(record, seen)
            verdict, message = ("not measured", why) if why else (verdict, message)
        return {
            "id": test_id(item),
            "file": Path(file).as_posix(),
            "line": None if line is None else line + 1,
            "outcome": record.outcome,
            "verdict": verdict,
            "message": message,
            "at": None if record.line is None else {"file": record.line[0], "line": record.line[1]},
            "replayed": any(row["replayed"] for row in seen),
            "profiles": record.profiles,
            "read": list(record.read),
            "checks": record.checks,
        }

    def _seen(self, record: Record) -> list[dict[str, Any]]:
        """Return the rows of the profiles that were made in a test, and of those of others that it read."""
        made = dict.fromkeys(row["id"] for row in record.profiles)
        return [self.known[one] for one in {**made, **record.read}]

    def _forget(self, profiles: Iterable[dict[str, Any]]) -> None:
        """Remove the traces that a test left behind which passes now."""
        for row in profiles:
            self.get_artifacts().forget(row["artifact"])

    # The run

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take note of which tests there are: those that never end are in no report."""
        self.expected = {test_id(item) for item in session.items if self.run.is_profiled(item)}
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[_ATTRIBUTE] = list(self.expected)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Learn from an xdist worker which tests there are."""
        self.expected |= set(getattr(node, "workeroutput", {}).get(_ATTRIBUTE, ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what became of tests."""
        told = getattr(report, _ATTRIBUTE, None)
        if told is not None:
            self.tests[told["id"]] = told
        if report.when == _CRASHED and report.failed:
            self.problems.append(f"a worker crashed while it ran {report.nodeid}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take note of what could not be collected: its tests are in no count."""
        if report.failed:
            self.problems.append(f"could not be collected: {report.nodeid or 'the run'}")

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Write reports, when all that is to be said is known."""
        if not hasattr(self.config, "workerinput") and not self.config.option.collectonly:
            self._finish(session)
        return (yield)

    def _finish(self, session: pytest.Session) -> None:
        if self.rows():
            self.get_artifacts().tidy()
        names = self.run.options.report
        if not names:
            return
        missing = len(self.expected - set(self.tests))
        if missing:
            self.problems.append(f"{counted(missing, 'test')} did not run to the end")
        from .. import reporting

        notes = [*self.run.notes(), *self.run.ledgers.lines]
        document = reporting.document(
            self.tests.values(),
            problems=[*self.problems, *(line for line, red in notes if red)],
            notes=[line for line, red in notes if not red],
            about=self._about(),
        )
        files = dict.fromkeys(self._file(name) for name in names)
        for file, why in reporting.write_all(document, list(files), os.environ):
            told = f"kernelprof: {self.run.shown(file)}: "
            self.lines.append((f"{told}not written: {why}" if why else f"{told}written", bool(why)))
        if any(red for _, red in self.lines) and session.exitstatus in _GREEN:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _file(self, name: str) -> Path:
        on_line = self.config.getoption("kernelprof_report") is not None
        return (self.config.invocation_params.dir if on_line else self.config.rootpath) / name

    def _about(self) -> dict[str, Any]:
        return {"tool": "pytest", "pytest": pytest.__version__, "folder": self.config.rootpath}

    def annotations(self) -> Iterator[str]:
        """Yield what GitHub shows at lines of files, where the run is one of GitHub's."""
        if os.environ.get("GITHUB_ACTIONS") == "true":
            from ..report.github import workflow_commands

            problems = [*self.problems, *(line for line, red in self.run.notes() if red)]
            yield from workflow_commands(self.tests.values(), problems, self.config.rootpath, os.environ)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where reports are."""
        for line, red in self.lines:
            terminalreporter.write_line(line, red=red)
        for line in self.annotations():
            terminalreporter.ensure_newline()
            terminalreporter.write_line(line)


REPLAYED = "kernelprof_replayed"
"""Attribute of the reports of a replayed test."""
LACKS_DEVICE = "kernelprof_lacks_device"
"""Attribute of the report of a test that was skipped because its device is missing."""
SESSION = "session"
"""The owner of profiles that all tests share."""
NOTHING_MEASURED = "it passed, and nothing was measured"
_GREEN = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def test_id(item: pytest.Item) -> str:
    """Return the id of a test; pytest's own will not do, since xdist appends groups to it."""
    return f"{item.nodeid.partition('::')[0]}::{test_of(item)}"


def _why_no_pass(record: Record, seen: Iterable[dict[str, Any]]) -> str:
    """Return why a test that passes says nothing; nothing if it does."""
    if not any(row["measured"] or row["replayed"] for row in seen):
        return NOTHING_MEASURED
    if record.outcomes and not {"pass", "fail"} & set(record.outcomes):
        return "it passed, and none of its assertions came to a verdict"
    return ""


def _verdict_of(error: BaseException | None) -> str:
    if isinstance(error, NotMeasured):
        return "not measured"
    # Without an error: a test that was expected to fail, strictly, and did not.
    return "fail" if error is None or isinstance(error, (AssertionError, pytest.fail.Exception)) else "error"


def _message_of(error: BaseException) -> str:
    """Return what an error says, with its kind where that is no verdict."""
    told = str(error)
    is_verdict = isinstance(error, (AssertionError, NotMeasured, pytest.fail.Exception))
    return told if is_verdict and told else f"{type(error).__name__}: {told}" if told else type(error).__name__


def skipped_for(report: pytest.TestReport) -> str:
    """Return the reason for which a test was skipped."""
    told = report.longrepr
    return told[2].removeprefix("Skipped: ") if isinstance(told, tuple) else str(told or "")


def _properties(verdict: str, rows: Iterable[dict[str, Any]]) -> list[tuple[str, object]]:
    """Return what JUnit's XML, and others who read properties of tests, are told."""
    from ..recordings import slug

    found: list[tuple[str, object]] = [("kernelprof.verdict", verdict)]
    for row in rows:
        if row["comparison"]:
            continue
        prefix = "kernelprof" if row["name"] == "1" else f"kernelprof.{slug(row['name'])}"
        found += [(f"{prefix}.{name}", "not measured" if row[name] is None else row[name]) for name in _COUNTS]
        found += [(f"{prefix}.{name}", row[name]) for name in ("ledger", "trace") if row[name]]
        if row["replayed"]:
            found.append((f"{prefix}.replayed", row["replayed"]["from"]))
    return found


_COUNTS = ("kernels", "memcpys", "memsets", "launches", "host_syncs", "ops", "gpu_time_ns", "tensor_cores")
