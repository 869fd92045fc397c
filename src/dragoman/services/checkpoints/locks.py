"""Locks between threads, and between servers that keep their checkpoints in one folder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.hub.checkpoints import CheckpointProblem

from .stop import Stop

_PAUSE = 0.01


@contextmanager
def locked(path: Path, stop: Stop, seconds: float, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of this file, alone or with others who share it. The kernel lets go of it when a process dies.

    Raises ``CheckpointProblem`` when it is not free within ``seconds``, ``Stopped``.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while not try_lock(lock, shared=shared):
            if time.monotonic() >= deadline:
                raise CheckpointProblem(f"somebody else holds {path}")
            stop.pause(_PAUSE)
        yield
    finally:
        os.close(lock)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock of an open file; False when somebody else has it. It is held until the descriptor is closed."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
