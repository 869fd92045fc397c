"""Whatever a client says over the socket: a handshake that is none ends its link without a word, a message that is none
is answered, and nothing of it is a failure of ours, or another link's business (invariant 8; spec §3, §4)."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from dragoman.dialects.windie.client_messages import PAYLOADS
from dragoman.dialects.windie.link import FAILED
from tests.faults.test_abuse import frame, upgraded

from . import anything
from .http_rig import Socket, WindieServer

LIMIT = 20.0

HANDSHAKE = json.dumps({"type": "handshake", "user_id": "mallory"})

FIELDS = (
    "text", "conversation_ref", "content", "screenshot_ref", "screenshot_refs", "screenshot", "workspace_path",
    "query_context", "repo_instruction_messages", "client_prompt_layers", "agent_definition", "turn_ref", "messages",
    "rehydrate_mode", "model_history", "client_version", "model_provider", "interaction_mode", "provider_api_keys",
    "tools", "request_id", "success", "data", "bundle_id", "status", "step_results", "force",
)  # fmt: skip

VALUES = (
    "null", "true", "0", "-1", "1e308", "1e999", "9" * 400, '""', '" "', '"x"', '"\\u0000"', '"\\ud800"', "[]", "{}",
    "[null]", "[[]]", "[{}]", '{"a":1,"a":2}', '"../../etc/passwd"', "[" * 900 + "]" * 900,
    '{"a":' * 900 + "1" + "}" * 900, '[{"role":"tool","content":"x","tool_call_id":"nobody"}]',
    '{"version":1,"mode":"custom","tools":{"mode":"explicit"}}',
    '{"openai":{"api_key":5}}', '{"output":null}', '"' + "a" * 100_000 + '"',
)  # fmt: skip


def _messages(kind: str) -> Iterator[str]:
    """This type with each field being anything, alone and beside what makes it a better one."""
    better = '"conversation_ref":"c","request_id":"r","bundle_id":"b"'
    for number, (field, value) in enumerate(itertools.product(FIELDS, VALUES)):
        yield f'{{"id":"m{number}","type":"{kind}","payload":{{"{field}":{value}}}}}'
        if number % 5 == 0 and f'"{field}"' not in better:
            yield f'{{"id":"n{number}","type":"{kind}","payload":{{{better},"{field}":{value}}}}}'


async def _is_usable(socket: Socket) -> None:
    """It answers, and did not say meanwhile that something failed here."""
    proof = f"proof-{secrets.token_hex(4)}"
    await socket.say({"id": proof, "type": "load-settings", "payload": {}})
    async with asyncio.timeout(LIMIT):
        while True:
            heard = json.loads(await socket.connection.recv())
            assert heard["payload"].get("message") != FAILED, heard
            if (heard["type"], heard.get("id")) == ("settings-loaded", proof):
                return


@pytest.mark.parametrize("kind", [kind for kind in PAYLOADS if kind != "query"])
async def test_any_field_of_a_message_may_be_anything(open_server: WindieServer, kind: str) -> None:
    async with open_server.socket() as socket:
        await socket.until("remote-tool-catalog")
        for text in _messages(kind):
            await socket.connection.send(text)
        await _is_usable(socket)


async def test_a_query_without_its_text_may_be_anything(open_server: WindieServer) -> None:
    """One that is right runs, which is not what is looked at here."""
    async with open_server.socket() as socket:
        await socket.until("remote-tool-catalog")
        sent = 0
        for text in _messages("query"):
            if '"text":"' not in text:
                await socket.connection.send(text)
                sent += 1
        await _is_usable(socket)
    assert sent > 500


async def _ending(server: WindieServer, first: str) -> tuple[int, str] | None:
    """How a link ends that begins so, having heard nothing; None where it is let in."""
    address = f"ws://127.0.0.1:{server.port}/windie/ws"
    async with asyncio.timeout(LIMIT), connect(address, proxy=None, max_size=None) as link:
        await link.send(first)
        try:
            heard = json.loads(await link.recv())
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd is not None else (0, "lost")
        assert heard["type"] in ("client-tool-manifest", "remote-tool-catalog")
        return None


async def test_any_json_as_a_handshake_lets_in_or_ends_without_a_word(open_server: WindieServer) -> None:
    loop = asyncio.get_running_loop()
    definition = st.dictionaries(st.sampled_from(anything.KEYS), anything.json, max_size=3)
    close_to_one = definition.map(lambda given: {"type": "handshake", "user_id": "u", "agent_definition": given})
    more = definition.map(lambda given: {"type": "handshake", "user_id": "u", **given})

    @settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(anything.json | close_to_one | more)
    def fuzz(value: Any) -> None:
        ended = asyncio.run_coroutine_threadsafe(_ending(open_server, json.dumps(value)), loop).result(60)
        assert ended in (None, (1008, ""))

    await asyncio.to_thread(fuzz)
    assert await _ending(open_server, HANDSHAKE) is None


async def test_any_json_as_a_message_leaves_the_link_usable(open_server: WindieServer) -> None:
    loop = asyncio.get_running_loop()
    kinds = st.sampled_from([kind for kind in PAYLOADS if kind != "query"])
    envelopes = st.builds(lambda kind, payload: {"id": "a", "type": kind, "payload": payload}, kinds, anything.json)
    async with open_server.socket() as socket:
        await socket.until("remote-tool-catalog")

        async def said(values: list[Any]) -> None:
            for value in values:
                await socket.connection.send(json.dumps(value))
            await _is_usable(socket)

        @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(anything.json | envelopes, min_size=1, max_size=20))
        def fuzz(values: list[Any]) -> None:
            asyncio.run_coroutine_threadsafe(said(values), loop).result(60)

        await asyncio.to_thread(fuzz)


BROKEN: dict[str, tuple[bytes, int]] = {
    "no UTF-8": (frame(0x1, b"\xff\xfe{"), 1007),
    "reserved bits": (b"\xc1\x80\0\0\0\0", 1002),
    "an unknown opcode": (b"\x83\x80\0\0\0\0", 1002),
    "no mask": (b"\x81\x02{}", 1002),
    "a continuation of nothing": (frame(0x0, b"x"), 1002),
    "longer than anything": (b"\x81\xff" + b"\xff" * 8 + bytes(4), 1009),
    "longer than a message": (b"\x81\xff" + struct.pack("!Q", 1 << 40) + bytes(4), 1009),
    "a ping that is too long": (frame(0x9, b"x" * 126), 1002),
    "half a close code": (frame(0x8, b"x"), 1002),
    "a close code that nobody may send": (frame(0x8, struct.pack("!H", 1005)), 1002),
    "too many pieces": (frame(0x1, b"{", fin=False) + frame(0x0, b" ", fin=False) * 5000, 1009),
}


def _code_of_the_end(port: int, data: bytes) -> int:
    with upgraded(port, "/windie/ws") as stream:
        stream.settimeout(LIMIT)
        stream.sendall(data)
        heard = b""
        while piece := stream.recv(65536):
            heard += piece
            at = heard.find(b"\x88")
            if at >= 0 and len(heard) >= at + 4:
                return int(struct.unpack("!H", heard[at + 2 : at + 4])[0])
    return 0


@pytest.mark.parametrize("handshake", [b"", frame(0x1, HANDSHAKE.encode())], ids=["at first", "after a handshake"])
@pytest.mark.parametrize("name", BROKEN)
async def test_broken_frames_end_their_link_and_no_other(
    open_server: WindieServer, name: str, handshake: bytes
) -> None:
    data, code = BROKEN[name]
    async with open_server.socket(user_id="somebody-else") as other:
        await other.until("remote-tool-catalog")
        assert await asyncio.to_thread(_code_of_the_end, open_server.port, handshake + data) == code
        await _is_usable(other)


async def test_two_hundred_links_that_are_cut_anywhere_leave_the_others_be(open_server: WindieServer) -> None:
    query = {"id": "q", "type": "query", "payload": {"text": "say hi", "conversation_ref": "cut"}}
    data = frame(0x1, HANDSHAKE.encode()) + frame(0x1, json.dumps(query).encode())

    def cut() -> None:
        for number in range(200):
            stream = upgraded(open_server.port, "/windie/ws")
            stream.sendall(data[: number * len(data) // 199])
            if number % 3 == 0:
                stream.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER: it is reset
            stream.close()

    async with open_server.socket(user_id="somebody-else") as other:
        await other.until("remote-tool-catalog")
        await asyncio.to_thread(cut)
        await _is_usable(other)
    async with open_server.socket(user_id="mallory") as again:
        await again.until("remote-tool-catalog")
        await again.say(query | {"id": "again"})
        assert (await again.until("streaming-complete"))["turn_ref"] == "again"
