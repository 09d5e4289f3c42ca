"""The command line, in processes of its own: no torch, exit codes, one line an error."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from builders import launch, write

from pytest_kernelprof.cli import main

DATA = Path(__file__).parent / "data/traces_h200"


def kernelprof(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_kernelprof", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def shown(name: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["show", "--format", "json", str(DATA / f"{name}.json.gz")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "kernelprof/summary/1"
    (trace,) = document["traces"]
    return trace


NVJET = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_NNT"
DECODED = """\
nvjet_sm90_tst_64x8_64x16_1x2_h_bz_NNT
  gemm; library cublas; bf16; sm90; tile 64x8x64; tensor cores: yes (wgmma)
    nvjet  a matrix multiplication of cuBLAS for Hopper and later, always on tensor cores
    sm90   built for compute capability 9.0
    tst    operands bf16, summed in fp32, result bf16
    64x8   tile of the result that a thread block calculates
    64x16  steps of 64 along the inner dimension, 16 in flight
    1x2    thread blocks in a cluster
    h      tiles are walked horizontally
    bz     the result is overwritten (beta is zero)
    NNT    layouts of A, B and the result: N as stored, T transposed

acme
  unknown: no rule knows this name; tensor cores: unknown
    acme  -
"""
FIELDS = [
    *("name", "demangled", "library", "role", "direction", "dtypes", "arch", "tile", "instruction", "tensor_cores"),
    *("attention_backend", "fused_ops", "parts"),
]


def test_decode_explains_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", NVJET, "acme"]) == 0

    assert capsys.readouterr().out == DECODED


def test_decode_prints_one_array_in_the_order_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--format", "json", "acme", NVJET, "acme"]) == 0

    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["acme", NVJET, "acme"]
    assert all(list(row) == FIELDS for row in rows)
    assert rows[1]["role"] == "gemm"
    assert rows[1]["dtypes"] == ["bf16"]
    assert rows[1]["tensor_cores"] == "yes"
    assert rows[1]["parts"][0] == {
        "text": "nvjet",
        "meaning": "a matrix multiplication of cuBLAS for Hopper and later, always on tensor cores",
    }
    assert rows[0]["parts"] == [{"text": "acme", "meaning": ""}]


def decode_from(names: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pytest_kernelprof", "decode", *arguments]
    return subprocess.run(command, input=names, capture_output=True, check=False)


def test_decode_reads_names_from_standard_input() -> None:
    done = decode_from(f"{NVJET}\n\n  acme \r\n".encode())
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, DECODED, b"")

    done = decode_from(b"\xff\xc3\xa4\n" + NVJET.encode(), "--format", "json")
    assert [row["role"] for row in json.loads(done.stdout)] == ["other", "gemm"]
    assert json.loads(decode_from(b"", "--format", "json").stdout) == []
    assert decode_from(b"").stdout == b"\n"


def test_decode_without_names_at_a_terminal_says_what_is_accepted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())

    with pytest.raises(SystemExit) as caught:
        main(["decode"])

    assert caught.value.code == 2
    assert "no name given; accepted: names as arguments, or one a line on standard input" in capsys.readouterr().err


class Terminal:
    def isatty(self) -> bool:
        return True


def test_decode_shows_hostile_names_in_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "k\x1b[31m\u202e\u00e4<script>", "x" * 10_000]) == 0

    out = capsys.readouterr().out
    assert out.isascii()
    assert "\x1b" not in out


def test_the_summary_tells_what_names_say(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["role"]: row for row in shown("attn_naive", capsys)["kernels"] if row["launched_by"]}

    assert (rows["gemm"]["library"], rows["gemm"]["dtypes"], rows["gemm"]["tensor_cores"]) == (
        "cublas",
        ["bf16"],
        "yes",
    )
    assert (rows["softmax"]["library"], rows["softmax"]["tensor_cores"]) == ("aten", "no")


def test_the_summary_of_naive_attention(capsys: pytest.CaptureFixture[str]) -> None:
    trace = shown("attn_naive", capsys)

    assert trace["complete"] is True
    assert trace["incomplete"] == []
    assert trace["environment"]["devices"] == ["NVIDIA H200"]
    assert trace["environment"]["compute_capability"] == "9.0"
    assert trace["environment"]["rank"] is None
    assert trace["totals"] == {
        "kernels": 17,
        "memcpys": 3,
        "memsets": 3,
        "host_syncs": 0,
        "ops": 117,
        "orphans": {"leaked": 2, "late": 0},
        "outside_steps": 0,
        "gpu_time_ns": 3558950,
        "gpu_busy_ns": 3558950,
    }
    assert trace["steps"][0] == {
        "name": "ProfilerStep#2",
        "kernels": 5,
        "memcpys": 1,
        "memsets": 1,
        "host_syncs": 0,
        "gpu_time_ns": 1065271,
        "complete": True,
    }
    assert trace["regions"] == [{"name": "attn_fwd", "count": 3, "kernels": 15}]
    assert trace["launches"] == {
        "cudaLaunchKernel": 9,
        "cuLaunchKernelEx": 6,
        "cudaMemcpyAsync": 3,
        "cudaMemsetAsync": 3,
    }
    assert trace["copies"] == [
        {
            "kind": "DtoD",
            "count": 3,
            "bytes": 805306368,
            "pageable": False,
            "launched_by": ["aten::masked_fill", "aten::clone", "aten::copy_"],
        }
    ]
    assert [warning["code"] for warning in trace["warnings"]] == ["leaked"]


def test_orphans_have_rows_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    rows = shown("attn_naive", capsys)["kernels"]

    assert sum(row["count"] for row in rows) == 17
    assert [row["count"] for row in rows if row["launched_by"] is None] == [1, 1]
    (gemm,) = (
        row for row in rows if row["name"].startswith("nvjet") and row["count"] == 3 and "256x128" in row["name"]
    )
    assert (gemm["grid"], gemm["block"], gemm["registers_per_thread"]) == ([2, 66, 1], [384, 1, 1], 168)
    assert gemm["reported_occupancy"] is None  # 0 with more than 48 KiB of shared memory is no measurement.
    assert gemm["launched_by"] == ["aten::matmul", "aten::bmm"]


def test_what_was_not_measured_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    trace = shown("misc_empty_step", capsys)

    totals = trace["totals"]
    assert [totals[name] for name in ("kernels", "memcpys", "memsets", "gpu_time_ns", "gpu_busy_ns")] == [None] * 5
    assert (totals["host_syncs"], totals["ops"]) == (0, 0)
    assert trace["complete"] is False
    assert any("no GPU event and no canary" in reason for reason in trace["incomplete"])
    assert [step["kernels"] for step in trace["steps"]] == [None, None, None]
    assert [step["complete"] for step in trace["steps"]] == [False] * 3


def schema() -> Any:
    return json.loads(files("pytest_kernelprof").joinpath("schemas/summary-1.schema.json").read_text())


@pytest.mark.parametrize("folder", ["traces_h200", "cases"])
def test_what_is_printed_follows_the_schema_in_the_package(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the schema is checked with jsonschema (the test extra)")
    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    paths = [str(path) for path in sorted((DATA.parent / folder).glob("*.json*"))]

    main(["show", "--format", "json", *paths])

    document = json.loads(capsys.readouterr().out)
    assert len(document["traces"]) >= 35
    assert [error.message for error in validator.iter_errors(document)] == []


def test_the_schema_admits_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the schema is checked with jsonschema (the test extra)")
    validator = jsonschema.Draft202012Validator(schema())
    document = {"schema": "kernelprof/summary/1", "traces": [shown("misc_cat", capsys)]}
    assert validator.is_valid(document)

    for change in ({"kernels": -1}, {"kernels": "5"}, {"more": 1}):
        wrong = json.loads(json.dumps(document))
        wrong["traces"][0]["totals"].update(change)
        assert not validator.is_valid(wrong), change
    del document["traces"][0]["copies"]
    assert not validator.is_valid(document)


def test_what_has_no_time_has_no_sum_of_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = launch(1, 1)
    del rows[1]["dur"]
    assert main(["show", "--format", "json", str(write(tmp_path / "t.json", rows))]) == 0
    (trace,) = json.loads(capsys.readouterr().out)["traces"]

    assert trace["totals"]["kernels"] == 1
    assert (trace["totals"]["gpu_time_ns"], trace["totals"]["gpu_busy_ns"]) == (None, None)
    assert trace["kernels"][0]["gpu_time_ns"] is None


def test_launches_outside_ops_have_an_empty_chain(capsys: pytest.CaptureFixture[str]) -> None:
    trace = shown("misc_graph_replay", capsys)

    assert {tuple(row["launched_by"]) for row in trace["kernels"] if row["launched_by"] is not None} == {()}


def test_text_shows_steps_and_events() -> None:
    result = kernelprof("show", DATA / "attn_naive.json.gz")

    assert result.returncode == 0
    assert "NVIDIA H200, compute capability 9.0, CUDA 13.0" in result.stdout
    assert "DtoD    256.0 MiB     3        382.7 us  aten::masked_fill > aten::clone > aten::copy_" in result.stdout
    assert result.stdout.isascii()


def test_broken_files_are_one_line_each_and_good_ones_are_shown(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"traceEvents": [')
    result = kernelprof("show", bad, tmp_path / "missing.json", DATA / "misc_cat.json.gz", "--format", "json")

    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 2
    assert "JSON truncated at byte 17" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(json.loads(result.stdout)["traces"]) == 1


def test_wrong_calls_exit_with_2() -> None:
    for arguments in ((), ("show",), ("show", "x", "--format", "yaml"), ("dance",)):
        assert kernelprof(*arguments).returncode == 2


def test_the_console_script_is_installed() -> None:
    script = shutil.which("kernelprof", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("the package is not installed as a distribution here")
    result = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)

    assert result.stdout.startswith("kernelprof ")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    paths = [str(DATA / "attn_sdpa_math.json.gz")] * 40
    command = f"{sys.executable} -m pytest_kernelprof show {' '.join(paths)} | head -n 1"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)

    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr
