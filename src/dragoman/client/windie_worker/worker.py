"""The worker: heartbeats, one run at a time, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

from dragoman.client.errors import ClientError, Refused
from dragoman.client.windie import AgentSdkClient

from .execution import FINISHED, FIRST_PAUSE, Execution, Identity, Outcome, first, rest
from .memory import Memory
from .runs import Message, RunsClient, is_passing

log = logging.getLogger("dragoman.worker")


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Times are seconds."""

    interval: float = 2.0
    """Between two heartbeats, and so the longest that a control command waits here."""

    grace: float = 10.0
    """For the current run to be stopped and told of when the worker ends; then it is left as it is."""


def identity(
    workspace_id: str, *, worker_id: str | None = None, vm_id: str | None = None, user_id: str | None = None
) -> Identity:
    """A worker; without a name of its own it has one that no other process has, nor this one after a crash."""
    own = secrets.token_hex(4)
    host = socket.gethostname() or "worker"
    return Identity(worker_id or f"{host}-{own}", workspace_id, vm_id or host, user_id or "worker", f"session-{own}")


class Worker:
    """See the module. ``memory`` is for a worker with a name that outlives its process; it is held by the caller.

    ``folder`` is where the agent works, if the server lets it. ``shows_pictures``: the agents' server has the artifacts
    of the runs. ``ended`` hears of each run that was over here.
    """

    def __init__(
        self,
        who: Identity,
        *,
        runs: RunsClient,
        sdk: AgentSdkClient,
        memory: Memory | None = None,
        folder: str | None = None,
        shows_pictures: bool = True,
        options: WorkerOptions | None = None,
        ended: Callable[[str, Outcome], None] | None = None,
    ) -> None:
        self.who = who
        self.options = options or WorkerOptions()
        self._runs = runs
        self._sdk = sdk
        self._memory = memory
        self._folder = folder
        self._shows_pictures = shows_pictures
        self._ended = ended
        self._leaving = asyncio.Event()
        self._now = asyncio.Event()
        self._current: Execution | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._was_unheard = False

    @property
    def is_leaving(self) -> bool:
        """Whether ``leave`` was said."""
        return self._leaving.is_set()

    def leave(self) -> None:
        """End in order: no other run is taken, the current one is stopped and told of."""
        self._leaving.set()

    async def run(self, *, once: bool = False) -> Outcome | None:
        """Work until ``leave``, or, ``once``, until one run is over here, whose outcome is returned.

        Raises ``Refused`` for what waiting does not mend (a wrong key), ``OSError`` where nothing can be remembered.
        """
        await self._settle_past()
        pause = FIRST_PAUSE
        try:
            while not self._leaving.is_set():
                outcome = self._reaped()
                if once and outcome not in (None, "not begun"):
                    return outcome
                if await self._beat():
                    pause = FIRST_PAUSE
                    await self._until_next(self.options.interval)
                else:
                    pause = await rest(pause)
            await self._stop_current()
            return self._reaped()
        finally:
            await self._drop_current()

    # Heartbeats

    async def _beat(self) -> bool:
        """Whether the server was there."""
        said = {
            "workspace_id": self.who.workspace_id,
            "worker_id": self.who.worker_id,
            "vm_id": self.who.vm_id,
            "user_id": self.who.user_id,
            "session_id": self.who.session_id,
            # A worker that is "running" would be given another run.
            "status": "ready" if self._current is None else "busy",
        }
        try:
            answer = await self._runs.heartbeat(said)
        except ClientError as problem:
            if not is_passing(problem):
                raise
            if not self._was_unheard:
                log.warning("no heartbeat: %s", problem)
            self._was_unheard = True
            return False
        self._do(answer)
        if self._was_unheard:
            log.info("the server is there again")
            # Commands go out once, and an answer that was lost may have had one.
            self._was_unheard = not await self._is_seen()
        return True

    async def _is_seen(self) -> bool:
        """Whether the current run is known as the server has it now."""
        current = self._current
        if current is None:
            return True
        try:
            current.see(await self._runs.state(current.run_id))
        except ClientError as problem:
            log.info("run %s: it is not known how it stands: %s", current.run_id, problem)
            return _is_unknown(problem)
        return True

    def _do(self, answer: Message) -> None:
        for command in answer.get("control_commands") or ():
            current = self._current
            if current is not None and command.get("run_id") == current.run_id:
                current.obey(command)
            else:
                log.info("run %s, which is not here: %s", command.get("run_id"), command.get("action"))
        assigned = answer.get("assigned_run")
        if assigned and self._current is None and not self._leaving.is_set():
            log.info("run %s is given to this worker", assigned["run_id"])
            self._current = Execution(
                assigned,
                self.who,
                runs=self._runs,
                sdk=self._sdk,
                memory=self._memory,
                folder=self._folder,
                shows_pictures=self._shows_pictures,
            )
            self._task = asyncio.create_task(self._current.live(), name=f"run {self._current.run_id}")
            self._task.add_done_callback(lambda _: self._now.set())

    async def _until_next(self, seconds: float) -> None:
        """Until the next heartbeat is due, the run is over, or the worker leaves."""
        try:
            async with asyncio.timeout(seconds):
                await first(self._now, self._leaving)
        except TimeoutError:
            return
        self._now.clear()

    # The current run

    def _reaped(self) -> Outcome | None:
        """What became of the run that is over, if one is. Raises what ended it."""
        task, current = self._task, self._current
        if task is None or current is None or not task.done():
            return None
        self._task = self._current = None
        outcome = task.result()
        log.info("run %s: %s%s", current.run_id, outcome, f": {current.problem}" if current.problem else "")
        if self._ended is not None:
            self._ended(current.run_id, outcome)
        return outcome

    async def _stop_current(self) -> None:
        if self._current is None or self._task is None:
            return
        self._current.leave()
        await asyncio.wait({self._task}, timeout=self.options.grace)
        if not self._task.done():
            log.warning("run %s is left as it is: the server does not answer", self._current.run_id)

    async def _drop_current(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    # After a crash

    async def _settle_past(self) -> None:
        """Say of the run that an earlier process of this worker had begun that nobody goes on with it."""
        begun = None if self._memory is None else await asyncio.to_thread(self._memory.begun)
        if begun is None or self._memory is None:
            return
        pause = FIRST_PAUSE
        while not self._leaving.is_set():
            try:
                run = await self._runs.state(begun.run_id)
                if run.get("query_message_id") == begun.turn_ref and run.get("status") not in FINISHED:
                    said = {"payload": {"message": "the worker ended before the turn"}, "turn_ref": begun.turn_ref}
                    await self._runs.relay(begun.run_id, {"event_type": "error", "source": "worker", "payload": said})
                    log.warning("run %s had been begun by this worker, and is failed", begun.run_id)
            except ClientError as problem:
                if is_passing(problem):
                    pause = await rest(pause)
                    continue
                if not _is_unknown(problem):
                    raise
            await asyncio.to_thread(self._memory.over)
            return


def _is_unknown(problem: ClientError) -> bool:
    return isinstance(problem, Refused) and problem.code == "http_404"
