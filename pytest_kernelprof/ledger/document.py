"""Ledger files: the only place that knows how a ledger is written.

A file that cannot be understood whole is refused, in one line with the place and the cure: it is
somebody's record, and half of it is none.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from ..documents import cut, path_at, path_of, problem
from ..errors import LedgerError
from ..files import locked, write_at_once
from ..model import GPU_CLASSES
from .entry import CPU_CLASSES, LINES, Amount, Entry, Line, lost_ranges, merged, sort_key

FOLDER = "__kernelprof__"
_FORMAT, _VERSION = "kernelprof/ledger/", 1
_SCHEMA = "ledger-1"
_CONFLICT = re.compile(r"^(<{7} |={7}$|>{7} |\|{7} )", re.MULTILINE)
_WIDEST_VALUE = 120
_LOCK_SECONDS = 60
_LOCKS = ".locks"
# Where a line's field is called otherwise in the file.
_KEYS = {"size_bytes": "bytes"}
_LEFT_OUT = {"name": None, "pageable": False}
"""What is not written where it says nothing."""

_RESTORE = "restore it from version control, or delete it and make it anew: {update}"
_CORRECT = "correct it by hand, or delete the entry and make it anew: {update}"


class Place(NamedTuple):
    """Where an entry stands in a ledger.

    Attributes:
        test: The test within its file, such as ``TestMask::test_one[16]``.
        profile: The name of its profile, or the place in the order of the test's calls.
        environment: The key of an environment, such as ``sm90``.
    """

    test: str
    profile: str
    environment: str

    def words(self) -> str:
        """Return it for a message: the profile only where it is not the first."""
        profile = "" if self.profile == "1" else f" ({self.profile})"
        return f"{self.test}{profile}, {self.environment}"


class Write(NamedTuple):
    """An entry to be written.

    Attributes:
        entry: What was seen.
        replaces: It takes the place of another one; otherwise one that is there stays.
    """

    entry: Entry
    replaces: bool


Entries = dict[Place, Entry]


def ledger_of(test_file: Path) -> Path:
    """Return the ledger beside a test file."""
    return test_file.parent / FOLDER / f"{test_file.stem}.json"


def test_file_of(ledger: Path) -> Path:
    """Return the test file beside which a ledger lies."""
    return ledger.parent.parent / f"{ledger.stem}.py"


def has_test_file(ledger: Path) -> bool:
    """Return whether the file is there beside which a ledger lies, Python or not."""
    return any(one.stem == ledger.stem and one.is_file() for one in ledger.parent.parent.glob(f"{ledger.stem}.*"))


def ledgers_below(folder: Path, left_out: Sequence[str]) -> Iterator[Path]:
    """Yield the ledgers below a folder.

    Args:
        folder: The folder.
        left_out: Globs for the names of folders that are not looked into.
    """
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name == FOLDER or not any(fnmatch(name, one) for one in left_out)]
        if Path(place).name == FOLDER:
            folders.clear()
            yield from (Path(place, name) for name in files if name.endswith(".json"))


def read(path: Path, shown: str, update: str) -> Entries:
    """Return the entries of a ledger; none where there is no file.

    Args:
        path: The file.
        shown: How a message names it.
        update: The command that makes it anew.

    Raises:
        LedgerError: It is no ledger that this version understands, whole.
    """
    __tracebackhide__ = True
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LedgerError(
            f"{shown}: $: cannot be read: {error.strerror}; it should be a JSON file, or not be there"
        ) from None

    def refuse(at: str, what: str, cure: str) -> LedgerError:
        return LedgerError(f"{shown}: {at}: {what.rstrip('?')}; {cure.format(update=update)}")

    return _entries(_checked(content, refuse), refuse)


Refuse = Callable[[str, str, str], LedgerError]


def _checked(content: bytes, refuse: Refuse) -> dict[str, Any]:
    """Return a ledger's document, which the schema allows."""
    __tracebackhide__ = True
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse("$", f"not UTF-8 at byte {error.start}", _RESTORE) from None
    marker = _CONFLICT.search(text)
    if marker:
        line = text.count("\n", 0, marker.start()) + 1
        written = text[marker.start() :].split("\n", 1)[0][:_WIDEST_VALUE].strip()
        raise refuse(
            path_at(text, marker.start()),
            f"conflict marker {written!r} in line {line}",
            "take either side whole, then: {update}",
        )
    document = _parsed(text, refuse)
    _check_version(document, refuse)
    wrong = problem(document, _SCHEMA)
    if wrong is not None:
        raise refuse(*wrong, _CORRECT)
    checked: dict[str, Any] = document
    return checked


