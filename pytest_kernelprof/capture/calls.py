"""torch.profiler to trace file. The only module that imports torch, inside functions."""

from __future__ import annotations

import platform
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from . import __version__
from .errors import CaptureError
from .functions import function_name, refuse_unfinished, subject_of
from .load.own import CANARY, METADATA_KEY, NO_CONTEXT, STEP_PREFIX, SYNCHRONIZE
from .load.recording import Recording
from .options import DeviceRequirement, Settings


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


# Devices


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
class _Accelerator:
    kind: str
    index: int

    @property
    def device(self) -> str:
        return f"{self.kind}:{self.index}"


def _with_context(torch: Any) -> list[_Accelerator]:
    """Return the devices that already have a context; none is created."""
    found = []
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    if torch.cuda.is_initialized() and has_context is not None:
        found += [_Accelerator("cuda", i) for i in range(torch.cuda.device_count()) if has_context(i)]
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available() and xpu.is_initialized():
        found.append(_Accelerator("xpu", xpu.current_device()))
    return found


def synchronize(torch: Any, accelerators: list[_Accelerator]) -> None:
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
        synchronize(torch, _with_context(torch))
    except RuntimeError:
        health.lost_in = where


class _Calls:
    """Calls the function, counting, so that a failure can say in which call it came."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.setup = settings.setup
        self.total = settings.warmup + settings.steps
        self.number = 0

    def prepare(self) -> None:
        """Run ``setup=`` for the next call, outside its window."""
        self.number += 1
        if self.setup is None:
            return
        with self._explained("setup"):
            made = self.setup()
        self.args = made if isinstance(made, tuple) else () if made is None else (made,)

    def run(self) -> Any:
        """Make the next call and return its result."""
        with self._explained(function_name(self.function)):
            result = self.function(*self.args, **self.kwargs)
        refuse_unfinished(self.function, result)
        return result

    @contextmanager
    def _explained(self, who: str) -> Iterator[None]:
        try:
            yield
        except CaptureError:
            raise
        except Exception as error:
            if self.number == 1:
                raise  # The user's own error; nothing about calling again explains it.
            raise CaptureError(
                f"{who} raised in call {self.number} of {self.total}; use setup= or profiled.block() "
                f"({type(error).__name__}: {error})"
            ) from error


# Capture


def profile_calls(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    settings: Settings,
    health: Health,
    path: Path,
    test: str,
) -> Any:
    """Call *function* to warm up, then record the measured calls into a trace file.

    Args:
        function: What to profile.
        args: Its arguments.
        kwargs: Its keyword arguments.
        settings: How often, with which ``setup=``.
        health: Whether the GPU still works; is told if it is lost.
        path: The trace file to write, ``.json``.
        test: Id of the test, for messages.

    Returns:
        What the last call returned.

    Raises:
        CaptureError: The function cannot be profiled, or failed in a call after the first.
    """
    torch = import_torch()
    subject = subject_of(function, args, kwargs, has_setup=settings.setup is not None)
    _refuse_other_profiler(torch)
    calls = _Calls(function, args, kwargs, settings)
    result = None
    with _noticing_loss(health, test):
        for _ in range(settings.warmup):
            calls.prepare()
            result = calls.run()
        note = {**subject, "warmup": settings.warmup, "setup": settings.setup is not None, "test": test}
        session = _Session(torch, settings, health, steps=settings.steps, subject=note)
        with session:
            for number in range(settings.steps):
                calls.prepare()
                if number == 0 or settings.setup is not None:
                    session.synchronize()  # Later steps begin where the last one was waited for.
                with session.step(number):
                    result = calls.run()
                session.check_alone(f"{function_name(function)} (call {calls.number} of {calls.total})")
                session.synchronize()
        session.export(path)
    return result


class BlockCapture:
    """Records a ``with`` block once, as the single step of a trace file."""

    def __init__(self, *, settings: Settings, health: Health, path: Path, test: str) -> None:
        """Prepare a capture; the arguments are those of `profile_calls`."""
        self._torch = import_torch()
        self._settings = settings
        self._health = health
        self._path = path
        self._test = test

    def __enter__(self) -> None:
        _refuse_other_profiler(self._torch)
        with _noticing_loss(self._health, self._test):
            subject = {"test": self._test}
            self._session = _Session(self._torch, self._settings, self._health, steps=1, subject=subject)
            self._session.__enter__()
            self._session.synchronize()
        self._step = self._session.step(0)
        self._step.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._step.__exit__(kind, error, trace)
        with _noticing_loss(self._health, self._test, error):
            try:
                if kind is None:
                    self._session.check_alone("the block")
                    self._session.synchronize()
            except BaseException as problem:
                self._session.__exit__(type(problem), problem, problem.__traceback__)
                raise
            self._session.__exit__(kind, error, trace)
            if kind is None:
                self._session.export(self._path)


def _refuse_other_profiler(torch: Any) -> None:
    """Refuse to start inside another profiler: on new torch that silently empties the outer trace."""
    if _profiler_active(torch):
        raise CaptureError(
            "a torch profiler is already active: two empty each other's traces; "
            "stop it before profiled() is called (a fixture or another plugin may have started it)"
        )


def _profiler_active(torch: Any) -> bool:
    return bool(torch.autograd.profiler._is_profiler_enabled or torch.autograd._profiler_enabled())


@contextmanager
def _noticing_loss(health: Health, test: str, error: BaseException | None = None) -> Iterator[None]:
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


class _Session:
    """One recording: profiler, canary, synchronisation, steps."""

    def __init__(self, torch: Any, settings: Settings, health: Health, *, steps: int, subject: dict[str, Any]) -> None:
        self.torch = torch
        self.steps = steps
        self.subject = subject
        self.settings = settings
        self.allocator: list[dict[str, int]] = []
        self.figures: dict[int, dict[str, int]] = {}
        self.accelerators = [] if health.lost_in else _with_context(torch)
        kinds = {"cuda" if name == "rocm" else name for name in settings.activities or ("cpu", "cuda", "xpu")}
        watched = [one for one in self.accelerators if one.kind in kinds]
        self.watched = watched
        self.no_gpu: str | None = None
        if health.lost_in:
            self.no_gpu = health.why()
        elif not self.accelerators:
            self.no_gpu = NO_CONTEXT
        elif not watched:
            self.no_gpu = f"activities={list(settings.activities or ())} records no GPU event"
        activity = torch.profiler.ProfilerActivity
        # Only what is there and in use: asking for CUDA would create a context in a CPU test.
        wanted = [activity.CPU, *(getattr(activity, kind.upper()) for kind in sorted({one.kind for one in watched}))]
        supported = torch.profiler.supported_activities()
        if not set(wanted) <= set(supported):
            self.no_gpu = "this build of torch cannot record GPU events"
            wanted = [activity.CPU]
            self.watched = []
        self.counted = [one.index for one in self.watched if one.kind == "cuda"]
        self.profiler = torch.profiler.profile(activities=wanted, **_all_threads())

    def __enter__(self) -> None:
        # Everything launched so far must be over: it would leak into the recording.
        synchronize(self.torch, self.accelerators)
        with _quiet():
            self.profiler.start()
        try:
            self._launch_canaries()
        except BaseException:
            self._abandon()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        with _quiet():
            self.profiler.add_metadata_json(METADATA_KEY, self._note().to_json())
            self.profiler.stop()

    def _abandon(self) -> None:
        """Stop without a trace, so that the next test finds no profiler running."""
        with suppress(Exception), _quiet():  # The error that brought us here is the one to report.
            self.profiler.stop()
        if _profiler_active(self.torch):
            # stop() synchronises first, which fails once the context is lost.
            with suppress(Exception):
                self.torch.autograd._disable_profiler()
            self.torch.autograd.profiler._run_on_profiler_stop()

    def _launch_canaries(self) -> None:
        """Launch one tiny kernel a device: if the trace lacks it, the trace tells nothing of the GPU."""
        for accelerator in self.watched:
            with self.torch.profiler.record_function(CANARY):
                self.torch.empty(1, device=accelerator.device).fill_(1)

    def synchronize(self) -> None:
        """Wait for all devices, in an annotation that no count includes."""
        if self.accelerators:
            with self.torch.profiler.record_function(SYNCHRONIZE):
                synchronize(self.torch, self.accelerators)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Mark a step in the trace; note what the allocator did in it, outside its window."""
        for index in self.counted:
            if index not in self.figures or self.settings.setup is not None:
                self.figures[index] = _allocator(self.torch, index)
            with suppress(RuntimeError):  # An allocator without statistics.
                self.torch.cuda.reset_peak_memory_stats(index)
        with self.torch.profiler.record_function(f"{STEP_PREFIX}{number}"):
            yield
        for index in self.counted:
            start, end = self.figures[index], _allocator(self.torch, index)
            self.figures[index] = end
            if start and end:
                self.allocator.append(
                    {
                        "step": number,
                        "device": index,
                        "peak_bytes": end["peak"] - start["current"],
                        "allocated_bytes": end["allocated"] - start["allocated"],
                        "driver_allocations": end["driver"] - start["driver"],
                    }
                )

    def check_alone(self, where: str) -> None:
        """Refuse to go on if another profiler was started inside: it took the events of ours.

        Raises:
            CaptureError: Ours is no longer running.
        """
        if not _profiler_active(self.torch):
            raise CaptureError(f"another torch profiler was already running inside {where}: our trace is empty")

    def export(self, path: Path) -> None:
        """Write the trace file."""
        with _quiet():
            self.profiler.export_chrome_trace(str(path))

    def _note(self) -> Recording:
        torch = self.torch
        return Recording(
            steps=self.steps,
            canary_devices=tuple(one.index for one in self.watched),
            no_gpu=self.no_gpu,
            **self.subject,
            activities=self.settings.activities,
            requires=str(self.settings.device) if self.settings.device else None,
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            device=_device_name(torch, self.watched),
            driver=_driver_version() if self.watched else None,
            allocator=tuple(self.allocator),
            torch=str(torch.__version__),
            cuda=torch.version.cuda,
            rocm=torch.version.hip,
            cudnn=str(torch.backends.cudnn.version()) if self.watched else None,
            python=platform.python_version(),
            plugin=__version__,
        )


def _allocator(torch: Any, index: int) -> dict[str, int]:
    """Return what the caching allocator says of a device; nothing if it keeps no statistics."""
    try:
        figures = torch._C._cuda_memoryStats(index)
        size = figures["allocated_bytes"]["all"]
        return {**{key: size[key] for key in ("current", "peak", "allocated")}, "driver": figures["num_device_alloc"]}
    except (AttributeError, KeyError, RuntimeError):
        return {}


def _all_threads() -> dict[str, Any]:
    """Return what makes torch record the operators of all threads, where it can.

    By default it sees those of the thread that starts the profiler, and of autograd's.
    """
    try:
        from torch._C._profiler import _ExperimentalConfig

        return {"experimental_config": _ExperimentalConfig(profile_all_threads=True)}
    except (ImportError, TypeError):
        return {}


def _device_name(torch: Any, watched: list[_Accelerator]) -> str | None:
    return str(getattr(torch, watched[0].kind).get_device_name(watched[0].index)) if watched else None


def _driver_version() -> str | None:
    """Return the version of the NVIDIA driver, which no API of torch tells."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)*)\b", text)
    return found[1] if found else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's own warnings about profiling out of the test, where they could be errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
