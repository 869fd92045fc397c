"""What drives one agent: launches it so that we hear of it, answers its hooks, hands it prompts and answers."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from dragoman.agents.common.hook_secret import SECRET, new_secret, same_secret
from dragoman.agents.common.observation import Sighting
from dragoman.agents.common.tail import LogTail
from dragoman.agents.terminal.findings import Finding
from dragoman.agents.terminal.terminal import PtyTerminal
from dragoman.hub.errors import InvalidRequest, NotReady
from dragoman.hub.events import Answer, DecisionResolved, DecisionRevised, HookAnswered, HookSignalled, Json
from dragoman.hub.permissions import Principal, Right
from dragoman.hub.ports import StopVerdict
from dragoman.hub.session import Session
from dragoman.hub.standing import AgentStatus
from dragoman.hub.turns import TurnBrokenOff, TurnContext, TurnFailed

from .agent_config import agent_config
from .deliveries import Deliveries
from .dialogs import OpenDialog
from .hook_answers import HookAnswers, stop_reply
from .hook_socket import HookSocket, Post, Reply, hook_command
from .profile import GroomMode, LaunchContext, Profile
from .settings import DriverSettings
from .watch import AgentWatch

log = logging.getLogger("dragoman.terminal")

LATE_ENDS = 1.0
"""Seconds after a turn in which the agent's log may tell how its last calls came out."""

CATCHING_UP = 0.05
"""Seconds between two looks at the log meanwhile."""

_STOPS = ("Stop", "AfterAgent")
"""The hook by which an agent asks whether it may stop."""


