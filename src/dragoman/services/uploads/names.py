"""Names of files that came from elsewhere, made harmless.

A name is shown to people and models, and given to tools and shells: what only looks like another name, or ends a line,
has no place in it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

NAMELESS = "file"
"""What a file is called of whose name nothing is left."""

_AWKWARD = str.maketrans(dict.fromkeys("<>:\"|?*`$\\/;&'", "_"))
"""What some file system refuses, and what ends a quotation or begins a command."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are dropped: controls, bidi and other marks nobody sees, half characters, ends of
lines, and what no version of Unicode knows."""

_ENDING = 20
"""Bytes of an ending that is kept when a name is cut."""


def safe_name(given: str, most: int) -> str:
    """The last part of a path, as one may call a file with a prefix: at least a character, at most ``most`` bytes."""
    name = given.replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = "".join(kept for kept in unicodedata.normalize("NFC", name) if unicodedata.category(kept) not in _UNSEEN)
    name = " ".join(name.split()).translate(_AWKWARD).rstrip(". ")
    return _cut(name, most) or NAMELESS


def candidates(seconds: int, name: str) -> Iterator[str]:
    """Names to try for a file that came at this time, in order: the time, a number from 2 on, the name."""
    yield f"{seconds}_{name}"
    number = 2
    while True:
        yield f"{seconds}-{number}_{name}"
        number += 1


def _cut(name: str, most: int) -> str:
    """No longer than so many bytes; the ending stays, if it is one."""
    if len(name.encode()) <= most:
        return name
    stem, dot, ending = name.rpartition(".")
    ending = dot + ending
    if not stem or len(ending.encode()) > _ENDING:
        stem, ending = name, ""
    return stem.encode()[: most - len(ending.encode())].decode(errors="ignore").rstrip(". ") + ending
