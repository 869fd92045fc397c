"""Killing the whole server between any two steps of runs, over HTTP: none is lost, and none is executed twice.

What the two lease cases allow is checked by ``tests.services.runs.test_kills``, from what is on the disk.
"""

from __future__ import annotations

import asyncio
import http.client
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.services.runs.test_kills import Told, check

from .kit import Reply, Runs, serving

SETTINGS = """[runs]
max_active_per_workspace = 100000
lease_seconds = 0.6
worker_lost_seconds = 0.6
again_seconds = 0.1
restart_grace_seconds = 0
"""
STEADY = "[runs]\nrestart_grace_seconds = 0\nagain_seconds = 0.01\n"
KILLS = 14
CUT = (OSError, http.client.HTTPException)
"""What a client sees of a server that was killed."""


def disk(runs: Runs) -> Path:
    return runs.served.folder / "data" / "windie" / "runs"


async def killed(runs: Runs) -> None:
    """Kill the server and start it again."""
    runs.served.kill()
    await runs.served.start()


@pytest.mark.slow
async def test_a_kill_between_any_two_steps_changes_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, STEADY) as runs:
        run = await runs.create()
        await killed(runs)
        assert await runs.status(run) == "awaiting_worker"
        assert await runs.given() == run
        await killed(runs)
        assert await runs.status(run) == "queued"
        assert await runs.given("w2") is None
        assert await runs.given() == run  # its answer may have been lost
        begun = await runs.dispatch(run)
        await killed(runs)
        assert await runs.dispatch(run) == begun  # as may this one
        assert await runs.refused(f"/{run}/worker-dispatched", worker_id="w1", turn_ref="turn-2") == (
            404,
            "Run not found or worker mismatch",
        )
        assert await runs.given() is None
        await runs.relay(run)
        await killed(runs)
        await runs.post(f"/{run}/control", action="pause")
        await killed(runs)
        (command,) = (await runs.beat())["control_commands"]
        assert command["action"] == "pause"
        await killed(runs)
        assert (await runs.beat())["control_commands"] == []
        await runs.post(f"/{run}/control", action="resume")
        await runs.relay(run, "streaming-complete")
        await killed(runs)
        assert await runs.status(run) == "completed"
        told = [event for event in await runs.types(run) if event != "worker-heartbeat"]
        assert told == [
            "run-created",
            "run-worker-assigned",
            "run-dispatched",
            "tool-call",
            "run-control",
            "run-control",
            "streaming-complete",
        ]


async def comes(runs: Runs, run: str, event_type: str, after: int = 0) -> None:
    """Wait until the run's timeline has such an event after this one."""
    async with asyncio.timeout(20):
        while True:
            page = await runs.get(f"/{run}/events?after_seq={after}&wait_seconds=10")
            after = page["next_after_seq"]
            if any(event["event_type"] == event_type for event in page["events"]):
                return


async def test_who_is_lost_before_its_dispatch_loses_the_run_and_comes_too_late(tmp_path: Path) -> None:
    async with serving(tmp_path, SETTINGS) as runs:
        run = await runs.create()
        assert await runs.given("w1") == run
        await killed(runs)
        await comes(runs, run, "run-lease-ended")
        late = {"worker_id": "w1", "turn_ref": "turn-1"}
        assert (await runs.refused(f"/{run}/worker-dispatched", **late))[0] == 404
        assert await runs.given("w2") == run
        assert (await runs.refused(f"/{run}/worker-dispatched", **late))[0] == 404
        await runs.dispatch(run, "w2", "turn-2")
        await runs.relay(run, "streaming-complete", "turn-2")
        assert await runs.status(run) == "completed"


@pytest.mark.parametrize("retry", [False, True])
async def test_who_is_lost_after_its_dispatch_fails_the_run_unless_it_may_be_done_again(
    tmp_path: Path, *, retry: bool
) -> None:
    async with serving(tmp_path, SETTINGS) as runs:
        run = await runs.create(metadata={"retry": retry})
        assert await runs.given("w1") == run
        await runs.dispatch(run, "w1")
        await killed(runs)
        await comes(runs, run, "run-worker-lost")
        assert await runs.status(run) == ("awaiting_worker" if retry else "failed")
        assert await runs.given("w2") == (run if retry else None)


