"""Which line of Python an event comes from, told by one more call whose events equal the measured ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .events import BACKWARD_NODE, Call, Event, GpuEvent, Op, Thread
from .model import Step
from .sites import Place, PythonCall, PythonCalls, Site

_CLASSES = ("kernels", "memcpys", "memsets", "host_syncs", "launches", "ops")
_NO_CALLS = PythonCalls(())
_COMPILED = ("Torch-Compiled Region", "## Call CompiledFxGraph")


class Seen(NamedTuple):
    """What one more call told.

    Attributes:
        step: Its events.
        site_of_region: The site that a region stands for; ``None`` for a region of the user's.
        backward_calls: When backward passes ran, and where they were begun.
        python_calls: Functions by thread, that began within the step.
        caller: The line that profiles, if what runs is torch's own and compiled.
    """

    step: Step
    site_of_region: Callable[[str], Site | None]
    backward_calls: Sequence[PythonCall] = ()
    python_calls: Mapping[Thread, PythonCalls] = {}
    caller: Site | None = None

    @classmethod
    def of(
        cls,
        step: Step,
        site_of_region: Callable[[str], Site | None],
        python_calls: Mapping[Thread, PythonCalls],
        caller: Site | None = None,
    ) -> Seen:
        """Return what a call told, from its step, the sites of its regions, and the functions that ran."""
        sites = ((one, site_of_region(one.name)) for one in step.ranges)
        begun = [
            PythonCall(one.start_ns, one.end_ns, site) for one, site in sites if site and site.begins_a_backward_pass
        ]
        return cls(step, site_of_region, begun, python_calls, caller)


class Explanation(NamedTuple):
    """Where the events of a profile come from, as far as one more call could tell.

    Attributes:
        places: By event; ``None`` for one that is the same there, but was called past the functions of torch.
        why_not: One word that says why there are none.
        calls: How often the function was called again to find out.
    """

    places: Mapping[Event, Place | None] = {}
    why_not: str = ""
    calls: int = 0

    def of(self, events: Sequence[Event]) -> Explanation:
        """Return it narrowed to some events: where none of them has a place, a word says why."""
        compared = [event for event in events if event in self.places]
        places = {event: self.places[event] for event in compared if self.places[event] is not None}
        why_not = "" if places else self.why_not or ("bypassed" if compared else "differs")
        return Explanation(places, why_not, self.calls)


def explained(steps: Sequence[Step], seen: Seen, calls: int = 1) -> Explanation:
    """Return the places of the events of those steps whose events are the same, in name and order.

    Where a GPU was watched, the kernels decide: a call that runs others is another call. The other
    classes are compared one by one.
    """
    places: dict[Event, Place | None] = {}
    told: dict[str, list[Place | None]] = {}
    for step in steps:
        if not _alike(step, seen.step, "kernels"):
            continue
        for name in _CLASSES:
            if not _alike(step, seen.step, name):
                continue
            if name not in told:
                told[name] = [_place(event, seen) for event in _events(seen.step, name)]
            places.update(zip(_events(step, name), told[name], strict=True))
    return Explanation(places, "" if places else "differs", calls)


def _events(step: Step, name: str) -> Sequence[Event]:
    events = step.launches.all_calls if name == "launches" else getattr(step, name)
    found: Sequence[Event] = events.seen
    return found


def _alike(step: Step, other: Step, name: str) -> bool:
    names = [[event.name for event in _events(one, name)] for one in (step, other)]
    return names[0] == names[1]


def _place(event: Event, seen: Seen) -> Place | None:
    """Return where an event of the call that told comes from."""
    own = _site(event, seen)
    if own is not None and not own.begins_a_backward_pass:
        return Place(own)
    forward = event.forward_chain
    site = _site(forward[-1], seen) if forward else None
    if site is not None:
        return Place(site, own or _backward_call(event, seen))
    if own is None and _in_backward(event):
        own = _backward_call(event, seen)
    return Place(own) if own is not None else None


def _site(event: Event, seen: Seen) -> Site | None:
    for region in reversed(event.regions):
        site = seen.site_of_region(region)
        if site is not None:
            return site
    return _python_site(event, seen)


def _python_site(event: Event, seen: Seen) -> Site | None:
    """Return the innermost function of the user's around a launch or an op, from the Python rows."""
    cause = _on_cpu(event)
    if cause is None:
        return None
    calls = seen.python_calls.get(cause.thread, _NO_CALLS)
    if isinstance(event, Op) and event.name.startswith(_COMPILED[0]):
        # The region opens right before the function that was compiled.
        inside = calls.first_in(event.start_ns, event.start_ns + (event.duration_ns or 0))
        if inside is not None:
            return inside
    site = calls.at(cause.start_ns)
    if site is None and any(one.thread == cause.thread for one in seen.step.timed):
        return seen.caller
    return site


def _on_cpu(event: Event) -> Op | Call | None:
    return event.launch if isinstance(event, GpuEvent) else event


def _in_backward(event: Event) -> bool:
    chain = (*event.chain, event) if isinstance(event, Op) else event.chain
    return any(op.name.startswith(BACKWARD_NODE) for op in chain)


def _backward_call(event: Event, seen: Seen) -> Site | None:
    """Return the call that began the backward pass of an event on another thread: the one that then ran."""
    cause = _on_cpu(event)
    if cause is None:
        return None
    begun = (call for call in seen.backward_calls if call.start_ns <= cause.start_ns < call.end_ns)
    return next((call.site for call in begun), None)


def is_compiled(steps: Sequence[Step]) -> bool:
    """Return whether something ran that ``torch.compile`` made: under a mode it would not run compiled."""
    return any(op.name.startswith(_COMPILED) for step in steps for op in step.ops.seen)


def bypasses_ops(steps: Sequence[Step]) -> bool:
    """Return whether something was launched, or waited for, outside ops: a mode does not see it."""
    return any(not call.chain for step in steps for call in (*step.launches.all_calls.seen, *step.host_syncs.seen))
