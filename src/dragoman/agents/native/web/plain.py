"""The text of HTML without a parser: in one pass, in linear time, whatever the markup. Crude, and never fails."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Possessive, so that an unclosed tag is looked at once.
_MARK = re.compile(r"<!--|<(/?)([a-z][a-z0-9:-]*+)[^<>]*+>|<[!?][^<>]*+>", re.IGNORECASE)
_HIDDEN = frozenset(
    ["script", "style", "noscript", "template", "svg", "math", "iframe", "object", "select", "textarea"]
)
_INLINE = frozenset(
    [
        *("a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd"),
        *("label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    ]
)


@dataclass
class _Scan:
    """Where in the text we are: inside what is not shown, inside the title."""

    hidden: str = ""
    in_title: bool = False
    title: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def take(self, piece: str) -> None:
        if self.in_title:
            self.title.append(piece)
        elif not self.hidden:
            self.text.append(piece)

    def tag(self, name: str, closes: bool) -> None:
        if self.hidden:
            self.hidden = "" if closes and name == self.hidden else self.hidden
        elif name in _HIDDEN:
            self.hidden = "" if closes else name
        elif name == "title":
            self.in_title = not closes and not self.title
        elif name in ("td", "th"):
            self.text.append(" ")
        elif name not in _INLINE:
            self.in_title = False
            self.text.append("\n")


def strip_tags(markup: str) -> tuple[str, str]:
    """Title (may be empty) and text, one line for each block."""
    scan = _Scan()
    end = 0
    for begin, after, name, closes in _marks(markup):
        scan.take(markup[end:begin])
        end = after
        if name:
            scan.tag(name, closes)
    scan.take(markup[end:])
    return one_line(html.unescape("".join(scan.title))), tidy(html.unescape("".join(scan.text)))


def one_line(text: str) -> str:
    """With every run of blanks as one."""
    return " ".join(text.split())


def tidy(text: str) -> str:
    """Lines without blanks around them, and at most one empty line in a row."""
    lines = [one_line(line) for line in text.split("\n")]
    kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
    return "\n".join(kept).strip("\n")


def _marks(markup: str) -> Iterator[tuple[int, int, str, bool]]:
    """Begin, end, name (empty for what is no tag) and whether it closes, of each piece of markup."""
    at = 0
    while found := _MARK.search(markup, at):
        at = found.end()
        if found[0] == "<!--":
            close = markup.find("-->", at)
            at = len(markup) if close < 0 else close + 3
        yield found.start(), at, (found[2] or "").lower(), bool(found[1])
