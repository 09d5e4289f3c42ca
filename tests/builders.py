"""Builds small traces, row by row, for tests of the reader's rules. Times in microseconds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
import warm

Row = dict[str, Any]
Rows = Row | list[Row]
Time = float | str | None
"""Microseconds, as a trace may tell them."""
Thread = int | str

KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float*)"
MAIN = 100
T = TypeVar("T")

# The one has much to say, and needs a terminal; the other is slow to import, and no inner run needs it.
PLUGINS_OFF = ("-p", "no:inline_snapshot", "-p", "no:hypothesispytest")
"""Arguments of inner runs of pytest."""


def row(cat: str, name: str, ts: Time, dur: Time, tid: Thread = MAIN, pid: Thread = 1, **args: Any) -> Row:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def op(name: str, ts: Time, dur: Time, external_id: int | None = None, tid: Thread = MAIN, **args: Any) -> Row:
    return row("cpu_op", name, ts, dur, tid, **({"External id": external_id} if external_id else {}), **args)


def annotation(name: str, ts: Time, dur: Time, tid: Thread = MAIN) -> Row:
    return row("user_annotation", name, ts, dur, tid)


def step(number: int, ts: Time, dur: Time, **kwargs: Any) -> Row:
    return annotation(f"ProfilerStep#{number}", ts, dur, **kwargs)


def call(name: str, ts: Time, correlation: int | None, dur: Time = 1, tid: Thread = MAIN, **args: Any) -> Row:
    cat = "cuda_driver" if name.startswith("cu") and not name.startswith("cuda") else "cuda_runtime"
    return row(cat, name, ts, dur, tid, correlation=correlation, **args)


def kernel(
    ts: Time, correlation: int | None, dur: Time = 2, name: str = KERNEL, stream: int = 7, device: int = 0, **args: Any
) -> Row:
    return row("kernel", name, ts, dur, stream, device, correlation=correlation, stream=stream, device=device, **args)


def memcpy(
    ts: Time,
    correlation: int | None,
    dur: Time = 2,
    name: str = "Memcpy DtoD (Device -> Device)",
    stream: int = 7,
    size: int | None = 4,
    **args: Any,
) -> Row:
    return row(
        "gpu_memcpy", name, ts, dur, stream, 0, correlation=correlation, stream=stream, device=0, bytes=size, **args
    )


def memset(ts: Time, correlation: int | None, dur: Time = 1, stream: int = 7, size: int | None = 4) -> Row:
    return row(
        "gpu_memset",
        "Memset (Device)",
        ts,
        dur,
        stream,
        0,
        correlation=correlation,
        stream=stream,
        device=0,
        bytes=size,
    )


def launch(ts: float, correlation: int | None, gpu_ts: Time = None, tid: Thread = MAIN, **kwargs: Any) -> list[Row]:
    """A launch and its kernel."""
    return [
        call("cudaLaunchKernel", ts, correlation, tid=tid),
        kernel(ts + 5 if gpu_ts is None else gpu_ts, correlation, **kwargs),
    ]


def write(path: Path, *rows: Rows, **metadata: Any) -> Path:
    flat: list[Row] = []
    for one in rows:
        flat.extend(one if isinstance(one, list) else [one])
    path.write_text(json.dumps({"schemaVersion": 1, **metadata, "traceEvents": flat}))
    return path


class Once(Protocol):
    """The fixture ``once``."""

    def __call__(self, what: str, do: Callable[[], T]) -> T: ...


def run_pytest(pytester: pytest.Pytester, *arguments: str | os.PathLike[str]) -> pytest.RunResult:
    """Run the tests of an inner folder: in this process where that is the same, since torch is slow to import."""
    if any(str(argument).startswith("-n") for argument in arguments):
        return run_pytest_apart(pytester, *arguments)
    return pytester.runpytest_inprocess(*PLUGINS_OFF, *arguments)


def run_pytest_apart(pytester: pytest.Pytester, *arguments: str | os.PathLike[str]) -> pytest.RunResult:
    """Run the tests of an inner folder in a process of their own."""
    base = f"--basetemp={pytester.path / 'basetemp'}"
    return pytester.run(warm.python(), "-m", "pytest", base, *PLUGINS_OFF, *arguments)
