"""An agent on a terminal of ours, driven by keys: what the recorder looks at. No server, no driver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from dragoman.agents.terminal.findings import ProgramStatus, Reply, Title
from dragoman.agents.terminal.pty import Pty
from dragoman.agents.terminal.screen import PyavtScreen

from .homes import Home

COLS, ROWS = 120, 40
LIMIT = 30.0
QUIET = 0.6
"""Seconds without output after which a screen is taken for finished."""

PASTE_PAUSE = 0.3
"""Seconds between a paste and the key that submits it."""

KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "tab": "\t",
    "shift-tab": "\x1b[Z",
    "ctrl-c": "\x03",
    "ctrl-u": "\x15",
}


class Driven:
    """One agent on a terminal of 120 by 40."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.screen = PyavtScreen(COLS, ROWS)
        self.title: str | None = None
        self.titles: list[str] = []
        self.status: list[str] = []
        self.exit: tuple[int | None, int | None] | None = None
        self.output = bytearray()
        self._wrote = time.monotonic()
        env = {**home.env, "COOP": "1"}
        self.pty = Pty.spawn(
            home.command,
            cwd=str(home.cwd),
            env=env,
            cols=COLS,
            rows=ROWS,
            on_data=self._data,
            on_exit=self._exit,
        )

    def _data(self, chunk: bytes) -> None:
        offset = len(self.output)
        self.output += chunk
        self._wrote = time.monotonic()
        for finding in self.screen.feed(chunk, offset):
            if isinstance(finding, Reply):
                self.pty.write(finding.data)
            elif isinstance(finding, Title):
                self.title = finding.text
                self.titles.append(finding.text)
            elif isinstance(finding, ProgramStatus):
                self.status.append(finding.payload)

    def _exit(self, code: int | None, signal: int | None) -> None:
        self.exit = (code, signal)

    @property
    def lines(self) -> list[str]:
        return list(self.screen.snapshot().lines)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def until(self, condition: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
        deadline = time.monotonic() + limit
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {limit:g} s: {what}\n{self.text}")
            await asyncio.sleep(0.02)
        return value

    async def shows(self, pattern: str, limit: float = LIMIT) -> None:
        """Wait until a line matches, and until the screen is finished."""
        await self.until(lambda: re.search(pattern, self.text), f"{pattern!r} on the screen", limit)

    async def quiet(self, seconds: float = QUIET, limit: float = LIMIT) -> None:
        await self.until(lambda: time.monotonic() - self._wrote > seconds, f"{seconds} s without output", limit)

    async def key(self, *names: str) -> None:
        for name in names:
            self.pty.write(KEYS.get(name, name).encode())
            await asyncio.sleep(0.15)

    async def submit(self, text: str) -> None:
        self.pty.write(f"\x1b[200~{text}\x1b[201~".encode())
        await asyncio.sleep(PASTE_PAUSE)
        self.pty.write(b"\r")


@contextlib.asynccontextmanager
async def driven(home: Home) -> AsyncIterator[Driven]:
    agent = Driven(home)
    try:
        yield agent
    finally:
        await agent.pty.terminate()
        await agent.pty.wait_closed()


class ModelServer:
    """The scripted model as a process of its own."""

    def __init__(self) -> None:
        line = [sys.executable, "-m", "tests.e2e.model_server", "--port", "0"]
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, cwd=root)
        assert self.process.stdout is not None
        self.port: int = json.loads(self.process.stdout.readline())["port"]

    def journal(self) -> list[dict[str, Any]]:
        """Every request so far, oldest first."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/journal", timeout=LIMIT) as answer:
            entries: list[dict[str, Any]] = json.load(answer)
        return entries

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
