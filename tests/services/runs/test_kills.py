"""Killing the server for real, between any two steps of a run's life: none is lost, and none is executed twice."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.services.runs.messages import ACTIVE

from .kit import LEASE, LOST, START, ManualClock, Plane, plane


class Told:
    """All that the killed servers have said."""

    def __init__(self) -> None:
        self.retry: dict[str, bool] = {}
        self.turns: dict[str, set[str]] = {}
        self.completed: set[str] = set()
        self.at = START

    def hear(self, lines: list[list[str]]) -> None:
        for word, *rest in lines:
            assert word != "bad", f"a late dispatch of {rest} was let through"
            if word == "at":
                self.at = max(self.at, int(rest[0]))
            elif word == "created":
                self.retry[rest[0]] = rest[1] == "True"
            elif word == "dispatched":
                self.turns.setdefault(rest[0], set()).add(rest[1])
            elif word == "completed":
                self.completed.add(rest[0])


async def live_and_die(folder: Path, seed: int, at: int, wanted: int, pause: float) -> list[list[str]]:
    """Let a server say ``wanted`` lines after ``open``, kill it at some moment within ``pause``; all whole lines."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.services.runs.life",
        str(folder),
        str(seed),
        str(at),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said = [await process.stdout.readline() for _ in range(wanted + 1)]
    # Not to wait for anything: the moment of the kill is what is random here.
    await asyncio.sleep(pause)
    process.send_signal(signal.SIGKILL)
    said += (await process.stdout.read()).splitlines(keepends=True)
    assert await process.wait() == -signal.SIGKILL
    assert said[0] == b"open\n"
    return [line.decode().split() for line in said if line.endswith(b"\n")]


def logs(folder: Path) -> dict[str, list[tuple[int, str, dict[str, object]]]]:
    """What is on the disk, read without our own code."""
    found: dict[str, list[tuple[int, str, dict[str, object]]]] = {}
    with closing(sqlite3.connect(folder / "runs.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute(
            "SELECT run_id, events.seq, fact FROM events JOIN runs USING (number) ORDER BY number, events.seq"
        )
        for run, seq, fact in rows:
            data = json.loads(fact)
            found.setdefault(run, []).append((seq, data["event_type"], data["payload"]))
    return found


def follow(log: list[tuple[int, str, dict[str, object]]], *, retry: bool, seen: Counter[str]) -> set[object]:
    """Check one log by the two lease cases; returns the turns that were begun."""
    holder: object = None
    turn: object = None
    begun = over = False
    turns: set[object] = set()
    assert [seq for seq, _, _ in log] == list(range(1, len(log) + 1))
    for _, event, payload in log:
        seen[event] += 1
        if event == "run-worker-assigned":
            assert (holder, begun, over) == (None, False, False)
            holder = payload["worker_id"]
        elif event == "run-lease-ended":
            assert holder is not None
            assert (begun, over) == (False, False)
            holder = None
        elif event == "run-dispatched":
            assert holder == payload["worker_id"]
            assert (begun, over) == (False, False)
            begun = True
            turn = payload["turn_ref"]
            turns.add(turn)
        elif event == "run-worker-lost":
            assert (begun, over, payload["retry"]) == (True, False, retry)
            holder, begun, over = None, False, not retry
        elif event == "streaming-complete":
            over = over or (begun and payload["turn_ref"] == turn)
    return turns


def check(folder: Path, told: Told) -> Counter[str]:
    seen: Counter[str] = Counter()
    found = logs(folder)
    assert told.retry.keys() <= found.keys(), "a run was lost"
    for run, log in found.items():
        # The kill may have come between the disk and the line that says so.
        retry = told.retry.get(run, any(event == "run-worker-lost" and said["retry"] for _, event, said in log))
        turns = follow(log, retry=retry, seen=seen)
        assert told.turns.get(run, set()) <= turns, "an execution is not in the log"
        assert retry or len(turns) <= 1, f"{run} was executed twice"
        assert run not in told.completed or log[-1][1] == "streaming-complete"
    return seen


async def finish(p: Plane) -> None:
    """A worker that does all there is to do."""
    for run in list(p.runs._runs.values()):
        if run.status == "paused":
            await p.control(run.run_id, "resume")
    while (run_id := await p.given("last")) is not None:
        await p.dispatch(run_id, "last", "turn-last")
        await p.relay(run_id, "streaming-complete", "turn-last")


@pytest.mark.parametrize("kills", [pytest.param(100, marks=pytest.mark.slow), 6])
async def test_kills_lose_no_run_and_execute_none_twice(tmp_path: Path, kills: int) -> None:
    chance, told = random.Random(kills), Told()
    for seed in range(kills):
        told.at += round(1000 * chance.choice((0, 1, LEASE, LOST)))
        lines = await live_and_die(tmp_path, seed, told.at, chance.randint(0, 25), chance.random() * 0.01)
        told.hear(lines)
        check(tmp_path, told)
    async with plane(tmp_path, ManualClock(told.at + round(1000 * LOST))) as p:
        await p.runs.settle_due()
        await finish(p)
        views = [await p.view(run) for run in told.retry]
    assert not [view for view in views if view.status in ACTIVE], "a run was never finished"
    seen = check(tmp_path, told)
    assert seen["run-lease-ended"] >= kills // 3
    assert seen["run-worker-lost"] >= kills // 3
    assert all(view.status in ("completed", "failed") for view in views)
