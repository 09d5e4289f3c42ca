"""What torch and the machine say of themselves, and a small function to try profiling on."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from ..options import DeviceRequirement, Settings
from .calls import Target, profile_calls
from .devices import Health, create_context, import_torch
from .session import profiler_active

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
    kind = "xpu" if getattr(torch, "xpu", None) is not None and torch.xpu.is_available() else "cuda"
    module = getattr(torch, kind)
    count = module.device_count() if module.is_available() else 0
    supported = {str(one).rpartition(".")[2].lower() for one in torch.profiler.supported_activities()}
    return Machine(
        torch=str(torch.__version__),
        cuda=torch.version.cuda,
        rocm=torch.version.hip,
        cupti=_cupti(),
        gpus=tuple(module.get_device_name(index) for index in range(count)),
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
    device: Any = "cpu"
    if on_gpu:
        device = "xpu" if getattr(torch, "xpu", None) is not None and torch.xpu.is_available() else "cuda"
        create_context(DeviceRequirement("gpu"))
    numbers = torch.ones(1024, device=device)
    target = Target.here(torch.add, (numbers, 1), {}, Settings())
    profile_calls(target, health=Health(), path=path, test="kernelprof doctor")
