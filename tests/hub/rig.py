"""What the hub's tests share: a hub on a store that outlives it, an agent on strings, time that a test moves."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from dragoman.agents.scripted import ScriptedFactory
from dragoman.hub.artifacts import Artifacts
from dragoman.hub.checkpoints import Checkpoints
from dragoman.hub.events import (
    Answer,
    AnyFact,
    Compacted,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    Json,
    PromptSubmitted,
    encode_fact,
)
from dragoman.hub.journal import Journal
from dragoman.hub.limits import HubLimits
from dragoman.hub.log import key_of
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL, Principal, widening
from dragoman.hub.ports import AgentFactory, Driver, Hooks, Terminal
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.hub.sqlite import SqliteJournal
from dragoman.hub.standing import Executor
from dragoman.hub.state import SessionState, encode_state
from dragoman.hub.turns import TurnContext

from .checker import check_log, transcript

PATIENCE = 10.0
"""Seconds that a test waits for something that must happen."""

Behaviour = Callable[[TurnContext], Awaitable[str | None]]


async def until(condition: Callable[[], Any], what: object = None, seconds: float = PATIENCE) -> Any:
    """Wait until the condition gives something true, and return it."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not (value := condition()):
        if loop.time() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what() if callable(what) else what or condition}")
        await asyncio.sleep(0.001)
    return value


async def turns_of_the_loop(count: int = 20) -> None:
    """Let everything that is ready run: for showing that something does not happen."""
    for _ in range(count):
        await asyncio.sleep(0)


_numbers = itertools.count(1)


def readable_id() -> str:
    """An id that a person can read, and that never comes again.

    Nor do its first eight characters: our own code makes shorter ids of them.
    """
    # Processes are told apart by the ids that they carry: two runs of the suite at once must not share any.
    return f"id{next(_numbers):x}-{os.getpid()}"


class FakeClock:
    """A clock that stands until it is moved."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.time = now

    def now(self) -> int:
        return self.time

    def monotonic(self) -> float:
        return self.time / 1000

    def pass_days(self, days: float) -> None:
        self.time += round(days * 86_400_000)


# Agents


class Puppet:
    """An agent that does what the test says; ``behave`` runs its turns."""

    terminal: Terminal | None = None
    driver: Driver | None = None
    hooks: Hooks | None = None
    own_tools: Collection[str] = ("own",)
    offered_tools: Collection[str] = ("own",)
    holds = False

    def __init__(self, session: Session, factory: PuppetFactory) -> None:
        self.session = session
        self.factory = factory

    async def start(self) -> None:
        """Nothing to start."""

    def check(self, prompt: PromptSubmitted) -> None:
        if self.factory.refuses is not None:
            raise self.factory.refuses

    async def run_turn(self, turn: TurnContext) -> str | None:
        self.factory.began.append(turn.prompt.text)
        return await self.factory.behave(turn)

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        self.factory.told.append((outcome, answer))

    def progressed(self, revision: DecisionRevised) -> None:
        self.factory.progress.append(revision)

    async def compact(self) -> None:
        await self.factory.compacts(self.session)

    async def close(self, budget: float) -> None:
        self.factory.closed.append(self.session.id)


async def echo(turn: TurnContext) -> str | None:
    """The simplest turn."""
    return turn.prompt.text


async def shorten(session: Session) -> None:
    """The simplest compaction."""
    for phase in ("started", "done"):
        session.record(Compacted(compaction="c", phase=phase))  # type: ignore[arg-type]


class PuppetFactory:
    """Makes puppets, and keeps what they were told. Set ``behave`` before a turn runs."""

    kind = "puppet"
    elsewhere = False

    def __init__(self) -> None:
        self.behave: Behaviour = echo
        self.compacts: Callable[[Session], Awaitable[None]] = shorten
        self.refuses: Exception | None = None
        self.began: list[str] = []
        self.told: list[tuple[DecisionResolved, Answer | None]] = []
        self.progress: list[DecisionRevised] = []
        self.closed: list[str] = []
        self.adopted: dict[str, dict[str, object]] = {}
        self.gone: list[str] = []
        self.recovered: list[tuple[str, Executor | None]] = []

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:
        return {name: value for name, value in options.items() if name != "secret"}

    def check_settings(self, changes: Mapping[str, Json]) -> None:
        """Puppets take any."""

    def widens(self, before: Mapping[str, Json], changes: Mapping[str, Json]) -> bool:
        return widening(changes)

    def adopt(self, session: str, options: dict[str, object]) -> None:
        self.adopted[session] = options

    def make(self, session: Session) -> Puppet:
        return Puppet(session, self)

    async def sweep(self, kept: Collection[str]) -> Collection[str]:
        return ()

    async def recover(self, session: Session, lost: Executor | None) -> None:
        self.recovered.append((session.id, lost))

    def dropped(self, session: str) -> None:
        self.gone.append(session)


# Stores


class Store(Protocol):
    """What survives a hub. Each ``journal`` is the next life on it."""

    def journal(self) -> Journal: ...
    def crash(self, journal: Journal) -> None:
        """Leave behind what a killed process would."""


class InMemory:
    """A ``MemoryStore``, with journals that can be made to fail."""

    def __init__(self, **limits: Any) -> None:
        self.store = MemoryStore()
        self.limits = limits

    def journal(self) -> MemoryJournal:
        return MemoryJournal(self.store, **self.limits)

    def crash(self, journal: Journal) -> None:
        assert isinstance(journal, MemoryJournal)
        journal.crash()


class OnDisk:
    """A real file. A crash leaves the bytes that are in it and in its log at that moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._life = 0
        self._home().mkdir(parents=True)

    def _home(self) -> Path:
        return self.folder / f"life-{self._life}"

    def journal(self) -> SqliteJournal:
        return SqliteJournal(self._home() / "journal.db")

    def crash(self, journal: Journal) -> None:
        assert isinstance(journal, SqliteJournal)
        journal._on_durable = lambda _: None  # a dead hub hears of no commit any more
        before = self._home()
        self._life += 1
        shutil.copytree(before, self._home())


