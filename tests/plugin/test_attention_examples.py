"""What the attention examples do where things are not as on an H200: other GPUs, no package, noise, other shapes."""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import mutations
import pytest
from builders import run_pytest

pytestmark = pytest.mark.usefixtures("needs_torch")
REPLAY = "--kernelprof-replay=always"

Replayed = Callable[..., pytest.RunResult]
Example = Callable[[str], Any]


@pytest.fixture
def replayed(pytester: pytest.Pytester) -> Replayed:
    """Run the edited examples by replay."""

    def run(*arguments: str, edits: Iterable[mutations.Edit] = (), mutant: str | None = None) -> pytest.RunResult:
        mutations.prepare(pytester.path, mutations.Mutation(tuple(edits), frozenset()))
        mutations.add_recordings(pytester.path, mutant)
        return run_pytest(pytester, REPLAY, *arguments)

    return run


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Example]:
    """Import a module of the examples."""
    monkeypatch.syspath_prepend(str(mutations.ATTENTION))
    names = ("prebuilt", "shapes", "findings")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield __import__
    for name in names:
        sys.modules.pop(name, None)


def test_on_an_unmeasured_gpu_wrong_guesses_are_reported_and_the_rest_is_asserted(replayed: Replayed) -> None:
    forget = 'for row in BY_ARCHITECTURE.values():\n    row.setdefault("8.0", row["9.0"])\n    del row["9.0"]\n'
    as_on_an_a100 = "guess: what the A100 does"
    result = replayed("-rs", edits=[mutations.Edit("findings.py", "", forget)], mutant=as_on_an_a100)

    # Those that differ on an A100 are reported; all that holds everywhere still passes.
    reported = mutations.MUTATIONS[as_on_an_a100].red
    result.assert_outcomes(skipped=11 + len(reported), passed=48 - len(reported))
    result.stdout.fnmatch_lines(
        [
            "N3  partly  *: `nvjet_sm90_tst_*",
            "    not judged: matmul was never measured for compute capability 9.0; guess of 8.0 against seen: "
            "0 kernels a step, expected 2 (named '[*]s16816[*]')",
        ]
    )
    result.stdout.fnmatch_lines(
        ["C2  skipped *", "    not judged: cudnn name was never measured *: assert 'sm90 wgmma * == 'sm80*"]
    )
    result.stdout.fnmatch_lines(["C7  skipped *", "*", "    not judged: fastest first was never measured *"])


@pytest.mark.parametrize(
    ("wrong", "test"),
    [
        (mutations.Edit("test_sdpa.py", "math.assert_kernel_count(20)", "math.assert_kernel_count(21)"), "m1_twenty"),
        # Beside a guess that differs by architecture, what holds everywhere still fails.
        (mutations.Edit("test_sdpa.py", "== (2, 8)", "== (4, 16)"), "f3_low"),
    ],
)
def test_a_wrong_claim_that_holds_everywhere_fails_on_an_unmeasured_gpu(
    replayed: Replayed, wrong: mutations.Edit, test: str
) -> None:
    elsewhere = 'for row in BY_ARCHITECTURE.values():\n    row["9.9"] = row.pop("9.0")\n'
    result = replayed("-k", f"test_{test}", edits=[mutations.Edit("findings.py", "", elsewhere), wrong])

    result.assert_outcomes(failed=1)


def test_the_nearest_architecture_is_that_below(example: Example) -> None:
    nearest_to = example("findings").nearest_to

    assert nearest_to("8.6", ["8.0", "9.0", "10.0"]) == "8.0"
    assert nearest_to("12.0", ["8.0", "9.0", "10.0"]) == "10.0"
    assert nearest_to("7.5", ["8.0", "9.0", "10.0"]) == "8.0"
    assert nearest_to("unknown", ["9.0"]) == "9.0"


def test_a_place_that_is_wrong_for_certain_beats_one_that_is_too_noisy(replayed: Replayed) -> None:
    edit = mutations.Edit(
        "test_compare.py",
        "            fused[fast].assert_faster_than(fused[slow], steps=CALLS)\n",
        "            if other == 'flash':\n                raise TooNoisy('noisy')\n"
        "            fused[fast].assert_faster_than(fused[slow], by=100, steps=CALLS)\n",
    )
    result = replayed("-k", "c7", edits=[edit])

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *AssertionError: 3.* times as fast * as efficient, GPU time, expected at least 100*"]
    )


def test_a_time_that_is_too_noisy_is_skipped_with_what_was_measured(replayed: Replayed) -> None:
    edit = mutations.Edit("test_compare.py", 'fused["cudnn"], on="cpu"', 'fused["cudnn"], by=1.1, on="cpu"')
    result = replayed("-rs", "-k", "c6", edits=[edit])

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * too noisy to judge: 1.* times as fast (1.* to 1.*) as cudnn, CPU time*"])


def test_another_shape_is_not_judged_by_these_recordings(replayed: Replayed) -> None:
    result = replayed("--attention-shape=2,4,256,64", "-k", "test_n1")

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*ReplayError: *it was made with (bfloat16[[]8, 16, 1024, 64]*"])
    result.stdout.fnmatch_lines(["*record it again: pytest --kernelprof-record test_naive.py"])


@pytest.mark.parametrize("text", ["1,2,3", "1,2,3,0", "1,2,3,-4", "a,b,c,d", "", "1, 2, 3, 4"])
def test_a_wrong_shape_is_a_usage_error(replayed: Replayed, text: str) -> None:
    result = replayed(f"--attention-shape={text}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--attention-shape: {text!r} is no shape; accepted: four positive numbers*"])


