"""The page of messages: which texts the package makes, and which stand on the page.

A *form* is a text with its fields left open. The package is read, not run: every literal and every f-string that may
reach a user is a form of the code, and every message in the first column of a table of the page is a form of the page.
``python tests/messages_page.py`` writes the outputs on the page anew, and says which rows are missing or stale.
"""

from __future__ import annotations

import ast
import atexit
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import warm
from builders import PLUGINS_OFF

import pytest_kernelprof

if TYPE_CHECKING:
    from typing import TypeGuard

    from builders import Rows

    from pytest_kernelprof import Profile, Trace

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/messages.md"
PACKAGE = Path(pytest_kernelprof.__file__).parent
TRACES = ROOT / "tests/data/traces_h200"

FIELD = "\0"
"""Stands for a field of a form: ``{...}`` in the code, ``<...>`` on the page."""

ELSEWHERE = {
    "names/": "what kernel names say: docs/names.md",
    "hints.py": "causes and cures: docs/hints.md",
    "report/names.py": "what `kernelprof decode` prints: docs/reference/command.md",
}
"""Files whose texts other pages show. What they raise stands on this one."""


class Text(NamedTuple):
    """A text of the package.

    Attributes:
        place: File and line.
        form: The text, its fields as `FIELD`.
        shown: The text, its fields as in the code, for people.
        required: A user may read it as a message: the page must have it.
    """

    place: str
    form: str
    shown: str
    required: bool


# Reading the code

Made = ast.Constant | ast.JoinedStr | ast.BinOp
"""What makes a text: a literal, an f-string, a sum of such."""

_LOOKS_INTO_TEXT = {
    *("count", "endswith", "find", "format_map", "get", "index", "join", "partition", "pop", "removeprefix"),
    *("removesuffix", "replace", "rpartition", "setdefault", "split", "startswith", "strip", "lstrip", "rstrip"),
}
_NO_MESSAGE = {"description", "form", "help", "kind", "metavar", "prog", "rename"}
_CODES = "load/problems.py"
_HELP = {"_FLAGS", "_MARKER_HELP"}
"""What holds nothing but help for options."""
_LATER = re.compile(r"\{\w*\}")
_TWO_WORDS = re.compile(r"[A-Za-z]{2,}.*\s.*[A-Za-z]{2,}|[A-Za-z]{2,}\s.*[A-Za-z]{2,}", re.DOTALL)
_PLACEHOLDER = re.compile(r"<[^<>= ][^<>]*>")


@lru_cache(maxsize=1)
def texts(package: Path = PACKAGE) -> tuple[Text, ...]:
    """Return the texts of a package, file by file."""
    return tuple(text for file in sorted(package.rglob("*.py")) for text in _texts_of(file, file.relative_to(package)))


def _texts_of(file: Path, shown: Path) -> Iterator[Text]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    elsewhere = any(shown.as_posix().startswith(place) for place in ELSEWHERE)
    raised = {inner for node in ast.walk(tree) if isinstance(node, ast.Raise) for inner in ast.walk(node)}
    words = {inner for node in ast.walk(tree) for inner in _words_in(node)}
    if shown.as_posix() == _CODES:
        words |= {node.value for node in tree.body if isinstance(node, ast.Assign)}
    for node in _read_by_people(tree):
        if elsewhere and node not in raised:
            continue
        form = _form(node, lambda _: FIELD)
        told = _form(node, lambda field: f"<{ast.unparse(field)}>")
        if not re.search(r"\w", form.replace(FIELD, "")) and not re.search(r"[,:;(=]", form):
            continue
        required = bool(_TWO_WORDS.search(form)) or (node in words and any(map(str.isalpha, form)))
        yield Text(f"{shown.as_posix()}:{node.lineno}", form, told, required)


