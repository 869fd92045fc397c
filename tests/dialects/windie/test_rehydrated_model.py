"""What the model is really given of a rehydrated conversation: tools with their results, and pictures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.providers.conversation import AssistantMessage, Call, Text, ToolMessage, UserMessage
from tests.agents.native.native_rig import script

from .link_rig import PNG, Client, Place, place


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as made:
        yield made


async def rehydrate(client: Client, messages: list[dict[str, Any]]) -> None:
    client.send(
        "rehydrate-conversation", {"conversation_ref": "conv", "messages": messages, "rehydrate_mode": "replace"}
    )
    await client.ended(client.ask(script("say hello")))


async def test_a_web_search_of_the_past_is_there_with_its_result_and_orphans_are_not(here: Place) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "web_search", "arguments": '{"query": "tea"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Look for tea."},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "content": "Tea is hot.", "tool_name": "web_search", "correlation_id": "c1"},
        {"role": "tool", "content": "nobody asked", "tool_name": "web_search", "correlation_id": "c9"},
        {"role": "assistant", "content": "It is hot.", "message_type": "assistant_response"},
    ]
    await rehydrate(await here.client(), messages)
    assert here.model.last[:-1] == (
        UserMessage("Look for tea."),
        AssistantMessage((Text("I look."), Call("c1", "web_search", {"query": "tea"}))),
        ToolMessage("c1", "web_search", "Tea is hot."),
        AssistantMessage((Text("It is hot."),)),
    )


async def test_screenshots_of_the_past_are_shown_also_those_of_tools(here: Place) -> None:
    one, two = await here.upload(), await here.upload(PNG + b"of the tool")
    call = {"id": "c1", "name": "screenshot", "arguments": {}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "What is this?", "screenshot_ref": one},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "taken", "tool_call_id": "c1", "screenshot_ref": two},
    ]
    await rehydrate(await here.client(), messages)
    user, _, tool = here.model.last[:3]
    assert isinstance(user, UserMessage)
    assert isinstance(tool, ToolMessage)
    assert [image.data for image in (*user.images, *tool.images)] == [PNG, PNG + b"of the tool"]


async def test_results_of_a_history_in_the_contracts_own_fields_have_a_call_each(here: Place) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Look for tea, twice."},
        {"role": "assistant", "content": "I look."},
        {"role": "tool", "content": "Tea is hot.", "tool_name": "search", "correlation_id": "c1"},
        {"role": "tool", "content": "Tea is wet.", "tool_name": "search"},
        {"role": "tool", "content": "of no tool"},
        {"role": "assistant", "content": "It is hot."},
    ]
    await rehydrate(await here.client(), messages)
    assert here.model.last[:-1] == (
        UserMessage("Look for tea, twice."),
        AssistantMessage((Text("I look."),)),
        AssistantMessage((Call("c1", "search", {}),)),
        ToolMessage("c1", "search", "Tea is hot."),
        AssistantMessage((Call("rehydrated_3", "search", {}),)),
        ToolMessage("rehydrated_3", "search", "Tea is wet."),
        AssistantMessage((Text("It is hot."),)),
    )
