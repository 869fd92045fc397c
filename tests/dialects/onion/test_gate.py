"""The trust gate over a real socket (seed: Trust Gate): one waits, shows a code, and is let in exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from .conftest import MakeServer
from .rig import HOST, Frame, Key, Onion, Talk, of, script

SESSION = "0b7e3c1a-5a44-4f0e-9a53-2f6f6a1f0c11"

POLICY = (
    '[trust]\npolicy = """---\nallow: [whitelisted, contact]\nonboard: {invite_code: [CODE1]}\ndefault: ask\n---"""\n'
)
FEW = "peer_code_attempts = 6\ncode_seconds = 600\n"


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Onion]:
    """One server for all; each test has keys of its own, so nobody is known before."""
    server = Onion(tmp_path_factory.mktemp("gated"), config=POLICY)
    asyncio.run(server.start())
    yield server
    server.kill()
    assert "Traceback" not in server.log.read_text(), server.log.read_text()


_bytes = itertools.count(40)


@pytest.fixture
def alice() -> Key:
    return Key(next(_bytes))


@pytest.fixture
def bob() -> Key:
    return Key(next(_bytes))


@contextlib.asynccontextmanager
async def at_the_gate(served: Onion, key: Key | None) -> AsyncIterator[Talk]:
    """A socket whose CONNECT waits."""
    async with served.talk() as talk:
        talk.say("CONNECT", session_id=SESSION, **(key.signed() if key is not None else {}))
        required = await talk.next("ONBOARD_REQUIRED", methods=["invite_code"])
        assert "payment_amount" not in required
        assert required.get("identity") == (key.address if key is not None else None)
        yield talk


def submission(key: Key, **shown: Any) -> dict[str, Any]:
    return key.signed({"timestamp": int(time.time()), **shown})


async def answer(talk: Talk, key: Key, **shown: Any) -> Frame:
    """What comes back to an ONBOARD_SUBMIT."""
    seen = len(talk.frames)
    talk.say("ONBOARD_SUBMIT", **submission(key, **shown))
    return await talk.until(
        lambda: next((frame for frame in talk.frames[seen:] if frame["type"] in ("ERROR", "ONBOARD_SUCCESS")), None),
        "an answer to ONBOARD_SUBMIT",
    )


async def test_a_wrong_code_and_the_right_one_on_one_socket(gated: Onion, alice: Key) -> None:
    async with at_the_gate(gated, alice) as talk:
        talk.input("hello")
        assert (await talk.next("ERROR"))["message"] == "authenticate first (send CONNECT)"
        assert (await answer(talk, alice, invite_code="WRONG"))["message"] == "Invalid invite code"
        assert (await answer(talk, alice))["message"] == "invite_code or payment required"
        assert await answer(talk, alice, invite_code="CODE1") == {
            "type": "ONBOARD_SUCCESS",
            "identity": alice.address,
            "level": "contact",
            "message": "Invite code verified. You are now a contact.",
        }
        assert await talk.next("CONNECTED") == {"type": "CONNECTED", "session_id": SESSION, "status": "new"}
        await talk.turn(script("say hello yourself"))
        assert (await answer(talk, alice, invite_code="CODE1"))["type"] == "ONBOARD_SUCCESS"
        assert await talk.status() == "connected"
        counts = {kind: len(of(talk.frames, kind)) for kind in ("ONBOARD_REQUIRED", "CONNECTED", "OUTPUT")}
        assert counts == {"ONBOARD_REQUIRED": 1, "CONNECTED": 1, "OUTPUT": 1}
    async with gated.talk() as talk:
        assert (await talk.connect(SESSION, key=alice))["status"] == "connected"


async def test_another_key_lets_nobody_in(gated: Onion, alice: Key, bob: Key) -> None:
    async with at_the_gate(gated, alice) as talk:
        refused = await answer(talk, bob, invite_code="CODE1")
        assert refused["message"] == "forbidden: another identity waits to be let in here"
        talk.input("hello")
        assert (await talk.next("ERROR", message="authenticate first (send CONNECT)"))["type"] == "ERROR"
        assert (await answer(talk, alice, invite_code="CODE1"))["identity"] == alice.address
        await talk.next("CONNECTED", session_id=SESSION)
    async with at_the_gate(gated, bob):
        pass  # Bob is no contact by what he tried


async def test_many_submits_at_once_connect_once(gated: Onion, alice: Key) -> None:
    async with at_the_gate(gated, alice) as talk:
        for _ in range(4):
            talk.say("ONBOARD_SUBMIT", **submission(alice, invite_code="CODE1"))
        await talk.until(lambda: len(of(talk.frames, "ONBOARD_SUCCESS")) == 4, "four answers")
        assert await talk.status() == "connected"
        assert len(of(talk.frames, "CONNECTED")) == 1


async def test_who_signed_nothing_waits_too_and_gets_in_by_a_key(gated: Onion, alice: Key) -> None:
    async with at_the_gate(gated, None) as talk:
        talk.say("ONBOARD_SUBMIT", payload={"invite_code": "CODE1"})
        assert (await talk.next("ERROR"))["message"] == "unauthorized: signed request required"
        assert (await answer(talk, alice, invite_code="CODE1"))["identity"] == alice.address
        await talk.next("CONNECTED", session_id=SESSION)


async def test_a_code_in_connect_and_a_submit_before_it(gated: Onion, alice: Key, bob: Key) -> None:
    async with gated.talk() as talk:
        talk.say("CONNECT", **submission(alice, invite_code="CODE1"))
        await talk.next("CONNECTED")
    async with gated.talk() as talk:
        assert (await answer(talk, bob, invite_code="CODE1"))["type"] == "ONBOARD_SUCCESS"
        await talk.connect(key=bob)


async def test_codes_cannot_be_guessed_with_ever_new_keys(make_server: MakeServer) -> None:
    limited = "forbidden: too many attempts to get in"
    gated = await make_server(config=POLICY + FEW)
    async with gated.talk() as talk:
        for number in range(6):
            talk.say("CONNECT", **submission(Key(20 + number), invite_code=f"GUESS{number}"))
            await talk.next("ONBOARD_REQUIRED")
        talk.say("CONNECT", **submission(Key(30), invite_code="CODE1"))
        assert (await talk.next("ERROR"))["message"].startswith(limited)
        assert (await answer(talk, Key(25), invite_code="CODE1"))["message"].startswith(limited)


async def test_a_list_that_cannot_be_read_refuses_and_leaves_the_socket(gated: Onion, alice: Key) -> None:
    """Spec §15 row 19: to the original it was an empty one, or the end of the socket."""
    lists = gated.home / ".config" / "dragoman" / "trust"
    lists.mkdir(parents=True, exist_ok=True)
    blocked = lists / "blocklist.txt"
    async with gated.talk() as talk:
        blocked.write_bytes(b"\xff\xfe")
        talk.say("CONNECT", **alice.signed())
        assert (await talk.next("ERROR"))["message"] == "misconfigured: blocklist.txt: it is not UTF-8 text"
        talk.say("SESSION_STATUS", session={"session_id": "mine"})
        assert (await talk.next("SESSION_STATUS"))["status"] == "not_found"
        blocked.unlink()
        talk.say("CONNECT", **alice.signed())
        await talk.next("ONBOARD_REQUIRED")
        assert not of(talk.frames, "CONNECTED")


async def test_who_is_blocked_sees_no_gate(gated: Onion, alice: Key) -> None:
    lists = gated.home / ".config" / "dragoman" / "trust"
    lists.mkdir(parents=True, exist_ok=True)
    (lists / "blocklist.txt").write_text(alice.address)
    async with gated.talk() as talk:
        talk.say("CONNECT", **alice.signed())
        assert (await talk.next("ERROR"))["message"] == "forbidden: Denied by fast rules"
        assert (await answer(talk, alice, invite_code="CODE1"))["message"] == "forbidden: Denied by fast rules"
        talk.say("CONNECT", **HOST.signed())
        await talk.next("ONBOARD_REQUIRED")
