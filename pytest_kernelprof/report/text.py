"""Verdicts, profiles and traces as ASCII text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import NotMeasured
from ..events import Call, Event, GpuEvent, Kernel, Memcpy, Memset, Op, slowest_first
from ..explain import notes, origin, thread
from ..matrix import MatrixTime, matrix_time_of
from ..model import CLASSES, GPU_CLASSES, Step
from ..names import ascii_only, brief, demangled, shorten
from ..sites import Place, Site, shown_path
from ..units import counted, format_bytes, format_ns, format_share, plural
from .layout import Chain, Choice, Look, Short, fits, has_room, listed, plain_table, shown_of, table
from .words import NOT_MEASURED

if TYPE_CHECKING:
    from ..checks import ChangeLine, Changes, GuessRow, Verdict
    from ..hints import Hint
    from ..memory import Allocated

T = TypeVar("T")

_DECODED_WIDTH = 44
_MOST_DIFFERENCES = 3
_MOST_LINES = 3
_MOST_CALLS = 2
_MOST_HINTS = 3


def verdict_text(verdict: Verdict, look: Look) -> str:
    """Return headline and tables of a verdict.

    Args:
        verdict: A failure, or one that was not measured.
        look: How much is shown.
    """
    parts = [verdict.headline, *_told_without_events(verdict, look)]
    if verdict.view == "order" and verdict.evidence:
        parts.append(_order_table(verdict.evidence, verdict.first, look))
    elif verdict.evidence and verdict.view in _VIEWS:
        parts.append(_with_notes(_VIEWS[verdict.view](verdict.evidence, look), verdict.evidence, look))
    else:
        by_class: dict[type, list[Event]] = {}
        for event in verdict.evidence:
            by_class.setdefault(type(event), []).append(event)
        parts += [event_table(events, look) for events in by_class.values()]
    shown = verdict.changes if look.every_row else verdict.changes[:_MOST_DIFFERENCES]
    parts += [change_text(changes, look) for changes in shown]
    if len(verdict.changes) > len(shown):
        others = sum(len(changes.steps) for changes in verdict.changes[len(shown) :])
        parts.append(f"... and {counted(others, 'step')} that differ otherwise (-v shows all)")
    lines = site_lines(_as_shown(verdict), look)
    if lines:
        parts.append("\n".join(lines))
    if verdict.remark:
        parts.append(verdict.remark)
    return "\n\n".join(parts)


def _told_without_events(verdict: Verdict, look: Look) -> Iterator[str]:
    """Yield what a verdict tells beside its events."""
    if verdict.ledger:
        from .changes import changes_text

        yield changes_text(verdict.ledger, look)
    if verdict.rows:
        yield guess_table(verdict.rows, look)
    if verdict.table:
        yield plain_table(*verdict.table, look.width)
    if verdict.allocated:
        yield _allocated_table(verdict.allocated, look)


def hints_text(hints: Sequence[Hint], look: Look) -> str:
    """Return hints, one after the other, the first ones only unless every row is shown."""
    return listed(hints, "hint", str, look, most=_MOST_HINTS)


def event_table(events: Sequence[Event], look: Look) -> str:
    """Return events as a table, worst first, the rest counted."""
    lines, extra = _line_column(events, look), _extra_columns(events)
    while True:
        columns = [*lines, *extra]
        headers = (*_HEADERS[type(events[0])], *(header for header, _ in columns))
        rows, tell = _rows(events, [told for _, told in columns], look)
        cells = [tell(row) for row in shown_of(rows, look)]
        if extra and not fits(headers, cells, look):
            extra.pop()  # Where room is scarce, the ops matter most.
        elif lines and not has_room(headers, cells, look) and len({look.places.get(event) for event in events}) == 1:
            lines = []  # The one line stands under the table as well.
        else:
            return _with_notes(table(headers, rows, tell, look), events, look)


def _table_with_lines(
    headers: tuple[str, ...],
    items: Sequence[T],
    tell: Callable[[T], list[str]],
    event_of: Callable[[T], Event],
    look: Look,
) -> str:
    """Return a table with the lines of Python of its events, as long as there is room for them."""
    lines = _line_column([event_of(item) for item in items], look)
    longer = (*headers, *(header for header, _ in lines))

    def tell_more(item: T) -> list[str]:
        return [*tell(item), *(told(event_of(item)) for _, told in lines)]

    if lines and has_room(longer, [tell_more(item) for item in shown_of(items, look)], look):
        return table(longer, items, tell_more, look)
    return table(headers, items, tell, look)


def _with_notes(text: str, events: Sequence[Event], look: Look) -> str:
    told = (ascii_only(note) for note in notes(events))
    return "\n".join([text, *(note if look.width is None else shorten(note, look.width) for note in told)])


def _rows(
    events: Sequence[Event], extra: Sequence[Callable[[Event], str]], look: Look
) -> tuple[Sequence[Any], Callable[[Any], list[str]]]:
    """Return what each row is about, worst first, and what tells its cells; calls of one op in one place are a row."""
    if not isinstance(events[0], Op):
        return slowest_first(events), lambda event: [*_row(event, look), *(told(event) for told in extra)]
    grouped = Counter((event.name, _launched_by(event), *(told(event) for told in extra)) for event in events)
    return list(grouped), lambda key: [str(grouped[key]), Short(ascii_only(key[0])), *key[1:]]


Column = tuple[str, Callable[[Event], str]]
"""A header, and what tells an event's cell."""


