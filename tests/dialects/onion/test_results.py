"""What came of sessions: the file, and how it is derived from the journal (spec §7 Persistence; §15 rows 25-28)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import stat
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.agents.scripted import ScriptedFactory
from dragoman.dialects.onion.results import Results, Shown
from dragoman.dialects.onion.results_file import NAME, Line, ResultsFile, shown
from dragoman.hub.events import Answer, Event
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import EVERYTHING, LOCAL, Principal
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from tests.dialects.hub.rig import eventually

OWNER = Principal("onion:0xaa", EVERYTHING)
OTHER = Principal("onion:0xbb", EVERYTHING)
MOST = 64 * 1024 * 1024


def anybody(_owner: str) -> bool:
    return True


def line(hub: str, **more: Any) -> Line:
    usual = {"session_id": f"wire-{hub}", "status": "done", "prompt": "p", "created": 1.0, "expires": 1e12, "turn": "t"}
    return Line(hub=hub, **{**usual, **more})


class Reader:
    """A results file with a clock that is set by hand."""

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.now = 100.0
        self.file = ResultsFile(folder, most=most, now=lambda: self.now)
        self.path = self.file.path
        self.file.open()

    def result(self, hub: str) -> dict[str, Any] | None:
        entry = next((entry for entry in self.file.entries() if entry.hub == hub), None)
        found = self.file.read(entry) if entry is not None else None
        return None if found is None else dict(json.loads(shown(found)))

    @property
    def hubs(self) -> list[str]:
        return [entry.hub for entry in self.file.entries()]


@contextlib.contextmanager
def reading(folder: Path, most: int = MOST) -> Iterator[Reader]:
    reader = Reader(folder, most)
    try:
        yield reader
    finally:
        reader.file.close()


# The file


def test_the_last_line_of_a_session_wins_also_for_the_next_server(tmp_path: Path) -> None:
    with reading(tmp_path) as first:
        first.file.append(line("a", status="running"))
        first.file.append(line("b"))
        first.file.append(line("a", result="second", session=Raw(b'{"messages":[]}'), duration_ms=7))
        assert first.result("a") == {
            "session_id": "wire-a",
            "status": "done",
            "prompt": "p",
            "created": 1.0,
            "expires": 1e12,
            "result": "second",
            "session": {"messages": []},
            "duration_ms": 7,
        }
        before = first.result("a")
    with reading(tmp_path) as again:
        assert again.result("a") == before
        assert sorted(again.hubs) == ["a", "b"]


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    with reading(tmp_path / "onion") as reader:
        reader.file.append(line("a"))
        assert stat.S_IMODE(reader.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(reader.path.parent.stat().st_mode) == 0o700
        for _ in range(3):
            reader.file.append(line("a", session=Raw(json.dumps("x" * 100_000).encode())))
        assert stat.S_IMODE(reader.path.stat().st_mode) == 0o600


def test_the_newest_come_first(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        for hub, created in (("a", 5.0), ("b", 9.0), ("c", 7.0)):
            reader.file.append(line(hub, created=created))
        assert reader.hubs == ["b", "c", "a"]


ALIEN = [
    b"{",
    b"",
    b"null",
    b"[1]",
    b'"text"',
    b'{"session_id":"x"}',
    b'{"session_id":1,"status":"done","prompt":"p","created":1,"expires":2,"hub":"z"}',
    b"\xff\xfe\x00",
    b"[" * 5000,
]


@pytest.mark.parametrize("alien", ALIEN, ids=range(len(ALIEN)))
def test_a_line_that_is_nobodys_takes_no_neighbour_with_it(tmp_path: Path, alien: bytes) -> None:
    with reading(tmp_path) as first:
        first.file.append(line("a"))
        with first.path.open("ab") as file:
            file.write(alien + b"\n")
    with reading(tmp_path) as second:
        second.file.append(line("b"))
        assert sorted(second.hubs) == ["a", "b"]
        assert second.result("a") is not None
        assert second.result("b") is not None


def test_a_line_that_a_crash_cut_off_anywhere_loses_only_itself(tmp_path: Path) -> None:
    with reading(tmp_path) as first:
        first.file.append(line("a"))
        kept = first.path.stat().st_size
        first.file.append(line("b"))
        whole = first.path.read_bytes()
    for end in range(kept, len(whole)):
        (tmp_path / NAME).write_bytes(whole[:end])
        with reading(tmp_path) as torn:
            torn.file.append(line("c", result="behind it"))
            assert torn.result("a") is not None
            assert torn.result("c") == {**(torn.result("c") or {}), "result": "behind it"}
            assert ("b" in torn.hubs) is (end == len(whole) - 1)
        with reading(tmp_path) as again:
            assert "a" in again.hubs
            assert "c" in again.hubs


def test_what_has_expired_is_not_told_but_what_runs_never_expires(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        for hub, status in (("a", "done"), ("b", "running"), ("c", "waiting_approval"), ("d", "interrupted")):
            reader.file.append(line(hub, status=status, expires=200.0))
        reader.now = 199.9
        assert sorted(reader.hubs) == ["a", "b", "c", "d"]
        reader.now = 200.0
        assert sorted(reader.hubs) == ["b", "c"]


def test_it_is_rewritten_when_more_than_half_is_stale(tmp_path: Path) -> None:
    session = Raw(json.dumps("x" * 10_000).encode())
    with reading(tmp_path) as reader:
        reader.file.append(line("kept", session=session, result="still here"))
        for turn in range(2000):
            reader.file.append(line("a", session=session, turn=str(turn), result=f"turn {turn}"))
            assert reader.path.stat().st_size < 4_300_000
        assert (reader.result("a") or {})["result"] == "turn 1999"
        assert (reader.result("kept") or {})["result"] == "still here"
    with reading(tmp_path) as again:
        assert sorted(again.hubs) == ["a", "kept"]


def test_it_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    most = 1_000_000
    session = Raw(json.dumps("x" * 50_000).encode())
    with reading(tmp_path, most) as reader:
        for number in range(100):
            reader.file.append(line(f"s{number:03}", created=float(number), session=session))
            assert reader.path.stat().st_size <= most + 60_000
        assert reader.hubs[0] == "s099"
        assert reader.hubs == sorted(reader.hubs, reverse=True)
        assert 5 < len(reader.hubs) < 20


def test_a_session_that_is_too_long_is_kept_without_it(tmp_path: Path) -> None:
    with reading(tmp_path, 100_000) as reader:
        reader.file.append(line("a", result="short", session=Raw(json.dumps("x" * 60_000).encode())))
        assert reader.result("a") == {**(reader.result("a") or {}), "result": "short", "session": None}
        assert reader.path.stat().st_size < 1000


def test_what_is_forgotten_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        reader.file.append(line("a", prompt="private"))
        reader.file.append(line("b"))
        reader.file.forget("a")
        assert reader.hubs == ["b"]
        reader.file.purge()
        assert reader.hubs == ["b"]
        assert b"private" not in reader.path.read_bytes()


def test_a_look_up_reads_one_line_of_twenty_megabytes(tmp_path: Path) -> None:
    session = Raw(json.dumps("x" * 10_000).encode())
    with reading(tmp_path) as reader:
        for number in range(2000):
            reader.file.append(line(f"s{number}", session=session))
        assert reader.path.stat().st_size > 20_000_000
        began = time.perf_counter()
        whole = len(reader.path.read_bytes().split(b"\n"))
        reading_all = time.perf_counter() - began
        assert whole > 2000
        times = []
        for number in range(0, 2000, 100):
            entry = reader.file.entry(f"s{number}")
            assert entry is not None
            began = time.perf_counter()
            assert reader.file.read(entry) is not None
            times.append(time.perf_counter() - began)
        assert sorted(times)[10] < reading_all / 10


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_is_no_file_of_ours_is_not_used(tmp_path: Path, what: str) -> None:
    place = tmp_path / "onion" / NAME
    place.parent.mkdir()
    other = tmp_path / "other"
    other.write_text("theirs")
    if what == "link":
        place.symlink_to(other)
    elif what == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    with pytest.raises(OSError, match=NAME):
        Reader(place.parent)
    assert other.read_text() == "theirs"


@contextlib.contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """No file of this process can grow beyond ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        reader.file.append(line("a"))
        before = reader.path.read_bytes()
        with disk_full_at(len(before) + 100), pytest.raises(OSError, match="too large"):
            reader.file.append(line("b", prompt="x" * 100_000))
        assert reader.path.read_bytes() == before
        reader.file.append(line("c"))
        assert sorted(reader.hubs) == ["a", "c"]
        assert reader.result("a") is not None


