"""Recordings: where they lie, how they are written, and which of them may be replayed.

A recording is a trace of ours whose note says what was profiled, where and how, closed by a seal
over the whole file: one that was cut or edited by hand is no measurement.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec

from .errors import ReplayError, TraceError
from .files import write_at_once
from .load import content_of, trace_from
from .load.kinds import is_counted
from .load.own import METADATA_KEY
from .load.recording import Recording
from .model import CLASSES, Trace
from .options import DeviceRequirement, Settings
from .units import MAX_TRACE_BYTES, counted

FOLDER = Path("__kernelprof__") / "traces"
_EVENTS_KEY = "traceEvents"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the recordings of one test lie.

    Attributes:
        folder: The folder.
        module: Name of the test's file, without its ending.
        test: The test within its file, such as ``TestMask::test_one[16]``.
        tests: The folder of the test's file.
        shared: The name that ``marker(trace=...)`` gives, which several tests may share.
    """

    folder: Path
    module: str
    test: str
    tests: Path
    shared: str | None = None

    def file(self, label: str) -> Path:
        """Return the file of the profile called *label*; the first of a test is ``1``."""
        return self.folder / f"{slug(self.shared) if self.shared else self.module}{self._rest(label)}"

    def file_before_renaming(self, label: str) -> Path | None:
        """Return the recording that the same test made when its file had another name.

        ``None`` if there is none, or several. A file that still exists keeps its recordings: a
        test of the same name in another file is another test.
        """
        if self.shared:
            return None
        rest = self._rest(label)
        found = [path for path in self.folder.glob(f"*{rest}") if not self._still_there(path.name.removesuffix(rest))]
        return found[0] if len(found) == 1 else None

    def _still_there(self, module: str) -> bool:
        return (self.tests / f"{module}.py").exists()

    def _rest(self, label: str) -> str:
        more = "" if label == "1" else f"-{slug(label)}"
        if self.shared:
            plain = self.shared == slug(self.shared) and label == slug(label)
            return f"{more}{'' if plain else '-' + _digest(self.shared, label)}.json.gz"
        return f".{slug(self.test)}{more}-{_digest(self.test, label)}.json.gz"


