"""What the model is told of a session so far: a fold of its log, valid whatever happened (invariant 6).

A turn may have been cancelled, failed, or lost with its server at any point. The conversation built here is valid all
the same: each call has one result, in the order of the calls, right after the message that made them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.hub.artifacts import is_artifact
from dragoman.hub.events import (
    ArtifactStored,
    Compacted,
    ContextReported,
    Event,
    HistoryCall,
    HistoryMerged,
    HistoryMessage,
    HistoryReset,
    Json,
    MessageAdded,
    PromptSubmitted,
    PromptTaken,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolEnded,
    TurnEnded,
    TurnStarted,
)

from .providers.conversation import (
    ENDINGS,
    AssistantMessage,
    Call,
    Message,
    Picture,
    Reasoning,
    Text,
    ToolMessage,
    UserMessage,
)

MODEL_TEXT = "model_text"
"""Key in ``tool.ended.detail``: what the model gets instead of the output."""

NO_RESULT = "The call was cut off; it is not known whether it had any effect."
"""What stands for a result that nobody recorded."""

LONGEST_NAME = 64
"""Characters of a tool's name that every provider takes."""

_NOTES = frozenset(ENDINGS.values())

_UNSPEAKABLE = re.compile(r"[^A-Za-z0-9_-]")


class Known(msgspec.Struct, frozen=True):
    """A program's own conversation: its id, what its last step said of it, and how much of this one it knows."""

    agent_session: str
    metadata: dict[str, Json]
    entries: int


class _Answer:
    """One answer of the model, with the results of its calls as they come."""

    def __init__(self, provider: str | None) -> None:
        self.provider = provider
        self.parts: list[Text | Reasoning | Call] = []
        """They only grow, and so do the results."""
        self.results: dict[str, ToolMessage] = {}
        self._made: tuple[Message, ...] = ()
        self._made_of = (0, 0)
        """How many parts and results ``_made`` was made of: all but the newest answer stay as they are."""

    def messages(self) -> tuple[Message, ...]:
        made_of = (len(self.parts), len(self.results))
        if made_of != self._made_of:
            self._made, self._made_of = tuple(self._make()), made_of
        return self._made

    def _make(self) -> Iterable[Message]:
        # Thoughts alone, of an answer that was broken off, are nothing that any provider would take back.
        if all(isinstance(part, Reasoning) for part in self.parts):
            return
        answer = AssistantMessage(tuple(self.parts), self.provider)
        yield answer
        for call in answer.calls:
            yield self.results.get(call.call) or ToolMessage(call.call, call.tool, NO_RESULT, failed=True)


