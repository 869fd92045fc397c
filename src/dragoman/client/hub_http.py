"""The hub's HTTP routes, for what needs no connection of its own: one request, one answer, by the standard library."""

from __future__ import annotations

import asyncio
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from .errors import ConnectionLost, Refused

__all__ = ["HubHttp", "Tape"]


@dataclass(frozen=True, slots=True)
class Tape:
    """A piece of raw output: ``data`` starts at ``offset``, the next piece at ``next``; all of it ends at ``end``."""

    offset: int
    next: int
    end: int
    data: bytes


class HubHttp:
    """``url`` is the dialect's root, such as ``http://127.0.0.1:7337/hub``. Every call is a connection of its own."""

    def __init__(self, url: str, *, token: str | None = None, limit: float = 30.0) -> None:
        self._url = urlsplit(url.rstrip("/"))
        self._headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._limit = limit

    async def get(self, path: str, **query: Any) -> Any:
        """The JSON at a path. Raises ``Refused``, ``ConnectionLost``."""
        return json.loads((await self._ask("GET", path, query, None)).body)

    async def post(self, path: str, **body: Any) -> Any:
        """Post a JSON object and return the JSON answer. Raises as ``get``."""
        return json.loads((await self._ask("POST", path, {}, body)).body)

    async def patch(self, path: str, **body: Any) -> Any:
        """Change something. Raises as ``get``."""
        return json.loads((await self._ask("PATCH", path, {}, body)).body)

    async def put(self, path: str, **body: Any) -> Any:
        """Put something in place. Raises as ``get``."""
        return json.loads((await self._ask("PUT", path, {}, body)).body)

    async def delete(self, path: str) -> Any:
        """Remove something. Raises as ``get``."""
        return json.loads((await self._ask("DELETE", path, {}, None)).body)

    async def tape(self, session: str, *, offset: int | None = None, limit: int | None = None) -> Tape:
        """Raw output of a terminal from ``offset`` on; without one, the newest. Raises as ``get``."""
        query = {"offset": offset, "limit": limit}
        answer = await self._ask("GET", f"/sessions/{quote(session, safe='')}/tape", query, None)
        at, following, end = (int(answer.headers[f"tape-{name}"]) for name in ("offset", "next", "end"))
        return Tape(at, following, end, answer.body)

    async def screen(self, session: str) -> str:
        """A terminal's picture as plain text. Raises as ``get``."""
        answer = await self._ask("GET", f"/sessions/{quote(session, safe='')}/screen", {"format": "text"}, None)
        return answer.body.decode()

    async def _ask(self, method: str, path: str, query: dict[str, Any], body: dict[str, Any] | None) -> _Answer:
        given = {name: value for name, value in query.items() if value is not None}
        target = self._url.path + path + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = await asyncio.to_thread(self._exchange, method, target, data)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLost(f"no answer from {self._url.netloc}: {error!r}") from error
        if answer.status >= 400:
            raise _refusal(answer)
        return answer

    def _exchange(self, method: str, target: str, data: bytes | None) -> _Answer:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=self._limit)
        try:
            connection.request(method, target, data, {"Content-Type": "application/json", **self._headers})
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return _Answer(response.status, headers, response.read())
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def _refusal(answer: _Answer) -> Refused:
    """The error in an answer; what stands before the server may answer in a form of its own."""
    try:
        error = json.loads(answer.body)["error"]
        return Refused(error["code"], error["message"], error)
    except (ValueError, KeyError, TypeError):
        return Refused(f"http_{answer.status}", answer.body[:200].decode(errors="replace"))
