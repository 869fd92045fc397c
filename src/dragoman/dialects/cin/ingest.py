"""Hook posts over HTTP (``POST /event``): the way of scripts, and of agents that post by themselves (spec §3.1).

It is taken by hand and not through the routes' framework: on a busy machine it is most of what there is.
"""

from __future__ import annotations

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from dragoman.dialects.base import BODY, EVERYDAY
from dragoman.hub.errors import NOT_JSON, HubError, LimitReached
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.ports import HookPost

from .host import Host

PATHS = frozenset({"/event", "/event/codex"})

_TAKEN = (200, b'{"ok":true}')
_INVALID = (400, b'{"error":"Invalid JSON"}')
_decoder = msgspec.json.Decoder()


async def ingest(host: Host, scope: Scope, receive: Receive, send: Send) -> None:
    """Take one post; answered once what it says is durable."""
    try:
        status, body = await _taken(host, scope, receive)
    except HTTPException as problem:
        status, body = problem.status_code, _problem(problem.detail)
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def _taken(host: Host, scope: Scope, receive: Receive) -> tuple[int, bytes]:
    if scope["method"] != "POST":
        return 405, _problem("Method not allowed")
    if not host.may_post(scope):
        return 401, _problem("unauthorized")
    scope["extensions"][BODY].size = host.settings.body_limit
    scope[EVERYDAY] = True
    raw = await _body(receive)
    try:
        check_hook_payload(raw, host.registry.limits)
    except LimitReached as problem:
        return 413, _problem(str(problem))
    try:
        payload = _decoder.decode(raw)
        if isinstance(payload, dict):
            agent = "codex" if scope["path"] == "/event/codex" else None
            await host.intake.take(HookPost(payload=payload, channel="http", agent=agent))
    except NOT_JSON:
        return _INVALID
    except HubError as problem:  # also where too much waits, or too many sessions are open: later there may be room
        return 503, _problem(str(problem))
    return _INVALID if payload is None else _TAKEN


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "the request ended early")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _problem(text: str) -> bytes:
    return msgspec.json.encode({"error": text})
