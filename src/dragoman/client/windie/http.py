"""The server's HTTP routes: one request, one answer, by the standard library."""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from dragoman.client.errors import ConnectionLost, Refused

_WORDS = 500
"""Bytes of an answer that an error repeats where it is none of the server's own."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file as it was fetched."""

    content_type: str
    data: bytes


class WindieHttp:
    """``root`` is what ``/api/...`` is added to. Every call is a connection of its own, of at most ``limit`` seconds.

    ``token`` is the install token; it may be set later. ``headers`` go with every call.
    """

    def __init__(self, root: str, token: str | None, limit: float, headers: Mapping[str, str] | None = None) -> None:
        self.token = token
        self._headers = dict(headers or {})
        self._root = urlsplit(root)
        self._limit = limit

    async def get(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object at a path. Raises ``Refused``, ``ConnectionLost``."""
        return _object(await self._ask("GET", path, query=query))

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post a JSON object and return the one that answers. Raises as ``get``."""
        return _object(await self._ask("POST", path, json.dumps(body).encode(), "application/json"))

    async def upload(self, path: str, filename: str, content_type: str, data: bytes) -> dict[str, Any]:
        """Post one file as the form's field ``file``. Raises as ``get``."""
        mark = f"dragoman-{secrets.token_hex(16)}"
        name = filename.replace('"', "%22").replace("\r", "").replace("\n", "")
        head = (
            f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            f"Content-Type: {content_type}\r\n\r\n"
        )
        form = head.encode() + data + f"\r\n--{mark}--\r\n".encode()
        return _object(await self._ask("POST", path, form, f"multipart/form-data; boundary={mark}"))

    async def fetch(self, path: str) -> Fetched:
        """The file at a path. Raises as ``get``."""
        answer = await self._ask("GET", path)
        return Fetched(answer.content_type, answer.body)

    async def _ask(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        content_type: str | None = None,
        *,
        query: dict[str, Any] | None = None,
    ) -> _Answer:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._root.path + path + (f"?{urlencode(given)}" if given else "")
        headers = self._headers | ({} if content_type is None else {"Content-Type": content_type})
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            answer = await asyncio.to_thread(self._exchange, method, target, data, headers)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLost(f"no answer from {self._root.netloc}: {error!r}") from error
        if answer.status >= 400:
            raise _refusal(answer)
        return answer

    def _exchange(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> _Answer:
        kind = http.client.HTTPSConnection if self._root.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._root.hostname or "", self._root.port, timeout=self._limit)
        try:
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            return _Answer(response.status, response.getheader("content-type", ""), response.read())
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content_type: str
    body: bytes


def _object(answer: _Answer) -> dict[str, Any]:
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused("not_json", f"the answer is no JSON object: {answer.body[:_WORDS].decode(errors='replace')}")
    return found


def _refusal(answer: _Answer) -> Refused:
    """The seed's errors are ``{"detail": <text or object>}``; what stands before the server may say it otherwise."""
    code = f"http_{answer.status}"
    try:
        said = json.loads(answer.body)
    except ValueError:
        return Refused(code, answer.body[:_WORDS].decode(errors="replace"))
    detail = said.get("detail") if isinstance(said, dict) else None
    if isinstance(detail, dict) and isinstance(detail.get("message"), str):
        return Refused(code, detail["message"], detail)
    return Refused(
        code, detail if isinstance(detail, str) else json.dumps(said), said if isinstance(said, dict) else {}
    )