def slug(text: str, limit: int = 60) -> str:
    """Return *text* as part of a file name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:limit] or "_"


def artifact_name(node_id: str, label: str) -> str:
    """Return the file name under which the trace of a failed test is kept, unlike that of any other test."""
    test = node_id.rsplit("::", 1)[-1]
    return f"{slug(test if label == '1' else f'{test}_{label}')}-{_digest(node_id, label)}.json.gz"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


# Writing


def write(source: Path, goal: Path, *, slim: bool) -> None:
    """Turn a trace that was just recorded into a recording.

    Args:
        source: The trace as torch.profiler wrote it.
        goal: The file to write, at once or not at all.
        slim: Drop the rows that no assertion can use.

    Raises:
        OSError: The file cannot be written.
    """
    document = msgspec.json.decode(source.read_bytes(), type=dict[str, msgspec.Raw])
    if slim:
        document[_EVENTS_KEY] = msgspec.Raw(_slim(document[_EVENTS_KEY]))
    document.pop("traceName", None)  # A path of the machine that recorded.
    document.pop("host_name", None)
    write_gzip(sealed(document), goal)


def sealed(document: dict[str, msgspec.Raw]) -> bytes:
    """Return a trace file of ours, closed by a seal over everything in it."""
    note = {**msgspec.json.decode(document[METADATA_KEY]), "seal": _seal(document)}
    return msgspec.json.encode({**document, METADATA_KEY: msgspec.Raw(_canonical(note))})


def _slim(events: msgspec.Raw) -> bytes:
    rows = msgspec.json.decode(events, type=list[msgspec.Raw])
    kept = [bytes(row) for row in rows if _is_useful(row)]
    return b"[\n" + b",\n".join(re.sub(rb"\s*\n\s*", b"", row) for row in kept) + b"\n]"


class _Kind(msgspec.Struct):
    ph: Any = None
    cat: Any = None


def _is_useful(row: msgspec.Raw) -> bool:
    kind = msgspec.json.decode(row, type=_Kind)
    return kind.ph == "X" and is_counted(str(kind.cat))


def _seal(document: dict[str, msgspec.Raw]) -> str:
    """Return the digest of a trace file's content, its note without a seal included."""
    note = {**msgspec.json.decode(document[METADATA_KEY]), "seal": None}
    digest = hashlib.sha256()
    for key in sorted(document):
        content = _canonical(note) if key == METADATA_KEY else bytes(document[key]).strip()
        digest.update(key.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def _canonical(note: dict[str, Any]) -> bytes:
    return json.dumps(note, sort_keys=True).encode()


def write_gzip(content: bytes, goal: Path) -> None:
    """Write *content*, compressed, in one step: a reader sees the old file or the new one.

    Raises:
        OSError: The file cannot be written.
    """
    # mtime=0: the same content gives the same file.
    write_at_once(gzip.compress(content, mtime=0), goal)


def why_not_recorded(trace: Trace) -> str | None:
    """Return why a trace is too incomplete to be worth keeping, or ``None`` if it may be kept."""
    if trace.no_gpu is not None:
        return None  # A CPU test: what it says of operators is whole.
    for step in (trace.totals, *trace.steps):
        for name in CLASSES:
            unknown = getattr(step, name).unknown
            if name == "ops" and not unknown.nothing:
                continue  # Work of a thread without ops is no loss of the recording.
            if unknown.why():
                return f"{name}: {unknown.why()}"
    return None


# Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a replayed profile expects of its recording.

    Attributes:
        settings: How the test asks to be profiled.
        function: Name of the function; ``None`` for a block.
        module: Last part of the name of its module.
        arguments: What it is given, as `describe_arguments` tells; ``None`` if ``setup=`` makes it.
        against: What the other function is, with whose calls its own alternate, in the words of `Recording`.
        any_number: Accept it with any number of steps.
        not_before: Date of the recording that it belongs to, ISO 8601.
        device: Name of the GPU on which that was made.
        test_module: Name of the test's file, without its ending.
        max_age: Oldest that is accepted; ``None`` for any age.
        command: How to record it again, for messages.
        max_bytes: Most that a recording may hold, decompressed.
    """

    settings: Settings
    test_module: str
    max_age: timedelta | None
    command: str
    max_bytes: int = MAX_TRACE_BYTES
    function: str | None = None
    module: str | None = None
    arguments: list[str] | None = None
    against: dict[str, Any] | None = None
    any_number: bool = False
    not_before: str | None = None
    device: str | None = None


def read(path: Path, wanted: Wanted) -> tuple[Trace, Recording]:
    """Return a recording and its note.

    Raises:
        ReplayError: It is missing, corrupt, edited, incomplete, too old, or of something else.
    """
    __tracebackhide__ = True
    again = f"record it again: {wanted.command}"
    if not path.exists():
        raise ReplayError(f"no recording to replay (looked for {path}); make one: {wanted.command}")
    try:
        trace, note = _load(path, wanted.max_bytes)
    except TraceError as error:
        raise ReplayError(f"recording is corrupt: {error}; {again}") from None
    problem = (
        _mismatch(note, wanted)
        or _other_device(note, trace, wanted.settings.device)
        or _too_old(note, wanted.max_age)
        or why_not_recorded(trace)
    )
    if problem:
        raise ReplayError(f"recording {path} cannot be replayed: {problem}; {again}")
    return trace, note


def _load(path: Path, max_bytes: int = MAX_TRACE_BYTES) -> tuple[Trace, Recording]:
    content = content_of(path, max_bytes=max_bytes)
    note = _sealed_note(path, content)
    return trace_from(content, str(path)), note


def _sealed_note(path: Path, content: bytes) -> Recording:
    try:
        document = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        note = Recording.of(msgspec.json.decode(document.get(METADATA_KEY, msgspec.Raw(b"null"))))
    except (msgspec.DecodeError, TypeError) as error:
        raise TraceError(f"{path}: {error}") from None
    if note is None or note.seal is None:
        raise TraceError(f"{path}: not written by --kernelprof-record")
    if note.seal != _seal(document):
        raise TraceError(f"{path}: edited after it was recorded, its seal does not match")
    return note


def _mismatch(note: Recording, wanted: Wanted) -> str | None:
    """Return what a recording is of, where that is not what the test profiles."""
    if note.function != wanted.function:
        was, now = (f"{name!r}" if name else "a block" for name in (note.function, wanted.function))
        return f"it is of {was}, the test profiles {now}"
    # A function of the test's own file changes its module with the file's name.
    modules, own = (note.module, wanted.module), (note.test_module, wanted.test_module)
    if None not in modules and note.module != wanted.module and modules != own:
        return f"it is of {note.function!r} in {note.module}, the test profiles that of {wanted.module}"
    if note.arguments is not None and wanted.arguments is not None and list(note.arguments) != wanted.arguments:
        return f"it was made with ({', '.join(note.arguments)}), the test passes ({', '.join(wanted.arguments)})"
    if (note.against is None) != (wanted.against is None):
        return "one is of calls that alternate with those of another function, and the other is not"
    other = _other_side(note, wanted)
    if other:
        return other
    if wanted.function is None:
        return None  # A block is recorded once, whatever the settings.
    asked = {"setup": wanted.settings.setup is not None, "activities": wanted.settings.activities}
    for name in ("steps", "warmup", "setup", "activities"):
        if name == "steps" and wanted.any_number:
            continue
        was_set, is_set = getattr(note, name), asked.get(name, getattr(wanted.settings, name))
        if was_set != is_set:
            return f"it was made with {name}={was_set}, the test asks for {name}={is_set}"
    return None


def _other_side(note: Recording, wanted: Wanted) -> str | None:
    """Return what is wrong with the other function of a comparison, or with when and where it was made."""
    for name, now in (wanted.against or {}).items():
        was = (note.against or {}).get(name)
        renamed = name == "module" and (was, now) == (note.test_module, wanted.test_module)
        if was != now and not renamed:
            return f"the function that it was compared with had {name}={was!r}, that of the test has {name}={now!r}"
    if wanted.not_before and (note.date or "") < wanted.not_before:
        return f"it is of {note.date}, older than the profile of {wanted.not_before} that it belongs to"
    if wanted.device and note.device != wanted.device:
        return f"it was made on {note.where}, the profile that it belongs to on {wanted.device}"
    return None


def _other_device(note: Recording, trace: Trace, required: DeviceRequirement | None) -> str | None:
    """Return why the device of a recording is not what the test asks for."""
    if note.requires is not None and note.requires.partition(">=")[0] != (required.kind if required else None):
        return f"it was made for device={note.requires}, the test asks for {required or 'no device'}"
    if required is None or not required.is_gpu:
        return None
    vendor = {"cuda": "nvidia", "rocm": "amd"}.get(required.kind)
    if trace.no_gpu is not None or (vendor and trace.environment.vendor != vendor):
        return f"it was made on {note.where}, the test needs {required}"
    found = trace.environment.compute_capability
    if required.minimum is None:
        return None
    if found is None or tuple(int(part) for part in found.split(".")) < required.minimum:
        return f"it was made with compute capability {found or 'unknown'}, the test needs {required}"
    return None


def _too_old(note: Recording, max_age: timedelta | None) -> str | None:
    if max_age is None:
        return None
    try:
        made = datetime.fromisoformat(note.date or "")
    except ValueError:
        return "its date cannot be read"
    age = datetime.now(timezone.utc) - made
    if age <= max_age:
        return None
    return f"it is {_age(age)} old, kernelprof_replay_max_age allows {_age(max_age)}"


def _age(age: timedelta) -> str:
    return counted(age.days, "day") if age.days else counted(age.seconds // 3600, "hour")


def recordings_below(folder: Path, *, any_folder: bool) -> list[Path]:
    """Return the recordings below a folder, or beside a test file, in order.

    Args:
        folder: A folder, or a test file.
        any_folder: Look in every folder, not only in those where recordings lie by default.
    """
    found: list[Path] = []
    for place, folders, files in os.walk(folder if folder.is_dir() else folder.parent):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        if any_folder or Path(place).parts[-2:] == FOLDER.parts:
            found += [Path(place, name) for name in sorted(files) if name.endswith(".json.gz")]
    return found


def devices_of(files: list[Path]) -> list[str]:
    """Return on which devices *files* were recorded, each once; what is no recording is left out."""
    found: dict[str, None] = {}
    for path in files:
        try:
            note = _sealed_note(path, content_of(path))
        except TraceError:
            continue
        found[note.where] = None
    return list(found)


def conflict(goal: Path, trace: Trace, test: str) -> str | None:
    """Return why a shared recording must not be replaced: another test just recorded something else there.

    Args:
        goal: The file that several tests share.
        trace: What would be written.
        test: The test that would write it.
    """
    try:
        there, note = _load(goal)
    except TraceError:
        return None
    if note.test in (None, test) or _content(there) == _content(trace):
        return None
    return f"{note.test} recorded something else under the same name"


def _content(trace: Trace) -> list[list[str]]:
    return [sorted(event.name for event in getattr(step, name).seen) for step in trace.steps for name in CLASSES]
