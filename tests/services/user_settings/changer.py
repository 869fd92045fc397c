"""A program to be killed: it changes a user's settings for ever, and says each number once it is kept."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dragoman.hub.clock import SystemClock
from dragoman.services.user_settings import UserSettings


async def main(folder: Path) -> None:
    store = UserSettings(folder, clock=SystemClock())
    number = (await store.read("u")).get("left", 0)
    assert isinstance(number, int)
    while True:
        number += 1
        await store.change("u", {"left": number, "right": number})
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
