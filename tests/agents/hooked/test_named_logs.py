"""Session logs that hooks name, from the post to what is told: nobody has files read to them by naming them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.hooked.factory import HookedFactory
from dragoman.agents.hooked.intake import OWNER, Intake
from dragoman.agents.hooked.settings import HookedSettings
from dragoman.agents.hooked.watchers import Watchers
from dragoman.hub.events import encode_fact
from dragoman.hub.ports import HookChannel
from tests.agents.hooked.posts import Life, post
from tests.hub.rig import Hub, InMemory

LIFE = Life("claude", "10900000-0000-4000-8000-000000000001")
OTHER = Life("claude", "10900000-0000-4000-8000-000000000002")
MARK = "the-contents-of-a-file"

MOST = 1000
"""Hundredths of a second that a test waits."""


def record(life: Life, text: str) -> str:
    """A line of a transcript, as of somebody who said this."""
    message = {"id": f"msg_{text}", "role": "assistant", "content": [{"type": "text", "text": text}]}
    made = {"type": "assistant", "sessionId": life.session, "cwd": life.cwd, "uuid": text, "message": message}
    return json.dumps(made) + "\n"


class Home:
    """A user's home, a hub, the intake, and what reads the logs that it is told of."""

    def __init__(self, folder: Path, hub: Hub, intake: Intake) -> None:
        self.folder = folder
        self.hub = hub
        self.intake = intake
        self._rounds = 0
        self.projects = folder / "home" / ".claude" / "projects" / "-home-dev-project"
        self.projects.mkdir(parents=True)

    async def name(self, life: Life, path: Path | str, channel: HookChannel) -> None:
        payload = life.prompt(f"by {channel}") | {"transcript_path": str(path)}
        await self.intake.take(post(payload, channel, agent=life.agent))

    async def all_that_is_told(self) -> str:
        texts: list[str] = []
        for row in self.hub.registry.rows(OWNER):
            texts += [encode_fact(event.fact).decode() for event in await self.hub.log(row.session)]
        return "\n".join(texts)

    async def read_on(self) -> None:
        """Wait until what was named by now was looked at, and what was written since was read: the true one's was."""
        true = self.projects / f"{OTHER.session}.jsonl"
        true.write_text("")
        await self.name(OTHER, true, "socket")
        self._rounds += 1
        words, count = f"true-words-{self._rounds}-", 0
        while words not in await self.all_that_is_told():
            count += 1
            with true.open("a") as file:
                file.write(record(OTHER, f"{words}{count}"))
            await asyncio.sleep(0.01)
            assert count < MOST, "the true log is not read"

    async def reads(self, text: str) -> None:
        """Wait until this was read in some log."""
        count = 0
        while text not in await self.all_that_is_told():
            count += 1
            await asyncio.sleep(0.01)
            assert count < MOST, f"{text} is not read"


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[Home]:
    settings = HookedSettings(watch=(), look=0.01, discover=0.01)
    factory = HookedFactory(settings)
    (folder / "work").mkdir()
    hub = Hub(InMemory(), folder / "work", factories=[factory])
    await hub.open()
    intake = Intake(hub.registry, factory, settings)
    await intake.open()
    made = Home(folder, hub, intake)
    watchers = Watchers(intake, settings, home=folder / "home", environ={})
    intake.transcript_named = watchers.named
    await watchers.open()
    try:
        yield made
    finally:
        await watchers.close()
        await intake.close()
        await hub.close()


def outside(at: Home) -> Path:
    """A log of this session, where no agent keeps any."""
    path = at.folder / f"{LIFE.session}.jsonl"
    path.write_text(record(LIFE, "older"))
    return path


def password_file(at: Home) -> Path:
    path = at.folder / "passwd"
    path.write_text(f"root:x:0:0:{MARK}:/root:/bin/sh\n")
    return path


def linked(at: Home) -> Path:
    """A name in the right folder that leads elsewhere."""
    path = at.projects / f"{LIFE.session}.jsonl"
    path.symlink_to(outside(at))
    return path


def up_and_away(at: Home) -> str:
    outside(at)
    return f"{at.projects}/../../../../{LIFE.session}.jsonl"


def of_another(at: Home) -> Path:
    path = at.projects / "10900000-0000-4000-8000-000000000009.jsonl"
    path.write_text(record(Life("claude", path.stem), "older"))
    return path


@pytest.mark.parametrize("channel", ["http", "file"])
@pytest.mark.parametrize(
    "named", [outside, password_file, linked, up_and_away, of_another], ids=lambda one: one.__name__
)
async def test_what_a_stranger_names_is_not_read(named: Any, channel: HookChannel, tmp_path: Path) -> None:
    async with home(tmp_path) as at:
        path = named(at)
        await at.name(LIFE, path, channel)
        writer = Life("claude", Path(path).stem) if named is of_another else LIFE
        with Path(path).open("a") as file:
            file.write(record(writer, MARK))
        await at.read_on()
        with Path(path).open("a") as file:
            file.write(record(writer, MARK + "-later"))
        await at.read_on()
        assert MARK not in await at.all_that_is_told()


@pytest.mark.parametrize("channel", ["http", "file", "socket"])
async def test_its_own_log_is_read_whoever_names_it(channel: HookChannel, tmp_path: Path) -> None:
    """In the agent's own folder, of that very session: users who have only HTTP hooks get it too."""
    async with home(tmp_path) as at:
        path = at.projects / f"{LIFE.session}.jsonl"
        path.write_text(record(LIFE, "older"))
        await at.name(LIFE, path, channel)
        await at.read_on()
        with path.open("a") as file:
            file.write(record(LIFE, MARK))
        await at.reads(MARK)
