"""Fixtures and hooks: the only module that knows pytest. Nothing slow is imported here."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .errors import MisuseError, NotMeasured
from .options import OPTIONS, RunOptions, Settings, run_options

if TYPE_CHECKING:
    from .capture import Health
    from .model import Trace
    from .profiled import Profiled

FIXTURES = ("profiled", "module_profiled", "session_profiled")
NEEDS_FLAG = "needs --kernelprof"
KEPT = ".kernelprof"
_PROPERTY = "kernelprof"
_MARKER_HELP = (
    "kernelprof(device=, warmup=, steps=, steps_may_differ=, name=, activities=, setup=): how the test is profiled. "
    "device= is cpu, cuda, rocm, xpu, gpu or with a capability cuda>=9.0: the test is skipped where that is absent; "
    "warmup= and steps= count calls; setup= is called before every call and returns its arguments."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command line options and their ini twins."""
    group = parser.getgroup("kernelprof", "assert on GPU profiler traces")
    for option in OPTIONS:
        if option.kind == "bool":
            group.addoption(option.flag, dest=option.dest, action="store_true", default=None, help=option.help)
        else:
            group.addoption(option.flag, dest=option.dest, metavar=option.metavar, default=None, help=option.help)
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


def pytest_configure(config: pytest.Config) -> None:
    """Read the options once, and register what the run needs."""
    config.addinivalue_line("markers", _MARKER_HELP)
    try:
        options = run_options(lambda name: _ini(config, name), config.getoption)
    except MisuseError as error:
        raise pytest.UsageError(str(error)) from None
    run = Run(config, options)
    config.stash[_RUN] = run
    config.pluginmanager.register(run, "kernelprof-run")


def _ini(config: pytest.Config, name: str) -> Any:
    try:
        return config.getini(name)
    except (TypeError, ValueError) as error:
        told = str(error)
        raise MisuseError(told if name in told else f"{name}: {told}") from None


def _marker_options(node: pytest.Item | pytest.Collector) -> dict[str, Any]:
    """Return the marker's options; where several apply, the closest wins, option by option."""
    options: dict[str, Any] = {}
    for marker in node.iter_markers("kernelprof"):
        options = {**marker.kwargs, **options}
    return options


def _settings(run: Run, node: pytest.Item | pytest.Collector) -> Settings:
    return run.options.settings.merged(_marker_options(node), f"{node.nodeid}: kernelprof marker", marker=True)


@dataclass(slots=True)
class Kept:
    """A trace that is kept if its test fails.

    Attributes:
        file: The trace, as long as its fixture lives.
        goal: Where it is kept.
        owner: The test in which the profile was made.
        asked: A message has named it since the last test ended.
    """

    file: Path
    goal: Path
    owner: str
    asked: bool = False


