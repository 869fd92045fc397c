"""The intake on a hub of its own, where time stands; and what clients of the bridge would see of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.hooked.factory import HookedFactory
from dragoman.agents.hooked.intake import Intake
from dragoman.agents.hooked.settings import HookedSettings
from dragoman.dialects.cin.answers import answer_of, choices_of
from dragoman.dialects.cin.cards import card
from dragoman.dialects.cin.projection import Story, story_of_row
from dragoman.hub.events import AgentStarted, DecisionOpened, Event, StateChanged
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import LOCAL
from dragoman.hub.ports import HookChannel, HookPost
from dragoman.hub.session import Session
from tests.agents.hooked.manual_time import ManualClock, until
from tests.agents.hooked.posts import Payload, post
from tests.hub.checker import check_log, transcript
from tests.hub.rig import Hub, InMemory, OnDisk, Puppet, PuppetFactory, fold, same_state

Frame = dict[str, Any]

PAGE = 10_000
"""Events read at once."""

SECRET = "5ecre7-0f-0ne-of-our-own-sessi0ns-0123456789"


class Kit:
    """A registry, the factory of hooked agents and the intake, through as many lives as a test wants."""

    def __init__(self, hub: Hub, settings: HookedSettings) -> None:
        self.hub = hub
        self.settings = settings
        self.clock = ManualClock()
        self.intake: Intake
        self.transcripts: list[tuple[str, str, str, HookChannel]] = []
        self.driven = hub.factories[-1]

    # Life

    @property
    def registry(self) -> Any:
        return self.hub.registry

    async def open(self) -> None:
        self.hub.clock = self.clock  # type: ignore[assignment]
        factory = HookedFactory(self.settings)
        self.hub.factories = [one for one in self.hub.factories if one.kind != "hooked"] + [factory]
        await self.hub.open()
        self.intake = Intake(
            self.registry,
            factory,
            self.settings,
            self.clock,
            transcript_named=lambda *told: self.transcripts.append(told),
        )
        await self.intake.open()

    async def close(self) -> None:
        await self.intake.close()
        await self.hub.close()

    async def restart(self, *, crash: bool = False, away: float = 0.0) -> None:
        """End this life, let time pass, and begin the next one on the same store."""
        if crash:
            await self._kill()
        else:
            await self.close()
        await self.clock.jump(away)
        await self.open()
        await self.settle()

    async def _kill(self) -> None:
        """End as if killed: nothing of this life runs any more, nor sees the end of a process."""
        for session, agent in self.intake._agents.values():
            agent.presence.let_go()
            session.end_expiries()
        mine = [task for task in asyncio.all_tasks() if task.get_name().startswith("hooked:")]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
        await self.hub.crash()

    async def settle(self) -> None:
        """Let all happen that can without more time."""
        await self.clock.settle()
        await self.registry.journal.flush()
        await self.clock.settle()

    async def advance(self, seconds: float) -> None:
        await self.settle()
        await self.clock.advance(seconds)
        await self.settle()

    async def jump(self, seconds: float, steps: int = 1) -> None:
        """The same with less to do on the way."""
        for _ in range(steps):
            await self.settle()
            await self.clock.jump(seconds / steps)
        await self.settle()

    # Posting

    async def take(self, one: HookPost | Payload, channel: HookChannel = "http", **more: Any) -> None:
        """Post it, as a dialect does."""
        one = one if isinstance(one, HookPost) else post(one, channel, **more)
        await self._do(self.intake.take(one))

    async def take_fast(self, one: HookPost) -> None:
        """The same by the way without a task, where that will do."""
        taken = self.intake.accept(one)
        if taken is None:
            return await self.take(one)
        session, seq = taken
        return await self._do(session.durable(seq))

    async def take_all(self, posts: Iterable[HookPost | Payload], channel: HookChannel = "http") -> None:
        for one in posts:
            await self.take(one, channel)

    async def _do(self, work: Any) -> Any:
        """Await it where time stands: what waits for time to pass is a finding."""
        task = asyncio.ensure_future(work)
        try:
            await until(task.done, f"{work} ends")
        except AssertionError:
            task.cancel()
            raise
        return task.result()

    def asking(self, one: HookPost | Payload, channel: HookChannel = "socket", **more: Any) -> asyncio.Task[str]:
        """A hook that waits for what it is to print."""
        one = one if isinstance(one, HookPost) else post(one, channel, **more)
        return asyncio.ensure_future(self.intake.ask(one))

    async def printed(self, asking: asyncio.Task[str]) -> Any:
        """What the hook prints: the JSON, or the empty text."""
        await until(asking.done, "the hook is told what to print")
        return json.loads(asking.result()) if asking.result() else ""

    # Sessions

    def rows(self, kind: str | None = "hooked") -> list[SessionRow]:
        return [row for row in self.registry.rows(LOCAL) if kind is None or row.kind == kind]

    def row(self, agent_session: str, agent: str = "claude") -> SessionRow:
        name = self.intake.session_of(agent, agent_session)
        assert name is not None, f"there is no session for {agent_session}"
        row: SessionRow = self.registry.row(LOCAL, name)
        return row

    def card(self, agent_session: str, agent: str = "claude") -> Frame:
        """The session on the wire."""
        shown: Frame = json.loads(msgspec.json.encode(card(self.row(agent_session, agent))))
        return shown

    def status(self, agent_session: str, agent: str = "claude") -> str:
        """Its status, and in brackets what it waits for or the tool that it uses."""
        shown = self.card(agent_session, agent)
        more = shown.get("waitingFor") or shown.get("currentTool")
        return f"{shown['status']} ({more})" if more else str(shown["status"])

    async def session(self, agent_session: str, agent: str = "claude") -> Session:
        found: Session = await self.registry.get(LOCAL, self.row(agent_session, agent).session)
        return found

    async def log(self, session: str) -> list[Event]:
        await self.registry.journal.flush()
        events: list[Event] = await self.registry.journal.read(session, 0, PAGE)
        assert len(events) < PAGE
        return events

    async def told(self, session: str) -> list[Frame]:
        """The events of a session on the wire, in order."""
        story = Story(**{**_fields(story_of_row(self.registry.row(LOCAL, session))), "agent_session": None})
        made = [story.tell(event) for event in await self.log(session)]
        return [json.loads(msgspec.json.encode(one)) for one in made if one is not None]

    async def events(self, agent_session: str, agent: str = "claude") -> list[Frame]:
        return await self.told(self.row(agent_session, agent).session)

    async def check(self, session: str) -> list[Event]:
        """Hold a log to the grammar, and what is shown to its fold (invariant 2); the log."""
        events = await self.log(session)
        check_log(events)
        loaded = await self.registry.get(LOCAL, session)
        assert same_state(loaded.shown, fold(events, session)), "\n".join(transcript(events))
        return events

    async def check_all(self) -> None:
        for row in self.rows(None):
            await self.check(row.session)

    # Decisions

    async def open_decisions(self, agent_session: str, agent: str = "claude") -> list[DecisionOpened]:
        await self.settle()
        return list((await self.session(agent_session, agent)).shown.decisions.values())

    async def decision(self, agent_session: str, agent: str = "claude") -> DecisionOpened:
        """The one that is open."""
        (found,) = await self.open_decisions(agent_session, agent)
        return found

    async def answer(self, agent_session: str, opened: DecisionOpened, number: str, agent: str = "claude") -> None:
        """Answer with a number, as clients do. Raises what the hub does."""
        session = await self.session(agent_session, agent)
        await self._do(session.answer(LOCAL, opened.decision, answer_of(opened, number), via="cin"))

    # Our own

    async def own(self, agent: str = "claude", agent_session: str | None = None, cwd: str | None = None) -> Session:
        """A session of ours that an agent runs in, whose hooks it hears."""
        session: Session = await self.registry.create(LOCAL, kind="driven", cwd=cwd or self.hub.cwd, agent=agent)
        await session.start(LOCAL)
        hooks = session.hooks
        assert isinstance(hooks, OwnHooks)
        hooks.agent, hooks.agent_session = agent, agent_session
        await self.settle()
        return session


def _fields(story: Story) -> dict[str, Any]:
    return {name: getattr(story, name) for name in story.__struct_fields__}


def choices(opened: DecisionOpened) -> list[str]:
    """The numbers that clients may answer it with; none where it is answered elsewhere."""
    return [] if opened.detail.get("elsewhere") else [choice.number for choice in choices_of(opened)]


def kinds(events: Iterable[Frame]) -> Counter[str]:
    """How many there are of each type."""
    return Counter(event["type"] for event in events)


# Our own sessions


class OwnHooks:
    """The hooks of a driven agent. ``heard`` is what it takes to be its own business."""

    def __init__(self) -> None:
        self.agent = "claude"
        self.agent_session: str | None = None
        self.ingested: list[Any] = []

    def hears(self, agent: str, agent_session: str | None) -> bool | None:
        if agent != self.agent:
            return False
        if self.agent_session is None or agent_session is None:
            return None
        return agent_session == self.agent_session

    def proves(self, secret: str) -> bool:
        return secret == SECRET

    async def ingest(self, event: str, data: Any) -> None:
        self.ingested.append((event, data))

    async def stop(self, data: Any) -> Any:
        raise AssertionError("nobody asked it to stop")

    async def signal(self, principal: Any, body: Any) -> None:
        raise AssertionError("nobody signals")

    async def start(self, data: Any) -> str:
        raise AssertionError("nobody starts it so")


class Driven(Puppet):
    """An agent of ours that has started and idles."""

    def __init__(self, session: Session, factory: PuppetFactory) -> None:
        super().__init__(session, factory)
        self.hooks = OwnHooks()

    async def start(self) -> None:
        self.session.record(AgentStarted(run=self.session.state.runs + 1))
        self.session.record(StateChanged(prev="starting", next="idle", cause="screen:idle"))


class DrivenFactory(PuppetFactory):
    kind = "driven"

    def make(self, session: Session) -> Driven:
        return Driven(session, self)


@asynccontextmanager
async def kit(
    folder: Path, *, disk: bool = False, limits: Any = None, checked: bool = True, **settings: Any
) -> AsyncIterator[Kit]:
    """An opened kit; whatever was logged is held to the grammar at the end."""
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    store = OnDisk(folder / "store") if disk else InMemory()
    hub = Hub(store, work, limits=limits, factories=[DrivenFactory()])
    made = Kit(hub, HookedSettings(watch=(), **settings))
    await made.open()
    try:
        yield made
        await made.settle()
        if checked:
            await made.check_all()
    finally:
        await made.close()
