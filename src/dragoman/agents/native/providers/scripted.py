"""The scripted model: says exactly what the prompt tells it to. For tests and benchmarks; no key, no network.

A prompt whose first line is ``#script`` holds the answers of its turn, parted by lines of ``---``. Each line of an
answer is one step:

======================  ====================================================================================
``say TEXT``            a text part, word by word (``\\n`` stands for a new line)
``think TEXT``          a reasoning part
``call TOOL JSON``      a tool call; JSON may be invalid on purpose
``deltas N``            one text part of N deltas, as fast as they go
``pause MS``            wait
``wait``                wait until the turn is cancelled
``raw JSON``            an event as a provider's own, where raw parts are wanted
``usage IN OUT``        tokens of this call (without it, none are reported)
``finish REASON``       end with this reason
``fail CAUSE TEXT``     fail with this cause; ``fail CAUSE? TEXT`` may be tried again
======================  ====================================================================================

Any other prompt is answered with an echo. When a turn goes on beyond its script, the answer is ``done``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import get_args

import msgspec

from .conversation import ENDINGS, AssistantMessage, Message, ModelRequest, UserMessage
from .port import (
    CallMade,
    Cause,
    Finished,
    FinishReason,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderFailed,
    RawReceived,
    Spent,
    StreamEvent,
)

MODEL = "scripted"
HEAD = "#script"


class Scripted:
    """See the module."""

    name = "scripted"
    searches = False

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        """The answer that is due. Raises ``ProviderFailed`` where the script says so, or is none."""
        lines, number = _due(request.messages)
        finish: FinishReason | None = None
        called = False
        for place, line in enumerate(lines):
            word, _, rest = line.partition(" ")
            if word == "finish":
                finish = _reason(rest)
            elif word != "raw" or raw:
                called = called or word == "call"
                async for event in _play(word, rest, f"{number}-{place}"):
                    yield event
        yield Finished(finish or ("tool_calls" if called else "stop"), "scripted")

    async def close(self) -> None:
        """There is no connection."""


def _due(messages: Sequence[Message]) -> tuple[list[str], int]:
    """The lines of the answer that is due, and which one it is."""
    answered = 0
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            answered += 1
        elif isinstance(message, UserMessage):
            if answers := _answers(message.text):
                return (answers[answered] if answered < len(answers) else ["say done"]), answered
            if _is_over(message.text.splitlines()):
                break
    said = next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")
    return ["say " + f"You said: {said}".replace("\n", "\\n")], answered


def _answers(text: str) -> list[list[str]]:
    """The newest script in a text; none when there is none, or it is over.

    People's messages in a row are joined, and what is said of a turn that ended badly stands between them.
    """
    lines = text.splitlines()
    if HEAD not in lines:
        return []
    newest = len(lines) - 1 - lines[::-1].index(HEAD)
    if _is_over(lines[newest + 1 :]):
        return []
    answers: list[list[str]] = [[]]
    for line in lines[newest + 1 :]:
        if line.strip() == "---":
            answers.append([])
        elif line.strip():
            answers[-1].append(line.strip())
    return answers


def _is_over(lines: Sequence[str]) -> bool:
    """Whether the turn before these lines ended badly, and its script with it."""
    return any(line in ENDINGS.values() for line in lines)


async def _play(word: str, rest: str, place: str) -> AsyncGenerator[StreamEvent, None]:
    if word in ("say", "think"):
        for event in _part("text" if word == "say" else "reasoning", f"{word}-{place}", _words(rest)):
            yield event
    elif word == "deltas":
        for event in _part("text", f"deltas-{place}", [f"delta {n} " for n in range(int(rest))]):
            yield event
    elif word == "call":
        for event in _call(rest, f"call-{place}"):
            yield event
    elif word == "pause":
        await asyncio.sleep(float(rest) / 1000)
    elif word == "wait":
        await asyncio.get_running_loop().create_future()
    elif word == "raw":
        yield RawReceived(msgspec.json.decode(rest), "scripted")
    elif word == "usage":
        given, _, said = rest.partition(" ")
        yield Spent(int(given), int(said))
    elif word == "fail":
        raise _failure(rest)
    else:
        raise ProviderFailed(f"the script has an unknown step: {word}", cause="invalid_request")


def _part(kind: str, part: str, pieces: Sequence[str]) -> list[StreamEvent]:
    grown = [PartGrew(part, piece) for piece in pieces if piece]
    return [PartOpened(part, kind), *grown, PartClosed(part)]  # type: ignore[arg-type]


def _call(rest: str, call: str) -> list[StreamEvent]:
    tool, _, arguments = rest.partition(" ")
    grown = [PartGrew(call, arguments)] if arguments else []
    return [PartOpened(call, "tool_input", tool), *grown, PartClosed(call), CallMade(call, tool, arguments or "{}")]


def _words(text: str) -> list[str]:
    head, *rest = text.replace("\\n", "\n").split(" ")
    return [head, *(f" {word}" for word in rest)]


def _reason(text: str) -> FinishReason:
    if text not in get_args(FinishReason):
        raise ProviderFailed(f"the script ends with an unknown reason: {text}", cause="invalid_request")
    return text  # type: ignore[return-value]


def _failure(rest: str) -> ProviderFailed:
    cause, _, text = rest.partition(" ")
    retryable, cause = cause.endswith("?"), cause.removesuffix("?")
    if cause not in get_args(Cause):
        raise ProviderFailed(f"the script fails with an unknown cause: {cause}", cause="invalid_request")
    return ProviderFailed(text or "scripted", cause=cause, retryable=retryable)  # type: ignore[arg-type]
