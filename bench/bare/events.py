"""The least that a Python server can do for events that are posted to it: ``python -m bench.bare.events``

Each body of ``POST /event`` is a frame that all links share. The sends are driven from where the event is taken: a
link's send is begun at once, and only one that would block gets a task and a backlog. Nothing is kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any

import uvloop

from .terminal import Send, serve

INIT = '{"type":"init","data":{"sessions":[]}}'
OK = b'{"ok":true}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(OK))]


class Rest(Awaitable[None]):
    """What is left of a coroutine that was begun by hand and stopped at ``first``."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], first: Any) -> None:
        self._coroutine = coroutine
        self._first = first

    def __await__(self) -> Generator[Any, Any, None]:
        waits_for = self._first
        while True:
            value = yield waits_for
            try:
                waits_for = self._coroutine.send(value)
            except StopIteration:
                return


class Links:
    """All that are told; each with what waits for it."""

    def __init__(self) -> None:
        self._links: dict[Send, list[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, send: Send) -> None:
        self._links[send] = []

    def remove(self, send: Send) -> None:
        del self._links[send]

    def tell(self, frame: str) -> None:
        for send, waiting in self._links.items():
            if waiting:
                waiting.append(frame)
                continue
            sending: Any = send({"type": "websocket.send", "text": frame})
            try:
                first = sending.send(None)
            except StopIteration:
                continue
            except Exception:  # noqa: BLE001  it is gone, and will be removed
                continue
            waiting.append("")
            task = asyncio.ensure_future(self._later(send, waiting, Rest(sending, first)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _later(self, send: Send, waiting: list[str], rest: Rest) -> None:
        await rest
        waiting.pop(0)
        while waiting:
            await send({"type": "websocket.send", "text": waiting[0]})
            waiting.pop(0)


class App:
    """The ASGI application."""

    def __init__(self) -> None:
        self._links = Links()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] == "http":
            await self._post(receive, send)
        else:
            await self._link(receive, send)

    async def _post(self, receive: Any, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self._links.tell('{"type":"event","data":' + json.dumps(json.loads(body)) + "}")
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": OK})

    async def _link(self, receive: Any, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": INIT})
        self._links.add(send)
        while (await receive())["type"] != "websocket.disconnect":
            pass
        self._links.remove(send)

    def end(self) -> None:
        """Nothing to end."""


async def main() -> None:
    await serve(App())


if __name__ == "__main__":
    uvloop.run(main())
