"""One message of Claude Code's model, as it streams: a step of the turn, with its parts, its calls and its cost.

A block is told of twice: piece by piece (``stream_event``), and as a whole (``assistant``), which may come before the
piece that ends it. Whichever is first ends the part. A message that did not stream has wholes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.agents.common.fields import count_of, dict_of, text_of, total
from dragoman.agents.native.calls import shown_input
from dragoman.agents.native.history import as_text
from dragoman.agents.native.providers.error_answers import DEEPEST, nests_deeper
from dragoman.agents.native.providers.port import ProviderFailed
from dragoman.agents.native.settings import TurnLimits
from dragoman.agents.native.step import PARTIAL, record_said
from dragoman.hub.events import (
    Json,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    StepEnded,
    StepStarted,
    UsageReported,
)
from dragoman.hub.events.stream import PartKind
from dragoman.hub.events.tools import Executor
from dragoman.hub.turns import TurnContext

OnCall = Callable[[str, str, Json, Executor], None]
"""Is told of a complete call: its id here, the tool, its input, and who runs it."""

_KINDS: dict[str, PartKind] = {
    "text": "text",
    "thinking": "reasoning",
    "tool_use": "tool_input",
    "server_tool_use": "tool_input",
}
_TEXTS = {"text": "text", "reasoning": "thinking"}
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}


class _Block:
    """One block of the message: ``part`` is its id in the log, ``told`` says that its whole has come."""

    def __init__(self, kind: PartKind, part: str, tool: str | None, executor: Executor | None) -> None:
        self.kind = kind
        self.part = part
        self.tool = tool
        self.executor: Executor | None = executor
        self.pieces: list[str] = []
        self.open = True
        self.told = False


class ClaudeStep:
    """See the module. ``opening`` and ``id_of`` give the ids here of the program's calls, ``on_call`` is told of
    complete ones."""

    def __init__(
        self,
        turn: TurnContext,
        number: int,
        message: str,
        model: str | None,
        *,
        provider: str,
        limits: TurnLimits,
        opening: Callable[[str], str],
        id_of: Callable[[str], str],
        on_call: OnCall,
    ) -> None:
        self._turn = turn
        self._number = number
        self.message = message
        """The message's id at its provider."""
        self._model = model
        self._limits = limits
        self._chars = 0
        self._opening = opening
        self._id_of = id_of
        self._on_call = on_call
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None
        self._texts: list[str] = []
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        turn.record(StepStarted(turn=turn.turn, step=number, provider=provider, model=model))

    @property
    def text(self) -> str:
        """All that was said in it."""
        return "".join(self._texts)

    def stream(self, event: dict[str, Any]) -> None:
        """One event of the model's API. Raises ``ProviderFailed`` for an answer without end, as ``whole`` does."""
        index = count_of(event, "index")
        match event.get("type"):
            case "message_start":
                self._count(dict_of(dict_of(event, "message"), "usage"))
            case "message_delta":
                self._count(dict_of(event, "usage"))
                self._stop = text_of(dict_of(event, "delta"), "stop_reason") or self._stop
            case "content_block_start" if index is not None:
                block = self._opened(dict_of(event, "content_block"))
                if block is not None:
                    self._by_index[index] = block
            case "content_block_delta" if index in self._by_index:
                self._grew(self._by_index[index], dict_of(event, "delta"))
            case "content_block_stop" if index in self._by_index:
                self._close(self._by_index[index])
            case _:
                pass

    def whole(self, message: dict[str, Any], block: dict[str, Any], *, aborted: bool = False) -> None:
        """A block as a whole; ``aborted`` when it was cut off there."""
        if not self._usage:
            self._count(dict_of(message, "usage"))
        self._stop = text_of(message, "stop_reason") or self._stop
        known = self._untold(block) or self._opened(block)
        if known is None:
            return
        known.told = True
        text = block.get(_TEXTS.get(known.kind, ""))
        self._close(known, text if isinstance(text, str) else None, block.get("input"), partial=aborted)

    def end(self, metadata: dict[str, Json], *, cost: float | None = None, problem: Problem | None = None) -> None:
        """End it: what is still open was cut off; then its tokens, once, and its end."""
        for block in self._blocks:
            self._close(block, partial=True)
        # Not by the message's own id: a stand-in for the vendor's API may give the same one again in another turn.
        name = f"{self._turn.turn}:{self._number}"
        usage = usage_report(name, self._usage, turn=self._turn.turn, model=self._model)
        if usage is not None or cost is not None:
            usage = usage or UsageReported(message=name, turn=self._turn.turn, model=self._model)
            self._turn.record(msgspec.structs.replace(usage, step=self._number, cost_usd=cost))
        reason = "error" if problem else _REASONS.get(self._stop or "", "other")
        self._turn.record(
            StepEnded(
                turn=self._turn.turn,
                step=self._number,
                finish_reason=reason,
                raw_finish_reason=self._stop,
                response={"id": self.message, "model": self._model},
                problem=problem,
                provider_metadata=metadata or None,
            )
        )

    # Inside

    def _count(self, usage: dict[str, Any]) -> None:
        self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _untold(self, block: dict[str, Any]) -> _Block | None:
        """The part that this whole is about: the call with its id, or the first of its kind that has not had one."""
        kind = _KINDS.get(str(block.get("type")))
        if kind == "tool_input":
            part = self._id_of(text_of(block, "id") or "")
            return next((known for known in self._blocks if known.part == part), None)
        return next((known for known in self._blocks if known.kind == kind and not known.told), None)

    def _opened(self, block: dict[str, Any]) -> _Block | None:
        sort = str(block.get("type"))
        kind = _KINDS.get(sort)
        if kind is None:
            return None
        calls = kind == "tool_input"
        part = self._opening(text_of(block, "id") or "") if calls else self._turn.session.ids()
        tool = (text_of(block, "name") or "") if calls else None
        executor: Executor | None = ("provider" if sort == "server_tool_use" else "agent") if calls else None
        opened = _Block(kind, part, tool, executor)
        if len(self._blocks) >= self._limits.answer_parts:
            raise _too_much(f"{self._limits.answer_parts} parts")
        self._blocks.append(opened)
        self._turn.record(PartStarted(turn=self._turn.turn, part=part, kind=kind, tool=tool, executor=executor))
        return opened

    def _grew(self, block: _Block, delta: dict[str, Any]) -> None:
        piece = delta.get(_PIECES.get(str(delta.get("type")), ""))
        if block.open and isinstance(piece, str) and piece:
            self._add(block, piece)

    def _add(self, block: _Block, piece: str) -> None:
        self._chars += len(piece)
        if self._chars > self._limits.answer_chars:
            raise _too_much(f"{self._limits.answer_chars} characters")
        block.pieces.append(piece)
        self._turn.record(PartDelta(turn=self._turn.turn, part=block.part, kind=block.kind, text=piece))

    def _close(self, block: _Block, whole: str | None = None, given: Json = None, *, partial: bool = False) -> None:
        """End a part, once, and tell what it was."""
        if not block.open:
            return
        block.open = False
        said = "".join(block.pieces)
        if whole is not None and whole != said and whole.startswith(said):
            self._add(block, whole[len(said) :])
        self._turn.record(PartEnded(turn=self._turn.turn, part=block.part, kind=block.kind))
        if block.kind != "tool_input":
            self._said(block.kind, said if whole is None else whole, partial=partial)
        elif given is not None or not partial:
            self._on_call(block.part, block.tool or "", _input(given, said), block.executor or "agent")

    def _said(self, kind: PartKind, text: str, *, partial: bool) -> None:
        if not text or (partial and kind != "text"):
            return
        if kind == "text":
            self._texts.append(text)
        record_said(self._turn, kind, text, mark=PARTIAL if partial else None)


