"""A session's whole log read back from disk by a follower: ``python -m bench.inside.replay FOLDER SESSION``

Prints events per second.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import uvloop

from dragoman.hub.permissions import LOCAL

from .hub import opened


async def main(folder: Path, name: str) -> None:
    async with opened(folder) as registry:
        session = await registry.get(LOCAL, name)
        follower = session.follow(0)
        began = time.perf_counter()
        count = 0
        while follower.behind:
            count += len(await follower.fetch())
        taken = time.perf_counter() - began
    print(json.dumps({"rate": count / taken, "events": count}), flush=True)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), sys.argv[2]))
