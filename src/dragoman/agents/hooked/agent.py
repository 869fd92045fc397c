"""An agent that somebody started elsewhere, as far as its hooks and its session log tell of it.

Posts come in any order, twice, or not at all. Each real occurrence is recorded once; the state follows the newest
evidence, and what nobody tells is found out by time: ``look`` is called again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Literal

import msgspec

from dragoman.agents.common.fields import text_of
from dragoman.agents.common.hooks import read_post
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import InvalidRequest, Unsupported
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    Answer,
    AnyFact,
    DecisionResolved,
    DecisionRevised,
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
from .permissions import Permissions
from .presence import Presence
from .recording import PostedIds, Recording, key_of
from .settings import HookedSettings
from .turns import Turns

NO_TERMINAL = "External session has no terminal info"
"""Why it takes no prompt; in the words of the bridge that clients know."""

LOG_ALONE = 1.5
"""Seconds after which a log's word that the agent rests is believed although no hook has said so."""

CLOCK_SKEW = 60_000
"""Milliseconds by which a poster's clock may differ from ours and still say what came first."""

INTERRUPTED = "interrupted"
"""Why a turn stopped that a person broke off."""

SAID_NO = "a person said no"

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
        self._broken_off = False
        """Whether a person broke off what it was at, and nothing was begun since."""
        self._end_told = False
        self._hooked = False
        """Whether its hooks are heard, so that its log is only the second witness."""
        self._own_heard = False
        """Whether they come through the person's own socket."""

    # What is told

    def take(self, told: Told) -> None:
        """Record what a post says. Raises ``StorageUnavailable`` and ``LimitReached``.

        Once its hooks come through the person's own socket the agent is believed there only: what comes by other ways
        is the same, by scripts that post it as well, or it is not true.
        """
        if self._own_heard and not told.own:
            return
        named = told.post.origin().id
        if named is not None and not self.recording.first(named):
            return
        self._heard(told)
        if told.kind in STARTS:
            self._started(told)
        elif told.kind in ENDS:
            self._ended(told)
        elif told.kind in STOPS and told.post.subagent is None:
            self._told_to_stop(read_post(told.post), told)
        elif told.kind == "stopfailure":
            at = self._moment(told.post.at)
            lives = self._revived(told.session)
            self._failed(read_post(told.post), told.post.source, at, told.post.origin(), own=told.own, lives=lives)
        elif told.kind == "permissionrequest":
            self._shows(read_post(told.post), told)
        else:
            self._told(read_post(told.post), told)
        self._is_there(told.session)

    def _is_there(self, agent_session: str) -> None:
        """Who is heard of for the first time lives, even if nothing was said that could be told."""
        state = self._session.state
        if state.executor is None and state.exit is None:
            self._begin(agent_session)

    def observe(self, seen: Observation, agent_session: str) -> None:
        """Record what the agent's log says. Raises as ``take``."""
        self._heard_in_log(seen)
        self._is_there(agent_session)
        facts = self.recording.news(seen.facts)
        if not self._revived(agent_session, by_log=True):
            self.recording.record_all(facts)
            return
        at = self._moment(seen.at)
        if seen.prompt is not None and facts:
            if self._rests_by_log is not None:
                self._believe_log()
            self._prompted(at, own=True)
        for fact in facts:
            if isinstance(fact, HookAnswered) and fact.hook == "stop":
                self._stops("log", at, own=True, lives=True)
            self._record(fact, at, own=True)
        if seen.at is None or at >= max(self._prompted_at, self._stopped_at):
            self._sees_in_log(seen, at)

    def _heard_in_log(self, seen: Observation) -> None:
        if seen.at is None:
            self.presence.heard()
        else:
            self.presence.heard_before(seen.at)

    def _sees_in_log(self, seen: Observation, at: int) -> None:
        """What it says of what the agent is doing, as it is newer than what is known."""
        state = seen.sighting.state if seen.sighting is not None else None
        if seen.interrupted:
            self._stopped(at, Origin(source="log", at=seen.at), own=True, reason=INTERRUPTED)
        elif state == "idle":
            self._rests_by_log = self._clock.monotonic(), seen
            if not self._hooked:
                self._believe_log()
        elif state == "error":
            self._failed(seen, "log", at, Origin(source="log", at=seen.at), own=True)
        elif state == "working":
            self._rests_by_log = None
            if not self._hooked:
                self._works("log", at)

    def ask(self, told: Told) -> str | None:
        """Open the decision that this post asks for, where it can be answered here; its id, else None.

        Raises as ``take``.
        """
        if told.kind != "permissionrequest" or not told.own:
            self.take(told)
            return None
        self._heard(told)
        seen = read_post(told.post)
        dialog = seen.sighting.dialog if seen.sighting is not None else None
        if dialog is None or not self._revived(told.session):
            return None
        self.permissions.forget_hearsay()
        attended = self._session.attended
        headless = told.agent == "claude" and self.presence.headless
        if headless and not attended:
            self.permissions.note_refused(dialog)  # it says no by itself, and at once
            return None
        blocks = headless or told.agent == "codex"
        if dialog.kind == "question" or (blocks and not attended):
            self._to("prompt", "hook:permission", self.permissions.show(dialog))
            return None
        settings = self._settings
        seconds = min(settings.answer_seconds, settings.answer_blocking) if blocks else settings.answer_seconds
        suggestions = told.post.payload.get("permission_suggestions")
        decision = self.permissions.ask(dialog, suggestions, seconds=seconds, blocks=blocks)
        try:
            self._to("prompt", "hook:permission", decision)
        except BaseException:
            self.permissions.give_up(decision)
            raise
        return decision

    async def answered(self, decision: str) -> str:
        """What the hook that asked this is to print. Cancelled when the hook is gone: somebody answered there."""
        try:
            return await self.permissions.printed(decision)
        except asyncio.CancelledError:
            if self._session.settle_decision(decision, reason="its hook was ended"):
                self._goes_on("hook:gone")
            raise

    def _heard(self, told: Told) -> None:
        self._hooked = True
        self._own_heard = self._own_heard or told.own
        self._turns.seen(told.turn)
        self.presence.heard()
        self.presence.seen_above(told.parents)

    # What time tells

    def look(self) -> None:
        """See what has come of it since. Raises ``StorageUnavailable``."""
        self.presence.look()
        state, now = self._session.state, self._clock.monotonic()
        if self.permissions.waiting:
            self.presence.heard()  # its hook holds a link to us
        if self.permissions.holds_agent and not self._session.attended:
            self.permissions.release("nobody is there to answer", blocking=True)
        if self._rests_by_log is not None and now - self._rests_by_log[0] >= LOG_ALONE:
            self._believe_log()
        if self._left is not None and now - self._left[0] >= self._settings.settles:
            self._end_what_is_left(self._left[1])
        if self._may_be_late is not None and now - self._may_be_late >= self._settings.settles:
            self._may_be_late = None
            if state.tool is not None and state.executor is not None:
                self._works("hook", self._clock.now())
        if state.executor is not None:
            self._look_at_state(self.presence.quiet)

    def _look_at_state(self, quiet: float) -> None:
        state, settings = self._session.state, self._settings
        word = state.status.state
        if word in ("starting", "unknown") and quiet >= settings.settles:
            self._to("idle", "settled")
        if not self.presence.known and quiet >= self._patience(word):
            self._gone("silent")
        elif word == "working" and quiet >= settings.silence and state.tool is None:
            self._to("idle", "silence")

    def _patience(self, word: str) -> float:
        settings = self._settings
        if not self._hooked and self._session.state.agent == "codex":
            return settings.gone_codex
        return settings.gone_working if word == "working" else settings.gone_idle

    def _believe_log(self) -> None:
        assert self._rests_by_log is not None
        _, seen = self._rests_by_log
        self._rests_by_log = None
        if self._session.state.status.state not in ("working", "starting", "unknown"):
            return
        words = next((fact.text for fact in seen.facts if isinstance(fact, MessageAdded)), None)
        at = self._moment(seen.at)
        if not self._stopped(at, Origin(source="log", at=seen.at), own=True, words=words):
            self._stops("log", at, own=True, lives=True)  # what was taken for an earlier turn's stop was this one's

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

    # Starts and ends

    def _started(self, told: Told) -> None:
        post = told.post
        source = text_of(post.payload, "source") or "unknown"
        fact = HookAnswered(hook="start", source=source, agent_session=told.session, origin=post.origin())
        if self.recording.news((fact,)):
            if self._session.state.executor is None:
                self._begin(told.session)
            self.recording.record(fact)

    def _begin(self, agent_session: str) -> None:
        presence, runs = self.presence, self._session.state.runs
        self._may_be_late = None
        self._end_told = False
        self.recording.record(
            AgentStarted(pid=presence.pid, pid_start=presence.pid_start, run=runs + 1, agent_session=agent_session)
        )

    def _ended(self, told: Told) -> None:
        """An end is told once, by whoever is first: the hook, or the process."""
        post, alive = told.post, self._session.state.executor is not None
        reason = text_of(post.payload, "reason")
        fact = HookAnswered(hook="end", reason=reason, origin=post.origin())
        news = alive and not self._end_told and bool(self.recording.news((fact,)))
        if told.own:
            self.permissions.settle("the agent has ended", own=True)
        if alive and (told.own or not self.presence.known):
            self._gone("exit", own=told.own, reason=reason if news else None, origin=fact.origin if news else None)
        elif news:  # whoever can only say so does not end what is seen to live
            self._end_told = True
            self.recording.record(fact)

    def _process_ended(self) -> None:
        if self._session.state.executor is not None:
            self._gone("exit")

    def _gone(self, cause: str, *, own: bool = True, reason: str | None = None, origin: Origin | None = None) -> None:
        self.permissions.settle("the agent is gone", own=own)
        if own:
            self.permissions.drop("the agent is gone")
        self._rests_by_log = self._may_be_late = None
        self._own_heard = False
        self.recording.record(AgentExited(cause=cause, reason=reason, origin=origin), settling=True)
        self._left = self._clock.monotonic(), self._session.head
        self.presence.let_go()

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

    # What goes on

    def _told(self, seen: Observation, told: Told) -> None:
        post = told.post
        at = self._moment(post.at)
        if told.own:
            self._settle_calls(seen.facts)
        facts = self.recording.news(self._with_subagent_stop(seen, told))
        given = seen.prompt is not None and bool(facts)
        bare = told.kind in PROMPTS and not seen.facts and post.subagent is None
        if bare and self.recording.happened("prompt", post.source):
            # only that a prompt was given is told
            facts = [MessageAdded(message=self._session.ids(), role="user", text="", origin=post.origin())]
            given = True
        if not facts and not seen.interrupted:
            return
        lives = self._revived(told.session) and not self._turns.over(told.turn)
        if given:
            self._prompted(at, own=told.own, lives=lives and not self._turns.has_stopped(told.turn))
        elif self._turns.goes_on(told.turn):
            self._may_be_late = None
        if lives and told.kind == "notification" and at >= self._prompted_at:
            self._sees(seen, told)
        for fact in facts:
            self._record(fact, at, own=told.own, lives=lives)
        if seen.interrupted:
            self._turns.stopped(told.turn)
            self._stopped(at, post.origin(), own=told.own, lives=lives, reason=INTERRUPTED)

    def _sees(self, seen: Observation, told: Told) -> None:
        """What a notice says of the state: before the notice itself is told."""
        sighting = seen.sighting
        if sighting is None:
            return
        if sighting.dialog is not None and not self.permissions.open:
            self._to("prompt", "hook:notification", self.permissions.show(sighting.dialog, own=told.own))
        elif sighting.state == "idle" and self._session.state.status.state == "working":
            self._to("idle", sighting.cause)

    def _shows(self, seen: Observation, told: Told) -> None:
        """A permission whose hook does not wait for us: nobody can answer it here."""
        dialog = seen.sighting.dialog if seen.sighting is not None else None
        if dialog is not None and not self.permissions.open and self._revived(told.session):
            self._to("prompt", "hook:permission", self.permissions.show(dialog, own=told.own))

    def _with_subagent_stop(self, seen: Observation, told: Told) -> tuple[AnyFact, ...]:
        """What stops without a name is told all the same; a compaction is nobody."""
        post = told.post
        if told.kind != "subagentstop" or (post.subagent is not None and not seen.facts):
            return seen.facts
        if post.subagent is not None:
            return () if post.payload.get("agent_type") == "" else seen.facts
        status = text_of(post.payload, "status") or "completed"
        return (SubagentEnded(subagent="", status=status, origin=post.origin()),)

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

    def _told_to_stop(self, seen: Observation, told: Told) -> None:
        post = told.post
        facts = self.recording.news(seen.facts)
        words = text_of(post.payload, "last_assistant_message", "response", "prompt_response")
        active = post.payload.get("stop_hook_active") is True
        fact = HookAnswered(hook="stop", stop_hook_active=active, origin=post.origin())
        if not self.recording.happened(*key_of(fact, words)):
            if told.own and self.permissions.settle("the turn ended", own=True) and not self.permissions.open:
                self._to("idle", "hook:stop")
            return
        lives = self._revived(told.session) and not self._turns.over(told.turn)
        self._turns.stopped(told.turn)
        self.recording.record_all(facts)
        self._stops(post.source, self._moment(post.at), own=told.own, lives=lives)
        self.recording.record(fact)

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

    def _moment(self, at: int | None) -> int:
        """When it happened, in milliseconds since 1970. A clock that is far off is not believed."""
        now = self._clock.now()
        return min(at, now) if at is not None and abs(now - at) < CLOCK_SKEW else now

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

    # The hub's port

    async def recover(self) -> None:
        """After a lost server: see whether it lives, and go on from what the log says."""
        state = self._session.state
        self.permissions.release("the server was lost")
        self.presence.last_heard(state.active_at)
        self._left = self._clock.monotonic(), state.seq
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
