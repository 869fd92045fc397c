"""An agent that somebody started elsewhere, as far as its hooks and its session log tell of it.

Posts come in any order, twice, or not at all. Each real occurrence is recorded once; the state follows the newest
evidence, and what nobody tells is found out by time: ``look`` is called again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Literal

import msgspec

from dragoman.agents.common.fields import text_of
from dragoman.agents.common.hooks import read_post
from dragoman.agents.common.ledger import Ledger
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import InvalidRequest, Unsupported
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    Answer,
    AnyFact,
    DecisionResolved,
    DecisionRevised,
    HistoryReset,
    HookAnswered,
    MessageAdded,
    Notified,
    Origin,
    Problem,
    PromptSubmitted,
    StateChanged,
    SubagentEnded,
    ToolCalled,
    ToolEnded,
)
from dragoman.hub.ports import Driver, Hooks, Terminal
from dragoman.hub.session import Session
from dragoman.hub.standing import OpenCall
from dragoman.hub.turns import TurnContext

from .forms import Told
from .occurrences import Occurrences
from .permissions import Permissions
from .presence import Presence
from .settings import HookedSettings

NO_TERMINAL = "External session has no terminal info"
"""Why it takes no prompt; in the words of the bridge that clients know."""

SEEN_IDS = 1000
"""Ids of posted events that are remembered: the same id twice is one event."""

LOG_ALONE = 1.5
"""Seconds after which a log's word that the agent rests is believed although no hook has said so."""

State = Literal["working", "idle", "prompt"]

STARTS = frozenset({"sessionstart", "start"})
STOPS = frozenset({"stop", "afteragent", "response"})
ENDS = frozenset({"sessionend"})
PROMPTS = frozenset({"userpromptsubmit", "beforeagent"})
"""Hooks by what they tell of, as ``hook_kind`` names them."""


