"""Whoever sends much, or much at once, delays nobody else, and costs no more than what is named."""

from __future__ import annotations

import asyncio
import time

from .rig import ALICE, Onion, Talk, calls, of, script

MIB = 1024 * 1024


async def _asks(talk: Talk) -> None:
    talk.mark = len(talk.frames)
    talk.say("SESSION_STATUS", session={"session_id": "nobody's"})
    await talk.next("SESSION_STATUS")


async def test_forged_signatures_delay_nobody(served: Onion) -> None:
    """Each is tried in every form that it could have been written in, which takes milliseconds."""
    many = 1500
    payload = {"timestamp": time.time(), "a": [1e-7] * 90, "\u00e9": {"b": 1, "a": 2}}
    forged = {"payload": payload, "from": ALICE.address, "signature": "0" * 128}
    async with served.talk() as eve, served.client() as other:
        for _ in range(many):
            eve.say("CONNECT", **forged)
        await eve.next("ERROR", message="unauthorized: invalid signature")
        await _asks(other)
        assert len(of(eve.frames, "ERROR")) < many
        await eve.until(lambda: len(of(eve.frames, "ERROR")) == many, "an answer to each")


async def test_a_thousand_connects_on_one_socket_show_one_session(served: Onion) -> None:
    claim = {"messages": [{"role": ("user", "assistant")[place % 2], "content": "x" * 500} for place in range(200)]}
    async with served.client() as other, served.talk() as talk:
        await other.turn(script("say ready"))  # what is loaded for a first turn is not what is measured
        before = served.memory()
        for number in range(1000):
            talk.say("CONNECT", session_id=f"many-{number % 3}", session=claim)
        await talk.until(lambda: len(of(talk.frames, "CONNECTED")) == 1000, "an answer to each")
        await _asks(other)
        assert {frame["status"] for frame in of(talk.frames, "CONNECTED")[3:]} == {"connected"}
        frames = await talk.turn(script("say once"))
        assert len(of(frames, "OUTPUT")) == len(of(frames, "user_input")) == 1
        assert served.memory() - before < 64 * MIB


async def test_connects_while_a_turn_runs_give_one_copy_of_the_rest(served: Onion) -> None:
    async with served.client("again") as talk:
        talk.input(script(*calls(("bash", {"command": "true"})), "say over"))
        await talk.next("approval_needed")
        for _ in range(300):
            talk.say("CONNECT", session_id="again")
        await talk.until(lambda: len(of(talk.frames, "CONNECTED")) == 301, "an answer to each")
        assert {frame["status"] for frame in of(talk.frames, "CONNECTED")[1:]} == {"running"}
        asked = await talk.next("approval_needed")
        talk.say("APPROVAL_RESPONSE", approved=True, request_id=asked["id"])
        await talk.next("OUTPUT")
        begin = max(place for place, frame in enumerate(talk.frames) if frame["type"] == "CONNECTED")
        rest = [frame for frame in talk.frames[begin:] if frame["type"] != "PING"]
        assert len({(frame["type"], frame.get("id")) for frame in rest}) == len(rest)


async def test_interrupts_answers_modes_and_questions_without_end(served: Onion) -> None:
    async with served.client() as other, served.client() as talk:
        for _ in range(500):
            talk.say("INTERRUPT")
            talk.say("APPROVAL_RESPONSE", approved=True)
            talk.say("ASK_USER_RESPONSE", answer="x", request_id="ev-1")
            talk.say("mode_change", mode="plan")
            talk.say("PONG")
        await _asks(talk)
        await _asks(other)
        stale = [frame for frame in of(talk.frames, "ERROR") if frame.get("code") == "STALE_ANSWER"]
        assert len(stale) == 1000
        assert len(of(talk.frames, "mode_changed")) == 500
        talk.say("mode_change", mode="safe")
        assert (await talk.turn(script("say still here")))[-1]["result"] == "still here"


async def test_more_prompts_than_may_wait_are_refused_and_none_is_lost(served: Onion) -> None:
    async with served.client() as talk:
        talk.input(script(*calls(("ask", {"question": "Go on?"})), "say over"))
        question = await talk.next("ask_user")
        for number in range(300):
            talk.input(f"say {number}")
        await talk.until(
            lambda: len(of(talk.frames, "RUNTIME_INPUT_ACK")) + len(of(talk.frames, "ERROR")) == 300,
            "an answer to each",
        )
        taken = {frame["id"] for frame in of(talk.frames, "RUNTIME_INPUT_ACK")}
        assert 0 < len(taken) <= 100
        assert all(frame["retryable"] for frame in of(talk.frames, "ERROR"))
        talk.say("ASK_USER_RESPONSE", answer="yes", request_id=question["id"])
        await talk.until(
            lambda: taken <= {frame.get("id") for frame in of(talk.frames, "user_input")}, "each is taken in"
        )


async def test_sockets_that_say_nothing_cost_next_to_nothing(served: Onion) -> None:
    before = served.memory()
    talks = [Talk() for _ in range(300)]
    for start in range(0, 300, 50):
        await asyncio.gather(*(talk.open(served.url) for talk in talks[start : start + 50]))
    async with served.client() as other:
        await other.turn(script("say hello"))
    assert served.memory() - before < 48 * MIB
    for talk in talks:
        await talk.wire.close()


BOMBS = {
    "a list that is no message": "[" + "[]," * (4 * MIB) + "[]]",
    "files that are none": '{"type":"INPUT","prompt":"say x","files":[' + "0," * (6 * MIB) + "0]}",
    "images that are none": '{"type":"INPUT","prompt":"say x","images":[' + '"",' * (4 * MIB) + '""]}',
    "what nobody reads": '{"type":"PONG","x":[' + "{}," * (4 * MIB) + "{}]}",
    "messages without end": '{"type":"CONNECT","session":{"messages":[' + "{}," * (4 * MIB) + "{}]}}",
    "one long message": '{"type":"CONNECT","session":{"messages":[{"role":"user","content":"'
    + "x" * 12 * MIB
    + '"}]}}',
    "a long prompt": '{"type":"INPUT","prompt":"' + "x" * 12 * MIB + '"}',
    "a long answer": '{"type":"ASK_USER_RESPONSE","answer":["' + '","' * (4 * MIB) + '"]}',
    "a long payload": '{"type":"INPUT","prompt":"x","from":"x","signature":"x","payload":{"x":['
    + "0," * (6 * MIB)
    + "0]}}",
}


async def test_what_is_large_and_worthless_leaves_nothing_behind(served: Onion) -> None:
    async with served.client() as talk:
        await _asks(talk)
        before = served.peak()
        for text in BOMBS.values():
            talk.wire.send(text)
            await _asks(talk)
        assert served.peak() - before < 160 * MIB
