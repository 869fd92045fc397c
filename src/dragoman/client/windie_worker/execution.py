"""One run, from its assignment to its end: an agent is woken up, the server told, the query asked, the turn relayed.

The order is what keeps a run from being done twice: what is begun is remembered and acknowledged before the agent is
asked, and whoever is not sure of the acknowledgement does not ask. A turn that is cut is not asked again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.client.errors import ClientError, Refused, TurnFailed
from dragoman.client.windie import Agent, AgentSdkClient, EventsMissed, Turn, TurnStopped
from dragoman.client.windie.requests import as_content

from .memory import Begun, Memory
from .runs import Message, RunsClient, is_passing

log = logging.getLogger("dragoman.worker")

Outcome = Literal["completed", "failed", "stopped", "not begun"]

TERMINAL = ("streaming-complete", "error")
FINISHED = ("stopped", "completed", "failed")
SILENT = frozenset({"audio-chunk"})
"""Events of a turn that are not relayed: sound has no place in a timeline."""

PICTURES = frozenset({"image/png", "image/jpeg"})
"""Files of a run that the agent is shown; of others it is told."""

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
"""Seconds before a call is made again, doubling; each is cut by up to half at random."""

BROKEN = 4
"""Internal errors of the server, one after the other, after which an event is not tried again as it is."""

PAGE = 1000
"""Events that are looked through at once."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the worker is, in every heartbeat and acknowledgement."""

    worker_id: str
    workspace_id: str
    vm_id: str
    user_id: str
    session_id: str


