"""The server goes and comes again, or is in the way of nobody: the agent never minds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.dialects.cin.stream_checker import Frame

from .house import House
from .told import can_be, history, meets

pytestmark = pytest.mark.e2e

HOOK_SECONDS = 1.3
"""That a hook may hold its agent up, at the worst; on a busy machine."""


@pytest.mark.parametrize(("agent", "end"), [("claude", House.stop), ("claude", House.kill), ("codex", House.kill)])
async def test_a_session_goes_on_with_the_next_server(
    mortal: House, agent: str, end: Callable[[House], object]
) -> None:
    cwd = mortal.project()
    async with mortal.starts(agent, cwd) as running:
        async with mortal.link() as link:
            await running.submit("[[bash:echo first]]")
            told = await meets(link, agent, cwd)
            await told.rests(1)
            await running.quiet()
            await running.submit("[[bash:echo before]]")
            await told.rests(2)
            before, session = await history(link), told.id
        end(mortal)
        await running.submit("[[bash:echo between]]")
        await running.shows("(?s)between.*All done")
        await running.quiet()
        await mortal.start()
        async with mortal.link() as link:
            told = await meets(link, agent, cwd)
            assert told.id == session
            await running.submit("[[bash:echo after]]")
            await told.until(lambda: ("post_tool_use", "echo after") in commands(told.events()), "the next call's end")
            await told.until(lambda: told.kinds()[-1:] == ["stop"], "the next turn's end")
            await told.status("waiting")
            everything = await history(link)
            assert everything[: len(before)] == before
            ids = [event["id"] for event in everything]
            assert len(set(ids)) == len(ids)
            # what nobody heard of is read in the agent's own log, and nothing that somebody did
            assert sorted(commands(everything)) == [
                (kind, f"echo {what}")
                for kind in ("post_tool_use", "pre_tool_use")
                for what in ("after", "before", "between", "first")
            ], told.story()
            await can_be(link)


def commands(events: list[Frame]) -> list[tuple[str, str]]:
    """The beginnings and ends of shell commands."""
    return [(event["type"], event["toolInput"]["command"]) for event in events if "toolInput" in event]


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
        await running.quiet()
        assert "hook" not in running.text.lower()


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
