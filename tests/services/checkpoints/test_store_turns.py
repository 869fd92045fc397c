"""Many at once: whose turn it is, walks that serve many, calls that are cancelled, and two servers on one folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.hub.checkpoints import CheckpointProblem
from dragoman.services.checkpoints import CheckpointStore, swap
from dragoman.services.checkpoints import walk as walks
from dragoman.services.checkpoints.content import read_pieces
from dragoman.services.checkpoints.objects import Batch
from dragoman.services.checkpoints.places import Place, Turns

from .store_rig import Desk, quick, shape, stored, unfinished, until


class Gate:
    """Holds the thread that reads a file until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        monkeypatch.setattr(walks, "read_pieces", self._read)

    def open(self) -> None:
        self._open.set()

    def _read(self, file: int, size: int, put: Any, chunk: int, stop: Any) -> Any:
        self.reached.set()
        while not self._open.wait(0.005):
            stop.check()
        return read_pieces(file, size, put, chunk, stop)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[walks.Walk]:
    """Every walk there was."""
    seen: list[walks.Walk] = []
    run = walks.Walk.run

    def noted(self: walks.Walk) -> walks.View:
        seen.append(self)
        return run(self)

    monkeypatch.setattr(walks.Walk, "run", noted)
    return seen


def place(path: str) -> Place:
    return Place(os.fsencode(path), frozenset())


async def test_turns_are_in_order_and_a_folder_within_another_waits_for_it() -> None:
    turns, order = Turns(), []

    async def work(name: str, path: str) -> None:
        async with turns.hold(place(path)):
            order.append(f"+{name}")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append(f"-{name}")

    jobs = [("a", "/w"), ("b", "/w/in"), ("c", "/w2"), ("d", "/w"), ("e", "/w/in/deep")]
    await asyncio.gather(*(work(*job) for job in jobs))
    alone = [it for it in order if it[1] != "c"]
    assert alone == ["+a", "-a", "+b", "-b", "+d", "-d", "+e", "-e"]
    assert order.index("+c") < order.index("-a")


async def test_one_who_gives_up_waiting_lets_the_next_go() -> None:
    turns = Turns()
    async with turns.hold(place("/w")):
        gives_up = asyncio.create_task(_held(turns, "/w"))
        waits = asyncio.create_task(_held(turns, "/w"))
        await asyncio.sleep(0)
        gives_up.cancel()
        await asyncio.wait([gives_up])
        assert not waits.done()
    await waits


async def _held(turns: Turns, path: str) -> None:
    async with turns.hold(place(path)):
        pass


async def test_two_hundred_sessions_on_one_folder_share_a_walk(desk: Desk, walked: list[walks.Walk]) -> None:
    for number in range(50):
        (desk.work / str(number)).write_bytes(os.urandom(1000))
    await desk.take()
    walked.clear()
    taken = await asyncio.gather(*(desk.store.take(f"n{it}", desk.work, "cp-0000", first=None) for it in range(200)))
    assert len(walked) <= 2
    assert {it.size for it in taken} == {0}
    assert len({it.read_text().partition('"image"')[2][:70] for it in desk.folder.glob("n*/metadata.json")}) == 1


async def test_who_asks_while_a_walk_goes_on_gets_the_next(desk: Desk, gate: Gate) -> None:
    (desk.work / "file").write_text("old")
    first = asyncio.create_task(desk.store.take("s1", desk.work, "cp-0000", first=None))
    await until(gate.reached.is_set)
    others = [asyncio.create_task(desk.store.take(f"n{it}", desk.work, "cp-0000", first=None)) for it in range(3)]
    await until(lambda: desk.store._rounds)
    (desk.work / "later").write_text("new")
    gate.open()
    await asyncio.gather(first, *others)
    (desk.work / "later").unlink()
    await desk.store.restore("n1", desk.work, "cp-0000", safety="cp-0001", first="cp-0000")
    assert (desk.work / "later").read_text() == "new"


async def test_a_checkpoint_and_a_restore_together_are_one_after_the_other(desk: Desk) -> None:
    """Defect 17 of the original: backup operations interleaved."""
    for number in range(30):
        (desk.work / str(number)).write_text("old")
    first, _ = await desk.take()
    old = shape(desk.work)
    for number in range(30):
        (desk.work / str(number)).write_text("new")
    (desk.work / "in").mkdir()
    new = shape(desk.work)
    await asyncio.gather(
        desk.restore(first),
        desk.store.take("s2", desk.work, "cp-0000", first=None),
        desk.store.take("s3", desk.work / "in", "cp-0000", first=None),
        return_exceptions=True,
    )
    assert shape(desk.work) == old
    await desk.store.restore("s2", desk.work, "cp-0000", safety="cp-0001", first="cp-0000")
    assert shape(desk.work) in (old, new)


