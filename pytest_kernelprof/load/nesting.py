"""What stood open around an op or a call: the op chain and the regions.

Ranges may intersect instead of nest (hooks that open and close in the wrong order do that), so
what lies under the innermost open op may have ended; `OpTable.chain` leaves that out.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice, pairwise
from operator import add, lt
from typing import Any

from ..events import BACKWARD_NODE, FOREVER, MISSING, NO_ID, CallTable, OpTable, Thread
from .columns import Columns, CpuColumns, Span, in_order
from .own import ANNOTATION_PREFIX

_FEW_THREADS = 16


class Nest:
    """Ops and calls with their place.

    Attributes:
        ops: Operators.
        calls: Calls.
        own_ops: Rows of ops inside the plugin's own annotations.
        own_calls: Rows of calls inside them, with the annotation's name.
        op_threads: Numbers of the threads on which any op was recorded.
        backward_threads: Of those on which autograd ran nodes of a backward graph.
        linked_calls: Rows of calls whose chain comes from another thread, through ``External id``.
    """

    def __init__(self) -> None:
        """Make an empty one."""
        self.ops = OpTable()
        self.calls = CallTable(self.ops)
        self.own_ops: set[int] = set()
        self.own_calls: dict[int, str] = {}
        self.op_threads: set[int] = set()
        self.backward_threads: set[int] = set()
        self.linked_calls: set[int] = set()


class _Timeline:
    """Which regions of a thread are open from each moment on at which that changes."""

    def __init__(self, annotations: Iterable[Span]) -> None:
        spans = sorted(
            (span for span in annotations if span.end_ns != FOREVER), key=lambda span: (span.start_ns, -_end(span))
        )
        self.moments = sorted({moment for span in spans for moment in (span.start_ns, _end(span))})
        self.regions: list[tuple[str, ...]] = []
        self.own: list[str | None] = []
        open_now: list[Span] = []
        position = 0
        for moment in self.moments:
            open_now = [span for span in open_now if _end(span) > moment]
            while position < len(spans) and spans[position].start_ns <= moment:
                open_now.append(spans[position])
                position += 1
            names = [span.name for span in open_now]
            self.own.append(next((name for name in names if name.startswith(ANNOTATION_PREFIX)), None))
            self.regions.append(tuple(name for name in names if not name.startswith(ANNOTATION_PREFIX)))

    def at(self, now_ns: int) -> tuple[str, ...]:
        """Return the regions open at a moment, outermost first."""
        position = bisect_right(self.moments, now_ns)
        return self.regions[position - 1] if position else ()


class _Rows:
    """The rows of one table that one thread made, by start."""

    __slots__ = ("intersect", "numbers", "starts", "table")

    def __init__(self, table: OpTable | CallTable) -> None:
        self.table = table
        self.intersect = False  # Some op ends after the one it began in.
        self.numbers: list[int] = []
        self.starts: list[int] = []

    def between(self, moments: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield the number of each moment, and the rows that start from it on and before the next."""
        first = bisect_left(self.starts, moments[0]) if moments else len(self.starts)
        for index in range(len(moments)):
            last = len(self.starts)
            if index + 1 < len(moments):
                last = bisect_left(self.starts, moments[index + 1], first)
            if last > first:
                yield index, self.numbers[first:last]
            first = last


class _Thread:
    """What one thread did."""

    __slots__ = ("calls", "ops", "timeline")

    def __init__(self, nest: Nest, annotations: Iterable[Span]) -> None:
        self.ops = _Rows(nest.ops)
        self.calls = _Rows(nest.calls)
        self.timeline = _Timeline(annotations)


def nest(columns: Columns) -> Nest:
    """Place every op and call of a file."""
    result = Nest()
    keys = list(columns.threads)
    external_ids = _sorted_into(columns.ops, result.ops, result.ops.sequence_numbers, keys)
    call_external_ids = _sorted_into(columns.calls, result.calls, result.calls.correlation_ids, keys)
    threads = _threads(result, columns)
    result.op_threads = {number for number, thread in threads.items() if thread.ops.numbers}
    closes = _closes(result.ops)
    for thread in threads.values():
        _nest_ops(thread.ops, closes, result.ops)
        _nest_calls(thread, closes, result)
        _place(thread, result)
    _add_callers(result, threads)
    _link(result, columns, external_ids, call_external_ids)
    return result


