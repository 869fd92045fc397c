"""One look at a folder: git's commands, and what becomes of what they say. Blocks; for a thread."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path

import msgspec

from .mirror import Setting, harmless, head, mirror
from .program import Git, GitFailed, TookTooLong
from .repository import Repository, find_repository, small_file
from .settings import GitSettings
from .status import DETACHED, FolderStatus, StatusReader, read_commit, read_lines, read_settings

log = logging.getLogger("dragoman.git")

_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
"""Git knows these without having them; what there is before the first commit."""

_BRANCH = b"ref: refs/heads/"
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")

Identity = tuple[int, ...]


class Seen(msgspec.Struct, frozen=True):
    """What a look found, and what the next one needs: the newest commit's name, the settings by the bytes they were
    read from, whether files that git does not know are too many to be looked for, and how HEAD and index stood."""

    status: FolderStatus
    took: float = 0.0
    commit: str | None = None
    config: bytes | None = None
    settings: tuple[Setting, ...] = ()
    large: bool = False
    watched: tuple[str, ...] = ()
    identity: Identity = ()
    failure: str | None = None


class Looker:
    """Looks at folders, one at a time. ``base`` is a folder for what is only needed during a look."""

    def __init__(self, git: Git, settings: GitSettings, base: Path) -> None:
        self._git = git
        self._settings = settings
        self._base = base
        self._users: list[Setting] | None = None

    def look(self, folder: str, before: Seen | None, now: int) -> Seen:
        """Look at a folder, given what was seen there before. What cannot be found out stays as it was.

        ``now`` is the time in milliseconds.
        """
        began = time.monotonic()
        try:
            repository = find_repository(Path(folder)) if self._git.there else None
        except OSError:
            repository = None
        if repository is None:
            none = (str(Path(folder) / ".git"),)
            return Seen(FolderStatus(last_checked=now), watched=none, identity=identity(none))
        watched = tuple(str(repository.git / name) for name in ("HEAD", "index"))
        if before is None or before.watched != watched:
            before = Seen(FolderStatus(is_repo=True))
        before = msgspec.structs.replace(before, watched=watched, identity=identity(watched), failure=None)
        seen = self._looked(repository, before)
        status = msgspec.structs.replace(seen.status, last_checked=now)
        return msgspec.structs.replace(seen, status=status, took=time.monotonic() - began)

    def _looked(self, repository: Repository, before: Seen) -> Seen:
        seen = before
        try:
            seen = self._with_settings(repository, before)
            users = self._user_settings()
            with mirror(repository, [*users, *seen.settings], self._base) as place:
                at = _At(self._git, place, repository)
                return self._bare(at, seen) if repository.top is None else self._status(at, seen)
        except (GitFailed, OSError, ValueError) as problem:
            return msgspec.structs.replace(seen, failure=str(problem))

    def _status(self, at: _At, before: Seen) -> Seen:
        try:
            reader = self._files(at, untracked=not before.large)
        except TookTooLong as problem:
            if before.large:
                raise
            before = msgspec.structs.replace(before, large=True, failure=str(problem))
            reader = self._files(at, untracked=False)
        old, commit = before.status, reader.commit
        status = msgspec.structs.replace(
            reader.status(),
            lines_added=old.lines_added if reader.tracked else 0,
            lines_removed=old.lines_removed if reader.tracked else 0,
            last_commit_time=old.last_commit_time if commit else None,
            last_commit_message=old.last_commit_message if commit else None,
        )
        seen = msgspec.structs.replace(before, status=status)
        try:
            seen = self._with_commit(at, seen, commit)
            return self._with_lines(at, seen, commit) if reader.tracked else seen
        except (GitFailed, ValueError) as problem:
            return msgspec.structs.replace(seen, failure=str(problem))

    def _files(self, at: _At, *, untracked: bool) -> StatusReader:
        reader = StatusReader()
        words = ("status", "--porcelain=v2", "--branch", "-z", f"--untracked-files={'normal' if untracked else 'no'}")
        # A submodule's own files are its own matter: git would start itself there, under that one's configuration.
        at.run(*words, "--ignore-submodules=dirty", feed=reader.feed)
        return reader

    def _with_lines(self, at: _At, seen: Seen, commit: str | None) -> Seen:
        base = "HEAD" if commit else _EMPTY_TREE[64 if _sha256(seen.settings) else 40]
        said = at.said("diff", "--shortstat", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", base, "--")
        added, removed = read_lines(said)
        status = msgspec.structs.replace(seen.status, lines_added=added, lines_removed=removed)
        return msgspec.structs.replace(seen, status=status)

    def _with_commit(self, at: _At, seen: Seen, commit: str | None) -> Seen:
        if commit == seen.commit or commit is None:
            return msgspec.structs.replace(seen, commit=commit)
        newest = read_commit(at.said("log", "-1", "--format=%ct%x00%s", commit, "--"), self._settings.message_chars)
        seconds, subject = newest or (None, None)
        status = msgspec.structs.replace(seen.status, last_commit_time=seconds, last_commit_message=subject)
        return msgspec.structs.replace(seen, status=status, commit=commit)

    def _bare(self, at: _At, before: Seen) -> Seen:
        """A repository without a working tree: its branch and newest commit are all there is to say."""
        said = (head(at.repository) or b"").strip()
        branch = said.removeprefix(_BRANCH).decode(errors="replace") if said.startswith(_BRANCH) else DETACHED
        seen = msgspec.structs.replace(before, status=FolderStatus(is_repo=True, branch=branch))
        commit = at.said("for-each-ref", "--count=1", "--format=%(objectname)", f"refs/heads/{branch}") or said
        name = commit.decode(errors="replace").strip()
        if _COMMIT.fullmatch(name) is None:
            return msgspec.structs.replace(seen, commit=None)
        return self._with_commit(at, msgspec.structs.replace(seen, commit=None), name)

    def _with_settings(self, repository: Repository, before: Seen) -> Seen:
        """The repository's settings, read again when the bytes changed that they stand in."""
        most = self._settings.config_bytes
        own = (small_file(folder / name, most) for folder, name in _configs(repository))
        config = b"\n".join(data for data in own if data is not None)
        if config == before.config:
            return before
        copy = self._base / "config"
        copy.write_bytes(config)
        said: list[bytes] = []
        words = ("config", "--no-includes", "--file", str(copy), "--list", "-z")
        self._git.run(*words, cwd=self._base, git=self._base / "none", top=None, feed=said.append)
        settings = tuple(harmless(read_settings(b"".join(said))))
        return msgspec.structs.replace(before, config=config, settings=settings)

    def _user_settings(self) -> list[Setting]:
        """The user's own, read once. Only those count that name no program, as of a repository."""
        if self._users is None:
            try:
                self._users = harmless(read_settings(self._git.user_settings(self._base)), user=True)
            except GitFailed as problem:
                log.warning("the user's git configuration is not heeded: %s", problem)
                self._users = []
        return self._users


class _At(msgspec.Struct, frozen=True):
    """Git, where a look needs it."""

    git: Git
    place: Path
    repository: Repository

    def run(self, *words: str, feed: object) -> None:
        top = self.repository.top
        self.git.run(*words, cwd=top or self.place, git=self.place, top=top, feed=feed)  # type: ignore[arg-type]

    def said(self, *words: str) -> bytes:
        parts: list[bytes] = []
        self.run(*words, feed=parts.append)
        return b"".join(parts)


def identity(paths: tuple[str, ...]) -> Identity:
    """Changes when one of these files does. Blocks."""
    found: list[int] = []
    for path in paths:
        try:
            status = Path(path).stat()
            found += (status.st_ino, status.st_size, status.st_mtime_ns)
        except (OSError, ValueError):
            found.append(0)
    return tuple(found)


def _configs(repository: Repository) -> tuple[tuple[Path, str], ...]:
    return (repository.common, "config"), (repository.git, "config.worktree")


def _sha256(settings: tuple[Setting, ...]) -> bool:
    return (b"extensions.objectformat", b"sha256") in settings
