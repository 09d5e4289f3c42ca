"""Who launched something, in words: the ops around the launch, a backward pass, a compiled region, a graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from .events import BACKWARD_NODE, Event, GpuEvent, Kernel, Op

_HASH = re.compile(r"## Call CompiledFxGraph (\w{7})\w* ##")
_GRAPH_LAUNCH = "GraphLaunch"


class Origin(NamedTuple):
    """Where an event comes from.

    Attributes:
        links: The ops around its launch, outermost first, or what stands for them.
        endings: What else is known, such as the forward op of a backward pass: in full, and in short.
    """

    links: tuple[str, ...]
    endings: tuple[str, ...] = ()


def origin(event: Event) -> Origin:
    """Return who launched an event, or called an op, as a table tells it."""
    links = _told(event.chain)
    if isinstance(event, GpuEvent):
        launch = event.launch
        if launch is None:
            return Origin(("(launch not recorded)",))
        if graph_launch(event):
            return Origin((*links, launch.name))
        if isinstance(event, Kernel) and links[-1:] == (event.name,) and event.decoded.fused_ops:
            # Of a compiled kernel the innermost "op" is the kernel again; what it fuses says more.
            ops = event.decoded.fused_ops
            return Origin(links[:-1] or ("(no op)",), (f", fuses {', '.join(ops)}", f", fuses {len(ops)} ops"))
    forward = _told(event.forward_chain)
    endings = (f", backward of {' > '.join(forward)}", f", backward of {forward[-1]}") if forward else ()
    return Origin(links or ("(outermost)" if isinstance(event, Op) else "(no op)",), endings)


def graph_launch(event: Event) -> str | None:
    """Return the call that launched the graph of an event: then the trace does not tell its ops."""
    launch = event.launch if isinstance(event, GpuEvent) else None
    return launch.name if launch is not None and _GRAPH_LAUNCH in launch.name else None


def notes(events: Sequence[Event]) -> list[str]:
    """Return what holds of all events of a table, in a line each, or has to be said of some."""
    found = []
    around = {event.regions for event in events}
    if len(around) == 1 and around != {()} and all(event.regions_known for event in events):
        inside = " > ".join(around.pop())
        found.append(f"all in region {inside}" if len(events) > 1 else f"in region {inside}")
    launches = {name for event in events if (name := graph_launch(event))}
    if launches:
        found.append(f"a graph hides its ops; launched by {', '.join(sorted(launches))}")
    return found


def _told(chain: Sequence[Op]) -> tuple[str, ...]:
    """Return the names of a chain, without what says nothing to a reader.

    Autograd's ``evaluate_function: MmBackward0`` only repeats the node inside it.
    """
    names = [op.name for op in chain]
    kept = [name for name, inner in zip_longest(names, names[1:]) if name != f"{BACKWARD_NODE}: {inner}"]
    return tuple(_HASH.sub(r"CompiledFxGraph \1", name).removeprefix("autograd::engine::") for name in kept)


def thread(event: Event) -> str:
    """Return the thread that launched an event or called an op."""
    found = event.thread
    return "unknown" if found is None else str(found[1])
