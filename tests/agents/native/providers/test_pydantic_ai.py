"""The pydantic-ai adapter against a scripted model behind each of its APIs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("pydantic_ai")

from dragoman.agents.native.providers.conversation import (
    AssistantMessage,
    Call,
    Image,
    Message,
    ModelRequest,
    Reasoning,
    Text,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from dragoman.agents.native.providers.port import (
    CallMade,
    Cited,
    Finished,
    PartClosed,
    PartGrew,
    PartOpened,
    ProviderCallEnded,
    ProviderFailed,
    Spent,
    StreamEvent,
)
from dragoman.agents.native.providers.pydantic import Api, PydanticAI
from dragoman.agents.native.settings import NativeSettings
from tests.agents.native.model_server import ModelServer, serving
from tests.agents.native.model_server.heard import Assistant, Called, Picture, Result, Said, Thought, User
from tests.agents.native.model_server.script import (
    Answer,
    Broken,
    Failure,
    Fault,
    Gate,
    Say,
    Search,
    Think,
    Usage,
    Use,
    say,
    use,
)

KEY = "sk-very-secret-0123456789"
MODELS: dict[Api, str] = {
    "anthropic": "claude-sonnet-5",
    "google": "gemini-2.5-pro",
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-5",
}
PNG = b"\x89PNG\r\n\x1a\n-not-quite"
LOOK = ToolSpec("look", "Look at a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with serving() as server:
        yield server


@pytest.fixture(params=list(MODELS))
def api(request: pytest.FixtureRequest) -> Api:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
async def provider(server: ModelServer, api: Api) -> AsyncIterator[PydanticAI]:
    provider = made(server, api)
    yield provider
    await provider.close()


def made(server: ModelServer, api: Api, **limits: Any) -> PydanticAI:
    base_url = server.base_url("gemini" if api == "google" else api)
    return PydanticAI("vendor", api, key=KEY, base_url=base_url, settings=NativeSettings(**limits))


def asking(provider: PydanticAI, *messages: Message, **more: Any) -> ModelRequest:
    given = {"system": "Be kind.", "messages": messages or (UserMessage("Hi"),), "tools": (LOOK,), **more}
    return ModelRequest(model=MODELS[provider._api], **given)


async def answer(provider: PydanticAI, *messages: Message, **more: Any) -> list[StreamEvent]:
    """All events of one call, checked for the order that the port promises."""
    events = [event async for event in provider.stream(asking(provider, *messages, **more))]
    ordered(events)
    return events


def ordered(events: list[StreamEvent]) -> None:
    opened: set[str] = set()
    closed: set[str] = set()
    for event in events:
        if isinstance(event, PartOpened):
            assert event.part not in opened
            opened.add(event.part)
        elif isinstance(event, PartGrew):
            assert event.part in opened - closed
            assert event.text
        elif isinstance(event, PartClosed):
            assert event.part in opened - closed
            closed.add(event.part)
        elif isinstance(event, CallMade):
            assert event.call in closed
    assert opened == closed
    assert [type(event) for event in events[-2:]] == [Spent, Finished]
    assert sum(isinstance(event, Spent | Finished) for event in events) == 2


def text_of(events: list[StreamEvent], kind: str = "text") -> str:
    parts = {event.part for event in events if isinstance(event, PartOpened) and event.kind == kind}
    return "".join(event.text for event in events if isinstance(event, PartGrew) and event.part in parts)


def calls_of(events: list[StreamEvent]) -> list[CallMade]:
    return [event for event in events if isinstance(event, CallMade)]


def finished(events: list[StreamEvent]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    return last


def remembered(events: list[StreamEvent], provider: str = "vendor") -> AssistantMessage:
    """The message that a conversation keeps of an answer."""
    opened = {event.part: event for event in events if isinstance(event, PartOpened)}
    said = {part: "".join(it.text for it in events if isinstance(it, PartGrew) and it.part == part) for part in opened}
    parts: list[Text | Reasoning | Call] = []
    for event in events:
        if isinstance(event, CallMade):
            given = json(event.arguments)
            parts.append(Call(event.call, event.tool, given, event.metadata))
        elif isinstance(event, PartClosed) and opened[event.part].kind != "tool_input":
            kind = Text if opened[event.part].kind == "text" else Reasoning
            parts.append(kind(said[event.part], event.metadata))
    return AssistantMessage(tuple(parts), provider)


def json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def failed(provider: PydanticAI, *messages: Message) -> ProviderFailed:
    with pytest.raises(ProviderFailed) as caught:
        await answer(provider, *messages)
    assert KEY not in f"{caught.value} {caught.value!r} {caught.value.detail}"
    assert caught.value.__cause__ is None
    return caught.value


async def test_text_comes_in_pieces_as_it_was_said(server: ModelServer, provider: PydanticAI) -> None:
    server.script(say("Hel", "lo", " there."))
    events = await answer(provider)
    assert [event.text for event in events if isinstance(event, PartGrew)] == ["Hel", "lo", " there."]
    assert finished(events).reason == "stop"
    asked = server.journal[0].asked
    assert (asked.model, asked.system, asked.messages) == (MODELS[provider._api], "Be kind.", (User("Hi"),))
    assert [(tool.name, tool.description) for tool in asked.tools] == [("look", "Look at a file.")]
    assert asked.tools[0].schema["properties"] == LOOK.schema["properties"]
    assert server.violations == []


async def test_an_answer_without_anything_is_an_empty_answer(server: ModelServer, provider: PydanticAI) -> None:
    server.script(Answer())
    events = await answer(provider)
    assert text_of(events) == ""
    assert finished(events).reason == "stop"
    assert len(server.journal) == 1


async def test_thoughts_are_a_part_of_their_own(server: ModelServer, provider: PydanticAI) -> None:
    server.script(Answer((Think(("Let me ", "see.")), Say(("Done.",)))))
    events = await answer(provider)
    assert text_of(events, "reasoning") == "Let me see."
    assert text_of(events) == "Done."
    kinds = [event.kind for event in events if isinstance(event, PartOpened)]
    assert kinds == ["reasoning", "text"]


async def test_calls_in_one_answer_are_each_complete(server: ModelServer, provider: PydanticAI) -> None:
    server.script(
        Answer((Say(("I look.",)), use("look", {"path": "a"}, id="call_1"), use("look", {"path": "b"}, id="call_2")))
    )
    events = await answer(provider)
    calls = calls_of(events)
    assert [(call.call, call.tool, json(call.arguments)) for call in calls] == [
        ("call_1", "look", {"path": "a"}),
        ("call_2", "look", {"path": "b"}),
    ]
    for call in calls:
        grown = "".join(it.text for it in events if isinstance(it, PartGrew) and it.part == call.call)
        assert grown == call.arguments
    assert finished(events).reason == "tool_calls"


async def test_a_call_without_arguments_has_an_empty_object(server: ModelServer, provider: PydanticAI) -> None:
    server.script(Answer((Use("look", ()) if provider._api != "google" else Use("look"),)))
    assert [call.arguments for call in calls_of(await answer(provider))] == ["{}"]


async def test_arguments_that_are_no_json_come_as_they_are_and_can_go_back(
    server: ModelServer, provider: PydanticAI
) -> None:
    server.script(Answer((Use("look", ('{"path": ', "oops"), "call_1"),)), say("Sorry."))
    if provider._api == "google":  # its API has no way to give them
        assert (await failed(provider)).retryable
        return
    events = await answer(provider)
    assert [call.arguments for call in calls_of(events)] == ['{"path": oops']
    result = ToolMessage("call_1", "look", "No JSON.", failed=True)
    await answer(provider, UserMessage("Hi"), remembered(events), result)
    assert server.violations == []


async def test_usage_counts_cached_and_reasoning_tokens_within(server: ModelServer, provider: PydanticAI) -> None:
    server.script(Answer((Say(("Hi",)),), usage=Usage(input=1000, output=200, reasoning=150, cached=600, written=90)))
    (spent,) = [event for event in await answer(provider) if isinstance(event, Spent)]
    assert (spent.input_tokens, spent.output_tokens, spent.cached_tokens) == (1000, 200, 600)
    if provider._api == "anthropic":
        assert spent.cache_write_tokens == 90
    else:  # Anthropic's does not tell
        assert spent.reasoning_tokens == 150


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_other_ends_are_told_with_the_provider_s_word(
    server: ModelServer, provider: PydanticAI, finish: Any
) -> None:
    server.script(Answer((Say(("Hi",)),), finish=finish))
    end = finished(await answer(provider))
    assert end.reason == finish
    assert end.raw_reason


async def test_pictures_and_results_go_out(server: ModelServer, provider: PydanticAI) -> None:
    server.script(say("Seen."))
    calls = (Call("call_1", "look", {"path": "a"}), Call("call_2", "look", {"path": "b"}))
    await answer(
        provider,
        UserMessage("What is it?", (Image("image/png", PNG),)),
        AssistantMessage((Text("I look."), *calls), "vendor"),
        ToolMessage("call_1", "look", "A cat.", images=(Image("image/png", PNG),)),
        ToolMessage("call_2", "look", "No such file.", failed=True),
        UserMessage("And?"),
    )
    assert server.violations == []
    first, said, *results = server.journal[0].asked.messages
    assert first == User("What is it?", (Picture("image/png", PNG),))
    assert isinstance(said, Assistant)
    assert Said("I look.") in said.parts
    assert [(call.id, call.tool) for call in said.calls] == [("call_1", "look"), ("call_2", "look")]
    given = [it for it in results if isinstance(it, Result)]
    assert [it.id for it in given] == ["call_1", "call_2"]
    assert "A cat." in given[0].text
    assert "No such file." in given[1].text
    assert given[1].failed in {True, None}
    assert given[1].failed or "error" in given[1].text
    pictures = [it for message in results if isinstance(message, User | Result) for it in message.pictures]
    assert pictures == [Picture("image/png", PNG)]


async def test_empty_results_and_empty_texts_are_taken_by_every_api(server: ModelServer, provider: PydanticAI) -> None:
    server.script(say("Fine."))
    await answer(
        provider,
        UserMessage("Go."),
        AssistantMessage((Text(""), Reasoning("Unsigned."), Call("call_1", "look")), "vendor"),
        ToolMessage("call_1", "look", ""),
        AssistantMessage((Reasoning("Cut off."),), "vendor"),
        UserMessage(" "),
    )
    assert server.violations == []


@pytest.mark.parametrize("call", ["functions.look:0", "a call", "1-a_B"])
async def test_ids_of_calls_that_were_made_elsewhere_are_taken_by_every_api(
    server: ModelServer, provider: PydanticAI, call: str
) -> None:
    server.script(say("Fine."))
    given = [Call(call, "look"), Call(f"{call}.", "look")]
    results = [ToolMessage(it.call, "look", "A cat.") for it in given]
    await answer(provider, UserMessage("Go."), AssistantMessage(tuple(given), "elsewhere"), *results)
    assert server.violations == []
    heard = server.journal[0].asked.messages
    ids = [part.id for message in heard if isinstance(message, Assistant) for part in message.calls]
    assert len(set(ids)) == 2
    assert [message.id for message in heard if isinstance(message, Result)] == ids


async def test_the_library_does_not_warn_at_every_call(
    server: ModelServer, provider: PydanticAI, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(say("Fine."))
    await answer(provider)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


async def test_what_the_provider_wants_back_goes_back_to_it(server: ModelServer, provider: PydanticAI) -> None:
    server.script(
        Answer((Think(("Let me see.",)), Say(("I look.",)), use("look", {"path": "a"}, id="call_1"))), say("Done.")
    )
    said = remembered(await answer(provider))
    await answer(provider, UserMessage("Hi"), said, ToolMessage("call_1", "look", "A cat."))
    assert server.violations == []
    back = server.journal[1].asked.messages[1]
    assert isinstance(back, Assistant)
    assert [part for part in back.parts if isinstance(part, Said)] == [Said("I look.")]
    assert [call.id for call in back.calls] == ["call_1"]
    thoughts = [part for part in back.parts if isinstance(part, Thought)]
    told = "" if provider._api == "google" else "Let me see."  # Google takes a signature without its thoughts
    assert "".join(part.text for part in thoughts) == told
    if provider._api != "openai-chat":  # which signs nothing
        signatures = [part.signature for part in back.parts if isinstance(part, Thought | Called)]
        assert any(signatures)


async def test_what_another_provider_gave_stays_away(server: ModelServer, provider: PydanticAI) -> None:
    server.script(Answer((Think(("Let me see.",)), Say(("Hi.",)))), say("Done."))
    said = remembered(await answer(provider), provider="another")
    await answer(provider, UserMessage("Hi"), said, UserMessage("And?"))
    assert server.violations == []
    assert server.journal[1].asked.messages == (User("Hi"), Assistant((Said("Hi."),)), User("And?"))


FAULTS: dict[Fault, tuple[str, bool]] = {
    "unauthorized": ("unauthorized", False),
    "forbidden": ("unauthorized", False),
    "rate_limited": ("rate_limited", True),
    "overloaded": ("overloaded", True),
    "server": ("failed", True),
    "invalid": ("invalid_request", False),
    "too_long": ("too_long", False),
}
TOO_LONG: dict[Api, str] = {
    "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "google": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "openai-chat": "Your input exceeds the context window of this model.",
    "openai-responses": "Your input exceeds the context window of this model.",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_refused_request_fails_in_the_provider_s_words(
    server: ModelServer, provider: PydanticAI, fault: Fault
) -> None:
    message = TOO_LONG[provider._api] if fault == "too_long" else f"No, said with {KEY}."
    server.script(Failure(fault, message))
    error = await failed(provider)
    assert (error.cause, error.retryable) == FAULTS[fault]
    assert str(error) == message.replace(KEY, "[key]")
    assert error.status is not None
    assert error.status >= 400
    assert error.detail["message"] == str(error)
    assert len(server.journal) == 1


async def test_a_limited_rate_says_when_to_come_back(server: ModelServer, provider: PydanticAI) -> None:
    server.script(Failure("rate_limited", "Slow down.", retry_after=7))
    assert (await failed(provider)).retry_after == 7


async def test_a_failure_within_the_stream_is_a_failure(server: ModelServer, provider: PydanticAI) -> None:
    server.script(Answer((Say(("Hel",)),), broken=Broken(f"It broke over {KEY}.")))
    error = await failed(provider)
    assert "It broke over [key]." in str(error)
    assert error.retryable


@pytest.mark.parametrize("after", [0, 2])
async def test_a_lost_connection_is_a_failure_that_may_pass(
    server: ModelServer, provider: PydanticAI, after: int
) -> None:
    server.script(Answer((Say(("one", "two", "three")),), cut_after=after))
    error = await failed(provider)
    assert (error.cause, error.retryable) == ("network", True)
    assert len(server.journal) == 1


async def test_closing_the_stream_ends_the_call_at_once(server: ModelServer, provider: PydanticAI) -> None:
    server.script(say("one", Gate("never"), "two"))
    async with aclosing(provider.stream(asking(provider))) as events:
        async for event in events:
            if isinstance(event, PartGrew):
                break
    await asyncio.wait_for(server.journal[0].left.wait(), 5)


async def test_cancelling_who_reads_ends_the_call_at_once(server: ModelServer, provider: PydanticAI) -> None:
    server.script(say(Gate("never"), "two"))
    reading = asyncio.create_task(answer(provider))
    await asyncio.wait_for(server.gates["never"].reached.wait(), 10)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.wait_for(server.journal[0].left.wait(), 5)


async def test_silence_has_a_limit(server: ModelServer, api: Api) -> None:
    server.script(say("one", Gate("never"), "two"))
    provider = made(server, api, silence_seconds=0.2)
    error = await failed(provider)
    assert (error.cause, error.retryable) == ("network", True)
    await provider.close()


async def test_a_server_that_is_not_there_is_a_failure_that_may_pass(api: Api) -> None:
    async with serving() as server:
        provider = made(server, api)
    error = await failed(provider)
    assert (error.cause, error.retryable, error.status) == ("network", True, None)
    await provider.close()


async def test_many_calls_run_at_once(server: ModelServer, provider: PydanticAI) -> None:
    server.script(*[say(f"Answer {number}.") for number in range(8)])
    answers = await asyncio.gather(*[answer(provider) for _ in range(8)])
    assert sorted(map(text_of, answers)) == [f"Answer {number}." for number in range(8)]


async def test_the_key_is_sent_and_shown_nowhere_else(
    server: ModelServer, provider: PydanticAI, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    server.key = KEY
    server.script(say("Hi."))
    events = await answer(provider)
    assert KEY not in f"{events} {provider!r} {caplog.text}"


async def test_thoughts_are_asked_for_only_when_wanted(server: ModelServer, provider: PydanticAI) -> None:
    server.script(say("Hi."), say("Hi."))
    await answer(provider)
    await answer(provider, reasoning=False)
    expected = provider._api != "openai-chat"
    assert [entry.asked.reasoning for entry in server.journal] == [expected, False]


async def test_the_output_limit_goes_out(server: ModelServer, provider: PydanticAI) -> None:
    server.script(say("Hi."))
    await answer(provider, max_output_tokens=123)
    assert server.journal[0].asked.max_output_tokens == 123
    assert server.violations == []


async def test_a_search_of_the_provider_is_shown_with_its_sources(server: ModelServer, provider: PydanticAI) -> None:
    if not provider.searches:
        pytest.skip("this API has no search tool")
    server.script(Answer((Search("cats", ("https://cats.example/",)),)))
    events = await answer(provider, web_search=True, tools=())
    assert server.journal[0].asked.web_search
    (ended,) = [event for event in events if isinstance(event, ProviderCallEnded)]
    assert ended.tool == "webSearch"
    assert not ended.failed
    assert "cats" in str(ended.input)
    assert "https://cats.example/" in str(ended.output)
    assert [event.by_provider for event in events if isinstance(event, PartOpened) and event.tool] == [True]
    if provider._api == "google":
        assert {event.source["url"] for event in events if isinstance(event, Cited)} == {"https://cats.example/"}


async def test_older_claude_thinks_only_where_it_may(server: ModelServer) -> None:
    provider = made(server, "anthropic")
    call = Call("call_1", "look", {})
    unthought = (UserMessage("Hi"), AssistantMessage((call,), "another"), ToolMessage("call_1", "look", "A cat."))
    requests = [
        asking(provider),
        asking(provider, max_output_tokens=500),
        asking(provider, *unthought),
        asking(provider, *unthought, AssistantMessage((Text("A cat."),)), UserMessage("And?")),
    ]
    for request in requests:
        server.script(say("Hi."))
        async for _ in provider.stream(msgspec.structs.replace(request, model="claude-haiku-4-5")):
            pass
    assert server.violations == []
    assert [entry.asked.reasoning for entry in server.journal] == [True, False, False, True]
    await provider.close()


async def test_an_answer_that_pauses_is_gone_on_with(server: ModelServer) -> None:
    server.script(
        Answer((Search("cats", ("https://a.example/",)),), finish="pause"),
        Answer((Search("dogs", ("https://b.example/",)),), finish="pause"),
        say("Done."),
    )
    provider = made(server, "anthropic")
    events = await answer(provider, web_search=True)
    assert text_of(events) == "Found.Found.Done."
    assert finished(events).reason == "stop"
    assert events[-2] == Spent(300, 75, 0, 0, 0)
    blocks = [block["type"] for block in server.journal[2].body["messages"][-1]["content"]]
    assert blocks == ["server_tool_use", "web_search_tool_result", "text"] * 2
    assert server.violations == []
    await provider.close()


async def test_without_a_key_the_vendor_is_not_called() -> None:
    error = await failed(PydanticAI("anthropic", "anthropic"))
    assert error.cause == "unauthorized"


async def test_claude_is_told_to_cache(server: ModelServer) -> None:
    server.script(say("Hi."))
    provider = made(server, "anthropic")
    await answer(provider)
    body = server.journal[0].body
    marked = [body["system"][-1], body["tools"][-1], body["messages"][-1]["content"][-1]]
    assert [it["cache_control"]["type"] for it in marked] == ["ephemeral"] * 3
    await provider.close()


def test_the_library_comes_with_the_first_call_and_may_be_missing() -> None:
    program = """
