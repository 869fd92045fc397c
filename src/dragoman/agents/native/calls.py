"""Running the tools that a model calls: each call becomes one ``tool.called`` and one ``tool.ended``, come what may."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dragoman.hub.decisions import DecisionClosed
from dragoman.hub.errors import NOT_JSON, HubError
from dragoman.hub.events import (
    Answer,
    AnyFact,
    DecisionOpened,
    Json,
    Option,
    Problem,
    ToolCalled,
    ToolEnded,
    ToolProgressed,
)
from dragoman.hub.events.tools import ToolStatus
from dragoman.hub.turns import TurnContext

from .batch import Batch
from .history import MODEL_TEXT, as_text
from .path_guard import PathBlocked, PathGuard, PathInvalid
from .permissions import Verdict
from .permits import Asking, Permits
from .providers.error_answers import DEEPEST, nests_deeper
from .providers.port import CallMade
from .settings import NativeSettings
from .tools.found import FoundTool
from .tools.schema import InvalidInput, decode, decode_object
from .tools.tool import ForeignCall, Tool, ToolDenied, ToolFailed
from .url_guard import UrlBlocked, UrlInvalid

log = logging.getLogger("dragoman.native")

TOOL_NAME = 96
"""Characters of a name that no tool has, as the model is told of it."""


class Caller(msgspec.Struct, frozen=True):
    """Who makes calls: the session's own agent, or a sub-agent of a kind, started by the call ``parent``."""

    parent: str | None = None
    subagent: str | None = None


OWN = Caller()


class Place(msgspec.Struct, frozen=True):
    """Where tools work: the folder, what they may touch, and the limits."""

    cwd: Path
    roots: tuple[Path, ...]
    guard: PathGuard
    settings: NativeSettings


class Done(msgspec.Struct, frozen=True):
    """How a call ended: for the conversation of a sub-agent, which no log holds."""

    call: str
    tool: str
    text: str
    failed: bool


class CallRunner:
    """Runs the calls of one turn, as many at once as its limit says; so many again of its sub-agents' calls.

    Those have places of their own: the call that started a sub-agent keeps its place until the sub-agent is done.
    """

    def __init__(
        self, turn: TurnContext, tools: Mapping[str, Tool | FoundTool], place: Place, permits: Permits
    ) -> None:
        self._turn = turn
        self._tools = tools
        self._place = place
        self._permits = permits
        self._slots = asyncio.Semaphore(place.settings.turn.parallel_calls)
        self._inner_slots = asyncio.Semaphore(place.settings.turn.parallel_calls)

    @property
    def turn(self) -> TurnContext:
        """The turn whose calls these are."""
        return self._turn

    @property
    def place(self) -> Place:
        """Where its tools work."""
        return self._place

    def is_found(self, tool: str) -> bool:
        """Whether the tool of this name was found at run time."""
        return isinstance(self._tools.get(tool), FoundTool)

    @property
    def broken_off(self) -> bool:
        """Whether a person refused all that the turn does: no call begins any more, and none should be made."""
        return self._permits.broken_off

    def called(self, made: CallMade, caller: Caller = OWN, *, tools: Collection[str], batch: Batch) -> _Call:
        """Record that the call was made; ``run`` follows. ``tools`` are the names that the model was offered.

        ``batch`` are the calls of the same answer.
        """
        tool = self._tools.get(made.tool) if made.tool in tools else None
        given, invalid = _decoded(tool, made)
        self._turn.record(
            ToolCalled(
                call=made.call,
                tool=made.tool,
                input=shown_input(made.arguments),
                turn=self._turn.turn,
                title=tool.title if isinstance(tool, FoundTool) else None,
                parent=caller.parent,
                dynamic=tool is None or isinstance(tool, FoundTool),
                invalid=invalid is not None,
                problem=invalid,
                provider_metadata=made.metadata,
            )
        )
        batch.add(made)
        return _Call(made, caller, tool, given, invalid, batch)

    def refused(self, call: _Call) -> bool:
        """Whether a recorded call cannot be run at all. If so, it has its end now."""
        if call.invalid is None:
            return False
        self._record_end(msgspec.structs.replace(self._ended(call.made, "error", problem=call.invalid), duration_ms=0))
        return True

    async def run(self, call: _Call) -> Done:
        """Run a recorded call to its end."""
        began = self._turn.session.clock.monotonic()
        async with self._slots if call.caller.parent is None else self._inner_slots:
            end = await self._end_of(call)
        duration = round((self._turn.session.clock.monotonic() - began) * 1000)
        end = msgspec.structs.replace(end, duration_ms=duration)
        self._record_end(end)
        text = end.detail.get(MODEL_TEXT) or (
            end.problem.message if end.output is None and end.problem is not None else as_text(end.output)
        )
        return Done(end.call, end.tool, text, end.status != "ok")

    def _record_end(self, end: ToolEnded) -> None:
        try:
            self._turn.record(end)
        except HubError as problem:
            # What the tool gave cannot be written down (half a character, too deep). That it ended can.
            failed = Problem(code="tool_failed", message=f"the result cannot be kept: {problem}")
            self._turn.record(msgspec.structs.replace(end, status="error", output=None, detail={}, problem=failed))

    async def _end_of(self, call: _Call) -> ToolEnded:
        made = call.made
        if call.invalid is not None:
            return self._ended(made, "error", problem=call.invalid)
        assert call.tool is not None
        try:
            self._permits.check_goes_on()
            result = await call.tool.run(call.given, _Context(self, call, self._permits))
        except ToolDenied as denied:
            problem = Problem(code="denied", message=str(denied), source="permissions")
            told: dict[str, Json] = {} if denied.told is None else {MODEL_TEXT: denied.told}
            return self._ended(made, "denied", output=denied.output, problem=problem, detail=told)
        except Exception as failure:  # noqa: BLE001  whatever it is, the call has a result and the turn goes on
            return self._ended(made, "error", problem=self._problem(made, failure))
        detail = result.detail if result.text is None else {**result.detail, MODEL_TEXT: result.text}
        return self._ended(made, "ok", output=result.output, detail=detail)

    def _problem(self, made: CallMade, failure: Exception) -> Problem:
        """What the model and the clients see of a failed tool."""
        if isinstance(failure, PathBlocked | UrlBlocked) or isinstance(failure.__cause__, PathBlocked | UrlBlocked):
            return Problem(code="blocked", message=str(failure), source="permissions")
        if isinstance(failure, ToolFailed | PathInvalid | UrlInvalid):
            return Problem(code="tool_failed", message=str(failure))
        if isinstance(failure, OSError):
            return Problem(code="tool_failed", message=_words(failure))
        log.error("tool %s of session %s failed", made.tool, self._turn.session.id, exc_info=failure)
        return Problem(code="internal", message=f"{made.tool} failed unexpectedly; the server's log says why")

    def _ended(
        self,
        made: CallMade,
        status: ToolStatus,
        *,
        output: Json = None,
        problem: Problem | None = None,
        detail: dict[str, Json] | None = None,
    ) -> ToolEnded:
        return ToolEnded(
            call=made.call,
            tool=made.tool,
            status=status,
            output=output,
            problem=problem,
            turn=self._turn.turn,
            detail=detail or {},
        )


