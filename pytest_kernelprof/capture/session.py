"""One recording: profiler, canary, synchronisation, steps."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from .. import __version__
from ..errors import CaptureError
from ..load.own import CANARY, METADATA_KEY, NO_CONTEXT, STEP_PREFIX, SYNCHRONIZE
from ..load.recording import Recording
from ..options import Settings
from .allocator import figures_of, used_between, why_no_figures
from .devices import Accelerator, Health, quiet, synchronize, with_context
from .neighbours import neighbour_on


def refuse_other_profiler(torch: Any) -> None:
    """Refuse to start inside another profiler: on new torch that silently empties the outer trace."""
    if profiler_active(torch):
        raise CaptureError(
            "a torch profiler is already active: two empty each other's traces; "
            "stop it before profiled() is called (a fixture or another plugin may have started it)"
        )


def profiler_active(torch: Any) -> bool:
    """Return whether a torch profiler runs in this process."""
    return bool(torch.autograd.profiler._is_profiler_enabled or torch.autograd._profiler_enabled())


class Session:
    """One recording: profiler, canary, synchronisation, steps."""

    def __init__(
        self,
        torch: Any,
        settings: Settings,
        health: Health,
        *,
        steps: int,
        subject: dict[str, Any],
        shared: str | None = None,
        stacks: bool = False,
    ) -> None:
        """Prepare a recording.

        Args:
            torch: The package.
            settings: How the function is profiled.
            health: Whether the GPU still works.
            steps: How many there will be.
            subject: What is profiled, in the words of a `Recording`.
            shared: Who is known to use the GPU too.
            stacks: Record Python's stacks too.
        """
        self.torch = torch
        self.shared = shared
        self.steps = steps
        self.subject = subject
        self.settings = settings
        self.allocator_entries: list[dict[str, int]] = []
        self.accelerators = [] if health.lost_in else with_context(torch)
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
        self.cuda_indices = [one.index for one in self.watched if one.kind == "cuda"]
        self.no_allocator = why_no_figures(torch) if self.cuda_indices else None
        self.profiler = torch.profiler.profile(activities=wanted, with_stack=stacks, **_all_threads())

    def __enter__(self) -> Session:
        # Everything launched so far must be over: it would leak into the recording.
        synchronize(self.torch, self.accelerators)
        with quiet():
            self.profiler.start()
        try:
            self._launch_canaries()
            self._look_for_neighbours()
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        self._look_for_neighbours()
        late = [one.device for one in with_context(self.torch) if one not in self.accelerators]
        if late:
            self.no_allocator = f"{', '.join(late)} came into use during the recording; use it before, or warmup="
        with quiet():
            self.profiler.add_metadata_json(METADATA_KEY, self._note().to_json())
            self.profiler.stop()

    def _abandon(self) -> None:
        """Stop without a trace, so that the next test finds no profiler running."""
        with suppress(Exception), quiet():  # The error that brought us here is the one to report.
            self.profiler.stop()
        if profiler_active(self.torch):
            # stop() synchronises first, which fails once the context is lost.
            with suppress(Exception):
                self.torch.autograd._disable_profiler()
            self.torch.autograd.profiler._run_on_profiler_stop()

    def _launch_canaries(self) -> None:
        """Launch one tiny kernel a device: if the trace lacks it, the trace tells nothing of the GPU.

        Its memory is a canary as well: where the allocator does not count it, it counts nothing.
        """
        before = {index: figures_of(self.torch, index) for index in self.cuda_indices}
        for accelerator in self.watched:
            with self.torch.profiler.record_function(CANARY):
                self.torch.empty(1, device=accelerator.device).fill_(1)
        if any(figures_of(self.torch, index) == figures for index, figures in before.items()):
            self.no_allocator = self.no_allocator or "torch's allocator is switched off, or keeps no statistics"

    def _look_for_neighbours(self) -> None:
        """Notice other processes on the GPUs: their work makes times longer that are measured meanwhile."""
        for index in self.cuda_indices:
            self.shared = self.shared or neighbour_on(self.torch, index)

    def synchronize(self) -> None:
        """Wait for all devices, in an annotation that no count includes."""
        if self.accelerators:
            with self.torch.profiler.record_function(SYNCHRONIZE):
                synchronize(self.torch, self.accelerators)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Mark a step in the trace; note what the allocator did in it, outside its window."""
        before = {index: figures_of(self.torch, index) for index in self.cuda_indices}
        for index in self.cuda_indices:
            with suppress(RuntimeError):  # An allocator without statistics.
                self.torch.cuda.reset_peak_memory_stats(index)
        with self.torch.profiler.record_function(f"{STEP_PREFIX}{number}"):
            yield
        for index, start in before.items():
            end = figures_of(self.torch, index)
            if start and end and not self.no_allocator:
                self.allocator_entries.append({"step": number, "device": index, **used_between(start, end)})

    def check_alone(self, where: str) -> None:
        """Refuse to go on if another profiler was started inside: it took the events of ours.

        Raises:
            CaptureError: Ours is no longer running.
        """
        if not profiler_active(self.torch):
            raise CaptureError(f"another torch profiler was already running inside {where}: our trace is empty")

    def export(self, path: Path) -> None:
        """Write the trace file."""
        with quiet():
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
            arch=_amd_arch(torch, self.watched),
            driver=_driver_version() if self.watched else None,
            allocator=tuple(self.allocator_entries),
            no_allocator=self.no_allocator,
            shared_gpu=self.shared,
            torch=str(torch.__version__),
            cuda=torch.version.cuda,
            rocm=torch.version.hip,
            cudnn=str(torch.backends.cudnn.version()) if self.watched else None,
            python=platform.python_version(),
            plugin=__version__,
        )


def _all_threads() -> dict[str, Any]:
    """Return what makes torch record the operators of all threads, where it can.

    By default it sees those of the thread that starts the profiler, and of autograd's.
    """
    try:
        from torch._C._profiler import _ExperimentalConfig

        return {"experimental_config": _ExperimentalConfig(profile_all_threads=True)}
    except (ImportError, TypeError):
        return {}


def _amd_arch(torch: Any, watched: list[Accelerator]) -> str | None:
    """Return what an AMD GPU runs, such as ``gfx942``; traces do not tell."""
    if not watched or not torch.version.hip:
        return None
    properties = torch.cuda.get_device_properties(watched[0].index)
    return str(properties.gcnArchName).partition(":")[0]


def _device_name(torch: Any, watched: list[Accelerator]) -> str | None:
    return str(getattr(torch, watched[0].kind).get_device_name(watched[0].index)) if watched else None


def _driver_version() -> str | None:
    """Return the version of the NVIDIA driver, which no API of torch tells."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)*)\b", text)
    return found[1] if found else None
