"""Exchanging names of a workspace for what was staged, so that it can be undone at any time, also by a later process.

What is to be done is written down first (``restores/<id>/plan``, on disk). Each step is two renames within the
workspace; which of them have happened is seen from where things lie, so that nothing is written meanwhile. Once it is
done the plan is called ``done``. Whoever finds a plan that nobody works on takes back what it says, or clears away what
is left.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from dragoman.hub.checkpoints import CheckpointProblem

from .files import RESTORE_PREFIX, clear, folder_at, folder_below, open_up, shown, status, sync_folder, write_file
from .image import Folder
from .locks import try_lock
from .plan import Manner, Mark, Plan, Step, manner_at, manner_of
from .staging import settle
from .stop import Stop

log = logging.getLogger("dragoman.checkpoints")

_VERSION = 1

_PLAN, _DONE, _UNDONE = "plan", "done", "undone"
"""What the plan's file is called: what happens to it later is said by renaming it."""


class Written(msgspec.Struct, frozen=True, array_like=True):
    """A plan as it is written down. ``staging`` is the name of our folder at the workspace's top."""

    version: int
    workspace: bytes
    device: int
    inode: int
    staging: bytes
    session: str
    safety: str
    steps: list[Step]
    before: dict[bytes, Manner]
    after: dict[bytes, Manner]


