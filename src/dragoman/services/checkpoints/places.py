"""Workspaces as this service knows them, and whose turn it is to work on one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem

from .files import shown

_SLASH = ord("/")


class Place(msgspec.Struct, frozen=True):
    """A workspace by its true path. ``private`` are paths in it that are none of its content; nor is what lies, however
    deep, where one of ``everywhere`` says: a session may work in a folder of another's."""

    path: bytes
    private: frozenset[bytes]
    everywhere: tuple[bytes, ...] = ()

    def is_apart(self, path: bytes) -> bool:
        """Whether this path below it is left out, with all that is below that."""
        return path in self.private or any(
            path.endswith(it) and (len(path) == len(it) or path[-len(it) - 1] == _SLASH) for it in self.everywhere
        )

    def holds_apart(self, path: bytes) -> bool:
        """Whether something that is left out would lie below this path, as far as that is known without looking."""
        return any(it.startswith(path + b"/") for it in self.private)

    def overlaps(self, other: Place) -> bool:
        """Whether what is done to one may be done to the other."""
        return _within(self.path, other.path) or _within(other.path, self.path)


def find_place(
    cwd: Path, private: Collection[str], store: Path, others: Collection[Path], everywhere: Collection[str] = ()
) -> Place:
    """The workspace at this path. ``private`` are names at its top, ``store`` and ``others`` the server's own folders,
    ``everywhere`` the ends of paths in it.

    Raises ``CheckpointProblem`` if there is none, or it lies in the store.
    """
    try:
        path = os.fsencode(os.path.realpath(cwd, strict=True))
    except OSError as error:
        raise CheckpointProblem(f"{shown(os.fsencode(cwd))} is gone: {error.strerror or error}") from error
    ours = [os.fsencode(os.path.realpath(folder)) for folder in (store, *others)]
    if _within(path, ours[0]) or path in ours:
        raise CheckpointProblem(f"{shown(path)} is where the server keeps its own")
    below = {owned[len(path.rstrip(b"/")) + 1 :] for owned in ours if _within(owned, path)}
    private_paths = frozenset(below | {os.fsencode(name) for name in private})
    return Place(path, private_paths, tuple(os.fsencode(end) for end in everywhere))


def _within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


class Turns:
    """One at a time works on a workspace, in the order of asking; a folder within another is the same workspace."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Place, asyncio.Event]] = []

    @asynccontextmanager
    async def hold(self, place: Place) -> AsyncIterator[None]:
        """Wait for one's turn, and keep it for the while."""
        ticket = (place, asyncio.Event())
        self._waiting.append(ticket)
        self._call()
        try:
            await ticket[1].wait()
            yield
        finally:
            self._waiting.remove(ticket)
            self._call()

    def _call(self) -> None:
        for number, (place, ready) in enumerate(self._waiting):
            if not any(place.overlaps(earlier) for earlier, _ in self._waiting[:number]):
                ready.set()
