"""Ini values, command line, marker and ``configure()``: one frozen `Settings`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from .errors import MisuseError
from .units import MAX_TRACE_BYTES, parse_bytes

DEVICE_KINDS = ("cpu", "cuda", "rocm", "xpu", "gpu")
ACTIVITY_KINDS = ("cpu", "cuda", "rocm", "xpu")
LEDGER_LEVELS = ("roles", "names")
LEDGER_KEY_PARTS = ("torch", "cuda", "rocm", "cudnn", "device")
"""What may tell environments apart in ledgers, in this order."""
REPORTS = (".json", ".md", ".html")
"""How the name of a report may end, which decides on its form."""
SORTS = ("run", "gpu-time", "kernels", "copies", "syncs", "ops")
"""What the summary may be ordered by: as the tests ran, or what has most first."""
EXPLAIN = ("on-failure", "always", "never")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class DeviceRequirement:
    """What ``device=`` asks for.

    Attributes:
        kind: ``cpu``, ``cuda``, ``rocm``, ``xpu`` or ``gpu``.
        minimum: Smallest compute capability, as (major, minor).
    """

    kind: str
    minimum: tuple[int, int] | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether a GPU is asked for."""
        return self.kind != "cpu"

    def __str__(self) -> str:
        return self.kind if self.minimum is None else f"{self.kind}>={self.minimum[0]}.{self.minimum[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a function is profiled.

    Attributes:
        warmup: Calls before the first measured one.
        steps: Measured calls.
        steps_may_differ: Every step has to satisfy a limit by itself; they need not agree.
        name: Tells a second profile in one test from the first.
        activities: What torch.profiler records; ``None``: whatever is there.
        setup: Called before every call; what it returns becomes the arguments.
        device: What the test needs (marker only).
        trace: Name of a recording that several tests share (marker only).
        budget: File of limits that every profile is judged by; ``None`` for none.
        asked: Who set each of them that is no default, as a message's end: ``by the marker``.
    """

    warmup: int = 3
    steps: int = 3
    steps_may_differ: bool = False
    name: str | None = None
    activities: tuple[str, ...] | None = None
    setup: Callable[[], Any] | None = None
    device: DeviceRequirement | None = None
    trace: str | None = None
    budget: str | None = None
    asked: Mapping[str, str] = field(default_factory=dict, compare=False, hash=False)

    def noted(self) -> dict[str, Any]:
        """Return what a recording notes of how a function is called, beside the steps."""
        return {"warmup": self.warmup, "setup": self.setup is not None}

    def merged(self, values: Mapping[str, Any], where: str, *, marker: bool = False) -> Settings:
        """Return the settings with *values* on top.

        Args:
            values: What the user wrote, by keyword.
            where: How the user wrote it, for errors.
            marker: ``device`` and ``trace`` are accepted.

        Raises:
            MisuseError: A keyword or a value is not accepted.
        """
        accepted = [name for name in _PARSERS if marker or name not in _MARKER_ONLY]
        parsed = {}
        for name, value in values.items():
            if name not in accepted:
                close = get_close_matches(name, accepted, n=1)
                only = f"; only the marker takes {name}=" if name in _MARKER_ONLY else ""
                hint = f"; did you mean {close[0]}=?" if close and not only else only
                raise MisuseError(
                    f"{where}: {name}={value!r} is no option{hint or '; accepted: ' + ', '.join(accepted)}"
                )
            try:
                parsed[name] = _PARSERS[name](value)
            except ValueError as error:
                raise MisuseError(f"{where}: {name}={value!r} is not accepted; accepted: {error}") from None
        by = "by the marker" if marker else f"by {where}"
        return replace(self, **parsed, asked={**self.asked, **dict.fromkeys(parsed, by)})


def parse_bool(value: Any) -> bool:
    """Return the truth value of an ini string, or of a TOML boolean."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("true or false")


def whole_number(least: int) -> Callable[[Any], int]:
    """Return a parser for whole numbers of at least *least*, as numbers or as text."""

    def parse(value: Any) -> int:
        text = str(value).strip()
        if isinstance(value, (bool, float)) or not re.fullmatch(r"\d+", text) or int(text) < least:
            raise ValueError(f"a whole number of at least {least}")
        return int(text)

    return parse


def parse_device(value: Any) -> DeviceRequirement:
    """Return what ``device=`` asks for, such as ``cuda>=9.0``."""
    match = re.fullmatch(r"(\w+)\s*(?:>=\s*(\d+)\.(\d+))?", value) if isinstance(value, str) else None
    if not match or match[1] not in DEVICE_KINDS or (match[2] and match[1] not in ("cuda", "gpu")):
        raise ValueError(f"{', '.join(DEVICE_KINDS)}, or with a capability: cuda>=9.0")
    return DeviceRequirement(match[1], (int(match[2]), int(match[3])) if match[2] else None)


