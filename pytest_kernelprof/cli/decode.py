"""``kernelprof decode``: what names of kernels say."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from .arguments import command

if TYPE_CHECKING:
    import argparse

    from .output import Output


def add(commands: Any) -> None:
    """Add the command."""
    parser = command(
        commands,
        "decode",
        "say what the name of a kernel says",
        "Say what names of kernels say, piece by piece. Without a name, names are read from standard input, one a "
        "line.",
        run,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a kernel's name, as the trace holds it; quote it")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print it (default: text)")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print what names say."""
    output.line(_decoded(options.names or _names_from(sys.stdin, options), options.format))
    return 0


def _names_from(lines: TextIO | None, options: argparse.Namespace) -> list[str]:
    if lines is None or lines.isatty():
        lines = io.StringIO()
        options.refuse("no name given; accepted: names as arguments, or one a line on standard input")
    if isinstance(lines, io.TextIOWrapper):
        lines.reconfigure(encoding="utf-8", errors="backslashreplace")
    return [name for line in lines if (name := line.strip())]


def _decoded(names: Sequence[str], form: str) -> str:
    from ..names import decode_kernel

    # An argument that is no UTF-8 holds surrogates, which no JSON may.
    readable = (name.encode(errors="surrogateescape").decode(errors="backslashreplace") for name in names)
    decoded = [decode_kernel(name) for name in readable]
    if form == "json":
        import json

        return json.dumps([name.as_values() for name in decoded], indent=1)
    from ..report.names import names_text

    return names_text(decoded)