# What it says


async def show(session: Session, name: str) -> Shown:
    looks = {"session_id": name, "prompts": session.shown.prompts}
    return Shown(Raw(msgspec.json.encode(looks)), session.shown.status.last_message or "")


class Stage:
    """A hub and its results; ``store`` and ``folder`` outlive it."""

    def __init__(self, folder: Path, store: MemoryStore | None = None, *, seconds: float = 1000.0) -> None:
        self.folder = folder
        self.store = store or MemoryStore()
        self.registry = Registry(MemoryJournal(self.store), [ScriptedFactory()])
        self.names: dict[str, str] = {}
        self.results = Results(
            self.registry,
            folder / "onion",
            name=lambda session: self.names.get(session.id),
            show=show,
            seconds=seconds,
            most=MOST,
        )

    async def start(self) -> None:
        await self.registry.open()
        self.results.start()

    async def stop(self) -> None:
        await self.registry.stop_sessions(1.0)
        await self.results.close(1.0)
        await self.registry.close(1.0)

    async def session(self, principal: Principal = OWNER) -> Session:
        session = await self.registry.create(principal, kind="scripted", cwd=str(self.folder))
        self.names[session.id] = f"wire-{session.id}"
        return session

    async def found(self, session: Session) -> dict[str, Any] | None:
        found = await self.results.find(session.id, anybody)
        return None if found is None else dict(json.loads(found))

    async def played(self, session: Session, script: str) -> dict[str, Any]:
        await session.submit(OWNER, script, via="test", when_busy="queue")
        await eventually(lambda: not session.shown.turn and not session.shown.queue, "the script ended")
        found = await self.found(session)
        assert found is not None
        return found


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def test_a_turn_that_ends_while_nobody_is_connected_is_told(stage: Stage) -> None:
    session = await stage.session()
    found = await stage.played(session, "say hello")
    assert found == {
        **found,
        "session_id": f"wire-{session.id}",
        "status": "done",
        "prompt": "say hello",
        "result": "hello",
        "session": {"session_id": f"wire-{session.id}", "prompts": 1},
    }
    assert abs(found["created"] - time.time()) < 20
    assert 900 < found["expires"] - time.time() < 1001
    assert isinstance(found["duration_ms"], int)
    assert await stage.results.find(f"wire-{session.id}", anybody) == await stage.results.find(session.id, anybody)


