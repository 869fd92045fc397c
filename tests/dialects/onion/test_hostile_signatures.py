"""A signature that somebody overheard is good for what it was made for, and opens no other socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import MakeServer
from .rig import ALICE, BOB, POLICY, Key, Onion, Talk, of, script


def _overheard(key: Key, **payload: Any) -> dict[str, Any]:
    return key.signed({"timestamp": round(time.time(), 6), **payload})


async def _refused(talk: Talk, kind: str, why: str, **fields: Any) -> None:
    talk.mark = len(talk.frames)
    talk.say(kind, **fields)
    assert (await talk.next("ERROR"))["message"] == why


async def test_a_prompt_that_was_signed_opens_no_socket(served: Onion) -> None:
    plain = _overheard(ALICE, prompt=script("say one"))
    typed = _overheard(ALICE, prompt=script("say two"), type="INPUT")
    async with served.client("prompts", key=ALICE) as alice, served.talk() as eve:
        for frame in (plain, typed):
            alice.say("INPUT", **frame)
            await alice.next("OUTPUT")
        await _refused(eve, "CONNECT", "unauthorized: this CONNECT was already used", session_id="prompts", **plain)
        await _refused(eve, "CONNECT", "unauthorized: signed for another action", session_id="prompts", **typed)
        eve.say("INPUT", prompt="say mine")
        assert (await eve.next("ERROR"))["message"] == "authenticate first (send CONNECT)"
    async with served.client("mine", key=BOB) as bob:
        await _refused(bob, "INPUT", "unauthorized: signed by another identity than CONNECT was", **plain)


async def test_a_question_answered_in_writing_opens_no_socket(served: Onion) -> None:
    answer = _overheard(ALICE, answer="x", type="ASK_USER_RESPONSE")
    async with served.client("answers", key=ALICE) as alice, served.talk() as eve:
        alice.say("ASK_USER_RESPONSE", answer="x", **answer)
        assert (await alice.next("ERROR"))["code"] == "STALE_ANSWER"
        await _refused(eve, "CONNECT", "unauthorized: signed for another action", **answer)


@pytest.fixture
async def gated(make_server: MakeServer, tmp_path: Path) -> Onion:
    policy = tmp_path / "policy.md"
    policy.write_text(POLICY)
    return await make_server(config=f'[trust]\npolicy = "{policy}"\nreplay = "strict"\n')


async def test_the_code_of_another_opens_no_second_socket(gated: Onion) -> None:
    submit = _overheard(ALICE, invite_code="sesame")
    async with gated.talk() as alice, gated.talk() as eve:
        alice.say("CONNECT", session_id="mine", **ALICE.signed())
        await alice.next("ONBOARD_REQUIRED")
        alice.say("ONBOARD_SUBMIT", **submit)
        await alice.next("CONNECTED")
        eve.say("CONNECT", session_id="mine")
        await eve.next("ONBOARD_REQUIRED")
        await _refused(eve, "ONBOARD_SUBMIT", "unauthorized: signature already used", **submit)
        await _refused(eve, "CONNECT", "unauthorized: this CONNECT was already used", session_id="mine", **submit)
        assert not of(eve.frames, "CONNECTED")


FULLWIDTH = {48 + digit: 0xFF10 + digit for digit in range(10)}

SPELLINGS: dict[str, Callable[[Key], dict[str, Any]]] = {
    "capitals": lambda key: {"from": "0X" + key.address[2:].upper()},
    "no prefix": lambda key: {"from": key.address[2:]},
    "fullwidth digits": lambda key: {"from": key.address.translate(FULLWIDTH)},
    "white space": lambda key: {"from": f" {key.address}"},
    "a line's end": lambda key: {"from": f"{key.address}\n"},
    "two prefixes": lambda key: {"from": f"0x{key.address}"},
    "somebody else's": lambda _: {"from": BOB.address},
    "a list": lambda key: {"from": [key.address]},
    "nobody": lambda _: {"from": None},
    "no signature": lambda _: {"signature": None},
}


async def test_an_identity_has_one_spelling_whatever_is_written(served: Onion) -> None:
    async with served.client("spelled", key=ALICE) as alice:
        await alice.turn(script("say secret"))
        for name, change in SPELLINGS.items():
            async with served.talk() as talk:
                talk.say("CONNECT", session_id="spelled", **{**ALICE.signed(), **change(ALICE)})
                await talk.until(lambda: bool(talk.frames), name)
                (answer,) = talk.frames
                if name in ("capitals", "no prefix"):
                    assert answer["status"] == "connected", name
                else:
                    assert answer["type"] == "ERROR", name
                    assert answer["message"].startswith("unauthorized: "), name
