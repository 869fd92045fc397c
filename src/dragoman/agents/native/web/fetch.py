"""A URL to the bytes of a text document: redirects, limits, and what went wrong in words.

Every hop goes through the URL guard, in its order: parse, resolve, connect; and HTTP is spoken over the connection that
it made and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from dataclasses import dataclass
from http import HTTPStatus

import h11

from dragoman.agents.native.url_guard import UrlBlocked, UrlGuard, WebUrl

from .charset import decode
from .content_type import ContentType
from .exchange import Exchange, header
from .inflate import CodingFailed, decoder
from .plain import one_line, strip_tags

ERROR_BYTES = 16 * 1024
"""Of the body of an error, unpacked."""
ERROR_CHARACTERS = 300
ERROR_SECONDS = 2.0
"""For that body: the status is worth more than what it says."""
_WIRE_SLACK = 64 * 1024
"""Bytes that a coding may take beyond what it gives; more is a body that gives nothing."""

_REDIRECTS = frozenset([301, 302, 303, 307, 308])
_EMPTY = frozenset([204, 205])


class FetchFailed(Exception):
    """The document could not be had. ``str()`` is a sentence for the model: it names the host, never a whole URL."""


@dataclass(frozen=True)
class Fetched:
    """A document. ``url`` is where it was at last; ``cut`` says that there is more of it than was read."""

    url: WebUrl
    kind: ContentType
    body: bytes
    cut: bool = False


class Fetcher:
    """Fetches under one guard. ``tls``: what https trusts; without it the system's certificates, loaded once."""

    def __init__(self, guard: UrlGuard, *, tls: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._tls = tls

    async def fetch(self, text: str, *, hop_seconds: float, body_limit: int) -> Fetched:
        """Follow it to its end.

        hop_seconds: for each hop, from its name to its last byte; body_limit: bytes, unpacked; more is cut off.

        Raises UrlInvalid, UrlBlocked or FetchFailed. When cancelled, the connection is closed first.
        """
        url = WebUrl.parse(text)
        while True:
            step = await self._timed(url, hop_seconds, body_limit)
            if isinstance(step, Fetched):
                return step
            url = step

    async def _timed(self, url: WebUrl, seconds: float, limit: int) -> WebUrl | Fetched:
        try:
            async with asyncio.timeout(seconds):
                return await self._hop(url, limit)
        except UrlBlocked:  # an OSError too
            raise
        except TimeoutError:
            raise FetchFailed(f"{url.host} took too long: {seconds:g} s is the limit for a hop") from None
        except ssl.SSLCertVerificationError as error:
            raise FetchFailed(f"{url.host} cannot be trusted: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise FetchFailed(f"no TLS connection to {url.host}: {error.reason or 'it failed'}") from None
        except socket.gaierror:
            raise FetchFailed(f"no address for {url.host}: there is no such host, or no name server") from None
        except OSError as error:
            raise FetchFailed(f"no connection to {url.host}: {_reason(error)}") from None
        except (h11.RemoteProtocolError, CodingFailed) as error:
            raise FetchFailed(f"{url.host} answered wrongly: {one_line(str(error))[:200]}") from None

    async def _hop(self, url: WebUrl, limit: int) -> WebUrl | Fetched:
        resolved = await self._guard.resolve(url)
        if url.scheme == "https" and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        exchange = Exchange(await self._guard.connect(resolved, self._tls))
        try:
            await exchange.send(url)
            return await _answer(exchange, url, limit)
        finally:
            exchange.abort()


async def _answer(exchange: Exchange, url: WebUrl, limit: int) -> WebUrl | Fetched:
    response = await exchange.head()
    status = response.status_code
    kind = ContentType.parse(header(response.headers, b"content-type"))
    if status in _REDIRECTS:
        location = header(response.headers, b"location")
        if not location:
            raise FetchFailed(f"{_status(status)} from {url.host}, without a place to go to")
        return url.redirected(location)
    if status in _EMPTY:
        return Fetched(url, ContentType("text/plain"), b"")
    if not 200 <= status < 300 or status == HTTPStatus.PARTIAL_CONTENT:  # a part was not asked for
        raise FetchFailed(f"{_status(status)} from {url.host}{await _told(exchange, response, kind)}")
    if not kind.is_text:
        raise FetchFailed(f"unsupported content type from {url.host}: {kind.media[:100] or 'none given'}")
    body, cut = await _body(exchange, response, limit)
    return Fetched(url, kind, body, cut)


async def _body(exchange: Exchange, response: h11.Response, limit: int) -> tuple[bytes, bool]:
    """The body, unpacked, and whether it was cut at ``limit``."""
    coding = decoder(header(response.headers, b"content-encoding"))
    body = bytearray()
    wire = 0
    async for data in exchange.body():
        wire += len(data)
        body += coding.feed(data, limit + 1 - len(body))
        if len(body) > limit or wire > limit + _WIRE_SLACK:
            return bytes(body[:limit]), True
    coding.end()
    return bytes(body), False


async def _told(exchange: Exchange, response: h11.Response, kind: ContentType) -> str:
    """``: `` and what an error's own page says, shortened; nothing where it says nothing that we read."""
    if not kind.is_text:
        return ""
    try:
        async with asyncio.timeout(ERROR_SECONDS):
            body, _ = await _body(exchange, response, ERROR_BYTES)
    except (h11.RemoteProtocolError, CodingFailed, OSError):
        return ""  # the status is the news, and we have it
    text = decode(body, kind)
    told = one_line(strip_tags(text)[1] if kind.is_page else text)
    return f": {told[:ERROR_CHARACTERS]}{'…' if len(told) > ERROR_CHARACTERS else ''}" if told else ""


def _status(status: int) -> str:
    """By the standard's name: the server's own phrase may be anything."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _reason(error: OSError) -> str:
    """Without the addresses that asyncio puts into the text."""
    return os.strerror(error.errno) if error.errno else "the connection was lost"
