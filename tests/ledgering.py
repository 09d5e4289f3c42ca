"""Profiles of recorded traces with a ledger beside them, without a run of pytest around."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pytest_kernelprof import Profile, Trace, load_trace
from pytest_kernelprof.ledger.book import Book, Policy, Slot
from pytest_kernelprof.ledger.document import Entries, Place
from pytest_kernelprof.ledger.entry import CPU_CLASSES, Entry, entry_of, environment_key, uses_gpu
from pytest_kernelprof.model import GPU_CLASSES
from pytest_kernelprof.report.layout import Look

DATA = Path(__file__).parent / "data"


def h200(name: str) -> Trace:
    return load_trace(DATA / f"traces_h200/{name}.json.gz")


def entry(trace: Trace, level: str = "roles") -> Entry:
    classes = GPU_CLASSES if uses_gpu(trace) else CPU_CLASSES
    return entry_of(trace.steps[0], classes, level, trace.environment)


def key(trace: Trace) -> str:
    return environment_key(trace.environment, on_gpu=uses_gpu(trace))


def book(entries: Entries, test: str = "test_it", **policy: Any) -> Book:
    return Book(
        test=test,
        shown="tests/__kernelprof__/test_it.json",
        policy=Policy(**policy),
        command=lambda option: f"pytest {option} {shlex.quote(f'tests/test_it.py::{test}')}",
        entries=lambda _: entries,
    )


def anew(ledger: Book) -> Book:
    """Return a ledger as another test of the same name sees it."""
    ledger.notes = []
    return ledger


def profile(
    trace: Trace,
    ledger: Book,
    *,
    label: str | None = "1",
    replayed: bool = False,
    needs_gpu: bool = True,
    width: int = 120,
    **options: Any,
) -> Profile:
    """Return a profile of *trace* with the entries of *ledger*, a `Book`."""
    slot = Slot(lambda: ledger, label, needs_gpu=needs_gpu, replayed=replayed)
    return Profile(trace, slot=slot, look=Look.of(width), **options)


def against(
    before: str, after: str, *, level: str = "roles", width: int = 120, environment: str = "sm90", **policy: Any
) -> Profile:
    """Return a profile of one trace of the H200 whose ledger was made from another."""
    made = {Place("test_it", "1", environment): entry(h200(before), level)}
    return profile(h200(after), book(made, level=level, **policy), width=width)
