"""Small documents that people edit: what is wrong with one, where, and in few words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from .errors import instead

_SCHEMAS = Path(__file__).parent / "schemas"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_WIDEST_VALUE = 120


def path_at(text: str, offset: int) -> str:
    """Return the JSON path of what stands at *offset*, also in a text that is no JSON from there on."""
    steps: list[str | int] = []
    kinds: list[str] = []
    last = ""
    for match in _TOKEN.finditer(text, 0, offset):
        token = match[0]
        if token in "{[":
            kinds.append(token)
            steps.append("" if token == "{" else 0)
        elif token in "}]" and kinds:
            kinds.pop()
            steps.pop()
        elif token == "," and kinds:
            steps[-1] = "" if kinds[-1] == "{" else int(steps[-1]) + 1
        elif token == ":" and kinds and kinds[-1] == "{":
            steps[-1] = last
        else:
            last = _unquoted(token)
    return path_of([step for step in steps if step != ""])


def _unquoted(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def path_of(steps: Iterable[str | int]) -> str:
    """Return the JSON path of some steps, such as ``$.entries.test_it.kernels[0]``."""

    def told(step: str | int) -> str:
        if isinstance(step, int):
            return f"[{step}]"
        return f".{step}" if re.fullmatch(r"[A-Za-z_]\w*", step) else f"[{json.dumps(step)}]"

    return "$" + "".join(map(told, steps))


@lru_cache
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads((_SCHEMAS / f"{schema}.schema.json").read_text()))


def problem(document: Any, schema: str) -> tuple[str, str] | None:
    """Return where a document breaks a schema, and how, the most telling thing only; ``None`` if it does not.

    Args:
        document: The document, decoded.
        schema: Name of the schema in this package, such as ``ledger-1``.
    """
    from jsonschema.exceptions import best_match

    errors = list(_validator(schema).iter_errors(document))
    error = best_match(errors)
    if error is None:
        return None
    if error.validator == "required":
        # Of a key that is missing and one that is strange, the strange one tells: it was mistyped.
        beside = error.parent.context if error.parent else errors
        strange = [one for one in beside if one.validator == "additionalProperties" and one.path == error.path]
        error = next(iter(strange), error)
    return path_of(error.absolute_path), _wrong(error)


def _wrong(error: Any) -> str:
    """Return in few words what a validator found; its own words may hold the whole document."""
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", ()))
        strange = next(name for name in error.instance if name not in known)
        return f"{strange!r} is no key; {instead(strange, known)}"
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return f"{missing!r} is missing"
    if error.validator == "const" and not _described(error):
        return f"{cut(error.instance)} is not accepted; accepted: {cut(error.validator_value)}"
    if error.validator == "enum":
        return f"{cut(error.instance)} is not accepted; {instead(error.instance, error.validator_value)}"
    accepted = _described(error)
    if accepted:
        return f"{cut(error.instance)} is not accepted; accepted: {accepted}"
    return f"{cut(error.instance)} is not accepted: {error.validator} {cut(error.validator_value)}"


def _described(error: Any) -> str:
    """Return what the schema itself says of the values that it accepts, from the closest place that says anything."""
    while error is not None:
        told = error.schema.get("description") if isinstance(error.schema, dict) else None
        if told:
            return str(told)
        error = error.parent
    return ""


def cut(value: Any) -> str:
    """Return a value as JSON, its end left out where it is long."""
    told = json.dumps(value, default=str)
    return told if len(told) <= _WIDEST_VALUE else f"{told[:_WIDEST_VALUE]}..."
