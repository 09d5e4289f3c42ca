"""What a recording made by this plugin says of itself, in the trace's metadata."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..memory import Allocated, DeviceMemory, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The plugin's own note in a trace.

    Attributes:
        steps: How many steps were recorded.
        canary_devices: GPUs on which a canary kernel was launched.
        no_gpu: Why no GPU was watched; ``None`` if one was.
        warmup: Calls before the first recorded one.
        function: Name of the profiled function, without its module; ``None`` for a block.
        module: Last part of the name of the function's module.
        arguments: What it was given, tensors by dtype and shape; ``None`` where ``setup=`` made it.
        setup: Whether ``setup=`` made the arguments.
        activities: What torch.profiler was asked to record; ``None``: whatever is there.
        requires: What the test's ``device=`` asked for.
        test: Id of the test.
        date: When it was recorded, ISO 8601 in UTC.
        device: Name of the GPU.
        arch: What an AMD GPU runs, such as ``gfx942``; an NVIDIA GPU's follows from its compute capability.
        driver: Version of the GPU driver.
        torch: Version of torch.
        cuda: CUDA version that torch was built for.
        rocm: ROCm version that torch was built for.
        cudnn: Version of cuDNN.
        python: Version of Python.
        plugin: Version of this package.
        allocator: A dictionary a step and device, from torch's caching allocator: ``step``,
            ``device``, ``peak_bytes`` above the start of the step, ``allocated_bytes`` in total
            during it, ``driver_allocations``, the calls by which it asked the driver for memory.
        allocated: A list ``[device, bytes, blocks, [op, ...]]`` for each chain of ops that was given GPU
            memory in the last call of the warm-up; ``None`` if nobody looked.
        no_allocator: Why the allocator told nothing; ``None`` if it did, or no GPU was watched.
        shared_gpu: Who else used the GPU during the recording; ``None`` if nobody is known to have.
        against: What the function is, in the same words (``function``, ``module``, ``arguments``, ``warmup``,
            ``setup``), whose calls alternate with those of `function`; see `side_of`.
        seal: Digest of everything in the file but itself, in one that `recordings` wrote.
    """

    steps: int
    canary_devices: tuple[int, ...] = ()
    no_gpu: str | None = None
    warmup: int | None = None
    function: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] | None = None
    setup: bool = False
    activities: tuple[str, ...] | None = None
    requires: str | None = None
    test: str | None = None
    date: str | None = None
    device: str | None = None
    arch: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    cudnn: str | None = None
    python: str | None = None
    plugin: str | None = None
    allocator: tuple[dict[str, int], ...] = ()
    allocated: tuple[Any, ...] | None = None
    no_allocator: str | None = None
    shared_gpu: str | None = None
    against: dict[str, Any] | None = None
    seal: str | None = None

    @property
    def test_module(self) -> str:
        """Name of the test's file, without its ending."""
        return Path((self.test or "").partition("::")[0]).stem

    @property
    def where(self) -> str:
        """The device, in words for messages."""
        return self.device or "a machine without a GPU"

    @property
    def day(self) -> str:
        """Date without the time."""
        return (self.date or "")[:10]

    def memory_of(self, step: int, untimed: str | None) -> Memory:
        """Return what the allocator did in a step; *untimed* is why the step itself is not whole."""
        why = self.no_allocator or self.no_gpu or untimed
        entries = [one for one in self.allocator if isinstance(one, dict) and one.get("step") == step]
        devices = [[one.get(name) for name in DeviceMemory._fields] for one in entries]
        numbers = [value for device in devices for value in device if type(value) is int]
        if why is None and (not devices or len(numbers) < len(devices) * len(DeviceMemory._fields)):
            why = "the recording holds no allocator statistics of the step"
        if why is None and min(numbers) < 0:
            why = "the function reset the allocator's statistics"
        return Memory((), why) if why else Memory(tuple(map(DeviceMemory._make, devices)))

    def known_allocated(self) -> tuple[Allocated, ...]:
        """Return who was given GPU memory in the last call of the warm-up, as far as the note can be read."""
        found = []
        for entry in self.allocated or ():
            if not isinstance(entry, (list, tuple)) or len(entry) != 4:
                continue
            device, size, blocks, chain = entry
            if all(type(value) is int for value in (device, size, blocks)) and isinstance(chain, (list, tuple)):
                found.append(Allocated(device, size, blocks, tuple(map(str, chain))))
        return tuple(found)

    def to_json(self) -> str:
        """Return the note as the JSON value that stands in the trace, in a stable order.

        Kineto writes ``/`` for every backslash in metadata (seen on torch 2.11 and 2.13), so that no
        text in it may need one: what would is written as in an URL.
        """
        return json.dumps({**_without_backslashes(asdict(self)), _ESCAPED: True}, sort_keys=True)

    @classmethod
    def of(cls, value: Any) -> Recording | None:
        """Return the note found in a trace; ``None`` in a foreign one."""
        if not isinstance(value, dict) or type(value.get("steps")) is not int:
            return None
        known = {field.name for field in fields(cls)}
        arguments = {key: item for key, item in value.items() if key in known}
        if value.get(_ESCAPED) is True:
            arguments = _with_backslashes(arguments)
        for name in ("canary_devices", "allocator", "allocated", "arguments", "activities"):
            listed = arguments.get(name)
            if listed is not None and not isinstance(listed, (list, tuple)):
                return None
            arguments[name] = None if listed is None else tuple(listed)
        arguments["canary_devices"] = arguments["canary_devices"] or ()
        arguments["allocator"] = arguments["allocator"] or ()
        if not isinstance(arguments.get("against"), (dict, type(None))):
            return None
        texts = (item for key, item in arguments.items() if key in _TEXTS)
        return cls(**arguments) if all(item is None or isinstance(item, str) for item in texts) else None


_ESCAPED = "escaped"
"""Stands in a note whose texts are written as `_without_backslashes` does."""


def _without_backslashes(value: Any) -> Any:
    """Return plain values whose texts JSON writes without a backslash."""
    if isinstance(value, str):
        return "".join(
            f"%{byte:02X}" if byte in b'%"\\' or not 32 <= byte < 127 else chr(byte)
            for byte in value.encode(errors="surrogatepass")
        )
    return _applied(_without_backslashes, value)


def _with_backslashes(value: Any) -> Any:
    """Return what `_without_backslashes` was given."""
    if isinstance(value, str):
        from urllib.parse import unquote  # Importing it takes as long as reading a small trace.

        return unquote(value, errors="surrogatepass")
    return _applied(_with_backslashes, value)


def _applied(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: change(item) for key, item in value.items()}
    return [change(item) for item in value] if isinstance(value, (list, tuple)) else value


_TEXTS = (
    *("no_gpu", "function", "module", "requires", "test", "date", "device", "arch", "driver"),
    *("torch", "cuda", "rocm", "cudnn", "python", "plugin", "seal", "no_allocator", "shared_gpu"),
)