def _too_much(limit: str) -> ProviderFailed:
    return ProviderFailed(f"the model's answer is over its limit of {limit}")


def usage_report(
    message: str, usage: dict[str, Any], *, turn: str, model: str | None, aside: bool = False
) -> UsageReported | None:
    """The tokens of one message as the API counts them; None where it said nothing of them.

    ``aside``: a sub-agent's, of which only the beginning of the count is told, so it is marked as estimated.
    """
    cached = count_of(usage, "cache_read_input_tokens")
    stored = count_of(usage, "cache_creation_input_tokens")
    read = total(count_of(usage, "input_tokens"), cached, stored)
    written = count_of(usage, "output_tokens")
    if read is None and written is None:
        return None
    return UsageReported(
        message=message,
        turn=turn,
        model=model,
        input_tokens=read,
        output_tokens=written,
        reasoning_tokens=count_of(dict_of(usage, "output_tokens_details"), "thinking_tokens"),
        cached_tokens=cached,
        cache_write_tokens=stored,
        conversation_tokens=None if aside else total(read, written),
        estimated=aside,
    )


def _input(given: Json, said: str) -> Json:
    """A call's input: the whole where it came, else what streamed."""
    if given in (None, {}):
        return shown_input(said) if said else {}
    return as_text(given) if nests_deeper(given, DEEPEST) else given
