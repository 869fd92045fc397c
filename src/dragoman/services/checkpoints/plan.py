"""What has to be done to a workspace to make it what an image says, and nothing beyond that."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem

from .files import Xattrs, join, read_xattrs, shown
from .image import Entry, Folder, Groups, Image, Tree
from .index import Seen
from .places import Place
from .walk import View


class Manner(msgspec.Struct, frozen=True, array_like=True):
    """How a folder is, whatever is in it."""

    mode: int
    mtime: int
    uid: int
    gid: int
    xattrs: Xattrs


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """By what something is known again: who replaces it, or writes into it, changes one of both. None: not known."""

    inode: int | None
    mtime: int | None

    def fits(self, status: os.stat_result) -> bool:
        """Whether this is it."""
        return self.inode in {None, status.st_ino} and self.mtime in {None, status.st_mtime_ns}


UNKNOWN = Mark(None, None)


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One name in a folder: what lies there goes (``old``), what is to be there comes (``new``); None: nothing does.

    ``mode`` is that of a folder that goes.
    """

    folder: bytes
    name: bytes
    old: Mark | None
    mode: int | None
    new: Mark | None

    @property
    def path(self) -> bytes:
        """Of what goes, or comes."""
        return join(self.folder, self.name)


class Plan:
    """Steps, with what comes by each, and how folders that stay are before and after."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.coming: list[Entry | None] = []
        self.before: dict[bytes, Manner] = {}
        self.after: dict[bytes, Manner] = {}


def manner_of(folder: Folder) -> Manner:
    """How this folder is."""
    return Manner(folder.mode, folder.mtime, folder.uid, folder.gid, folder.xattrs)


def manner_at(descriptor: int) -> Manner:
    """How an open folder is."""
    status = os.fstat(descriptor)
    mode, xattrs = stat.S_IMODE(status.st_mode), read_xattrs(descriptor)
    return Manner(mode, status.st_mtime_ns, status.st_uid, status.st_gid, xattrs)


def make_plan(now: View, then: Image, place: Place, tree: Callable[[bytes], Tree]) -> Plan:
    """From what is there to what was. ``tree`` gives those of the image. Raises ``CheckpointProblem``."""
    return _Planner(now, then, place, tree).plan()


class _Planner:
    def __init__(self, now: View, then: Image, place: Place, tree: Callable[[bytes], Tree]) -> None:
        self._now = now
        self._then = then
        self._place = place
        self._tree = tree
        self._plan = Plan()
        self._links_before, self._links_after = _by_path(now.groups), _by_path(then.groups)
        self._same_links = now.groups == then.groups

    def plan(self) -> Plan:
        self._folder(b"", self._now.root, self._then.root)
        return self._plan

    def _folder(self, path: bytes, now: Seen, then: Folder) -> None:
        """A folder that stays."""
        here = now.folder
        before, after = manner_of(here), manner_of(then)
        steps = len(self._plan.steps)
        if not (here.tree == then.tree and self._same_links):
            self._content(path, now.inside, self._tree(then.tree) if then.tree else ())
        touched = any(it.folder == path for it in self._plan.steps[steps:])
        if touched or before != after or not path:
            self._plan.before[path] = before
            self._plan.after[path] = after

    def _content(self, path: bytes, now: dict[bytes, Seen], then: Tree) -> None:
        wanted = dict(then)
        for name, seen in now.items():
            if name not in wanted:
                self._name(path, name, seen, None)
        for name, entry in then:
            self._name(path, name, now.get(name), entry)

    def _name(self, folder: bytes, name: bytes, now: Seen | None, then: Entry | None) -> None:
        path = join(folder, name)
        if path in self._now.apart or self._place.is_apart(path):
            return
        if now is not None and now.below is not None and (isinstance(then, Folder) or self._holds_apart(path)):
            self._stays(path, now, then)
            return
        if now is not None and then is not None and self._equal(path, now.entry, then):
            return
        old = Mark(now.key[0], now.key[2]) if now is not None else UNKNOWN if path in self._now.skipped else None
        mode = now.folder.mode if now is not None and now.below is not None else None
        self._plan.steps.append(Step(folder, name, old, mode, UNKNOWN if then is not None else None))
        self._plan.coming.append(then)

    def _holds_apart(self, path: bytes) -> bool:
        """Whether something that is left out may, or does, lie below this path."""
        return self._place.holds_apart(path) or any(it.startswith(path + b"/") for it in self._now.apart)

    def _stays(self, path: bytes, now: Seen, then: Entry | None) -> None:
        if isinstance(then, Folder):
            self._folder(path, now, then)
        elif then is None:  # what is private lies below it
            self._folder(path, now, msgspec.structs.replace(now.folder, tree=b""))
        else:
            raise CheckpointProblem(f"{shown(path)} holds what is kept apart, and would have to go")

    def _equal(self, path: bytes, now: Entry, then: Entry) -> bool:
        return now == then and self._links_before.get(path) == self._links_after.get(path)


def _by_path(groups: Groups) -> dict[bytes, tuple[bytes, ...]]:
    return {path: group for group in groups for path in group}
