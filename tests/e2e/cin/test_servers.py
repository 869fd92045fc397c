"""The server goes and comes again, hangs, or starts agents itself: agents never mind, and nothing is doubled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.dialects.cin.recorded.bridge import Link
from tests.dialects.cin.stream_checker import Frame
from tests.e2e.driven import Driven
from tests.e2e.homes import Home

from .house import House, submit
from .told import LIMIT, Told, can_be, history, meets

pytestmark = pytest.mark.e2e

ALONE = 5.0
"""Seconds that a turn with a tool may take where nobody hears the hooks."""

HUNG = 6.0
"""The same of one without, where its two hooks are kept waiting: each gives up after a second."""


@dataclass
class Tenant:
    """An agent in a folder of its own."""

    agent: str
    cwd: Path
    running: Driven

    async def does(self, directive: str, shows: str, limit: float) -> None:
        """A turn that nobody else watches, within that time; nothing of hooks is on the screen after it."""
        began = time.monotonic()
        await submit(self.running, directive)
        await self.running.shows(shows)
        assert time.monotonic() - began < limit, self.running.text
        await self.running.quiet()
        shown = self.running.text.lower().splitlines()
        assert [line for line in shown if "hook" in line and "tip:" not in line] == []

    async def turn(self, link: Link, what: str) -> Told:
        """A turn with one command, up to its end as the link is told of it."""
        await submit(self.running, f"[[bash:echo {what}]]")
        told = await meets(link, self.agent, self.cwd)
        await told.until(lambda: ("post_tool_use", f"echo {what}") in commands(told.events()), f"{what} was run")
        await told.until(lambda: told.kinds()[-1] == "stop", f"the turn of {what} is over")
        await told.status("waiting")
        return told


@contextlib.asynccontextmanager
async def tenants(house: House) -> AsyncIterator[list[Tenant]]:
    """Two agents at once: what is tried here takes long."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for agent in ("claude", "codex"):
            cwd = house.project()
            found.append(Tenant(agent, cwd, await stack.enter_async_context(house.starts(agent, cwd))))
        yield found


def commands(events: list[Frame]) -> list[tuple[str, str]]:
    """The beginnings and ends of shell commands."""
    return [(event["type"], event["toolInput"].get("command", "")) for event in events if "toolInput" in event]


async def catches_up(link: Link, sessions: Sequence[Told]) -> list[Frame]:
    """All the events, once each session's tell of what was run while no server was there."""
    deadline = time.monotonic() + LIMIT
    while True:
        everything = await history(link)
        ended = [it["sessionId"] for it in everything if commands([it]) == [("post_tool_use", "echo between")]]
        if {one.id for one in sessions} <= set(ended) or time.monotonic() > deadline:
            return everything
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("end", [House.stop, House.kill])
async def test_agents_go_on_from_server_to_server(mortal: House, end: Callable[[House], object]) -> None:
    async with tenants(mortal) as everybody:
        async with mortal.link() as link:
            await asyncio.gather(*(one.turn(link, "first") for one in everybody))
            sessions = [(await one.turn(link, "before")).id for one in everybody]
            before = await history(link)
        end(mortal)
        await asyncio.gather(*(one.does("[[bash:echo between]]", "(?s)between.*All done", ALONE) for one in everybody))
        await mortal.start()
        async with mortal.link() as link:
            told = await asyncio.gather(*(one.turn(link, "after") for one in everybody))
            assert [one.id for one in told] == sessions
            everything = await catches_up(link, told)
            assert [event for event in everything if event in before] == before
            ids = [event["id"] for event in everything]
            assert len(set(ids)) == len(ids)
            for one in told:
                # what nobody heard of is read in the agent's own log, and nothing that somebody did
                events = [event for event in everything if event["sessionId"] == one.id]
                assert sorted(commands(events)) == [
                    (kind, f"echo {what}")
                    for kind in ("post_tool_use", "pre_tool_use")
                    for what in ("after", "before", "between", "first")
                ]
            await can_be(link)


async def test_a_server_that_hangs_holds_nobody_up_for_long(mortal: House) -> None:
    async with tenants(mortal) as everybody, mortal.link() as link:
        told = await asyncio.gather(*(one.turn(link, "before") for one in everybody))
        os.kill(mortal.pid, signal.SIGSTOP)
        try:
            await asyncio.gather(*(one.does("[[say:Alone.]]", r"[●•] Alone\.", HUNG) for one in everybody))
        finally:
            os.kill(mortal.pid, signal.SIGCONT)
        # what was posted meanwhile had been handed over all the same
        for one in told:
            await one.rests(2)
            assert [event.get("response") for event in one.events("stop")] == ["The tool finished. All done.", "Alone."]
        await can_be(link)


async def test_sessions_of_ours_are_not_doubled(mortal: House) -> None:
    """The agents that the server starts have the person's hooks, too."""
    homes = [mortal.home_of(agent, mortal.project()) for agent in ("claude", "codex")]
    mortal.stop()
    await mortal.start_beside(*homes)
    async with mortal.link() as link:
        ours = await asyncio.gather(*(works_for_us(mortal, link, home) for home in homes))
        assert {event["sessionId"] for event in await history(link)} == {one.id for one in ours}
        listed = (await mortal.request("GET", "/sessions")).body["sessions"]
        assert {one["id"]: one["type"] for one in listed} == {one.id: "internal" for one in ours}
        await can_be(link)


async def works_for_us(house: House, link: Link, home: Home) -> Told:
    """Two turns of an agent on a terminal of the server's."""
    flags = {"claude": {"permissionMode": "default"}, "codex": {}}
    body = {"cwd": str(home.cwd), "agent": home.agent, "flags": flags[home.agent]}
    made = await house.request("POST", "/sessions", body)
    assert made.status == 201, made
    told = Told(link, made.body["session"]["id"])
    await told.until(lambda: told.forms() and told.session["status"] in ("idle", "waiting"), "it is ready")
    for number, directive in enumerate(("[[bash:echo ours]]", "[[say:The answer.]]"), 1):
        sent = await house.request("POST", f"/sessions/{told.id}/prompt", {"prompt": directive})
        assert sent.status == 200, sent
        await told.event("stop", number)
        await told.status("idle", "waiting")
    await told.event("post_tool_use")
    [(begun, ended)] = told.calls()
    assert begun["toolInput"] == ended["toolInput"]
    assert "echo ours" in begun["toolInput"].values()
    assert len(told.events("user_prompt_submit")) == 2, told.story()
    assert len(told.events("stop")) == 2, told.story()
    return told
