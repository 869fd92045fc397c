"""The service as clients and workers see it: caps, assignment, leases, commands, timelines, restarts, bad disks."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.services.runs import (
    ActiveRunLimit,
    Control,
    Dispatch,
    Heartbeat,
    InvalidRun,
    Relay,
    RunNotFound,
    RunRequest,
    Runs,
    RunsUnavailable,
    StopAll,
    WorkerMismatch,
)
from dragoman.services.runs.state import view_of
from dragoman.services.runs.store import RunStore

from .kit import AGAIN, LEASE, LOST, ManualClock, plane, settings


async def test_a_run_in_the_words_of_the_wire(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        created = await p.runs.create(
            RunRequest(
                workspace_id="ws", query="apply", agent_id="alpha", requested_by="ann", files=[{"filename": "a"}]
            )
        )
        run = created.run
        assert list(msgspec.to_builtins(run)) == [
            "run_id", "workspace_id", "agent_id", "conversation_ref", "query_message_id", "query", "requested_by",
            "files", "metadata", "status", "control_mode", "worker", "created_at", "updated_at", "last_heartbeat_at",
            "last_event_seq",
        ]  # fmt: skip
        assert run.conversation_ref == f"run-{run.run_id}"
        assert run.created_at == "2026-02-25T06:13:20.000Z"
        assert [msgspec.to_builtins(event) for event in created.events] == [
            {
                "seq": 1,
                "timestamp": "2026-02-25T06:13:20.000Z",
                "event_type": "run-created",
                "source": "api",
                "payload": {
                    "run_id": run.run_id,
                    "workspace_id": "ws",
                    "agent_id": "alpha",
                    "conversation_ref": f"run-{run.run_id}",
                    "status": "awaiting_worker",
                    "control_mode": "agent_only",
                },
            }
        ]
        beaten = await p.beat(session_id="s1", metadata={"gpu": True})
        assert msgspec.to_builtins(beaten.assigned_run) == {
            "run_id": run.run_id,
            "workspace_id": "ws",
            "agent_id": "alpha",
            "conversation_ref": f"run-{run.run_id}",
            "query": "apply",
            "requested_by": "ann",
            "files": [{"filename": "a"}],
            "metadata": {},
            "control_mode": "agent_only",
        }
        assert (await p.view(run.run_id)).worker == beaten.worker


@pytest.mark.parametrize(("given", "kept"), [("talk", True), ("  ", False), (7, False), (None, False)])
async def test_a_conversation_is_named_by_metadata(tmp_path: Path, given: Any, kept: bool) -> None:
    async with plane(tmp_path) as p:
        run = await p.create(metadata={"conversation_ref": given})
        assert (await p.view(run)).conversation_ref == (given if kept else f"run-{run}")


async def test_fifty_creates_at_once_make_one_run(tmp_path: Path) -> None:
    """Windie spec §11, bug 24."""
    async with plane(tmp_path, max_active_per_workspace=1) as p:
        results = await asyncio.gather(*(p.create() for _ in range(50)), return_exceptions=True)
        refused = [str(result) for result in results if isinstance(result, ActiveRunLimit)]
        assert refused == ["Active run limit reached for workspace 'ws' (1)."] * 49
        (run,) = [result for result in results if isinstance(result, str)]
        await p.create("another")
        await p.relay(run, "streaming-complete")
        await p.create()


@pytest.mark.parametrize("second", ["w1", "w2"])
async def test_two_racing_heartbeats_assign_once(tmp_path: Path, second: str) -> None:
    """Windie spec §11, bug 25: also where both are one worker's."""
    async with plane(tmp_path) as p:
        run = await p.create()
        given = await asyncio.gather(p.given("w1"), p.given(second))
        assert sorted(given, key=str) == [None, run] or given == [run, None]
        assert (await p.types(run)).count("run-worker-assigned") == 1


