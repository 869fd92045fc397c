"""What servers say, made into what models and logs take: names, schemas, results."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dragoman.agents.native.mcp.names import tool_name
from dragoman.agents.native.mcp.results import read_result
from dragoman.agents.native.mcp.schema import UnusableSchema, usable_schema

SPEAKABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")


@pytest.mark.parametrize("tool", ["add", "", "a" * 200, "größe.lesen", "a b/c", "\ud800", "mcp__x"])
def test_every_name_can_be_said_to_every_provider(tool: str) -> None:
    assert SPEAKABLE.fullmatch(tool_name("some server", tool, ()))


def test_a_name_that_is_taken_gets_a_mark_that_is_always_the_same() -> None:
    plain = tool_name("s", "t", ())
    assert plain == "mcp__s__t"
    marked = tool_name("s", "t", {plain})
    assert marked == tool_name("s", "t", {plain})
    assert SPEAKABLE.fullmatch(marked)
    assert tool_name("s", "t", {plain, marked}) not in {plain, marked}


def test_long_names_with_the_same_beginning_stay_apart() -> None:
    assert tool_name("s", "x" * 100 + "1", ()) != tool_name("s", "x" * 100 + "2", ())


def test_local_references_are_put_in() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/Item", "description": "mine"}, "b": {"$ref": "#/definitions/x~1y"}},
        "$defs": {"Item": {"type": "object", "description": "its own", "properties": {"n": {"type": "integer"}}}},
        "definitions": {"x/y": {"type": "string"}},
    }
    assert usable_schema(schema, 10_000) == {
        "type": "object",
        "properties": {
            "a": {"type": "object", "description": "mine", "properties": {"n": {"type": "integer"}}},
            "b": {"type": "string"},
        },
    }


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/T"}},
        "$defs": {
            "T": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}
        },
    }
    tree: Any = usable_schema(schema, 10_000)["properties"]
    assert tree["tree"]["properties"]["children"]["items"] == {}


def test_an_empty_schema_is_one_of_an_object() -> None:
    assert usable_schema({}, 1000) == {"type": "object", "properties": {}}


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def _bomb() -> dict[str, Any]:
    """Small, and as large as the world once its references are put in."""
    names = {f"T{n}": {"anyOf": [{"$ref": f"#/$defs/T{n + 1}"}] * 10} for n in range(9)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/T0"}}, "$defs": {**names, "T9": {}}}


@pytest.mark.parametrize(
    "schema",
    [
        *(None, 7, [], "object", {"type": "array"}, {"type": "object", "properties": []}),
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/absent"}}},
        {"type": "object", "properties": {"x": {"$ref": "https://example.org/schema"}}},
        {"type": "object", "description": "x" * 2000},
        _deep(40),
        _bomb(),
    ],
    ids=lambda schema: str(schema)[:30],
)
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    with pytest.raises(UnusableSchema):
        usable_schema(schema, 1000)


def test_every_kind_of_content_has_its_words() -> None:
    given = {
        "content": [
            {"type": "text", "text": "said"},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAA="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
            {"type": "of another age", "x": 1},
            "no block",
        ]
    }
    result = read_result(given, 1000)
    assert result.text.split("\n\n") == [
        "said",
        "[audio: audio/wav, 3 bytes; not shown]",
        "[file:///a]\ninside",
        "[resource file:///b: , 2 bytes; not shown]",
        "[resource file:///c: c]",
    ]
    assert not result.failed
    assert len(result.output["content"]) == 6  # type: ignore[arg-type]


def test_structured_content_alone_is_the_text() -> None:
    result = read_result({"content": [], "structuredContent": {"a": [1, 2]}}, 1000)
    assert result.text == '{"a":[1,2]}'
    assert result.output["structuredContent"] == {"a": [1, 2]}


def test_what_is_too_long_is_cut_and_said_to_be() -> None:
    blocks = [{"type": "text", "text": "x" * 80}, {"type": "text", "text": "y" * 80}]
    result = read_result({"content": blocks, "structuredContent": {"z": "z" * 200}}, 100)
    assert "y" * 20 + "\n[60 characters left out]" in result.text
    assert "structuredContent" not in result.output


@pytest.mark.parametrize("given", [None, 5, "text", [], {}, {"content": 5}, {"content": [None]}, {"isError": "yes"}])
def test_an_answer_that_is_none_is_empty(given: Any) -> None:
    assert read_result(given, 100).text == ""


def test_what_no_log_can_hold_costs_no_more_than_itself() -> None:
    result = read_result({"content": [{"type": "text", "text": "t"}], "structuredContent": {"half": "\ud800"}}, 1000)
    assert (result.text, "structuredContent" in result.output) == ("t", False)


def test_only_true_is_an_error() -> None:
    assert read_result({"content": [], "isError": True}, 100).failed
