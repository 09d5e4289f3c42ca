"""What failure messages must tell of a line of Python and a cure, for the tests that look."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FIRST_SCREEN = 40
"""Lines of a terminal that need no scrolling."""
HERE = "# here"
"""Ends the line of a function that a message must name."""


def line_of(function: Callable[..., Any], mark: str = HERE) -> str:
    """Return the line of a function that ends with a mark, as a table tells it: ``file.py:12 in step``."""
    lines, start = inspect.getsourcelines(function)
    places = [number for number, line in enumerate(lines, start) if line.rstrip().endswith(mark)]
    assert len(places) == 1, f"{function} has {len(places)} lines with {mark!r}"
    return f"{Path(inspect.getsourcefile(function) or '').name}:{places[0]} in {function.__name__}"


def message_of(check: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Return the message with which an assertion fails."""
    with pytest.raises(AssertionError) as failure:
        check(*args, **kwargs)
    return str(failure.value)


def tells(message: str, *parts: str, hint: str | None) -> None:
    """Check that the first screen of a message holds some parts, and that its hints are the one expected, or none."""
    screen = "\n".join(message.splitlines()[:FIRST_SCREEN])
    for part in parts:
        assert part in screen, f"{part!r} is not in\n{screen}"
    hints = [line for line in message.replace("\n  ", " ").splitlines() if line.startswith("hint: ")]
    found = [one.rpartition("#")[2].rstrip(")") for one in hints]
    assert (hint in found) if hint else not found, f"hints {found}, expected {hint}\n{message}"
