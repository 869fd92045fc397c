"""A session's log as coworker messages: a fold of everything up to a cursor, and what each later fact says.

``Projection`` starts at a cursor and must be shown every event after it, in order. What it says is the same for every
link of the session; what only some links asked for, the others leave out themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.hub.events import (
    STREAMED,
    AgentExited,
    AnyFact,
    CheckpointDeleted,
    CheckpointRestored,
    CheckpointTaken,
    Compacted,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Event,
    HistoryReset,
    LogWritten,
    MessageAdded,
    Notified,
    PromptSubmitted,
    SessionClosed,
    SettingsChanged,
    SubagentStarted,
    TodosChanged,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnSettled,
    TurnStarted,
    UsageReported,
)
from dragoman.hub.standing import SavedCheckpoint
from dragoman.hub.state import SessionState

from . import messages as wire
from . import workspace_messages as around
from .backups import session_backup_state
from .errors import BACKUP, error
from .prompts import prompt
from .tool_talk import ToolTalk
from .turn_view import TurnView, told

Said = list[wire.ServerMessage]

MESSAGE_ID = "client_message_id"
"""Where a prompt's ``detail`` keeps the client's own id of it, which is only echoed."""


class Usual(NamedTuple):
    """What holds where a session says nothing: what its folder's configuration, and then the server, would take."""

    provider: str
    model: str
    output_directory: str
    enable_mcp: bool


def is_busy(state: SessionState) -> bool:
    """Whether the agent works: in a turn, or of its own at its terminal."""
    return state.turn is not None or state.status.state in ("working", "prompt")


