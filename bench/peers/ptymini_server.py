"""ptymini behind aiohttp, which is how one would serve it: ``python ptymini_server.py PROGRAM ARG...``

Every link to ``/ws`` watches the same terminal and types into it, in raw binary frames.
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop
from aiohttp import WSMsgType, web
from ptymini.core import Gap, PtyRegistry


class App:
    """One named terminal for all."""

    def __init__(self, command: list[str]) -> None:
        self._terminals = PtyRegistry(argv=command)

    async def __call__(self, request: web.Request) -> web.WebSocketResponse:
        link = web.WebSocketResponse(compress=False, max_msg_size=0)
        await link.prepare(request)
        terminal = await self._terminals.create("one", rows=40, cols=120)
        sending = asyncio.create_task(self._send(terminal, link))
        try:
            async for message in link:
                if message.type == WSMsgType.BINARY:
                    terminal.write(message.data)
        finally:
            sending.cancel()
        return link

    async def _send(self, terminal: object, link: web.WebSocketResponse) -> None:
        async for piece in terminal.attach(gaps=True):
            if not isinstance(piece, Gap):
                await link.send_bytes(piece)


async def main() -> None:
    app = web.Application()
    app.router.add_get("/ws", App(sys.argv[1:]))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
    await asyncio.Event().wait()


uvloop.run(main())
