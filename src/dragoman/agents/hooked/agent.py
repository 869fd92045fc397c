"""An agent that somebody started elsewhere, as far as its hooks and its session log tell of it.

Posts come in any order, twice, or not at all. Each real occurrence is recorded once; the state follows the newest
evidence (``doing``), and what nobody tells is found out by time: ``look`` is called again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext

from dragoman.agents.common.fields import text_of
from dragoman.agents.common.hooks import read_post
from dragoman.agents.common.observation import Observation
from dragoman.hub.errors import InvalidRequest, Unsupported
from dragoman.hub.events import (
    Answer,
    AnyFact,
    DecisionResolved,
    DecisionRevised,
    HookAnswered,
    MessageAdded,
    Origin,
    PromptSubmitted,
    SubagentEnded,
)
from dragoman.hub.ports import Driver, Hooks, Terminal
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext

from .doing import Doing
from .forms import Told
from .recording import PostedIds, key_of
from .settings import HookedSettings

NO_TERMINAL = "External session has no terminal info"
"""Why it takes no prompt; in the words of the bridge that clients know."""

LOG_ALONE = 1.5
"""Seconds after which a log's word that the agent rests is believed although no hook has said so."""

INTERRUPTED = "interrupted"
"""Why a turn stopped that a person broke off."""

STARTS = frozenset({"sessionstart", "start"})
STOPS = frozenset({"stop", "afteragent", "response"})
ENDS = frozenset({"sessionend"})
PROMPTS = frozenset({"userpromptsubmit", "beforeagent"})
"""Hooks by what they tell of, as ``hook_kind`` names them."""


class HookedAgent(Doing):
    """Implements the hub's ``Agent``. It is never started here, and lives on when the server stops."""

    terminal: Terminal | None = None
    driver: Driver | None = None
    hooks: Hooks | None = None
    own_tools: Collection[str] = ()
    offered_tools: Collection[str] = ()
    holds = False

    def __init__(self, session: Session, settings: HookedSettings, posted: PostedIds) -> None:
        super().__init__(session, settings, posted)
        self._hooked = False
        """Whether its hooks are heard, so that its log is only the second witness."""

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
        unanswerable = dialog.kind == "question" and not (told.agent == "claude" and dialog.questions)
        if unanswerable or (blocks and not attended):
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

    # Starts and ends

    def _started(self, told: Told) -> None:
        post = told.post
        source = text_of(post.payload, "source") or "unknown"
        fact = HookAnswered(hook="start", source=source, agent_session=told.session, origin=post.origin())
        if self.recording.news((fact,)):
            if self._session.state.executor is None:
                self._begin(told.session)
            self.recording.record(fact)

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
