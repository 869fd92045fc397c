"""Every client message of the seed, right and wrong in every way: one table, the answers it owes."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from .harness import (
    INVALID,
    NO_DRIVER,
    UNAUTHENTICATED,
    Frame,
    Link,
    Server,
    Servers,
    error,
)

TOKEN = "matrix-token"
SMALL_LIMIT = 1 << 20
LARGE_LIMIT = 64 << 20
QUIET = ("sh", "-c", "stty -echo; echo ready; exec cat >/dev/null")


@dataclass(frozen=True)
class Message:
    """One client message: a valid form, its fields' wrong forms, and what a valid one is answered with."""

    event: str
    fields: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, list[Any]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    gated: bool = False
    reply: str | None = None
    error: Frame | None = None

    @property
    def valid(self) -> Frame:
        return {"event": self.event, **self.fields}

    def owed(self, answers: list[Frame]) -> None:
        """Fail unless these are exactly the answers to a valid one."""
        if self.error is not None:
            assert answers == [self.error]
        else:
            assert [frame["event"] for frame in answers] == ([self.reply] if self.reply else [])


NOT_TEXT = [None, 1, True, [], {}]
NOT_COUNT = [None, "1", -1, 1.5, True, [], {}]

MESSAGES = [
    Message("ping", reply="pong"),
    Message("auth", {"token": "x"}, {"token": NOT_TEXT}),
    Message("screen:get", reply="screen"),
    Message("state:get", reply="transition"),
    Message("get:status", reply="status"),
    Message(
        "replay",
        {"offset": 0, "limit": 10},
        {"offset": [*NOT_COUNT, 1 << 64], "limit": ["1", -1, 1.5, [], {}]},
        optional=frozenset({"limit"}),
        reply="replay_result",
    ),
    Message(
        "input",
        {"text": "hello", "enter": False},
        {"text": NOT_TEXT, "enter": [None, "true", 1, [], {}]},
        optional=frozenset({"enter"}),
        gated=True,
    ),
    Message("input:raw", {"data": "SGVsbG8="}, {"data": NOT_TEXT}, gated=True),
    Message(
        "keys",
        {"keys": ["left", "right"]},
        {"keys": [None, "enter", 1, {}, [1], [None], [["enter"]], ["enter", 1]]},
        gated=True,
    ),
    Message(
        "resize",
        {"cols": 90, "rows": 30},
        {
            "cols": [*NOT_COUNT, 65536, 10**9, -(10**9), 1 << 70, 1e300],
            "rows": [*NOT_COUNT, 65536, 10**9, -(10**9), 1 << 70, 1e300],
        },
    ),
    Message("nudge", {"message": "go on"}, {"message": NOT_TEXT}, gated=True, error=NO_DRIVER),
    Message(
        "respond",
        {"accept": True, "option": None, "text": None, "answers": []},
        {
            "accept": ["yes", 1, [], {}],
            "option": ["1", 1.5, True, [], {}],
            "text": [1, True, [], {}],
            "answers": ["1", 1, True, {}, [1], ["x"], [{"option": "1"}], [{"text": 5}], [{"option": 1.5}]],
        },
        optional=frozenset({"accept", "option", "text", "answers"}),
        gated=True,
        error=NO_DRIVER,
    ),
    Message("signal", {"signal": "SIGWINCH"}, {"signal": [*NOT_TEXT, 28]}, gated=True),
    Message("shutdown", gated=True),
]
HARMLESS = [message for message in MESSAGES if message.event != "shutdown"]


def named(messages: list[Message]) -> dict[str, Any]:
    return {"argvalues": messages, "ids": [message.event for message in messages]}


def missing() -> list[Any]:
    return [
        pytest.param(
            {key: value for key, value in message.valid.items() if key != name}, id=f"{message.event}-no-{name}"
        )
        for message in MESSAGES
        for name in message.fields
        if name not in message.optional
    ]


def wrong() -> list[Any]:
    return [
        pytest.param(message.valid | {name: value}, id=f"{message.event}-{name}-{json.dumps(value)}")
        for message in MESSAGES
        for name, values in message.wrong.items()
        for value in values
    ]


