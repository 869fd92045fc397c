"""The bridge's HTTP side below its root (spec §3): hook posts, and one table of routes for all else."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from .calls import NOT_FOUND, error
from .host import Host
from .info_routes import info_routes
from .ingest import PATHS, ingest
from .session_routes import session_routes


def make_routes(host: Host) -> ASGIApp:
    """The HTTP application. What it does not know is 404, in JSON like everything else."""
    routes = Starlette(
        routes=[*session_routes(host), *info_routes(host)],
        exception_handlers={HTTPException: _refused},  # type: ignore[dict-item]
    )
    routes.router.redirect_slashes = False

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PATHS:
            await ingest(host, scope, receive, send)
        else:
            await routes(scope, receive, send)

    return serve


async def _refused(request: Request, problem: HTTPException) -> Response:  # noqa: ARG001
    text = NOT_FOUND if problem.status_code == 404 else problem.detail
    return error(problem.status_code, text, problem.headers)
