"""The schemas in the package: outputs follow them, nothing else does, and nothing is described that never occurs.

The documents are what the commands print of recorded traces, of small ones that are made here, and of machines that are
made up; ledgers and budgets are files.
"""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import schemas_page
import warm
from builders import annotation, call, kernel, launch, memcpy, memset, op, step, write
from jsonschema import Draft202012Validator
from pages import DOCS, alike, blocks
from schemas_page import Place as SchemaPlace
from schemas_page import Places, Schema, is_required, schema

from pytest_kernelprof import Profile, Trace, doctor, load_trace, reporting
from pytest_kernelprof.answers import answer_values
from pytest_kernelprof.attribution import Explanation
from pytest_kernelprof.budget import RULES, budget_of
from pytest_kernelprof.capture import Machine
from pytest_kernelprof.checks import Outcome, Verdict
from pytest_kernelprof.cli import main
from pytest_kernelprof.cli.check import FAIL, NOT_JUDGED, PASS
from pytest_kernelprof.errors import CaptureError, KernelprofError, NotMeasured, TraceError
from pytest_kernelprof.judging import Answer, Noted
from pytest_kernelprof.ledger.difference import Change
from pytest_kernelprof.ledger.document import Entries, read, text_of
from pytest_kernelprof.ledger.document import Place as Entered
from pytest_kernelprof.ledger.entry import (
    CPU_CLASSES,
    Amount,
    Entry,
    OpLine,
    entry_of,
    environment_key,
    uses_gpu,
)
from pytest_kernelprof.load.recording import Recording
from pytest_kernelprof.model import CLASSES, GPU_CLASSES
from pytest_kernelprof.names import ROLES, decode_kernel
from pytest_kernelprof.names.kernel_name import TENSOR_CORES
from pytest_kernelprof.sites import Place, Site
from pytest_kernelprof.trace_diff import _CLASSES, _PROPERTIES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
H200 = sorted((DATA / "traces_h200").glob("*.json.gz"))
CASES = sorted((DATA / "cases").glob("*.json*"))
RECORDINGS = sorted((ROOT / "examples/attention/__kernelprof__/traces").glob("*.json.gz"))[:2]
NAMES = ["budget", "check", "diff", "doctor", "ledger", "names", "report", "summary"]
PAGE = schemas_page.PAGE


class Document(NamedTuple):
    """A document that has to follow a schema.

    Attributes:
        source: The command that printed it, or what it was made from.
        value: The document, decoded.
    """

    source: str
    value: Any


def printed(*arguments: str | Path) -> Document:
    """Return what a command prints; a call that prints nothing is an error of the test."""
    words = [str(argument) for argument in arguments]
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        main([*words, "--format", "json"])
    return Document(" ".join(words)[:200], json.loads(out.getvalue()))


# Traces that none of the recorded ones stands in for


RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ROCM = {"steps": 1, "canary_devices": [], "no_gpu": "none here", "device": "AMD Instinct MI300X", "arch": "gfx942"}


