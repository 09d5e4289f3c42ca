"""Which classes of events were measured, and why the others were not: counting rules 3, 6 and 7."""

from __future__ import annotations

from collections import defaultdict

from ..model import CLASSES, Call, Step, Thread, Unknown
from ..units import counted
from .calls import CallKind, may_block_untold
from .joining import Joined
from .nesting import Nest
from .recording import Recording
from .sorting import Sorted, Span

_GPU_CLASSES = ("kernels", "memcpys", "memsets")
_API_CLASSES = ("launches", "host_syncs")
_LOST_KINDS = {
    "kernels": (CallKind.KERNEL_LAUNCH, CallKind.GRAPH_LAUNCH),
    "memcpys": (CallKind.COPY,),
    "memsets": (CallKind.SET,),
}
_DELIVERY = (
    "look at: GPU profiling inside WSL or a container, permission to read GPU counters, "
    "another profiler attached to the process"
)

Reasons = dict[str, list[str]]
"""Class of events to the reasons why it was not measured."""


def file_reasons(rows: Sorted, joined: Joined, recording: Recording | None) -> Reasons:
    """Return what makes whole classes unmeasured in the file, whatever the step."""
    reasons: Reasons = defaultdict(list)
    for text in _gpu_reasons(rows, joined, recording):
        _add(reasons, _GPU_CLASSES, text)
    if recording and recording.no_gpu:
        _add(reasons, _API_CLASSES, recording.no_gpu)
    elif not rows.calls:
        _add(reasons, _API_CLASSES, "no runtime or driver call in the trace")
    if not rows.ops and not rows.annotations and not rows.steps:
        _add(reasons, ("ops",), "no operator and no annotation in the trace")
    if recording and recording.steps != len(rows.steps):
        missing = f"{len(rows.steps)} of {recording.steps} steps are in the recording: another profiler interfered"
        _add(reasons, CLASSES, missing)
    if rows.bad_rows:
        _add(reasons, ("launches", "host_syncs", "ops"), f"{counted(rows.bad_rows, 'row')} without a usable time")
    return reasons


def _gpu_reasons(rows: Sorted, joined: Joined, recording: Recording | None) -> list[str]:
    if recording and recording.no_gpu:
        return [recording.no_gpu]
    if recording:
        missing = sorted(set(recording.canary_devices) - joined.canary_devices, key=str)
        if missing:
            return [f"the canary kernel on GPU {', '.join(map(str, missing))} did not arrive in the trace; {_DELIVERY}"]
    elif not rows.gpu:
        launches = [call for call in joined.calls if joined.kinds[call] is CallKind.KERNEL_LAUNCH]
        if launches:
            return [
                f"{counted(len(launches), 'kernel launch', 'kernel launches')} recorded but no GPU event; {_DELIVERY}"
            ]
        return ["no GPU event and no canary in the trace"]
    found = []
    if joined.orphans.late:
        found.append(
            f"{counted(len(joined.orphans.late), 'GPU event')} without a launch, not from before the recording: "
            "launches are missing"
        )
    if recording and joined.orphans.leaked:
        # Everything was waited for before the recording began: nothing can leak into it.
        found.append(f"{counted(len(joined.orphans.leaked), 'GPU event')} without a launch after a synchronisation")
    if rows.unknown_device_rows:
        found.append(f"rows of a device that is not understood: {', '.join(sorted(rows.unknown_device_rows))}")
    return found


def step_reasons(step: Span, recording_end_ns: int | None) -> Reasons:
    """Return what makes a single step unmeasured: it was cut."""
    reasons: Reasons = defaultdict(list)
    if step.end_ns is None:
        _add(reasons, CLASSES, f"{step.name} was cut: it never ended")
    elif recording_end_ns is not None and step.end_ns > recording_end_ns:
        _add(reasons, CLASSES, f"{step.name} was cut: it ends after the recording")
    return reasons


def unknown_of(class_name: str, reasons: list[Reasons], calls: list[Call], joined: Joined) -> Unknown:
    """Return what is missing from one class of one step.

    Args:
        class_name: The class.
        reasons: What holds for the file, and for the step.
        calls: The calls of the step.
        joined: All calls and GPU events.
    """
    kinds = _LOST_KINDS.get(class_name, ())
    told = [text for some in reasons for text in some.get(class_name, ())]
    if class_name == "host_syncs" and any(may_block_untold(call.name) for call in calls):
        told.append("copies on XPU do not tell whether they wait")
    # Where no GPU event arrived at all, that is the reason; each single launch is not.
    lost = () if told else tuple(call for call in calls if call in joined.lost and joined.kinds[call] in kinds)
    return Unknown(reasons=tuple(told), lost=lost)


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
