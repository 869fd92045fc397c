"""One HTTP request in this dialect, and the table that says which there are (spec §1, §8).

What is refused is ``{"detail": <text, list or object>}``. A body or a query that is not what the route takes is 422
with a list, one entry for each fault: ``{"loc": ["body", "limit"], "msg": …, "type": "value_error"}``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from .callers import Caller
from .fields import Shape
from .host import Host

S = TypeVar("S", bound=Shape)

UNCACHED = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Problem(Exception):
    """Ends a request with ``{"detail": detail}``. ``code`` is the contract's internal code for it, for our log only
    (seed: Error Codes), where there is one."""

    def __init__(
        self, status: int, detail: object, *, headers: Mapping[str, str] | None = None, code: str | None = None
    ) -> None:
        super().__init__(str(detail))
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.code = code


class Call:
    """One request, of somebody who is let in. ``query`` and ``body`` are of the route's types, or None."""

    def __init__(self, host: Host, request: Request, caller: Caller, query: Any, body: Any) -> None:
        self.host = host
        self.request = request
        self.caller = caller
        self.query = query
        self.body = body

    @property
    def path(self) -> Mapping[str, str]:
        """What stands in the path for the names in braces, decoded."""
        return self.request.path_params

    def user_id(self, claimed: str | None) -> str:
        """The user that a request is about. Raises ``Problem`` (403) for another one's id beside an install's token."""
        if self.caller.install_id is None:
            return claimed or self.caller.user_id
        if claimed not in (None, self.caller.user_id):
            raise Problem(403, "user_id does not match the authenticated identity")
        return self.caller.user_id


Handler = Callable[[Call], Awaitable[msgspec.Struct | Response]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table. ``answer`` is the JSON of a success, None for something else of type ``media``
    (of several: parted by ``, ``).

    ``query`` is a ``Shape`` of texts as they stand in the address; whole numbers are ``Annotated[int, Whole(...)]`` and
    read from their digits. ``refusals`` are the statuses that it may answer besides, each with what it means; 401 and
    503 of the install's token are said of every guarded route. ``streams``: the handler reads the body itself.
    """

    method: str
    path: str
    summary: str
    handler: Handler
    query: type[Shape] | None = None
    body: type[Shape] | None = None
    answer: Any = None
    media: str = "application/json"
    refusals: Mapping[int, str] = {}
    streams: bool = False
    guards: tuple[Callable[[Host, Request], None], ...] = ()
    """Asked, in order, before anything of the request is read: each raises ``Problem`` for whoever may not."""
