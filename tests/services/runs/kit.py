"""Runs with a clock that is moved by hand, and what tests send to them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.services.runs import (
    Acted,
    Beaten,
    Control,
    Dispatch,
    Heartbeat,
    Relay,
    RunRequest,
    Runs,
    RunsSettings,
    RunView,
)

START = 1_772_000_000_000
LEASE, LOST, AGAIN = 60.0, 120.0, 5.0


class ManualClock:
    """Time moves when a test says so."""

    def __init__(self, at: int = START) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def monotonic(self) -> float:
        return self.at / 1000

    def advance(self, seconds: float) -> None:
        self.at += round(seconds * 1000)


def settings(**changed: Any) -> RunsSettings:
    return RunsSettings(
        **{
            "lease_seconds": LEASE,
            "worker_lost_seconds": LOST,
            "again_seconds": AGAIN,
            "restart_grace_seconds": 0,
            "max_active_per_workspace": 100,
            **changed,
        }
    )


class Plane:
    """The service, with short words for what clients and workers say."""

    def __init__(self, runs: Runs, clock: ManualClock) -> None:
        self.runs = runs
        self.clock = clock

    async def create(self, workspace: str = "ws", **fields: Any) -> str:
        request = RunRequest(workspace_id=workspace, query="do it", **fields)
        return (await self.runs.create(request)).run.run_id

    async def beat(self, worker: str = "w1", workspace: str = "ws", **fields: Any) -> Beaten:
        return await self.runs.heartbeat(
            Heartbeat(workspace_id=workspace, worker_id=worker, vm_id="vm-1", user_id="vm-user-1", **fields)
        )

    async def given(self, worker: str = "w1", workspace: str = "ws") -> str | None:
        assigned = (await self.beat(worker, workspace)).assigned_run
        return None if assigned is None else assigned.run_id

    async def dispatch(self, run: str, worker: str = "w1", turn: str = "turn-1", **fields: Any) -> Acted:
        return await self.runs.dispatched(run, Dispatch(worker_id=worker, turn_ref=turn, **fields))

    async def control(self, run: str, action: Any, mode: Any = None) -> Acted:
        return await self.runs.control(run, Control(action=action, requested_by="ann", control_mode=mode))

    async def relay(self, run: str, event_type: str = "tool-call", turn: str | None = None) -> Acted:
        payload: dict[str, Any] = {"payload": {}} if turn is None else {"payload": {}, "turn_ref": turn}
        return await self.runs.relay(run, Relay(event_type=event_type, payload=payload))

    async def view(self, run: str) -> RunView:
        return await self.runs.run(run)

    async def types(self, run: str) -> list[str]:
        page = await self.runs.events(run, limit=1000)
        assert [event.seq for event in page.events] == list(range(1, len(page.events) + 1))
        assert (await self.view(run)).last_event_seq == len(page.events)
        return [event.event_type for event in page.events]


@asynccontextmanager
async def plane(folder: Path, clock: ManualClock | None = None, **changed: Any) -> AsyncIterator[Plane]:
    clock = clock or ManualClock()
    runs = Runs(folder, settings(**changed), clock=clock)
    await runs.open()
    try:
        yield Plane(runs, clock)
    finally:
        await runs.close()
