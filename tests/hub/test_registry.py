"""The hub's front door: made once, loaded once, listed, let go, dropped; and what nobody may see (invariants 2, 12)."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub import registry as registry_module
from dragoman.hub.errors import (
    Closed,
    Gone,
    HubError,
    InvalidRequest,
    LimitReached,
    NotPermitted,
    StorageUnavailable,
    UnknownSession,
)
from dragoman.hub.events import Event, LogWritten, PartDelta, SessionClosed, SessionCreated, TurnEnded
from dragoman.hub.journal import SessionRow, Snapshot
from dragoman.hub.limits import HubLimits
from dragoman.hub.memory import MemoryJournal
from dragoman.hub.permissions import EVERYTHING, LOCAL, STRANGER, Principal
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext

from .conftest import MakeHub
from .rig import PATIENCE, FakeClock, Hub, InMemory, answer, ask, idle, same_state, turns_of_the_loop, until


@pytest.fixture(autouse=True)
def _quick_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that nobody uses leave memory at once."""
    monkeypatch.setattr(registry_module, "TRIM_DELAY", 0.0)


class CountingJournal(MemoryJournal):
    """Says which logs were read."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.reads: list[str] = []
        self.snapshots: list[str] = []
        self.gate: asyncio.Event | None = None

    async def read(self, session: str, after: int, limit: int) -> list[Event]:
        self.reads.append(session)
        if self.gate is not None:
            await self.gate.wait()
        return await super().read(session, after, limit)

    async def snapshot(self, session: str) -> Snapshot | None:
        self.snapshots.append(session)
        return await super().snapshot(session)


class Counting(InMemory):
    def journal(self) -> MemoryJournal:
        return CountingJournal(self.store, **self.limits)


async def forever(turn: TurnContext) -> str | None:
    await asyncio.get_running_loop().create_future()
    return None


async def say(session: Session, count: int = 1) -> None:
    for _ in range(count):
        session.record(LogWritten(line=f"line {session.head}"))
    await session.durable(session.head)


# Made


async def test_a_new_session_is_durable_and_says_what_it_is(any_hub: Hub) -> None:
    session = await any_hub.create("puppet", agent="claude", title="mine", options={"a": 1}, settings={"mode": "plan"})
    assert await any_hub.facts(session) == [
        SessionCreated(
            kind="puppet",
            agent="claude",
            cwd=any_hub.cwd,
            title="mine",
            owner="local",
            options={"a": 1},
            settings={"mode": "plan"},
        )
    ]
    (row,) = any_hub.registry.rows(LOCAL)
    assert (row.session, row.title, row.status, row.owner) == (session.id, "mine", "idle", "local")


async def test_a_session_without_a_title_has_its_folders(hub: Hub) -> None:
    assert (await hub.create()).shown.title == "work"


async def test_what_may_be_secret_is_kept_beside_the_log(hub: Hub) -> None:
    """Invariants 2 and 10."""
    session = await hub.create("puppet", options={"a": 1, "secret": "s3cret"})
    assert session.shown.options == {"a": 1}
    assert hub.puppets.adopted[session.id] == {"a": 1, "secret": "s3cret"}


@pytest.mark.parametrize("cwd", ["relative", "/no/such/folder", __file__, "", "/\x00", "/" + "x" * 5000, "/\ud800"])
async def test_a_session_needs_an_existing_folder(hub: Hub, cwd: str) -> None:
    with pytest.raises(InvalidRequest):
        await hub.registry.create(LOCAL, kind="puppet", cwd=cwd)
    assert hub.registry.loaded == 0


async def test_a_session_needs_a_known_kind_and_options_that_it_takes(hub: Hub) -> None:
    with pytest.raises(InvalidRequest, match="puppet"):
        await hub.create("nonsense")
    with pytest.raises(InvalidRequest, match="colour"):
        await hub.create("scripted", options={"colour": "red"})


@pytest.mark.parametrize(
    "bad", [{"title": "\ud800"}, {"settings": {"a": "\ud800"}}, {"options": {"a": object()}}, {"agent": "\ud800"}]
)
async def test_a_session_that_cannot_be_stored_leaves_nothing(hub: Hub, bad: dict[str, Any]) -> None:
    """Invariant 8."""
    with pytest.raises(InvalidRequest):
        await hub.create("puppet", **bad)
    assert hub.registry.loaded == 0
    assert hub.registry.rows(LOCAL) == []
    assert hub.puppets.gone == list(hub.puppets.adopted)


async def test_a_folder_whose_name_is_no_text_is_refused(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / b"caf\xe9".decode(errors="surrogateescape")
    folder.mkdir()
    with pytest.raises(InvalidRequest, match=r"\A'.*caf\\udce9' is not UTF-8"):
        await hub.registry.create(LOCAL, kind="puppet", cwd=str(folder))
    assert hub.registry.loaded == 0


async def test_two_creates_at_once_are_two_sessions(any_hub: Hub) -> None:
    sessions = await asyncio.gather(*(any_hub.create("puppet") for _ in range(20)))
    assert len({session.id for session in sessions}) == 20
    assert len(any_hub.registry.rows(LOCAL)) == 20


async def test_sessions_have_a_limit_for_creates_at_once_too(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(sessions=3))
    results = await asyncio.gather(*(hub.create("puppet") for _ in range(5)), return_exceptions=True)
    assert [type(result) for result in results] == [Session, Session, Session, LimitReached, LimitReached]
    assert len(hub.registry.rows(LOCAL)) == 3
    with pytest.raises(LimitReached, match="sessions"):
        await hub.create("puppet")


async def test_a_journal_with_a_problem_takes_no_session(hub: Hub) -> None:
    """Invariant 3: at once, not after the time a command waits for a slow disk."""
    session = await hub.create("puppet")
    hub.journal.fail("the disk is full")
    with pytest.raises(StorageUnavailable, match=r"^the disk is full$"):
        await hub.create("puppet")
    with pytest.raises(StorageUnavailable, match=r"^the disk is full$"):
        await session.change_settings(LOCAL, {"title": "new"})
    hub.journal.heal()
    await turns_of_the_loop()
    assert [row.session for row in hub.registry.rows(LOCAL)] == [session.id]


async def test_a_full_journal_takes_no_session_and_keeps_nothing_of_it(make_hub: MakeHub) -> None:
    hub = await make_hub(store=InMemory(queue_events=1))
    session = await hub.create("puppet")
    session.record(LogWritten(line="full"))
    with pytest.raises(StorageUnavailable):
        await hub.create("puppet", options={"secret": "s3cret"})
    assert hub.registry.loaded == 1
    assert hub.puppets.gone == [name for name in hub.puppets.adopted if name != session.id]


async def test_what_cannot_be_kept_beside_the_log_refuses_the_session(hub: Hub) -> None:
    def full_disk(session: str, options: dict[str, object]) -> None:
        raise OSError(28, "No space left on device")

    hub.puppets.adopt = full_disk  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable, match="No space left"):
        await hub.create("puppet")
    assert hub.registry.loaded == 0


async def test_the_sessions_that_run_have_a_limit(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(live_sessions=2, loaded_idle=1))
    hub.puppets.behave = forever
    sessions = [await hub.create("puppet") for _ in range(4)]
    for session in sessions[:2]:
        await session.submit(LOCAL, "go", via="test")
    for refused in (sessions[2].submit(LOCAL, "go", via="test"), sessions[3].start(LOCAL)):
        with pytest.raises(LimitReached, match="live_sessions"):
            await refused
    await sessions[0].submit(LOCAL, "more", via="test", when_busy="queue")
    await sessions[1].cancel(LOCAL, via="test")
    await sessions[2].submit(LOCAL, "go", via="test")


# Listed


async def test_rows_and_live_sessions_are_oldest_first_also_after_a_restart(make_hub: MakeHub) -> None:
    clock = FakeClock()
    hub = await make_hub(clock=clock)
    names = []
    for _ in range(5):
        clock.time += 1000
        names.append((await hub.create("puppet")).id)
    hub.puppets.behave = forever
    for name in reversed(names):
        await (await hub.get(name)).submit(LOCAL, "go", via="test")
    assert [session.id for session in hub.registry.live()] == names
    assert [row.session for row in hub.registry.rows(LOCAL)] == names
    await hub.restart()
    assert [row.session for row in hub.registry.rows(LOCAL)] == names


async def test_watchers_are_told_of_each_change_once(any_hub: Hub) -> None:
    told: list[SessionRow] = []
    stop = any_hub.registry.watch(told.append)
    session = await any_hub.create()
    await session.submit(LOCAL, "burst 50\npermit rm", via="test")
    await until(lambda: session.shown.decisions)
    await session.cancel(LOCAL, via="test")
    await session.change_settings(LOCAL, {"title": "new"})
    await any_hub.registry.delete(LOCAL, session.id)
    statuses = [(row.status, row.title, row.dropped_at is not None) for row in told]
    expected = [
        ("idle", "work", False),
        ("working", "work", False),
        ("waiting", "work", False),
        ("idle", "work", False),
        ("idle", "new", False),
        ("closed", "new", False),
        ("closed", "new", True),
    ]
    # A commit may hold several changes: then they are told as one. None is told twice.
    assert [status for status in expected if status in statuses] == [
        status for n, status in enumerate(statuses) if n == 0 or status != statuses[n - 1]
    ]
    assert len({(row.status, row.title, row.dropped_at, row.unsettled) for row in told}) >= len(told) - 2
    stop()
    await any_hub.create()
    assert told[-1].session == session.id


async def test_deltas_are_no_change_for_lists(hub: Hub) -> None:
    session = await hub.create("puppet")
    told: list[SessionRow] = []
    hub.registry.watch(told.append)
    await say(session, 50)
    assert told == []
    assert hub.registry.row(LOCAL, session.id).head == 51


async def test_a_registry_watcher_that_fails_is_in_nobodys_way(hub: Hub) -> None:
    """Invariant 8."""

    def fails(row: SessionRow) -> None:
        raise RuntimeError("a broken link")

    told: list[str] = []
    hub.registry.watch(fails)
    hub.registry.watch(lambda row: told.append(row.session))
    async with asyncio.timeout(PATIENCE):
        one, two = await asyncio.gather(hub.create("puppet"), hub.create("puppet"))
    assert told == [one.id, two.id]


async def test_an_agent_that_fails_to_take_an_outcome_is_in_nobodys_way(hub: Hub) -> None:
    one, two = await hub.create("puppet"), await hub.create("puppet")

    def fails(outcome: object, given: object) -> None:
        raise RuntimeError("a broken agent")

    one.ensure_agent().resolved = fails  # type: ignore[method-assign]
    one.open_decision(ask())
    await one.durable(2)
    told: list[str] = []
    one.watch(lambda: told.append("one"))
    two.record(LogWritten(line="x"))
    async with asyncio.timeout(PATIENCE):
        await answer(one, "d")
        await two.durable(2)
    assert told


async def test_the_newest_events_over_all_sessions(any_hub: Hub) -> None:
    one, two = await any_hub.create("puppet"), await any_hub.create("puppet")
    for session in (one, two, one):
        await say(session)
    newest = await any_hub.registry.newest(LOCAL, 3)
    assert [(name, event.seq) for name, event in newest] == [(one.id, 2), (two.id, 2), (one.id, 3)]
    await any_hub.registry.delete(LOCAL, one.id)
    assert {name for name, _ in await any_hub.registry.newest(LOCAL, 100)} == {two.id}


# Loaded


async def test_many_stored_sessions_open_without_being_read(make_hub: MakeHub) -> None:
    """Design section 4: restore reads one row per session. Counted, not timed."""
    hub = await make_hub(store=Counting(), limits=HubLimits(loaded_idle=4))
    for _ in range(1000):
        await hub.create("puppet")
    await hub.restart()
    assert (hub.journal.reads, hub.journal.snapshots, hub.registry.loaded) == ([], [], 0)
    rows = hub.registry.rows(LOCAL)
    assert len(rows) == 1000
    session = await hub.get(rows[500].session)
    assert set(hub.journal.reads) == {session.id}
    assert hub.registry.loaded == 1


async def test_a_session_is_loaded_once_however_many_ask(make_hub: MakeHub) -> None:
    hub = await make_hub(store=Counting())
    session = await hub.create("puppet")
    await hub.restart()
    found = await asyncio.gather(*(hub.get(session) for _ in range(20)))
    assert len(set(map(id, found))) == 1
    assert hub.journal.snapshots == [session.id]


async def test_a_session_is_loaded_once_although_the_first_to_ask_goes_away(make_hub: MakeHub) -> None:
    """Invariant 1: a log has one writer, so there is one object."""
    hub = await make_hub(store=Counting())
    session = await hub.create("puppet")
    await hub.restart()
    hub.journal.gate = asyncio.Event()
    first = asyncio.create_task(hub.get(session))
    second = asyncio.create_task(hub.get(session))
    await until(lambda: hub.journal.reads)
    first.cancel()
    await turns_of_the_loop()
    third = asyncio.create_task(hub.get(session))
    await turns_of_the_loop()
    hub.journal.gate.set()
    assert await second is await third
    assert hub.journal.snapshots == [session.id]


async def test_sessions_that_nobody_uses_leave_memory_and_come_back_as_they_were(make_hub: MakeHub) -> None:
    """Invariant 2."""
    for disk in (False, True):
        hub = await make_hub(disk=disk, limits=HubLimits(loaded_idle=3))
        states = {}
        for number in range(10):
            session = await hub.create("puppet", title=f"session {number}")
            await session.submit(LOCAL, f"prompt {number}", via="test")
            await idle(session)
            states[session.id] = session.shown
            del session
        await until(lambda: hub.registry.loaded <= 3)  # noqa: B023
        gc.collect()
        for name, state in states.items():
            assert same_state((await hub.get(name)).shown, state)


async def test_whoever_is_watched_or_busy_stays_in_memory(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(loaded_idle=0))
    watched, busy, asked = [await hub.create("puppet") for _ in range(3)]
    stop = watched.watch(lambda: None)
    hub.puppets.behave = forever
    await busy.submit(LOCAL, "go", via="test")
    await asked.acknowledged(asked.open_decision(ask()))
    idle_ones = [await hub.create("puppet") for _ in range(5)]
    await until(lambda: hub.registry.loaded == 3)
    assert len(idle_ones) == 5
    stop()
    await busy.cancel(LOCAL, via="test")
    await until(lambda: hub.registry.loaded == 1)


async def test_a_closed_session_leaves_memory_before_any_other(make_hub: MakeHub) -> None:
    """Nothing will run there again, and its conversation may be long."""
    hub = await make_hub(limits=HubLimits(loaded_idle=4))
    open_, closed, viewed = [await hub.create("puppet") for _ in range(3)]
    stop = viewed.watch(lambda: None)
    await closed.close("closed")
    await until(lambda: hub.registry.loaded == 2)
    assert await hub.get(closed) is not None
    assert hub.registry.row(LOCAL, open_.id).status != "closed"
    await viewed.close("closed")
    stop()
    await (await hub.get(open_)).close("closed")
    await until(lambda: hub.registry.loaded == 0)


async def test_a_session_whose_agent_holds_something_stays_in_memory_and_is_stopped_with_the_hub(
    make_hub: MakeHub,
) -> None:
    """Invariant 6: also what runs beside executors and turns is ended with the server."""
    hub = await make_hub(limits=HubLimits(loaded_idle=0))
    session = await hub.create("puppet")
    session.ensure_agent().holds = True  # type: ignore[misc]
    await hub.get(session)
    await hub.create("puppet")
    await until(lambda: hub.registry.loaded == 1)
    assert not session.live
    await hub.registry.stop_sessions(1.0)
    assert hub.puppets.closed == [session.id]


async def test_a_session_that_left_memory_is_still_one_for_whoever_holds_it(make_hub: MakeHub) -> None:
    """Invariants 1 and 3: two objects would write two logs, and the older one would never be told of its commits."""
    hub = await make_hub(limits=HubLimits(loaded_idle=0))
    session = await hub.create("puppet")
    await until(lambda: hub.registry.loaded == 0)
    async with asyncio.timeout(PATIENCE):
        await session.submit(LOCAL, "one", via="test", client_message_id="1")
    assert await hub.get(session) is session
    await until(lambda: hub.registry.loaded == 0)
    await asyncio.gather(session.change_settings(LOCAL, {"a": 1}), (await hub.get(session)).change_settings(LOCAL, {}))
    await hub.check(session)


async def test_many_clients_on_more_sessions_than_memory_holds(make_hub: MakeHub) -> None:
    """Invariants 1 and 3, with every session let go at any moment."""
    hub = await make_hub(disk=True, limits=HubLimits(loaded_idle=1))
    names = [(await hub.create("puppet")).id for _ in range(12)]

    async def client(name: str, number: int) -> None:
        for message in range(4):
            session = await hub.get(name)
            await asyncio.sleep(0)
            await session.submit(LOCAL, "go", via=f"c{number}", client_message_id=str(message), when_busy="queue")

    async with asyncio.timeout(30):
        await asyncio.gather(*(client(name, number) for name in names for number in range(3)))
    for name in names:
        session = await hub.get(name)
        await idle(session)
        events = await hub.check(session)
        assert sum(isinstance(event.fact, TurnEnded) for event in events) == 12


async def test_a_load_reads_only_what_comes_after_the_snapshot(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(snapshot_every=20))
    session = await hub.create("puppet")
    await say(session, 50)
    await hub.journal.flush()
    await hub.crash()
    stored = hub.store.store.logs[session.id].snapshot  # type: ignore[attr-defined]
    assert stored is not None
    assert stored.seq >= 20
    await hub.open()
    assert same_state((await hub.get(session)).shown, session.shown)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"session":"other","seq":3}', b'{"session":"s","seq":"x"}'])
async def test_a_snapshot_that_cannot_be_used_costs_only_time(make_hub: MakeHub, damage: bytes) -> None:
    """Invariant 2: the log is the truth; the snapshot is a copy of what it says."""
    hub = await make_hub()
    session = await hub.create("puppet")
    await say(session, 5)
    hub.journal.put_snapshot(session.id, Snapshot(3, damage))
    await hub.journal.flush()
    await hub.crash()
    await hub.open()
    assert same_state((await hub.get(session)).shown, session.shown)


# Dropped


async def test_a_deleted_session_is_closed_first_and_gone_then(any_hub: Hub) -> None:
    """Mapping rule 11: every session that goes is seen to go by its ``session.closed``."""
    session = await any_hub.create("puppet")
    any_hub.puppets.behave = forever
    await session.submit(LOCAL, "go", via="test")
    seen: list[type] = []
    follower = session.follow(0)
    session.watch(lambda: seen.extend(type(event.fact) for event in follower.take() or []))
    await any_hub.registry.delete(LOCAL, session.id)
    assert seen[-2:] == [TurnEnded, SessionClosed]
    for _ in range(2):
        assert any_hub.registry.rows(LOCAL) == []
        with pytest.raises(Gone):
            any_hub.registry.row(LOCAL, session.id)
        with pytest.raises(Gone):
            await any_hub.get(session)
        with pytest.raises(Gone):
            await any_hub.registry.delete(LOCAL, session.id)
        assert await any_hub.log(session) == []
        await any_hub.restart()
    assert any_hub.puppets.gone == [session.id]
    with pytest.raises(HubError):
        await session.submit(LOCAL, "again", via="test")


async def test_two_deletes_at_once_are_one(any_hub: Hub) -> None:
    session = await any_hub.create("puppet")
    told: list[SessionRow] = []
    any_hub.registry.watch(told.append)
    results = await asyncio.gather(
        *(any_hub.registry.delete(LOCAL, session.id) for _ in range(3)), return_exceptions=True
    )
    assert [type(result) for result in results].count(type(None)) == 1
    assert [type(result) for result in results].count(Gone) == 2
    assert [row.dropped_at is not None for row in told].count(True) == 1
    assert any_hub.puppets.gone == [session.id]


async def test_whoever_loads_a_session_while_it_is_dropped_gets_gone(make_hub: MakeHub) -> None:
    hub = await make_hub(store=Counting(), clock=FakeClock(), limits=HubLimits(retention_days=1))
    session = await hub.create("puppet")
    await session.close("test")
    await hub.restart()
    hub.journal.gate = asyncio.Event()
    loading = asyncio.create_task(hub.get(session))
    await until(lambda: hub.journal.reads)
    hub.clock.pass_days(2)  # type: ignore[union-attr]
    await hub.registry.apply_retention()
    hub.journal.gate.set()
    with pytest.raises(Gone):
        await loading


async def test_a_name_of_its_own_goes_with_the_session(any_hub: Hub) -> None:
    session = await any_hub.create("puppet")
    registry = any_hub.registry
    await registry.bind_alias("onion", LOCAL, "my session", session.id)
    assert await registry.alias("onion", LOCAL, "my session") == session.id
    assert await registry.alias("onion", STRANGER, "my session") is None
    assert await registry.alias("cin", LOCAL, "my session") is None
    await any_hub.restart()
    assert await any_hub.registry.alias("onion", LOCAL, "my session") == session.id
    await any_hub.registry.delete(LOCAL, session.id)
    assert await any_hub.registry.alias("onion", LOCAL, "my session") is None


# Retention


async def test_closed_logs_are_dropped_when_their_time_has_come_without_being_read(make_hub: MakeHub) -> None:
    clock = FakeClock()
    hub = await make_hub(store=Counting(), clock=clock, limits=HubLimits(retention_days=7, tombstone_days=30))
    old, young = await hub.create("puppet"), await hub.create("puppet")
    clock.time += 1000
    open_ = await hub.create("puppet")
    await old.close("test")
    clock.pass_days(3)
    await young.close("test")
    await hub.restart()
    clock.pass_days(4)
    await hub.registry.apply_retention()
    assert len(hub.registry.rows(LOCAL)) == 3
    clock.pass_days(0.5)
    hub.journal.reads.clear()
    await hub.registry.apply_retention()
    assert [row.session for row in hub.registry.rows(LOCAL)] == [young.id, open_.id]
    assert hub.journal.reads == []
    assert hub.puppets.gone == [old.id]
    with pytest.raises(Gone):
        hub.registry.row(LOCAL, old.id)
    clock.pass_days(100)
    await hub.registry.apply_retention()
    assert [row.session for row in hub.registry.rows(LOCAL)] == [open_.id]


async def test_a_tombstone_is_forgotten_in_the_end(make_hub: MakeHub) -> None:
    for disk in (False, True):
        clock = FakeClock()
        hub = await make_hub(disk=disk, clock=clock, limits=HubLimits(tombstone_days=30))
        session = await hub.create("puppet")
        await hub.registry.delete(LOCAL, session.id)
        clock.pass_days(30)
        await hub.registry.apply_retention()
        with pytest.raises(Gone):
            hub.registry.row(LOCAL, session.id)
        clock.pass_days(0.5)
        await hub.registry.apply_retention()
        for _ in range(2):
            with pytest.raises(UnknownSession):
                hub.registry.row(LOCAL, session.id)
            await hub.restart()


async def test_without_a_limit_logs_are_kept_for_ever(make_hub: MakeHub) -> None:
    clock = FakeClock()
    hub = await make_hub(clock=clock)
    session = await hub.create("puppet")
    await session.close("test")
    clock.pass_days(100_000)
    await hub.registry.apply_retention()
    assert [row.session for row in hub.registry.rows(LOCAL)] == [session.id]


async def test_retention_runs_when_the_hub_opens(make_hub: MakeHub) -> None:
    clock = FakeClock()
    hub = await make_hub(clock=clock, limits=HubLimits(retention_days=7))
    session = await hub.create("puppet")
    await session.close("test")
    clock.pass_days(8)
    await hub.restart()
    await until(lambda: not hub.registry.rows(LOCAL))


async def test_a_journal_that_is_full_drops_nothing_yet(make_hub: MakeHub) -> None:
    """What the hub shows as gone must be what the journal will let go."""
    hub = await make_hub(store=InMemory(queue_events=2))
    session = await hub.create("puppet")
    other = await hub.create("puppet")
    await session.close("test")
    hub.journal.fail("the disk is full")
    while not hub.journal.full:
        other.record(LogWritten(line="x"))
    with pytest.raises(StorageUnavailable):
        await hub.registry.delete(LOCAL, session.id)
    assert hub.registry.row(LOCAL, session.id).dropped_at is None
    hub.journal.heal()
    await turns_of_the_loop()
    await hub.registry.delete(LOCAL, session.id)


# The end


async def test_a_hub_that_stops_takes_nothing_new(hub: Hub) -> None:
    """Invariant 6: also not in sessions that were idle when it began to."""
    session = await hub.create("puppet")
    other = (await hub.create("puppet")).id
    await hub.restart()
    session = await hub.get(session)
    await hub.registry.stop_sessions(1.0)
    for refused in (session, await hub.get(other)):
        with pytest.raises(Closed):
            await refused.submit(LOCAL, "go", via="test")
    with pytest.raises(LimitReached):
        await hub.create("puppet")
    assert (await session.follow(0).fetch())[0].seq == 1


async def test_whoever_waits_for_a_session_when_the_hub_ends_is_refused_and_not_cancelled(make_hub: MakeHub) -> None:
    """Invariant 8: a cancellation that the waiting task never got would end its link without a word."""
    hub = await make_hub(store=Counting())
    session = await hub.create("puppet")
    await hub.restart()
    hub.journal.gate = asyncio.Event()
    waiting = asyncio.create_task(hub.get(session))
    await until(lambda: hub.journal.reads)
    await hub.close()
    with pytest.raises(Closed):
        await waiting
    await hub.open()


async def test_stopping_takes_no_longer_than_its_budget(hub: Hub) -> None:
    """Invariant 9's clock, with agents that do not stop."""
    freed = asyncio.Event()

    async def stubborn(turn: TurnContext) -> str | None:
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue
        return None

    hub.puppets.behave = stubborn
    for _ in range(5):
        session = await hub.create("puppet")
        await session.submit(LOCAL, "go", via="test")
    await until(lambda: len(hub.puppets.began) == 5)
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        await hub.registry.stop_sessions(0.2)
        assert loop.time() - began < 0.4
        assert all(row.status == "idle" for row in hub.registry.rows(LOCAL))
    finally:
        freed.set()


