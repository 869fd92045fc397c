"""The dialect's HTTP side: one table of routes below its root (spec §10).

Whatever is not in it, by path or by method, is ``{"error":"not found"}``. Which origin may read an answer is the
server's to say, so no answer here has ``*`` for one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.hub.errors import HubError
from dragoman.services.trust import Refused

from . import admin_routes, directory, session_routes
from .docs_page import docs
from .host import Host
from .http_call import NOT_FOUND, Call, Gone, Problem, error, hub_status, status_of
from .http_input import Inputs

log = logging.getLogger("dragoman.http")

FAILED = "the request failed unexpectedly; the server's log says why"

_ALLOWED = {
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "authorization, content-type, x-co-from, x-co-signature, x-co-timestamp, x-co-to, "
    "x-co-request-id",
}


Answer = Callable[[Call], Awaitable[Response]]


def make_routes(host: Host) -> ASGIApp:
    """The HTTP application below the dialect's root."""
    inputs = Inputs(host)
    exact: dict[tuple[str, str], Answer] = {
        ("POST", "/input"): inputs.input,
        ("GET", "/sessions"): session_routes.sessions,
        ("GET", "/health"): directory.health,
        ("GET", "/info"): directory.info,
        ("GET", "/docs"): docs,
        ("GET", "/admin/logs"): admin_routes.logs,
        ("GET", "/admin/sessions"): admin_routes.sessions,
    }

    def find(method: str, path: str) -> Answer:
        method = "GET" if method == "HEAD" else method
        if method == "OPTIONS":
            return _options
        if (found := exact.get((method, path))) is not None:
            return found
        if path.startswith(admin_routes.PREFIXES):
            return admin_routes.change
        if method == "GET" and path.startswith(session_routes.PREFIX):
            return session_routes.session
        if method == "GET" and path.startswith(directory.PREFIX):
            return directory.agent
        return _not_found

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await _answered(Call(host, request), find(request.method, scope["path"]))
        await response(scope, receive, send)

    return serve


async def _answered(call: Call, answer: Answer) -> Response:
    """The answer, or the error in its stead."""
    try:
        return await answer(call)
    except Problem as problem:
        return error(problem.status, problem.text, **problem.more)
    except Refused as problem:
        return error(status_of(str(problem)), str(problem))
    except HubError as problem:
        return error(hub_status(problem), str(problem))
    except Gone:
        return error(499, "the client is gone")  # for the log, and for nobody else
    except Exception:
        log.exception("a request failed")
        return error(500, FAILED)


async def _options(call: Call) -> Response:  # noqa: ARG001  the same for every path
    return Response(status_code=204, headers=_ALLOWED)


async def _not_found(call: Call) -> Response:  # noqa: ARG001
    return error(404, NOT_FOUND)