async def test_while_it_runs_it_is_running_and_while_it_asks_it_waits(stage: Stage) -> None:
    session, script = await stage.session(), "ask Which?\npermit rm\nsay done"

    async def answered(answer: Answer) -> None:
        await eventually(lambda: session.shown.decisions, "it asks")
        await session.answer(OWNER, next(iter(session.shown.decisions)), answer, via="test")

    await session.submit(OWNER, script, via="test")
    await eventually(lambda: session.shown.decisions, "it asks")
    running = await stage.found(session)
    assert running is not None
    told = (running["status"], running["prompt"], running["result"], running["session"])
    assert told == ("running", script, None, None)
    await answered(Answer(text="this"))
    await eventually(lambda: any(it.kind == "permission" for it in session.shown.decisions.values()), "it asks again")
    waiting = await stage.found(session)
    assert waiting is not None
    assert (waiting["status"], waiting["session"]["prompts"]) == ("waiting_approval", 1)
    assert (waiting["prompt"], waiting["created"]) == (running["prompt"], running["created"])
    await answered(Answer(accept=True))
    await eventually(lambda: not session.shown.turn, "it ended")
    done = await stage.found(session)
    assert done is not None
    assert (done["status"], done["prompt"], done["created"]) == ("done", running["prompt"], running["created"])