def _parsed(text: str, refuse: Refuse) -> Any:
    __tracebackhide__ = True

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise _TwiceError(twice)
        return found

    def no_number(literal: str) -> Any:
        raise ValueError(f"{literal} is no number")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=no_number)
    except json.JSONDecodeError as error:
        what = f"no JSON in line {error.lineno}, column {error.colno}: {error.msg}"
        raise refuse(path_at(text, error.pos), what, _RESTORE) from None
    except _TwiceError as error:
        at = path_at(text, _second(text, error.name))
        raise refuse(at, f"{error.name!r} stands here twice, as after a merge", "delete one, then: {update}") from None
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise refuse("$", f"no JSON: {what}", _RESTORE) from None


class _TwiceError(Exception):
    def __init__(self, name: str) -> None:
        self.name = name


def _second(text: str, name: str) -> int:
    """Return where a key stands for the second time in one object, just after its colon."""
    seen: set[str] = set()
    for end in (match.end() for match in re.finditer(re.escape(json.dumps(name)) + r"\s*:", text)):
        at = path_at(text, end)
        if at in seen:
            return end
        seen.add(at)
    return 0


def _check_version(document: Any, refuse: Refuse) -> None:
    __tracebackhide__ = True
    schema = document.get("schema") if isinstance(document, dict) else None
    match = re.fullmatch(re.escape(_FORMAT) + r"(\d{1,9})", schema) if isinstance(schema, str) else None
    if match is None:
        raise refuse("$.schema", f"no ledger: {cut(schema)} where {_FORMAT}{_VERSION} is expected", _RESTORE)
    if int(match[1]) > _VERSION:
        raise refuse(
            "$.schema",
            f"{schema} is newer than this version of pytest-kernelprof reads ({_FORMAT}{_VERSION})",
            "upgrade pytest-kernelprof",
        )


def _entries(document: dict[str, Any], refuse: Refuse) -> Entries:
    __tracebackhide__ = True
    found: Entries = {}
    for test, profiles in document["entries"].items():
        for profile, environments in profiles.items():
            for environment, entry in environments.items():
                at = ("entries", test, profile, environment)
                found[Place(test, profile, environment)] = _entry(entry, at, refuse)
    return found


def _entry(values: dict[str, Any], at: tuple[str | int, ...], refuse: Refuse) -> Entry:
    __tracebackhide__ = True
    classes = CPU_CLASSES if "ops" in values else GPU_CLASSES
    for name in classes:
        if name not in values:
            raise refuse(path_of(at), f"{name!r} is missing", _CORRECT)
    for name in GPU_CLASSES if "ops" in values else ():
        if name in values:
            raise refuse(path_of((*at, name)), "an entry of a GPU has no ops, one of a CPU nothing else", _CORRECT)
    lines: dict[str, dict[Line, Amount]] = {}
    for name in classes:
        lines[name] = {}
        for number, value in enumerate(values[name]):
            here = (*at, name, number)
            line, amount = _line(name, value), _amount(value["count"])
            if amount.low > amount.high:
                told = f"{cut(value['count'])} holds no number; accepted: the smaller one first"
                raise refuse(path_of((*here, "count")), told, _CORRECT)
            if line in lines[name]:
                raise refuse(path_of(here), "the same line twice, as after a merge", "delete one, then: {update}")
            if name == "kernels" and values["level"] == "names" and "name" not in value:
                raise refuse(path_of(here), "'name' is missing, which level names needs", _CORRECT)
            lines[name][line] = amount
    return Entry(values["level"], values.get("made_on", {}), lines)


def _line(class_name: str, value: Mapping[str, Any]) -> Line:
    kind: Any = LINES[class_name]
    fields = [value.get(_KEYS.get(name, name), _LEFT_OUT.get(name)) for name in kind._fields]
    line: Line = kind(*(tuple(one) if isinstance(one, list) else one for one in fields))
    return line


