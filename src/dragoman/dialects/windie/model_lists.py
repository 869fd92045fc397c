"""Which models a user may choose among: ``models-listed``, and the catalog over HTTP (seed: models-listed).

Programs of the server's machine that answer whole turns are none of them, unless conversations may touch that machine:
what tools such a program has is not for us to say.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.hub.providers import ProviderEntry, Providers

Model = dict[str, Any]
"""``id``, ``provider`` and ``display_name``. What the contract shows besides is left out where nobody here knows it:
prices and latencies above all are never made up."""


class ModelLists(msgspec.Struct, frozen=True):
    """``local`` are models of this machine, ``online`` all others; ``vision`` are those that find points in pictures,
    of which this server has none."""

    local: tuple[Model, ...] = ()
    online: tuple[Model, ...] = ()
    vision: tuple[Model, ...] = ()

    @property
    def all(self) -> tuple[Model, ...]:
        """All of them in one list, those of others first."""
        return self.online + self.local + self.vision


def programs(providers: Providers) -> frozenset[str]:
    """The providers that are programs with tools of their own: those that are signed in to."""
    methods = providers.auth_methods().items()
    return frozenset(name for name, ways in methods if any(way.type == "oauth" for way in ways))


async def model_lists(providers: Providers) -> ModelLists:
    """The models of all providers that can be used now: with a key, or a server that runs here. Programs with tools of
    their own answer no conversation of this protocol.

    No key is tried for it. The default model of a provider is the first of its models.
    """
    ready = {status.id for status in await providers.status() if status.ready}
    ready -= programs(providers)
    entries = [entry for entry in await providers.catalogue(among=ready) if entry.id in ready] if ready else []
    return ModelLists(
        local=tuple(model for entry in entries if _is_here(entry) for model in _models(entry)),
        online=tuple(model for entry in entries if not _is_here(entry) for model in _models(entry)),
    )


def _is_here(entry: ProviderEntry) -> bool:
    """Whether its models need no network: a server of this machine, and the demonstration."""
    return entry.local or entry.demonstration


def _models(entry: ProviderEntry) -> list[Model]:
    """A model of this machine is called by its own name, others with their provider's before it, as in the seed."""
    return [
        {"id": each, "provider": entry.id, "display_name": each if entry.local else f"{entry.id}/{each}"}
        for each in entry.models
    ]