class HookedAgent:
    """Implements the hub's ``Agent``. It is never started here, and lives on when the server stops."""

    terminal: Terminal | None = None
    driver: Driver | None = None
    hooks: Hooks | None = None
    own_tools: Collection[str] = ()
    offered_tools: Collection[str] = ()
    holds = False

    def __init__(self, session: Session, settings: HookedSettings) -> None:
        self._session = session
        self._settings = settings
        self._clock = session.clock
        self._ledger = Ledger(session.ids)
        self._ledger.admit(_call_of(call) for call in session.state.calls.values())
        self._occurrences = Occurrences()
        self._ids: dict[str, None] = {}
        self.permissions = Permissions(session)
        self.presence = Presence(session.clock, self._process_ended)
        self._prompted_at = 0
        """When the newest prompt was given, in milliseconds since 1970."""
        self._stopped_at = 0
        """The same of the newest stop."""
        self._after_stop: tuple[float, int] | None = None
        """When a stop came, on the steady clock, and the newest event then: while it is new, posts may be late."""
        self._rests_by_log: tuple[float, Observation] | None = None
        self._hooked = False
        """Whether its hooks are heard, so that its log is only the second witness."""

    # What is told

    def take(self, told: Told) -> None:
        """Record what a post says. Raises ``StorageUnavailable``, ``LimitReached``, ``InvalidRequest``."""
        origin = told.post.origin()
        if origin.id is not None and not self._first(origin.id):
            return
        self._hooked = True
        self.presence.heard()
        self.presence.seen_above(told.parents)
        if told.kind in STARTS:
            self._started(told)
        elif told.kind in ENDS:
            self._ended(told)
        else:
            self._observed(read_post(told.post), told)

    def observe(self, seen: Observation, agent_session: str) -> None:
        """Record what the agent's log says. Raises as ``take``."""
        self.presence.heard()
        if not self._revived(agent_session, by_log=True):
            self._record_all(self._ledger.admit(seen.facts))
            return
        facts = self._ledger.admit(seen.facts)
        at = seen.at or self._clock.now()
        if seen.prompt is not None and facts:
            self._prompted(at, own=True)
        for fact in facts:
            self._record_tool_or_other(fact, at, own=True)
        if at < max(self._prompted_at, self._stopped_at) and seen.at is not None:
            return
        if seen.interrupted:
            self._stopped("log", at, Origin(source="log", at=seen.at), own=True)
        elif seen.sighting is not None and seen.sighting.state == "idle":
            self._rests_by_log = self._clock.monotonic(), seen
            if not self._hooked:
                self._believe_log()
        elif seen.sighting is not None and seen.sighting.state == "working":
            self._rests_by_log = None
            if not self._hooked and facts:
                self._works("log", at)

    def ask(self, told: Told) -> str | None:
        """Open the decision that this post asks for, where it can be answered here; its id, else None.

        Raises as ``take``.
        """
        self._hooked = True
        self.presence.heard()
        self.presence.seen_above(told.parents)
        seen = read_post(told.post)
        dialog = seen.sighting.dialog if seen.sighting is not None else None
        if dialog is None or not self._revived(told.session):
            return None
        headless = self.presence.headless
        blocks = told.agent == "codex" or headless
        if headless and not self._session.attended:
            return None  # it decides by itself, and at once
        if dialog.kind == "question" or (blocks and not self._session.attended):
            decision = self.permissions.show(dialog)
            self._to("prompt", "hook:permission", decision)
            return None
        settings = self._settings
        seconds = min(settings.answer_seconds, settings.answer_blocking) if blocks else settings.answer_seconds
        suggestions = told.post.payload.get("permission_suggestions")
        decision = self.permissions.ask(dialog, suggestions, seconds=seconds, blocks=blocks)
        self._to("prompt", "hook:permission", decision)
        return decision

    async def answered(self, decision: str) -> str:
        """What the hook that asked this is to print. Cancelled when the hook is gone: somebody answered there."""
        try:
            return await self.permissions.printed(decision)
        except asyncio.CancelledError:
            if self._session.settle_decision(decision, reason="its hook was ended"):
                self._goes_on("hook:gone")
            raise

    # What time tells

    def look(self) -> None:
        """See what has come of it since. Raises ``StorageUnavailable``."""
        self.presence.look()
        state, now = self._session.state, self._clock.monotonic()
        if self.permissions.holds_agent and not self._session.attended:
            self.permissions.release("nobody is there to answer", blocking=True)
        if self._rests_by_log is not None and now - self._rests_by_log[0] >= LOG_ALONE:
            self._believe_log()
        if self._after_stop is not None and now - self._after_stop[0] >= self._settings.settles:
            self._settled_after_stop(self._after_stop[1])
        if state.executor is not None:
            self._look_at_state(self.presence.quiet)

    def _look_at_state(self, quiet: float) -> None:
        state, settings = self._session.state, self._settings
        word = state.status.state
        if word in ("starting", "unknown") and quiet >= settings.settles:
            self._to("idle", "settled")
        if not self.presence.known and quiet >= self._patience(word):
            self._gone("silent")
        elif word == "working" and quiet >= settings.silence and not state.calls:
            self._to("idle", "silence")

    def _patience(self, word: str) -> float:
        settings = self._settings
        if not self._hooked and self._session.state.agent == "codex":
            return settings.gone_codex
        return settings.gone_working if word == "working" else settings.gone_idle

    # Starts and ends

    def _started(self, told: Told) -> None:
        post = told.post
        source = text_of(post.payload, "source") or "unknown"
        if not self._happened(f"start:{source}", post.source):
            return
        if self._session.state.executor is None:
            self._begin(told.session)
        self._record(HookAnswered(hook="start", source=source, agent_session=told.session, origin=post.origin()))

    def _begin(self, agent_session: str) -> None:
        presence, runs = self.presence, self._session.state.runs
        self._after_stop = None
        self._record(
            AgentStarted(pid=presence.pid, pid_start=presence.pid_start, run=runs + 1, agent_session=agent_session)
        )

    def _ended(self, told: Told) -> None:
        post = told.post
        reason = text_of(post.payload, "reason")
        if self._happened("end", post.source, reason):
            self._record(HookAnswered(hook="end", reason=reason, origin=post.origin()))
        # whoever can only say so does not end what is seen to live
        if self._session.state.executor is not None and (told.own or not self.presence.known):
            self._gone("exit", own=told.own)

    def _process_ended(self) -> None:
        if self._session.state.executor is not None:
            self._gone("exit")

    def _gone(self, cause: str, *, own: bool = True) -> None:
        self.permissions.settle("the agent is gone", own=own)
        if own:
            self.permissions.release("the agent is gone")
        self._rests_by_log = None
        self._after_stop = self._clock.monotonic(), self._session.head
        self._record(AgentExited(cause=cause), settling=True)
        self.presence.let_go()

    def _revived(self, agent_session: str, *, by_log: bool = False) -> bool:
        """Whether it lives, as a post or a line of its log says. What comes right after its end is only late."""
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

    # What goes on

    def _observed(self, seen: Observation, told: Told) -> None:
        post, kind, own = told.post, told.kind, told.own
        at = post.at or self._clock.now()
        lives = self._revived(told.session)
        if kind in STOPS and post.subagent is None:
            self._record_all(self._ledger.admit(seen.facts))
            words = text_of(post.payload, "last_assistant_message", "response", "prompt_response")
            active = post.payload.get("stop_hook_active") is True
            self._stopped(post.source, at, post.origin(), own=own, words=words, active=active, lives=lives)
        elif seen.interrupted:
            self._stopped(post.source, at, post.origin(), own=own, lives=lives)
        elif kind == "stopfailure":
            self._failed(seen, told, lives=lives)
        elif kind == "subagentstop":
            ends = self._ledger.admit(self._subagent_stop(seen, told))
            self._record_all([fact for fact in ends if isinstance(fact, SubagentEnded)])  # no begin that nobody told
        elif kind == "permissionrequest":
            if lives and seen.sighting is not None and seen.sighting.dialog is not None and not self.permissions.open:
                self._to("prompt", "hook:permission", self.permissions.show(seen.sighting.dialog))
        else:
            self._told(seen, told, at, lives=lives)

    def _told(self, seen: Observation, told: Told, at: int, *, lives: bool) -> None:
        post = told.post
        facts = [fact for fact in self._ledger.admit(seen.facts) if self._is_news(fact)]
        if seen.prompt is not None and facts:
            self._prompted(at, own=told.own, lives=lives)
        elif told.kind in PROMPTS and not seen.facts and self._happened("prompt", post.source):
            # only that a prompt was given is told
            self._prompted(at, own=told.own, lives=lives)
            self._record(MessageAdded(message=self._session.ids(), role="user", text="", origin=post.origin()))
        for fact in facts:
            self._record_tool_or_other(fact, at, own=told.own, lives=lives)
        sighting = seen.sighting
        if not lives or sighting is None:
            return
        if sighting.dialog is not None and facts and not self.permissions.open and told.kind == "notification":
            self._to("prompt", "hook:notification", self.permissions.show(sighting.dialog))
        elif sighting.state == "idle" and facts and self._session.state.status.state == "working":
            self._to("idle", sighting.cause)

    def _is_news(self, fact: AnyFact) -> bool:
        if isinstance(fact, Notified):
            origin = fact.origin
            source = origin.source if origin is not None else ""
            return self._happened(f"{fact.kind}:{fact.message}", source)
        return not isinstance(fact, HistoryReset)

    def _subagent_stop(self, seen: Observation, told: Told) -> tuple[AnyFact, ...]:
        """What stops without a name is told all the same; a compaction is nobody."""
        post = told.post
        if seen.facts and post.payload.get("agent_type") == "":
            return ()
        if seen.facts or post.subagent is not None:
            return seen.facts
        if not self._happened("subagentstop", post.source):
            return ()
        status = text_of(post.payload, "status") or "completed"
        return (SubagentEnded(subagent="", status=status, origin=post.origin()),)

    def _record_tool_or_other(self, fact: AnyFact, at: int, *, own: bool, lives: bool = True) -> None:
        """State first: who is shown a call is to see at work who makes it."""
        if lives and isinstance(fact, ToolCalled):
            if fact.origin is None or fact.origin.subagent is None:
                self._works("hook" if own else "post", at)
        elif lives and isinstance(fact, ToolEnded):
            given = fact.input
            call = self._session.state.calls.get(fact.call)
            if given is None and call is not None:
                given = call.input
            if self.permissions.settle("its call ended", own=own, call=fact.call, tool=fact.tool, given=given):
                self._goes_on("hook:answered")
            elif fact.origin is None or fact.origin.subagent is None:
                self._works("hook" if own else "post", at)
        self._record(fact)

    def _prompted(self, at: int, *, own: bool, lives: bool = True) -> None:
        self._prompted_at = at
        self._after_stop = self._rests_by_log = None
        if lives:
            self.permissions.settle("a prompt came after it", own=own)
            if not self.permissions.open:
                self._to("working", "hook:prompt")

    def _stopped(
        self,
        source: str,
        at: int,
        origin: Origin,
        *,
        own: bool,
        words: str | None = None,
        active: bool = False,
        lives: bool = True,
    ) -> None:
        self._rests_by_log = None
        if not self._happened("stop", source, words):
            return
        if lives and at >= self._prompted_at:
            self._stopped_at = at
            self.permissions.settle("the turn ended", own=own)
            if not self.permissions.open:
                if self._session.state.status.state in ("starting", "unknown"):
                    self._to("working", f"{source}:stop")  # it did, unseen
                self._to("idle", f"{source}:stop")
            self._after_stop = self._clock.monotonic(), self._session.head
        self._record(HookAnswered(hook="stop", stop_hook_active=active, origin=origin))

    def _failed(self, seen: Observation, told: Told, *, lives: bool) -> None:
        post, error = told.post, seen.sighting.error if seen.sighting is not None else None
        message = error or "the turn failed"
        if not self._happened(f"failed:{message}", post.source):
            return
        if lives:
            self.permissions.settle("the turn failed", own=told.own)
            if not self.permissions.open:
                self._to("idle", "hook:error")
            self._after_stop = self._clock.monotonic(), self._session.head
        self._record(Notified(message=message, level="error", kind="StopFailure", origin=post.origin()))

    def _works(self, cause: str, at: int) -> None:
        """It does something now, by a post that may be late: what was done before a stop says nothing of after it."""
        if self._session.state.status.state in ("working", "prompt") or at < self._stopped_at:
            return
        if self._after_stop is None:
            self._to("working", f"{cause}:tool")

    def _goes_on(self, cause: str) -> None:
        """Something was answered."""
        if not self.permissions.open and self._session.state.status.state == "prompt":
            self._to("working", cause)

    def _believe_log(self) -> None:
        assert self._rests_by_log is not None
        _, seen = self._rests_by_log
        self._rests_by_log = None
        if self._session.state.status.state != "working":
            return
        at = seen.at or self._clock.now()
        words = next((fact.text for fact in seen.facts if isinstance(fact, MessageAdded)), None)
        self._stopped("log", at, Origin(source="log", at=seen.at), own=True, words=words)

    def _settled_after_stop(self, seq: int) -> None:
        """Posts from before a stop have come by now: what they left open is over, what is open beside it is work."""
        self._after_stop = None
        state = self._session.state
        over = state.executor is None
        for call in tuple(state.calls.values()):
            if over or (call.seq <= seq and call.subagent is None):
                self._record(self._unended(call), settling=True)
        if not over and any(call.subagent is None for call in state.calls.values()):
            self._to("working", "hook:tool")

    def _unended(self, call: OpenCall) -> ToolEnded:
        denied = self.permissions.denied(call.call)
        why = "a person said no" if denied else "its end was never told"
        return ToolEnded(
            call=call.call,
            tool=call.tool,
            status="denied" if denied else "interrupted",
            problem=Problem(code="denied" if denied else "interrupted", message=why),
            duration_ms=max(0, self._clock.now() - call.at),
        )

    # Recording

    def _to(self, state: State, cause: str, decision: str | None = None) -> None:
        status = self._session.state.status
        if status.state != state:
            self._record(StateChanged(prev=status.state, next=state, cause=cause, decision=decision))

    def _record_all(self, facts: Collection[AnyFact]) -> None:
        for fact in facts:
            if self._is_news(fact):
                self._record(fact)

    def _record(self, fact: AnyFact, *, settling: bool = False) -> None:
        self._session.record(fact, settling=settling)

    def _happened(self, kind: str, source: str, words: str | None = None) -> bool:
        """Whether this is the first that is told of it."""
        return self._occurrences.news(kind, source, self._clock.monotonic(), words)

    def _first(self, event: str) -> bool:
        if event in self._ids:
            return False
        self._ids[event] = None
        if len(self._ids) > SEEN_IDS:
            del self._ids[next(iter(self._ids))]
        return True

    # The hub's port

    async def recover(self) -> None:
        """After a lost server: see whether it lives, and go on from what the log says."""
        state = self._session.state
        self.permissions.release("the server was lost")
        self.presence.heard_before(state.active_at)
        self._after_stop = self._clock.monotonic(), state.seq
        if state.executor is None:
            return
        if state.closed is not None:
            self._gone("closed")
        elif self.presence.hold_again(state.executor) is False:
            self._gone("exit")

    async def start(self) -> None:
        raise InvalidRequest("it was started elsewhere")

    def check(self, prompt: PromptSubmitted) -> None:  # noqa: ARG002
        raise Unsupported(NO_TERMINAL)

    async def run_turn(self, turn: TurnContext) -> str | None:  # noqa: ARG002
        raise Unsupported(NO_TERMINAL)

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        self.permissions.check(decision)
        return nullcontext()

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """An outcome is durable: the hook that waits for it may print it."""
        self.permissions.resolved(outcome, answer)
        if outcome.outcome == "answered" and not self._session.closing:
            self._goes_on("hook:answered")

    def progressed(self, revision: DecisionRevised) -> None:
        """Dialogs of several questions are answered where the agent runs."""

    async def compact(self) -> None:
        raise Unsupported("the agent keeps its own context")

    async def close(self, budget: float) -> None:  # noqa: ARG002
        """At a server's stop the agent lives on, and so does its log; when its session is closed that ends here."""
        self.permissions.release("the server stops")
        self.presence.let_go()


def _call_of(call: OpenCall) -> ToolCalled:
    """An open call as the ledger is told of it: from here on it knows it."""
    origin = Origin(source="", subagent=call.subagent)
    return msgspec.structs.replace(
        ToolCalled(call=call.call, tool=call.tool, input=call.input, executor="agent"), origin=origin
    )
