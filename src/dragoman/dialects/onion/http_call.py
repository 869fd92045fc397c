"""One HTTP request to the dialect: who asks, what it carries, and how it is answered (spec §10)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Raw
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dragoman.dialects.base import BODY, ROOT, is_loopback
from dragoman.dialects.bearer import bearer_of
from dragoman.hub import errors as hub
from dragoman.services.trust import Caller, Refused, Signed

from .host import Host

T = TypeVar("T")

FROM, SIGNATURE, TIMESTAMP = "x-co-from", "x-co-signature", "x-co-timestamp"
TO, REQUEST_ID = "x-co-to", "x-co-request-id"
"""Headers that sign a request without a body: the caller, the signature, its time, whom it is for, its own id."""

BODY_SECONDS = 300.0
"""Within which a body must have come: whoever sends one holds a place meanwhile."""

FIRST_SECONDS = 15.0
SLOWEST = 16 * 1024
"""Seconds that the first of it may take, and bytes a second of the rest: who sends less means to hold the place."""

UNCACHED = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

NOT_FOUND = "not found"
INVALID_JSON = "Invalid JSON"
UNSIGNED = "unauthorized: signed request required"
OTHER_REQUEST = "unauthorized: signed for another request"

_STATUS: dict[type[hub.HubError], int] = {
    hub.NotPermitted: 403,
    hub.UnknownSession: 404,
    hub.Gone: 404,
    hub.Closed: 503,
    hub.LimitReached: 503,
    hub.NotReady: 503,
    hub.StorageUnavailable: 503,
    hub.Busy: 409,
}
"""What the hub refuses, 400 else."""


class Problem(Exception):
    """Ends a request with an error."""

    def __init__(self, status: int, text: str, **more: object) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.more = more


class Gone(Exception):
    """The client is not there any more: nobody is to be answered."""


class SignedBody(msgspec.Struct):
    """What signs a request. All of it is left unread: trust says what is wrong with it."""

    payload: Raw = Raw()
    sender: Raw = msgspec.field(default=Raw(), name="from")
    signature: Raw = Raw()

    @property
    def signed(self) -> Signed:
        """What trust is to judge."""
        return Signed(self.payload, self.sender, self.signature)


class Call:
    """One request. ``loopback`` and ``token`` say how near its sender is."""

    def __init__(self, host: Host, request: Request) -> None:
        self.host = host
        self.request = request
        self.peer = request.client.host if request.client is not None else ""
        self._given = self._given_token()
        self.token = self._given is not None and host.token is not None and host.token(self._given)
        # Being on this machine means nothing where a token is asked of everybody (design: Trust).
        self.loopback = is_loopback(self.peer) and (host.token is None or self.token)

    @property
    def headers(self) -> Headers:
        """The request's headers, whatever their case."""
        return self.request.headers

    @property
    def root(self) -> str:
        """What the dialect's addresses begin with on this server."""
        return str(self.request.scope.get(ROOT, ""))

    @property
    def path(self) -> str:
        """The address below the dialect's root."""
        return str(self.request.scope["path"])

    # The body

    def allow(self, size: int) -> None:
        """Read bodies up to ``size`` bytes; before the first is read."""
        limit = self.request.scope["extensions"][BODY]
        limit.size = size

    async def body(self) -> bytes:
        """All of it. Raises ``Problem`` for one that is too large or too slow, ``Gone`` when its sender goes away."""
        try:
            async with asyncio.timeout(FIRST_SECONDS) as limit:
                return await self._body(limit)
        except TimeoutError:
            raise Problem(408, "the body comes too slowly") from None

    async def _body(self, limit: asyncio.Timeout) -> bytes:
        pieces, size, begun = [], 0, asyncio.get_running_loop().time()
        while True:
            try:
                message = await self.request.receive()
            except HTTPException as problem:
                raise Problem(problem.status_code, problem.detail) from None
            if message["type"] == "http.disconnect":
                raise Gone
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            limit.reschedule(begun + min(FIRST_SECONDS + size / SLOWEST, BODY_SECONDS))
            if not message.get("more_body", False):
                return b"".join(pieces)

    async def read(self, shape: type[T]) -> T:
        """The JSON body, typed; an empty one is an empty object. Raises ``Problem``, ``Gone``."""
        data = await self.body() or b"{}"
        if len(data) < self.host.settings.big_message:
            return _decoded(data, shape)
        return await asyncio.to_thread(_decoded, data, shape)

    async def disconnected(self) -> None:
        """Returns when the client is gone. Only after the body was read."""
        while (await self.request.receive())["type"] != "http.disconnect":
            continue

    # Who asks

    def verified(self, signed: Signed, *, once: bool = True) -> Caller:
        """Who signed, or nobody where that is allowed. One signature is good for one request, or for the same one sent
        again at once, where that is not looked at elsewhere (``once``). Raises ``Refused``."""
        trust = self.host.trust
        self.check_token()
        caller = trust.verify(signed, loopback=self.loopback, token=self.token)
        if once and caller.identity is not None:
            trust.check_replay(caller, signed.signature, self.request, "HTTP")
        return caller

    def check_token(self) -> None:
        """A token that is given must be right, as on the socket. Raises ``Refused``."""
        if self._given is not None and self.host.token is not None and not self.token:
            raise Refused("unauthorized")

    def signed_by_headers(self) -> Signed:
        """What the ``x-co-`` headers sign: this request, by method and path as they really are (spec §10)."""
        given = {name: value for name in (FROM, SIGNATURE, TIMESTAMP) if (value := self.headers.get(name)) is not None}
        if not given:
            return Signed()
        if len(given) < 3:
            raise Refused(UNSIGNED)
        timestamp = given[TIMESTAMP]
        if not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
            raise Refused("unauthorized: timestamp must be numeric")
        payload: dict[str, object] = {"method": self.request.method, "path": self.root + self.path}
        payload["timestamp"] = int(timestamp)
        if (request_id := self.headers.get(REQUEST_ID)) is not None:
            payload |= {
                "query": urlencode(sorted(parse_qsl(self.request.url.query, keep_blank_values=True))),
                "body_sha256": sha256(b"").hexdigest(),
                "request_id": request_id,
                "to": self.headers.get(TO),
            }
        return Signed(*(Raw(json.dumps(part).encode()) for part in (payload, given[FROM], given[SIGNATURE])))

    def check_bound(self, payload: Mapping[str, object]) -> None:
        """A signature that names a request is good for that one only. Raises ``Refused``."""
        ours = {"method": self.request.method, "path": self.root + self.path}
        if any(payload.get(name, value) != value for name, value in ours.items()):
            raise Refused(OTHER_REQUEST)

    def _given_token(self) -> str | None:
        shown = bearer_of(self.headers.raw)
        return shown if shown is not None else self.request.query_params.get("token")

    def has_bearer(self) -> bool:
        """Whether the server's token stands in the header; one in the address does not count."""
        return self.host.token is not None and self.host.token(bearer_of(self.headers.raw))


