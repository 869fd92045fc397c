"""What is said of providers: how they stand, and why one cannot be used."""

from __future__ import annotations

from dragoman.hub.providers import ProviderEntry

from .catalogue import CatalogueEntry
from .keys import FoundKey
from .port import ProviderFailed
from .verifying import Verification


def shown(entry: CatalogueEntry, models: tuple[str, ...]) -> ProviderEntry:
    """The entry as dialects know it."""
    return ProviderEntry(
        id=entry.id,
        name=entry.name,
        models=models,
        default_model=next(iter(models), None),
        local=entry.local,
        demonstration=entry.demonstration,
    )


def no_key(entry: CatalogueEntry) -> ProviderFailed:
    """The failure of one that has no key and needs one."""
    variable = f", or set {entry.key_env[0]}" if entry.key_env else ""
    return ProviderFailed(
        f"{entry.name} has no key: give it one with 'dragoman providers key {entry.id}'{variable}",
        cause="unauthorized",
    )


def not_running(name: str, place: str) -> ProviderFailed:
    """The failure of a server that is not there."""
    return ProviderFailed(f"{name} does not run: nothing usable answers at {place}", cause="network", retryable=True)


def message_of(
    entry: CatalogueEntry, found: FoundKey, problem: ProviderFailed | None, checked: Verification | None
) -> str:
    """How a provider stands, for people."""
    if problem is not None:
        return str(problem)
    if entry.demonstration:
        return "always there; answers by a script, and is no model"
    if entry.local:
        return f"runs at {entry.base_url}"
    where = {"stored": "key stored here", "none_needed": "needs no key"}.get(found.source, f"key of {found.variable}")
    return f"{where}; {checked.message}" if checked is not None else where
