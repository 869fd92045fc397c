"""A program to be killed: it registers installs for ever and says each on stdout, ``USER INSTALL TOKEN``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman.hub.clock import SystemClock
from dragoman.services.installs import Installs, InstallSettings


async def main(folder: Path) -> None:
    store = Installs(InstallSettings(registrations_per_minute=0), folder, clock=SystemClock())
    while True:
        made = await store.register("Linux")
        sys.stdout.write(f"{made.user_id} {made.install_id} {made.token}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