class AgentDriver:
    """See the module. Implements the hub's ``Driver`` and ``Hooks``."""

    def __init__(
        self,
        session: Session,
        terminal: PtyTerminal,
        profile: Profile,
        settings: DriverSettings,
        *,
        groom: GroomMode,
        config: Mapping[str, Any],
        resume: str | None,
    ) -> None:
        self._session = session
        self._terminal = terminal
        self._profile = profile
        self._settings = settings
        self._groom = groom
        self._config = config
        self._resume = resume
        self._watch = AgentWatch(session, terminal, profile, settings, opened=self._dialog_opened)
        self._deliveries = Deliveries(session, terminal, profile, settings, self._watch, groom=groom)
        self._answers = HookAnswers(session)
        self._socket: HookSocket | None = None
        self._secret: str | None = None
        self._tail: LogTail | None = None
        self._environment: Mapping[str, str] = {}

    # Launch

    async def prepare(
        self, folder: Path, *, cwd: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Make ready for a launch: arguments to append, environment to add. Raises ``InvalidRequest``, ``OSError``."""
        plain = self._groom == "pristine"
        launch = self._profile.launch(
            LaunchContext(
                folder=folder,
                cwd=cwd,
                command=command,
                environment=environment,
                agent_session=self._session.ids(),
                resume=self._resume,
                config=agent_config(self._config, self._profile.hooks),
                plain=plain,
                hook_command=hook_command,
            )
        )
        self._secret = new_secret()
        more = {**launch.environment, SECRET: self._secret}
        if self._profile.hooks and not plain:
            # Before the program runs: its first hook comes early.
            self._socket = HookSocket(
                self._take_post, self._session.limits, links=self._settings.hook_links, secret=self._secret
            )
            await self._socket.open()
            more |= self._socket.environment()
        self._tail = self._watch.follow(launch.log, from_end=launch.log_from_end) if launch.log is not None else None
        self._environment = {**environment, **more}
        return launch.arguments, more

    def launched(self) -> None:
        """The program runs."""
        self._watch.begin(self._environment, self._tail)
        self._deliveries.begin()

    def abandoned(self) -> None:
        """The launch failed."""
        self._close_socket()

    def ended(self) -> None:
        """The program is gone, with all its output; its end is about to be recorded."""
        self._watch.end()
        self._deliveries.end()
        self._close_socket()

    def found(self, finding: Finding) -> None:
        """What the program says beside drawing, in stream order."""
        self._watch.found(finding)

    def _close_socket(self) -> None:
        self._secret = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _dialog_opened(self, opened: OpenDialog) -> None:
        self._deliveries.dialog_opened(opened)

    # Prompts and answers

    def check(self) -> None:
        """Raise ``NotReady`` while the agent starts."""
        if self._session.state.status.state == "starting":
            raise NotReady

    async def run_turn(self, turn: TurnContext) -> str | None:
        """Hand the prompt over and see the agent through to its end, and its calls to theirs."""
        try:
            result = await self._deliveries.run_turn(turn)
        except (asyncio.CancelledError, TurnBrokenOff, TurnFailed):
            await self._ends_told(turn.turn)
            raise
        broken_off = self._watch.broken_off
        await self._ends_told(turn.turn)
        if self._watch.broken_off > broken_off:
            raise TurnBrokenOff  # what was refused ended it: the log says so a moment after the agent is idle
        return result

    async def _ends_told(self, turn: str) -> None:
        """Wait a little for the log to tell how the turn's last calls came out: no hook tells of one that is refused.

        What is still open then is the hub's to end, as interrupted.
        """

        def over() -> bool:
            open_ = any(call.turn == turn for call in self._session.state.calls.values())
            return not open_ or not self._watch.running

        until = self._session.clock.monotonic() + LATE_ENDS
        while not over() and self._session.clock.monotonic() < until:
            self._catch_up()
            await self._watch.until(over, CATCHING_UP)

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:
        """Around the recording of an answer: no key of a person is on its way to the dialog meanwhile."""
        return self._deliveries.answering(decision, answer)

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """An outcome is durable: carry it out."""
        self._deliveries.resolved(outcome, answer)

    def progressed(self, revision: DecisionRevised) -> None:
        """Some of a dialog's questions were answered, durably: carry them out."""
        self._deliveries.progressed(revision)

    async def taken(self, prompt: str) -> str | None:
        """See the port."""
        return await self._deliveries.outcome(prompt)

    async def carried_out(self, decision: str) -> str | None:
        """See the port."""
        return await self._deliveries.outcome(decision)

    # Hooks

    def hears(self, agent: str, agent_session: str | None) -> bool | None:
        """By its name for itself, which it tells us soon after its start, and again when it begins anew."""
        if agent != self._profile.name:
            return False
        known = self._session.state.agent_session
        return None if known is None or agent_session is None else known == agent_session

    def proves(self, secret: str) -> bool:
        """See the port."""
        return self._secret is not None and same_secret(secret, self._secret)

    async def ingest(self, event: str, data: Json) -> None:
        """See the port."""
        if not isinstance(data, dict):
            raise InvalidRequest("a hook's payload must be a JSON object")
        await self._session.durable(self._watch.take_hook(event, data))

    async def stop(self, data: Json) -> StopVerdict:
        """See the port."""
        self._catch_up()
        return await self._stop(data, self._session.state.status)

    def _catch_up(self) -> None:
        """Whatever is in the agent's log, who asks is answered: silence would be consent to a stop."""
        try:
            self._watch.catch_up()
        except Exception:
            log.exception("the agent's log cannot be caught up with")

    async def _stop(self, data: Json, status: AgentStatus) -> StopVerdict:
        """``status`` is that from before the stop, which itself says no more than idle."""
        stop = self._answers.stop(data if isinstance(data, dict) else {}, status)
        event = self._watch.record(stop.fact)
        if stop.verdict.type == "blocked":
            self._watch.see(Sighting(source="hook", state="working", cause="hook:working"))
        await self._session.durable(event.seq)
        return stop.verdict

    async def signal(self, principal: Principal, body: Json) -> None:
        """See the port."""
        principal.check(self._session.id, Right.WRITE)
        await self._session.durable(self._watch.record(HookSignalled(signal=body, by=principal.id)).seq)

    async def start(self, data: Json) -> str:
        """See the port."""
        start = self._answers.start(data if isinstance(data, dict) else {})
        await self._session.durable(self._watch.record(start.fact).seq)
        return start.script

    async def _take_post(self, post: Post) -> Reply:
        """A post of our own hook script. It waits until what it says is on disk."""
        data = post.data if isinstance(post.data, dict) else {}
        stops = post.event in _STOPS and "agent_id" not in data
        self._catch_up()
        status, seq = copy.copy(self._session.state.status), self._session.head
        try:
            seq = self._watch.take_hook(post.event, data, post.at)
        except Exception:
            if not stops:
                raise
            log.exception("what a stop hook tells is not taken in; it is answered all the same")
        reply = Reply()
        if stops:
            reply = Reply(print=stop_reply(self._profile.name, await self._stop(data, status)))
        elif post.event == "SessionStart":
            reply = Reply(script=await self.start(data))
        elif post.event == "SessionEnd":
            reason = data.get("reason")
            seq = self._watch.record(HookAnswered(hook="end", reason=reason if isinstance(reason, str) else None)).seq
        await self._session.durable(seq)
        return reply