def parse_activities(value: Any) -> tuple[str, ...]:
    """Return the activities: a list, or text separated by commas or blanks."""
    names = _listed(value)
    if names is None or not set(names) <= set(ACTIVITY_KINDS) or "cpu" not in names:
        raise ValueError(f"a list of {', '.join(ACTIVITY_KINDS)} with cpu in it (steps are CPU annotations)")
    return tuple(names)


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a parser for one of a few words."""

    def parse(value: Any) -> str:
        if value not in words:
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}")
        return str(value)

    return parse


def parse_key_parts(value: Any) -> tuple[str, ...]:
    """Return what tells environments apart in ledgers: a list, or text separated by commas or blanks."""
    names = [] if value in ("", [], ()) else _listed(value)
    if names is None or not set(names) <= set(LEDGER_KEY_PARTS):
        raise ValueError(f"a list of {', '.join(LEDGER_KEY_PARTS)}")
    return tuple(names)


def _listed(value: Any) -> list[str] | None:
    """Return the words of a list, or of text separated by commas or blanks; ``None`` for anything else."""
    text = ",".join(value) if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value) else value
    return re.split(r"[,\s]+", text.strip()) if isinstance(text, str) else None


def parse_age(value: Any) -> timedelta:
    """Return an age: a number of days, or text such as ``90d``, ``12h`` or ``8w``."""
    match = re.fullmatch(r"\s*(\d+)\s*([hdw]?)\s*", str(value))
    if not match or isinstance(value, (bool, float)):
        raise ValueError("a number of days, or text such as 12h, 90d or 8w")
    unit = {"h": "hours", "w": "weeks"}.get(match[2], "days")
    return timedelta(**{unit: int(match[1])})


def parse_reports(value: Any) -> tuple[str, ...]:
    """Return the files to write a report to: one name, or a list."""
    names = [value] if isinstance(value, str) else value
    good = isinstance(names, (list, tuple)) and all(isinstance(one, str) and one.endswith(REPORTS) for one in names)
    if not good:
        raise ValueError(
            f"names of files that end in {', '.join(REPORTS[:-1])} or {REPORTS[-1]}, which decides on the form"
        )
    return tuple(dict.fromkeys(names))


def shows_events(names: Iterable[str]) -> bool:
    """Return whether a report among *names* has all events: Markdown alone needs none."""
    return any(not name.endswith(".md") for name in names)


def parse_size(value: Any) -> int:
    """Return a number of bytes above zero."""
    text = value.strip() if isinstance(value, str) else value
    accepted = "a number of bytes, or text such as 512 MiB or 8 GiB"
    try:
        size = int(text) if isinstance(text, str) and text.isdecimal() else parse_bytes(text, f"size={text!r}")
    except ValueError:
        raise ValueError(accepted) from None
    if size <= 0:
        raise ValueError(accepted)
    return size


def parse_text(value: Any) -> str:
    """Return text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("text that is not empty")
    return value


def parse_budget(value: Any) -> str | None:
    """Return the file of a budget; ``False`` is none."""
    if value is False:
        return None
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a TOML file, or False for none")
    return value


