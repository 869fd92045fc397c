"""A session's state: the fold of its log, and nothing else (invariant 2).

``SessionState`` holds only what commands and snapshots need, so it stays small however long the log grows. It is plain
data: encoded as JSON it is the stored snapshot that lets a session be restored without reading its whole log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .events import (
    AgentExited,
    AgentStarted,
    Answer,
    CancelRequested,
    CheckpointDeleted,
    CheckpointTaken,
    Compacted,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    HistoryMerged,
    HistoryReset,
    HookAnswered,
    HookSignalled,
    Json,
    MessageAdded,
    Notified,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SessionClosed,
    SessionCreated,
    SettingsChanged,
    StateChanged,
    SubagentEnded,
    SubagentStarted,
    TerminalReserved,
    TerminalResized,
    TerminalTitled,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnSettled,
    TurnStarted,
    UsageReported,
)
from .journal import SessionRow
from .standing import AgentStatus, Executor, Exit, OpenCall, OpenTurn, SavedCheckpoint, StopSignal

LISTED_SETTINGS = ("zone", "auto_accept", "suggestion", "conversation_ref")
LISTED_OPTIONS = ("attach", "vouched")
"""What lists show of a session's settings and options, where they are given."""


class SessionState(msgspec.Struct):
    """Everything that is true of a session at cursor ``seq``."""

    session: str
    seq: int = 0
    kind: str = ""
    agent: str = ""
    cwd: str = ""
    title: str = ""
    owner: str = ""
    options: dict[str, Json] = {}
    settings: dict[str, Json] = {}
    created_at: int = 0
    changed_at: int = 0
    closed: str | None = None
    executor: Executor | None = None
    runs: int = 0
    exit: Exit | None = None
    tape_end: int = 0
    tape_reserved: int = 0
    window_title: str | None = None
    status: AgentStatus = msgspec.field(default_factory=AgentStatus)
    turn: OpenTurn | None = None
    calls: dict[str, OpenCall] = {}
    queue: list[PromptSubmitted] = []
    decisions: dict[str, DecisionOpened] = {}
    answered: dict[str, tuple[Answer, ...]] = {}
    prompts: int = 0
    turns: int = 0
    """How many there ever were, the open one included."""
    reported_model: str | None = None
    """The model that the agent's newest tokens were spent on."""
    compaction: str | None = None
    """The shortening of the context that is under way."""
    histories: int = 0
    """How often a client's history was taken in."""
    resets: int = 0
    """How often the conversation began anew."""
    agent_session: str | None = None
    """The agent's own name for its session."""
    active_at: int = 0
    """When something happened last: not what a program writes, nor what concerns its terminal only."""
    rests: bool = False
    """Whether a turn has ended and nothing was begun since."""
    calls_since: int = 0
    """The event by which a turn ended or the newest prompt was given at the agent's own terminal: a call from before is
    none that the agent is at."""
    hooks: dict[str, int] = {}
    stop_signal: StopSignal | None = None
    grants: list[str] = []
    checkpoints: dict[str, SavedCheckpoint] = {}
    checkpoints_taken: int = 0
    """How many there ever were, failed ones included: the number of the next one's id."""

    @property
    def first_checkpoint(self) -> SavedCheckpoint | None:
        """The one that the session began with; None when there is none that holds anything."""
        listed = self.checkpoints.values()
        return next((it for it in listed if it.trigger == "initial" and it.problem is None), None)

    @property
    def unsettled(self) -> bool:
        """Whether something would have to be put right if the server were lost now."""
        return bool(self.turn or self.executor or self.calls or self.decisions or self.queue)

    @property
    def prompt(self) -> DecisionOpened | None:
        """The open dialog that the agent's state means; None when it is in none."""
        status = self.status
        return self.decisions.get(status.decision or "") if status.state == "prompt" else None

    @property
    def tool(self) -> str | None:
        """The tool of the newest open call that is the agent's own, and of what it is at."""
        newest = next((call for call in reversed(self.calls.values()) if call.subagent is None), None)
        return newest.tool if newest is not None and newest.seq > self.calls_since else None

    @property
    def asks(self) -> str | None:
        """The kind of the oldest open decision."""
        return next((opened.kind for opened in self.decisions.values()), None)

    @property
    def listed(self) -> dict[str, Json]:
        """The settings and options that lists show."""
        settings, options = self.settings, self.options
        shown = {name: settings[name] for name in LISTED_SETTINGS if name in settings}
        shown.update((name, options[name]) for name in LISTED_OPTIONS if options.get(name) is not None)
        return shown

    @property
    def summary(self) -> str:
        """One word for lists: closed, working, waiting, exited, idle."""
        if self.closed is not None:
            return "closed"
        if self.decisions:
            return "waiting"
        if self.turn is not None:
            return "working"
        if self.executor is not None:
            return {"idle": "idle", "prompt": "waiting"}.get(self.status.state, "working")
        return "exited" if self.exit is not None else "idle"

    def row(self) -> SessionRow:
        """The index row that goes with this state."""
        return SessionRow(
            session=self.session,
            kind=self.kind,
            agent=self.agent,
            cwd=self.cwd,
            title=self.title,
            owner=self.owner,
            status=self.summary,
            created_at=self.created_at,
            changed_at=self.changed_at,
            head=self.seq,
            unsettled=self.unsettled,
            active_at=self.active_at,
            rests=self.rests,
            tool=self.tool,
            agent_session=self.agent_session,
            asks=self.asks,
            detail=self.listed,
        )

    def move(self, event: Event) -> None:
        """Take the place of an event whose fact changes nothing else."""
        assert event.seq == self.seq + 1, f"event {event.seq} cannot follow {self.seq}"
        self.seq = event.seq
        self.changed_at = event.at

    def apply(self, event: Event) -> None:
        """Fold one event in. Events must come in order, without a gap."""
        self.move(event)
        kind = type(event.fact)
        if kind in _SIGNS_OF_LIFE:
            self.active_at = event.at
        fold = _FOLDS.get(kind)
        if fold is not None:
            fold(self, event.fact, event.at)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(SessionState)


