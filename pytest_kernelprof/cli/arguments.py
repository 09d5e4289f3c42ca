"""Arguments that several commands take."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from typing import Any

from ..units import MAX_TRACE_BYTES

_COLUMNS = 80
"""Width of a terminal that does not tell."""


class Formatter(argparse.HelpFormatter):
    """Asks the terminal for its width itself: argparse imports shutil for that, on every start."""

    def __init__(self, prog: str) -> None:
        """Make one; argparse does."""
        try:
            columns = int(os.environ.get("COLUMNS", 0)) or os.get_terminal_size().columns
        except (OSError, ValueError):
            columns = _COLUMNS
        super().__init__(prog, width=columns - 2)


def command(commands: Any, name: str, help_: str, description: str, run: Callable[..., int]) -> argparse.ArgumentParser:
    """Add a command.

    Args:
        commands: What argparse adds commands to.
        name: Its name.
        help_: What it does, in a few words.
        description: The same in sentences.
        run: Is called with the options and the output, and returns the exit code.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help_, description=description, formatter_class=Formatter
    )
    parser.set_defaults(run=run, refuse=parser.error)
    return parser


def add_traces(parser: argparse.ArgumentParser) -> None:
    """Add the traces to read, and how they are read."""
    parser.add_argument(
        "traces", nargs="+", metavar="TRACE", help="a file that torch.profiler wrote, .json or .json.gz; or a glob"
    )
    parser.add_argument(
        "--jobs", type=_jobs, default=1, metavar="N", help="read so many files at once, in processes (default: 1)"
    )
    add_size(parser)


def add_size(parser: argparse.ArgumentParser) -> None:
    """Add the largest size that is read."""
    parser.add_argument(
        "--max-trace-size",
        type=_size,
        default=MAX_TRACE_BYTES,
        metavar="SIZE",
        help="refuse files that hold more, decompressed, such as 512MiB (default: 8GiB)",
    )


def whole(least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers of at least *least*, in argparse's way."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not accepted; accepted: a whole number from {least}")
        return int(text)

    return parse


_jobs = whole(1)


def _size(text: str) -> int:
    from ..options import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted; accepted: {error}") from None
