"""``dragoman worker``: real workers, with a real server and a model that waits where a test has it wait.

How often the model was asked is how often a run was done.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.agents.native.model_server.script import Answer, Say, pieces_of, say
from tests.dialects.windie.runs.kit import KEY, ask, serving
from tests.faults.process import eventually

from .worker_rig import LIMIT, Stage, staged, types


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        yield stage


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
    await worker.says(f"{later} completed")
    await stage.asked(2)
    assert worker.said() == [f"{run} failed", f"{later} completed"]
    known = [event["payload"]["event_id"] for event in log if event["source"].startswith("worker-stream")]
    assert len(known) == len(set(known))


async def test_of_two_with_one_name_the_second_ends(stage: Stage) -> None:
    stage.worker("--worker-id", "w1")
    await eventually(lambda: "worker w1" in stage.workers[0].log.read_text(), "the first is there", LIMIT)
    second = stage.worker("--worker-id", "w1")
    assert await second.ended() == 1
    assert "another process runs as this worker" in second.log.read_text()


async def test_a_wrong_key_ends_it(stage: Stage) -> None:
    worker = stage.worker(key="wrong-key")
    assert await worker.ended() == 1
    assert "the server does not want this worker: Invalid runs API key" in worker.log.read_text()
    assert "wrong-key" not in worker.log.read_text()


async def test_without_an_address_it_is_the_server_that_runs_here(stage: Stage) -> None:
    stage.model.script(say("done"))
    run = await stage.runs.create()
    stage.worker("--once", BACKEND_HTTP_URL="", DRAGOMAN_URL=f"http://127.0.0.1:{stage.port}")
    await stage.becomes(run, "completed")


async def test_runs_of_a_server_elsewhere_are_done_by_the_agents_that_are_here(stage: Stage) -> None:
    stage.model.script(say("done here"))
    async with serving(stage.folder / "elsewhere") as elsewhere:
        files = [{"artifact_id": "a.png", "filename": "shot.png", "content_type": "image/png"}]
        run = await elsewhere.create(files=files)
        port = elsewhere.served.ready["port"]
        worker = stage.worker("--once", port=port, DRAGOMAN_URL=f"http://127.0.0.1:{stage.port}")
        assert await worker.ended() == 0
        assert (await elsewhere.log(run))[-1]["payload"]["payload"] == {"final_response": "done here"}
        assert (await elsewhere.served.asked("GET", "/sessions"))["sessions"] == []
    assert len((await stage.runs.served.asked("GET", "/sessions"))["sessions"]) == 1


async def test_with_an_installs_token_the_runs_are_that_users(tmp_path: Path) -> None:
    async with staged(tmp_path, more='[installs]\nauth = "on"\n') as stage:
        made = await asyncio.to_thread(ask, stage.port, "POST", "/api/install/register", {})
        token = made.json["install_token"]
        key = [("x-windie-runs-key", KEY), ("authorization", f"Bearer {token}")]
        asked = {"workspace_id": "ws", "query": "do it"}
        run = (await stage.runs.ask("POST", "/", asked, key)).json["run"]["run_id"]
        outside = stage.worker("--once")
        assert await outside.ended() == 1
        assert "Missing install bearer token" in outside.log.read_text()
        stage.model.script(say("done"))
        worker = stage.worker("--once", AGENT_INSTALL_TOKEN=token)
        assert await worker.ended() == 0
        assert worker.said() == [f"{run} completed"]
        assert token not in worker.log.read_text()
        rows = (await stage.runs.served.asked("GET", "/sessions"))["sessions"]
        assert len(rows) == 1


async def test_what_the_server_cannot_keep_is_told_without_its_content(tmp_path: Path) -> None:
    async with staged(tmp_path, runs="payload_bytes = 500\n") as stage:
        stage.model.script(say("x" * 1000, "!"))
        run = await stage.runs.create()
        stage.worker("--once")
        log = await stage.becomes(run, "completed")
        told = {event["event_type"]: event["payload"] for event in log}
        assert "at most" in told["system-prompt"]["omitted"]
        assert told["system-prompt"]["payload"] == told["streaming-complete"]["payload"] == {}
        assert told["query-accepted"]["payload"] == {"status": "accepted"}


@pytest.mark.parametrize("missing", ["AGENT_RUNS_API_KEY", "--workspace"])
def test_what_it_cannot_do_without(missing: str, tmp_path: Path) -> None:
    env = {**os.environ, "AGENT_RUNS_API_KEY": KEY, "DRAGOMAN_DATA": str(tmp_path)}
    env = {name: value for name, value in env.items() if name != missing}
    flags = [] if missing == "--workspace" else ["--workspace", "ws"]
    line = [sys.executable, "-m", "dragoman", "worker", *flags]
    ended = subprocess.run(line, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (ended.returncode, missing in ended.stderr) == (2, True), ended.stderr
