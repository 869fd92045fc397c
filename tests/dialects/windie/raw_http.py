"""HTTP as nobody's library would send it: bytes go out as they are, and one answer is read."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LIMIT = 20.0
"""Seconds that an answer may take, on a busy machine."""

Header = tuple[str, str | bytes]


@dataclass(frozen=True)
class Answer:
    """What came back. ``headers`` are in lower case; ``closes``: the server ends the connection with it."""

    status: int
    headers: dict[str, str]
    body: bytes
    closes: bool

    @property
    def detail(self) -> Any:
        """Of an error in the dialect's form."""
        assert self.headers.get("content-type") == "application/json", self
        said = json.loads(self.body)
        assert isinstance(said, dict), self
        assert list(said) == ["detail"], self
        return said["detail"]

    @property
    def json(self) -> Any:
        assert self.headers.get("content-type") == "application/json", self
        return json.loads(self.body)


def head(method: str, target: str | bytes, headers: Iterable[Header] = (), *, host: str | None = "127.0.0.1") -> bytes:
    """A request's head; ``target`` and values go out as they are. Without a ``host`` there is none."""
    given: list[Header] = [*([("Host", host)] if host is not None else []), *headers]
    lines = [method.encode() + b" " + _bytes(target) + b" HTTP/1.1"]
    lines += [name.encode() + b": " + _bytes(value) for name, value in given]
    return b"\r\n".join((*lines, b"", b""))


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


def whole(method: str, target: str | bytes, headers: Iterable[Header] = (), body: bytes | None = None) -> bytes:
    """A request with its body and the length of it."""
    length: list[Header] = [] if body is None else [("Content-Length", str(len(body)))]
    return head(method, target, [*headers, *length]) + (body or b"")


def say(
    port: int, data: bytes, *, method: str = "GET", limit: float = LIMIT, then_close: bool = False
) -> Answer | None:
    """Send this over a connection of its own. None: the server ended it without an answer. ``then_close``: nothing more
    is sent, which the server is told.

    Raises ``TimeoutError`` where it neither answers nor ends the connection.
    """
    with socket.create_connection(("127.0.0.1", port), limit) as stream:
        with contextlib.suppress(ConnectionError):  # it may have heard enough before the end
            stream.sendall(data)
            if then_close:
                stream.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(stream, method=method)
        try:
            answer.begin()
            body = answer.read()
        except (http.client.BadStatusLine, ConnectionError):
            return None
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, headers, body, bool(answer.will_close))


async def said(port: int, data: bytes, **more: Any) -> Answer:
    """The same off the loop, of a server that must answer."""
    answer = await asyncio.to_thread(say, port, data, **more)
    assert answer is not None, f"no answer to {data[:300]!r}"
    return answer