def _sorted_into(columns: CpuColumns, table: OpTable | CallTable, ids: array[int], keys: list[Thread]) -> array[int]:
    """Move columns into a table, by start, outer before inner; return the external ids in that order."""
    # Lists are faster to walk than arrays, which make each number anew.
    starts, durations = columns.starts.tolist(), columns.durations
    order: list[int] | None = None
    if not all(map(lt, starts, islice(starts, 1, None))):
        order = sorted(range(len(starts)), key=starts.__getitem__)
        if any(starts[row] == starts[following] for row, following in pairwise(order)):
            # Stable sorts need less memory than one by tuples. Of ranges that are equal, the node of
            # a backward graph is outside.
            order.sort(key=lambda row: not columns.names[row].startswith(BACKWARD_NODE))
            order.sort(key=lambda row: -max(durations[row], 0))
            order.sort(key=starts.__getitem__)

    table.names = in_order(columns.names, order)
    table.threads, table.thread_keys = in_order(columns.threads, order), keys
    table.starts, table.durations = in_order(columns.starts, order), in_order(durations, order)
    ids[:] = in_order(columns.ids, order)
    table.parents = array("q", (NO_ID,)) * len(starts)
    table.regions = [()] * len(starts)
    return in_order(columns.external_ids, order)


def _threads(result: Nest, columns: Columns) -> dict[int, _Thread]:
    annotations: dict[int, list[Span]] = {}
    for span in columns.annotations:
        annotations.setdefault(span.thread, []).append(span)
    threads = {number: _Thread(result, annotations.get(number, ())) for number in columns.threads.values()}
    for table, kind in ((result.ops, "ops"), (result.calls, "calls")):
        starts = table.starts.tolist()
        if len(threads) <= _FEW_THREADS:
            # A pass over all rows for each thread is faster than one that looks each row's up.
            codes = bytes(table.threads.tolist())
            for number, thread in threads.items():
                own, select = getattr(thread, kind), codes.translate(_is_equal_to(number))
                own.numbers, own.starts = list(compress(range(len(codes)), select)), list(compress(starts, select))
        else:
            for row, (number, start) in enumerate(zip(table.threads, starts, strict=True)):
                own = getattr(threads[number], kind)
                own.numbers.append(row)
                own.starts.append(start)
    return threads


def _is_equal_to(code: int) -> bytes:
    """Return a table for `bytes.translate`: 1 for a code, 0 for all others."""
    return bytes(code) + b"\1" + bytes(255 - code)


def _closes(ops: OpTable) -> list[int]:
    """Return from when on each op encloses nothing any more.

    An op that never ended encloses nothing for certain; one of no length what starts with it.
    """
    closes = list(map(add, ops.starts, ops.durations))
    if MISSING in ops.durations or 0 in ops.durations:
        for row, duration in enumerate(ops.durations):
            if duration == MISSING:
                closes[row] = MISSING
            elif duration == 0:
                closes[row] += 1
    return closes


def _nest_ops(rows: _Rows, closes: list[int], ops: OpTable) -> None:
    """Find for each op of a thread the one that was opened last and is still open."""
    parents = ops.parents
    under: list[int] = []
    top, top_closes = NO_ID, FOREVER
    own_closes = map(closes.__getitem__, rows.numbers)
    for row, start, row_closes in zip(rows.numbers, rows.starts, own_closes, strict=True):
        while top_closes <= start:
            top = under.pop()
            top_closes = FOREVER if top == NO_ID else closes[top]
        parents[row] = top
        if row_closes > start:
            if row_closes > top_closes:
                rows.intersect = True
            under.append(top)
            top, top_closes = row, row_closes


def _nest_calls(thread: _Thread, closes: list[int], result: Nest) -> None:
    """Find the innermost op around each call of a thread; an op opens before a call that starts with it."""
    op_parents, parents = result.ops.parents, result.calls.parents
    starts, numbers = thread.ops.starts, thread.ops.numbers
    for row, now_ns in zip(thread.calls.numbers, thread.calls.starts, strict=True):
        position = bisect_right(starts, now_ns)
        parent = numbers[position - 1] if position else NO_ID
        while parent != NO_ID and closes[parent] <= now_ns:
            parent = op_parents[parent]
        parents[row] = parent


