"""Whoever is let in no more is shown no more, and whoever is not let in is told nothing; a yes is a word."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects.onion.answers import plan_answer

from .conftest import MakeServer
from .rig import ALICE, BOB, HOST, POLICY, Onion, calls, of, script


async def owned_by_host(make_server: MakeServer, config: str = "") -> Onion:
    """A server whose own key is ``HOST``."""

    def prepare(server: Onion) -> None:
        key = server.home / ".config" / "dragoman" / "identity" / "host.key"
        key.parent.mkdir(mode=0o700, parents=True)
        key.write_text((b"\x01" * 32).hex())
        key.chmod(0o600)

    return await make_server(config=config, prepare=prepare)


def _post(server: Onion, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.ready["port"], timeout=20)
    try:
        connection.request("POST", f"/onion{path}", json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _list(server: Onion, name: str, *addresses: str) -> None:
    file = server.home / ".config" / "dragoman" / "trust" / f"{name}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{address}\n" for address in addresses))


async def test_whoever_is_blocked_over_http_is_shown_nothing_more(make_server: MakeServer) -> None:
    server = await owned_by_host(make_server, '[trust]\npolicy = "open"\n')
    async with server.client("bobs", key=BOB) as bob, server.client("alices", key=ALICE) as alice:
        body = HOST.signed({**HOST.signed()["payload"], "client_id": BOB.address})
        status, answer = await asyncio.to_thread(_post, server, "/admin/trust/block", body)
        assert status == 200, answer
        assert (await bob.next("ERROR"))["message"] == "forbidden: Denied by fast rules"
        bob.input("still here?")
        assert (await bob.next("ERROR"))["message"] == "authenticate first (send CONNECT)"
        bob.say("SESSION_STATUS", session={"session_id": "bobs"})
        assert (await bob.next("SESSION_STATUS"))["status"] == "not_found"
        await alice.turn(script("say as ever"))


async def test_whoever_is_blocked_in_a_file_is_shown_nothing_more_from_the_next_ping_on(
    make_server: MakeServer,
) -> None:
    server = await owned_by_host(make_server, "[dialects.onion]\nping_seconds = 0.2\n")
    async with server.client("bobs", key=BOB) as bob, server.client("alices", key=ALICE) as alice:
        _list(server, "blocklist", BOB.address)
        assert (await bob.next("ERROR"))["message"] == "forbidden: Denied by fast rules"
        assert await alice.status() == "connected"
        bob.say("CONNECT", session_id="bobs", **BOB.signed())
        assert (await bob.next("ERROR"))["message"] == "forbidden: Denied by fast rules"


async def test_whoever_may_approve_no_more_is_not_asked_any_more(make_server: MakeServer) -> None:
    server = await owned_by_host(make_server, '[trust]\napprovers = ["whitelist"]\n')
    asks = script(*calls(("bash", {"command": "touch once"}), ("bash", {"command": "touch twice"})), "say over")
    _list(server, "whitelist", BOB.address)
    async with server.client("bobs", key=BOB) as bob:
        bob.input(asks)
        first = await bob.next("approval_needed")
        _list(server, "whitelist")
        bob.say("APPROVAL_RESPONSE", approved=True, scope="session", request_id=first["id"])
        assert (await bob.next("ERROR"))["message"] == "forbidden: this needs the approve right"
        bob.say("mode_change", mode="ulw")
        assert (await bob.next("ERROR"))["message"].startswith("forbidden")
        bob.say("INTERRUPT")
        await bob.next("OUTPUT")
        bob.input(asks)
        await bob.next("tool_call")
        assert await bob.status() == "running"
        assert len(of(bob.frames, "approval_needed")) == 1
    assert not (server.work / "once").exists()


async def test_whoever_is_not_let_in_learns_nothing_of_sessions(make_server: MakeServer, tmp_path: Path) -> None:
    policy = tmp_path / "policy.md"
    policy.write_text(POLICY)
    for config in (f'[trust]\npolicy = "{policy}"\n', '[trust]\npolicy = "strict"\n'):
        server = await owned_by_host(make_server, config)
        made = await server.asked("POST", "/sessions", {"kind": "scripted", "cwd": str(server.work)})
        async with server.talk() as talk:
            talk.say("SESSION_STATUS", session={"session_id": made["session"]})
            assert (await talk.next("SESSION_STATUS"))["status"] == "not_found"
            await talk.connect(made["session"], key=HOST)
            assert await talk.status() == "connected"


YES = ["approve", "Approved", "plan approved, go on", "  YES!", "ok", "Okay.", "lgtm", "Looks good to me"]
NO = [
    "yesterday's plan was better",
    "okra",
    "approvers are missing",
    "not ok",
    "no",
    "",
    "lgtmx",
    "looks goodish",
    "yes_no",
]


@pytest.mark.parametrize(("said", "accepted"), [(said, True) for said in YES] + [(said, False) for said in NO])
def test_a_plan_is_accepted_by_words(said: str, accepted: bool) -> None:
    assert plan_answer(said).accept is accepted
