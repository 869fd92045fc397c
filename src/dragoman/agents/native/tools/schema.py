"""What the model is told of a tool's input, and what is made of the input it sends."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from dragoman.agents.native.providers.conversation import ToolSpec
from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json

from .found import FoundTool
from .tool import Tool, ToolFailed, ToolInput

_EXACT = 2**53
"""Up to here a float that is whole is exactly that integer."""

_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(?:\d+|\.\.\.)\]")
_WORDS = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}


class InvalidInput(ToolFailed):
    """The model's input is not what the tool takes. ``str()`` names the field and what is expected there."""


def tool_spec(tool: Tool | FoundTool) -> ToolSpec:
    """The tool as a provider gets it. The same tool gives the same spec, to the order of its keys."""
    return tool.spec if isinstance(tool, FoundTool) else _spec(tool.name, tool.description, tool.input)


@cache
def _spec(name: str, description: str, given: type[ToolInput]) -> ToolSpec:
    """Made once, and never changed: whoever has to spell it otherwise makes another."""
    return ToolSpec(name, description, input_schema(given))


def input_schema(given: type[ToolInput]) -> dict[str, Json]:
    """JSON Schema of an input, without ``$ref``, ``title`` and ``null``: an optional field is one to leave out.

    The docstrings of our structs are for us, so descriptions come from ``msgspec.Meta`` alone.
    """
    schema: dict[str, Json] = msgspec.json.decode(_encoded_schema(given))
    return schema


@cache
def _encoded_schema(given: type[ToolInput]) -> bytes:
    """Made once: for all tools together it takes as long as the rest of a turn."""
    (root,), named = msgspec.json.schema_components([given], ref_template="{name}")
    return msgspec.json.encode(_inline(root, named))


def decode(tool: Tool, arguments: str) -> ToolInput:
    """The input in ``arguments``, the JSON text as the model wrote it. Raises ``InvalidInput``.

    Beside what the schema says, ``null`` stands for an optional field that is left out, and a whole number may be
    written as ``2.0``: models do both. Fields that the tool does not have are ignored.
    """
    given = decode_object(tool.name, arguments)
    optional = {field.encode_name for field in msgspec.structs.fields(tool.input) if not field.required}
    try:
        whole = {key: _whole(value) for key, value in given.items() if value is not None or key not in optional}
        return msgspec.convert(whole, tool.input)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"Invalid input for {tool.name}: {_explained(str(error), tool, given)}") from None
    except RecursionError:
        raise InvalidInput(f"Invalid input for {tool.name}: it is nested too deep") from None


def decode_object(name: str, arguments: str) -> dict[str, Json]:
    """The object in ``arguments``, whatever its fields. Raises ``InvalidInput``."""
    try:
        given: Json = msgspec.json.decode(arguments)
    except NOT_JSON as error:
        raise InvalidInput(f"Invalid input for {name}: it is not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidInput(f"Invalid input for {name}: expected a JSON object with its fields")
    return given


def _inline(schema: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        inner = {key: value for key, value in named[schema["$ref"]].items() if key != "description"}
        return _inline(inner, named) | {key: value for key, value in schema.items() if key != "$ref"}
    plain = {key: value for key, value in schema.items() if key != "title"}
    if "anyOf" in plain:
        plain = _without_null(plain)
        if "anyOf" not in plain:
            return _inline(plain, named)
        plain["anyOf"] = [_inline(each, named) for each in plain["anyOf"]]
    if plain.get("type") == "object" and "properties" in plain:
        plain["properties"] = {name: _inline(each, named) for name, each in plain["properties"].items()}
        plain.setdefault("required", [])
        plain["additionalProperties"] = False
    if isinstance(plain.get("items"), dict):
        plain["items"] = _inline(plain["items"], named)
    if "enum" in plain and all(isinstance(each, str) for each in plain["enum"]):
        plain = {"type": "string"} | plain
    return plain


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """``anyOf`` with one choice left is that choice."""
    choices = [each for each in schema["anyOf"] if each != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf" and (key, value) != ("default", None)}
    return choices[0] | rest if len(choices) == 1 else rest | {"anyOf": choices}


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return value


def _explained(message: str, tool: Tool, given: dict[str, Any]) -> str:
    match = _MESSAGE.fullmatch(message)
    assert match is not None
    what, path = match["what"], (match["path"] or "").removeprefix(".")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        had = ", ".join(given) or "nothing"
        return f"{path}{'.' if path else ''}{missing[1]} is required" + ("" if path else f" (given: {had[:200]})")
    if allowed := _field(input_schema(tool.input), path).get("enum"):
        return f"{path}: expected one of {', '.join(map(str, allowed))}"
    what = re.sub(r"`([^`]*)`", lambda quoted: _in_words(quoted[1]), what)
    return f"{path}: {what[:1].lower()}{what[1:]}" if path else what


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(each, each) for each in types.split(" | ") if each != "null") or "null"


def _field(schema: dict[str, Any], path: str) -> dict[str, Any]:
    for step in _STEP.finditer(path):
        schema = schema.get("properties", {}).get(step[1], {}) if step[1] else schema.get("items", {})
    return schema