async def test_a_deleted_session_whose_turn_does_not_stop_is_gone_all_the_same(hub: Hub) -> None:
    freed = asyncio.Event()

    async def stubborn(turn: TurnContext) -> str | None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await freed.wait()
        turn.record(PartDelta(turn=turn.turn, part="p", kind="text", text="still here"))
        return "done"

    hub.puppets.behave = stubborn
    session = await hub.create("puppet")
    await session.submit(LOCAL, "go", via="test")
    await until(lambda: hub.puppets.began)
    try:
        async with asyncio.timeout(PATIENCE):
            await hub.registry.delete(LOCAL, session.id)
    finally:
        freed.set()
        await turns_of_the_loop()
    with pytest.raises(Gone):
        await hub.get(session)


async def test_closing_twice_is_no_error(any_hub: Hub) -> None:
    await any_hub.create("puppet")
    await any_hub.registry.close()
    await any_hub.close()


async def test_only_who_may_see_all_may_create(hub: Hub) -> None:
    for principal in (STRANGER, Principal("guest", EVERYTHING, only=frozenset({"x"}))):
        with pytest.raises(NotPermitted):
            await hub.create("puppet", principal)


async def test_a_delete_that_cannot_be_kept_changes_nothing(make_hub: MakeHub) -> None:
    hub = await make_hub(store=InMemory())
    session = await hub.registry.create(LOCAL, kind="scripted", cwd=hub.cwd)
    hub.journal.fail("disk full")
    with pytest.raises(StorageUnavailable):
        await hub.registry.delete(LOCAL, session.id)
    hub.journal.heal()
    assert hub.registry.row(LOCAL, session.id).dropped_at is None
    await hub.registry.delete(LOCAL, session.id)
    with pytest.raises(Gone):
        hub.registry.row(LOCAL, session.id)
