"""The store on disk: records, objects, and what keeps the one from outgrowing the other.

``<folder>/<session>/metadata.json`` is what people look at; below ``<folder>/.store`` lies what it speaks of:

- ``objects``: content, by its hash;
- ``new``: what is being written;
- ``restores``: what a restore that was cut off would have to put back;
- ``workspaces``: what was last seen of each workspace, and its lock;
- ``lock``: shared by whoever writes or reads objects, held alone by whoever removes some;
- ``generation``: another one whenever objects were removed.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.hub.checkpoints import CheckpointProblem

from .files import clear_inside, folder_at, write_file
from .image import File, Folder, Tree
from .locks import locked
from .objects import Batch, Damaged, Objects
from .records import OtherVersion, Record, Records
from .settings import CheckpointSettings
from .stop import Stop

log = logging.getLogger("dragoman.checkpoints")

_REMEMBERED = 90 * 24 * 3600.0
"""Seconds that it is remembered what was seen of a workspace; all of it is read again after."""


class Keeper:
    """See the module. Everything here blocks."""

    def __init__(self, settings: CheckpointSettings, folder: Path) -> None:
        """Nothing is touched yet."""
        inner = folder / ".store"
        self.folder = folder
        self.records = Records(folder, sync=settings.sync)
        self.objects = Objects(inner / "objects", sync=settings.sync)
        self.restores = inner / "restores"
        self.workspaces = inner / "workspaces"
        self._settings = settings
        self._inner = inner
        self._new = inner / "new"
        self._lock = inner / "lock"
        self._generation = inner / "generation"

    def prepare(self) -> None:
        """Make the folders where there are none. Raises ``CheckpointProblem``."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder, self._inner, self.objects.folder, self._new, self.restores, self.workspaces):
                folder.mkdir(0o700, exist_ok=True)
        except OSError as error:
            raise CheckpointProblem(f"{self.folder} cannot be used: {error.strerror or error}") from error

    @contextmanager
    def using(self, stop: Stop) -> Iterator[None]:
        """While this lasts no object is removed. Raises ``CheckpointProblem``, ``Stopped``."""
        with locked(self._lock, stop, self._settings.lock_seconds, shared=True):
            yield

    def batch(self) -> Batch:
        """For new objects."""
        settings = self._settings
        return Batch(self.objects, self._new, limit=settings.quota, spare=settings.spare, sync=settings.sync)

    def generation(self) -> bytes:
        """The same as before: no object was removed since."""
        try:
            return self._generation.read_bytes()
        except FileNotFoundError:
            return b""

    @property
    def above(self) -> bool:
        """Whether there is more than there may be."""
        return self.objects.total > self._settings.quota

    def sweep(self, stop: Stop) -> bool:
        """Throw away what no record speaks of; False if somebody is at work, or what is needed is not known for sure.

        Raises ``Stopped``.
        """
        try:
            with self.using(stop):  # most is found out while others may go on
                needed = self._reach(self._images(), stop)
            with locked(self._lock, stop, self._settings.sweep_seconds):
                needed |= self._reach(self._images(), stop, known=needed)
                self._sweep(needed)
        except (CheckpointProblem, OSError) as problem:
            log.info("nothing is swept now: %s", problem)
            return False
        return True

    def fit(self, session: str, spared: frozenset[str], stop: Stop) -> tuple[str, ...]:
        """Let go of a session's oldest checkpoints until all is within the quota, and sweep; those that went.

        ``spared`` and the first one stay. If all others of the session are not enough, none goes. Raises
        ``CheckpointProblem`` (somebody is at it), ``Stopped``.
        """
        with locked(self._lock, stop, self._settings.sweep_seconds):
            record = self.records.read(session)
            if record is None:
                return ()
            loose = [it for it in record.checkpoints if it.id not in spared]
            stay = record.without(frozenset(it.id for it in loose))
            needed = self._reach([*self._images(but=session), *stay.images()], stop)
            room = self._settings.quota - self._size(needed)
            gone = [it.id for it in loose] if room >= 0 else []
            for kept in reversed(loose if room >= 0 else []):
                more = self._reach([kept.object], stop, known=needed)
                room -= self._size(more)
                if room < 0:
                    break
                needed |= more
                gone.remove(kept.id)
            if gone:
                self.records.change(session, lambda it: it and it.without(frozenset(gone)))
            self._sweep(self._reach(self._images(), stop))
            return tuple(gone)

    def tidy(self, stop: Stop) -> None:
        """Remove what whoever was killed has left unfinished, and what was last seen long ago, if nobody is at work.

        Raises ``CheckpointProblem`` if somebody is.
        """
        with locked(self._lock, stop, 0.0), folder_at(self._new) as new:
            clear_inside(new)
            for index in self.workspaces.glob("*.index"):
                if index.stat().st_mtime < time.time() - _REMEMBERED:
                    index.unlink()

    def _sweep(self, needed: set[bytes]) -> None:
        # Said first: whoever is killed in the middle leaves no one believing that all is there.
        write_file(self._generation, secrets.token_bytes(16), sync=self._settings.sync)
        self.objects.sweep(needed)

    def _images(self, *, but: str = "") -> Iterator[bytes]:
        for session in self.records.sessions():
            record: Record | None = None
            try:
                record = self.records.read(session) if session != but else None
            except OtherVersion as other:
                if not other.original:
                    raise  # nothing that it may need is thrown away
            except CheckpointProblem as problem:
                log.warning("checkpoints of session %s are lost: %s", session, problem)
            if record is not None:
                yield from record.images()

    def _reach(self, images: Iterable[bytes], stop: Stop, *, known: set[bytes] | None = None) -> set[bytes]:
        """These objects and all that they name, without what is ``known``."""
        known = known if known is not None else set()
        reached: set[bytes] = set()
        for image in images:
            if image in known or image in reached:
                continue
            reached.add(image)
            try:
                self._reach_below(self.objects.image(image).root.tree, reached, known, stop)
            except Damaged as damage:
                log.warning("a checkpoint cannot be restored: %s", damage)
        return reached

    def _reach_below(self, name: bytes, reached: set[bytes], known: set[bytes], stop: Stop) -> None:
        waiting = [name]
        while waiting:
            name = waiting.pop()
            if name in reached or name in known:
                continue
            stop.check()
            reached.add(name)
            for below, is_tree in _named(self.objects.tree(name)):
                if is_tree:
                    waiting.append(below)
                elif below not in known:
                    reached.add(below)

    def _size(self, names: set[bytes]) -> int:
        size = 0
        for name in names:
            path = self.objects.path(name)
            size += path.stat().st_size if path.exists() else 0
        return size


def _named(tree: Tree) -> Iterator[tuple[bytes, bool]]:
    for _, entry in tree:
        if isinstance(entry, Folder):
            yield entry.tree, True
        elif isinstance(entry, File):
            for piece in entry.pieces:
                yield piece.name, False
