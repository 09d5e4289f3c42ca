"""One more call under a mode that writes into the trace which line of Python called each function of torch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

from ..functions import describe
from ..load.own import SITE_PREFIX
from ..sites import LIBRARIES, Site, is_users

_OURS = __name__.partition(".")[0]
_FUSED = ("flash", "efficient", "cudnn")
_CAN_USE = {
    "flash": "can_use_flash_attention",
    "efficient": "can_use_efficient_attention",
    "cudnn": "can_use_cudnn_attention",
}


@contextmanager
def naming_lines(torch: Any, caller: Site | None) -> Iterator[list[Site]]:
    """Let regions of the trace stand for lines of Python; the list is filled while the body runs.

    A mode for torch's Python functions and not for its dispatcher: under a `TorchDispatchMode` other
    ops run (out-of-place gradients, no ``_reshape_alias``), under this one the same (measured on 2.11
    and 2.13).

    Args:
        torch: The package.
        caller: What calls the function, if that is torch's own.

    Yields:
        The sites; the number of a region is an index into them.
    """
    sites = _Sites(torch, caller)
    mode = _mode(torch, sites)
    with _on_in_backward_passes(torch, mode), _unseen_by_fast_paths(torch, mode), mode:
        yield sites.found


def caller_of(frame: FrameType | None = None) -> Site | None:
    """Return the line outside this package that led here."""
    frame = frame or sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return _site_of(frame) if frame is not None else None


def _is_ours(frame: FrameType) -> bool:
    return _library(frame) == _OURS


def _library(frame: FrameType) -> str:
    """Return the package that code belongs to, also where it was generated and has no file."""
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _site_of(frame: FrameType) -> Site:
    return Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


class _Sites:
    """Numbers the sites of one call of a function."""

    def __init__(self, torch: Any, caller: Site | None) -> None:
        self.torch = torch
        self.caller = caller
        self.found: list[Site] = []
        self._numbers: dict[Site, int] = {}
        self._names: dict[int, dict[int, str]] = {}
        self._roots: list[Any] = []  # Kept, so that the ids stay theirs.

    def region(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the name of the region for a call of a function of torch."""
        site = self._site(function, args, kwargs)
        if site is None:
            return SITE_PREFIX
        number = self._numbers.setdefault(site, len(self.found))
        if number == len(self.found):
            self.found.append(site)
        return f"{SITE_PREFIX}{number}"

    def _site(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Site | None:
        place, modules = self._walk(sys._getframe(3))
        if place is None:
            return None
        return place._replace(
            call=str(getattr(function, "__name__", function)),
            module=self._path(modules),
            inputs=_inputs(args, kwargs),
            why_not_fused=why_not_fused(self.torch, function, args, kwargs),
        )

    def _walk(self, frame: FrameType | None) -> tuple[Site | None, list[Any]]:
        """Return the innermost line of the user's, and the modules around it, innermost first.

        Where torch's own function is what is profiled, that is the line that profiles. The engine's
        threads for backward passes have no frames of the user's but those that run there: no line then.
        """
        users: FrameType | None = None
        modules = []
        while frame is not None:
            file = frame.f_code.co_filename
            if frame.f_code.co_name == "_call_impl" and file.endswith("module.py"):
                modules.append(frame.f_locals.get("self"))
            elif file != __file__ and _is_ours(frame):
                return (self.caller if users is None else _site_of(users)), modules
            elif users is None and is_users(file) and _library(frame) not in LIBRARIES:
                users = frame
            frame = frame.f_back
        return (None if users is None else _site_of(users)), modules

    def _path(self, modules: list[Any]) -> str:
        """Return the path of the innermost module from the outermost, such as ``Model.layers.0.attn``."""
        if not modules:
            return ""
        inner, root = modules[0], modules[-1]
        if id(root) not in self._names:
            self._roots.append(root)
            self._names[id(root)] = {id(module): name for name, module in root.named_modules()}
        name = self._names[id(root)].get(id(inner))
        if name is None:
            return type(inner).__name__
        return f"{type(root).__name__}.{name}" if name else type(root).__name__


@contextmanager
def _unseen_by_fast_paths(torch: Any, mode: Any) -> Iterator[None]:
    """Let modules take their fused path, which they leave where a mode is on.

    ``nn.MultiheadAttention`` and ``nn.TransformerEncoderLayer`` ask ``torch.overrides.has_torch_function`` by
    that name; torch's functions, which have to find the mode, import it.
    """
    overrides = torch.overrides
    ask = overrides.has_torch_function

    def ask_without_mode(arguments: Any) -> bool:
        stack = overrides._get_current_function_mode_stack()
        if not stack or stack[-1] is not mode:
            return bool(ask(arguments))
        with overrides._pop_mode_temporarily():
            return bool(ask(arguments))

    known = all(hasattr(overrides, name) for name in ("_get_current_function_mode_stack", "_pop_mode_temporarily"))
    overrides.has_torch_function = ask_without_mode if known else ask
    try:
        yield
    finally:
        overrides.has_torch_function = ask


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    named = (f"{name}={_described(value)}" for name, value in kwargs.items() if value is not None)
    return (*map(_described, args), *named)


def _described(value: Any) -> str:
    if type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device", "memory_format", "layout"):
        return str(value).removeprefix("torch.")
    return describe(value)


def _mode(torch: Any, sites: _Sites) -> Any:
    from torch.overrides import TorchFunctionMode

    class NamingLines(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        """Wraps each call in a region that stands for its line.

        Attributes:
            calls: How many calls it is in; in each torch has switched it off.
        """

        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            self.calls += 1
            try:
                with torch.profiler.record_function(sites.region(func, args, kwargs)):
                    return func(*args, **kwargs)
            finally:
                self.calls -= 1

    return NamingLines()


@contextmanager
def _on_in_backward_passes(torch: Any, mode: Any) -> Iterator[None]:
    """Keep a mode on in backward passes: what the user wrote for them has lines of its own.

    ``backward()`` is a function of torch, within which the mode is off, and the engine's threads
    take over what holds where it is started.
    """
    run = getattr(torch.autograd, "_engine_run_backward", None)
    if run is None:
        yield
        return

    def run_with_mode(*args: Any, **kwargs: Any) -> Any:
        calls, mode.calls = mode.calls, 0
        try:
            with mode if calls else nullcontext():
                return run(*args, **kwargs)
        finally:
            mode.calls = calls

    torch.autograd._engine_run_backward = run_with_mode
    try:
        yield
    finally:
        torch.autograd._engine_run_backward = run


def why_not_fused(torch: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """Return why SDPA cannot take each fused implementation, in torch's words; nothing for other functions.

    Source:
        ``torch.backends.cuda.can_use_flash_attention`` and its like, with ``debug=True``, which warn
        with the reason.
    """
    if function is not torch.nn.functional.scaled_dot_product_attention:
        return ()
    try:
        params = _sdpa_params(torch, *args, **kwargs)
    except (AttributeError, TypeError, RuntimeError):
        return ()
    return tuple(f"{backend}: {why}" for backend in _FUSED if (why := _why_not(torch, backend, params)))


def _sdpa_params(
    torch: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,  # noqa: ARG001 - of SDPA's signature
    enable_gqa: bool = False,
) -> Any:
    if not query.is_cuda:
        raise TypeError("torch tells reasons for CUDA only")
    return torch.backends.cuda.SDPAParams(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)


def _why_not(torch: Any, backend: str, params: Any) -> str | None:
    """Return torch's last word on why it cannot take an implementation; ``None`` if it can, or says nothing."""
    if not hasattr(torch.backends.cuda, _CAN_USE[backend]):
        return None
    ask = getattr(torch.backends.cuda, _CAN_USE[backend])

    class Question:
        """Stands for a tensor, so that torch asks it for the result of a function.

        Only then do the warnings become Python's, within this call: torch holds them back until the
        function of its own returns that runs, and that is the attention's.
        """

        @classmethod
        def __torch_function__(cls, *_: Any) -> Any:
            return ask(params, True)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if torch.relu(Question()):
            return None
    words = [str(one.message).partition(" (Triggered internally")[0].strip() for one in told]
    return words[-1].removesuffix(".") if words else None
