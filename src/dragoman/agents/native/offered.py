"""The tools that a step offers its model, and what is made of them."""

from __future__ import annotations

from collections import deque

import msgspec

from dragoman.hub.events import Json

from .providers.conversation import ToolSpec
from .tokens import most_in_tools


class OfferedTools(msgspec.Struct, frozen=True):
    """See the module. ``schemas`` are the specs as the log has them, ``most_tokens`` is what they cannot exceed."""

    specs: tuple[ToolSpec, ...]
    schemas: list[Json]
    most_tokens: int


class Offers:
    """The newest few offers of all sessions: most offer their models the same, and need to keep it once only."""

    def __init__(self, most: int = 8) -> None:
        self._newest: deque[OfferedTools] = deque(maxlen=most)

    def of(self, specs: tuple[ToolSpec, ...]) -> OfferedTools:
        """These tools: as an earlier step offered them, where they are the same."""
        for known in self._newest:
            if known.specs == specs:
                return known
        made = OfferedTools(specs, [msgspec.to_builtins(spec) for spec in specs], most_in_tools(specs))
        self._newest.append(made)
        return made
