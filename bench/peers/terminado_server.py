"""terminado with one shared terminal: ``python terminado_server.py PROGRAM ARG...``"""

from __future__ import annotations

import asyncio
import json
import sys

import tornado.web
from terminado import SingleTermManager, TermSocket
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets


class Socket(TermSocket):
    """Serves clients that name no origin."""

    def open(self, url_component: str | None = None) -> None:
        super().open(url_component)
        self.set_nodelay(True)


async def main() -> None:
    terminals = SingleTermManager(shell_command=sys.argv[1:])
    app = tornado.web.Application([(r"/ws", Socket, {"term_manager": terminals})])
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(app)
    server.add_sockets(sockets)
    print(json.dumps({"port": sockets[0].getsockname()[1]}), flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
