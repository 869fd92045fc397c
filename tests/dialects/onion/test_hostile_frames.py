"""Whatever a client says: it has its answer, the socket stays usable, and nothing of it is a failure of ours."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

import pytest

from dragoman.dialects.onion.errors import FAILED

from .conftest import MakeServer
from .rig import ALICE, HOST, Key, Onion, Talk, of
from .test_hostile_rights import owned_by_host

TYPES = (
    "CONNECT", "INPUT", "PONG", "ASK_USER_RESPONSE", "APPROVAL_RESPONSE", "PLAN_REVIEW_RESPONSE", "ULW_RESPONSE",
    "mode_change", "INTERRUPT", "prompt_update", "SESSION_STATUS", "ONBOARD_SUBMIT", "ADMIN_PROMOTE", "ADMIN_DEMOTE",
    "ADMIN_BLOCK", "ADMIN_UNBLOCK", "ADMIN_GET_LEVEL", "ADMIN_ADD", "ADMIN_REMOVE", "ADMIN_", "SEAL", "EXEC", "connect",
)  # fmt: skip

FIELDS = (
    "type", "session_id", "last_msg_id", "session", "payload", "from", "signature", "prompt", "images", "files",
    "input_id", "request_id", "answer", "approved", "scope", "feedback", "mode", "message",
)  # fmt: skip

VALUES = (
    "null", "true", "false", "0", "-0", "-1", "1e308", "1e999", "-1e-999", "9" * 400, "0.1", '""', '"x"', "[]", "{}",
    '"0x"', '"' + "a" * 257 + '"', '"' + "a" * 5000 + '"', '"\\u0000\\u0007\\u001b[2J"', '"\\u202egnp.exe"',
    '"\\ud800"', '"\\udfff\\ud800"', '"../../etc/passwd"', '"ev-9999999999999999999"', '"ev-1"', '["a","b"]',
    "[null]", '[{"name":"x"}]', '[{"name":5,"data":"AA=="}]', '[{"name":"\\ud800","data":"AA=="}]',
    '[{"name":"a","data":"%%%%"}]', '["data:image/png;base64,AAAA"]', '["\\ud800"]', '{"session_id":5}',
    '{"session_id":"\\ud800"}', '{"messages":5}', '{"messages":[5]}', '{"messages":[{"role":"user","content":5}]}',
    '{"messages":[{"role":"user","content":"\\ud800"}]}', '{"a":1,"a":2}', "[" * 900 + "]" * 900,
    '{"a":' * 900 + "1" + "}" * 900, "[" * 3000 + "]" * 3000,
)  # fmt: skip

BROKEN = (
    "", " ", "\ufeff{}", "{", "}", "[", '"', "nul", "NaN", '{"type":NaN}', '{"type":"PONG",}', '{"type":"PONG"}{',
    '{"type":"PONG"} \x00', "{'type':'PONG'}", '{"type":"PONG","x":\x01}', '{"type":"PO\nNG"}', '{"type":"\\x"}',
    '{"type":"INPUT","prompt":"\\ud8"}', "[" * 50_000, '{"a":' * 50_000, "9" * 5000, "9" * 5000 + "x",
    '{"type":"INPUT","type":"NOPE"}', '{"type":["INPUT"]}', '{"type":{"type":"INPUT"}}', "[1,2", "null", "5", "true",
)  # fmt: skip


def _each_field(kind: str) -> Iterator[str]:
    """A message of this type with each field having each value, alone; and with what makes it a better one."""
    better = '"prompt":"say x","answer":"x","approved":true,"mode":"safe","message":"x","session":{"messages":[]}'
    for field, value in itertools.product(FIELDS, VALUES):
        name = f'"type":"{kind}",' if field != "type" else ""
        yield f'{{{name}"{field}":{value}}}'
        if f'"{field}"' not in better:
            yield f'{{{name}{better},"{field}":{value}}}'


async def _is_usable(talk: Talk) -> None:
    """It answers, and has not said meanwhile that something failed here."""
    name = f"proof-{len(talk.frames)}-{time.monotonic_ns()}"
    talk.say("SESSION_STATUS", session={"session_id": name})
    await talk.next("SESSION_STATUS", session_id=name)
    assert not [frame for frame in of(talk.frames, "ERROR") if frame["message"] == FAILED]


@pytest.mark.parametrize("connected", [False, True], ids=["before CONNECT", "after CONNECT"])
async def test_any_field_of_any_type_may_be_anything(served: Onion, *, connected: bool) -> None:
    sent = 0
    for kind in TYPES:
        async with served.talk() as talk:
            if connected:
                await talk.connect(f"hostile-{kind}")
            for text in _each_field(kind):
                talk.wire.send(text)
                sent += 1
            await _is_usable(talk)
    assert sent > 10_000


def _one_of_each() -> Iterator[str]:
    """A sample of those texts that has each field with each value."""
    for number, (field, value) in enumerate(itertools.product(FIELDS, VALUES)):
        kind = TYPES[number % len(TYPES)]
        yield f'{{"type":"{kind}","{field}":{value}}}' if field != "type" else f'{{"type":{value}}}'


@pytest.mark.parametrize("connected", [False, True], ids=["before CONNECT", "after CONNECT"])
async def test_whatever_is_sent_is_answered_but_for_pong(served: Onion, *, connected: bool) -> None:
    """One after the other: what is told before the next answer about a name that nobody has, is to this text."""
    silent: list[str] = []
    async with served.talk() as talk:
        if connected:
            await talk.connect("answered")
        for number, text in enumerate(_one_of_each()):
            begin = len(talk.frames)
            talk.wire.send(text)
            name = f"no session {number}"
            talk.say("SESSION_STATUS", session={"session_id": name})
            await talk.next("SESSION_STATUS", session_id=name)
            told = [frame for frame in talk.frames[begin : talk.mark - 1] if frame["type"] != "PING"]
            if not told:
                silent.append(text)
    assert silent
    assert [text for text in silent if not text.startswith('{"type":"PONG"')] == []


async def test_what_is_no_message_has_an_error_of_its_own(served: Onion) -> None:
    async with served.talk() as talk:
        for text in BROKEN:
            talk.mark = len(talk.frames)
            talk.wire.send(text)
            await talk.next("ERROR")
            await _is_usable(talk)
        for data in (b"", b"\xff\xfe", b'{"type":"PONG"}'):
            talk.mark = len(talk.frames)
            talk.wire.send(data)
            assert (await talk.next("ERROR"))["message"].startswith("binary frames")
        await _is_usable(talk)


SIGNED = (
    "timestamp", "to", "prompt", "type", "invite_code", "payment", "client_id", "admin_id", "reason", "answer",
    "approved", "request_id", "message", "x",
)  # fmt: skip


def _escaped(fields: str) -> bytes:
    """What is signed, as hosts write it."""
    return json.dumps(json.loads(fields), sort_keys=True, separators=(",", ":")).encode()


def _signed(key: Key, kind: str, field: str, value: str, more: str) -> str:
    now = round(time.time(), 6)
    payload = ",".join(part for part in (f'"timestamp":{now}', more, f'"{field}":{value}') if part)
    payload = "{" + (f'"{field}":{value}' if field == "timestamp" else payload) + "}"
    proof = key.sign(_escaped(payload))
    return f'{{"type":"{kind}","payload":{payload},"from":"{key.address}","signature":"{proof}"}}'


@pytest.mark.parametrize("key", [ALICE, HOST], ids=["anybody", "the owner"])
async def test_whatever_is_signed_is_no_failure(make_server: MakeServer, key: Key) -> None:
    served = await owned_by_host(make_server)
    values = [each for each in VALUES if each not in ("1e999", "-1e-999", "9" * 400) and not each.startswith("[[[")]
    for kind in TYPES:
        if kind == "ADMIN_ADD":
            continue
        more = '"client_id":"somebody"' if kind.startswith("ADMIN") else ""
        async with served.client(f"signed-{kind}", key=key) as talk:
            for field, value in itertools.product(SIGNED, values):
                if field not in more:
                    talk.wire.send(_signed(key, kind, field, value, more))
            await _is_usable(talk)


PONGS = (
    b"got ", b"got 1 x", b"got 1 ", b"got 1 -1", b"got 1 1_0", b"got 1 \xb2", b"got 1 " + b"9" * 110, b"asked 1.1",
    b" ",
    b"\xff" * 125,
)  # fmt: skip


async def test_pongs_that_answer_no_ping_prove_nothing_and_end_nothing(served: Onion) -> None:
    async with served.client() as talk:
        for payload in PONGS:
            talk.wire.send_pong(payload)
        await _is_usable(talk)
