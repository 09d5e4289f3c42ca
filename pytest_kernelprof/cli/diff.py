"""``kernelprof diff``: what changed from one trace to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import add_size, command, whole

if TYPE_CHECKING:
    import argparse

    from ..trace_diff import TraceDiff
    from .output import Output


def add(commands: Any) -> None:
    """Add the command."""
    parser = command(
        commands,
        "diff",
        "say what changed from one trace to another",
        "Say what changed from one trace to another, step by step. Exits with 0 if both are equal (whatever their "
        "times), 1 if they differ, 2 if they cannot be compared.",
        run,
    )
    parser.add_argument("before", metavar="BEFORE", help="a trace, .json or .json.gz")
    parser.add_argument("after", metavar="AFTER", help="another one")
    parser.add_argument(
        "--format", choices=("text", "json", "markdown"), default="text", help="how to print it (default: text)"
    )
    parser.add_argument(
        "--force", action="store_true", help="compare traces that cannot be compared, such as of two GPUs"
    )
    parser.add_argument(
        "--top", type=whole(0), default=20, metavar="N", help="lines of each class of events; 0 shows all (default: 20)"
    )
    add_size(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print what changed."""
    from ..load import load_trace
    from ..trace_diff import diff
    from .reading import Progress

    progress = Progress([options.before, options.after])
    try:
        before, after = (
            load_trace(path, max_bytes=options.max_trace_size, progress=progress.read)
            for path in (options.before, options.after)
        )
    finally:
        progress.clear()
    found = diff(before, after)
    output.line(_rendered(found, options))
    if found.obstacles and not options.force:
        return 2
    return 2 if found.equal is None else 0 if found.equal else 1


def _rendered(found: TraceDiff, options: argparse.Namespace) -> str:
    from ..report.diff import diff_markdown, diff_text, diff_values
    from ..report.layout import Look

    if options.format == "json":
        import json

        return json.dumps(diff_values(found, forced=options.force), indent=1)
    if options.format == "markdown":
        return diff_markdown(found, top=options.top or None, forced=options.force)
    return diff_text(found, Look.of(None).width, top=options.top or None, forced=options.force)
