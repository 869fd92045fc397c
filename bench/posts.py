"""Hook posts of coding agents, and what the clients of a bridge hear of them: rates, losses, order, delays."""

from __future__ import annotations

import re
import socket
import time
from dataclasses import dataclass, field

import msgspec

from .processes import Failed, Process
from .wire import Link, Links

POSTERS = 8
"""Keep-alive connections that post. Each numbers its hooks; all are of one agent's session."""

LIMIT = 60.0
"""Seconds that a burst may take to be heard by all."""

_EVENT = b'{"type":"event"'
_MARK = re.compile(rb'"agent": ?(\d+), ?"rig": ?(\d+), ?"ns": ?(\d+)')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass
class Heard:
    """What all links heard. ``delays`` are seconds from just before a post to its coming, over all links."""

    events: int = 0
    disordered: int = 0
    size: int = 0
    timed: bool = False
    delays: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Burst:
    """Posts as fast as they are taken. ``cpu`` is the server's, in seconds; ``taken`` is until all links heard all."""

    events: int
    links: int
    taken: float
    cpu: float
    lost: int
    disordered: int
    size: int

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return (self.events * self.links - self.lost) / self.taken

    @property
    def cpu_per_event(self) -> float:
        """Microseconds."""
        return self.cpu / self.events * 1e6


def hook(session: str, agent: int, number: int, cwd: str) -> bytes:
    """A hook of Claude Code: by turns a call's begin and its end, each with its number and when it was made."""
    begins = number % 2 == 0
    fields = {
        "session_id": session,
        "transcript_path": "",
        "cwd": cwd,
        "permission_mode": "default",
        "hook_event_name": "PreToolUse" if begins else "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {
            "command": f"printf step-{number} && ls -la src tests docs | head -20",
            "description": "List the project",
            "agent": agent,
            "rig": number,
            "ns": time.monotonic_ns(),
        },
        "tool_use_id": f"toolu_{agent}{number // 2:08d}",
    }
    if not begins:
        fields["tool_response"] = {"stdout": "a.txt\nb.txt\n", "stderr": "", "interrupted": False}
    return msgspec.json.encode(fields)


class Listener:
    """One client of the bridge: counts what it hears, and looks whether each poster's events come in their order."""

    def __init__(self, port: int, path: str, heard: Heard) -> None:
        self._heard = heard
        self._last: dict[bytes, int] = {}
        self.link = Link(port, path, self._take)

    def _take(self, _: int, payload: memoryview) -> None:
        heard = self._heard
        data = bytes(payload)
        heard.size += len(data)
        if not data.startswith(_EVENT):
            return
        found = _MARK.search(data)
        if found is None:
            return
        agent, number, made = found.groups()
        heard.events += 1
        if heard.timed:
            heard.delays.append((time.monotonic_ns() - int(made)) / 1e9)
        place, last = int(number), self._last.get(agent)
        if last is not None and place != last + 1:
            heard.disordered += 1
        self._last[agent] = place


class Poster:
    """One keep-alive connection; ``Links`` reads from it as from a link."""

    def __init__(self, port: int, path: str, agent: int, *, session: str, cwd: str) -> None:
        self.closed = False
        self.busy = False
        self._head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n".encode()
        self._agent = agent
        self._session = session
        self._cwd = cwd
        self._number = 0
        self._left = 0
        self._answer = b""
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, count: int = 1) -> None:
        """So many, each once the one before was answered."""
        self._left = count - 1
        self.busy = True
        body = hook(self._session, self._agent, self._number, self._cwd)
        self._number += 1
        self.socket.sendall(b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body))

    def receive(self) -> None:
        """Take what has arrived. Raises ``Failed`` for anything but 200."""
        piece = self.socket.recv(65536)
        self._answer += piece
        if not piece:
            raise Failed(f"the server ended a post: {self._answer!r}")
        head, end, body = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or length is None or len(body) < int(length[1]):
            return
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise Failed(f"a post was refused: {self._answer!r}")
        self._answer, self.busy = b"", False
        if self._left:
            self.post(self._left)

    def close(self) -> None:
        self.closed = True
        self.socket.close()


@dataclass(frozen=True)
class Place:
    """Where clients connect and agents post to, and the folder that these work in."""

    path: str
    post: str
    cwd: str


class Fanout:
    """A bridge with so many clients, and posters. A context manager."""

    def __init__(self, process: Process, port: int, place: Place, *, name: str, links: int) -> None:
        """``name`` is the agent's session."""
        self.process = process
        self._count = links
        self.heard = Heard()
        self._posters = [Poster(port, place.post, agent, session=name, cwd=place.cwd) for agent in range(POSTERS)]
        self._links = Links(Listener(port, place.path, self.heard).link for _ in range(links))
        for poster in self._posters:
            self._links.add(poster)

    def __enter__(self) -> Fanout:
        return self

    def __exit__(self, *_: object) -> None:
        self._links.close()

    def warm_up(self, each: int = 4) -> None:
        """Let the session come to be, and its folder be looked at for the first time."""
        self._post(each)
        self._links.during(1.0)

    def burst(self, events: int) -> Burst:
        """So many, from all posters at once."""
        each, heard = events // POSTERS, self.heard
        heard.events = heard.disordered = heard.size = 0
        cpu, began = self.process.cpu() or 0.0, time.perf_counter()
        self._post(each)
        taken = time.perf_counter() - began
        used = (self.process.cpu() or 0.0) - cpu
        events = each * POSTERS
        return Burst(
            events, self._count, taken, used, events * self._count - heard.events, heard.disordered, heard.size
        )

    def paced(self, rate: float, seconds: float) -> list[float]:
        """So many a second; the delays, in seconds, over all links."""
        heard, due = self.heard, time.perf_counter()
        heard.timed, heard.delays = True, []
        for _ in range(int(rate * seconds)):
            self._links.during(due - time.perf_counter())
            free = next((poster for poster in self._posters if not poster.busy), None)
            if free is not None:
                free.post()
                self._posters.remove(free)
                self._posters.append(free)
            due += 1 / rate
        self._links.settle(0.3)
        heard.timed = False
        return heard.delays

    def _post(self, each: int) -> None:
        wanted = self.heard.events + each * POSTERS * self._count
        for poster in self._posters:
            poster.post(each)
        self._links.until(
            lambda: self.heard.events >= wanted and not any(poster.busy for poster in self._posters), LIMIT
        )
