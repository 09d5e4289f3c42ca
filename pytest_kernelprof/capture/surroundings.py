"""What a call inherits from the place it is made at: modes, switches, stream and device.

A function that is called again later must be called under what held at first: after ``with
sdpa_kernel(MATH):`` has ended, the same call picks another backend.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

Surroundings = dict[str, Any]
"""Values by the name of what they are of."""


class _Switch(NamedTuple):
    get: Callable[[], Any]
    set: Callable[[Any], Any]


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


@contextmanager
def under(torch: Any, wanted: Surroundings) -> Iterator[None]:
    """Let what held earlier hold again; nothing is touched that is as it was."""
    switches = _switches(torch)
    with ExitStack() as stack:
        for name, value in wanted.items():
            # Read one by one: inference mode turns gradients off and on as well.
            now = _value(switches[name])
            if now in (None, value):
                continue
            if name == "inference":
                stack.enter_context(torch.inference_mode(value))
                continue
            switches[name].set(value)
            stack.callback(switches[name].set, now)
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
    both = [name for name in one if name in other and name.startswith("autocast ") and isinstance(one[name], tuple)]
    return any(one[name][0] and other[name][0] and one[name][1] != other[name][1] for name in both)


def _switches(torch: Any) -> dict[str, _Switch]:
    """Return what can be read and set, in the order in which it must be set."""
    cuda, attention, cudnn = torch.cuda, torch.backends.cuda, torch.backends.cudnn
    found: dict[str, _Switch] = {}
    if cuda.is_initialized():
        found["device"] = _Switch(cuda.current_device, cuda.set_device)
        found["stream"] = _Switch(cuda.current_stream, cuda.set_stream)
    found["inference"] = _Switch(torch.is_inference_mode_enabled, _nothing)
    found["grad"] = _Switch(torch.is_grad_enabled, torch.set_grad_enabled)
    for kind in ("cpu", "cuda", "xpu"):
        found[f"autocast {kind}"] = _autocast(torch, kind)
    found["autocast nesting"] = _Switch(lambda: _nesting(torch), lambda value: _nest(torch, value))
    found["autocast cache"] = _Switch(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled)
    for backend, name in (("flash", "flash"), ("efficient", "mem_efficient"), ("math", "math"), ("cudnn", "cudnn")):
        enabled, enable = getattr(attention, f"{name}_sdp_enabled"), getattr(attention, f"enable_{name}_sdp")
        found[f"sdpa {backend}"] = _Switch(enabled, enable)
    order = _Switch(lambda: torch._C._get_sdp_priority_order(), lambda value: torch._C._set_sdp_priority_order(value))
    found["sdpa order"] = order
    found["deterministic"] = _Switch(lambda: _determinism(torch), lambda value: _be_deterministic(torch, *value))
    found["float32 matmul"] = _Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)
    found["threads"] = _Switch(torch.get_num_threads, torch.set_num_threads)
    found["default dtype"] = _Switch(torch.get_default_dtype, torch.set_default_dtype)
    for name in ("enabled", "benchmark", "deterministic", "allow_tf32"):
        found[f"cudnn {name}"] = _attribute(cudnn, name)
    return found


def _nothing(_: Any) -> None:
    """Do nothing: inference mode has no setter, and is entered."""


def _autocast(torch: Any, kind: str) -> _Switch:
    def switch(value: tuple[bool, Any]) -> None:
        torch.set_autocast_enabled(kind, value[0])
        torch.set_autocast_dtype(kind, value[1])

    return _Switch(lambda: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)), switch)


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
    return _Switch(lambda: getattr(owner, name), lambda value: setattr(owner, name, value))
