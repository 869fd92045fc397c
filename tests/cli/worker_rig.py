"""Workers as processes, with a real server and a model behind HTTP that waits where a test has it wait."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.agents.native.model_server.script import Answer, Gate, Say, pieces_of
from tests.agents.native.model_server.server import ModelServer, serving
from tests.dialects.windie.runs.kit import KEY, Runs, server
from tests.faults.process import eventually

LIMIT = 20.0
RUNS = "[runs]\nmax_active_per_workspace = 10\nagain_seconds = 0.2\nrestart_grace_seconds = 0\n"


class WorkerProcess:
    """One worker; what it says goes to files of ``folder``."""

    def __init__(self, folder: Path, *flags: str, env: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.out = folder / "worker.out"
        self.log = folder / "worker.log"
        line = [sys.executable, "-m", "dragoman", "worker", "--workspace", "ws", "--interval", "0.1", *flags]
        env = {**os.environ, "DRAGOMAN_DATA": str(folder), "DRAGOMAN_PORT": "0", **env}
        with self.out.open("ab") as out, self.log.open("ab") as log:
            self.process = subprocess.Popen(line, stdout=out, stderr=log, env=env)

    def said(self) -> list[str]:
        return self.out.read_text().splitlines()

    async def says(self, line: str) -> None:
        await eventually(lambda: line in self.said(), f"{line!r}: {self.said()}\n{self.log.read_text()}")

    async def ended(self) -> int:
        code = await asyncio.to_thread(self.process.wait, LIMIT)
        assert "Traceback" not in self.log.read_text(), self.log.read_text()
        return code

    async def end(self, number: int) -> int:
        self.process.send_signal(number)
        return await self.ended()


class Stage:
    """A server, its model, and the workers of a test."""

    def __init__(self, folder: Path, runs: Runs, model: ModelServer) -> None:
        self.folder = folder
        self.runs = runs
        self.model = model
        self.workers: list[WorkerProcess] = []

    @property
    def port(self) -> int:
        return int(self.runs.served.ready["port"])

    def worker(self, *flags: str, port: int | None = None, key: str = KEY, **env: str) -> WorkerProcess:
        """Start one; ``port`` is that of a relay before the server."""
        at = {"BACKEND_HTTP_URL": f"http://127.0.0.1:{port or self.port}/windie", "AGENT_RUNS_API_KEY": key}
        worker = WorkerProcess(self.folder / "worker", *flags, env=at | env)
        self.workers.append(worker)
        return worker

    def waits(self) -> None:
        """The next answer begins, and goes on once the gate ``go`` is open."""
        self.model.script(Answer((Say((*pieces_of("one moment "), Gate("go"), *pieces_of("and done"))),)))

    async def asked(self, times: int = 1) -> None:
        """Wait until the model has been asked so often, and no answer came to its end before its gate."""
        await eventually(lambda: len(self.model.journal) >= times, f"the model is asked {times} times", LIMIT)
        assert len(self.model.journal) == times

    async def becomes(self, run: str, status: str) -> list[dict[str, Any]]:
        """Wait for it; the timeline."""
        seen = None
        async with asyncio.timeout(LIMIT):
            while (seen := await self.runs.status(run)) != status:
                assert seen not in ("completed", "failed", "stopped"), (seen, await self.runs.log(run))
                await asyncio.sleep(0.02)
        return await self.runs.log(run)

    async def has(self, run: str, event_type: str) -> dict[str, Any]:
        """Wait for an event of this type."""
        async with asyncio.timeout(LIMIT):
            while not (found := [e for e in await self.runs.log(run) if e["event_type"] == event_type]):
                await asyncio.sleep(0.02)
        return found[0]


def types(log: list[dict[str, Any]]) -> list[str]:
    """Of a timeline, but for heartbeats: how many there are is the time's affair."""
    return [event["event_type"] for event in log if event["event_type"] != "worker-heartbeat"]


@contextlib.asynccontextmanager
async def staged(tmp_path: Path, runs: str = "", more: str = "") -> AsyncIterator[Stage]:
    """A server that has the same port after a kill, and its model; ``runs`` and ``more`` are settings, TOML."""
    async with serving(ModelServer()) as model:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        url = json.dumps(model.base_url("openai-chat"))
        house = f'[native.providers.house]\napi = "openai-chat"\nbase_url = {url}\nmodels = ["big"]\n'
        settings = f'{RUNS}{runs}[native]\nprovider = "house"\nlocal_servers = []\n{house}{more}'
        served = server(tmp_path / "server", settings, port=port)
        await served.start()
        stage = Stage(tmp_path, Runs(served), model)
        try:
            yield stage
        finally:
            for worker in stage.workers:
                with contextlib.suppress(ProcessLookupError):
                    worker.process.kill()
                worker.process.wait(LIMIT)
            if served.process is not None:
                served.kill()
        assert not model.violations
