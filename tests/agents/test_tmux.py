"""Sessions that are panes of a real tmux: watched, driven, sized, signalled and left as they were."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.terminal.agent import TerminalFactory
from dragoman.agents.terminal.settings import TerminalSettings
from dragoman.hub.errors import InvalidRequest
from dragoman.hub.events import AgentExited, AgentStarted, TerminalResized
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.standing import Executor
from tests.hub.rig import Hub, InMemory, proven

from .private_tmux import PrivateTmux
from .pty_rig import alive, until

BOTH_LOOPS = True

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

QUIET = "stty -echo -icanon -isig; "
"""A pane whose terminal adds nothing of its own to what is typed."""


@pytest.fixture
def tmux(tmp_path: Path) -> Any:
    server = PrivateTmux(tmp_path)
    yield server
    server.close()


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    factory = TerminalFactory(TerminalSettings(), folder=tmp_path / "terminals", url=lambda name: f"url:{name}")
    async with proven(Hub(InMemory(), tmp_path, factories=[factory])) as made:
        yield made


class Rig:
    def __init__(self, hub: Hub, tmux: PrivateTmux) -> None:
        self.hub, self.tmux = hub, tmux

    async def attach(self, to: str = "tmux:work", **options: Any) -> Session:
        options = {"attach": to, "env": self.tmux.environment, **options}
        session = await self.hub.create("terminal", options=options)
        await session.start(LOCAL)
        return session


@pytest.fixture
def rig(hub: Hub, tmux: PrivateTmux) -> Rig:
    return Rig(hub, tmux)


def terminal(session: Session) -> Any:
    assert session.terminal is not None
    return session.terminal


def lines(session: Session) -> tuple[str, ...]:
    return tuple(terminal(session).screen.snapshot().lines)


def said(session: Session) -> bytes:
    return bytes(terminal(session).tape.read(0)[1])


async def shows(session: Session, text: str) -> None:
    await until(lambda: any(text in line for line in lines(session)), lambda: lines(session))


async def ended(session: Session) -> Any:
    await until(lambda: session.shown.exit is not None)
    return session.shown.exit


# What is seen


async def test_what_stood_in_the_pane_is_drawn_first_and_then_what_comes(rig: Rig) -> None:
    """Coop's issue: lines end in CR LF, so that none begins where the last one ended."""
    rig.tmux.open(r"printf 'one\n\033[31mtwo\033[m\n  three\n'; read x; printf 'more\nlines\n'; exec cat")
    await rig.tmux.shows("three")
    session = await rig.attach()
    await shows(session, "three")
    assert lines(session)[:4] == ("one", "two", "  three", "")
    assert [line for line in lines(session) if line] == rig.tmux.lines()
    assert b"\x1b[31mtwo" in said(session)
    terminal(session).write(b"\r")
    await shows(session, "lines")
    assert lines(session)[3:6] == ("", "more", "lines")
    assert b"more\r\nlines\r\n" in said(session), "output comes as the program wrote it"


async def test_the_pane_as_it_was_with_its_modes(rig: Rig) -> None:
    rig.tmux.open(r"printf 'below\033[?1049h\033[?1h\033[?25l\033[3;5Habove\033[2;3H'; exec cat")
    await rig.tmux.shows("above")
    session = await rig.attach()
    await shows(session, "above")
    shown = terminal(session).screen.snapshot()
    assert (shown.alt_screen, shown.cursor_visible) == (True, False)
    assert (shown.cursor.row, shown.cursor.col) == (1, 2)
    assert terminal(session).screen.modes.application_cursor_keys


