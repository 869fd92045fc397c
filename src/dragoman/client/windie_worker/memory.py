"""What a worker must know after its own crash: which run it had begun. It never begins that one again.

A worker whose name is its process's own needs none of it: after a crash nobody has that name, and the server counts the
run's worker as lost.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from dragoman.client.errors import ClientError


class WorkerIsThere(ClientError):
    """Another process is this worker: of two with one name, each would take the other's runs for its own."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A run, and the turn as which it was begun."""

    run_id: str
    turn_ref: str


class Memory:
    """One worker's, in a file of ``folder``; held from ``__enter__`` to ``__exit__``, which no second process can.

    ``name`` is all that makes this worker this one: server, workspace, worker id. Raises ``OSError`` where the disk
    does: what cannot be remembered must not be begun.
    """

    def __init__(self, folder: Path, *name: str) -> None:
        self._folder = folder
        self._file = folder / f"{hashlib.sha256(json.dumps(name).encode()).hexdigest()[:32]}.json"
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Raises ``WorkerIsThere``."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._file.with_suffix(".lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise WorkerIsThere("another process runs as this worker: give this one another --worker-id") from None
        self._lock = lock
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._lock is not None
        self._lock.close()
        self._lock = None

    def begun(self) -> Begun | None:
        """The run that was begun and not finished, as far as is known; None also for a file that is none of ours."""
        try:
            said = json.loads(self._file.read_bytes())
            return Begun(str(said["run_id"]), str(said["turn_ref"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def begin(self, begun: Begun) -> None:
        """Remember it: on the disk when this returns."""
        fresh = self._file.with_suffix(".new")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123
            json.dump({"run_id": begun.run_id, "turn_ref": begun.turn_ref}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def over(self) -> None:
        """The server knows how it ended, or that it was not begun."""
        self._file.unlink(missing_ok=True)
