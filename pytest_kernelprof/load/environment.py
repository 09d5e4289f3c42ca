"""Where a trace was recorded, from its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..events import NO_DEVICE
from ..model import Environment
from ..occupancy import WARP_SIZE, Multiprocessor, processor_of
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
    distributed, devices = known.get("distributedInfo"), _devices(document)
    names = tuple(str(one["name"]) for one in devices if "name" in one)
    vendor = _vendor(document, names)
    capability = None if vendor == "amd" else _capability(devices)
    return Environment(
        vendor=vendor,
        devices=names,
        compute_capability=capability,
        arch=_arch(vendor, capability, recording),
        driver=_cuda_version(known.get("cuda_driver_version")),
        cuda=_cuda_version(known.get("cuda_runtime_version")) or (recording.cuda if recording else None),
        rocm=recording.rocm if recording else None,
        torch=recording.torch if recording else None,
        cudnn=recording.cudnn if recording else None,
        python=recording.python if recording else None,
        rank=integer(distributed.get("rank")) if isinstance(distributed, dict) else None,
    )


def processors(document: Document, vendor: str | None) -> dict[int, Multiprocessor]:
    """Return what one multiprocessor of each device holds; `NO_DEVICE` stands for any, if all are alike.

    AMD's compute capabilities look like NVIDIA's and mean something else: of other vendors nothing
    is known.

    Source:
        Kineto, ``deviceProperties``: the fields of ``cudaDeviceProp``.
    """
    found: dict[int, Multiprocessor] = {}
    devices = _devices(document)
    for device in devices if vendor == "nvidia" else []:
        number, warp = integer(device.get("id")), integer(device.get("warpSize"))
        limits = {
            "warps": (integer(device.get("maxThreadsPerMultiprocessor")) or 0) // WARP_SIZE,
            "registers": integer(device.get("regsPerMultiprocessor")) or 0,
            "shared_memory_bytes": integer(device.get("sharedMemPerMultiprocessor")) or 0,
        }
        processor = processor_of(_capability([device]), limits)
        if number is not None and number >= 0 and processor is not None and warp in (None, WARP_SIZE):
            found[number] = processor
    if len(found) == len(devices) and len(set(found.values())) == 1:
        found[NO_DEVICE] = next(iter(found.values()))
    return found


def _devices(document: Document) -> list[dict[str, Any]]:
    listed = document.metadata.get("deviceProperties")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


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


def _arch(vendor: str | None, capability: str | None, recording: Recording | None) -> str | None:
    """Return what the GPU runs, as compilers call it: ``sm90``, ``gfx942``."""
    if vendor == "nvidia" and capability is not None:
        return f"sm{capability.replace('.', '')}"
    return recording.arch if recording else None


def _capability(devices: list[dict[str, Any]]) -> str | None:
    pairs = [(integer(one.get("computeMajor")), integer(one.get("computeMinor"))) for one in devices]
    found = {f"{major}.{minor}" for major, minor in pairs if major is not None and minor is not None}
    return found.pop() if len(found) == 1 else None


def _cuda_version(value: Any) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return None
    return f"{value // 1000}.{value % 1000 // 10}"
