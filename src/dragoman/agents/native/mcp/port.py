"""What a server is to those who use it, whatever it is reached by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from dragoman.hub.events import Json
from dragoman.hub.workspace_config import McpServer

from .program import Spawning
from .settings import McpSettings

Progress = Callable[[dict[str, Json]], Awaitable[None]]
"""Is given what a server says of a call under way: ``progress``, ``total``, ``message``."""


class LinkFailed(Exception):
    """A server cannot be reached, or did not do what it was asked. ``str()`` says why; it may hold the entry's secrets.

    ``lost``: the connection is over.
    """

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class ListedTool(msgspec.Struct, frozen=True):
    """A tool as its server describes it. ``schema`` is whatever the server gave."""

    name: str
    description: str
    schema: Json
    title: str | None = None
    read_only: bool = False


class Link(Protocol):
    """A connection to a server, from its handshake to its end."""

    @property
    def problem(self) -> str | None:
        """Why it is over; None while it is not."""

    async def tools(self) -> Sequence[ListedTool]:
        """Its tools now, all pages of them. Raises ``LinkFailed``."""

    async def call(self, tool: str, arguments: dict[str, Json], show: Progress) -> Json:
        """The result as the server gave it; a call that is given up is cancelled there. Raises ``LinkFailed``."""

    async def news(self) -> None:
        """Return when the tools have changed. Raises ``LinkFailed`` once the connection is lost."""


class Connect(Protocol):
    """Reaches a server; the connection lasts as long as the context, which one task enters and leaves."""

    def __call__(
        self, entry: McpServer, spawning: Spawning, settings: McpSettings
    ) -> AbstractAsyncContextManager[Link]:
        """Entering takes ``settings.connect_seconds`` at most. Raises ``LinkFailed``, on leaving too."""
