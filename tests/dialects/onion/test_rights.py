"""Whose a session is, and who may approve what its agent wants (spec §14; invariant 12)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from .conftest import MakeServer
from .rig import ALICE, BOB, Onion, calls, of, script
from .wire import UpgradeRefused

ASKS = script(*calls(("bash", {"command": "touch asked"})), "say over")


async def waiting(server: Onion, owner: str) -> dict[str, Any]:
    """The owner's session, once it waits for an answer: a call's permission is asked for a moment after the call."""
    async with asyncio.timeout(20):
        while True:
            for row in await server.hub_sessions():
                if row["owner"].endswith(owner) and row["status"] == "waiting":
                    return row
            await asyncio.sleep(0.01)


async def test_the_name_of_anothers_session_means_a_new_one(served: Onion) -> None:
    async with served.client("shared-name", key=ALICE) as alice:
        await alice.turn(script("say secret"))
        async with served.client("shared-name", key=BOB) as bob:
            connected = bob.frames[0]
            assert connected == {"type": "CONNECTED", "session_id": "shared-name", "status": "new"}
            output = (await bob.turn(script("say mine")))[-1]
            assert output["session"]["turn"] == 1
            assert "secret" not in json.dumps(bob.frames)
        async with served.client("shared-name") as nobody:
            assert nobody.frames[0] == {"type": "CONNECTED", "session_id": "shared-name", "status": "new"}
        again = (await alice.turn(script("say more")))[-1]
        assert again["session"]["turn"] == 2
        assert "mine" not in json.dumps(again)


async def test_the_uuid_of_a_keys_session_is_no_credential(served: Onion) -> None:
    async with served.client(key=ALICE) as alice:
        await alice.turn(script("say secret"))
        async with served.talk() as stranger:
            for name in (alice.session_id, "no such"):
                stranger.say("SESSION_STATUS", session={"session_id": name})
                answer = await stranger.next("SESSION_STATUS")
                assert answer == {"type": "SESSION_STATUS", "session_id": name, "status": "not_found"}
        for key in (BOB, None):
            async with served.client(alice.session_id, key=key) as other:
                assert other.frames[0] == {
                    "type": "CONNECTED", "session_id": alice.session_id, "status": "new",
                }  # fmt: skip
                assert await other.status() == "connected"  # their own, of that name


@pytest.mark.parametrize("path", ["/ws", "/ws/input"])
@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "file://"}],
    ids=lambda headers: headers["Origin"].partition(":")[0],
)
async def test_pages_of_others_open_no_socket(served: Onion, path: str, headers: dict[str, str]) -> None:
    """Invariant 11; a page of our own origin does."""
    url = served.url.removesuffix("/ws") + path
    with pytest.raises(UpgradeRefused) as refused:
        async with served.talk(url, headers):
            pass
    assert refused.value.status == 403
    own = url.partition("/onion")[0].replace("ws:", "http:")
    async with served.talk(url, {"Origin": own}) as talk:
        assert (await talk.connect("from a page"))["type"] == "CONNECTED"


async def test_unsigned_callers_here_see_sessions_of_other_protocols(served: Onion) -> None:
    made = await served.asked("POST", "/sessions", {"kind": "scripted", "cwd": str(served.work)})
    async with served.client(made["session"]) as talk:
        output = (await talk.turn("say hello from elsewhere"))[-1]
        assert output["result"] == "hello from elsewhere"
        assert output["session_id"] == made["session"]
    async with served.client(made["session"], key=ALICE) as signed:
        assert signed.frames[0]["status"] == "new"


@pytest.fixture
async def reserved(make_server: MakeServer) -> Onion:
    """A server where being on this machine is no right to approve."""
    return await make_server(config=f'[trust]\napprovers = ["whitelist"]\nwhitelist = ["{BOB.address}"]\n')


async def test_who_may_not_approve_is_not_asked_and_cannot(reserved: Onion) -> None:
    async with reserved.client("s", key=ALICE) as alice:
        alice.input(ASKS)
        await alice.next("tool_call")
        row = await waiting(reserved, ALICE.address)
        alice.say("APPROVAL_RESPONSE", approved=True)
        assert (await alice.next("ERROR"))["message"] == "forbidden: this needs the approve right"
        alice.say("mode_change", mode="ulw")
        assert (await alice.next("ERROR"))["message"].startswith("forbidden")
        alice.say("mode_change", mode="plan")  # that is less than before
        assert (await alice.next("mode_changed"))["mode"] == "plan"
        assert await alice.status() == "running"
        assert not of(alice.frames, "approval_needed")
        decisions = (await reserved.asked("GET", f"/sessions/{row['session']}"))["decisions"]
        (decision,) = decisions
        answer = {"answer": {"accept": True}}
        await reserved.asked("POST", f"/sessions/{row['session']}/decisions/{decision['decision']}", answer)
        output = await alice.next("OUTPUT")
        assert output["result"] == "over"
        assert (reserved.work / "asked").exists()


async def test_who_may_only_write_answers_questions(reserved: Onion) -> None:
    async with reserved.client("s", key=ALICE) as alice:
        alice.input(script(*calls(("ask", {"question": "Which?", "options": ["a", "b"]})), "say over"))
        asked = await alice.next("ask_user")
        assert (asked["question"], asked["options"]) == ("Which?", ["a", "b"])
        alice.say("ASK_USER_RESPONSE", answer="b")
        assert (await alice.next("tool_result"))["result"] == "b"
        await alice.next("OUTPUT")


async def test_where_there_is_a_token_it_takes_that_or_a_signature(make_server: MakeServer) -> None:
    served = await make_server(env={"DRAGOMAN_TOKEN": "hunter2hunter2"})
    async with served.talk() as talk:
        talk.say("CONNECT")
        refused = "forbidden: this server wants its token, or a signature"
        assert (await talk.next("ERROR"))["message"] == refused
        await talk.connect(key=ALICE)
        talk.input(ASKS)
        await talk.next("tool_call")
        await talk.status()
        assert not of(talk.frames, "approval_needed")  # being on this machine is no right here
        talk.say("INTERRUPT")
        await talk.next("OUTPUT")
    async with served.talk(f"{served.url}?token=hunter2hunter2") as holder:
        await holder.connect()
        assert (await holder.turn(script("say mine")))[-1]["result"] == "mine"
    assert "hunter2" not in served.log.read_text()
