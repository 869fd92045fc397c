"""Model providers as agent-coworker's clients know them: five, in their order, in the protocol's words (spec 8.1).

Of other providers that this server has nothing is said. No key is in any of it (invariant 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import UNSET

from dragoman.hub import providers as hub
from dragoman.hub.clock import iso_time
from dragoman.hub.workspace_config import WorkspaceConfig

from .messages import PROVIDERS
from .provider_messages import (
    Account,
    AuthMethod,
    CatalogEntry,
    ProviderAuthMethods,
    ProviderCatalog,
    ProviderStatus,
    StatusEntry,
)

_KEPT: Final = ("api_key", "oauth")
_CONNECTED = (*_KEPT, "oauth_pending")

_SIGNED_OUT = {
    "codex-cli": "Not logged in to Codex CLI. Run codex login.",
    "claude-code": "Not authorized. Run claude setup-token.",
}
_BY_MODE = {
    "missing": "Not connected.",
    "api_key": "API key saved.",
    "oauth": "OAuth connected.",
    "oauth_pending": "Pending connection (no credentials).",
}
_DOUBTED = "Not authorized. "
_SAID = {
    "codex-cli": ("Not logged in to Codex CLI.", "Verified "),
    "claude-code": (_DOUBTED, "Verified "),
}
"""How messages begin that our own providers have from the protocol."""


def catalog(
    session: str, entries: Iterable[hub.ProviderEntry], standing: Iterable[hub.ProviderStatus]
) -> ProviderCatalog:
    """``provider_catalog``. Connected is who something was kept for, a sign-in that is pending, too."""
    known = {entry.id: entry for entry in entries}
    connected = {status.id for status in standing if status.mode in _CONNECTED}
    found = tuple(
        CatalogEntry(id=name, name=entry.name, models=entry.models, default_model=entry.default_model or "")
        for name in PROVIDERS
        if (entry := known.get(name)) is not None
    )
    return ProviderCatalog(
        session_id=session,
        all=found,
        default={entry.id: entry.default_model for entry in found},
        connected=tuple(name for name in PROVIDERS if name in connected),
    )


def auth_methods(session: str, methods: Mapping[str, Sequence[hub.AuthMethod]]) -> ProviderAuthMethods:
    """``provider_auth_methods``."""
    found = {name: tuple(map(_method, methods[name])) for name in PROVIDERS if name in methods}
    return ProviderAuthMethods(session_id=session, methods=found)


def method_ids(methods: Mapping[str, Sequence[hub.AuthMethod]]) -> dict[str, tuple[str, ...]]:
    """The ways to sign in that a message may name, by provider."""
    return {name: tuple(method.id for method in methods[name]) for name in PROVIDERS if name in methods}


def status(session: str, standing: Iterable[hub.ProviderStatus]) -> ProviderStatus:
    """``provider_status``.

    A key of the environment is no connection. What is kept for a provider and cannot be used (the key was refused, the
    program is not there) has the mode ``error``, and says why.
    """
    known = {one.id: one for one in standing}
    found = tuple(_entry(known[name]) for name in PROVIDERS if name in known)
    return ProviderStatus(session_id=session, providers=found)


async def preferred(providers: hub.Providers, config: WorkspaceConfig | None) -> hub.Preferred:
    """Who answers a session of which nobody said it: whom its folder's configuration names, else the server's settings,
    else the first of the five that has a key or a sign-in, else the first. Quick: nobody is asked."""
    if config is None:
        return await providers.preferred(PROVIDERS)
    return await providers.preferred(PROVIDERS, config.provider, config.model)


def _method(method: hub.AuthMethod) -> AuthMethod:
    mode = UNSET if method.oauth_mode is None else method.oauth_mode
    return AuthMethod(id=method.id, type=method.type, label=method.label, oauth_mode=mode)


def _entry(found: hub.ProviderStatus) -> StatusEntry:
    kept = found.mode in _KEPT
    broken = kept and not found.ready
    return StatusEntry(
        provider=found.id,
        authorized=kept and found.ready and not _is_doubted(found),
        verified=found.verified,
        mode="error" if broken else found.mode,
        account=None if found.account is None else _account(found.account),
        message=found.message if broken else _message(found),
        checked_at=iso_time(found.checked_at),
    )


def _account(account: hub.Account) -> Account:
    return Account(
        email=UNSET if account.email is None else account.email, name=UNSET if account.name is None else account.name
    )


def _is_doubted(found: hub.ProviderStatus) -> bool:
    """There is a sign-in, but the program could not be asked whether it holds."""
    return found.mode == "oauth" and found.message.startswith(_DOUBTED)


def _message(found: hub.ProviderStatus) -> str:
    """Its own, where that is one of the protocol's; else what its mode means."""
    if found.mode != "api_key" and (found.message.startswith(_SAID.get(found.id, ())) or _is_doubted(found)):
        return found.message
    if found.mode == "missing":
        return _SIGNED_OUT.get(found.id, _BY_MODE["missing"])
    return _BY_MODE.get(found.mode, found.message)
