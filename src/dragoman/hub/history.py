"""The conversation as a whole: begun anew, or taken over from what a client remembers."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import Busy, InvalidRequest, LimitReached
from .events import Event, HistoryMerged, HistoryMessage, HistoryReset, Json
from .limits import HubLimits
from .log import SessionLog, SessionParts
from .permissions import Principal, Right
from .sizes import json_size
from .state import SessionState

ROLES = frozenset({"user", "assistant", "tool", "system"})
"""Who may have said a message of a claimed history. What it says is data; none of it has any authority here."""


class HistorySession(SessionLog):
    """See the module. A part of ``Session``. Nothing of it can be done while somebody works with the conversation."""

    def __init__(self, state: SessionState, parts: SessionParts) -> None:
        super().__init__(state, parts)
        self.compacting = False

    async def reset_history(self, principal: Principal) -> Event:
        """Let later turns see nothing from before; returns once durable. Raises ``Busy``."""
        self.admit(principal, Right.WRITE)
        self.check_at_rest()
        return await self.acknowledged(self.record(HistoryReset(by=principal.id)))

    async def merge_history(
        self,
        principal: Principal,
        messages: Sequence[HistoryMessage],
        *,
        replace: bool,
        via: str,
        detail: dict[str, Json] | None = None,
    ) -> Event:
        """Append a client's history to what is known, or ``replace`` that by it; returns once durable.

        Raises ``Busy``, ``InvalidRequest`` for a role that there is not, ``LimitReached``.
        """
        self.admit(principal, Right.WRITE)
        self.check_at_rest()
        fact = HistoryMerged(messages=tuple(messages), replace=replace, by=principal.id, via=via, detail=detail or {})
        _check(fact, self.limits)
        return await self.acknowledged(self.record(fact))

    def check_at_rest(self) -> None:
        """Raise ``Busy`` while a turn is open, the agent works of its own, or the context is being shortened."""
        if self.busy or self.compacting:
            raise Busy(self.state.turn.turn if self.state.turn is not None else None)


def _check(fact: HistoryMerged, limits: HubLimits) -> None:
    if len(fact.messages) > limits.history_messages:
        raise LimitReached(f"a history has at most {limits.history_messages} messages (history_messages)")
    if unknown := {message.role for message in fact.messages} - ROLES:
        raise InvalidRequest(f"a message is of {', '.join(sorted(ROLES))}, not of {min(unknown)[:100]!r}")
    if json_size(fact) > limits.history_bytes:
        raise LimitReached(f"a history is at most {limits.history_bytes} bytes long (history_bytes)")
