"""Whether the paths a command names lie in the session's folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from dragoman.hub.real_path import real_path

MAX_MATCHES = 1000
"""Files that one pattern may stand for before it is asked about: each is resolved."""
MAX_PATTERNS = 4
"""Patterns in one command."""
MAX_STARS = 2
"""Stars in one pattern: matching costs the length of a name to this power."""

# Where a path can begin within a word: after `--opt=`, `host:`, `@file`, in a list, in a quoted command line.
_BORDERS = re.compile(r"[\s=:,@'\"{}()\[\]<>;|&`#!]+")
_DRIVE = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]:[\\/]|\\\\[A-Za-z0-9?.]")
_HOME = re.compile(r"\$\{?[!#]?(?:HOME|OLDPWD)\b")
_UP = re.compile(r"\.\.(?:/|$)")


class Scope:
    """The folders a command may name, and the folder that relative paths start from.

    Paths are judged by where they lead, symbolic links resolved, at the time of asking. Whoever can swap a link
    between the question and the run already runs programs of their own.
    """

    def __init__(self, cwd: str | Path, roots: Iterable[str | Path]) -> None:
        self._cwd = os.path.realpath(cwd)
        self._roots = tuple(os.path.realpath(root) for root in roots)

    @property
    def cwd(self) -> Path:
        """The folder the command runs in, links resolved."""
        return Path(self._cwd)

    def holds(self, path: str | Path) -> bool:
        """Whether the path, taken from the working folder, leads into one of the folders."""
        try:
            target = os.fspath(real_path(Path(self._cwd) / path))
        except (OSError, ValueError):
            return False  # a null byte, a loop: no path that anyone means
        return any(target == root or target.startswith(root.rstrip("/") + "/") for root in self._roots)

    def leaves(self, command: str, plain: str) -> bool:
        """Whether any word of the command names, or may name, something outside; ``plain`` is it without quotes.

        Drives and homes are looked for as written: with its backslash, a drive's path loses its sign.
        """
        if _DRIVE.search(command) or _DRIVE.search(plain) or _HOME.search(command) or _HOME.search(plain):
            return True
        return any(not self.holds(path) for piece in set(_BORDERS.split(plain)) for path in _paths(piece))

    def holds_pattern(self, pattern: str) -> bool:
        """Whether all that a shell's ``*`` and ``?`` may make of this word is a path inside.

        Only the last part may be a pattern: one folder to read. Where its name starts with a dot it may match ``..``
        (dash, and bash before 5.2).
        """
        name = pattern.rpartition("/")[2]
        folder = pattern.removesuffix(name)
        if "*" in folder or "?" in folder or name.startswith(".") or name.count("*") > MAX_STARS:
            return False
        shape = re.compile(re.escape(name).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
        try:
            with os.scandir(Path(self._cwd) / folder) as entries:
                names = [entry.name for entry in islice(entries, MAX_MATCHES + 1)]
        except OSError:
            return True  # nothing matches, so the word stays as it is
        if len(names) > MAX_MATCHES:
            return False
        # How many `?` a letter beyond ASCII takes depends on the shell's locale: one, or one for each byte.
        matches = [each for each in names if shape.fullmatch(each) or ("?" in name and not each.isascii())]
        # A file may be named like an option: a pattern must not smuggle it in.
        return all(self.holds(Path(folder) / each) and not each.startswith("-") for each in matches)


def _paths(piece: str) -> Iterator[str]:
    if piece.startswith("~"):
        yield "/"  # someone's home: which one, only the shell knows
    elif not piece.startswith("-"):
        yield piece
    elif up := _UP.search(piece):
        yield piece[up.start() :]
    elif "/" in piece and not piece.startswith("--"):
        yield piece[piece.index("/") :]  # `-o/path`; that it may be `-Iin/side` costs only another reason
