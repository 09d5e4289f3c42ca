"""Rows by what they are: ops, annotations, steps, calls, GPU events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional, Union

import msgspec

from .own import STEP_PREFIX
from .reading import NO_ARGS, Args, Row, integer, nanoseconds

FOREVER = 1 << 62
"""A time in nanoseconds after every other: the end of what never ended."""

_STEP = re.compile(re.escape(STEP_PREFIX) + r"\d+$")
_OP, _ANNOTATION, _CALL, _TRACE, _IGNORED, _UNKNOWN = "op", "annotation", "call", "trace", "ignored", "unknown"
_GPU_KINDS = ("kernel", "memcpy", "memset")
_KINDS: dict[str | None, str] = {
    **dict.fromkeys(("cpu_op", "operator"), _OP),
    "user_annotation": _ANNOTATION,
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver"), _CALL),
    "kernel": "kernel",
    **dict.fromkeys(("gpu_memcpy", "memcpy"), "memcpy"),
    **dict.fromkeys(("gpu_memset", "memset"), "memset"),
    "trace": _TRACE,
    # Rows that say nothing about what was launched: they repeat, describe or decorate.
    **dict.fromkeys(("gpu_user_annotation", "python_function", "overhead", "cuda_sync"), _IGNORED),
    **dict.fromkeys(("ac2g", "fwdbwd", "cpu_instant_event", "cuda_profiler_range"), _IGNORED),
}
"""Categories in lower case: releases before 1.12 wrote ``Operator``, ``Kernel``, ``Runtime``."""


class Span(msgspec.Struct, gc=False):
    """A row with a place in time. Times in nanoseconds; `end_ns` is ``None`` if it never ended."""

    name: str
    start_ns: int
    end_ns: Optional[int]  # noqa: UP045 - msgspec evaluates annotations
    thread: tuple[Union[int, str], Union[int, str]]  # noqa: UP007
    args: Args

    @property
    def duration_ns(self) -> int | None:
        """Length in nanoseconds."""
        return None if self.end_ns is None else self.end_ns - self.start_ns

    def holds(self, now_ns: int) -> bool:
        """Return whether a moment lies in the row; one that never ended holds all that follows."""
        return self.start_ns <= now_ns and (self.end_ns is None or now_ns < self.end_ns)


@dataclass(slots=True)
class Sorted:
    """The rows of a file by kind.

    Attributes:
        ops: Operators.
        annotations: ``record_function`` ranges that are no steps.
        steps: ``ProfilerStep#N`` windows, by start.
        calls: Runtime and driver calls.
        gpu: Pairs of ``kernel``, ``memcpy`` or ``memset`` and the row.
        recording_end_ns: End of the recording where the file tells.
        unknown_device_rows: Categories that look like work of a device nobody here knows.
        bad_steps: Rows of steps without a usable start, or of a phase that nobody here knows.
        bad_ops: Such rows of ops.
        bad_calls: Such rows of calls, and rows of GPU events of such a phase.
        bad_call_ids: Correlation ids of such calls: their GPU events are no orphans of before.
        unplaced_ops: Ops without a usable start or end.
        unplaced_regions: Regions without one.
    """

    ops: list[Span] = field(default_factory=list)
    annotations: list[Span] = field(default_factory=list)
    steps: list[Span] = field(default_factory=list)
    calls: list[Span] = field(default_factory=list)
    gpu: list[tuple[str, Row]] = field(default_factory=list)
    recording_end_ns: int | None = None
    unknown_device_rows: set[str] = field(default_factory=set)
    bad_steps: int = 0
    bad_ops: int = 0
    bad_calls: int = 0
    bad_call_ids: set[int] = field(default_factory=set)
    unplaced_ops: set[str] = field(default_factory=set)
    unplaced_regions: set[str] = field(default_factory=set)


def sort_rows(rows: Iterable[Row]) -> Sorted:
    """Return *rows* by kind; rows that no count depends on are left out."""
    found = Sorted()
    add = {_CALL: _add_call, _TRACE: _add_trace, _UNKNOWN: _add_unknown}
    for row in rows:
        kind = _kind(row.cat)
        if row.ph != "X":
            # Durations may also be written as pairs of begin and end; torch.profiler never did.
            if row.ph in ("B", "E", None):
                _add_unreadable(found, kind, row)
        elif kind is _OP or kind is _ANNOTATION:
            _add_range(found, kind, row)
        elif kind in _GPU_KINDS:
            found.gpu.append((kind, row))
        elif kind is not _IGNORED:
            add[kind](found, row)
    found.steps.sort(key=lambda step: step.start_ns)
    return found


def is_counted(category: str | None) -> bool:
    """Return whether any count depends on rows of this category."""
    return _kind(category) not in (_IGNORED, _UNKNOWN)


def _kind(category: str | None) -> str:
    return _KINDS.get(category) or _KINDS.get((category or "").lower(), _UNKNOWN)


def _add_range(found: Sorted, kind: str, row: Row) -> None:
    span = _span(row)
    if span is None:
        _add_unreadable(found, kind, row)
    elif _is_step(span.name):
        found.steps.append(span)
    else:
        spans, unplaced = (
            (found.ops, found.unplaced_ops) if kind is _OP else (found.annotations, found.unplaced_regions)
        )
        spans.append(span)
        if span.end_ns is None:
            unplaced.add(span.name)


def _add_unreadable(found: Sorted, kind: str, row: Row) -> None:
    """Remember that something was there: a row that is dropped silently would make a count too small."""
    name = row.name or ""
    if kind in (_CALL, *_GPU_KINDS):
        found.bad_calls += 1
        correlation_id = integer(row.args.correlation) if row.args else None
        if kind is _CALL and correlation_id is not None:
            found.bad_call_ids.add(correlation_id)
    elif kind in (_OP, _ANNOTATION) and _is_step(name):
        found.bad_steps += 1
    elif kind is _OP:
        found.bad_ops += 1
        found.unplaced_ops.add(name)
    elif kind is _ANNOTATION:
        found.unplaced_regions.add(name)


def _is_step(name: str) -> bool:
    return name.startswith(STEP_PREFIX) and _STEP.match(name) is not None


def _add_trace(found: Sorted, row: Row) -> None:
    span = _span(row)
    if span and span.end_ns is not None:
        found.recording_end_ns = max(span.end_ns, found.recording_end_ns or span.end_ns)


def _add_unknown(found: Sorted, row: Row) -> None:
    if _looks_like_device_work(row):
        found.unknown_device_rows.add(row.cat or "(none)")


def _add_call(found: Sorted, row: Row) -> None:
    span = _span(row)
    if span is not None:
        found.calls.append(span)
    else:
        _add_unreadable(found, _CALL, row)


def _span(row: Row) -> Span | None:
    start = nanoseconds(row.ts)
    if start is None or not row.name:
        return None
    duration = nanoseconds(row.dur)
    end = None if duration is None or duration < 0 else start + duration
    return Span(row.name, start, end, (row.pid, row.tid), row.args or NO_ARGS)


def _looks_like_device_work(row: Row) -> bool:
    args = row.args or NO_ARGS
    return integer(args.device) is not None or integer(args.correlation) is not None
