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
    for path in sorted((live / RECORDINGS).iterdir()):
        label = path.name.partition(".module-")[2]
        touched = any(re.search(rf"(?<![a-z]){name}(?![a-z])", label) for name in mutation.touches)
        if touched or not (base / RECORDINGS / path.name).exists():
            goal.mkdir(exist_ok=True)
            shutil.copy(path, goal)


def refuse_another_gpu() -> None:
    """Stop before anything is replaced, unless this is a GPU on which all of this can be recorded."""
    import torch

    found = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    if "H200" not in found:
        sys.exit(f"these recordings are of an H200, here is {found}; nothing was changed")


def main() -> int:
    """Record; return how many mutations did something else than they must."""
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        base, findings, mutants = (Path(scratch, name) for name in ("base", "findings.json", "mutants"))
        prepare(base)
        kinds = outcomes(base, *RECORD, f"--attention-findings={findings}")
        problems = {test: kind for test, kind in kinds.items() if kind != "passed"}
        if problems:
            sys.exit(f"not every example passed, nothing was changed: {problems}")
        mutants.mkdir()
        for name, mutation in MUTATIONS.items():
            live = Path(scratch, slug(name))
            prepare(live, mutation)
            problems = unexpected(outcomes(live, *RECORD), mutation, live=True)
            print(f"{name}: {problems or 'as expected'}", flush=True)
            wrong += bool(problems)
            keep(live, base, mutants / slug(name), mutation)
        replace(base / RECORDINGS, ATTENTION / RECORDINGS)
        shutil.copy(findings, attention_page.FINDINGS)
        for old in (path for path in MUTANTS.iterdir() if path.is_dir()):
            shutil.rmtree(old)
        shutil.copytree(mutants, MUTANTS, dirs_exist_ok=True)
    attention_page.fill()
    return wrong


if __name__ == "__main__":
    refuse_another_gpu()
    sys.exit(main())
