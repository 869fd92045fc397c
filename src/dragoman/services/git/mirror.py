"""A stand-in for a repository's own folder, in which git finds all that it reads, but a configuration of ours.

Whoever writes a folder's files may write its ``.git/config``, and that may name programs in more ways than one can
switch off: a file system monitor, hooks, filters of any name, pagers, signature checkers, a helper that fetches what a
partial clone lacks. A list of settings to overrule would be looked up before git reads the file, which may have changed
by then. So git never reads it: it is given a folder of ours, with links to index, objects and refs, and of the settings
those that only say how things are read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from .repository import Repository

Setting = tuple[bytes, bytes]

_PLAIN = frozenset(
    {
        b"core.autocrlf",
        b"core.bigfilethreshold",
        b"core.checkstat",
        b"core.eol",
        b"core.filemode",
        b"core.ignorecase",
        b"core.precomposeunicode",
        b"core.repositoryformatversion",
        b"core.sparsecheckout",
        b"core.sparsecheckoutcone",
        b"core.symlinks",
        b"core.trustctime",
        b"diff.renamelimit",
        b"diff.renames",
        b"extensions.objectformat",
        b"extensions.refstorage",
        b"index.sparse",
        b"status.renamelimit",
        b"status.renames",
    }
)
_NAMED = {b"branch": (b"merge", b"remote"), b"remote": (b"fetch", b"url")}
"""Those of a branch and of a remote by which the upstream is found."""

_OF_THE_USER = frozenset({b"core.excludesfile"})
"""What only the user may say besides: it names a file that is read."""

_OURS: tuple[Setting, ...] = (
    (b"core.fsmonitor", b"false"),
    (b"core.hookspath", os.fsencode(os.devnull)),
    (b"log.showsignature", b"false"),
    (b"status.submodulesummary", b"false"),
)
_SHARED = ("objects", "refs", "packed-refs", "reftable", "shallow")
_SHARED_INFO = ("exclude", "attributes")
_OWN_INFO = ("sparse-checkout",)
_SPLIT = "sharedindex."
_MOST_ENTRIES = 10_000


def harmless(settings: Iterable[Setting], *, user: bool = False) -> list[Setting]:
    """Those settings that only say how things are read, and name no program; what else the user may say."""
    return [each for each in settings if _is_harmless(each[0]) or (user and each[0] in _OF_THE_USER)]


@contextlib.contextmanager
def mirror(repository: Repository, settings: Iterable[Setting], base: Path) -> Iterator[Path]:
    """The stand-in's folder, made below ``base`` and gone with the block. Blocks. Raises ``OSError``."""
    place = Path(tempfile.mkdtemp(dir=base))
    try:
        (place / "config").write_bytes(_written([*settings, *_OURS, (b"core.bare", _bare(repository))]))
        (place / "HEAD").write_bytes(head(repository) or b"")
        for name in _SHARED:
            _link(repository.common / name, place / name)
        (place / "info").mkdir()
        for name in _SHARED_INFO:
            _link(repository.common / "info" / name, place / "info" / name)
        for name in _OWN_INFO:
            _link(repository.git / "info" / name, place / "info" / name)
        _link(repository.git / "index", place / "index")
        for name in _parts_of_index(repository.git):
            _link(repository.git / name, place / name)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def head(repository: Repository) -> bytes | None:
    """What HEAD says. An old kind of it is a link to the branch."""
    path = repository.git / "HEAD"
    with contextlib.suppress(OSError):
        if (target := os.fsencode(path.readlink())).startswith(b"refs/"):
            return b"ref: " + target + b"\n"
    return repository.small_file("HEAD")


def _is_harmless(name: bytes) -> bool:
    if name in _PLAIN:
        return True
    section, _, rest = name.partition(b".")
    return rest.rpartition(b".")[2] in _NAMED.get(section, ()) and b"." in rest


def _bare(repository: Repository) -> bytes:
    return b"true" if repository.top is None else b"false"


def _link(target: Path, place: Path) -> None:
    if os.path.lexists(target):
        place.symlink_to(target.absolute())


def _parts_of_index(git: Path) -> list[str]:
    """A split index lies in several files."""
    with os.scandir(git) as entries:
        return [entry.name for entry in islice(entries, _MOST_ENTRIES) if entry.name.startswith(_SPLIT)]


def _written(settings: Iterable[Setting]) -> bytes:
    """Settings as a configuration file; a name that cannot be written there is left out."""
    lines = []
    for name, value in settings:
        section, _, rest = name.partition(b".")
        inside, _, last = rest.rpartition(b".")
        if b"\n" in inside or b"\0" in name + value:
            continue
        lines.append(b'[%b "%b"]' % (section, _escaped(inside)) if inside else b"[%b]" % section)
        lines.append(b'\t%b = "%b"' % (last, _escaped(value).replace(b"\n", b"\\n")))
    return b"\n".join(lines) + b"\n"


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
