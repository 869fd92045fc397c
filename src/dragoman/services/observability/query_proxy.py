"""Asks the stores on a client's behalf (coworker, ``observability_query``)."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from dragoman.hub.clock import Clock, SystemClock
from dragoman.hub.errors import NOT_JSON
from dragoman.hub.events import Json
from dragoman.hub.events.nesting import nests_too_deep
from dragoman.hub.workspace_config import Observability

from .queries import AttemptFailed, QueryRequest, QueryResult, Window, attempts, window_of

if TYPE_CHECKING:
    from .fetching import Stores

DISABLED = "Observability is disabled for this session."


class QueryProxy:
    """Use it on one event loop, and ``close`` it. ``seconds`` and ``most_bytes`` are for each request."""

    def __init__(
        self,
        *,
        seconds: float = 10.0,
        most_bytes: int = 4 * 1024 * 1024,
        connections: int = 100,
        clock: Clock | None = None,
    ) -> None:
        self._limits = {"seconds": seconds, "most_bytes": most_bytes, "connections": connections}
        self._clock = clock or SystemClock()
        self._stores: Stores | None = None
        self._is_closed = False

    async def query(self, request: QueryRequest, where: Observability) -> QueryResult:
        """Ask the store of the query's language, as ``where`` has it, and give its first successful answer.

        What goes wrong is a result too, with the reason of the last request; nothing is raised for it.
        """
        window = window_of(request, now=self._clock.now(), seconds=where.default_window)
        if not where.enabled:
            return _failed(request, window, DISABLED)
        stores = await self._open()
        why = ""
        for attempt in attempts(request, window, where.queries):
            try:
                return _answered(request, window, await stores.fetch(attempt))
            except AttemptFailed as failure:
                why = str(failure)
        return _failed(request, window, why)

    async def close(self) -> None:
        """Give the connections up; queries under way fail, and further ones do."""
        self._is_closed = True
        if self._stores is not None:
            await self._stores.close()

    async def _open(self) -> Stores:
        if self._stores is None:
            module = await asyncio.to_thread(import_module, f"{__package__}.fetching")
            if self._stores is None:
                self._stores = module.Stores(**self._limits)
                if self._is_closed:
                    await self._stores.close()
        return self._stores


def _answered(request: QueryRequest, window: Window, body: str) -> QueryResult:
    """The body as JSON where it is that (and can be passed on), blank as null, else as text."""
    result = _result(request, window, _json(body))
    return msgspec.structs.replace(result, data=body) if nests_too_deep(result) else result


def _json(body: str) -> Json:
    if not body.strip():
        return None
    try:
        return msgspec.json.decode(body)
    except NOT_JSON:
        return body


def _failed(request: QueryRequest, window: Window, why: str) -> QueryResult:
    return msgspec.structs.replace(_result(request, window, None), status="error", error=why)


def _result(request: QueryRequest, window: Window, data: Json) -> QueryResult:
    return QueryResult(
        query_type=request.query_type,
        query=request.query.strip(),
        from_ms=window.from_ms,
        to_ms=window.to_ms,
        status="ok",
        data=data,
    )
