"""The ledgers of a run: what its tests ask of them, and what is written at its end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import LedgerError, MisuseError
from ..units import counted

if TYPE_CHECKING:
    from ..ledger.accounts import Accounts
    from ..ledger.book import Book
    from ..ledger.document import Entries, Place, Write
    from ..model import Trace
    from . import Run

_BOOK = pytest.StashKey["Book | None"]()
_KEYS = pytest.StashKey[set[str]]()
_PASSED = pytest.StashKey[bool]()
_LEDGER = "kernelprof_ledger"
_WELL = ("updated", "new", "same")
"""What may become of an entry in a test that passes; the first is the one to show."""
_CI = ("CI", "BUILD_NUMBER")
"""Variables that CI systems set, as pytest itself looks at them; the second is Jenkins'."""
_NOT_CI = ("", "0", "false")


def test_of(node: pytest.Item | pytest.Collector) -> str:
    """Return the name of a test, or of a class, within its file: ``TestMask::test_one[16]``; empty for a file.

    Its id will not do: xdist appends groups to it.
    """
    inside = [one.name for one in node.listchain() if not isinstance(one, (pytest.File, pytest.Dir, pytest.Session))]
    return "::".join(inside)


def _mark(rows: Sequence[dict[str, Any]], book: Book) -> None:
    """Say in the rows of a test's profiles what became of their entries: the worst, where there are several."""
    for row in rows:
        states = [note.state for note in book.notes if note.profile == row["name"]]
        if states:
            row["ledger"] = min(states, key=lambda state: _WELL.index(state) if state in _WELL else -1)


