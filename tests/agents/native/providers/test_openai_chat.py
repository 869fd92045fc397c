"""Chat Completions, as OpenAI speaks it and as others do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.native.providers.chat_reader import ChatReader
from dragoman.agents.native.providers.conversation import ModelRequest, ToolSpec, UserMessage
from dragoman.agents.native.providers.openai_chat import OpenAIChat
from dragoman.agents.native.providers.openai_stream import ErrorEvent, decoded
from dragoman.agents.native.providers.port import (
    CallMade,
    Cited,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderFailed,
    RawReceived,
    Spent,
    StreamEvent,
)
from dragoman.agents.native.providers.sse import SseParser
from dragoman.agents.native.settings import NativeSettings

from .played import Play, Server, collected, keeps_the_order, only, playing, sse, text_of

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": [choice], **more}


def usage(**more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [],
        "usage": {**USAGE, **more},
    }


def called(*calls: Any, finish: str | None = None) -> dict[str, Any]:
    return chunk({"role": "assistant", "content": None, "tool_calls": list(calls)}, finish)


def piece(index: int | None = None, call: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    function = {"name": name, "arguments": arguments}
    delta = {"index": index, "id": call, "type": "function" if call else None}
    return {
        **{key: value for key, value in delta.items() if value is not None},
        "function": {key: value for key, value in function.items() if value is not None},
    }


def provider_at(server: Server, **more: Any) -> OpenAIChat:
    return OpenAIChat(name="local", base_url=server.url, key="secret-key", settings=NativeSettings(), **more)


async def said(*events: Any, done: bool = True, raw: bool = False) -> list[StreamEvent]:
    async with playing(Play([sse(*events, done=done)])) as server:
        provider = provider_at(server)
        try:
            return await collected(provider, raw=raw)
        finally:
            await provider.close()


def calls_of(events: list[StreamEvent]) -> list[tuple[str, str]]:
    return [(call.tool, call.arguments) for call in only(events, CallMade)]


async def test_text_comes_as_one_part_and_ends_with_tokens_and_reason() -> None:
    events = await said(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        usage(),
    )
    assert events == [
        PartOpened("txt-0", "text"),
        PartGrew("txt-0", "Hel"),
        PartGrew("txt-0", "lo"),
        PartClosed("txt-0"),
        Spent(10, 5, None, None),
        Finished("stop", "stop", {"id": "chatcmpl-1", "model": "m", "created": 1}),
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thoughts_are_a_part_of_their_own_and_remember_their_field(field: str) -> None:
    events = await said(
        chunk({"role": "assistant", "content": None, field: "Hm"}),
        chunk({field: "m.", "content": ""}),
        chunk({"content": "Yes", field: None}),
        chunk({}, "stop"),
    )
    assert (text_of(events, "reasoning"), text_of(events)) == ("Hmm.", "Yes")
    assert only(events, PartClosed)[0].metadata == {"field": field}
    assert [event.kind for event in only(events, PartOpened)] == ["reasoning", "text"]


async def test_a_thought_that_comes_in_both_fields_is_there_once() -> None:
    events = await said(chunk({"reasoning_content": "Hm", "reasoning": "Hm"}), chunk({"content": "x"}, "stop"))
    assert text_of(events, "reasoning") == "Hm"


async def test_thoughts_text_and_thoughts_again_are_three_parts() -> None:
    events = await said(
        chunk({"reasoning": "a"}), chunk({"content": "b"}), chunk({"reasoning": "c"}), chunk({"content": "d"}, "stop")
    )
    assert [event.kind for event in only(events, PartOpened)] == ["reasoning", "text", "reasoning", "text"]


async def test_what_the_provider_behind_wants_back_with_a_thought_is_put_together() -> None:
    def detail(**more: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **more}

    events = await said(
        chunk({"reasoning": "a", "reasoning_details": [detail(text="a")]}),
        chunk({"reasoning": "b", "reasoning_details": [detail(text="b", signature=None)]}),
        chunk({"content": "", "reasoning_details": [detail(signature="sig")]}),
        chunk({"content": "x"}, "stop"),
    )
    assert only(events, PartClosed)[0].metadata == {
        "field": "reasoning",
        "details": [detail(text="ab", signature="sig")],
    }


ARGUMENTS = '{"path": "a", "n": 1}'

CALLS: dict[str, tuple[list[Any], list[tuple[str, str]]]] = {
    "id and name first, arguments in pieces": (
        [
            called(piece(0, "c1", "read", "")),
            called(piece(0, None, None, '{"path": ')),
            called(piece(0, None, None, '"a", "n": 1}')),
        ],
        [("read", ARGUMENTS)],
    ),
    "two by index, mixed": (
        [
            called(piece(0, "c1", "read", "")),
            called(piece(1, "c2", "glob", '{"p"')),
            called(piece(0, None, None, "{}")),
            called(piece(1, None, None, ": 1}")),
        ],
        [("read", "{}"), ("glob", '{"p": 1}')],
    ),
    "two in one delta": (
        [called(piece(0, "c1", "read", "{}"), piece(1, "c2", "glob", "{}"))],
        [("read", "{}"), ("glob", "{}")],
    ),
    "no ids at all": (
        [called(piece(0, None, "read", '{"a"')), called(piece(0, None, None, ": 1}"))],
        [("read", '{"a": 1}')],
    ),
    "neither ids nor indexes": (
        [
            called(piece(None, None, "read", '{"a"')),
            called(piece(None, None, None, ": 1}")),
            called(piece(None, None, "glob", "{}")),
        ],
        [("read", '{"a": 1}'), ("glob", "{}")],
    ),
    "ids without indexes": (
        [
            called(piece(None, "c1", "read", '{"a"')),
            called(piece(None, "c2", "glob", "{}")),
            called(piece(None, "c1", None, ": 1}")),
        ],
        [("read", '{"a": 1}'), ("glob", "{}")],
    ),
    "all with index 0 and their own ids": (
        [called(piece(0, "c1", "read", "{}")), called(piece(0, "c2", "glob", "{}"))],
        [("read", "{}"), ("glob", "{}")],
    ),
    "all with index 0 and no ids": (
        [called(piece(0, None, "read", '{"a": 1}')), called(piece(0, None, "read", '{"a": 2}'))],
        [("read", '{"a": 1}'), ("read", '{"a": 2}')],
    ),
    "the id repeats with each piece": (
        [
            called(piece(0, "c1", "read", '{"a"')),
            called(piece(0, "c1", "read", ": 1}")),
            called(piece(0, "c1", None, " ")),
        ],
        [("read", '{"a": 1} ')],
    ),
    "each piece has another id": (
        [called(piece(0, "c1", "read", '{"a"')), called(piece(0, "c2", None, ": 1}"))],
        [("read", '{"a": 1}')],
    ),
    "two calls have the same id": (
        [called(piece(0, "c1", "read", "{}")), called(piece(1, "c1", "glob", "{}"))],
        [("read", "{}"), ("glob", "{}")],
    ),
    "the whole call comes again at the end": (
        [
            called(piece(0, "c1", "read", '{"a"')),
            called(piece(0, None, None, ":1}")),
            called(piece(0, "c1", "read", '{"a":1}')),
        ],
        [("read", '{"a":1}')],
    ),
    "arguments as an object": ([called(piece(0, "c1", "read", {"path": "ü"}))], [("read", '{"path":"ü"}')]),
    "no arguments": ([called(piece(0, "c1", "now"))], [("now", "{}")]),
    "blank arguments": ([called(piece(0, "c1", "now", " "))], [("now", "{}")]),
    "arguments before the name": (
        [called(piece(0, "c1", None, '{"a"')), called(piece(0, None, "read", ":1}"))],
        [("read", '{"a":1}')],
    ),
    "no name ever": ([called(piece(0, "c1", None, "{}"))], [("", "{}")]),
    "arguments that are no JSON": ([called(piece(0, "c1", "read", '{"a'))], [("read", '{"a')]),
    "an entry that is none": ([called(piece(0, "c1", "read", "{}"), None, 3)], [("read", "{}")]),
}


@pytest.mark.parametrize("oddity", CALLS)
async def test_calls_are_put_together_however_a_server_cuts_them(oddity: str) -> None:
    deltas, calls = CALLS[oddity]
    events = await said(*deltas, chunk({}, "tool_calls"), usage())
    assert calls_of(events) == calls
    for made in only(events, CallMade):
        assert text_of([e for e in events if getattr(e, "part", None) == made.call], "tool_input").strip() in {
            made.arguments.strip(),
            "" if made.arguments == "{}" else made.arguments.strip(),
        }
    assert events[-1].reason == "tool_calls"  # type: ignore[union-attr]


async def test_the_providers_id_of_a_call_is_kept_where_there_is_one() -> None:
    events = await said(called(piece(0, "call_abc", "read", "{}")), chunk({}, "tool_calls"))
    assert only(events, CallMade) == [CallMade("call_abc", "read", "{}")]
    assert only(events, PartOpened) == [PartOpened("call_abc", "tool_input", tool="read")]


REASONS = [
    ("stop", "stop"),
    ("STOP", "stop"),
    ("eos", "stop"),
    ("length", "length"),
    ("max_tokens", "length"),
    ("tool_calls", "tool_calls"),
    ("function_call", "tool_calls"),
    ("content_filter", "content_filter"),
    ("something new", "other"),
]


@pytest.mark.parametrize(("raw", "reason"), REASONS)
async def test_reasons_are_given_in_our_words_and_theirs(raw: str, reason: str) -> None:
    finished = (await said(chunk({"content": "x"}), chunk({}, raw)))[-1]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.raw_reason) == (reason, raw)


@pytest.mark.parametrize(("raw", "reason"), [("stop", "tool_calls"), ("length", "length")])
async def test_calls_are_the_reason_also_where_the_server_says_stop(raw: str, reason: str) -> None:
    finished = (await said(called(piece(0, "c", "read", "{}"), finish=raw)))[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == reason


ENDINGS: dict[str, tuple[list[Any], bool]] = {
    "done, no usage": ([chunk({}, "stop")], True),
    "usage, then done": ([chunk({}, "stop"), usage()], True),
    "usage, no done": ([chunk({}, "stop"), usage()], False),
    "neither": ([chunk({}, "stop")], False),
    "usage with the reason": ([chunk({}, "stop", usage=USAGE)], False),
    "usage with each chunk": ([chunk({"content": ""}, None, usage=USAGE), chunk({}, "stop", usage=USAGE)], True),
    "no reason, but done": ([], True),
    "no reason, but usage": ([usage()], False),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_answer_may_end_in_many_ways(ending: str) -> None:
    events, done = ENDINGS[ending]
    made = await said(chunk({"content": "x"}), *events, done=done)
    assert text_of(made) == "x"
    assert only(made, Finished)[0].reason == "stop"
    assert only(made, Spent)[0].input_tokens == (10 if "usage" in ending and "no usage" not in ending else None)


TOKENS = [
    ({**USAGE, "completion_tokens_details": {"reasoning_tokens": 3}}, Spent(10, 5, 3, None)),
    ({**USAGE, "prompt_tokens_details": {"cached_tokens": 8}}, Spent(10, 5, None, 8)),
    ({**USAGE, "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2}}, Spent(10, 5, None, 8, 2)),
    ({**USAGE, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6}, Spent(10, 5, None, 4)),
    ({**USAGE, "total_tokens": 22, "completion_tokens_details": {"reasoning_tokens": 7}}, Spent(10, 12, 7, None)),
    ({**USAGE, "prompt_tokens_details": None, "completion_tokens_details": None}, Spent(10, 5, None, None)),
    ({"prompt_tokens": "10", "completion_tokens": -1}, Spent()),
]


@pytest.mark.parametrize(("given_usage", "spent"), TOKENS)
async def test_tokens_are_counted_as_the_provider_counts_them(given_usage: dict[str, Any], spent: Spent) -> None:
    events = await said(chunk({"content": "x"}, "stop"), {"choices": [], "usage": given_usage})
    assert only(events, Spent) == [spent]


async def test_groq_and_moonshot_have_the_usage_elsewhere() -> None:
    groq = await said(chunk({"content": "x"}), chunk({}, "stop", x_groq={"id": "r", "usage": USAGE}))
    moonshot = chunk({}, "stop")
    moonshot["choices"][0]["usage"] = USAGE
    for events in (groq, await said(chunk({"content": "x"}), moonshot)):
        assert only(events, Spent) == [Spent(10, 5, None, None)]


async def test_comments_empty_events_and_chunks_without_anything_change_nothing() -> None:
    stream = b": OPENROUTER PROCESSING\n\n" + sse(
        "", {"choices": []}, {}, {"choices": None}, chunk(), {"choices": [None]}
    )
    async with playing(Play([stream, sse(chunk({"content": "x"}, "stop"), done=True)])) as server:
        provider = provider_at(server)
        assert text_of(await collected(provider)) == "x"
        await provider.close()


async def test_refusals_are_text() -> None:
    assert text_of(await said(chunk({"refusal": "I can"}), chunk({"refusal": "not"}), chunk({}, "stop"))) == "I cannot"


async def test_sources_are_named_once() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://x.example", "title": "X", "start_index": 0}}
    events = await said(chunk({"content": "x", "annotations": [cited]}), chunk({"annotations": [cited, 3]}, "stop"))
    assert only(events, Cited) == [Cited({"url": "https://x.example", "title": "X"})]


async def test_content_as_blocks_is_text_and_thoughts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    events = await said(chunk({"content": [thinking]}), chunk({"content": [{"type": "text", "text": "Yes"}]}, "stop"))
    assert (text_of(events, "reasoning"), text_of(events)) == ("Hm", "Yes")


async def test_an_answer_that_is_no_stream_is_taken_whole() -> None:
    message = {"role": "assistant", "content": "Yes", "tool_calls": [piece(None, "c", "read", "{}")]}
    whole = {
        "id": "1",
        "object": "chat.completion",
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    async with playing(Play([json.dumps(whole).encode()], headers={"Content-Type": "application/json"})) as server:
        provider = provider_at(server)
        events = await collected(provider)
        await provider.close()
    assert (text_of(events), calls_of(events), only(events, Spent)) == (
        "Yes",
        [("read", "{}")],
        [Spent(10, 5, None, None)],
    )


async def test_halves_of_characters_do_not_break_the_stream() -> None:
    halves = json.dumps(chunk({"content": "a\ud83db"})), json.dumps(chunk({"content": "\ude00\U0001f600"}, "stop"))
    assert text_of(await said(*halves)) == "a�b�\U0001f600"


async def test_raw_events_come_before_what_they_became_if_asked_for() -> None:
    chunks = [chunk({"content": "x"}), chunk({}, "stop")]
    events = await said(*chunks, raw=True)
    assert only(events, RawReceived) == [RawReceived(given_chunk) for given_chunk in chunks]
    assert events[:3] == [RawReceived(chunks[0]), PartOpened("txt-0", "text"), PartGrew("txt-0", "x")]
    assert not only(await said(*chunks), RawReceived)


async def test_a_request_has_what_the_servers_understand() -> None:
    tool = ToolSpec("read", "Reads.", {"type": "object", "properties": {}})
    request = ModelRequest(
        model="m", system="be brief", messages=(UserMessage("hi"),), tools=(tool,), max_output_tokens=7, web_search=True
    )
    async with playing(Play([sse(chunk({}, "stop"), done=True)])) as server:
        for more in ({}, {"searches": True, "headers": {"X-Title": "t"}}):
            provider = provider_at(server, **more)
            await collected(provider, request)
            await provider.close()
    plain, searching = server.asked
    assert plain.line == "POST /v1/chat/completions HTTP/1.1"
    assert plain.headers["authorization"] == "Bearer secret-key"
    assert plain.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": tool.schema}}
        ],
        "max_tokens": 7,
    }
    assert searching.body == {**plain.body, "web_search_options": {}}
    assert searching.headers["x-title"] == "t"


def test_openai_itself_is_given_the_limit_under_its_newer_name() -> None:
    provider = OpenAIChat(name="openai", base_url="https://api.openai.com/v1", key=None, settings=NativeSettings())
    request = ModelRequest(model="m", system="", messages=(), max_output_tokens=7)
    assert provider.body(request)["max_completion_tokens"] == 7
    assert "max_tokens" not in provider.body(request)


async def test_a_server_that_knows_no_stream_options_is_asked_without_them_the_next_time() -> None:
    refused = Play([b'{"detail":"Extra inputs are not permitted: stream_options"}'], "422 Unprocessable Entity", {})
    async with playing(refused, Play([sse(chunk({"content": "x"}, "stop"))])) as server:
        provider = provider_at(server)
        with pytest.raises(ProviderFailed) as failed:
            await collected(provider)
        assert (failed.value.retryable, failed.value.retry_after) == (True, 0.0)
        await collected(provider)
        await provider.close()
    assert ["stream_options" in asked.body for asked in server.asked] == [True, False]


LONG = [
    chunk({"role": "assistant", "reasoning_content": "Überlegung 🤔"}),
    chunk({"content": "Größe: "}),
    chunk({"content": "42 €😀"}),
    called(piece(0, "c1", "read", '{"path": "ä')),
    called(piece(0, None, None, '"}')),
    chunk({}, "tool_calls"),
    usage(),
]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 400), max_size=12), st.sampled_from(["\n\n", "\r\n\r\n", "\r\r"]))
def test_an_answer_is_the_same_wherever_the_network_cuts_it(sizes: list[int], end: str) -> None:
    stream = b"".join(b"data: " + json.dumps(c, ensure_ascii=False).encode() + end.encode() for c in LONG)
    pieces = []
    for size in [*sizes, len(stream)]:
        pieces.append(stream[:size])
        stream = stream[size:]

    async def played() -> list[StreamEvent]:
        async with playing(Play(pieces)) as server:
            provider = provider_at(server)
            events = await collected(provider)
            await provider.close()
            return events

    events = asyncio.run(played())
    assert text_of(events, "reasoning") == "Überlegung 🤔"
    assert text_of(events) == "Größe: 42 €😀"
    assert calls_of(events) == [("read", '{"path": "ä"}')]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "c1", "x", "stop", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["text", "url", "type", "id"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def fields(**given_fields: Any) -> Any:
    """Objects in which any of these fields may be missing, or something else altogether."""
    return st.fixed_dictionaries({}, optional={name: field | ANY for name, field in given_fields.items()})


def loose(**given_fields: Any) -> Any:
    """Such an object, or something else altogether itself."""
    return fields(**given_fields) | ANY


CALL = fields(
    index=st.integers(0, 2),
    id=st.sampled_from(["c1", "c2"]),
    function=fields(name=st.sampled_from(["f", "g"]), arguments=st.sampled_from(["{}", '{"a', '":1}']) | ANY),
)
DELTA = fields(
    content=st.sampled_from(["a", "b"]),
    reasoning=st.just("r"),
    reasoning_details=st.lists(loose(text=st.just("a"), signature=st.just("s")), max_size=2),
    annotations=st.lists(loose(url_citation=loose(url=st.just("u"))), max_size=2),
)
CALLING = st.fixed_dictionaries({"tool_calls": st.lists(CALL, min_size=1, max_size=3) | ANY})
CHOICE = st.fixed_dictionaries(
    {"delta": DELTA | CALLING | ANY},
    optional={"finish_reason": st.sampled_from([None, "stop", "error"]), "usage": ANY, "message": DELTA | ANY},
)
CHUNKS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, min_size=1, max_size=1) | ANY},
    optional={"usage": st.none() | loose(prompt_tokens=ANY), "x_groq": ANY},
)


@settings(max_examples=150, deadline=None)
@given(st.lists(CHUNKS, max_size=6))
def test_whatever_a_server_sends_either_fails_as_such_or_keeps_the_order(chunks: list[Any]) -> None:
    reader, events = ChatReader(), []
    try:
        for event in SseParser().feed(sse(*chunks, chunk({}, "stop"))):
            if not reader.ended:
                events += reader.read(decoded(event.data))
        events += reader.end()
    except (ErrorEvent, ProviderFailed):
        return
    keeps_the_order(events)
