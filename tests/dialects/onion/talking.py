"""A session's log, told fact by fact to the conversation that is to be tested."""

from __future__ import annotations

import json
from typing import Any, Literal

from dragoman.dialects.onion import messages as wire
from dragoman.dialects.onion.conversation import Conversation
from dragoman.hub.events import (
    AnyFact,
    Event,
    Json,
    MessageAdded,
    Outcome,
    PromptSubmitted,
    PromptTaken,
    SessionCreated,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)

EPOCH = 1_700_000_000_000
"""When the log begins, in milliseconds; each event is a second later than the one before."""

WIRE_ID = b'"s"'


class Talk:
    """Records facts, with the stream events that belong to them, and asks what there is to see of it."""

    def __init__(self, *, trace_entries: int = 1000) -> None:
        self.conversation = Conversation(trace_entries=trace_entries)
        self.log: list[tuple[Event, tuple[bytes, ...]]] = []
        self.turn = 0
        self.step = 0
        self._prompts: dict[str, str] = {}
        self.record(SessionCreated(kind="native", agent="test", cwd="/", title="", owner="onion:anonymous"))

    # What happens

    def record(self, fact: AnyFact, *said: wire.StreamEvent | bytes, at: int | None = None) -> None:
        """``fact`` happens (``at`` milliseconds since 1970), and is told of by ``said``."""
        seq = len(self.log) + 1
        encoded = tuple(event if isinstance(event, bytes) else wire.encode(event) for event in said)
        event = Event(seq, EPOCH + 1000 * seq if at is None else at, "epoch", fact)
        self.log.append((event, encoded))
        self.conversation.take(event, encoded)

    def submits(self, text: str, *, content: str | None = None) -> str:
        """A prompt waits; its id."""
        prompt = f"p{len(self._prompts)}"
        self._prompts[prompt] = text
        self.record(PromptSubmitted(prompt=prompt, text=text, content=content, by="o", via="onion"))
        return prompt

    def starts(self, text: str, *said: wire.StreamEvent, content: str | None = None) -> None:
        """A turn begins with this prompt."""
        prompt = self.submits(text, content=content)
        self.turn += 1
        self.step = 0
        asked = wire.UserInput(id=prompt, ts=self.now, content=text, turn=self.turn)
        self.record(TurnStarted(turn=self._turn, prompt=prompt), asked, *said)

    def takes(self, prompt: str) -> None:
        """A waiting prompt enters the open turn."""
        asked = wire.UserInput(
            id=prompt, ts=self.now, content=self._prompts[prompt], turn=self.turn, runtime_input=True
        )
        self.record(PromptTaken(prompt=prompt, turn=self._turn), asked)

    def steps(self) -> None:
        """A model call begins."""
        self.step += 1
        call = wire.LlmCall(id=self.id, ts=self.now, model="m", iteration=self.step)
        self.record(StepStarted(turn=self._turn, step=self.step), call)

    def stepped(self) -> None:
        """That model call ended, with all its tools."""
        self.record(StepEnded(turn=self._turn, step=self.step, finish_reason="stop"))

    def says(self, text: str, role: Literal["user", "assistant", "reasoning", "system"] = "assistant") -> None:
        """A whole message is known."""
        said: list[wire.StreamEvent] = []
        if role == "reasoning":
            said = [wire.Thinking(id=self.id, ts=self.now, kind="reflect", content=text)]
        elif role == "user":
            said = [wire.UserInput(id=self.id, ts=self.now, content=text, turn=self.turn)]
        self.record(MessageAdded(message=self.id, role=role, text=text), *said)

    def calls(self, call: str, tool: str = "search", given: Json = None, *, parent: str | None = None) -> None:
        """A tool begins."""
        called = wire.ToolCall(id=self.id, ts=self.now, tool_id=call, name=tool, args=given)
        self.record(ToolCalled(call=call, tool=tool, input=given, parent=parent), called)

    def ends(self, call: str, result: str = "found", tool: str = "search", *, failed: bool = False) -> None:
        """A tool has its result."""
        told = wire.ToolResult(
            id=self.id,
            ts=self.now,
            tool_id=call,
            name=tool,
            args=None,
            status="error" if failed else "success",
            result=result,
            timing_ms=3,
        )
        self.record(ToolEnded(call=call, tool=tool, status="error" if failed else "ok", output=result), told)

    def over(self, outcome: Outcome = "completed", result: str | None = None) -> None:
        """The turn has its outcome."""
        self.record(TurnEnded(turn=self._turn, outcome=outcome, result=result))

    def short_turn(self, text: str, answer: str) -> None:
        """A whole turn of one answer."""
        self.starts(text)
        self.steps()
        self.says(answer)
        self.stepped()
        self.over(result=answer)

    # What there is to see

    def session(self, **which: bool) -> dict[str, Any]:
        session: dict[str, Any] = json.loads(self.conversation.session(WIRE_ID, **which))
        return session

    def items(self, **which: bool) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.conversation.chat_items(**which))
        return items

    def ids(self) -> list[str]:
        return [item["id"] for item in self.items()]

    @property
    def id(self) -> str:
        """The id of what the next event says."""
        return f"ev-{len(self.log) + 1}"

    @property
    def now(self) -> float:
        return EPOCH / 1000 + len(self.log) + 1

    @property
    def _turn(self) -> str:
        return f"t{self.turn}"
