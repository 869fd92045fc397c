"""What the server says of model providers, keys and sign-ins (seed: Server -> Client Events)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from .messages import ServerMessage, Shape


class CatalogEntry(Shape, frozen=True, kw_only=True):
    """One provider of ``provider_catalog``."""

    id: str
    name: str
    models: tuple[str, ...]
    default_model: str


class ProviderCatalog(ServerMessage, frozen=True, kw_only=True, tag="provider_catalog"):
    """The providers; ``default`` has each one's model, ``connected`` those that something was kept for."""

    all: tuple[CatalogEntry, ...]
    default: dict[str, str]
    connected: tuple[str, ...]


class AuthMethod(Shape, frozen=True, kw_only=True):
    """One way to sign in."""

    id: str
    type: Literal["api", "oauth"]
    label: str
    oauth_mode: Literal["auto", "code"] | UnsetType = UNSET


class ProviderAuthMethods(ServerMessage, frozen=True, kw_only=True, tag="provider_auth_methods"):
    """The ways to sign in, by provider."""

    methods: dict[str, tuple[AuthMethod, ...]]


class Challenge(Shape, frozen=True, kw_only=True):
    """What the person is to do now."""

    method: Literal["auto", "code"]
    instructions: str
    command: str | UnsetType = UNSET
    url: str | UnsetType = UNSET


class ProviderAuthChallenge(ServerMessage, frozen=True, kw_only=True, tag="provider_auth_challenge"):
    """The answer to ``provider_auth_authorize``."""

    provider: str
    method_id: str
    challenge: Challenge


class ProviderAuthResult(ServerMessage, frozen=True, kw_only=True, tag="provider_auth_result"):
    """How a sign-in came out; without a mode when it failed."""

    provider: str
    method_id: str
    ok: bool
    mode: Literal["api_key", "oauth", "oauth_pending"] | UnsetType = UNSET
    message: str


class Account(Shape, frozen=True, kw_only=True):
    """Who is signed in."""

    email: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


class StatusEntry(Shape, frozen=True, kw_only=True):
    """One provider of ``provider_status``."""

    provider: str
    authorized: bool
    verified: bool
    mode: Literal["missing", "error", "api_key", "oauth", "oauth_pending"]
    account: Account | None
    message: str
    checked_at: str


class ProviderStatus(ServerMessage, frozen=True, kw_only=True, tag="provider_status"):
    """How each provider stands."""

    providers: tuple[StatusEntry, ...]
