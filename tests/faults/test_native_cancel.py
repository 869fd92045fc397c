"""A cancelled native turn is over for everybody only when nothing of it runs any more, and soon (invariant 9)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.hub import Event, HubClient, Tool
from dragoman.client.hub_streams import Message
from tests.agents.native.model_server import ModelServer, serving
from tests.agents.native.model_server.script import Answer, Gate, Say, say, use
from tests.hub.checker import check_log

from .native import Watched, commands_of, hub, native_server, typed
from .process import LIMIT, Served, alive, eventually

log = logging.getLogger("tests.native")

AT_ONCE = 1.0
"""Seconds from the wish to the end of the turn, at most."""

STUBBORN = 0.8 + 0.5
"""The same for a command that only SIGKILL ends: when it is sent (``command_ending.kill``), and some time to look."""

CHILDREN = "sleep 100 & (sleep 100; sleep 100) & setsid sleep 100 & sleep 100"
DEAF = "trap '' HUP INT TERM; sleep 100 & setsid sleep 100 & (sleep 100; :) & sleep 100; :"
SLEEPERS = 4
"""Sleeping processes in both."""


class Stage:
    """A server, its model, and a client that sees everything."""

    def __init__(self, served: Served, model: ModelServer, client: HubClient) -> None:
        self.served = served
        self.model = model
        self.client = client
        self.acts: dict[str, Act] = {}
        client.watch(self._row)

    async def act(self, *turns: Answer, provider: str = "chat", mode: str = "all") -> Act:
        """A session at work on a turn in which the model says this."""
        cwd = str(self.served.folder)
        settings = {"provider": provider, "mode": mode}
        session = await self.client.create(kind="native", cwd=cwd, settings=settings)
        act = self.acts[session] = Act(self, session)
        self.model.named[session] = turns
        receipt = await self.client.submit(session, f"[[script:{session}]]")
        act.turn = receipt["turn"]
        return act

    def _row(self, row: Message) -> None:
        act = self.acts.get(row["session"])
        if act is not None and act.asked_at is not None and row["status"] == "idle":
            act.is_over("idle")


class Act:
    """One turn on its way to be cancelled. ``over`` holds when it was said to be, and in which way."""

    def __init__(self, stage: Stage, session: str) -> None:
        self.stage = stage
        self.session = session
        self.turn = ""
        self.followed = False
        self.pids: list[int] = []
        self.asked_at: float | None = None
        self.over: dict[str, float] = {}
        self.left: dict[str, list[int]] = {}
        self.watched = Watched(session)
        self.watched.on_event = self._on_event

    def follow(self) -> None:
        """See its log."""
        self.followed = True
        self.watched.follow(self.stage.client)

    async def sleepers(self, count: int = SLEEPERS) -> None:
        """Wait until so many processes of it sleep."""

        def sleeping() -> list[int]:
            return [pid for pid in commands_of(self.session) if _name(pid) == "sleep"]

        await eventually(lambda: len(sleeping()) == count, f"{count} processes sleep")
        self.pids = commands_of(self.session)

    def is_over(self, how: str) -> None:
        """It is said to be over: look at once whether that is true."""
        if how not in self.over:
            self.over[how] = time.monotonic()
            self.left[how] = [pid for pid in self.pids if alive(pid)]

    async def cancel(self, limit: float = AT_ONCE) -> float:
        """Cancel the turn; it is over in time, and truly. Returns the seconds it took."""
        self.over.clear()
        self.left.clear()
        self.asked_at = time.monotonic()
        await self.stage.client.cancel(self.session, self.turn)
        self.is_over("answered")
        told = {"idle", "ended"} if self.followed else {"idle"}
        await eventually(lambda: told <= self.over.keys(), "the client is told")
        took = max(self.over.values()) - self.asked_at
        log.info("cancelled in %.3f s", took)
        assert self.left == {how: [] for how in self.over}, "it was over before its processes were"
        assert took <= limit, f"{took:.3f} s: {self.over}"
        return took

    async def has_ended_well(self) -> list[Event]:
        """Nothing is left; its log says what happened, in order; the next turn works. Returns the ends of its calls."""
        assert commands_of(self.session) == []
        ended = await self.watched.one("turn.ended", turn=self.turn)
        assert ended.fact["outcome"] == "cancelled"
        asked = self.watched.of("turn.cancel_requested", turn=self.turn)
        calls, ends = self.watched.of("tool.called"), self.watched.of("tool.ended")
        assert sorted(it.fact["call"] for it in calls) == sorted(it.fact["call"] for it in ends)
        assert all(asked[0].seq < it.seq < ended.seq for it in ends), "no call outlives its turn"
        assert {it.fact["status"] for it in ends} <= {"interrupted"}
        opened, closed = self.watched.of("decision.opened"), self.watched.of("decision.resolved")
        assert [it.fact["decision"] for it in opened] == [it.fact["decision"] for it in closed]
        assert all(it.fact["outcome"] == "cancelled" and it.seq < ended.seq for it in closed)
        await self.goes_on()
        return ends

    async def goes_on(self) -> None:
        """The next turn works, and the log obeys the grammar."""
        name = f"{self.session}-next"
        self.stage.model.named[name] = (say("Still here."),)
        receipt = await self.stage.client.submit(self.session, f"[[script:{name}]]")
        facts: list[Message] = []
        async with asyncio.timeout(LIMIT):
            while not (facts and facts[-1]["type"] == "turn.ended"):
                page = await self.stage.client.events(self.session, after=receipt["seq"])
                facts = [event["fact"] for event in page["events"]]
                await asyncio.sleep(0.01)
        assert (facts[-1]["outcome"], facts[-1].get("result")) == ("completed", "Still here."), facts[-1]
        check_log(typed(await self.stage.served.whole_log(self.session)), settled=True)
        assert self.stage.model.violations == []

    def _on_event(self, event: Event) -> None:
        if event.fact["type"] == "turn.ended" and event.fact["turn"] == self.turn:
            self.is_over("ended")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@asynccontextmanager
async def staged(folder: Path, more: str = "") -> AsyncIterator[Stage]:
    """A running server with a client."""
    async with serving() as model, native_server(folder / "server", model, more) as served:
        await served.start()
        async with hub(served) as client:
            yield Stage(served, model, client)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        yield stage


def bash(command: str) -> Answer:
    """The model runs a command."""
    return Answer((Say(("I run it.",)), use("bash", {"command": command})))


@pytest.mark.parametrize("provider", ["chat", "responses"])
async def test_a_command_with_children_is_gone_before_the_turn_is_over_and_within_a_second(
    stage: Stage, provider: str
) -> None:
    act = await stage.act(bash(CHILDREN), provider=provider)
    act.follow()
    await act.sleepers()
    await act.cancel()
    assert len(await act.has_ended_well()) == 1


async def test_commands_side_by_side_are_all_gone(stage: Stage) -> None:
    act = await stage.act(Answer(tuple(use("bash", {"command": CHILDREN}) for _ in range(3))))
    act.follow()
    await act.sleepers(3 * SLEEPERS)
    await act.cancel()
    assert len(await act.has_ended_well()) == 3


async def test_children_that_listen_to_no_signal_are_killed_on_schedule(stage: Stage) -> None:
    act = await stage.act(bash(DEAF))
    act.follow()
    await act.sleepers()
    assert await act.cancel(STUBBORN) >= 0.8
    assert len(await act.has_ended_well()) == 1


async def test_what_a_sub_agent_runs_is_gone_too(stage: Stage) -> None:
    stage.model.named["helper"] = (bash(CHILDREN),)
    spawn = use("spawnAgent", {"task": "[[script:helper]]", "agentType": "explore"})
    act = await stage.act(Answer((spawn, spawn)))
    act.follow()
    await act.sleepers(2 * SLEEPERS)
    await act.cancel()
    assert len(await act.has_ended_well()) == 4
    assert [it.fact["status"] for it in act.watched.of("subagent.ended")] == ["cancelled"] * 2


async def test_a_call_that_a_client_runs_is_given_up(stage: Stage) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def look(_: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    gate = Answer((Say((Gate("offered"),)), use("look", {})))
    act = await stage.act(gate, gate)
    act.follow()
    await eventually(stage.model.gates["offered"].reached.is_set, "the model is asked")
    await act.cancel()
    await act.has_ended_well()
    async with stage.client.tools(act.session, [Tool("look", look)]):
        stage.model.gates["offered"].open()
        act.turn = (await stage.client.submit(act.session, f"[[script:{act.session}]]"))["turn"]
        await begun.wait()
        await act.cancel()
        await asyncio.wait_for(stopped.wait(), LIMIT)
    assert len(await act.has_ended_well()) == 1


async def test_a_question_and_a_permission_are_closed(stage: Stage) -> None:
    asked = Answer((use("ask", {"question": "Well?"}), use("bash", {"command": "rm -rf x"})))
    act = await stage.act(asked, mode="ask")
    act.follow()
    await eventually(lambda: len(act.watched.of("decision.opened")) == 2, "both are asked")
    await act.cancel()
    assert len(await act.has_ended_well()) == 2


async def test_a_page_on_its_way_is_given_up(tmp_path: Path) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nIt begins")
        await writer.drain()
        begun.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        left.set()
        writer.close()

    site = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = site.sockets[0].getsockname()[1]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    async with (
        site,
        serving() as model,
        native_server(tmp_path / "server", model, env={"PYTHONPATH": path}) as served,
    ):
        served.program = ("tests.faults.loopback_web", str(port))
        await served.start()
        async with hub(served) as client:
            act = await Stage(served, model, client).act(Answer((use("webFetch", {"url": "http://site.example/"}),)))
            act.follow()
            await asyncio.wait_for(begun.wait(), LIMIT)
            await act.cancel()
            await asyncio.wait_for(left.wait(), LIMIT)
            assert len(await act.has_ended_well()) == 1


async def test_a_model_that_is_silent_is_left(stage: Stage) -> None:
    act = await stage.act(Answer((Say(("I think ", Gate("silence"))),)))
    act.follow()
    await act.watched.one("part.delta")
    await act.cancel()
    await act.has_ended_well()
    entry = next(entry for entry in stage.model.journal if entry.script == act.session)
    await asyncio.wait_for(entry.left.wait(), LIMIT)


async def test_a_model_that_floods_is_left(tmp_path: Path) -> None:
    async with flood() as port:
        more = f'[native.providers.flood]\nbase_url = "http://127.0.0.1:{port}/v1"\nmodels = ["m"]\n'
        async with staged(tmp_path, more) as stage:
            act = await stage.act(provider="flood")
            seq = -1
            for _ in range(3):  # it flows
                before = seq
                async with asyncio.timeout(LIMIT):
                    while (seq := (await stage.client.snapshot(act.session))["seq"]) < before + 2000:
                        await asyncio.sleep(0.01)
            await act.cancel()
            events = await stage.served.whole_log(act.session)
            log.info("%d events came of a flood", len(events))
            assert [it["fact"]["outcome"] for it in events if it["fact"]["type"] == "turn.ended"] == ["cancelled"]
            await stage.served.asked(
                "PATCH", f"/sessions/{act.session}", {"settings": {"provider": "chat", "model": "scripted-1"}}
            )
            await act.goes_on()


async def test_twenty_sessions_cancelled_at_once_are_over_as_soon(stage: Stage) -> None:
    acts = [await stage.act(bash(CHILDREN)) for _ in range(20)]
    for act in acts:
        act.follow()
        await act.sleepers()
    await asyncio.gather(*(act.cancel() for act in acts))
    for act in acts:
        assert len(await act.has_ended_well()) == 1


@pytest.mark.parametrize("command", [CHILDREN, DEAF])
async def test_a_stop_of_the_server_ends_the_command_in_its_budget(tmp_path: Path, command: str) -> None:
    async with serving() as model, native_server(tmp_path / "server", model) as served:
        await served.start()
        async with hub(served) as client:
            act = await Stage(served, model, client).act(bash(command))
            await act.sleepers()
            began = time.monotonic()
            assert await asyncio.to_thread(served.stop) == 0
            took = time.monotonic() - began
            log.info("stopped in %.3f s", took)
        assert [pid for pid in act.pids if alive(pid)] == commands_of(act.session) == []
        assert took <= 2.0, "server.stop_budget"
        await served.start()
        async with hub(served) as client:
            act.stage = Stage(served, model, client)
            act.follow()
            ended = await act.watched.one("turn.ended", turn=act.turn)
            assert ended.fact["outcome"] == "interrupted"
            calls = act.watched.of("tool.ended")
            assert [it.fact["status"] for it in calls] == ["interrupted"]
            assert calls[0].seq < ended.seq
            await act.goes_on()


@asynccontextmanager
async def flood() -> AsyncIterator[int]:
    """A chat model that says words as fast as they are taken; its port."""
    delta = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta["choices"] = [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]  # type: ignore[assignment]
    words = f"data: {json.dumps(delta)}\n\n".encode() * 2000
    listed = json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "x"}]}).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(listed) + listed)
                await writer.drain()
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            while True:
                writer.write(words)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client left, as it should
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
