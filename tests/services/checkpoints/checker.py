"""An independent image of a tree: what is compared before and after, taken by nothing that the service uses."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


class Entry(msgspec.Struct, frozen=True):
    """One name in a tree. ``content`` is a file's length and sha256, a link's target; ``twins`` are its other names.

    ``mtime`` is None for a link, and for the top of the tree: an entry of it that comes and goes again moves that.
    """

    kind: str
    mode: int
    mtime: int | None = None
    content: str = ""
    twins: tuple[bytes, ...] = ()


Tree = Mapping[bytes, Entry]
"""Every path below a folder, and ``b"."`` for itself."""


def image(top: Path, *, without: tuple[bytes, ...] = ()) -> dict[bytes, Entry]:
    """The tree as it is now. ``without``: names at its top that do not count."""
    found = [(b".", top.lstat()), *_walk(top, b"", without)]
    names: dict[tuple[int, int], list[bytes]] = {}
    for path, info in found:
        if stat.S_ISREG(info.st_mode):
            names.setdefault((info.st_dev, info.st_ino), []).append(path)
    return {path: _entry(top, path, info, names.get((info.st_dev, info.st_ino), [])) for path, info in found}


def names_in(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def without_times(tree: Tree) -> dict[bytes, Entry]:
    """The tree as ``changed`` compares it."""
    return {path: msgspec.structs.replace(entry, mtime=None) for path, entry in tree.items()}


def differences(found: Tree, wanted: Tree) -> list[str]:
    """What a person wants to read when two trees should be equal and are not."""
    paths = sorted(found.keys() | wanted.keys())
    return [
        f"{path!r}: {found.get(path)} instead of {wanted.get(path)}"
        for path in paths
        if found.get(path) != wanted.get(path)
    ]


def check_equal(found: Tree, wanted: Tree) -> None:
    """Raise ``AssertionError`` with every difference."""
    assert not (wrong := differences(found, wanted)), "\n".join(wrong)


def _walk(top: Path, below: bytes, without: tuple[bytes, ...]) -> Iterator[tuple[bytes, os.stat_result]]:
    with os.scandir(top / os.fsdecode(below)) as entries:
        names = sorted(os.fsencode(entry.name) for entry in entries)
    for name in names:
        path = below + b"/" + name if below else name
        if path in without:
            continue
        info = (top / os.fsdecode(path)).lstat()
        yield path, info
        if stat.S_ISDIR(info.st_mode):
            yield from _walk(top, path, ())


def _entry(top: Path, path: bytes, info: os.stat_result, names: list[bytes]) -> Entry:
    kind = KINDS.get(stat.S_IFMT(info.st_mode), "other")
    full = top / os.fsdecode(path)
    content = ""
    if kind == "file":
        content = _digest(full)
    elif kind == "link":
        content = os.fsencode(os.readlink(full)).hex()  # noqa: PTH115 (a Path would tidy it up)
    timeless = kind == "link" or path == b"."
    return Entry(
        kind,
        0 if kind == "link" else stat.S_IMODE(info.st_mode),
        None if timeless else info.st_mtime_ns,
        content,
        tuple(name for name in names if name != path),
    )


def _digest(path: Path) -> str:
    digest, length = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
            length += len(piece)
    return f"{length}:{digest.hexdigest()}"
