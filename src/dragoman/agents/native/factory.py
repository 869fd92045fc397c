"""Makes native agents (session kind ``native``)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dragoman.hub.errors import InvalidRequest
from dragoman.hub.session import Session
from dragoman.hub.state import Executor

from .agent import Models, NativeAgent
from .settings import NativeSettings
from .tools.tool import Tool
from .usage import Price


class NativeFactory:
    """One for a server. The session's settings say which model it runs with: ``provider``, ``model``, ``mode``."""

    kind = "native"

    def __init__(
        self, models: Models, tools: Callable[[], list[Tool]], price: Price, settings: NativeSettings
    ) -> None:
        self._models = models
        self._tools = tools
        self._price = price
        self._settings = settings

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:  # noqa: ARG002
        if options:
            raise InvalidRequest(f"a native session takes no options, got {', '.join(sorted(options))}: use settings")
        return {}

    def adopt(self, session: str, options: dict[str, object]) -> None:
        """There is nothing to keep."""

    def make(self, session: Session) -> NativeAgent:
        return NativeAgent(session, self._models, self._tools, self._price, self._settings)

    async def sweep(self, kept: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Nothing lies beside the log."""
        return ()

    async def recover(self, session: Session, lost: Executor | None) -> None:
        """Its commands carry no marker to be found by after a crash: ended with the server by its death."""

    def dropped(self, session: str) -> None:
        """Nothing is kept beside the log."""
