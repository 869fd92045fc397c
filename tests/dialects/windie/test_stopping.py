"""Stopping queries: what ends, what goes on, and that nothing is heard of it but the ack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.events import PromptSubmitted, PromptWithdrawn, TurnEnded
from dragoman.hub.permissions import LOCAL
from tests.agents.native.native_rig import of, script
from tests.hub.rig import turns_of_the_loop, until

from .link_rig import Client, Frame, Place, definition, place, tool

WAIT = script("say I begin.\nwait")
CALL = script('call save_note {"text": "a"}', "say done")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as opened:
        yield opened


async def stop(client: Client, **scope: Any) -> Frame:
    """Stop; the ack's payload."""
    name = client.send("stop-query", scope)
    frame = await client.reply(name, "stop-query-ack", "error")
    assert frame["type"] == "stop-query-ack", frame
    return frame["payload"]  # type: ignore[no-any-return]


async def running(client: Client, ref: str = "conv") -> str:
    name = client.ask(WAIT, ref)
    await client.reply(name, "streaming-response")
    return name


def ack(canceled: bool, ref: str | None, turn: str | None) -> Frame:
    status = "stopped" if canceled else "not-running"
    return {"status": status, "canceled": canceled, "conversation_ref": ref, "turn_ref": turn}


async def outcomes(here: Place, ref: str = "conv") -> list[str]:
    return [end.outcome for end in of(await here.hub.facts(await here.session(ref)), TurnEnded)]


async def test_after_the_ack_nothing_of_the_turn_is_heard(here: Place) -> None:
    """Defects f6685fa1, 95f60977 and 8b634340 of the original."""
    client = await here.client()
    name = await running(client)
    assert await stop(client, conversation_ref="conv", turn_ref=None) == ack(True, "conv", name)
    told = client.told(name)
    assert await outcomes(here) == ["cancelled"]
    assert await client.ended(client.ask(script("say Next."))) == "Next."
    assert client.told(name) == told
    assert client.heard[-1].get("sequence") is not None


async def test_the_ack_has_no_number(here: Place) -> None:
    client = await here.client()
    await running(client)
    await stop(client)
    frame = next(frame for frame in client.heard if frame["type"] == "stop-query-ack")
    assert not {"sequence", "event_id"} & frame.keys()


async def test_a_stop_while_a_tool_runs(here: Place) -> None:
    client = await here.client(agent_definition=definition(tool()))
    name = client.ask(CALL)
    call = await client.called()
    assert await stop(client, conversation_ref="conv") == ack(True, "conv", name)
    late = {"request_id": call["request_id"], "success": True, "data": {"output": "saved"}}
    client.send("tool-result", late)
    assert await client.ended(client.ask(script("say Next."))) == "Next."
    assert client.told(name)[-1] == "tool-call"


@pytest.mark.parametrize("by", ["conversation", "turn", "both"])
async def test_another_conversation_goes_on(here: Place, by: str) -> None:
    client = await here.client()
    one, two = await running(client, "one"), await running(client, "two")
    scope = {"conversation": {"conversation_ref": "one"}, "turn": {"turn_ref": one}}
    scope["both"] = scope["conversation"] | scope["turn"]
    assert await stop(client, **scope[by]) == ack(True, "one", one)
    assert await outcomes(here, "two") == []
    assert await stop(client, turn_ref=two) == ack(True, "two", two)


async def test_without_a_scope_all_of_the_users_end(here: Place) -> None:
    client, theirs = await here.client(), await here.client("somebody")
    await running(client, "one")
    await running(client, "two")
    other = await running(theirs, "three")
    assert await stop(client) == ack(True, None, None)
    assert await outcomes(here, "one") == await outcomes(here, "two") == ["cancelled"]
    assert await outcomes(here, "three") == []
    assert "error" not in theirs.told(other)


@pytest.mark.parametrize(
    "scope", [{}, {"conversation_ref": "conv"}, {"turn_ref": "none"}, {"conversation_ref": "none", "turn_ref": "x"}]
)
async def test_where_nothing_runs_that_is_said(here: Place, scope: Frame) -> None:
    client = await here.client()
    await client.ended(client.ask("hello"))
    assert await stop(client, **scope) == ack(False, scope.get("conversation_ref"), scope.get("turn_ref"))


async def test_a_turn_of_another_name_goes_on(here: Place) -> None:
    client = await here.client()
    name = await running(client)
    assert await stop(client, conversation_ref="conv", turn_ref="other") == ack(False, "conv", "other")
    assert await outcomes(here) == []
    await stop(client, turn_ref=name)


