"""``dragoman worker``: real workers, with a real server and a model that waits where a test has it wait.

How often the model was asked is how often a run was done.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agents.native.model_server.script import Answer, Gate, Say, pieces_of, say
from tests.agents.native.model_server.server import ModelServer, serving
from tests.dialects.windie.runs.kit import KEY, Runs, server
from tests.faults.process import eventually

LIMIT = 20.0
RUNS = "[runs]\nmax_active_per_workspace = 10\nagain_seconds = 0.2\nrestart_grace_seconds = 0\n"


class WorkerProcess:
    """One worker; what it says goes to files of ``folder``."""

    def __init__(self, folder: Path, *flags: str, server: str, key: str = KEY) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.out = folder / "worker.out"
        self.log = folder / "worker.log"
        line = [sys.executable, "-m", "dragoman", "worker", "--workspace", "ws", "--interval", "0.1", *flags]
        env = {**os.environ, "BACKEND_HTTP_URL": server, "AGENT_RUNS_API_KEY": key, "DRAGOMAN_DATA": str(folder)}
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
    def url(self) -> str:
        return f"http://127.0.0.1:{self.runs.served.ready['port']}/windie"

    def worker(self, *flags: str, **given: str) -> WorkerProcess:
        worker = WorkerProcess(self.folder / "worker", *flags, server=self.url, **given)
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


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(ModelServer()) as model:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        url = json.dumps(model.base_url("openai-chat"))
        house = f'[native.providers.house]\napi = "openai-chat"\nbase_url = {url}\nmodels = ["big"]\n'
        settings = f'{RUNS}[native]\nprovider = "house"\nlocal_servers = []\n{house}'
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


def types(log: list[dict[str, Any]]) -> list[str]:
    return [event["event_type"] for event in log if event["event_type"] != "worker-heartbeat"]


async def test_a_run_is_done_and_told_event_by_event(stage: Stage) -> None:
    stage.model.script(say("for", "ty-two"))
    files = [{"artifact_id": "a.pdf", "filename": "resume.pdf", "content_type": "application/pdf"}]
    run = await stage.runs.create(query="six times seven?", files=files)
    worker = stage.worker("--once")
    log = await stage.becomes(run, "completed")
    assert await worker.ended() == 0
    assert worker.said() == [f"{run} completed"]
    assert types(log)[:3] == ["run-created", "run-worker-assigned", "run-dispatched"]
    assert types(log)[-1] == "streaming-complete"
    turn = log[2]["payload"]["turn_ref"] if log[2]["event_type"] == "run-dispatched" else None
    relayed = [event for event in log if event["source"] == "worker-stream"]
    assert {event["payload"]["turn_ref"] for event in relayed} == {
        (await stage.runs.get(f"/{run}"))["query_message_id"]
    }
    assert turn is None or relayed[0]["payload"]["turn_ref"] == turn
    assert [event["payload"]["sequence"] for event in relayed] == list(range(1, len(relayed) + 1))
    assert relayed[-1]["payload"]["payload"] == {"final_response": "forty-two"}
    (entry,) = stage.model.journal
    heard = msgspec.json.encode(entry.asked.messages).decode()
    assert "six times seven?" in heard
    assert "resume.pdf (artifact a.pdf)" in heard


async def test_runs_are_done_one_after_the_other(stage: Stage) -> None:
    stage.waits()
    stage.model.script(say("second"))
    first, second = await stage.runs.create(), await stage.runs.create()
    worker = stage.worker()
    await stage.asked()
    await stage.has(first, "worker-heartbeat")
    assert await stage.runs.status(second) == "awaiting_worker"
    stage.model.gates["go"].open()
    await worker.says(f"{second} completed")
    assert worker.said() == [f"{first} completed", f"{second} completed"]


async def test_a_stop_ends_the_turn_and_the_worker_goes_on(stage: Stage) -> None:
    stage.waits()
    stage.model.script(say("next"))
    run = await stage.runs.create()
    worker = stage.worker()
    await stage.asked()
    await stage.has(run, "streaming-response")
    await stage.runs.post(f"/{run}/control", action="stop")
    await asyncio.wait_for(stage.model.journal[0].left.wait(), LIMIT)
    await worker.says(f"{run} stopped")
    assert (await stage.has(run, "worker-control"))["payload"]["payload"]["effect"] == "the turn is stopped"
    assert "streaming-complete" not in await stage.runs.types(run)
    assert await stage.runs.status(run) == "stopped"
    later = await stage.runs.create()
    await stage.becomes(later, "completed")


async def test_a_pause_of_a_turn_that_runs_is_told_as_what_it_is(stage: Stage) -> None:
    stage.waits()
    run = await stage.runs.create()
    stage.worker()
    await stage.asked()
    await stage.has(run, "streaming-response")
    await stage.runs.post(f"/{run}/control", action="pause")
    assert "cannot be paused" in (await stage.has(run, "worker-control"))["payload"]["payload"]["effect"]
    assert await stage.runs.status(run) == "paused"
    stage.model.gates["go"].open()
    await stage.becomes(run, "completed")


async def test_a_failing_turn_is_a_failed_run(stage: Stage) -> None:
    run = await stage.runs.create()
    stage.model.script(Answer((Say(pieces_of("hm")),), cut_after=1))
    stage.model.script(*(Answer((Say(pieces_of("hm")),), cut_after=1) for _ in range(10)))
    worker = stage.worker("--once")
    log = await stage.becomes(run, "failed")
    assert types(log)[-1] == "error"
    assert await worker.ended() == 1


async def test_a_worker_that_is_told_to_end_stops_its_run_and_says_so(stage: Stage) -> None:
    stage.waits()
    run = await stage.runs.create()
    worker = stage.worker()
    await stage.asked()
    await stage.has(run, "streaming-response")
    assert await worker.end(signal.SIGTERM) == 0
    assert stage.model.journal[0].left.is_set()
    log = await stage.becomes(run, "failed")
    assert log[-1]["payload"]["payload"] == {"message": "the worker was stopped"}
    assert worker.said() == [f"{run} failed"]


async def test_after_its_crash_a_worker_says_so_and_does_nothing_twice(stage: Stage) -> None:
    stage.waits()
    stage.model.script(say("next"))
    run = await stage.runs.create()
    first = stage.worker("--worker-id", "w1")
    await stage.asked()
    await stage.has(run, "streaming-response")
    first.process.kill()
    await asyncio.wait_for(stage.model.journal[0].left.wait(), LIMIT)
    stage.worker("--worker-id", "w1")
    log = await stage.becomes(run, "failed")
    assert log[-1]["payload"]["payload"] == {"message": "the worker ended before the turn"}
    later = await stage.runs.create()
    await stage.becomes(later, "completed")
    await stage.asked(2)


async def test_a_server_that_is_killed_is_waited_for_and_nothing_is_done_twice(stage: Stage) -> None:
    stage.waits()
    stage.model.script(say("next"))
    run = await stage.runs.create()
    worker = stage.worker()
    await stage.asked()
    await stage.has(run, "streaming-response")
    stage.runs.served.kill()
    await stage.runs.served.start()
    log = await stage.becomes(run, "failed")
    assert log[-1]["source"] == "worker"
    later = await stage.runs.create()
    await stage.becomes(later, "completed")
    await stage.asked(2)
    assert worker.said() == [f"{run} failed", f"{later} completed"]
    known = [event["payload"]["event_id"] for event in log if event["source"].startswith("worker-stream")]
    assert len(known) == len(set(known))


async def test_of_two_with_one_name_the_second_ends(stage: Stage) -> None:
    stage.worker("--worker-id", "w1")
    await eventually(lambda: "worker w1" in stage.workers[0].log.read_text(), "the first is there", LIMIT)
    second = WorkerProcess(stage.folder / "worker", "--worker-id", "w1", server=stage.url)
    assert await second.ended() == 1
    assert "another process runs as this worker" in second.log.read_text()


async def test_a_wrong_key_ends_it(stage: Stage) -> None:
    worker = stage.worker(key="wrong-key")
    assert await worker.ended() == 1
    assert "the server does not want this worker: Invalid runs API key" in worker.log.read_text()
    assert "wrong-key" not in worker.log.read_text()


@pytest.mark.parametrize("missing", ["AGENT_RUNS_API_KEY", "--workspace"])
def test_what_it_cannot_do_without(missing: str, tmp_path: Path) -> None:
    env = {**os.environ, "AGENT_RUNS_API_KEY": KEY, "DRAGOMAN_DATA": str(tmp_path)}
    env = {name: value for name, value in env.items() if name != missing}
    flags = [] if missing == "--workspace" else ["--workspace", "ws"]
    line = [sys.executable, "-m", "dragoman", "worker", *flags]
    ended = subprocess.run(line, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (ended.returncode, missing in ended.stderr) == (2, True), ended.stderr
