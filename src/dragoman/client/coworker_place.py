"""Where a resuming client is in its session, and which frames it has handed over already. No I/O.

A frame that completes an event carries the event's ``cursor``. A connection may be cut between the frames of one event:
the server then tells that event again from its first frame, and what was handed over of it is left out here.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

Message = dict[str, Any]

_PARTS_OF_EVENTS = frozenset(
    {
        "user_message",
        "session_busy",
        "model_stream_chunk",
        "assistant_message",
        "reasoning",
        "log",
        "todos",
        "ask",
        "approval",
        "prompt_void",
        "config_updated",
        "session_settings",
        "session_backup_state",
        "harness_context",
        "reset_done",
        "error",
    }
)
"""Types of frames that tell of an event. A reply may have such a type too; then it only makes the list longer."""

_PROMPTS = frozenset({"ask", "approval"})

_PROMPTS_KEPT = 256
"""Prompts whose ids are kept, to know one that is told again."""

_FRAMES_KEPT = 256
"""Frames of an event that is not complete; a reply of such a type, which completes nothing, counts among them."""


class Place:
    """See the module. ``received`` is the cursor of the last event that came whole; None where there are none."""

    def __init__(self, after: int | None = None) -> None:
        self.received = after
        self._open: deque[Message] = deque(maxlen=_FRAMES_KEPT)
        self._told: list[Message] = []
        self._prompts: OrderedDict[str, None] = OrderedDict()
        self._joining = False

    def begin(self, cursor: int | None) -> None:
        """A session that is new to us; it is read from ``cursor`` on."""
        self.received = cursor
        self._forget()
        self._prompts.clear()

    def resume(self) -> None:
        """The same session on another connection: it is told from ``received`` on."""
        self._told = [*self._told, *self._open]
        self._open.clear()
        self._joining = True

    def is_new(self, frame: Message) -> bool:
        """Whether this frame says anything that was not handed over yet. Call it once for each frame, in order."""
        cursor = frame.get("cursor")
        if cursor is not None and frame["type"] not in ("server_hello", "features"):
            return self._completed(frame, cursor)
        if self._is_state(frame) or self._is_told(frame):
            return False
        if self.received is not None and frame["type"] in _PARTS_OF_EVENTS:
            self._open.append(frame)
        return self._is_first(frame)

    # Inside

    def _completed(self, frame: Message, cursor: int) -> bool:
        if self.received is not None and cursor <= self.received:
            return False
        self.received = cursor
        self._forget()
        return self._is_first(frame)

    def _forget(self) -> None:
        self._open.clear()
        self._told.clear()
        self._joining = False

    def _is_state(self, frame: Message) -> bool:
        """Whoever joins is told that the session is busy; here it is known."""
        return self._joining and frame["type"] == "session_busy"

    def _is_told(self, frame: Message) -> bool:
        if frame not in self._told:
            return False
        self._told.remove(frame)
        self._open.append(frame)
        return True

    def _is_first(self, frame: Message) -> bool:
        """Whether this is no prompt that was handed over before: those that are open are told to whoever joins."""
        if frame["type"] not in _PROMPTS:
            return True
        request = frame["requestId"]
        if request in self._prompts:
            return False
        self._prompts[request] = None
        if len(self._prompts) > _PROMPTS_KEPT:
            self._prompts.popitem(last=False)
        return True
