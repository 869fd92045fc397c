"""What Codex tells of its turn, as facts, in the order that a native turn has (docs/mapping.md rule 6).

A step is one model call: it begins with the first thing that comes of it, and ends once Codex has said how many tokens
it took and every call of it has its result. Ids are ours: nothing that a program says can repeat one.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dragoman.agents.common.fields import count_of, dict_of, dicts_of, text_of
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import TurnLimits
from dragoman.agents.native.step import PARTIAL, record_said
from dragoman.hub.events import (
    LogWritten,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    StepEnded,
    StepStarted,
    TodosChanged,
    UsageReported,
)
from dragoman.hub.events.workspace import Todo
from dragoman.hub.turns import TurnContext

from .codex_calls import Calls

Fields = dict[str, Any]
PartOf = Literal["text", "reasoning"]

PLAN = "plan"
"""``message.added.kind`` of a plan that is put forward."""

_KINDS: dict[str, PartOf] = {"agentMessage": "text", "plan": "text", "reasoning": "reasoning"}
_STATES: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "inProgress": "in_progress",
    "completed": "completed",
}


class _Part(msgspec.Struct):
    """An open part. ``piece`` is where its newest text came from: a blank line tells several of one item apart."""

    id: str
    kind: PartOf
    pieces: list[str] = []
    piece: tuple[str, int] | None = None


class Record:
    """The facts of one round. ``take`` every notification of Codex' own turn, in order."""

    def __init__(self, turn: TurnContext, calls: Calls, *, provider: str, model: str, step: int, limits: TurnLimits):
        self._turn = turn
        self._calls = calls
        self._provider = provider
        self._limits = limits
        self._parts: dict[str, _Part] = {}
        self._open = False
        self._counted = False
        self._chars = self._things = 0
        self._totals: dict[str, int] = {}
        self._others = 0
        self.model = model
        self.step = step - 1
        """The number of the last step that was recorded."""
        self.thread: str | None = None
        """Codex' own id of the conversation, once it is known."""
        self.text: str | None = None
        """The last answer's text."""
        self.plan: str | None = None
        """The plan that was put forward last, if any."""

    def take(self, method: str, params: Fields) -> None:
        """Record what a notification says. Raises ``ProviderFailed`` for more than is taken."""
        item = dict_of(params, "item")
        if method == "item/started":
            self._started(item)
        elif method == "item/completed":
            self._completed(item)
        elif method in _DELTAS:
            self._grew(method, params)
        elif method == "item/commandExecution/outputDelta":
            self._calls.grew(text_of(params, "itemId"), params.get("delta"))
        elif method == "turn/plan/updated":
            self._todos(params)
        elif method == "thread/tokenUsage/updated":
            self._used(params)
        elif method == "model/rerouted":
            self.model = text_of(params, "toModel") or self.model
        elif method in ("warning", "guardianWarning"):
            self.line(text_of(params, "message"), "warning")
        elif method == "error" and params.get("willRetry") is True:
            problem = dict_of(params, "error")
            self.line(text_of(problem, "message"), "warning")

    def spent_elsewhere(self, params: Fields) -> None:
        """Count what another conversation used, which this one had started."""
        last = self._news(params)
        if last is not None:
            self._others += 1
            self._report(last, f"{self._turn.turn}:codex:{self._others}", None, None)

    def known(self, params: Fields) -> None:
        """What was used before this turn is counted already."""
        self._news(params)

    def line(self, text: str | None, level: Literal["info", "warning"]) -> None:
        """A line for the person watching."""
        if text is not None:
            self._turn.record(LogWritten(line=text[:_LINE], level=level, turn=self._turn.turn))

    def turn_ended(self) -> None:
        """Codex' turn is over: nothing more comes of its last step."""
        self._close_parts()
        self._end_step("stop")

    def broken_off(self, problem: Problem | None = None) -> None:
        """It was cut off: what was said stays said, and the step has its end where it failed."""
        self._close_parts()
        if problem is not None:
            self._end_step("error", problem)

    # Items

    def _started(self, item: Fields) -> None:
        kind, item_id = item.get("type"), text_of(item, "id")
        if item_id is None or not isinstance(kind, str):
            return
        part = _KINDS.get(kind)
        if part is not None:
            self._begin(item_id, part)
        elif self._calls.is_call(kind) and not self._calls.knows(item_id):
            self._begin_step()
            self._calls.called(item_id, item)

    def _completed(self, item: Fields) -> None:
        kind, item_id = item.get("type"), text_of(item, "id")
        if item_id is None or not isinstance(kind, str):
            return
        if kind in _KINDS:
            self._finish(item_id, _KINDS[kind], item)
        elif self._calls.is_call(kind):
            self._started(item)
            self._calls.ended(item_id, item)
            self._end_if_complete()
        elif kind == "contextCompaction":
            self.line("Codex shortened its conversation", "info")

    def _begin(self, item_id: str, kind: PartOf) -> _Part:
        """The open part of this item, opened now if it is not yet."""
        part = self._parts.get(item_id)
        if part is not None:
            return part
        self._begin_step()
        part = self._parts[item_id] = _Part(self._turn.session.ids(), kind)
        self._turn.record(PartStarted(turn=self._turn.turn, part=part.id, kind=kind))
        return part

    def _grew(self, method: str, params: Fields) -> None:
        item_id, text = text_of(params, "itemId"), params.get("delta")
        if item_id is None or not isinstance(text, str) or not text:
            return
        kind, index = _DELTAS[method]
        part = self._begin(item_id, kind)
        piece = (method, count_of(params, index) or 0 if index else 0)
        if part.piece is not None and part.piece[0] != method:
            return  # the same thought in other words: what came first is shown
        if part.piece is not None and part.piece != piece:
            text = f"\n\n{text}"
        part.piece = piece
        self._add(part, text)

    def _add(self, part: _Part, text: str) -> None:
        self._chars += len(text)
        if self._chars > self._limits.answer_chars:
            raise ProviderFailed(f"Codex' answer is over its limit of {self._limits.answer_chars} characters")
        part.pieces.append(text)
        self._turn.record(PartDelta(turn=self._turn.turn, part=part.id, kind=part.kind, text=text))

    def _finish(self, item_id: str, kind: PartOf, item: Fields) -> None:
        part = self._begin(item_id, kind)
        said, whole = "".join(part.pieces), _text_of_item(item)
        if whole.startswith(said) and whole != said:
            self._add(part, whole[len(said) :])
        del self._parts[item_id]
        self._turn.record(PartEnded(turn=self._turn.turn, part=part.id, kind=kind))
        text = whole or said
        if not text.strip():
            return
        is_plan = item.get("type") == "plan"
        record_said(self._turn, kind, text, mark=PLAN if is_plan else None)
        if kind == "text":
            self.text = text
        if is_plan:
            self.plan = text
        self._end_if_complete()

    def _close_parts(self) -> None:
        for part in self._parts.values():
            text = "".join(part.pieces)
            self._turn.record(PartEnded(turn=self._turn.turn, part=part.id, kind=part.kind))
            if part.kind == "text" and text.strip():
                record_said(self._turn, "text", text, mark=PARTIAL)
        self._parts.clear()

    # Steps and what they cost

    def _begin_step(self) -> None:
        self._things += 1
        if self._things > self._limits.answer_parts:
            raise ProviderFailed(f"Codex' answer is over its limit of {self._limits.answer_parts} parts")
        if self._open and self._counted and not self._calls.running:
            self._end_step("stop")
        if self._open:
            return
        self._open, self._counted = True, False
        self._chars, self._things = 0, 1
        self.step += 1
        self._turn.record(StepStarted(turn=self._turn.turn, step=self.step, provider=self._provider, model=self.model))

    def _used(self, params: Fields) -> None:
        last = self._news(params)
        if last is None:
            return
        self._begin_step()
        self._counted = True
        self._report(last, f"{self._turn.turn}:{self.step}", self.step, _cap(count_of(last, "totalTokens")))
        self._end_if_complete()

    def _news(self, params: Fields) -> Fields | None:
        """What the newest model call used; None when that was told before: Codex repeats its counts."""
        thread, usage = text_of(params, "threadId") or "", dict_of(params, "tokenUsage")
        total, last = count_of(dict_of(usage, "total"), "totalTokens"), dict_of(usage, "last")
        if total is None or self._totals.get(thread) == total:
            return None
        self._totals[thread] = total
        return last

    def _report(self, last: Fields, message: str, step: int | None, conversation: int | None) -> None:
        self._turn.record(
            UsageReported(
                message=message,
                turn=self._turn.turn,
                step=step,
                model=self.model,
                input_tokens=_cap(count_of(last, "inputTokens")),
                output_tokens=_cap(count_of(last, "outputTokens")),
                reasoning_tokens=_cap(count_of(last, "reasoningOutputTokens")),
                cached_tokens=_cap(count_of(last, "cachedInputTokens")),
                conversation_tokens=conversation,
            )
        )

    def _end_if_complete(self) -> None:
        if self._open and self._counted and not self._calls.running and not self._parts:
            self._end_step("tool_calls" if self._calls.made else "stop")

    def _end_step(self, reason: str, problem: Problem | None = None) -> None:
        if not self._open:
            return
        self._open = False
        self._calls.made = False
        metadata = None if self.thread is None else {"agent_session": self.thread}
        self._turn.record(
            StepEnded(
                turn=self._turn.turn,
                step=self.step,
                finish_reason=reason,
                problem=problem,
                provider_metadata=metadata,
            )
        )

    def _todos(self, params: Fields) -> None:
        todos = tuple(
            Todo(content=step, status=_STATES.get(str(entry.get("status")), "pending"), active_form=step)
            for entry in dicts_of(params.get("plan"))
            if (step := text_of(entry, "step")) is not None
        )
        self._turn.record(TodosChanged(todos=todos, turn=self._turn.turn))


_LINE = 2_000
"""Characters of a line for the person watching."""

_DELTAS: dict[str, tuple[PartOf, str | None]] = {
    "item/agentMessage/delta": ("text", None),
    "item/plan/delta": ("text", None),
    "item/reasoning/summaryTextDelta": ("reasoning", "summaryIndex"),
    "item/reasoning/textDelta": ("reasoning", "contentIndex"),
}


def _text_of_item(item: Fields) -> str:
    """The whole text of a message, a plan, or a thought: its summary where there is one."""
    text = item.get("text")
    if isinstance(text, str):
        return text
    for name in ("summary", "content"):
        pieces = item.get(name)
        if isinstance(pieces, list) and pieces:
            return "\n\n".join(piece for piece in pieces if isinstance(piece, str))
    return ""


def _cap(count: int | None) -> int | None:
    """A count of tokens that can be one."""
    return count if count is not None and count < _MOST_TOKENS else None


_MOST_TOKENS = 10**9
