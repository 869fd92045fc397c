"""A session's log, told fact by fact to the conversation that is to be tested."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from dragoman.dialects.onion.conversation import Conversation
from dragoman.dialects.onion.projection import Projection
from dragoman.hub.events import (
    AnyFact,
    Attachment,
    Event,
    Json,
    MessageAdded,
    Outcome,
    Problem,
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
from dragoman.hub.events.tools import ToolStatus

EPOCH = 1_700_000_000_000
"""When the log begins, in milliseconds; each event is a second later than the one before."""

WIRE_ID = b'"s"'


class Talk:
    """Records facts, and asks what there is to see of them. What they add to the trace the projection says."""

    def __init__(self, *, trace_entries: int = 1000) -> None:
        self.conversation = Conversation(trace_entries=trace_entries)
        self.log: list[tuple[Event, tuple[bytes, ...]]] = []
        self.turn = 0
        self.step = 0
        self.open: str | None = None
        self._projection = Projection()
        self.record(SessionCreated(kind="native", agent="test", cwd="/", title="", owner="onion:anonymous"))

    # What happens

    def record(self, fact: AnyFact, *, said: Sequence[bytes] | None = None, at: int | None = None) -> None:
        """``fact`` happens (``at`` milliseconds since 1970). ``said`` takes the place of what it adds to the trace."""
        seq = len(self.log) + 1
        event = Event(seq, EPOCH + 1000 * seq if at is None else at, "epoch", fact)
        traced = tuple(each.body for each in self._projection.project(event) if each.traced)
        self.log.append((event, traced if said is None else tuple(said)))
        self.conversation.take(*self.log[-1])

    def submits(self, text: str, *, content: str | None = None, files: Sequence[Attachment] = ()) -> str:
        """A prompt waits; its id."""
        prompt = f"p{len(self.log)}"
        self.record(
            PromptSubmitted(
                prompt=prompt, text=text, content=content, attachments=tuple(files), by="o", via="onion", steer=True
            )
        )
        return prompt

    def starts(self, text: str, *, content: str | None = None, files: Sequence[Attachment] = ()) -> None:
        """A turn begins with this prompt."""
        prompt = self.submits(text, content=content, files=files)
        self.turn, self.step = self.turn + 1, 0
        self.open = f"t{self.turn}"
        self.record(TurnStarted(turn=self.open, prompt=prompt))

    def takes(self, prompt: str) -> None:
        """A waiting prompt enters the open turn."""
        self.record(PromptTaken(prompt=prompt, turn=self._turn))

    def steps(self) -> None:
        """A model call begins."""
        self.step += 1
        self.record(StepStarted(turn=self._turn, step=self.step, model="m"))

    def stepped(self) -> None:
        """That model call ended, with all its tools."""
        self.record(StepEnded(turn=self._turn, step=self.step, finish_reason="stop"))

    def says(self, text: str, role: Literal["user", "assistant", "reasoning", "system"] = "assistant") -> None:
        """A whole message is known."""
        self.record(MessageAdded(message=f"m{len(self.log)}", role=role, text=text, turn=self.open))

    def calls(self, call: str, tool: str = "search", given: Json = None, *, parent: str | None = None) -> None:
        """A tool begins."""
        self.record(ToolCalled(call=call, tool=tool, input=given, parent=parent, turn=self.open))

    def ends(self, call: str, result: str = "found", tool: str = "search", problem: Problem | None = None) -> None:
        """A tool has its result."""
        status: ToolStatus = "ok" if problem is None else "error"
        self.record(
            ToolEnded(
                call=call, tool=tool, status=status, output=result, problem=problem, turn=self.open, duration_ms=3
            )
        )

    def over(self, outcome: Outcome = "completed", result: str | None = None) -> None:
        """The turn has its outcome."""
        self.record(TurnEnded(turn=self._turn, outcome=outcome, result=result))
        self.open = None

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
    def _turn(self) -> str:
        assert self.open is not None
        return self.open