def _words_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the single words that are messages: why there is no line of Python."""
    inside: Sequence[ast.AST] = ()
    if isinstance(node, (ast.keyword, ast.Assign)):
        name = {node.arg} if isinstance(node, ast.keyword) else _names(node.targets)
        inside = [node.value] if "why_not" in name else ()
    elif isinstance(node, ast.Call) and "Explanation" in _names([node.func]):
        inside = node.args
    elif isinstance(node, ast.FunctionDef) and node.name == "_once_more":
        inside = [one for one in ast.walk(node) if isinstance(one, ast.Return)]
    return (word for one in inside for word in ast.walk(one))


def _names(nodes: Sequence[ast.AST]) -> set[str]:
    return {one.id for one in nodes if isinstance(one, ast.Name)}


def _read_by_people(tree: ast.AST) -> Iterator[Made]:
    """Yield the texts that are no docstrings, annotations, patterns, keys, or help of options."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):
            yield node
            waiting += _fields(node)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node
        elif isinstance(node, ast.AugAssign) and _is_text(node.value):
            waiting.append(ast.copy_location(ast.BinOp(ast.Name("before"), node.op, node.value), node))
        elif _is_sum(node):
            yield node
            waiting += [one for one in (node.left, node.right) if not isinstance(one, (ast.Constant, ast.JoinedStr))]
            waiting += [part for one in (node.left, node.right) for part in _fields(one)]
        else:
            waiting += _children(node)


def _fields(node: ast.expr) -> list[ast.expr]:
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    return [part.value for part in parts if isinstance(part, ast.FormattedValue)]


def _is_sum(node: ast.AST) -> TypeGuard[ast.BinOp]:
    """Return whether a text is joined to something with a plus sign."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and any(map(_is_text, (node.left, node.right)))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _children(node: ast.AST) -> Iterable[ast.AST]:
    """Yield what of a node may be, or hold, a text that is shown."""
    if isinstance(node, (ast.Expr, ast.keyword, ast.AnnAssign, ast.Assign)):
        return () if _is_no_message(node) else [one for one in (node.value,) if one is not None]
    if isinstance(node, ast.Subscript):
        return () if "Literal" in _names([node.value]) else (node.value,)
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        return [one for one in sides if not isinstance(one, (ast.Constant, ast.Tuple, ast.List, ast.Set))]
    if isinstance(node, ast.Dict):
        return node.values
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]
        return (*node.body, *defaults, *node.decorator_list)
    if isinstance(node, ast.Call) and _looks_into_text(node.func):
        return (node.func,)
    return list(ast.iter_child_nodes(node))


def _is_no_message(node: ast.Expr | ast.keyword | ast.AnnAssign | ast.Assign) -> bool:
    """Return whether it is a docstring, or help of an option."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.keyword):
        return node.arg in _NO_MESSAGE
    return isinstance(node, ast.Assign) and bool(_names(node.targets) & _HELP)


def _looks_into_text(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute):
        # `command` adds a command to the command line, with its help.
        return isinstance(function, ast.Name) and function.id in ("TypeVar", "command", "getattr", "hasattr")
    if isinstance(function.value, ast.Name) and function.value.id == "re":
        return True
    # In '", ".join(...)' what is joined counts.
    return function.attr in _LOOKS_INTO_TEXT and function.attr != "join"


def _form(node: Made, field: Callable[[ast.expr], str]) -> str:
    """Return a text, each field in it as *field* tells it; what is left open for ``format()`` is one too."""
    if isinstance(node, ast.Constant):
        return _LATER.sub(lambda match: field(ast.Name(match[0].strip("{}") or "it")), str(node.value))
    if isinstance(node, ast.BinOp):
        return "".join(_form(one, field) if _is_made(one) else field(one) for one in (node.left, node.right))
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else field(part.value)
        for part in node.values
        if isinstance(part, (ast.Constant, ast.FormattedValue))
    )


def _is_made(node: ast.expr) -> TypeGuard[Made]:
    return _is_text(node) or _is_sum(node)


# Reading the page

_CODE = re.compile(r"(`+)(.+?)\1(?!`)")
_CELL = re.compile(r"(?<!\\)\|")
_OF_MESSAGES = ("message", "code", "cure")
"""The columns of tables that hold messages, by their headings."""


def messages(page: str) -> list[str]:
    """Return the messages of a page: what stands as code in the columns of its tables that are for messages."""
    found: list[str] = []
    headings: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in _CELL.split(line)[1:-1]] if line.startswith("|") else []
        if cells and headings:
            told = [cell for heading, cell in zip(headings, cells, strict=True) if heading in _OF_MESSAGES]
            found += [match[2].strip().replace("\\|", "|") for cell in told for match in _CODE.finditer(cell)]
        headings = headings or cells if cells else []
    return found