async def test_a_take_that_is_cancelled_leaves_nothing(desk: Desk, gate: Gate) -> None:
    (desk.work / "file").write_bytes(os.urandom(1000))
    task = asyncio.create_task(desk.take())
    await until(gate.reached.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stored(desk.folder) == set()
    assert unfinished(desk.folder) == []
    assert not (desk.folder / "s1").exists()
    gate.open()
    desk.count = 0
    await desk.take()


async def test_one_of_several_that_is_cancelled_does_not_disturb_the_others(desk: Desk, gate: Gate) -> None:
    (desk.work / "file").write_text("text")
    tasks = [asyncio.create_task(desk.store.take(f"n{it}", desk.work, "cp-0000", first=None)) for it in range(3)]
    await until(gate.reached.is_set)
    tasks[1].cancel()
    await asyncio.sleep(0)
    gate.open()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[1], asyncio.CancelledError)
    assert [done[0].changed, done[2].changed] == [False, False]
    with pytest.raises(CheckpointProblem, match="nothing is kept"):
        await desk.store.delete("n1", "cp-0000")


async def test_one_that_is_cancelled_before_its_turn_goes_at_once(desk: Desk, gate: Gate) -> None:
    (desk.work / "file").write_text("text")
    first = asyncio.create_task(desk.take())
    await until(gate.reached.is_set)
    second = asyncio.create_task(desk.store.take("s2", desk.work, "cp-0000", first=None))
    await until(lambda: desk.store._rounds)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert not first.done()
    gate.open()
    await first
    assert not (desk.folder / "s2").exists()


@pytest.mark.parametrize("step", ["stage", "intend", "perform"])
async def test_a_restore_that_is_cancelled_changes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    for number in range(5):
        (desk.work / str(number)).write_text("old")
    first, _ = await desk.take()
    shutil.rmtree(desk.work / "1", ignore_errors=True)
    for number in range(5):
        (desk.work / str(number)).write_text("new")
    now, record = shape(desk.work), (desk.folder / "s1" / "metadata.json").read_text()
    reached, go_on = threading.Event(), threading.Event()
    real = getattr(swap.Swap, step)

    def held(self: swap.Swap, *args: Any) -> Any:
        reached.set()
        assert go_on.wait(10)
        return real(self, *args)

    monkeypatch.setattr(swap.Swap, step, held)
    task = asyncio.create_task(desk.restore(first))
    await until(reached.is_set)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert shape(desk.work) == now
    assert (desk.folder / "s1" / "metadata.json").read_text() == record
    assert unfinished(desk.folder) == []


@pytest.mark.parametrize("limited", [False, True])
async def test_a_restore_that_is_cancelled_when_it_is_done_returns(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    """Else nobody would know of the safety checkpoint."""
    before = shape(desk.work)
    first, _ = await desk.take()
    (desk.work / "file").write_text("new")
    reached, go_on, finish = threading.Event(), threading.Event(), swap.Swap.finish

    def held(self: swap.Swap) -> None:
        reached.set()
        assert go_on.wait(10)
        finish(self)

    monkeypatch.setattr(swap.Swap, "finish", held)

    async def restore() -> str:
        async with asyncio.timeout(10) as limit:
            clock.set_result(limit)
            return (await desk.restore(first))[0]

    clock: asyncio.Future[asyncio.Timeout] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(restore())
    await until(reached.is_set)
    if limited:
        (await clock).reschedule(0)
        await until(task.cancelling)
    else:
        task.cancel()
        await asyncio.sleep(0)
    go_on.set()
    safety = await task
    assert task.cancelling() == 0
    assert shape(desk.work) == before
    await desk.restore(safety)
    assert (desk.work / "file").read_text() == "new"


async def test_a_store_that_closes_ends_what_runs_and_takes_nothing_more(desk: Desk, gate: Gate) -> None:
    (desk.work / "file").write_text("text")
    running = asyncio.create_task(desk.take())
    await until(gate.reached.is_set)
    waiting = asyncio.create_task(desk.store.take("s2", desk.work, "cp-0000", first=None))
    await until(lambda: desk.store._rounds)
    await desk.store.close()
    for task in (running, waiting):
        with pytest.raises(CheckpointProblem, match=r"ended|stopping"):
            await task
    with pytest.raises(CheckpointProblem, match="stopping"):
        await desk.take()
    desk.store.closed("s1")
    desk.store.dropped("s1")
    assert unfinished(desk.folder) == []


async def test_who_comes_while_the_store_closes_is_not_left_waiting(desk: Desk) -> None:
    await desk.store.recover()
    tasks = [asyncio.create_task(desk.store.take(f"n{it}", desk.work, "cp-0000", first=None)) for it in range(10)]
    await asyncio.sleep(0)
    await desk.store.close()
    async with asyncio.timeout(10):
        done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(it, CheckpointProblem) for it in done)
    assert unfinished(desk.folder) == []


