"""What torch and the machine say of themselves, and a small function to try profiling on."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from ..options import DeviceRequirement, Settings
from .calls import Target, profile_calls
from .devices import Health, create_context, device_of, import_torch
from .session import profiler_active

_A_GPU = DeviceRequirement("gpu")
_CUPTI_PACKAGES = ("nvidia-cuda-cupti", "nvidia-cuda-cupti-cu13", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti-cu11")


class Machine(NamedTuple):
    """What is there to profile with.

    Attributes:
        torch: Version of torch.
        cuda: CUDA version that torch was built for.
        rocm: ROCm version that torch was built for.
        cupti: Version of the CUPTI package that came with torch; ``None`` if it came another way.
        gpus: Names of the GPUs that torch finds.
        records_gpu: Whether this build of torch records GPU events.
        profiler_active: Whether a torch profiler runs already.
    """

    torch: str
    cuda: str | None
    rocm: str | None
    cupti: str | None
    gpus: tuple[str, ...]
    records_gpu: bool
    profiler_active: bool


def machine() -> Machine:
    """Look at torch and its devices.

    Raises:
        CaptureError: torch is not installed.
    """
    torch = import_torch()
    kind = device_of(_A_GPU).type
    gpus = getattr(torch, kind) if kind != "cpu" else None
    supported = {str(one).rpartition(".")[2].lower() for one in torch.profiler.supported_activities()}
    return Machine(
        torch=str(torch.__version__),
        cuda=torch.version.cuda,
        rocm=torch.version.hip,
        cupti=_cupti(),
        gpus=tuple(gpus.get_device_name(index) for index in range(gpus.device_count())) if gpus is not None else (),
        records_gpu=bool(supported & {"cuda", "xpu"}),
        profiler_active=profiler_active(torch),
    )


def _cupti() -> str | None:
    for package in _CUPTI_PACKAGES:
        try:
            return version(package)
        except PackageNotFoundError:  # noqa: PERF203 - there are four
            continue
    return None


def profile_something(path: Path, *, on_gpu: bool) -> None:
    """Profile a function that adds 1 to a few numbers, on the first GPU or on the CPU.

    Args:
        path: The trace file to write.
        on_gpu: Whether it runs on a GPU.

    Raises:
        CaptureError: It cannot be profiled.
    """
    torch = import_torch()
    needed = _A_GPU if on_gpu else DeviceRequirement("cpu")
    if on_gpu:
        create_context(needed)
    numbers = torch.ones(1024, device=device_of(needed))
    target = Target.here(torch.add, (numbers, 1), {}, Settings())
    profile_calls(target, health=Health(), path=path, test="kernelprof doctor")
