"""The adapters that are in use: one per provider, made anew when its key or place changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from dragoman.agents.native.settings import NativeSettings

from .catalogue import Api, CatalogueEntry
from .port import Provider, ProviderFailed
from .table import Adapter, MakeProvider

log = logging.getLogger("dragoman.providers")


class Adapters:
    """One that was replaced stays open until ``close``: a model call may still be under way in it."""

    def __init__(self, table: Mapping[Api, Adapter], settings: NativeSettings) -> None:
        self._table = table
        self._settings = settings
        self._makers: dict[Api, MakeProvider] = {}
        self._held: dict[str, tuple[tuple[str, str, str | None], Provider]] = {}
        self._replaced: list[Provider] = []
        self._closed = False

    def problem(self, api: Api) -> str | None:
        """Why nobody can speak this API here, or None."""
        adapter = self._table.get(api)
        return adapter.problem if adapter is not None else "its API is not spoken here"

    async def load(self, api: Api) -> None:
        """Import what speaks this API, beside the loop, so that ``get`` takes no time. Raises ``ProviderFailed``."""
        if api not in self._makers:
            await asyncio.to_thread(self._load, api)

    def get(self, entry: CatalogueEntry, key: str | None) -> Provider:
        """The adapter for a provider with this key. Raises ``ProviderFailed``."""
        if self._closed:
            raise ProviderFailed("the server stops")
        mark = (entry.api, entry.base_url, key)
        held = self._held.get(entry.id)
        if held is not None and held[0] == mark:
            return held[1]
        make = self._makers.get(entry.api) or self._load(entry.api)
        made = make(name=entry.id, base_url=entry.base_url, key=key, settings=self._settings)
        if held is not None:
            self._replaced.append(held[1])
        self._held[entry.id] = (mark, made)
        return made

    async def close(self) -> None:
        """Close every one; a failure of one does not keep another open."""
        self._closed = True
        adapters = [*self._replaced, *(adapter for _, adapter in self._held.values())]
        self._replaced.clear()
        self._held.clear()
        ends = await asyncio.gather(*(adapter.close() for adapter in adapters), return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                log.warning("a provider's connections could not be closed: %s", type(end).__name__)

    def _load(self, api: Api) -> MakeProvider:
        try:
            maker = self._table[api].load()
        except ImportError as error:
            raise ProviderFailed(f"what speaks {api} cannot be loaded: {error.name or error}") from error
        self._makers[api] = maker
        return maker
