"""Playing turns: the model by its script, and what the person does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.hub.client_tools import CallResult
from dragoman.hub.events import DecisionOpened, Event, LogWritten
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.standing import OpenCall
from tests.agents.native.model_server import ModelServer
from tests.agents.native.native_rig import NativeHub, settled
from tests.hub.rig import until

from .turns import (
    LINK,
    Answers,
    Asked,
    Calling,
    Cancels,
    Declares,
    Deed,
    EndsBundle,
    EndsCall,
    Exists,
    Leaves,
    Makes,
    Opens,
    Reaches,
    Rests,
    Retries,
    Steers,
    Turn,
)

PATIENCE = 10.0

QUIET = 100
"""Turns of the loop, each of which looks at the sockets, after which what was sent over the loopback has been read."""


class Stage:
    """One session, and the model behind it."""

    def __init__(self, hub: NativeHub, session: Session, server: ModelServer) -> None:
        self.hub = hub
        self.session = session
        self.server = server
        self.folder = Path(session.state.cwd)
        self.asked_before = 0
        """Requests that the model had got when the person last said something for a turn that ran."""

    async def play(self, turn: Turn) -> list[Event]:
        """Play a turn, and return what it added to the log."""
        for name, content in turn.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        if turn.settings:
            await self.session.change_settings(LOCAL, turn.settings)
        self.server.named |= {turn.name: turn.script, **turn.others}
        begin = self.session.head
        asked = len(self.server.journal)
        await self.hub.submit(self.session, turn.prompt)
        for deed in turn.deeds:
            await self._do(deed, begin)
        await settled(self.session)
        await self._let_go(asked)
        return (await self.hub.log(self.session))[begin:]

    async def _let_go(self, asked: int) -> None:
        """Wait until no request is being answered: also one that was given up is over at the server."""
        entries = self.server.journal[asked:]
        await until(
            lambda: all(entry.ended.is_set() for entry in entries),
            lambda: f"every request is over: {[(it.script, it.ended.is_set(), it.left.is_set()) for it in entries]}",
        )

    async def _taken_in(self) -> None:
        """Wait until what the server sent is in the log: until nothing is added to it while the loop turns."""
        quiet, head = 0, self.session.head
        while quiet < QUIET:
            await asyncio.sleep(0)
            quiet, head = (quiet + 1 if head == self.session.head else 0), self.session.head
        await self.session.durable(head)

    async def _do(self, deed: Deed, begin: int) -> None:
        session, shown = self.session, self.session.shown
        if isinstance(deed, Reaches):
            door = self.server.gates[deed.gate]
            await self._until(door.reached.is_set, f"gate {deed.gate} is reached")
            await self._taken_in()
        elif isinstance(deed, Rests):
            await self._until(lambda: not shown.calls and session.head == shown.seq, "every call has ended")
        elif isinstance(deed, Opens):
            self.server.gates[deed.gate].open()
        elif isinstance(deed, Asked):
            await self._decision(deed.kind)
        elif isinstance(deed, Answers):
            opened = await self._decision(deed.kind)
            await session.answer(LOCAL, opened.decision, deed.answer, via="test")
        elif isinstance(deed, Calling):
            await self._until(lambda: self._calls(deed.tool), f"{deed.tool} is called")
        elif isinstance(deed, Exists):
            await self._until((self.folder / deed.file).exists, f"{deed.file} is there")
        elif isinstance(deed, Makes):
            (self.folder / deed.file).touch()
        elif isinstance(deed, Cancels):
            await session.cancel(LOCAL, via="test")
        elif isinstance(deed, Steers):
            self.asked_before = len(self.server.journal)
            await self.hub.submit(session, deed.text, when_busy="steer")
        elif isinstance(deed, Declares):
            await session.declare_tools(LOCAL, LINK, deed.tools)
        elif isinstance(deed, EndsCall):
            call = (await self._until(lambda: self._calls(deed.tool), f"{deed.tool} is called"))[0]
            await session.end_tool(LOCAL, call.call, link=LINK, status=deed.status, output=deed.output)
        elif isinstance(deed, EndsBundle):
            calls = await self._until(lambda: _bundle(shown.calls), "a bundle is called")
            results = [CallResult(call=call.call, output=it) for call, it in zip(calls, deed.outputs, strict=False)]
            await session.end_tools(LOCAL, calls[0].bundle, results, link=LINK)
        elif isinstance(deed, Leaves):
            await self._until(lambda: self._calls(deed.tool), f"{deed.tool} is called")
            session.retract_tools(LINK)
        else:
            assert isinstance(deed, Retries)
            await self._retried(begin)

    async def _retried(self, begin: int) -> None:
        """Wait until a model call is tried again. Each event is read once: reading them all anew held up the turn."""
        async with asyncio.timeout(PATIENCE):
            async for event in self.session.follow(begin):
                if isinstance(event.fact, LogWritten) and "trying again" in event.fact.line:
                    return

    async def _decision(self, kind: str) -> DecisionOpened:
        def found() -> DecisionOpened | None:
            return next((it for it in self.session.shown.decisions.values() if it.kind == kind), None)

        opened = await self._until(found, f"a {kind} is asked")
        assert isinstance(opened, DecisionOpened)
        return opened

    def _calls(self, tool: str) -> list[OpenCall]:
        return [call for call in self.session.shown.calls.values() if call.tool == tool]

    async def _until(self, condition: Callable[[], Any], what: str) -> Any:
        return await until(condition, lambda: f"{what}; {self._state()}", PATIENCE)

    def _state(self) -> str:
        shown = self.session.shown
        entries = [(it.script, it.violation) for it in self.server.journal[-3:]]
        return f"turn {shown.turn}, calls {list(shown.calls)}, decisions {list(shown.decisions)}, asked {entries}"


def _bundle(calls: dict[str, OpenCall]) -> list[OpenCall]:
    """The calls of the one bundle, once all of them are there."""
    steps = sorted((it for it in calls.values() if it.bundle is not None), key=lambda it: it.position or 0)
    return steps if steps and len(steps) == steps[0].bundle_size else []


async def staged(hub: NativeHub, server: ModelServer, **settings: Any) -> Stage:
    """A stage with a new session."""
    return Stage(hub, await hub.session(**settings), server)
