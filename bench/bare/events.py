"""The least that a Python server can do for events that are posted to it: ``python -m bench.bare.events [FILE]``

Each body of ``POST /event`` is a frame that all links share. The sends are driven from where the event is taken: a
link's send is begun at once, and only one that would block gets a task and a backlog. Nothing is kept; or, with a FILE,
each event is durable there before anybody is told: a thread commits to sqlite3 what has come by then, as our journal
does.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import threading
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


class Store:
    """Makes events durable, those of one turn of the loop together."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._ready = threading.Condition()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._waking = False
        threading.Thread(target=self._run, daemon=True).start()

    async def put(self, event: str) -> None:
        durable = self._loop.create_future()
        self._waiting.append((event, durable))
        if not self._waking:
            self._waking = True
            self._loop.call_soon(self._wake)
        await durable

    def _wake(self) -> None:
        self._waking = False
        with self._ready:
            self._ready.notify()

    def _run(self) -> None:
        connection = sqlite3.connect(self._file, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE events (number INTEGER PRIMARY KEY, event TEXT)")
        while True:
            with self._ready:
                while not self._waiting:
                    self._ready.wait()
                batch, self._waiting = self._waiting, []
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO events (event) VALUES (?)", [(event,) for event, _ in batch])
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._committed, [durable for _, durable in batch])

    def _committed(self, batch: list[asyncio.Future[None]]) -> None:
        for durable in batch:
            durable.set_result(None)


class App:
    """The ASGI application."""

    def __init__(self, store: Store | None = None) -> None:
        self._links = Links()
        self._store = store

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
        event = json.dumps(json.loads(body))
        if self._store is not None:
            await self._store.put(event)
        self._links.tell('{"type":"event","data":' + event + "}")
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
    await serve(App(Store(sys.argv[1]) if len(sys.argv) > 1 else None))


if __name__ == "__main__":
    uvloop.run(main())
