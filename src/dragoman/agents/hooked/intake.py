"""What takes the hooks of agents that run elsewhere, and what is read in their session logs: each goes to its session.

A post of a session that is in memory is taken in one step, without a task and without a wait but for the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dragoman.agents.common.fields import text_of
from dragoman.agents.common.observation import Observation
from dragoman.agents.common.paced_log import PacedLog
from dragoman.hub.clock import Clock
from dragoman.hub.errors import HubError, LimitReached, StorageUnavailable
from dragoman.hub.journal import SessionRow
from dragoman.hub.ports import HookChannel, HookPost
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner

from .agent import ENDS, HookedAgent
from .driven import OWNER, Driven, Key
from .factory import HookedFactory
from .forms import Told, read_form
from .settings import HookedSettings

log = logging.getLogger("dragoman.hooked")

LOOK = 0.5
"""Seconds between two looks at what has come of those that live."""

LOG_FIRST = 0.3
"""Seconds for which a hook that does not say how its call ended waits until the agent's log has said so."""

FORGET_AGAIN = 60.0
"""Seconds after which a session is let go again, where that failed."""

MAX_NAMED = 10_000
"""Session logs whose names were handed on; beyond, all of them are once more."""

TranscriptNamed = Callable[[str, str, str, HookChannel], None]
"""Told of each session log that a post names: agent, agent's session id, path, and how the post came. Once for each
path of a session; must return at once."""