class Conversation:
    """The fold. Feed it every event of the log, in order; ask ``messages`` whenever they are needed."""

    def __init__(self) -> None:
        self.cursor = 0
        """The ``seq`` of the last event taken in."""
        self.reported: dict[str, Json] = {}
        """What ``context.reported`` said last, by part."""
        self.calls: set[str] = set()
        """The ids of all calls there ever were; an id means one call in the whole log."""
        self._entries: list[UserMessage | _Answer] = []
        self._waiting: dict[str, PromptSubmitted] = {}
        self._open_calls: dict[str, _Answer] = {}
        self._current: _Answer | None = None
        self._compacting = 0
        self._asked: str | None = None
        self._known: dict[str, Known] = {}
        self._stored: dict[str, Picture] = {}
        """All pictures that ever came."""

    def take(self, events: Iterable[Event]) -> None:
        """Fold events in."""
        for event in events:
            self.cursor = event.seq
            fold = _FOLDS.get(type(event.fact))
            if fold is not None:
                fold(self, event.fact)

    def messages(self) -> tuple[Message, ...]:
        """The conversation as a provider may be given it; users' messages in a row are joined."""
        return _joined(self._entries)

    def known(self, provider: str) -> Known | None:
        """The own conversation of the program that is this provider, if it may go on with it."""
        return self._known.get(provider)

    def unknown_to(self, provider: str | None, *, before: int) -> tuple[Message, ...]:
        """What that program does not know yet, but for the newest ``before`` prompts; all of it to one that is None.

        How its own turns ended it saw itself.
        """
        known = self._known.get(provider) if provider is not None else None
        entries = self._entries[known.entries if known else 0 : len(self._entries) - before]
        if known and all(isinstance(entry, UserMessage) and entry.text in _NOTES for entry in entries):
            return ()
        return _joined(entries)

    # What each fact does to it

    def _submitted(self, fact: PromptSubmitted) -> None:
        self._waiting[fact.prompt] = fact

    def _turn_started(self, fact: TurnStarted) -> None:
        self._say(fact.prompt)

    def _prompt_taken(self, fact: PromptTaken) -> None:
        self._say(fact.prompt)

    def _say(self, prompt: str) -> None:
        submitted = self._waiting.pop(prompt, None)
        if submitted is not None:
            text = submitted.content if submitted.content is not None else submitted.text
            self._entries.append(UserMessage(text, pictures=pictures_of(submitted)))
        self._current = None

    def _step(self, fact: StepStarted) -> None:
        self._asked = fact.provider
        self._current = _Answer(fact.provider)
        self._entries.append(self._current)

    def _step_ended(self, fact: StepEnded) -> None:
        """A program that runs whole turns says which conversation of its own it is in."""
        said = fact.provider_metadata
        if self._asked is None or not isinstance(said, dict):
            return
        name = said.get("agent_session")
        if isinstance(name, str):
            self._known[self._asked] = Known(name, said, len(self._entries))

    def _added(self, fact: MessageAdded) -> None:
        if fact.role in ("user", "system"):
            self._entries.append(UserMessage(fact.text))
            self._current = None
            return
        kind = Text if fact.role == "assistant" else Reasoning
        self._answer().parts.append(kind(fact.text, fact.provider_metadata))

    def _called(self, fact: ToolCalled) -> None:
        self.calls.add(fact.call)
        if fact.parent is not None or fact.executor == "provider":
            return
        answer = self._answer()
        answer.parts.append(Call(fact.call, speakable(fact.tool), fact.input, fact.provider_metadata))
        self._open_calls[fact.call] = answer

    def _ended(self, fact: ToolEnded) -> None:
        answer = self._open_calls.pop(fact.call, None)
        if answer is not None:
            pictures = tuple(it for name in fact.artifacts if (it := self._stored.get(name)) is not None)
            answer.results[fact.call] = ToolMessage(
                fact.call, speakable(fact.tool), result_text(fact), fact.status != "ok", pictures=pictures
            )

    def _kept(self, fact: ArtifactStored) -> None:
        """What a result names, it does not describe."""
        if fact.media_type.startswith("image/"):
            name = fact.name or "without a name"
            self._stored[fact.artifact] = Picture(fact.artifact, fact.media_type, name, fact.size)

    def _turn_ended(self, fact: TurnEnded) -> None:
        if fact.outcome in ENDINGS:
            self._entries.append(UserMessage(ENDINGS[fact.outcome]))
        self._current = None
        self._open_calls.clear()

    def _compacted(self, fact: Compacted) -> None:
        """What came while the summary was written is not part of it, and stays."""
        if fact.phase == "started":
            self._compacting = len(self._entries)
        elif fact.phase == "done" and fact.summary is not None:
            before, since = self._entries[: self._compacting], self._entries[self._compacting :]
            kept = (fact.messages_after or 1) - 1
            tail = _joined(before)[-kept:] if kept else ()
            self._restart([UserMessage(summary_text(fact.summary)), *tail])
            self._entries += since
            self._current = since[-1] if since and isinstance(since[-1], _Answer) else None
            self._open_calls.update(
                (call.call, answer) for answer in since if isinstance(answer, _Answer) for call in _open(answer)
            )

    def _reset(self, _: HistoryReset) -> None:
        self._restart([])

    def _merged(self, fact: HistoryMerged) -> None:
        claimed = list(_claimed(fact.messages, () if fact.replace else self.calls, self._stored))
        self.calls.update(call.call for it in claimed if isinstance(it, AssistantMessage) for call in it.calls)
        self._restart(claimed if fact.replace else [*self.messages(), *claimed])

    def _context(self, fact: ContextReported) -> None:
        self.reported[fact.part] = fact.content

    def _restart(self, messages: Iterable[Message]) -> None:
        """Put these messages in place of all that was known."""
        self._entries, self._current = [], None
        self._open_calls.clear()
        self._known.clear()
        for message in messages:
            if isinstance(message, UserMessage):
                self._entries.append(message)
            elif isinstance(message, AssistantMessage):
                answer = _Answer(message.provider)
                answer.parts.extend(message.parts)
                self._entries.append(answer)
            elif self._entries and isinstance(last := self._entries[-1], _Answer):
                last.results[message.call] = message

    def _answer(self) -> _Answer:
        """The answer that grows now."""
        if self._current is None:
            self._current = _Answer(None)
            self._entries.append(self._current)
        return self._current


