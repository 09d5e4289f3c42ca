"""Calls of a function, or a block, into a trace file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ..errors import CaptureError
from ..functions import function_name, refuse_unfinished, subject_of
from ..load.own import side_of
from ..memory import Allocated
from ..options import Settings
from ..sites import Site
from .allocator import watching_allocations
from .devices import Health, import_torch, noticing_loss
from .lines import caller_of, naming_lines
from .session import Session, refuse_other_profiler
from .surroundings import Surroundings, casting_anew, casts_clash, settle, surroundings_of, under

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """A function with all that is needed to call it again.

    Attributes:
        function: What is profiled.
        args: Its arguments.
        kwargs: Its keyword arguments.
        settings: How often it is called, with which ``setup=``.
        surroundings: Modes and switches under which it is called.
        caller: The line that profiles it.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    settings: Settings
    surroundings: Surroundings
    caller: Site | None = None

    @classmethod
    def here(
        cls, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings
    ) -> Target:
        """Return a target that is always called as it would be here and now."""
        return cls(function, args, kwargs, settings, surroundings_of(import_torch()), caller_of())

    @property
    def name(self) -> str:
        """Name of the function."""
        return function_name(self.function)

    @property
    def tf32_off(self) -> bool:
        """Whether float32 matmuls must not be rounded to TF32."""
        return self.surroundings.get("float32 matmul") == "highest"

    @property
    def calls_again(self) -> int:
        """How many calls it takes to see it once more as it was measured.

        Two within an autocast block that keeps what it has cast: the first of them casts.
        """
        return 2 if self.surroundings.get("autocast nesting") and self.surroundings.get("autocast cache") else 1

    def subject(self) -> dict[str, Any]:
        """Return what is profiled and how, in the words of a `Recording`.

        Raises:
            CaptureError: The function cannot be profiled.
        """
        has_setup = self.settings.setup is not None
        return {**subject_of(self.function, self.args, self.kwargs, has_setup=has_setup), **self.settings.noted()}


