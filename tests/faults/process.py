"""`dragoman serve` as a real process, and the plainest clients: for what only a kill can show."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect

LIMIT = 20.0
"""Seconds any single condition may take to come true."""

T = TypeVar("T")
Message = dict[str, Any]


async def eventually(probe: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """Ask again and again until the answer is true; return it."""
    deadline = asyncio.get_running_loop().time() + limit
    while not (answer := probe()):
        assert asyncio.get_running_loop().time() < deadline, f"not within {limit} s: {what}"
        await asyncio.sleep(0.01)
    return answer


class Served:
    """One server process on one data folder; started again after each kill."""

    program: tuple[str, ...] = ("dragoman",)
    """The module that is run, and what stands before its command."""

    def __init__(self, folder: Path, *flags: str, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._flags = flags
        # not what is said to the tests: a server refuses settings that it does not know
        own = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_E2E_")}
        self._env = {**own, **(env or {})}
        self.log = folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.ready: Message = {}

    async def start(self) -> None:
        """Start it and wait for its ready line."""
        line = [sys.executable, "-m", *self.program, "serve", "--port", "0", "--json"]
        line += ["--data", str(self.folder / "data"), *self._flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, cwd=self.folder, env=self._env)
        assert self.process.stdout is not None
        first = await asyncio.to_thread(self.process.stdout.readline)
        assert first, f"the server did not start:\n{self.log.read_text()}"
        self.ready = json.loads(first)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self.process is not None
        process, self.process = self.process, None
        process.send_signal(number)
        code = process.wait(LIMIT)
        assert process.stdout is not None
        process.stdout.close()
        return code

    def ask(self, method: str, path: str, body: Message | None = None, *, token: str = "") -> tuple[int, Any]:
        """One HTTP request to the hub dialect; status and JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ready["port"], timeout=LIMIT)
        try:
            given = None if body is None else json.dumps(body)
            headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
            connection.request(method, f"/hub{path}", given, headers)
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if data else None
        finally:
            connection.close()

    async def asked(self, method: str, path: str, body: Message | None = None, *, token: str = "") -> Any:
        """The same off the loop, when it must succeed."""
        status, answer = await asyncio.to_thread(self.ask, method, path, body, token=token)
        assert status < 300, (status, answer)
        return answer

    async def whole_log(self, session: str) -> list[Message]:
        """Every event of a session, paged from the start."""
        events: list[Message] = []
        while page := (await self.asked("GET", f"/sessions/{session}/events?after={len(events)}&limit=500"))["events"]:
            events += page
        return events

    @contextlib.asynccontextmanager
    async def socket(self) -> AsyncIterator[ClientConnection]:
        """A WebSocket to the hub dialect."""
        async with connect(self.ready["dialects"]["hub"], max_size=None, compression=None, proxy=None) as socket:
            yield socket


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def marked(session: str) -> list[int]:
    """Processes that carry this session's marker in their environment."""
    wanted = f"DRAGOMAN_SESSION={session}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0") and alive(int(entry.name)):
                    found.append(int(entry.name))
    return found
