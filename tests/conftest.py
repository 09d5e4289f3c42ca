"""Fixtures of the suite."""

from __future__ import annotations

import importlib.util
import pkgutil
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import pytest
import warm
from builders import Once

import pytest_kernelprof

pytest_plugins = ["pytester"]

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the messages in tests/golden anew")


HAS_TORCH = importlib.util.find_spec("torch") is not None


def pytest_configure(config: pytest.Config) -> None:
    """Import what inner runs must not import anew; let the workers of a run share one warm interpreter."""
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        config.add_cleanup(warm.share())
    if is_worker or not getattr(config.option, "numprocesses", None):
        _import_what_cannot_be_imported_twice()
    else:
        # Workers take seconds to start as well: no test then waits for it.
        Thread(target=warm.python, daemon=True).start()


def _import_what_cannot_be_imported_twice() -> None:
    # pytester forgets modules that an inner run imports, but their package remembers them: half of what
    # a later run finds would then be old.
    for module in pkgutil.walk_packages(pytest_kernelprof.__path__, "pytest_kernelprof."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    if HAS_TORCH:
        # Its profiler imports the compiler when it first starts.
        importlib.import_module("torch._dynamo")


@pytest.fixture(autouse=True, scope="session")
def _columns() -> Iterator[None]:
    """Show tables as on a terminal of this width, wherever the tests run, and whatever is made once a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        yield


@pytest.fixture(scope="module")
def _made() -> dict[str, tuple[Path, Any]]:
    """What `once` has made in the tests of a module: the folder, and what was returned."""
    return {}


@pytest.fixture
def once(pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory, _made: dict[str, Any]) -> Once:
    """Do something in the folder of an inner run for the first test of a module; others get a copy of what it left."""

    def make(what: str, do: Callable[[], T]) -> T:
        if what not in _made:
            result = do()
            kept = tmp_path_factory.mktemp("once")
            shutil.copytree(pytester.path, kept, dirs_exist_ok=True)
            _made[what] = kept, result
        else:
            kept, result = _made[what]
            shutil.copytree(kept, pytester.path, dirs_exist_ok=True)
        return result

    return make


@pytest.fixture
def needs_all_threads() -> None:
    """Skip with a torch whose profiler sees one thread and autograd's (docs/explanation/limits.md#threads)."""
    from pytest_kernelprof.capture.session import _all_threads

    if not _all_threads():
        pytest.skip("this torch has no profile_all_threads")


@pytest.fixture
def needs_torch() -> None:
    """Skip where torch is not installed: the reader and the command line work without it."""
    if not HAS_TORCH:
        pytest.skip("torch is not installed")


@pytest.fixture(params=["careful", "fast"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with both ways in which sound pieces of a trace are decoded."""
    import msgspec  # noqa: F401

    from pytest_kernelprof.load import fast_rows, reading

    monkeypatch.setattr(reading, "is_fast", lambda: request.param == "fast")
    if request.param == "careful":
        monkeypatch.setattr(fast_rows, "rows_of", lambda _: None)
