"""Where a trace was recorded, from its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..model import Environment
from .numbers import integer
from .reading import Document

if TYPE_CHECKING:
    from .recording import Recording


def environment(document: Document, recording: Recording | None) -> Environment:
    """Return what the metadata of a trace say about its machine.

    Source:
        Kineto, ``output_json.cpp``: ``deviceProperties``, ``cuda_*_version`` (1000 * major + 10 *
        minor), ``distributedInfo`` as torch.profiler adds it.
    """
    known = document.metadata
    distributed, listed = known.get("distributedInfo"), known.get("deviceProperties")
    listed = listed if isinstance(listed, list) else []
    devices = [one for one in listed if isinstance(one, dict)]
    names = tuple(str(one["name"]) for one in devices if "name" in one)
    vendor = _vendor(document, names)
    return Environment(
        vendor=vendor,
        devices=names,
        compute_capability=None if vendor == "amd" else _capability(devices),
        driver=_cuda_version(known.get("cuda_driver_version")),
        cuda=_cuda_version(known.get("cuda_runtime_version")) or (recording.cuda if recording else None),
        rocm=recording.rocm if recording else None,
        torch=recording.torch if recording else None,
        cudnn=recording.cudnn if recording else None,
        python=recording.python if recording else None,
        rank=integer(distributed.get("rank")) if isinstance(distributed, dict) else None,
    )


def _vendor(document: Document, names: tuple[str, ...]) -> str | None:
    """Return whose GPU it was: the metadata says so, or the names of the calls do."""
    known = document.metadata
    if known.get("hip_runtime_version") is not None or any("AMD" in name for name in names):
        return "amd"
    if known.get("cuda_runtime_version") is not None or any("NVIDIA" in name for name in names):
        return "nvidia"
    calls = set(document.columns.calls.names)
    for vendor, prefixes in (("amd", ("hip",)), ("nvidia", ("cuda", "cu")), ("intel", ("ur", "pi", "ze"))):
        if any(name.startswith(prefixes) for name in calls):
            return vendor
    return None


def _capability(devices: list[dict[str, Any]]) -> str | None:
    pairs = [(integer(one.get("computeMajor")), integer(one.get("computeMinor"))) for one in devices]
    found = {f"{major}.{minor}" for major, minor in pairs if major is not None and minor is not None}
    return found.pop() if len(found) == 1 else None


def _cuda_version(value: Any) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return None
    return f"{value // 1000}.{value % 1000 // 10}"
