"""A hub with native agents whose model is scripted: no server, no network, real tools in a real folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.native.delegates.port import Delegate
from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.providers.conversation import Message, ModelRequest
from dragoman.agents.native.providers.port import Provider, Spent, StreamEvent
from dragoman.agents.native.providers.scripted import HEAD, Scripted
from dragoman.agents.native.settings import NativeSettings, TurnLimits
from dragoman.hub.artifacts import Artifacts
from dragoman.hub.events import Answer, AnyFact, DecisionOpened, TurnEnded
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session, WhenBusy
from dragoman.hub.skills import Skills
from dragoman.hub.workspace_config import WorkspaceConfigs
from tests.hub.rig import Hub, InMemory, Store, proven, until

from .validity import faults

QUICK = NativeSettings(turn=TurnLimits(retry_first=0.01))
"""Settings under which nothing waits for long."""


class Given(msgspec.Struct, frozen=True):
    """What every session gets."""

    provider_id: str
    model: str
    make: Callable[[], Provider]
    delegate: Callable[[], Delegate] | None = None
    find_key: Callable[[], str | None] = lambda: None


class OneModel:
    """Every session has the same provider, whatever it names."""

    def __init__(self, provider: Provider, window: int | None = None) -> None:
        self.provider = provider
        self.window = window
        self.chosen: list[tuple[str | None, str | None]] = []
        """What sessions wanted: provider and model."""

    async def choose(self, provider: str | None, model: str | None) -> Given:
        self.chosen.append((provider, model))
        return Given(self.provider.name, model or "test-model", lambda: self.provider)

    async def context_window(self, provider: str, model: str) -> int | None:
        return self.window

    async def cost(self, provider: str, model: str, spent: Spent) -> float | None:
        return None


class Recording(Scripted):
    """The scripted model, and what it was given each time."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        self.requests.append(request)
        assert not faults(request.messages), faults(request.messages)
        async for event in super().stream(request, raw=raw):
            yield event

    @property
    def last(self) -> tuple[Message, ...]:
        return self.requests[-1].messages


class NativeHub(Hub):
    """See the module. ``session`` makes a native session with settings."""

    async def session(self, **settings: Any) -> Session:
        return await self.create("native", settings=settings)

    async def submit(self, session: Session, text: str, when_busy: WhenBusy = "queue", **more: Any) -> str:
        """Submit a prompt and return its id."""
        return (await session.submit(LOCAL, text, via="test", when_busy=when_busy, **more)).prompt

    async def turn(self, session: Session, text: str, **more: Any) -> list[AnyFact]:
        """Run one turn to its end; its facts, from ``turn.started`` to ``turn.ended``."""
        begin = session.head
        await self.submit(session, text, **more)
        await settled(session)
        facts = (await self.facts(session))[begin:]
        return facts[1:]


async def settled(session: Session) -> None:
    """Wait until nothing runs or waits."""
    await until(
        lambda: session.shown.turn is None and not session.shown.queue and session.head == session.shown.seq,
        lambda: f"settled: {session.shown.turn} {session.shown.queue} {list(session.shown.decisions)}",
        seconds=20,
    )


async def asked(session: Session) -> DecisionOpened:
    """Wait for an open decision and return it."""
    found = await until(lambda: next(iter(session.shown.decisions.values()), None), "an open decision")
    assert isinstance(found, DecisionOpened)
    return found


async def answered(session: Session, option: int) -> DecisionOpened:
    """Answer the decision that opens with one of its options, and wait until all is done; returns the decision."""
    opened = await asked(session)
    await session.answer(LOCAL, opened.decision, Answer(option=option), via="test")
    await settled(session)
    return opened


@asynccontextmanager
async def native_hub(
    folder: Path,
    *,
    provider: Provider | None = None,
    store: Store | None = None,
    settings: NativeSettings = QUICK,
    window: int | None = None,
    skills: Skills | None = None,
    configs: WorkspaceConfigs | None = None,
    artifacts: Artifacts | None = None,
    private: Collection[Path] = (),
) -> AsyncIterator[NativeHub]:
    """A hub, opened; its logs are held to the grammar afterwards."""
    models = OneModel(provider or Scripted(), window)
    factory = NativeFactory(models, settings, skills=skills, configs=configs, private=private)
    made = NativeHub(store or InMemory(), folder, factories=[factory], artifacts=artifacts)
    async with proven(made) as hub:
        assert isinstance(hub, NativeHub)
        yield hub


def script(*answers: str) -> str:
    """A prompt that has the scripted model give these answers, one a step; each holds one or more lines."""
    return "\n".join([HEAD, "\n---\n".join(answers)])


def of(facts: list[AnyFact], kind: type) -> list[Any]:
    """The facts of one type."""
    return [fact for fact in facts if isinstance(fact, kind)]


def outcome(facts: list[AnyFact]) -> str:
    """How the turn ended."""
    return next(fact.outcome for fact in reversed(facts) if isinstance(fact, TurnEnded))
