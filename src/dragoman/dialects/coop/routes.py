"""Coop's HTTP API (``/api/v1``), the one the seed refers to, with its error envelope.

Under ``serve`` a session is chosen by ``?session=`` or by the path prefix ``/session/{id}``, as in COOP_URL.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from dragoman.dialects.base import is_loopback
from dragoman.hub.errors import HubError
from dragoman.hub.permissions import STRANGER, Principal

from . import deliveries, hook_routes, projection
from . import messages as wire
from .binding import asked_by
from .calls import Call, Refused, as_json, plain
from .deliveries import is_ready
from .errors import BAD_BASE64, HTTP_STATUS, NO_MODEL, as_error
from .link import decode_base64, replay_result
from .prompts import prompt_context

if TYPE_CHECKING:
    from .dialect import CoopDialect

Handler = Callable[["Call"], Awaitable[Response]]


class SignalBody(Struct, frozen=True):
    """What ``POST signal`` takes."""

    signal: str


class SizeBody(Struct, frozen=True):
    """What ``POST resize`` takes."""

    cols: wire.UInt16
    rows: wire.UInt16


class InputBody(Struct, frozen=True):
    """What ``POST input`` takes."""

    text: str
    enter: bool = False


class RawBody(Struct, frozen=True):
    """What ``POST input/raw`` takes."""

    data: str


class KeysBody(Struct, frozen=True):
    """What ``POST input/keys`` takes."""

    keys: list[str]


class NudgeBody(Struct, frozen=True):
    """What ``POST agent/nudge`` takes."""

    message: str


class RespondBody(Struct, frozen=True):
    """What ``POST agent/respond`` takes."""

    accept: bool | None = None
    option: wire.Int32 | None = None
    text: str | None = None
    answers: list[wire.QuestionAnswer] | None = None


async def health(call: Call) -> Response:
    """Always "running": it is the server that answers."""
    state, terminal = call.session.shown, call.terminal
    return as_json(
        {
            "status": "running",
            "pid": terminal.pid,
            "uptime_secs": call.dialect.status(call.session, terminal).uptime_secs,
            "agent": state.agent,
            "terminal": {"cols": terminal.cols, "rows": terminal.rows},
            "terminal_cols": terminal.cols,
            "terminal_rows": terminal.rows,
            "ws_clients": call.dialect.link_count(call.session.id),
            "ready": is_ready(call.session.shown),
        }
    )


async def ready(call: Call) -> Response:
    flag = is_ready(call.session.shown)
    return as_json({"ready": flag}, 200 if flag else 503)


async def screen(call: Call) -> Response:
    """``cursor=true`` adds the cursor; without it the field is null, as the original answers."""
    body = plain(projection.screen(_picture(call)))
    if call.request.query_params.get("cursor", "false") != "true":
        body["cursor"] = None
    return as_json(body)


async def screen_text(call: Call) -> Response:
    return PlainTextResponse("\n".join(_picture(call).lines))


async def output(call: Call) -> Response:
    offset = call.number("offset", 0)
    assert offset is not None
    return as_json(plain(replay_result(call.terminal, offset, call.number("limit", None))))


async def status(call: Call) -> Response:
    return as_json(plain(call.dialect.status(call.session, call.terminal)))


async def post_input(call: Call) -> Response:
    body = await call.body(InputBody)
    data = body.text.encode() + (b"\r" if body.enter else b"")
    call.control().write(data)
    return as_json({"bytes_written": len(data)})


async def post_raw(call: Call) -> Response:
    data = decode_base64((await call.body(RawBody)).data)
    if data is None:
        raise Refused(BAD_BASE64)
    call.control().write(data)
    return as_json({"bytes_written": len(data)})


async def post_keys(call: Call) -> Response:
    body = await call.body(KeysBody)
    return as_json({"bytes_written": call.control().press(body.keys)})


async def post_resize(call: Call) -> Response:
    body = await call.body(SizeBody)
    call.control().resize(body.cols, body.rows, call.principal.id)
    return as_json({"cols": body.cols, "rows": body.rows})


async def post_signal(call: Call) -> Response:
    body = await call.body(SignalBody)
    call.control().signal(body.signal)
    return as_json({"delivered": True})


async def agent(call: Call) -> Response:
    """The state, for every agent type."""
    state = call.session.shown
    now = state.status
    return as_json(
        {
            "agent": state.agent,
            "state": now.state,
            "since_seq": now.seq,
            "screen_seq": call.terminal.screen.seq if call.terminal.screen is not None else 0,
            "detection_tier": projection.tier(now.cause),
            "detection_cause": now.cause,
            "prompt": prompt_context(state.prompt),
            "error_detail": now.error_detail,
            "error_category": now.error_category,
            "last_message": now.last_message,
        }
    )


async def nudge(call: Call) -> Response:
    """An ``Idempotency-Key`` makes it safe to send again."""
    body = await call.body(NudgeBody)
    result = await deliveries.nudge(
        call.session,
        call.principal,
        body.message,
        limit=call.dialect.settings.delivery,
        client_message_id=call.request.headers.get("idempotency-key"),
    )
    return as_json(plain(result))


async def respond(call: Call) -> Response:
    """Answers the prompt that is current."""
    body = await call.body(RespondBody)
    asked, limit = asked_by(call.session.shown.prompt), call.dialect.settings.delivery
    result, _ = await deliveries.respond(call.session, call.principal, asked, body, limit=limit)
    return as_json(plain(result))


async def shutdown(call: Call) -> Response:
    call.dialect.shut_down(call.session)
    return as_json({"accepted": True})


_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/health", health),
    ("GET", "/ready", ready),
    ("GET", "/screen", screen),
    ("GET", "/screen/text", screen_text),
    ("GET", "/output", output),
    ("GET", "/status", status),
    ("POST", "/input", post_input),
    ("POST", "/input/raw", post_raw),
    ("POST", "/input/keys", post_keys),
    ("POST", "/resize", post_resize),
    ("POST", "/signal", post_signal),
    ("GET", "/agent", agent),
    ("POST", "/agent/nudge", nudge),
    ("POST", "/agent/respond", respond),
    ("GET", "/config/stop", hook_routes.get_stop),
    ("PUT", "/config/stop", hook_routes.put_stop),
    ("GET", "/config/start", hook_routes.get_start),
    ("PUT", "/config/start", hook_routes.put_start),
    ("POST", "/shutdown", shutdown),
)

_HOOK_ROUTES: tuple[tuple[str, Handler], ...] = (
    ("/hooks/stop", hook_routes.stop),
    ("/hooks/stop/resolve", hook_routes.resolve),
    ("/stop/resolve", hook_routes.resolve),
    ("/hooks/start", hook_routes.start),
)
"""Open to whoever knows the session's secret."""


