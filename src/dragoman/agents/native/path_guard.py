"""Which files the native agent's tools may touch.

A path counts as inside when both its spelling and its canonical target lie below a root of the session. The check
would be worth little if the file were then opened by that path: somebody may swap a folder for a link in between. So
what is opened is the canonical target, folder by folder, each relative to the one before and no link followed: a link
that was not there when we looked is refused, whatever it points to.

All of it blocks; callers run it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dragoman.hub.real_path import real_path

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_KERNEL = ("/proc", "/sys")
"""Never served, not even where `/` is a root: `/proc/self/environ` holds the server's keys (invariant 10)."""


class PathInvalid(ValueError):
    """The string can name no file at all: empty, with a NUL, or not encodable."""


class PathBlocked(PermissionError):
    """The session's tools may not touch this path; `str()` is the sentence the model and the client see."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Target:
    """A path that passed. `path` is absolute and canonical: no link and no `..` was in it when it was checked."""

    asked: str
    path: Path


@dataclass(frozen=True)
class _Root:
    spelling: str
    canonical: str


class PathGuard:
    """The roots of one session: project root, working directory, output directory.

    `base` is where relative paths start (the working directory); it is not a root unless it is among `roots`.
    `private` is nobody's but the server's, also below a root: a session may work in the person's home.
    """

    def __init__(self, base: Path, roots: Iterable[Path], *, private: Iterable[Path] = ()) -> None:
        self._base = os.path.abspath(base)  # noqa: PTH100 - pathlib keeps `..`
        self._roots = tuple(_Root(_lexical(os.fspath(r), self._base), os.path.realpath(r)) for r in roots)
        self._private = (*_KERNEL, *(os.path.realpath(each) for each in private))

    def check(self, tool: str, path: str) -> Target:
        """Where `path` leads, if that is inside. It need not exist. For opening use the methods below.

        Raises PathInvalid or PathBlocked with the texts that coworker has for it.
        """
        asked = self._absolute(tool, path)
        if not any(_within(_lexical(asked, self._base), root.spelling, root.canonical) for root in self._roots):
            raise _outside(tool, path)
        try:
            canonical = os.fspath(real_path(asked))
        except OSError:  # a link was gone again before it was read; links without end
            raise _canonically_outside(tool, path) from None
        if _within(canonical, *self._private):
            raise _canonically_outside(tool, path)
        if not any(_within(canonical, root.canonical) for root in self._roots):
            raise _canonically_outside(tool, path)
        return Target(path, Path(canonical))

    def hides(self, path: Path) -> bool:
        """Whether this canonical path is the server's own: not even its name is for a session's tools."""
        return _within(os.fspath(path), *self._private)

    def open_file(self, tool: str, path: str) -> BinaryIO:
        """A regular file, open for reading: no device, pipe or socket, and never anything outside the roots.

        Raises as `check` does, and OSError as `open` does.
        """
        target = self.check(tool, path)
        with _refusing_links(tool, path), _folder(target.path.parent) as folder:
            _regular(tool, path, os.stat(target.path.name or ".", dir_fd=folder, follow_symlinks=False))
            fd = os.open(target.path.name, _READ, dir_fd=folder)
        try:
            _regular(tool, path, os.fstat(fd))  # what is open may not be what was looked at
            os.set_blocking(fd, True)
            return os.fdopen(fd, "rb")
        except BaseException:
            os.close(fd)
            raise

    @contextlib.contextmanager
    def open_folder(self, tool: str, path: str) -> Iterator[int]:
        """A folder's descriptor, good for `dir_fd`; on Linux not for reading (reopen `.` below it to list it)."""
        target = self.check(tool, path)
        with contextlib.ExitStack() as held:
            with _refusing_links(tool, path):
                fd = held.enter_context(_folder(target.path))
            yield fd

    def write_file(self, tool: str, path: str, content: bytes) -> Target:
        """Replace or create a file in one step, with the folders above it; readers see the old or the new, whole.

        A link is followed only if it leads inside, and then the file that it leads to is replaced. The mode stays as it
        was. Other hard links of the file keep the old content: they may lie outside. Raises as `open_file` does.
        """
        target = self.check(tool, path)
        name = target.path.name
        if not name or path.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        with _refusing_links(tool, path), _folder(target.path.parent, create=True) as folder:
            _replace(tool, path, folder, name, content)
        return target

    def _absolute(self, tool: str, path: str) -> str:
        if not path:
            raise PathInvalid(f"{tool}: invalid path: it is empty")
        if "\0" in path:
            raise PathInvalid(f"{tool}: invalid path: it holds a NUL")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise PathInvalid(f"{tool}: invalid path: it holds half a character") from None
        # A model that says `~` means the home folder; a folder named `~` in the workspace is an accident to come.
        return _one_slash(os.path.join(self._base, os.path.expanduser(path)))  # noqa: PTH111, PTH118 - pathlib keeps less


