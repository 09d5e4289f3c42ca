"""Launches joined to GPU events by correlation id, and what has no partner."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

import msgspec

from ..events import Call, GpuEvent, Kernel, Memcpy, Memset, Op, Thread
from ..model import Orphans
from .calls import LAUNCHES, CallKind, call_kind, capture_boundary, ends_a_profile
from .gpu_rows import GpuWork, gpu_event, launch_order, stream_key, with_next_kernels
from .nesting import BACKWARD_NODE, Nest
from .own import CANARY
from .reading import integer
from .sorting import FOREVER, Sorted, Span


@dataclass(frozen=True, slots=True)
class Joined:
    """Calls and GPU events with each other.

    Attributes:
        calls: Calls of the user's code, by start; the plugin's and the profiler's own left out.
        kinds: What each of them does.
        events: GPU events of the user's code, in the order of their launches.
        orphans: Those without a launch.
        lost: Calls that should have left a GPU event and have none.
        canary_devices: GPUs whose canary arrived.
        canary_called: The call that launched a canary is in the recording.
    """

    calls: list[Call]
    kinds: dict[Call, CallKind]
    events: list[GpuWork]
    orphans: Orphans
    lost: set[Call]
    canary_devices: set[int | None]
    canary_called: bool


def join(rows: Sorted, nested: Nest, windows: list[Span]) -> Joined:
    """Return the calls and GPU events of *rows*, joined.

    Args:
        rows: The sorted rows.
        nested: Ops and calls in their place.
        windows: The steps.
    """
    by_correlation = _by_correlation([call for call, _ in nested.calls])
    events = with_next_kernels(
        sorted((gpu_event(kind, row, by_correlation) for kind, row in rows.gpu), key=launch_order)
    )
    own = {call: name for call, name in nested.calls if name is not None}
    last_wait = _profilers_own_wait(rows, nested, windows)
    calls = [call for call, name in nested.calls if name is None and call is not last_wait]
    kinds = {call: call_kind(call.name) for call in calls}
    for event in events:
        # A call of unknown name that carries GPU events is what its events say.
        if event.launch in kinds and kinds[event.launch] is CallKind.OTHER:
            kinds[event.launch] = _kind_of(event)
    started = {event.launch for event in events}
    captures = _Captures(calls, nested.ops)
    zero_bytes = _zero_byte_calls(rows.calls)
    lost = {
        call
        for call in calls
        if kinds[call] is not CallKind.OTHER
        and call not in started
        and call.correlation_id not in zero_bytes
        and not captures.cover(call)
    }
    if any(kinds[call] in LAUNCHES for call in lost):
        events = [_with_unknown_next(event) for event in events]
    return Joined(
        calls=calls,
        kinds=kinds,
        events=[event for event in events if event.launch not in own],
        orphans=_orphans(events, rows.bad_call_ids),
        lost=lost,
        canary_devices={e.device for e in events if isinstance(e, Kernel) and e.launch and own.get(e.launch) == CANARY},
        canary_called=any(name == CANARY for name in own.values()),
    )


def _with_unknown_next(event: GpuWork) -> GpuWork:
    """Return the event; what follows a Memset is unknown where a kernel may be missing."""
    return msgspec.structs.replace(event, next_known=False) if isinstance(event, Memset) else event


def _by_correlation(calls: list[Call]) -> dict[int, Call]:
    """Return the calls by correlation id; where two share one, the one that launches."""
    found: dict[int, Call] = {}
    for call in calls:
        if call.correlation_id is None:
            continue
        known = found.setdefault(call.correlation_id, call)
        if call_kind(known.name) is CallKind.OTHER and call_kind(call.name) is not CallKind.OTHER:
            found[call.correlation_id] = call
    return found


def _kind_of(event: GpuEvent) -> CallKind:
    if isinstance(event, Kernel):
        return CallKind.KERNEL_LAUNCH
    return CallKind.COPY if isinstance(event, Memcpy) else CallKind.SET


def _orphans(events: list[GpuWork], bad_call_ids: set[int]) -> Orphans:
    """Tell leaked from late: streams are first in, first out.

    An event whose call is in the file, unreadable, was not launched before the recording.
    """
    first: dict[object, int] = {}
    for event in events:
        if event.launch and event.start_ns is not None:
            key = stream_key(event)
            first[key] = min(event.start_ns, first.get(key, event.start_ns))
    leaked: list[GpuEvent] = []
    late: list[GpuEvent] = []
    for event in events:
        if event.launch is None:
            begun = first.get(stream_key(event))
            early = event.start_ns is not None and begun is not None and event.start_ns < begun
            early = early and event.correlation_id not in bad_call_ids
            (leaked if early else late).append(event)
    return Orphans(tuple(leaked), tuple(late))


def _profilers_own_wait(rows: Sorted, nested: Nest, windows: list[Span]) -> Call | None:
    """Return the synchronisation with which torch.profiler ended the recording, if it is there."""
    waits = [call for call, _ in nested.calls if ends_a_profile(call.name)]
    if not waits:
        return None
    last = max(waits, key=lambda call: call.start_ns)
    around = (*windows, *rows.annotations, *rows.ops)
    if any(one.holds(last.start_ns) for one in around):
        return None
    followed = any(op.thread == last.thread and op.start_ns > last.start_ns for op in nested.ops) or any(
        call.thread == last.thread and call.start_ns > last.start_ns and call_kind(call.name) in LAUNCHES
        for call, _ in nested.calls
    )
    return None if followed else last


def _zero_byte_calls(calls: list[Span]) -> set[int]:
    """Return the correlation ids of copies and sets of which the trace says: zero bytes."""
    return {
        known
        for span in calls
        if (known := integer(span.args.correlation)) is not None
        and call_kind(span.name) in (CallKind.COPY, CallKind.SET)
        and 0 in (integer(span.args.bytes), integer(span.args.size))
    }


class _Captures:
    """When each thread captured a graph: launches then are recorded, not run."""

    def __init__(self, calls: list[Call], ops: list[Op]) -> None:
        self.windows: dict[Thread, list[tuple[int, int]]] = defaultdict(list)
        self.autograd = {op.thread for op in ops if op.name.startswith(BACKWARD_NODE)}
        begun: dict[Thread, int] = {}
        for call in calls:
            boundary = capture_boundary(call.name)
            if boundary == "Begin":
                begun[call.thread] = call.start_ns
            elif boundary == "End":
                # A capture that began before the recording has no Begin in it.
                self.windows[call.thread].append((begun.pop(call.thread, -FOREVER), call.start_ns))
        for thread, start_ns in begun.items():
            self.windows[thread].append((start_ns, FOREVER))
        for windows in self.windows.values():
            windows.sort()

    def cover(self, call: Call) -> bool:
        """Return whether the call was made while its thread captured.

        An autograd thread launches into the capture of the thread that called ``backward()``.
        """
        autograd = call.thread in self.autograd or (call.chain and call.chain[-1].thread in self.autograd)
        threads = list(self.windows) if autograd else [call.thread]
        return any(_covered(self.windows.get(thread, []), call.start_ns) for thread in threads)


def _covered(windows: list[tuple[int, int]], now_ns: int) -> bool:
    position = bisect_right(windows, (now_ns, FOREVER)) - 1
    return position >= 0 and windows[position][0] <= now_ns <= windows[position][1]
