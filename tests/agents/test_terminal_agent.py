"""The terminal agent: real programs on real terminals, and what the log says of them (invariants 1, 3, 6, 7, 9, 10)."""

from __future__ import annotations

import asyncio
import gc
import stat
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.common.processes import pid_start
from dragoman.agents.terminal import agent as agent_module
from dragoman.agents.terminal import paced_facts
from dragoman.agents.terminal.agent import TerminalFactory
from dragoman.agents.terminal.settings import TerminalSettings
from dragoman.hub import registry as registry_module
from dragoman.hub.clock import SystemClock
from dragoman.hub.errors import (
    AlreadyRunning,
    Closed,
    InvalidRequest,
    InvalidSize,
    LimitReached,
    StorageUnavailable,
    Unsupported,
)
from dragoman.hub.events import (
    AgentExited,
    AgentStarted,
    AnyFact,
    Event,
    LogWritten,
    Notified,
    SessionClosed,
    SessionCreated,
    StateChanged,
    TerminalReserved,
    TerminalResized,
    TerminalTitled,
    encode_fact,
)
from dragoman.hub.limits import HubLimits
from dragoman.hub.memory import MemoryJournal
from dragoman.hub.permissions import LOCAL
from dragoman.hub.ports import TapeReader, Terminal
from dragoman.hub.session import Session
from tests.hub.rig import Hub, InMemory, OnDisk, proven, rewrite, turns_of_the_loop

from .pty_rig import alive, python, until

BOTH_LOOPS = True


class Programs:
    """A hub whose sessions are programs."""

    def __init__(self, hub: Hub, factory: TerminalFactory, folder: Path) -> None:
        self.hub = hub
        self.factory = factory
        self.folder = folder

    async def create(self, *command: str, **options: Any) -> Session:
        return await self.hub.create("terminal", options={"command": list(command), **options})

    async def start(self, *command: str, **options: Any) -> Session:
        session = await self.create(*command, **options)
        await session.start(LOCAL)
        return session

    async def run(self, *command: str, **options: Any) -> Session:
        """Start it and wait for its end."""
        session = await self.start(*command, **options)
        await ended(session)
        return session

    async def facts(self, session: Session | str, *kinds: type) -> list[Any]:
        return [fact for fact in await self.hub.facts(session) if not kinds or isinstance(fact, kinds)]


