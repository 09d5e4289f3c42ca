"""The page on the command line: its outputs are made by running its commands (``python tests/command_page.py``)."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/command.md"
TRACES = ROOT / "tests/data/traces_h200"
_BLOCK = re.compile(r"~~~text\n\$ kernelprof (.*?)\n(.*?)~~~", re.DOTALL)


def commands(page):
    """Return the commands of a page, as they stand there."""
    return [match[1] for match in _BLOCK.finditer(page)]


def filled(page):
    """Return the page with what its commands print today."""
    with tempfile.TemporaryDirectory() as folder:
        for trace in TRACES.glob("attn_*.json.gz"):
            (Path(folder) / trace.name).symlink_to(trace)
        budget = page.partition("```toml\n")[2].partition("```")[0]
        (Path(folder) / "budget.toml").write_text(budget)
        return _BLOCK.sub(lambda match: f"~~~text\n$ kernelprof {match[1]}\n{_run(match[1], folder)}~~~", page)


def _run(command, folder):
    result = subprocess.run(
        [sys.executable, "-m", "pytest_kernelprof", *shlex.split(command)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "110", "PYTHONPATH": str(ROOT)},
    )
    return result.stdout + result.stderr


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
