"""Messages over HTTP: the library's transports, with our limits. Imported with the library only."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import msgspec
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from dragoman.agents.native.providers.proxy import proxy_for
from dragoman.hub.sizes import holds_more
from dragoman.hub.workspace_config import McpServer

from .settings import McpSettings

_GOODBYE = 1.0
"""Seconds for telling a server that its session is over."""

_SHRUG = 10.0
"""Seconds for a server to take note of what needs no answer."""

_EVENT_ENDS = re.compile(rb"\n\n|\r\r|\n\r")
"""Two ends of lines in a row, of whichever kind: a blank line."""

_TEXT = re.compile(rb'"[^"\\\r\n]*(?:\\[^\r\n][^"\\\r\n]*)*"?')
"""A text of JSON, which ends with its line: a quote in another field of an event hides nothing of the next line."""

_WAITING = 1024
"""Messages to a server that does not answer; each belongs to a call, which has a time-out."""


@asynccontextmanager
async def reached(entry: McpServer, settings: McpSettings) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams of a server at a URL. Whatever a transport raises comes through, in groups too."""
    async with _transport(entry, settings) as (incoming, into):
        outgoing, waiting = anyio.create_memory_object_stream[Any](_WAITING)
        # A transport takes nothing more while a server does not answer: whoever cancels a call is not to wait for that.
        forwarding = asyncio.create_task(_forward(waiting, into))
        try:
            yield incoming, outgoing
        finally:
            forwarding.cancel()
            await asyncio.gather(forwarding, return_exceptions=True)
            outgoing.close()
            waiting.close()


async def _forward(waiting: Any, into: Any) -> None:
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with waiting:
            async for item in waiting:
                await into.send(item)


@asynccontextmanager
async def _transport(entry: McpServer, settings: McpSettings) -> AsyncGenerator[tuple[Any, Any], None]:
    if entry.transport == "sse":

        def make(
            headers: dict[str, str] | None = None,  # noqa: ARG001 - ours are the client's own
            timeout: object = None,  # noqa: ARG001
            auth: httpx2.Auth | None = None,  # noqa: ARG001
        ) -> httpx2.AsyncClient:
            return _client(entry, settings)

        async with sse_client(entry.url, httpx_client_factory=make) as streams:
            yield streams
        return
    async with (
        _client(entry, settings) as client,
        streamable_http_client(entry.url, http_client=client, max_sse_event_size=settings.message_bytes) as streams,
    ):
        yield streams


def _client(entry: McpServer, settings: McpSettings) -> httpx2.AsyncClient:
    """A client for this server alone: it takes no credentials from anywhere else."""
    seconds = settings.connect_seconds

    async def limit(request: httpx2.Request) -> None:
        if request.method == "DELETE":
            limits = httpx2.Timeout(_GOODBYE)
        else:
            # A call's answer may be long in coming, and has a limit of its own; a notification has none.
            read = None if request.method == "GET" or _is_call(request.content) else _SHRUG
            limits = httpx2.Timeout(seconds, read=read)
        request.extensions = {**request.extensions, "timeout": limits.as_dict()}

    async def bound(answer: httpx2.Response) -> None:
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        if answer.headers.get("content-encoding", "identity") != "identity":
            # A few bytes may unpack to all memory, and all time, that there is.
            raise httpx2.DecodingError("it compresses its answers, which it was asked not to do")
        events = _media_type(answer) == "text/event-stream"
        answer.stream = _Bounded(answer.stream, settings, events=events)

    return httpx2.AsyncClient(
        headers={**entry.headers, "Accept-Encoding": "identity"},
        trust_env=False,
        proxy=proxy_for(entry.url),
        event_hooks={"request": [limit], "response": [bound]},
    )


def _media_type(answer: httpx2.Response) -> str:
    kind: str = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind


def _is_call(content: bytes) -> bool:
    return msgspec.json.decode(content, type=_Sent).id is not None


class _Sent(msgspec.Struct):
    """What is looked at of a message of ours."""

    id: int | str | None = None


class _Bounded(httpx2.AsyncByteStream):
    """A body whose messages are bounded: one, or those of a stream of events."""

    def __init__(self, stream: httpx2.AsyncByteStream, settings: McpSettings, *, events: bool) -> None:
        self._stream = stream
        self._bytes = settings.message_bytes
        self._values = settings.message_values
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        message = bytearray()
        async for chunk in self._stream:
            seen = max(len(message) - 1, 0)
            message += chunk
            if self._events:
                self._check_events(message, seen)
            if len(message) > self._bytes:
                raise httpx2.DecodingError(f"a message of more than {self._bytes} bytes (native.mcp.message_bytes)")
            yield chunk
        self._check(message)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _check_events(self, message: bytearray, seen: int) -> None:
        """Look at the events that have come to their end, and leave what follows them."""
        begin = 0
        for end in _EVENT_ENDS.finditer(message, seen):
            self._check(message[begin : end.end()])
            begin = end.end()
        del message[:begin]

    def _check(self, message: bytearray) -> None:
        # Before it is handed on: whoever reads it takes it apart at once.
        told = _TEXT.sub(b"", message) if self._events else bytes(message)
        if holds_more(told, self._values):
            raise httpx2.DecodingError(f"a message of more than {self._values} values (native.mcp.message_values)")
