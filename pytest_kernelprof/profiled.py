"""`Profiled`: what the fixtures give to a test, whether functions run or recordings are replayed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, cast

from .attribution import Explanation, Seen, bypasses_ops, explained, is_compiled
from .budget import Budget, keep_to
from .capture import (
    BlockCapture,
    Health,
    Target,
    device_of,
    import_torch,
    profile_alternately,
    profile_calls,
    see_allocations,
    see_lines,
)
from .comparing import Alternation, Repeatable, Rounds
from .errors import CaptureError, MisuseError, NotMeasured
from .events import Event
from .functions import Subject, function_name, subject_of
from .hints import Hint
from .judging import Judge, Noted
from .ledger.book import Book, Slot
from .load import load_trace
from .load.own import SITE_PREFIX, STEP_PREFIX, side_of
from .load.python_calls import python_calls
from .load.recording import Recording
from .memory import Allocated
from .model import Trace
from .options import Settings
from .profile import Profile
from .recordings import Place, Wanted, read
from .report.layout import Look
from .sites import Site, is_users
from .units import MAX_TRACE_BYTES


class Registered(NamedTuple):
    """What a profile is told when it is registered.

    Attributes:
        keep_trace: Keeps its trace if the test fails, and names the file for messages.
        noted: Takes note of verdicts on it.
    """

    keep_trace: Callable[[], str | None]
    noted: Noted | None = None


class Register(Protocol):
    """Is told of each profile."""

    def __call__(
        self, label: str, trace: Trace, file: Path, note: Recording | None, *, comparison: bool = False
    ) -> Registered:
        """Take note of a profile; *note* is that of a replayed recording, a *comparison* is none of its own."""


class Source(ABC):
    """Where the profiles of one fixture come from.

    Attributes:
        test: Id of the test, or of the module, that owns them.
    """

    def __init__(
        self,
        *,
        test: str,
        look: Look,
        register: Register,
        must_name: str | None = None,
        more_hints: Callable[[Event, Profile], Sequence[Hint]] | None = None,
        book: Callable[[], Book] | None = None,
        is_shared: bool = False,
        budget: Callable[[str], Budget] | None = None,
        found_scope: Callable[[str, bool], None] = lambda *_: None,
        show: Callable[[Profile], object] = lambda _: None,
    ) -> None:
        """Make a source.

        Args:
            test: Id of the test, or of the module, that owns the profiles.
            look: How much messages show.
            register: Is told of each profile.
            must_name: Why a profile needs a ``name=``, if it does.
            more_hints: Returns the hints that others have for an event.
            book: Returns the ledger beside the test that runs.
            budget: Reads a file of limits.
            found_scope: Is told of regions and steps that a budget limits, and whether a profile has them.
            show: Shows a profile to the hooks of others, before its test has it.
            is_shared: Several tests share the profiles, which then come in no stable order.
        """
        self._book = book
        self._budget = budget
        self._found_scope = found_scope
        self._show = show
        self._is_shared = is_shared
        self._must_name = must_name
        self._more_hints = more_hints
        self.test = test
        self._look = look
        self._register = register
        self._labels: list[str] = []
        self._pairs: dict[Any, Alternation] = {}

    def label(self, name: str | None) -> str:
        """Return the label of the next profile: its name, or its place in the order of calls.

        Raises:
            MisuseError: The name was used before in this test, or is missing where it must not be.
        """
        if name is None and self._must_name:
            raise MisuseError(f"a profile needs name= here: {self._must_name}")
        label = name if name is not None else str(len(self._labels) + 1)
        if label in self._labels:
            raise MisuseError(f"name={label!r} was given to two profiles of one test; each needs its own")
        self._labels.append(label)
        return label

    def judged(self, profile: Profile, settings: Settings) -> Profile:
        """Return a profile that the hooks have seen, and that keeps to the budget of its test.

        Raises:
            AssertionError: It does not.
            NotMeasured: It cannot be judged.
        """
        __tracebackhide__ = True
        self._show(profile)
        if settings.budget is not None and self._budget is not None:
            on_cpu = settings.device is not None and not settings.device.is_gpu
            keep_to(self._budget(settings.budget), profile, on_cpu=on_cpu, found_scope=self._found_scope)
        return profile

    def slot(self, label: str, settings: Settings, *, replayed: bool) -> Slot | None:
        """Return where a profile finds its ledger entry."""
        if self._book is None:
            return None
        name = None if self._is_shared and settings.name is None else label
        needs_gpu = settings.device is not None and settings.device.is_gpu
        return Slot(self._book, name, needs_gpu=needs_gpu, replayed=replayed)

    @abstractmethod
    def device(self, settings: Settings) -> Any:
        """Return the device to build inputs on."""

    @abstractmethod
    def profile(
        self, settings: Settings, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Profile:
        """Return the profile of calls of *function*."""

    def alternate(self, one: Repeat, other: Repeat, rounds: Rounds) -> Alternation:
        """Call two functions in turn; once for all assertions on them.

        Args:
            one: The first.
            other: The second.
            rounds: How often each is called.

        Raises:
            NotMeasured: The recording does not hold all these calls.
        """
        __tracebackhide__ = True
        key = (one.label, other.source, other.label, rounds)
        if key not in self._pairs:
            # Labels are unique within a source only; the quotes tell where each ends.
            where = "" if other.source is self else f" of {self._called(other.source)}"
            asked = f", {rounds.number} times" if rounds.asked else ""
            label = f"{one.label!r} against {other.label!r}{where}{asked}"
            trace, registered, origin = self._alternating(label, one, other, rounds)
            judge = Judge(look=self._look, **registered._asdict(), origin=origin)
            self._pairs[key] = Alternation(_halves(trace), judge)
        return self._pairs[key]

    def _called(self, other: Source) -> str:
        """Return the name of another source's test within its file, with the file's if that is another one."""
        (own_file, _), (file, name) = (_parts(test) for test in (self.test, other.test))
        return name if file == own_file else f"{file}::{name}"

    @abstractmethod
    def _alternating(
        self, label: str, one: Repeat, other: Repeat, rounds: Rounds
    ) -> tuple[Trace, Registered, str | None]:
        """Return the trace of alternating calls, who takes note of it, and where it comes from."""

    @abstractmethod
    def allocated(self, label: str, *, compiled: bool) -> Sequence[Allocated]:
        """Return who is given GPU memory by one more call; empty where that cannot be done."""

    @abstractmethod
    def open_block(self, settings: Settings) -> OpenBlock:
        """Begin to record a block."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything that the test held."""