@pytest.mark.parametrize(
    ("script", "status", "result"),
    [("fail the disk burns", "error", "the disk burns"), ("crash", "error", "the agent failed unexpectedly")],
    ids=["fails", "crashes"],
)
async def test_a_turn_that_fails_says_why(stage: Stage, script: str, status: str, result: str) -> None:
    found = await stage.played(await stage.session(), script)
    assert (found["status"], found["result"]) == (status, result)


async def test_a_turn_that_follows_at_once_is_told_too(stage: Stage) -> None:
    session = await stage.session()
    for number in range(30):
        await session.submit(OWNER, f"say {number}", via="test", when_busy="queue")
    await eventually(lambda: not session.shown.turn and not session.shown.queue, "all ended")
    found = await stage.found(session)
    assert found is not None
    assert (found["status"], found["prompt"], found["result"]) == ("done", "say 29", "29")


async def test_a_long_turn_keeps_its_prompt(stage: Stage) -> None:
    found = await stage.played(await stage.session(), "burst 3000\nsay end")
    assert (found["prompt"], found["result"]) == ("burst 3000\nsay end", "end")


async def test_sessions_of_other_dialects_are_not_in_it(stage: Stage) -> None:
    session = await stage.session(LOCAL)
    await session.submit(LOCAL, "say hello", via="test")
    await eventually(lambda: session.shown.prompts and not session.shown.turn, "it ended")
    ours = await stage.session()
    assert (await stage.played(ours, "say ours"))["result"] == "ours"
    assert await stage.found(session) is None


async def test_a_session_in_which_nothing_was_asked_has_no_result(stage: Stage) -> None:
    assert await stage.found(await stage.session()) is None


async def test_a_reader_sees_only_what_is_theirs(stage: Stage) -> None:
    mine, theirs = await stage.session(OWNER), await stage.session(OTHER)
    await stage.played(mine, "say mine")
    await theirs.submit(OTHER, "say theirs", via="test")
    await eventually(lambda: theirs.shown.prompts and not theirs.shown.turn, "it ended")

    def sees(owner: str) -> bool:
        return owner == OWNER.id

    assert await stage.results.find(theirs.id, sees) is None
    assert await stage.results.find(mine.id, sees) is not None
    assert len(await stage.results.newest(sees, count=10, most=MOST)) == 1
    assert len(await stage.results.newest(anybody, count=10, most=MOST)) == 2
    assert len(await stage.results.newest(anybody, count=1, most=MOST)) == 1
    assert await stage.results.newest(anybody, count=10, most=10) == []


async def test_a_session_that_is_deleted_leaves_nothing(stage: Stage) -> None:
    session = await stage.session()
    await stage.played(session, "say private")
    await stage.registry.delete(LOCAL, session.id)
    assert await stage.found(session) is None
    assert b"private" not in (stage.folder / "onion" / NAME).read_bytes()


async def test_what_belongs_to_no_session_any_more_goes_with_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "onion").mkdir()
    with reading(tmp_path / "onion") as reader:
        reader.file.append(line("deleted", prompt="private"))
    stage = Stage(tmp_path)
    await stage.start()
    assert await stage.results.newest(anybody, count=10, most=MOST) == []
    assert b"private" not in (tmp_path / "onion" / NAME).read_bytes()
    await stage.stop()


async def test_after_a_lost_server_what_ran_is_interrupted(tmp_path: Path) -> None:
    """Invariant 6. The first server writes no more: it is left as a crash leaves it."""
    first = Stage(tmp_path)
    await first.start()
    running, waiting = await first.session(), await first.session()
    await running.submit(OWNER, "wait", via="test")
    await waiting.submit(OWNER, "permit rm", via="test")
    await eventually(lambda: waiting.shown.decisions, "it asks")
    for session, status in ((running, "running"), (waiting, "waiting_approval")):
        before = await first.found(session)
        assert before is not None
        assert before["status"] == status
    lost = MemoryStore(dict(first.store.logs), dict(first.store.aliases), first.store.position)
    assert json.loads((tmp_path / "onion" / NAME).read_bytes().splitlines()[-1])["status"] != "done"
    second = Stage(tmp_path, lost)
    await second.start()
    try:
        for session, prompt in ((running, "wait"), (waiting, "permit rm")):
            found = await second.found(session)
            assert found is not None
            assert (found["status"], found["prompt"]) == ("interrupted", prompt)
            assert found["session_id"] == f"wire-{session.id}", "as it was called before"
    finally:
        await second.stop()
        await first.stop()


