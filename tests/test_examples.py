"""The examples and the README: guards go red on the mutation they are for, and commands are those of CI."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import PLUGINS_OFF, run_pytest_apart

ROOT = Path(__file__).parent.parent


@pytest.fixture
def copied(pytester: pytest.Pytester) -> Callable[[str], pytest.Pytester]:
    """Copy an example into the folder of an inner run."""

    def copy(name: str) -> pytest.Pytester:
        for path in (ROOT / "examples" / name).glob("*.py"):
            shutil.copy(path, pytester.path)
        return pytester

    return copy


def mutate(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.mark.usefixtures("needs_torch")
def test_the_quickstart_guard_is_green_and_goes_red_with_the_copy(copied: Callable[[str], pytest.Pytester]) -> None:
    pytester = copied("quickstart")
    green = pytester.runpytest_subprocess(*PLUGINS_OFF, "--kernelprof", "--kernelprof-require=1")
    green.assert_outcomes(passed=1)

    mutate(pytester.path / "masking.py", "scores.masked_fill_(", "scores.masked_fill(")
    red = run_pytest_apart(pytester, "--kernelprof")

    red.assert_outcomes(failed=1)
    assert red.ret == 1
    red.stdout.fnmatch_lines(
        [
            "E       AssertionError: 1 op a step, expected none (named 'aten::copy_')",
            "E       1        aten::copy_  aten::masked_fill > aten::clone  masking.py:15 in mask_scores",
            "E       hint: masked_fill copies its input;*",
        ]
    )


def readme_commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_ci_calls_the_two_commands_of_the_readme_word_for_word() -> None:
    commands = readme_commands()
    script = (ROOT / ".ci/run").read_text()

    assert len(commands) == 2
    for command in commands:
        assert command in script.splitlines()


def test_every_assertion_and_option_is_in_the_documentation() -> None:
    from pytest_kernelprof import Profile
    from pytest_kernelprof.options import OPTIONS

    assertions = (ROOT / "docs/reference/assertions.md").read_text()
    options = (ROOT / "docs/reference/options.md").read_text()

    for name in dir(Profile):
        if name.startswith("assert_"):
            assert f"`{name}(" in assertions, name
    for option in OPTIONS:
        assert f"`{option.flag}" in options
        assert f"`{option.ini}`" in options or not option.has_ini


def test_the_failure_in_the_readme_is_what_the_package_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are of one run on an H200; the words are today's, from its recorded trace and the mutant's source."""
    from mutations import MUTATIONS, prepare

    from pytest_kernelprof import Profile, load_trace
    from pytest_kernelprof.attribution import Explanation
    from pytest_kernelprof.recordings import artifact_name
    from pytest_kernelprof.sites import Place, Site

    name = "in place: masked_fill for masked_fill_"
    prepare(tmp_path, MUTATIONS[name])
    monkeypatch.chdir(tmp_path)
    (recording,) = (ROOT / "tests/data/mutants/in_place_masked_fill_for_masked_fill").glob(
        "test_in_place.module-in_place-*"
    )
    trace = load_trace(recording)
    inputs = ("bfloat16[8, 16, 1024, 1024]", "bool[1024, 1024]", "-inf")
    place = Place(Site(str(tmp_path / "in_place.py"), 20, "attention", "masked_fill", inputs=inputs))
    explanation = Explanation({trace.steps[0].memcpys.seen[0]: place}, calls=1)
    kept = artifact_name("test_attention.py::test_masking_in_place_makes_no_copy", "1")
    profile = Profile(trace, keep_trace=lambda: f".kernelprof/{kept}", explain=lambda: explanation)

    with pytest.raises(AssertionError) as caught:
        profile.assert_no_memcpy()

    printed = [f"E       {line}".rstrip() for line in f"AssertionError: {caught.value}".splitlines()]
    assert "\n".join(printed) in (ROOT / "README.md").read_text()
    without_trace = f"AssertionError: {caught.value}".partition("\ntrace: ")[0]
    for page in ("reference/assertions.md", "hints.md"):
        assert f"```text\n{without_trace}\n```" in (ROOT / "docs" / page).read_text()


def test_the_failure_on_the_page_of_ledgers_is_what_the_package_prints() -> None:
    from ledgering import against

    with pytest.raises(AssertionError) as caught:
        against("attn_inplace", "attn_naive").assert_matches_ledger()

    shown = f"```text\nAssertionError: {caught.value}\n```"
    assert shown in (ROOT / "docs/reference/ledgers.md").read_text()


def test_the_page_of_ledgers_shows_the_example_and_its_ledger() -> None:
    page = (ROOT / "docs/reference/ledgers.md").read_text()
    test, ledger = (
        page.partition("```python\n")[2].partition("```")[0],
        page.partition("```json\n")[2].partition("```")[0],
    )
    source = (ROOT / "examples/ledger/test_mlp.py").read_text()
    committed = (ROOT / "examples/ledger/__kernelprof__/test_mlp.json").read_text()

    assert test.partition("\n")[2] in source
    entry = ledger.partition('"test_the_mlp_runs_the_kernels_of_yesterday[64]"')[2].rstrip().rstrip("}").rstrip()
    assert entry in committed


@pytest.mark.usefixtures("needs_torch")
def test_the_example_of_a_ledger_is_green_and_goes_red_with_another_kernel(
    copied: Callable[[str], pytest.Pytester], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    pytester = copied("ledger")
    shutil.copytree(ROOT / "examples/ledger/__kernelprof__", pytester.path / "__kernelprof__")
    run_pytest_apart(pytester, "--kernelprof-replay=always").assert_outcomes(passed=2)

    ledger = pytester.path / "__kernelprof__/test_mlp.json"
    gemms = '{"count": 3, "role": "gemm", "library": "cublas", "dtypes": ["bf16"], "tensor_cores": "yes"}'
    ledger.write_text(ledger.read_text().replace(gemms, gemms.replace("bf16", "fp32").replace("yes", "no")))
    red = run_pytest_apart(pytester, "--kernelprof-replay=always")

    red.assert_outcomes(failed=2)
    red.stdout.fnmatch_lines(["E *3 x gemm fp32 CUDA cores -> gemm bf16 tensor cores"])


def test_every_role_is_in_the_documentation() -> None:
    from pytest_kernelprof.names import ROLES

    page = (ROOT / "docs/names.md").read_text()
    assert all(f"`{role}`" in page for role in ROLES)


@pytest.mark.usefixtures("needs_torch")
def test_the_page_on_attention_is_what_was_recorded() -> None:
    """Its parts are made from the findings of a run, from a recording and from the mutations."""
    import attention_page

    page = attention_page.PAGE.read_text()

    assert attention_page.filled(page) == page
    options = (ROOT / "examples/attention/conftest.py").read_text()
    assert all(option in page for option in re.findall(r'addoption\("(--[a-z-]+)"', options))
