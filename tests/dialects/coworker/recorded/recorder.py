"""What is done beside the wire: the recorder's edits of the folder, its looks at it, its patience."""

from __future__ import annotations

import asyncio
from pathlib import Path

from . import worlds
from .recording import Entry, Note, Sent
from .server import commands

SLEEPING = ("sleep", "3")
"""The command of ``cancel_during_bash``."""

LIMIT = 8.0
"""Seconds for a command to start."""


class Recorder:
    """Of one scenario. ``problems`` are differences between what a checkpoint saved and what a restore brought back."""

    def __init__(self, name: str, project: Path) -> None:
        self._name = name
        self._project = project
        self._saved: dict[str, dict[str, str]] = {}
        self._restoring = ""
        self._due = ""
        self.problems: list[str] = []

    async def do(self, entry: Entry) -> Entry:
        """Before an entry of the client goes out; gives the entry as it is now."""
        if self._name == "session_backup_matrix":
            await asyncio.to_thread(self._look)
        if isinstance(entry, Note):
            return Note(await asyncio.to_thread(self._act, entry.text))
        if isinstance(entry, Sent) and isinstance(entry.message, dict) and entry.kind == "session_backup_restore":
            self._due = self._restoring if "checkpointId" in entry.message else "at first"
        if isinstance(entry, Sent) and entry.kind == "cancel" and self._name == "cancel_during_bash":
            await self._started()
        return entry

    def _act(self, note: str) -> str:
        made = worlds.act(note, self._project)
        word, _, label = note.partition(": ")
        if word == "checkpoint":
            self._saved[label] = worlds.image(self._project)
        elif word == "restore":
            self._restoring = label.strip()
        return made

    def _look(self) -> None:
        """Whether the last restore brought back all that was saved."""
        there = worlds.image(self._project)
        saved = self._saved.setdefault("at first", there)
        if self._due:
            saved = self._saved[self._due]
            changed = [path for path in sorted({*saved, *there}) if saved.get(path) != there.get(path)]
            if changed:
                self.problems.append(f"restored ({self._due}), but not the same: {', '.join(changed)}")
        self._due = ""

    async def _started(self) -> None:
        """Until the command runs: the recorded client gave it 0.4 s."""
        async with asyncio.timeout(LIMIT):
            while not commands(self._project, *SLEEPING):
                await asyncio.sleep(0.01)
