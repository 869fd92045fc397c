"""One person's machine: a HOME with agents in it and our hooks installed, and a server of that person's."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.dialects.cin.recorded.bridge import Bridge, Link
from tests.e2e import clis
from tests.e2e.driven import PASTE_PAUSE, Driven, ModelServer, driven
from tests.e2e.homes import Home, make_home

READY = {
    "claude": "\n\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}",
    "codex": "\n\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} ",
    "gemini": "Type your message",
}
"""What shows that an agent takes prompts."""

DIALOG = {"claude": "Do you want to proceed", "codex": "Would you like to", "gemini": "Allow execution"}
"""What shows that it asks for a permission."""

ASKING = {"claude": "[[bash:touch {}]]", "codex": "[[esc:touch {}]]", "gemini": "[[bash:touch {}]]"}
"""What the model is to be told for a tool that needs one."""


TRIES, TAKEN = 3, 5.0
"""How often a prompt is typed that an agent did not take, as one does that is busy drawing, and for how many seconds
it is waited for."""

DRAWN = 0.4
"""Seconds without output after which an agent's screen is taken for drawn, and takes keys."""


async def submit(running: Driven, text: str) -> None:
    """Paste it, and send it off once it is shown: a key that comes with a paste would be taken for a part of it."""
    shown = running.text.count(text)

    def is_there() -> bool:
        return running.text.count(text) > shown

    for _ in range(TRIES):
        running.pty.write(f"\x1b[200~{text}\x1b[201~".encode())
        with contextlib.suppress(AssertionError):
            await running.until(is_there, f"{text!r} in the input box", TAKEN)
            break
        await running.key("ctrl-u")
    assert is_there(), running.text
    await asyncio.sleep(PASTE_PAUSE)
    await running.key("enter")


@dataclass
class Scene:
    """An agent on a terminal, and a link that hears of it from before its start."""

    house: House
    agent: str
    cwd: Path
    link: Link
    running: Driven

    async def says(self, text: str) -> None:
        """The person's prompt."""
        await submit(self.running, text)

    async def asks(self, name: str) -> None:
        """Have the agent ask whether it may make a file of that name."""
        await self.says(ASKING[self.agent].format(name))

    async def dialog(self) -> None:
        """Wait until it asks at its terminal, and takes keys."""
        await self.running.shows(DIALOG[self.agent])
        await self.quiet()

    async def quiet(self) -> None:
        """Wait until its screen is drawn."""
        await self.running.quiet(DRAWN)

    def made(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.cwd / name).exists()


class House(Bridge):
    """See the module. ``folder`` must not lie below one that others may write to."""

    def __init__(self, folder: Path, model: ModelServer) -> None:
        self.places = folder / "projects"
        self._model = model
        self._agents: dict[str, Home] = {}
        self._projects = 0
        super().__init__(folder)
        # where it is set, Claude looks for all its settings there
        del self._env["CLAUDE_CONFIG_DIR"]

    def project(self) -> Path:
        """A new folder to work in."""
        self._projects += 1
        return self.places / f"project-{self._projects}"

    def home_of(self, agent: str, cwd: Path) -> Home:
        """How the person starts it in that folder. At first it is made ready and gets our hooks; skips the test where
        the agent cannot be had."""
        if agent not in self._agents:
            try:
                # the folder above all projects is trusted
                ready = make_home(agent, self.home, self.places, self._model.port)
            except clis.Unavailable as missing:
                pytest.skip(str(missing))
            self.hooks("install", agent)
            self._agents[agent] = ready
        cwd.mkdir(parents=True, exist_ok=True)
        return replace(self._agents[agent], cwd=cwd)

    async def start_beside(self, *homes: Home) -> None:
        """Start the server as those agents are started: what it starts itself finds them and the model."""
        programs = self.home.parent / "bin"
        programs.mkdir()
        for home in homes:
            program = programs / home.agent
            program.write_text(f'#!/bin/sh\nexec {shlex.join(home.command)} "$@"\n')
            program.chmod(0o755)
            self._env |= home.env
        self._env["PATH"] = f"{programs}:{self._env['PATH']}"
        await self.start()

    def hooks(self, *words: str) -> str:
        """``dragoman hooks`` with these words; what it says."""
        line = [sys.executable, "-m", "dragoman", "hooks", *words, "--data", str(self.data)]
        done = subprocess.run(line, env=self._env, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.home.parent / "data"

    @contextlib.asynccontextmanager
    async def starts(self, agent: str, cwd: Path) -> AsyncIterator[Driven]:
        """The agent on a terminal, ready for a prompt."""
        async with driven(self.home_of(agent, cwd)) as running:
            await running.shows(READY[agent])
            if agent == "gemini":  # what is typed at once it does not take
                await running.quiet()
            yield running

    @contextlib.asynccontextmanager
    async def scene(self, agent: str) -> AsyncIterator[Scene]:
        """The agent in a folder of its own, and a link."""
        cwd = self.project()
        self.home_of(agent, cwd)
        async with self.link() as link, self.starts(agent, cwd) as running:
            yield Scene(self, agent, cwd, link, running)
