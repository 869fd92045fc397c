"""Introspection over HTTP: models, tools, prompts and plans (seed: "These routes expose..."; spec §8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.preview import NativePreviews
from dragoman.hub.errors import Unsupported
from dragoman.hub.permissions import LOCAL

from .http_rig import WindieServer, serving_windie

MODELS = "/api/sdk/models"
SCHEMAS = "/api/sdk/tool-schemas"
CAPABILITY = "/api/sdk/tool-capabilities"
PROMPT = "/api/sdk/system-prompt"
PREVIEW = "/api/sdk/prompt-preview"
PLAN = "/api/sdk/query-plan"

GETS = [MODELS, SCHEMAS, f"{CAPABILITY}/web_search", PROMPT]
POSTS = [PREVIEW, PLAN]

DEFAULT = {
    "model_mode": "online",
    "model_provider": "scripted",
    "selected_model_id": "scripted",
    "interaction_mode": "agent",
}
CONTENT = "<system_context><active_window>Terminal</active_window></system_context>\n<user_query>open file</user_query>"
NOTE = {"name": "save_note", "description": "Save a note.", "schema": {"type": "object"}}
PREVIEWED = {
    *("config", "system_prompt", "prompt_messages", "canonical_tool_schemas", "provider_tool_schemas"),
    *("user_message_full", "prompt_token_count", "token_count_error"),
}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


async def told(server: WindieServer, path: str, body: Any = None) -> Any:
    reply = await (server.get(path) if body is None else server.post(path, body))
    assert reply.status == 200, reply
    return reply.json


# Whose settings


@pytest.mark.parametrize("path", GETS)
async def test_the_config_is_what_holds_without_any_settings(open_server: WindieServer, path: str) -> None:
    assert (await told(open_server, path))["config"] == DEFAULT


@pytest.mark.parametrize("path", GETS)
async def test_the_config_is_the_users_and_what_the_address_says_instead(open_server: WindieServer, path: str) -> None:
    await open_server.host.users.change("ada", {"selected_model_id": "m@@high", "interaction_mode": "chat"})
    assert (await told(open_server, path))["config"] == DEFAULT
    config = (await told(open_server, f"{path}?user_id=ada"))["config"]
    assert config == {**DEFAULT, "selected_model_id": "m@@high", "interaction_mode": "chat"}
    query = "user_id=ada&interaction_mode=agent&model_id=other&model_provider=scripted"
    config = (await told(open_server, f"{path}?{query}"))["config"]
    assert config == {**DEFAULT, "selected_model_id": "other"}
    assert (await told(open_server, f"{path}?model_id=%20&user_id=ada"))["config"]["selected_model_id"] == "m@@high"
    assert await open_server.host.users.read("ada") == {"selected_model_id": "m@@high", "interaction_mode": "chat"}


@pytest.mark.parametrize("path", POSTS)
async def test_the_body_says_whose_settings_and_what_instead(open_server: WindieServer, path: str) -> None:
    await open_server.host.users.change("ada", {"selected_model_id": "m", "interaction_mode": "chat"})
    body = {"user_id": "ada", "model_id": "n", "interaction_mode": "agent"}
    assert (await told(open_server, path, body))["config"] == {**DEFAULT, "selected_model_id": "n"}


@pytest.mark.parametrize("path", [*GETS, *POSTS])
async def test_another_users_state_is_nobodys_business(closed_server: WindieServer, path: str) -> None:
    made, other = await closed_server.register(), await closed_server.register()
    await closed_server.host.users.change(made["user_id"], {"selected_model_id": "mine"})

    async def ask(user_id: str | None, token: str | None) -> Any:
        if path in POSTS:
            return await closed_server.post(path, {"user_id": user_id}, token)
        return await closed_server.get(path if user_id is None else f"{path}?user_id={user_id}", token)

    assert (await ask(None, None)).refused == (401, "Missing install bearer token")
    assert (await ask(made["user_id"], other["install_token"])).status == 403
    for user_id in (None, made["user_id"]):
        reply = await ask(user_id, made["install_token"])
        assert reply.json["config"]["selected_model_id"] == "mine"
    assert (await ask(None, other["install_token"])).json["config"]["selected_model_id"] == "scripted"


@pytest.mark.parametrize("path", [*GETS, *POSTS])
async def test_a_provider_that_nobody_has_and_a_mode_that_is_none(open_server: WindieServer, path: str) -> None:
    async def refused(name: str, value: str) -> list[Any]:
        if path in POSTS:
            reply = await open_server.post(path, {name: value})
        else:
            reply = await open_server.get(f"{path}?{name}={value}")
        status, detail = reply.refused
        assert status == 422
        return [each["loc"] for each in detail]

    place = "body" if path in POSTS else "query"
    assert await refused("interaction_mode", "both") == [[place, "interaction_mode"]]
    assert await refused("model_id", "m" * 257) == [[place, "model_id"]]
    assert await refused("model_provider", "p" * 129) == [[place, "model_provider"]]
    assert await refused("user_id", "a%20b" if place == "query" else "a b") == [[place, "user_id"]]
    if path != MODELS:
        assert await refused("model_provider", "nobody") == [[place, "model_provider"]]


async def test_settings_that_cannot_be_read_are_503(open_server: WindieServer) -> None:
    await open_server.host.users.close()
    assert (await open_server.get(PROMPT)).refused == (503, "User settings not available")
    assert (await open_server.post(PREVIEW, {})).refused == (503, "User settings not available")


# Models and tools


async def test_models_have_what_every_entry_has(open_server: WindieServer) -> None:
    models = (await told(open_server, MODELS))["models"]
    assert models
    assert all({"id", "provider", "display_name"} <= set(model) for model in models)
    assert "scripted" in {model["provider"] for model in models}


async def test_canonical_tools_are_all_and_provider_tools_are_those_that_policy_leaves(
    open_server: WindieServer,
) -> None:
    answer = await told(open_server, SCHEMAS)
    canonical = {tool["name"]: tool for tool in answer["canonical_tool_schemas"]}
    assert {"bash", "read", "web_search"} <= set(canonical)
    assert all(set(tool) == {"type", "name", "description", "parameters"} for tool in canonical.values())
    assert {tool["type"] for tool in canonical.values()} == {"function"}
    assert [tool["name"] for tool in answer["provider_tool_schemas"]] == ["webSearch"]


@pytest.fixture
async def host_server(tmp_path: Path) -> AsyncIterator[WindieServer]:
    """One whose conversations may have ``bash``."""
    async with serving_windie(tmp_path, windie={"host_tools": ["bash"]}) as server:
        yield server


async def test_what_is_known_of_a_tool(host_server: WindieServer) -> None:
    schemas = await told(host_server, SCHEMAS)
    bash = await told(host_server, f"{CAPABILITY}/bash")
    (canonical,) = (each for each in schemas["canonical_tool_schemas"] if each["name"] == "bash")
    assert bash["canonical_tool_schema"] == bash["provider_tool_schema"] == canonical
    assert bash["capability"] == {
        "name": "bash",
        "provider_name": "bash",
        "description": canonical["description"],
        "execution_owner": "backend",
        "touches_host": True,
        "enabled": True,
        "available": True,
        "reason_unavailable": None,
    }


async def test_a_tool_that_policy_takes_away_is_known_and_not_available(host_server: WindieServer) -> None:
    read = await told(host_server, f"{CAPABILITY}/read")
    assert read["provider_tool_schema"] is None
    assert read["canonical_tool_schema"]["name"] == "read"
    assert (read["capability"]["enabled"], read["capability"]["available"]) == (False, False)
    assert "host_tools" in read["capability"]["reason_unavailable"]
    chat = (await told(host_server, f"{CAPABILITY}/bash?interaction_mode=chat"))["capability"]
    assert (chat["enabled"], chat["available"]) == (False, False)
    assert "chat" in chat["reason_unavailable"]


@pytest.mark.parametrize("name", ["web_search", "webSearch"])
async def test_a_search_is_known_by_either_name_and_says_what_it_lacks(open_server: WindieServer, name: str) -> None:
    answer = await told(open_server, f"{CAPABILITY}/{name}")
    capability = answer["capability"]
    assert (capability["name"], capability["touches_host"]) == ("web_search", False)
    assert answer["canonical_tool_schema"]["name"] == "web_search"
    assert answer["provider_tool_schema"]["name"] == capability["provider_name"] == "webSearch"
    assert capability["reason_unavailable"] == open_server.host.search_problem()
    assert capability["available"] is (open_server.host.search_problem() is None)


@pytest.mark.parametrize("name", ["nothing", "save_note", "..", "%2e%2e", "BASH"])
async def test_a_tool_that_the_server_has_not(open_server: WindieServer, name: str) -> None:
    assert (await open_server.get(f"{CAPABILITY}/{name}")).refused == (404, "Tool not found")


# Prompts


async def test_the_system_prompt_is_the_one_of_a_preview(open_server: WindieServer) -> None:
    alone = await told(open_server, PROMPT)
    assert set(alone) == {"config", "system_prompt"}
    assert alone["system_prompt"] == (await told(open_server, PREVIEW, {}))["system_prompt"] != ""


@pytest.mark.parametrize("path", POSTS)
async def test_the_contracts_own_request(open_server: WindieServer, path: str) -> None:
    request = {
        "user_id": "somebody",
        "interaction_mode": "agent",
        "include_tools": True,
        "workspace_path": "/absolute/workspace/path",
        "user_query_raw": "open file",
        "messages": [user(CONTENT)],
    }
    answer = await told(open_server, path, request)
    assert set(answer) == PREVIEWED | ({"query_message", "transparency_events"} if path == PLAN else set())
    assert answer["prompt_messages"] == [user(CONTENT)]
    message = answer["user_message_full"]
    assert message["content"] == CONTENT
    assert message["metadata"] == {
        "original_query": "open file",
        "context_type": "initial",
        "injected_context": "<system_context><active_window>Terminal</active_window></system_context>",
        "active_window": "Terminal",
        "has_screenshot": False,
        "has_memory": False,
    }
    assert answer["prompt_token_count"] > 0
    assert answer["token_count_error"] is None
    assert "/absolute/workspace/path" in answer["system_prompt"]


async def test_the_query_is_inferred_from_the_last_section(open_server: WindieServer) -> None:
    async def query(*messages: Any, **more: Any) -> str:
        plan = await told(open_server, PLAN, {"messages": list(messages), **more})
        text: str = plan["query_message"]["payload"]["text"]
        assert plan["user_message_full"]["metadata"]["original_query"] == text
        return text

    assert await query(user("<user_query>a</user_query><user_query>\nb &amp; c\n</user_query>")) == "b & c"
    assert await query(user(CONTENT), {"role": "assistant", "content": "?"}, user(" plain ")) == "plain"
    assert await query(user(CONTENT), {"role": "assistant", "content": "done"}) == "open file"
    assert await query(user([{"type": "text", "text": CONTENT}, {"type": "image_url", "image_url": {}}])) == "open file"
    assert await query(user(CONTENT), user_query_raw=" said otherwise ") == "said otherwise"
    assert await query(user(CONTENT), user_query_raw="  ") == "open file"


@pytest.mark.parametrize(
    "messages", [[], [{"role": "assistant", "content": "hello"}], [{"role": "tool", "content": ""}]]
)
async def test_where_nobody_says_anything_there_is_no_users_message(open_server: WindieServer, messages: Any) -> None:
    plan = await told(open_server, PLAN, {"messages": messages})
    assert plan["user_message_full"] is None
    assert plan["prompt_messages"] == [each for each in messages if each["role"] == "assistant"]
    assert [event["type"] for event in plan["transparency_events"]] == ["system-prompt", "tool-schemas"]
    assert plan["query_message"] == {"type": "query", "payload": {"text": ""}}


async def test_a_conversation_that_ends_with_an_answer_is_shown_as_it_is(open_server: WindieServer) -> None:
    messages = [user("one"), {"role": "assistant", "content": "two"}]
    shown = await told(open_server, PREVIEW, {"messages": messages})
    assert shown["prompt_messages"] == messages
    assert shown["user_message_full"]["content"] == "one"
    orphaned = [user("one"), {"role": "tool", "content": "of no call", "tool_call_id": "c"}]
    assert (await told(open_server, PREVIEW, {"messages": orphaned}))["prompt_messages"] == [user("one")]


async def test_a_later_query_is_a_follow_up(open_server: WindieServer) -> None:
    messages = [user("one"), {"role": "assistant", "content": "two"}, user("three")]
    shown = await told(open_server, PREVIEW, {"messages": messages})
    assert shown["prompt_messages"] == messages
    assert shown["user_message_full"]["metadata"]["context_type"] == "follow_up"


async def test_a_clients_tools_are_shown_among_all(open_server: WindieServer) -> None:
    bash = {**NOTE, "name": "bash"}
    tools = {"client_manifest": {"tools": [NOTE, bash]}, "disabled_tools": ["save_note"]}
    shown = await told(open_server, PREVIEW, {"agent_definition": {"tools": tools}})
    canonical = [(tool["name"], tool["description"]) for tool in shown["canonical_tool_schemas"]]
    assert canonical.count(("save_note", "Save a note.")) == 1
    assert [each for each in canonical if each[0] == "bash"] == [("bash", "Save a note.")]
    assert [tool["name"] for tool in shown["provider_tool_schemas"]] == ["webSearch", "bash"]


async def test_without_tools_their_lists_are_empty_and_no_event_has_them(open_server: WindieServer) -> None:
    body = {"messages": [user("hi")], "include_tools": False}
    plan = await told(open_server, PLAN, body)
    assert plan["canonical_tool_schemas"] == plan["provider_tool_schemas"] == []
    assert [event["type"] for event in plan["transparency_events"]] == ["system-prompt", "user-message-full"]
    assert (
        plan["prompt_token_count"]
        == (await told(open_server, PLAN, {**body, "include_tools": True}))["prompt_token_count"]
    )


async def test_a_planned_query_has_what_was_given_and_no_more(open_server: WindieServer) -> None:
    definition = {
        "id": "mine",
        "metadata": {"kept": None},
        "tools": {"client_manifest": {"tools": [{"name": "x", "description": None}]}},
    }
    given = {"conversation_ref": " conv_sdk ", "workspace_path": "/a/b", "agent_definition": definition}
    payload = (await told(open_server, PLAN, {"user_query_raw": "hi", **given}))["query_message"]["payload"]
    assert set(payload) == {"text", *given}
    assert (payload["conversation_ref"], payload["workspace_path"]) == ("conv_sdk", "/a/b")
    assert payload["agent_definition"]["metadata"] == {"kept": None}
    assert payload["agent_definition"]["tools"]["client_manifest"] == definition["tools"]["client_manifest"]  # type: ignore[index]
    again = (await told(open_server, PLAN, payload | {"user_query_raw": payload.pop("text")}))["query_message"]
    assert again["payload"] == {"text": "hi", **payload}


async def test_what_cannot_be_counted_has_no_count_and_says_why(
    open_server: WindieServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: object) -> int:
        raise RuntimeError("no such vocabulary")

    monkeypatch.setattr("dragoman.agents.native.preview.count_request", broken)
    shown = await told(open_server, PREVIEW, {"messages": [user("hi")]})
    assert shown["prompt_token_count"] is None
    assert "RuntimeError" in shown["token_count_error"]


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"messages": [{"role": "robot", "content": "x"}]}, ["body", "messages", 0, "role"]),
        ({"messages": {}}, ["body", "messages"]),
        ({"user_query_raw": "x" * 32_769}, ["body", "user_query_raw"]),
        ({"workspace_path": ""}, ["body", "workspace_path"]),
        ({"workspace_path": "/" * 4097}, ["body", "workspace_path"]),
        ({"model_id": ""}, ["body", "model_id"]),
        ({"include_tools": "yes"}, ["body", "include_tools"]),
        ({"agent_definition": {"mode": "windie_default"}}, ["body", "agent_definition", "mode"]),
        ({"nobody_knows": 1}, ["body", "nobody_knows"]),
    ],
)
@pytest.mark.parametrize("path", POSTS)
async def test_a_request_that_is_none(open_server: WindieServer, path: str, body: Any, loc: Any) -> None:
    status, detail = (await open_server.post(path, body)).refused
    assert (status, [each["loc"] for each in detail]) == (422, [loc])


async def test_a_conversation_is_named_by_plans_only(open_server: WindieServer) -> None:
    assert (await open_server.post(PREVIEW, {"conversation_ref": "c"})).status == 422
    assert (await open_server.post(PLAN, {"conversation_ref": " "})).status == 422


@pytest.mark.parametrize("calls", [7, [7], [{"id": "c"}], [{"id": "c", "function": {"name": "f", "arguments": "{"}}]])
async def test_calls_of_any_shape_hurt_nobody(open_server: WindieServer, calls: Any) -> None:
    messages = [user("one"), {"role": "assistant", "content": None, "tool_calls": calls}, user("two")]
    shown = await told(open_server, PREVIEW, {"messages": messages})
    assert shown["prompt_messages"][-1]["content"].endswith("two")


async def test_a_program_that_runs_turns_by_itself_is_not_shown(
    open_server: WindieServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def runs_turns(self: object, wanted: object) -> None:
        raise Unsupported("a program runs turns by itself")

    monkeypatch.setattr(NativePreviews, "preview", runs_turns)
    for path in (SCHEMAS, PROMPT, f"{CAPABILITY}/bash"):
        assert (await open_server.get(path)).refused == (503, "a program runs turns by itself")
    assert (await open_server.post(PLAN, {})).refused == (503, "a program runs turns by itself")
    assert (await open_server.get(MODELS)).status == 200


@pytest.mark.parametrize("depth", [100, 400, 800, 2000, 100_000])
@pytest.mark.parametrize("place", ["metadata", "manifest", "content", "arguments"])
async def test_what_is_nested_too_deeply_fails_nothing(open_server: WindieServer, place: str, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    body = {
        "metadata": '{"agent_definition":{"metadata":%s}}',
        "manifest": '{"agent_definition":{"tools":{"client_manifest":%s}}}',
        "content": '{"messages":[{"role":"user","content":[{"text":%s}]}]}',
        "arguments": '{"messages":[{"role":"assistant","tool_calls":[{"id":"c","name":"n","arguments":%s}]}]}',
    }[place] % nested
    for path in POSTS:
        reply = await open_server.post(path, body.encode())
        assert reply.status in (200, 422), reply


async def test_a_hostile_conversation_is_read_in_no_time(open_server: WindieServer) -> None:
    opened = "<user_query>" * 50_000
    answer = await told(open_server, PLAN, {"messages": [user(opened)]})
    assert answer["query_message"]["payload"]["text"] == opened
    status, detail = (await open_server.post(PLAN, {"messages": [user("x")] * 1001})).refused
    assert (status, detail[0]["loc"]) == (422, ["body", "messages"])
    answer = await told(open_server, PREVIEW, {"messages": [user("x")] * 1000})
    assert len(answer["prompt_messages"]) == 1


async def test_nothing_is_made_of_any_of_it(open_server: WindieServer) -> None:
    for path in GETS:
        await told(open_server, path)
    for path in POSTS:
        await told(
            open_server, path, {"messages": [user("hi")], "agent_definition": {"tools": {"mode": "client_only"}}}
        )
    assert open_server.host.registry.rows(LOCAL) == []
