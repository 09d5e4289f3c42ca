"""Sets of events that know what they cannot know.

Reading a set whose content was not measured raises `NotMeasured`, whichever way it is read.

Named tuples here and in `model`, not dataclasses: importing those takes 9 ms, and the whole of
`kernelprof show` on a small trace 45 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar, overload

from .errors import MisuseError, NotMeasured, SelectorError, instead
from .events import Call, Event, GpuEvent, Kernel, Views
from .names import ROLES, close_names, decode_kernel, demangled, glob, matches, shorten
from .units import counted, plural

if TYPE_CHECKING:
    from typing_extensions import Self

T_co = TypeVar("T_co", bound=Event, covariant=True)


class Vocabulary(NamedTuple):
    """Every op, region and stream that occurs in a profile: what a selector may name.

    Attributes:
        ops: Names of ops.
        regions: Names of regions.
        streams: Stream ids.
        unplaced_ops: Ops of which some lack a start or an end: what they enclose is unknown; an empty name is any.
        unplaced_regions: Regions of which some do.
        kernels: Names of kernels.
    """

    ops: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    streams: frozenset[int] = frozenset()
    unplaced_ops: frozenset[str] = frozenset()
    unplaced_regions: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()

    def roles(self) -> dict[str, None] | None:
        """Return the roles of the kernels; ``None`` if a name among them says nothing."""
        decoded = [decode_kernel(name) for name in sorted(self.kernels)]
        return dict.fromkeys(name.role for name in decoded) if all(name.recognized for name in decoded) else None


class _Selectors(NamedTuple):
    """The fields of a `Selection`."""

    named: str | None = None
    matching: str | None = None
    launched_by: str | None = None
    region: str | None = None
    stream: int | None = None
    role: str | None = None
    allow_empty: bool = False


class Selection(_Selectors):
    """What an assertion's selectors ask for; ``None`` asks nothing.

    Attributes:
        named: A glob that the name must match, case-sensitive.
        matching: A regular expression that must be found in the name.
        launched_by: A glob for any op around the launch.
        region: A glob for any region around the launch.
        stream: A stream id.
        role: What a kernel is for, one of ``pytest_kernelprof.names.ROLES``.
        allow_empty: Accept an op, a region, a stream or a role that does not occur at all.
    """

    __slots__ = ()

    def __new__(cls, **selectors: Any) -> Selection:
        """Make one.

        Raises:
            MisuseError: A selector is of the wrong kind.
        """
        self = super().__new__(cls, **selectors)
        self._check()
        return self

    def _check(self) -> None:
        for argument in ("named", "matching", "launched_by", "region"):
            value = getattr(self, argument)
            if value is not None and (not isinstance(value, str) or not value):
                raise MisuseError(f"{argument}={value!r} is no pattern; accepted: text that is not empty")
        if self.matching is not None:
            try:
                re.compile(self.matching)
            except re.error as error:
                raise MisuseError(f"matching={self.matching!r} is no regular expression: {error}") from error
        if not isinstance(self.allow_empty, bool):
            raise MisuseError(f"allow_empty={self.allow_empty!r} is no truth value; accepted: True or False")
        if self.stream is not None and (isinstance(self.stream, bool) or not isinstance(self.stream, int)):
            raise MisuseError(f"stream={self.stream!r} is no stream id; accepted: an int")
        if self.role is not None and self.role not in ROLES:
            raise MisuseError(f"role={self.role!r} is no role; {instead(self.role, ROLES)}")

    def words(self) -> str:
        """Return the selection as it reads in a headline: ``named 'gemm*', region 'step'``."""
        asked = ("named", "matching", "launched_by", "region", "stream", "role")
        return ", ".join(
            f"{name.replace('_', ' ')} {value!r}" for name in asked if (value := getattr(self, name)) is not None
        )


_EVERYTHING = Selection()
_NAME_WIDTH = 60


class Unknown(NamedTuple):
    """What is missing from a set of events.

    Attributes:
        reasons: Why events may be missing that nobody can count.
        lost: Launches of this class that have no GPU event; their ops and regions are known.
        leftover: Events that may belong to the set: a field that the selection needs is missing.
        nothing: The class was not observed at all: what was seen is not even a lower bound worth showing.
        unwatched: The recording lost nothing: the profiler did not watch what is missing.
    """

    reasons: tuple[str, ...] = ()
    lost: tuple[Call, ...] = ()
    leftover: int = 0
    nothing: bool = False
    unwatched: bool = False

    def why(self) -> str | None:
        """Return in one sentence why the set was not measured, or ``None`` if it was."""
        told = list(dict.fromkeys(self.reasons))
        if self.lost:
            first = self.lost[0]
            where = f"by {first.chain[-1].name}" if first.chain else "outside ops"
            told.append(
                f"{counted(len(self.lost), 'call')} without a GPU event ({first.name} {where})"
                if len(self.lost) == 1
                else f"{len(self.lost)} calls without a GPU event (the first: {first.name} {where})"
            )
        if self.leftover:
            told.append(f"{counted(self.leftover, 'event')} without the field that the selection needs")
        return "; ".join(told) or None


Refuse = Callable[[tuple["EventSet[Any]", ...]], "str | None"]
"""Returns why the sets of several steps must not be read as one, or ``None`` if they agree."""


class EventSet(Sequence[T_co], Generic[T_co]):
    """Events of one class, in the order of their launches.

    Every filter returns a new set. Whatever reads a set that was not measured raises
    `NotMeasured`: length, truth value, iteration, indexing, filters and numbers alike.

    Attributes:
        noun: What one event is called.
        unknown: What is missing from the set.
        chosen_by: How the set was narrowed, in words.
    """

    __slots__ = ("_events", "_peers", "_refuse", "_vocabulary", "chosen_by", "noun", "unknown")

    def __init__(
        self,
        events: Iterable[T_co] = (),
        *,
        noun: str = "event",
        unknown: Unknown | None = None,
        vocabulary: Vocabulary | None = None,
        chosen_by: tuple[str, ...] = (),
        peers: tuple[EventSet[T_co], ...] = (),
        refuse: Refuse | None = None,
    ) -> None:
        """Make a set.

        Args:
            events: The events, in order.
            noun: What one event is called.
            unknown: What is missing.
            vocabulary: The names that a selector may use; ``None`` takes any.
            chosen_by: How the set was narrowed, in words.
            peers: The same set of the other steps, with which this one must agree.
            refuse: Returns the text of the `AssertionError` that reading raises if they do not.
        """
        self._events: Sequence[T_co] = events if isinstance(events, Views) else tuple(events)
        self._vocabulary = vocabulary
        self._peers = peers
        self._refuse = refuse
        self.noun = noun
        self.unknown = unknown or Unknown()
        self.chosen_by = chosen_by

    @property
    def seen(self) -> Sequence[T_co]:
        """The events that the trace holds, though some may be missing; for messages, not for verdicts."""
        return self._events

    @property
    def why_not_measured(self) -> str | None:
        """One sentence that says why the set was not measured, or ``None`` if it was."""
        return self.unknown.why()

    def _read(self) -> Sequence[T_co]:
        __tracebackhide__ = True
        for events in (self, *self._peers):
            why = events.why_not_measured
            if why:
                raise NotMeasured(f"{plural(self.noun)} not measured: {why}")
        refusal = self._refuse((self, *self._peers)) if self._refuse else None
        if refusal:
            raise AssertionError(refusal)
        return self._events

    def __len__(self) -> int:
        __tracebackhide__ = True
        return len(self._read())

    def __bool__(self) -> bool:
        __tracebackhide__ = True
        return bool(self._read())

    def __iter__(self) -> Iterator[T_co]:
        __tracebackhide__ = True
        return iter(self._read())

    def __reversed__(self) -> Iterator[T_co]:
        __tracebackhide__ = True
        return reversed(self._read())

    def __contains__(self, event: object) -> bool:
        __tracebackhide__ = True
        return event in self._read()

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> EventSet[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | EventSet[T_co]:
        __tracebackhide__ = True
        events = self._read()
        if isinstance(index, slice):
            return self._alone(events[index])
        return events[index]

    def __eq__(self, other: object) -> bool:
        __tracebackhide__ = True
        events = self._read()
        if isinstance(other, EventSet):
            return list(events) == list(other._read())
        return (list(events) if isinstance(other, list) else tuple(events)) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        chosen = "".join(f", {words}" for words in self.chosen_by)
        if self.why_not_measured:
            return f"<{plural(self.noun)} not measured{chosen}>"
        return f"<{counted(len(self._events), self.noun)}{chosen}>"

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many events the set holds."""
        __tracebackhide__ = True
        return len(self._read())

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """Return the position of *value*, as ``list.index`` does."""
        __tracebackhide__ = True
        return self._read().index(value, start, len(self._events) if stop is None else stop)

    @property
    def duration_ns(self) -> int:
        """The sum of the durations, in nanoseconds.

        Raises:
            NotMeasured: An event has no duration.
        """
        __tracebackhide__ = True
        total = 0
        for event in self._read():
            if event.duration_ns is None:
                raise NotMeasured(f"time not measured: {event.name} has no duration in the trace")
            total += event.duration_ns
        return total

    def named(self, pattern: str, *, allow_empty: bool = True) -> Self:
        """Return the events whose name matches the glob *pattern*.

        Args:
            pattern: Case-sensitive, ``*`` and ``?``; ``[`` is literal. It is compared with the
                whole name, and with the name without return type, template arguments and
                parameters.
            allow_empty: False raises if nothing matches.
        """
        __tracebackhide__ = True
        return self._public(Selection(named=pattern), must_match=not allow_empty)

    def matching(self, pattern: str, *, allow_empty: bool = True) -> Self:
        """Return the events in whose name the regular expression *pattern* is found."""
        __tracebackhide__ = True
        return self._public(Selection(matching=pattern), must_match=not allow_empty)

    def launched_by(self, op: str, *, allow_empty: bool = False) -> Self:
        """Return the events that an op matching the glob *op* launched, itself or through others.

        Raises:
            SelectorError: No such op occurs in the profile, and *allow_empty* is False.
        """
        __tracebackhide__ = True
        return self._public(Selection(launched_by=op, allow_empty=allow_empty))

    def in_region(self, name: str, *, allow_empty: bool = False) -> Self:
        """Return the events of the ``record_function`` ranges that match the glob *name*.

        Raises:
            SelectorError: No such region occurs in the profile, and *allow_empty* is False.
        """
        __tracebackhide__ = True
        return self._public(Selection(region=name, allow_empty=allow_empty))

    def on_stream(self, stream: int, *, allow_empty: bool = False) -> Self:
        """Return the events of one stream.

        Raises:
            SelectorError: Nothing in the profile ran on it, and *allow_empty* is False.
        """
        __tracebackhide__ = True
        return self._public(Selection(stream=stream, allow_empty=allow_empty))

    def role(self, role: str, *, allow_empty: bool = False) -> Self:
        """Return the kernels of one role, such as ``gemm``; see ``pytest_kernelprof.names.ROLES``.

        A kernel whose name says nothing may be of any role: it makes the new set *not measured*.

        Raises:
            MisuseError: It is no role, or the events are no kernels.
            SelectorError: No kernel of the profile has it, and *allow_empty* is False.
        """
        __tracebackhide__ = True
        return self._public(Selection(role=role, allow_empty=allow_empty))

    def where(self, predicate: Callable[[T_co], object]) -> Self:
        """Return the events for which *predicate* is true."""
        __tracebackhide__ = True
        self._read()
        peers = tuple(peer.where(predicate) for peer in self._peers)
        kept = tuple(event for event in self._events if predicate(event))
        return self._with(kept, self.unknown, "where ...", peers)

    def _public(self, selection: Selection, *, must_match: bool = False) -> Self:
        __tracebackhide__ = True
        self._read()
        chosen = self.select(selection)
        if must_match and not chosen.seen:
            wanted = selection.named or selection.matching or ""
            self._nothing(selection.words(), wanted, [event.name for event in self._events], sure=True)
        return chosen

    def select(self, selection: Selection) -> Self:
        """Return the events that *selection* asks for, measured or not.

        Events that lack the field asked for are neither taken nor dropped: they make the new
        set *not measured*.

        Raises:
            SelectorError: It names an op, a region, a stream or a role that does not occur at all.
        """
        __tracebackhide__ = True
        if selection == _EVERYTHING:
            return self
        self._check_words(selection)
        sure: list[T_co] = []
        nameless: list[Kernel] = []
        leftover = 0
        for event in self._events:
            verdict = _selected(event, selection)
            role = _has_role(event, selection.role) if verdict is not False else False
            if verdict and role:
                sure.append(event)
            elif role is None and isinstance(event, Kernel):
                nameless.append(event)
            elif verdict is None and role:
                leftover += 1
        lost = tuple(call for call in self.unknown.lost if _selected_by_place(call, selection) is not False)
        unknown = self.unknown._replace(
            lost=lost,
            leftover=self.unknown.leftover + leftover,
            reasons=(
                *self.unknown.reasons,
                *self._unplaced(selection),
                *([teach_hint(nameless)] if nameless else ()),
            ),
        )
        peers = tuple(peer.select(selection) for peer in self._peers)
        return self._with(tuple(sure), unknown, selection.words(), peers)

    def _unplaced(self, selection: Selection) -> Iterator[str]:
        """Yield why it is unknown what the ops and regions that *selection* names enclose."""
        vocabulary = self._vocabulary or Vocabulary()
        for pattern, unplaced in (
            (selection.launched_by, vocabulary.unplaced_ops),
            (selection.region, vocabulary.unplaced_regions),
        ):
            names = [name for name in sorted(unplaced) if pattern is not None and (not name or glob(pattern, name))]
            if names:
                yield (
                    f"the trace does not tell when {names[0]} began or ended"
                    if names[0]
                    else "the trace does not tell the name or the thread of every range"
                )

    def narrowed(self, judge: Callable[[T_co], bool | None], words: str) -> Self:
        """Return the events that *judge* takes; its ``None`` says that the trace does not tell."""
        verdicts = [(event, judge(event)) for event in self._events]
        leftover = sum(verdict is None for _, verdict in verdicts)
        unknown = self.unknown._replace(leftover=self.unknown.leftover + leftover)
        return self._with(tuple(event for event, verdict in verdicts if verdict), unknown, words, ())

    def _with(self, events: Sequence[T_co], unknown: Unknown, words: str, peers: tuple[EventSet[T_co], ...]) -> Self:
        return type(self)(
            events,
            noun=self.noun,
            unknown=unknown,
            vocabulary=self._vocabulary,
            chosen_by=(*self.chosen_by, words) if words else self.chosen_by,
            peers=peers,
            refuse=self._refuse,
        )

    def _alone(self, events: Sequence[T_co]) -> Self:
        """Return some events of a set that was read: nothing more can be missing from them."""
        return type(self)(events, noun=self.noun, vocabulary=self._vocabulary, chosen_by=self.chosen_by)

    def agreeing(self, peers: tuple[EventSet[T_co], ...], refuse: Refuse) -> Self:
        """Return the same set, which can only be read where it agrees with *peers*."""
        chosen = self._with(self._events, self.unknown, "", peers)
        chosen._refuse = refuse
        return chosen

    def _check_words(self, selection: Selection) -> None:
        __tracebackhide__ = True
        vocabulary = self._vocabulary
        if selection.role is not None and self.noun != "kernel":
            raise MisuseError(f"role={selection.role!r} picks kernels; {plural(self.noun)} have no role")
        if selection.allow_empty or vocabulary is None:
            return
        for argument, known in (("launched_by", vocabulary.ops), ("region", vocabulary.regions)):
            pattern = getattr(selection, argument)
            if pattern is not None and not any(glob(pattern, name) for name in known):
                self._nothing(f"{argument}={pattern!r}", pattern, known, sure=bool(known))
        if selection.stream is not None and selection.stream not in vocabulary.streams:
            self._nothing(f"stream={selection.stream!r}", "", map(str, sorted(vocabulary.streams)), sure=False)
        roles = vocabulary.roles() if selection.role is not None else None
        if roles is not None and selection.role not in roles:
            self._nothing(f"role={selection.role!r}", str(selection.role), roles, sure=False)

    def _nothing(self, asked: str, wanted: str, known: Iterable[str], *, sure: bool) -> NoReturn:
        """Raise that *asked* does not occur; unless *sure*, that may be because it was not measured."""
        __tracebackhide__ = True
        names = list(dict.fromkeys(known))
        close = close_names(wanted, names)
        if close:
            there = f"the closest: {', '.join(close)}"
        elif names:
            known_names = ", ".join(shorten(name, _NAME_WIDTH) for name in sorted(names)[:3])
            there = f"there is {known_names}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        else:
            there = "there is none at all"
        message = f"{asked} does not occur in the profile; {there} (allow_empty=True accepts it)"
        why = self.why_not_measured
        if why and not sure:
            raise NotMeasured(f"{plural(self.noun)} not measured: {why}; so far {message}")
        raise SelectorError(message)


