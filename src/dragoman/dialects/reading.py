"""Pulling a session's events one by one without ever waiting: what every link does with its follower."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from dragoman.hub.errors import Gone
from dragoman.hub.events import Event
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner


class EventSource:
    """The events after a cursor. Where memory does not reach back, they are fetched by a task that then wakes.

    At most one batch (``read_batch`` of the hub's limits) is held here.
    """

    def __init__(self, session: Session, after: int, *, tasks: TaskOwner, wake: Callable[[], None]) -> None:
        self._follower = session.follow(after)
        self._tasks = tasks
        self._wake = wake
        self._batch: deque[Event] = deque()
        self._fetching = False
        self.gone = False
        self._stop = session.watch(wake)

    def peek(self) -> Event | None:
        """The next event, left where it is; None when there is none for now."""
        if not self._batch and not self._fetching and not self.gone:
            events = self._follower.take()
            if events is None:
                self._fetching = True
                self._tasks.start(self._fetch(), "fetch")
            else:
                self._batch.extend(events)
        return self._batch[0] if self._batch else None

    def skip(self) -> None:
        """The event that ``peek`` showed is done with."""
        self._batch.popleft()

    def close(self) -> None:
        """No more wakes."""
        self._stop()

    async def _fetch(self) -> None:
        try:
            self._batch.extend(await self._follower.fetch())
        except Gone:
            self.gone = True
        finally:
            self._fetching = False
            self._wake()
