"""The bridge's HTTP side below its root (spec §3): hook posts, and one table of routes for all else."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.dialects.base import RAW

from .calls import NOT_FOUND, UNDECODABLE, error
from .feedback_routes import feedback_routes
from .file_routes import file_routes
from .host import Host
from .info_routes import info_routes
from .ingest import PATHS, ingest
from .project_routes import project_routes
from .session_routes import session_routes
from .tiles import tile_routes

_NO_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def make_routes(host: Host) -> ASGIApp:
    """The HTTP application. What it does not know is 404, in JSON like everything else."""
    routes = Starlette(
        routes=[
            *session_routes(host),
            *file_routes(host),
            *project_routes(host),
            *tile_routes(host),
            *feedback_routes(host),
            *info_routes(host),
        ],
        exception_handlers={HTTPException: _refused},  # type: ignore[dict-item]
    )
    routes.router.redirect_slashes = False

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_decodable(scope.get(RAW, b"")):
            await error(400, UNDECODABLE)(scope, receive, send)
        elif scope["path"] in PATHS:
            await ingest(host, scope, receive, send)
        else:
            await routes(scope, receive, send)

    return serve


def _is_decodable(raw: bytes) -> bool:
    """Whether every escape in a path is one, and all of them together are text."""
    if b"%" not in raw:
        return True
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return False
    return _NO_ESCAPE.search(raw) is None


async def _refused(request: Request, problem: HTTPException) -> Response:  # noqa: ARG001
    text = NOT_FOUND if problem.status_code == 404 else problem.detail
    return error(problem.status_code, text, problem.headers)
