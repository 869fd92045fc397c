"""Finding a folder's repository as git would, without asking git: what it finds, it believes."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from dragoman.services.workspace.files import FileProblem, read_whole

_MOST = 8 * 1024
"""Bytes of the small files that say where a repository is."""


class Repository(msgspec.Struct, frozen=True):
    """``top`` is the working tree's folder, None for a repository without one; ``git`` holds its HEAD and index,
    ``common`` its objects: another folder for a linked working tree."""

    top: Path | None
    git: Path
    common: Path

    def small_file(self, name: str) -> bytes | None:
        """A small file of its own; None where there is none that can be read."""
        return small_file(self.git / name)


def find_repository(folder: Path) -> Repository | None:
    """The repository that a folder is in, which is named by its whole path. Blocks. Raises ``OSError`` where it cannot
    be looked at."""
    if not folder.is_absolute():
        return None
    for each in (folder, *folder.parents):
        if (found := _at(each / ".git", each)) is not None:
            return found
        if (found := _at(each, None)) is not None:
            return found
    return None


def small_file(path: Path, most: int = _MOST) -> bytes | None:
    """A regular file's content, links followed; None where there is none, or a larger one."""
    try:
        return read_whole(path, most)
    except FileProblem:
        return None


def _at(git: Path, top: Path | None) -> Repository | None:
    if not os.path.lexists(git):
        return None
    if git.is_file():
        # A linked working tree, or a submodule: a line says where its repository is.
        line = (small_file(git) or b"").removesuffix(b"\n")
        if not line.startswith(b"gitdir: ") or b"\0" in line:
            return None
        git = git.parent / os.fsdecode(line.removeprefix(b"gitdir: "))
    if not os.path.lexists(git / "HEAD"):
        return None
    shared = (small_file(git / "commondir") or b"").strip()
    common = git / os.fsdecode(shared) if shared and b"\0" not in shared else git
    if (common / "objects").is_dir() and (common / "refs").is_dir():
        return Repository(top, git, common)
    return None
