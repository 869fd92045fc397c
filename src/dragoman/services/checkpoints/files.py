"""What is done to files and folders more than once here: by descriptors, never through a link."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

RESTORE_PREFIX = b".dragoman-restore-"
"""At the top of a workspace: what is needed while it is being restored."""

_XATTRS = ("user.", "system.posix_acl_")
"""Extended attributes that belong to a file's image; others are the system's own."""

Xattrs = tuple[tuple[bytes, bytes], ...]


def shown(path: bytes) -> str:
    """A path as people can read it, whatever is in it."""
    text = os.fsdecode(path) or "."
    return text if text.isprintable() else ascii(text)[1:-1]


def join(folder: bytes, name: bytes) -> bytes:
    """A path below a workspace; the workspace itself is the empty one."""
    return folder + b"/" + name if folder else name


@contextlib.contextmanager
def folder_at(path: bytes | Path, *, dir_fd: int | None = None) -> Iterator[int]:
    """An open folder. ``OSError`` if it is none, or the last part of the path is a link."""
    fd = os.open(path, FOLDER, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def folder_below(root: int, path: bytes) -> Iterator[int]:
    """The folder at this path below an open one. ``OSError`` if any part of it is a link, or no folder."""
    fd = os.dup(root)
    try:
        for part in path.split(b"/") if path else ():
            below = os.open(part, FOLDER, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def status(name: bytes, folder: int) -> os.stat_result | None:
    """What lies under this name, a link as a link; None if nothing does."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def names(folder: int) -> list[bytes]:
    """What is in an open folder, in order."""
    with os.scandir(folder) as found:
        return sorted(os.fsencode(it.name) for it in found)


def open_up(folder: int) -> None:
    """Give a folder's owner leave to change what is in it. Whoever calls this sets the mode again."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & 0o700 != 0o700 and os.geteuid() != 0:
        os.fchmod(folder, mode | 0o700)


def clear(name: bytes, folder: int) -> None:
    """Remove what lies under this name, with all that is below it; fine if nothing does."""
    found = status(name, folder)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=folder)
        return
    with folder_at(name, dir_fd=folder) as fd:
        open_up(fd)
        clear_inside(fd)
    os.rmdir(name, dir_fd=folder)


def clear_inside(folder: int) -> None:
    """Remove all that is in an open folder."""
    for name in names(folder):
        clear(name, folder)


def read_xattrs(descriptor: int) -> Xattrs:
    """The extended attributes of an open file or folder that belong to its image."""
    if not hasattr(os, "listxattr"):
        return ()
    try:
        names = os.listxattr(descriptor)
    except OSError:  # the filesystem has none
        return ()
    wanted = sorted(name for name in names if name.startswith(_XATTRS))
    return tuple((os.fsencode(name), os.getxattr(descriptor, name)) for name in wanted)


def write_xattrs(descriptor: int, wanted: Xattrs) -> None:
    """Make an open file's extended attributes these."""
    have = read_xattrs(descriptor)
    for name, _ in have:
        if all(name != other for other, _ in wanted):
            os.removexattr(descriptor, name)
    for name, value in wanted:
        if (name, value) not in have:
            os.setxattr(descriptor, name, value)


def write_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Replace a file of ours as a whole (mode 0600)."""
    new = path.with_name(path.name + ".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk."""
    with folder_at(path) as fd:
        os.fsync(fd)
