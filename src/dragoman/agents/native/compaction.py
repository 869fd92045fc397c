"""Shortening a conversation that grows beyond its model: the older part is summed up, the newest stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from dragoman.hub.events import AnyFact, Compacted, UsageReported

from .model_call import Answer, call_model
from .pictures import with_named_pictures
from .providers.conversation import (
    AssistantMessage,
    Message,
    ModelRequest,
    Reasoning,
    Text,
    ToolMessage,
    UserMessage,
)
from .providers.port import Provider, ProviderFailed, StreamEvent
from .settings import NativeSettings
from .tokens import count_messages
from .usage import Meter

STRATEGY = "summary"

LONGEST_RESULT = 2_000
"""Characters of one tool result that the summary is made of; the whole may be what does not fit."""

_INSTRUCTIONS = """\
Sum up this conversation between a person and an agent, for the agent to go on from: it will see your summary in place \
of the conversation. Keep: what the person wants and has decided, in their words where the words matter; what was done \
and with what result; files, commands, names and values that are needed later; what is under way; what is left to do. \
Leave out what no longer matters. Answer with the summary alone."""


class Compactor(msgspec.Struct, frozen=True):
    """What a compaction needs of the session that it shortens. ``record`` appends to its log."""

    provider: Provider
    model: str
    meter: Meter
    settings: NativeSettings
    record: Callable[[AnyFact], object]
    ids: Callable[[], str]

    async def compact(
        self, messages: Sequence[Message], *, window: int, tokens: int, reason: str, turn: str | None = None
    ) -> bool:
        """Sum up all but the newest of ``messages``; False, and nothing changed, when it failed or there is nothing to.

        ``reason`` is ``threshold``, ``too_long`` or ``manual``.
        """
        kept = await asyncio.to_thread(newest, messages, round(window * self.settings.context.keep))
        older = messages[: len(messages) - kept]
        if not older:
            return False
        begun = Compacted(
            compaction=self.ids(),
            phase="started",
            turn=turn,
            reason=reason,
            strategy=STRATEGY,
            tokens_before=tokens,
            messages_before=len(messages),
            context_window=window,
        )
        self.record(begun)
        try:
            summary = await self._summary(older, begun)
        except ProviderFailed as failure:
            self.record(msgspec.structs.replace(begun, phase="failed", problem=str(failure)))
            return False
        except asyncio.CancelledError:
            self.record(msgspec.structs.replace(begun, phase="failed", problem="cancelled"))
            raise
        left = (UserMessage(summary), *messages[len(messages) - kept :])
        after = await asyncio.to_thread(count_messages, left)
        self.record(
            msgspec.structs.replace(begun, phase="done", tokens_after=after, messages_after=len(left), summary=summary)
        )
        return True

    async def _summary(self, older: Sequence[Message], begun: Compacted) -> str:
        request = ModelRequest(
            model=self.model,
            system=_INSTRUCTIONS,
            messages=(UserMessage(transcript(older)),),
            max_output_tokens=self.settings.turn.output_tokens,
            reasoning=False,
        )
        answer = Answer(self.provider.name)

        async def take(event: StreamEvent) -> None:
            answer.take(event)

        await call_model(
            self.provider, request, self.settings.turn, on_event=take, on_retry=lambda _failure, _delay: None
        )
        usage: UsageReported = await self.meter.measure(request, answer)
        self.record(msgspec.structs.replace(usage, message=begun.compaction, turn=begun.turn, conversation_tokens=None))
        if not answer.text.strip():
            raise ProviderFailed("the model gave no summary")
        return answer.text.strip()


def newest(messages: Sequence[Message], budget: int) -> int:
    """How many of the newest messages stay: as many as ``budget`` tokens hold, beginning with a user's. Blocks.

    A conversation is only ever cut before something a person said, so that no result is parted from its call. The
    newest such place is taken even if more than the budget lies behind it, unless that would leave nothing to sum up.
    """
    starts = [place for place, message in enumerate(messages) if isinstance(message, UserMessage) and place > 0]
    held = 0
    for place in reversed(starts):
        if held and count_messages(messages[place:]) > budget:
            break
        if not held and count_messages(messages[place:]) > 2 * budget:
            break
        held = len(messages) - place
    return held


def transcript(messages: Sequence[Message]) -> str:
    """A conversation as text for the model that sums it up."""
    return "\n\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> list[str]:
    if isinstance(message, UserMessage):
        return [f"PERSON: {with_named_pictures(message)}"]
    if isinstance(message, ToolMessage):
        text = message.text
        if len(text) > LONGEST_RESULT:
            text = f"{text[:LONGEST_RESULT]}… [{len(message.text) - LONGEST_RESULT} more characters]"
        return [f"RESULT of {message.tool}: {with_named_pictures(message, text)}"]
    return _answer_lines(message)


def _answer_lines(message: AssistantMessage) -> list[str]:
    lines = []
    for part in message.parts:
        if isinstance(part, Text):
            lines.append(f"AGENT: {part.text}")
        elif not isinstance(part, Reasoning):
            lines.append(f"AGENT CALLS {part.tool}: {part.input}")
    return lines
