"""One line of the table of HTTP routes, and what its handler gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response

from dragoman.hub.errors import InvalidRequest
from dragoman.hub.permissions import Principal

from . import bodies
from .commands import Commands

Keyed = TypeVar("Keyed", bodies.PromptBody, bodies.CommandBody)


class Call(msgspec.Struct, frozen=True):
    """One request, decoded: who asks, what stands in the path, the query and the body in their types."""

    commands: Commands
    principal: Principal
    path: dict[str, str]
    query: Any
    body: Any
    headers: Headers

    @property
    def session(self) -> str:
        return self.path["session"]

    def keyed(self, body: Keyed) -> Keyed:
        """The body with the message id of the header ``Idempotency-Key``. Raises ``InvalidRequest`` if they differ."""
        key = self.headers.get("idempotency-key")
        if key is None:
            return body
        if body.client_message_id not in (None, key):
            raise InvalidRequest("client_message_id and Idempotency-Key differ")
        return msgspec.convert({**msgspec.to_builtins(body), "client_message_id": key}, type(body))


Handler = Callable[[Call], Awaitable[msgspec.Struct | Response]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. ``result`` is the JSON of a success; ``media`` something else instead."""

    method: str
    path: str
    summary: str
    handler: Handler
    query: type | None = None
    body: type | None = None
    result: type | None = None
    status: int = 200
    media: str = "application/json"


def on(method: str, path: str, summary: str, handler: Handler, result: type | None, **more: Any) -> Route:
    """A route, briefly."""
    return Route(method=method, path=path, summary=summary, handler=handler, result=result, **more)
