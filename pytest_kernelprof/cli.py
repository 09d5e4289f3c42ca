"""The command ``kernelprof``: needs neither torch nor a GPU."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from . import __version__
from .errors import TraceError
from .units import MAX_TRACE_BYTES

if TYPE_CHECKING:
    from .model import Trace


_COLUMNS = 80
"""Width of a terminal that does not tell."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The words after ``kernelprof``; ``None`` takes those of the process.

    Returns:
        The exit code: for ``show`` 0 if every file could be read, else 2; for ``decode`` 0.
    """
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show must not stop the rest.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if options.command == "decode":
        _print(_decoded(options.names or _names_from(sys.stdin, options), options.format))
        return 0
    traces, readable = _load(options.traces, options.max_trace_size)
    _print(_rendered(traces, options.format))
    return 0 if readable else 2


def _print(text: str) -> None:
    try:
        print(text, flush=True)  # noqa: T201 - this is the output
    except BrokenPipeError:
        # The reader, such as head, has seen enough; Python would complain again at exit.
        sys.stdout = None


class _Formatter(argparse.HelpFormatter):
    """Asks the terminal for its width itself: argparse imports shutil for that, on every start."""

    def __init__(self, prog: str) -> None:
        try:
            columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size().columns
        except (OSError, ValueError):
            columns = _COLUMNS
        super().__init__(prog, width=columns - 2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kernelprof", description="Read GPU profiler traces.", formatter_class=_Formatter
    )
    parser.add_argument("--version", action="version", version=f"kernelprof {__version__}")
    # With prog=, argparse need not format its usage now, for which it would import half of shutil.
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="kernelprof")
    show = commands.add_parser(
        "show", help="say what a trace holds", description="Say what traces hold.", formatter_class=_Formatter
    )
    show.add_argument("traces", nargs="+", metavar="TRACE", help="a file that torch.profiler wrote, .json or .json.gz")
    show.add_argument("--format", choices=("text", "json"), default="text", help="how to print it (default: text)")
    show.add_argument(
        "--max-trace-size",
        type=_size,
        default=MAX_TRACE_BYTES,
        metavar="SIZE",
        help="refuse files that hold more, decompressed, such as 512MiB (default: 8GiB)",
    )
    decode = commands.add_parser(
        "decode",
        help="say what the name of a kernel says",
        description="Say what names of kernels say, piece by piece. Without a name, names are read from standard "
        "input, one a line.",
        formatter_class=_Formatter,
    )
    decode.add_argument("names", nargs="*", metavar="NAME", help="a kernel's name, as the trace holds it; quote it")
    decode.add_argument("--format", choices=("text", "json"), default="text", help="how to print it (default: text)")
    decode.set_defaults(refuse=decode.error)
    return parser


def _names_from(lines: TextIO, options: argparse.Namespace) -> list[str]:
    if lines.isatty():
        options.refuse("no name given; accepted: names as arguments, or one a line on standard input")
    if isinstance(lines, io.TextIOWrapper):
        lines.reconfigure(encoding="utf-8", errors="backslashreplace")
    return [name for line in lines if (name := line.strip())]


def _decoded(names: Sequence[str], form: str) -> str:
    from .names import decode_kernel

    # An argument that is no UTF-8 holds surrogates, which no JSON may.
    readable = (name.encode(errors="surrogateescape").decode(errors="backslashreplace") for name in names)
    decoded = [decode_kernel(name) for name in readable]
    if form == "json":
        import json

        return json.dumps([name.as_values() for name in decoded], indent=1)
    from .report.names import names_text

    return names_text(decoded)


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
    from .report.layout import Look
    from .report.text import trace_text

    look = Look.of(None)
    return "\n\n".join(trace_text(trace, look) for trace in traces)


if __name__ == "__main__":
    sys.exit(main())
