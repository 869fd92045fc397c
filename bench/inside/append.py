"""Events appended by many at once, each waiting for its own: ``python -m bench.inside.append FOLDER PRODUCERS EVENTS``

Prints events per second and the wait for one, in milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import uvloop

from bench.rows import percentile
from dragoman.hub.session import Session

from .hub import delta, new_session, opened


async def main(folder: Path, producers: int, events: int) -> None:
    waits: list[float] = []

    async def produce(session: Session, count: int) -> None:
        for _ in range(count):
            asked = time.perf_counter()
            await session.acknowledged(session.record(delta()))
            waits.append(time.perf_counter() - asked)

    async with opened(folder) as registry:
        sessions = await asyncio.gather(*(new_session(registry, folder) for _ in range(producers)))
        began = time.perf_counter()
        await asyncio.gather(*(produce(session, events // producers) for session in sessions))
        taken = time.perf_counter() - began
    found = {
        "rate": len(waits) / taken,
        "p50_ms": percentile(waits, 0.5) * 1e3,
        "p99_ms": percentile(waits, 0.99) * 1e3,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
