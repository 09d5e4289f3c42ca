"""Recording and replaying: the same verdicts and messages without the device, and refusals with a reason."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import mutations
import pytest
from builders import Once, run_pytest

pytestmark = pytest.mark.usefixtures("needs_torch")
SHAPES = Path(__file__).parent.parent / "data/shapes"

Change = Callable[[dict[str, Any]], None]
"""Changes what a recording holds."""

GUARDS = """
    import pytest, torch

    CALLS = []
    pytestmark = pytest.mark.kernelprof(device="cpu")

    def negate(x):
        CALLS.append(1)
        return x.neg()

    def test_passes(profiled):
        profiled(negate, torch.ones(4, device=profiled.device)).assert_op_count("aten::neg", 1)

    def test_fails(profiled):
        profiled(negate, torch.ones(4, device=profiled.device)).assert_no_op("aten::neg")
"""


def recordings(pytester: pytest.Pytester, folder: str = "__kernelprof__/traces") -> list[Path]:
    return sorted((pytester.path / folder).rglob("*.json.gz"))


@pytest.fixture
def recorded(pytester: pytest.Pytester, once: Once) -> Path:
    """Record GUARDS, and return the recording of the first."""

    def record() -> None:
        pytester.makepyfile(test_it=GUARDS)
        result = run_pytest(pytester, "--kernelprof-record")
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(
            ["kernelprof: on (warmup 3, steps 3), recording", "kernelprof: 2 of 2 profiles recorded"]
        )

    once("guards", record)
    (path,) = (pytester.path / "__kernelprof__/traces").glob("test_it.test_passes-*.json.gz")
    return path


def note_of(path: Path) -> Any:
    with gzip.open(path) as file:
        return json.load(file)["pytest_kernelprof"]


def rewrite(path: Path, change: Change) -> None:
    with gzip.open(path) as file:
        document = json.load(file)
    change(document)
    with gzip.open(path, "wt") as file:
        json.dump(document, file)


def replay(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return run_pytest(pytester, "--kernelprof-replay=always", "-k", "passes", *arguments)


# The shapes, recorded on an H200


def test_verdicts_and_headlines_are_those_of_the_live_run(pytester: pytest.Pytester) -> None:
    """Whole messages are compared by record.py, on the GPU, where both sides are laid out by the same code."""

    def headline(message: str) -> str:
        whole: str = module.comparable(message)
        return whole.partition("\n")[0]

    record = importlib.util.spec_from_file_location("record", SHAPES / "record.py")
    assert record is not None
    assert record.loader is not None
    module = importlib.util.module_from_spec(record)
    record.loader.exec_module(module)
    module.prepare(pytester.path)
    shutil.copytree(SHAPES / "__kernelprof__", pytester.path / "__kernelprof__")
    live = json.loads((SHAPES / "outcomes.json").read_text())

    result = run_pytest(pytester, "--kernelprof-replay=always")

    replayed = json.loads((pytester.path / "outcomes.json").read_text())
    assert len(live) >= 53
    assert {test: [what, headline(told)] for test, (what, told) in replayed.items()} == {
        test: [what, headline(told)] for test, (what, told) in live.items()
    }
    result.stdout.fnmatch_lines(["kernelprof: on *replaying every test from recordings of NVIDIA H200"])
    assert not (pytester.path / ".kernelprof").exists()


def test_a_recorded_mutant_fails_the_in_place_guard_with_the_copy(tmp_path: Path, pytester: pytest.Pytester) -> None:
    name = "in place: masked_fill for masked_fill_"
    mutations.prepare(pytester.path, mutations.MUTATIONS[name])
    mutations.add_recordings(pytester.path, name)
    result = run_pytest(pytester, "--kernelprof-replay=always", "-k", "i1_no_memcpy")

    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "E       AssertionError: 1 memory copy a step, expected none",
            "E       DtoD * 256.0 MiB * aten::masked_fill > aten::clone > aten::copy_",
            "E       trace: __kernelprof__/traces/test_in_place.module-in_place-*.json.gz*",
            "E       replayed: recorded on NVIDIA H200, 20??-??-??",
        ]
    )


def test_the_examples_replay_where_the_device_is_missing(pytester: pytest.Pytester) -> None:
    mutations.prepare(pytester.path)
    mutations.add_recordings(pytester.path)
    pytester.makepyfile(test_live=GUARDS.partition("    def test_fails")[0])
    result = run_pytest(pytester, "--kernelprof-replay=missing-device", "-v")

    import torch

    if torch.cuda.is_available():
        result.assert_outcomes(passed=60)
        result.stdout.fnmatch_lines(["*= findings of the blog: live (*) =*"])
        result.stdout.no_fnmatch_line("kernelprof: * replayed (*")
    else:
        result.assert_outcomes(passed=49, skipped=11)
        result.stdout.fnmatch_lines(["*test_i1_no_memcpy_any_more PASSED (replayed)*"])
        # The headline is about the tests of the findings, the line about all of the run.
        result.stdout.fnmatch_lines(["*= findings of the blog: replayed (NVIDIA H200, 20??-??-??) =*"])
        line = "kernelprof: 29 of 30 profiles replayed (NVIDIA H200, 20??-??-??)"
        result.stdout.fnmatch_lines(["test_n1* 5 * 1 * replayed", line])


# How it works


def test_a_replay_calls_nothing_writes_nothing_and_says_so(pytester: pytest.Pytester, recorded: Path) -> None:
    (pytester.path / "conftest.py").write_text(
        "import pytest\n@pytest.fixture(autouse=True)\ndef device(profiled):\n"
        "    yield\n    assert str(profiled.device) == 'meta'\n"
    )
    before = {path: path.stat().st_mtime_ns for path in recordings(pytester)}
    shutil.rmtree(pytester.path / ".kernelprof")
    source = (pytester.path / "test_it.py").read_text()
    (pytester.path / "test_it.py").write_text(
        source + "\ndef test_last_nothing_was_called(profiled):\n    assert not CALLS\n"
    )
    result = run_pytest(pytester, "--kernelprof-replay=always", "-v", "--kernelprof-require=1")

    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*replaying every test from recordings of *"])
    result.stdout.fnmatch_lines(
        ["test_it.py::test_passes PASSED (replayed)*", "test_it.py::test_fails FAILED (replayed)*"]
    )
    result.stdout.fnmatch_lines(["E       replayed: recorded on *, 20??-??-??"])
    result.stdout.fnmatch_lines(
        ["test_it.py::test_passes * replayed*", "kernelprof: 2 of 2 profiles replayed (no GPU, 20??-??-??)"]
    )
    result.stdout.fnmatch_lines(["kernelprof: 0 profiles measured, --kernelprof-require=1"])
    assert {path: path.stat().st_mtime_ns for path in recordings(pytester)} == before
    assert not (pytester.path / ".kernelprof").exists()


def test_only_tests_whose_device_is_absent_are_replayed(pytester: pytest.Pytester, recorded: Path) -> None:
    result = run_pytest(pytester, "--kernelprof-replay=missing-device", "-k", "passes", "-v")

    result.assert_outcomes(passed=1)
    assert "PASSED (replayed)" not in result.stdout.str()
    result.stdout.no_fnmatch_line("kernelprof: * replayed (*")


def test_provenance_stands_in_the_recording(recorded: Path) -> None:
    import torch

    from pytest_kernelprof import __version__

    note = note_of(recorded)

    assert note["test"] == "test_it.py::test_passes"
    assert (note["function"], note["steps"], note["warmup"], note["setup"]) == ("negate", 3, 3, False)
    assert (note["torch"], note["plugin"]) == (torch.__version__, __version__)
    assert datetime.now(timezone.utc) - datetime.fromisoformat(note["date"]) < timedelta(hours=1)
    assert len(note["seal"]) == 64


def test_provenance_of_a_gpu_recording() -> None:
    note = note_of(next((mutations.ATTENTION / mutations.RECORDINGS).glob("test_naive.module-naive-*")))

    assert note["device"] == "NVIDIA H200"
    assert note["canary_devices"] == [0]
    assert note["driver"]
    assert note["cudnn"]
    assert [figure["step"] for figure in note["allocator"]] == [0, 1, 2]
    # Naive attention holds two score matrices at once and allocates four in all, output aside.
    score = 8 * 16 * 1024 * 1024 * 2
    for figure in note["allocator"]:
        assert 2 * score <= figure["peak_bytes"] < 2.2 * score
        assert 4 * score <= figure["allocated_bytes"] < 5 * score
        assert figure["driver_allocations"] == 0


def test_no_machine_path_stands_in_a_recording(recorded: Path) -> None:
    with gzip.open(recorded) as file:
        document = json.load(file)

    assert "traceName" not in document
    assert "host_name" not in document


def test_slim_recordings_are_smaller_and_judge_alike(pytester: pytest.Pytester, recorded: Path) -> None:
    whole = recorded.stat().st_size
    run_pytest(pytester, "--kernelprof-record", "--kernelprof-slim", "-k", "passes").assert_outcomes(passed=1)

    assert recorded.stat().st_size < whole
    assert note_of(recorded)["function"] == "negate"
    replay(pytester).assert_outcomes(passed=1)


def test_results_are_not_recorded(pytester: pytest.Pytester, recorded: Path) -> None:
    source = (pytester.path / "test_it.py").read_text()
    source = source.replace('.assert_op_count("aten::neg", 1)', ".result")
    (pytester.path / "test_it.py").write_text(source)

    result = replay(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *NotMeasured: result not recorded: under replay the function is not called"])


def test_the_folder_of_the_recordings_can_be_chosen(pytester: pytest.Pytester) -> None:
    pytester.mkdir("deep")
    (pytester.path / "deep/test_it.py").write_text("import textwrap\n" + __import__("textwrap").dedent(GUARDS))
    run_pytest(pytester, "--kernelprof-record", "--kernelprof-traces=kept", "-k", "passes").assert_outcomes(passed=1)

    (path,) = recordings(pytester, "kept")
    assert path.relative_to(pytester.path).as_posix().startswith("kept/deep/test_it.test_passes-")
    assert recordings(pytester, "deep/__kernelprof__") == []
    replay(pytester, "--kernelprof-traces=kept").assert_outcomes(passed=1)
    pytester.makeini("[pytest]\nkernelprof_replay = always\nkernelprof_traces = kept")
    run_pytest(pytester, "-k", "passes").assert_outcomes(passed=1)


def test_workers_record_side_by_side(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    pytester.makepyfile(
        test_many="""
        import pytest, torch

        @pytest.mark.parametrize("number", range(30))
        def test_neg(profiled, number):
            profiled(torch.neg, torch.ones(4, device=profiled.device)).assert_op_count("aten::neg", 1)

        @pytest.mark.kernelprof(trace="shared")
        @pytest.mark.parametrize("number", range(30))
        def test_shared(profiled, number):
            profiled(torch.neg, torch.ones(4, device=profiled.device)).assert_op_count("aten::neg", 1)
        """
    )
    result = run_pytest(pytester, "--kernelprof-record", "-n2")
    result.assert_outcomes(passed=60)
    result.stdout.fnmatch_lines(["kernelprof: 60 of 60 profiles recorded"])

    assert len(recordings(pytester)) == 31
    assert [path.name for path in (pytester.path / "__kernelprof__/traces").glob(".half*")] == []
    result = run_pytest(pytester, "--kernelprof-replay=always", "-n2", "-q")
    result.assert_outcomes(passed=60)
    assert result.stdout.str().count("\nkernelprof: 60 of 60 profiles replayed (no GPU, 20") == 1


def test_two_hundred_recordings_replay(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_many="""
        import pytest, torch

        @pytest.mark.parametrize("number", range(200))
        def test_neg(profiled, number):
            profiled(torch.neg, torch.ones(4, device=profiled.device)).assert_op_count("aten::neg", 1)
        """
    )
    run_pytest(pytester, "--kernelprof-record").assert_outcomes(passed=200)
    assert len(recordings(pytester)) == 200

    result = run_pytest(pytester, "--kernelprof-replay=always", "-q")
    result.assert_outcomes(passed=200)
    result.stdout.fnmatch_lines(["kernelprof: 200 of 200 profiles replayed (no GPU, 20??-??-??)"])


def test_a_renamed_file_keeps_its_recordings(pytester: pytest.Pytester, recorded: Path) -> None:
    (pytester.path / "test_it.py").rename(pytester.path / "test_renamed.py")

    replay(pytester).assert_outcomes(passed=1)


def test_a_test_of_the_same_name_in_another_file_has_none(pytester: pytest.Pytester, recorded: Path) -> None:
    shutil.copy(pytester.path / "test_it.py", pytester.path / "test_other.py")
    result = replay(pytester, "test_other.py")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *ReplayError: no recording to replay (looked for *test_other.test_passes-*"])


# What is refused


def source_of(pytester: pytest.Pytester) -> str:
    return (pytester.path / "test_it.py").read_text()


def assert_refused_after(pytester: pytest.Pytester, changed: str, message: str) -> None:
    """Replay the recording of a test whose file was changed since."""
    (pytester.path / "test_it.py").write_text(changed)
    result = replay(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *ReplayError: recording *cannot be replayed: *{message}*"])


def test_without_a_recording_the_test_fails_and_says_how_to_make_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=GUARDS)
    result = replay(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*replaying every test from recordings (there is none)"])
    result.stdout.fnmatch_lines(
        ["E *ReplayError: no recording to replay*make one: pytest --kernelprof-record test_it.py::test_passes"]
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('device="cpu"', 'device="cpu", steps=5', "made with steps=3, the test asks for steps=5"),
        ('device="cpu"', 'device="cpu", warmup=1', "made with warmup=3, the test asks for warmup=1"),
        ("profiled(negate,", "profiled(torch.neg,", "it is of 'negate', the test profiles 'neg'"),
        ("profiled(negate,", "profiled(abs,", "it is of 'negate', the test profiles 'abs'"),
    ],
)
def test_recordings_of_something_else_are_refused(
    pytester: pytest.Pytester, recorded: Path, old: str, new: str, message: str
) -> None:
    assert_refused_after(pytester, source_of(pytester).replace(old, new, 1), f"{message}; record it again: pytest")


def test_edited_metadata_are_refused(pytester: pytest.Pytester, recorded: Path) -> None:
    rewrite(recorded, lambda document: document.update(deviceProperties=[{"name": "NVIDIA B300"}]))

    replay(pytester).assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("torch.ones(4,", "torch.ones(5,", "it was made with (float32[[]4]), the test passes (float32[[]5])"),
        (
            "profiled(negate, torch",
            "profiled.configure(setup=tuple)(negate); (torch",
            "made with setup=False*setup=True",
        ),
        ("profiled(negate", "profiled.configure(activities='cpu')(negate", "made with activities=None*"),
    ],
)
def test_recordings_of_other_arguments_are_refused(
    pytester: pytest.Pytester, recorded: Path, old: str, new: str, message: str
) -> None:
    assert_refused_after(pytester, source_of(pytester).replace(old, new, 1), message)


def test_profiles_of_wider_fixtures_need_a_name_to_be_recorded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import torch
        def test_one(module_profiled):
            module_profiled(torch.neg, torch.ones(4, device=module_profiled.device)).assert_op_count("aten::neg", 1)
        """
    )
    for option in ("--kernelprof-record", "--kernelprof-replay=always"):
        result = run_pytest(pytester, option)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["E *MisuseError: a profile needs name= here: recordings of module_profiled*"])
    run_pytest(pytester, "--kernelprof").assert_outcomes(passed=1)


