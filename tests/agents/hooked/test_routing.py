"""To which session a post goes: to one of ours by its secret, else by the agent's own name for it; never by folder."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.errors import LimitReached, StorageUnavailable
from dragoman.hub.events import AgentExited, HookAnswered, StateChanged, encode_fact
from dragoman.hub.ports import HookChannel
from tests.agents.hooked.kit import SECRET, Kit, kinds, kit
from tests.agents.hooked.manual_time import timed, until
from tests.agents.hooked.posts import Life, half_normalised, normalised, post

LIFE = Life("claude", "0a9d1a8e-5c3d-4b54-9f57-3a7a4f0b6c11")
OTHER = Life("claude", "7e0f44c1-9a3b-4a37-8d67-0d6f2f1f1f22")


async def logs(k: Kit) -> str:
    """All that is on the disk."""
    texts = []
    for row in k.rows(None):
        texts += [encode_fact(event.fact).decode() for event in await k.log(row.session)]
    return "\n".join(texts)


# Our own sessions


@timed
async def test_what_our_own_agent_posts_is_its_own_business(tmp_path: Path) -> None:
    """Its own hooks tell us already: the user's hooks of the same agent say nothing new."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        before = own.head
        for payload in (LIFE.start(), LIFE.prompt(), LIFE.before("Bash", "t"), LIFE.stop(), LIFE.end()):
            await k.take(payload, "socket", agent="claude", session=own.id, secret=SECRET)
        await k.settle()
        assert not k.rows()
        assert own.head == before