def _line_column(events: Sequence[Event], look: Look) -> list[Column]:
    """Return the column with lines of Python, if any is known."""
    if not any(event in look.places for event in events):
        return []
    return [("at", lambda event: _line(look.places.get(event)))]


def _line(place: Place | None) -> str:
    """Return a line of Python as a cell: with its function, or alone where there is no room."""
    if place is None:
        return Choice(("unknown",))
    site = place.site
    short = ascii_only(f"{Path(site.file).name}:{site.line}")
    return Choice((ascii_only(f"{short} {'in' if site.exact else 'def'} {site.function}"), short))


def _as_shown(verdict: Verdict) -> Sequence[Event]:
    """Return the events of a verdict in the order in which its tables show them."""
    return verdict.events if verdict.view in ("order", "occupancy") else slowest_first(verdict.events)


def site_lines(events: Sequence[Event], look: Look) -> list[str]:
    """Return what is known of the lines of Python of some events: the source, the module, the inputs.

    Args:
        events: The events, in the order in which they are shown.
        look: How much is shown, and where events come from.
    """
    by_line: dict[Place, dict[str, None]] = {}
    for event in events:
        place = look.places.get(event)
        if place is not None:
            begun = place.backward and place.backward.line_only()
            by_line.setdefault(Place(place.site.line_only(), begun), {})[_call(place.site)] = None
    lines = list(by_line.items())
    shown = lines if look.every_row else lines[:_MOST_LINES]
    told = [line for place, calls in shown for line in _told_line(place, [call for call in calls if call], look)]
    if len(lines) > len(shown):
        told.append(f"... and {counted(len(lines) - len(shown), 'other line')} (-v shows all)")
    return [ascii_only(line) if look.width is None else shorten(ascii_only(line), look.width) for line in told]


def _call(site: Site) -> str:
    """Return what a line called: in which module, with which inputs."""
    module = [f"in {site.module}"] if site.module else []
    return ", ".join([*module, *([f"given {', '.join(site.inputs)}"] if site.inputs else [])])


def _told_line(place: Place, calls: Sequence[str], look: Look) -> Iterator[str]:
    site = place.site
    where = f"{shown_path(site.file)}:{site.line}"
    if site.exact:
        told = f"{where} in {site.function}"
        together = f"{told}: {site.source}"
        if not site.source or (look.width is not None and len(together) > look.width):
            yield told
            yield from [f"  {site.source}"] if site.source else []
        else:
            yield together
    else:
        yield f"{where} def {site.function} (of compiled code and bare launches the function is known, no line)"
    shown = calls if look.every_row else calls[:_MOST_CALLS]
    for call in shown:
        yield f"  {call}"
    if len(calls) > len(shown):
        yield f"  ... and {counted(len(calls) - len(shown), 'other call')} (-v shows all)"
    if place.backward is not None:
        begun = place.backward
        yield f"  its backward pass began at {shown_path(begun.file)}:{begun.line} in {begun.function}"


def _extra_columns(events: Sequence[Event]) -> list[Column]:
    """Return columns that a table needs only if its events differ in them."""
    columns: list[Column] = [
        ("stream", lambda event: _known(event.stream) if isinstance(event, GpuEvent) else ""),
        ("region", _regions),
        ("thread", thread),
    ]
    return [(header, told) for header, told in columns if _differ(events, told)]


def _differ(events: Sequence[Event], told: Callable[[Event], str]) -> bool:
    first = told(events[0])
    return any(told(event) != first for event in events)


def _regions(event: Event) -> str:
    return _chain(event.regions) if event.regions_known else "unknown"