class Run:
    """One run of pytest, in one process."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        """Make it; `pytest_configure` does."""
        self.config = config
        self.options = options
        self.item: pytest.Item | None = None
        self.kept: list[Kept] = []
        self.compared: str | None = None
        self.rows: list[dict[str, Any]] = []
        self.skipped = 0
        self.refused: str | None = None
        self._health: Health | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    # No properties: when it registers a plugin, pytest 8.0 reads every attribute of it.

    def get_health(self) -> Health:
        """Return whether the GPU still works in this process."""
        if self._health is None:
            from .capture import Health

            self._health = Health()
        return self._health

    def new_folder(self) -> Path:
        """Return a new folder for traces; all go at the end of the run."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kernelprof-")
        return Path(tempfile.mkdtemp(dir=self._folder.name))

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
    def pytest_testnodedown(self, node: Any) -> None:
        """Learn from an xdist worker that its markers are wrong."""
        self.refused = self.refused or getattr(node, "workeroutput", {}).get(_PROPERTY)

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
        try:
            return (yield)
        finally:
            self.item = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip where the device is absent; otherwise create its context."""
        if not self.options.enabled or not _is_profiled(item):
            return
        device = _settings(self, item).device
        if device is None:
            return
        from . import capture

        reason = capture.missing_device(device)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif device.is_gpu:
            capture.check_health(self.get_health(), f"a test before {item.nodeid}")
            if self.get_health().lost_in:
                raise NotMeasured(f"not measured: {self.get_health().why()}")
            capture.create_context(device)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Complete messages, keep traces of failures, and skip what was not measured if asked to."""
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, AssertionError):
            self._restore_comparison(error)
        report = yield
        if isinstance(error, NotMeasured) and self.options.not_measured == "skip":
            report.outcome = "skipped"
            path, line, _ = item.location
            report.longrepr = (str(path), (line or 0) + 1, f"Skipped: {str(error).splitlines()[0]}")
        if report.failed:
            self._keep_traces(item, report)
        if report.when == "teardown":
            for kept in self.kept:
                kept.asked = False
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
        if "pytest_kernelprof.profile" not in sys.modules:
            return None  # Nothing was profiled, so neither side can be a count.
        from .profile import Count

        if isinstance(left, Count):
            words = {"==": "", "!=": "anything but ", "<=": "at most ", "<": "below ", ">=": "at least ", ">": "above "}
            count, other = left, right
        elif isinstance(right, Count):
            words = {"==": "", "!=": "anything but ", "<=": "at least ", "<": "above ", ">=": "at most ", ">": "below "}
            count, other = right, left
        else:
            return None
        if op not in words:
            return None
        self.compared = count.explain(f"{words[op]}{other}")
        return self.compared.splitlines()

    def _keep_traces(self, item: pytest.Item, report: pytest.TestReport) -> None:
        for kept in self.kept:
            if (kept.asked or kept.owner == item.nodeid) and kept.file.exists():
                shown = self._shown(kept.goal)
                try:
                    _compress(kept.file, kept.goal)
                except OSError as error:
                    report.sections.append(("kernelprof", f"trace not kept: {shown}: {error.strerror}"))
                    continue
                if shown not in str(report.longrepr):
                    report.sections.append(("kernelprof", f"trace: {shown}   open in https://ui.perfetto.dev"))

    def _shown(self, path: Path) -> str:
        try:
            return Path(os.path.relpath(path, self.config.invocation_params.dir)).as_posix()
        except ValueError:  # Another drive on Windows.
            return path.as_posix()

    def registrar(self, owner: str) -> Callable[[str, Trace, Path], Callable[[], str | None]]:
        """Return what profiles of *owner* report themselves to."""

        def register(label: str, trace: Trace, file: Path) -> Callable[[], str | None]:
            name = _file_name(owner, label)
            kept = Kept(file, self.config.rootpath / KEPT / name, self.item.nodeid if self.item else owner)
            self.kept.append(kept)
            if self.item is not None:
                self.item.user_properties.append((_PROPERTY, _row(self.item.nodeid, label, trace)))

            def keep() -> str:
                kept.asked = True
                return self._shown(kept.goal)

            return keep

        return register

    # The run

    def pytest_report_header(self) -> str | None:
        """Say in the header that tests are profiled."""
        settings = self.options.settings
        return f"kernelprof: on (warmup {settings.warmup}, steps {settings.steps})" if self.options.enabled else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the profiles of a test; under xdist its report brings them."""
        if report.when == "teardown":
            self.rows += [
                value for name, value in report.user_properties if name == _PROPERTY and isinstance(value, dict)
            ]
        if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[2] == f"Skipped: {NEEDS_FLAG}":
            self.skipped += 1

    def shortfall(self) -> str | None:
        """Return what is missing for ``--kernelprof-require``, in one line."""
        measured = sum(row["measured"] for row in self.rows)
        if measured >= self.options.require:
            return None
        return f"kernelprof: {measured} profiles measured, --kernelprof-require={self.options.require}"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Fail a run that measured too little, and end with how many tests were skipped."""
        controller = not hasattr(self.config, "workerinput")
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
                tests = "1 test was skipped" if self.skipped == 1 else f"{self.skipped} tests were skipped"
                terminal.write_line(f"kernelprof: {tests} ({NEEDS_FLAG})")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show one line a profile, unless asked to be quiet."""
        if self.rows and _verbosity(self.config) >= 0:
            from .report.text import summary_table

            terminalreporter.section("kernelprof")
            terminalreporter.write_line(summary_table(self.rows))

    def pytest_unconfigure(self) -> None:
        """Remove the traces that were not kept."""
        if self._folder is not None:
            self._folder.cleanup()


_RUN = pytest.StashKey[Run]()


def _is_profiled(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return item.get_closest_marker("kernelprof") is not None or any(name in names for name in FIXTURES)


def _verbosity(config: pytest.Config) -> int:
    return int(config.getoption("verbose", 0))  # Missing under ``-p no:terminal``.


def _file_name(owner: str, label: str) -> str:
    """Return a file name that no other test has, short enough for every file system."""
    test = owner.rsplit("::", 1)[-1]
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", test if label == "1" else f"{test}_{label}").strip("_")[:80]
    digest = hashlib.sha256(f"{owner}\0{label}".encode()).hexdigest()[:8]
    return f"{slug}-{digest}.json.gz"


def _compress(source: Path, goal: Path) -> None:
    goal.parent.mkdir(parents=True, exist_ok=True)
    ignore = goal.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    # mtime=0: the same trace gives the same file.
    with (
        tempfile.NamedTemporaryFile(dir=goal.parent, delete=False) as half,
        source.open("rb") as plain,
        gzip.GzipFile(fileobj=half, mode="wb", mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed)
    Path(half.name).replace(goal)


def _row(test: str, label: str, trace: Trace) -> dict[str, Any]:
    """Return a profile as plain values, which cross from an xdist worker by themselves."""
    from .profile import Profile

    return {"test": test, "profile": label, **Profile(trace, steps_may_differ=True).summary()}


def _make(request: pytest.FixtureRequest, owner: str) -> Iterator[Profiled]:
    run = request.config.stash[_RUN]
    if not run.options.enabled:
        pytest.skip(NEEDS_FLAG)
    from .profiled import Profiled, Recorder

    recorder = Recorder(
        test=owner,
        folder=run.new_folder(),
        health=run.get_health(),
        verbose=_verbosity(request.config) > 0,
        register=run.registrar(owner),
    )
    yield Profiled(_settings(run, request.node), recorder)
    recorder.results.clear()
    run.kept = [kept for kept in run.kept if kept.file.parent != recorder.folder]
    shutil.rmtree(recorder.folder, ignore_errors=True)


@pytest.fixture
def profiled(request: pytest.FixtureRequest) -> Iterator[Profiled]:
    """Profile a function: call it with the function and its arguments, get a Profile to assert on."""
    yield from _make(request, request.node.nodeid)


@pytest.fixture(scope="module")
def module_profiled(request: pytest.FixtureRequest) -> Iterator[Profiled]:
    """Like profiled, for profiles that all tests of a module share."""
    yield from _make(request, request.node.nodeid)


@pytest.fixture(scope="session")
def session_profiled(request: pytest.FixtureRequest) -> Iterator[Profiled]:
    """Like profiled, for profiles that all tests of a run share."""
    yield from _make(request, "session")
