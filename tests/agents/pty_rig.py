"""What the tests of real terminals share: a program with its output gathered, and waiting for conditions."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dragoman.agents.terminal.pty import Pty

LIMIT = 10.0
"""Seconds after which a condition that should hold soon is taken for false."""

ENV = {"PATH": os.environ.get("PATH", os.defpath), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


async def until(condition: Callable[[], Any], what: object = None, limit: float = LIMIT) -> Any:
    """Wait until the condition gives something true, and return it."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit:g} s: {what() if callable(what) else what or condition}")
        await asyncio.sleep(0.005)
    return value


def alive(pid: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


def open_fds() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


class Run:
    """A program on a terminal, and everything it said. ``also`` gets each chunk too."""

    def __init__(
        self,
        *command: str,
        cols: int = 80,
        rows: int = 24,
        cwd: str = ".",
        also: Callable[[bytes], object] = lambda _chunk: None,
        **options: Any,
    ) -> None:
        self.also = also
        self.chunks: list[bytes] = []
        self.exits: list[tuple[int | None, int | None]] = []
        self.size_at_exit: int | None = None
        env = options.pop("env", {})
        self.pty = Pty.spawn(
            command,
            cwd=cwd,
            env={**ENV, **env},
            cols=cols,
            rows=rows,
            on_data=self._said,
            on_exit=self._exited,
            **options,
        )

    def _said(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.also(chunk)

    def _exited(self, code: int | None, signal: int | None) -> None:
        self.exits.append((code, signal))
        self.size_at_exit = len(self.output)

    @property
    def output(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def text(self) -> str:
        return self.output.decode(errors="backslashreplace")

    @property
    def lines(self) -> list[str]:
        return self.text.replace("\r\n", "\n").splitlines()

    async def says(self, text: str) -> str:
        """Wait until the text is in the output."""
        await until(lambda: text in self.text, lambda: f"{text!r} in {self.text!r}")
        return self.text

    async def end(self, limit: float = LIMIT) -> tuple[int | None, int | None]:
        """Wait until all is over and return code and signal, which must have come once, after the last byte."""
        async with asyncio.timeout(limit):
            await self.pty.wait_closed()
        assert len(self.exits) == 1
        assert self.size_at_exit == len(self.output) == self.pty.bytes_read
        return self.exits[0]

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.pty.resume()
        await self.pty.terminate()
        await self.end()


def python(code: str) -> Sequence[str]:
    """The command that runs a piece of Python, without the site module so that it starts fast."""
    return sys.executable, "-S", "-c", code