@timed
async def test_the_agents_name_for_its_session_alone_says_that_it_is_ours(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        before = own.head
        for channel in ("http", "file", "socket"):
            await k.take(LIFE.prompt(), channel)
        await k.settle()
        assert not k.rows()
        assert own.head == before


@timed
async def test_another_program_inside_ours_is_an_external_one(tmp_path: Path) -> None:
    """Codex, started by our Claude: it inherits id and secret, and is not it."""
    inner = Life("codex", OTHER.session)
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        await k.take(inner.start(), "socket", agent="codex", session=own.id, secret=SECRET)
        await k.take(inner.prompt(), "socket", agent="codex", session=own.id, secret=SECRET)
        shown = k.card(inner.session, "codex")
        assert (shown["type"], shown["agent"], shown["status"]) == ("external", "codex", "working")


@timed
async def test_a_second_one_of_the_same_kind_inside_ours_is_an_external_one(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        await k.take(OTHER.prompt(), "socket", agent="claude", session=own.id, secret=SECRET)
        assert k.card(OTHER.session)["type"] == "external"


@pytest.mark.parametrize("secret", ["wrong", "", None, SECRET[:-1], SECRET + "0", "ü" * 40])
@timed
async def test_without_its_secret_it_is_an_external_one(secret: str | None, tmp_path: Path) -> None:
    """It says that it runs in ours, and cannot prove it."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        before = own.head
        for payload in (OTHER.start(), OTHER.prompt(), OTHER.stop(), OTHER.end()):
            await k.take(payload, "socket", agent="claude", session=own.id, secret=secret)
        await k.settle()
        assert own.head == before
        assert len(k.rows()) == 1
        assert k.row(OTHER.session).session != own.id


@timed
async def test_until_it_is_known_whose_it_is_a_post_waits_a_second(tmp_path: Path) -> None:
    """Our agent's first hooks come before it has told its name."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=None)
        sent = post(LIFE.start(), "socket", agent="claude", session=own.id, secret=SECRET)
        taking = asyncio.ensure_future(k.intake.take(sent))
        await k.settle()
        assert not k.rows()
        assert own.hooks is not None
        own.hooks.agent_session = LIFE.session
        await k.advance(1.5)
        await until(taking.done, "it is taken")
        taking.result()
        assert not k.rows()


@timed
async def test_nobody_waits_longer_than_a_second(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=None)
        before = own.head
        sent = post(LIFE.prompt(), "socket", agent="claude", session=own.id, secret=SECRET)
        taking = asyncio.ensure_future(k.intake.take(sent))
        await k.advance(2)
        await until(taking.done, "it is taken")
        taking.result()
        assert own.head == before


@pytest.mark.parametrize("proof", [True, False], ids=["with its secret", "by its name alone"])
@pytest.mark.parametrize("channel", ["socket", "http", "file"])
@timed
async def test_what_comes_right_after_the_end_of_ours_makes_none(
    channel: HookChannel, proof: bool, tmp_path: Path
) -> None:
    """Hooks take a moment: those that ran while ours was ended come when it has."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        own.record(HookAnswered(hook="start", source="startup", agent_session=LIFE.session))
        own.record(AgentExited(cause="closed"))
        own.record(StateChanged(prev="idle", next="exited", cause="process:closed"))
        await k.settle()
        before = own.head
        more: dict[str, Any] = {"session": own.id, "secret": SECRET} if proof else {}
        for payload in (LIFE.after("Bash", "t"), LIFE.stop(), LIFE.end()):
            await k.take(payload, channel, agent="claude", **more)
        await k.settle()
        assert not k.rows()
        assert own.head == before


@timed
async def test_who_goes_on_with_ours_at_a_terminal_is_an_external_one(tmp_path: Path) -> None:
    """Its session ended here, and a person resumes it elsewhere: that is no longer ours, and is shown."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        own.record(HookAnswered(hook="start", source="startup", agent_session=LIFE.session))
        own.record(AgentExited(cause="closed"))
        own.record(StateChanged(prev="idle", next="exited", cause="process:closed"))
        await k.advance(120)
        before = own.head
        for payload in (LIFE.start("resume"), LIFE.prompt("go on")):
            await k.take(payload, "socket", agent="claude")
        assert k.status(LIFE.session) == "working"
        assert own.head == before


@timed
async def test_the_same_folder_links_nothing(tmp_path: Path) -> None:
    """Two of ours and two strangers in one folder stay four (spec §4, §11.7)."""
    async with kit(tmp_path) as k:
        ours = [await k.own("codex"), await k.own(agent_session="known")]
        heads = [own.head for own in ours]
        here = [Life("claude", one.session, cwd=k.hub.cwd) for one in (LIFE, OTHER)]
        for life in here:
            await k.take(life.start())
            await k.take(life.prompt())
            await k.take(life.before("Bash", f"t-{life.session}"))
        await k.advance(2)
        await k.settle()
        assert [own.head for own in ours] == heads
        rows = {k.row(life.session).session for life in here}
        assert len(rows) == 2
        assert len(k.rows(None)) == 4


@timed
async def test_the_id_of_one_of_ours_as_an_agents_name_is_only_a_name(tmp_path: Path) -> None:
    """Ids of ours are no secret: they are in every frame."""
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        before = own.head
        liar = Life("claude", own.id)
        await k.take(liar.prompt())
        await k.take(normalised(liar.before("Bash", "t"), "claude", k.clock.now()))
        await k.take(half_normalised(liar.stop(), "claude", k.clock.now(), "evt-9"))
        await k.take(liar.end(), "file")
        await k.settle()
        assert own.head == before
        assert k.row(own.id).session != own.id
        for row in k.rows():
            assert row.session != own.id


@timed
async def test_the_id_of_an_external_session_as_an_agents_name_is_only_a_name(tmp_path: Path) -> None:
    """Or may be the bridge's own id for it, as clients that read it post it back: it changes no third one."""
    async with kit(tmp_path) as k:
        await k.take(LIFE.prompt())
        await k.take(OTHER.prompt())
        third = k.row(OTHER.session)
        await k.take({"type": "stop", "sessionId": k.row(LIFE.session).session, "agent": "claude", "cwd": LIFE.cwd})
        await k.settle()
        assert k.row(OTHER.session) == third


@timed
async def test_our_secrets_are_never_written_down(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        own = await k.own(agent_session=LIFE.session)
        for life, channel in ((OTHER, "socket"), (OTHER, "http"), (LIFE, "socket")):
            await k.take(life.prompt(), channel, agent="claude", session=own.id, secret=SECRET)
            await k.take(life.notify(None, "hear"), channel, agent="claude", session=own.id, secret=SECRET)
            await k.take(life.hook("Unheard", message="x"), channel, agent="claude", session=own.id, secret=SECRET)
        assert SECRET not in await logs(k)
        assert SECRET not in json.dumps([await k.told(row.session) for row in k.rows(None)])
        assert SECRET not in repr(k.rows(None))


# Strangers


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"type": "stop"},
        {"type": "stop", "cwd": "/home/dev/project"},
        {"type": "pre_tool_use", "tool": "Bash", "toolInput": {}},
        {"hook_event_name": "Stop"},
        {"hook_event_name": "UserPromptSubmit", "prompt": "hi", "cwd": "/home/dev/project"},
        {"hook_event_name": "Stop", "session_id": ""},
        {"hook_event_name": "Stop", "session_id": "  "},
        {"hook_event_name": "Stop", "session_id": None},
        {"hook_event_name": "Stop", "session_id": 5},
        {"hook_event_name": "Stop", "session_id": ["a"]},
        {"session_id": "some-one"},
        {"session_id": "some-one", "hook_event_name": ""},
        {"session_id": "some-one", "hook_event_name": 5, "type": {}},
    ],
    ids=json.dumps,
)
@timed
async def test_what_names_no_session_or_no_hook_makes_none(payload: dict[str, Any], tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for channel in ("http", "file", "socket"):
            assert k.intake.accept(post(payload, channel)) is None
            await k.take(payload, channel)
        await k.settle()
        assert not k.rows()


@pytest.mark.parametrize(
    "payload",
    [
        *(Life("gemini", "x").hook(event, llm_request={}) for event in ("BeforeModel", "AfterModel")),
        Life("gemini", "x").hook("BeforeToolSelection", llm_request={}),
        Life("gemini", "x").hook("PreCompress", trigger="auto"),
        Life("claude", "x").hook("SubagentStart"),
        Life("claude", "x").hook("SubagentStop", agent_id="a", agent_type=""),
        Life("claude", "x").hook("PostToolBatch", tool_calls=[]),
        Life("claude", "x").hook("MessageDisplay", delta="wo", final=False),
        Life("claude", "x").hook("Stop", agent_id="a"),
    ],
    ids=lambda payload: payload["hook_event_name"],
)
@timed
async def test_who_is_only_known_to_be_there_is_not_gone_before_its_time(
    payload: dict[str, Any], tmp_path: Path
) -> None:
    """What a hook has nothing to say of is no event; it may tell of a session that lives, not of one that is gone."""
    async with kit(tmp_path) as k:
        await k.take(payload)
        agent = "gemini" if payload["hook_event_name"][:4] in ("Befo", "Afte", "PreC") else "claude"
        assert [k.card("x", agent)["status"] for _ in k.rows()] in ([], ["working"])
        for row in k.rows():
            assert await k.told(row.session) == []
        await k.jump(k.settings.gone_idle + 60, 10)
        assert [k.card("x", agent)["status"] for _ in k.rows()] in ([], ["offline"])


@timed
async def test_a_stranger_is_shown_as_one(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        assert k.intake.session_of("claude", LIFE.session) is None
        await k.take(LIFE.prompt())
        shown = k.card(LIFE.session)
        assert shown["type"] == "external"
        assert shown["agent"] == "claude"
        assert shown["agentSessionId"] == shown["claudeSessionId"] == LIFE.session
        assert shown["cwd"] == LIFE.cwd
        assert shown["name"] == "project"
        assert "tmuxSession" not in shown


@timed
async def test_one_name_of_two_agents_is_two_sessions(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        for agent in ("claude", "codex", "gemini"):
            await k.take(Life(agent, LIFE.session).prompt(), agent=agent)
        assert {row.agent for row in k.rows()} == {"claude", "codex", "gemini"}
        assert len(k.rows()) == 3


@pytest.mark.parametrize(
    ("payload", "given", "agent"),
    [
        (Life("claude", "x").prompt(), None, "claude"),
        (Life("claude", "x").before("Bash", "t"), None, "claude"),
        (Life("codex", "x").prompt(), "codex", "codex"),
        (Life("gemini", "x").prompt(), "gemini", "gemini"),
        (Life("gemini", "x").prompt(), None, "gemini"),
        (Life("gemini", "x").before("write_file", None), None, "gemini"),
        ({"type": "stop", "sessionId": "x", "agent": "codex", "cwd": "/a"}, None, "codex"),
        ({"type": "stop", "sessionId": "x", "codexThreadId": "x", "cwd": "/a"}, "codex", "codex"),
        ({"type": "stop", "sessionId": "x", "cwd": "/a"}, None, "claude"),
        ({"type": "stop", "sessionId": "x", "agent": "aider", "cwd": "/a"}, None, "aider"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else str(value),
)
@timed
async def test_whose_hook_it_is(payload: dict[str, Any], given: str | None, agent: str, tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(payload, "http", agent=given)
        assert [row.agent for row in k.rows()] == [agent]
        assert k.intake.session_of(agent, "x") == k.rows()[0].session


@pytest.mark.parametrize("agent", ["", " ", "a" * 65, "no\nlines", "\x1b[31m", "é" * 64, "../../etc"])
@timed
async def test_strange_names_of_agents_do_no_harm(agent: str, tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(normalised(LIFE.prompt(), agent, k.clock.now()))
        await k.take(LIFE.prompt(), agent=agent)
        for row in k.rows():
            assert 0 < len(row.agent) <= 64
            assert row.agent.isprintable()


@pytest.mark.parametrize("cwd", [None, "", "relative", "/a\0b", "/x" * 5000, 5, "\ud800"])
@timed
async def test_strange_folders_do_no_harm(cwd: Any, tmp_path: Path) -> None:
    """A session that says where it runs only later, or nowhere at all, is still one."""
    async with kit(tmp_path) as k:
        payload = LIFE.prompt()
        payload["cwd"] = cwd
        try:
            await k.take({name: value for name, value in payload.items() if value is not None})
        except (LimitReached, StorageUnavailable):
            pytest.fail("this is no limit")
        await k.take(LIFE.stop())
        rows = k.rows()
        assert len(rows) == 1
        assert rows[0].cwd.startswith("/")
        assert k.status(LIFE.session) == "waiting (prompt)"


@timed
async def test_the_folder_of_its_events_is_where_it_was_then(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take(LIFE.prompt())
        moved = Life("claude", LIFE.session, cwd="/home/dev/elsewhere")
        await k.take(moved.before("Bash", "t"))
        told = await k.events(LIFE.session)
        assert [event["cwd"] for event in told] == [LIFE.cwd, "/home/dev/elsewhere"]


# /clear, resume, fork, compact


@pytest.mark.parametrize("source", ["clear", "resume", "fork"])
@timed
async def test_a_new_name_is_another_session_and_the_old_one_is_over(source: str, tmp_path: Path) -> None:
    """Whatever becomes of the old one, what the new name posts is shown under the new name, once."""
    async with kit(tmp_path) as k:
        await k.take_all([LIFE.start(), LIFE.prompt(), LIFE.stop()])
        if source != "fork":
            await k.take(LIFE.end("clear" if source == "clear" else "resume"))
        await k.take_all([OTHER.start(source), OTHER.prompt("go on")])
        shown = k.card(OTHER.session)
        assert shown["status"] == "working"
        assert shown["agentSessionId"] == OTHER.session
        if source != "fork":
            live = [row for row in k.rows() if row.unsettled]
            assert [row.session for row in live] == [shown["id"]]
        told = await k.events(OTHER.session)
        ours = [event for event in told if event["agentSessionId"] == OTHER.session]
        assert [event["type"] for event in ours] == ["session_start", "user_prompt_submit"]
        assert ours[0]["source"] == source


@timed
async def test_resumed_under_its_own_name_it_goes_on(tmp_path: Path) -> None:
    async with kit(tmp_path) as k:
        await k.take_all([LIFE.start(), LIFE.prompt(), LIFE.stop(), LIFE.end()])
        assert k.status(LIFE.session) == "offline"
        await k.jump(60)
        before = k.row(LIFE.session).session
        await k.take(LIFE.start("resume"))
        assert k.card(LIFE.session)["status"] != "offline"
        await k.take(LIFE.in_turn("turn-2").prompt("go on"))
        assert k.row(LIFE.session).session == before
        assert k.status(LIFE.session) == "working"
        assert len(k.rows()) == 1
        assert [event["source"] for event in await k.events(LIFE.session) if "source" in event] == ["startup", "resume"]


@timed
async def test_a_compaction_starts_nothing_anew(tmp_path: Path) -> None:
    """Claude tells of a start once it has shortened its context, in the midst of its work."""
    async with kit(tmp_path) as k:
        await k.take_all([LIFE.start(), LIFE.prompt(), LIFE.before("Bash", "t"), LIFE.after("Bash", "t")])
        await k.take(LIFE.start("compact"))
        await k.advance(k.settings.settles + 2)
        assert k.status(LIFE.session) == "working"
        assert kinds(await k.events(LIFE.session))["session_start"] == 2
