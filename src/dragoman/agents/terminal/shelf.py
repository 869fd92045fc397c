"""What is kept on disk beside a terminal session's log: its last tape and picture, its environment, its recordings."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from .recording import Recording
from .stored_screen import StoredScreen
from .stored_tape import DamagedTape, StoredTape, write_stored_tape
from .tape import RingTape

log = logging.getLogger("dragoman.terminal")


class Shelf:
    """The folder of one session. Made on first write, 0700; its files are 0600."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recording: Path | None = None

    def save_end(self, tape: RingTape, screen: StoredScreen) -> None:
        """Keep how it ended. Blocks on the disk; raises ``OSError``."""
        folder = self.made()
        start, data = tape.read(tape.start)
        write_stored_tape(folder / "tape", start, data)
        screen.save(folder / "screen.json")

    def load_tape(self, capacity: int, end: int) -> RingTape:
        """The last run's tape, to be continued; an empty one that starts at ``end`` when none was kept."""
        path = self._folder / "tape"
        try:
            with StoredTape.open(path) as stored:
                tape = RingTape(capacity, start=stored.start)
                tape.append(stored.read(stored.start)[1])
        except FileNotFoundError:
            return RingTape(capacity, start=end)
        except (OSError, DamagedTape) as problem:
            log.warning("the stored tape is left aside: %s", problem)
            return RingTape(capacity, start=end)
        return tape if tape.end >= end else RingTape(capacity, start=end)

    def load_screen(self, cols: int, rows: int, tape_end: int) -> StoredScreen:
        """The last picture; a blank one when none was kept."""
        try:
            return StoredScreen.load(self._folder / "screen.json")
        except FileNotFoundError:
            return StoredScreen.blank(cols, rows, tape_end)
        except (OSError, msgspec.MsgspecError) as problem:
            log.warning("the stored screen is left aside: %s", problem)
            return StoredScreen.blank(cols, rows, tape_end)

    def keep_private(self, name: str, values: dict[str, Any]) -> None:
        """Keep what the session's maker gave and the log may not hold: it may be secret."""
        path = self.made() / f"{name}.json"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(values))

    def private(self, name: str) -> dict[str, Any]:
        """What ``keep_private`` kept under this name, or nothing."""
        try:
            return msgspec.json.decode((self._folder / f"{name}.json").read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return {}

    async def record(self, run: int, cols: int, rows: int, title: str, term: str) -> Recording:
        """Begin to record a run. What a lost server recorded as this run, but did not get into the log, is kept too."""
        folder = self.made()
        path, again = folder / f"run-{run}.cast", 1
        while path.exists():
            again += 1
            path = folder / f"run-{run}-{again}.cast"
        self._recording = path
        return await Recording.start(path, cols=cols, rows=rows, title=title, term=term)

    def discard_recording(self) -> None:
        """Remove the recording that was begun last: the run never came to be."""
        if self._recording is not None:
            self._recording.unlink(missing_ok=True)
            self._recording = None

    def remove(self) -> None:
        """The session's log is gone: so is all of this."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def made(self) -> Path:
        """The folder, made if it is not there."""
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._folder


def sweep_shelves(folder: Path, kept: Collection[str]) -> None:
    """Remove the folders of sessions that have no log any more, and drafts that a lost server left in the others.

    They may hold secrets. Blocks on the disk; what cannot be removed is logged and left.
    """
    if not folder.is_dir():
        return
    for shelf in folder.iterdir():
        try:
            if shelf.name not in kept:
                shutil.rmtree(shelf)
                continue
            for draft in shelf.glob(".*"):
                draft.unlink()
        except OSError as problem:
            log.warning("%s is left in %s: %s", shelf.name, folder, problem)