class Intake:
    """Implements the hub's ``HookIntake``. Open it once the registry is open, close it before that is closed."""

    def __init__(
        self,
        registry: Registry,
        factory: HookedFactory,
        settings: HookedSettings | None = None,
        clock: Clock | None = None,
        *,
        transcript_named: TranscriptNamed | None = None,
    ) -> None:
        self._registry = registry
        self._factory = factory
        self._settings = settings or factory.settings
        self._clock = clock or registry.clock
        self.transcript_named = transcript_named
        self.hurry_logs: Callable[[], None] | None = None
        """Called when somebody waits for what session logs say: they are to be looked at now."""
        self._sessions: dict[Key, str] = {}
        self._agents: dict[str, tuple[Session, HookedAgent]] = {}
        """Those in memory that live, or have something open."""
        self._gone: dict[str, float] = {}
        """Those that are over, and since when."""
        self._making: dict[Key, _Turn] = {}
        self._transcripts: set[tuple[str, str, HookChannel]] = set()
        self._driven = Driven(registry, self._clock)
        """Logs of which an agent of ours could not say yet whether they are its own, and since when."""
        self._in_making = 0
        self._waiting = 0
        self._tasks = TaskOwner("hooked")
        self._said = PacedLog(log)
        self._stop_watching: Callable[[], None] | None = None
        self._closed = False

    # Life

    async def open(self) -> None:
        """Know the sessions that there are."""
        for row in self._registry.rows(OWNER):
            if row.kind == self._factory.kind and row.status != "closed":
                await self._remember(row)
        self._stop_watching = self._registry.watch(self._row_changed)
        self._tasks.start(self._keep_looking(), "look")

    async def _remember(self, row: SessionRow) -> None:
        self._sessions[row.agent, row.agent_session or row.session] = row.session
        if row.unsettled:
            session = await self._registry.get(OWNER, row.session)
            agent = _agent_of(session)
            await agent.recording.read_back()
            self._agents[row.session] = session, agent
        else:
            quiet = max(0, self._clock.now() - row.changed_at) / 1000
            self._gone[row.session] = self._clock.monotonic() - quiet

    async def close(self) -> None:
        """Take nothing more: posts that wait are refused, and their agents go on."""
        self._closed = True
        if self._stop_watching is not None:
            self._stop_watching()
            self._stop_watching = None
        await self._tasks.close(1.0)
        for _, agent in self._agents.values():
            await agent.close(0.0)
        self._said.close()

    def _row_changed(self, row: SessionRow) -> None:
        """A session that was closed is made anew when its agent is heard of again."""
        if row.kind == self._factory.kind and (row.status == "closed" or row.dropped_at is not None):
            self._sessions = {key: name for key, name in self._sessions.items() if name != row.session}
            self._agents.pop(row.session, None)
            self._gone.pop(row.session, None)

    # Posts

    def session_of(self, agent: str, agent_session: str) -> str | None:
        """The id of the hooked session that this agent's session is; None while there is none."""
        return self._sessions.get((agent, agent_session))

    def accept(self, post: HookPost) -> tuple[Session, int] | None:
        """Take a post of a session that is in memory: that session, and the seq to wait for.

        None for all else: what says nothing, and what ``take`` must look up, wait for or make.
        """
        if post.session is not None:
            return None
        told = read_form(post)
        return None if told is None else self._accept(told)

    def _accept(self, told: Told) -> tuple[Session, int] | None:
        key = told.agent, told.session
        name = self._sessions.get(key)
        if name is None or key in self._making or self._closed:
            return None
        known = self._agents.get(name)
        if known is None:
            return None
        session, agent = known
        agent.take(told)
        self._name_transcript(told)
        return session, session.head

    async def take(self, post: HookPost) -> None:
        """See the port."""
        told = await self._external(post)
        if told is None:
            return
        if self._waiting >= self._settings.posts_waiting:
            raise LimitReached(f"{self._waiting} posts wait for the disk (posts_waiting)")
        self._waiting += 1
        try:
            if told.agent == "codex" and told.own and told.kind == "posttooluse":
                await self._let_log_tell_first(told)
            taken = self._accept(told) or await self._take_slowly(told)
            if taken is not None:
                session, seq = taken
                await session.durable(seq, limit=session.limits.ack_seconds)
        finally:
            self._waiting -= 1

    async def ask(self, post: HookPost) -> str:
        """See the port."""
        told = await self._external(post)
        if told is None:
            return ""
        session, agent = await self._agent(told)
        self._name_transcript(told)
        decision = agent.ask(told)
        if decision is not None:
            return await agent.answered(decision)
        await session.durable(session.head, limit=session.limits.ack_seconds)
        return ""

    async def observed(
        self,
        agent: str,
        agent_session: str,
        observation: Observation,
        *,
        cwd: str | None = None,
        create: bool = False,
    ) -> bool | None:
        """Take what was read in a session log; whether it was taken, None while nobody can say whose it is.

        ``create`` makes a session for it in the folder ``cwd`` where there is none. Returns once it is recorded, not
        once it is durable. Raises ``LimitReached`` and ``StorageUnavailable``.
        """
        key = agent, agent_session
        if key not in self._sessions:
            if not create or self._closed:
                return False
            ours = self._driven.wrote(key, observation.at)
            if ours is not False:
                return None if ours is None else False
        async with self._alone(key):
            _, hooked = await self._open(key, cwd)
            hooked.observe(observation, agent_session)
        return True

    async def _let_log_tell_first(self, told: Told) -> None:
        """Codex' hook of a call's end does not say whether it went well. Its log does, and was written before."""
        known = self._agents.get(self._sessions.get((told.agent, told.session), ""))
        if known is None or self.hurry_logs is None:
            return
        session, loop = known[0], asyncio.get_running_loop()
        until = loop.time() + LOG_FIRST
        self.hurry_logs()
        while told.post.call in session.state.calls and loop.time() < until:  # noqa: ASYNC110  a log wakes nobody
            await asyncio.sleep(LOG_FIRST / 20)

    # Whose it is

    async def _external(self, post: HookPost) -> Told | None:
        """The post, read, if it is one of an agent elsewhere: those of ours tell us of themselves."""
        if self._closed:
            raise StorageUnavailable("the server stops")
        told = read_form(post)
        if told is None or self._driven.proves(post, told):
            return None
        key = told.agent, told.session
        if key not in self._sessions and await self._driven.has(key, told.post.at or self._clock.now()):
            return None
        return told

    # Its session

    async def _take_slowly(self, told: Told) -> tuple[Session, int] | None:
        key = told.agent, told.session
        if key not in self._sessions and told.kind in ENDS:
            return None  # of one that nobody has heard of: there is nothing to end
        session, agent = await self._agent(told)
        agent.take(told)
        self._name_transcript(told)
        return session, session.head

    async def _agent(self, told: Told) -> tuple[Session, HookedAgent]:
        key = told.agent, told.session
        async with self._alone(key):
            return await self._open(key, told.cwd, vouched=told.own)

    @asynccontextmanager
    async def _alone(self, key: Key) -> AsyncIterator[None]:
        """One at a time, in the order in which they came."""
        turn = self._making.setdefault(key, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._making[key]

    async def _open(self, key: Key, cwd: str | None, *, vouched: bool = False) -> tuple[Session, HookedAgent]:
        """This agent's session in memory, made where there is none."""
        name = self._sessions.get(key)
        if name is None:
            session = await self._make(key, cwd, vouched=vouched)
        elif name in self._agents:
            return self._agents[name]
        else:
            session = await self._registry.get(OWNER, name)
        self._gone.pop(session.id, None)
        agent = _agent_of(session)
        await agent.recording.read_back()
        known = self._agents[session.id] = session, agent
        return known

    async def _make(self, key: Key, cwd: str | None, *, vouched: bool) -> Session:
        """``vouched``: it is the person's own agent that says where it works."""
        if len(self._sessions) + self._in_making >= self._settings.sessions:
            await self._make_room(vouched=vouched)
        count = len(self._sessions) + self._in_making
        if count >= self._settings.sessions:
            raise LimitReached(f"{count} sessions of agents elsewhere are open (hooked.sessions)")
        agent, agent_session = key
        self._in_making += 1
        try:
            session = await self._registry.create(
                OWNER,
                kind=self._factory.kind,
                agent=agent,
                cwd=cwd or "/",
                title=None if cwd else agent,
                options={"agent_session": agent_session, **({"vouched": True} if vouched and cwd else {})},
            )
        finally:
            self._in_making -= 1
        self._sessions[key] = session.id
        log.info("an agent elsewhere is heard: %s in %s, session %s", agent, session.state.cwd, session.id)
        return session

    async def _make_room(self, *, vouched: bool) -> None:
        """The longest over leaves the list; for the person's own also the longest silent of which only others tell."""
        over = min(self._gone, key=self._gone.__getitem__, default=None)
        if over is None and vouched:
            hearsay = [
                session.state for session, _ in self._agents.values() if not session.state.options.get("vouched")
            ]
            over = min(hearsay, key=lambda state: state.active_at).session if hearsay else None
        if over is not None:
            self._gone.pop(over, None)
            await self._forget(over)

    def _name_transcript(self, told: Told) -> None:
        path = text_of(told.post.payload, "transcript_path")
        if path is None or self.transcript_named is None or told.post.subagent is not None:
            return  # a sub-agent's may be a log of its own
        name = self._sessions.get((told.agent, told.session))
        if name is not None and (name, path, told.channel) not in self._transcripts:
            if len(self._transcripts) > MAX_NAMED:
                self._transcripts.clear()
            self._transcripts.add((name, path, told.channel))
            self.transcript_named(told.agent, told.session, path, told.channel)

    # Time

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    async def look(self) -> None:
        """See what has come of those that live, and let those go that are over for long."""
        now = self._clock.monotonic()
        for name, (session, agent) in tuple(self._agents.items()):
            try:
                agent.look()
            except HubError as problem:
                self._said.warn("look", f"what became of session {name} is not recorded: {problem}")
            if not session.state.unsettled:
                self._agents.pop(name, None)
                self._gone[name] = now
        for name in [name for name, since in self._gone.items() if now - since >= self._settings.forget]:
            self._gone.pop(name, None)
            await self._forget(name)

    async def _forget(self, name: str) -> None:
        try:
            session = await self._registry.get(OWNER, name)
            await session.close("forgotten")
        except HubError as problem:
            self._gone[name] = self._clock.monotonic() - self._settings.forget + FORGET_AGAIN
            self._said.warn("forget", f"session {name} stays in the list: {problem}")


class _Turn:
    """Whose turn it is, of one key; how many have it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


def _agent_of(session: Session) -> HookedAgent:
    agent = session.ensure_agent()
    assert isinstance(agent, HookedAgent)
    return agent