class LaunchSet(EventSet[Call]):
    """Kernel and graph launches; `all_calls` adds the calls that copy or set memory."""

    __slots__ = ("_all_calls",)

    # Made when it is asked for: what is asked of launches must not fail for a call that copies.
    _all_calls: Callable[[], EventSet[Call]] | None

    def __init__(
        self, events: Iterable[Call] = (), *, all_calls: EventSet[Call] | None = None, **options: object
    ) -> None:
        """Make a set; *options* are those of `EventSet`."""
        super().__init__(events, **options)  # type: ignore[arg-type]
        self._all_calls = None if all_calls is None else lambda: all_calls

    @property
    def all_calls(self) -> EventSet[Call]:
        """The same launches together with the calls that copy or set memory."""
        __tracebackhide__ = True
        return self._all_calls() if self._all_calls is not None else self

    def agreeing(self, peers: tuple[EventSet[Call], ...], refuse: Refuse) -> Self:
        """Return the same set, which can only be read where it agrees with *peers*."""
        others = tuple(peer.all_calls for peer in peers if isinstance(peer, LaunchSet))
        return self._beside(super().agreeing(peers, refuse), lambda calls: calls.agreeing(others, refuse))

    def where(self, predicate: Callable[[Call], object]) -> Self:
        """Return the calls for which *predicate* is true."""
        __tracebackhide__ = True
        return self._beside(super().where(predicate), lambda calls: calls.where(predicate))

    def select(self, selection: Selection) -> Self:
        """Return the calls that *selection* asks for, measured or not."""
        __tracebackhide__ = True
        if selection == _EVERYTHING:
            return self
        return self._beside(super().select(selection), lambda calls: calls.select(selection))

    def _beside(self, chosen: Self, narrow: Callable[[EventSet[Call]], EventSet[Call]]) -> Self:
        """Let *chosen* of these launches have the calls that copy or set memory narrowed in the same way."""
        if self._all_calls is not None:
            chosen._all_calls = lambda: narrow(self.all_calls)
        return chosen


