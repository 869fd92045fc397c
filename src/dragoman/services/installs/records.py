"""What is known of an install, and what it is told once."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec


class Install(msgspec.Struct, frozen=True):
    """Who is on the other end: ``user_id`` is ``user_<hex>``, ``install_id`` ``install_<hex>``."""

    user_id: str
    install_id: str


class InstallRecord(msgspec.Struct, frozen=True):
    """An install as it is listed. Times are milliseconds since 1970; ``used_at`` may be up to an hour behind after a
    crash. ``operating_system`` is what the client said, if it did."""

    install: Install
    operating_system: str | None
    registered_at: int
    used_at: int


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration: the only time that the token is told. Its ``repr`` leaves the token out."""

    install: Install
    token: str = field(repr=False)

    @property
    def user_id(self) -> str:
        """The user that this install is."""
        return self.install.user_id

    @property
    def install_id(self) -> str:
        """The install's own id, by which it is revoked."""
        return self.install.install_id
