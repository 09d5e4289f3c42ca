"""Which GPU an xdist worker uses, and who else does."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from itertools import takewhile
from pathlib import Path

from . import driver

_NVIDIA, _AMD, _AMD_BELOW = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
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
    variable, visible = _visible_gpus(environment)
    if not visible:
        return together(workers, ": how many GPUs there are is not known")
    mine = worker % len(visible)
    environment[variable] = visible[mine]
    if worker >= workers:
        return "this xdist worker replaces one that crashed, and may share its GPU with another"
    sharing = len(range(mine, workers, len(visible)))
    return None if sharing <= 1 else f"{sharing} of {workers} xdist workers share a GPU ({len(visible)} in all)"


def together(workers: int, why: str) -> str | None:
    """Return that the workers use the same GPU as far as anybody knows, and *why*; ``None`` for a single one."""
    return None if workers == 1 else f"{workers} xdist workers may share the GPU{why}"


def _visible_gpus(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the variable that says which GPUs a process may use, and those; CUDA is not started.

    Source:
        CUDA C++ Programming Guide, ``CUDA_VISIBLE_DEVICES``: what follows an invalid entry is not
        visible. ROCm, GPU isolation: ``HIP_VISIBLE_DEVICES`` counts among ``ROCR_VISIBLE_DEVICES``.
    """
    if _NVIDIA in environment and _AMD in environment:
        return _AMD, []  # Which of them counts, the GPU decides.
    for variable in (_NVIDIA, _AMD):
        if variable in environment:
            return variable, _listed(environment[variable])
    if _AMD_BELOW in environment:
        return _AMD, [str(index) for index in range(len(_listed(environment[_AMD_BELOW])))]
    count = driver.device_count()
    if count is not None:
        return _NVIDIA, [str(index) for index in range(count)]
    return _AMD, [str(index) for index in range(_amd_gpus(_AMD_NODES))]


def _listed(text: str) -> list[str]:
    """Return the GPUs that a variable lists, each once."""
    names = takewhile(lambda name: not name.startswith("-"), (part.strip() for part in text.split(",")))
    return [name for name in dict.fromkeys(names) if name]


def _amd_gpus(nodes: Path) -> int:
    """Return how many AMD GPUs the kernel lists.

    Source:
        Linux, ``drivers/gpu/drm/amd/amdkfd/kfd_topology.c``: a node's ``gpu_id`` is 0 for a CPU.
    """
    files = sorted(nodes.glob("*/gpu_id"))
    return sum(file.read_text().strip() not in ("", "0") for file in files)
