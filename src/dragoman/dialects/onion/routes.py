"""The dialect's HTTP side: one table of routes below its root (spec §10).

Whatever is not in it, by path or by method, is ``{"error":"not found"}``. Which origin may read an answer is the
server's to say, so no answer here has ``*`` for one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.hub.clock import Clock
from dragoman.hub.errors import HubError
from dragoman.services.trust import Refused, Trust
from dragoman.services.uploads import UploadSettings

from . import admin_routes, directory, session_routes
from .console import Console
from .docs_page import docs
from .http_call import NOT_FOUND, Call, Gone, Problem, error, hub_status, status_of
from .http_input import Inputs
from .results import Results
from .sessions import Sessions
from .settings import OnionSettings

log = logging.getLogger("dragoman.http")

TokenCheck = Callable[[str | None], bool]

FAILED = "the request failed unexpectedly; the server's log says why"

_ALLOWED = {
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "authorization, content-type, x-co-from, x-co-signature, x-co-timestamp, x-co-to, "
    "x-co-request-id",
}


class Skill(msgspec.Struct, frozen=True):
    """A skill, as ``/info`` names it."""

    name: str
    description: str


class About(msgspec.Struct, frozen=True):
    """What there is to know of the agent that new sessions get."""

    tools: tuple[str, ...] = ()
    model: str = "unknown"
    skills: tuple[Skill, ...] = ()


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the routes speak for. ``address`` is the host's own identity; ``token`` checks the server's token in
    constant time, None when it has none; ``started`` is on the clock's monotonic scale (seconds); ``recheck`` has links
    look whether who is at their other end is still let in."""

    settings: OnionSettings
    clock: Clock
    trust: Trust
    sessions: Sessions
    results: Results
    console: Console
    uploads: UploadSettings
    address: str
    token: TokenCheck | None
    about: Callable[[], Awaitable[About]]
    started: float
    recheck: Callable[[], None]


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
