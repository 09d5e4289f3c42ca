"""Rules that hold the architecture: layers, who may know what, and what importing costs."""

from __future__ import annotations

import ast
import contextlib
import gzip
import re
import subprocess
import sys
import zlib
from pathlib import Path

import architecture_page as drawn
import pytest
from architecture_page import PACKAGE, ROOT, imports_of, layer_of

import pytest_kernelprof

LAYERS = (
    "errors",
    "files",
    "documents",
    "units",
    "spread",
    "driver",
    "workers",
    "names",
    "occupancy",
    "events",
    "sites",
    "eventset",
    "explain",
    "memory",
    "model",
    "attribution",
    "hints",
    "matrix",
    "load",
    "functions",
    "options",
    "ledger",
    "trace_diff",
    "recordings",
    "artifacts",
    "capture",
    "limits",
    "checks",
    "name_checks",
    "occupancy_checks",
    "memory_checks",
    "time_checks",
    "ledger_checks",
    "report",
    "count",
    "asking",
    "judging",
    "answers",
    "selecting",
    "comparing",
    "assertions",
    "profile",
    "reporting",
    "budget",
    "profiled",
    "doctor",
    "cli",
    "hookspecs",
    "plugin",
)
"""From the bottom up: a module imports only from those before it."""

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in ("__main__.py",))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_from_layers_below(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    own = relative.parts[0].removesuffix(".py")
    if own == "__init__":
        return
    assert own in LAYERS, f"{own} has no place in the layers"
    for module in imports_of(path):
        layer = layer_of(module)
        if layer is not None and layer != own and layer != "__version__":
            assert LAYERS.index(layer) < LAYERS.index(own), f"{relative} imports {module}"


def importers_of(name: str) -> set[str]:
    return {
        path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for path in MODULES
        if any(module.split(".")[0] == name for module in imports_of(path))
    }


def test_one_place_knows_torch_and_one_knows_pytest() -> None:
    assert importers_of("torch") == {"capture"}
    # What others implement is declared in pytest's types; nothing else of it is used there.
    assert importers_of("pytest") == {"plugin", "hookspecs"}
    assert importers_of("tabulate") == {"report"}
    assert importers_of("jsonschema") == {"documents"}
    assert importers_of("filelock") == {"files"}


def imported_by(code: str) -> str:
    """Return which of the slow packages are loaded in a fresh process after *code*."""
    heavy = ("torch", "jsonschema", "msgspec", "tabulate", "filelock")
    program = f"import sys; {code}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_importing_the_plugin_loads_nothing_slow() -> None:
    assert imported_by("import pytest_kernelprof.plugin") == "[]"
    assert imported_by("import pytest_kernelprof") == "[]"
    assert imported_by("import pytest_kernelprof.cli") == "[]"


def test_a_run_without_profiles_loads_nothing_slow(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        def test_other():
            assert [name for name in ("torch", "jsonschema", "msgspec", "tabulate") if name in sys.modules] == []
        """
    )
    pytester.runpytest_subprocess("-p", "no:xdist").assert_outcomes(passed=1)
    pytester.runpytest_subprocess("-p", "no:xdist", "--kernelprof").assert_outcomes(passed=1)


def test_reading_a_trace_does_not_import_torch() -> None:
    assert imported_by("from pytest_kernelprof import Profile, load_trace") == "[]"


def test_the_public_names_are_these_and_all_exist() -> None:
    assert sorted(pytest_kernelprof.__all__) == pytest_kernelprof.__all__
    for name in pytest_kernelprof.__all__:
        assert getattr(pytest_kernelprof, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = pytest_kernelprof.Nothing


def test_the_picture_and_the_page_of_the_architecture_are_drawn_from_the_code() -> None:
    assert drawn.PICTURE.read_text() == drawn.picture(), "python tests/architecture_page.py"
    assert drawn.PAGE.read_text() == drawn.filled(drawn.PAGE.read_text()), "python tests/architecture_page.py"
    grouped = [module for group in drawn.GROUPS for module in group.modules]
    assert sorted(grouped) == sorted(LAYERS)


def test_no_arrow_of_the_picture_goes_up() -> None:
    row = {group.name: group.row for group in drawn.GROUPS}
    assert all(row[one] <= row[other] for one, other in drawn.arrows())


def test_the_package_prints_ascii_alone() -> None:
    """Terminals and logs of CI mangle anything else; names from traces are escaped (tests/test_messages.py)."""
    looked_for = "\N{REPLACEMENT CHARACTER}"  # In names from traces, by the reader.
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value.isascii() or node.value == looked_for, (
                    f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value!r}"
                )


def committed() -> list[Path]:
    """Return the files of the project; without git, as in an unpacked sdist, those that are there."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]
    folders = ("docs", "examples", "pytest_kernelprof", "tests", "benchmarks")
    return [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]


MACHINE_PATH = re.compile(rb"(?<![\w.~-])/(?:root|work|mnt|Users|home/(?!me/)[a-z]\w*|tmp/\w+|opt/\w+)/[\w.-]")


def test_no_committed_file_names_a_folder_of_a_machine() -> None:
    """Recordings included: a path tells who made them, and is of no use to others."""
    found = []
    for path in committed():
        text = path.read_bytes()
        if text.startswith(b"\x1f\x8b"):
            with contextlib.suppress(EOFError, OSError, zlib.error):  # Some test data is broken on purpose.
                text = gzip.decompress(text)
        match = MACHINE_PATH.search(text)
        if match and path != Path(__file__):
            found.append(f"{path.name}: {text[match.start() : match.end() + 40]!r}")
    assert found == []


def test_documentation_and_code_are_ascii() -> None:
    for path in committed():
        if path.suffix in (".py", ".md", ".toml", ".yml", ".yaml", ".svg"):
            assert path.read_bytes().isascii(), path.name
