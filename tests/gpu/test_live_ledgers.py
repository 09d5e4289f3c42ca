"""Live on a GPU: the same code gives the same ledger, in process after process, and a change is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_kernelprof import Profiled

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.kernelprof(device="cuda")

ROUNDS = 20
WORK = """
    import pytest, torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    pytestmark = pytest.mark.kernelprof(device="cuda")


    def made(*shape, dtype=torch.bfloat16):
        return torch.randn(shape, device="cuda", dtype=dtype)

    def naive(q, k, v):
        scores = q @ k.transpose(-2, -1) * 0.125
        return torch.softmax(scores.masked_fill(scores < 0, float("-inf")), -1) @ v

    def sdpa(backend):
        def call(q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return call

    def mlp(x, gate, down):
        return (F.silu(x @ gate) * x.sum(-1, keepdim=True)) @ down

    def synchronous(x):
        return x[x > 0].sum().item() + x.cpu().sum().item()

    QKV = [(2, 4, 256, 64)] * 3
    FUNCTIONS = {
        "naive": (naive, QKV),
        "flash": (sdpa(SDPBackend.FLASH_ATTENTION), QKV),
        "efficient": (sdpa(SDPBackend.EFFICIENT_ATTENTION), QKV),
        "math": (sdpa(SDPBackend.MATH), QKV),
        "mlp": (mlp, [(64, 256), (256, 512), (512, 256)]),
        "synchronous": (synchronous, [(1024,)]),
        "sort": (lambda x: torch.sort(x)[0].cumsum(0).topk(5)[0], [(4096,)]),
        "embedding": (lambda x: F.embedding(torch.arange(9, device="cuda"), x).contiguous(), [(64, 32)]),
    }

    @pytest.mark.parametrize("level", ["roles", "names"])
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_forward(profiled, name, level):
        function, shapes = FUNCTIONS[name]
        profiled(function, *(made(*shape) for shape in shapes)).assert_matches_ledger(level=level)

    @pytest.mark.parametrize("level", ["roles", "names"])
    def test_training_step(profiled, level):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(288, 4)).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        inputs = made(4, 3, 8, 8, dtype=torch.float32)

        def train():
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()

        profiled(train).assert_matches_ledger(level=level)

    def test_graph(profiled):
        x, graph = made(256, 256), torch.cuda.CUDAGraph()
        (x @ x).relu()
        with torch.cuda.graph(graph):
            (x @ x).relu()
        profiled(graph.replay).assert_matches_ledger(level="names")

    @pytest.mark.parametrize("level", ["roles", "names"])
    def test_compiled(profiled, level):
        compiled = torch.compile(lambda q, k, v: naive(q, k, v).relu().sum(-1))
        profiled.configure(warmup=5)(compiled, *(made(1, 2, 128, 64) for _ in range(3))).assert_matches_ledger(level=level)
"""


def environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_XDIST") and name not in ("CI", "PYTEST_ADDOPTS")
    }
    # Choices that are tuned must not be remembered: each process makes its own.
    return kept | {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


def run_fresh(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") is not None:
        command += ["-p", "pytest_kernelprof.plugin"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment())


def write(folder: Path, text: str) -> Path:
    import textwrap

    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_work.py").write_text(textwrap.dedent(text))
    return folder / "__kernelprof__/test_work.json"


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_ledger_made_in_one_process_holds_in_another(profiled: Profiled, tmp_path: Path, number: int) -> None:
    ledger = write(tmp_path, WORK)
    made = run_fresh(tmp_path, "--kernelprof-update")
    assert made.returncode == 0, made.stdout
    kept = os.environ.get("KERNELPROF_TEST_LEDGERS")
    if kept:
        shutil.copy(ledger, Path(kept) / f"{number}.json")

    compared = run_fresh(tmp_path, "--kernelprof", "--kernelprof-strict")

    assert compared.returncode == 0, compared.stdout
    assert json.loads(ledger.read_text())["entries"]


def test_a_change_on_the_gpu_is_told_with_its_line_and_an_update_accepts_it(profiled: Profiled, tmp_path: Path) -> None:
    ledger = write(tmp_path, WORK)
    one = "test_work.py::test_forward[naive-roles]"
    assert run_fresh(tmp_path, "--kernelprof-update", one).returncode == 0
    (tmp_path / "test_work.py").write_text(
        (tmp_path / "test_work.py")
        .read_text()
        .replace("scores.masked_fill(scores < 0", "scores.float().masked_fill(scores < 0")
        .replace("-1) @ v", "-1).bfloat16() @ v")
    )

    changed = run_fresh(tmp_path, "--kernelprof", one)

    assert changed.returncode == 1
    assert "AssertionError: the step differs from its ledger: " in changed.stdout
    assert "softmax bf16 -> softmax fp32" in changed.stdout
    assert "in naive" in changed.stdout
    assert f"to accept: pytest --kernelprof-update '{one}'" in changed.stdout
    assert run_fresh(tmp_path, "--kernelprof-update", one).returncode == 0
    assert run_fresh(tmp_path, "--kernelprof", "--kernelprof-strict", one).returncode == 0
    assert "fp32" in ledger.read_text()


def test_workers_on_one_gpu_lose_and_double_nothing(profiled: Profiled, tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    ledger = write(
        tmp_path,
        """
        import pytest, torch

        @pytest.mark.kernelprof(device="cuda", warmup=1, steps=1)
        @pytest.mark.parametrize("number", range(200))
        def test_it(profiled, number):
            profiled(torch.neg, torch.ones(2, device="cuda")).assert_matches_ledger()
        """,
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-n4", *arguments]
        if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") is not None:
            command += ["-p", "pytest_kernelprof.plugin", "-p", "xdist"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment())

    made = run("--kernelprof-update")
    assert made.returncode == 0, made.stdout
    assert "200 entries written: 200 added" in made.stdout
    before = ledger.read_bytes()
    assert before.count(b'"level"') == 200
    assert len(json.loads(before)["entries"]) == 200

    again = run("--kernelprof", "--kernelprof-strict")
    assert again.returncode == 0, again.stdout
    assert ledger.read_bytes() == before
