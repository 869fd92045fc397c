"""Pages for whoever runs the server, beside all dialects: ``/livez``, ``/readyz``, ``/metrics``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from dragoman.dialects.base import TokenCheck
from dragoman.dialects.bearer import bearer_of
from dragoman.hub.registry import Registry
from dragoman.services.observability.figures import Counted, Family
from dragoman.services.observability.settings import Readers
from dragoman.services.observability.telemetry import level
from dragoman.services.observability.version import running_version

from .guard import peer_of

Families = Callable[[], Iterable[Family]]


async def livez(_: Request) -> Response:
    """Whether the process answers at all: it does."""
    return PlainTextResponse("alive\n")


class Readiness:
    """``/readyz``: whether the server can take work; 503 with the reasons when it cannot.

    Sessions are restored before anybody can ask.
    """

    def __init__(self, registry: Registry, *, stopping: Callable[[], bool]) -> None:
        self._registry = registry
        self._stopping = stopping

    def obstacles(self) -> Sequence[str]:
        """What stands in the way of work, in words that anybody may read."""
        journal = self._registry.journal
        told = {
            "the server stops": self._stopping(),
            "the journal cannot write": journal.problem is not None,
            "the journal does not keep up": journal.full,
        }
        return [words for words, holds in told.items() if holds]

    async def page(self, _: Request) -> Response:
        """The answer."""
        obstacles = self.obstacles()
        if obstacles:
            return PlainTextResponse("".join(f"{words}\n" for words in obstacles), 503)
        return PlainTextResponse("ready\n")


class Metrics:
    """``/metrics``: what ``families`` gives, for Prometheus. ``readers`` says who may ask for it (see the setting)."""

    def __init__(self, families: Families, *, readers: Readers, token: TokenCheck | None) -> None:
        self._families = families
        self._readers = readers
        self._token = token
        self._rendering = asyncio.Lock()

    async def page(self, request: Request) -> Response:
        """The figures, or 401."""
        if not self._may_read(request):
            return PlainTextResponse("metrics need the token here (observability.metrics_readers)\n", 401)
        accept = request.headers.get("accept", "")
        async with self._rendering:  # one at a time: a flood of them must not take every thread
            body, media_type = await asyncio.to_thread(_render, tuple(self._families()), accept)
        return Response(body, headers={"content-type": media_type})

    def _may_read(self, request: Request) -> bool:
        if self._readers == "anyone" or self._token is None:
            return True
        scope = request.scope
        return (self._readers == "local" and peer_of(scope)[1]) or self._token(bearer_of(scope["headers"]))


def _render(families: Sequence[Family], accept: str) -> tuple[bytes, str]:
    """In a thread, as the library is loaded with the first page."""
    version = running_version()
    info = Counted(
        name="dragoman_info", help="The server's version.", labels=("version",), grows=False, values={(version,): 1.0}
    )
    page: tuple[bytes, str] = import_module("dragoman.services.observability.exposition").page(
        (info, *families), accept
    )
    return page


def hub_families(registry: Registry) -> Iterable[Family]:
    """What is true of the hub now."""
    yield level("dragoman_sessions_loaded", "Sessions in memory.", registry.loaded)
    yield level("dragoman_sessions_live", "Sessions with something unsettled.", len(registry.live()))
    yield level("dragoman_journal_writable", "1 while the journal can write.", registry.journal.problem is None)


def pages(readiness: Readiness, metrics: Metrics | None) -> dict[str, ASGIApp]:
    """Path -> what serves it. Without ``metrics`` there is no such page."""
    routes = [Route("/livez", livez), Route("/readyz", readiness.page)]
    if metrics is not None:
        routes.append(Route("/metrics", metrics.page))
    app = Starlette(routes=routes)
    return {route.path: app for route in routes}
