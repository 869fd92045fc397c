"""The routes for an agent's stop and start hooks, and for what those are told.

The seed lets hooks in without the token. Where there is one, a hook shows the secret of its own session instead
(``DRAGOMAN_HOOK_SECRET`` in the agent's environment): as a bearer, or in ``X-Dragoman-Hook``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from dragoman.hub.errors import LimitReached, Unsupported
from dragoman.hub.events import Json
from dragoman.hub.hook_config import START_CONFIG, STOP_CONFIG, StartConfig, StopConfig, start_config, stop_config
from dragoman.hub.hook_payload import check_hook_payload
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.ports import Hooks, Terminal
from dragoman.hub.session import Session

from . import messages as wire
from .calls import Call, Refused, as_json

if TYPE_CHECKING:
    from .dialect import CoopDialect

SECRET_HEADER = "x-dragoman-hook"  # noqa: S105  its name

SIGNAL_BYTES = 64 * 1024
"""The body of a signal: it is in the log, and in a message to every link."""

HOOK_RIGHTS = frozenset({Right.READ, Right.WRITE})


class HookBody(msgspec.Struct, frozen=True):
    """What a hook posts: its name, and what the agent gave it."""

    event: str = ""
    data: Any = None


async def _posted(call: Call) -> HookBody:
    try:
        check_hook_payload(await call.request.body(), call.session.limits)
    except LimitReached as problem:
        raise Refused(wire.Error(code="BAD_REQUEST", message=str(problem))) from problem
    return await call.body(HookBody)


async def stop(call: Call) -> Response:
    """May the agent stop? Says so in the agent's own form."""
    body = await _posted(call)
    verdict = await _hooks(call.session).stop({} if body.data is None else body.data)
    said: dict[str, str | None] = {}
    if verdict.type == "blocked":
        said = {"decision": "block", "reason": verdict.reason}
    if verdict.last_message is not None:
        said["last_message"] = verdict.last_message
    return as_json(said)


async def resolve(call: Call) -> Response:
    """Any JSON allows the next stop."""
    if len(await call.request.body()) > SIGNAL_BYTES:
        raise Refused(wire.Error(code="BAD_REQUEST", message=f"the signal is larger than {SIGNAL_BYTES} bytes"))
    body: Json = await call.body(Any)
    await _hooks(call.session).signal(call.principal, body)
    return as_json({"accepted": True})


async def start(call: Call) -> Response:
    """The script to run."""
    body = await _posted(call)
    return PlainTextResponse(await _hooks(call.session).start({} if body.data is None else body.data))


async def get_stop(call: Call) -> Response:
    return as_json(stop_config(call.session.shown.settings))


async def get_start(call: Call) -> Response:
    return as_json(start_config(call.session.shown.settings))


async def put_stop(call: Call) -> Response:
    return await _put(call, STOP_CONFIG, await call.body(StopConfig))


async def put_start(call: Call) -> Response:
    return await _put(call, START_CONFIG, await call.body(StartConfig))


async def _put(call: Call, name: str, config: msgspec.Struct) -> Response:
    await call.session.change_settings(call.principal, {name: msgspec.to_builtins(config)})
    return as_json({"updated": True})


def _hooks(session: Session) -> Hooks:
    if session.hooks is None:
        raise Unsupported("no agent driver configured")
    return session.hooks


def admit_hook(dialect: CoopDialect, request: Request, named: str | None) -> tuple[Principal, Session, Terminal] | None:
    """Who posts without the token, for which session: whoever knows its secret; None for anybody else.

    Looks at loaded sessions only, so that nobody can have the others loaded, or learn whether they are there.
    """
    header = request.headers.get("authorization", "")
    secret = request.headers.get(SECRET_HEADER) or header.removeprefix("Bearer ")
    if not secret:
        return None
    for session in dialect.registry.live():
        hooks, terminal = session.hooks, session.terminal
        if named in (None, session.id) and terminal is not None and hooks is not None and hooks.proves(secret):
            return Principal("agent", HOOK_RIGHTS, frozenset({session.id})), session, terminal
    return None