def _decoded(data: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError:
        raise Problem(400, "the body must be a JSON object") from None
    except hub.NOT_JSON:
        raise Problem(400, INVALID_JSON) from None


def value_of(raw: Raw, shape: type[T], name: str) -> T | None:
    """A field that was left unread; None where it is not there, or null. Raises ``Problem``."""
    data = bytes(raw)
    if data in (b"", b"null"):
        return None
    try:
        return msgspec.json.decode(data, type=shape)
    except hub.NOT_JSON:
        raise Problem(400, f"{name} must be {_WORDS.get(shape, 'an object')}") from None


_WORDS: dict[object, str] = {str: "a string"}


def as_json(body: object, status: int = 200) -> Response:
    """An answer."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Response(data, status, UNCACHED, "application/json")


def error(status: int, text: str, **more: object) -> Response:
    """An error, in the one form that all of them have."""
    return as_json({"error": text, **more}, status)


def status_of(text: str) -> int:
    """The status that goes with what trust says: 401, 403, or 400 for what is no matter of trust."""
    return {"unauthorized": 401, "forbidden": 403, "misconfigured": 503}.get(text.partition(":")[0], 400)


def hub_status(problem: hub.HubError) -> int:
    """The status that goes with what the hub refuses."""
    return next((status for kind, status in _STATUS.items() if isinstance(problem, kind)), 400)
