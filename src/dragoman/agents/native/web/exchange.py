"""One HTTP/1.1 request and its response, over a connection that the URL guard made: the I/O around h11."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import cache

import h11

from dragoman.agents.native.url_guard import Streams, WebUrl

from .inflate import ACCEPTED

MAX_HEAD = 64 * 1024
"""Bytes of a response's head (and of what a chunk may say about itself)."""
MAX_INTERIM = 8
"""Responses 1xx before the one that counts."""
_READ = 16 * 1024
"""Bytes that are worked on before others get their turn; a chunk may hold one byte."""

_ACCEPT = (
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1"
)


class Exchange:
    """``send``, then ``head``, then ``body``. Whoever made it calls ``abort`` in the end, whatever happened.

    All of them raise ``h11.RemoteProtocolError`` for what is no HTTP, and OSError. They wait as long as the server
    takes: the caller has the limit.
    """

    def __init__(self, streams: Streams) -> None:
        self._reader, self._writer = streams
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)

    async def send(self, url: WebUrl) -> None:
        """Ask for this URL: no cookies, no credentials, no referrer."""
        data = self._http.send(h11.Request(method="GET", target=url.target, headers=request_headers(url)))
        end = self._http.send(h11.EndOfMessage())
        self._writer.write((data or b"") + (end or b""))
        await self._writer.drain()

    async def head(self) -> h11.Response:
        """The response that counts."""
        for _ in range(MAX_INTERIM + 1):
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            assert isinstance(event, h11.InformationalResponse)
        raise h11.RemoteProtocolError("too many interim responses")

    async def body(self) -> AsyncIterator[bytes]:
        """Its body as it comes, content codings and all. One that is shorter than announced raises at its end."""
        while isinstance(event := await self._event(), h11.Data):
            yield bytes(event.data)

    def abort(self) -> None:
        """Close at once: nothing that we sent can be lost any more."""
        self._writer.transport.abort()

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self._reader.read(_READ)
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                raise h11.RemoteProtocolError("the connection was closed before an answer")
            self._http.receive_data(data)
            await asyncio.sleep(0)  # a full buffer is read without waiting
        return event


def request_headers(url: WebUrl) -> list[tuple[str, str]]:
    """What every request says."""
    return [
        ("Host", url.authority),
        ("User-Agent", user_agent()),
        ("Accept", _ACCEPT),
        ("Accept-Encoding", ACCEPTED),
        ("Connection", "close"),
    ]


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """A header's last value, or nothing. Bytes beyond ASCII are UTF-8 where they can be."""
    values = [value for key, value in headers if key.lower() == name]
    if not values:
        return ""
    try:
        return values[-1].decode("utf-8")
    except UnicodeDecodeError:
        return values[-1].decode("latin-1")


@cache
def user_agent() -> str:
    """``dragoman/VERSION``."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  slow, and wanted here only

    try:
        return f"dragoman/{version('dragoman')}"
    except PackageNotFoundError:  # run from a source tree
        return "dragoman/0"
