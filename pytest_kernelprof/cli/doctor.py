"""``kernelprof doctor``: whether this machine can measure what a GPU does, and what to do if it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import command

if TYPE_CHECKING:
    import argparse

    from .output import Output


def add(commands: Any) -> None:
    """Add the command."""
    parser = command(
        commands,
        "doctor",
        "say whether this machine can measure",
        "Look at what profiling depends on, with a cure for what is wrong. Exits with 0 if all is well, 1 if "
        "something is wrong, 2 if a GPU cannot be looked at, since torch or a GPU is missing.",
        run,
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print it (default: text)")
    parser.add_argument(
        "--folder", default=".", metavar="DIR", help="the project, below which traces are kept (default: this one)"
    )


def run(options: argparse.Namespace, output: Output) -> int:
    """Print what was found."""
    from ..doctor import examined, exit_code

    found = examined(options.folder)
    if options.format == "json":
        import json

        values = {"schema": "kernelprof/doctor/1", "findings": [one._asdict() for one in found]}
        output.line(json.dumps(values, indent=1))
    else:
        for one in found:
            output.line(f"{one.state:8}  {one.what}: {one.told}")
            if one.cure:
                output.line(f"          cure: {one.cure}")
    return exit_code(found)