_UNAUTHORIZED = wire.Error(code="UNAUTHORIZED", message="unauthorized")


def make_routes(dialect: CoopDialect) -> Starlette:
    """The HTTP application below the dialect's root."""

    def endpoint(handler: Handler, *, exempt: bool) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            principal = _admit(dialect, request, exempt=exempt)
            named = request.path_params.get("session") or request.query_params.get("session")
            session, terminal = await dialect.find(principal, named)
            return await handler(Call(dialect, request, principal, session, terminal))

        return serve

    def hook_endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            named = request.path_params.get("session") or request.query_params.get("session")
            principal = dialect.authenticate(_token_of(request))
            if principal is not None:
                session, terminal = await dialect.find(principal, named)
            elif (known := hook_routes.admit_hook(dialect, request, named)) is not None:
                principal, session, terminal = known
            else:
                raise Refused(_UNAUTHORIZED)
            return await handler(Call(dialect, request, principal, session, terminal))

        return serve

    routes = [
        Route(path, endpoint(handler, exempt=path == "/health"), methods=[method]) for method, path, handler in _ROUTES
    ]
    routes += [Route(path, hook_endpoint(handler), methods=["POST"]) for path, handler in _HOOK_ROUTES]
    return Starlette(
        routes=[Mount("/api/v1", routes=routes), Mount("/session/{session}/api/v1", routes=routes)],
        exception_handlers=_PROBLEMS,
    )


def make_health_routes(dialect: CoopDialect) -> Starlette:
    """For a port of its own: health and ready for anybody; the agent's state too, on this machine."""

    def endpoint(handler: Handler, *, for_all: bool) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            principal = STRANGER if for_all else _admit(dialect, request, exempt=True)
            session, terminal = await dialect.find(principal, request.query_params.get("session"))
            return await handler(Call(dialect, request, principal, session, terminal))

        return serve

    return Starlette(
        routes=[
            Route("/api/v1/health", endpoint(health, for_all=True), methods=["GET"]),
            Route("/api/v1/ready", endpoint(ready, for_all=True), methods=["GET"]),
            Route("/api/v1/agent", endpoint(agent, for_all=False), methods=["GET"]),
        ],
        exception_handlers=_PROBLEMS,
    )


def _admit(dialect: CoopDialect, request: Request, *, exempt: bool) -> Principal:
    """Bearer or ``?token=``; health needs none on this machine."""
    principal = dialect.authenticate(_token_of(request))
    if principal is not None:
        return principal
    client = request.client.host if request.client else ""
    if exempt and dialect.reads_open(is_loopback(client)):
        return STRANGER
    raise Refused(_UNAUTHORIZED)


def _token_of(request: Request) -> str | None:
    header = request.headers.get("authorization", "")
    return header[7:] if header.startswith("Bearer ") else request.query_params.get("token")


def _picture(call: Call) -> Any:
    if call.terminal.screen is None:
        raise Refused(NO_MODEL)
    return call.terminal.screen.snapshot()


def _envelope(error: wire.Error, status: int | None = None) -> Response:
    body = {"error": {"code": error.code, "message": error.message}}
    return as_json(body, status or HTTP_STATUS[error.code])


async def _refused(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Refused)
    return _envelope(problem.error)


async def _hub_error(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HubError)
    unknown = problem.code == "unknown_session"
    return _envelope(as_error(problem), 404 if unknown else None)


async def _http_error(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    return _envelope(wire.Error(code="BAD_REQUEST", message=problem.detail), problem.status_code)


_PROBLEMS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    Refused: _refused,
    HubError: _hub_error,
    HTTPException: _http_error,
}