async def test_a_session_that_is_dropped_while_it_is_saved_leaves_nothing(desk: Desk, gate: Gate) -> None:
    (desk.work / "file").write_text("text")
    task = asyncio.create_task(desk.take())
    await until(gate.reached.is_set)
    desk.store.dropped("s1")
    gate.open()
    await task
    await until(lambda: not (desk.folder / "s1").exists() and not stored(desk.folder))


async def test_what_a_take_that_failed_has_read_is_not_believed_to_be_kept(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next one says that it is saved, and a part of it is missing."""
    (desk.work / "d").mkdir()
    (desk.work / "d" / "file").write_text("text")
    before = shape(desk.work)
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "keep", _broken)
        with pytest.raises(CheckpointProblem, match="broken"):
            await desk.take()
    desk.count = 0
    first, _ = await desk.take()
    (desk.work / "d" / "file").write_text("other")
    await desk.restore(first)
    assert shape(desk.work) == before


def _broken(self: Batch) -> None:
    raise OSError("broken")


async def test_nothing_is_swept_while_somebody_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path, quick(sweep_seconds=0.02))
    (desk.work / "file").write_text("text")
    await desk.store.recover()
    gate = Gate(monkeypatch)
    task = asyncio.create_task(desk.take())
    await until(gate.reached.is_set)
    assert await desk.store.sweep() is False
    other = CheckpointStore(desk.settings, desk.folder)
    assert await other.sweep() is False
    gate.open()
    await task
    assert await other.sweep()
    assert stored(desk.folder)
    await other.close()
    await desk.store.close()


async def test_two_servers_on_one_folder_take_turns(desk: Desk) -> None:
    other = CheckpointStore(desk.settings, desk.folder)
    (desk.work / "file").write_text("0")
    await asyncio.gather(desk.take(), other.take("o1", desk.work, "cp-0000", first=None))
    for number in range(6):
        (desk.work / "file").write_text(str(number))
        ours, theirs = desk.take(), other.take("o1", desk.work, f"cp-{number + 1}", first="cp-0000")
        await asyncio.gather(ours, theirs, desk.store.sweep(), other.sweep())
        await other.delete("o1", f"cp-{number + 1}")
    await other.sweep()
    for number in range(6):
        await desk.store.restore("s1", desk.work, f"cp-{number + 1:04}", safety=f"safe-{number}", first="cp-0000")
        assert (desk.work / "file").read_text() == str(number)
    await other.close()


CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from dragoman.services.checkpoints import CheckpointSettings, CheckpointStore

number, real = int(sys.argv[1]), os.replace

def deadly(*args, **more):
    global number
    number -= 1
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **more)

async def main():
    keeper = CheckpointStore(CheckpointSettings(sync=False), Path(sys.argv[2]))
    await keeper.recover()
    await keeper.sweep()
    os.replace = deadly
    await keeper.take("s1", Path(sys.argv[3]), "cp-0001", first="cp-0000")

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [1, 3, 6, 8])
async def test_a_killed_server_s_checkpoint_never_was(desk: Desk, number: int) -> None:
    await desk.take()
    await desk.store.sweep()
    record, objects = (desk.folder / "s1" / "metadata.json").read_text(), stored(desk.folder)
    for name in "abcd":
        (desk.work / name).write_bytes(os.urandom(1000))
    await desk.store.close()
    arguments = [sys.executable, "-c", CHILD, str(number), str(desk.folder), str(desk.work)]
    child = await asyncio.create_subprocess_exec(*arguments, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert await child.wait() != 0
    assert unfinished(desk.folder) or stored(desk.folder) != objects
    desk.store = CheckpointStore(quick(), desk.folder)
    await desk.store.recover()
    await desk.store.sweep()
    assert (desk.folder / "s1" / "metadata.json").read_text() == record
    assert stored(desk.folder) == objects
    assert unfinished(desk.folder) == []
    await desk.take()
