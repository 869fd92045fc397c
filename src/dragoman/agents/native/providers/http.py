"""A provider's HTTP API: one JSON body out, one streamed answer in.

Imports aiohttp, so whoever starts quickly imports this late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
import msgspec
from yarl import URL

from dragoman.agents.native.settings import NativeSettings
from dragoman.hub.events import Json

from .error_answers import answer_failed
from .port import ProviderFailed
from .proxy import proxy_for
from .secret import Secret
from .sse import LONGEST_EVENT, EventTooLong, SseEvent, SseParser

LONGEST_ERROR = 64 * 1024
"""Bytes of an error's body that are read."""

LONGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of one answer. 128 000 tokens, each an event of its own, are some 45 MB with a talkative server."""

LINGER_SECONDS = 0.25
"""After the last event, for the end of the answer: without it the connection cannot be used again."""

IDLE_SECONDS = 60.0
"""How long an unused connection is kept. A tool often takes longer than aiohttp's own 15 s."""


class Answer:
    """A streamed answer. Whoever has it must ``close`` it."""

    def __init__(self, response: aiohttp.ClientResponse, where: str, silence: float) -> None:
        self._response = response
        self._where = where
        self._silence = silence
        self._parser = SseParser()
        self._streams = response.content_type != "application/json"
        self._loop = asyncio.get_running_loop()
        self._came = 0
        """Bytes so far."""
        self._waiting_since: float | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._silent = False

    async def batch(self) -> list[SseEvent] | None:
        """The next events, as many as came at once; None at the end. Raises ``ProviderFailed``."""
        if not self._streams:
            return await self._whole()
        while chunk := await self._chunk():
            self._came += len(chunk)
            if self._came > LONGEST_ANSWER:
                raise ProviderFailed(f"{self._where} sent an answer of more than {LONGEST_ANSWER} bytes")
            try:
                events = self._parser.feed(chunk)
            except EventTooLong as error:
                raise ProviderFailed(f"{self._where} sent {error}") from None
            if events:
                return events
        return None

    async def drain(self) -> None:
        """Read to the end, if it is near, so that the connection may serve the next call."""
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._response.content.readany():
                    pass
        except (TimeoutError, aiohttp.ClientError, OSError):
            self.close()

    def close(self) -> None:
        """End the answer at once, and its connection with it, unless it came to its end."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._response.close()

    async def start(self) -> bytes:
        """At most ``LONGEST_ERROR`` bytes of a body that is no stream."""
        body = b""
        while len(body) < LONGEST_ERROR and (chunk := await self._chunk()):
            body += chunk
        return body[:LONGEST_ERROR]

    async def _whole(self) -> list[SseEvent] | None:
        """A server that does not stream: its JSON answer as the only event."""
        body = bytearray()
        while chunk := await self._chunk():
            body += chunk
            if len(body) > LONGEST_EVENT:
                raise ProviderFailed(f"{self._where} sent an answer of more than {LONGEST_EVENT} bytes")
        return [SseEvent("", bytes(body))] if body else None

    async def _chunk(self) -> bytes:
        """What has come, or what comes next; nothing at the end."""
        content = self._response.content
        if self._watch is None:
            self._watch = self._loop.call_later(self._silence, self._look)
        try:
            self._waiting_since = self._loop.time()
            return await content.readany()
        except (aiohttp.ClientError, OSError) as error:
            given = TimeoutError() if self._silent else error
            failed = _network_failed(given, self._where, self._silence)
        finally:
            self._waiting_since = None
        raise failed

    def _look(self) -> None:
        """End an answer in which nothing came for too long. One timer for all of it: one per piece would cost more
        than all else that is done with a piece."""
        now = self._loop.time()
        due = (now if self._waiting_since is None else self._waiting_since) + self._silence
        if due > now:
            self._watch = self._loop.call_at(due, self._look)
            return
        self._silent = True
        self.close()


class Endpoint:
    """Where a provider's API is, who we are there, and the connections to it.

    Raises ``ProviderFailed`` for a ``base_url`` that is no HTTP URL. Redirects are not followed: the key would go too.
    """

    def __init__(
        self, base_url: str, *, key: str | None, settings: NativeSettings, headers: Mapping[str, str] | None = None
    ) -> None:
        self.secret = Secret(key)
        self._base = _parsed(base_url)
        if self.secret:
            self._base = self._base.with_user(None)
        self._settings = settings
        self._headers = dict(headers or {})
        self._session: aiohttp.ClientSession | None = None

    @property
    def host(self) -> str:
        """The name of the machine."""
        return self._base.host or ""

    @property
    def where(self) -> str:
        """Host and port, to name it in messages."""
        return self._base.authority.rpartition("@")[2]

    async def close(self) -> None:
        """Give up the connections. A later call makes new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def post(self, path: str, body: Json) -> Answer:
        """Send, and return once a success has begun to come. Raises ``ProviderFailed``."""
        answer, response = await self._sent(path, msgspec.json.encode(body))
        if response.status < 300 and response.content_type != "text/html":
            return answer
        try:
            failed = await self._refused(answer, response)
        finally:
            answer.close()
        raise failed

    async def _sent(self, path: str, body: bytes) -> tuple[Answer, aiohttp.ClientResponse]:
        if not self.secret.sendable:
            raise ProviderFailed(f"the key for {self.where} has characters that no key has", cause="unauthorized")
        url = self._base.joinpath(*path.split("/")).with_query(self._base.query)
        silence = self._settings.silence_seconds
        try:
            async with asyncio.timeout(silence):
                response = await self._opened().post(
                    url,
                    data=body,
                    headers=self._sent_headers(),
                    proxy=proxy_for(str(url)),
                    allow_redirects=False,
                )
        except aiohttp.ConnectionTimeoutError as error:
            failed = _network_failed(error, self.where, self._settings.connect_seconds)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            failed = _network_failed(error, self.where, silence)
        else:
            return Answer(response, self.where, silence), response
        raise failed

    def _sent_headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",  # a compressor holds back what a stream should show at once
            "User-Agent": "dragoman",
            **self._headers,
        }
        if self.secret:
            headers["Authorization"] = f"Bearer {self.secret.value}"
        return headers

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._settings.connect_seconds),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _refused(self, answer: Answer, response: aiohttp.ClientResponse) -> ProviderFailed:
        status = response.status
        if status < 400:
            what = "a redirect" if 300 <= status < 400 else f"status {status} and {response.content_type}"
            return ProviderFailed(
                f"{self.where} answered with {what}: is this the address of its API?",
                cause="invalid_request",
                status=status,
            )
        try:
            body = await answer.start()
        except ProviderFailed:  # the status says more than why its body did not come
            body = b""
        return answer_failed(status, body, response.headers, self.secret)


def _parsed(base_url: str) -> URL:
    try:
        url = URL(base_url.strip())
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise ProviderFailed("the provider's base URL is no http or https address", cause="invalid_request")
    return url


def _network_failed(error: Exception, where: str, limit: float) -> ProviderFailed:
    """Our own words: those of the library may hold the request, and the key in it."""
    if isinstance(error, aiohttp.ClientSSLError):
        return ProviderFailed(f"{where} has no certificate that this machine trusts", cause="network")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        said = f"{where} could not be reached within {limit:g} s"
    elif isinstance(error, TimeoutError):
        said = f"nothing came from {where} for {limit:g} s"
    elif isinstance(error, aiohttp.ClientConnectorError):
        said = f"{where} cannot be reached: {error.os_error.strerror or 'no connection'}"
    else:
        said = f"the connection to {where} broke"
    return ProviderFailed(said, cause="network", retryable=True)