class Swap:
    """One restore's plan on disk, and our folder in the workspace. Make one with ``begin_swap`` or ``left_swaps``."""

    def __init__(self, folder: Path, written: Written, lock: int, *, sync: bool, left: bool = False) -> None:
        """``left``: it is what a restore has left that was cut off, or failed."""
        self.written = written
        self._left = left
        self._folder = folder
        self._lock = lock
        self._sync = sync

    @property
    def done(self) -> bool:
        """Whether the workspace is what it was to be."""
        return (self._folder / _DONE).exists()

    def mark_done(self) -> None:
        """From here on it is done, whatever happens. Raises ``OSError``."""
        self._mark(_DONE)

    @contextmanager
    def root(self) -> Iterator[int]:
        """The workspace, open. Raises ``CheckpointProblem`` if another folder has taken its place."""
        with folder_at(self.written.workspace) as root:
            found = os.fstat(root)
            if (found.st_dev, found.st_ino) != (self.written.device, self.written.inode):
                raise CheckpointProblem(f"{shown(self.written.workspace)} is not what it was")
            yield root

    @contextmanager
    def staged(self, root: int) -> Iterator[tuple[int, int]]:
        """Our folders, open: for what comes, and for what goes."""
        with (
            folder_at(self.written.staging, dir_fd=root) as staging,
            folder_at(b"new", dir_fd=staging) as new,
            folder_at(b"old", dir_fd=staging) as old,
        ):
            yield new, old

    def stage(self, root: int) -> None:
        """Make our folders. Nobody sees by its time that anything was made in the workspace."""
        open_up(root)
        os.mkdir(self.written.staging, 0o700, dir_fd=root)
        with folder_at(self.written.staging, dir_fd=root) as staging:
            os.mkdir(b"new", 0o700, dir_fd=staging)
            os.mkdir(b"old", 0o700, dir_fd=staging)
        settle(root, self.written.before[b""])

    def write_down(self) -> None:
        """Have on disk what this knows. Raises ``OSError``."""
        write_file(self._folder / _PLAN, msgspec.msgpack.encode(self.written), sync=self._sync)

    def intend(self, plan: Plan) -> None:
        """Write down what will be done. Nothing is made after that, so that a full disk hinders nobody. ``OSError``."""
        before, after = {**self.written.before, **plan.before}, {**self.written.before, **plan.after}
        self.written = msgspec.structs.replace(self.written, steps=plan.steps, before=before, after=after)
        self.write_down()

    def perform(self, plan: Plan, root: int, stop: Stop) -> None:
        """Do it; then comes ``mark_done``. If it raises, ``undo``: ``CheckpointProblem``, ``Stopped``, ``OSError``."""
        with self.staged(root) as (new, old):
            for number, (step, entry) in enumerate(zip(plan.steps, plan.coming, strict=True)):
                stop.check()
                with folder_below(root, step.folder) as folder:
                    _exchange(b"%d" % number, step, folder, new, old)
                    if isinstance(entry, Folder):
                        _settle_below(folder, step.name, manner_of(entry))
            for path, manner in _deepest_first(self.written.after):
                with folder_below(root, path) as fd:
                    settle(fd, manner)
        if self._sync:
            os.sync()

    def undo(self) -> None:
        """Take back all that was done. May be done again. Raises ``CheckpointProblem``, ``OSError``.

        Where somebody else has been at work since, theirs stays, and what was there before stays in our folder.
        """
        with self.root() as root:
            if self._freed(root):
                return
            if self.written.steps and not (self._folder / _UNDONE).exists():
                self._take_all_back(root)
                # From here on nothing is to be taken back, whatever is gone from our folder.
                self._mark(_UNDONE)
            for path, manner in _deepest_first(self.written.before):
                _settle_again(root, path, manner)
            self._clear(root)
            _settle_again(root, b"", self.written.before[b""])

    def finish(self) -> None:
        """Clear away what is left, once it is done. May be done again. Raises ``CheckpointProblem``, ``OSError``."""
        with self.root() as root:
            if not self._freed(root):
                self._clear(root)
                settle(root, self.written.after[b""])

    def forget(self) -> None:
        """Remove the plan, and let go of it. What cannot be removed is no plan any more, and goes the next time."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)

    def let_go(self) -> None:
        """Leave the plan for somebody else."""
        os.close(self._lock)

    def _freed(self, root: int) -> bool:
        """Whether somebody has removed our folder since, and gone on: then nothing is to be what it was."""
        freed = self._left and status(self.written.staging, root) is None
        if freed:
            log.warning("%s is gone: nothing more is done about it", shown(self.written.staging))
        return freed

    def _mark(self, name: str) -> None:
        (self._folder / _PLAN).replace(self._folder / name)
        if self._sync:
            sync_folder(self._folder)

    def _take_all_back(self, root: int) -> None:
        with self.staged(root) as (new, old):
            taken = [self._take_back(it, root, new, old) for it in reversed(range(len(self.written.steps)))]
        if not all(taken):
            raise CheckpointProblem("somebody else has changed the workspace since")

    def _take_back(self, number: int, root: int, new: int, old: int) -> bool:
        step = self.written.steps[number]
        try:
            with folder_below(root, step.folder) as folder:
                _take_back(b"%d" % number, step, folder, new, old)
        except (CheckpointProblem, FileNotFoundError, NotADirectoryError) as problem:
            log.warning("%s cannot be put back: %s", shown(step.path), problem)
            return False
        return True

    def _clear(self, root: int) -> None:
        if status(self.written.staging, root) is not None:
            open_up(root)
            clear(self.written.staging, root)


def begin_swap(restores: Path, workspace: bytes, root: int, session: str, safety: str, *, sync: bool) -> Swap:
    """Write down that something begins in a workspace, whose folder is open as ``root``. Raises ``OSError``."""
    name = secrets.token_hex(8)
    folder = restores / name
    folder.mkdir(0o700)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    found, staging, manners = os.fstat(root), RESTORE_PREFIX + name.encode(), {b"": manner_at(root)}
    written = Written(_VERSION, workspace, found.st_dev, found.st_ino, staging, session, safety, [], manners, manners)
    swap = Swap(folder, written, lock, sync=sync)
    try:
        try_lock(lock)
        swap.write_down()
    except BaseException:
        swap.forget()
        raise
    return swap


def left_swaps(restores: Path, *, sync: bool) -> Iterator[Swap]:
    """What was cut off and nobody works on; the caller ends each, or lets go of it."""
    for folder in sorted(restores.iterdir()):
        try:
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            log.warning("%s cannot be looked at: %s", folder, error)
            continue
        if not try_lock(lock):
            os.close(lock)
            continue
        plan = next((path for it in (_PLAN, _DONE, _UNDONE) if (path := folder / it).exists()), None)
        if plan is None:  # nothing had begun, or all has ended
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            continue
        try:
            written = _read(plan)
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("%s cannot be used: %s", plan, error)
            os.close(lock)
        else:
            yield Swap(folder, written, lock, sync=sync, left=True)


def _read(plan: Path) -> Written:
    written = msgspec.msgpack.decode(plan.read_bytes(), type=Written)
    if written.version != _VERSION:
        raise msgspec.ValidationError(f"it is of version {written.version}, which this server does not know")
    return written


def _exchange(number: bytes, step: Step, folder: int, new: int, old: int) -> None:
    there = status(step.name, folder)
    if not _is(there, step.old):
        raise CheckpointProblem(f"{shown(step.path)} changed while it was to be restored")
    open_up(folder)
    if there is not None:
        _open_up_below(there, step.name, folder)
        os.rename(step.name, number, src_dir_fd=folder, dst_dir_fd=old)
    if step.new is not None:
        os.rename(number, step.name, src_dir_fd=new, dst_dir_fd=folder)


def _take_back(number: bytes, step: Step, folder: int, new: int, old: int) -> None:
    came = step.new is not None and status(number, new) is None
    went = status(number, old) is not None
    if not (came or went):
        return
    open_up(folder)
    there = status(step.name, folder)
    if there is not None:
        if not (came and _is(there, step.new)):
            raise CheckpointProblem(f"{shown(step.path)} is something else by now")
        _open_up_below(there, step.name, folder)
        os.rename(step.name, number, src_dir_fd=folder, dst_dir_fd=new)
    if went:
        os.rename(number, step.name, src_dir_fd=old, dst_dir_fd=folder)
        if step.mode is not None:
            with folder_at(step.name, dir_fd=folder) as back:
                os.fchmod(back, step.mode)


def _is(there: os.stat_result | None, mark: Mark | None) -> bool:
    if there is None or mark is None:
        return there is None and mark is None
    return mark.fits(there)


def _open_up_below(there: os.stat_result, name: bytes, folder: int) -> None:
    """A folder that we may not write into does not let itself be moved to another."""
    if stat.S_ISDIR(there.st_mode):
        with folder_at(name, dir_fd=folder) as fd:
            open_up(fd)


def _settle_below(folder: int, name: bytes, manner: Manner) -> None:
    with folder_at(name, dir_fd=folder) as fd:
        settle(fd, manner)


def _settle_again(root: int, path: bytes, manner: Manner) -> None:
    """Make a folder what it was. One that is somebody else's may have a newer time than it had."""
    try:
        with folder_below(root, path) as fd:
            settle(fd, manner)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        log.warning("folder %s is not quite what it was: %s", shown(path), error)


def _deepest_first(manners: dict[bytes, Manner]) -> list[tuple[bytes, Manner]]:
    """A folder whose mode keeps us out comes after all that lies in it."""
    return sorted(manners.items(), key=lambda it: it[0].count(b"/") + bool(it[0]), reverse=True)
