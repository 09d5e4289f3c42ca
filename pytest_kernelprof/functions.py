"""What can be profiled, and what it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypedDict

from .errors import CaptureError


class Subject(TypedDict):
    """What a profile is of, in words that stand in its recording and are compared when it is replayed.

    Attributes:
        function: Name of the function, without its module.
        module: Last part of the name of its module.
        arguments: What it is given, as `describe_arguments` tells; ``None`` if ``setup=`` makes it.
    """

    function: str
    module: str | None
    arguments: list[str] | None


def subject_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, has_setup: bool
) -> Subject:
    """Return what a profile of *function* is of.

    Args:
        function: What is profiled.
        args: Its arguments.
        kwargs: Its keyword arguments.
        has_setup: ``setup=`` makes the arguments of every call.

    Raises:
        CaptureError: *function* cannot be profiled, or arguments and ``setup=`` were both given.
    """
    refuse_unprofilable(function)
    if has_setup and (args or kwargs):
        raise CaptureError("arguments and setup= were both given; what setup returns becomes the arguments")
    return {
        "function": function_name(function),
        "module": module_name(function),
        "arguments": None if has_setup else describe_arguments(function, args, kwargs),
    }


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


def module_name(function: Callable[..., Any]) -> str | None:
    """Return the last part of the name of the module that a function, or a callable's class, comes from."""
    while isinstance(function, partial):
        function = function.func
    owner = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(owner, "__module__", None)
    return module.rpartition(".")[2] if isinstance(module, str) else None


def describe_arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return what a call is given, in words that are the same on every device.

    Tensors are told by dtype and shape, plain values by their repr, everything else by its type.
    """
    bound = (*function.args, *function.keywords.values()) if isinstance(function, partial) else ()
    return [
        *(describe(value) for value in bound),
        *(describe(value) for value in args),
        *(f"{name}={describe(value)}" for name, value in kwargs.items()),
    ]


def describe(value: Any) -> str:
    """Return a value in words that are the same on every device; see `describe_arguments`."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).rpartition('.')[2]}{list(shape)}"
    if isinstance(value, (bool, int, float, str)) or value is None:
        return repr(value)[:80]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(describe(item) for item in value[:8])}{', ...' if len(value) > 8 else ''}]"
    return type(value).__qualname__
