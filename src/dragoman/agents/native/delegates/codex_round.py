"""One round of Codex: a conversation with its app server, in which it runs one turn, and more where it must.

How the session's mode holds:

=================  ========================  ==============  ==================================================
mode               Codex' sandbox            it asks         what it asks
=================  ========================  ==============  ==================================================
``ask``            read only                 where it holds  see ``codex_approvals``: for every change of a file,
``accept_edits``                             it back         and for what its sandbox does not let it do
``plan``           read only, and Codex'     likewise        declined; its plan is put before a person
                   own plan mode
``all``            none                      never           nothing
=================  ========================  ==============  ==================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from dragoman.agents.common.fields import dict_of, text_of
from dragoman.agents.native.modes import Mode
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.providers.secret import Secret
from dragoman.agents.native.settings import NativeSettings
from dragoman.agents.native.step import BACKLOG, problem_of
from dragoman.hub.errors import HubError

from .codex_approvals import Approvals, Unknown
from .codex_calls import Calls
from .codex_failures import failure_of
from .codex_plan import present
from .codex_record import Record
from .codex_server import CLIENT, AppServer, Asked, Refused, Told
from .port import Assignment, ConversationLost, Report
from .program import ASKED, LineProgram
from .turn import given_text

Fields = dict[str, Any]

PROVIDER = "codex-cli"
"""The provider's id."""


