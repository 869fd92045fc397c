"""Witnesses: every durable event of every session, each between the state before it and the one after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.hub.events import (
    STREAMED,
    AnyFact,
    Event,
    LogWritten,
    Notified,
    PartDelta,
    PartStarted,
    SettingsChanged,
    StepStarted,
)
from dragoman.hub.log import SessionLog
from dragoman.hub.permissions import LOCAL
from dragoman.hub.state import encode_state
from dragoman.hub.turns import TurnContext

from .rig import PATIENCE, Hub, InMemory, ask, fold, idle, until

Call = tuple[str, str, int]
"""What was called, of which session, and the event's seq; ``committed`` is of none."""


class Notes:
    """A witness that writes down what it is told, and holds it against the session's state each time."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.seen: dict[str, list[Event]] = {}
        self.states: list[bytes] = []

    def before(self, session: SessionLog, event: Event) -> None:
        assert session.shown.seq == event.seq - 1, "what was true until then"
        self.states.append(encode_state(session.shown))
        self.calls.append(("before", session.id, event.seq))

    def after(self, session: SessionLog, event: Event) -> None:
        assert session.shown.seq == event.seq
        self.calls.append(("after", session.id, event.seq))
        self.seen.setdefault(session.id, []).append(event)

    def committed(self) -> None:
        self.calls.append(("committed", "", 0))


class Broken:
    """A witness that fails, wherever it is told to."""

    def __init__(self, *where: str) -> None:
        self.where = where
        self.told = 0

    def before(self, session: SessionLog, event: Event) -> None:
        self._fail("before")

    def after(self, session: SessionLog, event: Event) -> None:
        self._fail("after")

    def committed(self) -> None:
        self._fail("committed")

    def _fail(self, what: str) -> None:
        self.told += 1
        if what in self.where:
            raise RuntimeError("a broken witness")


async def test_each_event_is_seen_once_between_the_states_before_and_after_it(any_hub: Hub) -> None:
    notes = Notes()
    any_hub.registry.witness(notes)
    one, two = await any_hub.create(), await any_hub.create()
    await one.submit(LOCAL, "burst 20\npermit rm", via="test")
    await two.submit(LOCAL, "say hello", via="test")
    await until(lambda: one.shown.decisions)
    await one.cancel(LOCAL, via="test")
    await asyncio.gather(idle(one), idle(two))
    for session in (one, two):
        log = await any_hub.log(session)
        assert any(type(event.fact) in STREAMED for event in log), "there is something that is not told"
        assert notes.seen[session.id] == [event for event in log if type(event.fact) not in STREAMED]
    _in_order(notes.calls)


async def test_what_is_seen_before_an_event_is_the_fold_up_to_it(hub: Hub) -> None:
    session = await hub.create("puppet")
    notes = Notes()
    hub.registry.witness(notes)
    for fact in (Notified(message="1"), SettingsChanged(changes={"title": "new"}), ask()):
        session.record(fact)
    await session.durable(session.head)
    log = await hub.log(session)
    assert notes.states == [encode_state(fold(log[:cut], session.id)) for cut in (1, 2, 3)]


async def test_what_comes_by_the_thousand_is_not_witnessed_but_counted(hub: Hub) -> None:
    async def talk(turn: TurnContext) -> str | None:
        turn.session.record(PartStarted(turn=turn.turn, part="p", kind="text"))
        for _ in range(9):
            turn.session.record(PartDelta(turn=turn.turn, part="p", kind="text", text="x"))
        return None

    hub.puppets.behave = talk
    session = await hub.create("puppet")
    notes = Notes()
    hub.registry.witness(notes)
    await session.submit(LOCAL, "x", via="test")
    await idle(session)
    seen = [event.seq for event in notes.seen[session.id]]
    started = next(event.seq for event in notes.seen[session.id] if isinstance(event.fact, PartStarted))
    assert seen == [*range(2, started + 1), *range(started + 10, session.head + 1)]


async def test_nothing_is_witnessed_before_it_is_durable_nor_after_the_witness_left(hub: Hub) -> None:
    """Invariant 3."""
    session = await hub.create("puppet")
    notes = Notes()
    stop = hub.registry.witness(notes)
    hub.journal.fail("the disk is full")
    event = session.record(Notified(message="1"))
    assert notes.calls == []
    hub.journal.heal()
    await session.durable(event.seq)
    assert [seen.seq for seen in notes.seen[session.id]] == [2]
    stop()
    await session.durable(session.record(Notified(message="2")).seq)
    assert [seen.seq for seen in notes.seen[session.id]] == [2]


async def test_several_witnesses_are_told_the_same_in_the_same_order(hub: Hub) -> None:
    order: list[str] = []

    class Named(Notes):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def after(self, session: SessionLog, event: Event) -> None:
            super().after(session, event)
            order.append(self.name)

    first, second = Named("first"), Named("second")
    hub.registry.witness(first)
    hub.registry.witness(second)
    session = await hub.create("puppet")
    assert first.calls == second.calls
    assert order == ["first", "second"]
    assert first.seen.keys() == {session.id}


async def test_one_that_leaves_while_it_is_told_takes_nothing_from_others(hub: Hub) -> None:
    class Leaves(Notes):
        stop: Callable[[], None]

        def committed(self) -> None:
            super().committed()
            self.stop()

    leaves, stays = Leaves(), Notes()
    leaves.stop = hub.registry.witness(leaves)
    hub.registry.witness(stays)
    session = await hub.create("puppet")
    await session.durable(session.record(Notified(message="1")).seq)
    assert leaves.calls == [("before", session.id, 1), ("after", session.id, 1), ("committed", "", 0)]
    assert [call for call in stays.calls if call[0] == "committed"] == [("committed", "", 0)] * 2


@pytest.mark.parametrize("where", [("before",), ("after",), ("committed",), ("before", "after", "committed")])
async def test_one_that_fails_is_in_nobodys_way(hub: Hub, where: tuple[str, ...]) -> None:
    """Invariant 8: the log goes on, its clients hear of it, other witnesses are told."""
    broken, notes, woken = Broken(*where), Notes(), []
    hub.registry.witness(broken)
    hub.registry.witness(notes)
    async with asyncio.timeout(PATIENCE):
        session = await hub.create("puppet")
        session.watch(lambda: woken.append(session.shown.seq))
        await session.durable(session.record(Notified(message="1")).seq)
        await session.durable(session.record(Notified(message="2")).seq)
    assert broken.told == 9, "it is told all the same"
    assert session.shown.seq == session.head == 3
    assert [event.seq for event in notes.seen[session.id]] == [1, 2, 3]
    assert woken[-1] == 3
    await hub.check(session)


async def test_a_session_is_attended_while_somebody_watches_it_or_all(hub: Hub) -> None:
    session, other = await hub.create("puppet"), await hub.create("puppet")

    def attended() -> tuple[bool, bool]:
        return session.attended, other.attended

    assert attended() == (False, False)
    leave = session.watch(lambda: None)
    assert attended() == (True, False)
    leave()
    assert attended() == (False, False)
    stop = hub.registry.witness(Notes())
    assert attended() == (True, True)
    assert not session.watched, "a witness is no follower: the session may leave memory"
    stop()
    assert attended() == (False, False)


SOME: tuple[AnyFact, ...] = (
    PartDelta(turn="t", part="p", kind="text", text="x"),
    PartStarted(turn="t", part="p", kind="text"),
    StepStarted(turn="t", step=1),
    LogWritten(line="x"),
    Notified(message="x"),
)


@settings(max_examples=40, deadline=None)
@given(script=st.lists(st.tuples(st.integers(0, 1), st.sampled_from([*SOME, None])), max_size=30))
def test_whatever_comes_together_is_seen_in_the_order_of_each_log(script: list[tuple[int, AnyFact | None]]) -> None:
    """``None`` waits for the disk: what stands between two of them may become durable as one."""

    async def play() -> None:
        hub, notes = Hub(InMemory(), Path("/")), Notes()
        registry = await hub.open()
        registry.witness(notes)
        sessions = [await hub.create("puppet") for _ in range(2)]
        for which, fact in script:
            if fact is None:
                await sessions[which].durable(sessions[which].head)
            else:
                sessions[which].record(fact)
        for session in sessions:
            await session.durable(session.head)
            log = await hub.log(session)
            assert notes.seen[session.id] == [event for event in log if type(event.fact) not in STREAMED]
        _in_order(notes.calls)
        await hub.close()

    asyncio.run(play())


def _in_order(calls: list[Call]) -> None:
    """Each ``before`` has its ``after`` next, and all that was told is followed by ``committed``."""
    assert calls[-1][0] == "committed"
    at = 0
    while at < len(calls):
        if calls[at][0] != "committed":
            assert [calls[at][0], calls[at + 1][0]] == ["before", "after"]
            assert calls[at][1:] == calls[at + 1][1:]
            at += 1
        at += 1
