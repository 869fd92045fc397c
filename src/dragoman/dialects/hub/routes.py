"""The HTTP side: one table of routes, served by Starlette; the same commands and types as the WebSocket."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.dialects.base import is_loopback
from dragoman.hub.errors import HubError
from dragoman.hub.permissions import LOCAL

from . import bodies
from . import messages as ask
from .errors import (
    INTERNAL,
    ErrorBody,
    Problem,
    TooLarge,
    Unauthorized,
    check_json_bytes,
    http_problem,
    invalid,
    problem_of,
    status_of,
)
from .frames import encode
from .openapi import document
from .replies import (
    At,
    Cancelled,
    Created,
    Empty,
    Health,
    KeyForgotten,
    NewestEvents,
    Page,
    Picture,
    ProviderList,
    ProviderStatuses,
    Rows,
    Submitted,
    Typed,
)
from .route import Call, Route, on
from .sign_in_routes import SIGN_IN_ROUTES
from .views import Snapshot
from .workspace_routes import WORKSPACE_ROUTES

if TYPE_CHECKING:
    from .dialect import HubDialect

log = logging.getLogger("dragoman.http")

_PRINCIPAL = "dragoman.principal"


async def _health(call: Call) -> Response:
    health = call.commands.health()
    return _json(health, 200 if health.problem is None else 503)


async def _sessions(call: Call) -> msgspec.Struct:
    return call.commands.rows(call.principal, call.query)


async def _create(call: Call) -> msgspec.Struct:
    return await call.commands.create(call.principal, call.body)


async def _snapshot(call: Call) -> msgspec.Struct:
    return await call.commands.snapshot(call.principal, call.session)


async def _delete(call: Call) -> msgspec.Struct:
    return await call.commands.delete(call.principal, call.session)


async def _change(call: Call) -> msgspec.Struct:
    return await call.commands.change(call.principal, call.session, call.body)


async def _start(call: Call) -> msgspec.Struct:
    return await call.commands.start(call.principal, call.session)


async def _close(call: Call) -> msgspec.Struct:
    return await call.commands.close(call.principal, call.session)


async def _events(call: Call) -> msgspec.Struct:
    return await call.commands.events(call.principal, call.session, call.query)


async def _newest(call: Call) -> msgspec.Struct:
    return await call.commands.newest(call.principal, call.query)


async def _submit(call: Call) -> msgspec.Struct:
    return await call.commands.submit(call.principal, call.session, call.keyed(call.body))


async def _withdraw(call: Call) -> msgspec.Struct:
    return await call.commands.withdraw(call.principal, call.session, call.path["prompt"])


async def _answer(call: Call) -> msgspec.Struct:
    return await call.commands.answer(call.principal, call.session, call.path["decision"], call.body)


async def _cancel(call: Call) -> msgspec.Struct:
    return await call.commands.cancel(call.principal, call.session, call.body)


async def _reset_history(call: Call) -> msgspec.Struct:
    return await call.commands.reset_history(call.principal, call.session)


async def _merge_history(call: Call) -> msgspec.Struct:
    return await call.commands.merge_history(call.principal, call.session, call.body)


async def _compact(call: Call) -> msgspec.Struct:
    return await call.commands.compact(call.principal, call.session)


async def _tape(call: Call) -> Response:
    session = await call.commands.session(call.principal, call.session)
    piece = call.commands.tape(call.principal, session, call.query)
    headers = {"Tape-Offset": str(piece.offset), "Tape-Next": str(piece.next), "Tape-End": str(piece.end)}
    return Response(piece.data, media_type="application/octet-stream", headers={**_UNCACHED, **headers})


async def _screen(call: Call) -> msgspec.Struct | Response:
    session = await call.commands.session(call.principal, call.session)
    picture = call.commands.screen(call.principal, session, styled=call.query.styled)
    if call.query.format == "text":
        return Response("\n".join(picture.lines) + "\n", media_type="text/plain; charset=utf-8", headers=_UNCACHED)
    return picture


async def _input(call: Call) -> msgspec.Struct:
    session = await call.commands.session(call.principal, call.session)
    return call.commands.type_in(call.principal, session, call.body)


async def _resize(call: Call) -> msgspec.Struct:
    session = await call.commands.session(call.principal, call.session)
    return call.commands.resize(call.principal, session, call.body)


async def _signal(call: Call) -> msgspec.Struct:
    session = await call.commands.session(call.principal, call.session)
    return call.commands.signal(call.principal, session, call.body)


async def _providers(call: Call) -> msgspec.Struct:
    return await call.commands.providers.catalogue(call.principal)


async def _provider_status(call: Call) -> msgspec.Struct:
    return await call.commands.providers.status(call.principal, verify=call.body.verify)


async def _set_key(call: Call) -> msgspec.Struct:
    return await call.commands.providers.set_key(call.principal, call.path["provider"], call.body.key)


async def _forget_key(call: Call) -> msgspec.Struct:
    return await call.commands.providers.forget_key(call.principal, call.path["provider"])


async def _openapi(call: Call) -> Response:  # noqa: ARG001  the document is the same for everyone
    return Response(document(ROUTES), media_type="application/json", headers=_UNCACHED)


ROUTES: tuple[Route, ...] = (
    on("GET", "/openapi.json", "This contract", _openapi, None),
    on("GET", "/health", "Whether the server can do its work", _health, Health),
    on("GET", "/sessions", "The sessions, newest last", _sessions, Rows, query=bodies.ListQuery),
    on("POST", "/sessions", "Make a session", _create, Created, body=bodies.CreateBody, status=201),
    on("GET", "/sessions/{session}", "What is true of it, with its cursor", _snapshot, Snapshot),
    on("DELETE", "/sessions/{session}", "Close it and drop its log", _delete, Empty),
    on("PATCH", "/sessions/{session}", "Change settings", _change, At, body=bodies.SettingsBody),
    on("POST", "/sessions/{session}/start", "Start its agent (again)", _start, At),
    on("POST", "/sessions/{session}/close", "End what runs; the log stays", _close, At),
    on("GET", "/sessions/{session}/events", "One page of the log", _events, Page, query=bodies.EventsQuery),
    on("GET", "/events", "The newest events over all sessions", _newest, NewestEvents, query=bodies.NewestQuery),
    on("POST", "/sessions/{session}/prompts", "Submit a prompt", _submit, Submitted, body=bodies.PromptBody),
    on("DELETE", "/sessions/{session}/prompts/{prompt}", "Take back a prompt that waits", _withdraw, At),
    on("POST", "/sessions/{session}/decisions/{decision}", "Answer a decision", _answer, At, body=bodies.AnswerBody),
    on("POST", "/sessions/{session}/cancel", "End a turn", _cancel, Cancelled, body=bodies.CancelBody),
    on("POST", "/sessions/{session}/history", "Give it a history", _merge_history, At, body=bodies.HistoryBody),
    on("DELETE", "/sessions/{session}/history", "Later turns see nothing from before", _reset_history, At),
    on("POST", "/sessions/{session}/compact", "Have the agent shorten its context", _compact, At),
    on(
        "GET",
        "/sessions/{session}/tape",
        "A piece of the raw output; where it starts and ends is in Tape-Offset, Tape-Next and Tape-End",
        _tape,
        None,
        query=bodies.TapeQuery,
        media="application/octet-stream",
    ),
    on("GET", "/sessions/{session}/screen", "The picture now", _screen, Picture, query=bodies.ScreenQuery),
    on("POST", "/sessions/{session}/input", "Type into the terminal", _input, Typed, body=bodies.InputBody),
    on("POST", "/sessions/{session}/resize", "Change its size", _resize, Empty, body=bodies.ResizeBody),
    on("POST", "/sessions/{session}/signal", "Signal the program", _signal, Empty, body=bodies.SignalBody),
    on("GET", "/providers", "The model providers", _providers, ProviderList),
    on("POST", "/providers/status", "How they stand", _provider_status, ProviderStatuses, body=bodies.StatusBody),
    on("PUT", "/providers/{provider}/key", "Keep a provider's key", _set_key, Empty, body=bodies.KeyBody),
    on("DELETE", "/providers/{provider}/key", "Remove it", _forget_key, KeyForgotten),
    *SIGN_IN_ROUTES,
    *WORKSPACE_ROUTES,
)
"""Every route, below the dialect's root."""