async def test_only_the_pane_that_was_active_is_seen(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    session = await rig.attach()
    await until(lambda: said(session))
    rig.tmux.tmux("new-window", "-t", "work:", "echo elsewhere; exec cat")
    rig.tmux.tmux("send-keys", "-t", "work:0", "here", "Enter")
    await shows(session, "here")
    assert b"elsewhere" not in said(session)


async def test_tmux_alone_answers_what_the_program_asks(rig: Rig) -> None:
    rig.tmux.open(QUIET + r"printf 'ready'; read x; printf '\033[6n'; exec cat -v")
    await rig.tmux.shows("ready")
    session = await rig.attach()
    await shows(session, "ready")
    terminal(session).write(b"\n")
    await shows(session, "R")
    terminal(session).write(b"end")
    await shows(session, "end")
    assert lines(session)[0] == "ready^[[1;6Rend"


# What is typed


async def test_every_byte_arrives_as_it_is(rig: Rig) -> None:
    count = 256 * 8
    rig.tmux.open(
        f"stty raw -echo; echo ready; head -c {count} | {sys.executable} -S -c "
        f"'import sys; print(sys.stdin.buffer.read() == bytes(range(256)) * 8)'; exec cat"
    )
    await rig.tmux.shows("ready")
    session = await rig.attach()
    await shows(session, "ready")
    rig.tmux.tmux("copy-mode", "-t", "work:")
    terminal(session).write(bytes(range(256)) * 8)
    await until(lambda: terminal(session).bytes_written == count)
    assert await terminal(session).drained()
    await shows(session, "True")


async def test_control_characters_are_keys(rig: Rig) -> None:
    """``C-b`` is no prefix, ``C-c`` an interrupt."""
    rig.tmux.open("trap : INT; cat -v; echo again; exec cat")
    session = await rig.attach()
    terminal(session).write(b"a\x02\x1b[A\n")
    await shows(session, "a^B^[[A")
    assert terminal(session).press(["ctrl-c"]) == 1
    await shows(session, "again")


# Size


async def test_without_a_size_the_pane_keeps_its_own(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    session = await rig.attach()
    await until(lambda: said(session))
    assert (terminal(session).cols, terminal(session).rows) == (80, 24)
    assert (rig.tmux.ask("pane_width"), rig.tmux.ask("pane_height")) == ("80", "24")
    started = [fact for fact in await rig.hub.facts(session) if isinstance(fact, AgentStarted)]
    assert (started[0].cols, started[0].rows) == (80, 24)


async def test_a_resize_reaches_the_program(rig: Rig) -> None:
    rig.tmux.open("trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done")
    await rig.tmux.shows("ready")
    session = await rig.attach()
    await shows(session, "ready")
    terminal(session).resize(100, 30)
    await until(lambda: b"30 100" in said(session))
    assert (terminal(session).cols, terminal(session).rows) == (100, 30)


async def test_the_size_wanted_at_first(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    session = await rig.attach(cols=120)
    await until(lambda: terminal(session).cols == 120)
    assert (rig.tmux.ask("pane_width"), rig.tmux.ask("pane_height")) == ("120", "24")


async def test_one_pane_of_two_gets_the_size(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    rig.tmux.tmux("split-window", "-h", "-t", "work:", "exec cat")
    session = await rig.attach()
    await until(lambda: said(session))
    terminal(session).resize(70, 20)
    await until(lambda: rig.tmux.ask("pane_width") == "70" and rig.tmux.ask("pane_height") == "20")
    await until(lambda: (terminal(session).cols, terminal(session).rows) == (70, 20))


async def test_the_size_that_tmux_decides_on_is_followed(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    session = await rig.attach()
    await until(lambda: said(session))
    rig.tmux.tmux("resize-window", "-t", "work:", "-x", "60", "-y", "10")
    await until(lambda: (terminal(session).cols, terminal(session).rows) == (60, 10))
    terminal(session).resize(90, 40)  # the window's size is manual now: tmux does not give another one
    facts: list[TerminalResized] = []

    async def refused() -> bool:
        facts[:] = [fact for fact in await rig.hub.facts(session) if isinstance(fact, TerminalResized)]
        return len(facts) == 3

    while not await refused():
        await until(lambda: True)
    assert [(fact.cols, fact.rows) for fact in facts] == [(60, 10), (90, 40), (60, 10)]
    assert (terminal(session).cols, terminal(session).rows) == (60, 10)


# Signals


async def test_a_signal_goes_to_what_runs_in_the_foreground(rig: Rig) -> None:
    program = "sh -c \"trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.01; done\""
    rig.tmux.open(f"bash --norc --noprofile -ic {subprocess.list2cmdline([program + '; echo left; exec cat'])}")
    await rig.tmux.shows("ready")
    session = await rig.attach()
    shell = int(rig.tmux.ask("pane_pid"))
    assert terminal(session).pid == shell
    terminal(session).signal("INT")
    await rig.tmux.shows("caught")
    assert alive(shell)


async def test_a_signal_ends_the_program_and_so_the_session(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    session = await rig.attach()
    await until(lambda: said(session))
    terminal(session).signal("TERM")
    exit_ = await ended(session)
    assert (exit_.code, exit_.signal) == (None, None)


# The end


@pytest.mark.parametrize("end", ["kill-pane -t work:0", "kill-session -t work", "kill-server"])
async def test_when_the_pane_is_gone_the_session_has_ended_without_a_code(end: str, rig: Rig) -> None:
    """Spec 6.4: {null, null}."""
    rig.tmux.open("exec cat")
    rig.tmux.tmux("new-window", "-t", "work:", "exec cat")
    rig.tmux.open("exec cat", name="other")
    rig.tmux.tmux("select-window", "-t", "work:0")
    rig.tmux.tmux("set-option", "-g", "detach-on-destroy", "off")
    session = await rig.attach()
    await until(lambda: said(session))
    rig.tmux.tmux(*end.split())
    exit_ = await ended(session)
    assert (exit_.code, exit_.signal) == (None, None)
    assert terminal(session).pid is None
    if end != "kill-server":
        await until(lambda: not rig.tmux.clients(), "we have detached")


async def test_a_dead_pane_is_the_end_and_a_respawned_one_is_not(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    session = await rig.attach()
    await until(lambda: said(session))
    rig.tmux.tmux("respawn-pane", "-k", "-t", "work:", "echo another; exec cat")
    await shows(session, "another")
    await until(lambda: terminal(session).pid == int(rig.tmux.ask("pane_pid")))
    rig.tmux.tmux("set-option", "-t", "work:", "-w", "remain-on-exit", "on")
    terminal(session).signal("TERM")
    assert (await ended(session)).code is None
    assert rig.tmux.sessions() == ["work"]


async def test_closing_detaches_only(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    rig.tmux.tmux("set-environment", "-t", "work", "DISPLAY", "mine")
    session = await rig.attach()
    await until(lambda: said(session))
    program = terminal(session).pid
    await session.close("enough")
    await until(lambda: not rig.tmux.clients())
    assert rig.tmux.sessions() == ["work"]
    assert alive(program)
    assert rig.tmux.tmux("show-environment", "-t", "work", "DISPLAY") == "DISPLAY=mine"
    exits = [fact for fact in await rig.hub.facts(session) if isinstance(fact, AgentExited)]
    assert [(fact.cause, fact.code, fact.signal) for fact in exits] == [("closed", None, None)]


async def test_attaching_again_goes_on_with_the_tape(rig: Rig) -> None:
    rig.tmux.open("echo first; exec cat")
    session = await rig.attach()
    await shows(session, "first")
    client = int(rig.tmux.clients()[0])
    os.kill(client, 9)
    await ended(session)
    before = terminal(session).tape.end
    await session.start(LOCAL)
    await shows(session, "first")
    assert terminal(session).tape.end > before


async def test_what_a_lost_server_watched_is_not_ended(rig: Rig) -> None:
    rig.tmux.open("exec cat")
    session = await rig.attach()
    await until(lambda: said(session))
    lost = session.shown.executor
    assert isinstance(lost, Executor)
    factory = TerminalFactory(TerminalSettings(), folder=Path("/nonexistent"), url=str)
    await factory.recover(session, lost)
    await until(lambda: not rig.tmux.clients(), "its client is ended")
    assert rig.tmux.sessions() == ["work"]
    assert alive(int(rig.tmux.ask("pane_pid")))


# What cannot be


async def test_a_session_that_is_not_there(rig: Rig) -> None:
    with pytest.raises(InvalidRequest, match="tmux:work: "):
        await rig.attach()  # no server: none is started
    rig.tmux.open("exec cat", name="workshop")
    for name in ("work", "w*", "%9", "workshop:7", "$9"):
        with pytest.raises(InvalidRequest, match="can't find"):
            await rig.attach(f"tmux:{name}")
    assert rig.tmux.sessions() == ["workshop"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"attach": "screen:work"}, "screen"),
        ({"attach": "work"}, "tmux:NAME"),
        ({"attach": "tmux:work", "command": ["cat"]}, "together"),
        ({"attach": "tmux:work", "agent_config": {"mcp": {}}}, "agent_config"),
        ({"attach": "tmux:work", "env": {"PATH": "/nonexistent"}}, "tmux"),
        ({}, "command is empty"),
    ],
)
async def test_options_that_do_not_fit(options: dict[str, Any], says: str, hub: Hub) -> None:
    with pytest.raises(InvalidRequest, match=says):
        await hub.create("terminal", options=options)
