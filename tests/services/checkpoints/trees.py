"""Random trees and what people and programs do to them: strategies, and the hand that carries it out."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

NAMES = (
    *(b"a", b"b", b"c.txt", b"folder", b"-rf", b"--", b"*", b" ", b"...", b"~", b"CON"),
    *(b"new\nline", b"quo'\"te", b"back\\slash", b"\x01\x7f", b"x" * 255),
    *("grün.md".encode(), "gru\u0308n.md".encode(), "日本語".encode(), "\U0001f980".encode(), "\u202egpj".encode()),
    *(b"caf\xe9", b"\xff\xfe", b"\xed\xa0\x80"),
    *(b"metadata.json", b"original", b"objects", b".git", b".gitignore", b".dragoman-restore"),
)
"""What systems allow and programs stumble over. A tree uses few of them, so that a file comes where a folder was."""

MODES = (0o644, 0o600, 0o755, 0o444, 0o500, 0o700, 0o2755, 0o4755, 0o1777, 0o666, 0o640)
if os.geteuid() == 0:
    MODES = (*MODES, 0o000, 0o200, 0o311)

contents = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"x", b"-- a//b\n", b"a\r\nb", b"\x00" * 5000, b"diff --git a/a b/a\n", b"z" * 70_000]),
)
strange_targets = st.sampled_from(
    [b"..", b".", b"../outside/canary", b"/nowhere", b"a/../b", b"loop", b"\xff", b"../" * 40 + b"etc"]
)
times = st.integers(-(2**31), 2**33).map(lambda seconds: seconds * 1_000_000_000 + 123_456_789)
pools = st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True)


def edits(pool: list[bytes]) -> st.SearchStrategy[tuple[Any, ...]]:
    """One thing done to a tree of these names, as a name and arguments; a number means one of what is there just then.

    What is not possible is not done.
    """
    names = st.sampled_from(pool)
    paths = st.one_of(names, st.tuples(names, names).map(b"/".join), st.tuples(names, names, names).map(b"/".join))
    some = st.integers(0, 1000)
    return st.one_of(
        *[st.tuples(st.just("write"), paths, contents)] * 4,
        *[st.tuples(st.just("alter"), some)] * 2,
        st.tuples(st.just("append"), some, contents),
        st.tuples(st.just("mkdir"), paths),
        st.tuples(st.just("rename"), some, paths),
        st.tuples(st.just("delete"), some),
        st.tuples(st.just("chmod"), some, st.sampled_from(MODES)),
        st.tuples(st.just("symlink"), paths, names | strange_targets),
        st.tuples(st.just("link"), some, paths),
        st.tuples(st.just("fifo"), paths),
        st.tuples(st.just("touch"), some, times),
        st.tuples(st.just("git"), paths, st.booleans()),
    )


class Hand:
    """Does edits to one folder, and never anything outside it."""

    def __init__(self, folder: Path, repositories: dict[bool, Path]) -> None:
        self.top = folder
        self.repositories = repositories
        """A ``.git`` folder with a commit (True) and one without any."""

    def do(self, edit: tuple[Any, ...]) -> None:
        name, where, *more = edit
        files = name in ("alter", "append", "link")
        path = self._pick(where, files=files) if isinstance(where, int) else self._full(where)
        if path is None:
            return
        try:
            getattr(self, f"_{name}")(path, *more)
        except OSError:
            return  # a name too long, a folder moved into itself: nobody can do that

    def _full(self, path: bytes) -> Path:
        return self.top / os.fsdecode(path)

    def _pick(self, number: int, *, files: bool) -> Path | None:
        """One of all that is there. ``files``: only of those."""
        found = [self.top]
        for folder, folders, names in os.walk(self.top):
            found += (Path(folder, name) for name in sorted(folders + names))
        if files:
            found = [path for path in found if _is_file(path)]
        return found[number % len(found)] if found else None

    def _inside(self, path: Path) -> Path:
        """Make folders of all that leads there."""
        at = self.top
        for name in path.relative_to(self.top).parts[:-1]:
            at /= name
            if not _is_folder(at):
                _clear(at)
                at.mkdir()
        return path

    def _write(self, path: Path, content: bytes) -> None:
        if not _is_file(self._inside(path)):
            _clear(path)
        path.write_bytes(content)

    def _alter(self, path: Path) -> None:
        """Another content of the same length, at the same time as before: for whoever only looks at those."""
        before = path.lstat()
        if before.st_size:
            with path.open("r+b") as file:
                first = file.read(1)
                file.seek(0)
                file.write(bytes([first[0] ^ 1]))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _append(self, path: Path, content: bytes) -> None:
        with path.open("ab") as file:
            file.write(content)

    def _mkdir(self, path: Path) -> None:
        if not _is_folder(self._inside(path)):
            _clear(path)
            path.mkdir()

    def _rename(self, path: Path, to: bytes) -> None:
        target = self._full(to)
        if self._apart(path, target):
            self._inside(target)
            if _is_there(path):
                _clear(target)
                path.rename(target)

    def _link(self, path: Path, to: bytes) -> None:
        target = self._full(to)
        if self._apart(path, target):
            self._inside(target)
            if _is_there(path):
                _clear(target)
                target.hardlink_to(path)

    def _apart(self, path: Path, target: Path) -> bool:
        return path != self.top and not path.is_relative_to(target) and not target.is_relative_to(path)

    def _delete(self, path: Path) -> None:
        if path != self.top:
            _clear(path)

    def _chmod(self, path: Path, mode: int) -> None:
        if not path.is_symlink():
            path.chmod(mode | (0o700 if _is_folder(path) and os.geteuid() else 0))

    def _symlink(self, path: Path, target: bytes) -> None:
        _clear(self._inside(path))
        os.symlink(os.fsdecode(target), path)  # noqa: PTH211 (a Path would tidy it up)

    def _fifo(self, path: Path) -> None:
        _clear(self._inside(path))
        os.mkfifo(path)

    def _touch(self, path: Path, time: int) -> None:
        if not path.is_symlink():
            os.utime(path, ns=(time, time))

    def _git(self, path: Path, committed: bool) -> None:
        """A repository inside: its own history is a part of the work like anything else."""
        self._mkdir(path)
        _clear(path / ".git")
        shutil.copytree(self.repositories[committed], path / ".git", symlinks=True)


def clear(folder: Path) -> None:
    """Empty it, whoever may not write where in it."""
    for path in sorted(folder.rglob("*")):
        if _is_folder(path):
            path.chmod(0o700)
    for path in folder.iterdir():
        _clear(path)


def make_repositories(folder: Path) -> dict[bool, Path]:
    """``.git`` folders as git makes them, or something that looks like it where there is no git."""
    made = {}
    for committed in (False, True):
        place = folder / ("committed" if committed else "fresh")
        place.mkdir()
        made[committed] = place / ".git"
        if shutil.which("git") is None:
            (place / ".git" / "objects" / "4b").mkdir(parents=True)
            (place / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
            continue
        git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", str(place)]
        environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
        steps = [["init", "-q", "--template="]]
        if committed:
            steps.append(["commit", "-q", "--allow-empty", "-m", "first"])
        for step in steps:
            subprocess.run([*git, *step], check=True, env=environment)
    return made


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _clear(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    elif _is_there(path):
        path.unlink()