def test_a_fixture_made_live_is_no_replay(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest, torch

        @pytest.fixture(scope="module")
        def profile(module_profiled):
            return module_profiled.configure(name="one")(torch.neg, torch.ones(4, device=module_profiled.device))

        def test_cpu(profile):
            profile.assert_op_count("aten::neg", 1)

        @pytest.mark.kernelprof(device="xpu")
        def test_gpu(profile, module_profiled):
            profile.assert_op_count("aten::neg", 1)
        """
    )
    result = run_pytest(pytester, "--kernelprof-replay=missing-device", "-v")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["E *ReplayError: module_profiled was made for a test that is live, test_gpu is replayed*"]
    )


def test_a_block_that_raises_takes_its_label(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest, torch
        def test_passes(profiled):
            x = torch.ones(4, device=profiled.device)
            with pytest.raises(KeyError), profiled.block():
                raise KeyError
            with profiled.block() as handle:
                x.neg()
            handle.profile.assert_op_count("aten::neg", 1)
        """
    )
    run_pytest(pytester, "--kernelprof-record").assert_outcomes(passed=1)
    replay(pytester).assert_outcomes(passed=1)


def test_tests_that_share_a_recording_must_record_the_same(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest, torch

        def many(x, number):
            for _ in range(number):
                x.neg()

        @pytest.mark.kernelprof(trace="shared")
        @pytest.mark.parametrize("number", [1, 5])
        def test_passes(profiled, number):
            profiled(many, torch.ones(4, device=profiled.device), number).assert_op_count("aten::neg", number)
        """
    )
    result = run_pytest(pytester, "--kernelprof-record")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["kernelprof: 1 of 2 profiles recorded", "*recorded something else under the same name*"]
    )
    replay(pytester).assert_outcomes(passed=1, failed=1)


def test_the_command_line_beats_the_ini(pytester: pytest.Pytester, recorded: Path) -> None:
    pytester.makeini("[pytest]\nkernelprof_replay = always")
    result = run_pytest(pytester, "--kernelprof-record", "-k", "passes")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["kernelprof: 1 of 1 profile recorded"])


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda", "it was made for device=cpu, the test asks for cuda"), ("cuda>=9.0", "the test asks for cuda>=9.0")],
)
def test_recordings_of_another_device_are_refused(
    pytester: pytest.Pytester, recorded: Path, device: str, message: str
) -> None:
    changed = source_of(pytester).replace('device="cpu"', f'device="{device}"')
    assert_refused_after(pytester, changed, f"{message}; record it again")


def test_a_recording_of_a_smaller_capability_is_refused(pytester: pytest.Pytester) -> None:
    shutil.copytree(mutations.ATTENTION, pytester.path / "attention")
    guard = pytester.path / "attention/test_naive.py"
    guard.write_text(guard.read_text().replace('device="cuda"', 'device="cuda>=10.0"'))
    result = run_pytest(pytester, "--kernelprof-replay=always", "attention/test_naive.py")

    result.assert_outcomes(errors=7, skipped=1)
    result.stdout.fnmatch_lines(["E *made with compute capability 9.0, the test needs cuda>=10.0*"])

    guard.write_text(guard.read_text().replace('device="cuda>=10.0"', 'device="rocm"'))
    result = run_pytest(pytester, "--kernelprof-replay=always", "attention/test_naive.py")

    result.assert_outcomes(errors=7, skipped=1)
    result.stdout.fnmatch_lines(["E *it was made for device=cuda, the test asks for rocm*"])


def reseal(path: Path, change: Change) -> None:
    """Change a recording and give it the seal that belongs to it, as nobody would by hand."""
    import msgspec

    from pytest_kernelprof.recordings import sealed

    rewrite(path, change)
    with gzip.open(path) as file:
        document = msgspec.json.decode(file.read(), type=dict[str, msgspec.Raw])
    path.write_bytes(gzip.compress(sealed(document)))


def test_old_recordings_are_refused(pytester: pytest.Pytester, recorded: Path) -> None:
    def age(document: dict[str, Any]) -> None:
        then = datetime.now(timezone.utc) - timedelta(days=100)
        document["pytest_kernelprof"]["date"] = then.isoformat(timespec="seconds")

    reseal(recorded, age)
    replay(pytester).assert_outcomes(passed=1)
    replay(pytester, "--kernelprof-replay-max-age=15w").assert_outcomes(passed=1)
    result = replay(pytester, "--kernelprof-replay-max-age=90")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *it is 100 days old, kernelprof_replay_max_age allows 90 days*"])


def test_a_hand_cut_recording_is_refused(pytester: pytest.Pytester, recorded: Path) -> None:
    def cut(document: dict[str, Any]) -> None:
        document["traceEvents"] = [row for row in document["traceEvents"] if row.get("name") != "aten::neg"]

    rewrite(recorded, cut)
    result = replay(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *ReplayError: recording is corrupt: *edited after it was recorded, its seal does not match*"]
    )


def test_a_hand_edited_note_is_refused(pytester: pytest.Pytester, recorded: Path) -> None:
    rewrite(recorded, lambda document: document["pytest_kernelprof"].update(device="NVIDIA B300"))

    replay(pytester).assert_outcomes(failed=1)


def test_an_incomplete_recording_is_refused(pytester: pytest.Pytester, recorded: Path) -> None:
    def lose_steps(document: dict[str, Any]) -> None:
        rows = document["traceEvents"]
        document["traceEvents"] = [row for row in rows if row.get("name") != "ProfilerStep#2"]
        document["pytest_kernelprof"]["no_gpu"] = None
        document["pytest_kernelprof"]["canary_devices"] = [99]

    reseal(recorded, lose_steps)
    result = replay(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *ReplayError: recording *cannot be replayed: kernels: the canary kernel on GPU 99*"]
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b'{"traceEvents": ['), gzip.compress(b'{"traceEvents": []}')],
    ids=["empty", "text", "truncated", "nothing"],
)
def test_corrupt_recordings_are_refused(pytester: pytest.Pytester, recorded: Path, content: bytes) -> None:
    recorded.write_bytes(content)
    result = replay(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *ReplayError: recording is corrupt: *record it again: pytest*"])


def test_foreign_traces_are_refused(pytester: pytest.Pytester, recorded: Path) -> None:
    shutil.copy(SHAPES.parent / "traces_h200/attn_naive.json.gz", recorded)
    result = replay(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *not written by --kernelprof-record*"])


def test_record_and_replay_exclude_each_other(pytester: pytest.Pytester) -> None:
    result = run_pytest(pytester, "--kernelprof-record", "--kernelprof-replay=always")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: record and replay exclude each other: nothing is ever written from a replay"])


def test_a_replay_error_is_no_expected_failure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest, torch
        @pytest.mark.xfail(raises=AssertionError)
        def test_passes(profiled):
            profiled(torch.neg, torch.ones(4, device=profiled.device)).assert_op_count("aten::neg", 1)
        """
    )
    replay(pytester, "--kernelprof-not-measured=skip").assert_outcomes(failed=1)


def test_what_cannot_be_written_is_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=GUARDS)
    (pytester.path / "__kernelprof__").write_text("a file where a folder should be")
    result = run_pytest(pytester, "--kernelprof-record", "-k", "passes")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["kernelprof: 0 of 1 profile recorded", "test_it.py::test_passes: not recorded: *"])
