"""What can be profiled, and what it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from .errors import CaptureError


def refuse_unprofilable(function: Callable[..., Any]) -> None:
    """Refuse what a call only starts: coroutine and generator functions run nothing by themselves.

    Raises:
        CaptureError: *function* is one of them, or cannot be called.
    """
    if not callable(function):
        raise CaptureError(f"profiled({function!r}): not callable; pass the function and its arguments, not its result")
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    if not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = type(inner).__call__
    for kind, test in (
        ("a coroutine function", inspect.iscoroutinefunction),
        ("an async generator function", inspect.isasyncgenfunction),
        ("a generator function", inspect.isgeneratorfunction),
    ):
        if test(inner):
            name = function_name(function)
            raise CaptureError(f"{name} is {kind}: calling it runs nothing; profile a function that runs it")


def refuse_unfinished(function: Callable[..., Any], result: Any) -> None:
    """Refuse what a call returned instead of running it.

    Raises:
        CaptureError: *result* is a coroutine or a generator.
    """
    if inspect.iscoroutine(result):
        result.close()
    elif not (inspect.isgenerator(result) or inspect.isasyncgen(result)):
        return
    made = f"{function_name(function)} returned a {type(result).__name__}"
    raise CaptureError(f"{made}: calling it ran nothing; profile a function that runs it")


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a callable object, without its module."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__" if inspect.isbuiltin(function) else "__qualname__", None)
    return str(name or getattr(function, "__name__", None) or type(function).__name__)
