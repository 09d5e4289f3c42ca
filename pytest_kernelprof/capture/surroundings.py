"""What a call inherits from the place it is made at: modes, switches, stream and device.

A function that is called again later must be called under what held at first: after ``with
sdpa_kernel(MATH):`` has ended, the same call picks another backend.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

Surroundings = dict[str, Any]
"""Values by the name of what they are of."""

_AUTOCAST_KINDS = ("cpu", "cuda", "xpu")
_ORDER = "sdpa order"


class _Switch(NamedTuple):
    """Something that holds at a place.

    Attributes:
        get: Returns what it is at.
        hold: Returns a context manager in which it is at a value; is given that, and what it is at now.
    """

    get: Callable[[], Any]
    hold: Callable[[Any, Any], AbstractContextManager[Any]]


def _switch(get: Callable[[], Any], put: Callable[[Any], Any]) -> _Switch:
    """Return a switch that is put to a value, and put back."""

    @contextmanager
    def hold(value: Any, now: Any) -> Iterator[None]:
        put(value)
        try:
            yield
        finally:
            put(now)

    return _Switch(get, hold)


def surroundings_of(torch: Any) -> Surroundings:
    """Return what holds now."""
    values = {name: _value(switch) for name, switch in _switches(torch).items()}
    return {name: value for name, value in values.items() if value is not None}


def _value(switch: _Switch) -> Any:
    """Return what a switch is at; ``None`` if this torch lacks it, or does not tell."""
    with warnings.catch_warnings(), suppress(AttributeError, RuntimeError, TypeError):
        warnings.simplefilter("ignore")  # Of switches that are about to change their names.
        return switch.get()
    return None


def settle(torch: Any, surroundings: Surroundings) -> None:
    """Bring up to date, after calls, what torch itself decides in the first of a process.

    Source:
        torch, ``transformers/cuda/sdp_utils.cpp``: where cuDNN's attention is preferred (Hopper), the first
        call of SDPA puts it first in the order, for good. What was read before that call is torch's
        untouched order, under which the same call takes another implementation.
    """
    order = _value(_switches(torch)[_ORDER])
    if order is not None:
        surroundings[_ORDER] = order


@contextmanager
def under(torch: Any, wanted: Surroundings) -> Iterator[None]:
    """Let what held earlier hold again; nothing is touched that is as it was."""
    switches = _switches(torch)
    with ExitStack() as stack:
        for name, value in wanted.items():
            # Read one by one: inference mode turns gradients off and on as well.
            now = _value(switches[name])
            if now not in (None, value):
                stack.enter_context(switches[name].hold(value, now))
        yield


@contextmanager
def casting_anew(torch: Any) -> Iterator[None]:
    """Begin and end without what autocast has cast and keeps.

    In between it is kept, as it was while a function was profiled within ``with torch.autocast``:
    otherwise every call would cast its weights again.
    """
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        torch.clear_autocast_cache()


def casts_clash(one: Surroundings, other: Surroundings) -> bool:
    """Return whether autocast casts to one type here and to another there: it would find what was cast there."""
    off = (False, None)
    both = [(one.get(f"autocast {kind}", off), other.get(f"autocast {kind}", off)) for kind in _AUTOCAST_KINDS]
    return any(here[0] and there[0] and here[1] != there[1] for here, there in both)


def _switches(torch: Any) -> dict[str, _Switch]:
    """Return what can be read and set, in the order in which it must be set."""
    cuda, attention, cudnn = torch.cuda, torch.backends.cuda, torch.backends.cudnn
    found: dict[str, _Switch] = {}
    if cuda.is_initialized():
        found["device"] = _switch(cuda.current_device, cuda.set_device)
        found["stream"] = _switch(cuda.current_stream, cuda.set_stream)
    found["default device"] = _Switch(lambda: torch.get_default_device(), lambda value, _: value)
    found["inference"] = _Switch(torch.is_inference_mode_enabled, lambda value, _: torch.inference_mode(value))
    found["grad"] = _switch(torch.is_grad_enabled, torch.set_grad_enabled)
    for kind in _AUTOCAST_KINDS:
        found[f"autocast {kind}"] = _autocast(torch, kind)
    found["autocast nesting"] = _switch(lambda: _nesting(torch), lambda value: _nest(torch, value))
    found["autocast cache"] = _switch(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled)
    for backend, name in (("flash", "flash"), ("efficient", "mem_efficient"), ("math", "math"), ("cudnn", "cudnn")):
        enabled, enable = getattr(attention, f"{name}_sdp_enabled"), getattr(attention, f"enable_{name}_sdp")
        found[f"sdpa {backend}"] = _switch(enabled, enable)
    order = _switch(lambda: torch._C._get_sdp_priority_order(), lambda value: torch._C._set_sdp_priority_order(value))
    found[_ORDER] = order
    found["deterministic"] = _switch(lambda: _determinism(torch), lambda value: _be_deterministic(torch, *value))
    found["float32 matmul"] = _switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)
    found["threads"] = _switch(torch.get_num_threads, torch.set_num_threads)
    found["default dtype"] = _switch(torch.get_default_dtype, torch.set_default_dtype)
    for name in ("enabled", "benchmark", "deterministic", "allow_tf32"):
        found[f"cudnn {name}"] = _attribute(cudnn, name)
    return found


def _autocast(torch: Any, kind: str) -> _Switch:
    def put(value: tuple[bool, Any]) -> None:
        torch.set_autocast_enabled(kind, value[0])
        torch.set_autocast_dtype(kind, value[1])

    return _switch(lambda: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)), put)


def _nesting(torch: Any) -> int:
    """Return how many autocast blocks are open: the outermost forgets what was cast when it ends."""
    torch.autocast_increment_nesting()
    depth: int = torch.autocast_decrement_nesting()
    return depth


def _nest(torch: Any, depth: int) -> None:
    while _nesting(torch) < depth:
        torch.autocast_increment_nesting()
    while _nesting(torch) > depth:
        torch.autocast_decrement_nesting()


def _determinism(torch: Any) -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _be_deterministic(torch: Any, mode: bool, warn_only: bool) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


def _attribute(owner: Any, name: str) -> _Switch:
    return _switch(lambda: getattr(owner, name), lambda value: setattr(owner, name, value))