def made(folder: Path) -> dict[str, Path]:
    """Write traces into a folder; return them by what they are."""
    no_time = launch(2, 1)
    del no_time[1]["dur"]
    no_place = kernel(5, 1, grid=[1, 1, 1], block=[64, 1, 1])
    del no_place["args"]["device"], no_place["args"]["stream"]
    no_place.update(pid="GPU", tid="stream")
    three = [[step(index, 1000 * index, 500), *launch(1000 * index + 5, index + 1)] for index in range(3)]
    uneven = [*three[0], *three[1], *launch(1050, 50), *three[2], *launch(2600, 60)]
    copies = [call("cudaMemcpyAsync", 5, 1), memcpy(9, 1, size=None, name="Memcpy")]
    copied = [call("cudaMemcpyAsync", 5, 1), memcpy(9, 1, name="Memcpy HtoD (Pageable -> Device)")]
    filled = [call("cudaMemsetAsync", 15, 2), memset(19, 2, size=None)]
    waits = [op("aten::item", 20, 9), call("cudaStreamSynchronize", 21, 3)]
    streams = [call("cudaDeviceSynchronize", 21, 3), *launch(25, 4)]
    rocm = {**ROCM, "torch": "2.11.0", "rocm": "6.4.1", "cudnn": "9.1", "python": "3.12.3"}
    untimed = [call("cudaMemsetAsync", 10, 1, dur=None), memset(None, 1, None, size=None)]
    untimed += [call("cudaMemcpyAsync", 20, 2, dur=None), memcpy(None, 2, None, size=None)]
    untimed += [call("cudaStreamSynchronize", 40, 9, dur=None), call("cuFunnyLaunch", 60, 20), kernel(65, 20)]
    for one in untimed:
        if one["cat"].startswith("gpu_"):
            one.update(pid="GPU", tid="stream", args={"correlation": one["args"]["correlation"]})
    never_ended = step(1, 200, 10)
    del never_ended["dur"]
    parts: dict[str, tuple[Sequence[Any], dict[str, Any]]] = {
        "lost": ([step(0, 0, 90), launch(2, 1), call("cudaLaunchKernel", 20, 5)], {}),
        "no times": ([step(0, 0, 90), untimed], {}),
        "cut": ([step(0, 0, 90), launch(2, 1), never_ended, op("aten::mul", 201, 5), launch(202, 2)], {}),
        "any region": (_of_two_regions(), {}),
        "no time": ([step(0, 0, 90), no_time], {}),
        "no device": ([step(0, 0, 90), call("cudaLaunchKernel", 2, 1), no_place], {}),
        "three steps": (three, {}),
        "uneven steps": ([uneven], {}),
        "all outside": ([step(1, 0, 10), op("aten::mul", 1, 5), launch(100, 1)], {}),
        "copies of unknown size": ([step(0, 0, 90), copies, filled, waits], {}),
        "pageable copies": ([step(0, 0, 90), copied, streams], {}),
        "leaked copy": ([step(0, 0, 90), memcpy(1, 99), call("cudaMemcpyAsync", 5, 1), memcpy(9, 1)], {}),
        "all roles": (_of_every_role(2), {}),
        "all roles, slower": (_of_every_role(4), {}),
        "rank": ([step(0, 0, 90), launch(2, 1, name=RING)], {"distributedInfo": {"rank": 3}}),
        "ROCm": ([step(0, 0, 90), op("aten::mul", 1, 5)], {"hip_runtime_version": 60400000, "pytest_kernelprof": rocm}),
    }
    files = {name: write(folder / f"{name}.json", *rows, **more) for name, (rows, more) in parts.items()}
    files["nothing"] = folder / "nothing.json"
    files["nothing"].write_text("[]")
    return files


def _of_two_regions() -> list[Any]:
    """Return a backward pass of which nobody can tell the region, since two threads have one open."""
    other, autograd = 200, 300
    rows: list[Any] = [step(0, 0, 900), annotation("one", 10, 800), annotation("two", 10, 800, tid=other)]
    rows += [op("aten::mul", 12, 5), op("aten::mul", 12, 5, tid=other)]
    rows += [op("autograd::engine::evaluate_function: MulBackward0", 100, 300, tid=autograd)]
    rows += [*launch(110, 1, tid=autograd), call("cudaMemcpyAsync", 120, 2, tid=autograd), memcpy(125, 2)]
    rows += [call("cudaMemsetAsync", 130, 3, tid=autograd), memset(135, 3)]
    return [*rows, call("cudaStreamSynchronize", 140, 4, tid=autograd)]


def _of_every_role(dur: int) -> list[Any]:
    """Return three steps, each with a kernel of every role, all as long."""
    rows: list[Any] = []
    for index in range(3):
        at = 10_000 * index
        rows.append(step(index, at, 5_000))
        for number, name in enumerate(names_by_role().values()):
            rows += launch(at + 10 * (number + 1), 100 * index + number + 1, name=name, dur=dur)
    return rows


@cache
def known_names() -> list[str]:
    """Return names of kernels that the tests of `decode_kernel` know."""
    found = set(gzip.decompress((DATA / "names/seen.txt.gz").read_bytes()).decode().splitlines())
    for file in ("labels_h200.tsv", "labels_other.tsv"):
        lines = (DATA / "names" / file).read_text().splitlines()
        rows = csv.DictReader((one for one in lines if one[0] != "#"), delimiter="\t", quoting=csv.QUOTE_NONE)
        found |= {row["name"] for row in rows}
    return sorted(name for name in found if name.strip())


@cache
def names_by_role() -> dict[str, str]:
    """Return a name for each role."""
    return {decode_kernel(name).role: name for name in reversed(known_names())}


# The documents


def summaries(folder: Path) -> Iterator[Document]:
    files = made(folder)
    for path in (*H200, *CASES, *RECORDINGS, *files.values()):
        yield printed("show", path)
    yield printed("show", *H200[:3], folder / "nowhere.json", CASES[0])


ALL_LIMITS = """\
kernels = 5
max_kernels = 5
min_kernels = 1
max_launches = 5
no_memcpy = true
max_memcpys = 0
max_memcpy_bytes = 0
no_copy = true
no_memset = true
no_own_memset = true
max_memsets = 1
no_host_sync = true
no_host_sync_but = ["aten::item"]
max_host_syncs = 0
tensor_cores = true
min_tensor_cores = 0.9
dtypes = ["bf16"]
sdpa_backend = "math"
graphed = true
min_occupancy = 0.05
max_gpu_time = 2_000_000
max_cpu_time = 2_000_000
max_peak_memory = 1_048_576
max_allocated_memory = 1_048_576
no_device_allocation = true
"""
AS_TEXT = """\
max_memcpy_bytes = "1 MiB"
max_gpu_time = "1.5 ms"
max_cpu_time = "2 ms"
max_peak_memory = "1 GiB"
max_allocated_memory = "1 GiB"
"""