def encode_state(state: SessionState) -> bytes:
    """The state as JSON, for a stored snapshot."""
    return _encoder.encode(state)


def decode_state(data: bytes) -> SessionState:
    """The state that a stored snapshot holds. Raises ``msgspec.ValidationError``."""
    return _decoder.decode(data)


def _created(state: SessionState, fact: SessionCreated, at: int) -> None:
    state.kind, state.agent, state.cwd = fact.kind, fact.agent, fact.cwd
    state.title, state.owner = fact.title, fact.owner
    state.options, state.settings = dict(fact.options), dict(fact.settings)
    named = fact.options.get("agent_session")
    state.agent_session = named if isinstance(named, str) else None
    state.created_at = at
    state.status.since = at


def _settings(state: SessionState, fact: SettingsChanged, at: int) -> None:  # noqa: ARG001
    settings = {**state.settings, **fact.changes}
    state.settings = {key: value for key, value in settings.items() if value is not None}
    title, cwd = fact.changes.get("title"), fact.changes.get("cwd")
    state.title = title if isinstance(title, str) else state.title
    state.cwd = cwd if isinstance(cwd, str) else state.cwd


def _closed(state: SessionState, fact: SessionClosed, at: int) -> None:  # noqa: ARG001
    state.closed = fact.reason
    state.grants = []


def _started(state: SessionState, fact: AgentStarted, at: int) -> None:
    state.executor = Executor(fact.pid, fact.pid_start, fact.cols, fact.rows, at)
    state.exit = None
    state.runs = fact.run
    state.tape_end = fact.tape_offset or 0
    state.tape_reserved = fact.tape_reserved or state.tape_end
    state.status = AgentStatus(seq=state.status.seq, since=at)
    state.agent_session = fact.agent_session or state.agent_session
    state.rests = False


def _exited(state: SessionState, fact: AgentExited, at: int) -> None:
    state.executor = None
    state.exit = Exit(fact.cause, fact.code, fact.signal, at)
    state.tape_end = fact.tape_offset if fact.tape_offset is not None else state.tape_end


def _changed(state: SessionState, fact: StateChanged, at: int) -> None:
    moved = fact.next != state.status.state
    state.status = AgentStatus(
        state=fact.next,
        seq=state.status.seq + (not fact.revises),
        cause=fact.cause,
        error_detail=fact.error_detail,
        error_category=fact.error_category,
        last_message=state.status.last_message,
        since=at if moved else state.status.since,
        decision=fact.decision,
    )
    state.tape_end = max(state.tape_end, fact.tape_offset or 0)
    if fact.next == "working":
        state.rests = False
    elif fact.next == "idle" and fact.prev in ("working", "prompt") and fact.cause != "silence" and state.turn is None:
        _rest(state)


