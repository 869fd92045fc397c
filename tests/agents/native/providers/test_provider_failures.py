"""What goes wrong between us and a provider, and what is said of it."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from dragoman.agents.native.providers.openai_chat import OpenAIChat
from dragoman.agents.native.providers.openai_responses import OpenAIResponses
from dragoman.agents.native.providers.port import Finished, ProviderFailed, RawReceived
from dragoman.agents.native.settings import NativeSettings

from .played import REQUEST, SOON, Play, collected, failure, only, playing, sse

KEY = "sk-proj-0123456789abcdefghijklmnop"
JSON = {"Content-Type": "application/json"}

HELLO = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": None}]}
STOP = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def chat(url: str, key: str | None = KEY, **settings: Any) -> OpenAIChat:
    return OpenAIChat(name="openai", base_url=url, key=key, settings=NativeSettings(**settings))


def refusal(status: str, error: Any, **headers: str) -> Play:
    body = error if isinstance(error, bytes) else json.dumps(error).encode()
    return Play([body], status, {**JSON, **headers})


async def failed_with(play: Play, **settings: Any) -> ProviderFailed:
    async with playing(play) as server:
        provider = chat(server.url, **settings)
        try:
            return await failure(provider)
        finally:
            await provider.close()


STATUSES = [
    ("400 Bad Request", "invalid_request", False),
    ("401 Unauthorized", "unauthorized", False),
    ("403 Forbidden", "unauthorized", False),
    ("404 Not Found", "invalid_request", False),
    ("408 Request Timeout", "network", True),
    ("409 Conflict", "failed", True),
    ("425 Too Early", "failed", True),
    ("429 Too Many Requests", "rate_limited", True),
    ("500 Internal Server Error", "failed", True),
    ("502 Bad Gateway", "failed", True),
    ("503 Service Unavailable", "overloaded", True),
    ("529 Site is overloaded", "overloaded", True),
]


@pytest.mark.parametrize(("status", "cause", "retryable"), STATUSES)
async def test_a_status_says_what_went_wrong_and_whether_it_may_pass(status: str, cause: str, retryable: bool) -> None:
    failed = await failed_with(refusal(status, {"error": {"message": "No.", "type": "x", "param": None, "code": None}}))
    assert (failed.cause, failed.retryable, failed.status) == (cause, retryable, int(status[:3]))
    assert str(failed) == "No."
    assert failed.detail == {"message": "No.", "type": "x", "param": None, "code": None}


BODIES = [
    ({"error": {"message": "said so"}}, "said so"),
    ({"error": "model 'x' not found"}, "model 'x' not found"),  # Ollama
    ({"object": "error", "message": "old vLLM", "type": "BadRequestError", "code": 400}, "old vLLM"),
    ({"detail": "Not Found"}, "Not Found"),  # FastAPI
    ({"detail": [{"loc": ["body"], "msg": "field required"}]}, '[{"loc":["body"],"msg":"field required"}]'),
    ([{"error": {"code": 400, "message": "Google", "status": "INVALID_ARGUMENT"}}], "Google"),
    (
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "tools unsupported"}}},
        "Provider returned error: tools unsupported",
    ),
    (b"plain words", "plain words"),
    (b"<html><h1>Bad</h1></html>", "HTTP 400 Bad Request"),
    (b"", "HTTP 400 Bad Request"),
    (b"{", "{"),
    (b"\xff\xfe", "��"),
]


@pytest.mark.parametrize(("body", "message"), BODIES)
async def test_the_message_is_the_providers_own_in_whichever_form_it_comes(body: Any, message: str) -> None:
    assert str(await failed_with(refusal("400 Bad Request", body))) == message


TOO_LONG = [
    {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"},
    {"message": "Your input exceeds the context window of this model. Please adjust your input and try again."},
    {"message": "x", "code": "context_length_exceeded", "type": "invalid_request_error"},
    {
        "message": "request exceeds the available context size",
        "type": "exceed_context_size_error",
    },
    {"message": "Please reduce the length of the messages or completion."},
    {"message": "prompt is too long: 210000 tokens > 200000 maximum"},
    {"message": "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens"},
    {"message": "Trying to keep the first 111490 tokens when context the overflows. However, …"},
]


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error"])
@pytest.mark.parametrize("error", TOO_LONG)
async def test_a_conversation_that_does_not_fit_is_known_as_such(error: dict[str, Any], status: str) -> None:
    failed = await failed_with(refusal(status, {"error": error}))
    assert (failed.cause, failed.retryable) == ("too_long", False)


async def test_a_spent_quota_is_not_tried_again_though_its_status_says_wait() -> None:
    error = {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}
    failed = await failed_with(refusal("429 Too Many Requests", {"error": error}))
    assert (failed.cause, failed.retryable) == ("rate_limited", False)


@pytest.mark.parametrize(("said", "retryable"), [("true", True), ("false", False)])
async def test_the_provider_itself_may_say_whether_to_try_again(said: str, retryable: bool) -> None:
    for status in ("400 Bad Request", "500 Internal Server Error"):
        failed = await failed_with(refusal(status, {"error": {"message": "x"}}, **{"x-should-retry": said}))
        assert failed.retryable is retryable


WAITS = [
    ({"Retry-After": "7"}, 7.0),
    ({"Retry-After": "0.5"}, 0.5),
    ({"Retry-After": "-3"}, 0.0),
    ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
    ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ({"Retry-After": "soon"}, None),
    ({"Retry-After": "inf"}, None),
    ({"Retry-After": "nan"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), WAITS)
async def test_how_long_to_wait_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    failed = await failed_with(refusal("429 Too Many Requests", {"error": {"message": "slow"}}, **headers))
    assert failed.retry_after == seconds


async def test_a_date_to_wait_for_is_counted_from_now() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    failed = await failed_with(refusal("429 Too Many Requests", {"error": {"message": "slow"}}, **{"Retry-After": at}))
    assert failed.retry_after is not None
    assert 60 < failed.retry_after <= 100


@pytest.mark.parametrize("pieces", [[], [sse(HELLO)], [sse(HELLO)[:-9]]])
async def test_an_answer_that_breaks_off_is_a_network_failure_that_may_pass(pieces: list[bytes]) -> None:
    for after in ("cut", "end"):
        failed = await failed_with(Play(pieces, after=after))
        assert (failed.cause, failed.retryable) == ("network", True)


@pytest.mark.parametrize("play", [Play([sse(HELLO)], after="hold"), Play(after="hold"), Play(after="mute")])
async def test_silence_ends_the_call_after_its_limit(play: Play) -> None:
    failed = await failed_with(play, silence_seconds=0.05)
    assert (failed.cause, failed.retryable) == ("network", True)
    assert "0.05 s" in str(failed)


async def test_a_server_that_is_not_there_is_said_to_be_unreachable() -> None:
    async with playing(Play()) as server:
        url = server.url
    provider = chat(url)
    failed = await failure(provider)
    await provider.close()
    assert (failed.cause, failed.retryable, failed.status) == ("network", True, None)
    assert "127.0.0.1" in str(failed)


@pytest.mark.parametrize("data", ["{", "[]", "7", "nonsense", '{"choices": NaN}'])
async def test_an_event_that_is_no_json_object_fails_the_call(data: str) -> None:
    failed = await failed_with(Play([sse(HELLO, data)]))
    assert (failed.cause, failed.retryable) == ("failed", True)


async def test_a_giant_event_fails_the_call_before_it_fills_the_memory() -> None:
    def endless() -> Any:
        yield b"data: "
        for _ in range(20):
            yield b"x" * 1024 * 1024

    failed = await failed_with(Play(endless(), after="hold"))  # type: ignore[arg-type]
    assert (failed.cause, failed.retryable) == ("failed", False)
    assert "bytes" in str(failed)


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect"])
async def test_a_redirect_is_not_followed_with_the_key(status: str) -> None:
    async with playing(Play()) as elsewhere, playing(Play([], status, {"Location": elsewhere.url})) as server:
        provider = chat(server.url)
        failed = await failure(provider)
        await provider.close()
        assert failed.cause == "invalid_request"
        assert elsewhere.asked == []


async def test_a_web_page_is_no_answer() -> None:
    failed = await failed_with(Play([b"<html>welcome</html>"], headers={"Content-Type": "text/html"}))
    assert (failed.cause, failed.retryable) == ("invalid_request", False)


@pytest.mark.parametrize("url", ["", "ftp://x/v1", "127.0.0.1:1/v1", "http://", "http://[::1", "no url"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ProviderFailed) as failed:
        chat(url)
    assert failed.value.cause == "invalid_request"


STREAMED_ERRORS = [
    ({"error": {"message": "Rate limited", "code": 429}}, "rate_limited", True),
    (
        {"error": {"message": "down", "code": 502}, "choices": [{"delta": {}, "finish_reason": "error"}]},
        "failed",
        True,
    ),
    ({"error": {"message": "bad", "type": "BadRequestError", "code": 400}}, "invalid_request", False),
    ({"error": {"message": "bad", "type": "invalid_request_error", "code": None}}, "invalid_request", False),
    ({"error": {"message": "Context size has been exceeded.", "type": "server_error", "code": 500}}, "too_long", False),
    ({"error": "model crashed"}, "failed", False),
    ({"object": "error", "message": "died", "type": "InternalServerError", "code": 500}, "failed", True),
    ({"choices": [{"delta": {}, "finish_reason": "error"}]}, "failed", True),
    (
        {"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 503}}]},
        "overloaded",
        True,
    ),
    ({"choices": [{"delta": {}, "finish_reason": "insufficient_system_resource"}]}, "overloaded", True),
]


@pytest.mark.parametrize(("event", "cause", "retryable"), STREAMED_ERRORS)
async def test_an_error_inside_a_stream_fails_the_call(event: Any, cause: str, retryable: bool) -> None:
    failed = await failed_with(Play([sse(HELLO, event)]))
    assert (failed.cause, failed.retryable) == (cause, retryable)
    assert str(failed)


async def test_an_error_with_a_good_status_and_no_stream_fails_the_call() -> None:
    failed = await failed_with(Play([b'{"error":{"message":"no such model"}}'], headers=JSON))
    assert str(failed) == "no such model"


async def test_cancelling_closes_the_connection_at_once() -> None:
    for play in (Play([sse(HELLO)], after="hold"), Play(after="mute")):
        async with playing(play) as server:
            provider = chat(server.url)
            task = asyncio.create_task(collected(provider))
            async with asyncio.timeout(SOON):
                await server.begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await server.left.wait()
            await provider.close()


async def test_closing_the_stream_closes_the_connection_at_once() -> None:
    async with playing(Play([sse(HELLO)], after="hold")) as server:
        provider = chat(server.url)
        async with aclosing(provider.stream(REQUEST)) as stream:
            await anext(stream)
        async with asyncio.timeout(SOON):
            await server.left.wait()
        await provider.close()


async def test_calls_one_after_another_share_a_connection() -> None:
    async with playing(Play([sse(HELLO, STOP, done=True)])) as server:
        provider = chat(server.url)
        for _ in range(3):
            await collected(provider)
        assert (len(server.asked), server.connections) == (3, 1)
        await provider.close()
        await collected(provider)
        assert server.connections == 2
        await provider.close()


async def test_an_answer_that_is_complete_but_never_ends_is_not_waited_for() -> None:
    async with playing(Play([sse(HELLO, STOP, done=True)], after="hold")) as server:
        provider = chat(server.url)
        async with asyncio.timeout(SOON):
            await collected(provider)
            await server.left.wait()
        await provider.close()


async def test_the_key_goes_into_one_header_and_no_other_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    for play in (
        refusal("401 Unauthorized", {"error": {"message": f"Incorrect API key provided: {KEY}.", "key": [KEY]}}),
        refusal("401 Unauthorized", {"error": {"message": f"Incorrect API key provided: {KEY[:8]}*****{KEY[-4:]}."}}),
        refusal("500 Internal Server Error", f"<p>{KEY}".encode()),
        refusal("500 Internal Server Error", f"who is {KEY}?".encode()),
        Play([sse(HELLO, {"error": {"message": f"bad {KEY}", "code": KEY}})]),
        Play(status="200 OK\r\nnonsense"),
        Play([sse(HELLO)], after="cut"),
    ):
        async with playing(play) as server:
            provider = chat(server.url)
            failed = await failure(provider)
            shown += [str(failed), repr(failed), repr(failed.detail), repr(provider), repr(provider.endpoint)]
            shown += traceback.format_exception(failed)
            shown.append(repr((failed.__cause__, failed.__context__)))
            await provider.close()
            assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
            assert KEY not in repr(server.asked[0].body)
    assert KEY not in "".join(shown) + caplog.text
    assert KEY[-4:] not in "".join(shown)


async def test_the_key_is_not_in_raw_events_either() -> None:
    async with playing(Play([sse({**HELLO, "echo": {KEY: KEY}}, STOP)])) as server:
        provider = chat(server.url)
        raws = only(await collected(provider, raw=True), RawReceived)
        await provider.close()
    assert KEY not in repr(raws)
    assert len(raws) == 2


async def test_a_key_that_no_header_can_hold_is_refused_without_being_shown() -> None:
    for key in ("sk-two\nlines", "sk-ключ"):
        provider = chat("http://127.0.0.1:1/v1", key)
        failed = await failure(provider)
        await provider.close()
        assert failed.cause == "unauthorized"
        assert key not in str(failed)


async def test_no_key_sends_no_header() -> None:
    async with playing(Play([sse(HELLO, STOP, done=True)])) as server:
        for key in (None, "", "  "):
            provider = chat(server.url, key)
            await collected(provider)
            await provider.close()
        assert not any("authorization" in asked.headers for asked in server.asked)


async def test_a_proxy_of_the_environment_is_used_except_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with playing(Play([sse(HELLO, STOP, done=True)])) as proxy, playing(Play([sse(HELLO, STOP)])) as server:
        monkeypatch.setenv("http_proxy", proxy.url.replace("http://", "http://me:secret@").removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        near, far = chat(server.url), chat("http://models.example/v1?version=1")
        await collected(near)
        await collected(far)
        await near.close()
        await far.close()
        assert len(server.asked) == 1
        assert [asked.line for asked in proxy.asked] == [
            "POST http://models.example/v1/chat/completions?version=1 HTTP/1.1"
        ]
        assert proxy.asked[0].headers["proxy-authorization"].startswith("Basic ")


async def test_many_calls_run_at_once_over_one_provider() -> None:
    async with playing(Play([sse(HELLO, STOP, done=True)])) as server:
        provider = chat(server.url)
        await asyncio.gather(*(collected(provider) for _ in range(150)))
        assert len(server.asked) == 150
        await provider.close()


async def test_responses_report_failure_in_all_their_ways() -> None:
    created = {"type": "response.created", "response": {"id": "r", "status": "in_progress"}}
    error = {"code": "server_error", "message": "The server had an error."}
    ways: list[tuple[Any, str, bool]] = [
        ({"type": "response.failed", "response": {"status": "failed", "error": error}}, "failed", True),
        ({"type": "response.completed", "response": {"status": "failed", "error": None}}, "failed", False),
        ({"type": "response.cancelled", "response": {"status": "cancelled"}}, "failed", False),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": None}, "rate_limited", True),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, "invalid_request", False),
        ({"error": {"message": "context window exceeded", "code": "context_length_exceeded"}}, "too_long", False),
        ({"type": "response.in_progress"}, "network", True),
    ]
    for event, cause, retryable in ways:
        async with playing(Play([sse(created, event)])) as server:
            provider = OpenAIResponses(name="openai", base_url=server.url, key=KEY, settings=NativeSettings())
            failed = await failure(provider)
            await provider.close()
        assert (failed.cause, failed.retryable) == (cause, retryable), event
        assert str(failed)


async def test_a_connection_that_does_not_come_about_has_its_own_limit() -> None:
    async with playing(Play(after="mute")) as server:
        provider = chat(server.url.replace("http:", "https:"), connect_seconds=0.05)  # the server says nothing of TLS
        failed = await failure(provider)
        await provider.close()
    assert (failed.cause, failed.retryable) == ("network", True)
    assert "could not be reached within 0.05 s" in str(failed)


async def test_a_reader_that_takes_its_time_is_no_silence() -> None:
    async with playing(Play([sse(HELLO), sse(STOP, done=True)]), Play(after="mute")) as server:
        provider = chat(server.url, silence_seconds=0.05)
        async with aclosing(provider.stream(REQUEST)) as stream:
            await anext(stream)
            assert "0.05 s" in str(await failure(provider))  # meanwhile the limit passes for another call
            events = [event async for event in stream]
        await provider.close()
    assert only(events, Finished)
