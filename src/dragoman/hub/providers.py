"""The Providers port: what dialects may ask about model providers, and tell of their keys.

Implemented by the native agent, handed to dialects by the composition. A key goes in here and never comes out
(invariant 10).
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

KeySource = Literal["stored", "environment", "none_needed", "missing"]
"""Where a provider's key comes from."""


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One provider of the catalogue. ``models`` has the default first; it is empty while a server that would list them
    cannot be asked. ``local`` runs on this machine; ``demonstration`` is no model at all."""

    id: str
    name: str
    models: tuple[str, ...]
    default_model: str | None
    local: bool = False
    demonstration: bool = False


class ProviderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a provider can be used now. ``verified`` is true when it was asked, and took the key.

    ``message`` is for people; ``checked_at`` is in milliseconds since 1970.
    """

    id: str
    ready: bool
    verified: bool
    key: KeySource
    message: str
    checked_at: int


class Providers(Protocol):
    """See the module."""

    async def catalogue(self) -> tuple[ProviderEntry, ...]:
        """Every provider, in the catalogue's order; local servers are looked for."""

    async def status(self, *, verify: bool = False) -> tuple[ProviderStatus, ...]:
        """How each one stands, in the same order. ``verify`` asks those that have a key whether they take it."""

    async def set_key(self, provider: str, key: str) -> None:
        """Keep a key; returns once it is on disk. Raises ``InvalidRequest``, ``StorageUnavailable``."""

    async def forget_key(self, provider: str) -> bool:
        """Remove a stored key; False when there was none. Raises as ``set_key``."""
