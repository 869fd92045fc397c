"""Taking the image of a workspace: walks until one proves another, then trees, then the index for the next time."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem

from .files import folder_at, shown
from .image import VERSION, Entry, Folder, Image, Tree, encode, substance_of
from .index import Seen, load_index, save_index
from .objects import Batch
from .places import Place
from .settings import CheckpointSettings
from .stop import Stop
from .walk import View, Walk


class Shot(msgspec.Struct, frozen=True):
    """An image, its object's name, and what it was made of."""

    name: bytes
    image: Image
    view: View
    device: int


class Camera:
    """Takes images; remembers what it saw in files below ``folder``, one per workspace."""

    def __init__(self, settings: CheckpointSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder

    def take(self, place: Place, batch: Batch, generation: bytes, stop: Stop, last: Shot | None = None) -> Shot:
        """The workspace as it is, its objects in ``batch``. The caller keeps ``generation`` from moving on.

        ``last`` is one that was taken with the same batch. Raises ``CheckpointProblem``, ``Stopped``.
        """
        try:
            with folder_at(place.path) as root:
                return self._take(place, root, batch, generation, stop, last)
        except FileNotFoundError:
            raise CheckpointProblem(f"{shown(place.path)} is gone") from None

    def remember(self, place: Place, shot: Shot, generation: bytes) -> None:
        """Read less the next time. Only once the batch is kept: what is remembered must be there."""
        save_index(self._file(place, "index"), place.path, shot.device, generation, shot.view.root)

    def lock(self, place: Place) -> Path:
        """A file whose lock is held while somebody works on the workspace."""
        return self._file(place, "lock")

    def _take(self, place: Place, root: int, batch: Batch, generation: bytes, stop: Stop, last: Shot | None) -> Shot:
        device = os.fstat(root).st_dev
        index = load_index(self._file(place, "index"), place.path, device) if last is None else None
        known = last.view.root if last is not None else index.root if index is not None else None
        sure = last is not None or (index is not None and index.generation == generation)
        view = self._look(place, root, known, batch, stop, sure=sure)
        tree = _Trees(batch, stop, sure=sure).put(view.root)
        image = Image(VERSION, tree, view.groups, tuple(sorted(view.skipped)))
        return Shot(batch.put_value(image), image, view, device)

    def _look(self, place: Place, root: int, known: Seen | None, batch: Batch, stop: Stop, *, sure: bool) -> View:
        news: bytes | None = None
        for number in range(self._settings.walks):
            if number > 1:
                stop.pause(self._settings.walk_pause)
            walk = Walk(root, known, batch, self._settings, stop, apart=place.is_apart, sure=sure)
            view = walk.run()
            if walk.news is None:
                self._check_there(place, root)
                return view
            known, news = view.root, walk.news
        raise CheckpointProblem(f"{shown(news or b'')} changes while it is being saved")

    def _check_there(self, place: Place, root: int) -> None:
        """A folder that was removed, or moved away, is not this workspace."""
        with folder_at(place.path) as again:
            there, seen = os.fstat(again), os.fstat(root)
        if (there.st_dev, there.st_ino) != (seen.st_dev, seen.st_ino):
            raise CheckpointProblem(f"{shown(place.path)} is not what it was")

    def _file(self, place: Place, suffix: str) -> Path:
        return self._folder / f"{hashlib.sha256(place.path).hexdigest()[:32]}.{suffix}"


class _Trees:
    """Makes trees of what was seen, from the bottom up. A folder that was known as it is has its tree, if that is sure
    to be there still with all that is below it."""

    def __init__(self, batch: Batch, stop: Stop, *, sure: bool) -> None:
        self._batch = batch
        self._stop = stop
        self._sure = sure

    def put(self, seen: Seen) -> Folder:
        """The folder with its tree, which is noted in ``seen`` too."""
        if not (self._sure and seen.folder.tree):
            self._stop.check()
            tree: Tree = tuple((name, self._entry(below)) for name, below in seen.inside.items())
            named = self._batch.put(encode(tree))
            seen.entry = msgspec.structs.replace(seen.folder, tree=named, substance=substance_of(tree))
        return seen.folder

    def _entry(self, seen: Seen) -> Entry:
        return seen.entry if seen.below is None else self.put(seen)
