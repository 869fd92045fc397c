"""A client's own history put in the place of what is known here: all of it or nothing, in its place among queries."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.providers.conversation import AssistantMessage, Text, UserMessage
from dragoman.dialects.windie.rehydrating import PICTURES
from dragoman.hub.artifacts import is_artifact
from dragoman.hub.events import ArtifactStored, HistoryCall, HistoryMerged, HistoryMessage
from dragoman.hub.permissions import LOCAL
from tests.agents.native.native_rig import script

from .link_rig import PNG, Client, Place, place

EARLIER: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": "Earlier prompt",
        "message_type": "user_query",
        "timestamp": "2026-02-02T20:00:00Z",
    },
    {
        "role": "assistant",
        "content": "Earlier reply",
        "message_type": "assistant_response",
        "timestamp": "2026-02-02T20:00:01Z",
    },
]
AT = 1_770_062_400_000


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as made:
        yield made


def rehydrated(messages: list[dict[str, Any]], ref: str = "conv", **more: Any) -> dict[str, Any]:
    return {"conversation_ref": ref, "messages": messages, "rehydrate_mode": "replace", **more}


async def rehydrate(client: Client, messages: list[dict[str, Any]], **more: Any) -> None:
    """Rehydrate, and have a turn behind it, which begins once that is done."""
    client.send("rehydrate-conversation", rehydrated(messages, **more))
    await client.ended(client.ask(script("say hello")))


async def merged(here: Place) -> HistoryMerged:
    """The history that was taken in last."""
    found = [fact for fact in await here.hub.facts(await here.session()) if isinstance(fact, HistoryMerged)]
    return found[-1]


async def refused(client: Client, payload: dict[str, Any]) -> str:
    """What a refusal says; it has the message's own id."""
    frame = await client.reply(client.send("rehydrate-conversation", payload), "error")
    said: str = frame["payload"]["message"]
    return said


async def test_a_query_right_behind_it_finds_what_it_brings_and_nothing_is_said_of_it(here: Place) -> None:
    client = await here.client()
    name = client.send("rehydrate-conversation", rehydrated(EARLIER))
    await client.ended(client.ask(script("say hello")))
    assert here.model.last[:2] == (UserMessage("Earlier prompt"), AssistantMessage((Text("Earlier reply"),)))
    assert client.told(name) == []
    (row,) = here.hub.registry.rows(LOCAL)
    assert row.title == "conv", "it was made for it"


async def test_what_was_known_is_replaced(here: Place) -> None:
    client = await here.client()
    await client.ended(client.ask(script("say first")))
    await rehydrate(client, EARLIER)
    texts = [message.text for message in here.model.last if isinstance(message, UserMessage)]
    assert texts[0] == "Earlier prompt"
    assert all("first" not in text for text in texts)


async def test_the_log_has_every_entry_with_its_kind_tool_call_and_time(here: Place) -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
        {"id": "c2", "name": "move", "args": {"x": 2}},
        {"id": "c3", "function": {"name": "raw", "arguments": "{broken"}},
        {"function": {"name": "nameless"}},
        "no call",
    ]
    messages = [
        *EARLIER,
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "seen", "tool_name": "look", "correlation_id": "c1", "message_type": "tool_output"},
        {"role": "tool", "content": "moved", "tool_call_id": "c2", "correlation_id": "other"},
        {"role": "tool", "content": "?", "tool_call_id": "other", "correlation_id": "c3", "timestamp": "yesterday"},
        {"role": "user", "content": "summed up", "message_type": "context_compaction", "timestamp": "2026-02-02T20:00"},
    ]
    client = await here.client()
    await rehydrate(
        client, messages, workspace_path="/elsewhere", repo_instruction_messages=[_instruction("Be brief.")]
    )
    fact = await merged(here)
    assert fact.messages == (
        HistoryMessage("user", "Earlier prompt", kind="user_query", at=AT),
        HistoryMessage("assistant", "Earlier reply", kind="assistant_response", at=AT + 1000),
        HistoryMessage(
            "assistant",
            "",
            calls=(
                HistoryCall("c1", "look", {"at": 1}),
                HistoryCall("c2", "move", {"x": 2}),
                HistoryCall("c3", "raw", "{broken"),
            ),
        ),
        HistoryMessage("tool", "seen", kind="tool_output", tool="look", call="c1"),
        HistoryMessage("tool", "moved", call="c2"),
        HistoryMessage("tool", "?", call="c3"),
        HistoryMessage("user", "summed up", kind="context_compaction", at=AT),
    )
    assert (fact.replace, fact.via, fact.by) == (True, "windie", "windie:user")
    assert fact.detail == {"workspace_path": "/elsewhere", "repo_instruction_messages": ["Be brief."]}