_UNCACHED = {"Cache-Control": "no-store"}


def make_app(dialect: HubDialect) -> ASGIApp:
    """The routes as an ASGI application that lets in whoever the dialect lets in."""
    methods: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        methods.setdefault(route.path, {})[route.method] = route
    app = Starlette(
        routes=[
            StarletteRoute(path, _Endpoint(dialect, known), methods=sorted(known)) for path, known in methods.items()
        ],
        exception_handlers={HubError: _on_hub_error, HTTPException: _on_http_error},
    )
    app.router.redirect_slashes = False
    return _Gate(app, dialect)


class _Gate:
    """Every request shows the token, where there is one; health is open to this machine."""

    def __init__(self, app: ASGIApp, dialect: HubDialect) -> None:
        self._app = app
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = self._dialect.principal(_token(scope))
        if principal is None and scope["path"] == "/health" and is_loopback((scope.get("client") or ("",))[0]):
            principal = LOCAL
        if principal is None:
            response = _error(problem_of(Unauthorized()), {"WWW-Authenticate": "Bearer"})
            await response(scope, receive, send)
            return
        await self._app({**scope, _PRINCIPAL: principal}, receive, send)


class _Endpoint:
    """One path: decodes what came by the types of its route, and puts the result into JSON."""

    def __init__(self, dialect: HubDialect, routes: dict[str, Route]) -> None:
        self._dialect = dialect
        self._routes = routes
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {
            method: msgspec.json.Decoder(route.body) for method, route in routes.items() if route.body is not None
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        route = self._routes[method]
        raw = await self._read(request) if route.body is not None else b""
        try:
            body = self._decoders[method].decode(raw or b"{}") if route.body is not None else None
            query = msgspec.convert(dict(request.query_params), route.query, strict=False) if route.query else None
        except (ValueError, RecursionError) as error:
            return _error(invalid(error))
        if isinstance(body, ask.OWN_JSON):
            check_json_bytes(len(raw), self._dialect.settings.json_bytes)
        elif isinstance(body, ask.LARGE_JSON):
            check_json_bytes(len(raw), self._dialect.settings.large_json_bytes, "large_json_bytes")
        call = Call(
            self._dialect.commands, request.scope[_PRINCIPAL], request.path_params, query, body, request.headers
        )
        try:
            result = await route.handler(call)
        except msgspec.ValidationError as error:
            return _error(invalid(error))
        except HubError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return _error(INTERNAL)
        return result if isinstance(result, Response) else _json(result, route.status)

    async def _read(self, request: Request) -> bytes:
        limit, parts, size = self._dialect.settings.message_limit, [], 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise TooLarge(f"the body is larger than {limit} bytes (message_limit)")
            parts.append(part)
        return b"".join(parts)


def _token(scope: Scope) -> str | None:
    scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    return QueryParams(scope["query_string"]).get("token")


def _json(value: msgspec.Struct, status: int) -> Response:
    return Response(encode(value), status, media_type="application/json", headers=_UNCACHED)


def _error(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    body = encode(ErrorBody(problem))
    return Response(body, status_of(problem), media_type="application/json", headers={**_UNCACHED, **(headers or {})})


async def _on_hub_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HubError)
    return _error(problem_of(error))


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(http_problem(error.status_code, str(error.detail)), dict(error.headers or {}))
