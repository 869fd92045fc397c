"""Two readings of a command line: a strict one that proves, a generous one that only warns.

``strict`` is what approval rests on: it returns the exact words a shell would pass on, or nothing. ``generous`` takes
off every disguise it knows and never fails; a false alarm of it costs one question.
"""

from __future__ import annotations

import re
import string
import unicodedata
from typing import NamedTuple

_BARE = frozenset(string.ascii_letters + string.digits + "_-./:,=@%+^~*?")
"""What stands for itself outside quotes in sh, dash, bash and zsh; ``~``, ``*`` and ``?`` are looked at again."""
_QUOTED = _BARE | frozenset(" #()[]{}")
"""What stands for itself within quotes. ``$``, backslash and ``!`` are refused even where a shell takes them
literally: nothing that is approved needs them, and a misread quote would otherwise be an escape."""

_HOME = re.compile(r"(?<![A-Za-z0-9^])~")  # not in `HEAD~1`, `HEAD^~`


class Word(NamedTuple):
    """One argument as the program gets it; with ``pattern``, the shell expands its ``*`` and ``?`` first."""

    text: str
    pattern: bool = False


def words(listed: str) -> frozenset[str]:
    """A table's words, written as one string."""
    return frozenset(listed.split())


def strict(command: str) -> tuple[Word, ...] | None:
    """The words of one plain command, or None for anything else: this grammar knows words and quotes only."""
    found: list[Word] = []
    at, end = 0, len(command)
    while at < end:
        if command[at] in " \t":
            at += 1
            continue
        read = _word(command, at)
        if read is None:
            return None
        word, at = read
        found.append(word)
    return tuple(found)


def _word(command: str, at: int) -> tuple[Word, int] | None:
    text: list[str] = []
    quoted = pattern = False
    while at < len(command) and command[at] not in " \t":
        char = command[at]
        if char in "'\"":
            close = command.find(char, at + 1)
            inner = command[at + 1 : close]
            if close < 0 or not _QUOTED.issuperset(inner):
                return None
            quoted = True
            text.append(inner)
            at = close + 1
        elif char in _BARE:
            pattern |= char in "*?"
            text.append(char)
            at += 1
        else:
            return None
    whole = "".join(text)
    # A half quoted pattern would need the shell's own matcher; ``=ls`` is a path in zsh, ``~`` someone's home.
    if (pattern and quoted) or whole.startswith("=") or _HOME.search(whole):
        return None
    return Word(whole, pattern), at


_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r"}
_IFS = re.compile(r"\$\{IFS[^}]*\}|\$IFS\b")
# Empty in any script that sets none: they only break up a word.
_NOTHING = re.compile(r"\$\{[@*\d]*\}|\$[@*\d]")
_MARKS = str.maketrans("", "", "'\"\\")


def generous(command: str) -> str:
    """The command without quotes, escapes, look-alikes of ASCII, invisible characters and joined lines."""
    text = unicodedata.normalize("NFKC", command)
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    text = text.replace("\\\r\n", "").replace("\\\n", "")
    text = _ANSI_C.sub(lambda found: _ESCAPE.sub(_unescape, found[1]), text)
    text = _NOTHING.sub("", _IFS.sub(" ", text))
    return text.translate(_MARKS)


def _unescape(found: re.Match[str]) -> str:
    code, octal, char = found[1] or found[2] or found[3], found[4], found[5]
    if char is not None:
        return _NAMED.get(char, char)
    value = int(octal, 8) if code is None else int(code, 16)
    return chr(value) if value <= 0x10FFFF else ""
