"""One HTTP request to coop's API: who asks, for which session, and what its body holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.hub.errors import NOT_JSON
from dragoman.hub.permissions import Principal
from dragoman.hub.ports import Terminal
from dragoman.hub.session import Session

from . import messages as wire

if TYPE_CHECKING:
    from .dialect import CoopDialect

T = TypeVar("T")


class Refused(Exception):
    """Ends a request with an error envelope."""

    def __init__(self, error: wire.Error) -> None:
        super().__init__(error.message)
        self.error = error


class Call:
    """One request, authenticated, with its session."""

    def __init__(
        self, dialect: CoopDialect, request: Request, principal: Principal, session: Session, terminal: Terminal
    ) -> None:
        self.dialect = dialect
        self.request = request
        self.principal = principal
        self.session = session
        self.terminal = terminal

    async def body(self, shape: type[T]) -> T:
        """The JSON body, typed. Raises ``Refused`` (BAD_REQUEST)."""
        try:
            return msgspec.json.decode(await self.request.body(), type=shape)
        except NOT_JSON as problem:
            raise Refused(wire.Error(code="BAD_REQUEST", message=f"invalid body: {problem}")) from problem

    def number(self, name: str, default: int | None) -> int | None:
        """A query parameter that is a whole number from 0 up."""
        text = self.request.query_params.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 20):
            raise Refused(wire.Error(code="BAD_REQUEST", message=f"{name} must be a whole number"))
        return int(text)

    def control(self) -> Terminal:
        """The terminal, for writing."""
        return self.session.control(self.principal)


def plain(message: wire.ServerMessage) -> dict[str, Any]:
    """A message's fields without its event name: HTTP bodies carry none."""
    fields: dict[str, Any] = msgspec.to_builtins(message)
    del fields["event"]
    return fields


def as_json(body: object, status: int = 200) -> Response:
    """An answer."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")
