"""Whether this machine can measure what a GPU does: what was looked at, what is wrong, and the cure."""

from __future__ import annotations

import os
import platform
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from . import __version__
from .capture import Machine, machine, profile_something
from .errors import CaptureError, KernelprofError
from .files import write_at_once
from .load import load_trace
from .model import CLASSES, Trace
from .report.show import printable
from .units import counted

OK, WRONG, UNKNOWN, NOTE = "ok", "wrong", "unknown", "note"
_INJECTED = {
    "CUDA_INJECTION64_PATH": "a CUDA tool is injected into processes",
    "CUDA_INJECTION32_PATH": "a CUDA tool is injected into processes",
    "NSYS_PROFILING_SESSION_ID": "Nsight Systems profiles this process",
    "NV_NSIGHT_INJECTION_TRANSPORT_TYPE": "Nsight Compute profiles this process",
    "ROCP_TOOL_LIB": "a ROCm profiler is loaded into processes",
    "HSA_TOOLS_LIB": "a ROCm tool is loaded into processes",
}
"""Variables by which profilers put themselves into a process; one process has room for one user of CUPTI."""


class BadCupti(NamedTuple):
    """Versions of CUPTI that are known to go wrong.

    Attributes:
        since: The first, as major, minor and update.
        before: The first that is well again.
        told: What goes wrong.
        source: Who says so.
    """

    since: tuple[int, ...]
    before: tuple[int, ...]
    told: str
    source: str


