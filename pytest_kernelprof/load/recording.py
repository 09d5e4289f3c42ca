"""What a recording made by this plugin says of itself, in the trace's metadata."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The plugin's own note in a trace.

    Attributes:
        steps: How many steps were recorded.
        canary_devices: GPUs on which a canary kernel was launched.
        no_gpu: Why no GPU was watched; ``None`` if one was.
        torch: Version of torch.
        cuda: CUDA version that torch was built for.
        rocm: ROCm version that torch was built for.
        cudnn: Version of cuDNN.
        python: Version of Python.
        plugin: Version of this package.
    """

    steps: int
    canary_devices: tuple[int, ...] = ()
    no_gpu: str | None = None
    torch: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    cudnn: str | None = None
    python: str | None = None
    plugin: str | None = None

    def to_json(self) -> str:
        """Return the note as the JSON value that stands in the trace."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, value: Any) -> Recording | None:
        """Return the note found in a trace; ``None`` in a foreign one."""
        if not isinstance(value, dict) or not isinstance(value.get("steps"), int):
            return None
        known = {field.name for field in fields(cls)}
        arguments = {key: item for key, item in value.items() if key in known}
        arguments["canary_devices"] = tuple(arguments.get("canary_devices") or ())
        return cls(**arguments)
