"""A tool's input schema as a server gives it, made into what every provider takes; or why that cannot be."""

from __future__ import annotations

from typing import Any

from dragoman.agents.native.providers.error_answers import nests_deeper
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import Json
from dragoman.hub.sizes import json_size

DEEPEST = 32
"""Levels of a schema, before and after its references are put in."""

_VALUES = 5000
"""Values of a schema with its references put in: a small one may unfold without end."""

_REFERENCE = "#/"


class UnusableSchema(Exception):
    """The schema cannot be given to a model. ``str()`` says why."""


def usable_schema(given: Json, most: int) -> dict[str, Json]:
    """The schema with its local references put in. ``most`` is its length, as JSON. Raises ``UnusableSchema``.

    What refers to itself takes anything there: a model must be told something that ends.
    """
    if not isinstance(given, dict):
        raise UnusableSchema("its input is described by no schema")
    if given.get("type", "object") != "object" or not isinstance(given.get("properties", {}), dict):
        raise UnusableSchema("its input is not described as an object")
    if nests_deeper(given, DEEPEST):
        raise UnusableSchema(f"the description of its input nests over {DEEPEST} levels deep")
    _check_size(given, most)  # as it comes, too: what is put in a thousand times is short at least
    schema = _Unfolding(given).whole()
    if nests_deeper(schema, DEEPEST):
        raise UnusableSchema(f"the description of its input nests over {DEEPEST} levels deep")
    _check_size(schema, most)
    return schema


def _check_size(schema: dict[str, Json], most: int) -> None:
    try:
        size = json_size(schema)
    except InvalidRequest as problem:
        raise UnusableSchema(f"the description of its input {problem}") from problem
    if size > most:
        raise UnusableSchema(f"the description of its input is longer than {most} bytes (native.mcp.schema_bytes)")


class _Unfolding:
    def __init__(self, root: dict[str, Json]) -> None:
        self._root = root
        self._left = _VALUES

    def whole(self) -> dict[str, Json]:
        top = {key: value for key, value in self._root.items() if key not in ("$defs", "definitions", "$schema", "$id")}
        schema: dict[str, Json] = self._unfolded(top, ())
        return {"type": "object", "properties": {}, **schema}

    def _unfolded(self, value: Any, inside: tuple[str, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise UnusableSchema("the description of its input unfolds too far")
        if not isinstance(value, dict | list):
            return value
        if isinstance(value, list):
            return [self._unfolded(each, inside) for each in value]
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return {key: self._unfolded(each, inside) for key, each in value.items()}
        beside = {key: self._unfolded(each, inside) for key, each in value.items() if key != "$ref"}
        if reference in inside:
            return beside
        return {**self._unfolded(self._found(reference), (*inside, reference)), **beside}

    def _found(self, reference: str) -> dict[str, Any]:
        found: Any = self._root
        for step in reference.removeprefix(_REFERENCE).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        if not reference.startswith(_REFERENCE) or not isinstance(found, dict):
            raise UnusableSchema(f"the description of its input refers to {reference[:100]!r}, which is not in it")
        return found