# The hub


class Hub:
    """A registry and the store under it, through as many lives as a test wants."""

    def __init__(
        self,
        store: Store,
        cwd: Path,
        *,
        limits: HubLimits | None = None,
        clock: FakeClock | None = None,
        factories: Iterable[AgentFactory] = (),
        checkpoints: Checkpoints | None = None,
        artifacts: Artifacts | None = None,
    ) -> None:
        self.store = store
        self.cwd = str(cwd)
        self.limits = limits or HubLimits()
        self.clock = clock
        self.checkpoints = checkpoints
        self.artifacts = artifacts
        self.puppets = PuppetFactory()
        self.factories: list[AgentFactory] = [ScriptedFactory(), self.puppets, *factories]
        self.journal: Any = None
        self.registry: Registry

    async def open(self) -> Registry:
        self.journal = self.store.journal()
        self.registry = Registry(
            self.journal,
            self.factories,
            limits=self.limits,
            clock=self.clock,
            ids=readable_id,
            checkpoints=self.checkpoints,
            artifacts=self.artifacts,
        )
        await self.registry.open()
        return self.registry

    async def close(self, budget: float = 2.0) -> None:
        await self.registry.close(budget)
        self.journal = None

    async def restart(self) -> Registry:
        """Stop cleanly and start again."""
        await self.close()
        return await self.open()

    async def crash(self) -> None:
        """End as if killed: nothing of this life runs any more, and what was not on disk is lost."""
        journal, self.journal = self.journal, None
        self.store.crash(journal)
        for session in self.registry.live():
            session.closing = True
        mine = [task for task in asyncio.all_tasks() if task.get_name().startswith("hub:")]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
        if not isinstance(journal, MemoryJournal):
            await journal.close()

    async def recrash(self) -> Registry:
        """Crash and start again."""
        await self.crash()
        return await self.open()

    async def create(self, kind: str = "scripted", principal: Principal = LOCAL, **more: Any) -> Session:
        return await self.registry.create(principal, kind=kind, cwd=self.cwd, **more)

    async def get(self, session: Session | str, principal: Principal = LOCAL) -> Session:
        return await self.registry.get(principal, session if isinstance(session, str) else session.id)

    async def log(self, session: Session | str) -> list[Event]:
        """The durable log, read from the journal."""
        return await _whole_log(self.journal, session if isinstance(session, str) else session.id)

    async def facts(self, session: Session | str) -> list[AnyFact]:
        return [event.fact for event in await self.log(session)]

    async def check(self, session: Session | str, *, settled: bool = False) -> list[Event]:
        """Hold the durable log to the grammar, and what is shown to its fold (invariant 2); returns the log."""
        name = session if isinstance(session, str) else session.id
        events = await self.log(name)
        check_log(events, settled=settled)
        shown = (await self.get(name)).shown
        assert same_state(shown, fold(events, name)), "\n".join(transcript(events))
        return events