UNPARSABLE = {
    "empty": "",
    "blank": " \n",
    "word": "ping",
    "number": "42",
    "null": "null",
    "true": "true",
    "string": '"ping"',
    "array": "[]",
    "array-of-messages": '[{"event":"ping"}]',
    "no-event": "{}",
    "event-null": '{"event":null}',
    "event-number": '{"event":1}',
    "event-array": '{"event":["ping"]}',
    "event-empty": '{"event":""}',
    "event-unknown": '{"event":"nope"}',
    "event-case": '{"event":"PING"}',
    "event-spaced": '{"event":" ping"}',
    "tag-of-an-older-version": '{"type":"ping"}',
    "trailing-text": '{"event":"ping"} x',
    "two-objects": '{"event":"ping"}{"event":"ping"}',
    "trailing-comma": '{"event":"ping",}',
    "single-quotes": "{'event':'ping'}",
    "nan": '{"event":"replay","offset":NaN}',
    "deep-array": "[" * 100_000,
    "deep-object": '{"event":' * 100_000,
    "deep-field": '{"event":"ping","x":' + "[" * 100_000 + "]" * 100_000,
    "nul": "\x00",
    "other-names-screen": '{"event":"screen_request"}',
    "other-names-get-screen": '{"event":"get:screen"}',
    "other-names-agent": '{"event":"agent:get"}',
    "other-names-status": '{"event":"status:get"}',
    "other-names-replay": '{"event":"replay:get","offset":0}',
    "other-names-input": '{"event":"input:send","text":"x"}',
    "other-names-send-input": '{"event":"send:input","text":"x"}',
    "other-names-input-raw": '{"event":"input_raw","data":""}',
    "other-names-keys": '{"event":"keys:send","keys":[]}',
    "other-names-signal": '{"event":"signal:send","signal":"WINCH"}',
    "server-message-output": '{"event":"output","data":"","offset":0}',
    "server-message-pong": '{"event":"pong"}',
    "server-message-exit": '{"event":"exit","code":0,"signal":null}',
    "server-message-error": '{"event":"error","code":"BAD_REQUEST","message":"x"}',
}


@pytest.fixture(scope="module")
def open_server(shared: Servers) -> Server:
    """No token: every link may do everything."""
    server = shared.start(*QUIET)
    server.wait_for_output(b"ready")
    return server


@pytest.fixture(scope="module")
def token_server(shared: Servers) -> Server:
    server = shared.start(*QUIET, token=TOKEN)
    server.wait_for_output(b"ready")
    return server


async def written(link: Link) -> int:
    return (await link.status())["bytes_written"]


def padded(message: Frame, size: int) -> str:
    """The message with an unknown field that brings it to exactly ``size`` bytes."""
    bare = json.dumps(message | {"padding": ""})
    return bare[:-2] + "x" * (size - len(bare)) + bare[-2:]


def announce(link: Link, text: str) -> None:
    """The head and the first 64 KiB of one text frame: enough to know that it will be too large.

    The rest is kept back, so that the close frame cannot be lost in a connection reset.
    """
    head = bytes([0x81, 0xFF]) + len(text).to_bytes(8, "big") + bytes(4)
    link.wire.transport.write(head + text.encode()[: 1 << 16])


@pytest.mark.parametrize("message", **named(HARMLESS))
async def test_a_valid_message_gets_the_reply_it_owes(open_server: Server, message: Message):
    async with open_server.link("state") as link:
        if message.event == "ping":
            assert await link.ask(message.valid, "pong") == {"event": "pong"}
        else:
            message.owed(await link.answers(message.valid))


@pytest.mark.parametrize("message", **named([m for m in HARMLESS if m.optional]))
async def test_optional_fields_may_be_left_out(open_server: Server, message: Message):
    bare = {name: value for name, value in message.valid.items() if name not in message.optional}
    async with open_server.link("state") as link:
        message.owed(await link.answers(bare))


@pytest.mark.parametrize("message", **named([m for m in HARMLESS if m.event != "ping"]))
async def test_unknown_fields_are_ignored(open_server: Server, message: Message):
    async with open_server.link("state") as link:
        message.owed(await link.answers(message.valid | {"request_id": "r1", "extra": {"deep": [1]}}))


@pytest.mark.parametrize(
    "fields",
    [
        {"accept": None, "option": None, "text": None, "answers": None},
        {"answers": [{}]},
        {"answers": [{"option": 1, "text": None}, {"option": None, "text": "Other"}]},
        {"answers": [{"option": 1, "note": "unknown fields here too"}]},
        {"option": -1},
    ],
    ids=json.dumps,
)
async def test_respond_takes_nulls_and_empty_answers(open_server: Server, fields: Frame):
    async with open_server.link("state") as link:
        assert await link.answers({"event": "respond", **fields}) == [NO_DRIVER]


