"""What changed between an entry of a ledger and a step, as a person would say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..units import counted
from .entry import NONE, Amount, Entry, KernelLine, Line, MemcpyLine, MemsetLine, sort_key

Some = tuple[tuple[Line, int], ...]
"""Kinds of events, and how many of each."""

_POINTWISE = ("elementwise", "reduction", "copy", "layout", "fill")
_PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "attention": (("gemm", "softmax", "random", "norm", *_POINTWISE), ("gemm", "softmax")),
    "norm": (_POINTWISE, ("reduction", "elementwise")),
    "softmax": (_POINTWISE, ("reduction",)),
    "rnn": (("gemm", "gemv", *_POINTWISE), ("gemm", "gemv")),
    "moe": (("gemm", "index", "sort", "scan", "softmax", *_POINTWISE), ("gemm",)),
    "optimizer": (("optimizer", "elementwise"), ("optimizer", "elementwise")),
}
"""By role of a kernel that does the work of several: the roles that those have, and of which one must be among them."""
_COMPILED_PARTS = ("softmax", "norm", "index", "random", "scan", "embedding", "quantize", "elementwise", *_POINTWISE)
"""The roles of kernels that a compiler fuses."""
_COMPILERS = ("inductor", "triton")


class Change(NamedTuple):
    """One thing that changed.

    Attributes:
        class_name: The class of events.
        kind: ``more``, ``fewer``, ``changed`` (one for one), ``fused`` or ``split``.
        before: What the ledger has that was not seen.
        after: What was seen that the ledger does not have.
        range: Where one line has more or fewer events than the ledger allows: how many it allows, and how many
            were seen; ``None`` where the ledger has none of them.
    """

    class_name: str
    kind: str
    before: Some = ()
    after: Some = ()
    range: tuple[Amount, int] | None = None

    @property
    def good_news(self) -> bool:
        """Whether less is done than before."""
        return self.kind in ("fewer", "fused")

    @property
    def numbers(self) -> tuple[int, int]:
        """How many events there were before, and how many there are after."""
        before, after = (sum(number for _, number in side) for side in (self.before, self.after))
        return before, after

    @property
    def regrouped(self) -> str:
        """How many kernels became how many, such as ``6 kernels fused into 1``; empty for other changes."""
        if self.kind not in ("fused", "split"):
            return ""
        before, after = self.numbers
        return f"{counted(before, 'kernel')} {self.kind} into {after}"


def changes(expected: Entry, seen: Entry, unsure: Sequence[str] = ()) -> list[Change]:
    """Return what changed from an entry to what was seen of a step, the copies and syncs first.

    Args:
        expected: The entry of the ledger.
        seen: What was seen, of the same classes and on the same level.
        unsure: Classes that lost events: that something is gone is then not known.
    """
    order = ("memcpys", "host_syncs", "kernels", "memsets", "calls", "ops")
    found = []
    for name in sorted(seen.lines, key=order.index):
        went, came = _differences(expected.lines[name], seen.lines[name])
        found += _told(name, {} if name in unsure else went, came, expected.lines[name], seen.lines[name])
    return found


def _differences(
    expected: Mapping[Line, Amount], seen: Mapping[Line, Amount]
) -> tuple[dict[Line, int], dict[Line, int]]:
    """Return of which lines there are fewer events than expected, of which more, and by how many."""
    went: dict[Line, int] = {}
    came: dict[Line, int] = {}
    for line in sorted({*expected, *seen}, key=sort_key):
        allowed, number = expected.get(line, NONE), seen.get(line, NONE).low
        if number < allowed.low:
            went[line] = allowed.low - number
        elif number > allowed.high:
            came[line] = number - allowed.high
    return went, came


def _told(
    name: str,
    went: dict[Line, int],
    came: dict[Line, int],
    expected: Mapping[Line, Amount],
    seen: Mapping[Line, Amount],
) -> list[Change]:
    found = []
    if name == "kernels":
        found += [one for one in (_fused(went, came), _split(went, came)) if one]
    if name not in ("calls", "ops"):
        found += _replaced(name, went, came)

    def allowed(line: Line) -> tuple[Amount, int] | None:
        return (expected[line], seen.get(line, NONE).low) if line in expected else None

    found += [Change(name, "more", after=((line, number),), range=allowed(line)) for line, number in came.items()]
    found += [Change(name, "fewer", before=((line, number),), range=allowed(line)) for line, number in went.items()]
    return found


def _fused(went: dict[Line, int], came: dict[Line, int]) -> Change | None:
    """Take out several kernels that went and fewer that came and can do the work of several, if there are such."""
    pair = _many_for_few(went, came)
    return Change("kernels", "fused", *pair) if pair else None


def _split(went: dict[Line, int], came: dict[Line, int]) -> Change | None:
    pair = _many_for_few(came, went)
    return Change("kernels", "split", pair[1], pair[0]) if pair else None


def _many_for_few(many: dict[Line, int], few: dict[Line, int]) -> tuple[Some, Some] | None:
    fused = {line: number for line, number in few.items() if _does_much(line)}
    # A gemm that became another gemm went into nothing else.
    taken = {line.family for line in few if line not in fused}
    parts = {line: number for line, number in many.items() if line.family not in taken and _is_part(line, fused)}
    if sum(parts.values()) <= sum(fused.values()) or not all(_is_made_of(line, parts) for line in fused):
        return None
    for line in parts:
        del many[line]
    for line in fused:
        del few[line]
    return tuple(parts.items()), tuple(fused.items())


def _does_much(line: Line) -> bool:
    return isinstance(line, KernelLine) and (line.role in _PARTS or _compiled(line))


def _is_part(line: Line, fused: Iterable[Line]) -> bool:
    """Return whether one of *fused* can do what a kernel did."""
    return isinstance(line, KernelLine) and not _compiled(line) and any(line.role in _roles_in(one) for one in fused)


def _roles_in(fused: Line) -> tuple[str, ...]:
    assert isinstance(fused, KernelLine)
    return _COMPILED_PARTS if _compiled(fused) else _PARTS[fused.role][0]


def _is_made_of(fused: Line, parts: Iterable[Line]) -> bool:
    """Return whether what is at the heart of a kernel that does much is among the parts."""
    assert isinstance(fused, KernelLine)
    heart = _COMPILED_PARTS if _compiled(fused) else _PARTS[fused.role][1]
    return any(part.family in heart for part in parts)


def _compiled(line: Line) -> bool:
    return isinstance(line, KernelLine) and line.library in _COMPILERS


def _replaced(name: str, went: dict[Line, int], came: dict[Line, int]) -> list[Change]:
    """Take out what went and came one for one: of the same family, those first that have most in common."""
    pairs = sorted(
        ((_in_common(old, new), old, new) for old in went for new in came if _alike(old, new)),
        key=lambda pair: -pair[0],
    )
    found = []
    for _, old, new in pairs:
        number = min(went.get(old, 0), came.get(new, 0))
        if number:
            found.append(Change(name, "changed", ((old, number),), ((new, number),)))
            for side, line in ((went, old), (came, new)):
                side[line] -= number
                if not side[line]:
                    del side[line]
    return found


def _alike(old: Line, new: Line) -> bool:
    """Return whether one is likely to have taken the other's place."""
    if isinstance(old, (MemcpyLine, MemsetLine)) and isinstance(new, (MemcpyLine, MemsetLine)):
        return old.family == new.family and (old.by == new.by or old.size_bytes == new.size_bytes)
    return old.family == new.family


def _in_common(one: Line, other: Line) -> int:
    return sum(a == b for a, b in zip(one, other, strict=True))
