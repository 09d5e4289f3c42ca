"""Rules that hold the architecture: layers, who may know what, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_kernelprof

PACKAGE = Path(pytest_kernelprof.__file__).parent
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
    "judging",
    "selecting",
    "comparing",
    "assertions",
    "profile",
    "budget",
    "profiled",
    "doctor",
    "cli",
    "hookspecs",
    "plugin",
)
"""From the bottom up: a module imports only from those before it."""

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in ("__main__.py",))


def imports_of(path):
    """Yield (layer or module, level) of every import in a file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                yield node.module
            else:
                base = path.parent.relative_to(PACKAGE.parent).parts
                base = base[: len(base) - node.level + 1]
                names = [node.module] if node.module else [alias.name for alias in node.names]
                for name in names:
                    yield ".".join((*base, name))


def layer_of(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "pytest_kernelprof" and len(parts) > 1 else None


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_from_layers_below(path):
    relative = path.relative_to(PACKAGE)
    own = relative.parts[0].removesuffix(".py")
    if own == "__init__":
        return
    assert own in LAYERS, f"{own} has no place in the layers"
    for module in imports_of(path):
        layer = layer_of(module)
        if layer is not None and layer != own and layer != "__version__":
            assert LAYERS.index(layer) < LAYERS.index(own), f"{relative} imports {module}"


def importers_of(name):
    return {
        path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for path in MODULES
        if any(module.split(".")[0] == name for module in imports_of(path))
    }


def test_one_place_knows_torch_and_one_knows_pytest():
    assert importers_of("torch") == {"capture"}
    assert importers_of("pytest") == {"plugin"}
    assert importers_of("tabulate") == {"report"}
    assert importers_of("jsonschema") == {"documents"}
    assert importers_of("filelock") == {"ledger"}


def imported_by(code):
    """Return which of the slow packages are loaded in a fresh process after *code*."""
    heavy = ("torch", "jsonschema", "msgspec", "tabulate", "filelock")
    program = f"import sys; {code}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_importing_the_plugin_loads_nothing_slow():
    assert imported_by("import pytest_kernelprof.plugin") == "[]"
    assert imported_by("import pytest_kernelprof") == "[]"
    assert imported_by("import pytest_kernelprof.cli") == "[]"


def test_a_run_without_profiles_loads_nothing_slow(pytester):
    pytester.makepyfile(
        """
        import sys
        def test_other():
            assert [name for name in ("torch", "jsonschema", "msgspec", "tabulate") if name in sys.modules] == []
        """
    )
    pytester.runpytest_subprocess("-p", "no:xdist").assert_outcomes(passed=1)
    pytester.runpytest_subprocess("-p", "no:xdist", "--kernelprof").assert_outcomes(passed=1)


def test_reading_a_trace_does_not_import_torch(tmp_path):
    assert imported_by("from pytest_kernelprof import Profile, load_trace") == "[]"


def test_the_public_names_are_these_and_all_exist():
    assert sorted(pytest_kernelprof.__all__) == pytest_kernelprof.__all__
    for name in pytest_kernelprof.__all__:
        assert getattr(pytest_kernelprof, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = pytest_kernelprof.Nothing
