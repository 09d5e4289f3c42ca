"""The command ``kernelprof``: needs neither torch nor a GPU, but for ``doctor``."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import KernelprofError
from . import check, decode, diff, doctor, report, show
from .arguments import Formatter
from .output import Output, complain

_INTERRUPTED = 130
"""The exit code of a process that Ctrl-C ended, as shells count."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The words after ``kernelprof``; ``None`` takes those of the process.

    Returns:
        The exit code: 0 if all is well, 1 if a check failed or traces differ, 2 if something could
        not be read or judged, or the call was wrong.
    """
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show must not stop the rest.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    output = Output()
    try:
        code: int = options.run(options, output)
        output.flush()
    except KernelprofError as error:
        complain(str(error))
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return _INTERRUPTED
    return 2 if output.failed else code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kernelprof", description="Read and judge GPU profiler traces.", formatter_class=Formatter
    )
    parser.add_argument("--version", action="version", version=f"kernelprof {__version__}")
    # With prog=, argparse need not format its usage now, for which it would import half of shutil.
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="kernelprof")
    for command in (show, check, diff, decode, report, doctor):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
