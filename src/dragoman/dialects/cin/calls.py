"""One HTTP request to the bridge: who asks, for which session, what it carries, and how it is answered (spec §3).

``{"ok": true, …}`` or ``{"ok": false, "error": text}``, always JSON. A path is one ``resource``, which knows its
methods; query strings never matter for where a request goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from dragoman.dialects.base import BODY
from dragoman.dialects.bodies import TOO_SLOW, ClientGone, read_body
from dragoman.hub import errors as hub
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.session import Session

from .cards import meant_by
from .host import Host

log = logging.getLogger("dragoman.http")

T = TypeVar("T")

VIA = "cin"
"""How the log says that something came through this dialect."""

BIG_BODY = 256 * 1024
"""Bytes from which on a body is taken apart in a thread."""

UNCACHED = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

MOST_PARAMETERS = 100
"""Of an address."""

UNDECODABLE = "The address cannot be decoded"
INVALID_JSON = "Invalid JSON"
NOT_FOUND = "Not found"
SESSION_NOT_FOUND = "Session not found"
UNAUTHORIZED = "Unauthorized: give the server's token"
FAILED = "The request failed unexpectedly; the server's log says why"

_STATUS: tuple[tuple[tuple[type[hub.HubError], ...], int], ...] = (
    ((hub.NotPermitted,), 403),
    ((hub.UnknownSession, hub.Gone, hub.UnknownDecision), 404),
    (
        (hub.AlreadyResolved, hub.AnsweredAlready, hub.AlreadyRunning, hub.Busy, hub.Closed, hub.ConflictingRepeat),
        409,
    ),
    ((hub.NotReady, hub.NotRunning, hub.UnknownTurn, hub.Unsupported), 409),
    ((hub.LimitReached, hub.StorageUnavailable, hub.InputRefused), 503),
)
"""What the hub refuses; 400 else."""


class Problem(Exception):
    """Ends a request with an error."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = dict(headers or {})


class Call:
    """One request, of somebody who is let in."""

    def __init__(self, host: Host, request: Request, principal: Principal) -> None:
        self.host = host
        self.request = request
        self.principal = principal
        self._parameters: dict[str, str] | None = None

    # Which session

    def row(self) -> SessionRow:
        """The session that the path names: by our id, or by the agent's own for it. Raises ``Problem`` (404)."""
        named = str(self.request.path_params["id"])
        registry = self.host.registry
        with contextlib.suppress(hub.UnknownSession, hub.Gone):
            ours = registry.row(self.principal, named)
            if ours.status != "closed":
                return ours
        row = meant_by(registry.rows(self.principal), named)
        if row is None:
            raise Problem(404, SESSION_NOT_FOUND)
        return row

    async def session(self) -> Session:
        """That session itself. Raises as ``row``."""
        return await self.host.registry.get(self.principal, self.row().session)

    def check(self, right: Right) -> None:
        """Raise ``NotPermitted`` for who has no such right anywhere: before anything is looked at for them."""
        if right not in self.principal.rights:
            raise hub.NotPermitted(right)

    # What it carries

    def query(self, name: str) -> str | None:
        """A parameter of the address, the first where it is given twice. Raises ``Problem`` (400)."""
        if self._parameters is None:
            try:
                given = parse_qsl(
                    self.request.scope["query_string"].decode("ascii"),
                    keep_blank_values=True,
                    errors="strict",
                    max_num_fields=MOST_PARAMETERS,
                )
            except ValueError:
                raise Problem(400, UNDECODABLE) from None
            self._parameters = dict(reversed(given))
        return self._parameters.get(name)

    def number(self, name: str, default: int) -> int:
        """A parameter that is a whole number from 0 up. Raises ``Problem`` (400)."""
        text = self.query(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 15):
            raise Problem(400, f"{name} must be a whole number")
        return int(text)

    def switch(self, name: str) -> bool:
        """A parameter that is ``true`` or ``false``, which is the default. Raises ``Problem`` (400)."""
        text = self.query(name)
        if text not in (None, "true", "false"):
            raise Problem(400, f"{name} must be true or false")
        return text == "true"

    async def body(self) -> bytes:
        """The body. Raises ``Problem`` (408, 413), ``ClientGone``."""
        limit = self.request.scope.get("extensions", {}).get(BODY)
        if limit is not None:
            limit.size = self.host.settings.body_limit
        try:
            return await read_body(self.request.receive)
        except TimeoutError:
            raise Problem(408, TOO_SLOW) from None

    async def read(self, shape: type[T]) -> T:
        """The JSON body, typed, whatever its Content-Type; an empty one is an empty object. Raises as ``body``, and
        ``Problem`` (400)."""
        data = await self.body() or b"{}"
        if len(data) < BIG_BODY:
            return _decoded(data, shape)
        return await asyncio.to_thread(_decoded, data, shape)