Make = Callable[..., Awaitable[Programs]]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes hubs of programs: ``await make(live=2)``. Their logs are checked at the end."""
    async with AsyncExitStack() as hubs:

        async def make(*, store: Any = None, limits: HubLimits | None = None, **settings: Any) -> Programs:
            folder = tmp_path / "terminals"
            factory = TerminalFactory(TerminalSettings(**settings), folder=folder, url=lambda name: f"url:{name}")
            hub = Hub(store or InMemory(), tmp_path, limits=limits, factories=[factory])
            return Programs(await hubs.enter_async_context(proven(hub)), factory, folder)

        yield make


@pytest.fixture
async def programs(make: Make) -> Programs:
    return await make()


class Viewer:
    """Somebody who watches a terminal: its bytes joined by offset, and what it was told."""

    def __init__(self, session: Session, offset: int | None = None) -> None:
        assert session.terminal is not None
        self.terminal: Terminal = session.terminal
        self.offset = self.terminal.tape.end if offset is None else offset
        self.data = b""
        self.sizes: list[tuple[int, int]] = []
        self.stop = self.terminal.watch(self)

    def readers(self) -> Collection[TapeReader]:
        return ()

    def tape_grew(self) -> None:
        at, data = self.terminal.tape.read(self.offset)
        assert at == self.offset, "bytes were lost or given twice"
        self.offset, self.data = at + len(data), self.data + data

    def screen_changed(self) -> None:
        """Pictures are pulled where a test wants them."""

    def resized(self) -> None:
        self.sizes.append((self.terminal.cols, self.terminal.rows))

    async def sees(self, text: str) -> None:
        await until(lambda: text.encode() in self.data, lambda: f"{text!r} in {self.data!r}")


async def ended(session: Session) -> None:
    await until(lambda: session.shown.exit is not None and session.head == session.shown.seq, lambda: session.shown)


def shell(script: str) -> Sequence[str]:
    return "sh", "-c", script


# A run


async def test_a_run_leaves_its_whole_story_in_the_log(programs: Programs) -> None:
    """Invariants 6 and 7: started, working, exited; every offset true, the end after the last byte."""
    session = await programs.create(*shell("printf hello; exit 3"), cols=100, rows=30)
    viewer = Viewer(session)
    await session.start(LOCAL)
    assert session.shown.executor is not None
    await ended(session)
    started, working, exited, state = (await programs.facts(session))[1:]
    assert isinstance(started, AgentStarted)
    assert (started.cols, started.rows, started.run, started.tape_offset) == (100, 30, 1, 0)
    assert started.pid is not None
    assert started.tape_reserved == agent_module.TAPE_RESERVE
    assert working == StateChanged(prev="starting", next="working", cause="process:activity", tape_offset=5)
    assert exited == AgentExited(cause="exit", code=3, tape_offset=5, bytes_read=5, bytes_written=0)
    assert state == StateChanged(prev="working", next="exited", cause="process:exit", tape_offset=5)
    assert viewer.data == b"hello"
    assert session.shown.summary == "exited"
    assert programs.factory.running == 0


async def test_a_program_that_says_nothing_was_never_working(programs: Programs) -> None:
    session = await programs.run("true")
    assert [type(fact) for fact in await programs.facts(session)][1:] == [AgentStarted, AgentExited, StateChanged]


async def test_a_program_killed_by_a_signal_says_by_which(programs: Programs) -> None:
    session = await programs.run(*shell("kill -KILL $$"))
    (exited,) = await programs.facts(session, AgentExited)
    assert (exited.cause, exited.code, exited.signal) == ("signal", None, 9)


async def test_a_program_runs_once_at_a_time(programs: Programs) -> None:
    session = await programs.create("cat")
    results = await asyncio.gather(*(session.start(LOCAL) for _ in range(3)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["AlreadyRunning", "AlreadyRunning", "NoneType"]
    with pytest.raises(AlreadyRunning):
        await session.start(LOCAL)
    assert len(await programs.facts(session, AgentStarted)) == 1


async def test_a_terminal_without_a_driver_takes_no_prompt(programs: Programs) -> None:
    session = await programs.start("cat")
    head = session.head
    with pytest.raises(Unsupported):
        await session.submit(LOCAL, "hello", via="test")
    assert session.head == head


async def test_input_goes_to_the_program_and_not_to_the_log(programs: Programs) -> None:
    """Invariant 10: it may be a password. Only its size is kept."""
    session = await programs.create(*python("import getpass; print('got', len(getpass.getpass()))"))
    viewer = Viewer(session)
    await session.start(LOCAL)
    await viewer.sees("Password:")
    session.control(LOCAL).write(b"s3cret\r")
    await viewer.sees("got 6")
    await ended(session)
    facts = await programs.facts(session)
    assert not any(b"s3cret" in encode_fact(fact) for fact in facts)
    assert facts[-2].bytes_written == 7


# Runs one after the other


async def test_what_a_run_left_behind_is_ended_before_the_next_one_starts(programs: Programs) -> None:
    """All of a session's programs carry one marker: what ends those of one run must never meet the next one's."""
    session = await programs.create(*shell("(sleep 100 & sleep 100) > /dev/null 2>&1 & printf over"))
    for run in range(1, 6):
        await session.start(LOCAL)
        await until(lambda: session.shown.runs == run and session.shown.exit is not None)  # noqa: B023
    assert [fact.cause for fact in await programs.facts(session, AgentExited)] == ["exit"] * 5


async def test_the_next_run_goes_on_where_the_last_one_ended(programs: Programs) -> None:
    """Invariants 1 and 7: offsets go on, and both runs' bytes are there."""
    session = await programs.create(*shell("printf run-$RANDOM-; printf over"))
    viewer = Viewer(session)
    for run in (1, 2, 3):
        await session.start(LOCAL)
        await until(lambda: session.shown.runs == run and session.shown.exit is not None)  # noqa: B023
    runs = await programs.facts(session, AgentStarted)
    ends = await programs.facts(session, AgentExited)
    assert [fact.run for fact in runs] == [1, 2, 3]
    assert [fact.tape_offset for fact in runs[1:]] == [fact.tape_offset for fact in ends[:-1]]
    assert viewer.data.count(b"over") == 3
    assert ends[-1].tape_offset == len(viewer.data)


