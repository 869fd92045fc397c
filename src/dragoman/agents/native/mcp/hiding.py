"""What of a server's entry nobody is to see: its environment, its headers, what its URL carries beside the place."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from dragoman.agents.native.tools.environment import is_secret_name
from dragoman.hub.events import Json
from dragoman.hub.workspace_config import McpServer

HIDDEN = "***"

_SHORTEST = 4
"""Characters of a value for which our own words about a server are searched."""

_SHORTEST_IN_RESULTS = 8
"""Characters of a value for which what its tools give is searched, where its name says that it is a secret."""


class EntrySecrets:
    """Takes an entry's secrets out of texts."""

    def __init__(self, entry: McpServer) -> None:
        carried = [*entry.headers.values(), *_url_secrets(entry.url)]
        bare = [value.partition(" ")[2] for value in entry.headers.values() if " " in value]  # behind "Bearer"
        named = [value for name, value in entry.env.items() if is_secret_name(name)]
        self._all = _longest_first([*carried, *bare, *entry.env.values()], _SHORTEST)
        self._certain = _longest_first([*carried, *bare, *named], _SHORTEST_IN_RESULTS)

    def clean(self, text: str) -> str:
        """A message about the server, without any value of its entry's environment, headers or query."""
        return _without(text, self._all)

    def hide(self, value: Json) -> Json:
        """What a tool gave, without what is a secret beyond doubt."""
        if isinstance(value, str):
            return _without(value, self._certain)
        if isinstance(value, list):
            return [self.hide(each) for each in value]
        if isinstance(value, dict):
            return {_without(key, self._certain): self.hide(each) for key, each in value.items()}
        return value


def shown_url(url: str) -> str:
    """The place that a URL leads to, without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return "(no URL)"


def _url_secrets(url: str) -> Iterable[str]:
    try:
        parts = urlsplit(url)
        given = (parts.username, parts.password)
    except ValueError:
        return
    yield from (text for part in given if part for text in (part, unquote(part)))
    yield parts.query
    yield from (value for _, value in parse_qsl(parts.query, keep_blank_values=True))
    yield from (value.partition("=")[2] for value in parts.query.split("&"))


def _longest_first(values: Iterable[str], shortest: int) -> list[str]:
    """One that is a part of another goes after it."""
    return sorted({value for value in values if len(value) >= shortest}, key=len, reverse=True)


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
