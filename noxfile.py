"""What CI runs, and anybody can: ``nox -l`` lists the sessions, CONTRIBUTING.md says which to run when.

``NOX_TORCH`` is the version of torch for the tests. Unset, they take the CPU build that ``constraints.txt`` names,
where pip finds it; tests that need torch are skipped elsewhere. ``none`` leaves it out. A version such as ``2.6.0``
must be found, as a CPU build. ``newest`` is whatever pip takes first: a CUDA build of several GB, unless
``PIP_EXTRA_INDEX_URL`` leads it to CPU builds.
``NOX_PYTEST`` is a version of pytest, such as ``8.*``; unset, it is the newest.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PROJECT: dict[str, Any] = nox.project.load_toml("pyproject.toml")["project"]
WHOLE_SUITE = ("-n", "2", "--dist", "worksteal")
ONE_PROCESS = ("-p", "no:xdist", *(f"--ignore=tests/{name}" for name in ("plugin", "test_docs.py", "test_html.py")))
"""The tests in one process, those left out that start many of their own."""

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "tests", "docs", "changelog"]


def install_torch(session: nox.Session, python: str = "python") -> None:
    """Install torch for the interpreter *python*, as ``NOX_TORCH`` says."""
    asked = os.environ.get("NOX_TORCH", "")
    if asked == "none":
        session.log("without torch, as NOX_TORCH says: the tests that need it are skipped")
        return
    install = (python, "-m", "pip", "install", "-q", torch_requirement(asked))
    if asked:
        session.run(*install, external=True)
        return
    session.run(*install, external=True, silent=True, success_codes=[0, 1])
    look = "import importlib.util; print(importlib.util.find_spec('torch') is not None)"
    if "True" not in str(session.run(python, "-c", look, external=True, silent=True, log=False)):
        session.warn(f"pip finds no {install[-1]} for this Python: the tests that need torch are skipped")


def torch_requirement(asked: str) -> str:
    """Return what pip is asked for where ``NOX_TORCH`` is *asked*."""
    if asked == "newest":
        return "torch"
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    version = asked or (pinned[1] if pinned else "")
    # macOS has CPU builds only, which are not marked.
    return f"torch=={version}" if sys.platform == "darwin" else f"torch=={version}+cpu"


def pytest_of_choice() -> list[str]:
    """Return the requirement of pytest that ``NOX_PYTEST`` asks for, if it does."""
    version = os.environ.get("NOX_PYTEST")
    return [f"pytest=={version}"] if version else []


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the suite; what follows ``--`` goes to pytest instead of those options."""
    install_torch(session)
    session.install(".[test]", *pytest_of_choice())
    session.run("pytest", *(session.posargs or WHOLE_SUITE))


@nox.session(python=["3.10", "3.11"])
def oldest(session: nox.Session) -> None:
    """Run the suite with the lowest version of every dependency that pyproject.toml allows."""
    install_torch(session)
    # inline-snapshot wants pytest 8.3: its one test is skipped here.
    beside = [one for one in PROJECT["optional-dependencies"]["test"] if not one.startswith("inline-snapshot")]
    session.install(*lowest(PROJECT["dependencies"]), *lowest(beside), "-e", ".")
    session.run("pytest", *(session.posargs or WHOLE_SUITE))


def lowest(requirements: Sequence[str]) -> list[str]:
    """Return *requirements* with their lower bounds as the only versions."""
    return [requirement.replace(">=", "==", 1) for requirement in requirements]


@nox.session
def wheel(session: nox.Session) -> None:
    """Build wheel and sdist in ``dist``; run the tests of the sdist against the installed wheel, elsewhere."""
    session.install("build", "twine")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", "dist")
    (built,) = (ROOT / "dist").glob("*.whl")
    (source,) = (ROOT / "dist").glob("*.tar.gz")
    session.run("twine", "check", "--strict", str(built), str(source))
    with tempfile.TemporaryDirectory() as folder:
        run_elsewhere(session, Path(folder), built, source)


def run_elsewhere(session: nox.Session, folder: Path, built: Path, source: Path) -> None:
    """Run the tests of the sdist *source* in *folder*, in an environment in which the wheel *built* is installed."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    session.run("python", "-m", "venv", str(folder / "env"))
    python = str(folder / "env/bin/python")
    install_torch(session, python)
    session.run(python, "-m", "pip", "install", "-q", f"{built}[test]", *pytest_of_choice(), external=True)
    session.chdir(folder)
    where = "import pytest_kernelprof; print(pytest_kernelprof.__path__[0])"
    installed = session.run(python, "-c", where, external=True, silent=True, log=False)
    # Beside the tests lies the package as the wheel installed it: there is nothing else to import or to read.
    shutil.rmtree(unpacked / "pytest_kernelprof")
    (unpacked / "pytest_kernelprof").symlink_to(str(installed).strip())
    session.chdir(unpacked)
    session.run(python, "-m", "pytest", *(session.posargs or WHOLE_SUITE), external=True)
    session.chdir(ROOT)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install(*PROJECT["optional-dependencies"]["lint"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types: package and tests, then benchmarks and each folder of examples by itself, as pytest finds them."""
    session.install(".[test,lint]")
    session.run("mypy")
    examples = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir())
    for folder in (ROOT / "benchmarks", *examples):
        session.run("mypy", str(folder.relative_to(ROOT)), env={"MYPYPATH": str(folder)})


@nox.session(python="3.11")
def coverage(session: nox.Session) -> None:
    """Measure branches in one process and in those that its tests start; fail below the floor."""
    install_torch(session)
    session.install("-e", ".[test,coverage]")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "-q", *(session.posargs or ONE_PROCESS))
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the pages; a broken link between them is an error."""
    session.install(".[docs]")
    session.run("sphinx-build", "-q", "-n", "-W", "--keep-going", "docs", "build/docs")


@nox.session
def changelog(session: nox.Session) -> None:
    """Show the next entry of the changelog; a fragment with a wrong name is an error."""
    session.install("towncrier>=24.8", "-e", ".")
    session.run("towncrier", "build", "--draft", "--version", "next")
