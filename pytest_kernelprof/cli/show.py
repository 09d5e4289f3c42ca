"""``kernelprof show``: what a trace holds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .arguments import add_traces, command, whole
from .output import complain
from .reading import Failure, each

if TYPE_CHECKING:
    import argparse

    from ..model import Trace
    from .output import Output

_ONLY_TABLES = ("by", "step", "region", "top")


def add(commands: Any) -> None:
    """Add the command."""
    parser = command(commands, "show", "say what a trace holds", "Say what traces hold.", run)
    add_traces(parser)
    parser.add_argument(
        "--format", choices=("text", "json", "markdown"), default="text", help="how to print it (default: text)"
    )
    parser.add_argument(
        "--by",
        choices=("op", "kernel", "role", "stream", "region"),
        help="group GPU events by the outermost op, by kernel, role, stream or region",
    )
    parser.add_argument("--step", metavar="STEP", help="only the steps of this number, or whose names match this glob")
    parser.add_argument("--region", metavar="GLOB", help="only what was launched in regions that match this glob")
    parser.add_argument("--top", type=whole(0), metavar="N", help="rows of each table; 0 shows all (default: 10)")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print what traces hold; 0 if every file could be read, complete or not, else 2."""
    if options.format == "json":
        given = [f"--{name}" for name in _ONLY_TABLES if getattr(options, name) is not None]
        if given:
            options.refuse(f"{', '.join(given)}: for text and markdown; json always has everything")
    work = partial(
        rendered, form=options.format, by=options.by, step=options.step, region=options.region, top=options.top
    )
    readable, first = True, True
    if options.format == "json":
        output.line('{\n "schema": "kernelprof/summary/1",\n "traces": [', end="")
    for result in each(options, work):
        if isinstance(result, Failure):
            readable = False
            complain(result.message)
        else:
            between = ",\n" if options.format == "json" else "\n"
            output.line(f"{'' if first else between}{result}", end="" if options.format == "json" else "\n")
            output.flush()
            first = False
        if output.closed:
            break
    if options.format == "json":
        output.line("]\n}")
    return 0 if readable else 2


def rendered(trace: Trace, *, form: str, by: str | None, step: str | None, region: str | None, top: int | None) -> str:
    """Return a trace as text, as Markdown, or as the JSON of one trace."""
    if form == "json":
        import json

        from ..report.summary import trace_summary

        return json.dumps(trace_summary(trace), indent=1, allow_nan=False)
    from ..report.show import View, show_markdown, show_text

    trace = narrowed(trace, step, region)
    view = View(by, 10 if top is None else top or None)
    if form == "markdown":
        return show_markdown(trace, view)
    from ..report.layout import Look

    return show_text(trace, view, Look.of(None))


def narrowed(trace: Trace, step: str | None, region: str | None) -> Trace:
    """Return a trace of some steps, and of what was launched in some regions.

    Raises:
        SelectorError: There is no such step or region.
    """
    from ..errors import SelectorError
    from ..eventset import Selection
    from ..model import steps_named

    try:
        steps = trace.steps if step is None else steps_named(trace.steps, step)
        if region is not None:
            steps = tuple(one.select(Selection(region=region)) for one in steps)
    except SelectorError as error:
        raise SelectorError(f"{trace.path}: {error}") from None
    return trace._replace(steps=steps)
