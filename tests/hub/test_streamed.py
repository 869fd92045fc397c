"""What a model says by the thousand takes a short way into the log, and leaves there what the long one would."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from dragoman.hub.errors import Closed, InvalidRequest
from dragoman.hub.events import (
    STREAMED,
    AnyFact,
    Event,
    LogWritten,
    MessageAdded,
    PartDelta,
    PartEnded,
    PartStarted,
    RawPart,
    encode_fact,
)
from dragoman.hub.events.nesting import MAX_NESTING
from dragoman.hub.journal import Journal, SessionRow
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.sqlite import SqliteJournal
from dragoman.hub.state import _FOLDS
from dragoman.hub.turns import TurnContext

from .conftest import MakeHub
from .journal_kit import event, row
from .rig import Hub, fold, idle, same_state

JOURNALS = pytest.mark.parametrize("kind", ["memory", "disk"])

Make = Callable[[], Journal]


def delta(text: str) -> PartDelta:
    return PartDelta(turn="t", part="p", kind="text", text=text)


def maker(kind: str, folder: str) -> Make:
    """Makes journals on one store."""
    if kind == "disk":
        return lambda: SqliteJournal(Path(folder) / "journal.db", epoch="epoch-1")
    store = MemoryStore()
    return lambda: MemoryJournal(store, epoch="epoch-1")


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


# The journal


def written(make: Make, streams: list[bool], *, short: bool) -> tuple[list[SessionRow], list[Event]]:
    """What a restart finds of these events of one session, streamed ones written in the short way or in the long."""

    async def run() -> tuple[list[SessionRow], list[Event]]:
        journal = make()
        await journal.open(lambda _: None)
        known = row("a", 1)
        journal.append(event(1), known)
        for seq, is_streamed in enumerate(streams, 2):
            if not is_streamed:
                known = row("a", seq, unsettled=bool(seq % 2))
                journal.append(event(seq), known)
                continue
            one = Event(seq, 1000 + seq, "epoch-1", delta(f"{seq}"))
            if short:
                journal.append_streamed("a", one, encode_fact(one.fact))
            else:
                journal.append(one, row("a", seq, title=known.title, unsettled=known.unsettled, changed_at=one.at))
            if seq % 7 == 0:
                await journal.flush()
        await journal.close()
        again = make()
        rows = await again.open(lambda _: None)
        events = await again.read("a", 0, 1000)
        await again.close()
        return rows, events

    return asyncio.run(run())


@JOURNALS
@settings(max_examples=25, deadline=None)
@given(streams=some.lists(some.booleans(), max_size=20))
def test_the_short_way_leaves_on_disk_what_the_long_one_does(kind: str, streams: list[bool]) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        short = written(maker(kind, one), streams, short=True)
        assert short == written(maker(kind, other), streams, short=False)
        assert [found.seq for found in short[1]] == list(range(1, len(streams) + 2))


@JOURNALS
async def test_what_is_streamed_out_of_order_or_into_nothing_is_refused(kind: str, tmp_path: Path) -> None:
    journal = maker(kind, str(tmp_path))()
    await journal.open(lambda _: None)
    said = delta("x")

    def stream(session: str, seq: int) -> None:
        journal.append_streamed(session, Event(seq, 1, "epoch-1", said), encode_fact(said))

    with pytest.raises(ValueError, match="row"):
        stream("a", 1)
    journal.append(event(1), row("a", 1))
    for seq in (1, 3):
        with pytest.raises(ValueError, match="expects seq 2"):
            stream("a", seq)
    stream("a", 2)
    await journal.flush()
    await journal.drop(row("a", 2, dropped_at=5))
    with pytest.raises(ValueError, match="dropped"):
        stream("a", 3)
    await journal.close()


# The session


def test_streamed_facts_change_nothing_of_a_session() -> None:
    assert STREAMED.isdisjoint(_FOLDS)


async def in_a_turn(hub: Hub, said: Callable[[TurnContext], None]) -> Session:
    """A session with a turn in which ``said`` was said."""

    async def behave(turn: TurnContext) -> str | None:
        said(turn)
        return None

    hub.puppets.behave = behave
    session = await hub.create("puppet")
    await session.submit(LOCAL, "go", via="test")
    await idle(session)
    return session


async def test_streamed_facts_are_shown_in_their_place_among_others(any_hub: Hub) -> None:
    told: list[AnyFact] = []

    def say(turn: TurnContext) -> None:
        raw = RawPart(turn=turn.turn, raw={"type": "response.output_text.delta", "delta": "é"}, sdk_type="x")
        part: dict[str, Any] = {"turn": turn.turn, "part": "p", "kind": "text"}
        delta = PartDelta(**part, text="a")
        line = LogWritten(line="between", turn=turn.turn)
        told.extend([PartStarted(**part), delta, raw, line, raw, delta, PartEnded(**part)])
        told.append(MessageAdded(message="m", role="assistant", text="aa", turn=turn.turn))
        for fact in told:
            turn.record(fact)

    session = await in_a_turn(any_hub, say)
    assert same_state(session.shown, session.state)
    assert session.row() == session.state.row()
    events = await session.journal.read(session.id, 0, 100)
    assert session.recent(0) == events
    assert [one.fact for one in events if one.fact in told] == told
    assert same_state(fold(events, session.id), session.state)


@pytest.mark.parametrize("levels", [MAX_NESTING - 1, MAX_NESTING, 100_000], ids=["most", "one-more", "endless"])
async def test_a_raw_part_that_no_log_can_hold_is_refused_and_leaves_no_gap(hub: Hub, levels: int) -> None:
    refused: list[str] = []

    def say(turn: TurnContext) -> None:
        for raw in (nested(levels), "\ud800", object()):
            try:
                turn.record(RawPart(turn=turn.turn, raw=raw))
            except InvalidRequest as problem:
                refused.append(str(problem))

    session = await in_a_turn(hub, say)
    assert len(refused) == 2 + (levels >= MAX_NESTING)
    assert ("nests over" in refused[0]) == (levels >= MAX_NESTING)
    assert "UTF-8" in refused[-2]
    kept = [one.fact for one in session.recent(0) or () if isinstance(one.fact, RawPart)]
    assert len(kept) == (levels < MAX_NESTING)


async def test_a_closed_session_takes_nothing_streamed(make_hub: MakeHub) -> None:
    hub = await make_hub()
    session = await hub.create("puppet")
    await session.close("over")
    with pytest.raises(Closed):
        session.record(delta("late"))