def _outside(tool: str, path: str) -> PathBlocked:
    return PathBlocked(f"{tool} blocked: path is outside workingDirectory/outputDirectory/project root: {path}")


def _canonically_outside(tool: str, path: str) -> PathBlocked:
    return PathBlocked(f"{tool} blocked: canonical target resolves outside allowed directories: {path}")


def _lexical(path: str, base: str) -> str:
    return _one_slash(os.path.normpath(os.path.join(base, path)))  # noqa: PTH118


def _one_slash(path: str) -> str:
    """POSIX lets two leading slashes mean something else, so `os.path` keeps them; on Linux they mean `/`."""
    return "/" + path.lstrip("/")


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _within(path: str, *roots: str) -> bool:
    return any(_is_below(path, root) or _is_below_by_inode(path, root) for root in roots)


def _is_below_by_inode(path: str, root: str) -> bool:
    """Whether `path` spells `root` in another case or Unicode form, on a file system where that is the same folder."""
    depth = len(Path(root).parts)
    head = Path(*Path(path).parts[:depth])
    if len(Path(path).parts) < depth or _folded(str(head)) != _folded(root):
        return False
    try:
        return os.path.samestat(os.lstat(head), os.lstat(root))
    except OSError:
        return False


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


@contextlib.contextmanager
def _refusing_links(tool: str, path: str) -> Iterator[None]:
    """A link where there was none a moment ago is the race that this module is about, or an honest file moving."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _canonically_outside(tool, path) from None
        raise


@contextlib.contextmanager
def _folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """The folder at this canonical path. ELOOP if a part of it has become a link."""
    fd = os.open("/", _FOLDER)
    try:
        for part in path.parts[1:]:
            below = _step(fd, part, create=create)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _step(fd: int, part: str, *, create: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=fd)
    except FileNotFoundError:
        if not create:
            raise
    except NotADirectoryError:  # Linux says so of a link too, which may be a folder again by now
        mode = os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part) from None
        raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=fd)
    return _step(fd, part, create=False)


def _regular(tool: str, path: str, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise PathBlocked(f"{tool} blocked: not a regular file: {path}")


def _replace(tool: str, path: str, folder: int, name: str, content: bytes) -> None:
    old = _standing(tool, path, folder, name)
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode)
    temporary = f".{secrets.token_hex(8)}.tmp"
    fd = os.open(temporary, _CREATE, mode & 0o777, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            if old is not None:
                os.fchmod(fd, mode & 0o777)
            file.write(content)
            file.flush()
            os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)  # replaces a link, never follows it
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _sync_folder(folder)


def _standing(tool: str, path: str, folder: int, name: str) -> os.stat_result | None:
    """What a write would replace. A rename asks only the folder's leave, so that of the file is asked here."""
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _regular(tool, path, old)
    if not os.access(name, os.W_OK, dir_fd=folder, follow_symlinks=False):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return old


def _sync_folder(folder: int) -> None:
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
