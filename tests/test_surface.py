"""The public surface: what others may rely on stands in ``data/surface.txt``.

A change there is a decision, and belongs in the documentation and in the changelog as well:
``pytest tests/test_surface.py --rewrite-golden`` writes it anew.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_kernelprof
from pytest_kernelprof import hookspecs
from pytest_kernelprof.budget import RULES
from pytest_kernelprof.cli import _parser
from pytest_kernelprof.options import _MARKER_ONLY, _PARSERS, OPTIONS

GOLDEN = Path(__file__).parent / "data/surface.txt"
CLASSES = ("Count", "EventSet", "Hint", "Kernel", "KernelName", "Memcpy", "Memset", "Call", "Op", "Profile", "Profiled")


def names() -> Iterator[str]:
    yield from pytest_kernelprof.__all__


def members() -> Iterator[str]:
    for name in CLASSES:
        kind = getattr(pytest_kernelprof, name)
        base = next((base for base in (int, tuple) if issubclass(kind, base)), object)
        for member in sorted(dir(kind)):
            if not member.startswith("_") and member not in dir(base):
                yield f"{name}.{member}{_arguments(getattr(kind, member))}"


def _arguments(member: object) -> str:
    """Return the arguments of a method; a property has none."""
    if not inspect.isroutine(member):
        return ""
    shown = [
        f"{'*' * (kind is parameter.VAR_POSITIONAL) + '**' * (kind is parameter.VAR_KEYWORD)}{parameter.name}"
        + ("=" if kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty else "")
        for parameter in inspect.signature(member).parameters.values()
        if parameter.name != "self" and (kind := parameter.kind) is not None
    ]
    return f"({', '.join(shown)})"


def options() -> Iterator[str]:
    for option in OPTIONS:
        yield f"{option.flag}{'=' + option.metavar if option.metavar else ''} | {option.ini if option.has_ini else '-'}"


def keywords() -> Iterator[str]:
    for name in _PARSERS:
        yield f"{name}= | {'marker' if name in _MARKER_ONLY else 'marker, configure'}"


def hooks() -> Iterator[str]:
    for name, hook in vars(hookspecs).items():
        if name.startswith("pytest_"):
            yield f"{name}{inspect.signature(hook).replace(return_annotation=inspect.Signature.empty)}".replace("'", "")


def commands(parser: argparse.ArgumentParser | None = None, name: str = "kernelprof") -> Iterator[str]:
    for action in (parser or _parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, inner in action.choices.items():
                yield from commands(inner, f"{name} {command}")
        elif action.dest != "help":
            choices = f" {{{','.join(map(str, action.choices))}}}" if action.choices else ""
            yield f"{name} {', '.join(action.option_strings) or action.dest.upper()}{choices}"


def limits() -> Iterator[str]:
    for rule in RULES:
        yield rule.key


def schemas() -> Iterator[str]:
    folder = Path(pytest_kernelprof.__file__).parent / "schemas"
    yield from sorted(file.name for file in folder.glob("*.json"))


SECTIONS = {
    "names": names,
    "members": members,
    "options of pytest | ini": options,
    "keywords": keywords,
    "hooks": hooks,
    "commands": commands,
    "limits of budgets": limits,
    "schemas": schemas,
}


def surface() -> str:
    return "\n".join("\n".join([f"# {title}", *told(), ""]) for title, told in SECTIONS.items())


def test_the_surface_is_what_is_written_down(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-golden"):
        GOLDEN.write_text(surface())
    assert surface() == GOLDEN.read_text()
