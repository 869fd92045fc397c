"""One turn of the scripted host: a model that follows words of its prompt, and nine tools."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dragoman.hub.decisions import DecisionClosed
from dragoman.hub.events import (
    Answer,
    Compacted,
    DecisionOpened,
    Json,
    MessageAdded,
    Option,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    SettingsChanged,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    UsageReported,
)
from dragoman.hub.events.tools import ToolStatus
from dragoman.hub.turns import TurnContext, TurnFailed

from .scripted_stage import Ways
from .scripted_words import ASK_ANEW, NOT_WHILE_PLANNING, PLAN, PLANNING, SUMMARY, THOUGHT, first

TOOLS = (
    "search",
    "fail",
    "slow",
    "bash",
    "write",
    "ask_user",
    "enter_plan_mode",
    "exit_plan_and_implement",
    "write_plan",
)

MODEL = "fake-llm"

WINDOW = 128_000
"""Tokens that the model takes."""


@dataclass
class _Call:
    """What the model wants done."""

    tool: str
    given: dict[str, Any]
    call: str = ""


class _Refused(Exception):
    """A tool did not run. ``ends`` says that a person wants nothing more done."""

    def __init__(self, problem: Problem, status: ToolStatus = "denied", *, ends: bool = False) -> None:
        super().__init__(problem.message)
        self.problem, self.status, self.ends = problem, status, ends


@dataclass
class _Seen:
    """What the model sees of its turn."""

    prompt: str
    also: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def echo(self) -> str:
        """What it says of that."""
        parts = [self.prompt[:120]]
        parts += [f"last tool: {result[:80]}" for result in self.results[-1:] if result]
        parts += [f"also: {text}" for text in self.also[-1:]]
        return f"echo[{1 + len(self.also)} user msgs, {len(self.results)} tools]: {' | '.join(parts)}"


class Run:
    """One turn."""

    def __init__(self, turn: TurnContext, ways: Ways, before: int) -> None:
        self._turn = turn
        self._ways = ways
        self._before = before
        self._seen = _Seen(turn.prompt.content or turn.prompt.text)
        self._steps = 0
        self._planned = ""
        self._tokens = 100
        self._ended = False
        self.messages = 1

    async def result(self) -> str:
        """Step after step, until the model wants nothing more."""
        self._think("intent")
        while True:
            await self._ways.stage.wait("step")
            self._steer()
            calls, said = await self._step()
            for call in calls:
                await self._call(call)
                if self._ended:
                    return ASK_ANEW
                self._think("reflect")
            if not calls and not self._steered():
                return said

    def _steer(self) -> None:
        taken = [prompt.content or prompt.text for prompt in self._turn.take_steering()]
        self._seen.also += taken
        self.messages += len(taken)

    def _steered(self) -> bool:
        return any(prompt.steer for prompt in self._turn.session.shown.queue)

    # The model

    def _think(self, kind: str) -> None:
        if self._ways.thinks:
            thought = MessageAdded(
                message=self._turn.session.ids(), role="reasoning", text=THOUGHT, turn=self._turn.turn, kind=kind
            )
            self._turn.record(thought)

    async def _step(self) -> tuple[list[_Call], str]:
        turn, self._steps = self._turn.turn, self._steps + 1
        self._turn.record(StepStarted(turn=turn, step=self._steps, provider="fake", model=MODEL))
        await self._turn.recorded()
        await self._ways.stage.wait("answer")
        done = len(self._seen.results)
        if "boom" in self._seen.prompt and (done or "slowboom" not in self._seen.prompt):
            problem = Problem(code="provider_failed", message="llm exploded")
            self._turn.record(StepEnded(turn=turn, step=self._steps, finish_reason="error", problem=problem))
            raise TurnFailed(problem)
        calls = self._wanted(done)
        for at, call in enumerate(calls):
            call.call = f"call_{self._before}_{done}" + (f"_{at}" if at else "")
            self._turn.record(PartStarted(turn=turn, part=call.call, kind="tool_input", tool=call.tool))
            self._turn.record(PartEnded(turn=turn, part=call.call, kind="tool_input"))
        said = "" if calls else self._seen.echo()
        if said:
            self._say(said)
        self._tell_usage(calls)
        if self._tokens > WINDOW * 0.9:
            self._compact()
        self.messages += 1
        return calls, said

    def _say(self, text: str) -> None:
        """In two pieces, and as a whole."""
        turn, part = self._turn.turn, f"text-{self._steps}"
        self._turn.record(PartStarted(turn=turn, part=part, kind="text"))
        for piece in (text[:9], text[9:]):
            self._turn.record(PartDelta(turn=turn, part=part, kind="text", text=piece))
        self._turn.record(PartEnded(turn=turn, part=part, kind="text"))
        self._turn.record(MessageAdded(message=self._turn.session.ids(), role="assistant", text=text, turn=turn))

    def _tell_usage(self, calls: list[_Call]) -> None:
        turn = self._turn.turn
        if self._seen.prompt.startswith("compact"):
            self._tokens = 125_000 if len(self._seen.results) == 4 else 1_000
        self._turn.record(
            UsageReported(
                message=f"{turn}:{self._steps}",
                turn=turn,
                step=self._steps,
                model=MODEL,
                input_tokens=self._tokens,
                output_tokens=10 if self._tokens == 100 else 1,
                cached_tokens=0,
                cache_write_tokens=0,
                conversation_tokens=self._tokens,
                context_window=WINDOW,
                cost_usd=0.0,
            )
        )
        reason = "tool-calls" if calls else "stop"
        self._turn.record(StepEnded(turn=turn, step=self._steps, finish_reason=reason))

    def _compact(self) -> None:
        """Nine messages become six, and no token fewer."""
        begun = Compacted(
            compaction=self._turn.session.ids(),
            phase="started",
            turn=self._turn.turn,
            reason="threshold",
            tokens_before=self._tokens,
            messages_before=9,
            context_window=WINDOW,
        )
        self._turn.record(begun)
        after = {"tokens_after": self._tokens, "messages_after": 6}
        self._turn.record(msgspec.structs.replace(begun, phase="done", **after))
        self._seen.prompt, self._tokens = SUMMARY, 100
        del self._seen.results[0]

    def _wanted(self, done: int) -> list[_Call]:
        """What the model calls next, after so many results of its own calls."""
        prompt = self._seen.prompt
        if prompt.startswith("slow") and done < 3:
            return [_Call("slow", {"seconds": float(prompt.split()[1])})]
        if "slowboom" in prompt:
            return [_Call("slow", {"seconds": 1.0})]
        if prompt.startswith("compact") and done < 5:
            return [_Call("search", {"q": str(done)})]
        if prompt.startswith("plan"):
            return [_Call(*PLAN[done])] if done < len(PLAN) else []
        return [] if done else [_Call(tool, dict(given)) for tool, given in first(prompt)]

    # The tools

    async def _call(self, call: _Call) -> None:
        known = call.tool in TOOLS
        self._turn.record(
            ToolCalled(
                call=call.call,
                tool=call.tool,
                input=call.given,
                turn=self._turn.turn,
                invalid=not known,
                problem=None if known else _missing(call),
            )
        )
        began = self._turn.session.clock.monotonic()
        status: ToolStatus = "ok"
        output: str | None = None
        problem: Problem | None = None
        try:
            output = await (getattr(self, f"_{call.tool}") if known else self._no_such_tool)(call)
        except _Refused as refused:
            status, problem, self._ended = refused.status, refused.problem, refused.ends
        self._seen.results.append(_told(output, problem))
        self.messages += 1
        self._turn.record(
            ToolEnded(
                call=call.call,
                tool=call.tool,
                status=status,
                output=output,
                problem=problem,
                turn=self._turn.turn,
                duration_ms=round((self._turn.session.clock.monotonic() - began) * 1000),
            )
        )

    async def _search(self, call: _Call) -> str:
        return f"results for {call.given['q']}"

    async def _no_such_tool(self, call: _Call) -> str:
        raise _Refused(_missing(call), "error")

    async def _fail(self, call: _Call) -> str:
        raise _Refused(Problem(code="tool_failed", message="tool failed on purpose"), "error")

    async def _slow(self, call: _Call) -> str:
        await self._turn.recorded()
        await self._ways.stage.wait("slow")
        return f"slept {call.given['seconds']}"

    async def _bash(self, call: _Call) -> str:
        if self._mode == "plan":
            raise _Refused(Problem(code="denied", message=NOT_WHILE_PLANNING))
        if self._mode != "all":
            await self._permitted(call)
        return f"ran {call.given['command']}"

    async def _write(self, call: _Call) -> str:
        if self._mode not in ("accept_edits", "all"):
            await self._permitted(call)
        return f"wrote {call.given['path']}"

    async def _ask_user(self, call: _Call) -> str:
        options = call.given["options"]
        answer = await self._decide(call, "question", call.given["question"], [Option(label) for label in options])
        if answer is None:
            return ""
        if answer.option is not None:
            return str(options[answer.option - 1])
        return answer.text if answer.text is not None else ", ".join(answer.choices)

    async def _enter_plan_mode(self, call: _Call) -> str:
        self._turn.record(SettingsChanged(changes={"mode": "plan"}))
        return PLANNING

    async def _write_plan(self, call: _Call) -> str:
        self._planned = call.given["content"]
        return f"Plan updated: {self._ways.folder}/.co/PLAN_{self._turn.session.id}.md"

    async def _exit_plan_and_implement(self, call: _Call) -> str:
        answer = await self._decide(call, "plan", self._planned)
        if answer is None or not answer.accept:
            return (answer.text if answer is not None else None) or ""
        self._turn.record(SettingsChanged(changes={"mode": "ask"}))
        return answer.text or "Plan approved"

    @property
    def _mode(self) -> Json:
        return self._turn.session.state.settings.get("mode", "ask")

    async def _permitted(self, call: _Call) -> None:
        """Return once a person permits it. Raises ``_Refused``."""
        if call.tool in self._turn.session.state.grants:
            return
        later = first(self._seen.prompt)[len(self._seen.results) + 1 :]
        detail: dict[str, Json] = {"grant": call.tool, "description": call.given.get("description", "")}
        if later:
            detail["batch"] = [{"tool": tool, "arguments": json.dumps(given)} for tool, given in later]
        wider = Option("Yes, and every one of the session", "session")
        options = [Option("Yes", "once"), wider, Option("No", "deny")]
        text = str(call.given.get("command", call.tool))
        answer = await self._decide(call, "permission", text, options, detail)
        if answer is None or not answer.accept:
            raise _refused(call, answer)

    async def _decide(
        self,
        call: _Call,
        kind: str,
        text: str,
        options: Collection[Option] = (),
        detail: dict[str, Json] | None = None,
    ) -> Answer | None:
        opened = DecisionOpened(
            decision=self._turn.session.ids(),
            kind=kind,  # type: ignore[arg-type]
            text=text,
            turn=self._turn.turn,
            call=call.call,
            tool=call.tool,
            input=call.given,
            options=tuple(options),
            detail=detail or {},
        )
        try:
            return await self._turn.decide(opened)
        except DecisionClosed:
            return None


def _told(output: str | None, problem: Problem | None) -> str:
    """What the model is told of a call's end."""
    if problem is None:
        return output or ""
    return problem.message if problem.code == "no_such_tool" else f"Error: {problem.message}"


def _missing(call: _Call) -> Problem:
    return Problem(code="no_such_tool", message=f"Tool {call.tool!r} not found")


def _refused(call: _Call, answer: Answer | None) -> _Refused:
    """Why it is not done. What the original has the model told beyond the person's words is left out."""
    mode = "reject_hard" if answer is None else answer.values.get("mode", "reject_hard")
    said = answer.text if answer is not None else None
    if mode == "reject_explain":
        text = f"User wants explanation for tool '{call.tool}'." + (f" Context: {said}" if said else "")
    else:
        text = f"User rejected tool '{call.tool}'." + (f" Feedback: {said}" if said else "")
    return _Refused(Problem(code="denied", message=text), ends=mode == "reject_hard")
