"""Building what a restore brings in, whole and verified, before anything is moved."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

import msgspec

from .content import write_pieces
from .files import CREATE, folder_at, join, write_xattrs
from .image import Entry, File, Folder, Groups, Link, Pipe, Tree
from .plan import Manner, Mark, Plan, manner_of
from .stop import Stop

Get = Callable[[bytes], bytes]

_NOT_PERMITTED = (errno.EPERM, errno.EACCES)


class Staging:
    """Makes entries in an open folder of ours; each step's thing lies there under the step's number.

    A folder is left with all rights for its owner, so that it can be moved: ``settle`` makes it what it is to be.
    """

    def __init__(self, into: int, get: Get, tree: Callable[[bytes], Tree], groups: Groups, stop: Stop) -> None:
        """``get`` gives an object's content, verified."""
        self._into = into
        self._get = get
        self._tree = tree
        self._groups = {path: group[0] for group in groups for path in group}
        self._first: dict[bytes, bytes] = {}
        self._stop = stop

    def build(self, plan: Plan) -> None:
        """Build all that comes, and note in the plan by what it is known.

        Raises ``CheckpointProblem``, ``Stopped``, ``OSError``.
        """
        for number, (step, entry) in enumerate(zip(plan.steps, plan.coming, strict=True)):
            if entry is not None:
                name = b"%d" % number
                self._make(self._into, name, name, step.path, entry)
                made = os.stat(name, dir_fd=self._into, follow_symlinks=False)
                # The time of a folder is still to be set, once it has been moved.
                mark = Mark(made.st_ino, None if isinstance(entry, Folder) else made.st_mtime_ns)
                plan.steps[number] = msgspec.structs.replace(step, new=mark)

    def _make(self, fd: int, name: bytes, place: bytes, path: bytes, entry: Entry) -> None:
        """``place`` is where it is built, below our folder; ``path`` where it is to be in the workspace."""
        self._stop.check()
        if isinstance(entry, Folder):
            self._folder(fd, name, place, path, entry)
            return
        group = self._groups.get(path)
        if group in self._first:
            os.link(self._first[group], name, src_dir_fd=self._into, dst_dir_fd=fd, follow_symlinks=False)
            return
        if isinstance(entry, File):
            self._file(fd, name, entry)
        elif isinstance(entry, Link):
            os.symlink(entry.target, name, dir_fd=fd)
            own(name, fd, entry)
        else:
            os.mkfifo(name, 0o600, dir_fd=fd)
            own(name, fd, entry)
            os.chmod(name, entry.mode, dir_fd=fd)
        if not isinstance(entry, File):
            os.utime(name, ns=(entry.mtime, entry.mtime), dir_fd=fd, follow_symlinks=False)
        if group is not None:
            self._first[group] = place

    def _folder(self, fd: int, name: bytes, place: bytes, path: bytes, folder: Folder) -> None:
        os.mkdir(name, 0o700, dir_fd=fd)
        with folder_at(name, dir_fd=fd) as made:
            for below, entry in self._tree(folder.tree):
                self._make(made, below, join(place, below), join(path, below), entry)
                if isinstance(entry, Folder):
                    with folder_at(below, dir_fd=made) as inner:
                        settle(inner, manner_of(entry))

    def _file(self, fd: int, name: bytes, file: File) -> None:
        made = os.open(name, CREATE, 0o600, dir_fd=fd)
        try:
            write_pieces(made, file.size, file.pieces, self._get, self._stop)
            settle(made, Manner(file.mode, file.mtime, file.uid, file.gid, file.xattrs))
        finally:
            os.close(made)


def settle(descriptor: int, manner: Manner) -> None:
    """Make an open file or folder be like this: owner, attributes, mode, time."""
    mode = manner.mode
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (manner.uid, manner.gid):
        try:
            os.fchown(descriptor, manner.uid, manner.gid)
        except PermissionError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)  # it would lend our rights, not those of whom it belonged to
    write_xattrs(descriptor, manner.xattrs)
    status = os.fstat(descriptor)
    # What is right already is left alone: a folder that is somebody else's may be used, but not changed.
    if stat.S_IMODE(status.st_mode) != mode:
        os.fchmod(descriptor, mode)
    if status.st_mtime_ns != manner.mtime:
        os.utime(descriptor, ns=(status.st_atime_ns, manner.mtime))


def own(name: bytes, folder: int, entry: Link | Pipe) -> None:
    """Give what cannot be opened its owner, where that is permitted."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (status.st_uid, status.st_gid) == (entry.uid, entry.gid):
        return
    try:
        os.chown(name, entry.uid, entry.gid, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NOT_PERMITTED:
            raise