class Projection:
    """See the module. ``state`` is the fold at the cursor, and belongs to this projection from now on."""

    def __init__(self, state: SessionState, usual: Usual, *, backups: Path | None) -> None:
        self.state = state
        self._id = state.session
        self._usual = usual
        self._backups = backups
        self._busy = is_busy(state)
        self._view: TurnView | None = None
        self._tools = ToolTalk()
        self._asked = {message.request_id for message in self.pending()}

    # What is true at the cursor

    @property
    def busy(self) -> bool:
        """Whether the agent works."""
        return self._busy

    def config(self) -> wire.Config:
        """Seed: ``ConfigSubset``. A terminal's provider is its agent, its model what that reports, else its command."""
        state, usual = self.state, self._usual
        if state.kind == "terminal":
            provider, model = state.agent, _text(state, "model") or state.reported_model or _command(state)
        else:
            named = _text(state, "provider")
            provider = named or usual.provider
            model = _text(state, "model") or (usual.model if provider == usual.provider else "")
        return wire.Config(
            provider=provider,
            model=model,
            working_directory=state.cwd,
            output_directory=_text(state, "output_directory") or usual.output_directory,
        )

    def settings(self) -> wire.SessionSettings:
        """The session's switches."""
        enabled = self.state.settings.get("enable_mcp")
        return wire.SessionSettings(
            session_id=self._id, enable_mcp=enabled if isinstance(enabled, bool) else self._usual.enable_mcp
        )

    def pending(self) -> list[wire.Ask | wire.Approval]:
        """What is being asked, oldest first."""
        asked = (prompt(self._id, opened) for opened in self.state.decisions.values())
        return [message for message in asked if message is not None]

    def backup(self, reason: around.BackupReason) -> around.SessionBackupState:
        """The checkpoints, and why they are told."""
        return session_backup_state(self.state, self._backups, reason)

    # What comes after it

    def catch_up(self, event: Event) -> None:
        """Take an event of the open turn from before the cursor: its chunks are counted, and nothing of it is said."""
        fact = event.fact
        if isinstance(fact, TurnStarted):
            self._open_view(fact)
        elif type(fact) not in _SAYS or isinstance(fact, _OF_A_TURN):
            self._speak(fact)

    def project(self, event: Event) -> Said:
        """Fold one event in; what it says."""
        fact = event.fact
        if type(fact) in STREAMED:
            self.state.move(event)
            return self._in_turn(fact)
        gone = self.state.checkpoints.get(fact.checkpoint) if isinstance(fact, CheckpointDeleted) else None
        before = self.config() if isinstance(fact, UsageReported) else None
        self.state.apply(event)
        if self._view is not None and isinstance(fact, UsageReported | SettingsChanged):
            now = self.config()
            self._view.runs_on(now.provider, now.model)
        said = self._checkpoint_gone(gone) if gone is not None else self._speak(fact)
        if before is not None and before != self.config():
            said = [*said, wire.ConfigUpdated(session_id=self._id, config=self.config())]
        if (busy := is_busy(self.state)) != self._busy:
            self._busy = busy
            said = [*said, wire.SessionBusy(session_id=self._id, busy=busy)]
        return said

    def _speak(self, fact: AnyFact) -> Said:
        say = _SAYS.get(type(fact))
        return say(self, fact) if say is not None else self._in_turn(fact)

    def _in_turn(self, fact: AnyFact) -> Said:
        view = self._view
        return view.project(fact) if view is not None and getattr(fact, "turn", None) == view.turn else []

    def _log(self, line: str | None) -> Said:
        return [wire.Log(session_id=self._id, line=line)] if line is not None else []

    # Turns

    def _open_view(self, fact: TurnStarted) -> Said:
        config = self.config()
        self._view = TurnView(self._id, fact.turn, provider=config.provider, model=config.model)
        return []

    def _settled(self, fact: TurnSettled) -> Said:
        return self._view.end(fact.outcome, fact.problem) if self._view is not None else []

    def _ended(self, fact: TurnEnded) -> Said:
        view, self._view = self._view, None
        return view.end(fact.outcome, fact.problem) if view is not None else []

    def _called(self, fact: ToolCalled) -> Said:
        return [*self._log(self._tools.called(fact)), *self._in_turn(fact)]

    def _tool_ended(self, fact: ToolEnded) -> Said:
        return [*self._log(self._tools.ended(fact)), *self._in_turn(fact)]

    def _prompted(self, fact: PromptSubmitted) -> Said:
        given = fact.detail.get(MESSAGE_ID, fact.client_message_id)
        return [echo(self._id, fact.text, given if isinstance(given, str) else None)]

    def _message(self, fact: MessageAdded) -> Said:
        if fact.role == "user":
            return [echo(self._id, fact.text, None)]
        if self._view is not None and fact.turn == self._view.turn:
            return self._view.message(fact)
        return told(self._id, fact, provider=self.config().provider)

    # What is asked

    def _opened(self, fact: DecisionOpened | DecisionRevised) -> Said:
        """A prompt, once: what is learnt of it later is not told, but the next question of its dialog is."""
        opened = self.state.decisions.get(fact.decision)
        message = prompt(self._id, opened) if opened is not None else None
        if message is None or message.request_id in self._asked:
            return []
        assert opened is not None
        over = [asked for asked in self._asked if asked.partition("#")[0] == opened.decision]
        self._asked.add(message.request_id)
        return [*self._void(over, "answered"), message]

    def _resolved(self, fact: DecisionResolved) -> Said:
        over = [asked for asked in self._asked if asked.partition("#")[0] == fact.decision]
        return self._void(over, fact.outcome)

    def _void(self, over: list[str], outcome: wire.PromptOutcome) -> Said:
        self._asked.difference_update(over)
        return [wire.PromptVoid(session_id=self._id, request_id=asked, outcome=outcome) for asked in over]

    # Session

    def _changed(self, fact: SettingsChanged) -> Said:
        said: Said = []
        if "enable_mcp" in fact.changes:
            said.append(self.settings())
        if not fact.changes.keys().isdisjoint(("provider", "model")):
            said.append(wire.ConfigUpdated(session_id=self._id, config=self.config()))
        return said

    def _reset(self, _: HistoryReset) -> Said:
        return [wire.Todos(session_id=self._id, todos=()), wire.ResetDone(session_id=self._id)]

    def _todos(self, fact: TodosChanged) -> Said:
        items = (wire.TodoItem(content=it.content, status=it.status, active_form=it.active_form) for it in fact.todos)
        return [wire.Todos(session_id=self._id, todos=tuple(items))]

    def _checkpoint(self, fact: CheckpointTaken) -> Said:
        if fact.trigger == "auto":
            if fact.problem is None:
                return [self.backup("auto_checkpoint")]
            return [error(self._id, f"automatic checkpoint failed: {fact.problem}", BACKUP)]
        return [self.backup("manual_checkpoint")] if fact.trigger == "manual" and fact.problem is None else []

    def _restored(self, _: CheckpointRestored) -> Said:
        return [self.backup("restore")]

    def _checkpoint_gone(self, gone: SavedCheckpoint) -> Said:
        """What was never listed goes unheard."""
        return [self.backup("delete")] if gone.trigger in ("auto", "manual") and gone.problem is None else []

    # Lines

    def _written(self, fact: LogWritten) -> Said:
        return self._log(fact.line)

    def _notified(self, fact: Notified) -> Said:
        return self._log(fact.message)

    def _compacted(self, fact: Compacted) -> Said:
        if fact.phase == "failed":
            return self._log(f"the context could not be shortened: {fact.problem or 'no reason is known'}")
        return self._log("the context was shortened") if fact.phase == "done" else []

    def _subagent(self, fact: SubagentStarted) -> Said:
        """One that a tool of ours started is told by that tool's line."""
        named = " ".join(word for word in ("sub-agent", fact.name, "starts") if word)
        return self._log(named) if fact.call is None else []

    def _exited(self, fact: AgentExited) -> Said:
        how = f" with code {fact.code}" if fact.code is not None else ""
        return self._log(f"the agent's program ended ({fact.cause}){how}")

    def _closed(self, fact: SessionClosed) -> Said:
        return [closed(self._id, fact.reason)]


