"""What the attention examples share: inputs, profiles, guesses, and the table at the end of a run.

A profile that several tests read is made once a module (``module_profiled``), and has a name by
which its recording is found.
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Generator, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import in_place as in_place_masking
import naive as naive_masking
import prebuilt as prebuilt_flash
import pytest
import sdpa
import torch
from findings import CLAIMS, Guess, summarize
from shapes import BLOG, Inputs, Shape, make_inputs
from stack import LAYERS, stack

from pytest_kernelprof import Profile, Profiled, TooNoisy


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attention", "examples/attention")
    blog = ",".join(map(str, BLOG))
    shape = "batch, heads, sequence and head dimension of the inputs; the blog's by default"
    group.addoption("--attention-shape", type=_shape, metavar="B,H,S,D", help=f"{shape} ({blog})")
    group.addoption("--attention-findings", metavar="FILE", help="write what became of each finding (JSON)")


def _shape(text: str) -> Shape:
    try:
        return Shape.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


# Inputs


@pytest.fixture(scope="session")
def shape(pytestconfig: pytest.Config) -> Shape:
    """Shape of q, k and v."""
    # Where this file is found during collection only, its options do not exist.
    return pytestconfig.getoption("--attention-shape", default=None) or BLOG


@pytest.fixture(scope="module")
def inputs(module_profiled: Profiled, shape: Shape) -> Inputs:
    """q, k, v and the causal mask, built once: rebuilding the mask in each call would be kernels."""
    return make_inputs(module_profiled.device, shape)


# Profiles


@pytest.fixture(scope="module")
def naive(module_profiled: Profiled, inputs: Inputs) -> Profile:
    return module_profiled.configure(name="naive")(naive_masking.attention, *inputs)


@pytest.fixture(scope="module")
def in_place(module_profiled: Profiled, inputs: Inputs) -> Profile:
    return module_profiled.configure(name="in_place")(in_place_masking.attention, *inputs)


@pytest.fixture(scope="module")
def naive_stack(module_profiled: Profiled, inputs: Inputs) -> Profile:
    return module_profiled.configure(name="naive_stack")(stack, naive_masking.attention, LAYERS, *inputs)


@pytest.fixture(scope="module")
def in_place_stack(module_profiled: Profiled, inputs: Inputs) -> Profile:
    return module_profiled.configure(name="in_place_stack")(stack, in_place_masking.attention, LAYERS, *inputs)


@pytest.fixture(scope="module")
def math(module_profiled: Profiled, inputs: Inputs) -> Profile:
    with sdpa.pinned("math"):
        return module_profiled.configure(name="math")(sdpa.attention, *inputs.qkv)


@pytest.fixture(scope="module")
def efficient(module_profiled: Profiled, inputs: Inputs) -> Profile:
    with sdpa.pinned("efficient"):
        return module_profiled.configure(name="efficient")(sdpa.attention, *inputs.qkv)


@pytest.fixture(scope="module")
def flash(module_profiled: Profiled, inputs: Inputs) -> Profile:
    with sdpa.pinned("flash"):
        return module_profiled.configure(name="flash")(sdpa.attention, *inputs.qkv)


@pytest.fixture(scope="module")
def flash_by_length(module_profiled: Profiled, shape: Shape) -> dict[int, Profile]:
    """Flash for half, once, twice and four times the sequence, by its length."""
    profiles = {}
    for factor in (0.5, 1, 2, 4):
        length = int(shape.sequence * factor)
        longer = make_inputs(module_profiled.device, shape._replace(sequence=length))
        with sdpa.pinned("flash"):
            profiles[length] = module_profiled.configure(name=f"flash_{length}")(sdpa.attention, *longer.qkv)
    return profiles


@pytest.fixture(scope="module")
def cudnn(module_profiled: Profiled, inputs: Inputs) -> Profile:
    with sdpa.pinned("cudnn"):
        return module_profiled.configure(name="cudnn")(sdpa.attention, *inputs.qkv)


@pytest.fixture(scope="module")
def auto(module_profiled: Profiled, inputs: Inputs) -> Profile:
    with sdpa.pinned("auto"):
        return module_profiled.configure(name="auto")(sdpa.attention, *inputs.qkv)


@pytest.fixture(scope="module")
def prebuilt_source(module_profiled: Profiled) -> str:
    """Name where a pre-built FlashAttention comes from; skip where there is none."""
    if replays(module_profiled):
        return "a recording"
    try:
        return prebuilt_flash.find()[0]
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def prebuilt(module_profiled: Profiled, inputs: Inputs, prebuilt_source: str) -> Profile:  # noqa: ARG001 - it skips
    q, k, v = (one.transpose(1, 2).contiguous() for one in inputs.qkv)  # Heads come third there.
    return module_profiled.configure(name="prebuilt")(prebuilt_flash.attention, q, k, v)


# Guesses, and what was seen


def replays(profiled: Profiled) -> bool:
    """Return whether recordings are judged: no function is called then, and inputs have no data."""
    return profiled.device.type == "meta"


@pytest.fixture
def live(module_profiled: Profiled) -> None:
    """Skip under replay: for claims about values."""
    if replays(module_profiled):
        pytest.skip("a claim about values: live only, since a replay calculates nothing")


@pytest.fixture
def guess(shape: Shape) -> Guess:
    """Look up what differs by architecture."""
    return Guess(shape)


@pytest.fixture
def seen(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Tell what was seen, for the table at the end."""
    return lambda text: record_property("seen", text)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Report instead of failing: times that are too noisy, and guesses for what nobody has measured."""
    try:
        return (yield)
    except TooNoisy as error:
        pytest.skip(str(error).splitlines()[0])
    except AssertionError as error:
        unmeasured = getattr(pyfuncitem.funcargs.get("guess"), "unmeasured", None)
        if unmeasured is None:
            raise
        pytest.skip(f"{unmeasured}; guess against seen: {str(error).splitlines()[0]}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the findings, and write them if asked to."""
    findings = summarize(_outcomes(terminalreporter))
    if all(row.result == "skipped" for row in findings):
        return
    terminalreporter.section("findings of the blog")
    for row in findings:
        terminalreporter.write_line(f"{row.id}  {row.result:8}{CLAIMS[row.id].says}: {row.seen or 'nothing seen'}")
        for why in row.why:
            terminalreporter.write_line(f"    not judged: {why}")
    file = config.getoption("--attention-findings", default=None)
    if file:
        document = {**_where(), "findings": [row._asdict() for row in findings]}
        Path(file).write_text(json.dumps(document, indent=1) + "\n")


def _outcomes(terminal: pytest.TerminalReporter) -> Iterator[tuple[str, str, str, str]]:
    for result in ("passed", "failed", "error", "skipped"):
        for report in terminal.stats.get(result, []):
            properties: dict[str, Any] = dict(getattr(report, "user_properties", ()))
            why = str(report.longrepr[2]).removeprefix("Skipped: ") if result == "skipped" else ""
            yield report.nodeid.rpartition("::")[2], result, properties.get("seen", ""), why


def _where() -> dict[str, str | None]:
    has_gpu = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if has_gpu else None,
        "torch": str(torch.__version__),
        "date": date.today().isoformat(),
    }
