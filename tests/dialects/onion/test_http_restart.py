"""What only a real process shows: results after SIGKILL, lines on stderr, addresses that unmodified clients find."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.process import LIMIT, Served

MakeHost = Callable[..., Awaitable["Onion"]]


class Onion(Served):
    """`dragoman serve --dialect onion` with scripted sessions, in a home of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        home = folder / "home"
        home.mkdir(parents=True)
        config = folder / "config.toml"
        config.write_text('[dialects.onion]\nkind = "scripted"\n')
        places = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
        super().__init__(folder, "--dialect", "onion", "--config", str(config), *flags, env=places)

    def onion(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request to the dialect at the root; status and JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ready["port"], timeout=LIMIT)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    async def asks(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return await asyncio.to_thread(self.onion, method, path, body)

    async def result(self, name: str, *statuses: str) -> dict[str, Any]:
        """The result of that session once it has one of these statuses."""
        async with asyncio.timeout(LIMIT):
            while True:
                status, found = await self.asks("GET", f"/sessions/{name}")
                if status == 200 and found["status"] in statuses:
                    return dict(found)
                await asyncio.sleep(0.02)

    @property
    def file(self) -> Path:
        return self.folder / "data" / "onion" / "session_results.jsonl"


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[MakeHost]:
    """Start a host; all are ended after the test."""
    made: list[Onion] = []

    async def start(*flags: str) -> Onion:
        onion = Onion(tmp_path / str(len(made)), *flags)
        made.append(onion)
        await onion.start()
        return onion

    yield start
    for onion in made:
        if onion.process is not None:
            onion.kill()


async def test_after_a_kill_no_result_says_that_it_runs(host: MakeHost) -> None:
    """Spec §15 row 25: what ran is interrupted, what was done is done, and the next prompt runs."""
    onion = await host()
    await onion.asks("POST", "/input", {"prompt": "say before", "session": {"session_id": "done"}})
    lost = asyncio.create_task(onion.asks("POST", "/input", {"prompt": "wait", "session": {"session_id": "lost"}}))
    before = await onion.result("lost", "running")
    onion.kill()
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        await lost
    await onion.start()
    after = await onion.result("lost", "interrupted", "running")
    assert (after["status"], after["prompt"], after["created"]) == ("interrupted", "wait", before["created"])
    assert (await onion.result("done", "done"))["result"] == "before"
    status, again = await onion.asks("POST", "/input", {"prompt": "say after", "session": {"session_id": "lost"}})
    assert (status, again["result"]) == (200, "after")
    assert stat.S_IMODE(onion.file.stat().st_mode) == 0o600


async def test_a_file_that_a_crash_tore_does_not_stop_the_start(host: MakeHost) -> None:
    """Spec §15 row 26."""
    onion = await host()
    await onion.asks("POST", "/input", {"prompt": "say one", "session": {"session_id": "one"}})
    await onion.result("one", "done")
    assert onion.stop() == 0
    with onion.file.open("ab") as file:
        file.write(b'\xff{"session_id": "torn", "stat')
    await onion.start()
    assert (await onion.result("one", "done"))["result"] == "one"
    await onion.asks("POST", "/input", {"prompt": "say two", "session": {"session_id": "two"}})
    await onion.result("two", "done")
    assert onion.stop() == 0
    await onion.start()
    _, listed = await onion.asks("GET", "/sessions")
    assert [row["session_id"] for row in listed["sessions"]] == ["two", "one"]


async def test_the_servers_own_address_is_all_that_a_client_needs(host: MakeHost) -> None:
    onion = await host()
    _, info = await onion.asks("GET", "/info")
    _, entry = await onion.asks("GET", f"/api/agents/{info['address']}")
    assert entry["endpoints"][0] == f"http://127.0.0.1:{onion.ready['port']}"
    assert entry["endpoints"][1] == onion.ready["dialects"]["onion"]
    assert {"session_id", "result"} <= (await onion.asks("POST", "/input", {"prompt": "hello"}))[1].keys()


async def test_lines_are_bare_on_stderr(host: MakeHost) -> None:
    onion = await host()
    await onion.asks("POST", "/input", {"prompt": "hello", "session": {"session_id": "mine"}})
    assert "✓ INPUT identity=anonymous session=mine... prompt=hello..." in onion.log.read_text().splitlines()


async def test_with_json_logs_they_are_objects(host: MakeHost) -> None:
    onion = await host("--log-json")
    await onion.asks("POST", "/input", {"prompt": "hello", "session": {"session_id": "mine"}})
    lines = [json.loads(line) for line in onion.log.read_text().splitlines()]
    assert [line["message"] for line in lines if line["part"] == "dragoman.console"] == [
        "✓ INPUT identity=anonymous session=mine... prompt=hello...",
    ]
