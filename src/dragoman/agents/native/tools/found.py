"""Tools that are not ours: found while a session runs, described by whoever runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from dragoman.agents.native.providers.conversation import ToolSpec
from dragoman.hub.events import Json
from dragoman.hub.turns import TurnContext

from .tool import Result, Tool, ToolContext


class FoundTool(ABC):
    """One of them. ``title`` is for people; ``for_subagents``: it asks nobody, so sub-agents may have it."""

    def __init__(self, spec: ToolSpec, *, title: str, for_subagents: bool) -> None:
        self.spec = spec
        self.title = title
        self.for_subagents = for_subagents

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.spec.name

    @abstractmethod
    async def run(self, given: dict[str, Json], context: ToolContext) -> Result:
        """Do it, as ``Tool.run`` does; ``given`` is the object that the model sent, unchecked."""


class ToolFinder(Protocol):
    """Where they come from."""

    async def find(self, turn: TurnContext, taken: Collection[str]) -> Mapping[str, FoundTool]:
        """Those that can be called in the step that begins now, by names that are none of ``taken``.

        Raises ``TurnFailed`` when one that must be there is not.
        """


class Toolbox(Mapping[str, Tool | FoundTool]):
    """The tools of one turn: ours, and those found. One of ours is never replaced, nor one of a client's."""

    def __init__(self, own: Iterable[Tool], finder: ToolFinder | None = None) -> None:
        self._own: dict[str, Tool] = {tool.name: tool for tool in own}
        self._finder = finder
        self._found: Mapping[str, FoundTool] = {}

    async def refresh(self, turn: TurnContext) -> None:
        """Look anew for what can be found; before each step. Raises ``TurnFailed``."""
        if self._finder is not None:
            clients = {tool.offer.name for tool in turn.session.client_tools}
            self._found = await self._finder.find(turn, self._own.keys() | clients)

    def __getitem__(self, name: str) -> Tool | FoundTool:
        return self._own[name] if name in self._own else self._found[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._found

    def __len__(self) -> int:
        return len(self._own) + len(self._found)
