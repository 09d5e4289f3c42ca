"""Fixtures of the suite."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Iterator

import pytest
import warm

import pytest_kernelprof

# pytester forgets modules that an inner run imports, but their package remembers them: half of what
# a later run finds would then be old.
for _module in pkgutil.walk_packages(pytest_kernelprof.__path__, "pytest_kernelprof."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)

if importlib.util.find_spec("torch") is not None:
    # torch cannot be imported twice; its profiler imports the compiler when it first starts.
    import torch._dynamo  # noqa: F401

pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the messages in tests/golden anew")


def pytest_configure(config: pytest.Config) -> None:
    """Let the workers of a run share one warm interpreter."""
    if not hasattr(config, "workerinput"):
        config.add_cleanup(warm.share())


HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(autouse=True, scope="session")
def _columns() -> Iterator[None]:
    """Show tables as on a terminal of this width, wherever the tests run, and whatever is made once a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        yield


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
