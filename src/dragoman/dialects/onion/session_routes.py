"""``/sessions``: what came of sessions, for the owner (spec §10; a session's id is nobody's credential, §14 row 11)."""

from __future__ import annotations

from starlette.responses import Response

from dragoman.services.trust import Caller, Refused, Signed

from .http_call import NOT_FOUND, UNSIGNED, Call, Problem, as_json
from .results import Sees
from .sessions import KEY_OWNER

PREFIX = "/sessions/"

OWNER_ONLY = "forbidden: owner only"

OPEN = "open"


async def sessions(call: Call) -> Response:
    """The results that are kept, the newest first."""
    return await listed(call, sees(_owner(call)))


async def session(call: Call) -> Response:
    """One of them, by the client's id or ours."""
    seen = sees(_owner(call))
    found = await call.host.results.find(call.path.removeprefix(PREFIX), seen)
    if found is None:
        raise Problem(404, NOT_FOUND)
    return as_json(found)


async def listed(call: Call, seen: Sees) -> Response:
    """The newest results that this reader may see, bounded."""
    settings = call.host.settings
    found = await call.host.results.newest(seen, count=settings.listed_results, most=settings.listed_bytes)
    return as_json(b'{"sessions":[%b]}' % b",".join(found))


def sees(caller: Caller) -> Sees:
    """Whose sessions this reader may know of: everybody's, for a key; whoever is only near is not shown a key's."""
    if caller.identity is not None:
        return lambda _owner: True
    return lambda owner: not owner.startswith(KEY_OWNER)


def _owner(call: Call) -> Caller:
    """The host itself, an administrator, a holder of the server's token; under open, where there is no token, also
    whoever is on this machine.

    Everybody else is refused before anything is looked up, so no answer tells that there is a session. Raises
    ``Refused``.
    """
    trust = call.host.trust
    call.check_token()
    signed = call.signed_by_headers()
    if signed == Signed():
        caller = Caller(None, loopback=call.loopback, token=call.token)
        if not call.token:
            caller = trust.verify(signed, loopback=call.loopback, token=False)
            if not (caller.loopback and trust.name == OPEN):
                raise Refused(UNSIGNED)
        return caller
    caller = call.verified(signed)
    if not trust.sees_all(caller):
        raise Refused(OWNER_ONLY)
    return caller