def _joined(entries: Iterable[UserMessage | _Answer]) -> tuple[Message, ...]:
    found: list[Message] = []
    for entry in entries:
        if not isinstance(entry, UserMessage):
            found += entry.messages()
        elif found and isinstance(last := found[-1], UserMessage):
            text = f"{last.text}\n\n{entry.text}"
            found[-1] = UserMessage(text, last.images + entry.images, last.pictures + entry.pictures)
        else:
            found.append(entry)
    return tuple(found)


def pictures_of(prompt: PromptSubmitted) -> tuple[Picture, ...]:
    """The pictures that came with a prompt and lie in the artifact store."""
    return tuple(
        Picture(it.artifact, it.media_type or "", it.name, it.size or 0)
        for it in prompt.attachments
        if it.kind != "file" and is_artifact(it.artifact)
    )


def _open(answer: _Answer) -> Iterable[Call]:
    """Its calls without a result."""
    return [part for part in answer.parts if isinstance(part, Call) and part.call not in answer.results]


def speakable(tool: str) -> str:
    """A tool's name as every provider takes it back. A model may have invented one that its own API then refuses."""
    return _UNSPEAKABLE.sub("_", tool)[:LONGEST_NAME] or "_"


def summary_text(summary: str) -> str:
    """What stands in a shortened conversation for all that went before."""
    return f"[Earlier parts of this conversation were summed up:]\n\n{summary}"


def result_text(fact: ToolEnded) -> str:
    """A tool's result as the model gets it."""
    given = fact.detail.get(MODEL_TEXT)
    if isinstance(given, str):
        return given
    if fact.output is None and fact.problem is not None:
        return fact.problem.message
    return as_text(fact.output)


def as_text(value: Json) -> str:
    """A JSON value as text: a string as it is, anything else encoded."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _claimed(
    messages: Sequence[HistoryMessage], known: Collection[str], stored: Mapping[str, Picture]
) -> Iterator[Message]:
    """A client's history as messages: what people and models said, and results of calls that are in it, too.

    A result without its call is left out, and so is a call of an id that is ``known`` or was there before. ``stored``
    are the pictures that may be shown. None of it has any authority.
    """
    results = {message.call: message for message in reversed(messages) if message.role == "tool" and message.call}
    taken = set(known)
    for message in messages:
        text = message.content if isinstance(message.content, str) else as_text(message.content)
        pictures = _shown(message, stored)
        if message.role == "user" and (text or pictures):
            yield UserMessage(text, pictures=pictures)
        elif message.role == "assistant":
            calls = [call for call in _distinct(message.calls) if call.call not in taken]
            taken.update(call.call for call in calls)
            parts: list[Text | Reasoning | Call] = [Text(text)] if text else []
            parts += [Call(call.call, speakable(call.tool), call.input) for call in calls]
            if parts:
                yield AssistantMessage(tuple(parts))
            for call in calls:
                if (result := results.get(call.call)) is not None:
                    yield _claimed_result(call, result, stored)


def _claimed_result(call: HistoryCall, result: HistoryMessage, stored: Mapping[str, Picture]) -> ToolMessage:
    return ToolMessage(call.call, speakable(call.tool), as_text(result.content), pictures=_shown(result, stored))


def _distinct(calls: Iterable[HistoryCall]) -> Iterable[HistoryCall]:
    """Of calls with one id the first."""
    found: dict[str, HistoryCall] = {}
    for call in calls:
        found.setdefault(call.call, call)
    return found.values()


def _shown(message: HistoryMessage, stored: Mapping[str, Picture]) -> tuple[Picture, ...]:
    return tuple(picture for name in message.artifacts if (picture := stored.get(name)) is not None)


_FOLDS: dict[type, Callable[[Conversation, Any], None]] = {
    PromptSubmitted: Conversation._submitted,
    TurnStarted: Conversation._turn_started,
    PromptTaken: Conversation._prompt_taken,
    StepStarted: Conversation._step,
    StepEnded: Conversation._step_ended,
    MessageAdded: Conversation._added,
    ToolCalled: Conversation._called,
    ToolEnded: Conversation._ended,
    ArtifactStored: Conversation._kept,
    TurnEnded: Conversation._turn_ended,
    Compacted: Conversation._compacted,
    HistoryReset: Conversation._reset,
    HistoryMerged: Conversation._merged,
    ContextReported: Conversation._context,
}
