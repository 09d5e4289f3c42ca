"""Documentation that runs: every block of a page is executed, and what it shows is what is printed.

A page is run from top to bottom in a folder of its own, beside a checkout. Of a page that looks things up, and says that its
traces are those of ``tests/data/traces_h200``, they lie in the folder; readers of the tutorial and of guides copy theirs.

* A block whose first line is a comment with a file name (``# test_relu.py``) becomes that file.
* Other ``python`` blocks are executed, in one namespace a page. Blocks in comments that begin with ``<!-- run`` are
  executed like them, and hold what readers need not see. Those that say ``python gpu``, or ``<!-- run on a GPU``, are
  executed where there is one, as by ``tests/gpu/test_live_pages.py``, and compiled elsewhere.
* ``text`` blocks that begin with ``$`` hold commands and what they print. A line of three dots stands for any lines.
* ``sh`` blocks are commands that must succeed; of ``yaml``, a workflow, those that run pytest.
* Other ``text`` blocks must be held by the test that ``<!-- shown by: path::test -->`` above them names.

``python tests/pages.py --record PAGE`` runs a page on a GPU, and keeps what its runs of pytest print and the recordings of their
profiles. From then on the page is held to what was printed there, and elsewhere a replay must come to the same verdicts.
``python tests/pages.py PAGE...`` fills in what commands print today.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warm
from builders import PLUGINS_OFF

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RECORDINGS = ROOT / "tests/data/pages"
TRACES = ROOT / "tests/data/traces_h200"
OUTPUT = "output.txt"
_NOT_CODE = ("none", "mermaid", "{toctree}", "{eval-rst}", "{literalinclude}")
_FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.DOTALL | re.MULTILINE)
_HIDDEN = re.compile(r"^<!-- run(?P<gpu> on a GPU)?\n(?P<text>.*?)^-->$", re.DOTALL | re.MULTILINE)
_SHOWN_BY = re.compile(r"<!-- shown by: (?P<test>\S+) -->\n\Z")
_FILE = re.compile(r"(?:#|//) (?P<name>[\w./-]*\w\.(?:py|toml|ini|yml|yaml|cfg))\b.*")
_VARIES = (
    (re.compile(r"\bin \d+\.\d+s( \(\d+:\d\d:\d\d\))?"), "in 0.00s"),
    (re.compile(r"={3,} ([^=\n]+) ={3,}"), r"=== \1 ==="),
    (re.compile(r"-{3,} ([^-\n]+) -{3,}"), r"--- \1 ---"),
    (re.compile(r"^platform .*$", re.MULTILINE), "platform"),
    (re.compile(r"^plugins: .*$", re.MULTILINE), "plugins"),
    (re.compile(r"^rootdir: .*$", re.MULTILINE), "rootdir"),
    (re.compile(r"\b\d+(\.\d+)? (us|ms)( +\|)?(?= *$| {2,})", re.MULTILINE), "0 us"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
    # A recording that the page itself makes is of today.
    (re.compile(r"\bno GPU, \d{4}-\d\d-\d\d\b"), "no GPU, 2026-11-30"),
    # The profiler of torch 2.13 says so on standard error.
    (re.compile(r"^USDT:.*\n", re.MULTILINE), ""),
)
"""What differs from run to run, and how both sides are made alike."""


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        kind: First word of the fence's info string; ``hidden`` for what stands in a comment.
        text: What stands between the fences.
        line: Line of the page on which the text begins.
        start: Offset of the text in the page.
        shown_by: The test that holds it, for a text that no command of the page prints.
        needs_gpu: It can only be executed on a GPU.
    """

    kind: str
    text: str
    line: int
    start: int
    shown_by: str | None = None
    needs_gpu: bool = False

    @property
    def file(self) -> str | None:
        """Name of the file that the block is, if it is one."""
        found = _FILE.match(self.text.partition("\n")[0])
        return found["name"] if found else None

    @property
    def is_session(self) -> bool:
        """Whether it holds commands and their output."""
        return self.kind == "text" and self.text.startswith("$ ")


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    found = []
    for match in _FENCE.finditer(page):
        shown = _SHOWN_BY.search(page, 0, match.start())
        kind, *more = match["info"].strip().split(" ")
        found.append(_block(page, match, kind, shown["test"] if shown else None, "gpu" in more))
    found += [_block(page, match, "hidden", None, bool(match["gpu"])) for match in _HIDDEN.finditer(page)]
    return sorted(found, key=lambda block: block.start)


def _block(page: str, match: re.Match[str], kind: str, shown_by: str | None, needs_gpu: bool) -> Block:
    start = match.start("text")
    return Block(kind, match["text"], page.count("\n", 0, start) + 1, start, shown_by, needs_gpu)


@dataclass(frozen=True)
class Command:
    """One command of a session, and what the page says that it prints."""

    line: str
    shown: str


