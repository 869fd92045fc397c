"""The tools that a step offers its model, and what is made of them: kept from step to step while they stay the same."""

from __future__ import annotations

import msgspec

from dragoman.hub.events import Json

from .providers.conversation import ToolSpec
from .tokens import most_in_tools


class OfferedTools(msgspec.Struct, frozen=True):
    """See the module. ``schemas`` are the specs as the log has them, ``most_tokens`` is what they cannot exceed."""

    specs: tuple[ToolSpec, ...]
    schemas: list[Json]
    most_tokens: int


class LastOffer:
    """Remembers what a session's last step offered."""

    def __init__(self) -> None:
        self._last: OfferedTools | None = None

    def again(self, specs: tuple[ToolSpec, ...]) -> OfferedTools:
        """These tools: as the last step offered them, where they are the same."""
        if self._last is None or self._last.specs != specs:
            self._last = OfferedTools(specs, [msgspec.to_builtins(spec) for spec in specs], most_in_tools(specs))
        return self._last
