"""What an agent elsewhere is taken to be doing, from evidence that comes in any order, late, twice, or not at all.

``own`` says of evidence that it is the agent's own word: through the person's own socket, or from its log. Only that
settles what a hook waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from dragoman.agents.common.observation import Observation
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    AnyFact,
    HookAnswered,
    Notified,
    Origin,
    Problem,
    StateChanged,
    ToolCalled,
    ToolEnded,
)
from dragoman.hub.session import Session
from dragoman.hub.standing import OpenCall

from .permissions import Permissions
from .presence import Presence
from .recording import PostedIds, Recording, key_of
from .settings import HookedSettings
from .turns import Turns

CLOCK_SKEW = 60_000
"""Milliseconds by which a poster's clock may differ from ours and still say what came first."""

SAID_NO = "a person said no"

State = Literal["working", "idle", "prompt"]


class Doing:
    """Of one session. ``HookedAgent`` gives it the evidence."""

    def __init__(self, session: Session, settings: HookedSettings, posted: PostedIds) -> None:
        self._session = session
        self._settings = settings
        self._clock = session.clock
        self.recording = Recording(session, posted)
        self.permissions = Permissions(session)
        self.presence = Presence(session.clock, self._process_ended)
        self._turns = Turns()
        self._prompted_at = 0
        """When the newest prompt was given, in milliseconds since 1970."""
        self._stopped_at = 0
        """The same of the newest stop."""
        self._may_be_late: float | None = None
        """When a stop came, on the steady clock: for a while posts may be of what was before it."""
        self._left: tuple[float, int] | None = None
        """The same of a stop or an end, and the newest event then: calls from before get no end after a while."""
        self._rests_by_log: tuple[float, Observation] | None = None
        """When its log said that it rests, on the steady clock, and what it said."""
        self._broken_off = False
        """Whether a person broke off what it was at, and nothing was begun since."""
        self._end_told = False
        self._own_heard = False
        """Whether its hooks come through the person's own socket."""

    def _is_there(self, agent_session: str) -> None:
        """Who is heard of for the first time lives, even if nothing was said that could be told."""
        state = self._session.state
        if state.executor is None and state.exit is None:
            self._begin(agent_session)

    def _begin(self, agent_session: str) -> None:
        presence, runs = self.presence, self._session.state.runs
        self._may_be_late = None
        self._end_told = False
        self.recording.record(
            AgentStarted(pid=presence.pid, pid_start=presence.pid_start, run=runs + 1, agent_session=agent_session)
        )

    def _revived(self, agent_session: str, *, by_log: bool = False) -> bool:
        """Whether it lives, as news of it say. What comes right after its end is only late."""
        state = self._session.state
        if state.executor is not None:
            return True
        exit_ = state.exit
        if exit_ is not None and exit_.cause != "silent":
            late = self._clock.now() - exit_.at < self._settings.settles * 1000
            if late or by_log:
                return False
        self._begin(agent_session)
        return True

    def _gone(self, cause: str, *, own: bool = True, reason: str | None = None, origin: Origin | None = None) -> None:
        self.permissions.settle("the agent is gone", own=own)
        if own:
            self.permissions.drop("the agent is gone")
        self._rests_by_log = self._may_be_late = None
        self._own_heard = False
        self.recording.record(AgentExited(cause=cause, reason=reason, origin=origin), settling=True)
        self._left = self._clock.monotonic(), self._session.head
        self.presence.let_go()

    def _record(self, fact: AnyFact, at: int, *, own: bool, lives: bool = True) -> None:
        """State first: who is shown a call is to see at work who makes it."""
        aside = fact.origin is not None and fact.origin.subagent is not None
        cause = "hook" if own else "post"
        if isinstance(fact, ToolEnded) and self.permissions.denied(fact.call):
            fact = msgspec.structs.replace(fact, status="denied", problem=Problem(code="denied", message=SAID_NO))
        if lives and isinstance(fact, ToolCalled | ToolEnded):
            if isinstance(fact, ToolEnded):
                self._settle_call(fact, own=own)
            if not aside:
                self._works(cause, at)
        self.recording.record(fact)

    def _settle_calls(self, facts: Iterable[AnyFact]) -> None:
        """The agent itself says so, whoever said it before."""
        for fact in facts:
            if isinstance(fact, ToolEnded):
                self._settle_call(fact, own=True)

    def _settle_call(self, fact: ToolEnded, *, own: bool) -> None:
        call = self._session.state.calls.get(fact.call)
        given = fact.input if fact.input is not None or call is None else call.input
        if self.permissions.settle("its call ended", own=own, call=fact.call, tool=fact.tool, given=given):
            self._goes_on("hook:answered")

    def _prompted(self, at: int, *, own: bool, lives: bool = True) -> None:
        if not lives:
            return
        self._prompted_at = at
        self._may_be_late = self._rests_by_log = None
        self._broken_off = False
        if at >= self._stopped_at:
            self.permissions.settle("a prompt came after it", own=own)
            if not self.permissions.open:
                self._to("working", "hook:prompt")

    def _stopped(
        self,
        at: int,
        origin: Origin,
        *,
        own: bool,
        words: str | None = None,
        lives: bool = True,
        reason: str | None = None,
    ) -> bool:
        """It came to rest, though no hook says so; whether that was news. An interruption has its ``reason``."""
        if reason is not None and self._broken_off:
            return False  # a log has more than one line for it
        fact = HookAnswered(hook="stop", reason=reason, origin=origin)
        news = self.recording.happened(*key_of(fact, words))
        if news:
            self._stops(origin.source, at, own=own, lives=lives)
            self.recording.record(fact)
            self._broken_off = reason is not None
        return news

    def _stops(self, source: str, at: int, *, own: bool, lives: bool) -> None:
        """Before it is told: who hears of a stop is to see the session at rest."""
        self._rests_by_log = None
        if not lives or at < self._prompted_at:
            return
        self._stopped_at = at
        self.permissions.settle("the turn ended", own=own)
        if not self.permissions.open:
            if self._session.state.status.state in ("starting", "unknown"):
                self._to("working", f"{source}:stop")  # it did, unseen
            self._to("idle", f"{source}:stop")
        self._may_be_late = self._clock.monotonic()
        self._left = self._may_be_late, self._session.head

    def _failed(
        self, seen: Observation, source: str, at: int, origin: Origin, *, own: bool, lives: bool = True
    ) -> None:
        """The turn ended with an error. Hook and log have their own words for it."""
        error = seen.sighting.error if seen.sighting is not None else None
        if self.recording.happened("failed", source):
            self._stops(source, at, own=own, lives=lives)
            message = error or "the turn failed"
            self.recording.record(Notified(message=message, level="error", kind="StopFailure", origin=origin))

    def _works(self, cause: str, at: int) -> None:
        """It does something now, by a post that may be late: what was done before a stop says nothing of after it."""
        late = self._may_be_late is not None and self._clock.monotonic() - self._may_be_late < self._settings.settles
        if not self.permissions.open and not late and at >= self._stopped_at:
            self._to("working", f"{cause}:tool")

    def _goes_on(self, cause: str) -> None:
        """Something was answered."""
        state = self._session.state
        if state.executor is not None and not state.decisions and state.status.state == "prompt":
            self._to("working", cause)

    def _to(self, state: State, cause: str, decision: str | None = None) -> None:
        before = self._session.state.status.state
        if state == "working":
            self._broken_off = False
        if before != state:
            self.recording.record(StateChanged(prev=before, next=state, cause=cause, decision=decision))

    def _moment(self, at: int | None) -> int:
        """When it happened, in milliseconds since 1970. A clock that is far off is not believed."""
        now = self._clock.now()
        return min(at, now) if at is not None and abs(now - at) < CLOCK_SKEW else now

    def _end_what_is_left(self, seq: int) -> None:
        """Posts from before a stop have come by now: calls that it left open will get no end."""
        self._left = None
        state = self._session.state
        for call in tuple(state.calls.values()):
            if state.executor is None or (call.seq <= seq and call.subagent is None):
                self.recording.record_all(self.recording.news((self._unended(call),)), settling=True)

    def _unended(self, call: OpenCall) -> ToolEnded:
        denied = self.permissions.denied(call.call)
        why = SAID_NO if denied else "its end was never told"
        return ToolEnded(
            call=call.call,
            tool=call.tool,
            status="denied" if denied else "interrupted",
            problem=Problem(code="denied" if denied else "interrupted", message=why),
            duration_ms=max(0, self._clock.now() - call.at),
        )

    def _process_ended(self) -> None:
        if self._session.state.executor is not None:
            self._gone("exit")
