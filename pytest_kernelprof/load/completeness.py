"""Which classes of events were measured, and why the others were not: counting rules 3, 6 and 7."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..events import FOREVER, Call
from ..eventset import Unknown
from ..model import CLASSES, Step, lacks_something
from ..units import counted
from .calls import LAUNCHES, CallKind, may_block_untold
from .columns import Columns, Span
from .joining import GPU_CLASSES, Joined
from .nesting import Nest
from .problems import UNIDENTIFIED
from .reading import Document

if TYPE_CHECKING:
    from .recording import Recording

_API_CLASSES = ("launches", "host_syncs")
_LOST_KINDS = {
    "kernels": LAUNCHES,
    # A graph may hold copies and Memsets too.
    "memcpys": (CallKind.COPY, CallKind.GRAPH_LAUNCH),
    "memsets": (CallKind.SET, CallKind.GRAPH_LAUNCH),
}
_DELIVERY = (
    "look at: GPU profiling inside WSL or a container, permission to read GPU counters, "
    "another profiler attached to the process"
)

_NO_OPS = "no operator and no annotation in the trace"
_NOTHING_MISSING = Unknown()

Reasons = dict[str, list[str]]
"""Class of events to the reasons why it was not measured."""


def unobserved(document: Document, joined: Joined, recording: Recording | None) -> Reasons:
    """Return why whole classes were not observed at all, in the file."""
    reasons: Reasons = defaultdict(list)
    columns = document.columns
    if not document.entries:
        _add(reasons, CLASSES, "the trace holds no events: nothing was profiled")
        return reasons
    nothing = _no_gpu_events(columns, joined, recording)
    if nothing:
        _add(reasons, GPU_CLASSES, nothing)
    if recording and recording.no_gpu:
        _add(reasons, _API_CLASSES, recording.no_gpu)
    elif recording and not joined.canary_called:
        _add(reasons, _API_CLASSES, f"the call that launches the canary is not in the trace; {_DELIVERY}")
    elif not joined.calls.names:
        _add(reasons, _API_CLASSES, "no runtime or driver call in the trace")
    if not (columns.ops.names or columns.annotations or columns.steps):
        _add(reasons, ("ops",), _NO_OPS)
    return reasons


def incomplete(document: Document, joined: Joined, recording: Recording | None) -> Reasons:
    """Return why classes that were observed may lack events, in the file."""
    reasons: Reasons = defaultdict(list)
    columns = document.columns
    for text in _missing_launches(columns, joined, recording):
        _add(reasons, GPU_CLASSES, text)
    if recording and recording.steps != len(columns.steps):
        missing = f"{len(columns.steps)} of {recording.steps} steps are in the recording: another profiler interfered"
        _add(reasons, CLASSES, missing)
    if not document.closed:
        _add(reasons, CLASSES, "the file ends inside the list of events: what stood behind is missing")
    if unidentified := document.problems.count(UNIDENTIFIED):
        _add(reasons, CLASSES, f"{counted(unidentified, 'row')} of the file without a readable category or phase")
    if columns.bad_steps:
        told = f"{counted(columns.bad_steps, 'row')} of steps cannot be read: what belongs to them is unknown"
        _add(reasons, CLASSES, told)
    if columns.bad_ops:
        _add(reasons, ("ops",), f"{counted(columns.bad_ops, 'row')} of ops cannot be read")
    if columns.bad_calls:
        told = f"{counted(columns.bad_calls, 'row')} of launches or GPU events cannot be read"
        _add(reasons, (*GPU_CLASSES, *_API_CLASSES), told)
    if joined.orphans.late:
        _add(reasons, ("launches",), "launches are missing: a GPU event has none")
    if columns.unknown_device_rows:
        _add(reasons, _API_CLASSES, _not_understood(columns))
    return reasons


def _no_gpu_events(columns: Columns, joined: Joined, recording: Recording | None) -> str | None:
    if recording and recording.no_gpu:
        return recording.no_gpu
    if recording:
        missing = sorted(set(recording.canary_devices) - joined.canary_devices, key=str)
        gpus = ", ".join(map(str, missing))
        return f"the canary kernel on GPU {gpus} did not arrive in the trace; {_DELIVERY}" if missing else None
    if joined.any_gpu:
        return None
    launches = sum(
        kind is CallKind.KERNEL_LAUNCH and row not in joined.own_calls for row, kind in enumerate(joined.kinds)
    )
    if launches:
        told = counted(launches, "kernel launch")
        return f"{told} recorded but no GPU event; {_DELIVERY}"
    if columns.legacy:
        return "legacy autograd-profiler trace: kernels are not recorded; record it with torch.profiler"
    if columns.unknown_device_rows:
        return _not_understood(columns)
    return "no GPU event and no canary in the trace"


def _missing_launches(columns: Columns, joined: Joined, recording: Recording | None) -> list[str]:
    late, leaked = len(joined.orphans.late), len(joined.orphans.leaked)
    found = []
    if late:
        told = counted(late, "GPU event")
        found.append(f"{told} without a launch, not from before the recording: launches are missing")
    if recording and leaked:
        # Everything was waited for before the recording began: nothing can leak into it.
        found.append(f"{counted(leaked, 'GPU event')} without a launch after a synchronisation")
    if columns.unknown_device_rows and joined.any_gpu:
        found.append(_not_understood(columns))
    return found


def _not_understood(columns: Columns) -> str:
    return f"rows of a device that is not understood: {', '.join(sorted(columns.unknown_device_rows))}"


def step_reasons(step: Span, recording_end_ns: int | None) -> Reasons:
    """Return what makes a single step unmeasured: it was cut."""
    reasons: Reasons = defaultdict(list)
    if step.end_ns == FOREVER:
        _add(reasons, CLASSES, f"{step.name} was cut: it never ended")
    elif recording_end_ns is not None and step.end_ns > recording_end_ns:
        _add(reasons, CLASSES, f"{step.name} was cut: it ends after the recording")
    return reasons


def unknown_of(
    class_name: str,
    nothing: Reasons,
    partial: list[Reasons],
    unwatched: Reasons,
    calls: Sequence[int],
    joined: Joined,
) -> Unknown:
    """Return what is missing from one class of one step.

    Args:
        class_name: The class.
        nothing: Why classes were not observed at all.
        partial: Why events may be missing, in the file and in the step.
        unwatched: What the profiler did not watch.
        calls: Rows of the calls of the step.
        joined: All calls and GPU events.
    """
    whole = nothing.get(class_name)
    if whole:
        # Where no GPU event arrived at all, that is the reason; each single launch is not.
        return Unknown(reasons=tuple(whole), nothing=True, unwatched=whole == [_NO_OPS])
    told = [text for reasons in partial for text in reasons.get(class_name, ())]
    names = joined.calls.names
    if class_name == "host_syncs" and joined.may_block and any(may_block_untold(names[row]) for row in calls):
        told.append("copies on XPU do not tell whether they wait")
    kinds = _LOST_KINDS.get(class_name, ())
    lost: tuple[Call, ...] = ()
    if joined.lost and kinds:
        inside = joined.lost.intersection(calls)
        lost = tuple(Call(joined.calls, row) for row in sorted(inside) if joined.kinds[row] in kinds)
    unseen = unwatched.get(class_name, ())
    if not (told or lost or unseen):
        return _NOTHING_MISSING
    return Unknown(reasons=(*told, *unseen), lost=lost, unwatched=not (told or lost))


def blind_threads(calls: Sequence[int], nested: Nest, joined: Joined, home: set[int]) -> Reasons:
    """Return why ops were not measured: work from a thread on which the profiler saw no op."""
    reasons: Reasons = defaultdict(list)
    threads = nested.calls.threads
    seeing = nested.op_threads | home
    if joined.threads <= seeing:
        return reasons
    blind = {
        threads[row]
        for row in calls
        if threads[row] not in seeing and joined.kinds[row] is not CallKind.OTHER and row not in nested.linked_calls
    }
    if blind and nested.op_threads:
        _add(reasons, ("ops",), f"{counted(len(blind), 'thread')} launched work without any op in the trace")
    return reasons


def summary(totals: Step, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """Return one sentence a class and cause of what the recording lost, for the file as a whole."""
    return tuple(
        dict.fromkeys(
            f"{name}: {getattr(step, name).why_not_measured}"
            for step in (totals, *steps)
            for name in CLASSES
            if lacks_something(getattr(step, name))
        )
    )


def _add(reasons: Reasons, classes: tuple[str, ...], text: str) -> None:
    for name in classes:
        reasons[name].append(text)
