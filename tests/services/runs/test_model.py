"""Random lives against a model written from the contract: windie spec §9, and the leases of docs/runs.md."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings as example_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dragoman.services.runs import ActiveRunLimit, RunFinished, WorkerMismatch

from .kit import AGAIN, LEASE, LOST, ManualClock, Plane, plane

CAP = 2
WORKERS = st.sampled_from([("w1", "a"), ("w2", "a"), ("w1", "b")])
PICK = st.integers(0, 7)


@dataclass
class Expected:
    """A run as the contract has it."""

    workspace: str
    retry: bool
    status: str = "awaiting_worker"
    worker: str | None = None
    turn: str | None = None
    given_at: int = 0
    ends_at: int | None = None
    told: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.status in ("stopped", "completed", "failed")

    def finish(self, status: str) -> None:
        self.status, self.ends_at = status, None

    def pass_time(self, now: int) -> None:
        if self.ends_at is None or now < self.ends_at:
            return
        if self.turn is not None and not self.retry:
            self.finish("failed")
            self.told = []
            return
        self.worker = self.turn = self.ends_at = None
        self.told = []
        if self.status != "paused":
            self.status = "awaiting_worker"


class Lives(RuleBasedStateMachine):
    """Workers name their turns after themselves and the number of the step, so none is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="dm-")
        self.clock = ManualClock()
        self.stack = AsyncExitStack()
        self.p: Plane
        self.runs: dict[str, Expected] = {}
        self.turns = 0
        self.start()

    def start(self) -> None:
        path = Path(self.folder.name)
        self.p = self.wait(self.stack.enter_async_context(plane(path, self.clock, max_active_per_workspace=CAP)))

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.wait(self.stack.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()

    def refused(self, error: type[Exception], work: Coroutine[Any, Any, Any]) -> None:
        try:
            self.wait(work)
        except error:
            return
        raise AssertionError(f"{error.__name__} was to be raised")

    def pick(self, number: int) -> tuple[str, Expected]:
        return list(self.runs.items())[-1 - number % len(self.runs)]

    @rule(workspace=st.sampled_from("ab"), retry=st.booleans())
    def create(self, workspace: str, retry: bool) -> None:
        work = self.p.create(workspace, metadata={"retry": retry})
        if sum(run.workspace == workspace and not run.over for run in self.runs.values()) >= CAP:
            self.refused(ActiveRunLimit, work)
        else:
            self.runs[self.wait(work)] = Expected(workspace, retry)

    @rule(who=WORKERS)
    def heartbeat(self, who: tuple[str, str]) -> None:
        worker, workspace = who
        now = self.clock.now()
        told: list[str] = []
        given: str | None = None
        holds = False
        own = [(id_, run) for id_, run in self.runs.items() if (run.worker, run.workspace) == who]
        for id_, run in own:
            told, run.told = told + run.told, []
            if run.over:
                continue
            if run.turn is not None:
                run.ends_at = now + round(LOST * 1000)
                continue
            holds = True
            if run.status == "queued" and now - run.given_at >= AGAIN * 1000:
                given, run.given_at = id_, now
        free = [(id_, run) for id_, run in self.runs.items() if run.status == "awaiting_worker"]
        free = [(id_, run) for id_, run in free if run.workspace == workspace and not holds]
        if free:
            given, run = free[0]
            run.status, run.worker, run.given_at = "queued", worker, now
            run.ends_at = now + round(LEASE * 1000)
        beaten = self.wait(self.p.beat(worker, workspace))
        assigned = beaten.assigned_run
        assert (None if assigned is None else assigned.run_id) == given
        assert [command.action for command in beaten.control_commands] == told

    @precondition(lambda self: self.runs)
    @rule(number=PICK, worker=st.sampled_from(["w1", "w2"]))
    def dispatch(self, number: int, worker: str) -> None:
        run_id, run = self.pick(number)
        self.turns += 1
        work = self.p.dispatch(run_id, worker, f"turn-{self.turns}")
        if run.worker != worker:
            self.refused(WorkerMismatch, work)
        elif run.over:
            self.refused(RunFinished, work)
        elif run.turn is not None:
            self.refused(WorkerMismatch, work)
        else:
            self.wait(work)
            run.turn, run.ends_at = f"turn-{self.turns}", self.clock.now() + round(LOST * 1000)
            run.status = "paused" if run.status == "paused" else "running"

    @precondition(lambda self: any(run.turn for run in self.runs.values()))
    @rule(number=PICK, kind=st.sampled_from(["tool-call", "streaming-complete", "error"]), late=st.booleans())
    def relay(self, number: int, kind: str, late: bool) -> None:
        begun = [(id_, run) for id_, run in self.runs.items() if run.turn]
        run_id, run = begun[-1 - number % len(begun)]
        self.wait(self.p.relay(run_id, kind, "turn-of-another" if late else run.turn))
        if run.over or late:
            return
        if kind == "tool-call":
            run.ends_at = self.clock.now() + round(LOST * 1000)
            return
        run.finish("completed" if kind == "streaming-complete" else "failed")
        run.told = []

    @precondition(lambda self: self.runs)
    @rule(number=PICK, action=st.sampled_from(["pause", "resume", "resume", "stop"]))
    def control(self, number: int, action: str) -> None:
        run_id, run = self.pick(number)
        work = self.p.control(run_id, action)
        if run.over:
            self.refused(RunFinished, work)
            return
        self.wait(work)
        if run.worker is not None:
            run.told.append(action)
        if action == "stop":
            run.finish("stopped")
        elif action == "pause":
            run.status = "paused"
        elif run.status == "paused":
            run.status = "running" if run.turn else "queued" if run.worker else "awaiting_worker"

    @rule(seconds=st.sampled_from([1, AGAIN, LEASE - 1, LEASE, LOST - 1, LOST]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for run in self.runs.values():
            run.pass_time(self.clock.now())
        self.wait(self.p.runs.settle_due())

    @rule()
    def restart(self) -> None:
        self.wait(self.stack.aclose())
        self.start()

    @invariant()
    def all_is_as_expected(self) -> None:
        for run_id, run in self.runs.items():
            view = self.wait(self.p.view(run_id))
            assert (view.status, view.query_message_id) == (run.status, run.turn)
            assert (None if view.worker is None else view.worker.worker_id) == run.worker


Lives.TestCase.settings = example_settings(max_examples=30, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
