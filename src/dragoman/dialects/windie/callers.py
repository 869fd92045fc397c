"""Who is on the other end: an install, or, where no token is asked for, whoever it says it is (spec §2)."""

from __future__ import annotations

import msgspec

from dragoman.hub.permissions import Principal, Right
from dragoman.services.installs import Install

ANYBODY = "anybody"
"""Whose artifacts are those that come without a token."""

DEFAULT_USER = "default_user"
"""Who asks over HTTP without a token, and without saying who it is."""

_RIGHTS = frozenset({Right.READ, Right.WRITE})


class Caller(msgspec.Struct, frozen=True):
    """``user_id`` is what the wire calls them. ``install_id`` is None for one who showed no install's token: then
    ``user_id`` is a claim, nobody was asked for a token of an install, and the caller is trusted like anybody on this
    machine (design: loopback without a token)."""

    user_id: str
    install_id: str | None = None

    @property
    def trusted(self) -> bool:
        """Whether they may do what concerns others too: set the server's keys, see sessions of other dialects."""
        return self.install_id is None

    @property
    def owner(self) -> str:
        """Whose artifacts they upload and may fetch."""
        return ANYBODY if self.install_id is None else self.user_id

    @property
    def principal(self) -> Principal:
        """Who they are to the hub, before they are narrowed to one conversation (``for_session``).

        Nobody is an install's user by saying so.
        """
        return Principal(f"{'windie' if self.install_id is None else 'windie-install'}:{self.user_id}", _RIGHTS)

    def for_session(self, session: str) -> Principal:
        """Who they are in this session, and no other."""
        return msgspec.structs.replace(self.principal, only=frozenset({session}))


def caller_of(install: Install | None, claimed: str = DEFAULT_USER) -> Caller:
    """An install is who it is, whatever it claims."""
    return Caller(claimed) if install is None else Caller(install.user_id, install.install_id)
