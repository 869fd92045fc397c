"""A server that is lost while clients prompt with files and pictures and are asked (invariants 1, 3, 4 and 6)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faults.process import eventually

from .conftest import MakeServer
from .rig import ALICE, BOB, Frame, Key, Onion, Talk, calls, of, script

PICTURE = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"pixels").decode()
TURN = script(
    "say one\n" + calls(("ask", {"question": "Which?", "options": ["a", "b"]}))[0],
    "deltas 10\npause 10\n" + calls(("bash", {"command": "echo x >> ran"}))[0],
    "say the end",
)
CALLERS = [(key, name) for key in (ALICE, BOB) for name in ("mine", "also mine")]
"""Both call theirs the same."""

KILLS = 10


def answering(talk: Talk) -> Callable[[Frame], None]:
    """A client that says yes to everything, by name."""

    def answer(frame: Frame) -> None:
        if frame["type"] == "ask_user":
            talk.say("ASK_USER_RESPONSE", answer="a", request_id=frame["id"])
        elif frame["type"] == "approval_needed":
            talk.say("APPROVAL_RESPONSE", approved=True, request_id=frame["id"])

    return answer


def prompt(talk: Talk, number: str) -> None:
    """One with a file and a picture."""
    data = base64.b64encode(number.encode()).decode()
    file = {"name": "note.txt", "data": f"data:text/plain;base64,{data}"}
    talk.input(f"extra {number}", input_id=number, files=[file], images=[PICTURE])


async def two_each(served: Onion, leaving: contextlib.AsyncExitStack) -> list[tuple[Talk, Talk]]:
    """Two sockets on each session: the first one answers."""
    pairs = []
    for key, name in CALLERS:
        one, two = [await leaving.enter_async_context(served.client(name, key=key)) for _ in range(2)]
        one.on_frame = answering(one)
        pairs.append((one, two))
    return pairs


def known(talk: Talk) -> Iterator[str]:
    """Prompts that this client was told of."""
    for frame in (*of(talk.frames, "RUNTIME_INPUT_ACK"), *of(talk.frames, "user_input")):
        yield frame["id"]


async def until_idle(served: Onion, key: Key, name: str) -> None:
    """Answer what is asked until no turn runs. A prompt that waited begins one when the server is back."""
    async with served.talk() as talk:
        talk.on_frame = answering(talk)
        await talk.connect(name, key=key)
        async with asyncio.timeout(20):
            while await talk.status() == "running":
                await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_kills_lose_no_prompt_that_was_told_of_and_nothing_that_came_with_one(make_server: MakeServer) -> None:
    served, dice, told = await make_server(), random.Random(5), set[str]()
    for number in range(KILLS):
        async with contextlib.AsyncExitStack() as leaving:
            pairs = await two_each(served, leaving)
            for place, (one, two) in enumerate(pairs):
                one.input(TURN, input_id=f"{number}-{place}")
                prompt(two, f"{number}-{place}-file")
            await asyncio.sleep(dice.random() * 0.5)
            served.kill()
            await asyncio.gather(*(talk.wire.gone() for pair in pairs for talk in pair))
            told.update(prompt for pair in pairs for talk in pair for prompt in known(talk))
        await served.start()
    for key, name in CALLERS:
        await until_idle(served, key, name)
    rows = await served.hub_sessions()
    assert Counter(row["owner"] for row in rows) == {f"onion:{key.address}": 2 for key in (ALICE, BOB)}
    logs = [await served.whole_log(row["session"]) for row in rows]
    for log in logs:
        check(served, log)
    submitted = {
        event["fact"]["prompt"] for log in logs for event in log if event["fact"]["type"] == "prompt.submitted"
    }
    assert len(told) > KILLS
    assert told <= submitted
    await eventually(lambda: results(served) == Counter(came_of(log) for log in logs), "the results that the logs have")


def results(served: Onion) -> Counter[tuple[str, str]]:
    """Names and statuses, as the file has them: the last line of a session counts."""
    (file,) = served.work.parent.rglob("session_results.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    newest = {line["hub"]: (line["session_id"], line["status"]) for line in lines}
    return Counter(newest.values())


def came_of(log: list[dict[str, Any]]) -> tuple[str, str]:
    """The same, as its log has it."""
    ends = [event["fact"]["outcome"] for event in log if event["fact"]["type"] == "turn.ended"]
    ids = [event["fact"]["client_message_id"] for event in log if event["fact"]["type"] == "prompt.submitted"]
    _, name = CALLERS[int(ids[0].split("-")[1])]
    return name, {"completed": "done", "interrupted": "interrupted"}[ends[-1]]


def check(served: Onion, log: list[dict[str, Any]]) -> None:
    """One session's log, by the invariants alone, and what its prompts refer to."""
    facts = [event["fact"] for event in log]
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    prompts = [fact for fact in facts if fact["type"] == "prompt.submitted"]
    ran = Counter(fact["prompt"] for fact in facts if fact["type"] in ("turn.started", "prompt.taken"))
    assert ran == {prompt["prompt"]: 1 for prompt in prompts}
    named = [prompt["client_message_id"] for prompt in prompts]
    assert len(named) == len(set(named))
    outcomes = Counter(fact["decision"] for fact in facts if fact["type"] == "decision.resolved")
    assert outcomes == {fact["decision"]: 1 for fact in facts if fact["type"] == "decision.opened"}
    for kept in (kept for prompt in prompts for kept in prompt.get("attachments", ())):
        if kept["kind"] == "file":
            assert (served.work / kept["artifact"].removeprefix("upload:")).stat().st_size == kept["size"]
        else:
            assert list(served.work.parent.glob(f"data/**/{kept['artifact']}"))