def _submitted(state: SessionState, fact: PromptSubmitted, at: int) -> None:  # noqa: ARG001
    state.queue.append(fact)
    state.prompts += 1


def _used(state: SessionState, fact: UsageReported, at: int) -> None:  # noqa: ARG001
    state.reported_model = fact.model or state.reported_model


def _unqueue(state: SessionState, prompt: str) -> None:
    state.queue = [waiting for waiting in state.queue if waiting.prompt != prompt]


def _taken(state: SessionState, fact: PromptTaken, at: int) -> None:  # noqa: ARG001
    _unqueue(state, fact.prompt)


def _withdrawn(state: SessionState, fact: PromptWithdrawn, at: int) -> None:  # noqa: ARG001
    _unqueue(state, fact.prompt)


def _turn_started(state: SessionState, fact: TurnStarted, at: int) -> None:
    submitted = next((waiting for waiting in state.queue if waiting.prompt == fact.prompt), None)
    _unqueue(state, fact.prompt)
    state.turn = OpenTurn(fact.turn, fact.prompt, state.seq, at, submitted=submitted)
    state.turns += 1
    state.rests = False


def _cancelling(state: SessionState, fact: CancelRequested, at: int) -> None:  # noqa: ARG001
    if state.turn is not None and state.turn.turn == fact.turn:
        state.turn.cancelling = True


def _turn_settled(state: SessionState, fact: TurnSettled, at: int) -> None:  # noqa: ARG001
    if state.turn is not None and state.turn.turn == fact.turn:
        state.turn.outcome, state.turn.problem = fact.outcome, fact.problem


def _turn_ended(state: SessionState, fact: TurnEnded, at: int) -> None:  # noqa: ARG001
    if state.turn is not None and state.turn.turn == fact.turn:
        state.turn = None
        _rest(state)


def _called(state: SessionState, fact: ToolCalled, at: int) -> None:
    state.calls[fact.call] = OpenCall(
        fact.call,
        fact.tool,
        state.seq,
        at,
        fact.turn,
        fact.input,
        fact.client,
        fact.bundle,
        fact.position,
        fact.bundle_size,
        fact.origin.subagent if fact.origin is not None else None,
    )


def _ended(state: SessionState, fact: ToolEnded, at: int) -> None:  # noqa: ARG001
    state.calls.pop(fact.call, None)


def _opened(state: SessionState, fact: DecisionOpened, at: int) -> None:  # noqa: ARG001
    state.decisions[fact.decision] = fact


def _revised(state: SessionState, fact: DecisionRevised, at: int) -> None:  # noqa: ARG001
    opened = state.decisions.get(fact.decision)
    if opened is None:
        return
    state.decisions[fact.decision] = revised(opened, fact)
    if fact.answered is not None:
        state.answered[fact.decision] = fact.answered


def _compacted(state: SessionState, fact: Compacted, at: int) -> None:  # noqa: ARG001
    if fact.phase == "started":
        state.compaction = fact.compaction
    elif state.compaction == fact.compaction:
        state.compaction = None


def _merged(state: SessionState, fact: HistoryMerged, at: int) -> None:  # noqa: ARG001
    state.histories += bool(fact.messages)


def _reset(state: SessionState, fact: HistoryReset, at: int) -> None:  # noqa: ARG001
    state.status.last_message = None
    state.resets += 1


def _reserved(state: SessionState, fact: TerminalReserved, at: int) -> None:  # noqa: ARG001
    state.tape_reserved = fact.tape_reserved


def _resolved(state: SessionState, fact: DecisionResolved, at: int) -> None:  # noqa: ARG001
    opened = state.decisions.pop(fact.decision, None)
    state.answered.pop(fact.decision, None)
    grant = granted(opened, fact) if opened is not None else None
    if grant is not None and grant not in state.grants:
        state.grants.append(grant)


def _said(state: SessionState, fact: MessageAdded, at: int) -> None:  # noqa: ARG001
    if fact.role == "assistant" and fact.text.strip():
        state.status.last_message = fact.text
    elif fact.role == "user" and fact.turn is None:
        state.calls_since = state.seq


def _resized(state: SessionState, fact: TerminalResized, at: int) -> None:  # noqa: ARG001
    if state.executor is not None:
        state.executor.cols, state.executor.rows = fact.cols, fact.rows


