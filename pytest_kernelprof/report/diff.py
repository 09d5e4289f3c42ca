"""What ``kernelprof diff`` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ledger.difference import Change
from ..names import ascii_only
from ..trace_diff import TraceDiff
from ..units import counted, format_ns, plural
from .changes import change_words
from .layout import Chain, Look, listed
from .sections import escaped
from .show import environment_words, printable

SCHEMA = "kernelprof/diff/1"
_NOUNS = {
    "memcpys": "memory copy",
    "host_syncs": "host sync",
    "kernels": "kernel",
    "memsets": "Memset",
    "calls": "call that launches, copies or sets",
    "ops": "op",
}
_MOST_CHAINS = 2
_CHAIN_WIDTH = 80


def diff_text(found: TraceDiff, width: int | None, *, top: int | None, forced: bool) -> str:
    """Return what changed, as text; first whether the two can be compared.

    Args:
        found: What changed.
        width: Columns of the terminal; ``None`` for as many as it takes.
        top: Changes of a class that are shown; ``None`` for all.
        forced: Show it whether the two can be compared or not.
    """
    parts = ["\n".join(_heading(found, forced=forced))]
    if not found.obstacles or forced:
        for title, lines in _told(found):
            told = [listed([title], "", str, Look(width))]
            told += [f"  {line}" for line in _shown(lines, None if width is None else width - 2, top)]
            parts.append("\n".join(told))
    return "\n\n".join(parts)


def _shown(lines: Sequence[str], width: int | None, top: int | None) -> list[str]:
    shown = lines if top is None else lines[:top]
    left = len(lines) - len(shown)
    told = listed(shown, "", str, Look(width, every_row=True)).splitlines()
    return [*told, *([f"... and {counted(left, 'line')} more (--top 0 shows all)"] if left else [])]


def diff_markdown(found: TraceDiff, *, top: int | None, forced: bool) -> str:
    """Return what changed, as Markdown; arguments as for `diff_text`."""
    parts = ["## kernelprof diff", "", *(f"{escaped(line.strip())}  " for line in _heading(found, forced=forced))]
    if not found.obstacles or forced:
        for title, lines in _told(found):
            parts += ["", f"**{escaped(title, None)}**", ""]
            parts += [f"- {escaped(line.strip(), None)}" for line in _shown(lines, None, top)]
    return "\n".join(parts)


def _heading(found: TraceDiff, *, forced: bool) -> Iterator[str]:
    for side, trace in (("before:", found.before), ("after: ", found.after)):
        yield f"{side} {printable(trace.path)}"
        yield f"        {environment_words(trace.environment)}, {counted(len(trace.steps), 'step')}"
    if found.obstacles:
        yield from (f"not comparable: {ascii_only(one)}" for one in found.obstacles)
        yield "compared all the same (--force)" if forced else "no verdict (--force compares all the same)"
    else:
        yield "comparable" + (f"; unknown: {', '.join(found.unknown).replace('_', ' ')}" if found.unknown else "")
    if found.left_out:
        yield f"measured in neither, not compared: {', '.join(found.left_out).replace('_', ' ')}"
    yield from (f"note: {ascii_only(note)}" for note in found.notes)


def _told(found: TraceDiff) -> Iterator[tuple[str, list[str]]]:
    """Yield a title and lines for each class of events, and for times."""
    for name, noun in _NOUNS.items():
        if name not in found.changed:
            continue
        changes = found.changed[name]
        if name == "ops" and changes:
            yield from _ops(changes)
        elif changes:
            yield f"{plural(noun)} a step:", [ascii_only(line) for change in changes for line in _lines(found, change)]
    unchanged = [plural(noun) for name, noun in _NOUNS.items() if name in found.changed and not found.changed[name]]
    if unchanged:
        yield f"none changed of: {', '.join(unchanged)}", []
    if found.times:
        yield (
            "time of kernels a step, where it lies apart:",
            [
                f"{'slower' if one.after_ns > one.before_ns else 'faster'}: {ascii_only(one.line.words())}: "
                f"{format_ns(one.before_ns)} -> {format_ns(one.after_ns)}"
                for one in found.times
            ],
        )
    if found.uneven:
        yield "not alike beside that:", [ascii_only(one) for one in found.uneven]
    if found.equal:
        scope = f" in {', '.join(found.changed)}".replace("_", " ") if found.left_out else ""
        yield ("nothing changed but times" if found.times else "nothing changed") + scope, []


def _ops(changes: Sequence[Change]) -> Iterator[tuple[str, list[str]]]:
    """Yield which ops are gone and which are new, in a line each."""
    for title, kind in (("ops gone", "fewer"), ("ops new", "more")):
        names = [
            f"{number} {line.words()}" if number > 1 else line.words()
            for change in changes
            if change.kind == kind
            for line, number in (change.after or change.before)
        ]
        yield f"{title} a step: {ascii_only(', '.join(names)) or 'none'}", []


def _lines(found: TraceDiff, change: Change) -> Iterator[str]:
    """Yield a change in words; of several kernels for several others, what went and what came, a line each."""
    if not change.regrouped:
        yield _line(found, change)
        return
    yield f"{change.regrouped}:"
    for one in change.before:
        yield _line(found, Change(change.class_name, "fewer", before=(one,)))
    for one in change.after:
        yield _line(found, Change(change.class_name, "more", after=(one,)))


def _line(found: TraceDiff, change: Change) -> str:
    """Return a change in words, with the ops around the calls."""
    words = change_words(change, had="before")
    if change.class_name == "calls":
        return words
    chains = _chains(found, change)
    told = [Chain(chain or ("(no op)",)).within(_CHAIN_WIDTH) for chain in chains[:_MOST_CHAINS]]
    told += [f"{len(chains) - _MOST_CHAINS} more"] if len(chains) > _MOST_CHAINS else []
    if " by " in words and len(chains) == 1:
        return f"{words.rpartition(' by ')[0]} by {told[0]}"
    return f"{words} by {' and '.join(told)}" if told else words


def diff_values(found: TraceDiff, *, forced: bool) -> dict[str, Any]:
    """Return what changed as plain values."""
    compared = not found.obstacles or forced
    return {
        "schema": SCHEMA,
        "before": found.before.path,
        "after": found.after.path,
        "comparable": not found.obstacles,
        "obstacles": list(found.obstacles),
        "unknown": list(found.unknown),
        "not_compared": list(found.left_out),
        "notes": list(found.notes),
        "uneven": list(found.uneven),
        "forced": bool(found.obstacles) and forced,
        "equal": found.equal if compared else None,
        "changes": [
            {
                "class": change.class_name,
                "kind": change.kind,
                "words": change_words(change, in_full=True, had="before"),
                "before": _lines_values(change.before),
                "after": _lines_values(change.after),
                "launched_by": [list(chain) for chain in _chains(found, change)],
            }
            for changes in found.changed.values()
            for change in changes
        ]
        if compared
        else None,
        "times": [
            {"kernel": _line_values(one.line), "before_ns": one.before_ns, "after_ns": one.after_ns}
            for one in found.times
        ]
        if compared
        else None,
    }


def _chains(found: TraceDiff, change: Change) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(tuple(op.name for op in getattr(one, "chain", ())) for one in found.events(change)))


def _lines_values(some: Sequence[tuple[Any, int]]) -> list[dict[str, Any]]:
    return [{"count": number, **_line_values(line)} for line, number in some]


def _line_values(line: Any) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in line._asdict().items()}
