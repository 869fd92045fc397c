"""What a link is told, in which order, and what it may say (seed: Server → Client, Client → Server Messages)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.events import (
    AgentStarted,
    HookAnswered,
    MessageAdded,
    Origin,
    StateChanged,
    SubagentEnded,
    ToolCalled,
    ToolEnded,
)
from dragoman.hub.permissions import LOCAL, READ_ONLY, Principal
from dragoman.hub.session import Session
from tests.dialects.cin.stream_checker import disagreements, problems
from tests.hub.rig import turns_of_the_loop, until

from .rig import Bridge, Client, bridge


def types(client: Client) -> list[str]:
    client.take()
    return [frame["type"] for frame in client.frames]


async def said(session: Session, *facts: Any) -> None:
    for fact in facts:
        event = session.record(fact)
    await session.durable(event.seq)


async def at_work(served: Bridge) -> Session:
    """A new session whose agent works at its own terminal, say: no turn of ours is open."""
    session = await served.hub.create()
    await said(session, AgentStarted(), StateChanged(prev="starting", next="working", cause="test"))
    return session


def call(number: int, **more: Any) -> ToolCalled:
    return ToolCalled(call=f"call-{number}", tool="Bash", input={"command": f"echo {number}"}, **more)


def ended(number: int, **more: Any) -> ToolEnded:
    return ToolEnded(call=f"call-{number}", tool="Bash", status="ok", output="done", duration_ms=5, **more)


async def test_init_comes_first_and_holds_every_session_that_is_not_closed(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        first, second = await served.hub.create(title="one"), await served.hub.create(title="two")
        await first.close("done")
        client = await served.open()
        assert [frame["type"] for frame in client.take()] == ["init"]
        (session,) = client.frames[0]["data"]["sessions"]
        assert (session["id"], session["name"], session["status"], session["type"]) == (
            second.id,
            "two",
            "idle",
            "internal",
        )


async def test_created_status_and_event_come_in_this_order_on_every_link(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        one, other = await served.open(), await served.open()
        session = await served.hub.create()
        await session.submit(LOCAL, "say hello\ntool Bash {}", via="test")
        await one.hear("session:status", 2)
        await other.hear("session:status", 2)
        await until(lambda: "stop" in [event["type"] for event in one.events()])
        other.take()
        assert [kind for kind in types(one) if kind != "cin:git_status"][:10] == [
            "init",
            "session:created",
            "session:status",
            "event",
            "session:updated",
            "event",
            "session:updated",
            "event",
            "session:status",
            "event",
        ]
        assert [event["type"] for event in one.events()] == [
            "user_prompt_submit",
            "pre_tool_use",
            "post_tool_use",
            "stop",
        ]
        assert problems(one.frames, legacy=False) == problems(other.frames, legacy=False) == []
        assert disagreements(one.frames, other.frames) == []


async def test_a_sub_agents_calls_are_events_but_not_the_sessions_tool(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        session = await at_work(served)
        client = await served.open()
        aside = Origin(source="hook", subagent="a1")
        await said(session, call(1), call(2, origin=aside), ended(2, origin=aside), SubagentEnded(subagent="a1"))
        await client.hear("event", 4)
        tools = [frame["data"].get("currentTool") for frame in client.frames if frame["type"].startswith("session:")]
        assert {tool for tool in tools if tool is not None} == {"Bash"}
        assert [event.get("agent_id") for event in client.events()] == [None, "a1", "a1", None]


async def test_deleted_shows_the_session_as_it_was(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        session = await served.hub.create(title="mine")
        client = await served.open()
        await served.hub.registry.delete(LOCAL, session.id)
        (gone,) = await client.hear("session:deleted")
        assert (gone["data"]["name"], gone["data"]["status"]) == ("mine", "idle")
        later = await served.open()
        assert later.take()[0]["data"]["sessions"] == []


async def test_a_filter_is_for_events_only_and_the_next_one_replaces_it(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        mine, others = await at_work(served), await at_work(served)
        client = await served.open()
        client.say({"type": "subscribe", "data": {"sessions": [mine.id], "eventTypes": ["post_tool_use"]}})
        await said(mine, call(1), ended(1))
        await said(others, call(2), ended(2))
        await client.hear("session:updated", 4)
        assert [(event["sessionId"], event["type"]) for event in client.events()] == [(mine.id, "post_tool_use")]
        client.say({"type": "subscribe"})
        await said(others, call(3))
        await client.hear("event", 2)


async def test_a_subscription_may_name_the_agents_own_session(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        mine, others = await at_work(served), await at_work(served)
        client = await served.open()
        await said(mine, HookAnswered(hook="start", source="startup", agent_session="agent-1"))
        await client.hear("event")
        client.say({"type": "subscribe", "data": {"sessions": ["agent-1"]}})
        await said(others, call(1))
        await said(mine, call(2))
        await client.hear("session:updated", 3)
        assert [event["sessionId"] for event in client.events()] == [mine.id, mine.id]


async def test_history_is_as_it_was_told_oldest_first_for_one_session_or_for_all(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        mine, others = await served.hub.create(), await served.hub.create()
        client = await served.open()
        await said(mine, call(1), ended(1))
        await said(others, call(2), ended(2))
        await said(mine, call(3))
        await client.hear("event", 5)
        told = client.events()
        for data, expected in (
            ({}, told),
            ({"limit": 2}, told[-2:]),
            ({"limit": 0}, []),
            ({"limit": -1}, []),
            ({"sessionId": mine.id}, [one for one in told if one["sessionId"] == mine.id]),
            ({"sessionId": mine.id, "limit": 1}, told[-1:]),
            ({"sessionId": "nobody"}, []),
        ):
            client.frames.clear()
            client.say({"type": "get_history", "data": data})
            (answer,) = await client.hear("history")
            assert answer["data"] == expected, data


@pytest.mark.parametrize("key", ["data", "payload"])
async def test_what_a_client_says_is_taken_under_either_name(tmp_path: Path, key: str) -> None:
    async with bridge(tmp_path) as served:
        session = await served.hub.create()
        await said(session, call(1), ended(1))
        client = await served.open()
        client.say({"type": "get_history", key: {"limit": 1}})
        (answer,) = await client.hear("history")
        assert [event["type"] for event in answer["data"]] == ["post_tool_use"]


async def test_history_after_a_restart_is_what_was_told_live(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        client = await served.open()
        session = await served.hub.create()
        await said(session, MessageAdded(message="m", role="assistant", text="I will look"), call(1), ended(1))
        await session.submit(LOCAL, "say done", via="test")
        await until(lambda: "stop" in [event["type"] for event in client.events()])
        live = client.events()
        client.link.lost()
        async with bridge(tmp_path, served.hub) as again:
            late = await again.open()
            late.say({"type": "get_history"})
            (answer,) = await late.hear("history")
            assert answer["data"] == live


async def test_what_cannot_be_taken_is_said_so_and_an_extension_is_not(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        client = await served.open()
        for wrong in ("nope", "null", "[]", "5", "{}", '{"type":5}', '{"type":"nope"}', '{"type":"ping","data":7}'):
            client.say(wrong)
        for fine in ('{"type":"other:thing","data":[1]}', '{"type":"cin:whatever"}', b"\x00\x01"):
            client.say(fine)
        client.say({"type": "ping"})
        await client.hear("pong")
        assert types(client) == ["init"] + ["cin:error"] * 8 + ["pong"]


async def test_twins_go_with_what_the_seed_has_and_links_of_dashboards_begin_with_a_burst(tmp_path: Path) -> None:
    async with bridge(tmp_path, tolerate=("legacy",)) as served:
        session = await served.hub.create()
        await said(session, call(1), ended(1))
        client = await served.open()
        assert [frame["type"] for frame in client.take()] == ["init", "connected", "sessions", "text_tiles", "history"]
        assert client.frames[1]["payload"] == {"sessionId": session.id}
        assert [event["type"] for event in client.frames[4]["payload"]] == ["pre_tool_use", "post_tool_use"]
        await said(session, call(2))
        await client.hear("sessions", 2)
        assert problems(client.frames) == []


async def test_a_harness_is_heard_by_all_but_not_from_who_may_only_read(tmp_path: Path) -> None:
    async with bridge(tmp_path, harness_bytes=1000) as served:
        one, other = await served.open(), await served.open(Principal("guest", READ_ONLY))
        one.say({"type": "harness:test_started", "data": {"name": "first"}})
        assert (await other.hear("harness:test_started"))[0]["data"] == {"name": "first"}
        other.say({"type": "harness:test_started", "data": {}})
        one.say(json.dumps({"type": "harness:big", "data": "x" * 1000}))
        one.say({"type": "harness:last"})
        await one.hear("harness:last")
        assert [kind for kind in types(one) if kind.startswith("harness")] == ["harness:test_started", "harness:last"]


async def test_harness_messages_have_a_rate(tmp_path: Path) -> None:
    async with bridge(tmp_path, harness_per_second=10.0) as served:
        client = await served.open()
        for number in range(1000):
            client.say({"type": f"harness:{number}"})
        client.say({"type": "ping"})
        await client.hear("pong")
        await turns_of_the_loop()
        assert 10 <= len([kind for kind in types(client) if kind.startswith("harness")]) < 100


async def test_replies_that_nobody_takes_stop_the_reading(tmp_path: Path) -> None:
    async with bridge(tmp_path, outbox_bytes=4096) as served:
        client = await served.open()
        said_so = 0
        while not client.link.congested:
            client.say("nope")
            said_so += 1
        assert said_so < 100
        client.take()
        assert not client.link.congested


async def test_when_the_last_link_goes_nothing_is_kept_and_the_next_one_finds_everything(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        client = await served.open()
        session = await served.hub.create()
        await said(session, call(1))
        await client.hear("event")
        client.link.lost()
        assert not served.dialect.feed.running
        await said(session, ended(1))
        again = await served.open()
        again.say({"type": "get_history"})
        (answer,) = await again.hear("history")
        assert [event["type"] for event in answer["data"]] == ["pre_tool_use", "post_tool_use"]
        assert answer["data"][1]["toolInput"] == {"command": "echo 1"}


async def test_links_that_come_while_much_happens_miss_nothing_and_hear_nothing_twice(tmp_path: Path) -> None:
    async with bridge(tmp_path) as served:
        session = await served.hub.create()
        first = await served.open()
        clients = [first]
        for number in range(200):
            session.record(call(number))
            session.record(ended(number))
            if number % 20 == 0:
                clients.append(await served.open())
            await asyncio.sleep(0)
        await session.durable(session.head)
        await first.hear("event", 400)
        for client in clients[1:]:
            client.take()
            assert disagreements(first.frames, client.frames) == []
            assert client.events() == first.events()[-len(client.events()) :]
            assert problems(client.frames, legacy=False) == []
