"""Links whose server has a real key store and providers, and nothing in its environment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.settings import NativeSettings
from dragoman.dialects.windie.settings import WindieSettings

from .link_rig import Client, Frame, Place, place


@asynccontextmanager
async def provided(folder: Path, environment: dict[str, str] | None = None, **windie: Any) -> AsyncIterator[Place]:
    """A place with providers; keys lie in ``folder/keys``, ``windie`` are the settings of the dialect."""
    settings = NativeSettings(local_servers=(), verify_seconds=0.5)
    directory = ProviderDirectory(settings, KeyStore(folder / "keys" / "keys.json"), environment=environment or {})
    async with place(folder, WindieSettings(**windie)) as made:
        made.dialect.host = msgspec.structs.replace(made.dialect.host, providers=directory)
        yield made
    await directory.close()


async def answer(client: Client, kind: str, payload: Frame) -> Frame:
    """Send a message and wait for its one answer, whatever it is."""
    name = client.send(kind, payload)
    return await client.hears(lambda frame: frame.get("id") == name)


async def config(client: Client) -> Frame:
    """The settings as a client is told them."""
    loaded = await answer(client, "load-settings", {})
    assert loaded["type"] == "settings-loaded"
    found: Frame = loaded["payload"]["config"]
    return found
