"""Fills the tables of ``docs/reference/schemas.md``: ``python tests/schemas_page.py`` after changing a schema.

A *place* of a document is described by all the schemas that hold for it at once: the one that stands there, and those
that it refers to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest_kernelprof

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/schemas.md"
FOLDER = Path(pytest_kernelprof.__file__).parent / "schemas"
ENDING = "-1.schema.json"

Schema = dict[str, Any]
Place = tuple[Schema, ...]

_PLURALS = {
    "object": "objects",
    "string": "strings",
    "integer": "integers",
    "integer or null": "integers and nulls",
    "string or number": "strings and numbers",
    "array of strings": "arrays of strings",
}


def names() -> list[str]:
    """Return the names of the schemas, such as ``summary``."""
    return sorted(path.name.removesuffix(ENDING) for path in FOLDER.glob(f"*{ENDING}"))


def schema(name: str) -> Schema:
    """Return a schema, decoded."""
    read: Schema = json.loads((FOLDER / f"{name}{ENDING}").read_text())
    return read


# Places


class Places:
    """The places of the documents that one schema describes."""

    def __init__(self, root: Schema) -> None:
        """Take the whole schema: what references are looked up in."""
        self._root = root
        self.top = self.at(root)

    def at(self, *schemas: Schema) -> Place:
        """Return the place for which some schemas hold, and then all that they refer to."""
        targets = [self._target(one["$ref"]) for one in schemas if "$ref" in one]
        return (*schemas, *(self.at(*targets) if targets else ()))

    def _target(self, reference: str) -> Schema:
        found: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        target: Schema = found
        return target

    def properties(self, place: Place) -> dict[str, Place]:
        """Return what stands below the keys of an object."""
        found: dict[str, list[Schema]] = {}
        for one in place:
            for key, value in one.get("properties", {}).items():
                found.setdefault(key, []).append(value)
        return {key: self.at(*schemas) for key, schemas in found.items()}

    def others(self, place: Place) -> Place | None:
        """Return what stands below the keys that a schema does not name, if there may be such."""
        found = [one["additionalProperties"] for one in place if isinstance(one.get("additionalProperties"), dict)]
        return self.at(*found) if found else None

    def items(self, place: Place) -> Place | None:
        """Return what stands in a list."""
        found = [one["items"] for one in place if "items" in one]
        return self.at(*found) if found else None

    def variants(self, place: Place) -> list[Place]:
        """Return the places of which one has to be there, if there are several."""
        return [self.at(branch) for one in place for branch in one.get("anyOf", ())]


def key_name(place: Place) -> str:
    """Return what the keys of an object are that a schema does not name: ``glob``."""
    return next(str(one["propertyNames"]["title"]) for one in place if "title" in one.get("propertyNames", {}))


def is_required(place: Place, key: str) -> bool | None:
    """Return whether an object must have a key; ``None`` where no key has to be there."""
    required = [key for one in place for key in one.get("required", ())]
    return key in required if required else None


# Fields


class Field(NamedTuple):
    """One place of a document, in words.

    Attributes:
        path: Where it is, such as ``traces[].file``.
        type: What may stand there.
        meaning: What it means.
    """

    path: str
    type: str
    meaning: str


def fields(name: str) -> list[Field]:
    """Return what a schema describes, from the top down."""
    places = Places(schema(name))
    return list(dict.fromkeys(_below(places, places.top, "")))


def _below(places: Places, place: Place, path: str) -> Iterator[Field]:
    for key, value in places.properties(place).items():
        may_miss = is_required(place, key) is False
        yield from _field(places, value, f"{path}.{key}".lstrip("."), ", may be missing" if may_miss else "")
    others = places.others(place)
    if others is not None:
        yield from _field(places, others, f"{path}.<{key_name(place)}>")
    items = places.items(place)
    if items is not None:
        yield from _below(places, items, f"{path}[]")
    for variant in places.variants(place):
        yield from _below(places, variant, path)


def _field(places: Places, place: Place, path: str, more: str = "") -> Iterator[Field]:
    yield Field(path, _type(places, place) + more, meaning(places, place))
    yield from _below(places, place, path)


def meaning(places: Places, place: Place) -> str:
    """Return what schemas say of a place, and of the items of a list."""
    told = [one["description"] for one in (*place, *(places.items(place) or ())) if "description" in one]
    return "; ".join(dict.fromkeys(told))


def _type(places: Places, place: Place) -> str:
    """Return what may stand at a place: values, or types."""
    for one in place:
        if "const" in one:
            return _code(one["const"])
        if "enum" in one:
            return ", ".join(map(_code, one["enum"]))
    types = [name for one in place for name in _listed(one.get("type", []))]
    if not types:
        return " or ".join(dict.fromkeys(_type(places, variant) for variant in places.variants(place)))
    items = places.items(place)
    if items is None:
        return " or ".join(types)
    of = _type(places, items)
    told = f"any of {of}" if "`" in of else _PLURALS[of]
    return " or ".join(f"array of {told}" if one == "array" else one for one in types)


def _listed(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def _code(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


# The page


def table(name: str) -> str:
    """Return the fields of a schema as Markdown; those that mean the same share a row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for field in fields(name):
        leaf = re.split(r"[.\]]", field.path)[-1]
        rows.setdefault((leaf, field.type, field.meaning), []).append(f"`{field.path}`")
    lines = ["| field | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| {'<br>'.join(paths)} | {_cell(type_)} | {_cell(told)} |" for (_, type_, told), paths in rows.items()]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return text for a cell: signs of Markdown are escaped, but for code."""
    return re.sub(r"(`[^`]*`)|([*_<>\[\]\\])", lambda found: found[1] or f"\\{found[2]}", text).replace("|", "\\|")


def filled(page: str) -> str:
    """Return the page with its tables made anew."""
    for name in names():
        pattern = rf"(<!-- generated: {name} -->\n).*?(\n<!-- end -->)"
        parts = re.split(pattern, page, flags=re.DOTALL)
        if len(parts) != 4:
            raise ValueError(f"{PAGE} has {len(parts) // 3} tables called {name}")
        before, begin, end, after = parts
        page = f"{before}{begin}{table(name)}{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
