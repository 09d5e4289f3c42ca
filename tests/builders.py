"""Builds small traces, row by row, for tests of the reader's rules. Times in microseconds."""

from __future__ import annotations

import json

KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int, float*)"
MAIN = 100


def row(cat, name, ts, dur, tid=MAIN, pid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def op(name, ts, dur, external_id=None, tid=MAIN, **args):
    return row("cpu_op", name, ts, dur, tid, **({"External id": external_id} if external_id else {}), **args)


def annotation(name, ts, dur, tid=MAIN):
    return row("user_annotation", name, ts, dur, tid)


def step(number, ts, dur, **kwargs):
    return annotation(f"ProfilerStep#{number}", ts, dur, **kwargs)


def call(name, ts, correlation, dur=1, tid=MAIN, **args):
    cat = "cuda_driver" if name.startswith("cu") and not name.startswith("cuda") else "cuda_runtime"
    return row(cat, name, ts, dur, tid, correlation=correlation, **args)


def kernel(ts, correlation, dur=2, name=KERNEL, stream=7, device=0, **args):
    return row("kernel", name, ts, dur, stream, device, correlation=correlation, stream=stream, device=device, **args)


def memcpy(ts, correlation, dur=2, name="Memcpy DtoD (Device -> Device)", stream=7, size=4, **args):
    return row(
        "gpu_memcpy", name, ts, dur, stream, 0, correlation=correlation, stream=stream, device=0, bytes=size, **args
    )


def memset(ts, correlation, dur=1, stream=7, size=4):
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


def launch(ts, correlation, gpu_ts=None, tid=MAIN, **kwargs):
    """A launch and its kernel."""
    return [
        call("cudaLaunchKernel", ts, correlation, tid=tid),
        kernel(ts + 5 if gpu_ts is None else gpu_ts, correlation, **kwargs),
    ]


def write(path, *rows, **metadata):
    flat = []
    for one in rows:
        flat.extend(one if isinstance(one, list) else [one])
    path.write_text(json.dumps({"schemaVersion": 1, **metadata, "traceEvents": flat}))
    return path


def run_pytest(pytester, *arguments):
    """Run the tests of an inner folder: in this process where that is the same, since torch is slow to import."""
    arguments = ("-p", "no:inline_snapshot", *arguments)  # It has much to say, and needs a terminal.
    if any(str(argument).startswith("-n") for argument in arguments):
        return pytester.runpytest_subprocess(*arguments)
    return pytester.runpytest_inprocess(*arguments)
