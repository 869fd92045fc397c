"""Runs scripts as turns, through the same calls as any other agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

import msgspec

from dragoman.hub.decisions import DecisionClosed
from dragoman.hub.errors import InvalidRequest, Unsupported
from dragoman.hub.events import (
    Answer,
    DecisionOpened,
    DecisionResolved,
    DecisionRevised,
    Json,
    MessageAdded,
    Option,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    PromptSubmitted,
    ToolCalled,
    ToolEnded,
    decode_fact,
)
from dragoman.hub.permissions import widening
from dragoman.hub.ports import Driver, Hooks, Terminal
from dragoman.hub.session import Session
from dragoman.hub.standing import Executor
from dragoman.hub.turns import TurnContext, TurnFailed

from .script import Step, parse

BACKLOG = 512
"""Deltas recorded ahead of the disk before a burst waits for it."""


class ScriptedFactory:
    """Makes scripted agents; they take no options."""

    kind = "scripted"
    elsewhere = False

    def validate(self, agent: str, cwd: str, options: dict[str, object]) -> dict[str, object]:  # noqa: ARG002
        if options:
            raise InvalidRequest(f"a scripted session takes no options, got {', '.join(sorted(options))}")
        return {}

    def check_settings(self, changes: Mapping[str, Json]) -> None:
        """None has a meaning here."""

    def widens(self, before: Mapping[str, Json], changes: Mapping[str, Json]) -> bool:  # noqa: ARG002
        return widening(changes)

    def adopt(self, session: str, options: dict[str, object]) -> None:
        """There is nothing to keep."""

    def make(self, session: Session) -> ScriptedAgent:
        return ScriptedAgent(session)

    async def sweep(self, kept: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Nothing lies beside the log, and nothing outlives the server."""
        return ()

    async def recover(self, session: Session, lost: Executor | None) -> None:
        """Nothing outlives the server."""

    def dropped(self, session: str) -> None:
        """Nothing is kept beside the log."""


class ScriptedAgent:
    """See ``script`` for what it can be told."""

    terminal: Terminal | None = None
    driver: Driver | None = None
    hooks: Hooks | None = None
    own_tools: Collection[str] = ()
    offered_tools: Collection[str] = ()
    holds = False

    def __init__(self, session: Session) -> None:
        self._session = session

    async def start(self) -> None:
        """There is no executor: a scripted agent is always ready."""

    def check(self, prompt: PromptSubmitted) -> None:
        """Every prompt is a script or an echo."""

    def progressed(self, revision: DecisionRevised) -> None:
        """Nothing to do: a script goes on once its question is answered."""

    def answering(self, decision: str, answer: Answer) -> AbstractAsyncContextManager[None]:  # noqa: ARG002
        """Nobody types at it."""
        return nullcontext()

    def resolved(self, outcome: DecisionResolved, answer: Answer | None) -> None:
        """Only its own turns open decisions, and those wait themselves."""

    async def compact(self) -> None:
        """A script sees nothing of what came before."""
        raise Unsupported("a scripted agent has no context")

    async def close(self, budget: float) -> None:
        """Nothing to end: the turn's task was cancelled before."""

    async def run_turn(self, turn: TurnContext) -> str | None:
        """Do the steps in order; the result is the last text said."""
        run = _Run(turn)
        for step in parse(turn.prompt.content or turn.prompt.text):
            await run.do(step)
        return run.said


