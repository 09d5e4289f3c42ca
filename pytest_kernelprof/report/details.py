"""A profile event by event, as plain values: enough to redo every verdict on it.

Events of a step come in columns, in the order of their launches. What many have in common, such as name, shape and
ops around the launch, stands once, among the *kinds* of their class; an event is the number of its kind and its times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import NotMeasured
from ..events import FOREVER, Call, Event, GpuEvent, Kernel, Memcpy, Memset, Op
from ..eventset import EventSet
from ..explain import graph_launch
from ..model import CLASSES, Range, Step, Trace
from .summary import kernel_values

DETAILED = ("kernels", "memcpys", "memsets", "host_syncs", "calls", "ops")
"""The classes of events; ``calls`` are launches and the calls that copy or set memory."""
_ON_GPU = ("kernels", "memcpys", "memsets")


def details(trace: Trace) -> dict[str, Any]:
    """Return the steps of a trace, event by event."""
    kinds = {name: _Kinds(_TOLD[name]) for name in DETAILED}
    zero = _first_start(trace.steps)
    steps = [_step(step, kinds, zero) for step in trace.steps]
    return {"kinds": {name: one.values for name, one in kinds.items()}, "steps": steps}


def evidence(steps: Sequence[Step], events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return where in the details some events stand: step, class, and place in its columns."""
    wanted = set(events)
    if not wanted:
        return []
    return [
        {"step": number, "class": name, "index": index}
        for number, step in enumerate(steps)
        for name in DETAILED
        for index, event in enumerate(_events(step, name).seen)
        if event in wanted
    ]


class _Kinds:
    """What events of one class have in common, each kind once."""

    def __init__(self, tell: Callable[[Any], dict[str, Any]]) -> None:
        self._tell = tell
        self._numbers: dict[str, int] = {}
        self.values: list[dict[str, Any]] = []

    def number(self, event: Event) -> int:
        told = self._tell(event)
        key = repr(told)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(told)
        return self._numbers[key]


def _first_start(steps: Sequence[Step]) -> int:
    """Return when the first step began, in the time of the trace; without ranges, when the first event did."""
    ranges = [one.start_ns for step in steps for one in step.timed]
    events = (event.start_ns for step in steps for name in DETAILED for event in _events(step, name).seen)
    return min(ranges or [start for start in events if start is not None], default=0)


def _events(step: Step, name: str) -> EventSet[Any]:
    if name == "calls":
        return step.launches.all_calls
    events: EventSet[Any] = getattr(step, name)
    return events


def _step(step: Step, kinds: dict[str, _Kinds], zero: int) -> dict[str, Any]:
    calls = {call: place for place, call in enumerate(step.launches.all_calls.seen)}
    memory = step.memory.devices if step.memory is not None and step.why_no_memory is None else None
    return {
        "name": step.name,
        "complete": step.complete,
        "unmeasured": {name: why for name in CLASSES if (why := getattr(step, name).why_not_measured)},
        "gpu_time_ns": _known(lambda: step.gpu_time_ns),
        "gpu_busy_ns": _known(lambda: step.gpu_busy_ns),
        "cpu_time_ns": _known(lambda: step.cpu_time_ns),
        "memory": None if memory is None else [one._asdict() for one in memory],
        "ranges": [_range(one, zero) for one in (*step.timed, *step.ranges)],
        **{name: _columns(step, name, kinds[name], calls, zero) for name in DETAILED},
    }


def _known(read: Callable[[], int]) -> int | None:
    try:
        return read()
    except NotMeasured:
        return None


def _range(one: Range, zero: int) -> dict[str, Any]:
    duration = None if one.end_ns == FOREVER else one.end_ns - one.start_ns
    return {"name": one.name, "start_ns": one.start_ns - zero, "duration_ns": duration, "thread": _thread(one.thread)}


def _thread(thread: tuple[int | str, int | str]) -> str:
    return f"{thread[0]}/{thread[1]}"


def _columns(step: Step, name: str, kinds: _Kinds, calls: dict[Call, int], zero: int) -> dict[str, Any] | None:
    """Return events as columns; ``None`` for a class that was not observed at all."""
    events = _events(step, name)
    if events.unknown.nothing:
        return None
    starts = [event.start_ns for event in events.seen]
    columns: dict[str, Any] = {
        "kinds": [kinds.number(event) for event in events.seen],
        "start_ns": [None if start is None else start - zero for start in starts],
        "duration_ns": [event.duration_ns for event in events.seen],
    }
    if name in _ON_GPU:
        columns["launches"] = [calls.get(event.launch) for event in events.seen]
    return columns


def _placed(event: Event) -> dict[str, Any]:
    """Return in which regions an event is; ``None`` where the trace leaves that open."""
    return {"regions": list(event.regions) if event.regions_known else None}


def _on_gpu(event: GpuEvent) -> dict[str, Any]:
    return {"device": event.device, "stream": event.stream, "launched_by": [op.name for op in event.chain]}


def _kernel(kernel: Kernel) -> dict[str, Any]:
    return {
        **kernel_values(kernel),
        "attention_backend": kernel.decoded.attention_backend,
        "graph_launch": graph_launch(kernel),
        **_placed(kernel),
    }


def _memcpy(copy: Memcpy) -> dict[str, Any]:
    told = {"name": copy.name, "kind": copy.kind, "bytes": copy.size_bytes, "pageable": copy.pageable}
    return {**told, **_on_gpu(copy), **_placed(copy)}


def _memset(memset: Memset) -> dict[str, Any]:
    told = {"name": memset.name, "bytes": memset.size_bytes, "next_kernel": memset.next_kernel}
    return {**told, "next_known": memset.next_known, **_on_gpu(memset), **_placed(memset)}


def _on_cpu(event: Call | Op) -> dict[str, Any]:
    inside = [op.name for op in event.chain]
    return {"name": event.name, "inside": inside, "thread": _thread(event.thread), **_placed(event)}


_TOLD: dict[str, Callable[[Any], dict[str, Any]]] = {
    "kernels": _kernel,
    "memcpys": _memcpy,
    "memsets": _memset,
    "host_syncs": _on_cpu,
    "calls": _on_cpu,
    "ops": _on_cpu,
}
