"""Records the guards on the GPU of this machine: ``python tests/data/shapes/record.py FOLDER``.

Runs them live in FOLDER with ``--kernelprof-record``, leaves their recordings and ``outcomes.json`` there,
runs them again by replay, and says whether verdicts and messages are the same. To refresh what is
committed, copy FOLDER's ``__kernelprof__`` and ``outcomes.json`` here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


_OF_THE_RUN = ("trace: ", "replayed: ", "no line of Python: ")


def outcomes(folder: Path, *arguments: str) -> dict[str, list[str]]:
    """Run the guards in *folder* and return what became of them, marks and paths left out."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *arguments]
    width = {**os.environ, "COLUMNS": "120"}
    subprocess.run([*command, "test_guards.py"], cwd=folder, check=False, stdout=subprocess.DEVNULL, env=width)
    found: dict[str, list[str]] = json.loads((folder / "outcomes.json").read_text())
    return {test: [outcome, comparable(message)] for test, (outcome, message) in found.items()}


def comparable(message: str) -> str:
    """Return a message without the lines that name the trace, mark a replay and say why no line is known.

    Whether pytest puts the exception before a plain assert depends on the quotes in what it compares.
    """
    lines = [line for line in message.splitlines() if not line.startswith(_OF_THE_RUN)]
    return "\n".join(lines).rstrip().removeprefix("AssertionError: ")


def prepare(folder: Path) -> None:
    """Copy the guards to where they run."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "guards.py", folder / "test_guards.py")
    shutil.copy(HERE / "outcomes.py", folder / "conftest.py")


def main(folder: Path) -> int:
    """Record, replay, compare."""
    prepare(folder)
    # A replay calls nothing, and so names no lines.
    live = outcomes(folder, "--kernelprof-record", "--kernelprof-slim", "--kernelprof-explain=never")
    (folder / "outcomes.json").rename(folder / "live.json")
    replayed = outcomes(folder, "--kernelprof-replay=always")
    (folder / "live.json").replace(folder / "outcomes.json")
    different = [test for test in live if live[test] != replayed.get(test)]
    for test in different:
        print(f"{test}\n  live:     {live[test]}\n  replayed: {replayed.get(test)}")
    failed = sum(outcome != "passed" for outcome, _ in live.values())
    print(f"{len(live)} guards, {failed} not passed; {len(different)} differ between live and replay")
    return int(bool(different) or len(live) != len(replayed))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
