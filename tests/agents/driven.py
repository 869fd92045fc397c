# ruff: noqa: RUF001 - the signs are those that the agents draw
"""A driven agent in the test's own loop: a hub, a real terminal, the driver, and a program that the test chooses."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.agents.terminal.agent import TerminalAgent, TerminalFactory
from dragoman.agents.terminal.drivers.settings import DriverSettings
from dragoman.agents.terminal.settings import TerminalSettings
from dragoman.hub.events import DecisionOpened, StateChanged
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.agents.tui.screens import dialog
from tests.hub.rig import Hub, InMemory, proven, until

STORYBOARD = Path(__file__).with_name("drivers") / "storyboard.py"
DATA = Path(__file__).parents[1] / "data" / "agents"
COLS, ROWS = 120, 40


class Read(NamedTuple):
    """One read of a storyboard: when, at which step, what."""

    at: float
    step: int
    text: str


class Driven:
    """One session and what its log says."""

    def __init__(self, hub: Hub, session: Session, folder: Path) -> None:
        self.hub = hub
        self.session = session
        self.folder = folder

    @property
    def agent(self) -> TerminalAgent:
        agent = self.session.ensure_agent()
        assert isinstance(agent, TerminalAgent)
        return agent

    @property
    def state(self) -> str:
        return self.session.shown.status.state

    async def becomes(self, state: str) -> None:
        await until(lambda: self.state == state, lambda: f"{state}, not {self.state}\n{self.picture}")

    @property
    def picture(self) -> str:
        screen = self.agent.terminal.screen
        assert screen is not None
        return "\n".join(line for line in screen.snapshot().lines if line)

    async def facts(self, *kinds: type) -> list[Any]:
        return [fact for fact in await self.hub.facts(self.session) if isinstance(fact, kinds)]

    async def states(self) -> list[str]:
        return [fact.next for fact in await self.facts(StateChanged)]

    async def asked(self) -> DecisionOpened:
        """The dialog that is open, once one is."""
        await self.becomes("prompt")
        (decision,) = self.session.state.decisions.values()
        return decision

    @property
    def reads(self) -> list[Read]:
        """What the storyboard has read."""
        log = self.folder / "reads"
        return [Read(*json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []

    def typed(self, step: int | None = None) -> str:
        """All that was typed, or what was typed at one step."""
        return "".join(read.text for read in self.reads if step in (None, read.step))


@contextlib.asynccontextmanager
async def driven(
    folder: Path, *command: str, groom: str = "auto", settings: dict[str, Any] | None = None, **driver: Any
) -> AsyncIterator[Driven]:
    """Claude, as far as the driver knows; in truth ``command``. ``driver`` are settings of the driver."""
    terminals = TerminalSettings(cols=COLS, rows=ROWS, driver=DriverSettings(**driver))
    factory = TerminalFactory(terminals, folder=folder / "terminals", url=lambda _: "http://127.0.0.1:1")
    async with proven(Hub(InMemory(), folder, factories=[factory])) as hub:
        options = {"command": list(command), "groom": groom, "env": {"HOME": str(folder)}}
        session = await hub.create("terminal", agent="claude", options=options, settings=settings)
        await session.start(LOCAL)
        yield Driven(hub, session, folder)


def shot(moment: str, edit: Callable[[list[str]], list[str]] = list, **leads_on: Any) -> dict[str, Any]:
    """A recorded screen of Claude Code as a step of a storyboard; see there for what leads on."""
    recorded = json.loads((DATA / "claude" / f"{moment}.json").read_text())
    return {"lines": edit(recorded["lines"]), "cursor": recorded["cursor"], **leads_on}


def at_row(moment: str, row: int, edit: Callable[[list[str]], list[str]] = list, **leads_on: Any) -> dict[str, Any]:
    """``shot`` of a dialog whose marker has gone to a row, from 0."""
    at = dialog("claude", moment).rows[row].line

    def moved(lines: list[str]) -> list[str]:
        plain = [line.replace("❯", " ") for line in edit(lines)]
        plain[at] = plain[at].replace(f"  {row + 1}. ", f"❯ {row + 1}. ", 1)
        return plain

    return shot(moment, moved, **leads_on)


def page(*lines: str, **leads_on: Any) -> dict[str, Any]:
    """A screen with these lines."""
    return {"lines": lines, "cursor": [len(lines), 0], **leads_on}


@contextlib.asynccontextmanager
async def storyboard(folder: Path, *steps: dict[str, Any], **more: Any) -> AsyncIterator[Driven]:
    """``driven`` with a storyboard for its agent."""
    told = folder / "storyboard.json"
    told.write_text(json.dumps({"log": str(folder / "reads"), "steps": steps}))
    async with driven(folder, sys.executable, "-S", str(STORYBOARD), str(told), **more) as agent:
        yield agent


def gaps(reads: Iterable[Read]) -> list[float]:
    """Seconds between each read and the next."""
    times = [read.at for read in reads]
    return [later - earlier for earlier, later in itertools.pairwise(times)]
