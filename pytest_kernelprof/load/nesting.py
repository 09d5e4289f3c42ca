"""What stood open around an op or a call: the op chain and the regions.

Ranges may intersect instead of nest (hooks that open and close in the wrong order do that), so
what is open is a list from which anything may leave, not a stack.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

from ..events import Call, Op, Thread
from .own import ANNOTATION_PREFIX
from .reading import integer
from .sorting import FOREVER, Sorted, Span

BACKWARD_NODE = "autograd::engine::evaluate_function"
"""How the names of the ops begin in which autograd runs one node of the backward graph."""

_ANNOTATION, _OP, _CALL = range(3)


@dataclass(slots=True)
class Nest:
    """Ops and calls with their place.

    Attributes:
        ops: Operators, by start, the plugin's own left out.
        calls: Calls with the name of the plugin's own annotation around each, if any.
        op_threads: Threads on which any op was recorded.
        linked_calls: Calls whose chain comes from another thread, through ``External id``.
        links_needed: Whether any call may have to be linked so: its thread has no ops.
    """

    ops: list[Op] = field(default_factory=list)
    calls: list[tuple[Call, str | None]] = field(default_factory=list)
    op_threads: set[Thread] = field(default_factory=set)
    linked_calls: set[Call] = field(default_factory=set)
    links_needed: bool = False


@dataclass(slots=True)
class _Thread:
    """The rows of one thread, and what the autograd rule has to know of them."""

    annotations: list[Span] = field(default_factory=list)
    ops: list[Span] = field(default_factory=list)
    calls: list[Span] = field(default_factory=list)
    forward_starts: dict[int, int] = field(default_factory=dict)
    has_backward: bool = False
    boundaries_ns: list[int] = field(default_factory=list)
    open_from: list[tuple[str, ...]] = field(default_factory=list)

    def regions_at(self, now_ns: int) -> tuple[str, ...]:
        """Return the regions open at a time, outermost first."""
        position = bisect_right(self.boundaries_ns, now_ns)
        return self.open_from[position - 1] if position else ()


def nest(rows: Sorted, external_ids: dict[int, int]) -> Nest:
    """Place every op and call of *rows*.

    Args:
        rows: The sorted rows.
        external_ids: For launches without one: correlation id to the GPU event's ``External id``.
    """
    threads: dict[Thread, _Thread] = defaultdict(_Thread)
    for kind in ("annotations", "ops", "calls"):
        for span in getattr(rows, kind):
            getattr(threads[span.thread], kind).append(span)
    for thread in threads.values():
        _learn_autograd(thread)
        _learn_regions(thread)
    result = Nest(
        op_threads={key for key, thread in threads.items() if thread.ops},
        links_needed=any(thread.calls and not thread.ops for thread in threads.values()),
    )
    by_external_id: dict[int, list[Op]] = defaultdict(list)
    # Threads with ops first: launches on the others may refer to them.
    for key in sorted(threads, key=lambda key: not threads[key].ops):
        _Sweep(key, threads, external_ids, by_external_id, result).run()
    result.ops.sort(key=lambda op: op.start_ns)
    result.calls.sort(key=lambda item: item[0].start_ns)
    return result


def _learn_autograd(thread: _Thread) -> None:
    thread.ops.sort(key=lambda op: (op.start_ns, -(op.end_ns or 0)))
    backward_until = -FOREVER
    for op in thread.ops:
        if op.name.startswith(BACKWARD_NODE):
            thread.has_backward = True
            backward_until = max(backward_until, op.end_ns or op.start_ns)
        elif op.start_ns >= backward_until:
            number = integer(op.args.sequence_number)
            if number is not None and number >= 0:
                thread.forward_starts.setdefault(number, op.start_ns)


def _learn_regions(thread: _Thread) -> None:
    """Note which regions are open from each moment on at which that changes."""
    thread.annotations.sort(key=lambda span: (span.start_ns, -_end(span)))
    regions = [s for s in thread.annotations if s.end_ns is not None and not s.name.startswith(ANNOTATION_PREFIX)]
    thread.boundaries_ns = sorted({moment for span in regions for moment in (span.start_ns, _end(span))})
    open_now: list[Span] = []
    position = 0
    for moment in thread.boundaries_ns:
        open_now = [span for span in open_now if _end(span) > moment]
        while position < len(regions) and regions[position].start_ns <= moment:
            open_now.append(regions[position])
            position += 1
        thread.open_from.append(tuple(span.name for span in open_now))


class _Sweep:
    """One pass over one thread in the order of time.

    What is open is kept as tuples that change only when something opens or closes: most ops of a
    thread share theirs.
    """

    def __init__(
        self,
        key: Thread,
        threads: dict[Thread, _Thread],
        external_ids: dict[int, int],
        by_external_id: dict[int, list[Op]],
        result: Nest,
    ) -> None:
        self.key = key
        self.thread = threads[key]
        self.others = {other: rows for other, rows in threads.items() if other != key}
        self.external_ids = external_ids
        self.by_external_id = by_external_id
        self.result = result
        self.chain: tuple[Op, ...] = ()
        self.chain_ends: list[int] = []
        self.regions: tuple[str, ...] = ()
        self.region_ends: list[int] = []
        self.own: str | None = None
        self.next_end = FOREVER
        self.last_numbers: set[int] = set()

    def run(self) -> None:
        """Place every op and call of the thread."""
        for start_ns, kind, _, _, span in sorted(self._items()):
            if start_ns >= self.next_end:
                self._close_until(start_ns)
            if kind == _ANNOTATION:
                self._open_region(span)
            elif kind == _OP:
                self._add_op(span)
            else:
                self._add_call(span)

    def _items(self) -> list[tuple[int, int, int, int, Span]]:
        """Return annotations, ops and calls as they sort: by start, outer before inner."""
        kinds = ((_ANNOTATION, self.thread.annotations), (_OP, self.thread.ops), (_CALL, self.thread.calls))
        return [
            (span.start_ns, kind, -(span.end_ns or span.start_ns), position, span)
            for kind, spans in kinds
            for position, span in enumerate(spans)
        ]

    def _close_until(self, now_ns: int) -> None:
        if self.chain_ends and min(self.chain_ends) <= now_ns:
            kept = [place for place, end_ns in enumerate(self.chain_ends) if end_ns > now_ns]
            self.chain = tuple(self.chain[place] for place in kept)
            self.chain_ends = [self.chain_ends[place] for place in kept]
        if self.region_ends and min(self.region_ends) <= now_ns:
            kept = [place for place, end_ns in enumerate(self.region_ends) if end_ns > now_ns]
            self.regions = tuple(self.regions[place] for place in kept)
            self.region_ends = [self.region_ends[place] for place in kept]
            self._learn_own()
        self.next_end = min((*self.chain_ends, *self.region_ends), default=FOREVER)

    def _open_region(self, span: Span) -> None:
        if span.end_ns is None:
            return  # What it encloses is unknown; a selection by its name says so.
        self.regions = (*self.regions, span.name)
        self.region_ends.append(_end(span))
        self.next_end = min(self.next_end, _end(span))
        self._learn_own()

    def _learn_own(self) -> None:
        self.own = next((name for name in self.regions if name.startswith(ANNOTATION_PREFIX)), None)

    def _add_op(self, span: Span) -> None:
        number = integer(span.args.sequence_number)
        regions, known = self._regions_of(span, number)
        op = Op(
            name=span.name,
            start_ns=span.start_ns,
            duration_ns=span.duration_ns,
            thread=self.key,
            chain=self.chain,
            regions=regions,
            regions_known=known,
            sequence_number=number,
        )
        if self.result.links_needed and (external_id := integer(span.args.external_id)) is not None:
            self.by_external_id[external_id].append(op)
        if self.own is None:
            self.result.ops.append(op)
        # An op that never ended encloses nothing for certain.
        if span.end_ns is not None:
            end_ns = _end(span)
            self.chain = (*self.chain, op)
            self.chain_ends.append(end_ns)
            if end_ns < self.next_end:
                self.next_end = end_ns

    def _add_call(self, span: Span) -> None:
        correlation_id = integer(span.args.correlation)
        chain = self.chain
        regions, known = self._regions_of(span, None)
        linked = None if self.thread.ops else self._linked_op(span, correlation_id)
        if linked:
            chain = (*linked.chain, linked)
            regions = tuple(dict.fromkeys((*linked.regions, *regions)))
            known = linked.regions_known and known
        call = Call(
            name=span.name,
            start_ns=span.start_ns,
            duration_ns=span.duration_ns,
            thread=self.key,
            correlation_id=correlation_id,
            chain=chain,
            regions=regions,
            regions_known=known,
        )
        if linked:
            self.result.linked_calls.add(call)
        self.result.calls.append((call, self.own))

    def _linked_op(self, span: Span, correlation_id: int | None) -> Op | None:
        """Return the op named by ``External id``, if it encloses the call in time."""
        external_id = integer(span.args.external_id)
        if external_id is None:
            external_id = self.external_ids.get(correlation_id if correlation_id is not None else -1)
        for op in self.by_external_id.get(external_id if external_id is not None else -1, ()):
            if op.duration_ns is not None and op.start_ns <= span.start_ns < op.start_ns + op.duration_ns:
                return op
        return None

    def _regions_of(self, span: Span, number: int | None) -> tuple[tuple[str, ...], bool]:
        """Return the regions around *span*, and whether the trace tells them all."""
        if not self.thread.has_backward:
            return self.regions, True
        numbers = {op.sequence_number for op in self.chain if op.name.startswith(BACKWARD_NODE)}
        if span.name.startswith(BACKWARD_NODE):
            numbers.add(number)
        # AccumulateGrad carries no number of its own; it follows the node that made its gradient.
        self.last_numbers = {known for known in numbers if known is not None} or self.last_numbers
        if self.thread.forward_starts:
            return self.regions, True  # The thread that called backward() runs it itself.
        callers, known = self._caller_regions(span.start_ns, self.last_numbers)
        return tuple(dict.fromkeys((*callers, *self.regions))), known

    def _caller_regions(self, now_ns: int, numbers: set[int]) -> tuple[tuple[str, ...], bool]:
        """Return the regions open on the thread that called ``backward()``.

        That is the only thread with an open region; of several, the one whose forward ops
        carry the sequence numbers of the backward ops.
        """
        candidates = {
            key: regions
            for key, rows in self.others.items()
            if (regions := rows.regions_at(now_ns)) and (rows.forward_starts or not rows.has_backward)
        }
        if len(candidates) > 1:
            candidates = {
                key: regions
                for key, regions in candidates.items()
                if any(self.others[key].forward_starts.get(number, FOREVER) < now_ns for number in numbers)
            }
            if len(candidates) != 1:
                return (), False
        return next(iter(candidates.values()), ()), True


def _end(span: Span) -> int:
    """Return the end of a range; one of no length still encloses what starts with it."""
    if span.end_ns is None:
        return FOREVER
    return span.end_ns if span.end_ns > span.start_ns else span.start_ns + 1