@pytest.mark.parametrize("disk", [False, True], ids=["memory", "disk"])
async def test_the_last_tape_and_picture_come_back_after_a_restart(make: Make, tmp_path: Path, disk: bool) -> None:
    """Invariant 7."""
    programs = await make(store=OnDisk(tmp_path / "store") if disk else None)
    session = await programs.run(*shell("printf 'hello\\nworld'"), cols=40, rows=10)
    await programs.hub.restart()
    session = await programs.hub.get(session)
    assert session.terminal is not None
    assert session.terminal.tape.read(0) == (0, b"hello\r\nworld")
    screen = session.terminal.screen
    assert screen is not None
    picture = screen.snapshot()
    assert (picture.lines[:3], picture.cols, picture.rows) == (("hello", "world", ""), 40, 10)
    viewer = Viewer(session)
    await session.start(LOCAL)
    await viewer.sees("world")
    await ended(session)
    assert session.terminal.tape.read(0) == (0, b"hello\r\nworld" * 2)


async def test_the_last_tape_and_picture_come_back_after_the_session_left_memory(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariants 2 and 7."""
    monkeypatch.setattr(registry_module, "TRIM_DELAY", 0.0)
    programs = await make(limits=HubLimits(loaded_idle=0))
    session = await programs.run(*shell("printf hello"))
    name = session.id
    del session
    await until(lambda: programs.hub.registry.loaded == 0)
    gc.collect()
    session = await programs.hub.get(name)
    assert session.terminal is not None
    assert session.terminal.tape.read(0) == (0, b"hello")
    screen = session.terminal.screen
    assert screen is not None
    assert screen.snapshot().lines[0] == "hello"
    await session.start(LOCAL)
    await until(lambda: session.shown.runs == 2 and session.shown.exit is not None)
    assert [fact.tape_offset for fact in await programs.facts(session, AgentStarted)] == [0, 5]


async def test_an_end_that_cannot_be_kept_is_still_an_end(programs: Programs) -> None:
    """Invariant 6: a full disk takes the tape, not the truth."""
    session = await programs.create(*shell("printf hello"))
    (programs.folder / session.id / "tape").mkdir(parents=True)
    await session.start(LOCAL)
    await ended(session)
    assert session.shown.summary == "exited"
    assert session.terminal is not None
    assert session.terminal.tape.read(0) == (0, b"hello")


# Offsets and lost servers


async def lost_store(*facts: AnyFact) -> InMemory:
    """A store whose server was lost after these facts of session ``s``."""
    created = SessionCreated(
        kind="terminal",
        agent="unknown",
        cwd="/",
        title="t",
        owner="local",
        options={"command": ["sh", "-c", "printf x"]},
    )
    store = InMemory()
    journal: MemoryJournal = store.journal()
    await journal.open(lambda _: None)
    events = [Event(seq, SystemClock().now(), "before", fact) for seq, fact in enumerate((created, *facts), 1)]
    rewrite(events, "s", journal)
    await journal.flush()
    await journal.close()
    return store


async def test_no_offset_of_a_lost_server_is_used_again(make: Make) -> None:
    """Invariant 7: nobody knows how far it had come, so the next run starts where nothing was reserved."""
    run = AgentStarted(pid=None, tape_offset=0, tape_reserved=1000)
    programs = await make(store=await lost_store(run, TerminalReserved(tape_reserved=5000)))
    session = await programs.hub.get("s")
    viewer = Viewer(session, 5000)
    await session.start(LOCAL)
    await viewer.sees("x")
    await ended(session)
    assert [fact.tape_offset for fact in await programs.facts(session, AgentStarted)] == [0, 5000]
    assert viewer.offset == 5001
    assert session.terminal is not None
    assert session.terminal.tape.start == 5000


async def test_a_tape_kept_before_the_loss_is_not_continued(make: Make) -> None:
    """Invariant 7: the end that it was kept at is not the end that was reached."""
    programs = await make()
    session = await programs.run(*shell("printf hello"))
    name, log = session.id, await programs.hub.log(session)
    await programs.hub.close()
    store = InMemory()
    journal = store.journal()
    await journal.open(lambda _: None)
    lost = AgentStarted(pid=None, tape_offset=5, tape_reserved=900, run=2)
    rewrite([*log, Event(len(log) + 1, 1, "lost", lost)], name, journal)
    await journal.flush()
    await journal.close()
    programs = await make(store=store)
    session = await programs.hub.get(name)
    assert session.terminal is not None
    assert (session.terminal.tape.start, session.terminal.tape.end) == (900, 900)


async def test_more_is_reserved_before_what_was_reserved_is_used(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 7."""
    monkeypatch.setattr(agent_module, "TAPE_RESERVE", 100_000)
    programs = await make()
    session = await programs.create(*shell("head -c 400000 /dev/zero | tr '\\0' x"))
    viewer = Viewer(session)
    bounds: list[tuple[int, int]] = []
    grew = viewer.tape_grew

    def tape_grew() -> None:
        grew()
        bounds.append((viewer.offset, session.state.tape_reserved))

    viewer.tape_grew = tape_grew  # type: ignore[method-assign]
    await session.start(LOCAL)
    await ended(session)
    assert len(viewer.data) == 400_000
    assert all(offset <= reserved for offset, reserved in bounds)
    reserved = [fact.tape_reserved for fact in await programs.facts(session, TerminalReserved)]
    assert len(reserved) >= 4
    assert reserved == sorted(reserved)


async def test_no_byte_is_shown_before_its_offset_is_reserved_on_disk(programs: Programs, tmp_path: Path) -> None:
    """Invariant 7: a crash right after the start would give the first offsets away again."""
    mark = tmp_path / "written"
    session = await programs.create(*shell(f"printf hello; echo > {mark}; cat"))
    viewer = Viewer(session)
    starting = asyncio.create_task(session.start(LOCAL))
    while session.head == 1:
        await asyncio.sleep(0)
    programs.hub.journal.fail("the machine stops")
    await until(mark.exists)
    await turns_of_the_loop(200)
    assert (viewer.data, viewer.terminal.tape.end, session.shown.executor) == (b"", 0, None)
    assert not starting.done()
    programs.hub.journal.heal()
    await starting
    await viewer.sees("hello")


async def test_a_program_that_never_got_its_start_onto_the_disk_can_be_closed(make: Make) -> None:
    """Invariant 9."""
    programs = await make()
    session = await programs.create("cat")
    starting = asyncio.create_task(session.start(LOCAL))
    while session.head == 1:
        await asyncio.sleep(0)
    programs.hub.journal.fail("the disk is full")
    closing = asyncio.create_task(session.close("test"))
    await until(lambda: session.state.closed)
    assert session.state.executor is None
    programs.hub.journal.heal()
    await asyncio.gather(starting, closing)


async def test_a_crash_under_a_running_program_ends_it_and_gives_no_offset_twice(make: Make) -> None:
    """Invariants 6 and 7, with a program that is really there."""
    programs = await make()
    session = await programs.create(*shell("printf hello; cat"))
    viewer = Viewer(session)
    await session.start(LOCAL)
    await viewer.sees("hello")
    assert session.shown.executor is not None
    pid = session.shown.executor.pid
    assert pid is not None
    await programs.hub.crash()
    fresh = TerminalFactory(programs.factory.settings, folder=programs.folder, url=programs.factory.url)
    programs.hub.factories[-1] = fresh
    await programs.hub.open()
    session = await programs.hub.get(session)
    await session.start(LOCAL)
    assert not alive(pid)
    (first, second) = await programs.facts(session, AgentStarted)
    assert second.tape_offset == first.tape_reserved
    assert session.shown.executor is not None
    assert session.shown.executor.pid is not None
    assert alive(session.shown.executor.pid)
    await turns_of_the_loop()
    assert session.terminal is not None
    assert session.terminal.tape.start == first.tape_reserved
    assert fresh.running == 1


async def test_what_a_lost_server_left_running_is_ended_and_said(make: Make) -> None:
    """Invariant 6."""
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as orphan:
        run = AgentStarted(pid=orphan.pid, pid_start=pid_start(orphan.pid), tape_offset=0, tape_reserved=10)
        programs = await make(store=await lost_store(run))
        await until(lambda: not alive(orphan.pid))
        orphan.wait()
        await until(lambda: programs.hub.registry.row(LOCAL, "s").head == 5)
    exited, state, line = (await programs.facts("s"))[2:]
    assert exited == AgentExited(cause="server-lost", tape_offset=10)
    assert state == StateChanged(prev="starting", next="exited", cause="process:server-lost")
    assert isinstance(line, LogWritten)
    assert str(orphan.pid) in line.line


async def test_what_a_closed_session_left_running_is_ended_and_said_too(make: Make) -> None:
    """Invariant 6: its program could not be ended in time, and then the server was lost."""
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as orphan:
        run = AgentStarted(pid=orphan.pid, pid_start=pid_start(orphan.pid), tape_offset=0, tape_reserved=10)
        programs = await make(store=await lost_store(run, SessionClosed(reason="closed")))
        await until(lambda: not alive(orphan.pid))
        orphan.wait()
        await until(lambda: programs.hub.registry.row(LOCAL, "s").head == 6)
    assert [type(fact) for fact in (await programs.facts("s"))[3:]] == [AgentExited, StateChanged, LogWritten]


# Secrets


async def test_the_environment_reaches_the_program_and_never_the_log(make: Make, tmp_path: Path) -> None:
    """Invariants 2 and 10."""
    store = OnDisk(tmp_path / "store")
    programs = await make(store=store)
    session = await programs.create(
        *python("import os; print(os.environ['KEY'][::-1], os.environ['COOP_URL'])"), env={"KEY": "s3cret"}
    )
    viewer = Viewer(session)
    await session.start(LOCAL)
    await viewer.sees(f"terc3s url:{session.id}")
    await ended(session)
    kept = programs.folder / session.id / "environment.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    await programs.hub.restart()
    session = await programs.hub.get(session)
    assert "env" not in session.shown.options
    await session.start(LOCAL)
    await until(lambda: session.shown.runs == 2 and session.shown.exit is not None)
    assert session.terminal is not None
    assert session.terminal.tape.read(0)[1].count(b"terc3s") == 2
    await programs.hub.close()
    assert not any(b"s3cret" in path.read_bytes() for path in store.folder.rglob("*") if path.is_file())
    await programs.hub.open()
    await programs.hub.registry.delete(LOCAL, session.id)
    assert not kept.parent.exists()


async def test_an_environment_that_cannot_be_read_refuses_the_start(programs: Programs) -> None:
    session = await programs.create("true", env={"KEY": "value"})
    (programs.folder / session.id / "environment.json").write_bytes(b"{")
    with pytest.raises(StorageUnavailable):
        await session.start(LOCAL)
    assert programs.factory.running == 0
    assert session.head == 1


# Titles and notices


TITLES = """
import sys, time
for n in range(300):
    sys.stdout.write(f"\\x1b]2;title {n}\\x07")
    sys.stdout.flush()
    time.sleep(0.001)
"""


async def test_a_storm_of_titles_is_a_few_facts_and_the_last_one_is_there(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paced_facts, "NOTE_INTERVAL", 0.1)
    session = await programs.run(*python(TITLES))
    titles = [fact.title for fact in await programs.facts(session, TerminalTitled)]
    assert titles[0] == "title 0"
    assert titles[-1] == "title 299"
    assert len(titles) < 60
    assert session.shown.window_title == "title 299"


async def test_a_title_that_is_set_back_in_time_ends_as_it_is(programs: Programs) -> None:
    """What the log says last is what the window shows."""
    session = await programs.run(*shell("printf '\\033]2;a\\007\\033]2;b\\007\\033]2;a\\007'"))
    assert session.shown.window_title == "a"
    assert [fact.title for fact in await programs.facts(session, TerminalTitled)] == ["a"]


async def test_a_title_that_stays_is_said_once(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced_facts, "NOTE_INTERVAL", 0.0)
    session = await programs.run(*shell("for n in 1 2 3 4; do printf '\\033]2;same\\007'; sleep 0.02; done"))
    assert [fact.title for fact in await programs.facts(session, TerminalTitled)] == ["same"]


async def test_a_notification_is_a_fact(programs: Programs) -> None:
    session = await programs.run(*shell("printf '\\033]9;look here\\007'"))
    assert await programs.facts(session, Notified) == [Notified(message="look here", kind="terminal")]


# Sizes


SIZES = """
import os, signal, sys
def told(*_):
    print("size", *os.get_terminal_size(0), flush=True)
signal.signal(signal.SIGWINCH, told)
print("ready", flush=True)
while sys.stdin.readline() != "end\\n":
    pass
"""


async def test_a_resize_reaches_program_log_and_watchers(programs: Programs) -> None:
    session = await programs.create(*python(SIZES))
    viewer = Viewer(session)
    await session.start(LOCAL)
    await viewer.sees("ready")
    terminal = session.control(LOCAL)
    offset = terminal.tape.end
    terminal.resize(120, 40, by="someone")
    terminal.resize(120, 40)
    await viewer.sees("size 120 40")
    for cols, rows in ((0, 10), (10, 0), (1001, 10), (10, 501), (1000, 500)):
        with pytest.raises(InvalidSize):
            terminal.resize(cols, rows)
    terminal.write(b"end\n")
    await ended(session)
    terminal.resize(90, 20)
    assert await programs.facts(session, TerminalResized) == [
        TerminalResized(cols=120, rows=40, tape_offset=offset, by="someone")
    ]
    assert viewer.sizes == [(120, 40)]
    assert (terminal.cols, terminal.rows) == (120, 40)


@pytest.mark.parametrize(
    "options", [{"cols": 0}, {"rows": 501}, {"cols": 1000, "rows": 500}, {"colour": 1}, {"cols": "x"}]
)
async def test_options_that_cannot_be_are_refused(programs: Programs, options: dict[str, Any]) -> None:
    with pytest.raises((InvalidRequest, InvalidSize)):
        await programs.create("true", **options)
    assert programs.hub.registry.rows(LOCAL) == []


# Limits, refusals


async def test_the_programs_that_run_have_a_limit(make: Make) -> None:
    programs = await make(live=2)
    sessions = [await programs.create("cat") for _ in range(3)]
    for session in sessions[:2]:
        await session.start(LOCAL)
    with pytest.raises(LimitReached, match=r"terminal\.live"):
        await sessions[2].start(LOCAL)
    assert sessions[2].head == 1
    await sessions[0].end_executor()
    await sessions[2].start(LOCAL)


async def test_the_limit_holds_for_programs_that_start_at_once(make: Make) -> None:
    """A start that still opens its recording is a start."""
    programs = await make(live=1, record=True)
    sessions = [await programs.create("cat") for _ in range(3)]
    results = await asyncio.gather(*(session.start(LOCAL) for session in sessions), return_exceptions=True)
    assert [type(result).__name__ for result in results].count("LimitReached") == 2
    assert programs.factory.running == 1


async def test_a_start_that_fails_can_be_tried_again(make: Make, tmp_path: Path) -> None:
    """With a recording too: the run that never came to be leaves nothing in the way of the next one."""
    programs = await make(record=True)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nprintf hello\n")
    program.chmod(0o755)
    session = await programs.create(str(program))
    program.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            await session.start(LOCAL)
    assert session.head == 1
    assert programs.factory.running == 0
    assert list((programs.folder / session.id).iterdir()) == []
    (tmp_path / "away").rename(program)
    await session.start(LOCAL)
    await ended(session)
    assert b"hello" in (programs.folder / session.id / "run-1.cast").read_bytes()


async def test_a_recording_that_the_log_does_not_know_is_kept_beside(make: Make) -> None:
    programs = await make(record=True)
    session = await programs.create(*shell("printf hello"))
    folder = programs.folder / session.id
    folder.mkdir(parents=True)
    (folder / "run-1.cast").write_text("of a lost server")
    await session.start(LOCAL)
    await ended(session)
    assert (folder / "run-1.cast").read_text() == "of a lost server"
    assert b"hello" in (folder / "run-1-2.cast").read_bytes()


# The end


STUBBORN = """
import signal, time
for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
print("ready", flush=True)
while True:
    time.sleep(1)
"""


async def test_closing_ends_the_program_within_the_budget(programs: Programs) -> None:
    """Invariants 6 and 9: first the executor's end, then the session's."""
    session = await programs.create(*python(STUBBORN))
    viewer = Viewer(session)
    await session.start(LOCAL)
    await viewer.sees("ready")
    assert session.shown.executor is not None
    pid = session.shown.executor.pid
    assert pid is not None
    loop = asyncio.get_running_loop()
    began = loop.time()
    await session.close("test", budget=0.5)
    assert loop.time() - began < 0.9
    assert not alive(pid)
    exited, state, closed = (await programs.facts(session))[-3:]
    assert isinstance(exited, AgentExited)
    assert (exited.cause, exited.signal) == ("closed", 9)
    assert isinstance(state, StateChanged)
    assert isinstance(closed, SessionClosed)


async def test_a_program_that_cannot_be_ended_in_time_costs_no_more_than_the_budget(make: Make) -> None:
    """Invariant 9: what is told of its end comes when it is true, also after the close."""
    from dragoman.agents.common.ending import KillSchedule

    programs = await make(schedule=KillSchedule(terminate=0.3, kill=0.8, give_up=3.0))
    session = await programs.create(*python(STUBBORN))
    viewer = Viewer(session)
    await session.start(LOCAL)
    await viewer.sees("ready")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await session.close("test", budget=0.0)
    assert loop.time() - began < 0.5
    await until(lambda: session.shown.executor is None)
    assert [type(fact) for fact in await programs.facts(session)][-3:] == [SessionClosed, AgentExited, StateChanged]
    assert programs.factory.running == 0


async def test_the_executor_can_be_ended_and_started_again(programs: Programs) -> None:
    session = await programs.start("cat")
    await session.end_executor()
    assert session.shown.summary == "exited"
    (exited,) = await programs.facts(session, AgentExited)
    assert exited.cause == "closed"
    await session.end_executor()
    await session.start(LOCAL)
    assert session.shown.executor is not None


async def test_a_stop_ends_all_programs_at_once(programs: Programs) -> None:
    """Invariant 6: nothing runs once the server has stopped."""
    sessions = [await programs.start("cat") for _ in range(5)]
    pids = [session.shown.executor.pid for session in sessions if session.shown.executor is not None]
    await programs.hub.restart()
    assert not any(alive(pid) for pid in pids if pid is not None)
    for session in sessions:
        facts = await programs.facts(session)
        assert [type(fact) for fact in facts[-2:]] == [AgentExited, StateChanged]


async def test_a_start_that_meets_the_close_leaves_no_program(make: Make) -> None:
    """Invariant 6: a closed session has no executor, whatever was under way."""
    programs = await make(record=True)
    for steps in range(6):
        session = await programs.create("cat")
        starting = asyncio.create_task(session.start(LOCAL))
        for _ in range(steps):
            await asyncio.sleep(0)
        await session.close("test")
        (result,) = await asyncio.gather(starting, return_exceptions=True)
        assert result is None or isinstance(result, Closed)
        assert session.shown.executor is None
        assert programs.factory.running == 0
        assert (await programs.facts(session))[-1] == SessionClosed(reason="test")


# Questions of the program to its terminal


ASKS = """
import os, sys, tty
tty.setraw(0)
os.write(1, sys.argv[1].encode().decode("unicode_escape").encode() + b"asked")
got = b""
while not got.endswith(b"END"):
    got += os.read(0, 1000)
os.write(1, b"got:" + got.hex().encode() + b".")
"""

QUESTIONS = {
    "device": ("\\x1b[c", b"\x1b[?62;22c", b"\x1b[?1;2c"),
    "version": ("\\x1b[>q", b"\x1bP>|dragoman\x1b\\", b"\x1bP>|XTerm(390)\x1b\\"),
    "status": ("\\x1b[5n", b"\x1b[0n", b"\x1b[0n"),
    "cursor": ("\\x1b[6n", b"\x1b[1;1R", b"\x1b[7;9R"),
    "background": ("\\x1b]11;?\\x07", b"\x1b]11;rgb:0000/0000/0000\x07", b"\x1b]11;rgb:ffff/ffff/ffff\x07"),
}


async def asks(programs: Programs, query: str) -> tuple[Session, Viewer]:
    session = await programs.create(*python(ASKS), query)
    viewer = Viewer(session)
    await session.start(LOCAL)
    await viewer.sees("asked")
    return session, viewer


async def answered(session: Session, viewer: Viewer) -> bytes:
    """What the program got, up to the END that is sent now."""
    session.control(LOCAL).write(b"END")
    await viewer.sees(".")
    await ended(session)
    return bytes.fromhex(viewer.data.rpartition(b"got:")[2].rstrip(b".").decode()).removesuffix(b"END")


@pytest.mark.parametrize(("query", "ours", "theirs"), QUESTIONS.values(), ids=QUESTIONS)
async def test_exactly_one_answer_reaches_the_program(
    programs: Programs, query: str, ours: bytes, theirs: bytes
) -> None:
    """However many viewers' terminals read the same question from the tape and answer it."""
    session, viewer = await asks(programs, query)
    for _ in range(3):
        session.control(LOCAL).write(theirs)
    session.control(LOCAL).write(b"typed" + theirs + b"on")
    assert await answered(session, viewer) == ours + b"typedon"


async def test_a_viewers_answer_to_what_nobody_asked_is_input(programs: Programs) -> None:
    session, viewer = await asks(programs, "")
    session.control(LOCAL).write(b"\x1b[?1;2c")
    assert await answered(session, viewer) == b"\x1b[?1;2c"


async def test_keys_are_no_answers(programs: Programs) -> None:
    session, viewer = await asks(programs, "\\x1b[6n")
    terminal = session.control(LOCAL)
    assert terminal.press(["f3", "shift-up", "escape"]) == 3 + 6 + 1
    assert await answered(session, viewer) == b"\x1b[1;1R" + b"\x1bOR" + b"\x1b[1;2A" + b"\x1b"
