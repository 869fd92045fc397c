"""Hook posts over HTTP (``POST /event``): the way of scripts, and of agents that post by themselves (spec §3.1).

It is taken by hand and not through the routes' framework: on a busy machine it is most of what there is.
"""

from __future__ import annotations

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from dragoman.dialects.base import BODY, EVERYDAY
from dragoman.dialects.bodies import TOO_SLOW, ClientGone, read_body
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
    except _Refused as problem:
        status, body = problem.status, msgspec.json.encode({"error": str(problem)})
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        }
    )
    await send({"type": "http.response.body", "body": body})


class _Refused(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def _taken(host: Host, scope: Scope, receive: Receive) -> tuple[int, bytes]:
    if scope["method"] != "POST":
        raise _Refused(405, "Method not allowed")
    if not host.may_post(scope):
        raise _Refused(401, "unauthorized")
    scope[EVERYDAY] = True
    raw = await _read(host, scope, receive)
    try:
        payload = _decoder.decode(raw)
        if isinstance(payload, dict):
            agent = "codex" if scope["path"] == "/event/codex" else None
            await host.intake.take(HookPost(payload=payload, channel="http", agent=agent))
    except NOT_JSON:
        return _INVALID
    except HubError as problem:  # also where too much waits, or too many sessions are open: later there may be room
        raise _Refused(503, str(problem)) from None
    return _INVALID if payload is None else _TAKEN


async def _read(host: Host, scope: Scope, receive: Receive) -> bytes:
    """No more of it than a hook may bring."""
    limits = host.registry.limits
    scope["extensions"][BODY].size = limits.hook_bytes
    try:
        raw = await read_body(receive)
        check_hook_payload(raw, limits)
    except HTTPException:
        raise _Refused(413, f"a hook brings more than {limits.hook_bytes} bytes (hub.hook_bytes)") from None
    except LimitReached as problem:
        raise _Refused(413, str(problem)) from None
    except TimeoutError:
        raise _Refused(408, TOO_SLOW) from None
    except ClientGone:
        raise _Refused(400, "the request ended early") from None
    return raw
