"""What came of sessions, derived from the journal (spec §7 Persistence; §15 rows 25 and 28)."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.agents.scripted import ScriptedFactory
from dragoman.dialects.onion.results import Results, Shown
from dragoman.dialects.onion.results_file import NAME
from dragoman.hub.events import Answer, Event
from dragoman.hub.memory import MemoryJournal, MemoryStore
from dragoman.hub.permissions import EVERYTHING, LOCAL, Principal
from dragoman.hub.registry import Registry
from dragoman.hub.session import Session
from tests.dialects.hub.rig import eventually

from .results_kit import MOST, disk_full_at, line, reading

OWNER = Principal("onion:0xaa", EVERYTHING)
OTHER = Principal("onion:0xbb", EVERYTHING)


def anybody(_owner: str) -> bool:
    return True


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
