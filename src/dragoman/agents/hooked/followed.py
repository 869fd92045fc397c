"""One session log that is followed: what was read of it, and what of that was given on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from dragoman.agents.common.observation import Observation
from dragoman.agents.common.tail import LogTail, last_records
from dragoman.hub.limits import HubLimits

from .log_source import LogSource
from .places import Kept


class Followed:
    """``look`` is called in a thread, all else in the loop while that is not.

    ``create``: there may be no session of it yet. ``sure``: it is known to be this session's; else it must say so
    itself. ``since`` leaves out what happened before then (milliseconds since 1970). ``skip`` is how many of the
    records that come next were given on already.
    """

    def __init__(
        self,
        source: LogSource,
        session: str,
        tail: LogTail,
        *,
        create: bool = False,
        sure: bool = True,
        since: int | None = None,
        cwd: str | None = None,
        skip: int = 0,
    ) -> None:
        self.source = source
        self.session = session
        self.tail = tail
        self.create = create
        self.refused = False
        """It turned out to be another session's."""
        self.stirred_at = time.monotonic()
        """When it was heard of, or seen to grow, last."""
        self.waiting: deque[tuple[int, Observation]] = deque()
        self._sure = sure
        self._since = since
        self._skip = skip
        self._reader = source.reader(session)
        self._reader.cwd = cwd
        self._place = tail.place
        self._given = skip

    @property
    def path(self) -> Path:
        return self.tail.path

    @property
    def cwd(self) -> str | None:
        """The agent's folder, as far as it is known."""
        return self._reader.cwd

    @property
    def kept(self) -> Kept:
        """What to keep of it, so that nothing is given on twice after a restart."""
        return Kept(
            path=str(self.path),
            agent=self.source.agent,
            session=self.session,
            place=self._place,
            skip=self._given,
            create=self.create,
            sure=self._sure,
            cwd=self.cwd,
        )

    def take_state(self, limits: HubLimits, at: int) -> None:
        """It is of a session that runs: whether it is at work, as its last records say.

        What they tell is left out, and so is a stop: that was before our time.
        """
        state = Observation(agent_session=self.session, at=at)
        for _, record in last_records(self.path, self.tail.offset, limits, own=True):
            seen = self._reader.read(record)
            if seen is not None and seen.sighting is not None:
                state = msgspec.structs.replace(state, sighting=seen.sighting, at=seen.at or at)
        if state.sighting is not None and state.sighting.state in ("idle", "error"):
            state = msgspec.structs.replace(state, sighting=None)
        self.waiting.append((0, state))

    def take_since(self, limits: HubLimits, since: int, tail_at: Callable[[int], LogTail]) -> None:
        """Begin with what happened since then, in milliseconds since 1970, where it holds that already."""
        for start, record in last_records(self.path, self.tail.offset, limits, own=True):
            seen = self._reader.read(record)
            if seen is not None and seen.at is not None and seen.at >= since:
                self.tail = tail_at(start)
                self._place = self.tail.place
                return

    def look(self) -> None:
        """Read what was written since, ``READ_AT_ONCE`` bytes at most, once what was read before is given on."""
        if self.waiting or not (self._sure or self._says_so()):
            return
        for count, record in enumerate(self.tail.records(), 1):
            seen = self._reader.read(record)
            if self._skip > 0:
                self._skip -= 1
            elif seen is not None and _says_something(seen) and not self._too_old(seen):
                self.waiting.append((count, seen))
        if not self.waiting:
            self._settle()

    def gave(self) -> None:
        """The first that waits was given on."""
        self._given, _ = self.waiting.popleft()
        if not self.waiting:
            self._settle()

    def _settle(self) -> None:
        self._place, self._given = self.tail.place, self._skip

    def _says_so(self) -> bool:
        head = self.source.head(self.path)
        if head is not None:
            self._sure = head.session == self.session
            self.refused = not self._sure
        return self._sure

    def _too_old(self, seen: Observation) -> bool:
        return self._since is not None and seen.at is not None and seen.at < self._since


def _says_something(seen: Observation) -> bool:
    return bool(seen.facts) or seen.sighting is not None or seen.interrupted or seen.compacted
