"""What a link does not show costs it nothing: it is not even woken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.agents.terminal.terminal import PtyTerminal
from dragoman.dialects.base import Upgrade
from dragoman.dialects.coop.link import CoopLink
from dragoman.hub.events import StateChanged
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.hub.rig import until

from .harness import Servers
from .oracle import OffsetOracle
from .programs import READY, command, order, pattern
from .test_decode import Opened, Wire
from .test_slow import slow_link

PICTURES = 450
FULL = 3000
"""Bytes of one picture."""

QUEUE = 256
"""Messages that coop's own queue held."""

RING = 2 << 20
"""The server's ring, which a link may lag behind and still get every byte."""

MODES = ("raw", "screen", "state", "all")


class Counting(Wire):
    """Counts how often its link has something to say, and knows how the link closed itself."""

    woken = 0
    closed: int | None = None

    def wake(self) -> None:
        self.woken += 1

    def close(self, code: int, reason: str = "") -> None:
        assert reason
        self.closed = code


class Told:
    """Counts what a terminal tells those who watch it."""

    grew = changed = 0

    def readers(self) -> tuple[()]:
        return ()

    def tape_grew(self) -> None:
        self.grew += 1

    def screen_changed(self) -> None:
        self.changed += 1

    def resized(self) -> None: ...


class Quiet:
    """A session of ``cat``, and one link of each mode that somebody counts the wakes of."""

    def __init__(self, session: Session, wires: dict[str, Counting], links: list[CoopLink]) -> None:
        self.session = session
        self.wires = wires
        self.links = links

    @property
    def terminal(self) -> PtyTerminal:
        terminal = self.session.terminal
        assert isinstance(terminal, PtyTerminal)
        return terminal

    def woken(self) -> dict[str, int]:
        """How often each was woken since the last time."""
        counts = {mode: wire.woken for mode, wire in self.wires.items()}
        for wire in self.wires.values():
            wire.woken = 0
        return counts

    async def record(self, state: str) -> None:
        """One more state, on disk."""
        change = StateChanged(prev=self.session.state.status.state, next=state, cause="test")
        await self.session.durable(self.session.record(change).seq)


@pytest.fixture
async def quiet(tmp_path: Path) -> AsyncIterator[Quiet]:
    opened = Opened(tmp_path)
    await opened.registry.open()
    session = await opened.registry.create(LOCAL, kind="terminal", cwd="/", options={"command": ["cat"]})
    await session.start(LOCAL)
    session.control(LOCAL).write(b"ready\r")
    await until(lambda: session.shown.status.state == "working")
    terminal = session.terminal
    assert isinstance(terminal, PtyTerminal)
    await until(lambda: terminal.tape.read(0)[1] == b"ready\r\n" * 2, lambda: terminal.tape.read(0))
    wires = {mode: Counting() for mode in MODES}
    links: list[CoopLink] = []
    for mode, wire in wires.items():
        upgrade = Upgrade(path="/ws", query={"mode": mode}, bearer=None, peer="127.0.0.1", loopback=True)
        link = await opened.dialect.open(upgrade, wire)
        assert isinstance(link, CoopLink)
        links.append(link)
    yield Quiet(session, wires, links)
    for link in links:
        link.lost()
    await opened.registry.close()


async def test_output_and_pictures_wake_those_that_show_them(quiet: Quiet) -> None:
    told = Told()
    stop = quiet.terminal.watch(told)
    quiet.woken()
    for number in range(20):
        quiet.session.control(LOCAL).write(b"%d\r" % number)
        await until(lambda shown=b"%d\r\n" % number: quiet.terminal.tape.read(0)[1].endswith(shown * 2))
    await until(lambda: told.changed)
    stop()
    assert quiet.woken() == {
        "raw": told.grew,
        "screen": told.changed,
        "state": 0,
        "all": told.grew + told.changed,
    }


async def test_what_is_logged_wakes_those_that_show_states(quiet: Quiet) -> None:
    told = Told()
    stop = quiet.terminal.watch(told)
    quiet.woken()
    for number in range(100):
        await quiet.record("idle" if number % 2 else "working")
    stop()
    woken = quiet.woken()
    assert (woken["raw"], woken["screen"]) == (told.grew, told.changed), "only by what was still on its way"
    assert woken["state"] > 0
    assert woken["all"] > told.grew + told.changed


async def test_a_session_that_is_closed_closes_them_all(quiet: Quiet) -> None:
    await quiet.session.close("test")
    for link in quiet.links:
        await until(lambda pull=link.pull: pull() is None)
    await until(lambda: {mode: wire.closed for mode, wire in quiet.wires.items()} == dict.fromkeys(MODES, 1001))


async def test_pictures_push_no_bytes_out(servers: Servers) -> None:
    """More pictures than any queue would hold, while a link reads nothing and misses less than one ring of bytes."""
    server = servers.start(*command("puppet"), args=["--ring-size", str(RING)], env={"COOP_SCREEN_DEBOUNCE_MS": "1"})
    server.wait_for_output(READY)
    async with server.link("screen") as watcher, slow_link(server, "mode=all") as link:
        said = []
        start = (await watcher.status())["bytes_read"]
        for number in range(PICTURES):
            said.append(b"\x1b[2J\x1b[H" + pattern(FULL) + b"[%d]" % number)
            await watcher.type(order("write", said[-1]))
            last = await watcher.screen_until(f"[{number}]")
        truth = b"".join(said)
        assert len(truth) < RING
        oracle = OffsetOracle(truth=truth, base=start)
        while oracle.end < start + len(truth) or not any(frame.get("lines") == last["lines"] for frame in link.frames):
            for frame in await link.read(1 << 16):
                oracle.take(frame)
        assert (oracle.gaps, oracle.overlaps, oracle.conflicts) == ([], [], [])
        assert oracle.joined(start, start + len(truth)) == truth
        pictures = [frame["seq"] for frame in link.frames if frame["event"] == "screen"]
        outputs = sum(frame["event"] == "output" for frame in link.frames)
        assert PICTURES - outputs > QUEUE, "it did not stall for long enough to show anything"
        assert pictures == sorted(set(pictures))
        assert pictures[-1] == last["seq"]
