"""One request to a store over HTTP. Imports aiohttp, so whoever starts quickly imports this late."""

from __future__ import annotations

import asyncio

import aiohttp
from yarl import URL

from .queries import Attempt, AttemptFailed

ERROR_CHARACTERS = 400
"""Of the body of an error, behind its status."""


class Stores:
    """Connections to the stores. No proxy, no cookie, no redirect: what is configured is asked, and nobody else.

    ``seconds`` and ``most_bytes`` are for each request, ``connections`` for all.
    """

    def __init__(self, *, seconds: float, most_bytes: int, connections: int) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def fetch(self, attempt: Attempt) -> str:
        """The body of a 2xx answer. Raises ``AttemptFailed``."""
        if self._http.closed:
            raise AttemptFailed("the server stops")
        try:
            async with asyncio.timeout(self._seconds):
                return await self._fetch(attempt)
        except TimeoutError:
            raise AttemptFailed(f"no answer within {self._seconds:g} s") from None
        except ValueError:  # aiohttp.InvalidURL is one
            raise AttemptFailed("the URL that is configured for this store is none") from None
        except (aiohttp.ClientError, OSError) as problem:
            raise AttemptFailed(_in_words(problem)) from None

    async def close(self) -> None:
        """Give the connections up; requests under way fail."""
        await self._http.close()

    async def _fetch(self, attempt: Attempt) -> str:
        url, params = URL(attempt.base) / attempt.path, attempt.params
        if attempt.method == "GET":
            asking = self._http.get(url, params=params, allow_redirects=False)
        else:
            asking = self._http.post(url, data=params, allow_redirects=False)
        async with asking as response:
            if not 200 <= response.status < 300:
                body = await self._read(response.content, ERROR_CHARACTERS * 4)
                raise AttemptFailed(f"HTTP {response.status}: {_text(body)[:ERROR_CHARACTERS]}")
            body = await self._read(response.content, self._most_bytes + 1)
            if len(body) > self._most_bytes:
                raise AttemptFailed(f"the answer is longer than {self._most_bytes} bytes (observability.query_bytes)")
            return _text(body)

    @staticmethod
    async def _read(content: aiohttp.StreamReader, most: int) -> bytes:
        body = bytearray()
        while len(body) < most and (chunk := await content.read(most - len(body))):
            body += chunk
        return bytes(body)


def _text(body: bytes) -> str:
    return body.decode("utf-8-sig", "replace")


def _in_words(problem: Exception) -> str:
    """What went wrong, without the URL: a password may stand in it."""
    if isinstance(problem, aiohttp.ClientConnectorError):
        return f"cannot connect to {problem.host}:{problem.port}: {problem.os_error.strerror or 'failed'}"
    if isinstance(problem, aiohttp.ServerDisconnectedError):
        return "the connection ended before the answer"
    return f"the exchange failed: {type(problem).__name__}"