def form_of(message: str) -> str:
    """Return the form of a message of the page."""
    return _PLACEHOLDER.sub(FIELD, message)


# Comparing both


class Grammar:
    """What texts make: a form, its fields left open, empty, or filled with what other forms make."""

    def __init__(self, forms: Iterable[str]) -> None:
        """Take the forms of the code."""
        known = sorted(set(forms))
        self._whole = {form for form in known if FIELD not in form}
        split = [(form, form.split(FIELD)) for form in known if FIELD in form]
        self._open = [(max(pieces, key=len), form, pieces) for form, pieces in split]
        self._known: dict[str, frozenset[str] | None] = {}

    def made_by(self, text: str) -> frozenset[str] | None:
        """Return the forms that take part in making *text*; ``None`` if they cannot make it."""
        if text not in self._known:
            found = {text} if text in self._whole else set()
            for longest, form, pieces in self._open:
                if longest in text and text.startswith(pieces[0]) and text.endswith(pieces[-1]):
                    inside = self._filled(text, pieces, 0)
                    found |= set() if inside is None else {form, *inside}
            self._known[text] = frozenset(found) or None
        return self._known[text]

    def _filled(self, text: str, pieces: Sequence[str], place: int) -> frozenset[str] | None:
        """Return the forms that fill the fields between *pieces*, in every way that makes *text*."""
        first, *others = pieces[place:]
        if not text.startswith(first):
            return None
        rest = text[len(first) :]
        if not others:
            return None if rest else frozenset()
        found: set[str] = set()
        possible = False
        after = others[0]
        ends = [len(rest) - len(after)] if len(others) == 1 else _places(rest, after)
        for end in ends:
            if end < 0 or not rest.startswith(after, end):
                continue
            behind = self._filled(rest[end:], pieces, place + 1)
            inside = None if behind is None else self._fill(rest[:end])
            if behind is not None and inside is not None:
                possible = True
                found |= behind | inside
        return frozenset(found) if possible else None

    def _fill(self, text: str) -> frozenset[str] | None:
        return frozenset() if text in _PLAIN else self.made_by(text)


_PLAIN = ("", FIELD, f"'{FIELD}'", f"{FIELD} {FIELD}")
"""What a field may hold as it is: nothing, anything, that in quotes, a number and its noun."""


_BOUNDARY = re.compile(rf"^|$|(?<={FIELD})|(?={FIELD})|(?=[ ,;:()'])|(?<=[ ,;:('])")


def _places(text: str, piece: str) -> Iterator[int]:
    """Yield where a piece may stand; between two fields that touch, where a word begins or ends."""
    if not piece:
        yield from (match.start() for match in _BOUNDARY.finditer(text))
        return
    place = text.find(piece)
    while place >= 0:
        yield place
        place = text.find(piece, place + 1)


class Found(NamedTuple):
    """How a page differs from the code.

    Attributes:
        missing: Messages of the code without a row, in words that say where, and what to write.
        stale: Messages of the page that the code no longer makes, in words.
    """

    missing: list[str]
    stale: list[str]


@lru_cache(maxsize=2)
def _grammar(forms: frozenset[str]) -> Grammar:
    return Grammar(forms)


def _no_message(text: str) -> str:
    """Return the form of a text that is no message; what stands in tags is no field of it."""
    return re.sub(r"<(?!Profile|/?details|/?summary|<)[^<>]*>", FIELD, text)


def compared(page: str, package: Path = PACKAGE) -> Found:
    """Return what a page lacks, and what it has too much.

    Args:
        page: The text of the page.
        package: The folder of the package.
    """
    of_code = texts(package)
    grammar = _grammar(frozenset(text.form for text in of_code))
    stale: list[str] = []
    used: set[str] = set()
    of_page = messages(page)
    for message in of_page:
        form = form_of(message)
        # Code in Markdown cannot begin with a space.
        ways = [found for text in (form, f"  {form}") if (found := grammar.made_by(text))]
        used |= frozenset().union(*ways)
        if not ways:
            stale.append(f"{message!r}: no code makes it; correct or remove its row")
    no_message = {_no_message(one) for one in NO_MESSAGES}
    missing = {
        text.form: f"{text.place}: no row for {text.shown!r}; write one into the table where a reader would look: "
        "| `message, its fields as <placeholders>` | cause | what to do |"
        for text in reversed(of_code)
        if text.required and text.form not in used and text.form not in no_message
    }
    forms = {text.form for text in of_code if text.required}
    stale += [f"NO_MESSAGES: {one!r} is no longer in the code" for one in NO_MESSAGES if _no_message(one) not in forms]
    lacking, gone = _not_composed(of_page, package)
    return Found(sorted(missing.values()) + lacking, stale + gone)


