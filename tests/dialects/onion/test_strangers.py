"""Strangers on a socket: what is completed for them and what is not, and who is shown the door (seed: Trust Gate)."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import MakeServer
from .rig import ALICE, BOB, CAROL, HOST, POLICY, Frame, Key, Onion, Talk, of, script


@pytest.fixture
async def gated(make_server: MakeServer, tmp_path: Path) -> Onion:
    policy = tmp_path / "policy.md"
    policy.write_text(POLICY)
    return await make_server(config=f'[trust]\npolicy = "{policy}"\nblacklist = ["{CAROL.address}"]\n')


def _submit(talk: Talk, key: Key, **payload: object) -> None:
    now = key.signed()["payload"]["timestamp"]
    talk.say("ONBOARD_SUBMIT", **key.signed({"timestamp": now, **payload}))


async def _knock(talk: Talk, key: Key | None, **fields: object) -> Frame:
    talk.say("CONNECT", **fields, **(key.signed() if key is not None else {}))
    return await talk.next("ONBOARD_REQUIRED")


async def test_a_code_completes_the_connect_that_waits(gated: Onion) -> None:
    async with gated.talk() as talk:
        asked = await _knock(talk, ALICE, session_id="mine")
        assert asked == {"type": "ONBOARD_REQUIRED", "identity": ALICE.address, "methods": ["invite_code"]}
        talk.input("too early")
        assert (await talk.next("ERROR"))["message"] == "authenticate first (send CONNECT)"
        _submit(talk, ALICE, invite_code="sesame")
        success = await talk.next("ONBOARD_SUCCESS")
        assert (success["identity"], success["level"]) == (ALICE.address, "contact")
        assert success["message"] == "Invite code verified. You are now a contact."
        assert (await talk.next("CONNECTED"))["session_id"] == "mine"
        frames = await talk.turn(script("say in"))
        assert frames[-1]["result"] == "in"
        assert len(of(talk.frames, "CONNECTED")) == len(of(talk.frames, "OUTPUT")) == 1


async def test_once_let_in_nobody_is_asked_again(gated: Onion) -> None:
    async with gated.talk() as talk:
        _submit(talk, ALICE, invite_code="sesame")
        await talk.next("ONBOARD_SUCCESS")
        await talk.connect(key=ALICE)
        _submit(talk, ALICE, invite_code="sesame")
        await talk.next("ONBOARD_SUCCESS")
        assert await talk.status() == "connected"
        assert len(of(talk.frames, "CONNECTED")) == 1
    async with gated.client(key=ALICE):
        pass


async def test_the_newest_connect_is_the_one_that_waits(gated: Onion) -> None:
    async with gated.talk() as talk:
        await _knock(talk, ALICE, session_id="first")
        await _knock(talk, ALICE, session_id="second")
        _submit(talk, ALICE, invite_code="sesame")
        assert (await talk.next("CONNECTED"))["session_id"] == "second"
        await talk.status()
        assert len(of(talk.frames, "CONNECTED")) == 1


async def test_a_blacklisted_caller_has_no_gate(gated: Onion) -> None:
    async with gated.talk() as talk:
        talk.say("CONNECT", **CAROL.signed())
        assert (await talk.next("ERROR"))["message"] == "forbidden: blacklisted"
        _submit(talk, CAROL, invite_code="sesame")
        assert (await talk.next("ERROR"))["message"] == "forbidden: blacklisted"
        assert not of(talk.frames, "ONBOARD_REQUIRED")


async def test_an_unsigned_stranger_meets_the_gate_too(gated: Onion) -> None:
    async with gated.talk() as talk:
        asked = await _knock(talk, None)
        assert asked["identity"] is None
        talk.say("CONNECT", **{"from": ALICE.address})  # says who they are, and proves nothing
        assert (await talk.next("ONBOARD_REQUIRED"))["identity"] is None


async def test_a_claim_of_having_paid_lets_nobody_in(gated: Onion) -> None:
    async with gated.talk() as talk:
        now = ALICE.signed()["payload"]["timestamp"]
        talk.say("CONNECT", **ALICE.signed({"timestamp": now, "payment": 1000}))
        await talk.next("ONBOARD_REQUIRED")
        for claim in (1000, "1000", True, -1):
            _submit(talk, ALICE, payment=claim)
            await talk.next("ERROR")
        assert not of(talk.frames, "CONNECTED")


async def test_whoever_is_blocked_while_connected_is_shown_and_does_nothing_more(gated: Onion) -> None:
    async with gated.talk() as talk, gated.talk() as host:
        _submit(talk, BOB, invite_code="sesame")
        await talk.next("ONBOARD_SUCCESS")
        await talk.connect("bobs", key=BOB)
        now = HOST.signed()["payload"]["timestamp"]
        owner = Key(1)
        host.say("ADMIN_BLOCK", **owner.signed({"timestamp": now, "client_id": BOB.address}))
        refused = await host.next("ERROR")  # this key is not the server's own
        assert refused["message"].startswith("forbidden")
        blocklist = gated.home / ".config" / "dragoman" / "trust" / "blocklist.txt"
        blocklist.parent.mkdir(parents=True, exist_ok=True)
        blocklist.write_text(BOB.address + "\n")
        talk.input("still here?")
        assert (await talk.next("ERROR"))["message"].startswith("forbidden")
        assert not of(talk.frames, "user_input")
