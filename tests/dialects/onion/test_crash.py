"""A server that is lost while turns run: what clients are told when they come back (bar W5, invariant 6)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from .conftest import MakeServer
from .resume_checker import Frame
from .rig import ALICE, BOB, CAROL, Key, Onion, Talk, calls, events, kinds, of, script

READ = calls(("read", {"filePath": "notes.txt"}))[0]
TURN = script(
    f"think let me see\nsay I will read it\n{READ}",
    f"deltas 15\npause 15\ndeltas 15\n{READ}\n{READ}",
    f"pause 10\nsay one two three four five\npause 10\n{READ}",
    "pause 5\ndeltas 40\npause 40\nsay the end",
)
RESTARTED = "turn interrupted by a restart"


@dataclass
class Caller:
    """A client whose server is lost. ``had`` is what it heard of the turn that ran then."""

    key: Key
    talk: Talk = field(default_factory=Talk)
    session_id: str | None = None
    had: list[Frame] = field(default_factory=list)

    async def arrive(self, served: Onion, last: str | None = None) -> Frame:
        self.talk = Talk()
        await self.talk.open(served.url)
        named = {} if last is None else {"last_msg_id": last}
        connected = await self.talk.connect(self.session_id, key=self.key, **named)
        self.session_id = str(connected["session_id"])
        return connected

    async def leave(self) -> None:
        await self.talk.wire.close()


def told(log: list[Frame]) -> list[tuple[str, str]]:
    """The stream events that the newest turn of a log is, by the hub's own account: type and id."""
    start = max(place for place, event in enumerate(log) if event["fact"]["type"] == "turn.started")
    found: list[tuple[str, str]] = []
    step, answered = "", False
    for event in log[start:]:
        fact, name = event["fact"], f"ev-{event['seq']}"
        kind = fact["type"]
        if kind == "step.started":
            step, answered = name, False
        as_wire = {
            "turn.started": ("user_input", str(fact.get("prompt"))),
            "prompt.taken": ("user_input", str(fact.get("prompt"))),
            "step.started": ("llm_call", name),
            "tool.called": ("tool_call", name),
            "tool.ended": ("tool_result", name),
        }
        if kind == "part.delta" and fact["kind"] == "text":
            found.append(("assistant_delta", name))
        elif kind == "message.added" and fact["role"] == "reasoning":
            found.append(("thinking", name))
        elif not answered and (kind == "step.ended" or (kind == "usage.reported" and fact.get("answered"))):
            found.append(("llm_result", step))
            answered = True
        elif kind in as_wire:
            found.append(as_wire[kind])
    return found


async def check(served: Onion, caller: Caller, dice: random.Random) -> str:
    """Come back, and be told the rest of what was cut off; then go on. Returns what had become of the turn."""
    last = caller.had[-1]["id"] if caller.had and dice.random() < 0.8 else None
    over = bool(of(caller.talk.frames, "OUTPUT"))
    connected = await caller.arrive(served, last)
    assert connected["status"] == "connected"
    assert caller.session_id is not None
    log = await served.whole_log(caller.session_id)
    ended = [event["fact"]["outcome"] for event in log if event["fact"]["type"] == "turn.ended"]
    await caller.talk.until(
        lambda: over or last is None or not ended or ended[-1] != "interrupted" or of(caller.talk.frames, "ERROR"),
        "the ERROR of the turn that was cut off",
    )
    for _ in range(2):
        await caller.talk.status()
    heard = [frame for frame in caller.talk.frames[1:] if frame["type"] not in ("SESSION_STATUS", "PING")]
    found = "none" if not ended else ended[-1]
    if last is None or found != "interrupted":
        assert not heard
        found += " and unknown" if last is None else ""
    else:
        assert [frame["message"] for frame in of(heard, "ERROR")] == [RESTARTED]
        assert heard[-1]["type"] == "ERROR"
        whole = [(frame["type"], frame["id"]) for frame in [*caller.had, *events(heard)]]
        assert _without_told_again(whole, len(caller.had)) == told(log)
    if found == "interrupted":
        assert "OUTPUT" not in kinds(heard)
    frames = await caller.talk.turn(script("say on we go"))
    assert (frames[-1]["result"], kinds(frames)[0]) == ("on we go", "user_input")
    return found