import asyncio, sys
from dragoman.agents.native.providers.conversation import ModelRequest, UserMessage
from dragoman.agents.native.providers.pydantic import PydanticAI
assert "pydantic_ai" not in sys.modules
sys.modules["pydantic_ai"] = None  # as Python has it for a package that is not there
async def ask():
    request = ModelRequest(model="m", system="", messages=(UserMessage("Hi"),))
    async for _ in PydanticAI("anthropic", "anthropic", key="k").stream(request):
        pass
try:
    asyncio.run(ask())
except Exception as error:
    print(type(error).__name__, error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.startswith("ProviderFailed")
    assert "pip install 'dragoman[models]'" in said.stdout


TEXTS = st.sampled_from(["", " ", "Hello.", "Ünï\n\ncode \U0001f600", '{"a": 1}'])
INPUTS = st.sampled_from([None, {}, {"path": "a"}, '{"path": oops', "text", [1], 3])
PICTURES = st.sampled_from([(), (Image("image/png", PNG),)])


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Conversations as the port promises them: every call with its one result, right after."""
    messages: list[Message] = [UserMessage(draw(TEXTS), draw(PICTURES))]
    for turn in range(draw(st.integers(0, 4))):
        calls = [Call(f"call_{turn}_{number}", "look", draw(INPUTS)) for number in range(draw(st.integers(0, 3)))]
        said = draw(st.lists(st.builds(Text, TEXTS) | st.builds(Reasoning, TEXTS), max_size=2))
        messages.append(AssistantMessage((*said, *calls), draw(st.sampled_from(["vendor", "another", None]))))
        messages += [
            ToolMessage(it.call, it.tool, draw(TEXTS), draw(st.booleans()), draw(PICTURES))
            for it in draw(st.permutations(calls))
        ]
        if not calls or draw(st.booleans()):
            messages += [UserMessage(draw(TEXTS), draw(PICTURES)) for _ in range(draw(st.integers(1, 2)))]
    return tuple(messages)


@pytest.mark.parametrize("api", MODELS)
@settings(
    max_examples=3, phases=[Phase.generate], deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(held=st.lists(conversations(), min_size=10, max_size=20))
def test_every_valid_conversation_is_taken(api: Api, held: list[tuple[Message, ...]]) -> None:
    async def run() -> None:
        async with serving() as server, AsyncExitStack() as stack:
            provider = made(server, api)
            stack.push_async_callback(provider.close)
            for conversation in held:
                server.script(say("Fine."))
                await answer(provider, *conversation)
                calls = [it.call for message in conversation for it in getattr(message, "calls", ())]
                told = [it.id for it in server.journal[-1].asked.messages if isinstance(it, Result)]
                assert sorted(told) == sorted(calls)
            assert server.violations == []

    asyncio.run(run())
