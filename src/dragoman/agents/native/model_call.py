"""One model call: streamed, tried again where that can help, and put together to an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from dragoman.hub.events.stream import PartKind

from .providers.conversation import AssistantMessage, Call, ModelRequest, Reasoning, Text
from .providers.port import (
    CallMade,
    Cited,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    Provider,
    ProviderCallEnded,
    ProviderFailed,
    RawReceived,
    Spent,
    StreamEvent,
)
from .settings import TurnLimits

log = logging.getLogger("dragoman.native")

OnEvent = Callable[[StreamEvent], Awaitable[None]]
OnRetry = Callable[[ProviderFailed, float], None]


class Answer:
    """What a stream has said so far. ``take`` every event of it, in order."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.calls: list[CallMade] = []
        self.spent = Spent()
        self.finished: Finished | None = None
        self._parts: list[Text | Reasoning | Call] = []
        self._open: dict[str, tuple[PartKind, list[str]]] = {}

    def take(self, event: StreamEvent) -> None:
        """Take one event in."""
        if isinstance(event, PartGrew):
            self._open[event.part][1].append(event.text)
        elif isinstance(event, PartOpened):
            self._open[event.part] = (event.kind, [])
        elif isinstance(event, PartClosed):
            self._close(event)
        elif isinstance(event, CallMade):
            self.calls.append(event)
            self._parts.append(Call(event.call, event.tool, event.arguments, event.metadata))
        elif isinstance(event, Spent):
            self.spent = event
        elif isinstance(event, Finished):
            self.finished = event

    def text_of(self, part: str) -> str:
        """The text of an open part so far."""
        return "".join(self._open[part][1])

    def kind_of(self, part: str) -> PartKind:
        """The kind of an open part."""
        return self._open[part][0]

    @property
    def open_parts(self) -> list[str]:
        """The parts that were not closed."""
        return list(self._open)

    @property
    def text(self) -> str:
        """All that was said in closed text parts."""
        return "".join(part.text for part in self._parts if isinstance(part, Text))

    @property
    def message(self) -> AssistantMessage:
        """The answer as a message of the conversation. Inputs of calls are still text."""
        return AssistantMessage(tuple(self._parts), self.provider)

    def _close(self, event: PartClosed) -> None:
        kind, pieces = self._open.pop(event.part)
        text = "".join(pieces)
        if kind == "text" and text:
            self._parts.append(Text(text, event.metadata))
        elif kind == "reasoning" and (text or event.metadata is not None):
            self._parts.append(Reasoning(text, event.metadata))


class _Measure:
    """How much an answer is: there is no telling what a server sends."""

    def __init__(self, limits: TurnLimits) -> None:
        self._limits = limits
        self._chars = 0
        self._parts = 0

    def take(self, event: StreamEvent) -> None:
        """Count one event in. Raises ``ProviderFailed`` for one too many."""
        if isinstance(event, PartGrew):
            self._chars += len(event.text)
        elif isinstance(event, PartOpened):
            self._chars += len(event.part) + len(event.tool or "")
            self._parts += 1
        elif isinstance(event, Cited | ProviderCallEnded):
            self._parts += 1
        else:
            return
        if self._chars > self._limits.answer_chars:
            raise _too_much(f"{self._limits.answer_chars} characters (native.turn.answer_chars)")
        if self._parts > self._limits.answer_parts:
            raise _too_much(f"{self._limits.answer_parts} parts (native.turn.answer_parts)")


class _Promise:
    """What the port promises of a stream's order, held to: whoever takes the events relies on it."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._open: set[str] = set()
        self._closed: set[str] = set()
        self._made: set[str] = set()
        self._finished = False

    def take(self, event: StreamEvent) -> None:
        """Hold one event to it. Raises ``ProviderFailed``."""
        if self._finished:
            raise self._broken("something came after the end")
        if isinstance(event, PartGrew):
            self._demand(event.part in self._open, "a part grew that was not open")
        elif isinstance(event, PartOpened):
            self._demand(event.part not in self._open | self._closed, "a part was opened twice")
            self._open.add(event.part)
        elif isinstance(event, PartClosed):
            self._demand(event.part in self._open, "a part was closed that was not open")
            self._open.remove(event.part)
            self._closed.add(event.part)
        elif isinstance(event, CallMade):
            self._demand(event.call in self._closed, "a call was made whose input was not complete")
            self._demand(event.call not in self._made, "a call was made twice")
            self._made.add(event.call)
        elif isinstance(event, Finished):
            self._demand(not self._open, "it ended while a part was open")
            self._finished = True

    def end(self) -> None:
        """The stream ended of itself. Raises ``ProviderFailed``."""
        self._demand(self._finished, "it had no end")

    def _demand(self, kept: bool, otherwise: str) -> None:
        if not kept:
            raise self._broken(otherwise)

    def _broken(self, how: str) -> ProviderFailed:
        log.error("the adapter of %s broke the port's promise: %s", self._provider, how)
        return ProviderFailed(f"the answer of {self._provider} was not understood: {how}")


def _too_much(limit: str) -> ProviderFailed:
    return ProviderFailed(f"the model's answer is over its limit of {limit}")


async def call_model(
    provider: Provider,
    request: ModelRequest,
    limits: TurnLimits,
    *,
    on_event: OnEvent,
    on_retry: OnRetry,
    raw: bool = False,
) -> None:
    """Stream one model call to ``on_event``. Raises ``ProviderFailed`` once no further try can help.

    A call that showed something is never tried again: what was said cannot be unsaid, and a tool may run already.
    What a try left open without having shown anything is for ``on_retry`` to close.
    """
    tried = 0
    while True:
        shown = False
        measure = _Measure(limits)
        promise = _Promise(provider.name)
        try:
            async with aclosing(provider.stream(request, raw=raw)) as stream:
                async for event in stream:
                    if not isinstance(event, RawReceived):
                        shown = shown or _shows(event)
                        measure.take(event)
                        promise.take(event)
                        event = _storable(event)  # noqa: PLW2901
                    await on_event(event)
                promise.end()
        except ProviderFailed as failure:
            delay = _delay(failure, tried, limits)
            if shown or delay is None:
                raise
            on_retry(failure, delay)
            await asyncio.sleep(delay)
            tried += 1
        else:
            return


def _shows(event: StreamEvent) -> bool:
    """Whether something was said. A text that only was announced is none yet."""
    if isinstance(event, PartOpened):
        return event.kind != "text"
    return True


def _storable(event: StreamEvent) -> StreamEvent:
    """The event without half characters, which a model may spell in JSON and no log can keep. ASCII has none.

    Raw ones, of which each comes beside what it says, are for whoever keeps them.
    """
    if isinstance(event, PartGrew) and event.text.isascii() and event.part.isascii():
        return event
    try:
        msgspec.json.encode(event)
    except UnicodeEncodeError:
        fields = {name: whole(getattr(event, name)) for name in event.__struct_fields__}
        return msgspec.structs.replace(event, **fields)
    except (RecursionError, TypeError, ValueError):
        return event  # what else cannot be kept is for whoever records it
    return event


def whole(value: Any) -> Any:
    """A JSON value without half characters."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [whole(each) for each in value]
    if isinstance(value, dict):
        return {whole(name): whole(each) for name, each in value.items()}
    return value


def _delay(failure: ProviderFailed, tried: int, limits: TurnLimits) -> float | None:
    """Seconds until the next try; None when there is none."""
    if not failure.retryable or tried >= limits.retries:
        return None
    asked = failure.retry_after or 0.0
    if asked > limits.retry_longest:
        return None
    return max(limits.retry_first * float(2**tried), asked)
