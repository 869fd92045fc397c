"""The routes of runs on a real server process, by the plainest client; what is sent is as the contract writes it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.process import LIMIT, Served

KEY = "runs-key-1"
Message = dict[str, Any]
Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Reply:
    """One HTTP answer."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, Any]:
        """Status and detail."""
        assert self.json.keys() == {"detail"}
        return self.status, self.json["detail"]


def ask(port: int, method: str, path: str, body: object = None, headers: Headers | None = None) -> Reply:
    """One request below windie's root. ``body``: bytes as they are, else JSON. Raises ``OSError`` without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        connection.putrequest(method, f"/windie{path}", skip_accept_encoding=True)
        for name, value in [("x-windie-runs-key", KEY)] if headers is None else headers:
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("content-type", "application/json")
            connection.putheader("content-length", str(len(data)))
        connection.endheaders(data)
        answer = connection.getresponse()
        return Reply(answer.status, answer.read())
    finally:
        connection.close()


class Runs:
    """The runs of one server, which may be killed and started again; short words for what clients and workers say."""

    def __init__(self, served: Served) -> None:
        self.served = served

    async def ask(self, method: str, path: str, body: object = None, headers: Headers | None = None) -> Reply:
        return await asyncio.to_thread(ask, self.served.ready["port"], method, f"/api/runs{path}", body, headers)

    async def post(self, path: str, **body: Any) -> Any:
        """What must succeed."""
        reply = await self.ask("POST", path, body)
        assert reply.status == 200, (path, reply)
        return reply.json

    async def refused(self, path: str, **body: Any) -> tuple[int, Any]:
        """What must not."""
        return (await self.ask("POST", path, body)).refusal

    async def get(self, path: str) -> Any:
        reply = await self.ask("GET", path)
        assert reply.status == 200, (path, reply)
        return reply.json

    async def create(self, workspace: str = "ws", **fields: Any) -> str:
        answer = await self.post("/", workspace_id=workspace, **{"query": "do it", **fields})
        return str(answer["run"]["run_id"])

    async def beat(self, worker: str = "w1", workspace: str = "ws", **fields: Any) -> Any:
        said = {"workspace_id": workspace, "worker_id": worker, "vm_id": "vm-1", "user_id": "vm-user-1", **fields}
        return await self.post("/workers/heartbeat", **said)

    async def given(self, worker: str = "w1", workspace: str = "ws") -> str | None:
        assigned = (await self.beat(worker, workspace))["assigned_run"]
        return None if assigned is None else str(assigned["run_id"])

    async def dispatch(self, run: str, worker: str = "w1", turn: str = "turn-1") -> Any:
        return await self.post(f"/{run}/worker-dispatched", worker_id=worker, turn_ref=turn, user_id="vm-user-1")

    async def relay(self, run: str, event_type: str = "tool-call", turn: str = "turn-1") -> Any:
        return await self.post(f"/{run}/events", event_type=event_type, payload={"payload": {}, "turn_ref": turn})

    async def status(self, run: str) -> str:
        return str((await self.get(f"/{run}"))["status"])

    async def log(self, run: str) -> list[Message]:
        events: list[Message] = (await self.get(f"/{run}/events?limit=1000"))["events"]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        return events

    async def types(self, run: str) -> list[str]:
        return [event["event_type"] for event in await self.log(run)]


def server(folder: Path, settings: str = "", *, port: int = 0, **env: str) -> Served:
    """One with a runs key, not started; ``settings`` is TOML, ``env`` more of its environment."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.toml"
    config.write_text(settings)
    return Served(folder, "--config", str(config), "--port", str(port), env={"WINDIE_RUNS_API_KEY": KEY, **env})


@contextlib.asynccontextmanager
async def serving(folder: Path, settings: str = "", **env: str) -> AsyncIterator[Runs]:
    """A server, for as long as this lasts."""
    served = server(folder, settings, **env)
    await served.start()
    try:
        yield Runs(served)
    finally:
        if served.process is not None:
            served.kill()
