"""From a verdict to an exception with its message; several at once in ``with profile.checks():``."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import NoReturn

from .checks import Outcome, Verdict
from .errors import MisuseError, NotMeasured, TooNoisy
from .report import text
from .report.layout import Look

_ERRORS: dict[Outcome, type[Exception]] = {
    Outcome.FAIL: AssertionError,
    Outcome.NOT_MEASURED: NotMeasured,
    Outcome.TOO_NOISY: TooNoisy,
}
"""What each outcome but a pass raises, the one that says most first."""

_collector: ContextVar[list[Verdict] | None] = ContextVar("kernelprof_checks", default=None)


class Checks:
    """Collects the failures of the assertions inside its ``with`` block and raises them together.

    A class and no ``@contextmanager``, so that a failure points at the user's line.
    """

    def __init__(self, raise_all: Callable[[list[Verdict]], None]) -> None:
        """Make a collector; *raise_all* raises what was collected."""
        self._raise_all = raise_all
        self._verdicts: list[Verdict] = []

    def __enter__(self) -> Checks:
        if _collector.get() is not None:
            raise MisuseError("checks() inside checks(); one block collects everything in it")
        self._verdicts = []
        self._token = _collector.set(self._verdicts)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        __tracebackhide__ = True
        _collector.reset(self._token)
        if error is None:
            self._raise_all(self._verdicts)
        elif isinstance(error, (AssertionError, NotMeasured)) and self._verdicts:
            # TooNoisy is a NotMeasured: the last that fits is the closest.
            outcome = [one for one, kind in _ERRORS.items() if isinstance(error, kind)][-1]
            self._raise_all([*self._verdicts, Verdict(outcome, str(error))])
        elif not isinstance(error, (Exception, KeyboardInterrupt, SystemExit, GeneratorExit)):
            # pytest.skip() and pytest.xfail(): what failed before them must not vanish.
            self._raise_all(self._verdicts)


class Judge:
    """Raises what verdicts come to, with messages that name trace and recording."""

    __slots__ = ("_keep_trace", "_look", "_origin")

    def __init__(self, *, look: Look, keep_trace: Callable[[], str | None] | None, origin: str | None) -> None:
        """Make a judge.

        Args:
            look: How much messages show.
            keep_trace: Keeps the trace file and returns its path.
            origin: Where a replayed recording comes from.
        """
        self._look = look
        self._keep_trace = keep_trace or (lambda: None)
        self._origin = origin

    def judge(self, verdict: Verdict) -> None:
        """Raise unless *verdict* is a pass: whatever else it may be, it must not be green."""
        __tracebackhide__ = True
        collected = _collector.get()
        if collected is not None:
            collected.append(verdict)
        elif verdict.outcome is not Outcome.PASS:
            self._raise(verdict)

    def checks(self) -> Checks:
        """Return a context manager that collects the failures of several assertions."""
        return Checks(self._raise_all)

    def _raise_all(self, verdicts: list[Verdict]) -> None:
        __tracebackhide__ = True
        bad = [verdict for verdict in verdicts if verdict.outcome is not Outcome.PASS]
        if len(bad) == 1:
            self._raise(bad[0])
        if bad:
            outcomes = [verdict.outcome for verdict in bad]
            headline = f"{len(bad)} of {len(verdicts)} checks did not pass"
            parts = [text.verdict_text(verdict, self._look) for verdict in bad]
            told = "\n\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1))
            outcome = next((one for one in _ERRORS if one in outcomes), Outcome.FAIL)
            self._raise(Verdict(outcome, f"{headline}\n\n{told}"))

    def _raise(self, verdict: Verdict) -> NoReturn:
        __tracebackhide__ = True
        # What is none of the outcomes must not be green either.
        raise _ERRORS.get(verdict.outcome, AssertionError)(self.message(verdict))

    def message(self, verdict: Verdict) -> str:
        """Return the text of a failure."""
        told = text.verdict_text(verdict, self._look)
        kept = self._keep_trace()
        where = f"trace: {kept}   open in https://ui.perfetto.dev" if kept else None
        last = "\n".join(line for line in (where, self._origin) if line)
        return f"{told}\n\n{last}" if last else told
