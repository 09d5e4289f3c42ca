"""Which devices there are, which are in use, and whether they still work."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .. import driver
from ..errors import CaptureError
from ..options import DeviceRequirement


@dataclass(slots=True)
class Health:
    """Whether the GPU can still be used in this process.

    Attributes:
        lost_in: The test in which the CUDA context was lost; ``None`` while it lives.
    """

    lost_in: str | None = None

    def why(self) -> str:
        """Return the reason that later tests give."""
        return f"CUDA context lost in {self.lost_in}"


def import_torch() -> Any:
    """Return torch.

    Raises:
        CaptureError: It is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise CaptureError(f"profiling needs torch: pip install 'pytest-kernelprof[torch]' ({error})") from None
    return torch


def missing_device(requirement: DeviceRequirement) -> str | None:
    """Return why the device that a test needs is not there, or ``None`` if it is."""
    if not requirement.is_gpu:
        return None
    try:
        torch = import_torch()
    except CaptureError as error:
        return f"needs {requirement}: {error}"
    kind = _present_kind(torch)
    if kind is None or requirement.kind not in ("gpu", kind):
        there = {None: "no GPU", "cuda": "a CUDA GPU", "rocm": "a ROCm GPU", "xpu": "an XPU"}[kind]
        return f"needs {requirement}: torch {torch.__version__} finds {there} here"
    if requirement.minimum is not None:
        if kind != "cuda":
            return f"needs {requirement}: {kind} devices have no compute capability"
        found = torch.cuda.get_device_capability()
        if tuple(found) < requirement.minimum:
            return f"needs {requirement}: compute capability {found[0]}.{found[1]} here"
    return None


def _present_kind(torch: Any) -> str | None:
    if torch.cuda.is_available():
        return "rocm" if torch.version.hip else "cuda"
    xpu = getattr(torch, "xpu", None)
    return "xpu" if xpu is not None and xpu.is_available() else None


def device_of(requirement: DeviceRequirement | None) -> Any:
    """Return the ``torch.device`` on which a test builds its inputs: what it asks for, else the best."""
    torch = import_torch()
    kind = _present_kind(torch) if requirement is None or requirement.is_gpu else None
    return torch.device({"rocm": "cuda", None: "cpu"}.get(kind, kind))


def create_context(requirement: DeviceRequirement) -> None:
    """Create the GPU context that ``device=`` promises, so that the GPU is watched from the start."""
    torch = import_torch()
    torch.empty(1, device=device_of(requirement))


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A GPU in use.

    Attributes:
        kind: ``cuda`` or ``xpu``, as torch names the module; ROCm goes by ``cuda``.
        index: Its index.
    """

    kind: str
    index: int

    @property
    def device(self) -> str:
        """Return its name for torch."""
        return f"{self.kind}:{self.index}"


def with_context(torch: Any) -> list[Accelerator]:
    """Return the devices that already have a context; none is created."""
    found = []
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    if torch.cuda.is_initialized() and has_context is not None:
        found += [Accelerator("cuda", i) for i in range(torch.cuda.device_count()) if has_context(i)]
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available() and xpu.is_initialized():
        found.append(Accelerator("xpu", xpu.current_device()))
    return found


def synchronize(torch: Any, accelerators: list[Accelerator]) -> None:
    """Wait for every device of the list: ``torch.cuda.synchronize()`` alone covers the current one."""
    for accelerator in accelerators:
        getattr(torch, accelerator.kind).synchronize(accelerator.index)


def check_health(health: Health, where: str) -> None:
    """Notice that the CUDA context was lost, if a device no longer answers.

    Args:
        health: Is told.
        where: The test to name.
    """
    if health.lost_in is not None:
        return
    torch = import_torch()
    try:
        synchronize(torch, with_context(torch))
    except RuntimeError:
        health.lost_in = where


@contextmanager
def noticing_loss(health: Health, test: str, error: BaseException | None = None) -> Iterator[None]:
    """Notice when the GPU does not survive: after a device-side assert every CUDA call fails."""
    try:
        yield
    except Exception as raised:
        check_health(health, test)
        if health.lost_in == test and not isinstance(raised, CaptureError):
            raise CaptureError(f"the CUDA context was lost: {str(raised).splitlines()[0]}") from raised
        raise
    if error is not None:
        check_health(health, test)


def cuda_has_begun() -> bool:
    """Return whether CUDA was started in this process: from then on nobody can change which GPUs it sees."""
    torch = sys.modules.get("torch")
    if driver.cuda_has_begun():
        return True
    # Whether HIP has begun, nothing tells: with torch there it may have.
    return torch is not None and bool(torch.version.hip or torch.cuda.is_initialized())


@contextmanager
def quiet() -> Iterator[None]:
    """Keep torch's own warnings about profiling out of the test, where they could be errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
