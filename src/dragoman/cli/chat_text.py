"""Text that is fit for a terminal: cleaned of what a terminal would obey, measured in columns, wrapped at words.

A line is a list of fragments, each a style's name and a text; what a style looks like is decided where it is drawn.
"""

from __future__ import annotations

import re
import unicodedata

Fragment = tuple[str, str]
Line = list[Fragment]

STYLES = {
    "dim": "2",
    "bold": "1",
    "you": "1;36",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "danger": "1;31",
}
"""Every style's name with its SGR parameters."""

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,8}[@-~]"
    r"|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,256}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,8}[0-OQ-WYZ\\`-~]"
)
"""One whole sequence. What is longer than 256 characters was none, and is shown."""

_BEGUN = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,8}"
    r"|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,256}\x1b?"
    r"|\x1b[ -/]{0,8})$"
)
_WIDE = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
_WIDE += "\U0001f000-\U0001faff\U00020000-\U0003fffd"
_TOKEN = re.compile(rf"\s+|[{_WIDE}](?:[\ufe0e\ufe0f\u0300-\u036f\U0001f3fb-\U0001f3ff]|\u200d.)*|[^\s{_WIDE}]+")
"""Blanks, a wide character with what belongs to it, or a word: between any two of them a row may end."""

_HALVES = re.compile("[\ud800-\udfff]")
_JOINERS = "\u200c\u200d"
TAB = "    "

PROMPT = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} "
"""Stands before what a person types, and typed."""

_CONTROLS: dict[int, str | None] = dict.fromkeys((*range(10), *range(11, 32), 127)) | {9: TAB}


class Cleaner:
    """Takes out of a text that comes in pieces all that drives a terminal, also where it is cut in two.

    What comes out holds line feeds and printable characters, and nothing else.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """The piece without escape sequences and control characters; the beginning of a sequence is held back."""
        text = _SEQUENCE.sub("", self._held + text)
        begun = _BEGUN.search(text)
        self._held = text[begun.start() :] if begun is not None else ""
        return _plain(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return _plain(held)


def whole(text: str) -> str:
    """What was typed or given, in which bytes that are no character became halves of one, as text that can be sent."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)


def clean(text: str) -> str:
    """A whole text without escape sequences and control characters but the line feed."""
    return _plain(_SEQUENCE.sub("", text))


def visible(text: str) -> str:
    """A text with every control character as a sign of its own: for what somebody is asked to permit."""
    text = text.replace("\r\n", "\n").replace("\t", TAB)
    return "".join(letter if letter == "\n" or _shows(letter) else _sign(letter) for letter in text)


def one_line(text: str, columns: int) -> str:
    """The cleaned text in one line, at most so wide."""
    return fit(" ".join(clean(text[: 16 * columns]).split()), columns)


def fit(text: str, columns: int) -> str:
    """The text, cut with an ellipsis where it is wider."""
    if width(text) <= columns:
        return text
    taken = 0
    for at, letter in enumerate(text):
        taken += _columns(letter)
        if taken > columns - 1:
            return text[:at] + "…"
    return text


def width(text: str) -> int:
    """Columns that a cleaned text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def wrap(line: Line, columns: int | None) -> list[Line]:
    """The line in rows of so many columns at most; without a number, in one row."""
    if columns is None:
        return [line]
    text = "".join(part for _, part in line)
    rows = _rows(text, columns)
    if len(rows) > 1 and rows[-1][0] == rows[-1][1]:
        rows.pop()  # the blanks at its end did not fit
    return [_cut(line, start, end) for start, end in rows]


def sgr(line: Line) -> str:
    """The line with the escape sequences of its styles."""
    return "".join(f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style else text for style, text in line)


def plain(line: Line) -> str:
    """The line without its styles."""
    return "".join(text for _, text in line)


class Flow:
    """A text that grows at its end, in rows: those that are full come out, the last one may still change."""

    def __init__(self) -> None:
        self._row = ""
        self._wrapped = False

    @property
    def row(self) -> str:
        """The last row, as it stands."""
        return self._row

    def feed(self, text: str, columns: int | None) -> list[str]:
        """Rows that nothing can change any more."""
        *whole, last = (self._row + text).split("\n")
        rows: list[str] = []
        for paragraph in whole:
            rows += self._wrap(paragraph, columns)
            if rows and not rows[-1] and self._wrapped:
                rows.pop()  # the blanks at which a row was broken
            self._wrapped = False
        *full, self._row = self._wrap(last, columns)
        return rows + full

    def end(self) -> list[str]:
        """The last row, if there is anything in it."""
        row, self._row, self._wrapped = self._row, "", False
        return [row] if row else []

    def _wrap(self, text: str, columns: int | None) -> list[str]:
        rows = [text] if columns is None else [text[start:end] for start, end in _rows(text, columns)]
        self._wrapped = self._wrapped or len(rows) > 1
        return rows


def _rows(text: str, columns: int) -> list[tuple[int, int]]:
    """Where each row starts and ends; blanks at which a row is broken belong to none."""
    rows: list[tuple[int, int]] = []
    start = end = word_end = used = 0
    for found in _TOKEN.finditer(text):
        token, size = found.group(), width(found.group())
        if used + size <= columns:
            end, used = found.end(), used + size
            word_end = word_end if token.isspace() else end
            continue
        if word_end > start:
            rows.append((start, word_end))
        if token.isspace():
            start = end = word_end = found.end()
            used = 0
            continue
        *full, (start, end) = _broken(token, found.start(), columns)
        rows += full
        word_end, used = end, width(text[start:end])
    rows.append((start, end))
    return rows


def _broken(word: str, at: int, columns: int) -> list[tuple[int, int]]:
    """A word that begins a row, broken where it is wider than one."""
    rows: list[tuple[int, int]] = []
    start = used = 0
    for place, letter in enumerate(word):
        size = _columns(letter)
        if used and used + size > columns:
            rows.append((at + start, at + place))
            start, used = place, 0
        used += size
    return [*rows, (at + start, at + len(word))]


def _cut(line: Line, start: int, end: int) -> Line:
    cut: Line = []
    for style, text in line:
        piece = text[max(0, start) : max(0, end)]
        if piece:
            cut.append((style, piece))
        start, end = start - len(text), end - len(text)
    return cut


def _plain(text: str) -> str:
    if text.isascii():
        return text.translate(_CONTROLS)
    text = text.replace("\t", TAB)
    return "".join(letter for letter in map(_harmless, text) if letter == "\n" or _shows(letter))


def _harmless(letter: str) -> str:
    """Blanks of every sort as a blank; what is no character that is known as the sign for one that is missing."""
    category = unicodedata.category(letter)
    if category in ("Zs", "Zl", "Zp"):
        return " "
    return "\N{REPLACEMENT CHARACTER}" if category in ("Cs", "Cn", "Co") else letter


def _shows(letter: str) -> bool:
    """Whether it is something to see; what turns the direction of writing is not."""
    return letter.isprintable() or letter in _JOINERS


def _sign(letter: str) -> str:
    if letter == "\x7f":
        return "\N{SYMBOL FOR DELETE}"
    return chr(0x2400 + ord(letter)) if letter < " " else "\N{REPLACEMENT CHARACTER}"


def _columns(letter: str) -> int:
    if letter.isascii():
        return 1
    if letter in _JOINERS or unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
