"""What a list says: identities, one a line, and patterns (onion, spec §5)."""

from __future__ import annotations

import re

import msgspec

from dragoman.services.identity import address_of
from dragoman.services.workspace.files import FileProblem

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
_COMMENT = re.compile(r"(?:^|\s)#.*")
_NAME = re.compile(r"[^\s*#]{1,200}")


class Entries(msgspec.Struct, frozen=True):
    """Identities in their one spelling, and patterns taken apart at their ``*``."""

    exact: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, ...], ...] = ()

    def names(self, identity: str) -> bool:
        """Whether a line is this identity, in any spelling and case, or a pattern that all of it fits."""
        plain = plain_identity(identity)
        return plain in self.exact or any(_fits(pattern, plain) for pattern in self.patterns)

    def lists(self, identity: str) -> bool:
        """Whether a line is this identity itself: no pattern counts."""
        return plain_identity(identity) in self.exact


def entries(data: bytes) -> Entries:
    """A list's file. Raises ``FileProblem`` for what is no text."""
    found = [entry for line in text_of(data).splitlines() if (entry := entry_of(line))]
    return Entries(
        frozenset(entry for entry in found if "*" not in entry),
        tuple(tuple(entry.split("*")) for entry in found if "*" in entry),
    )


def text_of(data: bytes) -> str:
    """A list's text. Raises ``FileProblem``."""
    try:
        return data.decode().removeprefix(_BOM)
    except UnicodeDecodeError:
        raise FileProblem("it is not UTF-8 text") from None


def entry_of(line: str) -> str:
    """The identity or pattern of a line in its one spelling; empty where it has none."""
    return plain_identity(_COMMENT.sub("", line).strip())


def plain_identity(identity: str) -> str:
    """The one spelling of an identity: an address as it is always written; any other name in lower case."""
    return address_of(identity) or identity.casefold()


def is_identity(given: str) -> bool:
    """Whether a line of a list may be this: no pattern, no comment, no second line."""
    return _NAME.fullmatch(given) is not None and given.isprintable()


def _fits(pattern: tuple[str, ...], name: str) -> bool:
    """Whether all of the name is the pattern's pieces in their order, with anything between two of them."""
    first, *inner, last = pattern
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in inner:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
