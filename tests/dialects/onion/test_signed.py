"""What is signed beside a message is what counts, and must be right (spec §4, §15 row 14)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .rig import ALICE, BOB, Key, Onion, Talk, calls, of, script


def _signed(key: Key, **payload: Any) -> dict[str, Any]:
    return key.signed({"timestamp": int(time.time()), **payload})


async def _refused(talk: Talk) -> str:
    message = str((await talk.next("ERROR"))["message"])
    assert message.startswith("unauthorized: "), message
    return message


async def test_what_is_signed_is_what_runs(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.say("INPUT", **_signed(ALICE, prompt=script("say signed alone")))
        assert (await talk.next("OUTPUT"))["result"] == "signed alone"
        both = script("say both")
        talk.say("INPUT", prompt=both, **_signed(ALICE, prompt=both))
        assert (await talk.next("OUTPUT"))["result"] == "both"
        talk.say("INPUT", prompt=script("say other"), **_signed(ALICE, prompt=both))
        assert await _refused(talk) == "unauthorized: the signature is over another prompt"
        talk.say("INPUT", prompt=both, **{**_signed(ALICE, prompt=both), "signature": "00" * 64})
        assert await _refused(talk) == "unauthorized: invalid signature"
        talk.say("INPUT", prompt=both, **_signed(BOB, prompt=both))
        await _refused(talk)
        talk.say("INPUT", prompt=both, **_signed(ALICE, note="no prompt in it"))
        await _refused(talk)
        talk.say("INPUT", prompt=both, **ALICE.signed({"timestamp": int(time.time()) - 301, "prompt": both}))
        assert await _refused(talk) == "unauthorized: signature expired"
        assert len(of(talk.frames, "user_input")) == 2


@pytest.mark.parametrize("who", ["alice", "nobody"])
async def test_a_socket_of_nobody_takes_no_signed_prompt_of_somebody(served: Onion, who: str) -> None:
    async with served.client(key=ALICE if who == "alice" else None) as talk:
        prompt = script("say x")
        talk.say("INPUT", prompt=prompt, **_signed(ALICE, prompt=prompt))
        if who == "alice":
            await talk.next("OUTPUT")
        else:
            await _refused(talk)


async def test_a_signed_answer_is_over_that_answer(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.input(script(*calls(("ask", {"question": "Which?", "options": ["a", "b"]})), "say over"))
        name = (await talk.next("ask_user"))["id"]
        talk.say("ASK_USER_RESPONSE", answer="a", request_id=name, **_signed(ALICE, answer="b", request_id=name))
        assert await _refused(talk) == "unauthorized: the signature is over another answer"
        talk.say("ASK_USER_RESPONSE", answer="a", request_id=name, **_signed(ALICE, answer="a", request_id="ev-1"))
        assert await _refused(talk) == "unauthorized: the signature is over another request_id"
        talk.say("ASK_USER_RESPONSE", answer="a", request_id=name, **_signed(ALICE, answer="a", request_id=name))
        assert (await talk.next("tool_result"))["result"] == "a"
        await talk.next("OUTPUT")
