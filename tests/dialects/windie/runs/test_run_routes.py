"""The routes of runs, over HTTP (seed: runs; spec §9, §11 bugs 24 and 25)."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .kit import KEY, Headers, Runs, server, serving

ROUTES = [
    ("POST", "/"),
    ("GET", "/some-run"),
    ("GET", "/some-run/events"),
    ("POST", "/some-run/events"),
    ("POST", "/some-run/control"),
    ("POST", "/some-run/worker-dispatched"),
    ("POST", "/workers/heartbeat"),
    ("POST", "/stop-all"),
]
MANY = "[runs]\nmax_active_per_workspace = 1000\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """One for all tests of this file, each of which has workspaces of its own."""
    served = server(tmp_path_factory.mktemp("runs"), MANY)
    asyncio.run(served.start())
    yield Runs(served)
    served.kill()


# Who may


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("x-windie-runs-key", "")],
        [("x-windie-runs-key", "runs-key-2")],
        [("x-windie-runs-key", KEY), ("x-windie-runs-key", KEY)],
        [("authorization", f"Bearer {KEY}")],
    ],
    ids=["none", "empty", "another", "twice", "elsewhere"],
)
async def test_every_route_wants_the_key(shared: Runs, method: str, path: str, headers: Headers) -> None:
    """Before a body is looked at."""
    reply = await shared.ask(method, path, b"{" if method == "POST" else None, headers)
    assert reply.refusal == (401, "Invalid runs API key")


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_with_the_key_each_is_there(shared: Runs, method: str, path: str) -> None:
    reply = await shared.ask(method, path, {} if method == "POST" else None)
    assert reply.refusal == (404, "Run not found") if method == "GET" else reply.status in (200, 422)


async def test_without_a_key_of_the_servers_there_is_none(tmp_path: Path) -> None:
    async with serving(tmp_path, WINDIE_RUNS_API_KEY="") as runs:
        for method, path in ROUTES:
            reply = await runs.ask(method, path, b"{" if method == "POST" else None)
            assert reply.refusal == (503, "Runs API key is not configured")


async def test_stopping_all_may_want_a_key_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path, WINDIE_RUNS_CONTROL_API_KEY="control-1") as runs:
        run = await runs.create()
        assert await runs.refused("/stop-all") == (401, "Invalid runs control API key")
        only = [("x-windie-runs-control-key", "control-1")]
        assert (await runs.ask("POST", "/stop-all", {}, only)).refusal == (401, "Invalid runs API key")
        assert await runs.status(run) == "awaiting_worker"
        reply = await runs.ask("POST", "/stop-all", {}, [*only, ("x-windie-runs-key", KEY)])
        assert reply.json == {"workspace_id": None, "stopped_run_ids": [run], "count": 1}


# What is sent


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/", {"workspace_id": "v"}, ["body", "query"]),
        ("/", {"workspace_id": "v", "query": ""}, ["body", "query"]),
        ("/", {"workspace_id": "", "query": "q"}, ["body", "workspace_id"]),
        ("/", {"workspace_id": "v", "query": "q", "files": [1]}, ["body", "files", 0]),
        ("/", {"workspace_id": "v", "query": "q", "metadata": []}, ["body", "metadata"]),
        ("/", {"workspace_id": "v" * 513, "query": "q"}, ["body", "workspace_id"]),
        ("/workers/heartbeat", {"workspace_id": "v", "worker_id": "w", "vm_id": "m"}, ["body", "user_id"]),
        ("/RUN/control", {"action": "explode"}, ["body", "action"]),
        ("/RUN/control", {"action": "set-control-mode"}, ["body", "control_mode"]),
        ("/RUN/control", {"action": "set-control-mode", "control_mode": "nobody"}, ["body", "control_mode"]),
        ("/RUN/worker-dispatched", {"worker_id": "w"}, ["body", "turn_ref"]),
        ("/RUN/events", {"event_type": ""}, ["body", "event_type"]),
    ],
)
async def test_what_is_wrong_is_told_by_its_place(
    shared: Runs, path: str, body: dict[str, object], where: list[object]
) -> None:
    run = await shared.create("told")
    status, detail = await shared.refused(path.replace("RUN", run), **body)
    assert status == 422
    assert [[str(part) for part in fault["loc"]] for fault in detail] == [[str(part) for part in where]]
    assert await shared.types(run) == ["run-created"]


@pytest.mark.parametrize("query", ["after_seq=-1", "limit=0", "limit=1001", "limit=ten", "wait_seconds=1.5"])
async def test_a_cursor_or_limit_out_of_bounds_is_refused(shared: Runs, query: str) -> None:
    run = await shared.create("bounds")
    status, detail = (await shared.ask("GET", f"/{run}/events?{query}")).refusal
    assert (status, detail[0]["loc"]) == (422, ["query", query.partition("=")[0]])


async def test_fields_that_nobody_knows_are_passed_over(shared: Runs) -> None:
    await shared.create("unknown", colour="red")
    assert await shared.given(workspace="unknown") is not None


@pytest.mark.parametrize("path", ["", "/events", "/nothing"])
async def test_what_is_not_there(shared: Runs, path: str) -> None:
    assert (await shared.ask("GET", f"/none{path}")).status == 404
    assert await shared.refused("/none/control", action="stop") == (404, "Run not found")
    assert await shared.refused("/none/events", event_type="x") == (404, "Run not found")
    late = await shared.refused("/none/worker-dispatched", worker_id="w", turn_ref="t")
    assert late == (404, "Run not found or worker mismatch")


# A run's life


async def test_a_run_as_the_contract_shows_it(shared: Runs) -> None:
    files = [{"artifact_id": "resume-uuid.pdf", "filename": "resume.pdf", "content_type": "application/pdf"}]
    made = await shared.post(
        "/",
        workspace_id="workspace-demo",
        agent_id="agent-alpha",
        query="apply this internship job for me",
        requested_by="user_123",
        files=files,
        metadata={},
    )
    run = made["run"]["run_id"]
    assert made.keys() == {"run", "events"}
    assert (made["run"]["status"], made["run"]["control_mode"]) == ("awaiting_worker", "agent_only")
    assert made["run"]["conversation_ref"] == f"run-{run}"
    assert "pending_controls" not in made["run"]
    (created,) = made["events"]
    assert (created["seq"], created["event_type"], created["source"]) == (1, "run-created", "api")

    said = {"workspace_id": "workspace-demo", "worker_id": "worker-1", "vm_id": "vm-1", "user_id": "vm-user-1"}
    said |= {"session_id": "session-1", "status": "ready"}
    beaten = await shared.post("/workers/heartbeat", **said, metadata={})
    assert beaten["worker"] == {**said, "metadata": {}, "last_heartbeat_at": beaten["worker"]["last_heartbeat_at"]}
    assert beaten["assigned_run"] == {
        "run_id": run,
        "workspace_id": "workspace-demo",
        "agent_id": "agent-alpha",
        "conversation_ref": f"run-{run}",
        "query": "apply this internship job for me",
        "requested_by": "user_123",
        "files": files,
        "metadata": {},
        "control_mode": "agent_only",
    }
    assert beaten["control_commands"] == []

    begun = await shared.dispatch(run, "worker-1", "turn-uuid")
    assert (begun["run"]["status"], begun["run"]["query_message_id"]) == ("running", "turn-uuid")
    assert begun["latest_event"]["event_type"] == "run-dispatched"
    payload = {"payload": {"x": 1}, "conversation_ref": f"run-{run}", "turn_ref": "turn-uuid"}
    told = await shared.post(f"/{run}/events", event_type="tool-call", source="worker-stream", payload=payload)
    assert {name: told["latest_event"][name] for name in ("seq", "source", "payload")} == {
        "seq": 4,
        "source": "worker-stream",
        "payload": payload,
    }
    await shared.relay(run, "streaming-complete", "turn-uuid")
    assert await shared.status(run) == "completed"
    page = await shared.get(f"/{run}/events?after_seq=1&limit=2")
    assert (page["run_id"], page["next_after_seq"]) == (run, 3)
    assert [event["event_type"] for event in page["events"]] == ["run-worker-assigned", "run-dispatched"]
    assert (await shared.get(f"/{run}/events?after_seq=5"))["next_after_seq"] == 5


async def test_control_reaches_the_worker_once(shared: Runs) -> None:
    run = await shared.create("control")
    assert await shared.given(workspace="control") == run
    await shared.dispatch(run)
    acted = await shared.post(f"/{run}/control", action="pause", requested_by="user_123")
    assert (acted["run"]["status"], acted["latest_event"]["event_type"]) == ("paused", "run-control")
    await shared.post(f"/{run}/control", action="set-control-mode", control_mode="shared_control")
    commands = (await shared.beat(workspace="control"))["control_commands"]
    assert [(command["action"], command["control_mode"]) for command in commands] == [
        ("pause", "agent_only"),
        ("set-control-mode", "shared_control"),
    ]
    assert (await shared.beat(workspace="control"))["control_commands"] == []
    await shared.post(f"/{run}/control", action="stop")
    assert await shared.refused(f"/{run}/control", action="resume") == (409, "Run is stopped")
    late = await shared.refused(f"/{run}/worker-dispatched", worker_id="w1", turn_ref="turn-2")
    assert late == (409, "Run is stopped")


async def test_a_poll_waits_for_the_next_event(shared: Runs) -> None:
    run = await shared.create("poll")
    poll = asyncio.ensure_future(shared.get(f"/{run}/events?after_seq=1&wait_seconds=30"))
    assert await shared.given(workspace="poll") == run
    page = await asyncio.wait_for(poll, 10)
    assert [event["event_type"] for event in page["events"]] == ["run-worker-assigned"]
    assert (await shared.get(f"/{run}/events?after_seq=2"))["events"] == []


async def test_stopping_all_of_a_workspace_leaves_others(shared: Runs) -> None:
    mine = [await shared.create("stopping"), await shared.create("stopping")]
    other = await shared.create("not stopping")
    answer = await shared.post("/stop-all", workspace_id="stopping", requested_by="operator")
    assert answer == {"workspace_id": "stopping", "stopped_run_ids": mine, "count": 2}
    assert await shared.status(other) == "awaiting_worker"
    assert (await shared.log(mine[0]))[-1]["payload"]["bulk"] is True


# At once


async def test_of_fifty_runs_at_once_a_cap_of_one_lets_one_in(tmp_path: Path) -> None:
    async with serving(tmp_path) as runs:
        body = {"workspace_id": "ws", "query": "do it"}
        replies = await asyncio.gather(*(runs.ask("POST", "/", body) for _ in range(50)))
        assert Counter(reply.status for reply in replies) == {200: 1, 409: 49}
        refusals = {reply.refusal[1] for reply in replies if reply.status == 409}
        assert refusals == {"Active run limit reached for workspace 'ws' (1)."}


async def test_racing_heartbeats_are_given_a_run_once(shared: Runs) -> None:
    for name in ("w1", "w{}"):  # of one worker, and of many
        workspace = f"race {name}"
        run = await shared.create(workspace)
        beats = await asyncio.gather(*(shared.given(name.format(number), workspace) for number in range(20)))
        assert [found for found in beats if found is not None] == [run]
        assert (await shared.types(run)).count("run-worker-assigned") == 1


async def test_a_server_that_stops_does_not_wait_for_polls(tmp_path: Path) -> None:
    async with serving(tmp_path) as runs:
        run = await runs.create()
        with socket.create_connection(("127.0.0.1", runs.served.ready["port"])) as poll:
            path = f"/windie/api/runs/{run}/events?after_seq=1&wait_seconds=30"
            poll.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-windie-runs-key: {KEY}\r\n\r\n".encode())
            await runs.status(run)
            began = time.monotonic()
            assert await asyncio.to_thread(runs.served.stop) == 0
            assert time.monotonic() - began < 10