async def test_runs_are_given_in_the_order_of_creation_one_at_a_time(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        runs = [await p.create() for _ in range(3)]
        elsewhere = await p.create("another")
        assert await p.given("w1") == runs[0]
        assert await p.given("w1") is None
        assert await p.given("w2") == runs[1]
        await p.dispatch(runs[0])
        assert await p.given("w1") == runs[2]
        assert await p.given("w1", "third") is None
        assert await p.given("w1", "another") == elsewhere


async def test_a_worker_that_is_not_willing_is_given_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        assert (await p.beat(status="draining")).assigned_run is None
        assigned = (await p.beat(status="running")).assigned_run
        assert assigned is not None
        assert assigned.run_id == run


async def test_a_stopped_run_is_never_assigned_and_a_resumed_one_is_again(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        stopped, paused = await p.create(), await p.create()
        await p.control(stopped, "stop")
        await p.control(paused, "pause")
        assert await p.given() is None
        await p.control(paused, "resume")
        assert await p.given() == paused


async def test_what_comes_after_a_stop_does_not_complete_a_run(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        await p.given()
        await p.dispatch(run)
        before = (await p.control(run, "stop")).run
        after = (await p.relay(run, "streaming-complete")).run
        assert msgspec.structs.replace(after, last_event_seq=before.last_event_seq) == before
        assert (await p.types(run))[-1] == "streaming-complete"


async def test_stop_all_of_a_workspace_and_of_all(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        a, b, c, done = [await p.create(place) for place in ("ws", "ws", "another", "ws")]
        await p.relay(done, "streaming-complete")
        await p.control(b, "pause")
        stopped = await p.runs.stop_all(StopAll(workspace_id="ws", requested_by="operator"))
        assert (stopped.workspace_id, stopped.stopped_run_ids, stopped.count) == ("ws", [a, b], 2)
        last = (await p.runs.events(a, 1)).events[-1]
        assert (last.event_type, last.payload["bulk"]) == ("run-control", True)
        assert (await p.runs.stop_all(StopAll(workspace_id=" "))).stopped_run_ids == [c]
        assert (await p.runs.stop_all(StopAll())).count == 0
        assert (await p.view(done)).status == "completed"


async def test_commands_go_out_once_also_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with plane(tmp_path, clock) as p:
        run = await p.create()
        await p.given()
        await p.dispatch(run)
        await p.control(run, "pause")
        await p.control(run, "set-control-mode", "shared_control")
    async with plane(tmp_path, clock) as p:
        assert (await p.beat("w2")).control_commands == []
        told = (await p.beat()).control_commands
        assert [(command.action, command.control_mode) for command in told] == [
            ("pause", "agent_only"),
            ("set-control-mode", "shared_control"),
        ]
        await p.control(run, "stop")
    async with plane(tmp_path, clock) as p:
        assert [command.action for command in (await p.beat()).control_commands] == ["stop"]
    async with plane(tmp_path, clock) as p:
        assert (await p.beat()).control_commands == []
        assert "pending" not in msgspec.to_builtins(await p.view(run))


async def test_an_assignment_is_given_again_until_the_lease_ends(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        assert await p.given() == run
        p.clock.advance(AGAIN - 1)
        assert await p.given() is None
        p.clock.advance(1)
        assert await p.given() == run
        p.clock.advance(LEASE - AGAIN)
        assert await p.given("w2") == run
        with pytest.raises(WorkerMismatch, match=r"^Run not found or worker mismatch$"):
            await p.dispatch(run, "w1")
        await p.dispatch(run, "w2")
        assert (await p.types(run)).count("run-lease-ended") == 1


async def test_a_run_given_back_takes_no_notice_of_its_first_worker(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        await p.given()
        p.clock.advance(LEASE)
        assert (await p.relay(run, "tool-call", "turn-1")).run.status == "awaiting_worker"
        assert (await p.relay(run, "streaming-complete", "turn-1")).run.status == "awaiting_worker"
        assert await p.given("w2") == run
        await p.dispatch(run, "w2", "turn-2")
        assert (await p.relay(run, "streaming-complete", "turn-1")).run.status == "running"
        assert (await p.relay(run, "streaming-complete", "turn-2")).run.status == "completed"


@pytest.mark.parametrize("retry", [True, False, 1, "true"])
async def test_a_worker_lost_after_dispatch(tmp_path: Path, retry: Any) -> None:
    async with plane(tmp_path) as p:
        run = await p.create(metadata={"retry": retry})
        await p.given()
        await p.dispatch(run)
        p.clock.advance(LOST - 1)
        assert (await p.view(run)).status == "running"
        await p.beat()
        p.clock.advance(LOST)
        await p.runs.settle_due()
        assert (await p.types(run))[-1] == "run-worker-lost"
        if retry is not True:
            assert (await p.view(run)).status == "failed"
            assert await p.given("w2") is None
            return
        assert (await p.view(run)).status == "awaiting_worker"
        assert await p.given("w2") == run
        assert (await p.dispatch(run, "w2", "turn-2")).run.query_message_id == "turn-2"


async def test_leases_outlive_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with plane(tmp_path, clock) as p:
        held, begun = await p.create(), await p.create()
        assert await p.given("w1") == held
        assert await p.given("w2") == begun
        await p.dispatch(begun, "w2")
        clock.advance(LEASE - 1)
    async with plane(tmp_path, clock) as p:
        assert (await p.view(held)).status == "queued"
        clock.advance(1)
        assert (await p.view(held)).status == "awaiting_worker"
        clock.advance(LOST - LEASE)
        assert (await p.view(begun)).status == "failed"


async def test_nobody_is_lost_because_the_server_was_away(tmp_path: Path) -> None:
    clock = ManualClock()
    async with plane(tmp_path, clock, restart_grace_seconds=30) as p:
        heard, silent = await p.create(), await p.create()
        for worker, run in (("w1", heard), ("w2", silent)):
            assert await p.given(worker) == run
            await p.dispatch(run, worker)
    clock.advance(10 * LOST)
    async with plane(tmp_path, clock, restart_grace_seconds=30) as p:
        clock.advance(29)
        await p.beat("w1")
        assert (await p.view(silent)).status == "running"
        clock.advance(1)
        assert [(await p.view(run)).status for run in (heard, silent)] == ["running", "failed"]


async def test_a_dispatch_said_again_changes_nothing_and_a_second_turn_is_refused(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        await p.given()
        with pytest.raises(WorkerMismatch):
            await p.dispatch(run, user_id="somebody")
        first = await p.dispatch(run, user_id="vm-user-1")
        assert await p.dispatch(run) == first
        with pytest.raises(WorkerMismatch):
            await p.dispatch(run, turn="turn-2")
        await p.relay(run, "streaming-complete")
        assert (await p.dispatch(run)).run.status == "completed"


async def test_polls_wake_with_the_next_event(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run, other = await p.create(), await p.create()
        polls = [asyncio.create_task(p.runs.events(run, 1, wait_seconds=30)) for _ in range(100)]
        while len(p.runs._waiting.get(run, ())) < 100:
            await asyncio.sleep(0)
        await p.relay(other)
        assert not any(poll.done() for poll in polls)
        await p.relay(run)
        pages = await asyncio.wait_for(asyncio.gather(*polls), 10)
        assert {(page.next_after_seq, len(page.events)) for page in pages} == {(2, 1)}
        assert p.runs._waiting == {}


async def test_polls_are_bounded(tmp_path: Path) -> None:
    async with plane(tmp_path, longest_wait_seconds=0.05, most_waiting=1) as p:
        run = await p.create()
        pages = await asyncio.wait_for(asyncio.gather(*(p.runs.events(run, 5, wait_seconds=1e9) for _ in range(2))), 10)
        assert [(page.events, page.next_after_seq) for page in pages] == [([], 5)] * 2


async def test_closing_ends_polls(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        poll = asyncio.create_task(p.runs.events(run, 1, wait_seconds=30))
        while not p.runs._waiting:
            await asyncio.sleep(0)
        await p.runs.close()
        with pytest.raises(RunsUnavailable):
            await asyncio.wait_for(poll, 10)


async def test_a_timeline_in_parts(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        for _ in range(6):
            await p.relay(run)
        page = await p.runs.events(run, 2, 3)
        assert ([event.seq for event in page.events], page.next_after_seq) == ([3, 4, 5], 5)
        for after, limit in ((-1, 1), (0, 0), (0, 1001)):
            with pytest.raises(InvalidRun):
                await p.runs.events(run, after, limit)


async def test_who_is_not_there(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        for call in (p.view("x"), p.control("x", "stop"), p.relay("x"), p.runs.events("x")):
            with pytest.raises(RunNotFound, match=r"^Run not found$"):
                await call
        with pytest.raises(WorkerMismatch):
            await p.dispatch("x")


WRONG: list[tuple[str, Any]] = [
    ("workspace_id", RunRequest(workspace_id="", query="q")),
    ("query", RunRequest(workspace_id="ws", query="")),
    ("query", RunRequest(workspace_id="ws", query="q" * 300_000)),
    ("query", RunRequest(workspace_id="ws", query="\ud800")),
    ("files", RunRequest(workspace_id="ws", query="q", files=[{}] * 65)),
    ("metadata", RunRequest(workspace_id="ws", query="q", metadata={"a": "a" * 70_000})),
    ("agent_id", RunRequest(workspace_id="ws", query="q", agent_id="a" * 513)),
    ("worker_id", Heartbeat(workspace_id="ws", worker_id="", vm_id="v", user_id="u")),
    ("control_mode", Control(action="set-control-mode")),
    ("action", Control(action="explode")),  # type: ignore[arg-type]
    ("control_mode", Control(action="pause", control_mode="mine")),  # type: ignore[arg-type]
    ("turn_ref", Dispatch(worker_id="w", turn_ref="")),
    ("event_type", Relay(event_type="")),
    ("payload", Relay(event_type="x", payload={"a": "a" * 1_100_000})),
]


@pytest.mark.parametrize(("field", "sent"), WRONG)
async def test_what_cannot_be_used_is_named(tmp_path: Path, field: str, sent: Any) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        call: dict[type, Any] = {
            RunRequest: p.runs.create,
            Heartbeat: p.runs.heartbeat,
            Control: lambda order: p.runs.control(run, order),
            Dispatch: lambda order: p.runs.dispatched(run, order),
            Relay: lambda order: p.runs.relay(run, order),
        }
        with pytest.raises(InvalidRun) as caught:
            await call[type(sent)](sent)
        assert caught.value.field == field
        assert await p.types(run) == ["run-created"]


async def test_a_full_log_takes_no_more_events(tmp_path: Path) -> None:
    async with plane(tmp_path, events_per_run=3) as p:
        run = await p.create()
        await p.relay(run)
        await p.relay(run)
        with pytest.raises(InvalidRun):
            await p.relay(run)
        assert (await p.control(run, "stop")).run.status == "stopped"
        with pytest.raises(InvalidRun):
            await p.relay(run, "streaming-complete")


@pytest.mark.parametrize(("end", "status"), [("streaming-complete", "completed"), ("error", "failed")])
async def test_a_full_log_takes_the_end_of_its_run(tmp_path: Path, end: str, status: str) -> None:
    async with plane(tmp_path, events_per_run=2) as p:
        run = await p.create()
        await p.relay(run)
        assert (await p.relay(run, end)).run.status == status


async def test_what_is_returned_is_a_copy(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        metadata = {"a": [1]}
        run = await p.create(metadata=metadata)
        metadata["a"].append(2)
        (await p.view(run)).metadata["a"].append(3)
        assert (await p.view(run)).metadata == {"a": [1]}


async def test_finished_runs_go_when_they_are_old_or_there_is_no_room(tmp_path: Path) -> None:
    clock = ManualClock()
    async with plane(tmp_path, clock, runs_kept=2, retention_days=1) as p:
        first, second = await p.create(), await p.create()
        with pytest.raises(RunsUnavailable):
            await p.create()
        await p.control(second, "stop")
        third = await p.create()
        with pytest.raises(RunNotFound):
            await p.view(second)
        await p.control(third, "stop")
        clock.advance(24 * 3600 + 1)
        with pytest.raises(RunNotFound):
            await p.view(third)
        assert (await p.view(first)).status == "awaiting_worker"
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)


async def test_a_restart_finds_the_same_runs_with_and_without_snapshots(tmp_path: Path) -> None:
    clock = ManualClock()
    async with plane(tmp_path, clock) as p:
        runs = [await p.create() for _ in range(3)]
        await p.given()
        await p.dispatch(runs[0])
        await asyncio.gather(*(p.relay(runs[0]) for _ in range(600)))
        await p.control(runs[1], "stop")
        views = [await p.view(run) for run in runs]
    async with plane(tmp_path, clock) as p:
        assert [await p.view(run) for run in runs] == views
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        assert connection.execute("SELECT count(*) FROM runs WHERE state IS NOT NULL").fetchone() == (2,)
        connection.execute("UPDATE runs SET state = x'00' WHERE number = 1")
        connection.execute("UPDATE runs SET state = NULL WHERE number = 2")
        connection.commit()
    async with plane(tmp_path, clock) as p:
        assert [await p.view(run) for run in runs] == views
    store = RunStore(tmp_path / "runs.db")
    assert [view_of(known.run) for known in await store.open()] == views
    await store.close()


async def test_what_could_not_be_written_did_not_happen(tmp_path: Path) -> None:
    async with plane(tmp_path, max_active_per_workspace=1) as p:
        run = await p.create()
        with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
            connection.execute("CREATE TRIGGER broken BEFORE INSERT ON events BEGIN SELECT raise(ABORT, 'no'); END")
            calls = (p.create("another"), p.given("w1"), p.control(run, "stop"))
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(result) for result in results] == [RunsUnavailable] * 3
            assert (await p.view(run)).status == "awaiting_worker"
            connection.execute("DROP TRIGGER broken")
        await p.create("another")
        assert await p.given("w1") == run
        assert await p.types(run) == ["run-created", "run-worker-assigned"]


async def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "runs.db").write_bytes(b"this is no database, not at all" * 100)
    for folder in (tmp_path / "file", tmp_path):
        runs = Runs(folder, settings())
        with pytest.raises(RunsUnavailable):
            await runs.open()
        with pytest.raises(RunsUnavailable):
            await runs.run("x")


async def test_the_watch_takes_a_lost_run_by_itself(tmp_path: Path) -> None:
    async with plane(tmp_path) as p:
        run = await p.create()
        await p.given()
        poll = asyncio.create_task(p.runs.events(run, 2, wait_seconds=30))
        while not p.runs._waiting:
            await asyncio.sleep(0)
        p.clock.advance(LEASE)
        page = await asyncio.wait_for(poll, 10)
        assert [event.event_type for event in page.events] == ["run-lease-ended"]
