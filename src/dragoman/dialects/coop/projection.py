"""Hub facts and terminal pictures as coop messages: pure functions, plus the counters that the wire numbers by."""

from __future__ import annotations

from dragoman.hub.events import AgentExited, AnyFact, HistoryReset, HookAnswered, MessageAdded, StateChanged
from dragoman.hub.ports import ScreenSnapshot, Tape, Terminal
from dragoman.hub.state import SessionState

from . import messages as wire


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
        prompt=None,
        error_detail=status.error_detail,
        error_category=status.error_category,
        cause=status.cause,
        last_message=status.last_message,
    )


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
        self._hooks = {"stop": state.hooks.get("stop", 0), "start": state.hooks.get("start", 0)}

    def project(self, fact: AnyFact) -> wire.ServerMessage | None:
        """The message for this fact; None for facts that coop does not show."""
        if isinstance(fact, StateChanged):
            return self._transition(fact)
        if isinstance(fact, AgentExited):
            return wire.Exit(code=fact.code, signal=fact.signal)
        if isinstance(fact, HookAnswered) and fact.hook != "end" and (fact.hook == "start" or fact.verdict is not None):
            return self._hook(fact)
        if isinstance(fact, MessageAdded) and fact.role == "assistant" and fact.text.strip():
            self._last_message = fact.text
        elif isinstance(fact, HistoryReset):
            self._last_message = None
        return None

    def _transition(self, fact: StateChanged) -> wire.Transition | None:
        self._state_seq += 1
        if fact.next == "exited":
            return None  # ``exit`` stands for it
        return wire.Transition(
            prev=fact.prev,
            next=fact.next,
            seq=self._state_seq,
            prompt=None,
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
