"""How the rules of a library are written down, and how they are applied.

A `Rule` is for C++ names: a pattern for the qualified name, the role of what matches, and what
the template arguments are. A `Word` is for names made of words between underscores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .dtypes import cpp_dtype
from .kernel_name import MATRIX_ROLES, KernelName, Part, once
from .signature import Term


class Rule(NamedTuple):
    """What kernels of one qualified name are.

    Attributes:
        pattern: Globs for the qualified name without template arguments, separated by ``|``; only ``*`` is special.
        role: One of `ROLES`.
        meaning: What the kernel does, for people.
        types: Positions of the template arguments that are the data types of operands and result.
        labels: What the template arguments are, from the first on; empty where unknown.
        tensor_cores: ``yes``, ``no`` or ``unknown``.
        direction: ``forward`` or ``backward``, where the name does not say it in words.
        source: Where the meaning comes from.
    """

    pattern: str
    role: str
    meaning: str
    types: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    tensor_cores: str = "no"
    direction: str | None = None
    source: str = ""


class Word(NamedTuple):
    """What one word of a name means.

    Attributes:
        pattern: The word, or several separated by ``|``; ``#`` is a number, ``@`` are several joined by
            ``x``, such as ``128x64``.
        meaning: For people; ``{0}`` is the first number (or the word, if it has none), ``{capability}`` the same
            as a compute capability.
        field: The field of the decoded name that it sets, if any.
        value: The value; ``{0}`` as above. Empty takes the word itself.
    """

    pattern: str
    meaning: str
    field: str = ""
    value: str = ""


def words_of(name: str) -> list[str]:
    """Return the words between the underscores of *name*."""
    return [word for word in name.split("_") if word]


_NUMBER = re.compile(r"\d+(?:x\d+)*")


class Words:
    """The words that names of one kind are made of."""

    def __init__(self, *words: Word) -> None:
        """Make a table of *words*; of two with one pattern the first holds."""
        self._known: dict[str, Word] = {}
        for word in words:
            for pattern in word.pattern.split("|"):
                self._known.setdefault(pattern, word)

    def read(self, texts: Iterable[str]) -> tuple[tuple[Part, ...], dict[str, list[str]]]:
        """Return the parts of a name made of the words *texts*, and the fields that they set, in order."""
        parts = []
        fields: dict[str, list[str]] = {}
        for text in texts:
            word = self._known.get(text) or self._known.get(_NUMBER.sub(_stand_in, text))
            if word is None:
                parts.append(Part(text))
                continue
            numbers = _NUMBER.findall(text) or [text]
            parts.append(Part(text, word.meaning.format(*numbers, capability=compute_capability(numbers[0]))))
            if word.field:
                fields.setdefault(word.field, []).append(word.value.format(*numbers) if word.value else text)
        return tuple(parts), fields


def _stand_in(number: re.Match[str]) -> str:
    return "@" if "x" in number[0] else "#"


def sourced(source: str, *rules: Rule) -> tuple[Rule, ...]:
    """Return *rules*, all of which have their meaning from *source*."""
    return tuple(rule if rule.source else Rule(*rule[:-1], source) for rule in rules)


@lru_cache(maxsize=4096)
def _alternatives(pattern: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(alternative.split("*")) for alternative in pattern.split("|"))


def fits(pattern: str, text: str) -> bool:
    """Return whether one of the globs in *pattern*, separated by ``|``, is *text*.

    No regular expressions: hundreds of them would take longer to compile than a trace to decode.
    """
    return any(_fits(pieces, text) for pieces in _alternatives(pattern))


def _fits(pieces: tuple[str, ...], text: str) -> bool:
    first, *middle = pieces
    if not middle:
        return text == first
    last = middle.pop()
    if not text.startswith(first):
        return False
    position = len(first)
    for piece in middle:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return len(text) - len(last) >= position and text.endswith(last)


def find(rules: Iterable[Rule], base: str) -> Rule | None:
    """Return the first rule whose pattern fits the qualified name *base*."""
    for rule in rules:
        if fits(rule.pattern, base):
            return rule
    return None


def apply(rule: Rule, term: Term, library: str, namespaces: Mapping[str, str], **fields: Any) -> KernelName:
    """Return the decoded name of *term*, to which *rule* applies.

    Args:
        rule: The rule.
        term: The name, taken apart.
        library: Who wrote the kernel.
        namespaces: What the outermost namespaces mean.
        **fields: Fields that are known better than from the rule.
    """
    arguments = term.arguments
    dtypes = once(cpp_dtype(arguments[place]) for place in rule.types if place < len(arguments))
    given: dict[str, Any] = {
        "library": library,
        "role": rule.role,
        "direction": rule.direction or direction_of(term.base),
        "dtypes": dtypes,
        "tensor_cores": rule.tensor_cores,
        "parts": tuple(cpp_parts(term, namespaces, rule.meaning, rule.labels)),
    }
    given.update(fields)
    return KernelName(**given)


def cpp_parts(term: Term, namespaces: Mapping[str, str], meaning: str, labels: Sequence[str] = ()) -> Iterator[Part]:
    """Yield the pieces of a C++ name: namespace, function, template arguments."""
    outer, _, last = term.base.rpartition("::")
    if outer:
        known = (text for prefix, text in namespaces.items() if outer == prefix or outer.startswith(f"{prefix}::"))
        yield Part(outer, next(known, ""))
    yield Part(last, meaning)
    for place, argument in enumerate(term.arguments):
        yield argument_part(argument, labels[place] if place < len(labels) else "")


def compute_capability(digits: str) -> str:
    """Return ``9.0`` for the ``90`` of ``sm90``."""
    return f"{digits[:-1]}.{digits[-1:]}"


def argument_part(argument: Term, label: str) -> Part:
    """Return a template argument as a part: what it is, and what it says."""
    said = {"true": "yes", "false": "no"}.get(argument.text) if label else None
    return Part(argument.text, ": ".join(filter(None, (label, said or cpp_dtype(argument)))))


_BACKWARD = (
    *("backward", "bwd", "bprop", "dgrad", "wgrad", "wrw"),
    *("gradin", "grad_in", "gradout", "grad_out", "gradgamma", "grad_gamma", "gradweight", "grad_weight", "gradbias"),
)
_FORWARD = ("forward", "fwd", "fprop")


def direction_of(text: str) -> str | None:
    """Return the direction that a name says in words, or ``None``."""
    lower = text.lower()
    if any(word in lower for word in _BACKWARD):
        return "backward"
    return "forward" if any(word in lower for word in _FORWARD) else None


def by_rules(
    rules: Iterable[Rule], term: Term, library: str, namespaces: Mapping[str, str], *, function_only: bool = False
) -> KernelName:
    """Return what *rules* say of a kernel that is *library*'s for certain: at least that.

    A name that speaks of a multiplication is left open where a rule takes it for something else.
    """
    function = term.base.rpartition("::")[2]
    rule = find(rules, function if function_only else term.base)
    multiplies = any(word in function.lower() for word in _MULTIPLYING)
    if rule is None or (multiplies and rule.role not in (*MATRIX_ROLES, "layout")):
        return KernelName(library=library)
    return apply(rule, term, library, namespaces)


_MULTIPLYING = ("gemm", "matmul", "mma")