def closed(session: str, reason: str) -> wire.Log:
    """The wire has no word for the end of a session that its link outlives."""
    return wire.Log(session_id=session, line=f"the session is closed: {reason}")


def echo(session: str, text: str, client_message_id: str | None) -> wire.UserMessage:
    """The confirmation of a prompt."""
    message = wire.UserMessage(session_id=session, text=text)
    return (
        message
        if client_message_id is None
        else wire.UserMessage(session_id=session, text=text, client_message_id=client_message_id)
    )


def _text(state: SessionState, setting: str) -> str | None:
    value = state.settings.get(setting)
    return value if isinstance(value, str) and value else None


def _command(state: SessionState) -> str:
    """What runs in a terminal: its command line, or the terminal that is somebody else's."""
    command = state.options.get("command")
    words = command if isinstance(command, list | tuple) else (state.options.get("attach"),)
    return " ".join(word for word in words if isinstance(word, str))


_OF_A_TURN = (ToolCalled, ToolEnded, MessageAdded, TurnSettled)
"""What a turn's view needs to know of, beside what is only a chunk."""

_SAYS: dict[type, Callable[[Projection, Any], Said]] = {
    SettingsChanged: Projection._changed,
    PromptSubmitted: Projection._prompted,
    MessageAdded: Projection._message,
    TurnStarted: Projection._open_view,
    TurnSettled: Projection._settled,
    TurnEnded: Projection._ended,
    ToolCalled: Projection._called,
    ToolEnded: Projection._tool_ended,
    DecisionOpened: Projection._opened,
    DecisionRevised: Projection._opened,
    DecisionResolved: Projection._resolved,
    HistoryReset: Projection._reset,
    TodosChanged: Projection._todos,
    CheckpointTaken: Projection._checkpoint,
    CheckpointRestored: Projection._restored,
    LogWritten: Projection._written,
    Notified: Projection._notified,
    Compacted: Projection._compacted,
    SubagentStarted: Projection._subagent,
    AgentExited: Projection._exited,
    SessionClosed: Projection._closed,
}