def _amount(count: Any) -> Amount:
    low, high = count if isinstance(count, list) else (count, count)
    return Amount(int(low), int(high))


# Writing


def update(
    path: Path, writes: Mapping[Place, Write], unused: Collection[Place], *, shown: str, command: str
) -> list[str]:
    """Bring a ledger up to date, while nobody else does; return which ranges written by hand were lost, in words.

    Args:
        path: The file.
        writes: Entries to add, or to take the place of others.
        unused: Entries to remove.
        shown: How a message names the ledger.
        command: The command that makes it anew.

    Raises:
        LedgerError: What is there is no ledger; it stays as it is.
        OSError: It cannot be written, or not be locked in a minute.
    """
    # Beside the ledger, so that runs with other root folders, or in other containers, wait as well.
    locks = path.resolve().parent / _LOCKS
    locks.mkdir(parents=True, exist_ok=True)
    (locks / ".gitignore").write_text("*\n")
    with locked(locks / f"{path.stem}.lock", _LOCK_SECONDS):
        entries = read(path, shown, command)
        lost = []
        for place in unused:
            entries.pop(place, None)
        for place, write in writes.items():
            before = entries.get(place)
            if before is None or write.replaces:
                entries[place] = merged(write.entry, before)
                lost += [
                    f"{place.words()}: {line.words()}: its range {amount} is gone"
                    for line, amount in lost_ranges(entries[place], before)
                ]
        content = text_of(entries).encode()
        if entries and not (path.exists() and path.read_bytes() == content):
            write_at_once(content, path)
        if not entries:
            path.unlink(missing_ok=True)
    if not entries:
        _remove_folder(path.parent)
    return lost


def _remove_folder(folder: Path) -> None:
    """Remove a folder in which nothing is left but locks."""
    if [one.name for one in folder.iterdir()] == [_LOCKS]:
        shutil.rmtree(folder, ignore_errors=True)


def text_of(entries: Entries) -> str:
    """Return a ledger as text: in a stable order, a line for each kind of event."""
    tests: dict[str, dict[str, dict[str, Entry]]] = {}
    for place in sorted(entries):
        tests.setdefault(place.test, {}).setdefault(place.profile, {})[place.environment] = entries[place]
    written = {
        test: {
            profile: {environment: values_of(entry) for environment, entry in environments.items()}
            for profile, environments in profiles.items()
        }
        for test, profiles in tests.items()
    }
    return _laid_out({"schema": f"{_FORMAT}{_VERSION}", "entries": written}) + "\n"


def values_of(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain values, which cross from one process to another."""
    return {
        "level": entry.level,
        "made_on": dict(entry.made_on),
        **{
            name: [_line_values(line, lines[line]) for line in sorted(lines, key=sort_key)]
            for name, lines in entry.lines.items()
        },
    }


def _line_values(line: Line, amount: Amount) -> dict[str, Any]:
    fields = line._asdict()
    told = {name: value for name, value in fields.items() if name not in _LEFT_OUT or value != _LEFT_OUT[name]}
    count = amount.low if amount.low == amount.high else list(amount)
    return {"count": count, **{_KEYS.get(name, name): value for name, value in told.items()}}


def _laid_out(value: Any, depth: int = 0) -> str:
    """Return JSON with a line for each member, and one for each item of a list."""
    indent = " " * (depth + 1)
    if isinstance(value, dict) and value and any(isinstance(one, (dict, list)) for one in value.values()):
        members = [f"{indent}{json.dumps(name)}: {_laid_out(one, depth + 1)}" for name, one in value.items()]
        return "{\n" + ",\n".join(members) + "\n" + " " * depth + "}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"{indent}{json.dumps(one)}" for one in value) + "\n" + " " * depth + "]"
    return json.dumps(value)


def entry_from(values: dict[str, Any]) -> Entry:
    """Return the entry that `values_of` told."""

    def impossible(at: str, what: str, cure: str) -> LedgerError:
        return LedgerError(f"{at}: {what}; {cure}")

    return _entry(values, (), impossible)
