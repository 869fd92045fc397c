"""Answers of a server that is broken, or means harm: their cost is bounded, and what they say of the key hidden."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest

from dragoman.agents.native.model_call import call_model
from dragoman.agents.native.providers import http
from dragoman.agents.native.providers.chat_calls import ChatCalls
from dragoman.agents.native.providers.conversation import ModelRequest
from dragoman.agents.native.providers.openai_stream import decoded
from dragoman.agents.native.providers.port import (
    Cited,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderFailed,
    StreamEvent,
)
from dragoman.agents.native.providers.secret import HIDDEN, Secret
from dragoman.agents.native.providers.sse import EventTooLong, SseParser
from dragoman.agents.native.settings import TurnLimits

from .played import REQUEST, Play, playing, sse
from .test_provider_failures import KEY, STOP, chat, failed_with, refusal


def delta(**fields: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": fields}]}


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


# How much


def endless(*events: Any) -> Iterator[bytes]:
    piece = sse(*events)
    return (piece for _ in count())


ENDLESS: dict[str, Callable[[], Iterator[bytes]]] = {
    "events of nothing": lambda: endless(*[delta()] * 1000),
    "comments": lambda: (b": still here\n\n" * 10_000 for _ in count()),
    "lines without data": lambda: (b"data:\n" * 10_000 for _ in count()),
    "details of a thought": lambda: (
        sse(*[delta(reasoning_details=[{"type": "reasoning.text", "index": n * 100 + k}]) for k in range(100)])
        for n in count()
    ),
    "calls": lambda: (
        sse(*[delta(tool_calls=[{"id": f"c{n * 100 + k}", "function": {"name": "look"}}]) for k in range(100)])
        for n in count()
    ),
    "calls without a name": lambda: (
        sse(*[delta(tool_calls=[{"id": f"c{n * 100 + k}", "function": {}}]) for k in range(100)]) for n in count()
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_an_answer_without_end_fails_the_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LONGEST_ANSWER", 2 * 1024 * 1024)
    failed = await failed_with(Play(ENDLESS[name]()))  # type: ignore[arg-type]
    assert (failed.cause, failed.retryable) == ("failed", False)
    assert "more than" in str(failed)


def test_lines_without_data_count_too() -> None:
    with pytest.raises(EventTooLong):
        SseParser(longest=1000).feed(b"data:\n" * 2000)


class Babble:
    """A provider of endless events: those of round 0, 1, 2…"""

    name = "babble"
    searches = False

    def __init__(self, events: Callable[[int], Sequence[StreamEvent]]) -> None:
        self._events = events
        self.given = 0
        self.ended = False

    async def stream(self, request: ModelRequest, *, raw: bool = False) -> AsyncGenerator[StreamEvent, None]:
        try:
            for number in count():
                for event in self._events(number):
                    self.given += 1
                    yield event
        finally:
            self.ended = True

    async def close(self) -> None:
        """There is no connection."""


BABBLES: dict[str, tuple[Callable[[int], Sequence[StreamEvent]], str]] = {
    "text": (lambda n: [PartGrew("p", "x" * 10)] if n else [PartOpened("p", "text")], "100 characters"),
    "names": (
        lambda n: (PartOpened(f"pppp{n}", "tool_input", tool="x" * 5), PartClosed(f"pppp{n}")),
        "100 characters",
    ),
    "parts": (lambda n: (PartOpened(str(n), "text"), PartClosed(str(n))), "20 parts"),
    "sources": (lambda n: (Cited({"url": "u"}),), "20 parts"),
}


@pytest.mark.parametrize("name", BABBLES)
async def test_a_model_call_takes_so_much_and_no_more(name: str) -> None:
    events, limit = BABBLES[name]
    provider = Babble(events)
    seen: list[StreamEvent] = []

    async def see(event: StreamEvent) -> None:
        seen.append(event)

    limits = TurnLimits(answer_chars=100, answer_parts=20)
    with pytest.raises(ProviderFailed, match=limit) as failed:
        await call_model(provider, REQUEST, limits, on_event=see, on_retry=lambda *_: None)
    assert not failed.value.retryable
    assert provider.ended
    assert len(seen) == provider.given - 1, "all that fitted was told"


def test_a_name_that_comes_with_every_piece_costs_no_more_for_a_long_call() -> None:
    """Its arguments are read as often as they double, not with each piece."""
    calls = ChatCalls()
    looks = 0
    for _ in range(50_000):
        calls.read({"index": 0, "id": "c", "function": {"name": "write", "arguments": '{"a":"}'}})
        looks += calls._calls[0].looked == calls._calls[0].size - len('{"a":"}')
    assert looks < 64 * 1024 / len('{"a":"}') + 10


# How deep


@pytest.mark.parametrize("levels", [70, 500, 5000, 100_000])
def test_an_event_that_nests_too_deep_fails_the_call(levels: int) -> None:
    with pytest.raises(ProviderFailed, match="levels deep") as failed:
        decoded(f'{{"id":{nested(levels)},"choices":[]}}'.encode())
    assert not failed.value.retryable


def test_an_event_with_much_beside_much_is_no_deep_one() -> None:
    wide = {"tools": [{"parameters": {"properties": {"a": {"type": "string"}}}}] * 100}
    assert decoded(json.dumps(wide).encode()) == wide


@pytest.mark.parametrize("levels", [70, 300, 5000])
async def test_an_error_that_nests_too_deep_is_told_without_its_object(levels: int) -> None:
    failed = await failed_with(
        refusal("400 Bad Request", f'{{"error":{{"message":"m","x":{nested(levels)}}}}}'.encode())
    )
    assert (failed.cause, failed.status, failed.detail) == ("invalid_request", 400, None)


async def test_an_error_object_that_is_large_is_left_out() -> None:
    failed = await failed_with(Play([sse(delta(content="a"), {"error": {"message": "m", "x": "y" * 100_000}})]))
    assert (str(failed), failed.detail) == ("m", None)


async def test_what_comes_behind_the_end_is_not_read() -> None:
    async with playing(Play([sse(delta(content="a"), STOP, "[DONE]", delta(content="b"))])) as server:
        provider = chat(server.url)
        async with aclosing(provider.stream(REQUEST)) as stream:
            events = [event async for event in stream]
        await provider.close()
    assert "".join(event.text for event in events if isinstance(event, PartGrew)) == "a"
    assert isinstance(events[-1], Finished)


# What it says of the key

FORMS = {
    "whole": KEY,
    "its beginning": KEY[:20],
    "its end": KEY[-14:],
    "shortened": f"{KEY[:5]}****{KEY[-4:]}",
    "in a URL": quote("sk proj/0123456789+abcdef", safe=""),
    "in base64": base64.b64encode(KEY.encode()).decode(),
    "in base64 with its scheme": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "in base64 with a name": base64.b64encode(f"me:{KEY}".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_the_key_is_shown(form: str) -> None:
    key = "sk proj/0123456789+abcdef" if form == "in a URL" else KEY
    shown = Secret(key).hide(f"wrong key: {FORMS[form]}!")
    assert isinstance(shown, str)
    assert HIDDEN in shown
    assert not any(key[at : at + 8] in shown for at in range(len(key) - 8))


def test_a_word_for_a_key_is_left_in_what_the_model_says() -> None:
    """Local servers are given ``ollama`` or ``none``."""
    assert not Secret("ollama").within(b'{"content":"ollama is a program"}')


def test_hiding_takes_no_longer_for_text_that_is_nearly_a_key() -> None:
    text = KEY[:3] * 300_000
    assert Secret(KEY).hide(text) == text


async def test_a_model_that_repeats_the_key_is_not_shown_with_it() -> None:
    call = {"index": 0, "id": KEY, "function": {"name": "look", "arguments": json.dumps({"key": KEY})}}
    events = [delta(content=f"it is {KEY}"), {**delta(tool_calls=[call]), "id": KEY}, STOP]
    async with playing(Play([sse(*events)])) as server:
        provider = chat(server.url)
        async with aclosing(provider.stream(REQUEST)) as stream:
            said = repr([event async for event in stream])
        await provider.close()
    assert KEY not in said
    assert f"it is {HIDDEN}" in said


# The same through pydantic-ai, where a vendor's package reads the bytes


def claude(**event: Any) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


BEGIN = claude(
    type="message_start",
    message={
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
)
END = claude(
    type="message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 2}
) + claude(type="message_stop")


def says(text: str) -> bytes:
    return (
        claude(type="content_block_start", index=0, content_block={"type": "text", "text": ""})
        + claude(type="content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        + claude(type="content_block_stop", index=0)
    )


async def answered(play: Play) -> list[StreamEvent]:
    pytest.importorskip("anthropic")
    from dragoman.agents.native.providers.pydantic import PydanticAI

    async with playing(play) as server:
        provider = PydanticAI("house", "anthropic", key=KEY, base_url=server.url)
        try:
            async with aclosing(provider.stream(REQUEST)) as stream:
                return [event async for event in stream]
        finally:
            await provider.close()


async def test_a_package_hands_on_neither_the_key_nor_half_a_character() -> None:
    events = await answered(Play([BEGIN, says(f"it is {KEY}\ud800"), END]))
    assert [event.text for event in events if isinstance(event, PartGrew)] == [f"it is {HIDDEN}\ufffd"]


HARMFUL: dict[str, Callable[[], Play]] = {
    "an endless answer": lambda: Play(claude(type="ping") * 1000 for _ in count()),  # type: ignore[arg-type]
    "an endless event": lambda: Play(b"data: x" if n == 0 else b"x" * 65536 for n in count()),  # type: ignore[arg-type]
    "an endless error": lambda: Play((b"x" * 65536 for _ in count()), "400 Bad Request"),  # type: ignore[arg-type]
    "a packed answer": lambda: Play([b"\x1f\x8b"], headers={"Content-Encoding": "gzip"}),
    "a deep error": lambda: refusal("400 Bad Request", f'{{"error":{{"message":"m","x":{nested(300)}}}}}'.encode()),
    "half a character": lambda: refusal("400 Bad Request", b'{"error":{"message":"m\\ud800"}}'),
    "pieces of the key": lambda: refusal("400 Bad Request", {"error": {"message": f"{KEY[:20]} {KEY[-14:]}"}}),
}


@pytest.mark.parametrize("name", HARMFUL)
async def test_a_package_that_takes_anything_is_held_to_our_limits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anthropic")
    from dragoman.agents.native.providers.pydantic import client

    monkeypatch.setattr(client, "LONGEST_ANSWER", 2 * 1024 * 1024)
    monkeypatch.setattr(client, "LONGEST_EVENT", 1024 * 1024)
    with pytest.raises(ProviderFailed) as failed:
        await answered(HARMFUL[name]())
    shown = f"{failed.value} {json.dumps(failed.value.detail)}"
    shown.encode()
    assert len(shown) < 20_000
    assert KEY[:12] not in shown
    assert KEY[-12:] not in shown