def _decoded_table(kernels: Sequence[Kernel], look: Look) -> str:
    """Return kernels as a table with what their names say, slowest first."""

    def tell(kernel: Kernel) -> list[str]:
        name = kernel.decoded
        told = [name.role, ", ".join(name.dtypes) or "unknown", name.tensor_cores]
        return [_kernel(kernel, look), *told, _time(kernel), _launched_by(kernel)]

    headers = ("kernel", "role", "dtypes", "tensor cores", "time", "launched by")
    return _table_with_lines(headers, slowest_first(kernels), tell, lambda kernel: kernel, look)


def _order_table(kernels: Sequence[Event], first: int, look: Look) -> str:
    """Return kernels in the order of their launches, numbered from *first* on."""

    def tell(numbered: tuple[int, Event]) -> list[str]:
        place, kernel = numbered
        return [str(place), _event(kernel, look), _launched_by(kernel)]

    numbered = list(enumerate(kernels, first + 1))
    return _table_with_lines(("#", "kernel", "launched by"), numbered, tell, lambda one: one[1], look)


def _occupancy_table(kernels: Sequence[Kernel], look: Look) -> str:
    """Return kernels as a table with their theoretical occupancy, the lowest first, and what limits it."""

    def fraction(kernel: Kernel) -> float:
        return 2 if kernel.occupancy is None else kernel.occupancy.fraction

    headers = ("kernel", "threads", "registers", "shared memory", "occupancy", "limited by", "reported", "launched by")
    ordered = sorted(kernels, key=fraction)
    return _table_with_lines(headers, ordered, lambda one: _occupancy_row(one, look), lambda kernel: kernel, look)


def _occupancy_row(kernel: Kernel, look: Look) -> list[str]:
    occupancy, reported = kernel.occupancy, kernel.reported_occupancy
    return [
        _kernel(kernel, look),
        _known(math.prod(kernel.block) if kernel.block else None),
        _known(kernel.registers_per_thread),
        _size(kernel.shared_memory_bytes),
        "unknown" if occupancy is None else format_share(occupancy.fraction),
        "unknown" if occupancy is None else ", ".join(occupancy.limited_by),
        "none" if reported is None else format_share(reported),
        _launched_by(kernel),
    ]


def _allocated_table(allocated: Sequence[Allocated], look: Look) -> str:
    """Return who was given GPU memory, as a table."""
    lines = ["at"] if any(one.site for one in allocated) else []

    def tell(one: Allocated) -> list[str]:
        told = [format_bytes(one.size_bytes), str(one.blocks), str(one.device), _chain(one.chain or ("(no op)",))]
        return [*told, *(_line(one.site and Place(one.site)) for _ in lines)]

    return table(("bytes", "blocks", "GPU", "allocated by", *lines), allocated, tell, look)


def guess_table(rows: Sequence[GuessRow], look: Look) -> str:
    """Return a guess beside what was seen, line by line."""
    cells = []
    for row in rows:
        numbers = Counter(shorten(brief(event.name), _DECODED_WIDTH) for event in row.seen)
        kernels = ", ".join(f"{number} x {name}" if number > 1 else name for name, number in numbers.items())
        guessed = "-" if row.limit is None else row.limit.words()
        cells.append([row.role, guessed, str(len(row.seen)), "wrong" if row.wrong else "", _Line(kernels)])
    return plain_table(("role", "guess", "seen", "", "which"), cells, look.width)


_VIEWS: dict[str, Callable[[Any, Look], str]] = {"names": _decoded_table, "occupancy": _occupancy_table}
"""How evidence is shown where plain events do not say enough; see `Verdict`."""

_HEADERS: dict[type, tuple[str, ...]] = {
    Op: ("calls", "op", "inside"),
    Kernel: ("kernel", "time", "launched by"),
    Memcpy: ("kind", "bytes", "time", "launched by"),
    Memset: ("bytes", "time", "launched by"),
    Call: ("call", "took", "made by"),
}


class _Line(Short):
    """A list in the last column: as long as there is room."""

    __slots__ = ()

    most = 200


def _row(event: Event, look: Look) -> list[str]:
    if isinstance(event, Kernel):
        return [_kernel(event, look), _time(event), _launched_by(event)]
    if isinstance(event, Memcpy):
        kind = event.kind or shorten(event.name, 24)
        pageable = " pageable" if event.pageable else ""
        return [kind + pageable, _size(event.size_bytes), _time(event), _launched_by(event)]
    if isinstance(event, Memset):
        return [_size(event.size_bytes), _time(event), _launched_by(event)]
    return [_name(event), _time(event), _launched_by(event)]


def _name(event: Event) -> Short:
    return Short(ascii_only(demangled(event.name)))


def _kernel(kernel: Kernel, look: Look) -> Short:
    return _name(kernel) if look.width is None else Short(ascii_only(brief(kernel.name)))