def _instruction(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


# Pictures


async def test_screenshots_are_kept_with_the_conversation_uploaded_or_inline(here: Place) -> None:
    ref, other = await here.upload(), PNG + b"other"
    inline = "data:image/png;base64," + base64.b64encode(other).decode()
    messages = [
        {"role": "user", "content": "one", "screenshot_ref": ref},
        {"role": "user", "content": "two", "screenshot": inline},
        {"role": "user", "content": "three", "screenshot_ref": ref},
    ]
    client = await here.client()
    await rehydrate(client, messages)
    (one,), (two,), (three,) = (message.artifacts for message in (await merged(here)).messages)
    assert one == three != two
    session = await here.session()
    assert session.artifacts is not None
    assert is_artifact(one)
    assert [await session.artifacts.read(session.id, each) for each in (one, two)] == [PNG, other]
    stored = [fact for fact in await here.hub.facts(session) if isinstance(fact, ArtifactStored)]
    assert sorted(fact.artifact for fact in stored) == sorted((one, two))
    assert {fact.media_type for fact in stored} == {"image/png"}
    await rehydrate(client, messages)
    again = [fact for fact in await here.hub.facts(session) if isinstance(fact, ArtifactStored)]
    assert again == stored, "an artifact is recorded once"


async def test_a_screenshot_that_is_not_there_leaves_the_text_and_a_warning(
    here: Place, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [{"role": "user", "content": "one", "screenshot_ref": name} for name in ("shot.png", "../../etc")]
    messages.append({"role": "user", "content": "two", "screenshot_ref": await here.upload(owner="somebody-else")})
    client = await here.client()
    with caplog.at_level(logging.WARNING):
        await rehydrate(client, messages)
    assert [(message.content, message.artifacts) for message in (await merged(here)).messages] == [
        ("one", ()),
        ("one", ()),
        ("two", ()),
    ]
    assert caplog.text.count("goes without screenshot") == 3


async def test_only_the_newest_screenshots_are_kept(here: Place) -> None:
    ref = await here.upload()
    messages = [{"role": "user", "content": str(at), "screenshot_ref": ref} for at in range(PICTURES + 2)]
    client = await here.client()
    await rehydrate(client, messages)
    having = [message.content for message in (await merged(here)).messages if message.artifacts]
    assert having == [str(at) for at in range(2, PICTURES + 2)]


# All or nothing


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"role": "system", "content": "obey"}, "messages.2.role"),
        ({"role": "user"}, "messages.2.content: field required"),
        ({"role": "user", "content": "x", "model_history_row": 1}, "messages.2.model_history_row: unknown field"),
        ({"role": "user", "content": "x", "message_type": "thought"}, "messages.2.message_type"),
        ({"role": "user", "content": "x", "screenshot": "no picture"}, "Invalid screenshot"),
    ],
)
async def test_one_bad_entry_rejects_all_and_changes_nothing(
    here: Place, tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    client = await here.client()
    await rehydrate(client, EARLIER)
    before = await merged(here)
    ref = await here.upload()
    shown = {"role": "user", "content": "shown", "screenshot_ref": ref}
    assert says in await refused(client, rehydrated([shown, shown, wrong]))
    assert await merged(here) == before
    session = await here.session()
    assert not [fact for fact in await here.hub.facts(session) if isinstance(fact, ArtifactStored)]
    assert not [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()], "nothing is left behind"


async def test_pictures_that_were_kept_before_a_bad_one_was_found_are_let_go(here: Place, tmp_path: Path) -> None:
    client = await here.client()
    shown = {"role": "user", "content": "shown", "screenshot_ref": await here.upload()}
    wrong = {"role": "user", "content": "wrong", "screenshot": "no picture"}
    assert "Invalid screenshot" in await refused(client, rehydrated([wrong, shown, shown]))
    assert not [path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()]


async def test_fields_of_a_query_are_told_by_name_and_change_nothing(here: Place) -> None:
    client = await here.client()
    said = await refused(client, rehydrated(EARLIER, agent_definition={"version": 1}))
    assert said == "Invalid message format: rehydrate-conversation.payload.agent_definition: unknown field"
    assert here.hub.registry.rows(LOCAL) == []


async def test_a_history_that_is_too_long_is_refused_in_words(here: Place) -> None:
    client = await here.client()
    await rehydrate(client, EARLIER)
    before = await merged(here)
    most = here.hub.registry.limits.history_messages
    assert "history_messages" in await refused(client, rehydrated([{"role": "user", "content": "x"}] * (most + 1)))
    assert await merged(here) == before


# Its place


async def test_while_a_turn_of_somebody_else_runs_it_is_refused(here: Place) -> None:
    client = await here.client()
    await rehydrate(client, EARLIER)
    session = await here.session()
    await session.submit(LOCAL, script("wait"), via="test")
    assert await refused(client, rehydrated([])) == "a turn is running"
    await session.cancel(LOCAL, via="test")


async def test_behind_a_query_of_the_same_conversation_it_waits_and_others_go_on(here: Place) -> None:
    client = await here.client()
    running = client.ask(script("pause 50\nsay slow"))
    client.send("rehydrate-conversation", rehydrated(EARLIER))
    other = client.ask(script("say other"), ref="other")
    after = client.ask(script("say after"))
    assert await client.ended(other) == "other"
    assert await client.ended(running) == "slow"
    assert await client.ended(after) == "after"
    assert here.model.last[0] == UserMessage("Earlier prompt")


async def test_two_users_of_one_name_of_a_conversation_have_two(here: Place) -> None:
    one, other = await here.client("one"), await here.client("other")
    await rehydrate(one, EARLIER)
    await other.ended(other.ask(script("say hello")))
    assert here.model.last[0] != UserMessage("Earlier prompt")


async def test_a_session_of_another_kind_remembers_by_itself(here: Place) -> None:
    session = await here.hub.create("scripted")
    client = await here.client()
    assert "remembers it by itself" in await refused(client, rehydrated(EARLIER, ref=session.id))
    assert not [fact for fact in await here.hub.facts(session) if isinstance(fact, HistoryMerged)]
