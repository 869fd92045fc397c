"""Which session a link that names none is on: the oldest that runs, else the newest that ended."""

from __future__ import annotations

import pytest

from dragoman.hub.events import AgentExited, AgentStarted, StateChanged
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from tests.dialects.coop.driven import Play


async def another(play: Play, state: str) -> Session:
    """One more session, as far as its state goes; ``new`` was never started."""
    session = await play.registry.create(LOCAL, kind="terminal", agent="claude", cwd=str(play.folder))
    if state != "new":
        session.record(AgentStarted(run=1), settling=True)
    if state == "exited":
        session.record(AgentExited(cause="exit", code=0), settling=True)
    elif state != "new":
        session.record(StateChanged(prev="starting", next=state, cause="hook:x"), settling=True)
    await session.durable(session.head)
    return session


@pytest.mark.parametrize(
    ("states", "meant"),
    [
        (("idle", "working"), 0),
        (("working", "idle"), 0),
        (("new", "idle"), 1),
        (("exited", "idle", "working"), 1),
        (("idle", "exited"), 0),
        (("exited", "exited"), 1),
        (("exited", "new"), 0),
    ],
)
async def test_an_agent_that_is_at_rest_lives(play: Play, states: tuple[str, ...], meant: int) -> None:
    sessions = [await another(play, state) for state in states]
    found, _ = await play.dialect.find(LOCAL, None)
    assert found.id == sessions[meant].id