def _titled(state: SessionState, fact: TerminalTitled, at: int) -> None:  # noqa: ARG001
    state.window_title = fact.title


def _hooked(state: SessionState, fact: HookAnswered, at: int) -> None:  # noqa: ARG001
    if fact.hook != "stop" or fact.verdict is not None:  # one that only reports was not answered
        state.hooks[fact.hook] = state.hooks.get(fact.hook, 0) + 1
    if fact.verdict == "signaled":
        state.stop_signal = None
    if fact.hook == "stop" and fact.verdict != "blocked":
        _rest(state)
    if fact.hook == "start":
        state.agent_session = fact.agent_session or state.agent_session


def _signalled(state: SessionState, fact: HookSignalled, at: int) -> None:  # noqa: ARG001
    state.stop_signal = StopSignal(fact.signal)


def _checkpoint(state: SessionState, fact: CheckpointTaken, at: int) -> None:
    number = state.checkpoints_taken
    state.checkpoints_taken += 1
    state.checkpoints[fact.checkpoint] = SavedCheckpoint(
        fact.checkpoint, number, fact.trigger, at, fact.changed, fact.size, fact.problem, state.cwd
    )


def _checkpoint_gone(state: SessionState, fact: CheckpointDeleted, at: int) -> None:  # noqa: ARG001
    state.checkpoints.pop(fact.checkpoint, None)


def _rest(state: SessionState) -> None:
    state.rests = True
    state.calls_since = state.seq


def revised(opened: DecisionOpened, fact: DecisionRevised) -> DecisionOpened:
    """The decision with what ``fact`` says anew."""
    changes: dict[str, Any] = {name: value for name in _REVISABLE if (value := getattr(fact, name)) is not None}
    return msgspec.structs.replace(opened, **changes)


def granted(opened: DecisionOpened, fact: DecisionResolved) -> str | None:
    """What a permission, given for more than this once, permits from now on; None where it does not.

    A rule is the answer's own ``scope``. For the scope ``session`` it is what the agent named as ``detail["grant"]``
    when it asked; for ``tool`` it is ``detail["tool_grant"]``, where that is more.
    """
    answer = fact.answer
    if opened.kind != "permission" or answer is None or not answer.accept or answer.scope in (None, "", "once"):
        return None
    named = {"session": opened.detail.get("grant")}
    named["tool"] = opened.detail.get("tool_grant", named["session"])
    grant = named.get(answer.scope, answer.scope)
    return grant if isinstance(grant, str) else None


_SIGNS_OF_LIFE: frozenset[type] = frozenset(
    {
        *(SessionCreated, AgentStarted, StateChanged, PromptSubmitted, PromptTaken, TurnStarted, TurnEnded),
        *(MessageAdded, ToolCalled, ToolEnded, SubagentStarted, SubagentEnded, Notified, HookAnswered),
        *(DecisionOpened, DecisionRevised, DecisionResolved),
    }
)
"""Facts that ``active_at`` is the time of."""

_REVISABLE = (
    *("kind", "text", "tool", "input", "call", "subtype", "auth_url"),
    *("options", "options_fallback", "questions", "question_current", "ready", "secret"),
)
"""Fields of a decision that ``decision.revised`` may replace."""

_FOLDS: dict[type, Callable[[SessionState, Any, int], None]] = {
    SessionCreated: _created,
    SettingsChanged: _settings,
    Compacted: _compacted,
    HistoryMerged: _merged,
    HistoryReset: _reset,
    TerminalReserved: _reserved,
    SessionClosed: _closed,
    AgentStarted: _started,
    AgentExited: _exited,
    StateChanged: _changed,
    PromptSubmitted: _submitted,
    PromptTaken: _taken,
    PromptWithdrawn: _withdrawn,
    TurnStarted: _turn_started,
    CancelRequested: _cancelling,
    UsageReported: _used,
    TurnSettled: _turn_settled,
    TurnEnded: _turn_ended,
    ToolCalled: _called,
    ToolEnded: _ended,
    DecisionOpened: _opened,
    DecisionRevised: _revised,
    DecisionResolved: _resolved,
    MessageAdded: _said,
    TerminalResized: _resized,
    TerminalTitled: _titled,
    HookAnswered: _hooked,
    HookSignalled: _signalled,
    CheckpointTaken: _checkpoint,
    CheckpointDeleted: _checkpoint_gone,
}
