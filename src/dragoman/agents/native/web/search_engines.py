"""Search engines with an HTTP API: what each is asked, and what its answer says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from .exchange import user_agent
from .plain import one_line, strip_tags

if TYPE_CHECKING:
    import aiohttp

_Answer = TypeVar("_Answer")

MAX_ANSWER = 2 * 1024 * 1024
"""Bytes of an answer, unpacked."""
TITLE, SNIPPET = 300, 600
"""Characters of each result that are kept."""


class SearchFailed(Exception):
    """An engine gave no results; ``str()`` names it and says why. Never holds a key, nor what the engine wrote."""


class Found(msgspec.Struct, frozen=True):
    """One result. Title and snippet are one line each, without markup, and may be empty."""

    title: str
    url: str
    snippet: str


class Engine(Protocol):
    """One search engine. ``key_name`` is what its key goes by."""

    @property
    def name(self) -> str: ...

    @property
    def key_name(self) -> str: ...

    async def search(self, query: str, count: int, *, key: str, seconds: float) -> list[Found]:
        """At most ``count`` results, in ``seconds``. Raises SearchFailed."""


class _BraveResult(msgspec.Struct):
    url: str = ""
    title: str | None = None
    description: str | None = None


class _BraveWeb(msgspec.Struct):
    results: list[_BraveResult] = []


class _BraveAnswer(msgspec.Struct):
    web: _BraveWeb | None = None  # absent where nothing was found


class _ExaResult(msgspec.Struct):
    url: str = ""
    title: str | None = None
    highlights: list[str] | None = None
    text: str | None = None


class _ExaAnswer(msgspec.Struct):
    results: list[_ExaResult]


class Brave:
    """Brave Search."""

    name = "Brave"
    key_name = "BRAVE_API_KEY"

    def __init__(self, base_url: str = "https://api.search.brave.com") -> None:
        self._url = f"{base_url.rstrip('/')}/res/v1/web/search"

    async def search(self, query: str, count: int, *, key: str, seconds: float) -> list[Found]:
        """See ``Engine``."""
        parameters = {"q": query, "count": str(count), "text_decorations": "false"}
        body = await _asked(
            self.name, "GET", self._url, {"X-Subscription-Token": key}, seconds=seconds, params=parameters
        )
        answer = _decoded(self.name, body, _BraveAnswer)
        results = answer.web.results if answer.web else []
        return _kept([Found(each.title or "", each.url, each.description or "") for each in results])


class Exa:
    """Exa."""

    name = "Exa"
    key_name = "EXA_API_KEY"

    def __init__(self, base_url: str = "https://api.exa.ai") -> None:
        self._url = f"{base_url.rstrip('/')}/search"

    async def search(self, query: str, count: int, *, key: str, seconds: float) -> list[Found]:
        """See ``Engine``."""
        wish = {"query": query, "numResults": count, "contents": {"highlights": {"maxCharacters": SNIPPET}}}
        body = await _asked(self.name, "POST", self._url, {"x-api-key": key}, seconds=seconds, json=wish)
        results = _decoded(self.name, body, _ExaAnswer).results
        return _kept(
            [Found(each.title or "", each.url, " … ".join(each.highlights or [each.text or ""])) for each in results]
        )


def _kept(found: list[Found]) -> list[Found]:
    """Those that lead somewhere, without markup, each URL once."""
    clean: dict[str, Found] = {}
    for each in found:
        url = "".join(each.url.split())
        if url.lower().startswith(("http://", "https://")) and url.isprintable():
            clean.setdefault(url, Found(_line(each.title, TITLE), url, _line(each.snippet, SNIPPET)))
    return list(clean.values())


def _line(markup: str, limit: int) -> str:
    text = "".join(each for each in one_line(strip_tags(markup)[1]) if each.isprintable())
    return text if len(text) <= limit else f"{text[:limit].rstrip()}…"


def _decoded(name: str, body: bytes, kind: type[_Answer]) -> _Answer:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SearchFailed(f"{name} gave an answer that cannot be read") from None


async def _asked(name: str, method: str, url: str, secret: Mapping[str, str], *, seconds: float, **given: Any) -> bytes:
    """The body of a good answer. Redirects are not followed: the key is for this host."""
    import aiohttp  # noqa: PLC0415  heavy

    if not all(value.isascii() and value.isprintable() for value in secret.values()):
        raise SearchFailed(f"{name} cannot be asked: its key is not one")
    headers = {"User-Agent": user_agent(), "Accept": "application/json", **secret}
    try:
        async with (
            asyncio.timeout(seconds),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client,
            client.request(method, url, headers=headers, allow_redirects=False, **given) as response,
        ):
            if response.status != 200:
                raise SearchFailed(f"{name} answered HTTP {response.status}{_meaning(response.status)}")
            return await _bounded(name, response)
    except TimeoutError:
        raise SearchFailed(f"{name} did not answer within {seconds:g} s") from None
    except aiohttp.ClientConnectorError:
        raise SearchFailed(f"{name} could not be reached") from None
    except aiohttp.ClientConnectionError:
        raise SearchFailed(f"{name} broke the connection off") from None
    except (aiohttp.ClientError, ValueError):
        raise SearchFailed(f"{name} gave an answer that cannot be read") from None


async def _bounded(name: str, response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_chunked(64 * 1024):
        body += piece
        if len(body) > MAX_ANSWER:
            raise SearchFailed(f"{name} gave an answer that is too long")
    return bytes(body)


def _meaning(status: int) -> str:
    if status in (401, 403):
        return ": it does not take the key"
    return {422: ": it does not take such a query", 429: ": too many searches"}.get(status, "")