BAD_CUPTI = (
    BadCupti((11,), (12, 6), "CUPTI with CUDA graphs can crash when profiling starts again", "pytorch/pytorch#150957"),
    BadCupti((12, 4, 127), (12, 5, 82), "CUPTI may deliver no kernels", "JuliaGPU/CUDA.jl#2328"),
    BadCupti((12, 6), (13, 1, 115), "kernels of CUDA graphs may be recorded wrongly", "pytorch/kineto#1165"),
)


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        what: What it is.
        state: ``ok``, ``wrong``, ``unknown`` (could not be looked at) or ``note``.
        told: What was found.
        cure: What to do; empty where nothing need be done.
    """

    what: str
    state: str
    told: str
    cure: str = ""


def exit_code(findings: list[Finding]) -> int:
    """Return 1 if something is wrong, else 2 if something could not be looked at, else 0."""
    states = {one.state for one in findings}
    return 1 if WRONG in states else 2 if UNKNOWN in states else 0


def examined(folder: str) -> list[Finding]:
    """Look at everything that profiling depends on; it never raises.

    Args:
        folder: The project.
    """
    findings = [Finding("versions", NOTE, f"pytest-kernelprof {__version__}, Python {platform.python_version()}")]
    findings += _folders(Path(folder))
    findings += _other_tools(os.environ)
    try:
        there = machine()
    except CaptureError as error:
        return [*findings, Finding("torch", UNKNOWN, str(error), "install it: pip install 'pytest-kernelprof[torch]'")]
    except Exception as error:  # noqa: BLE001 - a broken torch is a finding
        return [*findings, Finding("torch", WRONG, f"{type(error).__name__}: {error}", "install torch again")]
    findings += [*_torch(there), *_cupti(there)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        findings += _tried(on_gpu=False)
        if there.gpus and there.records_gpu:
            findings += _tried(on_gpu=True)
    return findings


def _folders(folder: Path) -> Iterator[Finding]:
    """Yield whether traces can be kept."""
    if not folder.is_dir():
        yield Finding("trace folder", WRONG, f"{printable(str(folder))}: no such folder", "name the project's folder")
        return
    for what, place in (("trace folder", folder / ".kernelprof"), ("temporary folder", Path(tempfile.gettempdir()))):
        probe = place / f"doctor-{os.getpid()}"
        existed = place.exists()
        try:
            write_at_once(b"", probe)
            probe.unlink()
            if not existed:
                place.rmdir()
        except OSError as error:
            cure = _READ_ONLY if place.name == ".kernelprof" else "make it writable, or set TMPDIR"
            yield Finding(what, WRONG, f"{printable(str(place))}: cannot be written: {error.strerror or error}", cure)
        else:
            yield Finding(what, OK, f"{printable(str(place))} can be written")


_READ_ONLY = "make the project's root writable; traces of failed tests are kept there"


def _other_tools(environment: Mapping[str, str]) -> Iterator[Finding]:
    found = [f"{told} ({name})" for name, told in _INJECTED.items() if environment.get(name)]
    if found:
        yield Finding("other profilers", WRONG, "; ".join(found), "run pytest without it: CUPTI serves one profiler")
    else:
        yield Finding("other profilers", OK, "none is announced by the environment")


def _torch(there: Machine) -> Iterator[Finding]:
    built = f"CUDA {there.cuda}" if there.cuda else f"ROCm {there.rocm}" if there.rocm else "the CPU"
    yield Finding("torch", OK, f"{there.torch}, built for {built}")
    if there.profiler_active:
        yield Finding("profiler", WRONG, "a torch profiler runs already", "stop it: two empty each other's traces")
    if there.gpus:
        yield Finding("GPU", OK, f"{counted(len(there.gpus), 'GPU')}: {', '.join(dict.fromkeys(there.gpus))}")
    else:
        yield Finding("GPU", UNKNOWN, f"torch finds none{_hidden(os.environ)}", _no_gpu(there))
    if there.gpus and not there.records_gpu:
        yield Finding(
            "GPU events",
            WRONG,
            "this build of torch cannot record them",
            "install a build with Kineto and CUPTI (or roctracer), such as that of PyTorch's own index",
        )


def _hidden(environment: Mapping[str, str]) -> str:
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    told = [f"{name}={environment[name]!r}" for name in names if name in environment]
    return f" ({', '.join(told)})" if told else ""


def _no_gpu(there: Machine) -> str:
    if not there.cuda and not there.rocm:
        return "where there is a GPU, install a build of torch for it; without one, replay recordings or judge traces"
    return "look at nvidia-smi or rocm-smi, at the variables that hide GPUs, and, in a container, at --gpus"


def _cupti(there: Machine) -> Iterator[Finding]:
    """Yield what is known of this version of CUPTI."""
    if not there.cuda:
        return
    told = there.cupti or there.cuda
    number = tuple(int(part) for part in re.findall(r"\d+", told)[:3])
    known = [one for one in BAD_CUPTI if one.since <= number < one.before]
    if known:
        what = "; ".join(f"{one.told} ({one.source})" for one in known)
        cure = "a newer CUDA build of torch; the canary below tells whether events arrive here"
        yield Finding("CUPTI", NOTE, f"{told}: {what}", cure)
    else:
        yield Finding("CUPTI", OK, f"{told}: nothing bad is known of it")


def _tried(*, on_gpu: bool) -> Iterator[Finding]:
    """Yield what comes of profiling a small function."""
    what = "canary" if on_gpu else "profiling"
    try:
        with tempfile.TemporaryDirectory(prefix="kernelprof-doctor-") as folder:
            file = Path(folder) / "trace.json"
            profile_something(file, on_gpu=on_gpu)
            yield from _judged(what, load_trace(file), on_gpu=on_gpu)
    except KernelprofError as error:
        yield Finding(what, WRONG, str(error), "the message says what to do")
    except Exception as error:  # noqa: BLE001 - whatever fails here is the finding
        yield Finding(what, WRONG, f"{type(error).__name__}: {error}", "look at the driver, and at torch by itself")


def _judged(what: str, trace: Trace, *, on_gpu: bool) -> Iterator[Finding]:
    classes = CLASSES if on_gpu else ("ops",)
    for name in classes:
        why = next((why for step in trace.steps if (why := getattr(step, name).why_not_measured)), None)
        if why:
            cure = (
                "allow GPU profiling: in WSL and containers, for users without root "
                "(NVreg_RestrictProfilingToAdminUsers=0), and stop other profilers (Nsight, DCGM)"
            )
            yield Finding(what, WRONG, f"{name.replace('_', ' ')} not measured: {why}", cure if on_gpu else "")
            return
    seen = "kernels" if on_gpu else "ops"
    numbers = [len(getattr(step, seen).seen) for step in trace.steps]
    if len(set(numbers)) > 1 or numbers[0] == 0 or (on_gpu and numbers[0] != 1):
        expected = "one each" if on_gpu else "the same in each"
        told = f"{', '.join(map(str, numbers))} {seen} in three steps of one addition, expected {expected}"
        yield Finding(what, WRONG, told, "something else in this process launches work: look for tools and plugins")
    else:
        yield Finding(what, OK, f"three steps agree: {counted(numbers[0], seen[:-1])} each")
