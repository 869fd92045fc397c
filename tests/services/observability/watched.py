"""A hub that telemetry watches, with a clock that the test moves and a collector that keeps what it is sent."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.scripted import ScriptedFactory
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL
from dragoman.hub.ports import AgentFactory
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from dragoman.services.observability import ObservabilitySettings, Telemetry
from dragoman.services.observability.figures import Counted, Distribution
from dragoman.services.observability.settings import ExportSettings
from dragoman.services.observability.spans import Span
from tests.hub.rig import Behaviour, FakeClock, PuppetFactory, readable_id, until

QUICK = ExportSettings(every=0.01, close=5.0)


class Collector:
    """Keeps spans. ``open`` holds it up until it is set, ``arrives`` says what it answers."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.batches: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()
        self.arrives = True
        self.is_down = False

    def send(self, spans: Sequence[Span]) -> bool:
        self.entered.set()
        self.open.wait()
        self.batches.append(len(spans))
        if self.arrives:
            self.spans += spans
        return self.arrives

    def shutdown(self) -> None:
        self.is_down = True

    def named(self, name: str) -> Span:
        """The one span whose name begins so."""
        [span] = [span for span in self.spans if span.name.startswith(name)]
        return span


class Watched:
    """The hub, its telemetry, its clock."""

    def __init__(self, folder: Path, telemetry: Telemetry, collector: Collector, clock: FakeClock) -> None:
        self.folder = folder
        self.telemetry = telemetry
        self.collector = collector
        self.clock = clock
        self.puppets = PuppetFactory()
        self.journal = MemoryJournal(MemoryStore())
        factories: list[AgentFactory] = [ScriptedFactory(), self.puppets]
        self.registry = Registry(self.journal, factories, clock=clock, ids=readable_id, taps=[telemetry])

    async def session(self, kind: str = "puppet", **more: Any) -> Session:
        session = await self.registry.create(LOCAL, kind=kind, cwd=str(self.folder), agent="scripted", **more)
        await session.start(LOCAL)
        return session

    async def turn(self, session: Session, behave: Behaviour | None = None, text: str = "do it") -> str:
        """Run one turn to its end and return its id."""
        if behave is not None:
            self.puppets.behave = behave
        receipt = await session.submit(LOCAL, text, via="test", when_busy="queue")
        await until(lambda: not session.shown.turn and not session.shown.queue, "the turn ended")
        assert receipt.turn is not None
        return receipt.turn

    def value(self, name: str, **labels: str) -> float:
        """One number, 0 where there is none."""
        for family in self.telemetry.families():
            if family.name == name:
                key = tuple(labels[label] for label in family.labels)
                if isinstance(family, Counted):
                    return family.values.get(key, 0)
                return sum(family.counts.get(key, ()))
        raise AssertionError(f"there is no {name}")

    def labels(self, name: str) -> set[tuple[str, ...]]:
        """Every combination of labels that a family has."""
        [family] = [family for family in self.telemetry.families() if family.name == name]
        return set(family.values if isinstance(family, Counted) else family.counts)

    def sums(self, name: str) -> dict[tuple[str, ...], float]:
        """The sums of a distribution."""
        [family] = [family for family in self.telemetry.families() if family.name == name]
        assert isinstance(family, Distribution)
        return family.sums

    async def sent(self) -> list[Span]:
        """All spans, once telemetry has been closed."""
        await self.telemetry.close()
        return self.collector.spans


@asynccontextmanager
async def watching(folder: Path, *, really: bool = False, **settings: Any) -> AsyncIterator[Watched]:
    """A hub for as long as the block lasts; ``settings`` of ``[observability]``.

    ``really`` sends spans by OpenTelemetry's library, to where the settings say.
    """
    clock, collector = FakeClock(), Collector()
    given = msgspec.convert({"enabled": True, "export": QUICK, **settings}, ObservabilitySettings)
    telemetry = Telemetry(given, clock=clock, make_sender=None if really else lambda: collector)
    watched = Watched(folder, telemetry, collector, clock)
    await watched.registry.open()
    telemetry.start()
    try:
        yield watched
    finally:
        collector.open.set()
        await watched.registry.close(1.0)
        await telemetry.close()
