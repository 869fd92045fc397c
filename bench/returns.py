"""An onion client whose connection breaks again and again while a turn runs, and what it heard of the turn."""

from __future__ import annotations

import re
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
from nacl.signing import SigningKey

from .processes import Failed
from .wire import Link, Links

HOLD, AWAY = 0.1, 0.05
"""Seconds that each connection lasts, and until the next one."""

LIMIT = 30.0
"""Seconds that anything may take."""

_NUMBERS = re.compile(r"delta (\d+) ")
_KEY = SigningKey(b"\x02" * 32)
_ADDRESS = "0x" + _KEY.verify_key.encode().hex()


@dataclass
class Heard:
    """Of a turn of deltas that are numbered. Times are seconds.

    ``connected`` and ``caught_up`` are counted from the start of a connection: to CONNECTED, and to the first event
    that was made after CONNECTED had come. ``lags`` are from an event's making to its coming, while connected.
    """

    numbers: list[int] = field(default_factory=list)
    connected: list[float] = field(default_factory=list)
    caught_up: list[float] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    outputs: int = 0

    @property
    def twice(self) -> int:
        return len(self.numbers) - len(set(self.numbers))

    @property
    def disordered(self) -> int:
        """Numbers that came behind a larger one."""
        return sum(second < first for first, second in zip(self.numbers, self.numbers[1:], strict=False))

    def lost(self, count: int) -> int:
        return count - len(set(self.numbers))


class Returner:
    """One client of one session; it signs, and goes on behind the last event that it has."""

    def __init__(self, port: int, path: str) -> None:
        self.heard = Heard()
        self._port = port
        self._path = path
        self._session: str | None = None
        self._last: str | None = None
        self._began = 0.0
        self._connected_at = 0.0
        self._caught_up = True
        self._errors: list[str] = []
        self._link, self._links = self._connect()

    def run(self, count: int, pause: float, drops: int) -> Heard:
        """A turn of so many deltas, one every ``pause`` ms, with so many drops. Raises ``Failed`` if none ends it."""
        self._say("INPUT", prompt=f"pace {count} {pause:g}", session_id=self._session)
        for _ in range(drops):
            self._rest(HOLD)
            if self.heard.outputs:
                raise Failed("the turn was over before the last drop")
            self._drop()
            time.sleep(AWAY)
            self._link, self._links = self._connect()
        if not self._links.until(lambda: self.heard.outputs > 0, LIMIT + count * pause / 1000):
            raise Failed(f"the turn did not end: {self._errors}")
        self._rest(HOLD)
        self._links.close()
        return self.heard

    def _connect(self) -> tuple[Link, Links]:
        self._connected_at, self._caught_up = 0.0, False
        self._began = time.perf_counter()
        link = Link(self._port, self._path, self._take)
        links = Links([link])
        payload = {"timestamp": round(time.time(), 6)}
        text = msgspec.json.encode(payload, order="sorted")
        named: dict[str, Any] = {} if self._session is None else {"session_id": self._session}
        if self._last is not None:
            named["last_msg_id"] = self._last
        signed = {"payload": payload, "from": _ADDRESS, "signature": _KEY.sign(text).signature.hex()}
        link.send(msgspec.json.encode({"type": "CONNECT", **named, **signed}))
        if not links.until(lambda: self._connected_at > 0.0, LIMIT):
            raise Failed(f"no CONNECTED: {self._errors}")
        return link, links

    def _drop(self) -> None:
        """Go without a word; what has come and was not read is lost with it."""
        self._links.release()
        self._link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._link.close()

    def _say(self, kind: str, **fields: Any) -> None:
        self._link.send(msgspec.json.encode({"type": kind, **fields}))

    def _rest(self, seconds: float) -> None:
        self._links.until(lambda: False, seconds)

    def _take(self, _: int, payload: memoryview) -> None:
        frame = msgspec.json.decode(payload)
        now = time.time()
        kind = frame["type"]
        if kind == "CONNECTED":
            self._session, self._connected_at = frame["session_id"], now
            if self._last is not None:
                self.heard.connected.append(time.perf_counter() - self._began)
                self.heard.again.append(0)
        elif kind == "assistant_delta":
            self._delta(frame, now)
        elif kind == "OUTPUT":
            self.heard.outputs += 1
        elif kind == "ERROR":
            self._errors.append(frame["message"])
        if "ts" in frame:
            self._last = frame["id"]

    def _delta(self, frame: dict[str, Any], now: float) -> None:
        numbers = [int(number) for number in _NUMBERS.findall(frame["content"])]
        self.heard.numbers += numbers
        if self._caught_up:
            self.heard.lags.append(now - frame["ts"])
        elif frame["ts"] >= round(self._connected_at, 3):
            self._caught_up = True
            if self.heard.connected:
                self.heard.caught_up.append(time.perf_counter() - self._began)
        elif self.heard.again:
            self.heard.again[-1] += len(numbers)
