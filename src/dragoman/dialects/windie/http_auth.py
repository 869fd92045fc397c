"""What stands before every route under ``/api/``: an install's bearer token, and what is said without one.

Seed: HTTP, and "install register"; spec §2. Texts and codes are those that clients know.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from dragoman.dialects.bearer import bearer_of
from dragoman.services.installs import Access, Install, InstallsUnavailable, InvalidToken, MissingToken

log = logging.getLogger("dragoman.windie")

GUARDED = "/api/"
REGISTER = "/api/install/register"

Headers = Iterable[tuple[bytes, bytes]]
"""A request's, as ASGI has them: names in lower case."""


class Denied(msgspec.Struct, frozen=True):
    """An answer in place of the route's: an HTTP status, and a body of JSON."""

    status: int
    body: bytes


def denied(status: int, detail: str) -> Denied:
    """In the form of every error of these routes."""
    return Denied(status, msgspec.json.encode({"detail": detail}))


UNAVAILABLE = denied(503, "Install auth service not available")
MISSING = denied(401, "Missing install bearer token")
INVALID = denied(401, "Invalid install bearer token")
SERVER_TOKEN = denied(401, "Registering needs the server's token")
"""Ours: the original lets anybody register."""


async def authorise(access: Access, headers: Headers, path: str) -> Install | Denied | None:
    """Whose request this is, or what it is answered. None: nobody in particular, and it may go on; so it is for what
    is not guarded, and for callers without a token while install auth is off.

    ``path`` is below the dialect's root, decoded.
    """
    if not path.startswith(GUARDED) or path == REGISTER:
        return None
    try:
        return await access.identify(bearer_of(headers))
    except MissingToken:
        return MISSING
    except InvalidToken:
        return INVALID
    except InstallsUnavailable as problem:
        log.warning("nobody can be told from anybody: %s", problem)
        return UNAVAILABLE


def authorise_registration(access: Access, headers: Headers, query_token: str | None) -> Denied | None:
    """What who registers is answered without the server's token, which is shown as bearer or ``?token=``; None for
    whoever may register."""
    shown = bearer_of(headers)
    return None if access.may_register(shown if shown is not None else query_token) else SERVER_TOKEN
