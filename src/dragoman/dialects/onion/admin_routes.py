"""``/admin`` and ``/superadmin``: who is trusted, the console's lines, results (spec §5, §10).

Changes are signed requests, as over the socket. The two pages for whoever runs the server ask for its token.
"""

from __future__ import annotations

import json
import math

import msgspec
from msgspec import Raw
from starlette.responses import Response

from dragoman.services.trust import AdminOutcome, Caller, Refused, Signed

from .http_call import INVALID_JSON, NOT_FOUND, UNCACHED, UNSIGNED, Call, Problem, SignedBody, as_json
from .session_routes import listed, sees

PREFIXES = ("/admin/trust/", "/superadmin/")

LEVEL = "/admin/trust/level/"

_CHANGES = {
    "/admin/trust/promote": "ADMIN_PROMOTE",
    "/admin/trust/demote": "ADMIN_DEMOTE",
    "/admin/trust/block": "ADMIN_BLOCK",
    "/admin/trust/unblock": "ADMIN_UNBLOCK",
    "/superadmin/add": "ADMIN_ADD",
    "/superadmin/remove": "ADMIN_REMOVE",
}
"""What is posted where, by its name on the socket."""

_LONGEST = 256
"""Characters of an identity in an address."""


async def logs(call: Call) -> Response:
    """The console's newest lines, as text."""
    _check_token(call)
    lines = call.host.console.lines
    if not lines:
        raise Problem(404, "No logs found")
    return Response("".join(f"{line}\n" for line in lines), 200, UNCACHED, "text/plain; charset=utf-8")


async def sessions(call: Call) -> Response:
    """The results that a holder of the token may see, the newest first: all but those that a key owns."""
    _check_token(call)
    return await listed(call, sees(Caller(None, loopback=call.loopback, token=True)))


async def change(call: Call) -> Response:
    """Promote, demote, block, unblock; ask for a level; make and unmake administrators."""
    call.allow(call.host.settings.stranger_message_limit)
    signed = await _signed(call)
    caller = call.verified(signed, once=False)
    if caller.identity is None:
        raise Refused(UNSIGNED)
    kind, client = _wanted(call)
    if kind is None:
        _check_admin(call, caller)
        raise Problem(404, NOT_FOUND)
    outcome = await call.host.trust.administer(
        kind, signed, loopback=call.loopback, client_id=client, socket=call.request
    )
    call.host.recheck()
    call.host.console.received(kind)
    return as_json(_shown(outcome))


def _wanted(call: Call) -> tuple[str | None, str | None]:
    """What is asked for, by its name on the socket, and about whom where the address says so."""
    method, path = call.request.method, call.path
    if method == "POST":
        return _CHANGES.get(path), None
    client = path.removeprefix(LEVEL)
    if method in ("GET", "HEAD") and path.startswith(LEVEL) and 0 < len(client) <= _LONGEST:
        return "ADMIN_GET_LEVEL", client
    return None, None


async def _signed(call: Call) -> Signed:
    """The signature in the body; where there is none to be had, in headers."""
    if call.request.method in ("GET", "HEAD"):
        bound = call.signed_by_headers()
        if bound != Signed():
            return bound
        plain = _signed_plainly(call)
        if plain is not None:
            return plain
    body = await call.read(SignedBody)
    call.check_bound(_fields(body.payload))
    return body.signed


def _signed_plainly(call: Call) -> Signed | None:
    """The original's headers, which sign a time and nothing else: enough to be told a level."""
    sender, signature, timestamp = (call.headers.get(name) for name in ("x-from", "x-signature", "x-timestamp"))
    if not (sender and signature and timestamp):
        return None
    try:
        seconds = float(timestamp)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise Problem(400, "Invalid X-Timestamp header")
    return Signed(*(Raw(json.dumps(part).encode()) for part in ({"timestamp": seconds}, sender, signature)))


def _fields(payload: Raw) -> dict[str, object]:
    """The payload's fields; what is no object is for trust to refuse."""
    try:
        return msgspec.json.decode(payload, type=dict[str, object]) if bytes(payload) else {}
    except (msgspec.ValidationError, RecursionError):
        return {}
    except (msgspec.MsgspecError, UnicodeError):
        raise Problem(400, INVALID_JSON) from None


def _check_token(call: Call) -> None:
    if not call.has_bearer():
        raise Problem(401, "unauthorized")


def _check_admin(call: Call, caller: Caller) -> None:
    owners = call.path.startswith("/superadmin/")
    if caller.identity == call.host.address or (not owners and call.host.trust.sees_all(caller)):
        return
    raise Refused("forbidden: super admin only" if owners else "forbidden: admin only")


def _shown(outcome: AdminOutcome) -> dict[str, object]:
    """The outcome as HTTP has it: the fields that are there, without the action's name. One about a level names whom
    it is about, others do not."""
    names = ("client_id", "level") if outcome.action == "get_level" else ("success", "message", "error", "level")
    return {name: value for name in names if (value := getattr(outcome, name)) is not None}