class Ledgers:
    """The ledgers of one run: what its tests ask of them, and what is written at its end."""

    def __init__(self, run: Run) -> None:
        """Make them; `Run` does."""
        self.run = run
        self.config = run.config
        self.entries: dict[Path, Entries] = {}
        self.collected: dict[str, dict[str, list[str]]] = {}
        self.accounts: Accounts | None = None
        self.lines: list[tuple[str, bool]] = []

    # One test

    def book(self) -> Book:
        """Return the ledger beside the test that runs, as that test sees it."""
        item = self.run.item
        if item is None:
            raise MisuseError("assert_matches_ledger() was called outside a test; a ledger has an entry a test")
        book = item.stash.get(_BOOK, None)
        if book is None:
            book = item.stash[_BOOK] = self._open(item)
        return book

    def _open(self, item: pytest.Item) -> Book:
        from ..ledger.book import Book, Policy
        from ..ledger.document import ledger_of

        options, file = self.run.options, ledger_of(item.path)
        return Book(
            test=test_of(item),
            shown=self.run.shown(file),
            policy=Policy(
                update=options.update,
                add=options.update or options.update_new or not self._is_strict(),
                level=options.ledger_level,
                key_parts=options.ledger_key,
            ),
            command=lambda option: self.run.command(option, item),
            entries=partial(self._read, file),
        )

    def _is_strict(self) -> bool:
        strict = self.run.options.strict
        return any(os.environ.get(name, "").lower() not in _NOT_CI for name in _CI) if strict is None else strict

    def _read(self, file: Path, update: str) -> Entries:
        __tracebackhide__ = True
        if file not in self.entries:
            from ..ledger.document import read

            self.entries[file] = read(file, self.run.shown(file), update)
        return self.entries[file]

    def saw(self, item: pytest.Item, trace: Trace) -> None:
        """Take note of the environment of a profile, which says what entries its test could have asked for."""
        from ..ledger.book import environments_of

        item.stash.setdefault(_KEYS, set()).update(environments_of(trace, self.run.options.ledger_key))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Forget what an earlier run of the same test noted: some plugins run a test again."""
        item.stash[_BOOK], item.stash[_KEYS], item.stash[_PASSED] = None, set(), True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the last report of a test tell what became of its entries; under xdist it crosses to the controller."""
        report = yield
        # Also of a subtest: what fails or skips may have kept the test from asking.
        passed = report.passed and not hasattr(report, "wasxfail")
        item.stash[_PASSED] = item.stash.get(_PASSED, True) and passed
        if call.when == "teardown":
            from ..ledger.document import ledger_of

            file, book = ledger_of(item.path), item.stash.get(_BOOK, None)
            keys: set[str] = item.stash.get(_KEYS, set())
            if book is not None:
                _mark(self.run.results.record(item).profiles, book)
            if book is not None or file.exists():
                told = {
                    "file": str(file),
                    "test": test_of(item),
                    "passed": item.stash.get(_PASSED, False),
                    "keys": sorted(keys),
                    "notes": [note.values() for note in book.notes] if book else [],
                }
                setattr(report, _LEDGER, told)
        return report

    # The run

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Take note of the tests of a file, before anything selects among them."""
        report = yield
        is_tests = isinstance(collector, (pytest.Module, pytest.Class)) and type(collector).__name__ != "DoctestModule"
        if not report.passed or not is_tests or not self._is_collected_whole(collector.path):
            return report
        from ..ledger.document import ledger_of

        file = ledger_of(collector.path)
        if file.exists():
            found = self.collected.setdefault(str(file), {}).setdefault(test_of(collector), [])
            found += [test_of(node) for node in report.result]
        return report

    def _is_collected_whole(self, file: Path) -> bool:
        """Return whether a test file is asked for as a whole; what runs of it may still be selected.

        What did not fail last time is not even collected under ``--lf``.
        """
        here = self.config.invocation_params.dir
        single = (arg.partition("::")[0] for arg in self.config.args if "::" in arg)
        return not self.config.getoption("lf", False) and all((here / arg).resolve() != file for arg in single)

    def pytest_collection_finish(self) -> None:
        """Tell the controller which tests there are."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[_LEDGER] = self.collected

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Learn from an xdist worker which tests there are."""
        collected = getattr(node, "workeroutput", {}).get(_LEDGER)
        if collected:
            self._accounts().add_collected(collected)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what tests noted."""
        told = getattr(report, _LEDGER, None)
        if told is not None:
            self._accounts().add_test(told)

    def _accounts(self) -> Accounts:
        if self.accounts is None:
            from ..ledger.accounts import Accounts

            self.accounts = Accounts()
        return self.accounts

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Write what is to be written, and fail the run if that cannot be done."""
        if not hasattr(self.config, "workerinput") and not self.config.option.collectonly:
            self._settle(interrupted=session.exitstatus == pytest.ExitCode.INTERRUPTED)
            wrong = any(red for _, red in self.lines)
            if wrong and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def _settle(self, *, interrupted: bool) -> None:
        accounts = self._accounts()
        accounts.add_collected(self.collected)
        unused = 0
        for file in sorted({*accounts.files, *self._lying_about()}):
            unused += self._settle_one(file, accounts, interrupted=interrupted)
        if unused and not self.run.options.update:
            self._tell(f"{counted(unused, 'ledger entry')} unused; --kernelprof-update removes what is unused")

    def _settle_one(self, file: Path, accounts: Accounts, *, interrupted: bool) -> int:
        """Bring one ledger up to date; return how many entries of it are unused."""
        from ..ledger.document import has_test_file, read, test_file_of

        shown, writes = self.run.shown(file), accounts.writes(file)
        command = f"pytest --kernelprof-update {shlex.quote(self.run.shown(test_file_of(file)))}"
        for place in accounts.contradictions(file):
            self._tell(f"{shown}: not written: {place.words()} was measured twice, with different results", red=True)
        unused: list[Place] = []
        try:
            entries = self.entries[file] if file in self.entries else read(file, shown, command)
            unused = [] if interrupted else accounts.unused(file, entries, has_test_file=has_test_file(file))
            for place in unused:
                self._tell(f"{shown}: unused: {place.words()}")
            self._write(file, writes, unused if self.run.options.update else [], command)
        except LedgerError as error:
            if writes or self._is_ledger(file):  # Whatever else lies there is none of ours.
                self._tell(str(error), red=bool(writes))
        except OSError as error:
            where = f" ({self.run.shown(Path(error.filename))})" if error.filename else ""
            self._tell(f"{shown}: not written: {error.strerror or error}{where}", red=True)
        return len(unused)

    def _write(self, file: Path, writes: Mapping[Place, Write], removed: Sequence[Place], command: str) -> None:
        """Write one ledger, if there is anything to be written, and say what was."""
        from ..ledger.document import update

        if not writes and not removed:
            return
        shown = self.run.shown(file)
        lost = update(file, writes, removed, shown=shown, command=command)
        updated = sum(write.replaces for write in writes.values())
        told = [(len(writes) - updated, "added"), (updated, "updated"), (len(removed), "removed")]
        done = ", ".join(f"{number} {what}" for number, what in told if number)
        self._tell(f"{shown}: {counted(len(writes) + len(removed), 'entry')} written: {done}")
        for line in lost:
            self._tell(f"{shown}: {line}")

    def _tell(self, line: str, *, red: bool = False) -> None:
        """Say something at the end of the run; what is *red* fails it."""
        self.lines.append((f"kernelprof: {line}", red))

    def _is_ledger(self, file: Path) -> bool:
        with suppress(OSError):
            return b"kernelprof/ledger/" in file.read_bytes()
        return True

    def _lying_about(self) -> Iterator[Path]:
        """Yield the ledgers below the folders of this run: a test file may be gone, and its ledger not."""
        from ..ledger.document import ledgers_below

        for argument in self.config.args:
            folder = self.config.invocation_params.dir / argument.partition("::")[0]
            if folder.is_dir():
                yield from ledgers_below(folder, self.config.getini("norecursedirs"))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what became of ledgers."""
        for line, red in self.lines:
            terminalreporter.write_line(line, red=red)
