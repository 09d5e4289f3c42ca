"""Fixtures and hooks: the only package that knows pytest. Nothing slow is imported here."""

from __future__ import annotations

import operator
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import BudgetError, MisuseError, NotMeasured, ReplayError
from ..options import OPTIONS, DeviceRequirement, RunOptions, Settings, run_options
from ..units import counted
from .kept import Kept
from .ledgers import Ledgers, test_of
from .results import LACKS_DEVICE, NOTHING_MEASURED, REPLAYED, SESSION, Results, skipped_for, test_id

if TYPE_CHECKING:
    from ..budget import Budget
    from ..capture import Health
    from ..events import Event
    from ..hints import Hint
    from ..load.recording import Recording
    from ..model import Trace
    from ..names import KernelName
    from ..profile import Profile
    from ..profiled import Profiled, Register
    from ..recordings import Place

FIXTURES = ("profiled", "module_profiled", "session_profiled")
NEEDS_FLAG = "needs --kernelprof"
_PROPERTY = "kernelprof"
_COLOURS = {"fail": {"red": True}, "error": {"red": True}, "not measured": {"yellow": True}}
_PYTEST_INDENT = len("E       ")
_SCOPES = "kernelprof_scopes"
_WIDTH = "kernelprof_width"
_NOT_RECORDED = "not recorded:"
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}
_WORDS = {"==": "", "!=": "anything but ", "<=": "at most ", "<": "below ", ">=": "at least ", ">": "above "}
_MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
_MARKER_HELP = (
    "kernelprof(device=, warmup=, steps=, steps_may_differ=, name=, activities=, setup=, trace=, budget=): how the "
    "test is profiled. device= is cpu, cuda, rocm, xpu, gpu or with a capability cuda>=9.0: the test is skipped where "
    "that is absent; warmup= and steps= count calls; setup= is called before every call and returns its arguments; "
    "trace= names a recording that several tests share; budget= names a TOML file of limits, False switches that of "
    "the project off."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options and their ini twins."""
    group = parser.getgroup("kernelprof", "assert on GPU profiler traces")
    for option in OPTIONS:
        if option.kind == "bool":
            group.addoption(option.flag, dest=option.dest, action="store_true", default=None, help=option.help)
        else:
            repeat = {"action": "append"} if option.repeats else {}
            told = {"metavar": option.metavar, "default": None, "help": option.help}
            group.addoption(option.flag, dest=option.dest, **told, **repeat)
        if option.has_ini:
            parser.addini(option.ini, option.help, type=_ini_type(option.kind), default=None)


def _ini_type(kind: str) -> Any:
    """Return the type under which pytest passes on both text and a value that TOML typed.

    We parse text ourselves, as pytest 8.0 has no numbers. Since 9.0 ``[tool.pytest]`` insists on
    the declared type, and since 9.2 a union declares several.
    """
    version = pytest.version_tuple[:2]
    if kind in ("args", "string") or version < (9, 0):
        return kind if kind == "args" else "string"
    return {"bool": str | bool, "int": str | int}[kind] if version >= (9, 2) else kind


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks that others can implement."""
    from .. import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Read the options once, and register what the run needs."""
    config.addinivalue_line("markers", _MARKER_HELP)
    try:
        options = run_options(lambda name: _ini(config, name), config.getoption)
    except MisuseError as error:
        raise pytest.UsageError(str(error)) from None
    run = Run(config, options)
    run.shared = _share_gpus(config, options)
    config.stash[_RUN] = run
    config.pluginmanager.register(run, "kernelprof-run")
    if options.enabled or options.report:
        config.pluginmanager.register(run.results, "kernelprof-results")
    if options.enabled:
        config.pluginmanager.register(run.ledgers, "kernelprof-ledgers")
        try:
            if options.settings.budget is not None:
                run.budget(options.settings.budget)
        except BudgetError as error:
            raise pytest.UsageError(str(error)) from None


def _ini(config: pytest.Config, name: str) -> Any:
    try:
        return config.getini(name)
    except (TypeError, ValueError) as error:
        told = str(error)
        raise MisuseError(told if name in told else f"{name}: {told}") from None


def _share_gpus(config: pytest.Config, options: RunOptions) -> str | None:
    """Take a GPU for this xdist worker if asked to; return why its GPU is shared, ``None`` if it is not.

    This is the last moment: a test may start CUDA, and from then on its GPUs are settled.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or not options.enabled:
        return None
    from .. import workers

    count = int(worker["workercount"])
    if options.devices == "shared":
        return workers.together(count, " (kernelprof_devices = spread gives each its own)")
    from ..capture import cuda_has_begun

    if cuda_has_begun():
        return workers.together(count, ": CUDA had started before each could be given its own")
    number = re.fullmatch(r"gw(\d+)", str(worker["workerid"]))
    if number is None:
        return workers.together(count, f": the worker has a name of its own, {worker['workerid']!r}")
    return workers.take_gpu(int(number[1]), count, os.environ)


def _marker_options(node: pytest.Item | pytest.Collector) -> dict[str, Any]:
    """Return the marker's options; where several apply, the closest wins, option by option."""
    options: dict[str, Any] = {}
    for marker in node.iter_markers("kernelprof"):
        options = {**marker.kwargs, **options}
    return options


def _settings(run: Run, node: pytest.Item | pytest.Collector) -> Settings:
    return run.options.settings.merged(_marker_options(node), f"{node.nodeid}: kernelprof marker", marker=True)


class Run:
    """One run of pytest, in one process."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        """Make it; `pytest_configure` does."""
        self.config = config
        self.options = options
        self.item: pytest.Item | None = None
        self.compared: str | None = None
        self.skipped: set[str] = set()
        self.shared: str | None = None
        self.recorded: set[Path] = set()
        self.replayed_fixtures: dict[tuple[str, str], bool] = {}
        self.refused: str | None = None
        self.decoders: dict[str, Callable[[str], KernelName | None]] = {}
        self.ledgers = Ledgers(self)
        self.results = Results(self)
        self.budgets: dict[str, Budget] = {}
        self.scopes: dict[str, bool] = {}
        self._health: Health | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def is_profiled(self, item: pytest.Item) -> bool:
        """Return whether a test is one of ours: it has the marker, or asks for a fixture."""
        return _is_profiled(item)

    # No properties: when it registers a plugin, pytest 8.0 reads every attribute of it.

    def get_health(self) -> Health:
        """Return whether the GPU still works in this process."""
        if self._health is None:
            from ..capture import Health

            self._health = Health()
        return self._health

    def new_folder(self) -> Path:
        """Return a new folder for traces; all go at the end of the run."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kernelprof-")
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def get_width(self) -> int | None:
        """Return the columns of the controller's terminal in an xdist worker; ``None`` elsewhere."""
        width: int | None = getattr(self.config, "workerinput", {}).get(_WIDTH)
        return width

    # Collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse wrong markers, and skip what needs the flag."""
        problems = dict.fromkeys(problem for item in items for problem in self._marker_problems(item))
        if problems:
            self._refuse(items, "\n".join(problems))
        if not self.options.enabled:
            for item in items:
                if _is_profiled(item):
                    item.add_marker(pytest.mark.skip(reason=NEEDS_FLAG))

    def _refuse(self, items: list[pytest.Item], problems: str) -> None:
        """Stop the run with a usage error; an xdist worker can only leave that to its controller."""
        output = getattr(self.config, "workeroutput", None)
        if output is None:
            raise pytest.UsageError(problems)
        output[_PROPERTY] = problems
        items.clear()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker how wide the terminal is, where its messages are read."""
        from ..report.layout import terminal_width

        node.workerinput[_WIDTH] = terminal_width()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Learn from an xdist worker that its markers are wrong."""
        output = getattr(node, "workeroutput", {})
        self.refused = self.refused or output.get(_PROPERTY)
        for scope, there in output.get(_SCOPES, {}).items():
            self.found_scope(scope, there)

    def _marker_problems(self, item: pytest.Item) -> Iterator[str]:
        for marker in item.iter_markers("kernelprof"):
            if marker.args:
                shown = ", ".join(map(repr, marker.args))
                yield f"{item.nodeid}: kernelprof marker: takes keywords only, got {shown}; such as device='cuda'"
        try:
            _settings(self, item)
        except MisuseError as error:
            yield str(error)

    # One test

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Know which test runs: profiles of wider fixtures are shown under the test that made them."""
        self.item = item
        forget = self._teach_names(item)
        try:
            return (yield)
        finally:
            forget()
            self.item = None

    def _teach_names(self, item: pytest.Item) -> Callable[[], object]:
        """Let the hooks of the conftest files above a test decode names during it; return what ends that.

        Nothing is loaded where there is no such hook.
        """
        hook = item.ihook.pytest_kernelprof_decode_kernel
        places = ", ".join(str(one.plugin_name) for one in hook.get_hookimpls())
        if not places and _NAMES not in sys.modules:
            return lambda: None
        from ..names import teach

        before = teach(self.decoders.setdefault(places, _decoder(hook, places)) if places else None)
        return lambda: teach(before)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip where the device is absent; otherwise create its context."""
        if not self.options.enabled or not _is_profiled(item):
            return
        device = _settings(self, item).device
        replays = self.replays(device)
        self._refuse_mixed_fixture(item, replays)
        if replays:
            self.results.record(item).replayed = True
            return
        if device is None:
            return
        from .. import capture

        reason = capture.missing_device(device)
        if reason:
            item.stash[_LACKS] = reason
            item.add_marker(pytest.mark.skip(reason=reason))
        elif device.is_gpu:
            capture.check_health(self.get_health(), f"a test before {item.nodeid}")
            if self.get_health().lost_in:
                raise NotMeasured(f"not measured: {self.get_health().why()}")
            capture.create_context(device)

    def _refuse_mixed_fixture(self, item: pytest.Item, replays: bool) -> None:
        """Refuse a fixture of wider scope that was made live for one test and is replayed for another."""
        for name, owner in (("module_profiled", item.nodeid.partition("::")[0]), ("session_profiled", "session")):
            made = self.replayed_fixtures.get((name, owner))
            if name in getattr(item, "fixturenames", ()) and made is not None and made is not replays:
                was, now = ("replayed", "live") if made else ("live", "replayed")
                raise ReplayError(
                    f"{name} was made for a test that is {was}, {item.name} is {now}; "
                    "give the tests that share it one device= (pytestmark)"
                )

    def replays(self, device: DeviceRequirement | None) -> bool:
        """Return whether tests that need *device* are judged by their recordings."""
        if self.options.replay != "missing-device":
            return self.options.replay == "always"
        if device is None or not device.is_gpu:
            return False
        from ..capture import missing_device

        return missing_device(device) is not None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Complete messages, mark tests that lack their device, and skip what was not measured if asked to."""
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, AssertionError):
            self._restore_comparison(error)
        report = yield
        if isinstance(error, NotMeasured) and self.options.not_measured == "skip":
            report.outcome = "skipped"
            path, line, _ = item.location
            report.longrepr = (str(path), (line or 0) + 1, f"Skipped: {str(error).splitlines()[0]}")
        if report.skipped and skipped_for(report) == item.stash.get(_LACKS, None):
            setattr(report, LACKS_DEVICE, True)
        return report

    def _restore_comparison(self, error: AssertionError) -> None:
        """Put back the table of a plain ``assert``, which pytest cuts after eight lines."""
        if self.compared is None:
            return
        told = str(error)
        start = told.find("assert " + self.compared.splitlines()[0])
        if start >= 0:
            error.args = (told[:start] + self.compared,)
        self.compared = None

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        """Explain ``assert profile.kernel_count == 5`` as the assertion methods do."""
        if "pytest_kernelprof.count" not in sys.modules:
            return None  # Nothing was profiled, so neither side can be a count.
        from ..count import Count

        if isinstance(left, Count):
            count, seen_from_count, other = left, op, right
        elif isinstance(right, Count):
            count, seen_from_count, other = right, _MIRRORED.get(op, op), left
        else:
            return None
        if op not in _COMPARE or _COMPARE[op](left, right):
            return None
        self.compared = count.explain(f"{_WORDS[seen_from_count]}{other}")
        return self.compared.splitlines()

    def shown(self, path: Path) -> str:
        """Return a path as messages name it: from the folder in which pytest was called."""
        try:
            return Path(os.path.relpath(path, self.config.invocation_params.dir)).as_posix()
        except ValueError:  # Another drive on Windows.
            return path.as_posix()

    def registrar(self, node: pytest.Item | pytest.Collector, place: Place) -> Register:
        """Return what the profiles of a fixture report themselves to.

        Args:
            node: The test, module or run that the fixture is for.
            place: Where recordings of its tests lie.
        """
        from ..profiled import Registered
        from ..recordings import artifact_name
        from ..reporting import profile_values

        owner = test_id(node) if isinstance(node, pytest.Item) else node.nodeid or SESSION

        def register(
            label: str, trace: Trace, file: Path, note: Recording | None, *, comparison: bool = False
        ) -> Registered:
            test = test_id(self.item) if self.item else owner
            row = profile_values(
                trace,
                owner=owner,
                name=label,
                note=note,
                file=None if note is None else self.shown(file),
                comparison=comparison,
                detailed=self.results.wants_details(),
            )
            row |= {"test": test, "artifact": artifact_name(test, label)}
            if self.item is not None and note is None:
                self.ledgers.saw(self.item, trace)
            noted = self.results.made(row, trace)
            if note is not None:
                return Registered(lambda: self.shown(file), noted)
            if self.options.record:
                row["recorded"] = self._record(trace, file, place, label, test)
            return Registered(self.results.kept.add(Kept(file, row["artifact"], test, row)), noted)

        return register

    def _record(self, trace: Trace, file: Path, place: Place, label: str, test: str) -> str:
        """Keep a trace as a recording, and return what became of it in one line."""
        from .. import recordings

        goal = place.file(label)
        kept = " (the old recording is kept)" if goal.exists() else ""
        why = recordings.why_not_recorded(trace)
        if why is None and place.shared and goal in self.recorded:
            why = recordings.conflict(goal, trace, test)
        if why:
            return f"{_NOT_RECORDED} {why}{kept}"
        try:
            recordings.write(file, goal, slim=self.options.slim)
        except OSError as error:
            return f"{_NOT_RECORDED} {self.shown(goal)}: {error.strerror}{kept}"
        self.recorded.add(goal)
        return self.shown(goal)

    def record_command(self, node: pytest.Item | pytest.Collector) -> str:
        """Return the command that records a test, as a shell takes it."""
        where = f" --kernelprof-traces={shlex.quote(self.options.traces)}" if self.options.traces else ""
        return self.command(f"--kernelprof-record{where}", node)

    def command(self, option: str, node: pytest.Item | pytest.Collector) -> str:
        """Return the command that runs a test, a module or the run with an option, as a shell takes it."""
        shown, test = self.shown(self.config.rootpath / node.nodeid.partition("::")[0]), test_of(node)
        return f"pytest {option} {shlex.quote(f'{shown}::{test}' if test else shown)}"

    def budget(self, name: str) -> Budget:
        """Return the limits in a file: on the command line below the current folder, else below pytest's root.

        Raises:
            BudgetError: It cannot be read.
        """
        __tracebackhide__ = True
        if name not in self.budgets:
            from ..budget import budget_of

            on_line = self.config.getoption("kernelprof_budget") == name
            file = (self.config.invocation_params.dir if on_line else self.config.rootpath) / name
            self.budgets[name] = budget_of(file, self.shown(file))
        return self.budgets[name]

    def found_scope(self, scope: str, there: bool) -> None:
        """Take note of a region or step that a budget limits, and whether a profile has it."""
        self.scopes[scope] = self.scopes.get(scope, False) or there

    def place(self, node: pytest.Item | pytest.Collector, shared: str | None) -> Place:
        """Return where the recordings of a test, a module or the run lie."""
        from ..recordings import FOLDER, Place

        root = self.config.rootpath
        file = node.path if isinstance(node, (pytest.Item, pytest.Module)) else root / "session"
        test = test_of(node) or ("module" if isinstance(node, pytest.Module) else "session")
        if self.options.traces is None:
            folder = file.parent / FOLDER
        else:
            parts = Path(os.path.relpath(file.parent, root)).parts
            folder = self._traces_folder(self.options.traces).joinpath(*("__up__" if p == ".." else p for p in parts))
        return Place(folder=folder, module=file.stem, test=test, tests=file.parent, shared=shared)

    # The run

    def pytest_report_header(self) -> str | None:
        """Say in the header that tests are profiled, or replayed."""
        settings, options = self.options.settings, self.options
        if not options.enabled:
            return None
        told = f"kernelprof: on (warmup {settings.warmup}, steps {settings.steps})"
        if options.devices == "spread":
            told += ", GPUs spread over xdist workers"
        if options.record:
            return f"{told}, recording"
        if options.replay == "never":
            return told
        which = "every test" if options.replay == "always" else "tests whose device is absent"
        return f"{told}, replaying {which} from recordings{self._recorded_devices()}"

    def _recorded_devices(self) -> str:
        """Return on which devices the recordings of this run's folders were made."""
        from ..recordings import devices_of, recordings_below

        if self.options.traces is not None:
            folders = [self._traces_folder(self.options.traces)]
        else:
            folders = [self.config.invocation_params.dir / arg.partition("::")[0] for arg in self.config.args]
        files = [file for folder in folders for file in recordings_below(folder, any_folder=bool(self.options.traces))]
        devices = devices_of(files)
        return f" of {', '.join(devices)}" if devices else " (there is none)"

    def _traces_folder(self, folder: str) -> Path:
        """Return ``--kernelprof-traces``: of the command line below the current folder, of an ini below the root."""
        here = self.config.getoption("kernelprof_traces") is not None
        return (self.config.invocation_params.dir if here else self.config.rootpath) / folder

    def pytest_report_teststatus(self, report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
        """Mark the results of replayed tests."""
        if not getattr(report, REPLAYED, False):
            return None
        if report.when == "call" and hasattr(report, "wasxfail") and report.outcome in ("skipped", "passed"):
            xfailed = report.outcome == "skipped"
            return ("xfailed", "x", "XFAIL (replayed)") if xfailed else ("xpassed", "X", "XPASS (replayed)")
        if report.when == "call" and report.outcome != "skipped":
            return report.outcome, "." if report.passed else "F", f"{report.outcome.upper()} (replayed)"
        return ("error", "E", "ERROR (replayed)") if report.when != "call" and report.failed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the tests that were skipped for lack of the flag or, with it, of their device."""
        if report.skipped and (skipped_for(report) == NEEDS_FLAG or getattr(report, LACKS_DEVICE, False)):
            self.skipped.add(report.nodeid)

    def profiles(self) -> list[dict[str, Any]]:
        """Return the rows of profiles; a comparison is of two that have rows of their own."""
        return [row for row in self.results.rows() if not row["comparison"]]

    def shortfall(self) -> str | None:
        """Return what is missing for ``--kernelprof-require``, in one line."""
        # One profile of a wider fixture may have been made by every xdist worker.
        measured = len({row["id"] for row in self.profiles() if row["measured"]})
        if measured >= self.options.require or self.config.option.collectonly:
            return None
        return f"kernelprof: {counted(measured, 'profile')} measured, --kernelprof-require={self.options.require}"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Fail a run that measured too little, and end with how many tests were skipped."""
        controller = not hasattr(self.config, "workerinput")
        if not controller:
            self.config.workeroutput[_SCOPES] = self.scopes  # type: ignore[attr-defined]
        shortfall = self.shortfall()
        if controller and shortfall and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        yield
        if self.refused:
            raise pytest.UsageError(self.refused)
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if controller and terminal is not None:
            if shortfall:
                terminal.write_line(shortfall, red=True)
            if self.skipped:
                terminal.write_line(self._skipped())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show one line a profile, unless asked to be quiet."""
        rows = self.profiles()
        if rows and _verbosity(self.config) >= 0:
            from ..report.layout import Look
            from ..report.run_table import View, run_table

            look = Look.of(None, _verbosity(self.config))
            verdicts = {name: test["verdict"] for name, test in self.results.tests.items()}
            terminalreporter.section("kernelprof")
            for line in run_table(rows, verdicts, View(look, self.options.sort, self.options.top)):
                terminalreporter.write_line(line.text, **_COLOURS.get(line.verdict, {}))
        for text in (*self._recorded(), *self._replayed()):
            terminalreporter.write_line(text)
        for text in (*self.absent_scopes(), *self.empty_passes()):
            terminalreporter.write_line(text, yellow=True)

    def absent_scopes(self) -> list[str]:
        """Return which regions and steps a budget limits that no profile has, a line each."""
        return [
            f"kernelprof: {scope} is in no profile of this run" for scope, there in self.scopes.items() if not there
        ]

    def empty_passes(self) -> list[str]:
        """Return how many tests passed without having measured anything, in a line; none where there are none."""
        number = sum(test["message"] == NOTHING_MEASURED for test in self.results.tests.values())
        return [f"kernelprof: {counted(number, 'test')} passed and measured nothing"] if number else []

    def notes(self) -> Iterator[tuple[str, bool]]:
        """Yield what the run says at its end, and whether that makes it fail."""
        shortfall = self.shortfall()
        yield from [(shortfall, True)] if shortfall else []
        lines = (*self._recorded(), *self._replayed(), *self.absent_scopes(), *self.empty_passes())
        yield from ((line, False) for line in lines)
        if self.skipped:
            yield self._skipped(), False

    def _skipped(self) -> str:
        """Return how many tests were skipped for lack of the flag or of their device, and what to do."""
        number = len(self.skipped)
        if not self.options.enabled:
            tests = "1 test was skipped" if number == 1 else f"{number} tests were skipped"
            return f"kernelprof: {tests} ({NEEDS_FLAG})"
        tests = "test was skipped because its" if number == 1 else "tests were skipped because their"
        cure = "" if self.options.record else " (--kernelprof-replay=missing-device judges recordings)"
        return f"kernelprof: {number} GPU {tests} device is missing{cure}"

    def _recorded(self) -> Iterator[str]:
        """Yield how many recordings were written, and which were not."""
        told = [(row["test"], row["recorded"]) for row in self.results.rows() if row["recorded"]]
        failed = [f"{test}: {what}" for test, what in told if what.startswith(_NOT_RECORDED)]
        if told:
            yield f"kernelprof: {len(told) - len(failed)} of {counted(len(told), 'profile')} recorded"
        yield from failed

    def _replayed(self) -> Iterator[str]:
        """Yield how many profiles were judged by recordings, and where and when those were made."""
        # One profile of a wider fixture may have been made by every xdist worker.
        rows = {row["id"]: row for row in self.results.rows()}.values()
        number = sum(bool(row["replayed"]) for row in rows)
        if number:
            from ..report.words import origins

            yield f"kernelprof: {number} of {counted(len(rows), 'profile')} replayed ({origins(rows)})"

    def pytest_unconfigure(self) -> None:
        """Remove the traces that were not kept."""
        if self._folder is not None:
            self._folder.cleanup()


_RUN = pytest.StashKey[Run]()
_LACKS = pytest.StashKey[str]()
"""Why the device of a test is missing."""
_BETWEEN = (__name__.partition(".")[0], "pluggy")
"""Packages whose frames stand between a test and the hook of a conftest file."""
_NAMES = "pytest_kernelprof.names"


def _decoder(hook: Any, places: str) -> Callable[[str], KernelName | None]:
    """Return a function that asks *hook* about a name, and checks what it answers."""
    source = f"the hook pytest_kernelprof_decode_kernel ({places})"

    def decode(name: str) -> KernelName | None:
        from ..names.taught import checked

        try:
            answer = hook(name=name)
        except AssertionError as error:
            # Of the hook, not of the test: no failed check, and nothing that xfail may wait for.
            raise MisuseError(f"{source} raised AssertionError: {error}") from error
        return checked(answer, source)

    return decode


def _more_hints(hook: Any) -> Callable[[Event, Profile], list[Hint]] | None:
    """Return a function that asks the hooks about an event; ``None`` where there is no hook.

    A hook that fails must not change the verdict that it was to explain: the message says so instead.
    """
    places = ", ".join(str(one.plugin_name) for one in hook.get_hookimpls())
    if not places:
        return None
    source = f"the hook pytest_kernelprof_hints ({places})"
    asking = False

    def ask(event: Event, profile: Profile) -> list[Hint]:
        nonlocal asking
        if asking:
            return []  # A hook asserted something of the profile itself, and failed.
        from ..hints import Hint, checked

        asking = True
        try:
            return [hint for answer in hook(event=event, profile=profile) for hint in checked(answer, source)]
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - see above; pytest.skip() is no Exception
            told = str(error) if isinstance(error, MisuseError) else f"{source} raised {type(error).__name__}: {error}"
            return [Hint(told, "no hint of its own is shown")]
        finally:
            asking = False

    return ask


def _shown_to(hook: Any, request: pytest.FixtureRequest) -> Callable[[Profile], None]:
    """Return a function that shows the hooks a profile; what they raise is raised as if the test had called them."""

    def show(profile: Profile) -> None:
        __tracebackhide__ = True
        try:
            hook(profile=profile, request=request)
        except Exception as error:  # noqa: BLE001 - it is raised again
            frames = error.__traceback__
            while frames is not None and frames.tb_frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
                frames = frames.tb_next
            raise error.with_traceback(frames)  # noqa: B904 - the same error

    return show


def _is_profiled(item: pytest.Item) -> bool:
    """Return whether a test is one of ours: it has the marker, or asks for a fixture."""
    names = getattr(item, "fixturenames", ())
    return item.get_closest_marker("kernelprof") is not None or any(name in names for name in FIXTURES)


def _verbosity(config: pytest.Config) -> int:
    return int(config.getoption("verbose", 0))  # Missing under ``-p no:terminal``.


def _make(request: pytest.FixtureRequest) -> Iterator[Profiled]:
    run = request.config.stash[_RUN]
    run.results.current()
    if not run.options.enabled:
        pytest.skip(NEEDS_FLAG)
    from ..profiled import Live, Profiled, Replay, Source
    from ..recordings import Wanted
    from ..report.layout import Look

    node = request.node
    settings = _settings(run, node)
    if settings.device is None and run.item is not None:
        # A fixture of wider scope serves the tests that ask for it: it needs what they need.
        settings = replace(settings, device=_settings(run, run.item).device)
    place = run.place(node, settings.trace)
    common: dict[str, Any] = {
        "test": node.nodeid or "session",
        "look": Look.of(run.get_width(), _verbosity(request.config), indent=_PYTEST_INDENT),
        "register": run.registrar(node, place),
        "must_name": _must_name(run, request.scope),
        "more_hints": _more_hints(node.ihook.pytest_kernelprof_hints),
        "book": run.ledgers.book,
        "budget": run.budget,
        "found_scope": run.found_scope,
        "show": _shown_to(node.ihook.pytest_kernelprof_profile, request),
        "is_shared": request.scope != "function",
    }
    source: Source
    folder: Path | None = None
    replays = run.replays(settings.device)
    if request.scope != "function":
        run.replayed_fixtures[(f"{request.scope}_profiled", node.nodeid or "session")] = replays
    if replays:
        wanted = Wanted(
            settings=settings,
            test_module=place.module,
            max_age=run.options.replay_max_age,
            # A fixture of wider scope is recorded by all tests that share it.
            command=run.record_command(node if isinstance(node, (pytest.Item, pytest.Module)) else run.item or node),
            max_bytes=run.options.max_trace_size,
        )
        source = Replay(place=place, wanted=wanted, **common)
    else:
        folder = run.new_folder()
        source = Live(
            folder=folder,
            health=run.get_health(),
            max_bytes=run.options.max_trace_size,
            shared=run.shared,
            records=run.options.record,
            explain=run.options.explain,
            **common,
        )
    yield Profiled(settings, source)
    source.close()
    if folder is not None:
        run.results.kept.drop(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _must_name(run: Run, scope: str) -> str | None:
    if scope == "function" or not (run.options.record or run.options.replay != "never"):
        return None
    return (
        f"recordings of {scope}_profiled are found by name, since the order of its profiles changes with the tests "
        f"that run; write {scope}_profiled.configure(name='...')"
    )


@pytest.fixture
def profiled(request: pytest.FixtureRequest) -> Iterator[Profiled]:
    """Profile a function: call it with the function and its arguments, get a Profile to assert on."""
    yield from _make(request)


@pytest.fixture(scope="module")
def module_profiled(request: pytest.FixtureRequest) -> Iterator[Profiled]:
    """Like profiled, for profiles that all tests of a module share."""
    yield from _make(request)


@pytest.fixture(scope="session")
def session_profiled(request: pytest.FixtureRequest) -> Iterator[Profiled]:
    """Like profiled, for profiles that all tests of a run share."""
    yield from _make(request)
