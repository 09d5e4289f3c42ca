"""What the tests of a run did with ledgers: what is to be written, and which entries nobody used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .document import Place, Write, entry_from
from .entry import Entry

_WRITTEN = ("new", "updated")


class _Test(NamedTuple):
    """What is known of one test of the run.

    Attributes:
        passed: It ran to its end.
        keys: The environments in which it profiled.
    """

    passed: bool
    keys: frozenset[str]


class Accounts:
    """The notes of all tests of a run, whichever process ran them."""

    def __init__(self) -> None:
        """Open them, empty."""
        self._notes: dict[Path, dict[Place, list[tuple[str, Entry | None]]]] = {}
        self._tests: dict[tuple[Path, str], _Test] = {}
        self._collected: dict[Path, dict[str, set[str]]] = {}
        self._keys: set[str] = set()

    def add_test(self, values: Mapping[str, Any]) -> None:
        """Take note of a test that ended.

        Args:
            values: ``file``, its ledger; ``test``, its name in its file; ``passed``, whether it ran to its end;
                ``keys``, the environments in which it profiled, not those of recordings; ``notes``, as
                `Note.values` tells them.
        """
        file = Path(values["file"])
        self._keys |= set(values["keys"])
        self._tests[file, values["test"]] = _Test(values["passed"], frozenset(values["keys"]))
        for note in values["notes"]:
            entry = note["entry"] and entry_from(note["entry"])
            self._notes.setdefault(file, {}).setdefault(Place(*note["place"]), []).append((note["state"], entry))

    def add_collected(self, values: Mapping[str, Mapping[str, Iterable[str]]]) -> None:
        """Take note of which tests there are.

        Args:
            values: By ledger, what was found in the test file (under an empty name) and in each of its classes,
                selected to run or not.
        """
        for file, places in values.items():
            known = self._collected.setdefault(Path(file), {})
            for place, names in places.items():
                known.setdefault(place, set()).update(names)

    @property
    def files(self) -> set[Path]:
        """The ledgers that the run has to do with."""
        return {*self._notes, *self._collected}

    def writes(self, file: Path) -> dict[Place, Write]:
        """Return what is to be written to a ledger."""
        found = {}
        for place, notes in self._notes.get(file, {}).items():
            written = [(state, entry) for state, entry in notes if state in _WRITTEN and entry is not None]
            if written and not self._contradict(file, place):
                state, entry = written[-1]
                found[place] = Write(entry, replaces=state == "updated")
        return found

    def contradictions(self, file: Path) -> list[Place]:
        """Return the entries for which a test, run more than once, measured different things."""
        return [place for place in self._notes.get(file, {}) if self._contradict(file, place)]

    def _contradict(self, file: Path, place: Place) -> bool:
        entries = [entry for _, entry in self._notes[file][place] if entry is not None]
        return any(not entry.same_as(entries[0]) for entry in entries[1:])

    def unused(self, file: Path, entries: Collection[Place], *, has_test_file: bool) -> list[Place]:
        """Return the entries that no test uses any more; one that was not looked at for another reason is none.

        Of environments in which this run profiled nothing, nothing is said: tests may be defined, or
        take parameters, by what is there.

        Args:
            file: The ledger.
            entries: What it holds.
            has_test_file: Whether the file is there that it lies beside.
        """
        if not has_test_file:
            return list(entries)
        here = [place for place in entries if place.environment in self._keys]
        return [place for place in here if self._is_gone(file, place.test) or self._is_passed_by(file, place)]

    def _is_gone(self, file: Path, test: str) -> bool:
        """Return whether a test file was collected whole, and holds a test no more."""
        places = self._collected.get(file)
        if places is None:
            return False
        outer = ""
        for name in _names_to(test):
            if outer not in places:
                return False  # A class that was not looked into.
            if name not in places[outer]:
                return True
            outer = name
        return False

    def _is_passed_by(self, file: Path, place: Place) -> bool:
        """Return whether a test ran to its end, in the environment of an entry, without asking for it."""
        test = self._tests.get((file, place.test))
        if test is None or not test.passed or place in self._notes.get(file, {}):
            return False
        return place.environment in test.keys


def _names_to(test: str) -> Iterator[str]:
    """Yield the names of the classes around a test, and its own: ``A``, ``A::B``, ``A::B::test_one[x::y]``."""
    outer, bracket, parameters = test.partition("[")
    parts = outer.split("::")
    for number in range(1, len(parts)):
        yield "::".join(parts[:number])
    yield outer + bracket + parameters
