"""One round with Claude Code: it is told what the person says, heard to its end, and answered what it asks.

``{"type": "user", …}`` goes in for each prompt, also while it works: it takes one in before its next model call.
``control_request`` goes both ways and is answered by a ``control_response`` with the same id.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, NamedTuple

import msgspec

from dragoman.agents.common.fields import dict_of, text_of
from dragoman.agents.native.modes import Mode
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import DelegateSettings
from dragoman.agents.native.step import BACKLOG
from dragoman.hub.errors import NOT_JSON, HubError
from dragoman.hub.events import Json, LogWritten

from .approvals import Approvals
from .claude_asking import ClaudeAsking
from .claude_facts import ClaudeFacts, failure_of
from .port import Assignment, ConversationLost, Report
from .program import ASKED, LineProgram
from .turn import given_text

_NO_CONVERSATION = "no conversation found"
_LAST_LINES = 5
_WORDS = 1000


def mode_word(mode: Mode) -> str:
    """The program's permission mode. All but planning is one to it: it asks, and the answer is ours, by the mode of
    that moment. So a mode that changes while it works counts at once, and ``all`` works for root too."""
    return "plan" if mode == "plan" else "default"


class _Asked(NamedTuple):
    """What it asks now: about which call, and who sees to the answer."""

    call: str
    task: asyncio.Task[None]


class ClaudeTalk:
    """See the module. Make one per round; ``run`` once."""

    def __init__(self, program: LineProgram, assignment: Assignment, provider: str, limits: DelegateSettings) -> None:
        self._program = program
        self._assignment = assignment
        self._turn = assignment.turn
        self._session = assignment.turn.session
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._provider = provider
        self._facts = ClaudeFacts(assignment, provider, limits)
        approvals = Approvals(self._turn, assignment.place, assignment.permits)
        self._asking = ClaudeAsking(self._turn, approvals)
        self._numbers = itertools.count(1)
        self._mode = mode_word(assignment.mode)
        self._asked: dict[str, _Asked] = {}
        self._tasks: asyncio.TaskGroup
        self._silence: asyncio.Timeout | None = None
        self._says_state = False
        self._at_rest = False
        self._done = False
        self._steering = False
        self._failure: ProviderFailed | ConversationLost | None = None
        self._rubbish = 0
        self._heard = False

    async def run(self) -> Report:
        """The round to its end. Raises ``ProviderFailed``, ``ConversationLost``."""
        unwatch = self._session.watch(self._look_later)
        failure: Exception | None = None
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    await self._listen()
                except (ProviderFailed, ConversationLost) as problem:
                    failure = problem  # by itself, not as one of a group
                for name in tuple(self._asked):
                    self._withdraws(name)
            return self._report(failure)
        except BaseException as error:
            if not isinstance(error, ProviderFailed | ConversationLost):
                self._broken_off()
            raise
        finally:
            unwatch()

    async def _listen(self) -> None:
        """Take in all that it says. Raises ``ProviderFailed``, ``ConversationLost``."""
        self._request("initialize")
        self._tell(self._assignment.text)
        taken = 0
        while (line := await self._line()) is not None:
            record = self._decoded(line)
            if record is None:
                continue
            self._hear(record)
            if self._failure is not None:
                self._program.close_input()
                await self._program.over()  # it keeps its conversation by itself, if it is let
                raise self._failure
            taken += 1
            if taken % BACKLOG == 0:
                await self._turn.recorded()
            self._settle()
        if self._facts.result is None:
            await self._program.over()  # how it ended is all that there is to tell

    async def _line(self) -> bytes | None:
        """The next line; None after the last one. Raises ``ProviderFailed`` when it is silent for too long."""
        limit = self._patience()
        try:
            async with asyncio.timeout(None if self._asked else limit) as self._silence:
                line = await self._program.line()
        except TimeoutError as error:
            if self._done:
                return None  # it need not say that it ends; it is ended
            raise ProviderFailed(f"{self._provider} said nothing for {limit:g} s ({self._said_last()})") from error
        finally:
            self._silence = None
        self._heard = True
        return line

    def _patience(self) -> float:
        if self._done and self._says_state:
            return self._limits.end_seconds
        return self._limits.silence_seconds if self._heard else self._limits.start_seconds

    def _decoded(self, line: bytes) -> dict[str, Any] | None:
        try:
            record = msgspec.json.decode(line)
        except NOT_JSON:
            record = None
        if isinstance(record, dict):
            return record
        self._rubbish += 1
        return None

    # What it says

    def _hear(self, record: dict[str, Any]) -> None:
        match record.get("type"):
            case "control_request":
                self._asks(record)
            case "control_cancel_request":
                self._withdraws(text_of(record, "request_id") or "")
            case "system" if record.get("subtype") == "session_state_changed":
                self._says_state = True
                self._at_rest = record.get("state") == "idle"
            case "result":
                self._facts.take(record)
                self._check_result()
            case _:
                self._facts.take(record)

    def _check_result(self) -> None:
        result = self._facts.result
        assert result is not None
        if result.failed is None:
            if not self._says_state:
                self._at_rest = True  # an older one: it goes on by itself with what it has been told, if anything
            return
        resumed = self._assignment.agent_session is not None
        if resumed and not self._facts.began and _NO_CONVERSATION in result.failed.lower():
            self._failure = ConversationLost(result.failed)
        else:
            self._failure = failure_of(self._without_key(result.failed))

    def _settle(self) -> None:
        """At rest: whatever was said meanwhile is told it now; with nothing left, it may end."""
        if self._at_rest and not self._done and self._facts.result is not None and not self._steer():
            self._done = True
            self._program.close_input()

    # What it asks

    def _asks(self, record: dict[str, Any]) -> None:
        name, request = text_of(record, "request_id") or "", dict_of(record, "request")
        if request.get("subtype") != "can_use_tool":
            self._send_response({"subtype": "error", "request_id": name, "error": "this host does not do that"})
            return
        call = self._facts.calls.id_of(text_of(request, "tool_use_id") or "")
        deciding = self._decide(name, {**request, "tool_use_id": call})
        self._asked[name] = _Asked(call, self._tasks.create_task(deciding, name=f"claude:{name}"))
        self._wait_for_people()

    async def _decide(self, name: str, request: dict[str, Any]) -> None:
        try:
            await self._turn.recorded()  # the call that it is about is on disk before anybody is asked
            response = await self._asking.answer(request)
            self._send_response({"subtype": "success", "request_id": name, "response": response})
        finally:
            self._asked.pop(name, None)
            self._wait_for_people()

    def _withdraws(self, name: str) -> None:
        """It no longer wants to know: whoever was asked is told so."""
        asked = self._asked.pop(name, None)
        if asked is None:
            return
        asked.task.cancel()
        for decision, opened in tuple(self._session.state.decisions.items()):
            if opened.call == asked.call and opened.turn == self._turn.turn:
                self._session.cancel_decision(decision, "withdrawn")

    def _wait_for_people(self) -> None:
        """People may take as long as they like; the program may not."""
        if self._silence is not None:
            limit = None if self._asked else self._loop.time() + self._limits.silence_seconds
            self._silence.reschedule(limit)

    # What it is told

    def _look_later(self) -> None:
        """Called at every change of the log: looks at it once the hub is done with that."""
        if not self._steering:
            self._steering = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._steering = False
        try:
            self._follow_mode()
            if not self._at_rest:
                self._steer()
        except HubError:
            return  # the turn is over, or cannot be recorded: whoever runs it learns that at the next fact

    def _steer(self) -> bool:
        """Tell it what was said for this turn meanwhile; whether there was anything."""
        if not self._program.listens:
            return False
        prompts = self._turn.take_steering()
        for prompt in prompts:
            self._at_rest = False
            self._tell(given_text(prompt))
        return bool(prompts)

    def _follow_mode(self) -> None:
        wanted = mode_word(self._assignment.permits.mode)
        if wanted != self._mode:
            self._mode = wanted
            self._request("set_permission_mode", mode=wanted)

    def _tell(self, text: str) -> None:
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        self._send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})

    def _request(self, subtype: str, **more: Json) -> None:
        name = f"dragoman-{next(self._numbers)}"
        self._send({"type": "control_request", "request_id": name, "request": {"subtype": subtype, **more}})

    def _send_response(self, response: dict[str, Json]) -> None:
        self._send({"type": "control_response", "response": response})

    def _send(self, record: dict[str, Json]) -> None:
        self._program.write(msgspec.json.encode(record) + b"\n")

    # How it ends

    def _report(self, failure: Exception | None) -> Report:
        if failure is None and self._facts.result is None:
            failure = ProviderFailed(f"{self._provider} ended without an answer ({self._said_last()})")
        if isinstance(failure, ProviderFailed):
            self._facts.fail(failure)
        self._note_what_was_left_out()
        if failure is not None:
            raise failure
        assert self._facts.result is not None
        self._facts.break_off()
        return Report(self._facts.text or self._facts.result.text, self._facts.step)

    def _broken_off(self) -> None:
        """Ask it to stop in its own words, so that it keeps its conversation whole, and end what is open."""
        self._request("interrupt")
        self._program.first_signal = ASKED
        try:
            self._facts.break_off()
        except HubError:
            return  # the log may be over, or full: why this round ends counts more

    def _note_what_was_left_out(self) -> None:
        for count, what in ((self._rubbish, "no JSON"), (self._program.skipped, "too long")):
            if count:
                line = f"lines of the program that were {what}, and are left out: {count}"
                self._turn.record(LogWritten(line=line, level="warning", turn=self._turn.turn))

    def _said_last(self) -> str:
        """How it ended, and its last words."""
        status = self._program.status
        how = "it still runs"
        if status is not None:
            how = f"exit code {status.code}" if status.signal is None else f"signal {status.signal}"
        words = "\n".join(self._program.last_words.splitlines()[-_LAST_LINES:])[-_WORDS:]
        return f"{how}: {self._without_key(words)}" if words else how

    def _without_key(self, words: str) -> str:
        key = self._assignment.key
        return words.replace(key, "[key]") if key else words
