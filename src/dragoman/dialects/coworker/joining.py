"""How a link comes to its session: the fold at the place in the log where it begins to read."""

from __future__ import annotations

from dragoman.hub.errors import InvalidRequest
from dragoman.hub.session import Session
from dragoman.hub.state import SessionState, decode_state, encode_state

from .projection import Projection, Usual


async def projection_at(session: Session, cursor: int | None, usual: Usual) -> Projection:
    """A projection of this session's log at ``cursor``; None is where it is now.

    Raises ``InvalidRequest`` for a cursor beyond the log, ``Gone``.
    """
    state = _now(session) if cursor is None else await _then(session, cursor)
    projection = Projection(state, usual, backups=session.checkpoint_folder)
    if state.turn is not None:
        await _catch_up(projection, session, state.turn.seq)
    return projection


def _now(session: Session) -> SessionState:
    return decode_state(encode_state(session.shown))


async def _then(session: Session, cursor: int) -> SessionState:
    """The fold of the log up to there. Reads it from the start: what a fold was is not kept."""
    if not 0 < cursor <= session.shown.seq:
        raise InvalidRequest(f"cursor {cursor} is not between 1 and {session.shown.seq}")
    if cursor == session.shown.seq:
        return _now(session)
    state = SessionState(session=session.id)
    while state.seq < cursor:
        for event in await session.read(state.seq, min(session.limits.read_batch, cursor - state.seq)):
            state.apply(event)
    return state


async def _catch_up(projection: Projection, session: Session, first: int) -> None:
    """Take the open turn in, from its start to the cursor: its chunks are numbered from there."""
    reached, cursor = first - 1, projection.state.seq
    while reached < cursor:
        for event in await session.read(reached, min(session.limits.read_batch, cursor - reached)):
            projection.catch_up(event)
            reached = event.seq
