"""What a step launched, as a ledger keeps it: kinds of events, and how many of each.

An entry holds what stays when the same code runs again: no times, no streams, no addresses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import NotMeasured
from ..events import Call, Event, Kernel, Memcpy, Memset, Op
from ..model import GPU_CLASSES, Environment, Step, Trace
from ..names import MATRIX_ROLES, decode_kernel
from ..names.folding import folded, folded_op
from ..options import LEDGER_KEY_PARTS
from ..units import format_bytes

CPU_CLASSES = ("ops",)
CPU_KEY = "cpu"


class KernelLine(NamedTuple):
    """Kernels that are alike: at level ``roles`` by what their names say, at ``names`` by the names too.

    Attributes:
        role: What they are for.
        library: Whose they are.
        dtypes: Data types of operands and result.
        tensor_cores: ``yes``, ``no`` or ``unknown``.
        name: The name as `folded` writes it; ``None`` at level ``roles``, unless it says nothing of a role.
    """

    role: str
    library: str
    dtypes: tuple[str, ...]
    tensor_cores: str
    name: str | None = None

    @property
    def family(self) -> str:
        """What takes its place is likely to be of the same role."""
        return self.role

    def words(self, *, library: bool = True) -> str:
        """Return what they are in words, such as ``gemm bf16 tensor cores``; *library* tells whose, too."""
        if self.role == "other" and self.library == "other" and self.name:
            return f"kernel {self.name}"
        cores = {"yes": "tensor cores", "no": "CUDA cores"}.get(self.tensor_cores, "cores unknown")
        told = [self.role, " ".join(self.dtypes), cores if self.role in MATRIX_ROLES else ""]
        told += [f"({self.library})" if library else "", self.name or ""]
        return " ".join(filter(None, told))


class MemcpyLine(NamedTuple):
    """Copies that are alike.

    Attributes:
        kind: Direction, such as ``DtoD``.
        size_bytes: Bytes that each copies; ``None`` where the trace does not tell.
        pageable: Host memory that is not pinned takes part.
        by: The outermost op around the call; ``None`` outside ops.
    """

    kind: str
    size_bytes: int | None
    pageable: bool
    by: str | None

    @property
    def family(self) -> str:
        """What takes its place is likely to be of the same direction."""
        return self.kind

    def words(self, *, by: bool = True) -> str:
        """Return what they are in words; *by* tells who makes them, too."""
        size = "of unknown size" if self.size_bytes is None else format_bytes(self.size_bytes)
        told = f"Memcpy {self.kind} {'pageable ' if self.pageable else ''}{size}"
        return f"{told} by {self.by or '(no op)'}" if by else told


class MemsetLine(NamedTuple):
    """Memsets that are alike: of so many bytes each, by the same outermost op."""

    size_bytes: int | None
    by: str | None

    @property
    def family(self) -> str:
        """What takes its place is likely to be another Memset."""
        return "Memset"

    def words(self, *, by: bool = True) -> str:
        """Return what they are in words; *by* tells who makes them, too."""
        told = f"Memset {'of unknown size' if self.size_bytes is None else format_bytes(self.size_bytes)}"
        return f"{told} by {self.by or '(no op)'}" if by else told


class SyncLine(NamedTuple):
    """Calls that make the host wait, by the same outermost op."""

    call: str
    by: str | None

    @property
    def family(self) -> str:
        """What takes its place is likely to be the same call."""
        return self.call

    def words(self, *, by: bool = True) -> str:
        """Return what they are in words; *by* tells who makes them, too."""
        return f"{self.call} by {self.by or '(no op)'}" if by else self.call


class OpLine(NamedTuple):
    """Calls of one operator."""

    op: str

    @property
    def family(self) -> str:
        """Nothing else takes the place of an op."""
        return self.op

    def words(self) -> str:
        """Return its name."""
        return self.op


Line = KernelLine | MemcpyLine | MemsetLine | SyncLine | OpLine
LINES: Mapping[str, type[Line]] = {
    "kernels": KernelLine,
    "memcpys": MemcpyLine,
    "memsets": MemsetLine,
    "host_syncs": SyncLine,
    "ops": OpLine,
}
"""What a line of each class of events holds."""


class Amount(NamedTuple):
    """How many events a line stands for: a number, or a range that somebody wrote by hand."""

    low: int
    high: int

    @classmethod
    def exactly(cls, number: int) -> Amount:
        """Return a single number."""
        return cls(number, number)

    def holds(self, number: int) -> bool:
        """Return whether so many events are within it."""
        return self.low <= number <= self.high

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


NONE = Amount(0, 0)


class Entry(NamedTuple):
    """What a step launched.

    Attributes:
        level: ``roles`` or ``names``.
        made_on: Device and versions where it was made, for messages; they decide nothing.
        lines: By class of events, how many of each kind.
    """

    level: str
    made_on: Mapping[str, str]
    lines: Mapping[str, Mapping[Line, Amount]]

    def same_as(self, other: Entry) -> bool:
        """Return whether both say the same of a step, wherever they were made."""
        return self.level == other.level and self.lines == other.lines


def entry_of(step: Step, classes: Iterable[str], level: str, environment: Environment) -> Entry:
    """Return what was seen of a step.

    Args:
        step: The step; what it lacks is for the caller to judge.
        classes: The classes of events.
        level: ``roles`` or ``names``.
        environment: Where it was recorded.
    """
    lines = {
        name: {
            line: Amount.exactly(number)
            for line, number in Counter(line_of(event, level) for event in getattr(step, name).seen).items()
        }
        for name in classes
    }
    return Entry(level, _made_on(environment), lines)


def line_of(event: Event, level: str) -> Line:
    """Return the line of a ledger that an event belongs to."""
    if isinstance(event, Kernel):
        return _kernel_line(event.name, level)
    if isinstance(event, Memcpy):
        kind = event.kind or event.name
        return MemcpyLine(kind, event.size_bytes, event.pageable is True, _by(event.chain))
    if isinstance(event, Memset):
        return MemsetLine(event.size_bytes, _by(event.chain))
    if isinstance(event, Call):
        return SyncLine(event.name, _by(event.chain))
    return OpLine(folded_op(event.name))


def _kernel_line(name: str, level: str) -> KernelLine:
    decoded = decode_kernel(name)
    # A name that says nothing of a role is all that is known of a kernel.
    kept = folded(name) if level == "names" or not decoded.recognized else None
    return KernelLine(decoded.role, decoded.library, decoded.dtypes, decoded.tensor_cores, kept)


def _by(chain: Sequence[Op]) -> str | None:
    return folded_op(chain[0].name) if chain else None


def _made_on(environment: Environment) -> dict[str, str]:
    known = {
        "device": environment.devices[0] if environment.devices else None,
        "torch": environment.torch,
        "cuda": environment.cuda,
        "rocm": environment.rocm,
    }
    return {name: value for name, value in known.items() if value}


def uses_gpu(trace: Trace) -> bool:
    """Return whether anything in a trace was done on a GPU, or for it."""
    totals = trace.totals
    return any(getattr(totals, name).seen for name in (*GPU_CLASSES, "launches"))


def environment_key(environment: Environment, *, on_gpu: bool, parts: Iterable[str] = ()) -> str:
    """Return the key of an environment in a ledger, such as ``sm90`` or ``cpu-torch2.11``.

    Args:
        environment: Where a step was recorded.
        on_gpu: Whether it is about a GPU.
        parts: What else tells environments apart, of `LEDGER_KEY_PARTS`.

    Raises:
        NotMeasured: The trace does not tell one of them.
    """
    __tracebackhide__ = True
    device = environment.devices[0] if environment.devices else None
    known: dict[str, str | None] = {
        "torch": _short(environment.torch),
        "cuda": environment.cuda,
        "rocm": _short(environment.rocm),
        "cudnn": environment.cudnn,
        "device": _slug(device),
    }
    found = [environment.arch or _slug(device) if on_gpu else CPU_KEY]
    # A run on the CPU has no version of CUDA, and a GPU of NVIDIA none of ROCm.
    asked = [name for name in LEDGER_KEY_PARTS if name in parts and (name == "torch" or on_gpu)]
    asked = [name for name in asked if name != ("cuda" if environment.vendor == "amd" else "rocm")]
    found += [known[name] and (known[name] if name == "device" else f"{name}{known[name]}") for name in asked]
    for name, value in zip(("device", *asked), found, strict=True):
        if not value:
            raise NotMeasured(f"ledger not compared: the trace does not tell the {name} that its environment key needs")
    return "-".join(map(str, found))


def _short(version: str | None) -> str | None:
    """Return a version without its patch level and build: ``2.11.0+cu130`` is ``2.11``."""
    return ".".join(version.partition("+")[0].split(".")[:2]) if version else None


def _slug(name: str | None) -> str | None:
    words = "".join(c.lower() if c.isascii() and c.isalnum() else " " for c in name or "").split()
    return "-".join(words) or None


def merged(seen: Entry, before: Entry | None) -> Entry:
    """Return the entry to write: what was seen, with the ranges of *before* that it is within.

    Where nothing changes, *before* is returned as it is, with where it was made.
    """
    if before is None:
        return seen
    lines = {}
    for name, counted in seen.lines.items():
        kept = {line: amount for line, amount in _ranges(before, name) if amount.holds(counted.get(line, NONE).low)}
        # Lines of kernels are others on another level.
        lines[name] = {**counted, **(kept if before.level == seen.level or name != "kernels" else {})}
    found = seen._replace(lines=lines)
    return before if found.same_as(before) else found


def _ranges(entry: Entry, class_name: str) -> list[tuple[Line, Amount]]:
    """Return the ranges that somebody wrote by hand."""
    return [(line, one) for line, one in entry.lines.get(class_name, {}).items() if one.low != one.high]


def lost_ranges(written: Entry, before: Entry | None) -> list[tuple[Line, Amount]]:
    """Return the ranges, written by hand, that an entry had and has no more."""
    if before is None:
        return []
    return [
        (line, amount)
        for name in before.lines
        for line, amount in _ranges(before, name)
        if written.lines.get(name, {}).get(line) != amount
    ]


def sort_key(line: Line) -> tuple[Any, ...]:
    """Return where a line stands among others: ``None`` before all else."""
    return tuple("" if value is None else f"{value:020d}" if type(value) is int else str(value) for value in line)
