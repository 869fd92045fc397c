"""What every journal promises, held against both implementations, and both against each other."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.hub.errors import StorageUnavailable, UnknownSession
from dragoman.hub.events import Event, HistoryMessage, LogWritten, SettingsChanged, StepStarted
from dragoman.hub.journal import Journal, SessionRow, Snapshot

from .journal_kit import Listener, MemoryRig, Rig, SqliteRig, append, event, lines, row, seqs, until


@pytest.fixture(params=["memory", "sqlite"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return MemoryRig() if request.param == "memory" else SqliteRig(tmp_path)


@pytest.fixture
async def journal(rig: Rig) -> AsyncIterator[Journal]:
    journal = rig.make()
    await journal.open(Listener())
    yield journal
    await journal.close()


async def restarted(rig: Rig, journal: Journal) -> tuple[Journal, list[SessionRow]]:
    await journal.close()
    again = rig.make()
    return again, await again.open(Listener())


# -- what is durable, and when one is told ---------------------------------------------------


async def test_an_event_is_seen_only_after_the_hub_was_told(rig: Rig) -> None:
    journal, listener = rig.make(), Listener()
    assert await journal.open(listener) == []
    journal.append(event(1), row("a", 1))
    assert listener.commits == []
    assert await journal.read("a", 0, 10) == []
    await listener.until("a", 1)
    assert await journal.read("a", 0, 10) == [event(1)]
    await journal.close()


async def test_the_hub_is_told_the_highest_seq_of_each_session(rig: Rig) -> None:
    journal, listener = rig.make(), Listener()
    await journal.open(listener)
    append(journal, "a", 1, 40)
    append(journal, "b", 1, 3)
    await journal.flush()
    assert listener.durable == {"a": 40, "b": 3}
    await journal.close()


async def test_flush_returns_when_all_before_it_is_durable(rig: Rig) -> None:
    journal, listener = rig.make(), Listener()
    await journal.open(listener)
    await journal.flush()
    for last in (5, 10, 15):
        append(journal, "a", last - 4, last)
        await journal.flush()
        assert listener.durable == {"a": last}
    await journal.close()


async def test_close_makes_durable_what_was_queued(rig: Rig, journal: Journal) -> None:
    append(journal, "a", 1, 500)
    again, _ = await restarted(rig, journal)
    assert seqs(await again.read("a", 0, 1000)) == list(range(1, 501))
    await again.close()


async def test_a_closed_journal_takes_and_gives_nothing(journal: Journal) -> None:
    append(journal, "a", 1)
    await journal.close()
    with pytest.raises(StorageUnavailable):
        journal.append(event(2), row("a", 2))
    with pytest.raises(StorageUnavailable):
        await journal.read("a", 0, 1)
    with pytest.raises(StorageUnavailable):
        await journal.flush()
    await journal.close()


# -- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("seq", "head"), [(3, 3), (1, 1), (2, 1), (0, 0)])
async def test_a_seq_out_of_order_is_refused_and_queues_nothing(journal: Journal, seq: int, head: int) -> None:
    append(journal, "a", 1)
    with pytest.raises(ValueError, match="expects seq 2"):
        journal.append(event(seq), row("a", head))
    append(journal, "a", 2)
    await journal.flush()
    assert seqs(await journal.read("a", 0, 10)) == [1, 2]


async def test_seq_continues_after_a_restart(rig: Rig, journal: Journal) -> None:
    append(journal, "a", 1, 3)
    again, rows = await restarted(rig, journal)
    assert [known.head for known in rows] == [3]
    append(again, "a", 4)
    await again.flush()
    assert seqs(await again.read("a", 0, 10)) == [1, 2, 3, 4]
    await again.close()


async def test_what_cannot_be_encoded_is_refused_and_harms_nobody(journal: Journal) -> None:
    undecodable = b"/tmp/\xff".decode(errors="surrogateescape")
    with pytest.raises(ValueError, match="surrogates"):
        journal.append(event(1, undecodable), row("a", 1))
    with pytest.raises(ValueError, match="surrogates"):
        journal.append(event(1), row("a", 1, cwd=undecodable))
    with pytest.raises(ValueError, match="surrogates"):
        journal.append(event(1), row("a", 1), key=undecodable)
    with pytest.raises(TypeError):
        journal.append(Event(1, 1, "e", SettingsChanged(changes={"x": object()})), row("a", 1))
    with pytest.raises(ValueError, match="surrogates"):
        await journal.bind_alias("coop", "p", undecodable, "a")
    assert await journal.alias("coop", "p", undecodable) is None
    append(journal, "a", 1)
    assert await journal.find_key("a", undecodable) is None
    await journal.flush()
    assert await journal.read("a", 0, 10) == [event(1)]


# -- reading ---------------------------------------------------------------------------------


async def test_read_gives_a_stretch_after_the_cursor(journal: Journal) -> None:
    append(journal, "a", 1, 10)
    await journal.flush()
    assert seqs(await journal.read("a", 0, 3)) == [1, 2, 3]
    assert seqs(await journal.read("a", 3, 100)) == list(range(4, 11))
    assert seqs(await journal.read("a", -5, 2)) == [1, 2]
    assert await journal.read("a", 10, 5) == []
    assert await journal.read("a", 99, 5) == []
    assert await journal.read("a", 0, 0) == []
    assert await journal.read("unknown", 0, 5) == []


async def test_read_back_gives_the_newest_before(journal: Journal) -> None:
    append(journal, "a", 1, 10)
    await journal.flush()
    assert seqs(await journal.read_back("a", 11, 3)) == [8, 9, 10]
    assert seqs(await journal.read_back("a", 999, 2)) == [9, 10]
    assert seqs(await journal.read_back("a", 3, 5)) == [1, 2]
    assert await journal.read_back("a", 1, 5) == []
    assert await journal.read_back("a", 5, 0) == []
    assert await journal.read_back("unknown", 5, 5) == []


async def test_a_long_log_is_read_whole(journal: Journal) -> None:
    append(journal, "a", 1, 3000)
    await journal.flush()
    assert lines(await journal.read("a", 0, 5000)) == [f"line {seq}" for seq in range(1, 3001)]
    assert seqs(await journal.read_back("a", 2500, 1200)) == list(range(1300, 2500))


async def test_events_come_back_as_they_went(rig: Rig, journal: Journal) -> None:
    facts = [
        LogWritten(line="", level="error"),
        LogWritten(line="\x00 \x1b[31m \" ' \\ ],[ \n \u2028 \U0001f600 \ud7ff"),
        LogWritten(line="x" * 700_000),
        SettingsChanged(changes={"a": None, "b": [1, 2.5, {"c": "d"}], "e": True}),
        StepStarted(turn="t", step=1, request={"deep": [[[1]]]}, warnings=({"w": 1},)),
        HistoryMessage(role="user", content=[{"type": "text", "text": "hi"}], artifacts=("one", "two")),
    ]
    odd = "quotes \" ' and \U0001f600, commas"
    # HistoryMessage is part of a fact, not a fact: only the others may stand alone.
    written = [Event(seq, -seq, f"epoch {seq} '\"", fact) for seq, fact in enumerate(facts[:-1], start=1)]  # type: ignore[arg-type]
    for one in written:
        journal.append(one, row(odd, one.seq), key=f"key {one.seq} '\"")
    await journal.flush()
    assert await journal.read(odd, 0, 10) == written
    assert await journal.newest(10) == [(odd, one) for one in written]
    assert await journal.find_key(odd, "key 3 '\"") == 3
    again, _ = await restarted(rig, journal)
    assert await again.read(odd, 0, 10) == written
    await again.close()


async def test_newest_follows_the_order_of_the_store(journal: Journal) -> None:
    order = ["a", "b", "a", "c", "c", "b", "a"]
    heads = dict.fromkeys("abc", 0)
    expected = []
    for session in order:
        heads[session] += 1
        append(journal, session, heads[session])
        expected.append((session, event(heads[session])))
    await journal.flush()
    assert await journal.newest(100) == expected
    assert await journal.newest(3) == expected[-3:]
    assert await journal.newest(100, ["a", "b", "a", "unknown"]) == [one for one in expected if one[0] != "c"]
    assert await journal.newest(2, ["c"]) == [("c", event(1)), ("c", event(2))]
    assert await journal.newest(0) == []
    assert await journal.newest(5, []) == []


async def test_newest_of_many_sessions_takes_the_newest_of_each(journal: Journal) -> None:
    for seq in range(1, 6):
        for session in range(40):
            append(journal, f"s{session}", seq)
    await journal.flush()
    chosen = [f"s{session}" for session in range(0, 40, 2)]
    expected = [(f"s{session}", event(seq)) for seq in range(1, 6) for session in range(0, 40, 2)]
    assert await journal.newest(33, chosen) == expected[-33:]


# -- rows ------------------------------------------------------------------------------------


async def test_rows_come_back_newest_change_last(rig: Rig, journal: Journal) -> None:
    append(journal, "a", 1)
    append(journal, "b", 1)
    append(journal, "c", 1)
    journal.append(event(2), row("a", 2, status="working", unsettled=True, detail={"x": [1]}))
    await journal.drop(row("b", 1, dropped_at=77))
    again, rows = await restarted(rig, journal)
    assert rows == [
        row("c", 1),
        row("a", 2, status="working", unsettled=True, detail={"x": [1]}),
        row("b", 1, dropped_at=77),
    ]
    await again.close()


# -- keys, snapshots, aliases ----------------------------------------------------------------


async def test_a_key_finds_its_event_also_after_a_restart(rig: Rig, journal: Journal) -> None:
    append(journal, "a", 1)
    journal.append(event(2), row("a", 2), key="m1")
    append(journal, "b", 1)
    assert await journal.find_key("a", "m1") == 2, "also while it is queued"
    await journal.flush()
    assert await journal.find_key("a", "m1") == 2
    assert await journal.find_key("a", "m2") is None
    assert await journal.find_key("b", "m1") is None
    again, _ = await restarted(rig, journal)
    assert await again.find_key("a", "m1") == 2
    await again.close()


async def test_the_first_event_of_a_key_keeps_it(journal: Journal) -> None:
    journal.append(event(1), row("a", 1), key="m")
    journal.append(event(2), row("a", 2), key="m")
    await journal.flush()
    journal.append(event(3), row("a", 3), key="m")
    await journal.flush()
    assert await journal.find_key("a", "m") == 1


async def test_the_last_snapshot_stays(rig: Rig, journal: Journal) -> None:
    assert await journal.snapshot("a") is None
    append(journal, "a", 1, 2)
    journal.put_snapshot("a", Snapshot(1, b'{"n":1}'))
    journal.put_snapshot("a", Snapshot(2, b'{"n":2}'))
    journal.put_snapshot("unknown", Snapshot(1, b"{}"))
    await journal.flush()
    assert await journal.snapshot("a") == Snapshot(2, b'{"n":2}')
    assert await journal.snapshot("unknown") is None
    again, _ = await restarted(rig, journal)
    assert await again.snapshot("a") == Snapshot(2, b'{"n":2}')
    await again.close()


async def test_an_alias_stands_for_one_session_at_a_time(rig: Rig, journal: Journal) -> None:
    append(journal, "a", 1)
    append(journal, "b", 1)
    assert await journal.alias("windie", "p", "c-1") is None
    await journal.bind_alias("windie", "p", "c-1", "a")
    await journal.bind_alias("windie", "q", "c-1", "b")
    assert await journal.alias("windie", "p", "c-1") == "a"
    assert await journal.alias("windie", "q", "c-1") == "b"
    assert await journal.alias("onion", "p", "c-1") is None
    await journal.bind_alias("windie", "p", "c-1", "b")
    again, _ = await restarted(rig, journal)
    assert await again.alias("windie", "p", "c-1") == "b"
    await again.close()


# -- dropping and forgetting -----------------------------------------------------------------


async def test_a_dropped_session_leaves_only_its_tombstone(rig: Rig, journal: Journal) -> None:
    append(journal, "b", 1)
    journal.append(event(1), row("a", 1), key="m")
    append(journal, "a", 2, 400)
    journal.put_snapshot("a", Snapshot(2, b"{}"))
    await journal.bind_alias("coop", "p", "n", "a")
    await journal.drop(row("a", 400, dropped_at=5))

    async def check(journal: Journal) -> None:
        assert await journal.read("a", 0, 10) == []
        assert await journal.read_back("a", 10, 10) == []
        assert await journal.newest(10) == [("b", event(1))]
        assert await journal.newest(10, ["a"]) == []
        assert await journal.find_key("a", "m") is None
        assert await journal.snapshot("a") is None
        assert await journal.alias("coop", "p", "n") is None
        with pytest.raises(ValueError, match="was dropped"):
            journal.append(event(401), row("a", 401))
        journal.put_snapshot("a", Snapshot(2, b"{}"))
        await journal.flush()
        assert await journal.snapshot("a") is None

    await check(journal)
    again, rows = await restarted(rig, journal)
    assert rows == [row("b", 1), row("a", 400, dropped_at=5)]
    await check(again)
    await again.close()


async def test_events_queued_before_a_drop_go_with_it(journal: Journal) -> None:
    append(journal, "a", 1, 50)
    dropping = asyncio.ensure_future(journal.drop(row("a", 50, dropped_at=5)))
    reading = asyncio.ensure_future(journal.read("a", 0, 100))
    await dropping
    assert await reading == []
    assert await journal.newest(10) == []


async def test_drop_wants_a_known_session_and_a_tombstone(journal: Journal) -> None:
    with pytest.raises(UnknownSession):
        await journal.drop(row("a", 1, dropped_at=5))
    append(journal, "a", 1)
    with pytest.raises(ValueError, match="dropped_at"):
        await journal.drop(row("a", 1))
    await journal.drop(row("a", 1, dropped_at=5))
    await journal.drop(row("a", 1, dropped_at=6))


async def test_a_forgotten_session_leaves_nothing(rig: Rig, journal: Journal) -> None:
    append(journal, "a", 1, 300)
    append(journal, "b", 1)
    with pytest.raises(ValueError, match="must be dropped"):
        await journal.forget("a")
    await journal.drop(row("a", 300, dropped_at=5))
    await journal.forget("a")
    await journal.forget("a")
    await journal.forget("unknown")
    assert await journal.newest(10) == [("b", event(1))]
    again, rows = await restarted(rig, journal)
    assert rows == [row("b", 1)]
    await again.close()


async def test_a_forgotten_name_may_begin_anew(journal: Journal) -> None:
    append(journal, "a", 1, 5)
    await journal.drop(row("a", 5, dropped_at=5))
    await journal.forget("a")
    journal.append(event(1, "again"), row("a", 1))
    await journal.flush()
    assert lines(await journal.read("a", 0, 10)) == ["again"]


# -- trouble ---------------------------------------------------------------------------------


async def test_while_writing_fails_all_is_kept_and_nothing_is_told(rig: Rig) -> None:
    journal, listener = rig.make(flush_limit=0.05), Listener()
    await journal.open(listener)
    append(journal, "a", 1, 5)
    await journal.flush()
    assert journal.problem is None
    rig.fail()
    append(journal, "a", 6, 10)
    await until(lambda: journal.problem is not None)
    with pytest.raises(StorageUnavailable):
        await journal.flush()
    with pytest.raises(StorageUnavailable):
        await journal.bind_alias("coop", "p", "n", "a")
    with pytest.raises(StorageUnavailable):
        await journal.drop(row("a", 10, dropped_at=1))
    append(journal, "a", 11, 15)
    assert listener.durable == {"a": 5}
    assert seqs(await journal.read("a", 0, 100)) == [1, 2, 3, 4, 5], "reading goes on"
    rig.heal()
    await listener.until("a", 15)
    await journal.flush()
    assert journal.problem is None
    assert seqs(await journal.read("a", 0, 100)) == list(range(1, 16))
    assert await journal.alias("coop", "p", "n") is None, "what was refused does not happen later"
    await journal.close()


@pytest.mark.parametrize("limits", [{"queue_events": 10}, {"queue_bytes": 500}], ids=["events", "bytes"])
async def test_a_full_queue_says_so_but_takes_what_must_be(rig: Rig, limits: dict[str, Any]) -> None:
    journal, listener = rig.make(**limits), Listener()
    await journal.open(listener)
    rig.fail()
    seq = 0
    while not journal.full:
        seq += 1
        append(journal, "a", seq)
        assert seq <= 20
    append(journal, "a", seq + 1)
    journal.put_snapshot("a", Snapshot(1, b"{}"))
    with pytest.raises(StorageUnavailable):
        await journal.bind_alias("coop", "p", "n", "a")
    with pytest.raises(StorageUnavailable):
        await journal.drop(row("a", seq + 1, dropped_at=1))
    rig.heal()
    await listener.until("a", seq + 1)
    await journal.flush()
    assert not journal.full
    assert seqs(await journal.read("a", 0, 100)) == list(range(1, seq + 2)), "not dropped"
    assert await journal.snapshot("a") is None
    await journal.close()


async def test_what_waits_when_the_journal_closes_is_told_that_it_failed(rig: Rig) -> None:
    journal = rig.make(**({"close_limit": 0.1} if isinstance(rig, SqliteRig) else {}), flush_limit=0.3)
    await journal.open(Listener())
    rig.fail()
    append(journal, "a", 1)
    flushing = asyncio.ensure_future(journal.flush())
    await asyncio.sleep(0)
    await journal.close()
    with pytest.raises(StorageUnavailable):
        await flushing


# -- both alike ------------------------------------------------------------------------------

SESSIONS = ("a", "b", "c")
NAMES = ("n1", "n2")
session_names = st.sampled_from(SESSIONS)
numbers = st.integers(0, 12)
operations = st.one_of(
    st.tuples(st.just("append"), session_names, st.integers(1, 4), st.sampled_from((None, "k1", "k2"))),
    st.tuples(st.just("snapshot"), session_names),
    st.tuples(st.just("bind"), st.sampled_from(NAMES), session_names),
    st.tuples(st.just("drop"), session_names),
    st.tuples(st.just("forget"), session_names),
    st.tuples(st.just("restart")),
    st.tuples(st.just("look"), session_names, numbers, numbers),
)


class Driver:
    """Runs operations on one journal, and says what can be seen of it."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.heads: dict[str, int] = {}
        self.dropped: set[str] = set()
        self.clock = 0

    async def start(self) -> list[SessionRow]:
        self.journal = self._rig.make()
        return await self.journal.open(Listener())

    async def run(self, operation: tuple[Any, ...]) -> object:
        self.clock += 1
        name, *arguments = operation
        result = getattr(self, name)(*arguments)
        return await result if asyncio.iscoroutine(result) else result

    def append(self, session: str, count: int, key: str | None) -> None:
        if session in self.dropped:
            return
        for _ in range(count):
            seq = self.heads[session] = self.heads.get(session, 0) + 1
            self.journal.append(
                event(seq, f"{session} {self.clock}"), row(session, seq, changed_at=self.clock), key=key
            )

    def snapshot(self, session: str) -> None:
        self.journal.put_snapshot(session, Snapshot(self.heads.get(session, 0), b'{"at":%d}' % self.clock))

    async def bind(self, name: str, session: str) -> None:
        await self.journal.bind_alias("coop", "p", name, session)

    async def drop(self, session: str) -> None:
        if session not in self.heads:
            return
        self.dropped.add(session)
        await self.journal.drop(row(session, self.heads[session], dropped_at=self.clock))

    async def forget(self, session: str) -> None:
        if session not in self.dropped:
            return
        await self.journal.forget(session)
        self.dropped.discard(session)
        del self.heads[session]

    async def restart(self) -> list[SessionRow]:
        await self.journal.close()
        return await self.start()

    async def look(self, session: str, cursor: int, limit: int) -> object:
        journal = self.journal
        await journal.flush()
        return (
            await journal.read(session, cursor, limit),
            await journal.read_back(session, cursor, limit),
            await journal.newest(limit),
            await journal.newest(limit, SESSIONS[: cursor % 4]),
            await journal.snapshot(session),
            [await journal.find_key(session, key) for key in ("k1", "k2")],
            [await journal.alias("coop", "p", name) for name in NAMES],
        )


@settings(max_examples=40, deadline=None)
@given(st.lists(operations, max_size=40))
def test_memory_and_sqlite_cannot_be_told_apart(script: list[tuple[Any, ...]]) -> None:
    async def compare() -> None:
        with tempfile.TemporaryDirectory() as folder:
            memory, sqlite = Driver(MemoryRig()), Driver(SqliteRig(Path(folder)))
            await memory.start()
            await sqlite.start()
            everything = [("look", session, 0, 100) for session in SESSIONS]
            try:
                for operation in (*script, *everything, ("restart",), *everything):
                    assert await sqlite.run(operation) == await memory.run(operation), operation
            finally:
                await sqlite.journal.close()

    asyncio.run(compare())
