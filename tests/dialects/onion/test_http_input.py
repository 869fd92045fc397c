"""``POST /input``: a prompt over HTTP, and its answer once the turn has ended (spec §10)."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any

import pytest

from dragoman.dialects.onion.settings import OnionSettings
from dragoman.hub.permissions import LOCAL
from dragoman.services.trust import TrustSettings

from .http_rig import HOST, TOKEN, A, B, MakeServer, Reply, Server, eventually

UNSIGNED = (401, "unauthorized: signed request required")
CODE = "---\nallow: [whitelisted, contact]\ndefault: ask\nonboard:\n  invite_code: [friends]\n---\n"


@pytest.fixture
async def served(make_http: MakeServer) -> Server:
    return await make_http()


# The answer


async def test_a_signed_prompt_is_run_and_answered_as_the_original_does(served: Server) -> None:
    answer = await served.post("/input", served.signed(A, prompt="say hello", to=HOST.address))
    assert answer.status == 200
    found = answer.json
    assert list(found) == [
        *("session_id", "status", "result", "duration_ms", "session", "chat_items", "server_newer"),
    ]
    assert (found["status"], found["result"], found["server_newer"]) == ("done", "hello", False)
    assert isinstance(found["duration_ms"], int)
    assert found["session"]["session_id"] == found["session_id"]
    assert [(message["role"], message["content"]) for message in found["session"]["messages"]] == [
        ("user", "say hello"),
        ("assistant", "hello"),
    ]
    assert [(item["type"], item["content"]) for item in found["chat_items"]] == [
        ("user", "say hello"),
        ("agent", "hello"),
    ]
    session = await served.only()
    assert session.shown.owner == f"onion:{A.address}"
    assert session.id == found["session_id"]


async def test_a_session_goes_on_under_the_name_that_its_client_gave(served: Server) -> None:
    first = await served.post("/input", {**served.signed(A, prompt="say one"), "session": {"session_id": "mine"}})
    assert first.json["session_id"] == "mine"
    second = await served.post(
        "/input", {**served.signed(A, prompt="say two", nonce=2), "session": first.json["session"]}
    )
    assert second.json["session_id"] == "mine"
    assert (second.json["server_newer"], second.json["session"]["turn"]) == (False, 2)
    assert [message["content"] for message in second.json["session"]["messages"]] == [
        *("say one", "one", "say two", "two"),
    ]
    stale = await served.post(
        "/input", {**served.signed(A, prompt="say three", nonce=3), "session": first.json["session"]}
    )
    assert stale.json["server_newer"] is True
    assert stale.json["session"]["turn"] == 3


async def test_a_session_is_its_owners_and_another_gets_one_of_their_own(served: Server) -> None:
    """Invariant 12: the answer to B is what it would be if there were no such session."""
    name = {"session_id": "mine"}
    await served.post("/input", {**served.signed(A, prompt="say secret"), "session": name})
    other = await served.post("/input", {**served.signed(B, prompt="say mine"), "session": name})
    assert other.json["session_id"] == "mine"
    assert other.json["session"]["turn"] == 1
    assert b"secret" not in other.body
    assert len(served.registry.rows(LOCAL)) == 2


@pytest.mark.parametrize(
    ("script", "status", "text"),
    [
        ("fail the disk burns", 500, "the disk burns"),
        ("crash", 500, "the agent failed unexpectedly"),
    ],
    ids=["fails", "crashes"],
)
async def test_a_turn_that_fails_is_an_error_with_its_text(served: Server, script: str, status: int, text: str) -> None:
    answer = await served.post("/input", {"prompt": script, "session": {"session_id": "mine"}})
    assert answer.error == (status, text)
    assert answer.json["session_id"] == "mine"
    again = await served.post("/input", {"prompt": "say better", "session": {"session_id": "mine"}})
    assert again.json["result"] == "better"


async def test_while_the_turn_asks_the_request_waits_and_the_answer_comes_from_a_socket(served: Server) -> None:
    body = {"prompt": "ask Which?\nsay done", "session": {"session_id": "mine"}}
    waiting = asyncio.create_task(served.post("/input", body))
    await eventually(lambda: served.registry.rows(LOCAL), "there is a session")
    session = await served.only()
    await eventually(lambda: session.shown.decisions, "it asks")
    async with served.socket(session_id="mine") as socket:
        asked = await socket.until("ask_user")
        assert not waiting.done()
        await socket.say("ASK_USER_RESPONSE", answer="red", request_id=asked["id"])
        output = await socket.until("OUTPUT")
    answer = await waiting
    assert (answer.status, answer.json["result"]) == (200, output["result"])
    assert answer.json["session"] == output["session"]


async def test_a_turn_that_was_broken_off_is_answered_as_over_the_socket(served: Server) -> None:
    waiting = asyncio.create_task(served.post("/input", {"prompt": "wait", "session": {"session_id": "mine"}}))
    await eventually(lambda: served.registry.rows(LOCAL), "there is a session")
    session = await served.only()
    await eventually(lambda: session.shown.turn, "it runs")
    async with served.socket(session_id="mine") as socket:
        await socket.say("INTERRUPT")
        await socket.until("OUTPUT")
    assert (await waiting).json["result"] == "What would you like me to do?"


async def test_a_prompt_to_a_busy_session_has_a_turn_of_its_own(served: Server) -> None:
    def body(prompt: str) -> dict[str, Any]:
        return {"prompt": prompt, "session": {"session_id": "mine"}}

    first = asyncio.create_task(served.post("/input", body("ask Which?\nsay first")))
    await eventually(lambda: served.registry.rows(LOCAL), "there is a session")
    session = await served.only()
    await eventually(lambda: session.shown.decisions, "it asks")
    second = asyncio.create_task(served.post("/input", body("say second")))
    await eventually(lambda: session.shown.queue, "it waits")
    async with served.socket(session_id="mine") as socket:
        asked = await socket.until("ask_user")
        await socket.say("ASK_USER_RESPONSE", answer="x", request_id=asked["id"])
        await socket.until("OUTPUT")
    answers = [await first, await second]
    assert [answer.json["result"] for answer in answers] == ["first", "second"]
    assert answers[1].json["session"]["turn"] == 2


async def test_a_request_sent_again_with_its_input_id_runs_once(served: Server) -> None:
    body = {"prompt": "say once", "session": {"session_id": "mine"}, "input_id": "i1"}
    first, second = await served.post("/input", body), await served.post("/input", body)
    assert first.json["result"] == second.json["result"] == "once"
    assert (await served.only()).shown.prompts == 1


async def test_after_the_limit_the_turn_goes_on_without_its_request(make_http: MakeServer) -> None:
    server = await make_http(settings=OnionSettings(input_seconds=0.05))
    answer = await server.post("/input", {"prompt": "ask Which?\nsay late", "session": {"session_id": "mine"}})
    assert answer.error == (504, "the turn still runs: ask /sessions for its result")
    assert answer.json["session_id"] == "mine"
    session = await server.only()
    assert session.shown.turn is not None
    async with server.socket(session_id="mine") as socket:
        asked = await socket.until("ask_user")
        await socket.say("ASK_USER_RESPONSE", answer="x", request_id=asked["id"])
        await socket.until("OUTPUT")
    assert (await server.get("/sessions/mine")).json["result"] == "late"


async def test_a_client_that_goes_away_leaves_its_turn_running(served: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    body = json.dumps({"prompt": "ask Which?\nsay on", "session": {"session_id": "mine"}})
    await asyncio.to_thread(connection.request, "POST", f"{served.prefix}/input", body)
    await eventually(lambda: served.registry.rows(LOCAL), "there is a session")
    session = await served.only()
    await eventually(lambda: session.shown.decisions and session.watched, "it asks, and somebody waits for it")
    waiting = len(session._watchers)
    connection.close()
    await eventually(lambda: len(session._watchers) < waiting, "nobody waits any more")
    assert session.shown.turn is not None
    async with served.socket(session_id="mine") as socket:
        asked = await socket.until("ask_user")
        await socket.say("ASK_USER_RESPONSE", answer="x", request_id=asked["id"])
        assert (await socket.until("OUTPUT"))["result"] == "on"


async def test_when_the_server_stops_the_request_is_answered(make_http: MakeServer) -> None:
    server = await make_http()
    waiting = asyncio.create_task(server.post("/input", {"prompt": "wait"}))
    await eventually(lambda: server.registry.rows(LOCAL), "there is a session")
    session = await server.only()
    await eventually(lambda: session.shown.turn, "it runs")
    await server.registry.stop_sessions(2.0)
    status, text = (await waiting).error
    assert status == 503
    assert "restart" in text


async def test_only_so_many_wait_at_once(make_http: MakeServer) -> None:
    server = await make_http(settings=OnionSettings(waiting_inputs=2))
    waiting = [asyncio.create_task(server.post("/input", {"prompt": "wait"})) for _ in range(2)]
    await eventually(lambda: len(server.registry.live()) == 2, "both run")
    assert (await server.post("/input", {"prompt": "say x"})).error == (
        503,
        "too many requests wait for their turns (waiting_inputs)",
    )
    await server.registry.stop_sessions(2.0)
    await asyncio.gather(*waiting)


# Who may


def altered(server: Server, what: str) -> dict[str, Any]:
    """A signed request in which something is not as it was signed."""
    body = server.signed(A, prompt="say x")
    if what == "prompt":
        body["payload"]["prompt"] = "say y"
    elif what == "key":
        body["from"] = B.address
    elif what == "signature":
        body["signature"] = "0" * 128
    elif what == "old":
        body = server.signed(A, prompt="say x", timestamp=server.now() - 400)
    elif what == "recipient":
        body = server.signed(A, prompt="say x", to=B.address)
    elif what == "plain prompt":
        body["prompt"] = "say y"
    elif what == "no prompt":
        body = {**server.signed(A), "prompt": "say x"}
    elif what == "nobody":
        del body["from"]
    elif what == "unsigned payload":
        del body["signature"]
    else:
        body[what] = None
    return body


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("prompt", "invalid signature"),
        ("key", "invalid signature"),
        ("signature", "invalid signature"),
        ("old", "signature expired"),
        ("recipient", "wrong recipient"),
        ("plain prompt", "the signature is over another prompt"),
        ("no prompt", "the signature does not cover the prompt"),
        ("nobody", "'from' field required"),
        ("payload", "payload must be an object"),
    ],
)
async def test_a_signature_that_is_given_must_be_right_and_over_the_prompt(
    served: Server, what: str, text: str
) -> None:
    assert (await served.post("/input", altered(served, what))).error == (401, f"unauthorized: {text}")
    assert not served.registry.rows(LOCAL)


async def test_an_unsigned_prompt_is_run_where_that_is_allowed(make_http: MakeServer) -> None:
    body = {"prompt": "say hello"}
    for policy in ("open", "careful"):
        answer = await (await make_http(trust=TrustSettings(policy=policy))).post("/input", body)
        assert answer.json["result"] == "hello"
    for trust in (TrustSettings(policy="strict"), TrustSettings(policy="open", require_signature=True)):
        server = await make_http(trust=trust)
        for unsigned in (body, {}, b"", {"from": A.address, **body}):
            assert (await server.post("/input", unsigned)).error == UNSIGNED


async def test_from_without_a_signature_is_no_identity(served: Server) -> None:
    assert (await served.post("/input", {"prompt": "say x", "from": A.address})).status == 200
    assert (await served.only()).shown.owner == "onion:anonymous"


@pytest.mark.parametrize("where", ["header", "query"])
async def test_a_token_that_is_given_must_be_right(make_http: MakeServer, where: str) -> None:
    served = await make_http(token=TOKEN)

    async def sent(token: str) -> Reply:
        if where == "query":
            return await served.post(f"/input?token={token}", {"prompt": "say x"})
        return await served.post("/input", {"prompt": "say x"}, authorization=f"Bearer {token}")

    assert (await sent("wrong")).error == (401, "unauthorized")
    assert (await sent(TOKEN)).json["result"] == "x"
    without = await served.post("/input", {"prompt": "say x"})
    assert without.error == (403, "forbidden: this server wants its token, or a signature")


@pytest.mark.parametrize(
    ("trust", "text"),
    [
        (TrustSettings(policy=CODE), "forbidden: Onboard required"),
        (TrustSettings(policy="strict"), "forbidden: Denied by fast rules"),
        (TrustSettings(policy="open", blacklist=(A.address,)), "forbidden: blacklisted"),
    ],
    ids=["code", "strict", "blacklisted"],
)
async def test_whoever_is_not_let_in_is_told_so(make_http: MakeServer, trust: TrustSettings, text: str) -> None:
    server = await make_http(trust=trust)
    assert (await server.post("/input", server.signed(A, prompt="say x"))).error == (403, text)
    assert not server.registry.rows(LOCAL)
    assert server.dialect.console.lines == (f"✗ POST /input rejected: {text}",)


async def test_a_code_in_the_signed_payload_lets_in(make_http: MakeServer) -> None:
    server = await make_http(trust=TrustSettings(policy=CODE))
    wrong = await server.post("/input", server.signed(A, prompt="say x", invite_code="guess"))
    assert wrong.error == (403, "forbidden: Onboard required")
    right = await server.post("/input", server.signed(A, prompt="say x", invite_code="friends"))
    assert right.json["result"] == "x"
    assert (await server.post("/input", server.signed(A, prompt="say y"))).json["result"] == "y"


async def test_a_claim_of_having_paid_lets_nobody_in(make_http: MakeServer) -> None:
    server = await make_http(
        trust=TrustSettings(policy=CODE.replace("invite_code: [friends]", "payment: 10")), far=True
    )
    for payment in (10, 1e9, "10", True):
        answer = await server.post("/input", server.signed(A, prompt="say x", payment=payment))
        assert answer.status == 403


async def test_a_request_that_was_overheard_is_of_no_use_later(make_http: MakeServer) -> None:
    server = await make_http(trust=TrustSettings(policy="open", replay="strict"))
    body = server.signed(A, prompt="say x")
    assert (await server.post("/input", body)).status == 200
    status, text = (await server.post("/input", body)).error
    assert (status, "already used" in text) == (401, True)


async def test_two_requests_that_were_signed_in_one_second_are_both_honest(served: Server) -> None:
    body = served.signed(A, prompt="say x")
    assert [(await served.post("/input", body)).status for _ in range(2)] == [200, 200]


async def test_an_unsigned_caller_from_elsewhere_has_a_session_for_each_request(make_http: MakeServer) -> None:
    server = await make_http(far=True, trust=TrustSettings(policy="open"))
    for _ in range(2):
        answer = await server.post("/input", {"prompt": "say x", "session": {"session_id": "mine"}})
        assert (answer.json["session_id"], answer.json["session"]["turn"]) == ("mine", 1)