def commands(block: Block) -> list[Command]:
    """Return the commands of a session; a line that ends with a backslash goes on."""
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n", block.text, flags=re.MULTILINE)[1:]
    return [Command(line, shown) for line, shown in zip(parts[::2], parts[1::2], strict=True)]


@dataclass(frozen=True)
class Session:
    """Commands of a page.

    Attributes:
        block: Where they stand.
        shown: What the page says that they print.
        printed: What they print; of runs on a GPU, what they printed there.
        replayed: What such runs print now, by replay; ``None`` if there is none.
    """

    block: Block
    shown: str
    printed: str
    replayed: str | None


class Runner:
    """Runs one page.

    Attributes:
        page: The file.
        folder: Where it is run.
        records: Profiles are recorded, on a GPU, instead of replayed.
    """

    def __init__(self, page: Path, folder: Path, *, records: bool = False) -> None:
        """Lay out the folder: traces to look at, and the commands."""
        self.page = page
        self.text = page.read_text()
        self.folder = folder / "work"
        self.records = records
        self._namespace: dict[str, Any] = {"__name__": page.stem}
        self._bin = folder / "bin"
        self._runs = 0
        self._does: dict[str, Callable[[Block], object]] = {
            "python": self.execute,
            "hidden": self.execute,
            "sh": self._succeed,
            "yaml": self._do_jobs,
            "json": lambda block: json.loads(block.text),
        }
        for needed in (self.folder, self._bin):
            needed.mkdir()
        (folder / "pytest-kernelprof").symlink_to(ROOT)
        if page.parent.name in ("reference", "explanation") and str(TRACES.relative_to(ROOT)) in self.text:
            for trace in TRACES.glob("*.json.gz"):
                (self.folder / trace.name).symlink_to(trace)
        for name, arguments in (("python", ""), ("pytest", "-m pytest"), ("kernelprof", "-m pytest_kernelprof")):
            command = self._bin / name
            command.write_text(f'#!/bin/sh\nexec {warm.python()} {arguments} "$@"\n')
            command.chmod(0o755)

    def run(self) -> Iterator[Session]:
        """Run the page, and yield each session.

        Raises:
            PageError: A block failed, or nothing tells what a block is.
        """
        for block in blocks(self.text):
            if block.file:
                self._write(block.file, block.text)
            if block.shown_by or block.kind in _NOT_CODE:
                continue
            if block.is_session:
                yield self._session(block)
            elif block.kind in self._does:
                self._does[block.kind](block)
            elif not block.file:
                told = f"nothing runs this block ({block.kind or 'no kind'}): see {Path(__file__).name}"
                raise PageError(self.page, block, told)

    def _session(self, block: Block) -> Session:
        printed, live = "", ""
        for one in commands(block):
            now = self._start(one.line)
            told = f"$ {one.line}\n{now.stdout}{now.stderr}"
            saved = self.recordings / str(self._runs) / OUTPUT
            if self.records and _is_run(one.line):
                saved.parent.mkdir(parents=True, exist_ok=True)
                saved.write_text(_of_no_machine(told))
            printed += told
            live += saved.read_text() if _is_run(one.line) and saved.exists() else told
        return Session(block, block.text, live, None if printed == live else printed)

    def _write(self, name: str, text: str) -> None:
        goal = self.folder / name
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_text(text)

    def execute(self, block: Block) -> None:
        """Execute a block of Python in the namespace of the page."""
        if block.file:
            return
        code = compile("\n" * (block.line - 1) + block.text, str(self.page), "exec")
        if block.needs_gpu and not has_gpu():
            return
        with _inside(self.folder):
            exec(code, self._namespace)

    def _succeed(self, block: Block) -> None:
        result = self._start(f"set -e\n{block.text}")
        if result.returncode:
            raise PageError(self.page, block, f"exit code {result.returncode}\n{result.stdout}{result.stderr}")

    def _do_jobs(self, block: Block) -> None:
        """Run what a CI service would: the runs of pytest among its commands, one that asks for a GPU without one as well."""
        import yaml

        for command in _scripts(yaml.safe_load(block.text)):
            if not command.startswith("pytest "):
                continue
            result = self._start(command)
            # That is what --kernelprof-require is for: a runner that lost its GPU fails.
            expected = 1 if "--kernelprof-require" in command and not self.records else 0
            if result.returncode != expected:
                told = f"{command}: exit code {result.returncode}, not {expected}\n{result.stdout}{result.stderr}"
                raise PageError(self.page, block, told)

    def _start(self, command: str) -> subprocess.CompletedProcess[str]:
        self._runs += _is_run(command)
        if self.records:
            command = command.replace("--kernelprof-replay=missing-device", "--kernelprof")
        mine = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTEST", "KERNELPROF", "CI", "BUILD_"))
        }
        environment = {
            **mine,
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "110",
            "PYTEST_ADDOPTS": self._options(),
        }
        return subprocess.run(
            ["bash", "-c", command], cwd=self.folder, capture_output=True, text=True, env=environment, check=False
        )

    def _options(self) -> str:
        """Return what the runs of pytest are told beside what the page says."""
        # torch says once that there is no NumPy, where there is none.
        plugins = f"{' '.join(PLUGINS_OFF)} -p no:cacheprovider -W 'ignore:Failed to initialize NumPy:UserWarning'"
        recordings = self.recordings / str(self._runs)
        if self.records:
            return f"{plugins} --kernelprof-record --kernelprof-slim --kernelprof-traces={recordings}"
        if recordings.is_dir():
            return f"{plugins} --kernelprof-replay=missing-device --kernelprof-traces={recordings}"
        return plugins

    @property
    def recordings(self) -> Path:
        """The folder of the page's recordings, with a folder for each of its commands."""
        return RECORDINGS / self.page.stem