def _parse_setup(value: Any) -> Callable[[], Any]:
    if not callable(value):
        raise ValueError("a function without arguments")  # noqa: TRY004 - merged() words it
    return value  # type: ignore[no-any-return]


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "warmup": whole_number(0),
    "steps": whole_number(1),
    "steps_may_differ": parse_bool,
    "name": parse_text,
    "activities": parse_activities,
    "setup": _parse_setup,
    "device": parse_device,
    "trace": parse_text,
    "budget": parse_budget,
}
_MARKER_ONLY = ("device", "trace")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What holds for the whole run.

    Attributes:
        enabled: ``--kernelprof`` or its ini twin.
        require: Fail the run if fewer profiles were measured.
        not_measured: ``fail`` or ``skip``.
        record: Keep the trace of every profile as a recording.
        traces: Folder of the recordings; ``None``: beside each test file.
        slim: Drop rows that no assertion can use from recordings.
        replay: ``never``, ``missing-device`` or ``always``.
        replay_max_age: Oldest recording that is replayed; ``None``: any.
        max_trace_size: Most that a trace may hold, in bytes, decompressed.
        update: Bring ledgers up to date.
        update_new: Add missing entries to ledgers.
        strict: A missing ledger entry fails; ``None``: on CI only.
        ledger_level: What tells kernels apart in ledgers: ``roles`` or ``names``.
        ledger_key: What tells environments apart in ledgers beside the architecture of the GPU.
        explain: When functions are called once more to find lines of Python: ``on-failure``, ``always`` or ``never``.
        devices: ``shared``: every xdist worker sees all GPUs; ``spread``: each sees one.
        report: Files to write a report to; the ending of each decides on its form.
        artifacts: Folder of the traces of failed tests; ``None``: ``.kernelprof`` below pytest's root.
        artifacts_max: How many of them are kept.
        artifacts_size: How much they may take together, in bytes.
        sort: Order of the summary, one of `SORTS`.
        top: Lines of the summary; 0 for all.
        settings: Defaults of every profile.
    """

    enabled: bool = False
    require: int = 0
    not_measured: str = "fail"
    record: bool = False
    traces: str | None = None
    slim: bool = False
    replay: str = "never"
    replay_max_age: timedelta | None = None
    max_trace_size: int = MAX_TRACE_BYTES
    update: bool = False
    update_new: bool = False
    strict: bool | None = None
    ledger_level: str = "roles"
    ledger_key: tuple[str, ...] = ()
    explain: str = "on-failure"
    devices: str = "shared"
    report: tuple[str, ...] = ()
    artifacts: str | None = None
    artifacts_max: int = 50
    artifacts_size: int = 1024**3
    sort: str = "run"
    top: int = 0
    settings: Settings = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """One ini option and its command line twin."""

    name: str
    parse: Callable[[Any], Any]
    kind: str
    help: str
    metavar: str | None = None
    has_ini: bool = True
    repeats: bool = False

    @property
    def ini(self) -> str:
        """Name in an ini file."""
        return "kernelprof" if self.name == "enabled" else f"kernelprof_{self.name}"

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return "--" + self.ini.replace("_", "-")

    def sources(self, ini: Callable[[str], Any], command_line: Callable[[str], Any]) -> list[tuple[Any, str]]:
        """Return its values, and how the user wrote each; the one that wins first."""
        found = [(command_line(self.dest), self.flag)]
        return [*found, (ini(self.ini), self.ini)] if self.has_ini else found

    @property
    def dest(self) -> str:
        """Where argparse keeps the value."""
        return f"kernelprof_{self.name}"


_OF_THE_RUN = {field.name for field in fields(RunOptions)} - {"settings"}

OPTIONS = (
    OptionSpec(
        name="enabled",
        parse=parse_bool,
        kind="bool",
        help="Profile: run the tests that use profiled or carry the kernelprof marker (skipped otherwise).",
    ),
    OptionSpec(
        name="require",
        parse=whole_number(0),
        kind="int",
        metavar="N",
        help="Fail the run if fewer than N profiles were measured.",
    ),
    OptionSpec(
        name="warmup", parse=whole_number(0), kind="int", metavar="N", help="Calls before the first measured one (3)."
    ),
    OptionSpec(name="steps", parse=whole_number(1), kind="int", metavar="N", help="Measured calls (3)."),
    OptionSpec(
        name="steps_may_differ",
        parse=parse_bool,
        kind="bool",
        help="Let the measured calls differ; each has to satisfy every limit by itself.",
    ),
    OptionSpec(
        name="activities",
        parse=parse_activities,
        kind="args",
        metavar="LIST",
        help="What torch.profiler records, such as cpu,cuda (default: whatever is there).",
    ),
    OptionSpec(
        name="budget",
        parse=parse_text,
        kind="string",
        metavar="FILE",
        help="Judge every profile by the limits in this TOML file, below pytest's root folder.",
    ),
    OptionSpec(
        name="not_measured",
        parse=one_of("fail", "skip"),
        kind="string",
        metavar="WHAT",
        help="What becomes of a test whose trace does not tell: fail (default) or skip.",
    ),
    OptionSpec(
        name="explain",
        parse=one_of(*EXPLAIN),
        kind="string",
        metavar="WHEN",
        help="Call functions once more to name lines of Python and inputs: on-failure (default), always or never.",
    ),
    OptionSpec(
        name="record",
        parse=parse_bool,
        kind="bool",
        help="Keep every trace as a recording that can be replayed without a GPU (implies --kernelprof).",
    ),
    OptionSpec(
        name="update",
        parse=parse_bool,
        kind="bool",
        # In an ini file it would make every comparison pass.
        has_ini=False,
        help="Write ledgers anew from what is measured, and remove unused entries (implies --kernelprof).",
    ),
    OptionSpec(
        name="update_new",
        parse=parse_bool,
        kind="bool",
        has_ini=False,
        help="Add missing entries to ledgers, and leave those that are there (implies --kernelprof).",
    ),
    OptionSpec(
        name="strict",
        parse=parse_bool,
        kind="bool",
        help="Fail where a ledger entry is missing, instead of adding it (default: where CI is set).",
    ),
    OptionSpec(
        name="ledger_level",
        parse=one_of(*LEDGER_LEVELS),
        kind="string",
        metavar="LEVEL",
        help="What tells kernels apart in ledgers: roles (default: library, role, data types, tensor cores) or names.",
    ),
    OptionSpec(
        name="ledger_key",
        parse=parse_key_parts,
        kind="args",
        metavar="LIST",
        help="What tells environments apart in ledgers beside the architecture: torch, cuda, rocm, cudnn, device.",
    ),
    OptionSpec(
        name="traces",
        parse=parse_text,
        kind="string",
        metavar="DIR",
        help="Folder of the recordings (default: __kernelprof__/traces beside each test file).",
    ),
    OptionSpec(
        name="slim",
        parse=parse_bool,
        kind="bool",
        help="Leave rows that no assertion can use out of recordings.",
    ),
    OptionSpec(
        name="replay",
        parse=one_of("never", "missing-device", "always"),
        kind="string",
        metavar="WHEN",
        help="Judge recordings instead of running functions: never (default), missing-device (where a test's device "
        "is absent) or always (implies --kernelprof).",
    ),
    OptionSpec(
        name="replay_max_age",
        parse=parse_age,
        kind="int",
        metavar="DAYS",
        help="Refuse to replay recordings that are older, such as 90, 90d, 12h or 8w (default: any age).",
    ),
    OptionSpec(
        name="max_trace_size",
        parse=parse_size,
        kind="string",
        metavar="SIZE",
        help="Refuse traces that hold more, decompressed, such as 512 MiB (default: 8 GiB).",
    ),
    OptionSpec(
        name="devices",
        parse=one_of("shared", "spread"),
        kind="string",
        metavar="WHAT",
        help="Under xdist: shared (default, all workers see all GPUs) or spread (each worker sees a GPU of its own, "
        "as long as there are enough).",
    ),
    OptionSpec(
        name="report",
        parse=parse_reports,
        kind="args",
        metavar="FILE",
        repeats=True,
        help="Write a report of the run: .json for programs, .md for reviewers, .html to look at; may be given several "
        "times.",
    ),
    OptionSpec(
        name="artifacts",
        parse=parse_text,
        kind="string",
        metavar="DIR",
        help="Folder of the traces of failed tests (default: .kernelprof below pytest's root).",
    ),
    OptionSpec(
        name="artifacts_max",
        parse=whole_number(0),
        kind="int",
        metavar="N",
        help="So many traces of failed tests are kept; old ones go first (50; 0 keeps none).",
    ),
    OptionSpec(
        name="artifacts_size",
        parse=parse_size,
        kind="string",
        metavar="SIZE",
        help="The traces of failed tests may take so much together, such as 512 MiB (default: 1 GiB).",
    ),
    OptionSpec(
        name="sort",
        parse=one_of(*SORTS),
        kind="string",
        metavar="KEY",
        help="Order of the summary: run (default, as the tests ran), or what has most first: gpu-time, kernels, "
        "copies, syncs or ops.",
    ),
    OptionSpec(
        name="top",
        parse=whole_number(0),
        kind="int",
        metavar="N",
        help="Show so many lines of the summary, as --durations does (0, the default, shows all).",
    ),
)


def run_options(ini: Callable[[str], Any], command_line: Callable[[str], Any]) -> RunOptions:
    """Return the options of a run; the command line wins over the ini file.

    Args:
        ini: Returns an ini value by name, ``None`` or empty if it is not set.
        command_line: Returns a command line value by its ``dest``, ``None`` if it is not set.

    Raises:
        MisuseError: A value is not accepted.
    """
    found: dict[str, Any] = {}
    asked: dict[str, str] = {}
    for option in OPTIONS:
        for source, label in option.sources(ini, command_line):
            if source is None:
                continue
            try:
                found[option.name] = option.parse(source)
                asked[option.name] = f"by {label}"
            except ValueError as error:
                raise MisuseError(f"{label}={source!r} is not accepted; accepted: {error}") from None
            break
    run = {name: found.pop(name) for name in _OF_THE_RUN if name in found}
    options = RunOptions(settings=Settings(**found, asked=asked), **run)
    options = _without_contradiction(options, lambda name: command_line(f"kernelprof_{name}") is not None)
    writes = options.record or options.update or options.update_new
    return replace(options, enabled=options.enabled or writes or options.replay != "never")


def _without_contradiction(options: RunOptions, on_line: Callable[[str], bool]) -> RunOptions:
    """Return the options of which none wants to write what another one replays; the command line wins."""
    if options.record and options.replay != "never":
        if on_line("record") == on_line("replay"):
            raise MisuseError("record and replay exclude each other: nothing is ever written from a replay")
        options = replace(options, replay="never") if on_line("record") else replace(options, record=False)
    if (options.update or options.update_new) and options.replay == "always":
        if on_line("replay"):
            raise MisuseError("update and replay=always exclude each other: nothing is ever written from a replay")
        options = replace(options, replay="never")
    return options
