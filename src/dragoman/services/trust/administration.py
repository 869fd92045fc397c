"""What administrators ask for: ADMIN_* frames, and the same over HTTP (onion, spec §5 and §10)."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.hub.events import Json

from .callers import AdminOutcome, Refused
from .entries import is_identity
from .standing import Standing, Unchanged

_ACTIONS = {
    "ADMIN_PROMOTE": "promote",
    "ADMIN_DEMOTE": "demote",
    "ADMIN_BLOCK": "block",
    "ADMIN_UNBLOCK": "unblock",
    "ADMIN_GET_LEVEL": "get_level",
    "ADMIN_ADD": "add_admin",
    "ADMIN_REMOVE": "remove_admin",
}

_OWNERS = frozenset({"add_admin", "remove_admin"})
"""What only the host's own key may do."""


class Administration:
    """Carries out what was asked by somebody who may."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    async def do(self, type: str, payload: Mapping[str, Json], *, owner: bool) -> AdminOutcome:  # noqa: A002
        """``type`` is the wire's. Raises ``Refused`` for what is no request; what comes to nothing is an outcome."""
        action = _ACTIONS.get(type)
        if action is None:
            raise Refused(f"Unknown admin action: {type}")
        if action in _OWNERS:
            if not owner:
                raise Refused("forbidden: super admin only")
            return await self._admins(action, _identity(payload, "admin_id"))
        client = _identity(payload, "client_id")
        if action == "get_level":
            return AdminOutcome(action, client_id=client, level=self._standing.level(client))
        try:
            message = await self._change(action, client, payload)
        except Unchanged as why:
            return AdminOutcome(action, error=str(why), level=self._standing.level(client))
        return AdminOutcome(action, success=True, message=f"{client} {message}", level=self._standing.level(client))

    async def _change(self, action: str, client: str, payload: Mapping[str, Json]) -> str:
        if action == "promote":
            return await self._standing.promote(client)
        if action == "demote":
            return await self._standing.demote(client)
        if action == "unblock":
            await self._standing.unblock(client)
            return "unblocked."
        reason = payload.get("reason")
        await self._standing.block(client)
        return f"blocked. Reason: {reason if isinstance(reason, str) else ''}"

    async def _admins(self, action: str, admin: str) -> AdminOutcome:
        if action == "add_admin":
            done = await self._standing.add_admin(admin)
            said = "added as admin." if done else "is already an admin."
        else:
            done = await self._standing.remove_admin(admin)
            said = "removed from admins." if done else "is not an admin."
        return AdminOutcome(action, success=True, message=f"{admin} {said}")


def _identity(payload: Mapping[str, Json], field: str) -> str:
    """Whom it is about, as it was given. Raises ``Refused``."""
    given = payload.get(field)
    if not given:
        raise Refused(f"{field} required")
    if not isinstance(given, str) or not is_identity(given):
        # It becomes a line of a list: a second line in it would be another's.
        raise Refused(f"{field} is no identity")
    return given
