"""Rows by what they are: ops, annotations, steps, calls, GPU events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional, Union

import msgspec

from .own import STEP_PREFIX
from .reading import NO_ARGS, Args, Row, integer, nanoseconds

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
        bad_calls: Calls without a usable time, and rows whose phase nobody here knows.
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
    bad_calls: int = 0
    bad_call_ids: set[int] = field(default_factory=set)
    unplaced_ops: set[str] = field(default_factory=set)
    unplaced_regions: set[str] = field(default_factory=set)


def sort_rows(rows: Iterable[Row]) -> Sorted:
    """Return *rows* by kind; rows that no count depends on are left out."""
    found = Sorted()
    add = {_ANNOTATION: _add_annotation, _CALL: _add_call, _TRACE: _add_trace, _UNKNOWN: _add_unknown}
    for row in rows:
        kind = _KINDS.get(row.cat) or _KINDS.get((row.cat or "").lower(), _UNKNOWN)
        if row.ph != "X":
            # Durations may also be written as pairs of begin and end; torch.profiler never did.
            found.bad_calls += row.ph in ("B", "E", None) and kind in (_CALL, *_GPU_KINDS)
        elif kind is _OP:
            _add_op(found, row)
        elif kind in _GPU_KINDS:
            found.gpu.append((kind, row))
        elif kind is not _IGNORED:
            add[kind](found, row)
    found.steps.sort(key=lambda step: step.start_ns)
    return found


def _add_op(found: Sorted, row: Row) -> None:
    span = _span(row)
    if span is None or span.end_ns is None:
        found.unplaced_ops.add(row.name or "")
    if span is not None:
        (found.steps if _is_step(span.name) else found.ops).append(span)


def _add_annotation(found: Sorted, row: Row) -> None:
    span = _span(row)
    if span is not None and _is_step(span.name):
        found.steps.append(span)
        return
    if span is None or span.end_ns is None:
        found.unplaced_regions.add(row.name or "")
    if span is not None:
        found.annotations.append(span)


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
        return
    found.bad_calls += 1
    correlation_id = integer(row.args.correlation) if row.args else None
    if correlation_id is not None:
        found.bad_call_ids.add(correlation_id)


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
