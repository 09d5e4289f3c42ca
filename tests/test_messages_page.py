"""Every message stands on the page of messages, and what stands there is a message."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import messages_page
import pytest
from messages_page import FIELD, OUTPUTS, PACKAGE, Found, Grammar, compared, form_of, messages, output, shown, texts

PAGE = messages_page.PAGE.read_text()
GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))
KIND = re.compile(r"(AssertionError|NotMeasured|SelectorError): ")


def test_every_message_of_the_package_has_a_row_and_every_row_a_message() -> None:
    found = compared(PAGE)

    assert found == Found([], []), "\n".join(["", *found.missing, *found.stale])


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_is_what_the_page_shows(name: str) -> None:
    """``python tests/messages_page.py`` writes them anew."""
    assert shown(PAGE)[name] == output(name)


def test_the_page_shows_every_output_once() -> None:
    assert sorted(shown(PAGE)) == sorted(OUTPUTS)
    assert PAGE.count("```text") == len(OUTPUTS)


def test_a_row_is_not_said_twice() -> None:
    said = [message for message in messages(PAGE) if " " in message]

    assert [message for message in set(said) if said.count(message) > 1] == []


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_headline_is_found_by_the_words_between_its_placeholders(file: Path) -> None:
    headlines = {line.partition(": ")[2] for line in file.read_text().splitlines() if KIND.match(line)}
    patterns = [re.escape(form_of(message)).replace(FIELD, ".+") for message in messages(PAGE)]
    telling = [pattern for pattern in patterns if len(re.findall("[a-z]{2,}", pattern)) >= 2]

    assert headlines
    for headline in headlines:
        # How events were chosen stands in brackets at the end.
        brief = re.sub(r" \([^()]*\)$", "", headline)
        assert any(re.fullmatch(pattern, one) for pattern in telling for one in (headline, brief)), headline


# The comparison itself: it finds what is missing, and what is stale


NEW = [
    (
        'def check(name: str) -> None:\n    raise MisuseError(f"{name!r} is no banana; accepted: fruit")\n',
        "'<name> is no banana; accepted: fruit'",
    ),
    ('def why() -> str:\n    return "the trace was peeled"\n', "'the trace was peeled'"),
    ('def told(one: str) -> str:\n    return f"{one}, and " + "no more bananas"\n', "'<one>, and no more bananas'"),
    ('def told(one: str) -> str:\n    one += "; peel it first"\n    return one\n', "'<before>; peel it first'"),
    ("def told(one: int) -> str:\n    return f\"{one} {'ripe bananas' if one else 'x'}\"\n", "'ripe bananas'"),
    ('CURES = {"banana": "peel it carefully"}\n', "'peel it carefully'"),
    ('CURE = "peel it first: {command}"\n', "'peel it first: <command>'"),
    ('def told(cure: str = "peel them all") -> str:\n    return cure\n', "'peel them all'"),
    ('def told() -> None:\n    complain("peel none", red=True)\n', "'peel none'"),
    ('FOUND = Explanation(why_not="peeled")\n', "'peeled'"),
    # Words that the page knows, in another order.
    ('def why(name: str) -> str:\n    return f"{name} is missing or is empty"\n', "'<name> is missing or is empty'"),
]


def test_a_new_message_needs_a_row(tmp_path: Path) -> None:
    copy = shutil.copytree(PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__"))
    last = (copy / "checks.py").read_text().count("\n")
    with (copy / "checks.py").open("a") as file:
        file.write("\n".join(code for code, _ in NEW))

    missing, stale = compared(PAGE, copy)

    assert stale == []
    places, rest = zip(*(one.split(": ", 1) for one in missing), strict=True)
    assert all(place.partition(":")[0] == "checks.py" and int(place.partition(":")[2]) > last for place in places)
    told = (f"no row for {told}; write one into the table where a reader would look: | `" for _, told in NEW)
    assert sorted(one.partition("`")[0] + "`" for one in rest) == sorted(told)


@pytest.mark.parametrize(
    "code",
    [
        'def told() -> str:\n    """Say that it was peeled."""\n    return ""\n',
        'class Fruit:\n    ripe: bool\n    """Whether it is ripe."""\n',
        'def told(one: "a banana") -> "no banana":\n    return one\n',
        'FOUND = re.compile(r"peel (\\w+) first")\n',
        'KNOWN = {"ripe banana": 1}["ripe banana"]\n',
        'IS_RIPE = one == "ripe banana" or one in ("a b", "ripe banana")\n',
        'OPTION = parser.add_argument("--peel", help="peel it first")\n',
        'FOUND = told.partition("peel it first")\n',
    ],
)
def test_what_nobody_reads_as_a_message_needs_none(code: str, tmp_path: Path) -> None:
    (tmp_path / "fruit.py").write_text(code)

    assert [text.shown for text in texts(tmp_path) if text.required] == []


@pytest.mark.parametrize(
    "message",
    [
        "no GPU context; use device=",
        "<n call> without a GPU event (<call> by <op>)",
        "<function> raised in call <n> of <n>; use setup= or profiled.block() (<error>: <what>)",
        "<file>: the file is empty; record the trace again",
        "no line of Python: bypassed",
        "bad_escape",
        "stop it: two empty each other's traces",
        "<n> <kernels> a step, expected <limit> (<selectors>)",
        "needs --kernelprof",
    ],
)
def test_a_row_that_was_removed_is_missed(message: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{message}`" in line]
    assert len(rows) == 1

    missing, stale = compared(PAGE.replace(rows[0] + "\n", ""))

    assert stale == []
    assert missing


def test_a_row_of_which_a_word_is_changed_or_dropped_is_stale() -> None:
    """A word in a list can be dropped, and what is left may be a message: that is so of a few."""
    grammar = Grammar(text.form for text in texts())
    changed, dropped = [], []
    for message in messages(PAGE):
        words = [one for one in re.finditer(r"(?<= )[a-z]{4,}(?=[ ;,]|$)", message) if _outside(message, one)]
        if len(words) < 3:
            continue
        before, after = (message[: words[1].start()], message[words[1].end() :])
        changed.append(grammar.made_by(form_of(f"{before}banana{after}")))
        dropped.append(grammar.made_by(form_of(f"{before.rstrip()} {after.lstrip()}")))

    assert len(changed) > 250
    assert set(changed) == {None}
    assert dropped.count(None) > 0.94 * len(dropped)


def _outside(message: str, word: re.Match[str]) -> bool:
    """Return whether a word is none of a placeholder."""
    return message.count("<", 0, word.start()) == message.count(">", 0, word.start())


def test_a_row_that_no_code_makes_is_stale() -> None:
    page = f"{PAGE}\n| message | cause |\n| --- | --- |\n| `<file>: is a banana` | `not <this> column` |\n"

    assert compared(page) == Found([], ["'<file>: is a banana': no code makes it; correct or remove its row"])


def test_messages_stand_in_the_columns_for_them() -> None:
    page = (
        "| message | cause | cure |\n| --- | --- | --- |\n"
        "| `one \\| two`<br>``three `four` five`` | `six` | `seven` |\n"
        "\n| word | message |\n| --- | --- |\n| `eight` | `nine` |\n\n`ten`\n"
    )

    assert messages(page) == ["one | two", "three `four` five", "seven", "nine"]


FORMS = [
    f"{FIELD} not measured: {FIELD}; {FIELD}",
    f"expected {FIELD}{FIELD}",
    f" ({FIELD})",
    "none",
    f"at most {FIELD}",
    "no canary",
]


@pytest.mark.parametrize(
    ("message", "made"),
    [
        ("no canary", True),
        ("canary", False),
        ("expected <limit>", True),
        ("expected none", True),
        ("expected at most <n> (<why>)", True),
        ("expected at least <n>", False),
        ("<kernels> not measured: no canary; expected none", True),
        ("'<name>' not measured: <why>; expected <n> <kernels>", True),
        ("<kernels> not measured: no canary; expected no canary none", False),
        ("<kernels> not measured: no; expected none", False),
        ("<kernels> not measured: no canary", False),
    ],
)
def test_a_message_is_made_of_forms_in_one_another(message: str, made: bool) -> None:
    assert (Grammar(FORMS).made_by(form_of(message)) is not None) is made
