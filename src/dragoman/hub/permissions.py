"""Who is on the other end, and what they may do. Checked again on every write (design §7)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from .errors import NotPermitted, UnknownSession


class Right(StrEnum):
    """Each right is needed for its own kind of command; none implies another."""

    READ = "read"
    WRITE = "write"
    APPROVE = "approve"
    ADMIN = "admin"


WIDENING = frozenset({"mode", "output_directory"})
"""Settings by which an agent may be allowed more than before."""


def widening(settings: Iterable[str]) -> bool:
    """Whether a change of these settings may allow an agent more, whatever the change is."""
    return not WIDENING.isdisjoint(settings)


EVERYTHING = frozenset(Right)
READ_ONLY = frozenset({Right.READ})


class Principal(msgspec.Struct, frozen=True):
    """Someone who talks to the hub.

    ``id`` names them in the log. ``rights`` hold for every session they may see: all of them, or, where ``only`` is
    given, just those.
    """

    id: str
    rights: frozenset[Right]
    only: frozenset[str] | None = None

    def may_see(self, session: str) -> bool:
        """Whether this principal may know that the session exists."""
        return Right.READ in self.rights and (self.only is None or session in self.only)

    def check(self, session: str, right: Right) -> None:
        """Raise ``UnknownSession`` for a session out of sight, ``NotPermitted`` for a missing right.

        The first comes first: an id must mean nothing to whoever may not see it (invariant 12).
        """
        if not self.may_see(session):
            raise UnknownSession(session)
        if right not in self.rights:
            raise NotPermitted(right)


LOCAL = Principal("local", EVERYTHING)
"""Anyone on loopback while no token is set: the seeds' own trust."""

HOLDER = Principal("token", EVERYTHING)
"""Whoever showed the server's token."""

STRANGER = Principal("anonymous", READ_ONLY)
"""A link that may read before it has authenticated (coop's open reads)."""