def budget_texts() -> dict[str, str]:
    """Return budgets: with every limit in every table, and those that the documentation shows."""
    keys = {rule.key for rule in RULES if rule.of_kernels}
    of_kernels = "\n".join(line for line in ALL_LIMITS.splitlines() if line.partition(" ")[0] in keys)
    tables = (
        f'[region."attn_*"]\n{ALL_LIMITS}\n[step."*#2"]\n{ALL_LIMITS}\n[kernel."*gemm*"]\n{of_kernels}\n'
        '[op."aten::copy_"]\ncalls = 1\nmax_calls = 1\nmin_calls = 1\n'
    )
    backends = {
        one: "".join(f'{table}\nsdpa_backend = "{one}"\n' for table in ("", "[region.x]", "[step.x]"))
        for one in ("flash", "efficient", "cudnn", "math", "external")
    }
    shown = {
        f"{page.name}:{block.line}": block.text
        for page in sorted(DOCS.rglob("*.md"))
        for block in blocks(page.read_text())
        if block.kind == "toml" and "budget" in (block.file or "")
    }
    as_text = f"{AS_TEXT}[region.x]\n{AS_TEXT}[step.x]\n{AS_TEXT}"
    one = "[op.x]\ncalls = 1\n[kernel.x]\ngraphed = true"
    return {"every limit": f"{ALL_LIMITS}\n{tables}", "values as text": as_text, "one": one, **backends, **shown}


def budgets(folder: Path) -> Iterator[Document]:
    for source, text in budget_texts().items():
        file = folder / "budget.toml"
        file.write_text(text)
        assert budget_of(file).lines, source
        yield Document(source, tomllib.loads(text))


def checks(folder: Path) -> Iterator[Document]:
    files = made(folder)
    limits = ("--kernels", "5", "--no-memcpy", "--no-host-sync", "--tensor-cores", "--max-gpu-time", "2ms")
    yield printed("check", *H200, *CASES, *files.values(), folder / "nowhere.json", *limits)
    (folder / "budget.toml").write_text(budget_texts()["every limit"])
    yield printed("check", *H200[:4], *RECORDINGS, "--budget", folder / "budget.toml", "--no-memcpy", "--verbose")
    yield printed("check", DATA / "traces_h200/attn_inplace.json.gz", "--max-kernels", "5")
    yield printed("check", DATA / "traces_h200/attn_naive.json.gz", "--no-memcpy")
    yield printed("check", folder / "nowhere.json", "--no-memcpy")
    yield printed("check", files["rank"], "--no-copy")
    yield printed("check", files["all outside"], "--max-kernels", "5")
    yield printed("check", files["uneven steps"], "--max-kernels", "5", "--steps-may-differ")


def diffs(folder: Path) -> Iterator[Document]:
    files = made(folder)
    every = [*H200, *CASES, *files.values()]
    for before, after in pairwise(every):
        if _readable(before) and _readable(after):
            yield printed("diff", before, after, "--force")
    small = [files["copies of unknown size"], files["pageable copies"], files["three steps"], files["uneven steps"]]
    naive, flash = (DATA / f"traces_h200/attn_{name}.json.gz" for name in ("naive", "sdpa_flash"))
    for before, after in [(naive, flash), (flash, naive), (naive, naive), *pairwise(small)]:
        yield printed("diff", before, after)
        yield printed("diff", after, before, "--force")
    for path in (files["nothing"], DATA / "cases/38_wsl_no_kernels.json"):
        yield printed("diff", path, path)
        yield printed("diff", path, path, "--force")
    yield printed("diff", files["all roles"], files["all roles, slower"])
    yield printed("diff", files["all roles"], files["three steps"])
    yield printed("diff", files["three steps"], files["all roles"])


@cache
def _readable(path: Path) -> bool:
    try:
        load_trace(path)
    except TraceError:
        return False
    return True


THERE = Machine("2.11.0+cu130", "13.0", None, "13.0.85", ("NVIDIA H200",), records_gpu=True, profiler_active=False)
MACHINES: dict[str, Machine | Exception] = {
    "no torch": CaptureError("profiling needs torch"),
    "broken torch": OSError("libcudart.so.13: cannot open shared object file"),
    "CPU": THERE._replace(torch="2.13.0+cpu", cuda=None, cupti=None, gpus=(), records_gpu=False),
    "hidden GPU": THERE._replace(gpus=()),
    "H200": THERE,
    "MI300X": THERE._replace(cuda=None, rocm="6.4", cupti=None, gpus=("AMD Instinct MI300X",)),
    "without Kineto": THERE._replace(records_gpu=False, profiler_active=True, cupti="12.3.101"),
    "newer CUPTI": THERE._replace(cupti="13.2.7"),
}


