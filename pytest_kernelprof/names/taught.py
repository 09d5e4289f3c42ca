"""What others teach about their kernels: checked before it is believed."""

from __future__ import annotations

from typing import Any

from ..errors import MisuseError, instead
from .dtypes import DTYPES
from .kernel_name import ROLES, TENSOR_CORES, KernelName, Part

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "role": ROLES,
    "tensor_cores": TENSOR_CORES,
    "direction": (None, "forward", "backward"),
}
_TEXTS = ("library", "arch", "tile", "instruction", "attention_backend")


def checked(value: Any, source: str) -> KernelName | None:
    """Return what a hook answered about a name, in the form that the rules use.

    Args:
        value: The answer: a `KernelName`, or ``None`` for a name that is not its own.
        source: The hook, for errors.

    Raises:
        MisuseError: It is neither, or a field holds what no name can be.
    """
    if value is None:
        return None
    if not isinstance(value, KernelName):
        raise MisuseError(f"{source} returned {_short(value)}; accepted: a KernelName, or None")
    for field, accepted in _CHOICES.items():
        _choose(source, field, getattr(value, field), accepted)
    for field in _TEXTS:
        text = getattr(value, field)
        if (not isinstance(text, str) and text is not None) or (field == "library" and not text):
            raise MisuseError(f"{source} returned {field}={_short(text)}; accepted: text")
    dtypes = _texts(source, "dtypes", value.dtypes)
    for dtype in dtypes:
        _choose(source, "dtypes", dtype, DTYPES)
    return value._replace(
        dtypes=dtypes, fused_ops=_texts(source, "fused_ops", value.fused_ops), parts=_parts(source, value.parts)
    )


def _choose(source: str, field: str, value: Any, accepted: tuple[str | None, ...]) -> None:
    if value not in accepted:
        told = instead(value, filter(None, accepted))
        raise MisuseError(f"{source} returned {field}={_short(value)}; {told}")


def _texts(source: str, field: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, (tuple, list)) or not all(isinstance(value, str) for value in values):
        raise MisuseError(f"{source} returned {field}={_short(values)}; accepted: a tuple of texts")
    return tuple(values)


def _parts(source: str, parts: Any) -> tuple[Part, ...]:
    pairs = isinstance(parts, (tuple, list)) and all(
        isinstance(part, tuple) and len(part) == 2 and all(isinstance(text, str) for text in part) for part in parts
    )
    if not pairs:
        raise MisuseError(f"{source} returned parts={_short(parts)}; accepted: pairs of a piece and its meaning")
    return tuple(Part(*part) for part in parts)


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 80 else f"{told[:77]}..."
