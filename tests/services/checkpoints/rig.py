"""A store of a test with its workspace, and a canary beside it that nothing may touch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from dragoman.hub.checkpoints import CheckpointProblem, Saved
from dragoman.services.checkpoints import CheckpointSettings, CheckpointStore

from .checker import Entry, check_equal, image

SESSION = "5f0c7a52-6f3e-4b6a-9d3c-0f8a3f2b7c11"
"""Named as the hub names sessions."""


class Home:
    """A workspace, what lies outside it, and where checkpoints go: the same in every life of the store."""

    def __init__(self, folder: Path, *, work: Path | None = None, kept: Path | None = None, **settings: Any) -> None:
        self.work = work or folder / "work"
        self.kept = kept or folder / "kept"
        self.outside = folder / "outside"
        self.settings = CheckpointSettings(**{"sync": False, "walk_pause": 0.005, "per_session": 100_000, **settings})
        self.work.mkdir(exist_ok=True)
        (self.outside / "canary").mkdir(parents=True)
        (self.outside / "canary" / "song").write_text("still alive")
        os.mkfifo(self.outside / "pipe")
        self.untouched = image(self.outside)

    @contextlib.asynccontextmanager
    async def store(self) -> AsyncIterator[CheckpointStore]:
        """One life of the store. Whatever happens in it, nothing outside is touched."""
        store = CheckpointStore(self.settings, self.kept)
        try:
            yield store
        finally:
            await store.close()
            self.check_outside()

    def check_outside(self) -> None:
        check_equal(image(self.outside), self.untouched)

    def look(self) -> dict[bytes, Entry]:
        """The workspace as it is now."""
        return image(self.work)


class Session:
    """Uses a store as the hub does: ids in order, the first one kept. ``images`` is what each checkpoint must hold."""

    def __init__(self, home: Home, name: str = SESSION) -> None:
        self.home = home
        self.name = name
        self.images: dict[str, dict[bytes, Entry]] = {}
        self.first: str | None = None
        self.count = 0

    def next_id(self) -> str:
        self.count += 1
        return f"cp-{self.count - 1:04}"

    async def take(self, store: CheckpointStore) -> Saved:
        """Save what is there, which the workspace must survive unchanged. Raises ``CheckpointProblem``."""
        before = self.home.look()
        checkpoint = self.next_id()
        saved = await store.take(self.name, self.home.work, checkpoint, first=self.first)
        check_equal(self.home.look(), before)
        self._saved(checkpoint, saved, before)
        return saved

    async def restore(self, store: CheckpointStore, checkpoint: str) -> Saved:
        """Go back, and look whether that is true. When it raises ``CheckpointProblem``, nothing has changed."""
        before = self.home.look()
        safety = self.next_id()
        assert self.first is not None
        try:
            saved = await store.restore(self.name, self.home.work, checkpoint, safety=safety, first=self.first)
        except CheckpointProblem:
            check_equal(self.home.look(), before)
            raise
        check_equal(self.home.look(), self.images[checkpoint])
        self._saved(safety, saved, before)
        return saved

    async def delete(self, store: CheckpointStore, checkpoint: str) -> None:
        await store.delete(self.name, checkpoint)
        del self.images[checkpoint]

    async def check(self, store: CheckpointStore) -> None:
        """Go back to every checkpoint there is."""
        for checkpoint in list(self.images):
            await self.restore(store, checkpoint)

    def _saved(self, checkpoint: str, saved: Saved, tree: dict[bytes, Entry]) -> None:
        self.first = self.first or checkpoint
        self.images[checkpoint] = tree
        for dropped in saved.dropped:
            assert dropped not in (self.first, checkpoint)
            del self.images[dropped]