NO_MESSAGES = {
    **dict.fromkeys(
        (
            *("bytes each", "launched by", "made by", "limited by", "allocated by", "driver allocations", "Host syncs"),
            *("Not measured", "Tensor cores", "(no region)", "(whole file)", "(outside steps)", "(no name)"),
            *("CUDA cores", "of unknown size", "compute capability <n>", ", fuses <n> ops", "## kernelprof diff"),
            *("trace folder", "temporary folder", "other profilers", "GPU events"),
        ),
        "a heading, or a cell of a table",
    ),
    **dict.fromkeys(
        (
            *("memory copy", "host sync", "copy kernel", "matrix kernel", "GPU event"),
            *("other line", "other call", "other test"),
            *("ledger entry", "ledger entries", "kernel launch", "kernel launches", "graph launch"),
            *("call that launches, copies or sets", "calls that launch, copy or set", "stretches of bytes"),
        ),
        "a noun that stands after a number",
    ),
    **dict.fromkeys(
        (
            *("External id", "external id", "Sequence number", "registers per thread", "shared memory"),
            *("est. achieved occupancy %", "theoretical occupancy %", "CPU functions", "CUDA functions"),
            *("## Call CompiledFxGraph", "Torch-Compiled Region"),
        ),
        "a word of the traces that are read",
    ),
    **dict.fromkeys(("no ledger entry", "not judged", "steps disagree"), "a value in JSON, or of an enumeration"),
    **dict.fromkeys(
        ("<<kernels> not measured<chosen>>", "<Profile: <n> steps, kernels <n>>"), "a repr, which nobody is stopped by"
    ),
    '{\n "schema": "kernelprof/summary/1",\n "traces": [': "the beginning of a JSON document",
    "<details><summary>details</summary>\n\n```text\n<text>\n```\n\n</details>": "Markdown around a message",
    "<text>\n... and <n> more (-v shows all)": "the same as without the text before it",
    "module <name> has no attribute <name>": "Python's own message",
    "assert on GPU profiler traces": "a heading of --help",
    "command line": "where a limit comes from, in place of a file",
    "kernelprof doctor": "the name of a profile that nobody sees",
    "pytest --kernelprof-update <file>": "a command at the end of other messages",
    "<function>, after a graph break": "the name of a function in the lines under a failure",
    "graph break": "the same",
    "torch tells reasons for CUDA only": "caught where it is raised",
    "sdpa order": "a key, which nobody is shown",
}
"""Texts of two words and more that are no messages, each with what it is."""


COMPOSED = {
    "<n> <kernels> a step, expected <limit> (<selectors>)": "checks.py:_measure",
    "<n copies and copy kernels> a step, expected none": "name_checks.py:no_copy",
    "GPU time <time> a step (<time> to <time> in <n> steps), expected <limit>": "time_checks.py:_within",
    "<ratio> times as fast (<ratio> to <ratio>) as <function>, CPU time, expected to be faster": (
        "time_checks.py:faster_than"
    ),
    "<size> copied a step, expected at most <size> (<n> B against <n> B)": "limits.py:in_full",
    "expected every step <words>": "count.py:_no_explanation",
    "no line of Python: replayed": "judging.py:_told",
    "function was called <once> more": "judging.py:_told",
    "<kernels> not measured: <why>; expected <limit>": "checks.py:not_measured",
    "GPU time not measured: <why>; expected <limit>": "time_checks.py:_within",
    "too noisy to judge: GPU time <time> a step (<time> to <time> in <n> steps), expected <limit>; steps= takes more": (
        "time_checks.py:_too_noisy"
    ),
    "<option>=<'value'> is not accepted; accepted: <what>": "options.py:run_options",
    "<test>: not recorded: <file>: <why>": "plugin/__init__.py:_record",
    "kernelprof: <file>: <n entries> written: <n> added, <n> updated, <n> removed": "plugin/ledgers.py:_write",
    "<n limits> of <file> broken": "budget.py:keep_to",
    "<file>: <path>: <key> = <value> is no time; accepted: a whole number of nanoseconds, or text such as '1.5 ms' or "
    "'80 us'": "budget.py:check_values",
    "needs --kernelprof": "plugin/__init__.py:pytest_collection_modifyitems",
    "comparable; unknown: <properties>": "report/diff.py:_heading",
}
"""Messages that are made of pieces of others, so that no piece asks for their row, and where they are put together."""


