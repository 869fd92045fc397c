"""Fixtures: a real server, and a real terminal (a tmux window) to talk with it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults.process import Message, Served, eventually
from tests.server.test_attach import Window


class Chat:
    """``dragoman chat`` in a terminal of 80 by 20."""

    def __init__(self, window: Window, folder: Path, served: Served | None) -> None:
        self.window = window
        self.folder = folder
        self.served = served

    def open(self, *flags: str, again: bool = False, env: dict[str, str] | None = None) -> None:
        """Start it, in an empty window; what it leaves behind, and its exit code, stay on the screen."""
        given = {"DRAGOMAN_DATA": str(self.folder / "own"), "DRAGOMAN_PORT": "0", **(env or {})}
        if self.served is not None:
            given["DRAGOMAN_URL"] = f"http://127.0.0.1:{self.served.ready['port']}"
        line = ["env", *(f"{name}={value}" for name, value in given.items())]
        line += [sys.executable, "-m", "dragoman", "chat", *flags]
        if again:
            self.window.tmux("respawn-pane", "-k", f"{shlex.join(line)}; echo left with $?; exec sleep 1000")
        else:
            self.window.open(shlex.join(line))

    async def opened(self, *flags: str, env: dict[str, str] | None = None) -> None:
        """Start it with a scripted session in this test's own folder, and wait for its prompt."""
        self.open("--kind", "scripted", "--cwd", str(self.folder), *flags, env=env)
        await self.shows("/help says")

    def enter(self, *lines: str) -> None:
        """Type lines with Alt-Enter between them, and Enter behind them."""
        for line in lines[:-1]:
            self.window.tmux("send-keys", "-l", "--", line)
            self.window.type("M-Enter")
        self.window.tmux("send-keys", "-l", "--", lines[-1])
        self.window.type("Enter")

    async def shows(self, text: str) -> list[str]:
        return await self.window.shows(text)

    async def session(self) -> str:
        """The only session of this test."""
        assert self.served is not None
        rows = (await self.served.asked("GET", "/sessions"))["sessions"]
        (session,) = (row["session"] for row in rows if row["cwd"] == str(self.folder))
        return str(session)

    async def snapshot(self) -> Message:
        assert self.served is not None
        return dict(await self.served.asked("GET", f"/sessions/{await self.session()}"))

    async def is_idle(self) -> None:
        """Wait until no turn is open, which the server says."""
        assert self.served is not None
        session = await self.session()
        served = self.served
        await eventually(lambda: served.ask("GET", f"/sessions/{session}")[1]["status"] == "idle", "idle")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all tests of a file that leave it alive."""
    server = Served(tmp_path_factory.mktemp("shared"))
    asyncio.run(server.start())
    yield server
    server.kill()


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[Served]:
    """One that is there to be killed."""
    server = Served(tmp_path / "server")
    await server.start()
    yield server
    if server.process is not None:
        server.kill()


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Window]:
    yield (shown := Window(tmp_path))
    shown.close()


@pytest.fixture
def chat(served: Served, window: Window, tmp_path: Path) -> Chat:
    return Chat(window, tmp_path, served)


@pytest.fixture
def alone(window: Window, tmp_path: Path) -> Chat:
    """Without a server: nothing answers where one would be looked for."""
    return Chat(window, tmp_path, None)


async def by_lines(
    served: Served, *flags: str, typed: bytes = b"", env: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """``dragoman chat`` on pipes: exit code, stdout, stderr."""
    url = f"http://127.0.0.1:{served.ready['port']}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "chat", "--url", url, *flags),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "DRAGOMAN_DATA": str(served.folder / "own"), **(env or {})},
    )
    out, problems = await asyncio.wait_for(process.communicate(typed), 20)
    assert process.returncode is not None
    return process.returncode, out.decode(), problems.decode()
