"""A coworker link that prompts, and meters what comes until the turn is over."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from .processes import Failed, Process
from .wire import Link, Links

LIMIT = 60.0
"""Seconds a turn may take."""

_DELTA = b'"partType":"text_delta"'
_BUSY = b'"type":"session_busy"'


@dataclass(frozen=True)
class Turn:
    """One turn as the client saw it. Times are seconds from the prompt; ``cpu`` is the server's, in seconds."""

    deltas: int
    first: float
    last: float
    whole: float
    cpu: float
    frames: int
    size: int

    @property
    def rate(self) -> float:
        """Deltas per second, from the first to the last."""
        return (self.deltas - 1) / (self.last - self.first)

    @property
    def cpu_per_1000(self) -> float:
        """CPU seconds of the server for 1,000 deltas, with all else that the turn does."""
        return self.cpu / self.deltas * 1000


class CoworkerLink:
    """One client with its session. A context manager."""

    def __init__(self, port: int, process: Process, path: str = "/ws") -> None:
        self._process = process
        self.session = ""
        self._ready = False
        self._deltas: list[float] = []
        self._frames = self._size = 0
        self._over = 0.0
        self.errors: list[str] = []
        self._link = Link(port, path, self._take)
        self._links = Links([self._link])
        if not self._links.until(lambda: self._ready, 10):
            raise Failed("the server said no hello")

    def say(self, kind: str, **fields: object) -> None:
        """Send one message of this session."""
        self._link.send(msgspec.json.encode({"type": kind, "sessionId": self.session, **fields}))

    def turn(self, deltas: int) -> Turn:
        """Ask for so many deltas; returns once the session is idle again. Raises ``Failed`` unless all came."""
        self._deltas, self._frames, self._size, self._over = [], 0, 0, 0.0
        cpu, began = self._process.cpu() or 0.0, time.perf_counter()
        self.say("user_message", text=f"say [[deltas:{deltas}]]")
        if not self._links.until(lambda: self._over > 0.0, LIMIT):
            raise Failed(f"a turn did not end: {self.errors}")
        used = (self._process.cpu() or 0.0) - cpu
        if len(self._deltas) != deltas:
            raise Failed(f"{len(self._deltas)} of {deltas} deltas came: {self.errors}")
        first, last = self._deltas[0] - began, self._deltas[-1] - began
        return Turn(deltas, first, last, self._over - began, used, self._frames, self._size)

    def rest(self, seconds: float) -> None:
        """Let the server do what it still has to do."""
        self._links.until(lambda: False, seconds)

    def close(self) -> None:
        self._links.close()

    def __enter__(self) -> CoworkerLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, _: int, payload: memoryview) -> None:
        data = bytes(payload)
        self._frames += 1
        self._size += len(data)
        if _DELTA in data:
            self._deltas.append(time.perf_counter())
        elif _BUSY in data[:400] and len(data) < 400 and b'"busy":false' in data:
            self._over = time.perf_counter()
        elif not self._ready:
            self._greeted(data)
        elif data.startswith(b'{"type":"error"'):
            self.errors.append(data.decode())

    def _greeted(self, data: bytes) -> None:
        said = msgspec.json.decode(data)
        if said["type"] == "server_hello":
            self.session = said["sessionId"]
        self._ready = said["type"] in ("provider_status", "session_busy")
