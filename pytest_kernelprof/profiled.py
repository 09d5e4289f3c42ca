"""`Profiled`: what the fixtures give to a test. Joins capture, reader and `Profile`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from .capture import BlockCapture, Health, device_of, profile_calls
from .errors import CaptureError, MisuseError, NotMeasured
from .load import load_trace
from .model import Trace
from .options import Settings
from .profile import Profile


@dataclass(slots=True, kw_only=True)
class Recorder:
    """What all profiles of one fixture share.

    Attributes:
        test: Id of the test, or of the module, that owns them.
        folder: Where trace files are written.
        health: Whether the GPU still works in this process.
        verbose: Show every row in messages.
        register: Is told of each profile: label, trace and file; returns what names the kept
            trace in a message.
        labels: Labels given so far.
        results: The last return values, until the test ends.
    """

    test: str
    folder: Path
    health: Health
    verbose: bool
    register: Callable[[str, Trace, Path], Callable[[], str | None]]
    labels: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)

    def label(self, name: str | None) -> str:
        """Return the label of the next profile: its name, or its place in the order of calls.

        Raises:
            MisuseError: The name was used before in this test.
        """
        label = name if name is not None else str(len(self.labels) + 1)
        if label in self.labels:
            raise MisuseError(f"name={label!r} was given to two profiles of one test; each needs its own")
        self.labels.append(label)
        return label

    def finish(self, label: str, file: Path, settings: Settings) -> Profile:
        """Read the trace that was written, and return its profile."""
        trace = load_trace(file)
        return Profile(
            trace,
            steps_may_differ=settings.steps_may_differ,
            verbose=self.verbose,
            keep_trace=self.register(label, trace, file),
            result=(lambda: self.result(label)) if label in self.results else None,
        )

    def result(self, label: str) -> Any:
        """Return what the profiled function returned.

        Raises:
            NotMeasured: The test ended, and with it what it held.
        """
        if label not in self.results:
            raise NotMeasured("result not recorded: it was let go of when its test ended")
        return self.results[label]

    def next_file(self) -> Path:
        """Return a fresh path for a trace."""
        return self.folder / f"{len(self.labels)}.json"


class Profiled:
    """Profiles functions and blocks; what the fixture ``profiled`` gives.

    ``profiled(function, *args, **kwargs)`` calls the function to warm up, records the measured
    calls and returns a `Profile`.
    """

    __slots__ = ("_recorder", "_settings")

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        """Make one; tests get theirs from the fixture."""
        self._settings = settings
        self._recorder = recorder

    @property
    def device(self) -> Any:
        """The ``torch.device`` to build inputs on: what ``device=`` asks for, else the best there is."""
        return device_of(self._settings.device)

    def configure(self, **options: Any) -> Profiled:
        """Return a `Profiled` with other options.

        Args:
            **options: ``warmup``, ``steps``, ``steps_may_differ``, ``name``, ``activities``, and
                ``setup``, which is called before every call, outside the window; what it returns
                becomes the arguments: a tuple is several, ``None`` is none.

        Raises:
            MisuseError: An option does not exist, or has a value that is not accepted.
        """
        __tracebackhide__ = True
        return Profiled(self._settings.merged(options, "profiled.configure()"), self._recorder)

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Profile:
        """Profile calls of *function* with these arguments.

        Raises:
            CaptureError: It cannot be profiled, or failed in a call after the first.
            NotMeasured: The test needs a GPU, and the process has lost it.
        """
        __tracebackhide__ = True
        recorder = self._recorder
        self._need_health()
        label = recorder.label(self._settings.name)
        file = recorder.next_file()
        result = profile_calls(
            function,
            args,
            kwargs,
            settings=self._settings,
            health=recorder.health,
            path=file,
            test=recorder.test,
        )
        recorder.results[label] = result
        return recorder.finish(label, file, self._settings)

    def block(self) -> Block:
        """Return a context manager that records its block once, as one step.

        For code that cannot be called twice; warming up is the caller's. ``handle.profile``
        exists after the block.
        """
        __tracebackhide__ = True
        if self._settings.setup is not None:
            raise MisuseError("block() records once and takes no setup=; prepare before the block")
        self._need_health()
        return Block(self._settings, self._recorder)

    def _need_health(self) -> None:
        __tracebackhide__ = True
        device = self._settings.device
        if device is not None and device.is_gpu and self._recorder.health.lost_in:
            raise NotMeasured(f"not measured: {self._recorder.health.why()}")


class Block:
    """The handle of ``with profiled.block() as handle:``."""

    __slots__ = ("_capture", "_file", "_label", "_profile", "_recorder", "_settings", "_state")

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        """Make one; tests get theirs from ``profiled.block()``."""
        self._settings = settings
        self._recorder = recorder
        self._state = "has not begun"
        self._profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """The profile of the block.

        Raises:
            CaptureError: The block has not ended, or it raised.
        """
        if self._profile is None:
            raise CaptureError(f"handle.profile exists after the block; the block {self._state}")
        return self._profile

    def __enter__(self) -> Block:
        __tracebackhide__ = True
        if self._state != "has not begun":
            raise CaptureError("profiled.block() was entered twice; each block needs its own")
        self._label = self._recorder.label(self._settings.name)
        self._file = self._recorder.next_file()
        self._capture = BlockCapture(
            settings=self._settings, health=self._recorder.health, path=self._file, test=self._recorder.test
        )
        self._capture.__enter__()
        self._state = "is still running"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._state = "raised"
        self._capture.__exit__(kind, error, trace)
        if kind is None:
            self._profile = self._recorder.finish(self._label, self._file, self._settings)
            self._state = "ended"
