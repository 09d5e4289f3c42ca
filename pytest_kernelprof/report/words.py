"""What reports say of a run, in words that all of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..units import counted

NOT_MEASURED = "not measured"
"""What stands in a cell where a trace does not tell; never 0."""
LEDGER_CHANGED = ("differs", "new", "updated", "missing")
"""States of ledger entries that a reviewer looks at."""
_TOLD = {
    "fail": "failed",
    "not measured": "not measured",
    "pass": "passed",
    "nothing asked": "asked nothing",
    "expected failure": "failed as expected",
    "skipped": "skipped",
}


def title(report: Mapping[str, Any]) -> str:
    """Return the whole in one line, the worst first."""
    told = [f"{counted(len(report['problems']), 'problem')} of the run"] if report["problems"] else []
    told += [
        counted(number, "error") if name == "error" else f"{number} {_TOLD[name]}"
        for name, number in report["verdicts"].items()
        if number
    ]
    if set(told) == {f"{len(report['tests'])} {_TOLD['nothing asked']}"}:
        return f"kernelprof: {counted(len(report['tests']), 'trace')}"
    return f"kernelprof: {', '.join(told) or 'nothing was measured'}"


def environments(report: Mapping[str, Any]) -> str:
    """Return in one line where and of what it was measured."""
    found: Counter[str] = Counter()
    for one in report["profiles"]:
        found[environment(one["environment"])] += 1
    where = [name for name, _ in found.most_common(3)]
    where += [f"{len(found) - 3} more"] if len(found) > 3 else []
    made = report["provenance"]
    told = ["; ".join(where)] if where else []
    told += [f"commit {made['commit'][:12]}"] if made["commit"] else []
    told += [f"{counted(report['replayed'], 'test')} replayed from recordings"] if report["replayed"] else []
    return ", ".join([*told, f"pytest-kernelprof {made['pytest_kernelprof']}"])


def environment(where: Mapping[str, Any]) -> str:
    """Return where a profile was made."""
    devices = Counter(where["devices"])
    known = (
        ", ".join(f"{number} x {name}" if number > 1 else name for name, number in devices.items()) or "no GPU",
        where["cuda"] and f"CUDA {where['cuda']}",
        where["rocm"] and f"ROCm {where['rocm']}",
        where["torch"] and f"torch {where['torch']}",
    )
    return ", ".join(part for part in known if part)


def number(value: object) -> str:
    """Return a number, or that it was not measured."""
    return NOT_MEASURED if value is None else str(value)


def mark(profile: Mapping[str, Any]) -> str:
    """Return what else is to be known of a profile: that it is replayed, and from where."""
    return f"replayed ({profile['replayed']['from']})" if profile["replayed"] else ""


def origins(profiles: Iterable[Mapping[str, Any]]) -> str:
    """Return on which devices recordings were made, each with its day, or the first and the last of several."""
    days: dict[str, set[str]] = {}
    for profile in profiles:
        if profile["replayed"]:
            device, _, day = profile["replayed"]["from"].rpartition(", ")
            days.setdefault(device, set()).add(day)
    spans = {device: " to ".join(sorted({min(found), max(found)})) for device, found in sorted(days.items())}
    return "; ".join(f"{device}, {span}" for device, span in spans.items())


WORRYING = ("fail", "error", NOT_MEASURED)
"""Verdicts on a test of which there is something to say: all but passes, expected failures and skips."""


def told_of(test: Mapping[str, Any]) -> bool:
    """Return whether there is something to say of a test."""
    return test["verdict"] in WORRYING


def found(test: Mapping[str, Any]) -> str:
    """Return in one line why a test did not pass: of several checks together, what each of them found."""
    headline = str(test["message"]).partition("\n")[0]
    told = [one["headline"] for one in test["checks"] if one["outcome"] != "pass" and one["message"]]
    several = [one for one in dict.fromkeys(told) if one not in headline and one in test["message"]]
    return f"{headline}: {'; '.join(several)}" if several else headline
