"""What the category of a row says it is."""

from __future__ import annotations

from .own import STEP_PREFIX

OP, ANNOTATION, CALL, TRACE, IGNORED, UNKNOWN = "op", "annotation", "call", "trace", "ignored", "unknown"
KERNEL, MEMCPY, MEMSET = "kernel", "memcpy", "memset"

_KINDS: dict[str | None, str] = {
    **dict.fromkeys(("cpu_op", "operator"), OP),
    "user_annotation": ANNOTATION,
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver"), CALL),
    "kernel": KERNEL,
    **dict.fromkeys(("gpu_memcpy", "memcpy"), MEMCPY),
    **dict.fromkeys(("gpu_memset", "memset"), MEMSET),
    "trace": TRACE,
    # Rows that say nothing about what was launched: they repeat, describe or decorate.
    **dict.fromkeys(("gpu_user_annotation", "python_function", "python", "overhead", "cuda_sync"), IGNORED),
    **dict.fromkeys(("ac2g", "async_cpu_to_gpu", "cpu_to_cuda", "fwdbwd", "forward_backward"), IGNORED),
    **dict.fromkeys(("cpu_instant_event", "cuda_profiler_range", "cuda_event", "collective_comm"), IGNORED),
}
"""Categories in lower case: releases before 1.12 wrote ``Operator``, ``Kernel``, ``Runtime``."""

_ACCELERATORS = ("hpu", "mtia", "glow", "privateuse1", "npu", "mlu", "musa", "tpu", "async_npu")
"""How the categories of devices begin that nobody here can count, whatever their rows hold."""


PHASES = frozenset("XBEiICbneSTpFstfPNODMVvRc()")
"""Every phase of the Trace Event Format."""


def kind_of(category: str | None) -> str:
    """Return what rows of this category are."""
    return _KINDS.get(category) or _KINDS.get((category or "").lower(), UNKNOWN)


def is_counted(category: str | None) -> bool:
    """Return whether any count depends on rows of this category."""
    return kind_of(category) not in (IGNORED, UNKNOWN)


def is_step(name: str) -> bool:
    """Return whether a range of this name is a step."""
    return name.startswith(STEP_PREFIX) and name[len(STEP_PREFIX) :].isdecimal()


def is_accelerator(category: str | None) -> bool:
    """Return whether rows of this category come from a device that nobody here can count."""
    return category is not None and category.lower().startswith(_ACCELERATORS)
