"""Checkpoints for tests: whole copies of a small folder, kept in memory, held up and broken as a test wants."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman.hub.checkpoints import CheckpointProblem, Saved

Image = dict[str, bytes]
"""The files of a folder by their names."""


def look(folder: Path) -> Image:
    """The folder as it is now. Tests of the hub need no more of it than plain files."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Shelf:
    """A ``Checkpoints`` that outlives the hubs of a test, and complains of a hub that breaks the port's rules."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Image]] = {}
        self.calls: list[str] = []
        self.told: list[str] = []
        self.fails: Exception | None = None
        self.lets_go: tuple[str, ...] = ()
        self.works = asyncio.Event()
        self.works.set()
        self.working: set[str] = set()
        self.cancelled: list[str] = []
        self.stubborn = False

    def folder(self, session: str) -> Path:
        return Path("/shelf") / session

    async def take(self, session: str, cwd: Path, checkpoint: str, *, first: str | None) -> Saved:
        images = self.images.setdefault(session, {})
        assert first is None or first in images, f"{first} was never saved"
        before = look(cwd)
        await self._work(session, f"take {checkpoint}")
        image = images[checkpoint] = look(cwd)
        assert image == before, "the folder was changed while it was saved"
        dropped, self.lets_go = self.lets_go, ()
        for name in dropped:
            del images[name]
        return Saved(changed=first is not None and images[first] != image, size=len(image), dropped=dropped)

    async def restore(self, session: str, cwd: Path, checkpoint: str, *, safety: str, first: str) -> Saved:
        images = self.images[session]
        assert checkpoint in images, f"{checkpoint} was never saved"
        before = look(cwd)
        await self._work(session, f"restore {checkpoint}")
        assert look(cwd) == before, "the folder was changed while it was restored"
        for path in cwd.iterdir():
            path.unlink()
        for name, content in images[checkpoint].items():
            (cwd / name).write_bytes(content)
        images[safety] = before
        return Saved(changed=before != images[first], size=len(before))

    async def delete(self, session: str, checkpoint: str) -> None:
        await self._work(session, f"delete {checkpoint}")
        del self.images[session][checkpoint]

    def closed(self, session: str) -> None:
        assert self.stubborn or session not in self.working, "closed while work goes on"
        self.told.append(f"closed {session}")

    def dropped(self, session: str) -> None:
        self.told.append(f"dropped {session}")
        self.images.pop(session, None)

    async def close(self) -> None:
        """Nothing of its own runs."""

    async def _work(self, session: str, what: str) -> None:
        assert session not in self.working, f"{what} while something else goes on"
        self.calls.append(what)
        self.working.add(session)
        try:
            await self._held(what)
        finally:
            self.working.discard(session)
        if self.fails is not None:
            raise self.fails

    async def _held(self, what: str) -> None:
        try:
            await self.works.wait()
        except asyncio.CancelledError:
            self.cancelled.append(what)
            if not self.stubborn:
                raise
            await self.works.wait()


UNREADABLE = CheckpointProblem("'secret.txt' cannot be read: permission denied")
