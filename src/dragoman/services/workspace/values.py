"""Values of a configuration, each looked at on its own: one that cannot be used is left out, and a line says why.

No line has a value in it: somebody may have put a key where it does not belong.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

_YES = frozenset({"1", "true", "yes", "y", "on"})
_NO = frozenset({"0", "false", "no", "n", "off"})

WordT = TypeVar("WordT", bound=str)

_MOST_NAMED = 60
"""Characters of a name that a line repeats."""


class Values:
    """The values of one object. ``where`` begins each line: the file, and the keys that lead here.

    ``spelled`` has the keys that are called something else where they come from.
    """

    def __init__(
        self, given: Mapping[str, object], where: str, problems: list[str], *, spelled: Mapping[str, str] | None = None
    ) -> None:
        self._given = given
        self._where = where
        self._problems = problems
        self._spelled = spelled or {}

    def problem(self, key: str, why: str) -> None:
        """Say that a value is skipped."""
        self._problems.append(f"{self._where}: {named(self._spelled.get(key, key))} is skipped: {why}")

    def keys(self) -> Iterable[str]:
        """The object's own keys."""
        return self._given.keys()

    def inside(self, key: str) -> Values:
        """The object at this key; an empty one where there is none."""
        value = self._given.get(key)
        if not isinstance(value, dict):
            if value is not None:
                self.problem(key, "it should be an object")
            value = {}
        return Values(value, f"{self._where}: {named(key)}", self._problems)

    def text(self, key: str, most: int, *, lines: bool = False, blank: bool = False) -> str | None:
        """A text without white space around it. ``lines``: it may have several. ``blank``: an empty one counts."""
        value = self._given.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.problem(key, "it should be a text")
            return None
        text = value.strip()
        if len(text) > most:
            self.problem(key, f"it has more than {most} characters")
            return None
        if not lines and not text.isprintable():
            self.problem(key, "it has control characters")
            return None
        return text if text or blank else None

    def choice(self, key: str, choices: Sequence[WordT]) -> WordT | None:
        """One of these words."""
        word = self.text(key, 200)
        known = next((choice for choice in choices if choice == word), None)
        if word is not None and known is None:
            self.problem(key, f"it should be one of {', '.join(choices)}")
        return known

    def flag(self, key: str) -> bool | None:
        """True or false, also in words: yes, y, on, 1, and their opposites."""
        value = self._given.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            word = value.strip().casefold()
            if word in _YES or word in _NO:
                return word in _YES
            if not word:
                return None
        if value is not None:
            self.problem(key, "it should be true or false")
        return None

    def whole(self, key: str, least: int, most: int) -> int | None:
        """A number without what is behind its point, brought into these bounds; also as a text."""
        value = self._given.get(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            self.problem(key, "it should be a number")
            return None
        return min(max(math.floor(number), least), most)

    def address(self, key: str, *, only_here: bool = False) -> str | None:
        """The base URL of a service, without a slash behind it. ``only_here``: on this machine."""
        text = self.text(key, 2000)
        if text is None:
            return None
        why = _wrong_with(text, only_here=only_here)
        if why is None:
            return text.rstrip("/")
        self.problem(key, why)
        return None


def named(name: str) -> str:
    """A name from a file, fit for a line: short, and nothing in it that is not shown."""
    return ascii(name) if len(name) <= _MOST_NAMED else ascii(name[:_MOST_NAMED]) + "…"


def web_problem(url: str) -> str | None:
    """What keeps a URL from being called over HTTP; None if nothing does."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in ("http", "https") or not host:
        return "it should begin with http:// or https:// and name a host"
    if not url.isprintable() or " " in url:
        return "it has characters that no URL has"
    return None


def _wrong_with(url: str, *, only_here: bool) -> str | None:
    why = web_problem(url)
    if why is not None:
        return why
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or set(url) & {"?", "#"}:
        return "an address is shown to clients: no name, password or query may be in it"
    if only_here and not _is_here(parts.hostname or ""):
        return "a project may name addresses on this machine only"
    return None


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