class _Calls:
    """Calls a target, counting, so that a failure can say in which call it came."""

    def __init__(self, target: Target, steps: int, *, again: bool = False) -> None:
        self.target = target
        self.args = target.args
        self.total = target.settings.warmup + steps
        self.number = 0
        self.again = again

    def prepare(self) -> None:
        """Run ``setup=`` for the next call, outside its window."""
        self.number += 1
        setup = self.target.settings.setup
        if setup is None:
            return
        with self._explained("setup"):
            made = setup()
        self.args = made if isinstance(made, tuple) else () if made is None else (made,)

    def run(self) -> Any:
        """Make the next call and return its result."""
        target = self.target
        with self._explained(target.name):
            result = target.function(*self.args, **target.kwargs)
        refuse_unfinished(target.function, result)
        return result

    @contextmanager
    def _explained(self, who: str) -> Iterator[None]:
        try:
            yield
        except (CaptureError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # The user's own error, or pytest.skip(): nothing about calling again explains it.
            if not self.again and (self.number == 1 or not isinstance(error, Exception)):
                raise
            told = f"raised in call {self.number} of {self.total}"
            if self.again:
                told = f"raised when it was called again, to be compared (call {self.number} of {self.total})"
            raise CaptureError(
                f"{who} {told}; use setup= or profiled.block() ({type(error).__name__}: {error})"
            ) from error


def profile_calls(
    target: Target,
    *,
    health: Health,
    path: Path,
    test: str,
    shared: str | None = None,
    looks_at_memory: bool = False,
) -> Any:
    """Call a function to warm up, then record the measured calls into a trace file.

    Args:
        target: The function, called as things are.
        health: Whether the GPU still works; is told if it is lost.
        path: The trace file to write, ``.json``.
        test: Id of the test, for messages.
        shared: Who is known to use the GPU too.
        looks_at_memory: Record in the last call of the warm-up who allocates GPU memory.

    Returns:
        What the last call returned.

    Raises:
        CaptureError: The function cannot be profiled, or failed in a call after the first.
    """
    torch, settings = import_torch(), target.settings
    subject = {**target.subject(), "test": test}
    refuse_other_profiler(torch)
    calls = _Calls(target, settings.steps)
    result = None
    with noticing_loss(health, test):
        for left in reversed(range(settings.warmup)):
            result = None  # Each call finds the memory of the one before free.
            calls.prepare()
            if left == 0 and looks_at_memory and torch.cuda.is_initialized():
                with watching_allocations(torch, path) as allocated:
                    result = calls.run()
                subject["allocated"] = tuple(allocated)
            else:
                result = calls.run()
        session = Session(torch, settings, health, steps=settings.steps, subject=subject, shared=shared)
        with session:
            for number in range(settings.steps):
                result = None
                calls.prepare()
                if number == 0 or settings.setup is not None:
                    session.synchronize()  # Later steps begin where the last one was waited for.
                result = _measured(session, number, calls)
        session.export(path)
    settle(torch, target.surroundings)
    return result


def _measured(session: Session, number: int, calls: _Calls) -> Any:
    """Make the call that is a step, and wait for it."""
    with session.step(number):
        result = calls.run()
    session.check_alone(f"{calls.target.name} (call {calls.number} of {calls.total})")
    session.synchronize()
    return result


def profile_alternately(
    targets: tuple[Target, Target], rounds: int, *, health: Health, path: Path, test: str, shared: str | None = None
) -> None:
    """Call two functions in turn, first one then the other, then the other way round, into one trace file.

    What drifts, clocks and temperature, so meets both alike. Step ``n`` is a call of the function
    that `side_of` names.

    Args:
        targets: The two.
        rounds: How often each is called, after its warm-up.
        health: Whether the GPU still works; is told if it is lost.
        path: The trace file to write, ``.json``.
        test: Id of the test, for messages.
        shared: Who is known to use the GPU too.

    Raises:
        CaptureError: A function failed.
    """
    torch = import_torch()
    subject = {**targets[0].subject(), "test": test, "against": targets[1].subject()}
    refuse_other_profiler(torch)
    sides = [_Calls(target, rounds, again=True) for target in targets]
    clash = casts_clash(targets[0].surroundings, targets[1].surroundings)
    with noticing_loss(health, test), casting_anew(torch):
        for calls in sides:
            if clash:
                torch.clear_autocast_cache()
            with under(torch, calls.target.surroundings):
                for _ in range(calls.target.settings.warmup):
                    calls.prepare()
                    calls.run()
        settings = targets[0].settings
        with Session(torch, settings, health, steps=2 * rounds, subject=subject, shared=shared) as session:
            for number in range(2 * rounds):
                calls = sides[side_of(number)]
                if clash:
                    torch.clear_autocast_cache()
                with under(torch, calls.target.surroundings):
                    calls.prepare()
                    session.synchronize()
                    _measured(session, number, calls)
        session.export(path)


def see_allocations(target: Target, path: Path, *, compiled: bool) -> tuple[Allocated, ...]:
    """Call a function once more and return who was given GPU memory; nothing where that fails.

    Args:
        target: The function.
        path: A file to write and remove.
        compiled: Something in it is compiled: then lines are not named.
    """
    torch = import_torch()

    def watch(calls: _Calls) -> tuple[Allocated, ...]:
        lines = nullcontext(()) if compiled else naming_lines(torch, target.caller)
        with lines as sites, watching_allocations(torch, path, sites) as allocated:
            calls.run()
        return tuple(allocated)

    found = _once_more(torch, target, watch)
    return () if isinstance(found, str) else found


def see_lines(
    target: Target, path: Path, *, health: Health, test: str, stacks: bool, compiled: bool
) -> list[Site] | str:
    """Call a function once more, and write a trace whose regions stand for lines of Python.

    Args:
        target: The function.
        path: The trace file to write.
        health: Whether the GPU still works; is told if it is lost.
        test: Id of the test.
        stacks: Record Python's stacks.
        compiled: Something in it is compiled: then without regions, since a mode would have it run uncompiled.

    Returns:
        The sites; the number of a region is an index into them. One word where the call failed.
    """
    torch = import_torch()

    def watch(calls: _Calls) -> list[Site]:
        session = Session(torch, target.settings, health, steps=1, subject={"test": test}, stacks=stacks)
        sites: list[Site] = []
        with noticing_loss(health, test), session:
            session.synchronize()
            with nullcontext(sites) if compiled else naming_lines(torch, target.caller) as sites:
                _measured(session, 0, calls)
        session.export(path)
        return sites

    return _once_more(torch, target, watch)


def _once_more(torch: Any, target: Target, watch: Callable[[_Calls], T]) -> T | str:
    """Call a function as it was called when it was profiled; return what *watch* saw, or one word that says why not.

    It explains a failure, and must never become one, nor a skip.
    """
    try:
        refuse_other_profiler(torch)
    except CaptureError:
        return "profiler"
    try:
        with casting_anew(torch), under(torch, target.surroundings):
            calls = _Calls(target, 1, again=True)
            if target.calls_again > 1:
                calls.prepare()
                calls.run()
            calls.prepare()
            return watch(calls)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        cause = error.__cause__ if isinstance(error, CaptureError) and error.__cause__ else error
        return f"raised {type(cause).__name__}"


class BlockCapture:
    """Records a ``with`` block once, as the single step of a trace file."""

    def __init__(self, *, settings: Settings, health: Health, path: Path, test: str, shared: str | None = None) -> None:
        """Prepare a capture; the other arguments are those of `profile_calls`.

        Args:
            settings: How it is profiled.
            health: Whether the GPU still works.
            path: The trace file to write.
            test: Id of the test.
            shared: Who is known to use the GPU too.
        """
        self._torch = import_torch()
        self._settings = settings
        self._health = health
        self._path = path
        self._test = test
        self._shared = shared

    def __enter__(self) -> None:
        refuse_other_profiler(self._torch)
        with noticing_loss(self._health, self._test):
            subject = {"test": self._test}
            self._session = Session(
                self._torch, self._settings, self._health, steps=1, subject=subject, shared=self._shared
            )
            self._session.__enter__()
            self._session.synchronize()
        self._step = self._session.step(0)
        self._step.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._step.__exit__(kind, error, trace)
        with noticing_loss(self._health, self._test, error):
            try:
                if kind is None:
                    self._session.check_alone("the block")
                    self._session.synchronize()
            except BaseException as problem:
                self._session.__exit__(type(problem), problem, problem.__traceback__)
                raise
            self._session.__exit__(kind, error, trace)
            if kind is None:
                self._session.export(self._path)
