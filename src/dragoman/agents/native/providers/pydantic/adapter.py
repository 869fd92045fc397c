"""The adapter: one provider, reached by way of pydantic-ai, as the turn loop sees it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from dragoman.agents.native.providers.conversation import ModelRequest
from dragoman.agents.native.providers.port import ProviderFailed, StreamEvent
from dragoman.agents.native.settings import NativeSettings

from .api import Api

if TYPE_CHECKING:
    from .client import Client

_IMPORTING = threading.Lock()
"""The library and the vendors' packages are large; one thread at a time imports them."""


class PydanticAI:
    """A provider that the pydantic-ai library speaks to. See ``port.Provider``.

    It is cheap to make: library and HTTP client come with the first call, in a thread. ``base_url`` empty is the
    vendor's own. Without ``key`` only servers at a ``base_url`` can be called. ``raw`` gives nothing: the library
    does not show the provider's own events.
    """

    def __init__(
        self,
        name: str,
        api: Api,
        *,
        key: str | None = None,
        base_url: str = "",
        settings: NativeSettings | None = None,
    ) -> None:
        self.name = name
        self.searches = api != "openai-chat"
        self._api: Api = api
        self._key = key
        self._base_url = base_url
        self._settings = settings or NativeSettings()
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"PydanticAI({self.name!r}, {self._api!r})"

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:  # noqa: ARG002
        """One model call. Raises ``ProviderFailed``."""
        client = await self._connected()
        async with aclosing(client.stream(request)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Give up the connections; a later call opens new ones."""
        async with self._connecting:
            client, self._client = self._client, None
            if client is not None:
                await client.close()

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
            return self._client

    def _connect(self) -> Client:
        """Import what the API needs, and make its client. Runs in a thread. Raises ``ProviderFailed``."""
        if not self._key and not self._base_url:
            raise ProviderFailed(f"There is no key for {self.name}.", cause="unauthorized")
        try:
            with _IMPORTING:
                from .client import Client  # noqa: PLC0415 - large, and an extra

                return Client(self.name, self._api, self._key, self._base_url, self._settings)
        except ImportError as error:
            message = f"{self.name} needs a library that is not installed: pip install 'dragoman[models]'"
            raise ProviderFailed(message, cause="invalid_request") from error
