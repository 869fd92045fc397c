"""`dragoman attach` as a person sees it: in a real terminal (tmux), on a real server."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.process import Served, eventually

TOKEN = "token-of-this-test"

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Window:
    """A tmux window of its own server."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")

    def tmux(self, *words: str) -> str:
        line = ["tmux", "-S", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(line, capture_output=True, text=True, check=True, timeout=10).stdout

    def open(self, command: str) -> None:
        self.tmux("new-session", "-d", "-x", "80", "-y", "20", f"{command}; echo left with $?; exec sleep 1000")

    def type(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def lines(self) -> list[str]:
        return self.tmux("capture-pane", "-p").splitlines()

    async def shows(self, text: str) -> list[str]:
        def seen() -> list[str]:
            lines = self.lines()
            return lines if any(text in line for line in lines) else []

        try:
            return await eventually(seen, f"the window shows {text!r}", 15)
        except AssertionError as missing:
            raise AssertionError("\n".join([str(missing), *self.lines()])) from None

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
async def window(tmp_path: Path) -> AsyncIterator[Window]:
    shown = Window(tmp_path)
    yield shown
    await asyncio.to_thread(shown.close)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    server = Served(tmp_path / "server")
    await server.start()
    yield server
    if server.process is not None:
        server.kill()


def attach(served: Served, session: str) -> str:
    url = f"http://127.0.0.1:{served.ready['port']}"
    return f"{sys.executable} -m dragoman attach --url {url} {session[:8]}"


async def shell(served: Served, **asking: str) -> str:
    """A session with a plain shell; its id."""
    env = {"PS1": "> ", "ENV": "", "PATH": os.environ["PATH"]}
    asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": ["sh"], "env": env}}
    return str((await served.asked("POST", "/sessions", asked, **asking))["session"])


async def test_one_types_leaves_and_comes_back(served: Served, window: Window) -> None:
    session = await shell(served)
    window.open(attach(served, session))
    await window.shows(">")
    window.type("stty size; echo from $((40+2))", "Enter")
    assert "20 80" in await window.shows("from 42")
    window.type("C-]")
    lines = await window.shows("left with 0")
    assert any("[detached; the program goes on]" in line for line in lines)
    assert (await served.asked("GET", f"/sessions/{session}"))["status"] == "working"
    window.tmux("respawn-pane", "-k", f"{attach(served, session)}; echo left with $?; exec sleep 1000")
    await window.shows("from 42")
    window.type("echo b''ye; exit 3", "Enter")
    lines = await window.shows("left with 3")
    assert "bye" in lines, "the last output is shown too"
    assert lines.index("bye") < lines.index("[ended: code 3]")


async def test_a_program_follows_the_window_on_a_server_with_a_token(tmp_path: Path, window: Window) -> None:
    """The first size and each that follows: none is refused for want of the token."""
    server = Served(tmp_path / "server", "--token", TOKEN)
    await server.start()
    try:
        session = await shell(server, token=TOKEN)
        window.open(f"DRAGOMAN_TOKEN={TOKEN} {attach(server, session)}")
        await window.shows(">")
        window.type("stty size", "Enter")
        await window.shows("20 80")
        window.tmux("resize-window", "-x", "93", "-y", "27")
        await eventually(
            lambda: server.ask("GET", f"/sessions/{session}/screen", token=TOKEN)[1]["cols"] == 93, "the size"
        )
        window.type("stty size", "Enter")
        await window.shows("27 93")
    finally:
        server.kill()


async def test_what_follows_is_written_below_what_was_shown(served: Served, window: Window) -> None:
    session = await shell(served)
    window.open(attach(served, session))
    await window.shows(">")
    window.type(r"printf '\0337\033[?1049h\033[5;5Hfull screen'; read x; printf '\033[?1049l'; seq 30", "Enter")
    await window.shows("full screen")
    window.type("Enter")
    await window.shows("30")
    window.type("C-]")
    lines = [line for line in await window.shows("left with 0") if line]
    assert lines.index("left with 0") > lines.index("30")
    assert "left with 0" in lines[-1]


async def test_a_server_that_went_away_is_said_and_waited_for(served: Served, window: Window) -> None:
    session = await shell(served)
    window.open(attach(served, session))
    await window.shows(">")
    served.kill()
    await window.shows("the server is away")
    window.type("C-]")
    await window.shows("left with 0")