class Round:
    """See the module. Make one per round; ``run`` once."""

    def __init__(self, assignment: Assignment, program: LineProgram, settings: NativeSettings) -> None:
        self._given = assignment
        self._turn = assignment.turn
        self._program = program
        self._server = AppServer(program)
        self._limits = settings.delegates
        self._secret = Secret(assignment.key)
        calls = Calls(self._turn, progress=settings.tools.command_progress)
        self._calls = calls
        self._record = Record(
            self._turn, calls, provider=PROVIDER, model=assignment.model, step=assignment.step, limits=settings.turn
        )
        self._approvals = Approvals(self._turn, assignment.place, assignment.permits, calls, self._remark)
        self._remarks: list[str] = []
        self._left: list[str] = []
        """What a turn did not take: for the next one."""
        self._news = asyncio.Event()
        self._steering = asyncio.Lock()
        self._thread = ""
        self._codex_turn: str | None = None
        self._over: asyncio.Future[Fields] = asyncio.get_running_loop().create_future()
        self._heard = 0.0
        self._asked: asyncio.TaskGroup

    async def run(self) -> Report:
        """The round to its end. Raises ``ProviderFailed``, ``ConversationLost``."""
        stop = self._turn.session.watch(self._news.set)
        failure: ProviderFailed | ConversationLost | None = None
        try:
            async with asyncio.TaskGroup() as self._asked:
                tasks = [self._asked.create_task(work) for work in (self._listen(), self._steer())]
                try:
                    await self._talk()
                except (ProviderFailed, ConversationLost) as failed:
                    failure = failed
                except asyncio.CancelledError:
                    self._interrupt()
                    raise
                for task in tasks:
                    task.cancel()
                self._approvals.close()
        except BaseException:
            with contextlib.suppress(HubError):  # the log may be over, or full: why this ends counts more
                self._record.broken_off()
            raise
        finally:
            stop()
            with contextlib.suppress(HubError):
                self._calls.close()
                self._tell_skipped()
        if isinstance(failure, ConversationLost):
            raise failure
        if failure is not None:
            failure = self._cleaned(failure)
            self._record.broken_off(problem_of(failure))
            raise failure
        return Report(self._record.text, self._record.step)

    def _tell_skipped(self) -> None:
        if self._program.skipped:
            self._record.line(
                f"messages of Codex that were too long, and are left out: {self._program.skipped}", "warning"
            )

    async def _talk(self) -> None:
        await self._open()
        text: str | None = self._given.text
        while text is not None:
            await self._one_turn(text)
            text = await self._next()

    # Its conversation

    async def _open(self) -> None:
        await self._demand("initialize", CLIENT)
        self._server.tell("initialized")
        if self._given.key:
            await self._demand("account/login/start", {"type": "apiKey", "apiKey": self._given.key})
        thread = await self._resume() or dict_of(await self._demand("thread/start", self._where()), "thread")
        self._thread = text_of(thread, "id") or ""
        if not self._thread:
            raise ProviderFailed("Codex began no conversation")
        self._given.hooks.named(self._thread)
        self._record.thread = self._thread

    async def _resume(self) -> Fields | None:
        known = self._given.agent_session
        if known is None:
            return None
        params = {"threadId": known, "excludeTurns": True, **self._where()}
        try:
            found = await self._server.request("thread/resume", params, seconds=self._limits.start_seconds)
            return dict_of(found, "thread")
        except Refused as refused:
            raise ConversationLost(self._hidden(str(refused))) from None

    def _where(self) -> Fields:
        params = {
            "cwd": os.fspath(self._given.place.cwd),
            "model": self._given.model,
            "approvalsReviewer": "user",
            "approvalPolicy": _policy(self._mode),
            "sandbox": "danger-full-access" if self._mode == "all" else "read-only",
        }
        instructions = self._given.instructions
        return params if instructions is None else {**params, "developerInstructions": instructions}

    @property
    def _mode(self) -> Mode:
        return self._given.permits.mode

    async def _one_turn(self, text: str) -> None:
        """One turn of Codex'. Raises ``ProviderFailed`` when it fails."""
        self._over = asyncio.get_running_loop().create_future()
        mode = self._mode
        params = {
            "threadId": self._thread,
            "input": _said(text),
            "approvalPolicy": _policy(mode),
            "sandboxPolicy": {"type": "dangerFullAccess" if mode == "all" else "readOnly"},
            "collaborationMode": {
                "mode": "plan" if mode == "plan" else "default",
                "settings": {"model": self._given.model},
            },
        }
        begun = dict_of(await self._demand("turn/start", params), "turn")
        if not self._over.done():
            self._codex_turn = text_of(begun, "id")
            self._news.set()
        ended = await self._end_of_turn()
        if ended.get("status") != "completed":
            raise failure_of(dict_of(ended, "error"))
        self._record.turn_ended()

    async def _end_of_turn(self) -> Fields:
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        while not self._over.done():
            if self._approvals.waiting:
                self._heard = loop.time()
            left = self._heard + self._limits.silence_seconds - loop.time()
            if left <= 0:
                seconds = f"{self._limits.silence_seconds:g}"
                raise ProviderFailed(f"Codex said nothing for {seconds} s (native.delegates.silence_seconds)")
            await asyncio.wait((self._over,), timeout=left)
        return self._over.result()

    async def _next(self) -> str | None:
        """What Codex is to be told in a further turn: that its plan is accepted, or what it did not take before."""
        async with self._steering:  # what is on its way to the turn that ended comes back
            said, self._left = [*self._left, *self._waiting()], []
        plan, self._record.plan = self._record.plan, None
        if plan is not None and self._mode == "plan" and not said:
            return await present(self._turn, plan)
        return "\n\n".join(said) if said else None

    async def _demand(self, method: str, params: Fields) -> Fields:
        try:
            return await self._server.request(method, params, seconds=self._limits.start_seconds)
        except Refused as refused:
            raise ProviderFailed(f"Codex refused {method}: {refused}") from None

    # What it says

    async def _listen(self) -> None:
        events = 0
        try:
            async for message in self._server.heard():
                self._heard = asyncio.get_running_loop().time()
                if isinstance(message, Asked):
                    self._asked.create_task(self._answer(message))
                else:
                    self._told(message)
                events += 1
                if events % BACKLOG == 0:
                    await self._turn.recorded()
        except ProviderFailed as failure:
            self._server.give_up(failure)
            if not self._over.done():
                self._over.set_exception(failure)
                self._over.exception()  # nobody may be waiting for the turn's end yet

    def _told(self, told: Told) -> None:
        method, params = told.method, told.params
        if method == "serverRequest/resolved":
            self._approvals.withdrawn(params.get("requestId"))
            return
        turn = params.get("turnId") or dict_of(params, "turn").get("id")
        if params.get("threadId", self._thread) != self._thread:
            self._told_elsewhere(method, params)
        elif method == "turn/started":
            self._codex_turn = turn if isinstance(turn, str) else None
        elif method == "turn/completed":
            if not self._over.done() and self._codex_turn in (None, turn):
                self._codex_turn = None
                self._over.set_result(dict_of(params, "turn"))
        elif self._codex_turn is None and method == "thread/tokenUsage/updated":
            self._record.known(params)
        else:
            self._record.take(method, params)

    def _told_elsewhere(self, method: str, params: Fields) -> None:
        """In the conversation of a sub-agent; before a turn has begun, in our own one."""
        if self._codex_turn is None:
            self._record.known(params)
        elif method == "thread/tokenUsage/updated":
            self._record.spent_elsewhere(params)
        elif method == "turn/completed":
            status = text_of(dict_of(params, "turn"), "status") or "completed"
            self._calls.subagent_ended(text_of(params, "threadId"), status)

    async def _answer(self, asked: Asked) -> None:
        try:
            self._server.answer(asked, await self._approvals.answer(asked))
        except Unknown:
            self._server.refuse(asked)

    # What it is told meanwhile

    def _remark(self, text: str) -> None:
        self._remarks.append(text)
        self._news.set()

    async def _steer(self) -> None:
        """Hand Codex what comes in while its turn runs; what it does not take then is left for a turn of its own."""
        while True:
            await self._news.wait()
            self._news.clear()
            turn = self._codex_turn
            if turn is None or self._over.done():
                continue
            async with self._steering:
                said = self._waiting()
                if said and not await self._steered(turn, "\n\n".join(said)):
                    self._left += said

    def _waiting(self) -> list[str]:
        """What is to be told to Codex, taken: it is told now, or in a turn of its own."""
        said = [*self._remarks, *(given_text(prompt) for prompt in self._turn.take_steering())]
        self._remarks.clear()
        return said

    async def _steered(self, turn: str, text: str) -> bool:
        params = {"threadId": self._thread, "expectedTurnId": turn, "input": _said(text)}
        try:
            await self._server.request("turn/steer", params, seconds=self._limits.start_seconds)
        except (Refused, ProviderFailed):
            return False
        return True

    def _interrupt(self) -> None:
        """Ask it to break off, and to end: its own conversation ends well then."""
        if self._codex_turn is not None:
            self._server.ask("turn/interrupt", {"threadId": self._thread, "turnId": self._codex_turn})
        self._program.close_input()
        self._program.first_signal = ASKED

    # What it says of itself

    def _cleaned(self, failure: ProviderFailed) -> ProviderFailed:
        """The same failure, without the key that it was given."""
        return ProviderFailed(
            self._hidden(str(failure))[:_WORDS],
            cause=failure.cause,
            retryable=failure.retryable,
            status=failure.status,
            detail=self._secret.hide(failure.detail),
        )

    def _hidden(self, text: str) -> str:
        return str(self._secret.hide(text))


_WORDS = 4_000
"""Characters of a program's own words in a failure."""


def _policy(mode: Mode) -> str:
    return "never" if mode == "all" else "on-request"


def _said(text: str) -> list[Fields]:
    return [{"type": "text", "text": text}]
