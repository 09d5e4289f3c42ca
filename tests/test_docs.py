"""The documentation: what its pages say runs, and shows what is printed."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from pages import DOCS, ROOT, Runner, alike, blocks, verdicts

PAGES = [
    *sorted(page for page in DOCS.rglob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples/README.md",
]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_runs_and_every_output_is_what_is_printed(page: Path, tmp_path: Path) -> None:
    if re.search(r"import torch|^\$ .*pytest ", page.read_text(), re.MULTILINE):
        _needs_what_pages_show()
    for session in Runner(page, tmp_path).run():
        where = f"{_name(page)}:{session.block.line}"
        assert alike(session.shown, session.printed), (
            f"{where} prints now (python tests/pages.py {_name(page)}):\n{session.printed}"
        )
        if session.replayed is not None:
            live, replayed = verdicts(session.printed), verdicts(session.replayed)
            assert replayed[:2] == live[:2], f"{where}: by replay\n{session.replayed}"
            assert replayed[2] <= live[2], f"{where}: by replay\n{session.replayed}"


def _needs_what_pages_show() -> None:
    """Skip with another torch, whose operators differ from release to release, and where pytest words failures otherwise."""
    pinned = (ROOT / "constraints.txt").read_text().rpartition("torch==")[2].strip()
    if importlib.util.find_spec("torch") is None or version("torch").partition("+")[0] != pinned:
        pytest.skip(f"pages show outputs of torch {pinned}")
    if pytest.version_tuple < (9,):
        pytest.skip("pages show outputs of pytest 9")


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_what_another_test_holds_names_a_test_that_exists(page: Path) -> None:
    for block in blocks(page.read_text()):
        if block.shown_by:
            file, _, test = block.shown_by.partition("[")[0].partition("::")
            assert f"def {test}(" in (ROOT / file).read_text(), block.shown_by


def test_the_tutorial_installs_as_the_readme_does() -> None:
    tutorial, readme = (DOCS / "tutorial.md").read_text(), (ROOT / "README.md").read_text()
    install = re.search(r"^python3 -m venv .*", tutorial, re.MULTILINE)

    assert install is not None
    assert f"{install[0]} && " in readme


def test_a_page_that_shows_something_else_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("~~~text\n$ echo one\n1\n~~~\n\n~~~text\n$ echo one; echo two\n...\ntwo\n~~~\n")
    first, second = Runner(page, _made(tmp_path / "run")).run()

    assert not alike(first.shown, first.printed)
    assert alike(second.shown, second.printed)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
