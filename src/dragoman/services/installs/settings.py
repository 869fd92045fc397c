"""Settings of installs (``[installs]``): who must show an install token, and how many there may be."""

from __future__ import annotations

from typing import Literal

import msgspec


class InstallSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Clients that register themselves, and the tokens that they are known by."""

    auth: Literal["auto", "on", "off"] = "auto"
    """Whether requests must show an install's token: ``on`` always wants one, ``auto`` unless the server listens on
    loopback only and has no token of its own; ``off`` wants none, and is refused beyond loopback."""

    kept: int = 10_000
    """Installs that are known at once; a further one is refused until one is revoked or expires."""

    registrations_per_minute: int = 30
    """That one network address may make (with IPv6 one network of 64 bits); 0 sets no limit."""

    operating_system_length: int = 64
    """Characters of the operating system's name that an install gives."""

    idle_days: float = 0.0
    """Days without any use after which an install is forgotten; 0 never does."""
