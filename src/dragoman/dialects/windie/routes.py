"""The dialect's HTTP side: who may ask, then one table of routes (spec §1). See ``route``."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from .host import Host
from .route import Route

ROUTES: tuple[Route, ...] = ()


def make_routes(host: Host) -> ASGIApp:  # noqa: ARG001
    """The HTTP application below the dialect's root."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError

    return serve
