"""Sessions with real checkpoints: what the log lists can be restored and is what it was, whatever happened in between.

A failure names its seed: ``SEEDS=0:500 pytest tests/services/checkpoints/test_sessions.py`` plays more of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from dragoman.hub.errors import CheckpointFailed, Closed, StorageUnavailable
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext
from dragoman.services.checkpoints import CheckpointSettings, CheckpointStore
from tests.hub.rig import Hub, InMemory, idle, proven, until

from .checker import Entry, check_equal, image, names_in
from .trees import MODES

SETTINGS = CheckpointSettings(sync=False, walk_pause=0.005, per_session=6)


def seeds() -> range:
    first, last = os.environ.get("SEEDS", "0:5").split(":")
    return range(int(first), int(last))


class Play:
    """One session, and what each of its checkpoints must hold."""

    def __init__(self, hub: Hub, kept: Path, seed: int) -> None:
        self.hub = hub
        self.kept = kept
        self.random = random.Random(seed)
        self.work = Path(hub.cwd)
        self.images: dict[str, dict[bytes, Entry]] = {}
        self.session: Session
        self.waits = False
        hub.puppets.behave = self.behave

    async def begin(self) -> None:
        self.scribble()
        self.session = await self.hub.create("puppet", settings={"checkpoints": True})
        await until(lambda: self.session.shown.checkpoints_taken)
        self.note()

    async def behave(self, turn: TurnContext) -> str | None:
        self.scribble()
        await asyncio.sleep(0)
        if self.random.random() < 0.2:
            raise RuntimeError
        if self.random.random() < 0.2:
            self.waits = True
            await asyncio.get_running_loop().create_future()
        self.scribble()
        return None

    def scribble(self) -> None:
        path = self.work / self.random.choice("abcd")
        if self.random.random() < 0.3 and path.exists():
            path.unlink()
        elif self.random.random() < 0.2 and path.exists():
            path.chmod(self.random.choice(MODES) | 0o600)
        else:
            path.write_bytes(self.random.randbytes(self.random.randrange(5000)))

    def note(self) -> None:
        """Whatever is listed and new is what is there now."""
        for name, saved in self.session.shown.checkpoints.items():
            if saved.problem is None and name not in self.images:
                self.images[name] = image(self.work)

    async def step(self) -> None:
        await self.random.choice(
            [self.turn, self.turn, self.checkpoint, self.restore, self.restore, self.delete, self.vanish, self.restart]
        )()

    async def turn(self) -> None:
        self.waits = False
        await self.session.submit(LOCAL, "go", via="test")
        await until(lambda: self.waits or self.session.shown.turn is None)
        if self.waits:
            await self.session.cancel(LOCAL, via="test")
        await idle(self.session)
        self.note()

    async def checkpoint(self) -> None:
        self.scribble()
        await self.session.checkpoint(LOCAL)
        self.note()

    async def restore(self) -> None:
        name = self.random.choice([None, *list(self.session.shown.checkpoints)[1:]])
        self.scribble()
        before = image(self.work)
        try:
            await self.session.restore_checkpoint(LOCAL, name)
        except CheckpointFailed:
            # It had failed, or a crash came between letting it go for room and saying so: then it is listed no more.
            assert name is not None
            listed = self.session.state.checkpoints.get(name)
            assert listed is None or listed.problem is not None
            check_equal(image(self.work), before)
            return
        check_equal(image(self.work), self.images[name or "cp-0000"])
        safety = list(self.session.shown.checkpoints)[-1]
        assert self.session.shown.checkpoints[safety].trigger == "safety"
        self.images[safety] = before

    async def delete(self) -> None:
        names = list(self.session.shown.checkpoints)[1:]
        if names:
            await self.session.delete_checkpoint(LOCAL, self.random.choice(names))

    async def vanish(self) -> None:
        """A client goes away while its restore is at work: then it was done and is recorded, or it never was."""
        before, count = image(self.work), self.session.state.checkpoints_taken
        working = asyncio.create_task(self.session.restore_checkpoint(LOCAL))
        await asyncio.wait([working], timeout=self.random.random() * 0.08)
        working.cancel()
        await asyncio.wait([working])
        await until(lambda: not self.session.saving and self.session.head == self.session.shown.seq)
        if self.session.state.checkpoints_taken == count:
            check_equal(image(self.work), before)
            return
        check_equal(image(self.work), self.images["cp-0000"])
        self.images[list(self.session.shown.checkpoints)[-1]] = before

    async def restart(self) -> None:
        """A clean stop or a crash, perhaps while a checkpoint is taken."""
        working = asyncio.create_task(self.session.checkpoint(LOCAL))
        await asyncio.wait([working], timeout=self.random.random() * 0.03)
        if self.random.random() < 0.5:
            await self.hub.close()
        else:
            working.cancel()
            await self.hub.crash()
        await asyncio.wait([working])
        if not working.cancelled():
            assert isinstance(working.exception(), Closed | CheckpointFailed | StorageUnavailable | None)
        await self.hub.checkpoints.close()  # type: ignore[union-attr]
        self.hub.checkpoints = CheckpointStore(SETTINGS, self.kept)
        await self.hub.open()
        self.session = await self.hub.get(self.session)
        self.note()

    async def restore_listed(self, name: str) -> None:
        before = image(self.work)
        try:
            await self.session.restore_checkpoint(LOCAL, name)
        except CheckpointFailed:
            assert name not in self.session.state.checkpoints
            check_equal(image(self.work), before)
        else:
            check_equal(image(self.work), self.images[name])

    async def check(self) -> None:
        """Every checkpoint that is listed, in the end."""
        await self.hub.check(self.session, settled=True)
        for name, saved in list(self.session.shown.checkpoints.items()):
            if saved.trigger != "initial" and saved.problem is None and name in self.session.shown.checkpoints:
                await self.restore_listed(name)
        await self.session.restore_checkpoint(LOCAL)
        check_equal(image(self.work), self.images["cp-0000"])


@pytest.mark.parametrize("seed", seeds())
async def test_what_the_log_lists_can_be_restored(tmp_path: Path, seed: int) -> None:
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    hub = Hub(InMemory(), work, limits=HubLimits(snapshot_every=7), checkpoints=CheckpointStore(SETTINGS, kept))
    async with proven(hub):
        play = Play(hub, kept, seed)
        await play.begin()
        for _ in range(14):
            await play.step()
        await play.check()
    await hub.checkpoints.close()  # type: ignore[union-attr]
    assert names_in(tmp_path) == ["kept", "work"]
