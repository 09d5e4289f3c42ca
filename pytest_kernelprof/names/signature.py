"""C++ names taken apart: qualified name, template arguments, parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

# Inside a qualified name these are words, although they hold brackets.
_TOKENS = re.compile(
    r"\(anonymous namespace\)|\{[^{}]*\}|(?<=operator)(?:\(\)|<<|>>|<|>)|(?<=-)>|[<>(),]|[^<>(),{}]+|."
)
_ANONYMOUS = "(anonymous namespace)"
# Every term keeps its text: beyond these, which no compiler writes, a name is text.
_LONGEST = 100_000
_DEEPEST = 200
_MOST = 20_000


class Term(NamedTuple):
    """A type, a value or a function, as a C++ name writes it.

    Attributes:
        text: The whole of it.
        base: The same without template arguments and parameters, for a function without its return type too.
        arguments: The template arguments, in order.
        parameters: What stands in its round brackets, in order; left out for a function's own,
            which repeat its template arguments.
    """

    text: str
    base: str
    arguments: tuple[Term, ...] = ()
    parameters: tuple[Term, ...] = ()

    def walk(self) -> Iterator[Term]:
        """Yield every term inside the template arguments, outermost first."""
        for argument in self.arguments:
            yield argument
            yield from argument.walk()


class _Open:
    """A term that is being read, and the bracket in which it stands."""

    __slots__ = ("arguments", "base", "bracket", "finished", "parameters", "start")

    def __init__(self, bracket: str, start: int) -> None:
        self.bracket = bracket
        self.finished: list[Term] = []
        self.begin(start)

    def begin(self, start: int) -> None:
        self.start = start
        self.base: list[str] = []
        self.arguments: list[Term] = []
        self.parameters: list[Term] = []

    def finish(self, text: str, end: int) -> None:
        whole = text[self.start : end].strip()
        if whole:
            base = "".join(self.base).strip()
            self.finished.append(Term(whole, base, tuple(self.arguments), tuple(self.parameters)))


def signature(name: str) -> Term:
    """Return *name* taken apart; a name that is no C++ signature is a term without arguments.

    Args:
        name: A demangled name.

    Source:
        The Itanium C++ ABI's demanglers (c++filt, CUPTI) write return type, qualified name,
        template arguments and parameters in this order.
    """
    readable = len(name) <= _LONGEST and name.count("<") + name.count("(") <= _MOST
    return (_parsed(name) if readable and not _too_deep(name) else None) or Term(name, name)


@lru_cache(maxsize=4096)
def base_name(name: str) -> str:
    """Return *name* without return type, template arguments and parameters.

    ``void at::native::softmax<float>(float*, int)`` becomes ``at::native::softmax``. A name that
    is no C++ signature is returned as it is.

    Args:
        name: A demangled name, as the trace holds it.
    """
    return signature(name).base


def _too_deep(name: str) -> bool:
    """Return whether brackets are nested deeper than terms are read."""
    if name.count("<") + name.count("(") <= _DEEPEST:
        return False
    depth = 0
    for bracket in re.finditer(r"[<>()]", name):
        depth += 1 if bracket[0] in "<(" else -1
        if depth > _DEEPEST:
            return True
    return False


def _parsed(name: str) -> Term | None:
    stack = [_Open("", 0)]
    for match in _TOKENS.finditer(name):
        token, here = match[0], stack[-1]
        if token == "(" and len(stack) == 1 and here.base:
            return _function(name, here, match.start()) if _closes(name, match.end()) else None
        if token in ("<", "("):
            stack.append(_Open(token, match.end()))
        elif token == "," and here.bracket:
            here.finish(name, match.start())
            here.begin(match.end())
        elif token == ">" and here.bracket == "(":
            here.base.append(token)  # A comparison: ``(x > 3)``.
        elif token in (">", ")"):
            if not _close(stack, token, name, match.start()):
                return None
        else:
            _take(here, token, top=len(stack) == 1)
    whole = len(stack) == 1 and stack[0].base
    return _function(name, stack[0], len(name)) if whole else None


def _close(stack: list[_Open], bracket: str, name: str, end: int) -> bool:
    """End the group that *bracket* closes; return whether there is one."""
    while bracket == ")" and stack[-1].bracket == "<":
        stack.pop()  # A comparison that looked like a bracket: ``(x < 3)``.
    if len(stack) == 1:
        return False
    group = stack.pop()
    group.finish(name, end)
    outer = stack[-1]
    (outer.arguments if group.bracket == "<" else outer.parameters).extend(group.finished)
    return True


def _closes(name: str, start: int) -> bool:
    """Return whether the parameters that begin at *start* end."""
    return name.count(")", start) > name.count("(", start)


def _take(here: _Open, token: str, *, top: bool) -> None:
    if top and " " in token.strip() and token != _ANONYMOUS:
        here.arguments.clear()  # They belonged to the return type.
    here.base.append(token)
    if token.startswith("{lambda(") and ")" in token:
        inside = _parsed(f"_<{token[len('{lambda(') : token.rindex(')')]}>")
        here.parameters.extend(inside.arguments if inside else ())


def _function(name: str, here: _Open, end: int) -> Term:
    bare = "".join(here.base).strip()
    if "<" not in name and " (" in name.replace(_ANONYMOUS, ""):
        return Term(name, bare)  # ``Memcpy DtoD (Device -> Device)``: words, not a signature.
    if not here.arguments and end == len(name) and bare == name.strip():
        return Term(name, name)  # Nothing in brackets: words, such as ``Torch-Compiled Region: 0/0``.
    base = bare.replace(_ANONYMOUS, "(anonymous\0namespace)").rsplit(" ", 1)[-1].replace("\0", " ")
    return Term(name, base, tuple(here.arguments))
