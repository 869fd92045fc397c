"""Who may talk to us at all: Host, Origin, and how big a request may be (invariant 11).

A page on another site can make a browser connect to loopback; it cannot make the browser lie about Host and Origin. So
both are checked on every request and every upgrade, before anything else looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import parse_qsl, urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.dialects.base import BODY, LOOPBACK_NAMES, BodyLimit, Upgrade, is_loopback
from dragoman.dialects.bearer import bearer_of

_WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  compared with, never bound to

_NOT_IN_HOST = frozenset("/\\?#@")
"""What ends a host where URLs are read, and what comes before one: in the header itself there is none of it."""

OriginRule = Callable[[str, str], bool]
"""(path, origin) -> whether a dialect's own list lets this origin in."""


def host_name(header: str) -> str:
    """The name in a Host header, without port and brackets, in lower case; empty when it is none."""
    if not _NOT_IN_HOST.isdisjoint(header):
        return ""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of that (lower-case) name."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


def _repeats(scope: Scope, name: bytes) -> bool:
    """Whether a header stands there twice: which of them counts is then anybody's guess."""
    return [key for key, _ in scope["headers"]].count(name) > 1


def peer_of(scope: Scope) -> tuple[str, bool]:
    """The client's address, and whether it is on this machine."""
    client = scope.get("client")
    address = client[0] if client else ""
    return address, is_loopback(address)


def upgrade_of(scope: Scope, path: str) -> Upgrade:
    """What a WebSocket client asked for; the first value of a repeated query key counts."""
    query: dict[str, str] = {}
    for key, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        query.setdefault(key, value)
    address, loopback = peer_of(scope)
    return Upgrade(path=path, query=query, bearer=bearer_of(scope["headers"]), peer=address, loopback=loopback)


def local(app: ASGIApp) -> ASGIApp:
    """``app`` for a unix socket: who can open it is on this machine, and has no address to show it by."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "client": ("127.0.0.1", 0)}, receive, send)

    return served


class Guard:
    """ASGI middleware: refuses foreign hosts and origins, answers pre-flights, bounds bodies."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        bound: str,
        allow_host: Iterable[str] = (),
        allow_origin: Iterable[str] = (),
        origin_rule: OriginRule = lambda _path, _origin: False,
        max_body: int = 2 * 1024 * 1024,
    ) -> None:
        own = set() if bound in _WILDCARDS else {bound.lower()}
        self._app = app
        self._hosts = LOOPBACK_NAMES | own | {host.lower() for host in allow_host}
        self._origins = frozenset(_plain(origin) for origin in allow_origin)
        self._rule = origin_rule
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        if _repeats(scope, b"host") or _repeats(scope, b"origin"):
            await refuse(scope, send, 400, "Host and Origin must be given once")
            return
        host = header(scope, b"host") or ""
        if host_name(host) not in self._hosts:
            await refuse(scope, send, 403, "this host name is not served here (--allow-host NAME adds one)")
            return
        origin = header(scope, b"origin")
        if origin is not None and not self._passes(scope["path"], origin, host):
            await refuse(scope, send, 403, "this origin is not allowed (--allow-origin ORIGIN adds one)")
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        if origin is not None:
            send = _echoing(origin, send)
            if scope["method"] == "OPTIONS" and header(scope, b"access-control-request-method"):
                await _preflight(scope, send)
                return
        await self._bounded(scope, receive, send)

    def _passes(self, path: str, origin: str, host: str) -> bool:
        given = origin.lower()
        if given == "null":
            return False
        return given == f"http://{host.lower()}" or _plain(given) in self._origins or self._rule(path, given)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application read a body up to the limit; beyond it, reading raises HTTP 413.

        So the refusal comes in the application's own error form.
        """
        declared = header(scope, b"content-length") or ""
        announced = int(declared) if declared.isascii() and declared.isdigit() else 0
        limit, seen = BodyLimit(self._max_body), 0

        async def counted() -> Message:
            nonlocal seen
            if max(seen, announced) <= limit.size:
                message = await receive()
                seen += len(message.get("body", b""))
            if max(seen, announced) > limit.size:
                raise HTTPException(413, f"the body is larger than {limit.size} bytes")
            return message

        scope = {**scope, "extensions": {**scope.get("extensions", {}), BODY: limit}}
        try:
            await self._app(scope, counted, send)
        except HTTPException as problem:
            await refuse(scope, send, problem.status_code, problem.detail)


def _plain(origin: str) -> str:
    """An origin to compare: ``file://`` is one as well, though nothing is behind its slashes."""
    return origin.rstrip("/").lower()


def _echoing(origin: str, send: Send) -> Send:
    """``send`` that names the origin that passed; never ``*``."""
    extra = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"vary", b"origin"),
    ]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sending


async def _preflight(scope: Scope, send: Send) -> None:
    wanted = header(scope, b"access-control-request-headers") or "authorization, content-type"
    headers = [
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", wanted.encode("latin-1")),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def refuse(
    scope: Scope, send: Send, status: int, text: str, media_type: str = "text/plain; charset=utf-8"
) -> None:
    """Answer a request, or an upgrade before it is accepted, with plain text."""
    body = text.encode()
    prefix = "websocket." if scope["type"] == "websocket" else ""
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": f"{prefix}http.response.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}http.response.body", "body": body})