def recorded(path: Path, *, on_gpu: bool) -> None:
    """Write what the profiler records of three steps of one addition."""
    rows: list[Any] = []
    for index in range(3):
        at = 1000 * index
        rows += [step(index, at, 500), op("aten::add", at + 1, 20), *(launch(at + 2, index + 1) if on_gpu else ())]
    write(path, *rows)


def not_recorded(path: Path, *, on_gpu: bool) -> None:
    if on_gpu:
        raise CaptureError("the profiler did not start")
    write(path, step(0, 0, 90), step(1, 100, 90), op("aten::add", 110, 20))


def doctors(folder: Path) -> Iterator[Document]:
    def machine(there: Machine | Exception) -> Callable[[], Machine]:
        def look() -> Machine:
            if isinstance(there, Exception):
                raise there
            return there

        return look

    command = [warm.python(), "-m", "pytest_kernelprof", "doctor", "--format", "json", "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    yield Document("doctor, here", json.loads(done.stdout))
    with pytest.MonkeyPatch.context() as patch:
        for name in doctor._INJECTED:
            patch.delenv(name, raising=False)
        for there in MACHINES.values():
            for profiled in (recorded, not_recorded):
                patch.setattr(doctor, "machine", machine(there))
                patch.setattr(doctor, "profile_something", profiled)
                yield printed("doctor", "--folder", folder)
        patch.setenv("CUDA_INJECTION64_PATH", "/opt/tool.so")
        yield printed("doctor", "--folder", folder)
        yield printed("doctor", "--folder", folder / "nowhere")


def decoded(folder: Path) -> Iterator[Document]:
    yield printed("decode", *known_names())
    for name in ("acme", "", "k\x1b[31m\u202e\u00e4", "_ZN2at6native29vectorized_elementwise_kernelE"):
        yield printed("decode", name, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(""))
        yield printed("decode")


def ledgers(folder: Path) -> Iterator[Document]:
    for path in (*H200, *CASES, *RECORDINGS, *made(folder).values()):
        if not _readable(path):
            continue
        trace = load_trace(path)
        on_gpu = uses_gpu(trace)
        try:
            key = environment_key(trace.environment, on_gpu=on_gpu)
        except NotMeasured:
            key = "unknown"
        for level in ("roles", "names"):
            entry = entry_of(trace.steps[0], GPU_CLASSES if on_gpu else CPU_CLASSES, level, trace.environment)
            yield _ledger(f"{path.name}, {level}", {Entered("test_it[16]", "1", key): entry})
            yield _ledger(f"{path.name}, ranges", {Entered("TestIt::test_it", "2", key): _in_ranges(entry)})
    by_hand = folder / "by_hand.json"
    document = _ledger("", {Entered("test_it", "1", "cpu"): Entry("roles", {}, {"ops": {}})}).value
    del document["entries"]["test_it"]["1"]["cpu"]["made_on"]
    by_hand.write_text(json.dumps(document))
    assert read(by_hand, by_hand.name, "")
    yield Document("by hand", document)
    for path in ROOT.glob("examples/**/__kernelprof__/*.json"):
        yield Document(str(path.relative_to(ROOT)), json.loads(path.read_text()))


def _ledger(source: str, entries: Entries) -> Document:
    return Document(source, json.loads(text_of(entries)))


def _in_ranges(entry: Entry) -> Entry:
    """Return an entry with a range for each number, as somebody may write it by hand."""
    lines = {
        name: {line: Amount(amount.low, amount.high + 1) for line, amount in some.items()}
        for name, some in entry.lines.items()
    }
    return entry._replace(lines=lines)


def reports(folder: Path) -> Iterator[Document]:
    files = [*H200, *CASES, *RECORDINGS, *made(folder).values()]
    (folder / "budget.toml").write_text(budget_texts()["every limit"])
    yield _reported(folder, *files, "--no-memcpy", "--budget", folder / "budget.toml")
    yield _reported(folder, *files[::10])
    yield _reported(folder, DATA / "traces_h200/attn_inplace.json.gz")
    yield _reported(folder, DATA / "traces_h200/attn_inplace.json.gz", "--no-memcpy")
    yield _reported(folder, DATA / "traces_h200/attn_naive.json.gz", "--no-memcpy")
    yield _reported(folder, DATA / "traces_h200/misc_empty_step.json.gz", "--no-memcpy")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CI.items():
            patch.setenv(name, value)
        yield from _of_tests(folder)
        for name in CI:
            patch.delenv(name)
        yield Document("no test, nowhere", reporting.document([], about={"tool": "pytest", "folder": Path("/")}))


CI = {
    "GITHUB_SHA": "0123abc",
    "GITHUB_SERVER_URL": "https://example.org",
    "GITHUB_REPOSITORY": "me/it",
    "GITHUB_RUN_ID": "7",
}


def _reported(folder: Path, *arguments: str | Path) -> Document:
    words = [*map(str, arguments), "-o", str(folder / "report.json")]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        main(["report", *words])
    return Document(" ".join(words)[:200], json.loads((folder / "report.json").read_text()))


def _of_tests(folder: Path) -> Iterator[Document]:
    """Yield reports of tests, as a run puts them together: what pytest adds to what traces tell."""
    outcomes = ["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
    ledger = ["same", "new", "updated", "differs", "missing", "not measured", "steps disagree", None]
    note = Recording(steps=3, device="NVIDIA H200", date="2026-11-29T10:00:00+00:00", test="t", seal="ab")
    tests = []
    lost = made(folder)["lost"]
    for number, path in enumerate([*RECORDINGS, *H200[:3], lost, *RECORDINGS[:2]]):
        trace, owner = load_trace(path), f"test_it.py::test_{number}"
        profile = reporting.profile_values(
            trace,
            owner=owner,
            name="1",
            note=[note, Recording(steps=3, date=None), None][number % 3],
            file=None if number % 2 else path.name,
            comparison=number == 1,
            detailed=number != 2,
        )
        profile |= {"recorded": "traces/x.json.gz" if number == 3 else None, "ledger": ledger[number]}
        verdict = reporting.VERDICTS[number % len(reporting.VERDICTS)]
        test = {
            "id": owner,
            "file": "test_it.py",
            "line": number + 1,
            "outcome": outcomes[number % len(outcomes)],
            "verdict": verdict,
            "message": "why",
            "at": {"file": "test_it.py", "line": 3} if number % 2 else None,
            "replayed": bool(number % 2),
            "profiles": [profile],
            "checks": list(_asked(trace, profile["id"])),
        }
        tests.append(test)
    about = {"tool": "pytest", "pytest": "9.2.0", "folder": folder}
    for some in (tests, tests[:1], [{**tests[1], "verdict": "pass"}]):
        yield Document("tests", reporting.document(some, problems=["crashed"], notes=["skipped"], about=about))
    yield Document("a pass", reporting.document([{**tests[1], "verdict": "pass"}], about=about))


def _asked(trace: Trace, profile: str) -> Iterator[dict[str, Any]]:
    """Yield what reports tell of assertions: of every outcome, with every kind of argument, guesses and changes."""
    found: list[Answer] = []
    asked = Profile(trace, noted=Noted(profile, found.append), explain=lambda: _everywhere(trace))

    def ask(question: Callable[[Profile], None], one: Profile = asked) -> None:
        with suppress(AssertionError, KernelprofError):
            question(one)

    ask(lambda one: one.assert_kernel_count(1, named="*gemm*", allow_empty=True))
    ask(lambda one: one.assert_kernel_count(between=(1, 2), region="nope"))
    ask(lambda one: one.assert_no_memcpy(kind=None))
    ask(lambda one: one.assert_no_host_sync(allow=["aten::item"]))
    ask(lambda one: one.assert_guess(gemm=9, memcpy=0))
    ask(lambda one: one.assert_guess(allow_others=True, gemm=0))
    ask(lambda one: one.assert_guess(allow_others=False, kernel=1))
    ask(lambda one: one.assert_guess(fill=0, elementwise=0))
    ask(lambda one: one.assert_peak_memory(at_most=1))
    for name in one_region(asked):
        ask(lambda one: one.assert_op_count("*", 1), asked.region(name))
    ask(
        lambda one: one.assert_op_count("*", at_least=0),
        Profile(trace, steps_may_differ=True, noted=asked._judge.noted),
    )
    values = [answer_values(one, profile, trace.steps) for one in found]
    yield from values
    for outcome in (Outcome.TOO_NOISY, Outcome.NO_ENTRY, Outcome.NOT_MEASURED):
        yield {**values[0], "outcome": outcome.value}
    changed = tuple(_changes_of_every_kind())
    yield answer_values(found[0]._replace(verdict=Verdict(Outcome.FAIL, "x", ledger=changed)), profile, trace.steps)


def one_region(profile: Profile) -> list[str]:
    return list(profile.regions[:1])


def _everywhere(trace: Trace) -> Explanation:
    """Return lines of Python for all events: one that called, one of which only the function is known."""
    places = [Place(Site("model.py", 27, "forward")), Place(Site("model.py", 20, "forward", exact=False))]
    events = [event for step in trace.steps for name in CLASSES for event in getattr(step, name).seen]
    return Explanation({event: places[number % 2] for number, event in enumerate(events)}, calls=1)


def _changes_of_every_kind() -> Iterator[Change]:
    for name in ("kernels", "memcpys", "memsets", "host_syncs", "ops"):
        line = OpLine("aten::add")
        yield Change(name, "more", after=((line, 1),))
        yield Change(name, "fewer", before=((line, 2),))
    for kind in ("changed", "fused", "split"):
        yield Change("kernels", kind, ((OpLine("a"), 1),), ((OpLine("b"), 1),))


MAKERS: dict[str, Callable[[Path], Iterator[Document]]] = {
    "budget": budgets,
    "check": checks,
    "diff": diffs,
    "doctor": doctors,
    "ledger": ledgers,
    "names": decoded,
    "report": reports,
    "summary": summaries,
}


@cache
def documents(name: str) -> list[Document]:
    """Return documents that follow a schema, the short ones first."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(MAKERS[name](Path(folder)))
    return sorted(found, key=lambda one: len(json.dumps(one.value, default=str)))


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


# Schemas


def test_every_schema_has_documents() -> None:
    assert schemas_page.names() == NAMES
    assert sorted(MAKERS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))

    assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema(name)["title"]
    assert schema(name)["description"]


def objects(node: Any, pointer: str = "#") -> Iterator[tuple[str, Schema]]:
    """Yield the parts of a schema that describe objects, and where they stand."""
    if isinstance(node, dict):
        if node.get("type") == "object" or "object" in node.get("type", ()):
            yield pointer, node
        for key, value in node.items():
            yield from objects(value, f"{pointer}/{key}")
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from objects(value, f"{pointer}/{number}")


@pytest.mark.parametrize("name", NAMES)
def test_an_object_admits_no_key_that_is_not_described(name: str) -> None:
    for pointer, one in objects(schema(name)):
        assert one.get("additionalProperties", True) is not True, pointer
        assert set(one.get("required", ())) <= set(one.get("properties", ())), pointer


Steps = tuple[Any, ...]
"""Keys and places in lists, on the way to a place of a document."""


class Visited(NamedTuple):
    """A place of a document.

    Attributes:
        path: Its path in words, such as ``traces[].file``.
        steps: The keys and indexes that lead to it.
        place: What schemas say of it.
        value: What stands there.
        required: It has to be there; ``None`` for what is no key that a schema names.
        beside: The keys of the object that it stands in, where a schema names them.
    """

    path: str
    steps: tuple[str | int, ...]
    place: SchemaPlace
    value: Any
    required: bool | None = None
    beside: frozenset[str] = frozenset()


def visited(name: str, document: Any) -> Iterator[Visited]:
    """Yield the places of a document, the outer ones first."""
    places = Places(schema(name))
    return _visited(places, Visited("", (), places.top, document))


def _visited(places: Places, at: Visited) -> Iterator[Visited]:
    fitting = next((one for one in places.variants(at.place) if _fits(places, one, at.value)), ())
    at = at._replace(place=(*at.place, *fitting))
    yield at
    if isinstance(at.value, dict):
        known, others = places.properties(at.place), places.others(at.place)
        for key, value in at.value.items():
            steps = (*at.steps, key)
            if key in known:
                path, required = f"{at.path}.{key}".lstrip("."), is_required(at.place, key)
                yield from _visited(places, Visited(path, steps, known[key], value, required, frozenset(at.value)))
            elif others is not None:
                path = f"{at.path}.<{schemas_page.key_name(at.place)}>"
                yield from _visited(places, Visited(path, steps, others, value))
    items = places.items(at.place)
    if isinstance(at.value, list) and items is not None:
        for number, value in enumerate(at.value):
            yield from _visited(places, Visited(f"{at.path}[]", (*at.steps, number), items, value))


def _fits(places: Places, variant: SchemaPlace, value: Any) -> bool:
    if isinstance(value, dict):
        return set(value) == set(places.properties(variant))
    return _type_of(value) in _types(variant)


def _type_of(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return "null" if value is None else names[type(value)]


def _types(place: SchemaPlace) -> list[str]:
    found = [one["type"] for one in place if "type" in one]
    return [name for types in found for name in ([types] if isinstance(types, str) else types)]


def alternatives(place: SchemaPlace) -> set[str]:
    """Return what may stand at a place: values, where a schema names them, or types."""
    for one in place:
        if "const" in one or "enum" in one:
            return {json.dumps(value) for value in one.get("enum", [one.get("const")])}
    found = set(_types(place))
    return (found - {"boolean"}) | ({"true", "false"} if "boolean" in found else set())


def alternative(at: Visited) -> str:
    """Return which of its alternatives stands at a place."""
    if any("const" in one or "enum" in one for one in at.place) or isinstance(at.value, bool):
        return json.dumps(at.value)
    found = _type_of(at.value)
    return "number" if found == "integer" and "integer" not in _types(at.place) else found


class Seen(NamedTuple):
    """What documents hold.

    Attributes:
        alternatives: By path, what may stand there, and does.
        possible: By path, what may stand there.
        first: Places, each of another path, beside other keys or with other ones, and the document that they are in.
        missing: By path of an object, keys that a schema names there, and that a document does without.
    """

    alternatives: dict[str, set[str]]
    possible: dict[str, set[str]]
    first: list[tuple[Document, Visited]]
    missing: dict[str, set[str]]


@cache
def seen(name: str) -> Seen:
    """Return what is in the documents of a schema."""
    found: dict[str, set[str]] = {}
    possible: dict[str, set[str]] = {}
    first: dict[tuple[str, frozenset[str], frozenset[str]], tuple[Document, Visited]] = {}
    missing: dict[str, set[str]] = {}
    places = Places(schema(name))
    for document in documents(name):
        for at in visited(name, document.value):
            found.setdefault(at.path, set()).add(alternative(at))
            possible.setdefault(at.path, set()).update(alternatives(at.place))
            known = frozenset(places.properties(at.place) if isinstance(at.value, dict) else ())
            missing.setdefault(at.path, set()).update(known.difference(at.value) if known else ())
            first.setdefault((at.path, at.beside, known), (document, at))
    return Seen(found, possible, list(first.values()), missing)


@pytest.mark.parametrize("name", NAMES)
def test_every_field_has_a_description(name: str) -> None:
    for field in schemas_page.fields(name):
        assert field.meaning, field.path
        assert field.type, field.path


# Documents


@pytest.mark.parametrize("name", NAMES)
def test_every_document_follows_its_schema(name: str) -> None:
    for document in documents(name):
        errors = [f"{error.json_path}: {error.message[:200]}" for error in validator(name).iter_errors(document.value)]
        assert errors == [], document.source


@pytest.mark.parametrize("name", NAMES)
def test_every_field_occurs_in_a_document(name: str) -> None:
    described = {field.path for field in schemas_page.fields(name)}

    assert described - set(seen(name).alternatives) == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_value_that_may_be_there_is_there_in_a_document(name: str) -> None:
    found = seen(name)
    missing = {path: left for path, may in found.possible.items() if (left := may - found.alternatives[path])}

    assert missing == {}


@pytest.mark.parametrize("name", NAMES)
def test_every_key_that_may_be_missing_is_missing_in_a_document(name: str) -> None:
    places = Places(schema(name))
    for document, at in seen(name).first:
        if isinstance(at.value, dict):
            optional = {key for key in places.properties(at.place) if not is_required(at.place, key)}
            assert optional <= seen(name).missing[at.path], f"{document.source}: {at.path}"


@pytest.mark.parametrize("name", NAMES)
def test_no_document_with_a_strange_key_a_missing_one_or_a_wrong_value_follows_the_schema(name: str) -> None:
    for document, at in seen(name).first:
        # Of a whole report, one mutant takes a tenth of a second.
        small, steps = trimmed(document.value, at.steps)
        assert validator(name).is_valid(small)
        for how, wrong in mutants(small, at._replace(steps=steps)):
            assert not validator(name).is_valid(wrong), f"{document.source}: {at.path}: {how}"


def trimmed(value: Any, steps: Steps) -> tuple[Any, Steps]:
    """Return a document, and the way to a place in it, with one item of each list of objects: that on the way."""
    first, *rest = steps or (None,)
    if isinstance(value, dict):
        parts = {key: trimmed(one, tuple(rest) if key == first else ()) for key, one in value.items()}
        return {key: part for key, (part, _) in parts.items()}, (first, *parts[first][1]) if steps else ()
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        part, left = trimmed(value[first or 0], tuple(rest))
        return [part], (0, *left) if steps else ()
    return value, steps


def mutants(document: Any, at: Visited) -> Iterator[tuple[str, Any]]:
    """Yield what becomes of a document when one place is changed, so that it no longer follows the schema."""

    def changed(change: Callable[[Any, Any], None]) -> Any:
        root = copy.deepcopy([document])
        *outer, last = (0, *at.steps)
        holder: Any = root
        for one in outer:
            holder = holder[one]
        change(holder, last)
        return root[0]

    if at.required:
        yield "missing", changed(lambda holder, key: holder.pop(key))
    if isinstance(at.value, dict):
        yield "strange key", changed(lambda holder, key: holder[key].update({"no such key": None}))
    yield "an object", changed(lambda holder, key: holder.__setitem__(key, {"no such key": [None]}))
    yield "a list", changed(lambda holder, key: holder.__setitem__(key, [{"no such key": None}]))


# What the code knows


def test_values_that_are_named_are_those_of_the_code() -> None:
    diff, names = schema("diff")["$defs"], schema("names")["$defs"]["name"]["properties"]
    finding = schema("doctor")["$defs"]["finding"]["properties"]
    kernel = diff["kernel"]["properties"]

    assert set(diff["class"]["enum"]) == set(_CLASSES)
    assert set(schema("diff")["properties"]["unknown"]["items"]["enum"]) == set(_PROPERTIES)
    assert tuple(kernel["role"]["enum"]) == tuple(names["role"]["enum"]) == ROLES
    assert tuple(kernel["tensor_cores"]["enum"]) == tuple(names["tensor_cores"]["enum"]) == TENSOR_CORES
    assert set(finding["state"]["enum"]) == {doctor.OK, doctor.WRONG, doctor.UNKNOWN, doctor.NOTE}
    assert schema("check")["$defs"]["outcome"]["enum"] == [PASS, FAIL, NOT_JUDGED]


def test_an_output_has_the_keys_in_the_order_of_its_schema() -> None:
    for name in ("check", "diff", "doctor", "names", "report", "summary"):
        places = Places(schema(name))
        for document, at in seen(name).first:
            if isinstance(at.value, dict) and places.properties(at.place):
                assert list(at.value) == list(places.properties(at.place)), f"{document.source}: {at.path}"


def test_every_limit_means_something_in_every_table() -> None:
    budget = Places(schema("budget"))
    top = budget.properties(budget.top)
    tables = {scope: budget.properties(budget.others(top[scope]) or ()) for scope in ("region", "step", "kernel")}

    for rule in RULES:
        (told,) = (one["description"] for one in top[rule.key] if set(one) == {"description"})
        for scope, limits in tables.items():
            if scope != "kernel" or rule.of_kernels:
                assert {"description": told} in limits[rule.key], (scope, rule.key)
    assert set(tables["kernel"]) == {rule.key for rule in RULES if rule.of_kernels}


# The page


def test_the_tables_of_the_page_are_those_of_the_schemas() -> None:
    """``python tests/schemas_page.py`` writes them anew."""
    page = PAGE.read_text()

    assert schemas_page.filled(page) == page


def test_the_page_names_every_schema() -> None:
    page = PAGE.read_text()

    for name in NAMES:
        assert f"`{name}-1.schema.json`" in page
    assert set(re.findall(r"\b([a-z]+)-1\.schema\.json", page)) == set(NAMES)


def test_the_page_shows_what_doctor_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "machine", lambda: THERE)
    monkeypatch.setattr(doctor, "profile_something", recorded)
    (shown,) = (one.text for one in blocks(PAGE.read_text()) if one.text.startswith("$ kernelprof doctor"))
    now = json.dumps(printed("doctor").value, indent=1)

    assert alike(shown, f"$ kernelprof doctor --format json\n{now}")
    assert not alike(shown, f"$ kernelprof doctor --format json\n{now.replace('H200', 'H100')}")


def test_the_page_shows_a_ledger_of_the_examples() -> None:
    (shown,) = (one.text for one in blocks(PAGE.read_text()) if one.kind == "json")
    document, whole = json.loads(shown), json.loads((ROOT / "examples/ledger/__kernelprof__/test_mlp.json").read_text())

    assert validator("ledger").is_valid(document)
    assert document["entries"]
    assert document["entries"].items() <= whole["entries"].items()


# The tests themselves


def test_a_place_has_what_its_references_say() -> None:
    root = {
        "properties": {"a": {"$ref": "#/$defs/one", "description": "mine"}, "b": {"items": {"$ref": "#/$defs/one"}}},
        "$ref": "#/$defs/more",
        "$defs": {
            "one": {"$ref": "#/$defs/two", "description": "one"},
            "two": {"type": "integer"},
            "more": {"properties": {"a": {"description": "more"}, "c": {"const": 1}}},
        },
    }
    places = Places(root)
    below = places.properties(places.top)

    assert list(below) == ["a", "b", "c"]
    assert schemas_page.meaning(places, below["a"]) == "mine; more; one"
    assert schemas_page.meaning(places, below["b"]) == "one"
    assert _types(below["a"]) == ["integer"]


def test_a_cell_shows_signs_of_markdown_as_they_are() -> None:
    assert schemas_page._cell("a | b, *c*, `d|*e*`, <f> [1]") == "a \\| b, \\*c\\*, `d\\|*e*`, \\<f\\> \\[1\\]"