async def test_a_query_that_waits_is_stopped_by_its_name(here: Place) -> None:
    """It gets the ack and nothing else, and the turn before it goes on."""
    client = await here.client()
    first = await running(client)
    second = client.ask("never")
    assert await stop(client, turn_ref=second) == ack(True, "conv", second)
    assert client.told(second) == []
    assert await outcomes(here) == []
    await stop(client, turn_ref=first)
    prompts = of(await here.hub.facts(await here.session()), PromptSubmitted)
    assert [prompt.text for prompt in prompts] == [WAIT]


async def test_with_a_conversation_its_waiting_queries_end_too(here: Place) -> None:
    client = await here.client()
    await running(client)
    waiting = [client.ask(f"never {number}") for number in range(3)]
    assert (await stop(client, conversation_ref="conv"))["canceled"]
    assert await client.ended(client.ask(script("say Next."))) == "Next."
    assert [client.told(name) for name in waiting] == [[], [], []]
    assert await outcomes(here) == ["cancelled", "completed"]


async def test_other_links_of_the_user_hear_that_it_was_stopped(here: Place) -> None:
    client, other = await here.client(), await here.client()
    name = await running(client)
    mine = other.ask("never")
    await stop(client, conversation_ref="conv")
    for stopped in (name, mine):
        error = await other.reply(stopped, "error")
        assert error["payload"]["message"] == "The query was stopped from elsewhere."
    assert "error" not in client.told(name)


async def test_a_prompt_in_the_sessions_own_queue_is_withdrawn(here: Place) -> None:
    """A session of another dialect takes prompts behind its turn."""
    session = await here.hub.session()
    await session.submit(LOCAL, WAIT, via="test")
    client = await here.client()
    name = client.ask("never", session.id)
    await until(lambda: session.shown.queue, "it waits")
    assert await stop(client) == ack(True, session.id, name)
    assert of(await here.hub.facts(session), PromptWithdrawn)
    await turns_of_the_loop()
    assert "error" not in client.told(name)
    assert session.state.turn is not None, "what somebody else began goes on"
    assert (await stop(client, conversation_ref=session.id))["canceled"], "unless its conversation is named"


async def test_an_installs_user_stops_nothing_of_others(here: Place) -> None:
    client, theirs = await here.client(), await here.client("somebody")
    name = await running(client)
    session = await here.session()
    await theirs.ended(theirs.ask("hello", "their own"))
    assert not (await stop(theirs, turn_ref=name))["canceled"]
    assert not (await stop(theirs, conversation_ref="conv"))["canceled"]
    assert session.state.turn is not None


@pytest.mark.parametrize("steps", range(0, 60, 2))
async def test_a_stop_at_any_moment_leaves_nothing_running(here: Place, steps: int) -> None:
    client = await here.client(agent_definition=definition(tool()))
    name = client.ask(WAIT)
    await turns_of_the_loop(steps)
    assert await stop(client, conversation_ref="conv") == ack(True, "conv", name)
    told = client.told(name)
    assert await client.ended(client.ask(script("say Next."))) == "Next."
    assert client.told(name) == told
    assert not {"streaming-complete", "error"} & set(told)
    assert await outcomes(here) in (["completed"], ["cancelled", "completed"])


async def test_a_query_is_stopped_while_the_disk_takes_its_prompt(here: Place) -> None:
    client = await here.client()
    await client.ended(client.ask("hello"))
    session = await here.session()
    with here.slow_disk():
        name = client.ask(WAIT)
        await until(lambda: session.state.turn, "its turn is recorded")
        stopping = client.send("stop-query", {"conversation_ref": "conv"})
        await turns_of_the_loop()
        assert client.told(stopping) == [], "it has not ended yet, as far as anybody may be told"
    frame = await client.reply(stopping, "stop-query-ack")
    assert frame["payload"] == ack(True, "conv", name)
    assert client.told(name) == []
    assert await outcomes(here) == ["completed", "cancelled"]


async def test_a_stopped_query_may_be_sent_anew(here: Place) -> None:
    """The same id again is the same query, which has been stopped; another id is a new one."""
    client = await here.client()
    name = await running(client)
    await stop(client)
    client.ask(WAIT, name=name)
    assert await client.ended(client.ask(script("say Next."))) == "Next."
    assert await outcomes(here) == ["cancelled", "completed"]


async def test_what_is_no_query_is_not_stopped_while_it_waits(here: Place) -> None:
    client = await here.client()
    await running(client)
    ended = []

    async def other() -> None:
        user = here.dialect.user(client.link.caller)  # type: ignore[arg-type]
        async with user.lanes.turn(client.link, "conv", "history", query=False):
            ended.append("history")

    waiting = asyncio.create_task(other())
    await asyncio.sleep(0)
    assert (await stop(client))["canceled"]
    await waiting
    assert ended == ["history"]
