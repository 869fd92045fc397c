"""The least that a Python server can do for a client that comes back: ``python -m bench.bare.resume``

One session for each name, in memory. INPUT ``pace N MS`` makes N events, one every MS milliseconds, kept as frames in a
list; a CONNECT whose signature is good is told what is behind its ``last_msg_id``. Nothing is stored, nobody's rights
are asked.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import msgspec
import uvloop
from nacl.signing import VerifyKey

from .terminal import Send, serve

_EVENT = '{"type":"assistant_delta","id":"ev-%d","ts":%.3f,"content":"delta %d ","session_id":"%s"}'
_OUTPUT = '{"type":"OUTPUT","result":"","session_id":"%s","duration_ms":0,"session":{},"chat_items":[]}'
_CONNECTED = '{"type":"CONNECTED","session_id":"%s","status":"%s"}'


class Session:
    """Its frames so far. ``more`` is set, and made anew, with each."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.frames: list[str] = []
        self.running = False
        self.more = asyncio.Event()

    async def run(self, count: int, pause: float) -> None:
        self.running, self.frames = True, []
        clock = asyncio.get_running_loop().time
        due = clock()
        for number in range(count):
            self.say(_EVENT % (number + 1, time.time(), number, self.name))
            due += pause
            await asyncio.sleep(max(0.0, due - clock()))
        self.running = False
        self.say(_OUTPUT % self.name)

    def say(self, frame: str) -> None:
        self.frames.append(frame)
        more, self.more = self.more, asyncio.Event()
        more.set()


class App:
    """The ASGI application."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        own: set[asyncio.Task[None]] = set()
        while (message := await receive())["type"] != "websocket.disconnect":
            asked = msgspec.json.decode(message["text"])
            if asked["type"] == "CONNECT":
                own.add(asyncio.ensure_future(self._forward(await self._connect(asked, send), asked, send)))
            elif asked["type"] == "INPUT":
                _, count, pause = asked["prompt"].split()
                session = self._sessions[asked["session_id"]]
                self._tasks.add(asyncio.ensure_future(session.run(int(count), float(pause) / 1000)))
        for task in own:
            task.cancel()

    async def _connect(self, asked: dict[str, Any], send: Send) -> Session:
        text = msgspec.json.encode(asked["payload"], order="sorted")
        VerifyKey(bytes.fromhex(asked["from"][2:])).verify(text, bytes.fromhex(asked["signature"]))
        name = asked.get("session_id") or str(uuid.uuid4())
        session = self._sessions.setdefault(name, Session(name))
        status = "running" if session.running else "connected" if "session_id" in asked else "new"
        await send({"type": "websocket.send", "text": _CONNECTED % (name, status)})
        return session

    async def _forward(self, session: Session, asked: dict[str, Any], send: Send) -> None:
        last = asked.get("last_msg_id")
        place = int(last.removeprefix("ev-")) if last else 0
        while True:
            more = session.more
            for frame in session.frames[place:]:
                await send({"type": "websocket.send", "text": frame})
                place += 1
            if place >= len(session.frames):
                await more.wait()

    def end(self) -> None:
        """Nothing to end."""


async def main() -> None:
    await serve(App())


if __name__ == "__main__":
    uvloop.run(main())