def _event(event: Event, look: Look) -> Short:
    return _kernel(event, look) if isinstance(event, Kernel) else _name(event)


def _time(event: Event) -> str:
    return "unknown" if event.duration_ns is None else format_ns(event.duration_ns)


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else format_bytes(size_bytes)


def _known(value: object) -> str:
    return "unknown" if value is None else str(value)


def _launched_by(event: Event) -> Chain:
    found = origin(event)
    return _chain(found.links, found.endings)


def _chain(links: Sequence[str], endings: Sequence[str] = ()) -> Chain:
    return Chain([ascii_only(link) for link in links], [ascii_only(ending) for ending in endings])


def change_text(changes: Changes, look: Look) -> str:
    """Return what came and went from the first step to others, aligned as in a diff."""
    others = ", ".join(changes.steps[:3]) + (f" and {len(changes.steps) - 3} more" if len(changes.steps) > 3 else "")

    lines = _line_column([line.event for line in changes.lines if line.event is not None and line.sign], look)

    def tell(line: ChangeLine) -> list[str]:
        if line.event is None:
            return [line.sign, "...", "", *("" for _ in lines)]
        # Of a neighbour the name alone is known to be alike in both steps.
        told = (
            [_launched_by(line.event), *(at(line.event) for _, at in lines)]
            if line.sign
            else ["" for _ in range(1 + len(lines))]
        )
        return [line.sign, _event(line.event, look), *told]

    kind = next(type(line.event) for line in changes.lines if line.event is not None)
    heading = ascii_only(f"{plural(changes.noun)} of {others} (+) against {changes.first} (-):")
    heading = heading if look.width is None else shorten(heading, look.width)
    headers = ("", "name", _HEADERS[kind][-1], *(header for header, _ in lines))
    return f"{heading}\n{table(headers, changes.lines, tell, look)}"


def number(events: Any) -> str:
    """Return the size of a set of events, or that it was not measured."""
    return NOT_MEASURED if events.why_not_measured else str(len(events.seen))


def step_rows(steps: Sequence[Step]) -> list[list[str]]:
    """Return one row a step: name, counts and GPU time."""
    return [
        [
            step.name,
            number(step.kernels),
            number(step.memcpys),
            number(step.memsets),
            number(step.launches),
            number(step.host_syncs),
            number(step.ops),
            gpu_time(step),
        ]
        for step in steps
    ]


STEP_HEADERS = ("step", "kernels", "copies", "memsets", "launches", "syncs", "ops", "GPU time")


def gpu_time(step: Step) -> str:
    """Return the step's GPU time, or that it was not measured."""
    try:
        return format_ns(step.gpu_time_ns)
    except NotMeasured:
        return NOT_MEASURED


def profile_table(steps: Sequence[Step], look: Look) -> str:
    """Return steps as a table, under it the GPU events of the first step, or its ops where it has none.

    What no step measured has no column; its reason stands at the end.
    """
    parts = [plain_table(*_measured_columns(STEP_HEADERS, step_rows(steps)), look.width)]
    first = steps[0]
    shown = [events for name in GPU_CLASSES if (events := getattr(first, name).seen)]
    parts += [event_table(events, look) for events in shown or [first.ops.seen] if events]
    matrix = matrix_time_of(steps)
    if matrix is not None:
        parts.append(f"tensor cores: {tensor_core_words(matrix, len(steps))}")
    whys = unmeasured(steps)
    if whys:
        parts.append("\n".join(whys))
    return "\n\n".join(parts)


def _measured_columns(
    headers: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return headers and rows without the columns that say *not measured* in every row."""
    kept = [column for column in range(len(headers)) if any(row[column] != NOT_MEASURED for row in rows)]
    return [headers[column] for column in kept], [[row[column] for column in kept] for row in rows]


def unmeasured(steps: Sequence[Step]) -> list[str]:
    """Return which classes of events were not measured in steps, and why, each reason once."""
    names: dict[str, dict[str, None]] = {}
    for step in steps:
        for name in CLASSES:
            if why := getattr(step, name).why_not_measured:
                names.setdefault(why, {})[name] = None
    return [f"{', '.join(those)} not measured: {why}" for why, those in names.items()]


def tensor_core_words(time: MatrixTime, steps: int) -> str:
    """Return how much of the time of matrix kernels was on tensor cores, as a sentence's end."""
    words = time.words()
    if words == "none":
        return "no matrix kernel (gemm, convolution, attention)"
    if words == "unknown":
        return "unknown, since a kernel's name does not tell"
    number = counted(time.kernels, "matrix kernel")
    return f"{words} of matrix time ({number})" if steps == 1 else f"{words} of matrix time ({number} in {steps} steps)"