def _place(thread: _Thread, result: Nest) -> None:
    """Give ops and calls the regions open on their own thread."""
    timeline = thread.timeline
    for index, numbers in thread.ops.between(timeline.moments):
        _assign(result.ops, numbers, timeline.regions[index])
        if timeline.own[index] is not None:
            result.own_ops.update(numbers)
    for index, numbers in thread.calls.between(timeline.moments):
        _assign(result.calls, numbers, timeline.regions[index])
        own = timeline.own[index]
        if own is not None:
            result.own_calls.update(dict.fromkeys(numbers, own))


def _assign(table: OpTable | CallTable, numbers: Sequence[int], regions: tuple[str, ...]) -> None:
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        table.regions[numbers[0] : numbers[-1] + 1] = [regions] * len(numbers)
        return
    for number in numbers:
        table.regions[number] = regions


# Backward: regions of the thread that called it


def _add_callers(result: Nest, threads: dict[int, _Thread]) -> None:
    """Give the launches of autograd threads the regions open where ``backward()`` was called."""
    ops = result.ops
    backward_names = {name for name in set(ops.names) if name.startswith(BACKWARD_NODE)}
    if not backward_names:
        return
    result.backward_threads = {
        thread for thread, name in zip(ops.threads, ops.names, strict=True) if name in backward_names
    }
    forward = {key: _Forward(thread.ops, ops, backward_names) for key, thread in threads.items()}
    for key in result.backward_threads:
        if forward[key].any():
            continue  # The thread that called backward() runs it itself.
        others = {
            other: thread.timeline
            for other, thread in threads.items()
            if other != key
            and thread.timeline.moments
            and (other not in result.backward_threads or forward[other].any())
        }
        _Callers(result, others, forward).run(threads[key])