def _parts(test: str) -> tuple[str, str]:
    """Return the file of a test, without folder and ending, and its name there."""
    file, _, name = test.partition("::")
    return Path(file).stem, name


@dataclass(frozen=True, slots=True)
class Repeat:
    """A profiled function that can be called again, or whose recording tells what happened then.

    Attributes:
        source: Where its profile comes from.
        label: The label of its profile.
        settings: How it was profiled.
        function: Name of the function.
    """

    source: Source
    label: str
    settings: Settings
    function: str

    @property
    def name(self) -> str:
        """What to call it: the name that the user gave its profile, or its own."""
        return self.settings.name or self.function

    def alternate(self, other: Repeatable, rounds: Rounds) -> Alternation:
        """Call this and another one in turn, so many times each."""
        __tracebackhide__ = True
        return self.source.alternate(self, cast("Repeat", other), rounds)

    def allocated(self, *, compiled: bool) -> Sequence[Allocated]:
        """Return who is given GPU memory by one more call; empty where that cannot be done."""
        return self.source.allocated(self.label, compiled=compiled)


class OpenBlock(Protocol):
    """A block that is being recorded."""

    def close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Profile | None:
        """End it; return its profile unless the block raised."""


def _halves(trace: Trace) -> tuple[Trace, Trace]:
    """Return the steps of each of two functions; which is whose tells the number of a step.

    Raises:
        NotMeasured: A step is missing.
    """
    __tracebackhide__ = True
    names = [step.name for step in trace.steps]
    if names != [f"{STEP_PREFIX}{number}" for number in range(len(names))] or len(names) % 2:
        raise NotMeasured("time not measured: the trace of the alternating calls lacks some of them")
    sides = ([step for number, step in enumerate(trace.steps) if side_of(number) == side] for side in (0, 1))
    one, other = (trace._replace(steps=tuple(steps)) for steps in sides)
    return one, other


