"""Sessions with events in a data folder: ``python -m bench.inside.fill FOLDER SESSIONS EVENTS``

EVENTS go into each. Prints the id of the last session.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import uvloop

from .hub import delta, new_session, opened

AT_ONCE = 500
"""Sessions made, and events recorded, before waiting for the disk."""


async def main(folder: Path, sessions: int, events: int) -> None:
    last = ""
    async with opened(folder) as registry:
        for made in range(0, sessions, AT_ONCE):
            fresh = await asyncio.gather(*(new_session(registry, folder) for _ in range(min(AT_ONCE, sessions - made))))
            for session in fresh:
                for number in range(1, events + 1):
                    event = session.record(delta())
                    if number % AT_ONCE == 0:
                        await session.acknowledged(event)
            await asyncio.gather(*(session.durable(session.head) for session in fresh))
            last = fresh[-1].id
    print(json.dumps({"session": last}), flush=True)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
