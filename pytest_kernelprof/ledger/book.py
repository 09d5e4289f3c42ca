"""A ledger as one test sees it: what it holds for a profile, and what may be written.

Nothing is written here: what is to be is noted, and the run writes it at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import MisuseError, NotMeasured
from ..load.own import NO_CONTEXT
from ..model import GPU_CLASSES, Trace
from .document import Entries, Place, values_of
from .entry import CPU_CLASSES, CPU_KEY, Entry, environment_key, uses_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a run does with ledgers.

    Attributes:
        update: Entries that differ are replaced, missing ones added, unused ones removed.
        add: Missing entries are added.
        level: ``roles`` or ``names``, where a test does not say.
        key_parts: What tells environments apart beside the architecture of the GPU.
    """

    update: bool = False
    add: bool = False
    level: str = "roles"
    key_parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """What became of one profile and its entry.

    Attributes:
        place: The entry.
        profile: The name of the profile, whatever it was narrowed to.
        state: ``same``, ``new``, ``updated``, ``differs``, ``missing``, ``not measured`` or ``steps disagree``.
        seen: What was measured, if it was.
        entry: What is to be written, if anything is.
    """

    place: Place
    profile: str
    state: str
    seen: Entry | None = None
    entry: Entry | None = None

    def values(self) -> dict[str, Any]:
        """Return it as plain values, which cross from an xdist worker."""
        return {"place": tuple(self.place), "state": self.state, "entry": self.entry and values_of(self.entry)}


class Book:
    """The ledger beside a test, as that test sees it."""

    def __init__(
        self,
        *,
        test: str,
        shown: str,
        policy: Policy,
        command: Callable[[str], str],
        entries: Callable[[str], Entries],
    ) -> None:
        """Open it; it is read when somebody asks.

        Args:
            test: The test within its file.
            shown: How a message names the ledger.
            policy: What the run does with ledgers.
            command: Returns the command that runs the test with an option.
            entries: Returns what the ledger holds; is given the command that makes it anew, for its errors.
        """
        self.test = test
        self.shown = shown
        self.policy = policy
        self.command = command
        self.notes: list[Note] = []
        self._entries = entries

    def entries(self) -> Entries:
        """Return what the ledger holds.

        Raises:
            LedgerError: It cannot be understood.
        """
        __tracebackhide__ = True
        return self._entries(self.command("--kernelprof-update"))


class Slot(NamedTuple):
    """Where a profile finds its entry.

    Attributes:
        book: Returns the ledger beside the test that runs.
        profile: The name of the profile, or its place in the test; ``None`` if other tests share it and it has no name.
        needs_gpu: The test asks for a GPU: a step that used none has lost it.
        replayed: The profile is a recording.
    """

    book: Callable[[], Book]
    profile: str | None
    needs_gpu: bool
    replayed: bool

    def page(self, trace: Trace, regions: Sequence[str]) -> tuple[Page, tuple[str, ...]]:
        """Return the entry of a profile, and the classes of events that it is about.

        Args:
            trace: What was profiled.
            regions: What the profile was narrowed to.

        Raises:
            LedgerError: The ledger cannot be understood.
            MisuseError: The profile has no name, and needs one.
            NotMeasured: The trace does not tell its environment.
        """
        __tracebackhide__ = True
        if self.profile is None:
            raise MisuseError(
                "assert_matches_ledger() needs a name= here: profiles that tests share come in the order of the tests "
                "that run; write configure(name='...')"
            )
        book = self.book()
        profile = ", ".join([self.profile, *(f"region {one}" for one in regions)])
        keys = _keys(trace, book.policy.key_parts, on_gpu=self.needs_gpu)
        entries = book.entries()
        # A test that once used the GPU that is there, and uses it no more, has lost it.
        key = next((one for one in keys if Place(book.test, profile, one) in entries), keys[0])
        page = Page(book, Place(book.test, profile, key), self)
        return page, CPU_CLASSES if key.partition("-")[0] == CPU_KEY else GPU_CLASSES


def environments_of(trace: Trace, parts: Sequence[str]) -> list[str]:
    """Return the keys under which a profile may have an entry, the one that it would be given first.

    Empty where the trace does not tell its environment.
    """
    try:
        return _keys(trace, parts, on_gpu=False)
    except NotMeasured:
        return []


def _keys(trace: Trace, parts: Sequence[str], *, on_gpu: bool) -> list[str]:
    __tracebackhide__ = True
    on_gpu = on_gpu or uses_gpu(trace) or trace.no_gpu not in (None, NO_CONTEXT)
    keys = [environment_key(trace.environment, on_gpu=on_gpu, parts=parts)]
    if not on_gpu and trace.no_gpu is None and trace.environment.devices:
        with suppress(NotMeasured):
            keys.append(environment_key(trace.environment, on_gpu=True, parts=parts))
    return keys


class Page:
    """The entry of one profile, there or not.

    Attributes:
        entry: The entry; ``None`` if there is none.
        others: The entries of the same profile in other environments.
    """

    def __init__(self, book: Book, place: Place, slot: Slot) -> None:
        """Find an entry; `Slot.page` does.

        Raises:
            LedgerError: The ledger cannot be understood.
        """
        __tracebackhide__ = True
        entries = book.entries()
        self.book = book
        self.place = place
        self.slot = slot
        self.entry = entries.get(place)
        self.others: Mapping[str, Entry] = {
            one.environment: entry for one, entry in entries.items() if one[:2] == place[:2] and one != place
        }
        self.tests = sorted({one.test for one in entries})

    @property
    def may_add(self) -> bool:
        """Whether a missing entry is written."""
        return self.book.policy.add and not self.slot.replayed

    @property
    def may_replace(self) -> bool:
        """Whether an entry that differs is written anew."""
        return self.book.policy.update and not self.slot.replayed

    def note(self, state: str, seen: Entry | None = None, entry: Entry | None = None) -> None:
        """Note what became of it; an *entry* is written at the end of the run.

        Raises:
            MisuseError: The same test has measured something else for the same entry.
        """
        __tracebackhide__ = True
        for note in self.book.notes:
            if seen is None or note.seen is None or note.place != self.place or note.seen.same_as(seen):
                continue
            if note.seen.level != seen.level:
                raise MisuseError(f"{self.place.test} asks for two levels of one ledger entry, which has one; drop one")
            raise MisuseError(
                f"two profiles of {self.place.test} would be one ledger entry, and differ; give one a name="
            )
        self.book.notes.append(Note(self.place, self.slot.profile or "", state, seen, entry))