class _Run:
    """One turn under way: counts its parts and remembers what was said last."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._ids = turn.session.ids
        self._parts = 0
        self.said: str | None = None

    async def do(self, step: Step) -> None:
        await getattr(self, f"_{step.name}")(step.argument)

    async def _say(self, text: str) -> None:
        await self._stream("text", _words(text))
        self._add("assistant", text)

    async def _think(self, text: str) -> None:
        await self._stream("reasoning", _words(text))
        self._add("reasoning", text)

    async def _burst(self, argument: str) -> None:
        count = int(_number(argument))
        await self._stream("text", [f"delta {n} " for n in range(count)])
        self._add("assistant", f"{count} deltas")

    async def _pace(self, argument: str) -> None:
        number, _, pause = argument.partition(" ")
        count = int(_number(number))
        await self._stream("text", [f"delta {n} " for n in range(count)], pause=_number(pause or "1") / 1000)
        self._add("assistant", f"{count} deltas")

    async def _tool(self, argument: str) -> None:
        call, name, given = self._call(argument)
        self._turn.record(ToolEnded(call=call, tool=name, status="ok", output=given, turn=self._turn.turn))

    async def _open(self, argument: str) -> None:
        self._call(argument)

    async def _permit(self, command: str) -> None:
        answer = await self._decide("permission", command)
        await self._say(f"{command}: {'permitted' if answer is not None and answer.accept else 'refused'}")

    async def _ask(self, argument: str) -> None:
        question, *options = [part.strip() for part in argument.split("|")]
        answer = await self._decide("question", question, tuple(Option(label) for label in options))
        if answer is None:
            await self._say("nobody answered")
            return
        await self._say(f"answer: {_chosen(answer, options)}")

    async def _sleep(self, argument: str) -> None:
        await asyncio.sleep(_number(argument) / 1000)

    async def _wait(self, _: str) -> None:
        await asyncio.get_running_loop().create_future()

    async def _steer(self, _: str) -> None:
        for prompt in self._turn.take_steering():
            await self._say(f"steered: {prompt.text}")

    async def _fact(self, argument: str) -> None:
        try:
            fact = decode_fact(argument.encode())
        except msgspec.MsgspecError as problem:
            raise TurnFailed(Problem(code="bad_script", message=f"not a fact: {problem}")) from problem
        self._turn.record(fact)

    async def _fail(self, text: str) -> None:
        raise TurnFailed(Problem(code="scripted", message=text))

    async def _crash(self, _: str) -> None:
        raise RuntimeError("a scripted crash")

    async def _stream(self, kind: str, pieces: list[str], *, pause: float = 0.0) -> None:
        self._parts += 1
        part, turn = f"part-{self._parts}", self._turn.turn
        self._turn.record(PartStarted(turn=turn, part=part, kind=kind))  # type: ignore[arg-type]
        clock = asyncio.get_running_loop().time
        due = clock()
        for count, piece in enumerate(pieces, 1):
            self._turn.record(PartDelta(turn=turn, part=part, kind=kind, text=piece))  # type: ignore[arg-type]
            if pause:
                due += pause  # so that what each sleep takes too long does not add up
                await asyncio.sleep(max(0.0, due - clock()))
            elif count % BACKLOG == 0:
                await self._turn.recorded()
        self._turn.record(PartEnded(turn=turn, part=part, kind=kind))  # type: ignore[arg-type]

    def _add(self, role: str, text: str) -> None:
        if role == "assistant":
            self.said = text
        fact = MessageAdded(message=self._ids(), role=role, text=text, turn=self._turn.turn)  # type: ignore[arg-type]
        self._turn.record(fact)

    def _call(self, argument: str) -> tuple[str, str, Json]:
        name, _, text = argument.partition(" ")
        try:
            given = json.loads(text) if text else None
        except ValueError as problem:
            raise TurnFailed(Problem(code="bad_script", message=f"not JSON: {problem}")) from problem
        call = self._ids()
        self._turn.record(ToolCalled(call=call, tool=name, input=given, turn=self._turn.turn))
        return call, name, given

    async def _decide(self, kind: str, text: str, options: tuple[Option, ...] = ()) -> Answer | None:
        opened = DecisionOpened(
            decision=self._ids(),
            kind=kind,  # type: ignore[arg-type]
            text=text,
            turn=self._turn.turn,
            options=options,
        )
        try:
            return await self._turn.decide(opened)
        except DecisionClosed:
            return None


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise TurnFailed(Problem(code="bad_script", message=f"not a number: {text!r}"))
    return number


def _chosen(answer: Answer, options: list[str]) -> str:
    """What was said, in words."""
    if answer.option is not None:
        return options[answer.option - 1] if options else str(answer.option)
    if answer.text is not None:
        return answer.text
    return ", ".join(answer.choices or [_chosen(given, options) for given in answer.answers])


def _words(text: str) -> list[str]:
    """The text in pieces that join to it again."""
    head, *rest = text.split(" ")
    return [head, *(f" {word}" for word in rest)]
