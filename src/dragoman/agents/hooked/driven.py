"""Which hooks and session logs are those of agents that we drive: these tell us of themselves already."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from dragoman.hub.clock import Clock
from dragoman.hub.journal import SessionRow
from dragoman.hub.permissions import EVERYTHING, Principal
from dragoman.hub.ports import HookPost
from dragoman.hub.registry import Registry

from .forms import Told

OWNER = Principal("hooks", EVERYTHING)
"""Who owns the sessions that hooks make."""

HOOKED = "hooked"
"""The kind of those sessions."""

UNHEARD = 1.0
"""Seconds for which a hook waits until an agent of ours can say whether it is its own."""

ASK_AGAIN = 0.05
"""Seconds between two times that it is asked."""

LOG_UNSURE = 5.0
"""Seconds for which what a session log says is left until then: it may be by this log that an agent of ours learns its
own name, and nobody waits."""

ENDED_BEFORE = 5000
"""Milliseconds after a session of ours changed last in which its agent may still post, and write its log."""

Key = tuple[str, str]
"""Agent, and its own name for its session."""


class Driven:
    """The agents of this server's own sessions, those that ended lately too."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._unsure: dict[Key, float] = {}

    def proves(self, post: HookPost, told: Told) -> bool:
        """Whether it was sent from inside a session of ours, by one who knows that session's secret."""
        if post.session is None or post.secret is None:
            return False
        session = next((it for it in self._registry.live() if it.id == post.session), None)
        hooks = session.hooks if session is not None else None
        if hooks is None or not hooks.proves(post.secret):
            return False
        # another program that runs inside it, and got its environment, is none that we drive
        return hooks.hears(told.agent, told.session) is not False

    async def has(self, key: Key, at: int) -> bool:
        """Whether this agent is one of ours: it is asked for a while, as it learns its own name late.

        ``at`` is when it posted, in milliseconds since 1970: what comes later is of one who went on with its session.
        """
        deadline = asyncio.get_running_loop().time() + UNHEARD
        while True:
            said = list(self._hears(key))
            if True in said or None not in said or asyncio.get_running_loop().time() >= deadline:
                return True in said or self._had(key, at)
            await asyncio.sleep(ASK_AGAIN)

    def wrote(self, key: Key, at: int | None) -> bool | None:
        """Whether one of ours wrote this in its log; None while it cannot say yet. Never waits."""
        said = list(self._hears(key))
        if True not in said and None in said:
            since = self._unsure.setdefault(key, self._clock.monotonic())
            if self._clock.monotonic() - since < LOG_UNSURE:
                return None
        self._unsure.pop(key, None)
        return True in said or self._had(key, at)

    def _hears(self, key: Key) -> Iterator[bool | None]:
        agent, agent_session = key
        for session in self._registry.live():
            if session.state.kind != HOOKED and session.state.executor is not None:
                hooks = session.hooks
                if hooks is not None:
                    yield hooks.hears(agent, agent_session)

    def _had(self, key: Key, at: int | None) -> bool:
        return any(_was(row, key, at) for row in self._registry.rows(OWNER))


def _was(row: SessionRow, key: Key, at: int | None) -> bool:
    if row.kind == HOOKED or (row.agent, row.agent_session) != key:
        return False
    return at is None or at <= row.changed_at + ENDED_BEFORE
