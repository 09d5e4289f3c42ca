"""The command ``kernelprof``: needs neither torch nor a GPU."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import __version__
from .errors import TraceError
from .units import MAX_TRACE_BYTES

if TYPE_CHECKING:
    from .model import Trace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The words after ``kernelprof``; ``None`` takes those of the process.

    Returns:
        The exit code: 0 if every file could be read, else 2.
    """
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show must not stop the rest.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    traces, readable = _load(options.traces, options.max_trace_size)
    try:
        print(_rendered(traces, options.format), flush=True)  # noqa: T201 - this is the output
    except BrokenPipeError:
        # The reader, such as head, has seen enough; Python would complain again at exit.
        sys.stdout = None
    return 0 if readable else 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kernelprof", description="Read GPU profiler traces.")
    parser.add_argument("--version", action="version", version=f"kernelprof {__version__}")
    # With prog=, argparse need not format its usage now, for which it would import half of shutil.
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="kernelprof")
    show = commands.add_parser("show", help="say what a trace holds", description="Say what traces hold.")
    show.add_argument("traces", nargs="+", metavar="TRACE", help="a file that torch.profiler wrote, .json or .json.gz")
    show.add_argument("--format", choices=("text", "json"), default="text", help="how to print it (default: text)")
    show.add_argument(
        "--max-trace-size",
        type=_size,
        default=MAX_TRACE_BYTES,
        metavar="SIZE",
        help="refuse files that hold more, decompressed, such as 512MiB (default: 8GiB)",
    )
    return parser


def _size(text: str) -> int:
    from .options import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted; accepted: {error}") from None


def _load(paths: Sequence[str], max_bytes: int) -> tuple[list[Trace], bool]:
    from .load import load_trace

    traces, readable = [], True
    for path in paths:
        try:
            traces.append(load_trace(path, max_bytes=max_bytes))
        except TraceError as error:  # noqa: PERF203 - one bad file must not hide the others
            readable = False
            print(f"kernelprof: {error}", file=sys.stderr)  # noqa: T201 - this is the error
    return traces, readable


def _rendered(traces: Sequence[Trace], form: str) -> str:
    if form == "json":
        import json

        from .report.summary import summary

        return json.dumps(summary(traces), indent=1, allow_nan=False)
    from .report.text import trace_text

    return "\n\n".join(trace_text(trace) for trace in traces)


if __name__ == "__main__":
    sys.exit(main())