class Live(Source):
    """Runs functions under torch.profiler."""

    def __init__(
        self,
        *,
        folder: Path,
        health: Health,
        max_bytes: int = MAX_TRACE_BYTES,
        shared: str | None = None,
        records: bool = False,
        explain: str = "on-failure",
        **common: Any,
    ) -> None:
        """Make a source.

        Args:
            folder: Where trace files are written.
            health: Whether the GPU still works in this process.
            max_bytes: Most that a trace may hold.
            shared: Who is known to use the GPU too.
            records: The traces are kept as recordings, which also tell who allocates memory.
            explain: When functions are called once more to find lines of Python: ``on-failure``,
                ``always`` or ``never``.
            **common: As for `Source`.
        """
        super().__init__(**common)
        self.folder = folder
        self.health = health
        self.max_bytes = max_bytes
        self.shared = shared
        self.records = records
        self.explain = explain
        self._explanations: dict[str, Explanation] = {}
        self._results: dict[str, Any] = {}
        self.targets: dict[str, Target] = {}
        self._allocated: dict[str, tuple[Allocated, ...]] = {}
        self._alternations = 0

    def device(self, settings: Settings) -> Any:
        """Return the device that the test asks for, else the best there is."""
        return device_of(settings.device)

    def profile(
        self, settings: Settings, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Profile:
        """Call *function* to warm up, record the measured calls, and read the trace."""
        __tracebackhide__ = True
        self._need_health(settings)
        label = self.label(settings.name)
        file = self._next_file()
        target = Target.here(function, args, kwargs, settings)
        self._results[label] = profile_calls(
            target,
            health=self.health,
            path=file,
            test=self.test,
            shared=self.shared,
            looks_at_memory=self.records,
        )
        self.targets[label] = target
        repeat = Repeat(self, label, settings, target.name)
        trace = load_trace(file, max_bytes=self.max_bytes)

        def explain() -> Explanation:
            return self._explanation(label, trace)

        if self.explain == "always":
            explain()
        return self._made(
            label,
            file,
            trace,
            settings,
            explain,
            result=lambda: self._result(label),
            repeatable=repeat,
            tf32_off=target.tf32_off,
        )

    def _explanation(self, label: str, trace: Trace) -> Explanation:
        """Return where the events of a profile come from, by one more call; it never raises."""
        if label not in self._explanations:
            self._explanations[label] = self._explain(label, trace)
        return self._explanations[label]

    def _explain(self, label: str, trace: Trace) -> Explanation:
        if self.explain == "never":
            return Explanation(why_not="never")
        target = self.targets.get(label)
        if target is None:
            return Explanation(why_not="ended")
        if self.health.lost_in:
            return Explanation(why_not="lost")
        file = self.folder / "lines.json"
        compiled = is_compiled(trace.steps)
        stacks = compiled or bypasses_ops(trace.steps)
        sites = see_lines(target, file, health=self.health, test=self.test, stacks=stacks, compiled=compiled)
        if isinstance(sites, str):
            return Explanation(why_not=sites, calls=0 if sites == "profiler" else target.calls_again)
        try:
            seen = _seen(file, sites, self.max_bytes, stacks=stacks, caller=target.caller if compiled else None)
            return explained(trace.steps, seen, target.calls_again)
        except Exception:  # noqa: BLE001 - it explains a failure, and must not become another
            return Explanation(why_not="unreadable", calls=target.calls_again)
        finally:
            file.unlink(missing_ok=True)

    def _alternating(
        self, label: str, one: Repeat, other: Repeat, rounds: Rounds
    ) -> tuple[Trace, Registered, str | None]:
        __tracebackhide__ = True
        self._need_health(one.settings)
        self._alternations += 1
        file = self.folder / f"against-{self._alternations}.json"
        targets = (_target(one), _target(other))
        profile_alternately(targets, rounds.number, health=self.health, path=file, test=self.test, shared=self.shared)
        trace = load_trace(file, max_bytes=self.max_bytes)
        return trace, self._register(label, trace, file, None, comparison=True), None

    def allocated(self, label: str, *, compiled: bool) -> Sequence[Allocated]:
        """Return who is given GPU memory by one more call; empty where that cannot be done."""
        if label not in self._allocated and label in self.targets and self.explain != "never":
            file = self.folder / "memory.json"
            self._allocated[label] = see_allocations(self.targets[label], file, compiled=compiled)
        return self._allocated.get(label, ())

    def open_block(self, settings: Settings) -> OpenBlock:
        """Begin to record a block as a single step."""
        __tracebackhide__ = True
        self._need_health(settings)
        label = self.label(settings.name)
        file = self._next_file()
        capture = BlockCapture(settings=settings, health=self.health, path=file, test=self.test, shared=self.shared)
        capture.__enter__()
        return _LiveBlock(capture, lambda: self._finish_block(label, file, settings))

    def close(self) -> None:
        """Let go of the functions, of their arguments and of what they returned."""
        self._results.clear()
        self.targets.clear()

    def _finish_block(self, label: str, file: Path, settings: Settings) -> Profile:
        trace = load_trace(file, max_bytes=self.max_bytes)
        return self._made(label, file, trace, settings, lambda: Explanation(why_not="block"))

    def _made(
        self,
        label: str,
        file: Path,
        trace: Trace,
        settings: Settings,
        explain: Callable[[], Explanation],
        **more: Any,
    ) -> Profile:
        return Profile(
            trace,
            steps_may_differ=settings.steps_may_differ,
            look=self._look,
            alike_by=settings.asked.get("steps_may_differ", ""),
            **self._register(label, trace, file, None)._asdict(),
            explain=explain,
            more_hints=self._more_hints,
            slot=self.slot(label, settings, replayed=False),
            **more,
        )

    def _next_file(self) -> Path:
        return self.folder / f"{len(self._labels)}.json"

    def _result(self, label: str) -> Any:
        __tracebackhide__ = True
        if label not in self._results:
            raise NotMeasured("result not recorded: it was let go of when its test ended")
        return self._results[label]

    def _need_health(self, settings: Settings) -> None:
        __tracebackhide__ = True
        if settings.device is not None and settings.device.is_gpu and self.health.lost_in:
            raise NotMeasured(f"not measured: {self.health.why()}")


def _seen(file: Path, sites: Sequence[Site], max_bytes: int, *, stacks: bool, caller: Site | None) -> Seen:
    """Return what one more call told, from its trace."""
    regions = {f"{SITE_PREFIX}{number}": site for number, site in enumerate(sites)}
    step = load_trace(file, max_bytes=max_bytes).steps[0]
    since_ns = min((one.start_ns for one in step.timed), default=0)
    return Seen.of(step, regions.get, python_calls(file, is_users, since_ns) if stacks else {}, caller)


def _target(repeat: Repeat) -> Target:
    """Return the function that was profiled, to call it again.

    Raises:
        NotMeasured: Its test has ended.
    """
    __tracebackhide__ = True
    if not isinstance(repeat.source, Live):
        raise NotMeasured(f"time not measured: {repeat.name} is replayed, what it is compared with was profiled live")
    target = repeat.source.targets.get(repeat.label)
    if target is None:
        raise NotMeasured(f"time not measured: {repeat.name} was let go of when its test ended")
    return target


class _LiveBlock:
    def __init__(self, capture: BlockCapture, finish: Callable[[], Profile]) -> None:
        self._capture = capture
        self._finish = finish

    def close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Profile | None:
        __tracebackhide__ = True
        self._capture.__exit__(kind, error, trace)
        return self._finish() if kind is None else None


class Replay(Source):
    """Judges committed recordings; functions are not called, and nothing is written."""

    def __init__(self, *, place: Place, wanted: Wanted, **common: Any) -> None:
        """Make a source.

        Args:
            place: Where the recordings lie.
            wanted: What they must be; settings and function are filled in for each profile.
            **common: As for `Source`.
        """
        super().__init__(**common)
        self._place = place
        self._wanted = wanted
        self.command = wanted.command
        self.subjects: dict[str, Subject] = {}
        self.notes: dict[str, Recording] = {}

    def device(self, settings: Settings) -> Any:  # noqa: ARG002 - whatever the test asks for, it is not here
        """Return ``meta``: inputs have shapes and no data, so no GPU is needed to build them."""
        try:
            return import_torch().device("meta")
        except CaptureError:
            return "meta"

    def profile(
        self, settings: Settings, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Profile:
        """Return the profile of the recording; *function* is only named."""
        __tracebackhide__ = True
        subject = subject_of(function, args, kwargs, has_setup=settings.setup is not None)
        label = self.label(settings.name)
        self.subjects[label] = subject
        repeat = Repeat(self, label, settings, function_name(function))
        trace, note, file = self._read(label, replace(self._wanted, settings=settings, **subject))
        self.notes[label] = note
        return self._profile(label, trace, note, file, settings, repeat)

    def _alternating(
        self, label: str, one: Repeat, other: Repeat, rounds: Rounds
    ) -> tuple[Trace, Registered, str | None]:
        __tracebackhide__ = True
        theirs = _replayed(other)
        notes = [_replayed(one).notes[one.label], theirs.notes[other.label]]
        if notes[0].device != notes[1].device:
            places = " and ".join(note.where for note in notes)
            raise NotMeasured(f"time not measured: the two profiles were recorded on {places}")
        wanted = replace(
            self._wanted,
            settings=replace(one.settings, steps=2 * rounds.number),
            any_number=not rounds.asked,
            against={**theirs.subjects[other.label], **other.settings.noted()},
            not_before=max(note.date or "" for note in notes),
            device=notes[0].device,
            command=theirs.command,
            **self.subjects[one.label],
        )
        trace, note, file = self._read(label, wanted)
        return trace, self._register(label, trace, file, note, comparison=True), self._origin(note)

    def open_block(self, settings: Settings) -> OpenBlock:
        """Begin a block, which runs, but is not recorded."""
        label = self.label(settings.name)  # Now, as when it was recorded: the block may raise.

        def finish() -> Profile:
            __tracebackhide__ = True
            trace, note, file = self._read(label, replace(self._wanted, settings=settings))
            return self._profile(label, trace, note, file, settings, None)

        return _ReplayedBlock(finish)

    def close(self) -> None:
        """Nothing is held."""

    def allocated(self, label: str, *, compiled: bool) -> Sequence[Allocated]:  # noqa: ARG002 - nothing is called
        """Return nothing: the recording has told what there is to tell."""
        return ()

    def _read(self, label: str, wanted: Wanted) -> tuple[Trace, Recording, Path]:
        __tracebackhide__ = True
        file = self._place.file(label)
        if not file.exists():
            file = self._place.file_before_renaming(label) or file
        return (*read(file, wanted), file)

    def _origin(self, note: Recording) -> str:
        """Return where a recording comes from, for messages."""
        origin = f"replayed: recorded on {note.where}, {note.day}"
        renamed = note.test_module != self._place.module and not self._place.shared
        return f"{origin}, as {note.test}" if renamed else origin

    def _profile(
        self, label: str, trace: Trace, note: Recording, file: Path, settings: Settings, repeat: Repeat | None
    ) -> Profile:
        return Profile(
            trace,
            steps_may_differ=settings.steps_may_differ,
            look=self._look,
            alike_by=settings.asked.get("steps_may_differ", ""),
            **self._register(label, trace, file, note)._asdict(),
            result=_no_result,
            origin=self._origin(note),
            repeatable=repeat,
            explain=lambda: Explanation(why_not="replayed"),
            more_hints=self._more_hints,
            slot=self.slot(label, settings, replayed=True),
        )


def _replayed(repeat: Repeat) -> Replay:
    """Return the source of a profile that is compared with a replayed one.

    Raises:
        NotMeasured: It was profiled live.
    """
    __tracebackhide__ = True
    if not isinstance(repeat.source, Replay):
        raise NotMeasured(f"time not measured: {repeat.name} was profiled live, what it is compared with is replayed")
    return repeat.source


def _no_result() -> Any:
    __tracebackhide__ = True
    raise NotMeasured("result not recorded: under replay the function is not called")


class _ReplayedBlock:
    def __init__(self, finish: Callable[[], Profile]) -> None:
        self._finish = finish

    def close(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,  # noqa: ARG002 - the protocol's
        trace: TracebackType | None,  # noqa: ARG002
    ) -> Profile | None:
        __tracebackhide__ = True
        return self._finish() if kind is None else None


class Profiled:
    """Profiles functions and blocks; what the fixture ``profiled`` gives.

    ``profiled(function, *args, **kwargs)`` calls the function to warm up, records the measured
    calls and returns a `Profile`. Under replay the recording is judged instead.
    """

    __slots__ = ("_settings", "_source")

    def __init__(self, settings: Settings, source: Source) -> None:
        """Make one; tests get theirs from the fixture."""
        self._settings = settings
        self._source = source

    @property
    def device(self) -> Any:
        """The ``torch.device`` to build inputs on: what ``device=`` asks for, else the best there is.

        Under replay it is ``meta``.
        """
        return self._source.device(self._settings)

    def configure(self, **options: Any) -> Profiled:
        """Return a `Profiled` with other options.

        Args:
            **options: ``warmup``, ``steps``, ``steps_may_differ``, ``name``, ``activities``, and
                ``setup``, which is called before every call, outside the window; what it returns
                becomes the arguments: a tuple is several, ``None`` is none.

        Raises:
            MisuseError: An option does not exist, or has a value that is not accepted.
        """
        __tracebackhide__ = True
        return Profiled(self._settings.merged(options, "profiled.configure()"), self._source)

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Profile:
        """Profile calls of *function* with these arguments.

        Raises:
            CaptureError: It cannot be profiled, or failed in a call after the first.
            NotMeasured: The test needs a GPU, and the process has lost it.
            ReplayError: Under replay: there is no recording that may be judged.
        """
        __tracebackhide__ = True
        return self._source.judged(self._source.profile(self._settings, function, args, kwargs), self._settings)

    def block(self) -> Block:
        """Return a context manager that records its block once, as one step.

        For code that cannot be called twice; warming up is the caller's. ``handle.profile``
        exists after the block. Under replay the block runs all the same.
        """
        __tracebackhide__ = True
        if self._settings.setup is not None:
            raise MisuseError("block() records once and takes no setup=; prepare before the block")
        return Block(self._settings, self._source)


class Block:
    """The handle of ``with profiled.block() as handle:``."""

    __slots__ = ("_open", "_profile", "_settings", "_source", "_state")

    def __init__(self, settings: Settings, source: Source) -> None:
        """Make one; tests get theirs from ``profiled.block()``."""
        self._settings = settings
        self._source = source
        self._state = "has not begun"
        self._profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """The profile of the block.

        Raises:
            CaptureError: The block has not ended, or it raised.
        """
        if self._profile is None:
            raise CaptureError(f"handle.profile exists after the block; the block {self._state}")
        return self._profile

    def __enter__(self) -> Block:
        __tracebackhide__ = True
        if self._state != "has not begun":
            raise CaptureError("profiled.block() was entered twice; each block needs its own")
        self._open = self._source.open_block(self._settings)
        self._state = "is still running"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._state = "raised"
        self._profile = self._open.close(kind, error, trace)
        if self._profile is not None:
            self._state = "ended"
            self._source.judged(self._profile, self._settings)
