"""The server as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
from pathlib import Path

import msgspec

from .script import Turn
from .server import ModelServer, serving


async def run(port: int, scripts: Path | None) -> None:
    """Serve until SIGTERM or SIGINT."""
    server = ModelServer()
    if scripts is not None:
        server.named = msgspec.json.decode(scripts.read_bytes(), type=dict[str, tuple[Turn, ...]])
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with serving(server, port=port):
        print(json.dumps({"port": int(server.url.rpartition(":")[2])}), flush=True)
        await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="a scripted model server")
    parser.add_argument("--port", type=int, default=0, help="TCP port, 0 for a free one")
    parser.add_argument("--scripts", type=Path, help="JSON file: an object of named scripts")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(given.port, given.scripts))


if __name__ == "__main__":
    main()