async def check_store(store: Store) -> dict[str, list[Event]]:
    """Hold every log in a store that no hub has open to the grammar, and its row to its fold (invariant 2)."""
    journal = store.journal()
    rows = await journal.open(lambda _: None)
    logs: dict[str, list[Event]] = {}
    try:
        for row in rows:
            if row.dropped_at is None:
                events = logs[row.session] = await _whole_log(journal, row.session)
                check_log(events, settled=True)
                assert fold(events, row.session).row() == row, "\n".join(transcript(events))
    finally:
        await journal.close()
    return logs


async def _whole_log(journal: Journal, session: str) -> list[Event]:
    events: list[Event] = []
    while batch := await journal.read(session, len(events), 500):
        events += batch
    return events


@asynccontextmanager
async def proven(hub: Hub) -> AsyncIterator[Hub]:
    """The hub, opened; afterwards every log it wrote is held to the grammar, in one more life that must end well."""
    await hub.open()
    yield hub
    if hub.journal is not None:
        await hub.close()
    await hub.open()
    await hub.close()
    await check_store(hub.store)


def fold(events: Iterable[Event], session: str = "s", state: SessionState | None = None) -> SessionState:
    """The state after these events."""
    state = state or SessionState(session=session)
    for event in events:
        state.apply(event)
    return state


def same_state(one: SessionState, other: SessionState) -> bool:
    """Whether two states are equal as they are stored."""
    return encode_state(one) == encode_state(other)


async def idle(session: Session) -> None:
    """Wait until nothing runs or waits in the session, durably."""
    await until(
        lambda: session.shown.turn is None and not session.shown.queue and session.head == session.shown.seq,
        lambda: f"idle: {session.shown}",
    )


async def shows(session: Session, kind: type, **fields: Any) -> Any:
    """Wait until the session shows such a fact, and return it."""
    found: list[AnyFact] = []

    async def look() -> None:
        async for event in session.follow(0):  # type: ignore[attr-defined]
            if isinstance(event.fact, kind) and all(getattr(event.fact, k) == v for k, v in fields.items()):
                found.append(event.fact)
                return

    async with asyncio.timeout(PATIENCE):
        await look()
    return found[0]


YES = Answer(accept=True)


def ask(decision: str = "d", kind: str = "permission", **more: Any) -> DecisionOpened:
    """A decision to be opened."""
    return DecisionOpened(decision=decision, kind=kind, text="may I?", **more)  # type: ignore[arg-type]


async def answer(session: Session, decision: str, said: Answer = YES) -> Event:
    """Answer as the local user."""
    return await session.answer(LOCAL, decision, said, via="test")


async def open_decision(session: Session, **fields: Any) -> DecisionOpened:
    """Wait until a decision is shown as open, and return it."""

    def look() -> DecisionOpened | None:
        return next(iter(session.shown.decisions.values()), None)

    found = await until(look, "an open decision")
    assert isinstance(found, DecisionOpened)
    return found


def rewrite(events: Iterable[Event], session: str, journal: MemoryJournal) -> None:
    """Append these events to a fresh, opened journal, with the rows that go with them, as the hub did."""
    state = SessionState(session=session)
    for event in events:
        state.apply(event)
        journal.append(event, state.row(), key=key_of(event.fact))


def as_stored(fact: AnyFact) -> bytes:
    """The fact as it stands on disk: what two facts are compared by."""
    return encode_fact(fact)
