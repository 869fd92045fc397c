"""A link that fell behind what the feed keeps: the events that it missed, from the disk, session by session.

Events come in the order of their session and none is left out; of what changes beside them (a session's state, the
tiles) it is told what holds in the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.hub.errors import HubError
from dragoman.hub.permissions import LOCAL

from .cards import card
from .frames import encode
from .projection import Story, story_of_row

if TYPE_CHECKING:
    from .dialect import CinDialect

ROOM = 256 * 1024
"""Bytes of frames that wait for the link; nothing more is read while there are more."""

LOOK_BACK = 200
"""Events before the first missed one that are read to know what it leans on."""

Wants = Callable[[str, str], bool]


class CatchingUp:
    """``cursors``: session -> the seq up to which the link was told. ``done`` once all was taken."""

    def __init__(
        self,
        dialect: CinDialect,
        cursors: dict[str, int],
        *,
        wants: Wants,
        resume: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        """``resume`` is called once nothing is left to read: the link goes on with all others from there."""
        self._dialect = dialect
        self._cursors = cursors
        self._wants = wants
        self._resume = resume
        self._wake = wake
        self._ready: deque[bytes] = deque()
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._finished = False
        self._stories: dict[str, Story] = {}
        self._touched: set[str] = set()
        self._task = dialect.tasks.start(self._run(), "catch up")

    @property
    def done(self) -> bool:
        return self._finished and not self._ready

    def take(self) -> bytes | None:
        """The next frame, if one is ready."""
        if not self._ready:
            return None
        frame = self._ready.popleft()
        self._bytes -= len(frame)
        if self._bytes < ROOM:
            self._room.set()
        return frame

    def go_on(self, cursors: dict[str, int]) -> None:
        """The link has fallen behind again. While it is read this needs nothing; later it is begun anew from there."""
        if self._finished:
            self._finished = False
            self._cursors = cursors
            self._task = self._dialect.tasks.start(self._run(), "catch up")

    def cancel(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        """Read until nothing is left. Between the last look and the link's new place nothing else happens."""
        dialect, feed = self._dialect, self._dialect.feed
        while behind := [name for name, head in feed.heads.items() if head > self._cursors.get(name, 0)]:
            for name in behind:
                try:
                    await self._read(name)
                except HubError:  # its log is gone
                    self._cursors[name] = feed.heads[name]
        for name in sorted(self._touched):
            if name in feed.rows:
                self._put(dialect.frames.plain("session:updated", encode(feed.card(name))))
            else:
                self._gone(name)
        if dialect.frames.twins:
            self._put(feed.list_frame())
        self._put(dialect.frames.extension("text_tiles", dialect.tiles.all()))
        self._resume()
        self._finished = True
        self._wake()

    async def _read(self, name: str) -> None:
        """All events of one session that it has not been told."""
        dialect, feed = self._dialect, self._dialect.feed
        session = await dialect.registry.get(LOCAL, name)
        story = self._stories.get(name)
        if story is None:
            story = self._stories[name] = await self._story(name)
        while (after := self._cursors.get(name, 0)) < feed.heads[name]:
            await self._room.wait()
            for event in await session.read(after):
                if event.seq > feed.heads[name]:
                    break
                self._cursors[name] = event.seq
                if name not in self._touched:
                    self._touched.add(name)
                    if event.seq == 1 and name in feed.rows:
                        self._put(dialect.frames.plain("session:created", encode(feed.card(name))))
                told = story.tell(event)
                kind = "" if told is None else str(told.__struct_config__.tag)
                if told is not None and self._wants(name, kind):
                    self._put(dialect.frames.event(encode(told)))

    async def _story(self, name: str) -> Story:
        """What the first missed event leans on."""
        registry, cursor = self._dialect.registry, self._cursors.get(name, 0)
        session = await registry.get(LOCAL, name)
        story = story_of_row(session.row())
        for event in await session.read_back(cursor + 1, LOOK_BACK):
            story.tell(event)
        return story

    def _gone(self, name: str) -> None:
        row = self._dialect.feed.deleted.get(name)
        if row is not None:
            self._put(self._dialect.frames.plain("session:deleted", encode(card(row))))

    def _put(self, frame: bytes) -> None:
        self._ready.append(frame)
        self._bytes += len(frame)
        if self._bytes >= ROOM:
            self._room.clear()
        self._wake()
