"""Live on a GPU: the blocks of the documentation that cannot be executed elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import DOCS, Runner, blocks

PAGES = [page for page in sorted(DOCS.rglob("*.md")) if any(block.needs_gpu for block in blocks(page.read_text()))]


@pytest.mark.kernelprof(device="cuda")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    runner = Runner(page, tmp_path)
    for block in blocks(runner.text):
        if block.kind in ("python", "hidden") and not block.file:
            runner.execute(block)
