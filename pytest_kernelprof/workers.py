"""Which GPU an xdist worker uses, and who else does."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

from .units import counted

_NVIDIA, _AMD = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
_AMD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def take_gpu(worker: int, workers: int, environment: MutableMapping[str, str]) -> str | None:
    """Show this worker one GPU only, its own as long as there are enough; CUDA must not have started.

    Args:
        worker: Number of this worker, from 0.
        workers: How many there are.
        environment: The variables of this process.

    Returns:
        Why the worker shares its GPU all the same; ``None`` if it does not.
    """
    variable, visible = visible_gpus(environment)
    if not visible:
        return None if workers == 1 else f"{_together(workers)}; how many GPUs there are is not known"
    mine = worker % len(visible)
    environment[variable] = visible[mine]
    sharing = len(range(mine, workers, len(visible)))
    if sharing <= 1:
        return None
    return f"{sharing} of {workers} xdist workers share a GPU: there {_are(len(visible))}"


def share_gpu(workers: int) -> str | None:
    """Return why time is no measure where all workers use the same GPU; ``None`` for a single one."""
    return None if workers <= 1 else f"{_together(workers)}; kernelprof_devices = spread or -n 0 ends that"


def _together(workers: int) -> str:
    return f"{counted(workers, 'xdist worker')} may share the GPU"


def _are(number: int) -> str:
    return f"is {counted(number, 'GPU')}" if number == 1 else f"are {counted(number, 'GPU')}"


def visible_gpus(environment: MutableMapping[str, str]) -> tuple[str, list[str]]:
    """Return the GPUs that a process may use, and the variable that says so; CUDA is not started."""
    for variable in (_NVIDIA, _AMD):
        if variable in environment:
            return variable, [name for part in environment[variable].split(",") if (name := part.strip())]
    from .nvml import device_count

    count = device_count()
    if count is not None:
        return _NVIDIA, [str(index) for index in range(count)]
    return _AMD, [str(index) for index in range(_amd_gpus(_AMD_NODES))]


def _amd_gpus(nodes: Path) -> int:
    """Return how many AMD GPUs the kernel lists.

    Source:
        Linux, ``drivers/gpu/drm/amd/amdkfd/kfd_topology.c``: a node's ``gpu_id`` is 0 for a CPU.
    """
    files = sorted(nodes.glob("*/gpu_id"))
    return sum(file.read_text().strip() not in ("", "0") for file in files)
