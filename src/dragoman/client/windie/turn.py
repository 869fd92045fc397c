"""One turn: the events that answer a query, in their order, and what came of it.

The events of a turn are numbered from 1 without a gap. One that is missing, or that does not say its number, ends the
turn here with ``OutOfSequence``; one that came before is passed over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator

from dragoman.client.errors import ClientError, TurnFailed

from .errors import EventsMissed, OutOfSequence
from .requests import Message

log = logging.getLogger("dragoman.client")

NUMBERED = frozenset(
    {
        "query-accepted",
        "llm-thought",
        "streaming-response",
        "streaming-complete",
        "tool-call",
        "tool-bundle",
        "tool-output",
        "web-search-progress",
        "system-prompt",
        "user-message-full",
        "assistant-message-full",
        "tool-schemas",
        "token-count",
        "context-compaction-started",
        "context-compaction-completed",
        "context-compaction-failed",
        "model-history-updated",
        "trace-event",
        "error",
    }
)
"""Types of events that have a number; all others stand between them and have none."""


class Turn:
    """See the module. ``id`` is that of the query, ``text`` what was streamed so far; ``backlog`` events are kept.

    Iterating gives the events from the first on, each once, to one reader; it ends with the turn, and raises what ended
    it where that was no response.
    """

    def __init__(self, turn_id: str, conversation_ref: str, backlog: int) -> None:
        self.id = turn_id
        self.conversation_ref = conversation_ref
        self.text = ""
        self.problem: ClientError | None = None
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._events: deque[Message] = deque()
        self._backlog = backlog
        self._missed = 0
        self._sequence = 0
        self._seen: set[str] = set()
        self._final: str | None = None

    @property
    def over(self) -> bool:
        """Whether there will be no other event."""
        return self._over.is_set()

    async def result(self, limit: float | None = None) -> str:
        """Wait for the end, so many seconds at most, and return the final response.

        Raises ``TurnFailed`` with the server's words, ``TurnStopped``, ``OutOfSequence``, ``ConnectionLost`` (the cut
        ended it), ``Denied``, ``TimeoutError``.
        """
        async with asyncio.timeout(limit):
            await self._over.wait()
        if self.problem is not None:
            raise self.problem
        return self.text if self._final is None else self._final

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            if self._missed:
                missed, self._missed = self._missed, 0
                raise EventsMissed(missed)
            if self._events:
                yield self._events.popleft()
            elif self.over:
                break
            else:
                self._changed.clear()
                await self._changed.wait()
        if self.problem is not None:
            raise self.problem

    # For the agent

    def received(self, frame: Message) -> bool:
        """An event of this turn; returns whether it is one that says anything new."""
        if self.over or not self._is_due(frame):
            return False
        self._keep(frame)
        kind, payload = frame["type"], frame["payload"]
        if kind == "streaming-response":
            self.text += str(payload.get("text", ""))
        elif kind == "streaming-complete":
            final = payload.get("final_response")
            self._final = final if isinstance(final, str) else None
            self.end(None)
        elif kind == "error":
            self.end(TurnFailed(str(payload.get("message", ""))))
        return True

    def end(self, problem: ClientError | None) -> None:
        """There is nothing more to come. Only the first end counts."""
        if not self.over:
            self.problem = problem
            self._seen.clear()
            self._over.set()
            self._changed.set()

    # Inside

    def _is_due(self, frame: Message) -> bool:
        kind, sequence, event = frame["type"], frame.get("sequence"), frame.get("event_id")
        if kind not in NUMBERED:
            return True
        if kind == "error" and sequence is None and event is None:
            return True  # what could not even begin is refused like that
        if not frame.get("conversation_ref"):
            return self._nameless(kind)
        return self._is_next(kind, event, sequence)

    def _nameless(self, kind: str) -> bool:
        """An event that does not say its conversation is dropped; after the last one nothing would show that."""
        log.warning("%s of the turn %s does not say its conversation, and is dropped", kind, self.id)
        if kind in {"streaming-complete", "error"}:
            self._fail(f"the turn's {kind} does not say its conversation", None)
        return False

    def _is_next(self, kind: str, event: object, sequence: object) -> bool:
        if not isinstance(event, str) or not isinstance(sequence, int):
            self._fail(f"{kind} is missing event_id or sequence", None)
            return False
        if event in self._seen:
            return False
        if sequence != self._sequence + 1:
            self._fail(f"{kind} has sequence {sequence} where {self._sequence + 1} was due", sequence)
            return False
        self._seen.add(event)
        self._sequence = sequence
        return True

    def _fail(self, why: str, got: int | None) -> None:
        self.end(OutOfSequence(why, expected=self._sequence + 1, got=got))

    def _keep(self, frame: Message) -> None:
        self._events.append(frame)
        if len(self._events) > self._backlog:
            self._events.popleft()
            self._missed += 1
        self._changed.set()