def _without_told_again(whole: list[tuple[str, str]], had: int) -> list[tuple[str, str]]:
    """Who had both events with one id, the second one last, may be told again what follows the first."""
    last = whole[had - 1]
    if last[0] != "llm_result" or last not in whole[had:]:
        return whole
    return whole[:had] + whole[whole.index(last, had) + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_after_a_kill_the_rest_of_the_turn_is_told_once_and_the_next_one_runs(
    make_server: MakeServer, seed: int
) -> None:
    served = await make_server()
    (served.work / "notes.txt").write_text("some notes\n")
    dice = random.Random(seed)
    callers = [Caller(key) for key in (ALICE, BOB, CAROL)]
    found: Counter[str] = Counter()
    for caller in callers:
        await caller.arrive(served)
        await caller.talk.turn(script("say the turn before"))
    for _ in range(10):
        for caller in callers:
            caller.talk.frames.clear()
            caller.talk.input(TURN)
        await callers[0].talk.until(lambda: events(callers[0].talk.frames), "the first of them runs")
        await asyncio.sleep(dice.random() * 0.2)
        served.kill()
        for caller in callers:
            await caller.leave()
            caller.had = events(caller.talk.frames)
        await served.start()
        for caller in callers:
            found[await check(served, caller, dice)] += 1
    for caller in callers:
        await caller.leave()
    assert found["interrupted"] >= 8, found


async def test_a_prompt_that_waited_takes_nothing_from_the_turn_that_was_cut_off(make_server: MakeServer) -> None:
    """It begins its turn before anybody is back: the rest of the one before is told first, and its end."""
    served = await make_server()
    caller = Caller(ALICE)
    await caller.arrive(served)
    caller.talk.input(script("say I wait\nwait"))
    await caller.talk.next("llm_call")
    caller.talk.input(script("pause 300\nsay my turn"))
    waiting = (await caller.talk.next("RUNTIME_INPUT_ACK"))["id"]
    had = [frame for frame in caller.talk.frames if frame["type"] in ("user_input", "llm_call")]
    served.kill()
    await caller.leave()
    for last, rest in ((had[0]["id"], ["llm_call", "ERROR"]), (had[1]["id"], ["ERROR"])):
        await served.start()
        await caller.arrive(served, last)
        begun = await caller.talk.next("user_input", id=waiting)
        told_before = kinds(caller.talk.frames[: caller.talk.frames.index(begun)])
        assert [kind for kind in told_before if kind in ("llm_call", "ERROR")] == rest
        await caller.talk.next("llm_call")
        served.kill()
        await caller.leave()


async def test_a_turn_that_waited_for_an_answer_is_over_after_a_kill(make_server: MakeServer) -> None:
    """Spec §15 row 25: nothing runs or waits for ever; a late answer to what was asked before is stale."""
    served = await make_server()
    async with served.client(key=ALICE) as talk:
        session = talk.session_id
        talk.input(script(*calls(("bash", {"command": "touch never"})), "say no"))
        asked = await talk.next("approval_needed")
        served.kill()
        await talk.wire.gone()
    await served.start()
    async with served.client(session, key=ALICE, last_msg_id=asked["id"]) as talk:
        assert talk.frames[0]["status"] == "connected"
        error = await talk.next("ERROR")
        assert error["message"] == RESTARTED
        assert await talk.status() == "connected"
        for by in ({"request_id": asked["id"]}, {}):
            talk.say("APPROVAL_RESPONSE", approved=True, **by)
            await talk.next("ERROR", code="STALE_ANSWER")
        frames = await talk.turn(script("say here again"))
        assert frames[-1]["result"] == "here again"
        assert not (served.work / "never").exists()


async def test_without_the_tolerance_what_was_cut_off_is_not_told(make_server: MakeServer) -> None:
    served = await make_server(config='[dialects.onion]\ntolerate = ["assistant_delta"]\n')
    async with served.client(key=ALICE) as talk:
        session = talk.session_id
        talk.input(script("deltas 5\nwait"))
        delta = await talk.next("assistant_delta")
        served.kill()
        await talk.wire.gone()
    await served.start()
    async with served.client(session, key=ALICE, last_msg_id=delta["id"]) as talk:
        assert talk.frames[0]["status"] == "connected"
        assert talk.frames[0]["server_newer"] is True
        await talk.status()
        assert kinds(talk.frames) == ["CONNECTED", "SESSION_STATUS"]


async def test_a_server_that_is_stopped_in_a_turn_tells_its_end_before_or_after(make_server: MakeServer) -> None:
    served = await make_server()
    async with served.client(key=ALICE) as talk:
        session = talk.session_id
        talk.input(script("deltas 5\nwait"))
        await talk.next("assistant_delta", content="delta 4 ")
        await asyncio.to_thread(served.stop)
        await talk.wire.gone()
        before = events(talk.frames)
        errors = of(talk.frames, "ERROR")
    await served.start()
    async with served.client(session, key=ALICE, last_msg_id=before[-1]["id"]) as talk:
        assert talk.frames[0]["status"] == "connected"
        await talk.until(lambda: [*errors, *of(talk.frames, "ERROR")], "the ERROR")
        await talk.status()
        told = [*before, *events(talk.frames)]
        names = [(frame["id"], frame["type"]) for frame in told]
        assert len(names) == len(set(names))
        assert names[: len(before)] == [(frame["id"], frame["type"]) for frame in before]
        assert not of(talk.frames, "OUTPUT")
        assert {frame["message"] for frame in [*errors, *of(talk.frames, "ERROR")]} == {RESTARTED}
        frames = await talk.turn(script("say here again"))
        assert frames[-1]["result"] == "here again"
