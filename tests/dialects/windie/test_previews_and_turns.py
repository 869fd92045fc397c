"""What is shown beforehand is what a turn is: a query that was planned is asked, and its model's request compared."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.providers.conversation import AssistantMessage, Message, ModelRequest, Text, UserMessage
from dragoman.agents.native.providers.port import StreamEvent
from dragoman.agents.native.providers.scripted import Scripted
from dragoman.dialects.windie.callers import Caller
from dragoman.hub.events import HistoryMessage
from dragoman.hub.permissions import LOCAL

from .http_rig import WindieServer, serving_windie

CONTENT = (
    "<system_context><active_window>Terminal</active_window></system_context>\n"
    "<user_query>\nopen &lt;file&gt;\n</user_query>"
)
NOTE = {
    "name": "save_note",
    "description": "Save a note.",
    "schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
BASH = {"name": "bash", "description": "The client's own shell.", "schema": {"type": "object"}}
CLICK = {**NOTE, "name": "click", "argument_resolution": "backend_grounding"}
BROWSER = {**NOTE, "name": "browser"}
MANIFEST = {"tools": [NOTE, BASH, CLICK, BROWSER, {"name": "no description"}]}


def layer(name: str, priority: int = 100) -> dict[str, Any]:
    return {"id": name, "type": "text", "content": f"This is {name}.", "priority": priority}


DEFINITIONS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "empty": {},
    "default": {"tools": {"mode": "default", "client_manifest": MANIFEST}},
    "default_plus_client": {"tools": {"client_manifest": MANIFEST}},
    "client_only": {"tools": {"mode": "client_only", "client_manifest": MANIFEST}},
    "client_only_with_remote": {
        "tools": {"mode": "client_only", "client_manifest": MANIFEST, "enabled_remote_tools": ["web_search"]}
    },
    "explicit": {"tools": {"mode": "explicit", "available_tools": ["read", "write"], "client_manifest": MANIFEST}},
    "explicit_nothing": {"tools": {"mode": "explicit"}},
    "disabled_tools": {"tools": {"client_manifest": MANIFEST, "disabled_tools": ["save_note", "read"]}},
    "disabled_capabilities": {
        "tools": {"client_manifest": MANIFEST, "disabled_capabilities": ["web_search", "browser", "ocr", "vision"]}
    },
    "own_prompt": {"system_prompt": {"mode": "replace", "content": "You are somebody else."}},
    "blank_prompt": {"system_prompt": {"mode": "replace", "content": " \n"}},
    "layers": {
        "prompt_layers": [layer("late", 900), layer("middle")],
        "skills": [layer("skill")],
        "agents_md": [layer("early", 1)],
        "plugins": [{"id": "p", "prompt_layers": [layer("plugged", 50)]}],
    },
    "runtime": {"runtime": {"operating_system": "macOS", "workspace_path": "/Users/somebody/project"}},
}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[ModelRequest]:
    """What the scripted model was asked."""
    requests: list[ModelRequest] = []
    stream = Scripted.stream

    def recording(self: Scripted, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        requests.append(request)
        return stream(self, request, raw=raw)

    monkeypatch.setattr(Scripted, "stream", recording)
    return requests


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[WindieServer]:
    (tmp_path / "work").mkdir()
    windie = {"host_tools": ["bash", "read"], "workspaces": [str(tmp_path / "work")]}
    async with serving_windie(tmp_path, windie=windie) as serving:
        yield serving


async def planned(server: WindieServer, **request: Any) -> dict[str, Any]:
    body = {"user_id": "tester", "conversation_ref": "conv", **request}
    reply = await server.post("/api/sdk/query-plan", {name: each for name, each in body.items() if each is not None})
    assert reply.status == 200, reply
    plan: dict[str, Any] = reply.json
    return plan


async def asked(server: WindieServer, plan: dict[str, Any], **more: Any) -> list[Any]:
    """Send the query that was planned; its events that show what the model is given, flat as over HTTP."""
    events = []
    async with server.socket() as socket:
        await socket.say({"id": "q1", **plan["query_message"], "payload": {**plan["query_message"]["payload"], **more}})
        while (event := await socket.heard())["type"] != "streaming-complete":
            assert event["type"] != "error", event
            events.append(event)
    shown = [each for each in events if each["type"] in ("system-prompt", "user-message-full", "tool-schemas")]
    return [{"type": each["type"], "payload": flat(each["payload"])} for each in shown]


def flat(payload: dict[str, Any]) -> dict[str, Any]:
    if "tool_schemas" not in payload:
        return payload
    return {"tool_schemas": [{"type": each["type"], **each["function"]} for each in payload["tool_schemas"]]}


def compare(plan: dict[str, Any], sent: list[ModelRequest], events: list[Any]) -> None:
    (request,) = sent
    assert plan["system_prompt"] == request.system
    functions = [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema}
        for tool in request.tools
    ]
    hosted = [{"type": "web_search", "name": "web_search"}] if request.web_search else []
    assert plan["provider_tool_schemas"] == functions + hosted
    messages = [(message.text, "user") for message in request.messages if isinstance(message, UserMessage)]
    assert [(each["content"], each["role"]) for each in plan["prompt_messages"]] == messages
    assert plan["transparency_events"] == events
    assert [each["type"] for each in events] == ["system-prompt", "user-message-full", "tool-schemas"]
    assert plan["user_message_full"] == events[1]["payload"]
    assert plan["config"]["model_provider"] == "scripted"
    assert plan["config"]["selected_model_id"].partition("@@")[0] == request.model


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
async def test_a_plan_is_what_its_turn_is(
    server: WindieServer, sent: list[ModelRequest], definition: dict[str, Any] | None
) -> None:
    plan = await planned(
        server, agent_definition=definition, messages=[{"role": "user", "content": CONTENT}], workspace_path="/x/y"
    )
    assert plan["query_message"]["payload"]["text"] == "open <file>"
    assert sent == []
    assert server.host.registry.rows(LOCAL) == []
    compare(plan, sent, await asked(server, plan, content=CONTENT))


async def test_a_plan_of_a_query_that_nobody_wrote_out(server: WindieServer, sent: list[ModelRequest]) -> None:
    plan = await planned(server, user_query_raw="is 1 < 2?")
    compare(plan, sent, await asked(server, plan))
    assert "1 &lt; 2?" in plan["prompt_messages"][-1]["content"]


async def test_a_plan_for_a_provider_that_searches_by_itself(
    server: WindieServer, sent: list[ModelRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripted, "searches", True)
    plan = await planned(server, user_query_raw="hi")
    compare(plan, sent, await asked(server, plan))
    assert plan["provider_tool_schemas"][-1] == {"type": "web_search", "name": "web_search"}
    capability = (await server.get("/api/sdk/tool-capabilities/web_search")).json
    assert capability["provider_tool_schema"] == {"type": "web_search", "name": "web_search"}
    assert capability["capability"]["execution_owner"] == "provider"
    assert capability["capability"]["available"] is True


async def test_a_plan_after_a_history_is_what_a_turn_after_it_is(
    server: WindieServer, sent: list[ModelRequest]
) -> None:
    history = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    plan = await planned(server, messages=[*history, {"role": "user", "content": CONTENT}])
    caller = Caller("tester")
    session = await server.host.conversations.open(caller, "conv", {}, None)
    messages = [HistoryMessage(each["role"], each["content"]) for each in history]
    await session.merge_history(caller.for_session(session.id), messages, replace=True, via="windie")
    await asked(server, plan, content=CONTENT)
    (request,) = sent
    assert plan["system_prompt"] == request.system
    given = [said(message) for message in request.messages]
    assert [each["content"] for each in plan["prompt_messages"]] == given == ["one", "two", CONTENT]


def said(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return "".join(part.text for part in message.parts if isinstance(part, Text))
    return message.text


async def test_a_plan_in_a_workspace_of_the_server(server: WindieServer, sent: list[ModelRequest]) -> None:
    (server.folder / "work" / "CLAUDE.md").write_text("Speak like a pirate.")
    plan = await planned(server, user_query_raw="hi", workspace_path=str(server.folder / "work"))
    compare(plan, sent, await asked(server, plan))
    assert str(server.folder / "work") in plan["system_prompt"]


@pytest.mark.parametrize(
    "settings",
    [{"interaction_mode": "chat"}, {"browser_automation_enabled": False}, {"selected_model_id": "other@@high"}],
    ids=["chat", "no_browser", "a_variant_of_a_model"],
)
async def test_a_plan_goes_by_the_users_settings(
    server: WindieServer, sent: list[ModelRequest], settings: dict[str, Any]
) -> None:
    await server.host.users.change("tester", settings)
    plan = await planned(server, user_query_raw="hi", agent_definition=DEFINITIONS["default_plus_client"])
    compare(plan, sent, await asked(server, plan))
    for name, value in settings.items():
        assert plan["config"].get(name, value) == value


async def test_what_a_request_puts_in_place_of_settings_is_what_setting_it_does(
    server: WindieServer, sent: list[ModelRequest]
) -> None:
    plan = await planned(
        server, user_query_raw="hi", interaction_mode="chat", agent_definition=DEFINITIONS["default_plus_client"]
    )
    await server.host.users.change("tester", {"interaction_mode": "chat"})
    compare(plan, sent, await asked(server, plan))
    assert [tool["name"] for tool in plan["provider_tool_schemas"]] == ["webSearch"]