def test_the_options_may_be_unknown_where_the_folder_is_found_by_collection(pytester: pytest.Pytester) -> None:
    folder = pytester.path / "examples/attention"
    folder.parent.mkdir()
    mutations.prepare(folder)
    mutations.add_recordings(folder)
    (folder / "pytest.ini").unlink()
    result = run_pytest(pytester, REPLAY, "examples")

    result.assert_outcomes(passed=48, skipped=11)


def test_the_findings_are_those_of_the_recorded_run(replayed: Replayed, pytester: pytest.Pytester) -> None:
    """What a replay sees is what was seen live, so that the page tells of the recordings."""
    replayed("--attention-findings=seen.json")
    seen = {row["id"]: row for row in json.loads((pytester.path / "seen.json").read_text())["findings"]}
    live = json.loads((mutations.ATTENTION / "findings_h200.json").read_text())

    assert live["device"] == "NVIDIA H200"
    assert live["torch"].startswith("2.11")
    assert len(live["findings"]) == 30
    for row in live["findings"]:
        assert (row["result"], row["why"]) == ("passed", [])
        replay = seen[row["id"]]
        assert replay["tests"] == row["tests"]
        if row["id"] not in ("N4", "K2", "M6", "K1"):
            assert replay["seen"] == row["seen"]
    k1 = next(row["seen"] for row in live["findings"] if row["id"] == "K1")
    assert set(k1.split("; ")) == {"2 kernels: fill, attention", "flash-attn-3 from fa3_fwd_interface"}
    assert "flash-attn-3 from a recording" in seen["K1"]["seen"]
    assert seen["M6"]["result"] == "partly"
    assert seen["N4"]["why"] == ["a claim about values: live only, since a replay calculates nothing"]


def test_what_was_seen_live_and_what_in_recordings_is_told_apart(example: Example) -> None:
    sources = example("findings").sources
    verdict, count = ("kernelprof.verdict", "pass"), ("kernelprof.naive.kernels", 5)
    old, new = (("kernelprof.naive.replayed", f"NVIDIA H200, 2026-11-{day}") for day in (29, 30))

    assert sources([[("seen", "5 kernels"), verdict], []]) == (False, [])
    assert sources([[verdict, count], [verdict, ("kernelprof.kernels", 5)]]) == (True, [])
    assert sources([[count, new], [count, old], [count, new]]) == (False, [old[1], new[1]])
    assert sources([[count], [count, old]]) == (True, [old[1]])


# Which FlashAttention is taken


def package(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    module = types.ModuleType(name)
    for key, value in attributes.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


def test_the_hub_comes_first_then_flash_attn_then_flash_attention_3(
    monkeypatch: pytest.MonkeyPatch, example: Example
) -> None:
    prebuilt = example("prebuilt")
    package(monkeypatch, "fa3_fwd_interface", flash_attn_func="three")
    assert prebuilt.find() == ("fa3_fwd_interface", "three")

    prebuilt.find.cache_clear()
    package(monkeypatch, "flash_attn", flash_attn_func="two")
    assert prebuilt.find() == ("flash_attn", "two")

    prebuilt.find.cache_clear()
    asked = []
    hub = types.SimpleNamespace(flash_attn_func="hub")

    def get_kernel(name: str, revision: str) -> types.SimpleNamespace:
        asked.append((name, revision))
        return hub

    package(monkeypatch, "kernels", get_kernel=get_kernel)
    assert prebuilt.find() == ("kernels-community/flash-attn2", "hub")
    assert asked == [("kernels-community/flash-attn2", "main")]


def test_a_hub_that_cannot_be_reached_leaves_the_next(monkeypatch: pytest.MonkeyPatch, example: Example) -> None:
    def unreachable(name: str, revision: str) -> NoReturn:
        raise OSError("no network\nand much more")

    prebuilt = example("prebuilt")
    package(monkeypatch, "kernels", get_kernel=unreachable)
    package(monkeypatch, "flash_attn", flash_attn_func="two")
    assert prebuilt.find()[0] == "flash_attn"

    prebuilt.find.cache_clear()
    monkeypatch.delitem(sys.modules, "flash_attn")
    monkeypatch.setitem(sys.modules, "fa3_fwd_interface", None)
    with pytest.raises(LookupError) as told:
        prebuilt.find()
    expected = r"no pre-built FlashAttention \(kernels-community/flash-attn2: no network; flash_attn: .*; fa3_fwd.*\)"
    assert re.fullmatch(expected, str(told.value))


def test_prebuilt_attention_is_causal_and_gives_the_result_alone(
    monkeypatch: pytest.MonkeyPatch, example: Example
) -> None:
    asked = []

    def flash(q: str, k: str, v: str, causal: bool) -> tuple[str, str]:
        asked.append(causal)
        return q, "log-sum-exp"

    prebuilt = example("prebuilt")
    package(monkeypatch, "flash_attn", flash_attn_func=flash)
    monkeypatch.setitem(sys.modules, "kernels", None)

    assert prebuilt.attention("q", "k", "v") == "q"
    assert asked == [True]
