"""Stores that a test plays: an HTTP server that answers by a script and remembers what it was asked."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from dragoman.hub.workspace_config import Observability, QueryEndpoints


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]


Script = Callable[[Asked], web.StreamResponse | Awaitable[web.StreamResponse]]


@dataclass
class Store:
    """A store at ``url``. ``script`` answers; what was asked is in ``asked``."""

    url: str
    script: Script
    asked: list[Asked] = field(default_factory=list)

    @property
    def requests(self) -> list[tuple[str, str]]:
        return [(it.method, it.path) for it in self.asked]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        params = (
            dict(request.query) if request.method == "GET" else {k: str(v) for k, v in (await request.post()).items()}
        )
        asked = Asked(request.method, request.path, params, dict(request.headers))
        self.asked.append(asked)
        answer = self.script(asked)
        return answer if isinstance(answer, web.StreamResponse) else await answer


@contextlib.asynccontextmanager
async def playing(script: Script) -> AsyncIterator[Store]:
    """A store on a free port, for as long as the block lasts."""
    store = Store("", script)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", store.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        store.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield store
    finally:
        await runner.cleanup()


def at(url: str, *, enabled: bool = True) -> Observability:
    """All stores at one place."""
    return Observability(
        enabled=enabled,
        otlp_endpoint=url,
        queries=QueryEndpoints(logs=url, metrics=url, traces=url),
        default_window=300,
    )


def text(body: str, status: int = 200) -> web.Response:
    return web.Response(text=body, status=status)
