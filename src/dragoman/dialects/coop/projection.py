"""Hub facts and terminal pictures as coop messages: pure functions, plus the counters that the wire numbers by."""

from __future__ import annotations

from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    AnyFact,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    HistoryReset,
    HookAnswered,
    MessageAdded,
    StateChanged,
)
from dragoman.hub.ports import ScreenSnapshot, Tape, Terminal
from dragoman.hub.state import SessionState, revised

from . import messages as wire
from .binding import Asked, asked_by
from .prompts import prompt_context


def screen(picture: ScreenSnapshot) -> wire.Screen:
    """A picture (seed: ``screen``)."""
    cursor = wire.CursorPosition(picture.cursor.row, picture.cursor.col)
    return wire.Screen(
        lines=picture.lines,
        cols=picture.cols,
        rows=picture.rows,
        alt_screen=picture.alt_screen,
        cursor=cursor,
        seq=picture.seq,
    )


def replay(tape: Tape, offset: int, limit: int | None) -> tuple[int, bytes, int]:
    """Bytes from ``offset`` (moved up to the oldest held), where they start, and where they end."""
    start, data = tape.read(offset, limit)
    return start, data, start + len(data)


def state_now(state: SessionState) -> wire.Transition:
    """The reply to ``state:get``: ``prev`` and ``next`` are the same, ``seq`` is the state's."""
    status = state.status
    return wire.Transition(
        prev=status.state,
        next=status.state,
        seq=status.seq,
        prompt=prompt_context(state.prompt),
        error_detail=status.error_detail,
        error_category=status.error_category,
        cause=status.cause,
        last_message=status.last_message,
    )


def tier(cause: str) -> str:
    """Coop's number, as text, for what detected a state: the first word of its cause; ``none`` for any other."""
    return _TIERS.get(cause.partition(":")[0], "none")


_TIERS = {"hook": "1", "log": "2", "status": "2", "stdout": "3", "process": "4", "screen": "5", "title": "5"}


def status_now(state: SessionState, terminal: Terminal, *, now: int, links: int) -> wire.Status:
    """The reply to ``get:status``. Counters and uptime are the session's."""
    exited = state.exit is not None
    pid = state.executor.pid if state.executor is not None else None
    return wire.Status(
        state="exited" if exited else "running" if pid is not None else "starting",
        pid=pid,
        uptime_secs=max(0, now - state.created_at) // 1000,
        exit_code=state.exit.code if state.exit is not None else None,
        screen_seq=terminal.screen.seq if terminal.screen is not None else 0,
        bytes_read=terminal.tape.end,
        bytes_written=terminal.bytes_written,
        ws_clients=links,
    )


class StateProjection:
    """Turns facts into ``transition``, ``exit``, ``stop`` and ``start``, numbering as the wire does.

    Starts from the state at a cursor and must then be shown every fact after it, in order.
    """

    def __init__(self, state: SessionState) -> None:
        self._state_seq = state.status.seq
        self._last_message = state.status.last_message
        self._decisions = dict(state.decisions)
        self._prompt = state.status.decision if state.status.state == "prompt" else None
        self._hooks = {"stop": state.hooks.get("stop", 0), "start": state.hooks.get("start", 0)}

    @property
    def asked(self) -> Asked | None:
        """What the agent asks, as far as it has been projected."""
        return asked_by(self._current)

    def project(self, fact: AnyFact) -> wire.ServerMessage | None:
        """The message for this fact; None for facts that coop does not show."""
        if isinstance(fact, StateChanged):
            return self._transition(fact)
        if isinstance(fact, DecisionRevised):
            return self._revision(fact)
        if isinstance(fact, AgentExited):
            return wire.Exit(code=fact.code, signal=fact.signal)
        if isinstance(fact, HookAnswered) and fact.hook != "end" and (fact.hook == "start" or fact.verdict is not None):
            return self._hook(fact)
        self._follow(fact)
        return None

    @property
    def _current(self) -> DecisionOpened | None:
        return self._decisions.get(self._prompt) if self._prompt is not None else None

    def _follow(self, fact: AnyFact) -> None:
        """What later messages need."""
        if isinstance(fact, DecisionOpened):
            self._decisions[fact.decision] = fact
        elif isinstance(fact, DecisionResolved):
            self._decisions.pop(fact.decision, None)
        elif isinstance(fact, MessageAdded) and fact.role == "assistant" and fact.text.strip():
            self._last_message = fact.text
        elif isinstance(fact, HistoryReset):
            self._last_message = None
        elif isinstance(fact, AgentStarted):
            self._last_message = self._prompt = None

    def _revision(self, fact: DecisionRevised) -> wire.Transition | None:
        """The prompt again, with what is known now: options, say, or the question that its dialog has come to."""
        opened = self._decisions.get(fact.decision)
        if opened is None:
            return None
        self._decisions[fact.decision] = revised(opened, fact)
        if fact.decision != self._prompt:
            return None
        progress = fact.question_current is not None
        return wire.Transition(
            prev="prompt",
            next="prompt",
            seq=self._state_seq,
            prompt=prompt_context(self._current),
            error_detail=None,
            error_category=None,
            cause=fact.cause if fact.cause is not None else "" if progress else "enriched",
            last_message=self._last_message,
        )

    def _transition(self, fact: StateChanged) -> wire.Transition | None:
        self._state_seq += not fact.revises
        self._prompt = fact.decision if fact.next == "prompt" else None
        if fact.next == "exited":
            return None  # ``exit`` stands for it
        return wire.Transition(
            prev=fact.prev,
            next=fact.next,
            seq=self._state_seq,
            prompt=prompt_context(self._current),
            error_detail=fact.error_detail,
            error_category=fact.error_category,
            cause=fact.cause,
            last_message=self._last_message,
        )

    def _hook(self, fact: HookAnswered) -> wire.ServerMessage:
        seq = self._hooks[fact.hook]
        self._hooks[fact.hook] = seq + 1
        if fact.hook == "stop":
            return wire.Stop(type=fact.verdict or "", signal=fact.signal, error_detail=fact.error_detail, seq=seq)
        return wire.Start(
            source=fact.source or "unknown", session_id=fact.agent_session, injected=fact.injected, seq=seq
        )
