"""Records the attention examples and their mutants on the GPU of this machine: ``python tests/data/mutants/record.py``.

Writes what is committed: the recordings of the examples, what became of each finding, the
recordings of each mutant, and the page that shows them. It says whether each mutation turned those
tests red that it must.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
import attention_page
from mutations import ATTENTION, MUTANTS, MUTATIONS, RECORDINGS, Mutation, outcomes, prepare, slug, unexpected

RECORD = ("--kernelprof-record", "--kernelprof-slim")


def replace(source: Path, goal: Path) -> None:
    """Put the files of *source* in place of those of *goal*."""
    shutil.rmtree(goal, ignore_errors=True)
    shutil.copytree(source, goal)


def keep(live: Path, base: Path, goal: Path, mutation: Mutation) -> None:
    """Keep the recordings of a mutant that are not those of the examples."""
    shutil.rmtree(goal, ignore_errors=True)
    for path in sorted((live / RECORDINGS).iterdir()):
        label = path.name.partition(".module-")[2]
        touched = any(re.search(rf"(?<![a-z]){name}(?![a-z])", label) for name in mutation.touches)
        if touched or not (base / RECORDINGS / path.name).exists():
            goal.mkdir(exist_ok=True)
            shutil.copy(path, goal)


def main() -> int:
    """Record; return how many mutations did something else than they must."""
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch, "base")
        prepare(base)
        kinds = outcomes(base, *RECORD, f"--attention-findings={attention_page.FINDINGS}")
        print("the examples:", {test: kind for test, kind in kinds.items() if kind != "passed"} or "passed", flush=True)
        replace(base / RECORDINGS, ATTENTION / RECORDINGS)
        for name, mutation in MUTATIONS.items():
            live = Path(scratch, slug(name))
            prepare(live, mutation)
            problems = unexpected(outcomes(live, *RECORD), mutation, live=True)
            print(f"{name}: {problems or 'as expected'}", flush=True)
            wrong += bool(problems)
            keep(live, base, MUTANTS / slug(name), mutation)
    attention_page.fill()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
