"""The session logs that are followed: which, from where on, and no more than there is room for.

What opens files is to be called in a thread, while nothing else is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from dragoman.agents.common.tail import LogTail
from dragoman.hub.limits import HubLimits
from dragoman.hub.ports import HookChannel

from .followed import Followed
from .log_source import LogSource
from .places import Kept
from .search import Found
from .settings import HookedSettings

LIVELY = 60.0
"""Seconds after a log was seen to grow for which it is looked at often; then as seldom as logs are searched for."""

COPIED = 5000
"""Milliseconds before a log was there, or was named: what it tells of earlier times was copied into it."""

MAX_ASIDE = 10_000
"""Logs of which is remembered that they make no session."""

ASIDE = 60.0
"""Seconds for which that is remembered: a session of ours that is over may be gone on with by a person."""

PATH_CHARS = 4096
"""Length of a path; a longer one is none."""


class Following:
    """``sources`` by agent; those that are ``watched`` make sessions of their own. ``say`` is told what goes wrong."""

    def __init__(
        self,
        sources: Mapping[str, LogSource],
        watched: frozenset[str],
        settings: HookedSettings,
        limits: HubLimits,
        *,
        say: Callable[[str, str], None],
    ) -> None:
        self._sources = sources
        self._watched = watched
        self._settings = settings
        self._limits = limits
        self._say = say
        self._logs: dict[str, Followed] = {}
        self._aside: dict[str, float] = {}
        """Logs that make no session, and since when that is known."""

    def __iter__(self) -> Iterator[Followed]:
        return iter(tuple(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def stirred(self, now: float, *, all_of_them: bool) -> list[Followed]:
        """Those that may hold something new, of the lively ones or of all."""
        return [one for one in self if self._due(one, now, all_of_them) and (one.waiting or one.tail.stirred())]

    def lively(self, now: float) -> bool:
        """Whether any was seen to grow a short while ago."""
        return any(now - one.stirred_at < LIVELY for one in self._logs.values())

    def drop(self, followed: Followed) -> None:
        """Follow it no more."""
        self._logs.pop(str(followed.path), None)

    def leave(self, followed: Followed) -> None:
        """Nor take it for a session's for a while: it is one of ours."""
        self.drop(followed)
        self._set_aside(str(followed.path))

    def take_kept(self, kept: Kept) -> None:
        """Go on with one that a server before this one followed."""
        source, path = self._sources.get(kept.agent), Path(kept.path)
        try:
            behind = path.stat().st_size - kept.place.offset
        except (OSError, ValueError):
            return  # it is gone
        if source is None:
            return
        far = behind > self._settings.log_behind
        tail = self._tail(path, from_end=True) if far else self._tail(path, place=kept.place)
        if far:
            self._say("behind", f"{path.name} grew by {behind} bytes meanwhile, which are left out (hooked.log_behind)")
        self._follow(
            Followed(
                source,
                kept.session,
                tail,
                create=kept.create and kept.agent in self._watched,
                sure=kept.sure,
                cwd=kept.cwd,
                skip=0 if far else kept.skip,
            )
        )

    def take_name(self, agent: str, session: str, path: str, channel: HookChannel, at: int) -> None:
        """Follow the log that a hook named, if it may be read: from where it ended then, for that is told of already.

        ``at`` is when that was, in milliseconds since 1970.
        What comes through the user's own socket is believed. Anybody may post by other ways: then it must be a log in
        the agent's own folders, and must say itself that it is this session's.
        """
        source = self._sources.get(agent)
        if source is None:
            return
        if len(path) > PATH_CHARS or "\0" in path or not Path(path).is_absolute():
            self._say("named", f"a hook of {agent} names a log without a whole path")
            return
        real = Path(os.path.realpath(path))
        if str(real) in self._logs:
            return
        trusted = channel == "socket"
        if not trusted and not _is_own_log(source, real):
            self._say("named", f"a hook of {agent} names a log that is none of its own")
            return
        tail = self._tail(real, from_end=True)
        create = agent in self._watched
        followed = Followed(source, session, tail, sure=trusted, create=create, since=at - COPIED)
        followed.take_since(self._limits, at, lambda start: self._tail(real, start=start))
        self._follow(followed)

    def take_found(self, found: Found) -> bool:
        """Follow a log that was found; False while it cannot be said whose it is."""
        path = os.path.realpath(found.path)
        if path in self._logs or time.monotonic() - self._aside.get(path, float("-inf")) < ASIDE:
            return True
        head = found.source.head(Path(path))
        if head is None:
            return False
        if head.aside:
            self._set_aside(path)
            return True
        tail = partial(self._tail, Path(path))
        follow = partial(Followed, found.source, head.session, create=True, cwd=head.cwd)
        if found.held is None:
            self._follow(follow(tail(from_end=head.forked), since=found.since - COPIED))
            return True
        followed = self._follow(follow(tail(held=found.held)))
        if found.state:
            followed.take_state(self._limits, found.at)
        return True

    def _set_aside(self, path: str) -> None:
        self._aside.pop(path, None)
        self._aside[path] = time.monotonic()
        if len(self._aside) > MAX_ASIDE:
            del self._aside[next(iter(self._aside))]

    def _follow(self, followed: Followed) -> Followed:
        if len(self._logs) >= self._settings.logs:
            quietest = min(self._logs.values(), key=lambda one: one.stirred_at)
            self._say("logs", f"{quietest.path.name} is followed no more: there are {len(self._logs)} (hooked.logs)")
            self.drop(quietest)
        self._logs[str(followed.path)] = followed
        return followed

    def _tail(self, path: Path, **where: object) -> LogTail:
        return LogTail(path, self._limits, rejoin=True, own=True, say=partial(self._say, "line"), **where)  # type: ignore[arg-type]

    def _due(self, one: Followed, now: float, all_of_them: bool) -> bool:
        return all_of_them or bool(one.waiting) or now - one.stirred_at < LIVELY


def _is_own_log(source: LogSource, path: Path) -> bool:
    return source.is_log(path.name) and any(path.is_relative_to(os.path.realpath(root)) for root in source.roots)
