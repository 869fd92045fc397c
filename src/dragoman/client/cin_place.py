"""Which events of the bridge a client has handed over, and which of a history it has missed. No I/O.

The protocol has no cursor: what came while there was no connection is found in ``history``, by the ids of its events.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Any

Message = dict[str, Any]

KEPT = 65_536
"""Ids that are kept, of the newest events; far more than a history has."""


class Place:
    """See the module. ``begun`` says whether it is known what was before the client came."""

    def __init__(self) -> None:
        self.begun = False
        self._handed: OrderedDict[str, None] = OrderedDict()
        self._before: frozenset[str] = frozenset()

    def begin(self, history: Iterable[Message]) -> None:
        """These were before the client came, but for those that it was told itself meanwhile."""
        self.begun = True
        self._before = frozenset(ids_of(history)) - self._handed.keys()

    def forget(self) -> None:
        """Nothing was handed over."""
        self._handed.clear()

    def is_new(self, event: Message) -> bool:
        """Whether this event was not handed over yet; it is now. One without an id always is."""
        name = id_of(event)
        if name is None:
            return True
        if name in self._handed:
            return False
        self._handed[name] = None
        if len(self._handed) > KEPT:
            self._handed.popitem(last=False)
        return True

    def missed(self, history: list[Message], live: Collection[str], limit: int) -> tuple[list[Message], bool]:
        """Those of a history that came while there was no connection, in order; and whether that is all of them.

        ``live`` are the ids of those that came since, by themselves. It is all when the history reaches back to an
        event that is known; or, where none is, when there were less than ``limit``, so many as were asked for.
        """
        known = [id_of(event) in self._handed or id_of(event) in self._before for event in history]
        whole = any(known) if self._handed or self._before else len(history) < limit
        fresh = [event for event, is_known in zip(history, known, strict=True) if not is_known]
        return [event for event in fresh if (name := id_of(event)) is not None and name not in live], whole


def id_of(event: Message) -> str | None:
    """An event's id, where it has one."""
    name = event.get("id")
    return name if isinstance(name, str) else None


def ids_of(events: Iterable[Message]) -> set[str]:
    """The ids of these events."""
    return {name for event in events if (name := id_of(event)) is not None}