class _Forward:
    """The forward ops of a thread: those outside the nodes of a backward graph."""

    def __init__(self, rows: _Rows, ops: OpTable, backward_names: set[str]) -> None:
        self._rows = rows
        self._ops = ops
        self._backward_names = backward_names
        self._starts: dict[int, int] | None = None

    def any(self) -> bool:
        """Return whether the thread ran any with a sequence number."""
        if not self._rows.intersect:
            outermost = {self._ops.names[row] for row in self._rows.numbers if self._ops.parents[row] == NO_ID}
            if outermost <= self._backward_names:
                return False  # Whatever else ran, ran inside nodes of a backward graph.
        return next(iter(self), None) is not None

    def start(self, number: int) -> int:
        """Return when the forward op with a sequence number began; `FOREVER` if there is none."""
        if self._starts is None:
            self._starts = {}
            for known, start in self:
                self._starts.setdefault(known, start)
        return self._starts.get(number, FOREVER)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield sequence number and start of each, by start."""
        ops = self._ops
        backward_until = -FOREVER
        for row, start in zip(self._rows.numbers, self._rows.starts, strict=True):
            if ops.names[row] in self._backward_names:
                backward_until = max(backward_until, start + max(ops.durations[row], 1))
            elif start >= backward_until and ops.sequence_numbers[row] >= 0:
                yield ops.sequence_numbers[row], start


class _Callers:
    """Finds the regions for one autograd thread."""

    def __init__(self, result: Nest, others: dict[int, _Timeline], forward: dict[int, _Forward]) -> None:
        self.result = result
        self.others = others
        self.forward = forward
        self.moments = sorted({moment for timeline in others.values() for moment in timeline.moments})
        self.last_numbers: set[int] = set()

    def run(self, thread: _Thread) -> None:
        """Add the caller's regions to those of every op and call of the thread."""
        if len(self.others) > 1:
            self._run_one_by_one(thread)
            return
        for rows in (thread.ops, thread.calls):
            for index, numbers in rows.between(self.moments):
                callers = _each_once(next(iter(self._candidates(self.moments[index]).values()), ()))
                if not thread.timeline.moments:
                    _assign(rows.table, numbers, callers)
                    continue
                for number in numbers:
                    _add_regions(rows.table, number, callers)

    def _run_one_by_one(self, thread: _Thread) -> None:
        """Do so where several threads may have called: only the nodes that ran last tell which."""
        for table, row in _by_start(thread.ops, thread.calls):
            now_ns = table.starts[row]
            self._learn_numbers(table, row)
            candidates = self._candidates(now_ns)
            callers = self._chosen(candidates, now_ns) if len(candidates) > 1 else next(iter(candidates.values()), ())
            if callers is None:
                table.untold_regions.add(row)
            else:
                _add_regions(table, row, _each_once(callers))

    def _candidates(self, now_ns: int) -> dict[int, tuple[str, ...]]:
        """Return the threads with open regions."""
        return {key: regions for key, timeline in self.others.items() if (regions := timeline.at(now_ns))}

    def _chosen(self, candidates: dict[int, tuple[str, ...]], now_ns: int) -> tuple[str, ...] | None:
        """Return the regions open on the thread that called ``backward()``; ``None`` if that is open.

        That is the only thread with an open region; of several, the one whose forward ops
        carry the sequence numbers of the backward ops.
        """
        fitting = [
            regions
            for key, regions in candidates.items()
            if any(self.forward[key].start(number) < now_ns for number in self.last_numbers)
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _learn_numbers(self, table: OpTable | CallTable, row: int) -> None:
        """Remember the sequence numbers of the backward nodes around an op or a call."""
        ops = self.result.ops
        around = ops.chain(table.parents[row], table.starts[row])
        numbers = {op.sequence_number for op in around if op.name.startswith(BACKWARD_NODE)}
        if table is ops and ops.names[row].startswith(BACKWARD_NODE):
            numbers.add(ops.sequence_numbers[row])
        # AccumulateGrad carries no number of its own; it follows the node that made its gradient.
        self.last_numbers = {known for known in numbers if known is not None and known >= 0} or self.last_numbers


def _add_regions(table: OpTable | CallTable, row: int, callers: tuple[str, ...]) -> None:
    own = table.regions[row]
    table.regions[row] = _each_once((*callers, *own)) if own else callers


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _by_start(ops: _Rows, calls: _Rows) -> Iterator[tuple[OpTable | CallTable, int]]:
    """Yield ops and calls of one thread in the order of time, an op before a call that starts with it."""
    keyed = (
        ((start, kind, number), rows.table)
        for kind, rows in enumerate((ops, calls))
        for start, number in zip(rows.starts, rows.numbers, strict=True)
    )
    for (_, _, number), table in sorted(keyed, key=lambda item: item[0]):
        yield table, number


# Threads without ops: linked through external ids


def _link(result: Nest, columns: Columns, op_external_ids: Sequence[int], call_external_ids: Sequence[int]) -> None:
    """Give calls on threads without ops the op named by ``External id``, if it encloses them in time."""
    calls = result.calls
    if set(calls.threads) <= result.op_threads:
        return
    blind = [row for row, thread in enumerate(calls.threads) if thread not in result.op_threads]
    wanted = _wanted_ids(columns, calls, blind, call_external_ids)
    named: dict[int, list[int]] = {}
    asked = set(wanted.values())
    for row, external_id in enumerate(op_external_ids):
        if external_id in asked:
            named.setdefault(external_id, []).append(row)
    for row, external_id in wanted.items():
        parent = next((op for op in named.get(external_id, ()) if _encloses(result.ops, op, calls.starts[row])), None)
        if parent is None:
            continue
        result.linked_calls.add(row)
        calls.parents[row] = parent
        calls.regions[row] = _each_once((*result.ops.regions[parent], *calls.regions[row]))
        if parent in result.ops.untold_regions:
            calls.untold_regions.add(row)


def _wanted_ids(columns: Columns, calls: CallTable, blind: list[int], external_ids: Sequence[int]) -> dict[int, int]:
    """Return the external id of each call that has one, itself or through its GPU event."""
    wanted = {row: external_ids[row] for row in blind if external_ids[row] != NO_ID}
    if len(wanted) < len(blind):
        of_events: dict[int, int] = {}
        gpu: tuple[Any, ...] = (columns.kernels, columns.memcpys, columns.memsets)
        for table in gpu:
            pairs = zip(table.correlation_ids, table.external_ids, strict=True)
            of_events.update(pair for pair in pairs if NO_ID not in pair)
        for row in blind:
            external_id = of_events.get(calls.correlation_ids[row], NO_ID)
            if row not in wanted and external_id != NO_ID:
                wanted[row] = external_id
    return wanted


def _encloses(ops: OpTable, row: int, now_ns: int) -> bool:
    return ops.starts[row] <= now_ns < ops.starts[row] + ops.durations[row]


def _end(span: Span) -> int:
    """Return the end of a range; one of no length still encloses what starts with it."""
    return span.end_ns if span.end_ns > span.start_ns else span.start_ns + 1