@pytest.mark.parametrize("message", missing())
async def test_a_missing_field_is_an_invalid_message(open_server: Server, message: Frame):
    async with open_server.link("state") as link:
        assert await link.answers(message) == [INVALID]


@pytest.mark.parametrize("message", wrong())
async def test_a_field_of_a_wrong_type_is_an_invalid_message(open_server: Server, message: Frame):
    async with open_server.link("state") as link:
        before = await written(link)
        assert await link.answers(message) == [INVALID]
        assert await written(link) == before


@pytest.mark.parametrize("text", UNPARSABLE.values(), ids=UNPARSABLE.keys())
async def test_what_is_no_message_of_the_contract_is_answered_and_the_link_lives(open_server: Server, text: str):
    async with open_server.link("state") as link:
        assert await link.answers(text) == [INVALID]


@pytest.mark.parametrize("message", **named(MESSAGES))
async def test_a_cut_message_is_an_invalid_message(open_server: Server, message: Message):
    async with open_server.link("state") as link:
        assert await link.answers(json.dumps(message.valid)[:-1]) == [INVALID]


@pytest.mark.parametrize("message", **named(MESSAGES))
async def test_a_binary_frame_is_an_invalid_message_and_does_nothing(open_server: Server, message: Message):
    async with open_server.link("state") as link:
        before = await written(link)
        assert await link.answers(json.dumps(message.valid).encode()) == [INVALID]
        assert await written(link) == before


async def test_a_message_in_fragments_is_one_message(open_server: Server):
    async with open_server.link("state") as link:
        answers = await link.answers(iter(['{"event":', '"get:', 'status"', "}"]))
        assert [frame["event"] for frame in answers] == ["status"]


async def test_many_bad_messages_in_a_row_are_each_answered_in_order(open_server: Server):
    async with open_server.link("state") as link:
        for number in range(200):
            await link.send({"event": "signal", "signal": f"NOPE{number}"})
        said = [frame["message"] for frame in await link.until_pong()]
        assert said == [f"unknown signal: NOPE{number}" for number in range(200)]


async def test_replies_come_in_the_order_of_the_requests(open_server: Server):
    script = ["state:get", "nope", "get:status", "nudge", "replay", "screen:get", "respond", "get:status"]
    fields = {"nudge": {"message": "x"}, "replay": {"offset": 0}}
    async with open_server.link("state") as link:
        for event in script:
            await link.send({"event": event, **fields.get(event, {})})
        assert [frame["event"] for frame in await link.until_pong()] == [
            "transition",
            "error",
            "status",
            "error",
            "replay_result",
            "screen",
            "error",
            "status",
        ]


async def test_a_text_frame_that_is_no_utf8_harms_no_other_link(open_server: Server):
    async with open_server.link("state") as other:
        async with open_server.link("state") as link:
            await link.wire.send(b'{"event":"ping","x":"\xff"}', text=True)
            assert await link.closed() == 1007
        assert await other.until_pong() == []


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\u0000"', '"\\udc00\\ud800"'], ids=["surrogate", "nul", "pair"])
async def test_strange_but_escaped_characters_never_end_the_link(open_server: Server, text: str):
    async with open_server.link("state") as link:
        answers = await link.answers(f'{{"event":"input","text":{text}}}')
        assert answers in ([], [INVALID])


# with a token, and not authenticated


@pytest.mark.parametrize("message", **named(MESSAGES))
async def test_unauthenticated_reads_are_answered_and_writes_are_refused(token_server: Server, message: Message):
    async with token_server.link("state") as link:
        before = await written(link)
        if message.event == "ping":
            assert await link.ask(message.valid, "pong") == {"event": "pong"}
        elif message.event == "auth":
            assert await link.answers(message.valid) == [error("UNAUTHORIZED", "authentication failed")]
        elif message.gated:
            assert await link.answers(message.valid) == [UNAUTHENTICATED]
        else:
            message.owed(await link.answers(message.valid))
        assert await written(link) == before
        assert token_server.alive()


