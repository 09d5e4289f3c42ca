"""What an assertion was asked: its name, and what it was given, for those who take note of verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from .errors import KernelprofError
from .units import whole_number

if TYPE_CHECKING:
    from .eventset import Selection
    from .model import Step

A = TypeVar("A", bound="Askable")

_question: ContextVar[Question | None] = ContextVar("kernelprof_question", default=None)
_asked_by: ContextVar[str] = ContextVar("kernelprof_asked_by", default="test")


class Listener(Protocol):
    """Who takes note of verdicts.

    Attributes:
        profile: What they call the profile.
    """

    @property
    def profile(self) -> str:
        """What they call the profile."""


class Answering(Protocol):
    """Who gives verdicts on a profile.

    Attributes:
        noted: Who takes note of them, if anybody does.
    """

    @property
    def noted(self) -> Listener | None:
        """Who takes note of verdicts."""

    def could_not(self, asked: Question, error: KernelprofError) -> None:
        """Take note that nobody could begin to judge."""


class Askable:
    """What has assertions."""

    __slots__ = ()

    _judge: Answering
    _regions: tuple[Selection, ...]
    steps_may_differ: bool

    @property
    def steps(self) -> tuple[Step, ...]:
        """The measured steps."""
        raise NotImplementedError


class Scope(NamedTuple):
    """What part of a profile was asked.

    Attributes:
        regions: Globs for the regions to which it was narrowed, the outermost first.
        steps: Names of its steps.
        steps_may_differ: Each of them had to satisfy the assertion by itself.
    """

    regions: tuple[str, ...]
    steps: tuple[str, ...]
    steps_may_differ: bool


class Question:
    """A call of an assertion, from its begin to its end.

    Attributes:
        asked_by: ``test``, or the limit of a budget.
        answered: Somebody has given a verdict on it.
    """

    def __init__(self, method: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take note of the call; the first of *args* is the profile."""
        self._method = method
        self._args = args
        self._kwargs = kwargs
        self.asked_by = _asked_by.get()
        self.answered = False

    @property
    def assertion(self) -> str:
        """Name of the assertion."""
        return self._method.__name__

    @property
    def profile(self) -> Askable:
        """The profile that was asked."""
        asked: Askable = self._args[0]
        return asked

    def scope(self) -> Scope:
        """Return what part of the profile was asked."""
        profile = self.profile
        regions = tuple(str(one.region) for one in profile._regions)
        return Scope(regions, tuple(step.name for step in profile.steps), profile.steps_may_differ)

    def arguments(self) -> dict[str, Any]:
        """Return what was given, by the name of the parameter, as plain values."""
        import inspect  # Slow to import, and only those who take note ask.

        try:
            bound = inspect.signature(self._method).bind(*self._args, **self._kwargs)
        except TypeError:  # The call itself will say what is wrong with it.
            return {name: plain(value) for name, value in self._kwargs.items()}
        _, *given = bound.arguments.items()
        arguments: dict[str, Any] = {}
        for name, value in given:
            # Selectors and guesses come as **keywords.
            is_rest = bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            arguments.update(value if is_rest else {name: value})
        return {name: plain(value) for name, value in arguments.items()}

    def __enter__(self) -> Question:
        self._token = _question.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        __tracebackhide__ = True
        _question.reset(self._token)
        if isinstance(error, KernelprofError) and not self.answered:
            self.profile._judge.could_not(self, error)


def questions(kind: type[A]) -> type[A]:
    """Let those who take note of verdicts know what was asked: a decorator of a class with assertions."""
    for name, method in list(vars(kind).items()):
        if name.startswith("assert_"):
            setattr(kind, name, _asked(method))
    return kind


def _asked(method: Callable[..., None]) -> Callable[..., None]:
    @wraps(method)
    def ask(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        with Question(method, args, kwargs):
            method(*args, **kwargs)

    return ask


def question() -> Question | None:
    """Return the assertion that is being made, and take it as answered."""
    asked = _question.get()
    if asked is not None:
        asked.answered = True
    return asked


class asked_by:  # noqa: N801 - reads as what it does
    """Says on whose behalf the assertions of a block are made, such as a limit of a budget.

    A class and no ``@contextmanager``, so that a failure points at the user's line.
    """

    def __init__(self, source: str) -> None:
        """Take the words for it."""
        self._source = source

    def __enter__(self) -> None:
        self._token = _asked_by.set(self._source)

    def __exit__(self, *_: object) -> None:
        _asked_by.reset(self._token)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: a number, text, a truth value, or a list of numbers and texts.

    What it has not is told as Python writes it.
    """
    if isinstance(value, (bool, str)):
        return value if isinstance(value, bool) else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(value)
    number = int(value) if isinstance(value, int) else whole_number(value)
    if number is not None:
        return number
    if value is ...:
        return "..."
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (list, tuple)):
        told = map(plain, value)
        return [one if isinstance(one, (str, int, float)) and not isinstance(one, bool) else repr(one) for one in told]
    if isinstance(value, Askable) and value._judge.noted is not None:
        return value._judge.noted.profile
    return repr(value)
