"""What an agent definition may say, and what it does to a session's tools and prompt (spec §3, §5 query)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.windie import agent_definition as agents
from dragoman.dialects.windie.client_manifest import AcceptedTool, validate_manifest
from dragoman.dialects.windie.decoding import HandshakeRefused, decode_handshake


def _definition(**fields: Any) -> agents.AgentDefinition:
    text = json.dumps({"type": "handshake", "user_id": "u", "agent_definition": fields})
    definition = decode_handshake(text, limit=10_000_000).agent_definition
    assert definition is not None
    return definition


def _layer(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "type": "skill", "content": "x"} | fields


def _one_layer(**fields: Any) -> dict[str, Any]:
    return {"skills": [_layer(**fields)]}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"version": 2}, "version: must be 1"),
    ({"version": True}, "version: must be 1"),
    ({"id": "a" * 129}, "id: must have at most 128 characters"),
    ({"name": "a" * 129}, "name: must have at most 128 characters"),
    ({"mode": "windie_default"}, "mode: must be 'default' or 'default_plus_overrides' or 'custom'"),
    ({"mcps": []}, "mcps: unknown field"),
    ({"system_prompt": None}, "system_prompt: must be an object"),
    ({"system_prompt": {"mode": "append"}}, "system_prompt.mode: must be 'default' or 'replace'"),
    ({"system_prompt": {"content": "a" * 400_001}}, "system_prompt.content: must have at most 400000 characters"),
    ({"system_prompt": {"x": 1}}, "system_prompt.x: unknown field"),
    ({"skills": {}}, "skills: must be a list"),
    ({"skills": [3]}, "skills.0: must be an object"),
    ({"skills": [{"type": "t", "content": "c"}]}, "skills.0.id: field required"),
    ({"skills": [{"id": "t", "content": "c"}]}, "skills.0.type: field required"),
    ({"skills": [{"id": "t", "type": "t"}]}, "skills.0.content: field required"),
    (_one_layer(id=""), "skills.0.id: must have at least 1 characters"),
    (_one_layer(id="a" * 129), "skills.0.id: must have at most 128 characters"),
    (_one_layer(id="a b"), "skills.0.id: must match [a-zA-Z0-9_.:-]+"),
    (_one_layer(type="a" * 65), "skills.0.type: must have at most 64 characters"),
    (_one_layer(type="a/b"), "skills.0.type: must match [a-zA-Z0-9_.:-]+"),
    (_one_layer(priority=-1), "skills.0.priority: must be from 0 to 1000"),
    (_one_layer(priority=1001), "skills.0.priority: must be from 0 to 1000"),
    (_one_layer(priority=True), "skills.0.priority: must be an integer"),
    (_one_layer(priority=1.5), "skills.0.priority: must be an integer"),
    (_one_layer(content=" \n"), "skills.0.content: must not be blank"),
    (_one_layer(content="a" * 200_001), "skills.0.content: must have at most 200000 characters"),
    (_one_layer(revision="a" * 129), "skills.0.revision: must have at most 128 characters"),
    (_one_layer(source_path="a" * 4097), "skills.0.source_path: must have at most 4096 characters"),
    (_one_layer(x=1), "skills.0.x: unknown field"),
    ({"agents_md": [_layer(id="")]}, "agents_md.0.id: must have at least 1 characters"),
    ({"prompt_layers": [_layer(), _layer(id="")]}, "prompt_layers.1.id: must have at least 1 characters"),
    ({"plugins": [{}]}, "plugins.0.id: field required"),
    ({"plugins": [{"id": "p", "name": "a" * 129}]}, "plugins.0.name: must have at most 128 characters"),
    ({"plugins": [{"id": "p", "version": "a" * 65}]}, "plugins.0.version: must have at most 64 characters"),
    ({"plugins": [{"id": "p", "metadata": []}]}, "plugins.0.metadata: must be an object"),
    (
        {"plugins": [{"id": "p", "prompt_layers": [_layer(x=1)]}]},
        "plugins.0.prompt_layers.0.x: unknown field",
    ),
    ({"runtime": {"operating_system": "a" * 65}}, "runtime.operating_system: must have at most 64 characters"),
    ({"runtime": {"workspace_path": "a" * 4097}}, "runtime.workspace_path: must have at most 4096 characters"),
    (
        {"runtime": {"coordinate_methods": ["eye"]}},
        "runtime.coordinate_methods.0: must be 'manual' or 'ocr' or 'prediction'",
    ),
    ({"runtime": {"x": 1}}, "runtime.x: unknown field"),
    ({"metadata": []}, "metadata: must be an object"),
    (
        {"tools": {"mode": "all"}},
        "tools.mode: must be 'default' or 'default_plus_client' or 'client_only' or 'explicit'",
    ),
    ({"tools": {"available_tools": [" "]}}, "tools.available_tools.0: must not be blank"),
    ({"tools": {"enabled_remote_tools": [1]}}, "tools.enabled_remote_tools.0: must be a string"),
    ({"tools": {"disabled_tools": "x"}}, "tools.disabled_tools: must be a list"),
    (
        {"tools": {"disabled_capabilities": ["ocr", "sight"]}},
        "tools.disabled_capabilities.1: must be 'ocr' or 'vision' or 'embeddings' or 'web_search' or 'browser'",
    ),
    ({"tools": {"client_tool_manifest": {}}}, "tools.client_tool_manifest: unknown field"),
]


@pytest.mark.parametrize(("fields", "fault"), WRONG, ids=[fault for _, fault in WRONG])
def test_a_definition_that_is_none(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(HandshakeRefused) as refused:
        _definition(**fields)
    assert str(refused.value) == f"agent_definition.{fault}"


def test_texts_and_lists_as_they_are_kept() -> None:
    definition = _definition(
        id=" \t",
        runtime={"operating_system": " ", "workspace_path": " /w "},
        tools={"disabled_tools": [" b ", "a", "b"], "disabled_capabilities": ["ocr", "ocr"]},
        skills=[_layer(content=" x ", revision=None)],
    )
    assert definition.id is None
    assert definition.runtime == agents.Runtime(workspace_path="/w")
    assert definition.tools.disabled_tools == ("b", "a")
    assert definition.tools.disabled_capabilities == ("ocr",)
    assert (definition.skills[0].content, definition.skills[0].priority) == (" x ", 100)


@pytest.mark.parametrize("manifest", [None, 7, [], {"tools": 3}, {"tools": [{"name": 1}]}])
def test_no_manifest_refuses_a_definition(manifest: object) -> None:
    assert _definition(tools={"client_manifest": manifest}).tools.client_manifest == manifest


@pytest.mark.parametrize(
    ("prompt", "replacement"),
    [
        ({}, None),
        ({"content": "SP"}, None),
        ({"mode": "replace"}, None),
        ({"mode": "replace", "content": " \n"}, None),
        ({"mode": "replace", "content": "SP"}, "SP"),
    ],
)
def test_when_the_system_prompt_is_replaced(prompt: dict[str, Any], replacement: str | None) -> None:
    assert _definition(system_prompt=prompt).system_prompt.replacement == replacement


def test_prompt_layers_are_sorted_by_priority_and_keep_their_order_beside_that() -> None:
    definition = _definition(
        plugins=[{"id": "p", "prompt_layers": [_layer(id="p1"), _layer(id="p2", priority=1)]}],
        prompt_layers=[_layer(id="l1")],
        skills=[_layer(id="s1", priority=500), _layer(id="s2")],
        agents_md=[_layer(id="a1", priority=101), _layer(id="a2")],
    )
    ids = [layer.id for layer in agents.prompt_layers_of(definition)]
    assert ids == ["p2", "a2", "s2", "l1", "p1", "a1", "s1"]
    assert agents.prompt_layers_of(None) == ()


DEFAULTS = ("web_search", "browser", "grounded_mouse_action")
BACKEND = {*DEFAULTS, "screenshot"}


def _accepted() -> tuple[AcceptedTool, ...]:
    tools = [
        {"name": "note", "description": "d", "schema": {}},
        {"name": "point", "description": "d", "schema": {}, "argument_resolution": "backend_grounding"},
    ]
    return validate_manifest({"tools": tools})[0]


VISIBLE: list[tuple[dict[str, Any], str]] = [
    ({"mode": "default"}, "web_search browser grounded_mouse_action"),
    ({"mode": "default_plus_client"}, "web_search browser grounded_mouse_action note point"),
    ({}, "web_search browser grounded_mouse_action note point"),
    ({"mode": "client_only"}, "note point"),
    ({"mode": "client_only", "available_tools": ["browser"]}, "note point"),
    ({"mode": "client_only", "enabled_remote_tools": ["web_search"]}, "note point web_search"),
    ({"mode": "explicit"}, "note point"),
    ({"mode": "explicit", "available_tools": ["browser"]}, "browser note point"),
    ({"mode": "explicit", "enabled_remote_tools": ["web_search"]}, "note point web_search"),
    ({"mode": "default", "available_tools": ["screenshot"]}, "screenshot note point"),
    (
        {"mode": "default", "available_tools": ["screenshot"], "enabled_remote_tools": ["browser"]},
        "screenshot note point browser",
    ),
    ({"available_tools": []}, "note point"),
    ({"available_tools": ["note", "screenshot"]}, "note screenshot point"),
    # A client makes nothing available that the server has not.
    ({"mode": "explicit", "available_tools": ["vault"], "enabled_remote_tools": ["root"]}, "note point"),
    ({"disabled_tools": ["browser", "note"]}, "web_search grounded_mouse_action point"),
    ({"disabled_capabilities": ["web_search", "browser"]}, "grounded_mouse_action note point"),
    ({"disabled_capabilities": ["ocr"]}, "web_search browser grounded_mouse_action note point"),
    ({"disabled_capabilities": ["ocr", "vision"]}, "web_search browser note"),
    ({"disabled_capabilities": ["embeddings"]}, "web_search browser grounded_mouse_action note point"),
    ({"coordinate_methods": ["manual"]}, "web_search browser note"),
    ({"coordinate_methods": []}, "web_search browser note"),
    ({"coordinate_methods": ["ocr"]}, "web_search browser grounded_mouse_action note point"),
    ({"coordinate_methods": ["ocr"], "disabled_capabilities": ["ocr"]}, "web_search browser note"),
    ({"coordinate_methods": ["prediction"], "mode": "client_only"}, "note point"),
]


@pytest.mark.parametrize(("tools", "names"), VISIBLE, ids=range(len(VISIBLE)))
def test_the_tools_that_a_definition_leaves_visible(tools: dict[str, Any], names: str) -> None:
    methods = tools.get("coordinate_methods")
    policy = {key: value for key, value in tools.items() if key != "coordinate_methods"}
    definition = _definition(tools=policy, runtime={"coordinate_methods": methods})
    assert agents.visible_tools(definition, DEFAULTS, _accepted(), BACKEND) == tuple(names.split())


def test_without_a_definition_there_are_the_server_s_tools() -> None:
    assert agents.visible_tools(None, DEFAULTS, _accepted(), BACKEND) == DEFAULTS


@pytest.mark.parametrize("methods", [None, ["manual"], ["ocr", "prediction"]])
def test_declaring_how_to_point_never_widens(methods: list[str] | None) -> None:
    definition = _definition(runtime={"coordinate_methods": methods})
    assert agents.visible_tools(definition, DEFAULTS, (), {"browser"}) == ("browser",)


MANIFEST = {"version": 1, "tools": [{"name": "note"}]}
OTHER = {"version": 1, "tools": [{"name": "other"}]}
EMPTY = {"version": 1, "tools": []}
MERGED: list[tuple[dict[str, Any] | None, object]] = [
    (None, MANIFEST),
    ({}, MANIFEST),
    ({"mode": "client_only"}, MANIFEST),
    ({"disabled_tools": ["note"]}, MANIFEST),
    ({"client_manifest": OTHER}, OTHER),
    ({"client_manifest": EMPTY}, MANIFEST),
    ({"client_manifest": EMPTY, "mode": "default"}, MANIFEST),
    ({"client_manifest": EMPTY, "mode": "client_only"}, EMPTY),
    ({"client_manifest": EMPTY, "mode": "explicit"}, EMPTY),
    ({"client_manifest": EMPTY, "available_tools": []}, EMPTY),
    ({"client_manifest": EMPTY, "enabled_remote_tools": ["web_search"]}, EMPTY),
    ({"client_manifest": EMPTY, "disabled_tools": ["note"]}, EMPTY),
    ({"client_manifest": EMPTY, "disabled_capabilities": ["ocr"]}, EMPTY),
    ({"client_manifest": "broken"}, "broken"),
]


@pytest.mark.parametrize(("tools", "manifest"), MERGED, ids=range(len(MERGED)))
def test_the_manifest_of_a_query_s_turn(tools: dict[str, Any] | None, manifest: object) -> None:
    handshake = _definition(name="h", tools={"client_manifest": MANIFEST})
    query = None if tools is None else _definition(name="q", tools=tools)
    merged = agents.merged(handshake, query)
    assert merged is not None
    assert merged.tools.client_manifest == manifest
    assert merged.name == ("h" if query is None else "q")
    if query is not None:
        assert (merged.tools.mode, merged.tools.disabled_tools) == (query.tools.mode, query.tools.disabled_tools)


def test_with_one_definition_that_one_holds() -> None:
    query = _definition(name="q")
    assert agents.merged(None, query) is query
    assert agents.merged(None, None) is None
