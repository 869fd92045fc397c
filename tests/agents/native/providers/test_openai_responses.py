"""The Responses API, as OpenAI speaks it and as others do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.native.providers.conversation import ModelRequest, ToolSpec, UserMessage
from dragoman.agents.native.providers.openai_responses import OpenAIResponses
from dragoman.agents.native.providers.openai_stream import ErrorEvent, decoded
from dragoman.agents.native.providers.port import (
    CallMade,
    Cited,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderCallEnded,
    ProviderFailed,
    RawReceived,
    Spent,
    StreamEvent,
)
from dragoman.agents.native.providers.responses_reader import ResponsesReader
from dragoman.agents.native.providers.sse import SseParser
from dragoman.agents.native.settings import NativeSettings

from .played import Play, Server, collected, keeps_the_order, only, playing, sse, text_of

HEAD = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt"}
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens": 25,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 125,
}


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 1, **more}


def created() -> dict[str, Any]:
    return event("created", response={**HEAD, "status": "in_progress", "output": [], "usage": None})


def completed(**more: Any) -> dict[str, Any]:
    return event("completed", response={**HEAD, "status": "completed", "output": [], "usage": USAGE, **more})


def added(place: int, kind: str, **item: Any) -> dict[str, Any]:
    return event("output_item.added", output_index=place, item={"type": kind, "status": "in_progress", **item})


def done(place: int, kind: str, **item: Any) -> dict[str, Any]:
    return event("output_item.done", output_index=place, item={"type": kind, "status": "completed", **item})


def content(text: str, *annotations: Any) -> list[dict[str, Any]]:
    return [{"type": "output_text", "text": text, "annotations": list(annotations)}]


def message(place: int, call: str, *texts: str, **item: Any) -> list[dict[str, Any]]:
    """All events of a message."""
    at = {"item_id": call, "output_index": place, "content_index": 0}
    whole = "".join(texts)
    return [
        added(place, "message", id=call, role="assistant", content=[]),
        event("content_part.added", **at, part={"type": "output_text", "text": "", "annotations": []}),
        *(event("output_text.delta", **at, delta=text, logprobs=[], obfuscation="x") for text in texts),
        event("output_text.done", **at, text=whole),
        event("content_part.done", **at, part=content(whole)[0]),
        done(place, "message", id=call, role="assistant", content=content(whole), **item),
    ]


def thought(place: int, call: str, *summaries: str, encrypted: str | None = "gAAA") -> list[dict[str, Any]]:
    """All events of a reasoning item."""
    events = [added(place, "reasoning", id=call, summary=[], encrypted_content="gA")]
    for index, text in enumerate(summaries):
        at = {"item_id": call, "output_index": place, "summary_index": index}
        events += [
            event("reasoning_summary_part.added", **at, part={"type": "summary_text", "text": ""}),
            event("reasoning_summary_text.delta", **at, delta=text[:3]),
            event("reasoning_summary_text.delta", **at, delta=text[3:]),
            event("reasoning_summary_text.done", **at, text=text),
            event("reasoning_summary_part.done", **at, part={"type": "summary_text", "text": text}),
        ]
    summary = [{"type": "summary_text", "text": text} for text in summaries]
    return [*events, done(place, "reasoning", id=call, summary=summary, encrypted_content=encrypted)]


def call(place: int, call_id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    """All events of a function call."""
    at = {"item_id": f"fc_{call_id}", "output_index": place}
    item = {"id": f"fc_{call_id}", "call_id": call_id, "name": name}
    whole = "".join(pieces)
    return [
        added(place, "function_call", **item, arguments=""),
        *(event("function_call_arguments.delta", **at, delta=piece) for piece in pieces),
        event("function_call_arguments.done", **at, arguments=whole),
        done(place, "function_call", **item, arguments=whole),
    ]


def provider_at(server: Server, **more: Any) -> OpenAIResponses:
    return OpenAIResponses(name="openai", base_url=server.url, key="secret-key", settings=NativeSettings(), **more)


async def said(*events: Any, raw: bool = False) -> list[StreamEvent]:
    async with playing(Play([sse(*events)])) as server:
        provider = provider_at(server)
        try:
            return await collected(provider, raw=raw)
        finally:
            await provider.close()


async def test_text_comes_as_one_part_with_the_providers_id() -> None:
    assert await said(created(), *message(0, "msg_1", "Hel", "lo"), completed()) == [
        PartOpened("msg_1", "text", metadata={"item": "msg_1"}),
        PartGrew("msg_1", "Hel"),
        PartGrew("msg_1", "lo"),
        PartClosed("msg_1"),
        Spent(100, 25, 20, 60),
        Finished("stop", "completed", {"id": "resp_1", "model": "gpt", "created_at": 1}, {"response_id": "resp_1"}),
    ]


async def test_thoughts_are_a_part_for_each_piece_and_keep_their_encrypted_form() -> None:
    events = await said(created(), *thought(0, "rs_1", "First", "Second"), *message(1, "msg_1", "x"), completed())
    assert [made for made in events if getattr(made, "part", "").startswith("rs_")] == [
        PartOpened("rs_1:0", "reasoning", metadata={"item": "rs_1"}),
        PartGrew("rs_1:0", "Fir"),
        PartGrew("rs_1:0", "st"),
        PartClosed("rs_1:0", {"item": "rs_1"}),
        PartOpened("rs_1:1", "reasoning", metadata={"item": "rs_1"}),
        PartGrew("rs_1:1", "Sec"),
        PartGrew("rs_1:1", "ond"),
        PartClosed("rs_1:1", {"item": "rs_1", "encrypted_content": "gAAA"}),
    ]


async def test_a_thought_without_a_summary_still_keeps_its_encrypted_form() -> None:
    events = await said(*thought(0, "rs_1"), *message(1, "msg_1", "x"), completed())
    assert events[:2] == [
        PartOpened("rs_1:0", "reasoning", metadata={"item": "rs_1"}),
        PartClosed("rs_1:0", {"item": "rs_1", "encrypted_content": "gAAA"}),
    ]


async def test_thoughts_of_open_models_are_marked_as_plain() -> None:
    at = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    events = await said(
        added(0, "reasoning", id="rs_1", summary=[]),
        event("reasoning_text.delta", **at, delta="Hm"),
        event("reasoning_text.done", **at, text="Hm"),
        done(0, "reasoning", id="rs_1", summary=[], content=[{"type": "reasoning_text", "text": "Hm"}]),
        completed(),
    )
    assert text_of(events, "reasoning") == "Hm"
    assert only(events, PartClosed) == [PartClosed("rs_1:0", {"item": "rs_1", "plain": True})]


async def test_calls_are_made_when_they_are_complete() -> None:
    events = await said(
        created(), *call(0, "call_1", "read", '{"path":', '"a"}'), *call(1, "call_2", "now"), completed()
    )
    assert events[:5] == [
        PartOpened("call_1", "tool_input", tool="read", metadata={"item": "fc_call_1"}),
        PartGrew("call_1", '{"path":'),
        PartGrew("call_1", '"a"}'),
        PartClosed("call_1"),
        CallMade("call_1", "read", '{"path":"a"}'),
    ]
    assert only(events, CallMade)[1] == CallMade("call_2", "now", "{}")
    assert only(events, Finished)[0].reason == "tool_calls"


async def test_items_that_overlap_stay_apart() -> None:
    first, second, text = call(0, "c1", "read", "1", "2"), call(1, "c2", "glob", "3", "4"), message(2, "m", "a", "b")
    mixed = [entry for row in zip(first, second, text[: len(first)], strict=True) for entry in row]
    events = await said(*mixed, *text[len(first) :], completed())
    assert [(made.call, made.arguments) for made in only(events, CallMade)] == [("c1", "12"), ("c2", "34")]
    assert text_of(events) == "ab"


async def test_two_calls_with_the_same_id_are_two_calls() -> None:
    events = await said(*call(0, "c", "read", "{}"), *call(1, "c", "read", "{}"), completed())
    assert len({made.call for made in only(events, CallMade)}) == 2


ANNOTATION = {"type": "url_citation", "url": "https://x.example", "title": "X", "start_index": 0, "end_index": 1}


async def test_sources_are_named_once_whether_streamed_or_only_with_the_text() -> None:
    at = {"item_id": "m", "output_index": 0, "content_index": 0, "annotation_index": 0}
    streamed = event("output_text.annotation.added", **at, annotation=ANNOTATION)
    file = {"type": "file_citation", "file_id": "f", "filename": "f.txt", "index": 0}
    last = done(0, "message", id="m", content=content("x", ANNOTATION, file))
    for extra in ([streamed], []):
        events = await said(*message(0, "m", "x")[:-1], *extra, last, completed())
        assert only(events, Cited) == [Cited({"url": "https://x.example", "title": "X"})]


SEARCH = {"type": "search", "query": "weather", "sources": [{"type": "url", "url": "https://x.example"}]}


@pytest.mark.parametrize(("status", "failed"), [("completed", False), ("failed", True)])
async def test_a_search_of_the_providers_own_is_shown_as_its_call(status: str, failed: bool) -> None:
    at = {"item_id": "ws_1", "output_index": 0}
    events = await said(
        added(0, "web_search_call", id="ws_1"),
        event("web_search_call.in_progress", **at),
        event("web_search_call.searching", **at),
        event("web_search_call.completed", **at),
        event(
            "output_item.done",
            output_index=0,
            item={"type": "web_search_call", "id": "ws_1", "status": status, "action": SEARCH},
        ),
        *message(1, "m", "Sunny"),
        completed(),
    )
    asked = {"type": "search", "query": "weather"}
    assert events[:4] == [
        PartOpened("ws_1", "tool_input", tool="webSearch", by_provider=True),
        PartGrew("ws_1", json.dumps(asked, separators=(",", ":"))),
        PartClosed("ws_1"),
        ProviderCallEnded("ws_1", "webSearch", asked, {"status": status, "sources": SEARCH["sources"]}, failed=failed),
    ]
    assert only(events, Finished)[0].reason == "stop"


async def test_a_search_that_nothing_ends_has_failed() -> None:
    events = await said(added(0, "web_search_call", id="ws_1"), completed())
    assert only(events, ProviderCallEnded)[0].failed


async def test_refusals_are_text() -> None:
    at = {"item_id": "m", "output_index": 0, "content_index": 0}
    events = await said(
        added(0, "message", id="m", content=[]),
        event("refusal.delta", **at, delta="I can"),
        event("refusal.delta", **at, delta="not"),
        event("refusal.done", **at, refusal="I cannot"),
        done(0, "message", id="m", content=[{"type": "refusal", "refusal": "I cannot"}]),
        completed(),
    )
    assert text_of(events) == "I cannot"


async def test_the_phase_of_a_text_is_kept_to_go_back() -> None:
    events = await said(*message(0, "m", "x", phase="commentary"), completed())
    assert only(events, PartClosed) == [PartClosed("m", {"phase": "commentary"})]


INCOMPLETE = [
    ("max_output_tokens", "length", "max_output_tokens"),
    ("content_filter", "content_filter", "content_filter"),
    ("new", "other", "new"),
    (None, "other", "incomplete"),
]


@pytest.mark.parametrize(("why", "reason", "raw"), INCOMPLETE)
async def test_an_incomplete_answer_says_why(why: str | None, reason: str, raw: str) -> None:
    details = {"reason": why} if why else None
    last = event("incomplete", response={**HEAD, "status": "incomplete", "incomplete_details": details, "usage": USAGE})
    finished = (await said(*message(0, "m", "x")[:3], last))[-1]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.raw_reason) == (reason, raw)


async def test_a_call_that_was_cut_by_the_limit_is_given_as_far_as_it_came() -> None:
    last = event(
        "incomplete", response={**HEAD, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    )
    events = await said(*call(0, "c", "read", '{"pa', "th")[:2], last)
    assert only(events, CallMade) == [CallMade("c", "read", '{"pa')]
    assert only(events, Finished)[0].reason == "length"


MESSAGE: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "content": content("Hello")}
CALL: dict[str, Any] = {"type": "function_call", "id": "fc", "call_id": "c", "name": "read", "arguments": '{"a":1}'}
THOUGHT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "e",
}

SPARSE: dict[str, list[Any]] = {
    "only whole items": [
        event("output_item.done", output_index=at, item=item) for at, item in enumerate([THOUGHT, MESSAGE, CALL])
    ],
    "only the last event": [],
    "items added and done": [
        entry
        for at, item in enumerate([THOUGHT, MESSAGE, CALL])
        for entry in (
            added(at, item["type"], **{k: v for k, v in item.items() if k in {"id", "call_id", "name"}}),
            event("output_item.done", output_index=at, item=item),
        )
    ],
    "no item announced, no index": [
        event("reasoning_summary_text.delta", item_id="rs", delta="Hm"),
        event("output_text.delta", item_id="m", delta="Hel"),
        event("output_text.delta", item_id="m", delta="lo"),
        event("output_item.added", item={**CALL, "arguments": ""}),
        event("function_call_arguments.delta", item_id="fc", delta='{"a":1}'),
    ],
    "ids that change on the way": [
        event("output_item.added", output_index=0, item={**THOUGHT, "summary": []}),
        event("reasoning_summary_text.delta", output_index=0, item_id="other", summary_index=0, delta="Hm"),
        event("output_item.done", output_index=0, item={**THOUGHT, "id": "another"}),
        event("output_text.delta", output_index=1, item_id="1", content_index=0, delta="Hel"),
        event("output_text.delta", output_index=1, item_id="2", content_index=0, delta="lo"),
        event("output_item.done", output_index=2, item=CALL),
    ],
    "all at the first place": [
        event("reasoning_summary_text.delta", output_index=0, item_id="rs", summary_index=0, delta="Hm"),
        event("output_text.delta", output_index=0, item_id="m", content_index=0, delta="Hello"),
        event("output_item.done", output_index=0, item={**MESSAGE, "type": "mcp_call"}),
        event("output_item.done", output_index=0, item=MESSAGE),
        event("output_item.done", output_index=0, item=CALL),
    ],
    "arguments only when they are done": [
        event("output_item.done", output_index=0, item=THOUGHT),
        event("output_text.done", output_index=1, item_id="m", content_index=0, text="Hello"),
        event("output_item.added", output_index=2, item={**CALL, "arguments": ""}),
        event("function_call_arguments.done", output_index=2, arguments='{"a":1}'),
    ],
}


@pytest.mark.parametrize("sparse", SPARSE)
async def test_servers_that_leave_events_out_are_understood(sparse: str) -> None:
    events = await said(*SPARSE[sparse], completed(output=[THOUGHT, MESSAGE, CALL]))
    assert (text_of(events, "reasoning"), text_of(events)) == ("Hm", "Hello")
    assert [(made.tool, made.arguments) for made in only(events, CallMade)] == [("read", '{"a":1}')]


async def test_an_answer_that_is_no_stream_is_taken_whole() -> None:
    whole = json.dumps({**HEAD, "status": "completed", "output": [MESSAGE], "usage": USAGE, "error": None}).encode()
    async with playing(Play([whole], headers={"Content-Type": "application/json"})) as server:
        provider = provider_at(server)
        assert text_of(await collected(provider)) == "Hello"
        await provider.close()


async def test_raw_events_come_before_what_they_became_with_their_type() -> None:
    events = [created(), *message(0, "m", "x"), completed()]
    made = await said(*events, raw=True)
    assert only(made, RawReceived) == [RawReceived(one, one["type"]) for one in events]
    assert made[1:6] == [
        RawReceived(events[1], "response.output_item.added"),
        PartOpened("m", "text", metadata={"item": "m"}),
        RawReceived(events[2], "response.content_part.added"),
        RawReceived(events[3], "response.output_text.delta"),
        PartGrew("m", "x"),
    ]


async def test_a_text_that_was_announced_and_stayed_empty_is_a_part_all_the_same() -> None:
    events = await said(created(), *message(0, "m"), completed(service_tier="flex"))
    assert events[:2] == [PartOpened("m", "text", metadata={"item": "m"}), PartClosed("m")]
    assert only(events, Finished)[0].metadata == {"response_id": "resp_1", "service_tier": "flex"}


async def test_what_was_announced_and_came_only_with_the_last_event_is_not_lost() -> None:
    output = [THOUGHT, MESSAGE, CALL]
    announced = [added(place, item["type"], id=item["id"]) for place, item in enumerate(output[:2])]
    call = added(2, "function_call", id=CALL["id"], call_id=CALL["call_id"], name="read", arguments="")
    events = await said(created(), *announced, call, completed(output=output))
    assert (text_of(events, "reasoning"), text_of(events)) == ("Hm", "Hello")
    assert [(made.tool, made.arguments) for made in only(events, CallMade)] == [("read", '{"a":1}')]


async def test_a_request_stores_nothing_and_asks_for_what_it_needs_later() -> None:
    tool = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
    plain = ModelRequest(model="gpt-5.2", system="be brief", messages=(UserMessage("hi"),), tools=(tool,))
    full = ModelRequest(model="gpt-5.2", system="", messages=(), max_output_tokens=9, web_search=True, reasoning=False)
    async with playing(Play([sse(completed())])) as server:
        provider = provider_at(server)
        for request in (plain, full):
            await collected(provider, request)
        await provider.close()
    assert server.asked[0].line == "POST /v1/responses HTTP/1.1"
    assert server.asked[0].body == {
        "model": "gpt-5.2",
        "instructions": "be brief",
        "input": [{"role": "user", "content": "hi"}],
        "tools": [
            {"type": "function", "name": "read", "description": "Reads.", "parameters": tool.schema, "strict": False}
        ],
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "store": False,
        "stream": True,
    }
    assert server.asked[1].body == {
        "model": "gpt-5.2",
        "input": [],
        "tools": [{"type": "web_search"}],
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "max_output_tokens": 9,
        "store": False,
        "stream": True,
    }


@pytest.mark.parametrize(
    "model", ["gpt-4.1", "gpt-4o-mini", "chatgpt-4o-latest", "gpt-5-chat-latest", "gpt-5.2-chat-latest"]
)
def test_models_that_do_not_reason_are_not_asked_for_thoughts(model: str) -> None:
    provider = OpenAIResponses(name="openai", base_url="http://127.0.0.1/v1", key=None, settings=NativeSettings())
    body = provider.body(ModelRequest(model=model, system="", messages=()))
    assert "reasoning" not in body
    assert "include" not in body


REFUSALS = [
    ("Unsupported parameter: 'reasoning.summary' is not supported with this model.", {"include"}),
    ("Your organization must be verified to generate reasoning summaries.", {"include"}),
    ("Encrypted content is not supported with this model.", {"reasoning"}),
]


@pytest.mark.parametrize(("message", "kept"), REFUSALS)
async def test_what_a_model_refuses_is_not_asked_of_it_again(message: str, kept: set[str]) -> None:
    refused = Play([json.dumps({"error": {"message": message}}).encode()], "400 Bad Request", {})
    async with playing(refused, Play([sse(completed())])) as server:
        provider = provider_at(server)
        with pytest.raises(ProviderFailed) as failed:
            await collected(provider)
        assert (failed.value.retryable, failed.value.retry_after) == (True, 0.0)
        await collected(provider)
        await collected(provider, ModelRequest(model="another", system="", messages=()))
        await provider.close()
    extras = [{"include", "reasoning"} & set(asked.body) for asked in server.asked]
    assert extras == [{"include", "reasoning"}, kept, {"include", "reasoning"}]


LONG = [
    created(),
    *thought(0, "rs_1", "Überlegung 🤔"),
    *message(1, "msg_1", "Größe: ", "42 €😀"),
    *call(2, "c1", "read", '{"path": "ä', '"}'),
    completed(),
]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 900), max_size=12), st.booleans())
def test_an_answer_is_the_same_wherever_the_network_cuts_it(sizes: list[int], named: bool) -> None:
    lines = [
        (f"event: {one['type']}\n" if named else "") + f"data: {json.dumps(one, ensure_ascii=False)}\n\n"
        for one in LONG
    ]
    stream, pieces = "".join(lines).encode(), []
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
    assert (text_of(events, "reasoning"), text_of(events)) == ("Überlegung 🤔", "Größe: 42 €😀")
    assert only(events, CallMade) == [CallMade("c1", "read", '{"path": "ä"}')]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "m", "x", "completed", "failed"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["text", "url", "type", "id"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def loose(**fields: Any) -> Any:
    """Objects in which any of these fields may be missing, or something else altogether."""
    return VALUES | st.fixed_dictionaries({}, optional={name: VALUES | field for name, field in fields.items()})


ITEMS = loose(
    type=st.sampled_from(["message", "reasoning", "function_call", "web_search_call", "mcp_call"]),
    id=st.sampled_from(["a", "b"]),
    call_id=st.sampled_from(["a", "c"]),
    name=st.just("read"),
    arguments=VALUES,
    content=st.lists(loose(text=st.just("t"), annotations=st.lists(loose(url=st.just("u")), max_size=2)), max_size=2),
    summary=st.lists(loose(text=st.just("s")), max_size=2),
    action=loose(query=st.just("q")),
)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from([*ResponsesReader._READ, "response.completed", "response.incomplete", "response.x"])},
    optional={
        "output_index": VALUES | st.integers(0, 2),
        "content_index": VALUES,
        "summary_index": VALUES,
        "item_id": st.sampled_from(["a", "b"]),
        "delta": VALUES | st.just("d"),
        "text": VALUES | st.just("d"),
        "arguments": VALUES,
        "annotation": VALUES,
        "item": ITEMS,
        "response": loose(
            status=st.just("completed"), output=st.lists(ITEMS, max_size=2), usage=loose(input_tokens=VALUES)
        ),
    },
)


@settings(max_examples=80, deadline=None)
@given(st.lists(EVENTS, max_size=8), st.booleans())
def test_whatever_a_server_sends_either_fails_as_such_or_keeps_the_order(given_events: list[Any], whole: bool) -> None:
    reader, events = ResponsesReader(), []
    try:
        for one in SseParser().feed(sse(*given_events, *([completed()] if whole else []))):
            if not reader.ended:
                events += reader.read(decoded(one.data))
        events += reader.end()
    except (ErrorEvent, ProviderFailed):
        return
    keeps_the_order(events)
