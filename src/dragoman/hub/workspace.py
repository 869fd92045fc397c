"""A session's workspace: its checkpoints, taken when it begins, after each turn, and by hand; and going back to one.

The log says which there are and what became of them; ``Checkpoints`` holds what is in them. Nothing of it happens while
a turn runs, and a turn waits for what goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

from .checkpoints import CheckpointGone, CheckpointProblem, Saved
from .errors import CheckpointFailed, Closed, InvalidRequest, UnknownCheckpoint, Unsupported
from .events import CheckpointDeleted, CheckpointRestored, CheckpointTaken, Event, Json
from .history import HistorySession
from .log import SessionParts
from .permissions import Principal, Right
from .standing import SavedCheckpoint
from .state import SessionState

WANTED = "checkpoints"
"""The setting of a session that wants them: ``true``."""


Trigger = Literal["initial", "auto", "manual", "safety"]

T = TypeVar("T")

log = logging.getLogger("dragoman.workspace")


def check_workspace_settings(changes: Mapping[str, Json]) -> None:
    """Raise ``InvalidRequest`` for a ``checkpoints`` that is neither true nor false; null removes it."""
    if not isinstance(changes.get(WANTED), bool | None):
        raise InvalidRequest(f"{WANTED}: it is true or false")


class _Lost(CheckpointFailed):
    """Nothing is kept of that checkpoint."""


class WorkspaceSession(HistorySession):
    """See the module. A part of ``Session``."""

    def __init__(self, state: SessionState, parts: SessionParts) -> None:
        super().__init__(state, parts)
        self._checkpoints = parts.checkpoints
        self._workspace = asyncio.Lock()
        self._work: asyncio.Timeout | None = None

    @property
    def wants_checkpoints(self) -> bool:
        """Whether it is to be saved when it begins and after each turn."""
        return self._checkpoints is not None and self.state.settings.get(WANTED) is True

    @property
    def saving(self) -> bool:
        """Whether its workspace is being saved or restored now."""
        return self._workspace.locked()

    @property
    def checkpoint_folder(self) -> Path | None:
        """Where its checkpoints lie; None when this server keeps none."""
        return self._checkpoints.folder(self.id) if self._checkpoints is not None else None

    # Commands

    async def checkpoint(self, principal: Principal) -> SavedCheckpoint:
        """Save the workspace now; returns once that is durable.

        Raises ``Busy``, ``CheckpointFailed`` (recorded as a checkpoint that failed), ``Unsupported``.
        """
        self.admit(principal, Right.WRITE)
        self.check_at_rest()
        async with self._workspace:
            self.admit(principal, Right.WRITE)  # the session may have been closed meanwhile
            await self._ready()
            taken = await self._take("manual")
        await self.durable(self.head, limit=self.limits.ack_seconds)
        if taken.problem is not None:
            raise CheckpointFailed(taken.problem)
        return taken

    async def restore_checkpoint(self, principal: Principal, checkpoint: str | None = None) -> Event:
        """Make the workspace what a checkpoint holds, the first one by default; returns once that is durable.

        What was there is saved before (trigger ``safety``). Raises ``Busy``, ``UnknownCheckpoint``,
        ``CheckpointFailed`` with the workspace as it was (also for one of another folder that the session worked in),
        ``Unsupported``.
        """
        self.admit(principal, Right.WRITE)
        self.check_at_rest()
        async with self._workspace:
            self.admit(principal, Right.WRITE)
            first = await self._ready()
            wanted = first if checkpoint is None else self._known(checkpoint)
            if wanted.problem is not None:
                raise CheckpointFailed(f"checkpoint {wanted.checkpoint} failed: {wanted.problem}")
            if wanted.cwd not in ("", self.state.cwd):  # one from before it was noted says nothing
                there = f"the session works in {self.state.cwd!r} now"
                raise CheckpointFailed(f"checkpoint {wanted.checkpoint} is of {wanted.cwd!r}, and {there}")
            event = await self._restore(principal, wanted, first)
        return await self.acknowledged(event)

    async def delete_checkpoint(self, principal: Principal, checkpoint: str) -> Event:
        """Let a checkpoint go; returns once that is durable. The first one stays.

        Raises ``Busy``, ``UnknownCheckpoint``, ``CheckpointFailed``, ``Unsupported``.
        """
        self.admit(principal, Right.WRITE)
        self.check_at_rest()
        async with self._workspace:
            self.admit(principal, Right.WRITE)
            self._service()
            saved = self._known(checkpoint)
            # Recorded first: one that is listed can be restored, whatever happens in between.
            event = await self.acknowledged(self.record(CheckpointDeleted(checkpoint=checkpoint, by=principal.id)))
            if saved.problem is None:
                assert self._checkpoints is not None
                with contextlib.suppress(_Lost):
                    await self._done(self._checkpoints.delete(self.id, checkpoint))
        return event

    # For the session itself

    def begin_checkpoints(self) -> None:
        """Save the workspace for the first time, if that is wanted and was not done. Does not wait.

        Not while a turn is at work there: the next one has it saved before it begins.
        """
        if self.wants_checkpoints and not self.state.checkpoints_taken and self.state.turn is None:
            self.tasks.start(self.workspace_ready(), f"checkpoint:{self.id}")

    async def workspace_ready(self) -> None:
        """Wait until nobody else works on the workspace, and it was saved for the first time where that is wanted."""
        async with self._workspace:
            if self.wants_checkpoints and not self.state.checkpoints_taken and not self.closing:
                with contextlib.suppress(Closed):  # meanwhile
                    await self._take("initial")

    async def checkpoint_turn(self) -> None:
        """Save the workspace as a turn that ends has left it. What stood in the way is recorded.

        What the turn said is on its way to those who wait for it, and comes first: saving takes threads and the disk.
        """
        await self.durable(self.head)
        async with self._workspace:
            if self.state.first_checkpoint is not None:
                with contextlib.suppress(Closed):  # meanwhile
                    await self._take("auto")

    async def end_workspace(self, budget: float) -> None:
        """End what goes on, and leave the workspace as it was before; waits for that ``budget`` seconds at most."""
        if self._work is not None and not self._work.expired():
            self._work.reschedule(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(budget):
                await self._workspace.acquire()
        except TimeoutError:
            log.warning("the work on the folder of session %s does not end", self.id)
        else:
            self._workspace.release()

    def end_checkpoints(self) -> None:
        """The session is over."""
        if self._checkpoints is not None and self.state.checkpoints_taken:
            self._checkpoints.closed(self.id)

    # Inside

    def _service(self) -> None:
        if self._checkpoints is None:
            raise Unsupported("this server keeps no checkpoints")

    async def _ready(self) -> SavedCheckpoint:
        """The first checkpoint, taken now if there is none that holds anything: what stood in the way may be gone.

        Raises ``CheckpointFailed`` when it is not.
        """
        self._service()
        first = self.state.first_checkpoint or await self._take("initial")
        if first.problem is not None:
            await self.durable(self.head, limit=self.limits.ack_seconds)
            raise CheckpointFailed(first.problem)
        return first

    def _known(self, checkpoint: str) -> SavedCheckpoint:
        saved = self.state.checkpoints.get(checkpoint)
        if saved is None or saved.trigger == "initial":
            raise UnknownCheckpoint(checkpoint)
        return saved

    async def _take(self, trigger: Trigger) -> SavedCheckpoint:
        """Save the workspace and record what became of it."""
        assert self._checkpoints is not None
        checkpoint, first, cwd = self._next_id(), self.state.first_checkpoint, self.state.cwd
        saved: Saved | None = None
        problem: str | None = None
        try:
            saved = await self._done(
                self._checkpoints.take(
                    self.id, Path(cwd), checkpoint, first=first.checkpoint if first is not None else None
                )
            )
            if self.state.cwd != cwd:
                saved, problem = None, "the session's folder is another one by now"
        except CheckpointFailed as stood_in_the_way:
            problem = str(stood_in_the_way)
        self._record_taken(checkpoint, trigger, saved, problem)
        return self.state.checkpoints[checkpoint]

    async def _restore(self, principal: Principal, wanted: SavedCheckpoint, first: SavedCheckpoint) -> Event:
        assert self._checkpoints is not None
        safety = self._next_id()
        try:
            saved = await self._done(
                self._checkpoints.restore(
                    self.id, Path(self.state.cwd), wanted.checkpoint, safety=safety, first=first.checkpoint
                )
            )
        except _Lost:
            # It was let go for room, and the server lost before it could say so.
            if wanted.trigger != "initial":
                self.record(CheckpointDeleted(checkpoint=wanted.checkpoint), settling=True)
            raise
        self._record_taken(safety, "safety", saved, None)
        return self.record(CheckpointRestored(checkpoint=wanted.checkpoint, by=principal.id), settling=True)

    def _record_taken(self, checkpoint: str, trigger: Trigger, saved: Saved | None, problem: str | None) -> None:
        fact = CheckpointTaken(
            checkpoint=checkpoint,
            trigger=trigger,
            changed=saved.changed if saved is not None else False,
            size=saved.size if saved is not None else 0,
            problem=problem,
            detail=saved.detail if saved is not None else {},
        )
        gone = [*(saved.dropped if saved is not None else ()), *self._outdated(trigger, failed=problem is not None)]
        self.record(fact, settling=True)
        for dropped in gone:
            self.record(CheckpointDeleted(checkpoint=dropped), settling=True)

    def _outdated(self, trigger: Trigger, *, failed: bool) -> Iterable[str]:
        """Those that failed and are no longer listed once one more was tried: of each kind only the newest is."""
        if not failed and trigger != "initial":
            return ()
        listed = self.state.checkpoints.values()
        return [it.checkpoint for it in listed if it.problem and (it.trigger == "initial") == (trigger == "initial")]

    async def _done(self, work: Awaitable[T]) -> T:
        """What the service makes of ``work``, which has a limit, and ends with the session.

        Raises ``CheckpointFailed`` when it could not be done (in time), ``Closed``.
        """
        try:
            async with asyncio.timeout(self.limits.checkpoint_seconds) as self._work:
                done = await work
        except CheckpointProblem as problem:
            failed = _Lost if isinstance(problem, CheckpointGone) else CheckpointFailed
            # It may name a file, and what no disk can hold must not keep the log from saying so.
            raise failed(str(problem).encode(errors="backslashreplace").decode()) from problem
        except TimeoutError as late:
            if self.closing:
                raise Closed(self.id) from late
            limit = f"{self.limits.checkpoint_seconds:g} s (hub.checkpoint_seconds)"
            raise CheckpointFailed(f"it took longer than {limit}") from late
        finally:
            self._work = None
        if self.state.closed is not None:
            raise Closed(self.id)
        return done

    def _next_id(self) -> str:
        return f"cp-{self.state.checkpoints_taken:04}"