Answer = Callable[[Call], Awaitable[Response]]
"""What answers one method of one path."""


class Resource:
    """All that a path can be asked. An ASGI application; one without a principal gets 401."""

    def __init__(self, host: Host, answers: Mapping[str, Answer]) -> None:
        self._host = host
        self._answers = dict(answers)
        if "GET" in self._answers:
            self._answers["HEAD"] = self._answers["GET"]
        self._allow = ", ".join((*self._answers, "OPTIONS"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._answered(request)
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        """The answer, or the error in its stead."""
        try:
            return await self._answer(request)
        except Problem as problem:
            return error(problem.status, problem.text, problem.headers)
        except HTTPException as problem:  # the server's guard speaks so of a body that is too large
            return error(problem.status_code, problem.detail)
        except hub.HubError as problem:
            return error(status_of(problem), words_of(problem))
        except ClientGone:
            return error(499, "the client is gone")  # for the log, and for nobody else
        except Exception:
            log.exception("a request failed")
            return error(500, FAILED)

    async def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": self._allow})
        answer = self._answers.get(request.method)
        if answer is None:
            raise Problem(405, "Method not allowed", {"allow": self._allow})
        principal = self._host.principal(request)
        if principal is None:
            raise Problem(401, UNAUTHORIZED, {"www-authenticate": "Bearer"})
        return await answer(Call(self._host, request, principal))


def resource(host: Host, path: str, **answers: Answer) -> Route:
    """A path and what answers it, by method: ``resource(host, "/tiles", GET=…, POST=…)``."""
    return Route(path, Resource(host, answers))


async def unknown(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application for a path that nothing else answers: 404."""
    await error(404, NOT_FOUND)(scope, receive, send)


def _decoded(data: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError as problem:
        raise Problem(400, f"Invalid fields: {problem}") from None
    except hub.NOT_JSON:
        raise Problem(400, INVALID_JSON) from None


def ok(status: int = 200, /, **more: object) -> Response:
    """What went well."""
    return _as_json({"ok": True, **more}, status)


def plain(body: object) -> Response:
    """An answer that is not of the form with ``ok``."""
    return _as_json(body, 200)


def error(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """What did not."""
    return _as_json({"ok": False, "error": text}, status, headers)


def _as_json(body: object, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, {**UNCACHED, **(headers or {})}, "application/json")


def status_of(problem: hub.HubError) -> int:
    """The status that goes with what the hub refuses."""
    return next((status for kinds, status in _STATUS if isinstance(problem, kinds)), 400)


def words_of(problem: hub.HubError) -> str:
    """Its text. An id that means nothing is answered alike, whatever the reason."""
    if isinstance(problem, hub.UnknownSession | hub.Gone):
        return SESSION_NOT_FOUND
    return str(problem)


def checked_text(text: str, what: str, most: int) -> str:
    """``text`` that a person can be shown in one line. Raises ``Problem`` (400)."""
    if len(text) > most:
        raise Problem(400, f"{what} is longer than {most} characters")
    if any(unicodedata.category(character) in _UNSHOWN for character in text):
        raise Problem(400, f"{what} holds a control character, or half a character")
    return text


def checked_lines(text: str, what: str, most: int) -> str:
    """``text`` of several lines that a person can be shown. Raises ``Problem`` (400)."""
    checked_text(text.translate(_BREAKS), what, most)
    return text


_BREAKS = str.maketrans("\r\n\t", "   ")

_UNSHOWN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode's categories of what is no text of one line."""
