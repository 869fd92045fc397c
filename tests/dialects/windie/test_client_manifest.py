"""Which tools of a client's manifest hold, and why the others do not (spec §3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.windie.client_manifest import schema_problem, validate_manifest

from . import anything

PLAIN = {"name": "save_note", "description": "Saves.", "schema": {"type": "object"}}


def _but(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in (PLAIN | fields).items() if value is not ...}


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def _too_deep_to_encode() -> dict[str, Any]:
    inner: list[Any] = []
    for _ in range(100_000):
        inner = [inner]
    return {"tools": inner}


WHOLE = [
    (None, "client_tool_manifest must be an object"),
    ([], "client_tool_manifest must be an object"),
    ("x", "client_tool_manifest must be an object"),
    ({"tools": {1, object()}}, "client_tool_manifest must be JSON serializable"),
    ({"tools": [], "x": "y" * 512_000}, "client_tool_manifest exceeds size limit"),
    ({}, "client_tool_manifest.tools must be a list"),
    ({"tools": {}}, "client_tool_manifest.tools must be a list"),
    ({"tools": [PLAIN] * 65}, "client_tool_manifest.tools cannot exceed 64 tools"),
]


@pytest.mark.parametrize(("manifest", "reason"), WHOLE, ids=range(len(WHOLE)))
def test_a_manifest_that_is_none(manifest: object, reason: str) -> None:
    accepted, rejected = validate_manifest(manifest)
    assert accepted == ()
    assert [(each.name, each.reason) for each in rejected] == [("", reason)]


def test_a_manifest_nested_deeper_than_can_be_encoded() -> None:
    manifest = _too_deep_to_encode()
    _, rejected = validate_manifest(manifest)
    assert rejected[0].reason == "client_tool_manifest must be JSON serializable"
    while manifest:  # Freeing it at once is deep, too.
        manifest = manifest.pop("tools") if isinstance(manifest, dict) else manifest.pop()


def test_the_largest_manifest_and_the_most_tools_hold() -> None:
    tools = [_but(name=f"tool_{index}") for index in range(64)]
    empty = len(msgspec.json.encode({"tools": tools, "x": ""}))
    accepted, rejected = validate_manifest({"tools": tools, "x": "y" * (512_000 - empty)})
    assert (len(accepted), rejected) == (64, ())
    _, rejected = validate_manifest({"tools": tools, "x": "y" * (512_001 - empty)})
    assert rejected[0].reason == "client_tool_manifest exceeds size limit"


NO_OBJECT = "schema must be an object"
ENTRIES = [
    ("x", "#1", "tool entry must be an object"),
    (None, "#1", "tool entry must be an object"),
    (_but(name=...), "#1", "tool name is required"),
    (_but(name=" "), "#1", "tool name is required"),
    (_but(name=7), "#1", "tool name is required"),
    (_but(name="a" * 97), "a" * 97, "tool name does not match allowed pattern"),
    (_but(name="1a"), "1a", "tool name does not match allowed pattern"),
    (_but(name="a b"), "a b", "tool name does not match allowed pattern"),
    (_but(name="a\n"), "a\n", "tool name does not match allowed pattern"),
    (_but(name="first"), "first", "duplicate tool name"),
    (_but(name="web_search"), "web_search", "reserved backend tool names cannot be overridden"),
    (_but(name="grounded_mouse_action"), "grounded_mouse_action", "reserved backend tool names cannot be overridden"),
    (_but(name="grounded_scroll_action"), "grounded_scroll_action", "reserved backend tool names cannot be overridden"),
    (_but(description=...), "save_note", "description is required"),
    (_but(description=None), "save_note", "description is required"),
    (_but(description=" \n"), "save_note", "description is required"),
    (_but(description="a" * 2001), "save_note", "description exceeds length limit"),
    (_but(execution_target="moon"), "save_note", "invalid execution_target"),
    (_but(execution_target=["local_runtime"]), "save_note", "invalid execution_target"),
    (_but(execution_target="backend"), "save_note", "client manifests cannot add backend tools"),
    (_but(argument_resolution="guess"), "save_note", "invalid argument_resolution"),
    (_but(argument_resolution={}), "save_note", "invalid argument_resolution"),
    (_but(schema=...), "save_note", NO_OBJECT),
    (_but(schema="x"), "save_note", NO_OBJECT),
    (_but(model_schema=[], schema={}), "save_note", NO_OBJECT),
    (_but(schema={"if": {}}), "save_note", "invalid schema: unsupported schema key 'if'"),
    (_but(schema={"properties": []}), "save_note", "invalid schema: properties must be an object"),
    (_but(execution_schema=[]), "save_note", "execution_schema must be an object"),
    (_but(execution_schema={"if": 1}), "save_note", "invalid execution_schema: unsupported schema key 'if'"),
    # The first check that fails is the one that is told.
    (_but(name="web_search", description=""), "web_search", "reserved backend tool names cannot be overridden"),
    (_but(description="", execution_target="moon"), "save_note", "description is required"),
    (_but(execution_target="moon", argument_resolution="guess"), "save_note", "invalid execution_target"),
    (_but(argument_resolution="guess", schema=...), "save_note", "invalid argument_resolution"),
    (_but(schema=..., execution_schema=[]), "save_note", NO_OBJECT),
]


@pytest.mark.parametrize(("entry", "name", "reason"), ENTRIES, ids=range(len(ENTRIES)))
def test_an_entry_that_is_none_beside_others_that_hold(entry: object, name: str, reason: str) -> None:
    accepted, rejected = validate_manifest({"tools": [_but(name="first"), entry, _but(name="last")]})
    assert [tool.name for tool in accepted] == ["first", "last"]
    assert [(each.name, each.reason) for each in rejected] == [(name, reason)]


def test_a_name_is_free_again_when_its_first_entry_does_not_hold() -> None:
    accepted, rejected = validate_manifest({"tools": [_but(description=""), PLAIN]})
    assert [tool.name for tool in accepted] == ["save_note"]
    assert [each.reason for each in rejected] == ["description is required"]


def test_an_entry_with_nothing_but_what_it_must_have() -> None:
    (tool,), _ = validate_manifest({"tools": [PLAIN]})
    assert msgspec.to_builtins(tool) == {
        "name": "save_note",
        "description": "Saves.",
        "execution_target": "local_runtime",
        "model_schema": {"type": "object"},
        "execution_schema": {"type": "object"},
        "argument_resolution": "passthrough",
        "optional": False,
    }


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"execution_target": "sidecar"}, {"execution_target": "local_runtime"}),
        ({"argument_resolution": "backend_grounding"}, {"argument_resolution": "backend_grounding"}),
        ({"optional": True}, {"optional": True}),
        ({"optional": 1}, {"optional": False}),
        ({"model_schema": {"title": "m"}, "parameters": {}}, {"model_schema": {"title": "m"}}),
        ({"schema": ..., "parameters": {"title": "p"}}, {"model_schema": {"title": "p"}}),
        ({"execution_schema": {"title": "e"}}, {"execution_schema": {"title": "e"}}),
        ({"description": "a" * 2000, "name": "a" * 96}, {"name": "a" * 96}),
    ],
)
def test_an_entry_that_says_more(fields: dict[str, Any], kept: dict[str, Any]) -> None:
    (tool,), rejected = validate_manifest({"tools": [_but(**fields)]})
    assert rejected == ()
    assert {key: getattr(tool, key) for key in kept} == kept


def test_a_reserved_name_that_the_server_lets_go() -> None:
    accepted, _ = validate_manifest({"tools": [_but(name="web_search")]}, overridable={"web_search"})
    assert [tool.name for tool in accepted] == ["web_search"]


SCHEMAS: list[tuple[dict[str, Any], str | None]] = [
    ({"type": "object", "properties": {"anything at all": {"type": "string"}}, "required": ["x"]}, None),
    ({"default": {"free": {"keys": 1}}, "const": {"if": 1}, "enum": [{"then": 2}]}, None),
    ({"$defs": {"Point": {"type": "object"}}, "items": {"$ref": "#/$defs/Point"}}, None),
    ({"additionalProperties": False}, None),
    ({"properties": {"x": {"if": 1}}}, "unsupported schema key 'if'"),
    ({"anyOf": [{"type": "string"}, {"not": {}}]}, "unsupported schema key 'not'"),
    ({"$defs": {"Point": {"if": 1}}}, "unsupported schema key 'if'"),
    ({"items": {"properties": 1}}, "properties must be an object"),
    ({"$defs": []}, "$defs must be an object"),
    (_nested(12), None),
    (_nested(13), "schema exceeds depth limit"),
    ({"default": _nested(12)}, "schema exceeds depth limit"),
    ({"description": "a" * (64_000 - 18)}, None),
    ({"description": "a" * (64_000 - 17)}, "schema exceeds size limit"),
]


@pytest.mark.parametrize(("schema", "why"), SCHEMAS, ids=range(len(SCHEMAS)))
def test_the_subset_of_json_schema(schema: dict[str, Any], why: str | None) -> None:
    assert schema_problem(schema) == why


@given(anything.json)
def test_any_json_as_a_manifest(manifest: object) -> None:
    _, rejected = validate_manifest(manifest)
    assert rejected or (isinstance(manifest, dict) and isinstance(manifest["tools"], list))


@given(st.lists(anything.json | st.builds(_but, schema=anything.json, name=anything.texts), max_size=6))
def test_any_json_as_entries_is_accepted_or_told_why_not(entries: list[Any]) -> None:
    accepted, rejected = validate_manifest({"tools": entries})
    assert len(accepted) + len(rejected) == len(entries)
    assert all(each.reason and each.name for each in rejected)
    assert len({tool.name for tool in accepted}) == len(accepted)
