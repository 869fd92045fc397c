"""One small question to a server over HTTP: a GET with a limit in time and in size. Never more than that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json

if TYPE_CHECKING:
    from aiohttp import StreamReader


class Unanswered(Exception):
    """Nothing usable came. ``str()`` is for people, and holds nothing of what was sent."""


class Answer(msgspec.Struct, frozen=True):
    """What came. ``value`` is the JSON of the body, None for a body that is none; ``server`` what it calls itself."""

    status: int
    value: Json
    server: str


async def ask(url: str, *, headers: Mapping[str, str] | None = None, seconds: float, most: int) -> Answer:
    """GET ``url`` within ``seconds``; of the body at most ``most`` bytes. Follows no redirect and uses no proxy.
    Raises ``Unanswered``."""
    import aiohttp  # noqa: PLC0415  a quarter of a second, and wanted by servers with native agents only

    try:
        async with (
            asyncio.timeout(seconds),
            # A refused redirect cannot carry the key elsewhere; an encoded body could grow beyond its limit.
            aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(
                url, headers={"Accept-Encoding": "identity", **(headers or {})}, allow_redirects=False
            ) as response,
        ):
            body = await _read(response.content, most)
            return Answer(response.status, _json(body), response.headers.get("Server", ""))
    except TimeoutError:
        raise Unanswered(f"no answer within {seconds:g} seconds") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # Only what kind of thing went wrong: a client's own words may repeat headers.
        raise Unanswered(f"it cannot be reached ({type(error).__name__})") from None


async def _read(content: StreamReader, most: int) -> bytes:
    body = b""
    async for piece in content.iter_chunked(65536):
        body += piece
        if len(body) > most:
            raise Unanswered(f"the answer is larger than {most} bytes")
    return body


def _json(body: bytes) -> Json:
    try:
        value: Json = msgspec.json.decode(body)
    except NOT_JSON:
        return None
    return value
