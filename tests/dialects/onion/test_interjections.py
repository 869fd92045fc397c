"""Prompts that come while a turn runs: acknowledged means used (spec §15 row 3), also when the server is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from .conftest import MakeServer
from .resume_checker import Frame
from .rig import ALICE, BOB, CAROL, Key, Onion, Talk, calls, of, script

READ = calls(("read", {"filePath": "notes.txt"}))[0]
TURN = script(f"say first\n{READ}", f"pause 10\ndeltas 10\n{READ}", f"deltas 10\n{READ}", "pause 5\nsay the end")


def acknowledged(frames: list[Frame]) -> set[str]:
    """Ids of prompts that the client may count on: told by RUNTIME_INPUT_ACK, or by the turn that they began."""
    begun = [frame["id"] for frame in of(frames, "user_input") if not frame.get("runtime_input")]
    return {frame["id"] for frame in of(frames, "RUNTIME_INPUT_ACK")} | set(begun)


def is_over(frames: list[Frame]) -> bool:
    """Whether every prompt that was acknowledged went into a turn, and every turn came to its end."""
    inputs = of(frames, "user_input")
    begun = [frame for frame in inputs if not frame.get("runtime_input")]
    return acknowledged(frames) <= {frame["id"] for frame in inputs} and len(of(frames, "OUTPUT")) == len(begun)


async def interject(talk: Talk, name: str, dice: random.Random, count: int) -> list[str]:
    """Send so many prompts at random points of turns; their texts. A turn that is over is followed by another."""
    sent = []
    for number in range(count):
        if is_over(talk.frames):
            talk.input(TURN)
            await talk.until(lambda: not is_over(talk.frames), "a turn")
        await asyncio.sleep(dice.choice((0, 0, 0.002, 0.01, 0.03)))
        sent.append(f"say note {name}-{number}.")  # the model takes it for a line of its script, or echoes it
        talk.input(sent[-1])
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("key", [ALICE, BOB, CAROL], ids=["a", "b", "c"])
async def test_what_is_acknowledged_is_used_once_at_whatever_point_it_comes(served: Onion, key: Key) -> None:
    """Three hundred in all, on two sockets of each of three sessions at a time."""
    (served.work / "notes.txt").write_text("some notes\n")
    found: Counter[str] = Counter()

    async def one(name: str) -> None:
        async with served.client(key=key) as talk, served.client(talk.session_id, key=key) as twin:
            dice = random.Random(name)
            texts = await interject(talk, name, dice, 25)
            texts += await interject(twin, f"twin-{name}", dice, 10)
            acks = [of(each.frames, "RUNTIME_INPUT_ACK") for each in (talk, twin)]
            await talk.until(lambda: is_over(talk.frames) and _are_there(talk.frames, texts), "all of it used")
            inputs = of(talk.frames, "user_input")
            names = [frame["id"] for frame in inputs]
            assert len(names) == len(set(names)), "none is used twice"
            assert {ack["id"] for each in acks for ack in each} <= set(names)
            last = of(talk.frames, "OUTPUT")[-1]
            users = [message["content"] for message in last["session"]["messages"] if message["role"] == "user"]
            assert Counter(users) == Counter(frame["content"] for frame in inputs)
            notes = [frame for frame in inputs if "say note" in frame["content"] and "#script" not in frame["content"]]
            found.update("into" if frame.get("runtime_input") else "own" for frame in notes)

    await asyncio.gather(*(one(f"{key.address[2:6]}-{number}") for number in range(3)))
    assert sum(found.values()) == 105
    assert found["into"] > 20, found


def _are_there(frames: list[Frame], texts: list[str]) -> bool:
    return set(texts) <= {frame["content"] for frame in of(frames, "user_input")}


async def test_a_prompt_that_comes_with_the_last_answer_is_used(served: Onion) -> None:
    """The original acknowledged it and lost it."""
    async with served.client(key=ALICE) as talk:
        for pause in range(12):
            talk.mark = len(talk.frames)
            talk.input(script("say almost", f"pause {pause}\nsay over"))
            await talk.next("llm_call", iteration=1)
            await asyncio.sleep(0.002 * pause)
            talk.input(f"say late {pause}.")
            late = await talk.next("user_input", content=f"say late {pause}.")
            assert late["id"] in acknowledged(talk.frames)
            await talk.until(lambda: is_over(talk.frames), "its turn ends")


async def test_a_prompt_with_a_file_goes_into_the_turn_that_runs(served: Onion) -> None:
    """The original dropped the file without a word."""
    async with served.client(key=ALICE) as talk:
        talk.input(script(*calls(("bash", {"command": "touch waits"})), "say over"))
        asked = await talk.next("approval_needed")
        talk.input("and this", files=[{"name": "note.txt", "data": "data:text/plain;base64,aGVsbG8="}])
        ack = await talk.next("RUNTIME_INPUT_ACK")
        talk.say("APPROVAL_RESPONSE", request_id=asked["id"], approved=True)
        taken = await talk.next("user_input", runtime_input=True)
        assert (taken["id"], taken["content"]) == (ack["id"], "and this")
        received = await talk.next("files_received")
        (file,) = received["files"]
        assert (served.work / file["path"]).read_text() == "hello"
        await talk.next("OUTPUT")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_none_that_was_acknowledged_is_lost_with_the_server(make_server: MakeServer, seed: int) -> None:
    served = await make_server()
    (served.work / "notes.txt").write_text("some notes\n")
    dice = random.Random(seed)
    count = 0
    for number in range(3):
        async with served.client(key=ALICE) as talk:
            session = talk.session_id
            talk.input(TURN)
            await talk.next("user_input")
            for each in range(dice.randrange(1, 6)):
                talk.input(f"say note {number}-{each}.")
                await asyncio.sleep(dice.choice((0, 0.001, 0.01)))
            await asyncio.sleep(dice.choice((0, 0.001, 0.01, 0.03)))
            served.kill()
            await talk.wire.gone()
            promised = acknowledged(talk.frames)
        count += len(promised) - 1
        await served.start()
        async with served.client(session, key=ALICE) as talk:
            await _all_used(served, talk, session, promised)
    assert count >= 2, count


async def _all_used(served: Onion, talk: Talk, session: str, promised: set[str]) -> None:
    """Each went into a turn by the session's log, or goes into one now."""
    async with asyncio.timeout(20):
        while not promised <= _used(await served.whole_log(session)):
            await asyncio.sleep(0.05)
    frames = await talk.turn(script("say still here"))
    texts = " ".join(str(message["content"]) for message in frames[-1]["session"]["messages"])
    log = await served.whole_log(session)
    for event in log:
        if event["fact"]["type"] == "prompt.submitted" and event["fact"]["prompt"] in promised:
            assert event["fact"]["text"] in texts


def _used(log: list[Frame]) -> set[str]:
    return {event["fact"]["prompt"] for event in log if event["fact"]["type"] in ("turn.started", "prompt.taken")}
