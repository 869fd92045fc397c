"""The Providers port: what dialects may ask about model providers, and tell of their keys and of signing in.

Implemented by the native agent, handed to dialects by the composition. A key goes in here and never comes out
(invariant 10).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

KeySource = Literal["stored", "environment", "none_needed", "missing"]
"""Where a provider's key comes from."""


AuthMode = Literal["missing", "error", "api_key", "oauth", "oauth_pending"]
"""How a provider is signed in to. ``oauth_pending``: begun at the provider's own program, and not known to be done."""


class AuthMethod(msgspec.Struct, frozen=True, kw_only=True):
    """One way to sign in: with a key (``api``), or at the provider (``oauth``), by itself or with a code."""

    id: str
    type: Literal["api", "oauth"]
    label: str
    oauth_mode: Literal["auto", "code"] | None = None


class AuthChallenge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the person is to do now: run ``command``, or open ``url``."""

    method: Literal["auto", "code"]
    instructions: str
    url: str | None = None
    command: str | None = None


class AuthResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a sign-in came out. ``message`` is for people."""

    ok: bool
    mode: AuthMode
    message: str


class Account(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is signed in, as the provider says."""

    email: str | None = None
    name: str | None = None


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
    """Whether a provider can be used now. ``verified`` is true when it was asked, and took the key or the sign-in.

    ``message`` is for people; ``checked_at`` is in milliseconds since 1970. ``mode`` says what was kept here for it: a
    key of the environment counts as ``missing``.
    """

    id: str
    ready: bool
    verified: bool
    key: KeySource
    message: str
    checked_at: int
    mode: AuthMode = "missing"
    account: Account | None = None


class Preferred(msgspec.Struct, frozen=True):
    """Who is to answer a session. ``model`` is empty where only the provider's server knows what it has."""

    provider: str
    model: str


class Providers(Protocol):
    """See the module."""

    async def catalogue(self, *, among: Collection[str] | None = None) -> tuple[ProviderEntry, ...]:
        """Every provider, or those ``among`` them, in the catalogue's order. Local servers are looked for, if any of
        them is wanted."""

    async def status(self, *, verify: bool = False, among: Collection[str] | None = None) -> tuple[ProviderStatus, ...]:
        """How each one stands, as ``catalogue`` has them. ``verify`` asks those that have a key whether they take it,
        and the programs that are signed in to."""

    async def preferred(self, among: Sequence[str], provider: str | None = None, model: str | None = None) -> Preferred:
        """Who is to answer a session whose folder names this provider and model, or neither.

        That one; else who the server's settings name; else the first of ``among`` that has a key or a sign-in and can
        be used; else the first of them. Nobody is asked for it, and no program run.
        """

    async def usual(self, provider: str | None = None, model: str | None = None) -> Preferred | None:
        """Who would answer now if a session named this provider and model, or neither; None where nobody could.

        Servers on this machine are looked for where nobody is named; no other is asked.
        """

    async def set_key(self, provider: str, key: str) -> None:
        """Keep a key; returns once it is on disk. Raises ``InvalidRequest``, ``StorageUnavailable``."""

    async def forget_key(self, provider: str) -> bool:
        """Remove a stored key and sign-in; False when there was neither. Raises as ``set_key``."""

    def auth_methods(self) -> Mapping[str, tuple[AuthMethod, ...]]:
        """The ways to sign in, by provider, in the catalogue's order; those that need nothing are left out."""

    async def begin_sign_in(self, provider: str, method: str) -> AuthChallenge:
        """What the person is to do, for a method of the type ``oauth``; nothing is kept.

        Raises ``InvalidRequest`` in the words of the coworker seed (``missing/invalid provider``, ``missing/invalid
        methodId``, ``unknown methodId``); ``Unsupported`` for a method that is a key.
        """

    async def finish_sign_in(
        self, provider: str, method: str, code: str | None = None, *, tell: Callable[[str], None]
    ) -> AuthResult:
        """Sign in, which may wait for a person; returns once what came of it is on disk. That it failed is no error.

        ``tell`` is given what the provider's program says meanwhile, line by line. It is for who asked, and for nobody
        else: it may hold addresses and codes (invariant 10). When cancelled, the program is ended. Raises
        ``InvalidRequest`` as ``begin_sign_in``; ``AlreadyRunning`` while somebody signs in there;
        ``StorageUnavailable``.
        """