def _not_composed(page: Collection[str], package: Path) -> Found:
    """Return which messages of `COMPOSED` a page lacks, and which places of it are gone."""
    there = {
        f"{file.relative_to(package).as_posix()}:{node.name}"
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    missing = [f"{place}: no row for {message!r}" for message, place in COMPOSED.items() if message not in page]
    return Found(
        missing, [f"COMPOSED: {one} is no longer in the code" for one in COMPOSED.values() if one not in there]
    )


# What the page shows

_TEST = "tests/test_messages_page.py::test_an_output_is_what_the_page_shows"
_SHOWN = re.compile(rf"(<!-- shown by: {re.escape(_TEST)}\[([\w-]+)\] -->\n```text\n)(.*?)(```\n)", re.DOTALL)
_WIDTH = 100
_NOTE = {"steps": 1, "canary_devices": [0], "no_gpu": None}


def shown(page: str) -> dict[str, str]:
    """Return the outputs that a page shows, by name."""
    return {match[2]: match[3] for match in _SHOWN.finditer(page)}


def filled(page: str) -> str:
    """Return the page with what is put out today."""
    return _SHOWN.sub(lambda match: f"{match[1]}{output(match[2])}{match[4]}", page)


def output(name: str) -> str:
    """Return what the package puts out today."""
    with tempfile.TemporaryDirectory() as folder:
        return "\n".join(line.rstrip() for line in OUTPUTS[name](Path(folder)).splitlines()) + "\n"


def _raised(check: Callable[[Profile], object], trace: Trace) -> str:
    from pytest_kernelprof import KernelprofError, Profile
    from pytest_kernelprof.report.layout import Look

    try:
        check(Profile(trace, look=Look.of(_WIDTH)))
    except (AssertionError, KernelprofError) as error:
        return f"{type(error).__name__}: {error}"
    raise ValueError("nothing was raised")


def _h200(name: str) -> Trace:
    from pytest_kernelprof import load_trace

    return load_trace(TRACES / f"{name}.json.gz")


def _made(folder: Path, *rows: Rows, **metadata: Any) -> Trace:
    from builders import write

    from pytest_kernelprof import load_trace

    return load_trace(write(folder / "trace.json", *rows, **metadata))


def _steps(folder: Path, *kernels: Sequence[int]) -> Trace:
    """Return a trace with so many steps, each with kernels that take so many microseconds."""
    from builders import launch, op, step

    rows: list[Rows] = []
    for number, durations in enumerate(kernels):
        begin = 1000 * number
        rows += [step(number, begin, 1000), op("aten::add", begin + 1, 900)]
        rows += [
            launch(begin + 2 + place, 10 * number + place + 1, begin + 10 + 200 * place, dur=duration)
            for place, duration in enumerate(durations)
        ]
    return _made(folder, *rows)


def _kernel_count(_: Path) -> str:
    return _raised(lambda profile: profile.assert_kernel_count(4), _h200("attn_naive"))


def _steps_disagree(folder: Path) -> str:
    return _raised(lambda profile: profile.assert_kernel_count(at_least=1), _steps(folder, [2], [2, 3], [2]))


def _no_canary(folder: Path) -> str:
    from builders import annotation, call, op, step

    canary = [annotation("pytest_kernelprof::canary", -50, 20), call("cudaLaunchKernel", -45, 1)]
    trace = _made(folder, canary, step(0, 0, 10), op("aten::add", 1, 2), pytest_kernelprof=_NOTE)
    return _raised(lambda profile: profile.assert_no_memcpy(), trace)


def _no_gpu_context(folder: Path) -> str:
    from builders import op, step

    note = {**_NOTE, "canary_devices": [], "no_gpu": "no GPU context; use device="}
    trace = _made(folder, step(0, 0, 10), op("aten::add", 1, 2), pytest_kernelprof=note)
    return _raised(lambda profile: profile.assert_kernel_count(5), trace)


def _late_orphan(folder: Path) -> str:
    from builders import kernel, launch, step

    trace = _made(folder, step(0, 0, 10), launch(1, 1), kernel(20, 99))
    return _raised(lambda profile: profile.assert_kernel_count(1), trace)


def _unknown_name(folder: Path) -> str:
    from builders import launch, step

    trace = _made(folder, step(0, 0, 10), launch(1, 1, name="my_fused_mlp"))
    return _raised(lambda profile: profile.assert_tensor_cores(), trace)


def _too_noisy(folder: Path) -> str:
    trace = _steps(folder, [92], [97], [101], [104], [123])
    return _raised(lambda profile: profile.assert_gpu_time(at_most="103 us"), trace)


def _no_such_region(_: Path) -> str:
    return _raised(lambda profile: profile.assert_no_memcpy(region="attn_fw"), _h200("attn_naive"))


def _missing_ledger_entry(_: Path) -> str:
    from ledgering import book, profile

    from pytest_kernelprof import LedgerError

    try:
        profile(_h200("attn_naive"), book({}), width=_WIDTH).assert_matches_ledger()
    except LedgerError as error:
        return f"LedgerError: {error}"
    raise ValueError("nothing was raised")


_GUARD = """
import pytest

@pytest.mark.kernelprof(device={device!r})
def test_copies(profiled):
    profiled(print).assert_no_memcpy()
"""


def _wrong_option(folder: Path) -> str:
    (folder / "test_it.py").write_text(_GUARD.format(device="cpu"))
    return _run(folder, "pytest", "--kernelprof-replay=sometimes")


def _wrong_marker(folder: Path) -> str:
    (folder / "test_it.py").write_text(_GUARD.format(device="H200"))
    return "\n".join(line for line in _run(folder, "pytest", "--kernelprof").splitlines() if line.startswith("ERROR: "))


def _missing_recording(folder: Path) -> str:
    (folder / "test_it.py").write_text(_GUARD.format(device="cuda"))
    told = _run(folder, "pytest", "--kernelprof-replay=always")
    lines = [line[1:].strip() for line in told.splitlines() if line.startswith("E ")]
    return "\n".join(lines).replace(str(folder.resolve()), "/home/me/project")


def _truncated_trace(folder: Path) -> str:
    (folder / "trace.json.gz").write_bytes((TRACES / "attn_naive.json.gz").read_bytes()[:5000])
    return _run(folder, "pytest_kernelprof", "show", "trace.json.gz")


def _run(folder: Path, module: str, *arguments: str) -> str:
    """Return what a command puts out, started in a folder."""
    left_out = ("PYTEST", "KERNELPROF", "CI", "BUILD_")
    mine = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    options = " ".join((*PLUGINS_OFF, "-p no:cacheprovider"))
    result = subprocess.run(
        [warm.python(), "-m", module, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**mine, "COLUMNS": str(_WIDTH), "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": options},
        check=False,
    )
    return (result.stdout + result.stderr).strip()


OUTPUTS: dict[str, Callable[[Path], str]] = {
    "kernel-count": _kernel_count,
    "steps-disagree": _steps_disagree,
    "no-canary": _no_canary,
    "no-gpu-context": _no_gpu_context,
    "late-orphan": _late_orphan,
    "unknown-name": _unknown_name,
    "too-noisy": _too_noisy,
    "wrong-option": _wrong_option,
    "wrong-marker": _wrong_marker,
    "no-such-region": _no_such_region,
    "missing-recording": _missing_recording,
    "missing-ledger-entry": _missing_ledger_entry,
    "truncated-trace": _truncated_trace,
}
"""What the page shows, by name: makes it in an empty folder."""


def main() -> None:
    """Fill the page, and say what must be done by hand."""
    atexit.register(warm.share())
    page = filled(PAGE.read_text())
    PAGE.write_text(page)
    found = compared(page)
    sys.stdout.write("".join(f"{one}\n" for one in (*found.missing, *found.stale)))


if __name__ == "__main__":
    main()
