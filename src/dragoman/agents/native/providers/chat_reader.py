"""Chunks of a Chat Completions stream, made into our events: OpenAI's own, and those of servers that resemble it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.hub.events import Json
from dragoman.hub.events.stream import PartKind

from .chat_calls import ChatCalls
from .openai_stream import ErrorEvent, count_in, cut_off, dict_in, text_in
from .port import Cited, Finished, FinishReason, PartClosed, PartGrew, PartOpened, Spent, StreamEvent
from .reasoning_details import ReasoningDetails

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
}
_FAILED = {
    "error": {"message": "the provider failed while it answered", "code": "server_error"},
    "insufficient_system_resource": {"message": "the provider has no room", "code": "overloaded"},  # DeepSeek
}
_PARTS: dict[PartKind, str] = {"text": "txt", "reasoning": "reasoning"}
_DESCRIBED = ("id", "model", "created", "provider", "service_tier", "system_fingerprint")


class ChatReader:
    """One answer. Text and reasoning follow each other; calls stay open to the end, since their deltas may mix."""

    def __init__(self) -> None:
        self.ended = False
        self._calls = ChatCalls()
        self._details = ReasoningDetails()
        self._open: PartKind | None = None
        self._part = ""
        self._parts = 0
        self._field = ""
        """The field that reasoning came in, and goes back in."""
        self._usage: dict[str, Any] = {}
        self._response: dict[str, Json] = {}
        self._raw_reason: str | None = None
        self._cited: set[str] = set()

    def read(self, event: dict[str, Any]) -> list[StreamEvent]:
        """See ``Reader``."""
        if event.get("error") or event.get("object") == "error":
            raise ErrorEvent(event)
        if not self._response:
            self._response = {name: event[name] for name in _DESCRIBED if event.get(name) is not None}
        usage = event.get("usage")
        if not usage and "x_groq" in event:
            usage = dict_in(event, "x_groq").get("usage")
        if usage and isinstance(usage, dict):
            self._usage = usage
        choices = event.get("choices")
        if choices and isinstance(choices, list) and isinstance(choices[0], dict):
            return self._choice(choices[0])
        if usage and (self._parts or self._calls):  # only the last chunk has usage and no choice
            self.ended = True
        return []

    def end(self) -> list[StreamEvent]:
        """See ``Reader``."""
        if not self.ended and self._raw_reason is None:
            raise cut_off()
        called = bool(self._calls)
        events = [*self._closed(), *self._calls.end(), _spent(self._usage)]
        events.append(Finished(_reason(self._raw_reason, called=called), self._raw_reason, self._response or None))
        return events

    def _choice(self, choice: dict[str, Any]) -> list[StreamEvent]:
        whole = "delta" not in choice and isinstance(choice.get("message"), dict)  # a server that does not stream
        events = self._delta(dict_in(choice, "message" if whole else "delta"))
        if reason := choice.get("finish_reason"):
            if choice.get("error"):
                raise ErrorEvent(choice)
            self._stopped(str(reason))
        if "usage" in choice:  # Moonshot
            self._usage = dict_in(choice, "usage") or self._usage
        self.ended = self.ended or whole
        return events

    def _stopped(self, reason: str) -> None:
        if reason in _FAILED:
            raise ErrorEvent(_FAILED[reason])
        self._raw_reason = reason

    def _delta(self, delta: dict[str, Any]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        field = "reasoning_content" if delta.get("reasoning_content") else "reasoning"
        if (thought := delta.get(field)) and isinstance(thought, str):
            self._field = field
            events += self._grown("reasoning", thought)
        if details := delta.get("reasoning_details"):
            self._details.read(details)
        if content := delta.get("content"):
            if isinstance(content, str):
                events += self._grown("text", content)
            else:
                for kind, text in _blocks(content):
                    events += self._grown(kind, text)
        if refusal := text_in(delta, "refusal"):
            events += self._grown("text", refusal)
        if calls := delta.get("tool_calls"):
            events += self._called(calls)
        if annotations := delta.get("annotations"):
            events += self._citations(annotations)
        return events

    def _grown(self, kind: PartKind, text: str) -> list[StreamEvent]:
        if kind == self._open:
            return [PartGrew(self._part, text)]
        events = self._closed()
        self._open = kind
        self._part = f"{_PARTS[kind]}-{self._parts}"
        self._parts += 1
        return [*events, PartOpened(self._part, kind), PartGrew(self._part, text)]

    def _closed(self) -> list[StreamEvent]:
        if self._open is None:
            return []
        metadata: Json = None
        if self._open == "reasoning":
            details = self._details.taken()
            metadata = {"field": self._field, **({"details": details} if details else {})}
        self._open = None
        return [PartClosed(self._part, metadata)]

    def _called(self, calls: Json) -> list[StreamEvent]:
        events = self._closed()
        for call in calls if isinstance(calls, list) else [calls]:
            events += self._calls.read(call)
        return events

    def _citations(self, annotations: Json) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for annotation in annotations if isinstance(annotations, list) else []:
            source = dict_in(annotation, "url_citation")
            url = text_in(source, "url")
            if url and url not in self._cited:
                self._cited.add(url)
                title = text_in(source, "title")
                events.append(Cited({"url": url, "title": title} if title else {"url": url}))
        return events


def _blocks(content: Json) -> Iterator[tuple[PartKind, str]]:
    """Content as a list of blocks (Mistral), thoughts among them."""
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        if text := text_in(block, "text"):
            yield "text", text
        thought = block.get("thinking")
        thoughts = (
            [text_in(inner, "text") for inner in thought if isinstance(inner, dict)]
            if isinstance(thought, list)
            else []
        )
        if text := thought if isinstance(thought, str) else "".join(thoughts):
            yield "reasoning", text


def _reason(raw: str | None, *, called: bool) -> FinishReason:
    reason = "stop" if raw is None else _REASONS.get(raw.lower(), "other")
    return "tool_calls" if called and reason in {"stop", "other"} else reason


def _spent(usage: dict[str, Any]) -> Spent:
    put_in = count_in(usage, "prompt_tokens", "input_tokens")
    out = count_in(usage, "completion_tokens", "output_tokens")
    reasoning = count_in(dict_in(usage, "completion_tokens_details"), "reasoning_tokens")
    cached = count_in(dict_in(usage, "prompt_tokens_details"), "cached_tokens")
    if cached is None:
        cached = count_in(usage, "prompt_cache_hit_tokens", "cached_tokens")
    if put_in is not None and out is not None and reasoning and usage.get("total_tokens") == put_in + out + reasoning:
        out += reasoning  # xAI counts them apart
    written = count_in(dict_in(usage, "prompt_tokens_details"), "cache_write_tokens")
    return Spent(put_in, out, reasoning, cached, written)
