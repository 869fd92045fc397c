"""``POST /input``: what is no prompt, and what comes along with one (spec §8, §10)."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
from base64 import b64encode
from typing import Any

import pytest

from dragoman.dialects.onion import http_call
from dragoman.dialects.onion.settings import OnionSettings
from dragoman.hub.errors import UnknownSession
from dragoman.hub.permissions import LOCAL
from dragoman.services.trust import TrustSettings
from dragoman.services.uploads import UploadSettings

from .http_rig import TOKEN, A, MakeServer, Reply, Server, eventually


@pytest.fixture
async def served(make_http: MakeServer) -> Server:
    return await make_http()


def data_url(data: bytes) -> str:
    return "data:application/octet-stream;base64," + b64encode(data).decode()


# What is no prompt


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{bad", "Invalid JSON"),
        (b"\xff", "Invalid JSON"),
        (b"[" * 100_000, "the body must be a JSON object"),
        (b'{"prompt":' + b"[" * 100_000, "Invalid JSON"),
        (b"[]", "the body must be a JSON object"),
        (b"null", "the body must be a JSON object"),
        (b'"text"', "the body must be a JSON object"),
        (b"", "prompt required"),
        (b"{}", "prompt required"),
        (b'{"prompt":""}', "prompt required"),
        (b'{"prompt":null}', "prompt required"),
        (b'{"prompt":1}', "prompt must be a string"),
        (b'{"prompt":["x"]}', "prompt must be a string"),
        (b'{"prompt":"\\ud800"}', "Invalid JSON"),
        (b'{"prompt":"x","session":1}', "session must be an object"),
        (b'{"prompt":"x","session":[]}', "session must be an object"),
        (b'{"prompt":"x","session":{"session_id":1}}', "session_id must be a string"),
        (b'{"prompt":"x","session":{"messages":1}}', "session.messages must be a list of objects"),
        (b'{"prompt":"x","input_id":{}}', "input_id must be a string"),
        (b'{"prompt":"x","session":{"session_id":"%b"}}' % (b"x" * 257), "session_id is longer than 256 characters"),
    ],
    ids=range(20),
)
async def test_what_is_no_prompt_is_said(served: Server, body: bytes, text: str) -> None:
    assert (await served.post("/input", body)).error == (400, text)
    assert not served.registry.rows(LOCAL)


async def test_a_signed_prompt_may_be_empty(served: Server) -> None:
    answer = await served.post("/input", served.signed(A, prompt=""))
    assert (answer.status, answer.json["status"]) == (200, "done")


# What comes along


async def test_files_come_along(served: Server) -> None:
    body = {"prompt": "say got it", "files": [{"name": "a.txt", "data": data_url(b"hello")}]}
    answer = await served.post("/input", body)
    assert answer.status == 200, answer
    (file,) = (served.work / ".co" / "uploads").iterdir()
    assert (file.name.endswith("_a.txt"), file.read_bytes()) == (True, b"hello")
    assert "  ↑ 1 files" in served.dialect.console.lines


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (
            [{"name": f"f{number}", "data": "eA=="} for number in range(11)],
            "Too many files: 11 (max: 10). Increase max_files_per_request in host.yaml",
        ),
        (
            [{"name": "big.txt", "data": data_url(b"x" * 1_100_000)}],
            "File too large: big.txt (1.0MB, max: 1MB). Increase max_file_size in host.yaml",
        ),
        ("none", "files must be a list"),
    ],
    ids=["many", "large", "text"],
)
async def test_files_that_are_refused_are_said_and_the_next_prompt_runs(
    make_http: MakeServer, files: Any, text: str
) -> None:
    server = await make_http(uploads=UploadSettings(max_file_size=1.0))
    body = {"prompt": "say x", "session": {"session_id": "mine"}}
    assert (await server.post("/input", {**body, "files": files})).error == (400, text)
    assert not (server.work / ".co" / "uploads").exists() or not list((server.work / ".co" / "uploads").iterdir())
    assert (await server.post("/input", body)).json["result"] == "x"


@pytest.mark.slow
async def test_ten_files_of_ten_megabytes_fit(served: Server) -> None:
    files = [{"name": f"f{number}", "data": b64encode(bytes([number]) * 10_485_760).decode()} for number in range(10)]
    answer = await served.post("/input", {"prompt": "say all", "files": files})
    assert answer.status == 200
    sizes = [file.stat().st_size for file in (served.work / ".co" / "uploads").iterdir()]
    assert sizes == [10_485_760] * 10


@pytest.mark.parametrize("how", ["near", "far", "token"])
async def test_how_much_may_be_sent_depends_on_who_sends_it(make_http: MakeServer, how: str) -> None:
    server = await make_http(
        far=how != "near",
        token=TOKEN if how == "token" else None,
        max_body=100_000,
        settings=OnionSettings(message_limit=200_000),
        trust=TrustSettings(policy="open"),
    )
    headers = {"authorization": f"Bearer {TOKEN}"} if how == "token" else {}

    async def sent(size: int) -> Reply:
        return await server.post("/input", json.dumps({"prompt": "say x", "pad": "x" * size}).encode(), **headers)

    most = 100_000 if how == "far" else 200_000
    assert (await sent(most - 100)).status == 200
    status, text = (await sent(most + 100)).error
    assert (status, f"larger than {most} bytes" in text) == (413, True)


async def test_bodies_that_are_too_much_together_have_to_wait_for_each_other(make_http: MakeServer) -> None:
    """One whose body has not come yet holds its room, and gives it back when its client goes away."""
    server = await make_http(settings=OnionSettings(input_bytes=1_000_000))
    slow = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    slow.putrequest("POST", f"{server.prefix}/input")
    slow.putheader("content-length", "900000")
    await asyncio.to_thread(slow.endheaders, b'{"prompt"')
    body = json.dumps({"prompt": "say x", "pad": "x" * 200_000}).encode()

    async def refused() -> bool:
        return (await server.post("/input", body)).status == 503

    async with asyncio.timeout(20):
        while not await refused():
            await asyncio.sleep(0.01)
    slow.close()
    async with asyncio.timeout(20):
        while await refused():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("limit", ["FIRST_SECONDS", "BODY_SECONDS"], ids=["at first", "in all"])
async def test_a_body_that_does_not_come_is_waited_for_only_so_long(
    served: Server, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(http_call, limit, 0.05)
    slow = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    slow.putrequest("POST", f"{served.prefix}/input")
    slow.putheader("content-length", "900")
    await asyncio.to_thread(slow.endheaders, b'{"prompt"')
    answer = await asyncio.to_thread(slow.getresponse)
    assert (answer.status, json.loads(answer.read())["error"]) == (408, "the body comes too slowly")
    slow.close()


async def test_whoever_sends_slowly_takes_no_place_of_those_that_wait(make_http: MakeServer) -> None:
    server = await make_http(settings=OnionSettings(waiting_inputs=2))
    slow = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=20) for _ in range(3)]
    for each in slow:
        each.putrequest("POST", f"{server.prefix}/input")
        each.putheader("content-length", "18")
        await asyncio.to_thread(each.endheaders, b'{"prompt"')
    assert (await server.post("/input", {"prompt": "say hello"})).json["result"] == "hello"
    for each in slow:
        await asyncio.to_thread(each.send, b':"say x"}')
        answer = await asyncio.to_thread(each.getresponse)
        assert (answer.status, json.loads(answer.read())["result"]) == (200, "x")
        each.close()


async def test_what_it_did_can_be_read_at_once(served: Server) -> None:
    name = (await served.post("/input", {"prompt": "say hello"})).json["session_id"]
    found = (await served.get(f"/sessions/{name}", authorization=f"Bearer {TOKEN}")).json
    assert (found["status"], found["result"], found["prompt"]) == ("done", "hello", "say hello")


async def test_a_session_that_is_deleted_meanwhile_is_said(served: Server) -> None:
    waiting = asyncio.create_task(served.post("/input", {"prompt": "wait"}))
    await eventually(lambda: served.registry.rows(LOCAL), "there is a session")
    session = await served.only()
    await eventually(lambda: session.shown.turn, "it runs")
    await served.registry.delete(LOCAL, session.id)
    assert (await waiting).status in (404, 503)
    with pytest.raises(UnknownSession):
        served.registry.row(LOCAL, "nope")


ODD: list[Any] = [None, True, 0, -1, 1e308, "", "x", "\x00", "0x", [], [1], [[]], {}, {"a": {}}, "9" * 300, [None] * 3]


async def test_whatever_is_sent_is_answered_in_the_one_form_and_the_next_prompt_runs(served: Server) -> None:
    """Invariant 8."""
    chance = random.Random(7)
    fields = ("payload", "from", "signature", "prompt", "images", "files", "session", "input_id", "type")
    inner = {
        "payload": ("prompt", "timestamp", "to", "invite_code", "payment", "method"),
        "session": ("session_id", "messages", "turn", "iteration", "updated", "mode"),
    }
    for _ in range(400):
        body = {"prompt": "say x"} if chance.random() < 0.7 else served.signed(A, prompt="say x")
        for name in chance.sample(fields, chance.randint(1, 3)):
            value = chance.choice(ODD)
            if name in inner and chance.random() < 0.6:
                value = {key: chance.choice(ODD) for key in chance.sample(inner[name], 2)}
            body[name] = value
        answer = await served.post("/input", body)
        if answer.status != 200:
            assert answer.status in (400, 401, 403), (body, answer)
            assert list(answer.json) == ["error"], (body, answer)
            assert isinstance(answer.json["error"], str)
    assert (await served.post("/input", {"prompt": "say on"})).json["result"] == "on"
    assert not [line for line in served.dialect.console.lines if not line.isprintable()]