class _Call(msgspec.Struct, frozen=True):
    """A recorded call: what was given, and to which tool; or why it cannot be run."""

    made: CallMade
    caller: Caller
    tool: Tool | FoundTool | None
    given: Any
    invalid: Problem | None
    batch: Batch


class _Context:
    """See ``tools.tool.ToolContext``."""

    def __init__(self, runner: CallRunner, call: _Call, permits: Permits) -> None:
        self.runner = runner
        self.session = runner.turn.session.id
        self.turn = runner.turn.turn
        self.call = call.made.call
        self.cwd, self.roots, self.guard = runner.place.cwd, runner.place.roots, runner.place.guard
        self.settings = runner.place.settings
        self.subagent = call.caller.subagent
        self._tool = call.made.tool
        self._permits = permits
        self._batch = call.batch
        self._described = _description(call.made)

    def record(self, fact: AnyFact) -> None:
        self.runner.turn.record(fact)

    async def progress(self, output: Json) -> None:
        # What cannot be kept of a progress report is not worth failing the tool for.
        with contextlib.suppress(HubError):
            self.record(ToolProgressed(call=self.call, output=output, turn=self.turn))
            await self.runner.turn.recorded()

    @property
    def _asking(self) -> Asking:
        return Asking(self.call, self.subagent, self._described, lambda: self._batch.behind(self.call))

    async def permit_command(self, command: str, verdict: Verdict) -> None:
        await self._permits.command(command, verdict, self._asking)

    async def permit_edit(self, path: str, given: Json) -> None:
        await self._permits.edit(path, given, self._asking, tool=self._tool)

    async def permit_foreign(self, wanted: ForeignCall) -> None:
        await self._permits.foreign(wanted, self._asking)

    async def ask(self, question: str, options: Sequence[str]) -> str:
        opened = DecisionOpened(
            decision=self.runner.turn.session.ids(),
            kind="question",
            text=question,
            turn=self.turn,
            call=self.call,
            tool=self._tool,
            options=tuple(Option(label) for label in options),
        )
        try:
            answer = await self.runner.turn.decide(opened)
        except DecisionClosed as closed:
            self._permits.check_goes_on()
            raise ToolFailed("Nobody answered.") from closed
        except HubError as problem:
            raise ToolFailed(f"Nobody could be asked: {problem}") from problem
        return _said(answer, options)


def _said(answer: Answer, options: Sequence[str]) -> str:
    """An answer in words."""
    if answer.text is not None:
        return answer.text
    if answer.option is not None:
        return options[answer.option - 1] if answer.option <= len(options) else str(answer.option)
    if answer.choices:
        return ", ".join(answer.choices)
    return ", ".join(_said(part, options) for part in answer.answers)


def _decoded(tool: Tool | FoundTool | None, made: CallMade) -> tuple[object, Problem | None]:
    """The tool's input, or why the call is invalid."""
    if tool is None:
        return None, Problem(code="no_such_tool", message=f"There is no tool {made.tool[:TOOL_NAME]!r}.")
    try:
        if isinstance(tool, FoundTool):
            return decode_object(tool.name, made.arguments), None
        return decode(tool, made.arguments), None
    except InvalidInput as problem:
        return None, Problem(code="invalid_input", message=str(problem))


def shown_input(arguments: str) -> Json:
    """What was given, as the log has it: the object, or text that was none, or nests deeper than a log can hold."""
    try:
        value: Json = msgspec.json.decode(arguments)
    except NOT_JSON:
        return arguments
    return arguments if nests_deeper(value, DEEPEST) else value


def _description(made: CallMade) -> str | None:
    """An argument of this name. No tool of ours asks for it, but models are used to say it of their commands."""
    given = shown_input(made.arguments)
    said = given.get("description") if isinstance(given, dict) else None
    return said if isinstance(said, str) else None


def _words(failed: OSError) -> str:
    """What the system said, with the name the model gave, if any."""
    reason = failed.strerror or str(failed) or type(failed).__name__
    return f"{reason}: {failed.filename}" if isinstance(failed.filename, str) else reason
