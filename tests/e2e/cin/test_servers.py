"""The server goes and comes again, or is in the way of nobody: the agent never minds."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from .house import House
from .told import can_be, meets

pytestmark = pytest.mark.e2e

HOOK_SECONDS = 1.3
"""That a hook may hold its agent up, at the worst; on a busy machine."""


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_a_session_goes_on_with_the_next_server(mortal: House, agent: str) -> None:
    cwd = mortal.project()
    async with mortal.starts(agent, cwd) as running:
        async with mortal.link() as link:
            await running.submit("[[bash:echo before]]")
            told = await meets(link, agent, cwd)
            await told.rests(1)
            before, session = told.events(), told.id
        mortal.stop() if agent == "claude" else mortal.kill()
        await running.submit("[[bash:echo between]]")
        await running.shows("(?s)between.*All done")
        await running.quiet()
        await mortal.start()
        async with mortal.link() as link:
            told = await meets(link, agent, cwd)
            assert told.id == session
            await running.submit("[[bash:echo after]]")
            await told.until(lambda: told.events("post_tool_use"), "the next call's end")
            await told.until(lambda: told.events("stop"), "the next turn's end")
            await told.status("waiting")
            everything = await history(mortal, link)
            assert everything[: len(before)] == before
            ids = [event["id"] for event in everything]
            assert len(set(ids)) == len(ids)
            # what nobody heard of is read in the agent's own log
            ran = [event["toolInput"]["command"] for event in everything if event["type"] == "pre_tool_use"]
            assert ran == ["echo before", "echo between", "echo after"]
            ended = [event["toolInput"]["command"] for event in everything if event["type"] == "post_tool_use"]
            assert ended == ran
            await can_be(link)


async def history(house: House, link: Any) -> list[dict[str, Any]]:
    await link.say({"type": "get_history", "data": {"limit": 1000}})
    frame = await link.hear("history", len(link.frames) - 1)
    return list(frame["data"])


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_no_server_is_no_trouble(mortal: House, agent: str) -> None:
    cwd = mortal.project()
    mortal.home_of(agent, cwd)
    mortal.stop()
    async with mortal.starts(agent, cwd) as running:
        began = time.monotonic()
        await running.submit("[[bash:echo alone]]")
        await running.shows("All done")
        assert time.monotonic() - began < 5
        assert "hook" not in running.text.lower().replace("hooks need review", "")


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_a_server_that_hangs_holds_nobody_up_for_long(mortal: House, agent: str) -> None:
    cwd = mortal.project()
    async with mortal.starts(agent, cwd) as running, mortal.link() as link:
        await running.submit("[[say:Ready.]]")
        told = await meets(link, agent, cwd)
        await told.rests(1)
        os.kill(mortal.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            await running.submit("[[say:Alone.]]")
            await running.shows("Alone\\.")
            await running.quiet()
            assert time.monotonic() - began < 2 * HOOK_SECONDS + 3
            assert "hook" not in running.text.lower()
        finally:
            os.kill(mortal.pid, signal.SIGCONT)
        # what was posted meanwhile had been heard all the same
        await told.rests(2)
        assert [event["response"] for event in told.events("stop")] == ["Ready.", "Alone."]
        await can_be(link)


async def test_a_session_of_ours_is_not_doubled(mortal: House) -> None:
    cwd = mortal.project()
    home = mortal.home_of("claude", cwd)
    mortal.stop()
    await mortal.start_beside(home)
    async with mortal.link() as link:
        body = {"cwd": str(cwd), "agent": "claude", "flags": {"permissionMode": "default"}}
        made = await mortal.request("POST", "/sessions", body)
        assert made.status == 201, made
        session = made.body["session"]["id"]
        await link.until(lambda: statuses(link, session)[-1:] in (["idle"], ["waiting"]), "it is ready")
        for number, directive in enumerate(("[[bash:echo ours]]", "[[say:The answer.]]"), 1):
            sent = await mortal.request("POST", f"/sessions/{session}/prompt", {"prompt": directive})
            assert sent.status == 200, sent
            await link.until(lambda: len(events(link, "stop")) == number, f"turn {number} is over")  # noqa: B023
        assert {event["sessionId"] for event in events(link)} == {session}
        assert [event["type"] for event in events(link) if "tool" in event["type"]] == ["pre_tool_use", "post_tool_use"]
        assert len(events(link, "user_prompt_submit")) == 2
        listed = await mortal.request("GET", "/sessions")
        assert [(one["id"], one["type"]) for one in listed.body["sessions"]] == [(session, "internal")]
        await can_be(link)


def events(link: Any, *kinds: str) -> list[dict[str, Any]]:
    told = [frame["data"] for frame in link.frames if frame["type"] == "event"]
    return [event for event in told if not kinds or event["type"] in kinds]


def statuses(link: Any, session: str) -> list[str]:
    return [
        frame["data"]["status"]
        for frame in link.frames
        if frame["type"].startswith("session:") and frame["data"]["id"] == session
    ]