class Lives:
    """Clients and workers at work on a server that is killed under them."""

    def __init__(self, runs: Runs, chance: random.Random) -> None:
        self.runs = runs
        self.chance = chance
        self.told = Told()
        self.unsure: list[tuple[str, str, str]] = []
        """Dispatches whose answer was lost: run, worker, turn."""
        self.slow: list[tuple[str, str, str]] = []
        """Workers that dispatch when it is too late."""
        self.steps = self.wanted = 0
        self.enough = asyncio.Event()
        self.late = 0
        self.number = 0

    async def one(self) -> None:
        """A run is asked for, and a worker does what there is to do, or is lost at some step."""
        self.number += 1
        worker, turn = f"w{self.number}", f"turn-{self.number}"
        retry = self.chance.random() < 0.3
        made = await self.step("/", workspace_id="ws", query="do it", metadata={"retry": retry})
        self.told.retry[made.json["run"]["run_id"]] = retry
        beat = {"workspace_id": "ws", "worker_id": worker, "vm_id": "vm-1", "user_id": "vm-user-1"}
        assigned = (await self.step("/workers/heartbeat", **beat)).json["assigned_run"]
        if assigned is None:
            return
        run = assigned["run_id"]
        if self.chance.random() < 0.2:
            self.slow.append((run, worker, turn))
        elif await self.begins(run, worker, turn):
            await self.goes_on(run, turn)

    async def assigned(self, run: str, worker: str) -> int:
        """The event by which this worker was given the run; others may have lost it before."""
        own = [event["seq"] for event in await self.runs.log(run) if event["payload"].get("worker_id") == worker]
        return int(own[0])

    async def begins(self, run: str, worker: str, turn: str) -> bool:
        """Whether it may."""
        try:
            reply = await self.step(f"/{run}/worker-dispatched", worker_id=worker, turn_ref=turn)
        except CUT:
            self.unsure.append((run, worker, turn))
            raise
        assert reply.status in (200, 404, 409), reply
        if reply.status == 200:
            self.told.turns.setdefault(run, set()).add(turn)
        return reply.status == 200

    async def goes_on(self, run: str, turn: str) -> None:
        for _ in range(self.chance.randint(0, 2)):
            await self.step(f"/{run}/events", event_type="tool-call", payload={"turn_ref": turn})
        if self.chance.random() < 0.3:
            return  # and is never heard again
        end = {"event_type": "streaming-complete", "payload": {"turn_ref": turn}}
        if (await self.step(f"/{run}/events", **end)).json["run"]["status"] == "completed":
            self.told.completed.add(run)

    async def step(self, path: str, **body: object) -> Reply:
        reply = await self.runs.ask("POST", path, body)
        self.steps += 1
        if self.steps >= self.wanted:
            self.enough.set()
        return reply

    async def again(self) -> None:
        """Workers whose dispatch was not answered say it again: they may begin now, or not at all. The slow ones say it
        when they may not."""
        unsure, self.unsure = self.unsure, []
        for run, worker, turn in unsure:
            if await self.begins(run, worker, turn):
                await self.goes_on(run, turn)
        slow, self.slow = self.slow, []
        for run, worker, turn in slow:
            await comes(self.runs, run, "run-lease-ended", await self.assigned(run, worker))
            assert (await self.step(f"/{run}/worker-dispatched", worker_id=worker, turn_ref=turn)).status == 404
            self.late += 1

    async def until(self, steps: int) -> None:
        """Live until so many steps were answered, and be killed in the middle of others."""
        dead = asyncio.Event()

        async def living() -> None:
            try:
                while not dead.is_set():
                    await self.one()
            except CUT:
                assert dead.is_set(), "the server went before it was killed"

        lives = [asyncio.ensure_future(living()) for _ in range(4)]
        self.wanted = self.steps + steps
        self.enough.clear()
        waiting = asyncio.ensure_future(self.enough.wait())
        await asyncio.wait({waiting, *lives}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        dead.set()
        self.runs.served.kill()
        await asyncio.gather(*lives)

    async def finish(self) -> None:
        """Every run that was promised comes to its end."""
        ends = ("completed", "failed", "stopped")
        async with asyncio.timeout(60):
            for run in self.told.retry:
                while await self.runs.status(run) not in ends:
                    self.number += 1
                    worker, turn = f"w{self.number}", f"turn-{self.number}"
                    given = await self.runs.given(worker)
                    if given is not None and await self.begins(given, worker, turn):
                        await self.goes_on(given, turn)


@pytest.mark.slow
async def test_no_run_is_lost_or_done_twice_however_often_the_server_is_killed(tmp_path: Path) -> None:
    chance = random.Random(20_261_129)
    seen: Counter[str] = Counter()
    async with serving(tmp_path, SETTINGS) as runs:
        lives = Lives(runs, chance)
        for _ in range(KILLS):
            await lives.until(chance.randint(1, 60))
            seen = check(disk(runs), lives.told)
            await runs.served.start()
            await lives.again()
        await lives.finish()
        runs.served.kill()
        seen = check(disk(runs), lives.told)
    assert min(seen[event] for event in ("run-lease-ended", "run-worker-lost", "streaming-complete")) > 0, seen
    assert lives.late > 0
