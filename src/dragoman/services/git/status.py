"""What git says of a folder, and how that is read: pure, from bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Files by what happened to them. A renamed, copied or retyped file counts as modified."""

    added: int = 0
    modified: int = 0
    deleted: int = 0


class FolderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A folder's repository. Of a folder in none, all is zero, empty or None.

    ``branch`` is ``HEAD`` where no branch is checked out. ``staged`` is what the next commit would change, ``unstaged``
    what the files have beyond that, conflicts among it; ``untracked`` counts a new folder as one. ``total_files`` are
    all of these, each file once. Lines are those between the newest commit and the files. ``last_commit_time`` is in
    seconds since 1970, ``last_checked`` in milliseconds.
    """

    branch: str = ""
    ahead: int = 0
    behind: int = 0
    staged: Changes = Changes()
    unstaged: Changes = Changes()
    untracked: int = 0
    total_files: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    last_commit_time: int | None = None
    last_commit_message: str | None = None
    is_repo: bool = False
    last_checked: int = 0

    def differs(self, other: FolderStatus | None) -> bool:
        """Whether what people look at is another than in ``other``."""
        return other is None or any(getattr(self, name) != getattr(other, name) for name in _LOOKED_AT)


_LOOKED_AT = (
    "is_repo",
    "branch",
    "ahead",
    "behind",
    "total_files",
    "lines_added",
    "lines_removed",
    "last_commit_time",
)

DETACHED = "HEAD"
"""The branch of a repository in which none is checked out."""

_KINDS = {"A": "added", "M": "modified", "R": "modified", "C": "modified", "T": "modified", "D": "deleted"}
_LONGEST = 1024 * 1024
"""Bytes of a record; no path is that long."""

_LINES = re.compile(rb"(\d+) (insertion|deletion)")


class StatusReader:
    """``git status --porcelain=v2 --branch -z``, fed as it comes. Counts are kept, however many files there are."""

    def __init__(self) -> None:
        self._rest = b""
        self._skip = False
        self._counts: dict[tuple[str, str], int] = {}
        self._untracked = self._files = 0
        self._headers: dict[bytes, bytes] = {}

    def feed(self, data: bytes) -> None:
        """The next bytes. Raises ``ValueError`` for what git never says."""
        *records, self._rest = (self._rest + data).split(b"\0")
        if len(self._rest) > _LONGEST:
            raise ValueError("a record without an end")
        for record in records:
            self._read(record)

    @property
    def commit(self) -> str | None:
        """The newest commit's name; None where there is none yet."""
        oid = self._headers.get(b"branch.oid", b"(initial)").decode(errors="replace")
        return None if oid.startswith("(") else oid

    @property
    def tracked(self) -> int:
        """How many files that git knows differ from the newest commit."""
        return self._files

    def status(self) -> FolderStatus:
        """What was read, without lines and the newest commit."""
        head = self._headers.get(b"branch.head", b"").decode(errors="replace")
        ahead, behind = self._distance()
        return FolderStatus(
            branch=DETACHED if head == "(detached)" else head,
            ahead=ahead,
            behind=behind,
            staged=self._changes("staged"),
            unstaged=self._changes("unstaged"),
            untracked=self._untracked,
            total_files=self._files + self._untracked,
            is_repo=True,
        )

    def _read(self, record: bytes) -> None:
        if self._skip:  # where a renamed file was before
            self._skip = False
            return
        kind = record[:2]
        if kind == b"? ":
            self._untracked += 1
        elif kind in (b"1 ", b"2 "):
            self._skip = kind == b"2 "
            self._files += 1
            self._count("staged", chr(record[2]))
            self._count("unstaged", chr(record[3]))
        elif kind == b"u ":
            self._files += 1
            self._count("unstaged", "D" if record[2:4] == b"DD" else "M")
        elif kind == b"# ":
            name, _, value = record[2:].partition(b" ")
            self._headers[name] = value

    def _count(self, side: str, letter: str) -> None:
        if (kind := _KINDS.get(letter)) is not None:
            self._counts[side, kind] = self._counts.get((side, kind), 0) + 1

    def _changes(self, side: str) -> Changes:
        return Changes(**{kind: self._counts.get((side, kind), 0) for kind in ("added", "modified", "deleted")})

    def _distance(self) -> tuple[int, int]:
        """``+2 -1``: commits that the upstream lacks, and that it has beyond ours."""
        ahead, _, behind = self._headers.get(b"branch.ab", b"+0 -0").partition(b" ")
        return abs(int(ahead)), abs(int(behind))


def read_lines(data: bytes) -> tuple[int, int]:
    """``git diff --shortstat``: lines added and removed."""
    found = {word: int(number) for number, word in _LINES.findall(data)}
    return found.get(b"insertion", 0), found.get(b"deletion", 0)


def read_commit(data: bytes, most: int) -> tuple[int, str] | None:
    """``%ct%x00%s``: when the commit was made, and its subject, cut to ``most`` characters."""
    seconds, nul, subject = data.partition(b"\0")
    try:
        return (int(seconds), subject.decode(errors="replace").rstrip("\n")[:most]) if nul else None
    except ValueError:
        return None


def read_settings(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """``git config --list -z``: each name with its value; one without any is true."""
    for record in data.split(b"\0"):
        if record:
            name, newline, value = record.partition(b"\n")
            yield name, value if newline else b"true"
