"""Who is known, as files that a person may edit: whitelist, contacts, blocklist and admins (onion, spec §5).

Each has one identity a line. They are looked at with every question and read anew when they changed; a question costs
microseconds. A list that cannot be read is no empty list: whoever asks is refused (spec §15, row 19).
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from dragoman.hub.durable_folder import sync_folder
from dragoman.hub.real_path import real_path
from dragoman.services.workspace.files import FileCache, FileProblem, Once, in_words, read_whole

from .callers import Refused
from .entries import Entries, entries, entry_of, plain_identity, text_of

log = logging.getLogger("dragoman.trust")

ListName = Literal["whitelist", "contacts", "blocklist", "admins"]
"""A list, which is its file's name without ``.txt``."""

LOCK_SECONDS = 5.0
"""Wait for another process that writes a list."""

_LOCK = ".lock"
_LOCK_PAUSE = 0.01
_LEFT = re.compile(r"\.(?:whitelist|contacts|blocklist|admins)\.txt\.[0-9a-f]{16}")
"""What a list is written to, before it takes its place."""

_NOBODY = Entries()


class Lists:
    """The lists of one folder, which need not be there. Safe to use from several threads, and by several processes.

    ``most`` is the bytes of a list, ``now`` is in nanoseconds since 1970.
    """

    def __init__(
        self,
        folder: Path,
        *,
        most: int,
        lock_seconds: float = LOCK_SECONDS,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folder = folder
        self._most = most
        self._lock_seconds = lock_seconds
        self._files = {name: folder / f"{name}.txt" for name in ("whitelist", "contacts", "blocklist", "admins")}
        self._cache: FileCache[Entries] = FileCache(now=now)
        self._said = Once()

    def names(self, name: ListName, identity: str) -> bool:
        """Whether the list has this identity, or a pattern that fits it. Raises ``Refused`` (*misconfigured*)."""
        return self._entries(name).names(identity)

    def lists(self, name: ListName, identity: str) -> bool:
        """Whether the list has this identity itself. Raises ``Refused`` (*misconfigured*)."""
        return self._entries(name).lists(identity)

    def add(self, name: ListName, identity: str) -> bool:
        """Put an identity at the end of a list; False where it stands there. Blocks. Raises ``Refused``."""
        with self._changing(name) as file:
            lines = self._lines(name, file)
            if plain_identity(identity) in map(entry_of, lines):
                return False
            self._replace(file, [*lines, plain_identity(identity)])
        return True

    def remove(self, name: ListName, identity: str) -> bool:
        """Take an identity's lines out of a list; False where there are none. Blocks. Raises ``Refused``."""
        with self._changing(name) as file:
            lines = self._lines(name, file)
            left = [line for line in lines if entry_of(line) != plain_identity(identity)]
            if len(left) == len(lines):
                return False
            self._replace(file, left)
        return True

    def _entries(self, name: ListName) -> Entries:
        file = self._files[name]
        try:
            found = self._cache.get(file, self._most, entries)
        except FileProblem as problem:
            raise self._unusable(name, problem) from None
        if found is None and os.path.lexists(file):
            raise self._unusable(name, FileProblem("it is a link that leads nowhere"))
        return found or _NOBODY

    def _unusable(self, name: ListName, problem: Exception) -> Refused:
        file = self._files[name]
        if self._said.first((name, str(problem))):
            log.error("%s cannot be used: %s; nobody is let in who might stand there", file, problem)
        # The whole path is nothing for strangers.
        return Refused(f"misconfigured: {file.name}: {problem}")

    @contextlib.contextmanager
    def _changing(self, name: ListName) -> Iterator[Path]:
        """The list's real file, while nobody else of us writes one."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                self._take(lock)
                self._tidy()
                # Somebody keeps it elsewhere, and links to it: the link stays.
                yield real_path(self._files[name])
            finally:
                os.close(lock)
        except FileProblem as problem:
            raise self._unusable(name, problem) from None
        except OSError as error:
            raise self._unusable(name, FileProblem(f"it cannot be written: {in_words(error)}")) from None

    def _take(self, lock: int) -> None:
        deadline = time.monotonic() + self._lock_seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise FileProblem("another process holds it") from None
                time.sleep(_LOCK_PAUSE)
            else:
                return

    def _tidy(self) -> None:
        """Remove what a writer left that was killed: whoever holds the lock is the only one here."""
        for left in self._folder.iterdir():
            if _LEFT.fullmatch(left.name):
                left.unlink(missing_ok=True)

    def _lines(self, name: ListName, file: Path) -> list[str]:
        data = read_whole(file, self._most)
        if data is None and os.path.lexists(self._files[name]) and self._files[name] != file:
            raise FileProblem("it is a link that leads nowhere")
        return text_of(data or b"").splitlines()

    def _replace(self, file: Path, lines: list[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        if len(data) > self._most:
            raise FileProblem(f"it would be larger than {self._most} bytes")
        new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
        try:
            opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(opened, "wb") as writing:
                writing.write(data)
                writing.flush()
                os.fsync(writing.fileno())
            new.replace(file)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        sync_folder(file.parent)
