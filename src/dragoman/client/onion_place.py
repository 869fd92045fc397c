"""Where a client is in a turn of ConnectOnion's protocol, and what it has handed over of it. No I/O.

A stream event has an ``id``. Two may share one: the call of a model and its result, the beginning of a compaction and
its end. After a cut the server goes on behind ``last``; what it tells again (from the turn's start, where it does not
know that id) is known by its id, its type and its status.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

Message = dict[str, Any]

CONTROL = frozenset(
    {
        "CONNECTED",
        "OUTPUT",
        "PING",
        "RUNTIME_INPUT_ACK",
        "ERROR",
        "SESSION_STATUS",
        "ONBOARD_REQUIRED",
        "ONBOARD_SUCCESS",
        "ADMIN_RESULT",
    }
)
"""Types of frames that are no event of a session, whatever fields they have."""

_KEPT = 65_536
"""Events of a turn that are kept, to know them again."""


class Place:
    """See the module. ``last`` is the id of the last event that came."""

    def __init__(self, last: str | None = None) -> None:
        self.last = last
        self._known: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def is_new(self, frame: Message) -> bool:
        """Whether this frame says anything that did not come before. Call it once for each frame, in order."""
        event = event_id(frame)
        if event is None:
            return True
        self.last = event
        key = (event, frame["type"], str(frame.get("status", "")))
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return True

    def turn_over(self) -> None:
        """What follows is of another turn."""
        self._known.clear()


def event_id(frame: Message) -> str | None:
    """A stream event's id; None for any other frame."""
    event = frame.get("id")
    return event if isinstance(event, str) and frame["type"] not in CONTROL else None