def _of_no_machine(text: str) -> str:
    """Return an output without the folders of the machine on which it was made."""
    text = re.sub(r"^rootdir: .*$", "rootdir: ...", text, flags=re.MULTILINE)
    return re.sub(r"/\S*/site-packages/", ".../site-packages/", text)


def has_gpu() -> bool:
    """Return whether blocks that need a GPU can be executed."""
    import torch

    return bool(torch.cuda.is_available())


def _is_run(command: str) -> bool:
    """Return whether a command runs tests, whose profiles a page on GPUs has recordings of."""
    return "pytest " in command


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Be in a folder, as ``contextlib.chdir`` does since Python 3.11."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _scripts(document: Any) -> Iterator[str]:
    """Yield the commands of a workflow: text under ``run``, lists of text under ``script``."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "run" and isinstance(value, str):
                yield from value.splitlines()
            elif key == "script" and isinstance(value, list):
                yield from map(str, value)
            else:
                yield from _scripts(value)
    elif isinstance(document, list):
        for value in document:
            yield from _scripts(value)


class PageError(AssertionError):
    """A page does not do what it says."""

    def __init__(self, page: Path, block: Block, problem: str) -> None:
        """Name the page and the line."""
        super().__init__(f"{page.relative_to(ROOT)}:{block.line}: {problem}")


def alike(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed, but for what differs from run to run."""
    pattern = "".join(
        "(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in _settled(shown).rstrip("\n").split("\n")
    )
    return re.fullmatch(pattern, _settled(printed).rstrip("\n") + "\n") is not None


def verdicts(printed: str) -> tuple[list[str], list[str], set[str]]:
    """Return what runs come to: first lines of failures, numbers of outcomes, and the hints."""
    return (
        re.findall(r"^E +((?:AssertionError|\S*NotMeasured): .*)", printed, re.MULTILINE),
        re.findall(r"\b\d+ (?:passed|failed|skipped|errors?)\b", printed),
        set(re.findall(r"docs/hints\.md#\w+", printed)),
    )


def _settled(text: str) -> str:
    for varies, word in _VARIES:
        text = varies.sub(word, text)
    return text


def fill(page: Path) -> list[str]:
    """Write today's output into a page; return what must be done by hand."""
    left = []
    changes = []
    with tempfile.TemporaryDirectory() as folder:
        for session in Runner(page, Path(folder)).run():
            if alike(session.shown, session.printed):
                continue
            if "\n...\n" in f"\n{session.shown}":
                left.append(f"{page}:{session.block.line}: has ... and prints now\n{session.printed}")
            else:
                changes.append((session.block, re.sub(r"[ \t]+$", "", session.printed, flags=re.MULTILINE)))
    text = page.read_text()
    for block, printed in reversed(changes):
        text = text[: block.start] + printed + text[block.start + len(block.text) :]
    page.write_text(text)
    return left


def show(page: Path, *, records: bool = False) -> None:
    """Run a page and print what its commands print; on a GPU keep a recording of each profile if asked to."""
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(page, Path(folder), records=records)
        if records:
            shutil.rmtree(runner.recordings, ignore_errors=True)
        for session in runner.run():
            sys.stdout.write(session.printed + (f"replayed:\n{session.replayed}" if session.replayed else ""))


def main() -> None:
    """Fill pages, show them or record them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true", help="print what commands print, and write nothing")
    parser.add_argument("--record", action="store_true", help="run on a GPU, print the same and keep recordings")
    arguments = parser.parse_args()
    atexit.register(warm.share())
    for page in arguments.pages:
        if arguments.show or arguments.record:
            show(page.resolve(), records=arguments.record)
        else:
            sys.stdout.writelines(fill(page.resolve()))


if __name__ == "__main__":
    main()
