"""The ways in which a model may be reached: an adapter and the API that it speaks, made as a server makes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Literal

import msgspec

from dragoman.agents.native.factory import NativeFactory
from dragoman.agents.native.providers.catalogue import Api
from dragoman.agents.native.providers.directory import ProviderDirectory
from dragoman.agents.native.providers.keys import KeyStore
from dragoman.agents.native.providers.table import ADAPTERS, Adapter, MakeProvider
from dragoman.agents.native.settings import NativeSettings, ProviderSettings, TurnLimits
from dragoman.hub.artifacts import Artifacts
from tests.agents.native.model_server import ModelServer
from tests.agents.native.native_rig import NativeHub
from tests.hub.rig import InMemory, proven
from tests.hub.workspaces import KnownSkills

KEY = "sk-scripted-0123456789abcdef"

RETRY_FIRST = 0.01


class Way(msgspec.Struct, frozen=True):
    """One of them. ``provider`` is the built-in one whose place and API are changed for it."""

    adapter: Literal["ours", "pydantic-ai"]
    api: Api
    provider: str
    model: str

    @property
    def name(self) -> str:
        return f"{self.adapter}, {self.api}"

    @property
    def adapters(self) -> Mapping[Api, Adapter]:
        """The server's table of adapters, but for this way's API where another one speaks it."""
        if self.adapter == "ours":
            return ADAPTERS
        return {**ADAPTERS, self.api: Adapter(partial(_pydantic_ai, self.api))}


def _pydantic_ai(api: Api) -> MakeProvider:
    return partial(import_module("dragoman.agents.native.providers.pydantic").PydanticAI, api=api)


REFERENCE = Way("ours", "openai-responses", "openai", "gpt-5.2")

WAYS = (
    REFERENCE,
    Way("ours", "openai-chat", "openai", "gpt-5.2"),
    Way("pydantic-ai", "openai-responses", "openai", "gpt-5.2"),
    Way("pydantic-ai", "openai-chat", "openai", "gpt-5.2"),
    Way("pydantic-ai", "anthropic", "anthropic", "claude-opus-4-6"),
    Way("pydantic-ai", "google", "google", "gemini-3-pro-preview"),
)


@asynccontextmanager
async def reaching(
    way: Way, server: ModelServer, folder: Path, *, artifacts: Artifacts | None = None
) -> AsyncIterator[NativeHub]:
    """A hub whose native sessions reach the server in this way; its logs are held to the grammar afterwards."""
    base_url = server.base_url("gemini" if way.api == "google" else way.api)
    settings = NativeSettings(
        provider=way.provider,
        model=way.model,
        local_servers=(),
        turn=TurnLimits(retry_first=RETRY_FIRST),
        providers={way.provider: ProviderSettings(api=way.api, base_url=base_url)},
    )
    store = KeyStore(folder / "keys" / "keys.json")
    directory = ProviderDirectory(settings, store, environment={}, adapters=way.adapters)
    await directory.set_key(way.provider, KEY)
    server.key = KEY
    place = folder / "work"
    place.mkdir()
    skills = KnownSkills()
    skills.add("tea", "Boil water.\n")
    factory = NativeFactory(directory, settings, skills=skills)
    hub = NativeHub(InMemory(), place, factories=[factory], artifacts=artifacts)
    try:
        async with proven(hub):
            yield hub
    finally:
        await directory.close()
