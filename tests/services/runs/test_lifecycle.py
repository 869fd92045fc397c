"""Every action on a run in every status (docs/runs.md has the same table)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.services.runs import RunFinished, WorkerMismatch

from .kit import LOST, Plane, plane

BEFORE = (
    "awaiting_worker", "queued", "running", "paused", "paused_held", "paused_begun",
    "stopped", "completed", "failed", "lost",
)  # fmt: skip
FINISHED = {"stopped", "completed", "failed", "lost"}


async def bring(p: Plane, to: str) -> str:
    """A run in this state; worker w1 has it, where anybody has."""
    run = await p.create()
    if to not in ("awaiting_worker", "paused"):
        assert await p.given() == run
    if to in ("running", "paused_begun", "completed", "failed", "lost"):
        await p.dispatch(run)
    if to.startswith("paused"):
        await p.control(run, "pause")
    if to == "stopped":
        await p.control(run, "stop")
    if to in ("completed", "failed"):
        await p.relay(run, {"completed": "streaming-complete", "failed": "error"}[to])
    if to == "lost":
        p.clock.advance(LOST)
    wanted = "failed" if to == "lost" else "paused" if to.startswith("paused") else to
    assert (await p.view(run)).status == wanted
    return run


CONTROLS = {
    "pause": dict.fromkeys(BEFORE, "paused"),
    "stop": dict.fromkeys(BEFORE, "stopped"),
    "resume": {
        "awaiting_worker": "awaiting_worker",
        "queued": "queued",
        "running": "running",
        "paused": "awaiting_worker",
        "paused_held": "queued",
        "paused_begun": "running",
    },
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("action", [*CONTROLS, "set-control-mode"])
async def test_a_control_in_every_status(tmp_path: Path, before: str, action: str) -> None:
    async with plane(tmp_path) as p:
        run = await bring(p, before)
        known = await p.view(run)
        mode = "human_override" if action == "set-control-mode" else None
        if before in FINISHED:
            with pytest.raises(RunFinished):
                await p.control(run, action, mode)
            assert await p.view(run) == known
            return
        acted = await p.control(run, action, mode)
        wanted = known.status if action == "set-control-mode" else CONTROLS[action][before]
        assert (acted.run.status, acted.run.control_mode) == (wanted, mode or "agent_only")
        event = acted.latest_event
        assert (event.event_type, event.source, event.seq) == ("run-control", "api", known.last_event_seq + 1)
        assert event.payload == {
            "action": action,
            "requested_by": "ann",
            "control_mode": acted.run.control_mode,
            "status": wanted,
            "command_id": event.payload["command_id"],
            "bulk": False,
        }


RELAYED = {
    "tool-call": {
        "awaiting_worker": "running", "queued": "running", "running": "running",
        "paused": "paused", "paused_held": "paused", "paused_begun": "paused",
    },
    "streaming-complete": dict.fromkeys(BEFORE[:6], "completed"),
    "error": dict.fromkeys(BEFORE[:6], "failed"),
}  # fmt: skip


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("event_type", RELAYED)
async def test_an_event_is_appended_in_every_status(tmp_path: Path, before: str, event_type: str) -> None:
    async with plane(tmp_path) as p:
        run = await bring(p, before)
        known = await p.view(run)
        acted = await p.relay(run, event_type)
        assert (acted.latest_event.event_type, acted.latest_event.source) == (event_type, "worker-stream")
        assert acted.latest_event.seq == known.last_event_seq + 1
        assert acted.run.status == RELAYED[event_type].get(before, known.status)
        assert (await p.types(run))[-1] == event_type


@pytest.mark.parametrize("before", BEFORE)
async def test_a_dispatch_in_every_status(tmp_path: Path, before: str) -> None:
    async with plane(tmp_path) as p:
        run = await bring(p, before)
        known = await p.view(run)
        if before in ("queued", "paused_held"):
            acted = await p.dispatch(run, turn="turn-2", conversation_ref="talk")
            assert acted.run.status == ("running" if before == "queued" else "paused")
            assert (acted.run.query_message_id, acted.run.conversation_ref) == ("turn-2", "talk")
            assert (acted.latest_event.event_type, acted.latest_event.source) == ("run-dispatched", "worker")
            return
        with pytest.raises(RunFinished if before in FINISHED else WorkerMismatch):
            await p.dispatch(run, turn="turn-2")
        assert await p.view(run) == known


@pytest.mark.parametrize("before", BEFORE)
async def test_a_heartbeat_of_another_worker_in_every_status(tmp_path: Path, before: str) -> None:
    async with plane(tmp_path) as p:
        run = await bring(p, before)
        known = await p.view(run)
        beaten = await p.beat("w2")
        assert (beaten.assigned_run is not None) == (before == "awaiting_worker")
        assert beaten.control_commands == []
        if before != "awaiting_worker":
            assert await p.view(run) == known


@pytest.mark.parametrize("before", BEFORE)
async def test_a_heartbeat_of_its_worker_in_every_status(tmp_path: Path, before: str) -> None:
    async with plane(tmp_path) as p:
        run = await bring(p, before)
        known = await p.view(run)
        p.clock.advance(1)
        beaten = await p.beat()
        after = await p.view(run)
        told = [command.action for command in beaten.control_commands]
        assert told == {"paused_held": ["pause"], "paused_begun": ["pause"], "stopped": ["stop"]}.get(before, [])
        if before in FINISHED:
            # What a stopped run has to tell its worker is recorded as told, and nothing else of it changes.
            assert after.last_event_seq == known.last_event_seq + len(told)
            assert (after.updated_at, after.last_heartbeat_at) == (known.updated_at, known.last_heartbeat_at)
        elif before != "paused":
            assert after.last_heartbeat_at != known.last_heartbeat_at
            expected = "run-worker-assigned" if before == "awaiting_worker" else "worker-heartbeat"
            assert (await p.types(run))[-1] == expected
