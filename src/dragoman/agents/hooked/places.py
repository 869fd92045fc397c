"""How far session logs were read, kept beside the journal: a server that starts again goes on from there.

It is no second truth: what it says is only which records were taken already. Without it, logs are read from their ends.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dragoman.agents.common.tail import Place
from dragoman.hub.errors import NOT_JSON

log = logging.getLogger("dragoman.hooked")


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One log. ``skip`` records behind its place were taken too; the rest is as it is followed."""

    path: str
    agent: str
    session: str
    place: Place
    skip: int = 0
    create: bool = False
    sure: bool = True
    cwd: str | None = None


_decode = msgspec.json.Decoder(tuple[Kept, ...]).decode


class Places:
    """A file of them; None keeps nothing. To be used in a thread."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written: bytes | None = None

    def load(self) -> tuple[Kept, ...]:
        """What was kept; nothing where it cannot be read."""
        if self._path is None:
            return ()
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, *NOT_JSON) as problem:
            log.warning("%s cannot be read (%s): session logs are read from their ends", self._path, problem)
            return ()

    def save(self, kept: Iterable[Kept]) -> None:
        """Write it if it is news: whole or not at all. Raises ``OSError``."""
        if self._path is None:
            return
        data = msgspec.json.encode(tuple(kept))
        if data == self._written:
            return
        draft = self._path.with_name(f"{self._path.name}.new")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        draft.replace(self._path)
        self._written = data