@pytest.mark.parametrize("message", missing())
async def test_unauthenticated_a_missing_field_is_still_an_invalid_message(token_server: Server, message: Frame):
    async with token_server.link("state") as link:
        assert await link.answers(message) == [INVALID]


@pytest.mark.parametrize(
    "message",
    [
        {"event": "keys", "keys": ["badkey"]},
        {"event": "signal", "signal": "SIGNOPE"},
        {"event": "input:raw", "data": "?"},
    ],
    ids=lambda message: message["event"],
)
async def test_authentication_is_checked_before_what_a_field_means(token_server: Server, message: Frame):
    async with token_server.link("state") as link:
        assert await link.answers(message) == [UNAUTHENTICATED]


@pytest.mark.parametrize("size", [SMALL_LIMIT - 1, SMALL_LIMIT], ids=["under", "at"])
@pytest.mark.parametrize("message", **named(MESSAGES))
async def test_before_authentication_a_message_may_have_one_mebibyte(token_server: Server, message: Message, size: int):
    async with token_server.link("state") as link:
        answers = await link.answers(padded(message.valid, size)) if message.event != "ping" else []
        if message.event == "ping":
            await link.send(padded(message.valid, size))
            assert await link.receive() == {"event": "pong"}
        elif message.event == "auth":
            assert answers == [error("UNAUTHORIZED", "authentication failed")]
        elif message.gated:
            assert answers == [UNAUTHENTICATED]
        else:
            message.owed(answers)


@pytest.mark.parametrize("message", **named(MESSAGES))
async def test_before_authentication_a_larger_message_closes_the_link_with_1009(token_server: Server, message: Message):
    async with token_server.link("state") as other:
        async with token_server.link("state") as link:
            announce(link, padded(message.valid, SMALL_LIMIT + 1))
            assert await link.closed() == 1009
        assert await other.until_pong() == []


async def test_a_whole_message_over_the_limit_is_not_answered(token_server: Server):
    async with token_server.link("state") as link:
        with contextlib.suppress(ConnectionClosed):
            await link.send(padded({"event": "get:status"}, SMALL_LIMIT + 1))
        assert await link.closed() == 1009
        assert link.events() == []


async def test_fragments_count_together_against_the_limit(token_server: Server):
    whole = padded({"event": "get:status"}, SMALL_LIMIT + 1)
    async with token_server.link("state") as link:
        await link.send(iter([whole[: SMALL_LIMIT // 2], whole[SMALL_LIMIT // 2 :]]))
        assert await link.closed() == 1009


async def test_the_limit_counts_bytes_not_characters(token_server: Server):
    async with token_server.link("state") as link:
        await link.send(json.dumps({"event": "ping", "padding": "é" * (SMALL_LIMIT * 3 // 4)}, ensure_ascii=False))
        assert await link.closed() == 1009


@pytest.mark.parametrize("how", ["query", "header", "message"])
async def test_authentication_raises_the_limit(token_server: Server, how: str):
    query = {"token": TOKEN} if how == "query" else {}
    headers = {"Authorization": f"Bearer {TOKEN}"} if how == "header" else {}
    async with token_server.link("state", query=query, headers=headers) as link:
        if how == "message":
            assert await link.answers({"event": "auth", "token": TOKEN}) == []
        answers = await link.answers(padded({"event": "get:status"}, 3 * SMALL_LIMIT))
        assert [frame["event"] for frame in answers] == ["status"]


async def test_a_failed_authentication_does_not_raise_the_limit(token_server: Server):
    async with token_server.link("state") as link:
        await link.answers({"event": "auth", "token": "wrong"})
        await link.send(padded({"event": "get:status"}, SMALL_LIMIT + 1))
        assert await link.closed() == 1009


@pytest.mark.parametrize("size", [LARGE_LIMIT - 1, LARGE_LIMIT], ids=["under", "at"])
async def test_without_a_token_a_message_may_have_64_mebibytes(open_server: Server, size: int):
    async with open_server.link("state") as link:
        answers = await link.answers(padded({"event": "get:status"}, size))
        assert [frame["event"] for frame in answers] == ["status"]


async def test_a_message_over_64_mebibytes_closes_its_link_alone(open_server: Server):
    async with open_server.link("state") as other:
        async with open_server.link("state") as link:
            announce(link, padded({"event": "get:status"}, LARGE_LIMIT + 1))
            assert await link.closed() == 1009
        assert await other.until_pong() == []
        assert (await other.status())["state"] == "running"
