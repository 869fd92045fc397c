"""Feedback that people give of what they see, with a picture of it (spec §3.6): kept and listed, acted on by nobody.

An entry is a file ``<id>.json`` in a folder of its own, its picture ``<id>.png`` beside it. Ids are made here, and what
is asked for is looked up among those: no name of a client's is ever part of a path.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from dragoman.hub.errors import NOT_JSON, StorageUnavailable
from dragoman.services.workspace.files import FileProblem, read_whole

from .calls import Problem
from .disk import Disk, write_whole
from .settings import CinSettings

log = logging.getLogger("dragoman.cin")

T = TypeVar("T")

FeedbackType = Literal["bug", "improve", "works"]


class Feedback(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry; times in milliseconds since 1970. The last fields are for agents that work through them."""

    id: str
    type: FeedbackType
    description: str
    timestamp: int
    created_at: int
    updated_at: int
    processed: bool = False
    session_id: str | None = None
    session_name: str | None = None
    session_status: str | None = None
    recent_events: tuple[str, ...] = ()
    console_errors: tuple[str, ...] = ()
    viewport_width: int = 0
    viewport_height: int = 0
    user_agent: str = ""
    has_screenshot: bool = False
    github_issue_number: int | None = None
    github_issue_url: str | None = None
    grouped_with: str | None = None
    fixer_status: str | None = None
    fixer_message: str | None = None
    validation_output: str | None = None


class FeedbackStore:
    """All entries, the oldest first; bounded in number and bytes."""

    def __init__(self, disk: Disk, folder: Path, settings: CinSettings) -> None:
        self._disk = disk
        self._folder = folder
        self._settings = settings
        self._entries: dict[str, Feedback] | None = None
        self._pictures: dict[str, int] = {}
        """Bytes of each."""
        self._changing = asyncio.Lock()

    async def all(self) -> list[Feedback]:
        """The newest first. Raises ``StorageUnavailable``."""
        return list(reversed((await self._known()).values()))

    async def get(self, name: str) -> Feedback | None:
        """The entry of that id. Raises ``StorageUnavailable``."""
        return (await self._known()).get(name)

    async def picture(self, name: str) -> bytes | None:
        """Its picture. Raises ``StorageUnavailable``."""
        if name not in await self._known() or name not in self._pictures:
            return None
        path = self._path(name, "png")
        try:
            return await self._disk.run(lambda: read_whole(path, self._settings.screenshot_bytes))
        except FileProblem as problem:
            raise StorageUnavailable(f"the picture cannot be read: {problem}") from None

    async def add(self, entry: Feedback, picture: bytes | None) -> None:
        """Keep one more; old ones go to make room. Raises ``Problem`` (413), ``StorageUnavailable``."""
        data = self._encoded(entry)
        async with self._changing:
            entries = await self._loaded()
            await self._run(lambda: self._write(entry.id, data, picture))
            entries[entry.id] = entry
            if picture is not None:
                self._pictures[entry.id] = len(picture)
            await self._remove(self._too_many(entries))

    async def change(self, name: str, changes: dict[str, object]) -> Feedback | None:
        """Change fields of an entry; None where there is none. Raises as ``add``."""
        async with self._changing:
            entries = await self._loaded()
            if name not in entries:
                return None
            entry = msgspec.structs.replace(entries[name], **changes)
            data = self._encoded(entry)
            await self._run(lambda: write_whole(self._path(name, "json"), data))
            entries[name] = entry
            return entry

    async def remove(self, name: str) -> bool:
        """Whether there was one to be removed. Raises ``StorageUnavailable``."""
        async with self._changing:
            if name not in await self._loaded():
                return False
            await self._remove([name])
            return True

    # Inside

    def _encoded(self, entry: Feedback) -> bytes:
        data = msgspec.json.encode(entry)
        most = self._settings.feedback_entry_bytes
        if len(data) > most:
            raise Problem(413, f"The feedback is larger than {most} bytes without its screenshot")
        return data

    async def _known(self) -> dict[str, Feedback]:
        if self._entries is None:
            async with self._changing:
                return await self._loaded()
        return self._entries

    async def _loaded(self) -> dict[str, Feedback]:
        if self._entries is None:
            found, self._pictures = await self._run(self._read)
            self._entries = {entry.id: entry for entry in found}
        return self._entries

    def _too_many(self, entries: dict[str, Feedback]) -> list[str]:
        """The oldest, as far as they are too many, or have too large pictures together."""
        count, size, gone = len(entries), sum(self._pictures.values()), []
        for name in entries:
            if count <= self._settings.feedback_entries and size <= self._settings.feedback_bytes:
                break
            gone.append(name)
            count -= 1
            size -= self._pictures.get(name, 0)
        return gone

    async def _remove(self, names: Iterable[str]) -> None:
        assert self._entries is not None
        for name in names:
            await self._run(partial(self._unlink, name))
            self._entries.pop(name)
            self._pictures.pop(name, None)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._disk.run(work)
        except OSError as problem:
            raise StorageUnavailable(f"feedback cannot be kept: {problem.strerror}") from None

    # In a thread

    def _path(self, name: str, ending: str) -> Path:
        return self._folder / f"{name}.{ending}"

    def _write(self, name: str, data: bytes, picture: bytes | None) -> None:
        """The picture first: an entry that is there is whole."""
        if picture is not None:
            write_whole(self._path(name, "png"), picture)
        try:
            write_whole(self._path(name, "json"), data)
        except OSError:
            self._path(name, "png").unlink(missing_ok=True)
            raise

    def _unlink(self, name: str) -> None:
        """The entry first, for the same reason."""
        for ending in ("json", "png"):
            self._path(name, ending).unlink(missing_ok=True)

    def _read(self) -> tuple[list[Feedback], dict[str, int]]:
        """What an earlier server kept. What it did not finish is removed."""
        entries = []
        for path in self._folder.glob("[!.]*.json"):
            entry = self._entry(path)
            if entry is not None:
                entries.append(entry)
        names = {entry.id for entry in entries if entry.has_screenshot}
        pictures = {}
        for path in self._folder.glob("*.png"):
            if path.stem in names:
                pictures[path.stem] = path.stat().st_size
            else:
                path.unlink(missing_ok=True)
        return sorted(entries, key=lambda entry: (entry.created_at, entry.id)), pictures

    def _entry(self, path: Path) -> Feedback | None:
        try:
            data = read_whole(path, 2 * self._settings.feedback_entry_bytes)
            entry = None if data is None else msgspec.json.decode(data, type=Feedback)
        except (FileProblem, *NOT_JSON) as problem:
            log.warning("%s is left out: %s", path, problem)
            return None
        return entry if entry is not None and entry.id == path.stem else None
