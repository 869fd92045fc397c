"""Which folders git is asked about: those of sessions that somebody looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from dragoman.hub.journal import SessionRow
from dragoman.services.git import FolderStatus, GitFolders, GitSettings

from .cards import status_of

LINGER = 60.0
"""Seconds for which a session's folder is looked at after somebody asked for it over HTTP."""


class Folders:
    """``changed`` is called with each session whose folder is no longer as it was. While ``on`` all live sessions are
    looked at, else those that were asked for lately."""

    def __init__(self, settings: GitSettings, changed: Callable[[str], None]) -> None:
        self._git = GitFolders(settings, self._folder_changed)
        self._changed = changed
        self._watched: dict[str, str] = {}
        self._lingering: dict[str, asyncio.TimerHandle] = {}
        self._on = False
        self.status = self._git.status

    def begin(self, rows: Iterable[SessionRow]) -> None:
        """There is a link."""
        self._on = True
        for row in rows:
            self.row_changed(row)

    def end(self) -> None:
        """There is none any more."""
        self._on = False
        for session in set(self._watched) - set(self._lingering):
            self._leave(session)

    def asked(self, row: SessionRow) -> FolderStatus | None:
        """What is known of a session's folder that somebody asks for; it is looked at for a while."""
        if row.dropped_at is None and row.status != "closed":
            old = self._lingering.pop(row.session, None)
            if old is not None:
                old.cancel()
            self._lingering[row.session] = asyncio.get_running_loop().call_later(LINGER, self._forget, row.session)
            self._enter(row)
        return self._git.status(row.cwd)

    def row_changed(self, row: SessionRow) -> None:
        """Something happened in a session, and maybe in its folder."""
        if row.dropped_at is not None or row.status == "closed":
            self._leave(row.session)
        elif self._on and status_of(row) != "offline":
            self._enter(row)
        if row.session in self._watched:
            self._git.touch(self._watched[row.session])

    async def close(self) -> None:
        """The server stops."""
        for timer in self._lingering.values():
            timer.cancel()
        await self._git.close()

    def _enter(self, row: SessionRow) -> None:
        if self._watched.get(row.session) == row.cwd:
            return
        self._leave(row.session)
        self._watched[row.session] = row.cwd
        self._git.watch(row.cwd)

    def _leave(self, session: str) -> None:
        folder = self._watched.pop(session, None)
        if folder is not None:
            self._git.unwatch(folder)

    def _forget(self, session: str) -> None:
        del self._lingering[session]
        if not self._on:
            self._leave(session)

    def _folder_changed(self, folder: str) -> None:
        for session, watched in tuple(self._watched.items()):
            if watched == folder:
                self._changed(session)
