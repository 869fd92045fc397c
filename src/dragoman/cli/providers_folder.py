"""The providers where no server runs: those of the settings, with the keys in the data folder.

A server that starts meanwhile shares the file of the keys: who writes to it takes turns with who else does.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.native.providers import keys
from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.hub.errors import StorageUnavailable
from dragoman.hub.folder import DataFolder
from dragoman.server.settings import Settings

Entries = list[dict[str, Any]]


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Kept]:
    """The providers of these settings. Raises ``InvalidRequest`` for settings that cannot be."""
    folder = DataFolder(settings.data.path())
    directory = ProviderDirectory(settings.native, KeyStore(folder.keys / keys.FILE))
    try:
        yield Kept(directory, folder.path)
    finally:
        await directory.close()


class Kept:
    """See the module; a ``Shop``. Everything raises ``HubError``."""

    def __init__(self, directory: ProviderDirectory, folder: Path) -> None:
        self._directory = directory
        self._folder = folder

    async def catalogue(self, *, verify: bool) -> tuple[Entries, Entries]:
        """The providers, and how each stands."""
        entries = msgspec.to_builtins(await self._directory.catalogue())
        return list(entries), list(msgspec.to_builtins(await self._directory.status(verify=verify)))

    async def keep(self, name: str, key: str) -> None:
        """Keep a key, in a folder that only its owner may enter."""
        self._make_folder()
        await self._directory.set_key(name, key)

    async def forget(self, name: str) -> bool:
        """Remove a key or a sign-in; False when none was kept."""
        return await self._directory.forget_key(name)

    async def ways(self, name: str) -> Entries:
        """How one can be signed in to."""
        return [msgspec.structs.asdict(way) for way in self._directory.auth_methods().get(name, ())]

    async def begin(self, name: str, way: str) -> dict[str, Any]:
        """What a person is to do for that."""
        return msgspec.structs.asdict(await self._directory.begin_sign_in(name, way))

    async def sign_in(self, name: str, way: str, tell: Callable[[str], None]) -> dict[str, Any]:
        """Sign in, in a folder that only its owner may enter."""
        self._make_folder()
        return msgspec.structs.asdict(await self._directory.finish_sign_in(name, way, tell=tell))

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageUnavailable(f"no data folder {self._folder}: {error.strerror or error}") from error
