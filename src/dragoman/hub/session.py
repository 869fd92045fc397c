"""A session: one agent in one folder, with one ordered log and a single writer.

``SessionLog`` is the log with its readers, ``HistorySession`` has the commands for the conversation as a whole,
``WorkspaceSession`` those for the folder's checkpoints, ``ToolSession`` those for tools that clients run,
``DecidingSession`` those for decisions; here are all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Literal

from .artifacts import is_artifact
from .client_tools import ToolSession
from .deciding import DecidingSession
from .errors import (
    Busy,
    ConflictingRepeat,
    InvalidRequest,
    LimitReached,
    NotRunning,
    StorageUnavailable,
    UnknownTurn,
)
from .events import (
    AnyFact,
    Attachment,
    CancelRequested,
    Event,
    Json,
    PromptSubmitted,
    PromptTaken,
    PromptWithdrawn,
    SessionClosed,
    SessionCreated,
    SettingsChanged,
    TurnStarted,
)
from .hook_config import check_hook_settings
from .log import SessionParts, key_of, prompt_key
from .permissions import Principal, Right
from .ports import Agent, AgentFactory, Driver, Hooks, ShowsPictures, Terminal
from .sizes import json_size, prompt_size
from .state import SessionState
from .turns import Receipt, TurnRunner, dangling_calls
from .workspace import WorkspaceSession, check_workspace_settings

log = logging.getLogger("dragoman.session")

WhenBusy = Literal["refuse", "queue", "steer"]
"""What ``submit`` does while a turn runs."""


class Session(ToolSession, DecidingSession, WorkspaceSession):
    """See the module. Made by the registry only."""

    def __init__(self, state: SessionState, factory: AgentFactory, parts: SessionParts) -> None:
        super().__init__(state, parts)
        self.recovering: asyncio.Task[None] | None = None
        self._live_count = parts.live_count
        self._factory = factory
        self._turns = TurnRunner(self)

    # What it is

    @property
    def terminal(self) -> Terminal | None:
        """The terminal, for an agent that has one (also after its program ended)."""
        return self.ensure_agent().terminal

    @property
    def driver(self) -> Driver | None:
        """What knows the agent's TUI, where there is one."""
        return self.ensure_agent().driver

    @property
    def hooks(self) -> Hooks | None:
        """What takes the agent's hooks, for an agent that has any."""
        return self.ensure_agent().hooks

    @property
    def offered_tools(self) -> Collection[str]:
        """Names of the agent's own tools that its model is offered."""
        return self.ensure_agent().offered_tools

    @property
    def live(self) -> bool:
        """Whether something runs: an executor or a turn."""
        return self.state.executor is not None or self.state.turn is not None

    @property
    def unended(self) -> bool:
        """Whether there is something to end when the server stops: what is unsettled, and what its log need not say."""
        holds = self._agent is not None and self._agent.holds
        return self.state.unsettled or self.saving or holds

    @property
    def idle(self) -> bool:
        """Whether the session may leave memory: settled, durable, watched by nobody, and nobody's tools are here."""
        return self.quiet and not (self.unended or self._turns.running or self._offers or self.compacting)

    # Commands

    async def submit(
        self,
        principal: Principal,
        text: str,
        *,
        via: str,
        client_message_id: str | None = None,
        when_busy: WhenBusy = "refuse",
        content: str | None = None,
        attachments: tuple[Attachment, ...] = (),
        detail: dict[str, Json] | None = None,
        client: str | None = None,
    ) -> Receipt:
        """Accept a prompt; returns once it is durable (invariant 3).

        The same ``client_message_id`` (per dialect and principal) gives one turn however often it is sent, also after a
        restart. ``client`` is the link whose tools its turn may call; others' then are not. Bytes of ``attachments``
        lie where they say by now; artifacts that are new here are recorded with it.
        Raises ``Busy``, ``Closed``, ``Unsupported``, ``NotRunning``, ``ConflictingRepeat``, ``LimitReached``.
        """
        self.admit(principal, Right.WRITE)
        prompt = PromptSubmitted(
            prompt=self.ids(),
            text=text,
            by=principal.id,
            via=via,
            client_message_id=client_message_id,
            content=content,
            attachments=attachments,
            steer=when_busy == "steer",
            detail=detail or {},
            client=client,
        )
        agent = self.ensure_agent()
        if stored := await self.new_artifacts(attachments):
            self.admit(principal, Right.WRITE)
        key = key_of(prompt)
        if key is not None:
            if (seq := await self.seq_of(key)) is not None:
                return await self._repeated(seq, prompt)
            self.admit(principal, Right.WRITE)  # the session may have been closed meanwhile
        agent.check(prompt)
        self._check_room(prompt, when_busy)
        self._check_live()
        for fact in stored:
            self.record(fact)
        event = self.record(prompt)
        self._turns.start_next()
        running = self.state.turn
        turn = running.turn if running is not None and running.prompt == prompt.prompt else None
        await self.acknowledged(event)
        waiting = "steering" if prompt.steer else "queued"
        return Receipt(prompt.prompt, event.seq, "started" if turn else waiting, turn)

    async def shows_pictures(self) -> bool:
        """Whether pictures that come with a prompt are shown to its model, once they lie in the artifact store."""
        agent = self.ensure_agent()
        return self.artifacts is not None and isinstance(agent, ShowsPictures) and await agent.shows_pictures()

    async def withdraw(self, principal: Principal, prompt: str) -> None:
        """Take back a prompt that still waits. Raises ``InvalidRequest`` when it does not."""
        self.admit(principal, Right.WRITE)
        if all(waiting.prompt != prompt for waiting in self.state.queue):
            raise InvalidRequest(f"prompt {prompt!r} is not waiting")
        await self.acknowledged(self.record(PromptWithdrawn(prompt=prompt, reason="withdrawn", by=principal.id)))

    async def cancel(self, principal: Principal, turn: str | None = None, *, via: str) -> str:
        """End this turn (or the open one) and return its id once it has ended. Ends no other (invariant 9)."""
        principal.check(self.id, Right.WRITE)
        current = self.state.turn
        if current is None or turn not in (None, current.turn):
            raise UnknownTurn(turn or "")
        if not current.cancelling:
            self.record(CancelRequested(turn=current.turn, by=principal.id, via=via), settling=True)
            self._turns.cancel()
        await self._turns.stopped()
        await self.durable(self.head, limit=self.limits.ack_seconds)
        return current.turn

    async def accepted(self, principal: Principal, client_message_id: str, *, via: str) -> bool:
        """Whether a submission with this client message id was accepted before: sent again, it repeats that one."""
        self.admit(principal, Right.WRITE)
        return await self.seq_of(prompt_key(via, principal.id, client_message_id)) is not None

    async def change_settings(self, principal: Principal, changes: dict[str, Json]) -> Event:
        """Change what clients may see changed; returns once durable. What widens what an agent may do needs approve.

        Raises ``InvalidRequest`` or ``LimitReached`` for a ``stop_config`` or ``start_config`` that cannot be one, and
        ``InvalidRequest`` for what means nothing to this kind of agent.
        """
        self.admit(principal, Right.WRITE)
        check_hook_settings(changes)
        check_workspace_settings(changes)
        self._factory.check_settings(changes)
        if json_size(changes) > self.limits.settings_bytes:
            raise LimitReached(f"the settings are longer than {self.limits.settings_bytes} bytes (settings_bytes)")
        if self._factory.widens(self.state.settings, changes):
            self.admit(principal, Right.APPROVE)
        return await self.acknowledged(self.record(SettingsChanged(changes=changes, by=principal.id)))

    async def compact(self, principal: Principal) -> None:
        """Have the agent shorten its context now; returns once that is done, and durable.

        Raises ``Busy`` while a turn is open, ``Unsupported`` when the agent has no context of ours.
        """
        self.admit(principal, Right.WRITE)
        self.check_at_rest()
        self.compacting = True
        try:
            await self.ensure_agent().compact()
        finally:
            self.compacting = False
        await self.durable(self.head, limit=self.limits.ack_seconds)

    async def start(self, principal: Principal) -> None:
        """Start the executor (again). Raises ``AlreadyRunning``, ``InvalidRequest`` when it cannot be started."""
        self.admit(principal, Right.WRITE)
        self._check_live()
        if self.recovering is not None:
            # What a lost server left running is told from the new program by nothing but time.
            await asyncio.wait({self.recovering})
            self.admit(principal, Right.WRITE)
        agent = self.ensure_agent()
        await agent.start()
        try:
            await self.durable(self.head, limit=self.limits.ack_seconds)
        except StorageUnavailable:
            await agent.close(1.0)  # who is told that it did not start must not find it running
            raise

    async def end_executor(self, budget: float = 2.0) -> None:
        """End the program within ``budget`` seconds; the session stays open and can be started again."""
        await self.ensure_agent().close(budget)
        await self.durable(self.head, limit=self.limits.ack_seconds)

    def control(self, principal: Principal) -> Terminal:
        """The terminal, to write to. Checks the right on every call; raises ``NotRunning`` when there is none."""
        principal.check(self.id, Right.WRITE)
        if self.terminal is None:
            raise NotRunning(f"session {self.id!r} has no terminal")
        return self.terminal

    async def close(self, reason: str, *, by: str | None = None, budget: float = 2.0) -> None:
        """End the turn and the executor and close the session for good. Closing twice is no error."""
        await self.stop(budget)
        if self.state.closed is None:
            for prompt in list(self.state.queue):
                self.record(PromptWithdrawn(prompt=prompt.prompt, reason="closed"), settling=True)
            for decision in list(self.state.decisions):
                self.cancel_decision(decision, "closed")
            for fact in dangling_calls(self.state, "the session was closed", now=self.clock.now()):
                self.record(fact, settling=True)
            self.record(SessionClosed(reason=reason, by=by), settling=True)
        await self.durable(self.head, limit=self.limits.ack_seconds)
        self.store_snapshot()

    async def stop(self, budget: float) -> None:
        """End what runs, as at a server stop: the open turn becomes ``interrupted``, the log stays open.

        Takes at most ``budget`` seconds; an agent that does not let its turn be stopped leaves a fifth to its executor
        and to what goes on with the workspace.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + budget
        self.closing = True
        self._turns.cancel()
        await self._turns.stopped(budget * 0.8)
        self._turns.abandon()
        await self.end_workspace(max(0.0, deadline - loop.time()) / 2)
        if self._agent is not None:
            await self._agent.close(max(0.0, deadline - loop.time()))
        self.end_expiries()

    # For agents

    def resume_queue(self) -> None:
        """Start the first waiting prompt, if nothing runs: after a lost server, say."""
        self._turns.start_next()

    def ensure_agent(self) -> Agent:
        """This session's agent, made on first need. It is not started."""
        if self._agent is None:
            self._agent = self._factory.make(self)
        return self._agent

    # Inside

    def _check_live(self) -> None:
        if not self.live and self._live_count() >= self.limits.live_sessions:
            raise LimitReached(f"{self.limits.live_sessions} sessions run (live_sessions)")

    def _check_room(self, prompt: PromptSubmitted, when_busy: WhenBusy) -> None:
        if when_busy == "refuse" and self.busy:
            raise Busy(self.state.turn.turn if self.state.turn is not None else None)
        if len(self.state.queue) >= self.limits.queue_prompts:
            raise LimitReached(f"{self.limits.queue_prompts} prompts are waiting (queue_prompts)")
        if prompt_size(prompt) > self.limits.prompt_bytes:
            raise LimitReached(f"the prompt is longer than {self.limits.prompt_bytes} bytes (prompt_bytes)")

    async def _repeated(self, seq: int, again: PromptSubmitted) -> Receipt:
        first = await self.fact_at(seq)
        assert isinstance(first, PromptSubmitted)
        if not _repeats(first, again):
            raise ConflictingRepeat(again.client_message_id or "")
        waiting = any(prompt.prompt == first.prompt for prompt in self.state.queue)
        disposition = ("steering" if first.steer else "queued") if waiting else "started"
        return Receipt(first.prompt, seq, disposition, await self._turn_of(first.prompt), duplicate=True)

    async def _turn_of(self, prompt: str) -> str | None:
        """The turn that a prompt began or was taken into, however long ago; None while it waits."""
        fact = await self.fact_of(f"turn:{prompt}")
        if fact is None:
            return None
        assert isinstance(fact, TurnStarted | PromptTaken)
        return fact.turn

    def reserved_tools(self) -> Collection[str]:
        return self.ensure_agent().own_tools

    def _became_durable(self, fact: AnyFact) -> None:
        super()._became_durable(fact)
        if isinstance(fact, SessionCreated | SettingsChanged):
            self.begin_checkpoints()
        if isinstance(fact, SessionClosed):
            self.end_checkpoints()


def _repeats(first: PromptSubmitted, again: PromptSubmitted) -> bool:
    """Whether these are the same prompt. A file that comes again lies elsewhere, and ``content`` names where."""
    if [_came(it) for it in first.attachments] != [_came(it) for it in again.attachments]:
        return False
    elsewhere = any(not is_artifact(it.artifact) for it in first.attachments)
    return first.text == again.text and (elsewhere or first.content == again.content)


def _came(attachment: Attachment) -> tuple[object, ...]:
    """What it is, wherever it lies."""
    known = attachment.artifact if is_artifact(attachment.artifact) else None
    return attachment.kind, attachment.media_type, attachment.size, known
