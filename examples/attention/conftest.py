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
from findings import CLAIMS, Guess, See, id_of, sources, summarize
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


def profile_of(name: str, function: Callable[..., torch.Tensor], *first: object) -> Callable[..., Profile]:
    """Return a fixture: the profile called *name*, of a function of queries, keys, values and mask."""

    @pytest.fixture(scope="module", name=name)
    def profile(module_profiled: Profiled, inputs: Inputs) -> Profile:
        return module_profiled.configure(name=name)(function, *first, *inputs)

    return profile


def profile_of_backend(backend: str) -> Callable[..., Profile]:
    """Return a fixture: the profile of scaled_dot_product_attention with one backend, called like it."""

    @pytest.fixture(scope="module", name=backend)
    def profile(module_profiled: Profiled, inputs: Inputs) -> Profile:
        with sdpa.pinned(backend):
            return module_profiled.configure(name=backend)(sdpa.attention, *inputs.qkv)

    return profile


_naive = profile_of("naive", naive_masking.attention)
_in_place = profile_of("in_place", in_place_masking.attention)
_naive_stack = profile_of("naive_stack", stack, naive_masking.attention, LAYERS)
_in_place_stack = profile_of("in_place_stack", stack, in_place_masking.attention, LAYERS)
_math = profile_of_backend("math")
_efficient = profile_of_backend("efficient")
_flash = profile_of_backend("flash")
_cudnn = profile_of_backend("cudnn")
_auto = profile_of_backend("auto")


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
    return bool(profiled.device.type == "meta")


@pytest.fixture(scope="module")
def live(module_profiled: Profiled) -> None:
    """Skip under replay: for claims about values."""
    if replays(module_profiled):
        pytest.skip("a claim about values: live only, since a replay calculates nothing")


@pytest.fixture
def guess(shape: Shape) -> Guess:
    """Look up what differs by architecture."""
    return Guess(shape)


@pytest.fixture
def seen(request: pytest.FixtureRequest) -> See:
    """Tell what was seen, for the table at the end."""
    # pytest's record_property warns with --junitxml, and warnings are errors here.
    return lambda text: request.node.user_properties.append(("seen", text))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip a test whose times are too noisy, with what was measured: that is no failure of the code."""
    try:
        return (yield)
    except TooNoisy as error:
        pytest.skip(str(error).splitlines()[0])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the findings, and write them if asked to."""
    findings = summarize(_outcomes(terminalreporter))
    where = _where(terminalreporter)
    if any(not why.startswith("needs ") for row in findings for why in row.why or [""]):
        terminalreporter.section(f"findings of the blog: {where['how']}")
        for row in findings:
            claim = CLAIMS[row.id]
            terminalreporter.write_line(f"{row.id}  {row.result:8}{claim.says}: {row.seen or 'nothing seen'}")
            if claim.on_hopper:
                terminalreporter.write_line(f"    otherwise on an H200: {claim.on_hopper}")
            for why in row.why:
                terminalreporter.write_line(f"    not judged: {why}")
    file = config.getoption("--attention-findings", default=None)
    if file:
        document = {**where, "findings": [row._asdict() for row in findings]}
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(json.dumps(document, indent=1) + "\n")


def _reports(terminal: pytest.TerminalReporter) -> Iterator[tuple[str, pytest.TestReport]]:
    for result in ("passed", "failed", "error", "skipped"):
        for report in terminal.stats.get(result, []):
            if isinstance(report, pytest.TestReport):
                yield result, report


def _outcomes(terminal: pytest.TerminalReporter) -> Iterator[tuple[str, str, str, str]]:
    for result, report in _reports(terminal):
        properties: dict[str, Any] = dict(report.user_properties)
        why = str(report.longrepr[2]).removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        yield report.nodeid.rpartition("::")[2], result, properties.get("seen", ""), why


def _where(terminal: pytest.TerminalReporter) -> dict[str, str | None]:
    """Return how the findings were seen, and on what, as far as they were seen live."""
    # What a test profiled is told with the report of its teardown, which stands among those without a result.
    reports = [one for some in terminal.stats.values() for one in some if isinstance(one, pytest.TestReport)]
    live, recordings = sources(one.user_properties for one in reports if id_of(one.nodeid.rpartition("::")[2]))
    told = [f"replayed ({'; '.join(recordings)})"] if recordings else []
    if not live:
        return {"device": None, "torch": None, "date": None, "how": "".join(told) or "nothing measured"}
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    how = " and ".join([f"live ({device})", *told])
    return {"device": device, "torch": str(torch.__version__), "date": date.today().isoformat(), "how": how}