async def test_a_turn_that_no_server_got_to_write_down_is_written_by_the_next(tmp_path: Path) -> None:
    first = Stage(tmp_path)
    await first.registry.open()
    session = await first.session()
    await session.submit(OWNER, "say unseen", via="test")
    await eventually(lambda: session.shown.prompts and not session.shown.turn, "it ended")
    await first.registry.close(1.0)
    second = Stage(tmp_path, first.store)
    await second.start()
    found = await second.found(session)
    assert found is not None
    assert (found["status"], found["prompt"], found["result"]) == ("done", "say unseen", "unseen")
    size = (tmp_path / "onion" / NAME).stat().st_size
    await second.stop()
    third = Stage(tmp_path, first.store)
    await third.start()
    assert await third.found(session) == found
    assert (tmp_path / "onion" / NAME).stat().st_size == size
    await third.stop()


async def test_a_full_disk_is_said_once_and_the_server_goes_on(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    session = await stage.session()
    first = await stage.played(session, "say first")
    size = (stage.folder / "onion" / NAME).stat().st_size
    with caplog.at_level(logging.WARNING, "dragoman.onion"), disk_full_at(size + 10):
        for number in range(3):
            await session.submit(OWNER, f"say {number}", via="test", when_busy="queue")
        await eventually(lambda: not session.shown.turn and not session.shown.queue, "all ended")
        await eventually(lambda: caplog.records, "it is said")
        assert await stage.found(session) == first
    assert len([record for record in caplog.records if "cannot be written" in record.message]) == 1


async def test_a_place_that_cannot_be_used_is_said_and_the_server_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "onion").write_text("in the way")
    stage = Stage(tmp_path)
    with caplog.at_level(logging.WARNING, "dragoman.onion"):
        await stage.start()
        session = await stage.session()
        await session.submit(OWNER, "say hello", via="test")
        assert await stage.found(session) is None
        assert await stage.results.newest(anybody, count=10, most=MOST) == []
    assert "are not kept" in caplog.text
    await stage.stop()


async def test_readers_and_writers_at_once_see_whole_results(stage: Stage) -> None:
    sessions = [await stage.session() for _ in range(8)]

    async def play(session: Session) -> None:
        for number in range(10):
            await session.submit(OWNER, f"say {number}", via="test", when_busy="queue")

    async def read() -> None:
        for _ in range(30):
            for found in await stage.results.newest(anybody, count=100, most=MOST):
                assert json.loads(found)["session"]["session_id"].startswith("wire-")

    await asyncio.gather(*map(play, sessions), *(read() for _ in range(4)))
    await eventually(lambda: all(not it.shown.turn and not it.shown.queue for it in sessions), "all ended")
    for session in sessions:
        found = await stage.found(session)
        assert found is not None
        assert (found["status"], found["result"]) == ("done", "9")


async def test_a_disk_that_stands_still_delays_no_turn_and_costs_no_memory(stage: Stage) -> None:
    sessions = [await stage.session() for _ in range(4)]
    await stage.played(sessions[0], "say before")
    still = threading.Event()
    stage.results._thread.submit(still.wait)
    for number in range(25):
        for session in sessions:
            await session.submit(OWNER, f"say {number}", via="test", when_busy="queue")
    await eventually(lambda: all(not it.shown.turn and not it.shown.queue for it in sessions), "all ended")
    assert len(stage.results._waiting) <= len(sessions)
    still.set()
    for session in sessions:
        found = await stage.found(session)
        assert found is not None
        assert (found["status"], found["prompt"], found["result"]) == ("done", "say 24", "24")


async def test_of_a_turn_that_is_in_memory_nothing_is_read_from_the_journal(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await stage.session()
    await stage.played(session, "say first")

    async def read(*_given: object) -> list[Event]:
        raise AssertionError("the journal was read")

    monkeypatch.setattr(stage.registry.journal, "read_back", read)
    found = await stage.played(session, "say second")
    assert (found["prompt"], found["result"]) == ("say second", "second")
