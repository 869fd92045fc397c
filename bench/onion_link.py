"""An onion link that prompts, and meters what comes until the turn is over."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from .processes import Failed, Process
from .wire import Link, Links

LIMIT = 60.0
"""Seconds a turn may take."""

_DELTA = b'{"type":"assistant_delta"'
_OUTPUT = b'{"type":"OUTPUT"'


@dataclass(frozen=True)
class OnionTurn:
    """One turn as the client saw it. Times are seconds from the prompt, ``cpu`` is the server's; ``size`` is bytes
    without the session and the chat items of OUTPUT, ``history`` those."""

    deltas: int
    first: float
    whole: float
    cpu: float
    size: int
    history: int


class OnionLink:
    """One anonymous client with its session. A context manager."""

    def __init__(self, port: int, process: Process, path: str = "/onion/ws") -> None:
        self._process = process
        self._connected = False
        self._deltas: list[float] = []
        self._size = self._history = 0
        self._over = 0.0
        self._errors: list[str] = []
        self._link = Link(port, path, self._take)
        self._links = Links([self._link])
        self._link.send(b'{"type":"CONNECT"}')
        if not self._links.until(lambda: self._connected, 10):
            raise Failed(f"no CONNECTED: {self._errors}")

    def turn(self, deltas: int) -> OnionTurn:
        """Ask for so many deltas; returns with OUTPUT. Raises ``Failed`` unless all came."""
        self._deltas, self._size, self._over = [], 0, 0.0
        cpu, began = self._process.cpu() or 0.0, time.perf_counter()
        self._link.send(msgspec.json.encode({"type": "INPUT", "prompt": f"say [[deltas:{deltas}]]"}))
        if not self._links.until(lambda: self._over > 0.0, LIMIT):
            raise Failed(f"a turn did not end: {self._errors}")
        used = (self._process.cpu() or 0.0) - cpu
        if len(self._deltas) != deltas:
            raise Failed(f"{len(self._deltas)} of {deltas} deltas came: {self._errors}")
        return OnionTurn(deltas, self._deltas[0] - began, self._over - began, used, self._size, self._history)

    def rest(self, seconds: float) -> None:
        """Let the server do what it still has to do."""
        self._links.until(lambda: False, seconds)

    def __enter__(self) -> OnionLink:
        return self

    def __exit__(self, *_: object) -> None:
        self._links.close()

    def _take(self, _: int, payload: memoryview) -> None:
        data = bytes(payload)
        self._size += len(data)
        if data.startswith(_DELTA):
            self._deltas.append(time.perf_counter())
        elif data.startswith(_OUTPUT):
            self._over = time.perf_counter()
            said = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            self._history = len(bytes(said["session"])) + len(bytes(said["chat_items"]))
            self._size -= self._history
        elif data.startswith(b'{"type":"CONNECTED"'):
            self._connected = True
        elif data.startswith(b'{"type":"ERROR"'):
            self._errors.append(data.decode())
