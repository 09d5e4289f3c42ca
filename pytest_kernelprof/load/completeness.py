"""Which classes of events were measured, and why the others were not: counting rules 3, 6 and 7."""

from __future__ import annotations

from collections import defaultdict

from ..events import Call, Thread
from ..eventset import Unknown
from ..model import CLASSES, Step
from ..units import counted
from .calls import LAUNCHES, CallKind, may_block_untold
from .joining import Joined
from .nesting import Nest
from .recording import Recording
from .sorting import Sorted, Span

_GPU_CLASSES = ("kernels", "memcpys", "memsets")
_API_CLASSES = ("launches", "host_syncs")
_LOST_KINDS = {
    "kernels": LAUNCHES,
    "memcpys": (CallKind.COPY,),
    "memsets": (CallKind.SET,),
}
_DELIVERY = (
    "look at: GPU profiling inside WSL or a container, permission to read GPU counters, "
    "another profiler attached to the process"
)

_NOTHING_MISSING = Unknown()

Reasons = dict[str, list[str]]
"""Class of events to the reasons why it was not measured."""


def unobserved(rows: Sorted, joined: Joined, recording: Recording | None) -> Reasons:
    """Return why whole classes were not observed at all, in the file."""
    reasons: Reasons = defaultdict(list)
    nothing = _no_gpu_events(rows, joined, recording)
    if nothing:
        _add(reasons, _GPU_CLASSES, nothing)
    if recording and recording.no_gpu:
        _add(reasons, _API_CLASSES, recording.no_gpu)
    elif recording and not joined.canary_called:
        _add(reasons, _API_CLASSES, f"the call that launches the canary is not in the trace; {_DELIVERY}")
    elif not rows.calls:
        _add(reasons, _API_CLASSES, "no runtime or driver call in the trace")
    if not (rows.ops or rows.annotations or rows.steps):
        _add(reasons, ("ops",), "no operator and no annotation in the trace")
    return reasons


def incomplete(rows: Sorted, joined: Joined, recording: Recording | None) -> Reasons:
    """Return why classes that were observed may lack events, in the file."""
    reasons: Reasons = defaultdict(list)
    for text in _missing_launches(rows, joined, recording):
        _add(reasons, _GPU_CLASSES, text)
    if recording and recording.steps != len(rows.steps):
        missing = f"{len(rows.steps)} of {recording.steps} steps are in the recording: another profiler interfered"
        _add(reasons, CLASSES, missing)
    if rows.bad_steps:
        told = f"{counted(rows.bad_steps, 'row')} of steps cannot be read: what belongs to them is unknown"
        _add(reasons, CLASSES, told)
    if rows.bad_ops:
        _add(reasons, ("ops",), f"{counted(rows.bad_ops, 'row')} of ops cannot be read")
    if rows.bad_calls:
        told = f"{counted(rows.bad_calls, 'row')} of launches or GPU events cannot be read"
        _add(reasons, (*_GPU_CLASSES, *_API_CLASSES), told)
    if joined.orphans.late:
        _add(reasons, ("launches",), "launches are missing: a GPU event has none")
    if rows.unknown_device_rows:
        _add(reasons, _API_CLASSES, _not_understood(rows))
    return reasons


def _no_gpu_events(rows: Sorted, joined: Joined, recording: Recording | None) -> str | None:
    if recording and recording.no_gpu:
        return recording.no_gpu
    if recording:
        missing = sorted(set(recording.canary_devices) - joined.canary_devices, key=str)
        gpus = ", ".join(map(str, missing))
        return f"the canary kernel on GPU {gpus} did not arrive in the trace; {_DELIVERY}" if missing else None
    if rows.gpu:
        return None
    launches = sum(joined.kinds[call] is CallKind.KERNEL_LAUNCH for call in joined.calls)
    if launches:
        told = counted(launches, "kernel launch")
        return f"{told} recorded but no GPU event; {_DELIVERY}"
    if rows.unknown_device_rows:
        return _not_understood(rows)
    return "no GPU event and no canary in the trace"


def _missing_launches(rows: Sorted, joined: Joined, recording: Recording | None) -> list[str]:
    late, leaked = len(joined.orphans.late), len(joined.orphans.leaked)
    found = []
    if late:
        told = counted(late, "GPU event")
        found.append(f"{told} without a launch, not from before the recording: launches are missing")
    if recording and leaked:
        # Everything was waited for before the recording began: nothing can leak into it.
        found.append(f"{counted(leaked, 'GPU event')} without a launch after a synchronisation")
    if rows.unknown_device_rows and rows.gpu:
        found.append(_not_understood(rows))
    return found


def _not_understood(rows: Sorted) -> str:
    return f"rows of a device that is not understood: {', '.join(sorted(rows.unknown_device_rows))}"


def step_reasons(step: Span, recording_end_ns: int | None) -> Reasons:
    """Return what makes a single step unmeasured: it was cut."""
    reasons: Reasons = defaultdict(list)
    if step.end_ns is None:
        _add(reasons, CLASSES, f"{step.name} was cut: it never ended")
    elif recording_end_ns is not None and step.end_ns > recording_end_ns:
        _add(reasons, CLASSES, f"{step.name} was cut: it ends after the recording")
    return reasons


def unknown_of(class_name: str, nothing: Reasons, partial: list[Reasons], calls: list[Call], joined: Joined) -> Unknown:
    """Return what is missing from one class of one step.

    Args:
        class_name: The class.
        nothing: Why classes were not observed at all.
        partial: Why events may be missing, in the file and in the step.
        calls: The calls of the step.
        joined: All calls and GPU events.
    """
    whole = nothing.get(class_name)
    if whole:
        # Where no GPU event arrived at all, that is the reason; each single launch is not.
        return Unknown(reasons=tuple(whole), nothing=True)
    told = [text for reasons in partial for text in reasons.get(class_name, ())]
    if class_name == "host_syncs" and any(may_block_untold(call.name) for call in calls):
        told.append("copies on XPU do not tell whether they wait")
    kinds = _LOST_KINDS.get(class_name, ())
    lost: tuple[Call, ...] = ()
    if joined.lost and kinds:
        lost = tuple(call for call in calls if call in joined.lost and joined.kinds[call] in kinds)
    return Unknown(reasons=tuple(told), lost=lost) if told or lost else _NOTHING_MISSING


def blind_threads(calls: list[Call], nested: Nest, joined: Joined, home: set[Thread]) -> Reasons:
    """Return why ops were not measured: work from a thread on which the profiler saw no op."""
    reasons: Reasons = defaultdict(list)
    blind = {
        call.thread
        for call in calls
        if joined.kinds[call] is not CallKind.OTHER
        and call.thread not in nested.op_threads
        and call.thread not in home
        and call not in nested.linked_calls
    }
    if blind and nested.op_threads:
        _add(reasons, ("ops",), f"{counted(len(blind), 'thread')} launched work without any op in the trace")
    return reasons


def summary(totals: Step, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """Return one sentence a class and cause that was not measured, for the file as a whole."""
    told: dict[str, None] = {}
    for step in (totals, *steps):
        for name in CLASSES:
            why = getattr(step, name).why_not_measured
            if why:
                told[f"{name}: {why}"] = None
    return tuple(told)


def _add(reasons: Reasons, classes: tuple[str, ...], text: str) -> None:
    for name in classes:
        reasons[name].append(text)