class Execution:
    """See the module. ``live`` is run once; ``obey``, ``see`` and ``leave`` say meanwhile what has changed."""

    def __init__(
        self,
        assigned: Message,
        who: Identity,
        *,
        runs: RunsClient,
        sdk: AgentSdkClient,
        memory: Memory | None = None,
        folder: str | None = None,
        shows_pictures: bool = True,
    ) -> None:
        self.run_id = str(assigned["run_id"])
        self.turn_ref = f"run-turn-{uuid.uuid4()}"
        self.problem: str | None = None
        """Why the worker itself gave the run up, for its timeline and the log."""
        self._assigned = assigned
        self._conversation = str(assigned["conversation_ref"])
        self._who = who
        self._runs = runs
        self._sdk = sdk
        self._memory = memory
        self._folder = folder
        self._shows_pictures = shows_pictures
        self._seq = 0
        self._asked = False
        self._paused = False
        self._status: object = None
        self._ending = asyncio.Event()
        self._changed = asyncio.Event()
        self._telling = asyncio.Lock()
        self._notes: set[asyncio.Task[None]] = set()

    # What has changed

    def obey(self, command: Message) -> None:
        """Do what a control command says, as far as it can be done, and have the timeline say what was done."""
        action, name = command.get("action"), command.get("command_id")
        effect = self._effect(action)
        log.info("run %s: %s: %s", self.run_id, action, effect)
        if self._seq:
            said = {"payload": {"command_id": name, "action": action, "effect": effect}}
            note = asyncio.create_task(
                self._tell("worker-control", said, f"{self.turn_ref}-{name}"), name=f"note {name}"
            )
            self._notes.add(note)

    def see(self, run: Message) -> None:
        """The run as the server has it now: it may be finished, or another worker's, and then the turn ends."""
        worker = run.get("worker")
        mine = isinstance(worker, dict) and worker.get("worker_id") == self._who.worker_id
        self._status = run.get("status")
        self._paused = self._status == "paused"
        if self._status == "stopped":
            self._ending.set()
        elif self._status == "failed":
            self._end("the server counts the run as failed")
        elif not mine or (self._seq and run.get("query_message_id") != self.turn_ref):
            self._end("the server has given the run to somebody else")
        self._changed.set()

    def leave(self) -> None:
        """The worker ends: so does the turn."""
        self._end("the worker was stopped")

    def _effect(self, action: object) -> str:
        if action == "stop":
            self._status = "stopped"
            self._ending.set()
            return "the turn is stopped"
        if action == "pause":
            self._paused = True
            return "a turn that runs cannot be paused: it goes on" if self._asked else "it is not begun until a resume"
        if action == "resume":
            self._paused = False
            self._changed.set()
            return "it goes on"
        return "noted: the agent works as before"

    def _end(self, why: str) -> None:
        if not self._ending.is_set():
            self.problem = why
            self._ending.set()

    # The run

    async def live(self) -> Outcome:
        """All of it. Raises ``Refused`` for what will not pass (a wrong key), ``OSError`` where nothing can be kept."""
        try:
            agent = await self._sdk.wake_up(
                user_id=self._who.user_id,
                name=self._assigned.get("agent_id"),
                workspace_path=self._folder,
            )
        except (ClientError, TimeoutError) as problem:
            log.warning("run %s is not begun: no agent: %s", self.run_id, problem)
            return "not begun"
        try:
            return await self._with(agent)
        finally:
            await agent.close()

    async def _with(self, agent: Agent) -> Outcome:
        if self._memory is not None:
            await asyncio.to_thread(self._memory.begin, Begun(self.run_id, self.turn_ref))
        if not await self._is_acknowledged():
            await self._forget()
            return "not begun"
        log.info("run %s is begun as %s", self.run_id, self.turn_ref)
        try:
            outcome = await self._begun(agent)
            if self._notes:
                await asyncio.wait(self._notes)
            if outcome == "failed" and self.problem is not None:
                await self._tell("error", {"payload": {"message": self.problem}}, f"{self.turn_ref}-worker", "worker")
        finally:
            for note in self._notes:
                note.cancel()
        await self._forget()
        return outcome

    async def _forget(self) -> None:
        if self._memory is not None:
            await asyncio.to_thread(self._memory.over)

    async def _is_acknowledged(self) -> bool:
        """Whether the server knows that we begin, and lets us."""
        said = {
            "worker_id": self._who.worker_id,
            "user_id": self._who.user_id,
            "turn_ref": self.turn_ref,
            "conversation_ref": self._conversation,
        }
        pause = FIRST_PAUSE
        while not self._ending.is_set():
            try:
                answer = await self._runs.dispatched(self.run_id, said)
            except ClientError as problem:
                if is_passing(problem):
                    pause = await rest(pause)
                    continue
                if _code(problem) in ("http_404", "http_409"):
                    log.info("run %s is not begun: %s", self.run_id, problem)
                    return False
                raise
            self._take(answer)
            return True
        return False

    async def _begun(self, agent: Agent) -> Outcome:
        while self._paused and not self._ending.is_set():
            self._changed.clear()
            await first(self._changed, self._ending)
        if self._ending.is_set():
            return self._outcome("failed")
        self._asked = True
        turn = await self._ask(agent)
        stopping = asyncio.create_task(self._stop_when_due(agent), name=f"stop of {self.run_id}")
        try:
            return await self._follow(turn)
        finally:
            stopping.cancel()
            await asyncio.wait({stopping})

    async def _ask(self, agent: Agent) -> Turn:
        text = str(self._assigned["query"])
        files = [file for file in self._assigned.get("files") or () if isinstance(file, dict)]
        pictures = [str(file["artifact_id"]) for file in files if self._shows_pictures and _is_picture(file)]
        await agent.query(
            text,
            self._conversation,
            content=as_content(text + _told_files(files)),
            screenshot_refs=pictures or None,
            workspace_path=self._folder,
            message_id=self.turn_ref,
        )
        return agent.turn(self.turn_ref)

    async def _stop_when_due(self, agent: Agent) -> None:
        await self._ending.wait()
        try:
            await agent.stop(self._conversation, self.turn_ref)
        except (ClientError, TimeoutError) as problem:
            log.warning("run %s: the turn was not stopped: %s", self.run_id, problem)
            await agent.close()  # with the connection, the server ends the turn

    async def _follow(self, turn: Turn) -> Outcome:
        """Relay the turn, event by event, in order."""
        while True:
            try:
                async for frame in turn:
                    await self._relay(frame)
                return self._outcome("completed")
            except EventsMissed as missed:
                said = {"count": missed.count}
                await self._tell("worker-events-missed", {"payload": said}, f"{self.turn_ref}-missed-{self._seq}")
            except TurnFailed:
                self.problem = None  # its own error is relayed
                return self._outcome("failed")
            except ClientError as problem:
                return self._over(problem)

    def _over(self, problem: ClientError) -> Outcome:
        if self.problem is None:
            self.problem = "the turn was stopped" if isinstance(problem, TurnStopped) else str(problem)
        return self._outcome("failed")

    def _outcome(self, own: Outcome) -> Outcome:
        """What became of the run where the turn ended as ``own``: what somebody stopped stays so."""
        return "stopped" if self._status == "stopped" else own

    # Telling the server

    async def _relay(self, frame: Message) -> None:
        if frame["type"] in SILENT:
            return
        said: dict[str, Any] = {name: frame[name] for name in ("payload", "sequence", "timestamp") if name in frame}
        event_id = frame.get("event_id") or f"{self.turn_ref}-relay-{self._seq}"
        await self._tell(frame["type"], said, str(event_id))

    async def _tell(self, event_type: str, said: dict[str, Any], event_id: str, source: str = "worker-stream") -> None:
        """Have it in the timeline, once, however often the server has to be asked."""
        payload = {**said, "conversation_ref": self._conversation, "turn_ref": self.turn_ref, "event_id": event_id}
        event = {"event_type": event_type, "source": source, "payload": payload}
        async with self._telling:
            await self._told(event)

    async def _told(self, event: Message) -> None:
        pause, broken = FIRST_PAUSE, 0
        while True:
            try:
                answer = await self._runs.relay(self.run_id, event)
            except ClientError as problem:
                # A server that breaks on this event would do so for ever.
                broken = broken + 1 if _code(problem) == "http_500" else 0
                if is_passing(problem) and broken < BROKEN:
                    log.info("run %s: %s waits: %s", self.run_id, event["event_type"], problem)
                elif not self._is_to_be_said_smaller(event, problem):
                    return
            else:
                self._take(answer, is_last=event["event_type"] in TERMINAL)
                return
            pause = await rest(pause)
            if await self._is_in_timeline(event["payload"]["event_id"]):
                return

    def _is_to_be_said_smaller(self, event: Message, problem: ClientError) -> bool:
        """Whether what was refused is tried again without its content; raises ``problem`` for what will not pass."""
        code = _code(problem)
        if code == "http_404":
            self._end("the server does not know the run any more")
            return False
        if code not in ("http_413", "http_422", "http_500"):
            raise problem
        if "omitted" in event["payload"]:
            log.warning("run %s: %s is not kept: %s", self.run_id, event["event_type"], problem)
            return False
        event["payload"] |= {"payload": {}, "omitted": str(problem)[:500]}
        return True

    async def _is_in_timeline(self, event_id: str) -> bool:
        """Whether an event whose answer was lost was taken all the same."""
        after = self._seq
        while True:
            try:
                page = await self._runs.events(self.run_id, after, limit=PAGE)
            except ClientError as problem:
                if not is_passing(problem):
                    return False  # what is wrong with it, the next call says
                await rest(FIRST_PAUSE)
                continue
            for event in page:
                if event.get("payload", {}).get("event_id") == event_id:
                    self._seq = int(event["seq"])
                    return True
            if len(page) < PAGE:
                return False
            after = int(page[-1]["seq"])

    def _take(self, answer: Message, *, is_last: bool = False) -> None:
        self._seq = int(answer["latest_event"]["seq"])
        if is_last:
            self._status = answer["run"].get("status")
        else:
            self.see(answer["run"])


def _code(problem: ClientError) -> str | None:
    return problem.code if isinstance(problem, Refused) else None


def _is_picture(file: Message) -> bool:
    return file.get("content_type") in PICTURES and isinstance(file.get("artifact_id"), str)


def _told_files(files: list[Message]) -> str:
    if not files:
        return ""
    lines = [f"- {file.get('filename') or 'a file'} (artifact {file.get('artifact_id')})" for file in files]
    return "\n\nFiles:\n" + "\n".join(lines)


async def rest(pause: float) -> float:
    """Wait, and return how long to wait the next time."""
    await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311  not a secret
    return min(2 * pause, LONGEST_PAUSE)


async def first(*events: asyncio.Event) -> None:
    """Wait for one of them."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
