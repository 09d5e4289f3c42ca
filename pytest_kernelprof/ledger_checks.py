"""The check of a step against its ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .checks import PASSED, Outcome, Reading, Verdict, agreement, first_that_decides, not_measured
from .errors import MisuseError, instead
from .events import Event, Memcpy, Memset
from .ledger.book import Page
from .ledger.difference import Change, changes
from .ledger.entry import Entry, line_of
from .names import close_names
from .options import LEDGER_LEVELS
from .units import counted

_EXPECTED = "expected what the ledger has"


def level_of(level: Any, default: str) -> str:
    """Return the level that an assertion asks for.

    Raises:
        MisuseError: There is no such level.
    """
    if level is None:
        return default
    if level not in LEDGER_LEVELS:
        raise MisuseError(f"assert_matches_ledger(level={level!r}) is no level; {instead(level, LEDGER_LEVELS)}")
    return str(level)


_MEASURED = ("same", "new", "updated", "differs", "missing")
"""What may become of a profile that was measured whole."""


class _Finding(NamedTuple):
    """What became of a profile and its entry.

    Attributes:
        state: The word for it, as in a `Note`.
        verdict: What the check came to.
        entry: What is to be written, if anything is.
    """

    state: str
    verdict: Verdict = PASSED
    entry: Entry | None = None


def matches_ledger(readings: Mapping[str, Reading], seen: Sequence[Entry], page: Page) -> Verdict:
    """Check that each step launched what its ledger says, or note what is to be written.

    Args:
        readings: The classes of events that the ledger is about.
        seen: What each step launched, as an entry.
        page: The entry, there or not.

    Raises:
        MisuseError: Two profiles of a test would be one entry, and differ.
    """
    __tracebackhide__ = True
    found = _broken(readings, seen, page) or _unjudged(readings, page) or _judged(readings, seen, page)
    measured = seen[0] if found.state in _MEASURED else None
    page.note(found.state, measured, found.entry)
    return found.verdict


def _broken(readings: Mapping[str, Reading], seen: Sequence[Entry], page: Page) -> _Finding | None:
    """Return the failure that holds however the unknown would have come out, if there is one."""
    unsure = [name for name, reading in readings.items() if any(one.why_not_measured for one in reading.chosen)]
    if not unsure or page.entry is None or not _comparable(page.entry, seen[0]):
        return None
    for place, entry in enumerate(seen):
        found = changes(page.entry, entry, unsure)
        if found:
            return _differs(readings, place, entry, page, found, "events are missing, so nothing is written")
    return None


def _unjudged(readings: Mapping[str, Reading], page: Page) -> _Finding | None:
    """Return why a profile is neither compared nor written: events are missing, or its steps disagree."""
    for reading in readings.values():
        if any(one.why_not_measured for one in reading.chosen):
            return _Finding("not measured", not_measured(reading, _EXPECTED))
    verdict = first_that_decides([agreement(reading, _EXPECTED) for reading in readings.values()])
    if verdict.outcome is not Outcome.PASS:
        return _Finding("steps disagree", verdict)
    return _unknown_size(readings, page.entry)


def _unknown_size(readings: Mapping[str, Reading], expected: Entry | None) -> _Finding | None:
    """Return that a copy or Memset of unknown size cannot be compared, unless the ledger has it so."""
    if expected is None:
        return None
    for name, reading in readings.items():
        for event in (one for events in reading.chosen for one in events.seen):
            known = not isinstance(event, (Memcpy, Memset)) or event.size_bytes is not None
            if not known and line_of(event, expected.level) not in expected.lines.get(name, {}):
                told = f"bytes not measured: the trace does not tell them for {event.name}; {_EXPECTED}"
                return _Finding("not measured", Verdict(Outcome.NOT_MEASURED, told, [event]))
    return None


def _judged(readings: Mapping[str, Reading], seen: Sequence[Entry], page: Page) -> _Finding:
    """Compare what is known, or write it."""
    if page.entry is None:
        return _without_entry(seen, page)
    comparable = _comparable(page.entry, seen[0])
    found = [changes(page.entry, entry) for entry in seen] if comparable else []
    if comparable and not any(found):
        return _Finding("same")
    if page.may_replace and not _differ(seen):
        return _Finding("updated", Verdict(Outcome.PASS, ledger=tuple(next(filter(None, found), ()))), seen[0])
    if not comparable:
        return _Finding("differs", _of_another_kind(seen[0], page.entry, page))
    place = next(place for place, one in enumerate(found) if one)
    return _differs(readings, place, seen[place], page, found[place], _why_kept(seen, page, page.book.policy.update))


def _comparable(expected: Entry, seen: Entry) -> bool:
    return expected.level == seen.level and set(expected.lines) == set(seen.lines)


def _differ(seen: Sequence[Entry]) -> bool:
    return any(not entry.same_as(seen[0]) for entry in seen[1:])


def _why_kept(seen: Sequence[Entry], page: Page, asked: bool) -> str:
    """Return why nothing is written although that was asked for; nothing where it was not."""
    if asked and page.slot.replayed:
        return "nothing is written from a replay"
    if asked and _differ(seen):
        return _FROM_ONE_STEP
    return ""


_FROM_ONE_STEP = (
    "the steps differ, so nothing is written; write the entry from one step, with --kernelprof-update "
    "--kernelprof-steps=1, then make its counts ranges by hand: [1, 3]"
)


def _differs(
    readings: Mapping[str, Reading], place: int, seen: Entry, page: Page, found: Sequence[Change], kept: str
) -> _Finding:
    """Return the failure that a step is not as its ledger says."""
    reading = next(iter(readings.values()))
    step = reading.steps[place] if reading.may_differ and len(reading.steps) > 1 else "the step"
    return _Finding(
        "differs",
        Verdict(
            Outcome.FAIL,
            f"{step} differs from its ledger: {_headline(found)}",
            _events(readings, place, seen, found),
            ledger=tuple(found),
            remark="\n".join(filter(None, (_good_news(found), kept, *_about(page)))),
        ),
    )


_NOUNS = {
    "kernels": "kernel",
    "memcpys": "memory copy",
    "memsets": "Memset",
    "host_syncs": "host sync",
    "ops": "op",
}


def _headline(found: Sequence[Change]) -> str:
    """Return all changes in few words: ``+1 memory copy, 2 kernels changed``."""
    told = [one.regrouped for one in found if one.regrouped]
    for name, noun in _NOUNS.items():
        of_class = [one for one in found if one.class_name == name]
        changed, more, fewer = (
            sum(max(one.numbers) for one in of_class if one.kind == kind) for kind in ("changed", "more", "fewer")
        )
        told += [f"+{counted(more, noun)}"] if more else []
        told += [f"-{counted(fewer, noun)}"] if fewer else []
        told += [f"{counted(changed, noun)} changed"] if changed else []
    return ", ".join(told)


def _events(readings: Mapping[str, Reading], place: int, seen: Entry, found: Sequence[Change]) -> list[Event]:
    """Return the events of a step that are in lines of which the ledger has fewer, or none."""
    lines = {(change.class_name, line) for change in found for line, _ in change.after}
    return [
        event
        for name, reading in readings.items()
        for event in reading.chosen[place].seen
        if (name, line_of(event, seen.level)) in lines
    ]


def _good_news(found: Sequence[Change]) -> str:
    good = all(one.good_news for one in found)
    return "fewer than before: if that is meant, update the ledger" if good else ""


def _about(page: Page, option: str = "--kernelprof-update") -> list[str]:
    """Return which entry of which file it is about, where it was made, and how to accept what was seen."""
    made = page.entry.made_on if page.entry else {}
    versions = [f"{name} {made[name]}" for name in ("torch", "cuda", "rocm") if name in made]
    told = ", ".join([*([made["device"]] if "device" in made else []), *versions])
    return [
        f"ledger: {page.book.shown}: {page.place.words()}" + (f" (made on {told})" if told else ""),
        f"to accept{', where the device is' if page.slot.replayed else ''}: {page.book.command(option)}",
    ]


def _of_another_kind(seen: Entry, expected: Entry, page: Page) -> Verdict:
    """Return that an entry cannot be compared: it is of the other level, or of other classes of events."""
    what = f"level {expected.level}, the test asks for {seen.level}"
    if expected.level == seen.level:
        what = f"{', '.join(expected.lines)}, the profile of {', '.join(seen.lines)}"
    return Verdict(Outcome.FAIL, f"the ledger entry is of {what}", remark="\n".join(_about(page)))


def _without_entry(seen: Sequence[Entry], page: Page) -> _Finding:
    if page.may_add and not _differ(seen):
        return _Finding("new", entry=seen[0])
    kept = _why_kept(seen, page, page.book.policy.add)
    told = [*_elsewhere(seen[0], page), kept, *_about(page, "--kernelprof-update-new")]
    headline = f"no ledger entry for {page.place.words()}"
    return _Finding("missing", Verdict(Outcome.NO_ENTRY, headline, remark="\n".join(filter(None, told))))


def _elsewhere(seen: Entry, page: Page) -> list[str]:
    """Return which entries there are instead, and what would differ from them."""
    if page.others:
        return [f"{key}: {_against(entry, seen)}" for key, entry in page.others.items()]
    if not page.tests:
        return ["the ledger does not exist or is empty"]
    close = close_names(page.place.test, page.tests)
    told = f"the ledger has {counted(len(page.tests), 'other test')}"
    return [f"{told}; close: {', '.join(close)}" if close else told]


def _against(entry: Entry, seen: Entry) -> str:
    if not _comparable(entry, seen):
        return "has an entry, which is not comparable"
    found = changes(entry, seen)
    return f"has an entry; against it: {_headline(found)}" if found else "has an entry, which would match"
