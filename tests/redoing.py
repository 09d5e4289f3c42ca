"""Judges the checks of a JSON report anew, from nothing but the report.

Written from docs/reference/assertions.md, and knows nothing of the package but how patterns match names.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pytest_kernelprof.names import glob, matches
from pytest_kernelprof.units import parse_bytes, parse_ns

Values = dict[str, Any]
_ON_GPU = ("kernels", "memcpys", "memsets")
_NO_LAUNCH = ("Memcpy", "Memset", "memcpy", "memset")
_MATRIX = ("gemm", "convolution", "attention")
_COPY_ROLES = ("copy", "layout")


def events(profile: Values, step: Values, name: str) -> list[Values]:
    """Return the events of one class of a step, each with what its kind says."""
    columns, kinds = step[name], profile["details"]["kinds"][name]
    times = zip(columns["kinds"], columns["start_ns"], columns["duration_ns"], strict=True)
    return [{**kinds[kind], "start_ns": start, "duration_ns": duration} for kind, start, duration in times]


def redone(check: Values, profile: Values) -> str:
    """Return the outcome of a check: ``pass`` or ``fail``; of profiles that were measured whole."""
    steps = [step for step in profile["details"]["steps"] if step["name"] in check["steps"]]
    return "pass" if _CHECKS[check["assertion"]](profile, steps, check) else "fail"


def _chosen(profile: Values, step: Values, name: str, check: Values) -> list[Values]:
    """Return the events of a step that the selectors of a check choose."""
    asked = check["arguments"]
    regions = [*check["regions"], *([asked["region"]] if "region" in asked else [])]

    def is_chosen(event: Values) -> bool:
        inside = event.get("inside", event.get("launched_by")) or []
        return (
            ("named" not in asked or matches(asked["named"], event["name"]))
            and ("launched_by" not in asked or any(glob(asked["launched_by"], op) for op in inside))
            and all(any(glob(region, one) for one in event["regions"] or []) for region in regions)
            and ("stream" not in asked or event["stream"] == asked["stream"])
            and ("role" not in asked or event["role"] == asked["role"])
        )

    return [event for event in events(profile, step, name) if is_chosen(event)]


Number = Callable[[Any], float]


def _within(number: float, asked: Values, default: tuple[float, float] | None, read: Number = float) -> bool:
    """Return whether a number is within what a check allows."""
    low, high = default or (0, float("inf"))
    if "exactly" in asked:
        low = high = read(asked["exactly"])
    elif "between" in asked:
        low, high = map(read, asked["between"])
    elif "at_most" in asked or "at_least" in asked:
        low = read(asked.get("at_least", 0))
        high = read(asked["at_most"]) if "at_most" in asked else float("inf")
    return low <= number <= high


def _agree(profile: Values, steps: Sequence[Values], name: str, check: Values) -> bool:
    """Return whether steps have the same events, by name, as far as they must."""
    if check["steps_may_differ"]:
        return True
    kept = [
        Counter(one["name"] for one in events(profile, step, name) if name != "calls" or _is_launch(one))
        for step in steps
    ]
    return all(one == kept[0] for one in kept)


def _is_launch(call: Values) -> bool:
    return not any(word in call["name"] for word in _NO_LAUNCH)


def _any(_: Values, __: Values) -> bool:
    return True


def _count(
    name: str,
    keep: Callable[[Values, Values], bool] = _any,
    default: tuple[float, float] | None = None,
) -> Callable[[Values, Sequence[Values], Values], bool]:
    """Return a check of how many events of a class there are in each step."""

    def judge(profile: Values, steps: Sequence[Values], check: Values) -> bool:
        asked = check["arguments"]
        numbers = [sum(keep(one, asked) for one in _chosen(profile, step, name, check)) for step in steps]
        return all(_within(n, asked, default) for n in numbers) and _agree(profile, steps, name, check)

    return judge


_NONE = (0, 0)
_SOME = (1, float("inf"))


def _pattern(event: Values, asked: Values) -> bool:
    return matches(asked["pattern"], event["name"])


def _copied(copy: Values, asked: Values) -> bool:
    return all(copy[name] == asked[name] for name in ("kind", "pageable") if asked.get(name, "None") != "None")


def _own_memset(memset: Values, asked: Values) -> bool:
    library = memset["bytes"] == 4 and memset["next_kernel"] is not None
    return not (asked.get("ignore_library") and library and _of_nvidia(memset["next_kernel"]))


def _of_nvidia(kernel: str) -> bool:
    return any(word in kernel for word in ("nvjet", "cublas", "cudnn", "xmma", "cutlass_80", "gemv", "splitK"))


def _sync(call: Values, asked: Values) -> bool:
    names = [call["name"], *call["inside"], *(call["regions"] or [])]
    return not any(glob(pattern, name) for pattern in asked.get("allow", ()) for name in names)


def _called(call: Values, asked: Values) -> bool:
    return matches(asked["api"], call["name"]) if "api" in asked else _is_launch(call)


def _sum(read: Callable[[Values], float], median: bool) -> Callable[[Values, Sequence[Values], Values], bool]:
    """Return a check of a number of each step: the median counts, or every one."""
    unit: Number = (lambda value: parse_ns(value, "")) if median else (lambda value: parse_bytes(value, ""))

    def judge(profile: Values, steps: Sequence[Values], check: Values) -> bool:
        numbers = [read(step) for step in steps]
        told = [statistics.median(numbers)] if median else numbers
        alike = check["assertion"] != "assert_gpu_time" or all(_agree(profile, steps, name, check) for name in _ON_GPU)
        return alike and all(_within(n, check["arguments"], None, unit) for n in told)

    return judge


def _copy_bytes(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    asked = check["arguments"]
    sums = [
        sum(one["bytes"] for one in _chosen(profile, step, "memcpys", check) if _copied(one, asked)) for step in steps
    ]
    return all(_within(n, asked, None, lambda value: parse_bytes(value, "")) for n in sums)


def _no_copy(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    kernels = [one for step in steps for one in _chosen(profile, step, "kernels", check) if one["role"] in _COPY_ROLES]
    copies = any(_chosen(profile, step, "memcpys", check) for step in steps)
    return not kernels and not copies and all(_agree(profile, steps, name, check) for name in ("kernels", "memcpys"))


def _tensor_cores(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    asked = check["arguments"].get("at_least")
    for step in steps:
        matrix = [one for one in _chosen(profile, step, "kernels", check) if one["role"] in _MATRIX]
        on = sum(one["duration_ns"] for one in matrix if one["tensor_cores"] == "yes")
        if not matrix or (asked is None and any(one["tensor_cores"] != "yes" for one in matrix)):
            return False
        if asked is not None and on < asked * sum(one["duration_ns"] for one in matrix):
            return False
    return _agree(profile, steps, "kernels", check)


def _dtypes(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    wanted = set(check["arguments"]["dtypes"])
    chosen = [_chosen(profile, step, "kernels", check) for step in steps]
    return (
        all(chosen)
        and all(set(one["dtypes"] or ()) <= wanted for some in chosen for one in some)
        and _agree(profile, steps, "kernels", check)
    )


def _single(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    return all(
        len(step["kernels"]["kinds"]) == 1
        and not step["memcpys"]["kinds"]
        and not [one for one in events(profile, step, "memsets") if _own_memset(one, {"ignore_library": True})]
        for step in steps
    )


def _sequence(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    def fits(patterns: Sequence[str], names: Sequence[str]) -> bool:
        if not patterns:
            return not names
        if patterns[0] == "...":
            return any(fits(patterns[1:], names[start:]) for start in range(len(names) + 1))
        return bool(names) and matches(patterns[0], names[0]) and fits(patterns[1:], names[1:])

    asked = check["arguments"]["patterns"]
    return all(fits(asked, [one["name"] for one in _chosen(profile, step, "kernels", check)]) for step in steps)


def _occupancy(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    found = [one["theoretical_occupancy"] for step in steps for one in _chosen(profile, step, "kernels", check)]
    slack = 0.0005
    asked = dict(check["arguments"])
    if "exactly" in asked:
        asked = {"between": [asked["exactly"]] * 2}
    if "between" in asked:
        low, high = asked["between"]
        asked["between"] = [low - slack, high + slack]
    return bool(found) and all(_within(n, asked, None) for n in found)


def _graphed(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    kernels = [_chosen(profile, step, "kernels", check) for step in steps]
    return all(kernels) and all(one["graph_launch"] for some in kernels for one in some)


def _backend(profile: Values, steps: Sequence[Values], check: Values) -> bool:
    """The kernels tell; where none is an attention kernel, it was the math of ``aten``."""
    for step in steps:
        found = {one["attention_backend"] for one in _chosen(profile, step, "kernels", check)} - {None}
        math = any("attention_math" in one["name"] for one in _chosen(profile, step, "ops", check))
        families = {_family(one) for one in found} or ({"math"} if math else set())
        if families != {check["arguments"]["backend"]}:
            return False
    return True


def _family(backend: str) -> str:
    known = ("flash", "efficient", "cudnn", "math")
    return backend if backend in known else "external"


def _no_allocation(_: Values, steps: Sequence[Values], __: Values) -> bool:
    return not any(one["driver_allocations"] for step in steps for one in step["memory"])


def _memory(field: str) -> Callable[[Values], float]:
    return lambda step: max(one[field] for one in step["memory"])


_CHECKS: dict[str, Callable[[Values, Sequence[Values], Values], bool]] = {
    "assert_kernel_count": _count("kernels"),
    "assert_kernel": _count("kernels", _pattern, _SOME),
    "assert_no_kernel": _count("kernels", _pattern, _NONE),
    "assert_kernel_sequence": _sequence,
    "assert_single_kernel": _single,
    "assert_launch_count": _count("calls", _called),
    "assert_no_memcpy": _count("memcpys", _copied, _NONE),
    "assert_memcpy_count": _count("memcpys", _copied),
    "assert_memcpy_bytes": _copy_bytes,
    "assert_no_copy": _no_copy,
    "assert_no_memset": _count("memsets", _own_memset, _NONE),
    "assert_memset_count": _count("memsets"),
    "assert_no_host_sync": _count("host_syncs", _sync, _NONE),
    "assert_host_sync_count": _count("host_syncs", _sync),
    "assert_op_count": _count("ops", _pattern),
    "assert_no_op": _count("ops", _pattern, _NONE),
    "assert_tensor_cores": _tensor_cores,
    "assert_dtypes": _dtypes,
    "assert_sdpa_backend": _backend,
    "assert_occupancy": _occupancy,
    "assert_graphed": _graphed,
    "assert_gpu_time": _sum(lambda step: step["gpu_time_ns"], median=True),
    "assert_cpu_time": _sum(lambda step: step["cpu_time_ns"], median=True),
    "assert_peak_memory": _sum(_memory("peak_bytes"), median=False),
    "assert_allocated_memory": _sum(_memory("allocated_bytes"), median=False),
    "assert_no_device_allocation": _no_allocation,
}
