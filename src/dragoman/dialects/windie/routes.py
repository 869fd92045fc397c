"""The dialect's HTTP side: who may ask, then one table of routes (spec §1). See ``route``.

A request is looked at in this order: the install's token (for everything under ``/api/``, known or not), the path, the
method, the route's own guards, the query, the body. So nobody's body is read who may not send one.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from functools import cache
from weakref import WeakValueDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from . import artifact_routes, install_routes, run_routes, sdk_routes
from .callers import caller_of
from .host import Host
from .http_auth import Denied, authorise
from .http_reading import read_json, read_query
from .http_refusals import refused
from .openapi import document
from .route import UNCACHED, Call, Problem, Route


async def openapi(call: Call) -> Response:  # noqa: ARG001  the document is the same for everyone
    """This table, for programs."""
    return Response(_document(), 200, UNCACHED, "application/json")


ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/api/openapi.json", summary="This contract", handler=openapi),
    *install_routes.ROUTES,
    *artifact_routes.ROUTES,
    *run_routes.ROUTES,
    *sdk_routes.ROUTES,
)
"""Every route, below the dialect's root."""


@cache
def _document() -> bytes:
    return document(ROUTES)


PLACE_SECONDS = 60.0
"""That an upload waits for others to end (``uploads`` of them are taken at once)."""

TOO_MANY = "Too many artifacts are uploaded at once"

_NAMED = re.compile(r"\{(\w+)\}")

Methods = dict[str, Route]


class Table:
    """Finds the route of a path. A path that is written out wins over one with names in braces; slashes at the end
    count, and nothing is redirected (spec §1)."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._literal: dict[str, Methods] = {}
        self._patterns: dict[str, tuple[re.Pattern[str], Methods]] = {}
        for route in routes:
            self._methods(route.path)[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route, and what stands in the path for its names. Raises ``Problem`` (404, 405)."""
        methods, named = self._asked(path)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = sorted({*methods, *(("HEAD",) if "GET" in methods else ())})
            raise Problem(405, "Method Not Allowed", headers={"allow": ", ".join(allowed)})
        return route, named

    def _asked(self, path: str) -> tuple[Methods, dict[str, str]]:
        if path in self._literal:
            return self._literal[path], {}
        for pattern, methods in self._patterns.values():
            found = pattern.fullmatch(path)
            if found is not None:
                return methods, found.groupdict()
        raise Problem(404, "Not Found")

    def _methods(self, path: str) -> Methods:
        if "{" not in path:
            return self._literal.setdefault(path, {})
        parts = _NAMED.split(path)  # text and names, by turns
        names = (f"(?P<{part}>[^/]+)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
        return self._patterns.setdefault(path, (re.compile("".join(names)), {}))[1]


def make_routes(host: Host, routes: Sequence[Route] = ROUTES) -> ASGIApp:
    """The HTTP application below the dialect's root."""
    application = _Application(host, routes)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        response = await application.answered(Request(scope, receive))
        await response(scope, receive, send)

    return serve


class _Application:
    """The routes, and the places of those that read bodies piece by piece."""

    def __init__(self, host: Host, routes: Sequence[Route]) -> None:
        self._host = host
        self._table = Table(routes)
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def answered(self, request: Request) -> Response:
        """The answer, or the error in its stead."""
        try:
            return await self._answer(request)
        except Exception as problem:  # noqa: BLE001  every one has its answer; what nobody foresaw is logged there
            return refused(problem)

    async def _answer(self, request: Request) -> Response:
        host, path = self._host, request.scope["path"]
        install = await authorise(host.access, request.scope["headers"], path)
        if isinstance(install, Denied):
            more = {"www-authenticate": "Bearer"} if install.status == 401 else {}
            return Response(install.body, install.status, {**UNCACHED, **more}, "application/json")
        route, request.scope["path_params"] = self._table.find(request.method, path)
        for guard in route.guards:
            guard(host, request)
        query = read_query(request, route.query) if route.query is not None else None
        caller = caller_of(install)
        if route.streams:
            async with self._place(caller.owner):
                return _as_response(await route.handler(Call(host, request, caller, query, None)))
        body = await read_json(request, route.body, host.settings) if route.body is not None else None
        return _as_response(await route.handler(Call(host, request, caller, query, body)))

    @contextlib.asynccontextmanager
    async def _place(self, owner: str) -> AsyncIterator[None]:
        """One of this user's places, which slow uploads of others do not take; nobody waits for it for ever.

        Raises ``Problem`` (503).
        """
        places = self._places.setdefault(owner, asyncio.Semaphore(self._host.settings.uploads))
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await places.acquire()
        except TimeoutError:
            raise Problem(503, TOO_MANY, headers={"retry-after": "30"}) from None
        try:
            yield
        finally:
            places.release()


def _as_response(answer: msgspec.Struct | Response) -> Response:
    if isinstance(answer, Response):
        return answer
    return Response(msgspec.json.encode(answer), 200, UNCACHED, "application/json")
