"""From a verdict to an exception with its message; several at once in ``with profile.checks():``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import NamedTuple, NoReturn

from .asking import Question, question
from .attribution import Explanation
from .checks import Outcome, Verdict
from .errors import KernelprofError, LedgerError, MisuseError, NotMeasured, TooNoisy
from .hints import Hint
from .report import text
from .report.layout import Look
from .sites import Site

_ERRORS: dict[Outcome, type[Exception]] = {
    Outcome.FAIL: AssertionError,
    Outcome.NOT_MEASURED: NotMeasured,
    Outcome.TOO_NOISY: TooNoisy,
    Outcome.NO_ENTRY: LedgerError,
}
"""What each outcome but a pass raises, the one that says most first."""

_TIMES = {1: "once", 2: "twice"}


class Told(NamedTuple):
    """What is to be said of a verdict.

    Attributes:
        body: Headline, tables and hints.
        ending: How its lines of Python were found, or why they were not.
        sites: The lines of Python that launched its events, as far as they are known, each once.
    """

    body: str
    ending: str = ""
    sites: tuple[Site, ...] = ()


class Answer(NamedTuple):
    """A verdict, for those who take note of it.

    Attributes:
        question: What was asked.
        verdict: What it came to; ``None`` where nobody could even begin to judge.
        told: What is said of it; empty for a pass.
        error: Why nobody could.
    """

    question: Question
    verdict: Verdict | None
    told: Told
    error: KernelprofError | None = None

    @property
    def outcome(self) -> str:
        """What it came to in a word; ``error`` if nobody could begin, such as with a selector that names nothing."""
        if self.verdict is not None:
            return self.verdict.outcome.value
        return Outcome.NOT_MEASURED.value if isinstance(self.error, NotMeasured) else "error"


class Noted(NamedTuple):
    """Who takes note of verdicts.

    Attributes:
        profile: What they call the profile.
        saw: Is told of each verdict.
        read: Is told that anything is read of the profile.
    """

    profile: str
    saw: Callable[[Answer], None]
    read: Callable[[], None] = lambda: None


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
        elif isinstance(error, tuple(_ERRORS.values())) and self._verdicts:
            # TooNoisy is a NotMeasured: the last that fits is the closest.
            outcome = [one for one, kind in _ERRORS.items() if isinstance(error, kind)][-1]
            self._raise_all([*self._verdicts, Verdict(outcome, str(error))])
        elif not isinstance(error, (Exception, KeyboardInterrupt, SystemExit, GeneratorExit)):
            # pytest.skip() and pytest.xfail(): what failed before them must not vanish.
            self._raise_all(self._verdicts)


def verdicts_of(ask: Callable[[], None]) -> list[Verdict]:
    """Return what assertions come to, without raising it.

    Args:
        ask: Makes the assertions.
    """
    found: list[Verdict] = []
    token = _collector.set(found)
    try:
        ask()
    finally:
        _collector.reset(token)
    return found


class Judge:
    """Raises what verdicts come to, with messages that name lines of Python, cures, trace and recording."""

    __slots__ = ("_explain", "_hints", "_keep_trace", "_known", "_look", "_origin", "_tells", "noted")

    def __init__(
        self,
        *,
        look: Look,
        keep_trace: Callable[[], str | None] | None,
        origin: str | None,
        explain: Callable[[], Explanation] | None = None,
        hints: Callable[[Verdict, Explanation], Sequence[Hint]] | None = None,
        noted: Noted | None = None,
    ) -> None:
        """Make a judge.

        Args:
            look: How much messages show.
            keep_trace: Keeps the trace file and returns its path.
            origin: Where a replayed recording comes from.
            explain: Returns where events come from; only failures ask. ``None`` where that question does not arise.
            hints: Returns the hints for a failure.
            noted: Takes note of verdicts.
        """
        self._look = look
        self._keep_trace = keep_trace or (lambda: None)
        self._origin = origin
        self._explain = explain
        self._hints = hints
        self.noted = noted
        self._tells = False
        self._known: list[tuple[Verdict, Told]] = []

    def judge(self, verdict: Verdict) -> None:
        """Raise unless *verdict* is a pass: whatever else it may be, it must not be green."""
        __tracebackhide__ = True
        self._note(verdict)
        collected = _collector.get()
        if collected is not None:
            collected.append(verdict)
        elif verdict.outcome is not Outcome.PASS:
            self._raise([verdict])

    def _note(self, verdict: Verdict) -> None:
        asked = question()
        # A hook that gives hints may assert something of the profile itself: that is no check of the test.
        if self.noted is not None and asked is not None and not self._tells:
            told = Told("") if verdict.outcome is Outcome.PASS else self._told(verdict)
            self.noted.saw(Answer(asked, verdict, told))

    def could_not(self, asked: Question, error: KernelprofError) -> None:
        """Take note that nobody could begin to judge."""
        if self.noted is not None and not self._tells:
            self.noted.saw(Answer(asked, None, Told(str(error)), error))

    def checks(self) -> Checks:
        """Return a context manager that collects the failures of several assertions."""
        return Checks(self._raise_all)

    def _raise_all(self, verdicts: list[Verdict]) -> None:
        __tracebackhide__ = True
        bad = [verdict for verdict in verdicts if verdict.outcome is not Outcome.PASS]
        if bad:
            self._raise(bad, of=len(verdicts))

    def _raise(self, verdicts: list[Verdict], of: int = 1) -> NoReturn:
        __tracebackhide__ = True
        outcomes = [verdict.outcome for verdict in verdicts]
        # What is none of the outcomes must not be green either.
        outcome = next((one for one in _ERRORS if one in outcomes), Outcome.FAIL)
        raise _ERRORS[outcome](self._text(verdicts, of))

    def message(self, verdict: Verdict) -> str:
        """Return the text of a failure."""
        return self._text([verdict], 1)

    def _text(self, verdicts: list[Verdict], of: int) -> str:
        parts = [self._told(verdict) for verdict in verdicts]
        told = [part.body for part in parts]
        if len(told) > 1:
            headline = f"{len(told)} of {of} checks did not pass"
            told = [headline, *(f"{number}. {part}" for number, part in enumerate(told, 1))]
        kept = self._keep_trace()
        ending = list(dict.fromkeys(part.ending for part in parts if part.ending))
        ending += [f"trace: {kept}   open in https://ui.perfetto.dev"] if kept else []
        ending += [self._origin] if self._origin else []
        return "\n\n".join([*told, *(["\n".join(ending)] if ending else [])])

    def _told(self, verdict: Verdict) -> Told:
        """Return what is to be said of a verdict; hooks that give hints are asked once."""
        known = next((told for one, told in self._known if one is verdict), None)
        if known is not None:
            return known
        self._tells = True
        try:
            told = self._tell(verdict)
        finally:
            self._tells = False
        if self.noted is not None:
            self._known.append((verdict, told))
        return told

    def _tell(self, verdict: Verdict) -> Told:
        if verdict.outcome is not Outcome.FAIL:
            return Told(text.verdict_text(verdict, self._look))
        whole, explanation, ending = Explanation(), Explanation(), ""
        if self._explain is not None and verdict.events:
            whole = self._explain()
            explanation = whole.of(verdict.events)
            words = [f"no line of Python: {explanation.why_not}"] if explanation.why_not else []
            words += [f"function was called {_TIMES[explanation.calls]} more"] if explanation.calls else []
            ending = "\n".join(words)
        told = text.verdict_text(verdict, self._look._replace(places=explanation.places))
        hints = self._hints(verdict, whole) if self._hints else ()
        body = "\n\n".join([told, *([text.hints_text(hints, self._look)] if hints else [])])
        sites = dict.fromkeys(place.site.line_only() for place in explanation.places.values() if place is not None)
        return Told(body, ending, tuple(sites))
