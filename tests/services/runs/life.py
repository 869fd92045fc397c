"""A program to be killed: it leads runs through their lives and says on stdout what it was told.

Lines: ``open``; ``at MILLISECONDS`` whenever time has moved; ``created RUN RETRY``; ``dispatched RUN TURN`` for what a
worker may begin with; ``completed RUN``; ``bad RUN`` for a late dispatch that was let through. Its choices come from
the seed that it is given, and so do its workers' names: those of a killed one are never heard again.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path

from dragoman.services.runs import RunFinished, WorkerMismatch

from .kit import LEASE, LOST, ManualClock, Plane, plane


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def advance(clock: ManualClock, seconds: float) -> None:
    clock.advance(seconds)
    say("at", clock.at)


async def work(p: Plane, worker: str, chance: random.Random) -> None:
    """One worker's life with one run, which may end at any of its steps."""
    run = await p.given(worker)
    if run is None:
        return
    if chance.random() < 0.3:
        advance(p.clock, LEASE)
        try:
            await p.dispatch(run, worker, f"turn-{worker}")
            say("bad", run)
        except WorkerMismatch:
            return
    # Time that another worker lets pass is this one's, too: it may be lost at every step.
    with suppress(WorkerMismatch, RunFinished):
        await begin(p, run, worker, chance)


async def begin(p: Plane, run: str, worker: str, chance: random.Random) -> None:
    turn = f"turn-{worker}"
    await p.dispatch(run, worker, turn)
    say("dispatched", run, turn)
    for _ in range(chance.randint(0, 3)):
        await p.relay(run, turn=turn)
    if chance.random() < 0.3:
        advance(p.clock, LOST)
        return
    await p.control(run, "pause")
    await p.beat(worker)
    await p.control(run, "resume")
    if (await p.relay(run, "streaming-complete", turn)).run.status == "completed":
        say("completed", run)


async def main(folder: Path, seed: int, at: int) -> None:
    chance = random.Random(seed)
    async with plane(folder, ManualClock(at), max_active_per_workspace=10_000) as p:
        say("open")
        number = 0
        while True:
            number += 1
            retry = chance.random() < 0.3
            say("created", await p.create(metadata={"retry": retry}), retry)
            workers = [f"w{seed}-{number}-{each}" for each in range(chance.randint(1, 3))]
            await asyncio.gather(*(work(p, worker, chance) for worker in workers))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
