"""Where a trace was recorded, from its metadata."""

from __future__ import annotations

from typing import Any

from ..model import Environment
from .reading import Document, integer
from .recording import Recording


def environment(document: Document, recording: Recording | None) -> Environment:
    """Return what the metadata of a trace say about its machine.

    Source:
        Kineto, ``output_json.cpp``: ``deviceProperties``, ``cuda_*_version`` (1000 * major + 10 *
        minor), ``distributedInfo`` as torch.profiler adds it.
    """
    distributed = document.distributedInfo
    listed = document.deviceProperties if isinstance(document.deviceProperties, list) else []
    devices = [one for one in listed if isinstance(one, dict)]
    names = tuple(str(one["name"]) for one in devices if "name" in one)
    amd = document.hip_runtime_version is not None or any("AMD" in name for name in names)
    nvidia = document.cuda_runtime_version is not None or any("NVIDIA" in name for name in names)
    return Environment(
        vendor="amd" if amd else "nvidia" if nvidia else None,
        devices=names,
        compute_capability=None if amd else _capability(devices),
        driver=_cuda_version(document.cuda_driver_version),
        cuda=_cuda_version(document.cuda_runtime_version) or (recording.cuda if recording else None),
        rocm=recording.rocm if recording else None,
        torch=recording.torch if recording else None,
        cudnn=recording.cudnn if recording else None,
        python=recording.python if recording else None,
        rank=integer(distributed.get("rank")) if isinstance(distributed, dict) else None,
    )


def _capability(devices: list[dict[str, Any]]) -> str | None:
    pairs = [(integer(one.get("computeMajor")), integer(one.get("computeMinor"))) for one in devices]
    found = {f"{major}.{minor}" for major, minor in pairs if major is not None and minor is not None}
    return found.pop() if len(found) == 1 else None


def _cuda_version(value: Any) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return None
    return f"{value // 1000}.{value % 1000 // 10}"
