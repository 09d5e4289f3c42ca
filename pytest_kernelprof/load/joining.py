"""Launches joined to GPU events by correlation id, and what has no partner."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress, islice, repeat, zip_longest
from operator import add, lt
from typing import Any

from ..events import (
    FOREVER,
    MISSING,
    NO_ID,
    CallTable,
    D,
    Fill,
    GpuEvent,
    GpuTable,
    Kernel,
    Memcpy,
    Memset,
    Shape,
    Transfer,
)
from ..model import Orphans
from .calls import LAUNCHES, MOVING, CallKind, call_kind, capture_boundary, ends_a_profile, may_block_untold
from .columns import Columns, GpuColumns, Span, in_order
from .nesting import Nest
from .own import CANARY

GPU_CLASSES = ("kernels", "memcpys", "memsets")
_KIND_OF = {"kernels": CallKind.KERNEL_LAUNCH, "memcpys": CallKind.COPY, "memsets": CallKind.SET}
_VIEWS: dict[str, Any] = {"kernels": Kernel, "memcpys": Memcpy, "memsets": Memset}


class Joined:
    """Calls and GPU events with each other.

    Attributes:
        calls: All calls, by start.
        kinds: What each of them does.
        own_calls: Rows of calls that are the plugin's or the profiler's own.
        gpu: Table of each class of GPU events, in the order of their launches.
        rows: Rows of each table that belong to the user's code.
        orphans: Those without a launch.
        lost: Rows of calls that should have left a GPU event and have none.
        canary_devices: GPUs whose canary arrived.
        canary_called: The call that launched a canary is in the recording.
        conditional: A graph with conditional nodes was made.
        last_wait_untold: Whether the last synchronisation is the profiler's own, the trace does not tell.
        may_block: Some call may or may not wait, which no trace tells.
        threads: Numbers of the threads that made calls.
        names: Each name of a call once.
    """

    def __init__(self, calls: CallTable) -> None:
        """Make an empty one."""
        self.calls = calls
        self.kinds: list[CallKind] = []
        self.own_calls: set[int] = set()
        self.gpu: dict[str, GpuTable[Any]] = {}
        self.rows: dict[str, Sequence[int]] = {}
        self.orphans = Orphans()
        self.lost: set[int] = set()
        self.canary_devices: set[int | None] = set()
        self.canary_called = False
        self.last_wait_untold = False
        self.threads = set(calls.threads)
        self.names = set(calls.names)
        self.conditional = any("GraphConditional" in name for name in self.names)
        self.may_block = any(map(may_block_untold, self.names))

    @property
    def any_gpu(self) -> bool:
        """Whether the file holds any GPU event at all."""
        return any(table.names for table in self.gpu.values())


def join(columns: Columns, nested: Nest, windows: list[Span]) -> Joined:
    """Return the calls and GPU events of a file, joined.

    Args:
        columns: The rows by kind.
        nested: Ops and calls in their place.
        windows: The steps.
    """
    calls = nested.calls
    joined = Joined(calls)
    kind_of = {name: call_kind(name) for name in joined.names}
    joined.kinds = [kind_of[name] for name in calls.names]
    by_correlation = _by_correlation(calls, joined.kinds)
    joined.gpu = {
        "kernels": _table(columns.kernels, GpuTable[Shape](calls), by_correlation),
        "memcpys": _table(columns.memcpys, GpuTable[Transfer](calls), by_correlation),
        "memsets": _table(columns.memsets, GpuTable[Fill](calls), by_correlation),
    }
    joined.own_calls = set(nested.own_calls)
    last_wait = _profilers_own_wait(columns, nested, windows)
    if last_wait is not None:
        # An op that never ended may hold all that follows.
        begun = bisect_right(nested.ops.starts, calls.starts[last_wait])
        joined.last_wait_untold = MISSING in nested.ops.durations[:begun]
        if not joined.last_wait_untold:
            joined.own_calls.add(last_wait)
    captures = _Captures(nested)
    joined.lost = {
        row
        for row in _without_event(joined)
        if joined.kinds[row] is not CallKind.OTHER
        and row not in joined.own_calls
        and not (joined.kinds[row] in MOVING and (calls.correlation_ids[row], calls.starts[row]) in columns.zero_bytes)
        and not captures.cover(row)
    }
    _fill_in_next_kernels(joined)
    joined.orphans = _orphans(joined, columns.bad_call_ids)
    own = nested.own_calls
    joined.rows = {
        name: [row for row, launch in enumerate(table.launches) if launch not in own]
        if own
        else range(len(table.names))
        for name, table in joined.gpu.items()
    }
    kernels = joined.gpu["kernels"]
    joined.canary_devices = (
        {kernels.devices[row] for row, launch in enumerate(kernels.launches) if own.get(launch) == CANARY}
        if own
        else set()
    )
    joined.canary_called = CANARY in own.values()
    return joined


def _by_correlation(calls: CallTable, kinds: list[CallKind]) -> dict[int, int]:
    """Return rows of calls by correlation id; where two share one, the one that launches."""
    ids = calls.correlation_ids
    found = dict(zip(ids, range(len(ids)), strict=True))
    if len(found) == len(ids) and NO_ID not in found:
        return found
    found = {}
    for row, correlation_id in enumerate(ids):
        known = found.setdefault(correlation_id, row)
        if known != row and kinds[known] is CallKind.OTHER and kinds[row] is not CallKind.OTHER:
            found[correlation_id] = row
    found.pop(NO_ID, None)
    return found


def _table(columns: GpuColumns[D], table: GpuTable[D], by_correlation: dict[int, int]) -> GpuTable[D]:
    """Move columns into a table by launch, then by start: streams race, launches do not."""
    launches = array("q", map(by_correlation.get, columns.correlation_ids, repeat(NO_ID)))
    starts, call_starts = columns.starts, table.calls.starts
    moments = [call_starts[launch] if launch >= 0 else start for launch, start in zip(launches, starts, strict=True)]
    order: list[int] | None = None
    if not all(map(lt, moments, islice(moments, 1, None))):
        order = sorted(range(len(starts)), key=starts.__getitem__)
        order.sort(key=moments.__getitem__)
    table.names, table.details = in_order(columns.names, order), in_order(columns.details, order)
    table.devices, table.streams = in_order(columns.devices, order), in_order(columns.streams, order)
    table.starts, table.durations = in_order(starts, order), in_order(columns.durations, order)
    table.correlation_ids, table.launches = in_order(columns.correlation_ids, order), in_order(launches, order)
    return table


def _without_event(joined: Joined) -> Iterator[int]:
    """Yield the rows of calls that left no GPU event; a call of unknown name is what its events say."""
    kinds = joined.kinds
    marks = bytearray(len(kinds) + 1)  # The last one takes the orphans, whose launch is -1.
    for name, table in joined.gpu.items():
        for row in table.launches:
            if not marks[row]:
                marks[row] = 1
                if row != NO_ID and kinds[row] is CallKind.OTHER:
                    kinds[row] = _KIND_OF[name]
    return compress(range(len(kinds)), marks.translate(b"\1\0" + bytes(254)))


def _orphans(joined: Joined, bad_call_ids: set[int]) -> Orphans:
    """Tell leaked from late: streams are first in, first out.

    An event whose call is in the file, unreadable, was not launched before the recording.
    """
    alone = [
        (name, row)
        for name, table in joined.gpu.items()
        if NO_ID in table.launches
        for row, launch in enumerate(table.launches)
        if launch == NO_ID
    ]
    if not alone:
        return Orphans()
    first: dict[object, int] = {}
    for table in joined.gpu.values():
        for device, stream, launch, start in zip(
            table.devices, table.streams, table.launches, table.starts, strict=True
        ):
            if launch != NO_ID and start != MISSING:
                key = device, stream
                first[key] = min(start, first.get(key, start))
    events = [_VIEWS[name](joined.gpu[name], row) for name, row in alone]
    events.sort(key=lambda event: event.start_ns or 0)
    leaked: list[GpuEvent] = []
    late: list[GpuEvent] = []
    for event in events:
        begun = first.get((event.device, event.stream))
        early = event.start_ns is not None and begun is not None and event.start_ns < begun
        # Without an id nothing tells whether its launch is in the recording.
        early = early and event.correlation_id is not None and event.correlation_id not in bad_call_ids
        (leaked if early else late).append(event)
    return Orphans(tuple(leaked), tuple(late))


def _fill_in_next_kernels(joined: Joined) -> None:
    """Let each Memset know the kernel that follows at once on its stream.

    Where a row of the stream has no time, any row no stream, or a kernel may be missing, nobody
    knows what follows.
    """
    memsets: GpuTable[Fill] = joined.gpu["memsets"]
    if not memsets.names:
        return
    blind = any(joined.kinds[row] in LAUNCHES for row in joined.lost)
    blind = blind or any(None in table.streams for table in joined.gpu.values())
    streams: dict[object, list[tuple[int, int, str, int]]] = defaultdict(list)
    call_starts = joined.calls.starts
    wanted = set(zip(memsets.devices, memsets.streams, strict=True))
    for name, table in joined.gpu.items():
        for row, key in enumerate(zip(table.devices, table.streams, strict=True)):
            if key in wanted:
                start, launch = table.starts[row], table.launches[row]
                streams[key].append((start, call_starts[launch] if launch >= 0 else start, name, row))
    for stream in streams.values():
        stream.sort()
        unknown = blind or (bool(stream) and stream[0][0] == MISSING)
        moments = Counter(one[:2] for one in stream)
        for (*moment, kind, row), after in zip_longest(stream, stream[1:]):
            if kind == "memsets":
                following = joined.gpu["kernels"].names[after[3]] if after and after[2] == "kernels" else None
                # Two events of one graph at the same moment: the trace does not tell which came first.
                tied = moments[tuple(moment)] > 1
                memsets.details[row] = Fill(memsets.details[row].size_bytes, following, not (unknown or tied))


def _profilers_own_wait(columns: Columns, nested: Nest, windows: list[Span]) -> int | None:
    """Return the call with which torch.profiler ended the recording, if it is there."""
    calls, ops = nested.calls, nested.ops
    if not any(map(ends_a_profile, set(calls.names))):
        return None
    last = next(row for row in reversed(range(len(calls.names))) if ends_a_profile(calls.names[row]))
    now_ns, thread = calls.starts[last], calls.threads[last]
    if any(span.holds(now_ns) for span in (*windows, *columns.annotations)):
        return None
    begun = bisect_right(ops.starts, now_ns)
    if max(map(add, ops.starts[:begun], ops.durations), default=now_ns) > now_ns:
        return None
    if any(ops.threads[row] == thread and row not in nested.own_ops for row in range(begun, len(ops.names))):
        return None
    followed = any(
        calls.threads[row] == thread and call_kind(calls.names[row]) in LAUNCHES
        for row in range(last + 1, len(calls.names))
        if calls.starts[row] > now_ns
    )
    return None if followed else last


class _Captures:
    """When each thread captured a graph: launches then are recorded, not run."""

    def __init__(self, nested: Nest) -> None:
        self.nested = nested
        self.windows: dict[int, list[tuple[int, int]]] = defaultdict(list)
        calls = nested.calls
        boundaries = {name: boundary for name in set(calls.names) if (boundary := capture_boundary(name))}
        begun: dict[int, int] = {}
        for row, name in enumerate(calls.names) if boundaries else ():
            if name not in boundaries:
                continue
            thread, start_ns = calls.threads[row], calls.starts[row]
            if boundaries[name] == "Begin":
                begun[thread] = start_ns
            elif thread in begun:
                # Half a pair excuses nothing: what was captured, and what was lost, looks the same.
                self.windows[thread].append((begun.pop(thread), start_ns))
        for windows in self.windows.values():
            windows.sort()

    def cover(self, row: int) -> bool:
        """Return whether the call was made while its thread captured.

        An autograd thread launches into the capture of the thread that called ``backward()``.
        """
        if not self.windows:
            return False
        calls, ops, autograd = self.nested.calls, self.nested.ops, self.nested.backward_threads
        thread, parent, start_ns = calls.threads[row], calls.parents[row], calls.starts[row]
        is_autograd = thread in autograd or (parent != NO_ID and ops.threads[parent] in autograd)
        threads = list(self.windows) if is_autograd else [thread]
        return any(_covered(self.windows.get(one, []), start_ns) for one in threads)


def _covered(windows: list[tuple[int, int]], now_ns: int) -> bool:
    position = bisect_right(windows, (now_ns, FOREVER)) - 1
    return position >= 0 and windows[position][0] <= now_ns <= windows[position][1]