def teach_hint(kernels: Sequence[Kernel]) -> str:
    """Return that the names of *kernels* do not tell what was asked, and how to teach it."""
    names = list(dict.fromkeys(kernel.name for kernel in kernels))
    first = shorten(demangled(names[0]), _NAME_WIDTH)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    number = counted(len(kernels), "kernel")
    return f"{number} with a name that does not tell ({first}{more}); a hook can teach it (docs/names.md#teaching)"


def _has_role(event: Event, role: str | None) -> bool | None:
    """Judge by role; a name that says nothing may be of any role but ``other``."""
    if role is None:
        return True
    if not isinstance(event, Kernel):
        return False
    decoded = event.decoded
    return decoded.role == role if decoded.recognized or role == "other" else None


def _selected(event: Event, selection: Selection) -> bool | None:
    if selection.named is not None:
        fits = matches if isinstance(event, GpuEvent) else glob
        if not fits(selection.named, event.name):
            return False
    if selection.matching is not None and not re.search(selection.matching, event.name):
        return False
    place = _selected_by_place(event, selection)
    if place is False or selection.stream is None:
        return place
    stream = getattr(event, "stream", None)
    if stream is None:
        return None  # A call or an op has no stream: which one it was for, the trace does not tell.
    return place if stream == selection.stream else False


def _selected_by_place(event: Event, selection: Selection) -> bool | None:
    """Judge by ops and regions alone: all that is known of a launch that left no GPU event."""
    if selection.launched_by is not None and not any(glob(selection.launched_by, op.name) for op in event.chain):
        return False
    if selection.region is None or any(glob(selection.region, name) for name in event.regions):
        return True
    return False if event.regions_known else None
