"""Readers by cursor: no gap, no overlap, nothing that is not durable, however slow they are (invariants 1, 2, 5)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.hub.errors import Gone, InvalidRequest
from dragoman.hub.events import Event, LogWritten, PartDelta, encode_fact
from dragoman.hub.followers import Follower, Tail
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.state import SessionState, decode_state, encode_state

from .conftest import MakeHub
from .rig import PATIENCE, Hub, InMemory, fold, idle, same_state, turns_of_the_loop, until

_HERE = Path(__file__).parent


def line(number: int) -> LogWritten:
    return LogWritten(line=f"line {number}")


def seqs(events: list[Event] | None) -> list[int]:
    assert events is not None
    return [event.seq for event in events]


async def filled(hub: Hub, count: int) -> Session:
    """A session with that many durable events."""
    session = await hub.create("puppet")
    for number in range(count - 1):
        session.record(line(number))
    await session.durable(count)
    return session


async def take_all(follower: Follower, limit: int | None = None) -> list[Event]:
    """Read as a link does: from memory while it reaches back, else from the journal."""
    found: list[Event] = []
    while follower.behind:
        events = follower.take(limit)
        found += await follower.fetch(limit) if events is None else events
    return found


# The tail


@given(
    sizes=st.lists(st.integers(0, 600), min_size=1, max_size=60),
    events=st.integers(1, 10),
    octets=st.integers(300, 3000),
    start=st.integers(0, 5),
)
def test_a_tail_holds_the_newest_events_within_both_limits(
    sizes: list[int], events: int, octets: int, start: int
) -> None:
    tail = Tail(HubLimits(tail_events=events, tail_bytes=octets), start)
    log = [Event(start + n, 0, "e", LogWritten(line="x" * size)) for n, size in enumerate(sizes, 1)]
    for event in log:
        tail.append(event, len(encode_fact(event.fact)))
    last = start + len(sizes)
    held = [event for event in log if event.seq >= tail.first]
    assert len(held) <= events
    assert sum(200 + len(encode_fact(event.fact)) for event in held) <= octets
    # One more would have been too many.
    oldest_gone = log[len(log) - len(held) - 1] if len(held) < len(log) else None
    if oldest_gone is not None:
        more = [oldest_gone, *held]
        assert len(more) > events or sum(200 + len(encode_fact(event.fact)) for event in more) > octets
    for cursor in range(last + 1):
        for limit in (1, 3, 100):
            expected = [event for event in log if event.seq > cursor][:limit]
            assert tail.after(cursor, limit) == (expected if cursor + 1 >= tail.first else None)


def test_deltas_are_weighed_too() -> None:
    tail = Tail(HubLimits(tail_events=100, tail_bytes=1000), 0)
    delta = PartDelta(turn="t", part="p", kind="text", text="x" * 200)
    for seq in range(1, 11):
        tail.append(Event(seq, 0, "e", delta), len(encode_fact(delta)))
    assert tail.first == 10 - 1000 // (200 + len(encode_fact(delta))) + 1


def test_a_tail_takes_no_event_out_of_order() -> None:
    tail = Tail(HubLimits(), 3)
    for seq in (3, 5):
        with pytest.raises(AssertionError):
            tail.append(Event(seq, 0, "e", line(0)), 10)


# Cursors


async def test_a_follower_reads_on_from_its_cursor(any_hub: Hub) -> None:
    session = await filled(any_hub, 20)
    for cursor in (0, 1, 19, 20):
        follower = session.follow(cursor)
        assert seqs(await take_all(follower, 7)) == list(range(cursor + 1, 21))
        assert (follower.cursor, follower.behind, follower.take()) == (20, False, [])


async def test_a_cursor_beyond_the_log_is_refused(hub: Hub) -> None:
    session = await filled(hub, 5)
    for cursor in (-1, 6, 1000):
        with pytest.raises(InvalidRequest):
            session.follow(cursor)


async def test_a_cursor_beyond_what_is_durable_is_refused(hub: Hub) -> None:
    """Invariant 1: nobody can have it."""
    session = await filled(hub, 5)
    hub.journal.fail("the disk is gone")
    session.record(line(5))
    await turns_of_the_loop()
    with pytest.raises(InvalidRequest):
        session.follow(6)


async def test_a_reader_behind_memory_reads_from_the_journal_and_joins_exactly(make_hub: MakeHub) -> None:
    """Invariants 2 and 5: what memory let go comes from the disk, and the seam does not show."""
    for disk in (False, True):
        hub = await make_hub(disk=disk, limits=HubLimits(tail_events=10, read_batch=7))
        session = await filled(hub, 100)
        follower = session.follow(3)
        assert follower.take() is None
        assert follower.cursor == 3
        found = await follower.fetch()
        while follower.behind:
            events = follower.take(4)
            found += await follower.fetch() if events is None else events
            if session.head < 130:
                session.record(line(session.head))
                await session.durable(session.head)
        assert seqs(found) == list(range(4, 131))


async def test_what_memory_and_journal_hand_out_is_the_same(make_hub: MakeHub) -> None:
    """Invariant 2."""
    for disk in (False, True):
        hub = await make_hub(disk=disk)
        session = await hub.create()
        await session.submit(LOCAL, 'think a b\nsay é ☃ \x00 "quoted"\ntool t {"a": [1, 2.5, null]}', via="x")
        await idle(session)
        recent = session.recent(0, 1000)
        assert recent == await hub.log(session)


async def test_batches_have_a_limit(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(tail_events=50, read_batch=5))
    session = await filled(hub, 100)
    assert len(await session.follow(0).fetch()) == 5
    assert len(session.follow(90).take() or []) == 5
    assert len(session.follow(90).take(3) or []) == 3
    assert len(await session.follow(0).fetch(8)) == 8


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
async def test_a_dropped_log_is_gone_for_whoever_is_behind(make_hub: MakeHub, disk: bool) -> None:
    hub = await make_hub(disk=disk, limits=HubLimits(tail_events=2))
    session = await filled(hub, 10)
    follower = session.follow(3)
    await hub.registry.delete(LOCAL, session.id)
    assert follower.take() is None
    with pytest.raises(Gone):
        await follower.fetch()


# Snapshot and follow


class Fold:
    """A reader as every dialect is one: a snapshot, and every event after its cursor, in order."""

    def __init__(self, session: Session) -> None:
        self.state: SessionState = decode_state(encode_state(session.shown))
        self.follower = session.follow(self.state.seq)

    async def read_on(self) -> None:
        """One batch, from wherever it is; the fold takes only what comes next."""
        events = self.follower.take(16)
        fold(await self.follower.fetch(16) if events is None else events, state=self.state)

    async def catch_up(self) -> None:
        fold(await take_all(self.follower), state=self.state)

    def agrees_with(self, session: Session) -> bool:
        return same_state(self.state, session.shown)


async def writing(session: Session, done: Callable[[], bool]) -> None:
    """A fast writer: bursts, as fast as the disk takes them."""
    randomly = random.Random(11)
    while not done():
        for _ in range(randomly.randrange(1, 12)):
            session.record(line(session.head))
        await asyncio.sleep(0)
        if session.head - session.shown.seq > 100:
            await session.durable(session.head)


@asynccontextmanager
async def written(session: Session, done: Callable[[], bool]) -> AsyncIterator[asyncio.Task[None]]:
    """A fast writer meanwhile, that ends with the block."""
    writer = asyncio.create_task(writing(session, done))
    try:
        yield writer
        await writer
    finally:
        writer.cancel()


async def grown(session: Session) -> None:
    """Wait until more is shown than now."""
    await session.durable(session.shown.seq + 1)


@pytest.mark.parametrize(("disk", "attaches"), [(False, 1000), (True, 200)], ids=["memory", "disk"])
async def test_snapshot_and_follow_have_no_gap_and_no_overlap_under_a_fast_writer(
    make_hub: MakeHub, disk: bool, attaches: int
) -> None:
    """Invariant 2: attaches while the log grows; each one's fold is the session's, and sees no event early."""
    hub = await make_hub(disk=disk, limits=HubLimits(tail_events=64))
    session = await hub.create("puppet")
    readers: list[Fold] = []
    randomly = random.Random(13)
    async with asyncio.timeout(30), written(session, lambda: len(readers) == attaches):
        while len(readers) < attaches:
            reader = Fold(session)
            assert reader.state.seq == session.shown.seq
            readers.append(reader)
            if randomly.random() < 0.1:
                await randomly.choice(readers).read_on()
            elif randomly.random() < 0.2:
                await grown(session)
    await session.durable(session.head)
    assert len({reader.follower.cursor for reader in readers}) > attaches // 20
    for reader in readers:
        await reader.catch_up()
        assert reader.agrees_with(session)


async def test_nobody_sees_what_is_not_durable(any_hub: Hub) -> None:
    """Invariants 1 and 2: whatever a reader has is in the journal already."""
    session = await any_hub.create("puppet")
    follower = session.follow(0)
    found = 0
    async with asyncio.timeout(30), written(session, lambda: session.head > 500) as writer:
        while not writer.done() or follower.behind:
            events = await take_all(follower)
            found += len(events)
            if events:
                stored = await any_hub.journal.read(session.id, events[0].seq - 1, len(events))
                assert stored == events
            else:
                await asyncio.sleep(0)
    await session.durable(session.head)
    found += len(await take_all(follower))
    assert found == session.head


async def collect(session: Session, after: int, upto: int) -> AsyncIterator[Event]:
    async with aclosing(session.follow(after).__aiter__()) as events:  # type: ignore[type-var]
        async for event in events:
            yield event
            if event.seq >= upto:
                return


async def test_iterating_waits_for_more_and_misses_nothing(any_hub: Hub) -> None:
    session = await any_hub.create("puppet")

    async def read() -> list[int]:
        return [event.seq async for event in collect(session, 0, 400)]

    readers = [asyncio.create_task(read()) for _ in range(5)]
    await writing(session, lambda: session.head >= 400)
    async with asyncio.timeout(PATIENCE):
        for found in await asyncio.gather(*readers):
            assert found == list(range(1, 401))


# Watchers


async def test_watchers_are_told_once_per_commit_until_they_stop(hub: Hub) -> None:
    session = await hub.create("puppet")
    told: list[int] = []
    stop = session.watch(lambda: told.append(session.shown.seq))
    for _ in range(3):
        session.record(line(0))
    await session.durable(session.head)
    assert told == [4]
    stop()
    stop()
    session.record(line(0))
    await session.durable(session.head)
    assert told == [4]


async def test_the_same_callback_twice_is_two_watchers(hub: Hub) -> None:
    session = await hub.create("puppet")
    told: list[int] = []

    def callback() -> None:
        told.append(1)

    session.watch(callback)
    stop = session.watch(callback)
    stop()
    session.record(line(0))
    await session.durable(session.head)
    assert told == [1]


async def test_a_watcher_may_stop_itself_and_others_while_it_is_told(hub: Hub) -> None:
    session = await hub.create("puppet")
    told: list[str] = []
    stops: list[object] = []

    def first() -> None:
        told.append("first")
        for stop in stops:
            stop()  # type: ignore[operator]

    stops.append(session.watch(first))
    stops.append(session.watch(lambda: told.append("second")))
    session.record(line(0))
    await session.durable(session.head)
    session.record(line(0))
    await session.durable(session.head)
    assert told[:1] == ["first"]
    assert told.count("first") == 1
    assert told.count("second") <= 1


async def test_a_watcher_that_fails_is_in_nobodys_way(hub: Hub) -> None:
    """Invariant 8: not in another watcher's, and not in another session's that became durable with it."""
    one, two = await hub.create("puppet"), await hub.create("puppet")

    def fails() -> None:
        raise RuntimeError("a broken link")

    told: list[str] = []
    one.watch(fails)
    one.watch(lambda: told.append("one"))
    two.watch(lambda: told.append("two"))
    one.record(line(0))
    two.record(line(0))
    async with asyncio.timeout(PATIENCE):
        await one.durable(2)
        await two.durable(2)
    await until(lambda: sorted(told) == ["one", "two"])


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(st.integers(0, 9), max_size=30), tail=st.integers(1, 12), start=st.integers(0, 10))
async def test_any_mix_of_take_and_fetch_reads_each_event_once(steps: list[int], tail: int, start: int) -> None:
    """Invariant 2: whatever a reader does between two writes."""
    hub = Hub(InMemory(), cwd=_HERE, limits=HubLimits(tail_events=tail))
    await hub.open()
    session = await filled(hub, 10)
    follower = session.follow(start)
    found: list[int] = []
    for step in steps:
        if step < 3:
            session.record(line(session.head))
        elif step < 5:
            await session.durable(session.head)
        elif step < 8:
            found += seqs(follower.take(step - 4) or [])
        else:
            found += seqs(await follower.fetch(step - 6))
    await session.durable(session.head)
    found += seqs(await take_all(follower))
    assert found == list(range(start + 1, session.head + 1))
    await hub.close()
