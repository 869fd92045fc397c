"""What the real clients do while a turn runs: interject, lose the line and come back, stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agents.native.model_server.heard import User
from tests.agents.native.model_server.script import Answer, Gate, say, use

from .conftest import EVERYBODY, Clients
from .host import Stage
from .people import NpmPerson, Person, Raised, data_url
from .wire import Wire

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

STOPPED = "What would you like me to do?"


def held(stage: Stage, text: str, gate: str) -> str:
    """A prompt whose turn reads a file, and then waits at a gate before the model says ``Done.``."""
    (stage.host.work / "held.txt").write_text("held\n")
    reading = Answer((use("read", {"filePath": "held.txt"}, id=f"call-{gate}"),))
    return stage.prompt(text, reading, Answer(say("Done.").parts, before=Gate(gate)))


def begun(person: Person, text: str) -> asyncio.Task[Any]:
    """Say it, meanwhile."""
    if isinstance(person, NpmPerson):
        return person.begin("input", [text])
    return person.begin("input_async", {"prompt": text})


@pytest.mark.parametrize("kind", EVERYBODY)
async def test_an_interjection(kind: str, stage: Stage, clients: Clients) -> None:
    person = await clients.meet(kind, stage.host)
    gate = f"interjection-{kind}"
    prompt, other = held(stage, "Work.", gate), stage.prompt("And this, too.", say("Both done."))
    working = begun(person, prompt)
    await stage.reached(gate)
    adding = asyncio.create_task(person.say(other, files=[(f"{kind}.log", data_url("text/plain", b"a log\n"))]))
    conversation = await stage.host.conversation(prompt)
    await conversation.has("prompt.submitted", 2)
    stage.open(gate)
    assert await working == await adding == {"text": "Both done.", "done": True}

    assert len(await conversation.facts("turn.started")) == 1
    assert len(await conversation.facts("prompt.taken")) == 1
    assert await conversation.texts() == ["Both done."]
    [*_, told] = [it.text for it in stage.heard(other)[0].messages if isinstance(it, User)]
    assert other in told
    [kept] = (stage.host.work / ".co" / "uploads").glob(f"*_{kind}.log")
    assert f".co/uploads/{kept.name}" in told
    assert kept.read_bytes() == b"a log\n"


async def test_python_1_9_2_goes_on_where_the_line_broke(stage: Stage, clients: Clients, wire: Wire) -> None:
    person = await clients.python("python-1.9.2", stage.host, url=wire.url)
    prompt = held(stage, "Work.", "python-1.9.2-drop")
    working = begun(person, prompt)
    await stage.reached("python-1.9.2-drop")
    wire.cut()
    await wire.until(lambda: len(wire.connections) == 2 and "CONNECTED" in kinds(wire, 1), "it is back")
    stage.open("python-1.9.2-drop")
    assert await working == {"text": "Done.", "done": True}

    before, after = wire.connections
    assert [frame["type"] for frame in before.sent] == ["SEAL", "CONNECT", "INPUT"]
    assert [frame["type"] for frame in after.sent] == ["SEAL", "CONNECT"]
    last = after.first("CONNECT")["last_msg_id"]
    ids = [frame["id"] for frame in before.heard if "id" in frame]
    missed = ids[len(ids) - ids[::-1].index(last) :]
    again = [frame["id"] for frame in after.heard if frame.get("id") in ids]
    # What it has had does not come again, but for the second half of a pair, which has the same id.
    assert again in (missed, [last, *missed])
    assert kinds(wire, 0).count("OUTPUT") + kinds(wire, 1).count("OUTPUT") == 1
    assert [(call["status"], call["result"]) for call in await person.ui("tool_call")] == [("done", "1\theld")]
    conversation = await stage.host.conversation(prompt)
    assert len(await conversation.facts("prompt.submitted")) == 1


async def test_npm_comes_back_to_a_turn_that_runs(stage: Stage, clients: Clients, wire: Wire) -> None:
    person = await clients.npm(stage.host, url=wire.url)
    working = begun(person, held(stage, "Work.", "npm-drop"))
    await stage.reached("npm-drop")
    wire.cut()
    with pytest.raises(Raised, match="Connection closed before response"):
        await working
    back = person.begin("reconnect", [])
    session = (await person.is_in())["session_id"]
    assert await person.call("checkSessionStatus", [session]) == "running"
    stage.open("npm-drop")
    assert await back == {"text": "Done.", "done": True}
    # All of the turn came again, with the ids that it had.
    assert [(it["status"], it["result"]) for it in await person.ui("tool_call")] == [("done", "1\theld")]
    assert [it["status"] for it in await person.ui("thinking")] == ["done", "done"]
    assert [it["content"] for it in await person.ui("agent")] == ["Done."]


async def test_npm_comes_back_to_a_turn_that_ended_meanwhile(stage: Stage, clients: Clients, wire: Wire) -> None:
    person = await clients.npm(stage.host, url=wire.url)
    first = stage.prompt("Hello,", say("Hello."))
    await person.say(first)
    prompt = held(stage, "Work.", "npm-away")
    working = begun(person, prompt)
    await stage.reached("npm-away")
    wire.cut()
    with pytest.raises(Raised, match="Connection closed before response"):
        await working
    stage.open("npm-away")
    conversation = await stage.host.conversation(prompt)
    await conversation.has("turn.ended", 2)
    assert await person.call("reconnect", []) == {"text": "", "done": True}
    [connected] = [frame for frame in wire.connections[-1].heard if frame["type"] == "CONNECTED"]
    assert (connected["status"], connected["server_newer"]) == ("connected", True)
    said = [(it["type"], it["content"]) for it in await person.ui() if it["type"] in {"user", "agent"}]
    assert said == [("user", first), ("agent", "Hello."), ("user", prompt), ("agent", "Done.")]
    session = (await person.state())["session"]
    assert session["turn"] == 2
    assert await person.call("checkSessionStatus", [session["session_id"]]) == "connected"
    # The page of a session is shown to those who prove whose it is, and the client sends no proof there.
    assert await person.call("checkSession", []) == "not_found"


async def lose(stage: Stage, wire: Wire) -> None:
    """The server is killed, and started again before anybody dials."""
    wire.hold()
    stage.host.kill()
    wire.cut()
    await stage.host.start()
    wire.release(stage.host.url)


async def test_python_1_9_2_is_told_that_a_lost_server_lost_its_turn(mortal: Stage, clients: Clients) -> None:
    async with Wire(mortal.host.url).running() as wire:
        person = await clients.python("python-1.9.2", mortal.host, url=wire.url)
        prompt = held(mortal, "Work.", "python-1.9.2-killed")
        working = begun(person, prompt)
        await mortal.reached("python-1.9.2-killed")
        await lose(mortal, wire)
        with pytest.raises(Raised, match="the host no longer has it running") as raised:
            await working
        assert raised.value.kind == "TurnLostError"
        again = mortal.prompt("And now?", say("Now this."))
        assert await person.say(again) == {"text": "Now this.", "done": True}
        conversation = await mortal.host.conversation(prompt)
        assert [it["outcome"] for it in await conversation.facts("turn.ended")] == ["interrupted", "completed"]
        told = [it.text for it in mortal.heard(again)[0].messages if isinstance(it, User)]
        assert prompt in told[0]


async def test_npm_comes_back_to_a_server_that_was_lost(mortal: Stage, clients: Clients) -> None:
    async with Wire(mortal.host.url).running() as wire:
        person = await clients.npm(mortal.host, url=wire.url)
        first, prompt = mortal.prompt("Hello,", say("Hello.")), held(mortal, "Work.", "npm-killed")
        await person.say(first)
        working = begun(person, prompt)
        await mortal.reached("npm-killed")
        await lose(mortal, wire)
        with pytest.raises(Raised, match="Connection closed before response"):
            await working
        assert await person.call("reconnect", []) == {"text": "", "done": True}
        again = mortal.prompt("And now?", say("Now this."))
        assert await person.say(again) == {"text": "Now this.", "done": True}
        said = [(it["type"], it["content"]) for it in await person.ui() if it["type"] in {"user", "agent"}]
        assert said == [("user", first), ("agent", "Hello."), ("user", prompt), ("user", again), ("agent", "Now this.")]
        assert (await person.state())["session"]["turn"] == 3


@pytest.mark.parametrize("kind", ["python-1.2.1", "python-1.2.1-unsigned"])
async def test_python_1_2_1_comes_back_with_another_prompt(
    kind: str, stage: Stage, clients: Clients, wire: Wire
) -> None:
    """It does not come back by itself; what it says next finds the turn, and gets its end."""
    person = await clients.meet(kind, stage.host, url=wire.url)
    gate = f"drop-{kind}"
    prompt, other = held(stage, "Work.", gate), stage.prompt("Are you there?", say("I am."))
    working = begun(person, prompt)
    await stage.reached(gate)
    wire.cut()
    with pytest.raises(Raised) as raised:
        await working
    assert raised.value.kind == "ConnectionClosedError"
    back = begun(person, other)
    await wire.until(lambda: len(wire.connections) == 2 and "RUNTIME_INPUT_ACK" in kinds(wire, 1), "it is back")
    stage.open(gate)
    assert await back == {"text": "I am.", "done": True}
    [connected] = [frame for frame in wire.connections[1].heard if frame["type"] == "CONNECTED"]
    assert connected["status"] == "running"
    conversation = await stage.host.conversation(prompt)
    assert [it["text"] for it in await conversation.facts("prompt.submitted")] == [prompt, other]
    assert len(await conversation.facts("turn.started")) == 1


async def test_python_1_9_2_stops_a_turn(stage: Stage, clients: Clients) -> None:
    person = await clients.python("python-1.9.2", stage.host)
    prompt = held(stage, "Work.", "stop")
    working = begun(person, prompt)
    await stage.reached("stop")
    assert await person.call("stop_async") is True
    assert await working == {"text": STOPPED, "done": True}
    conversation = await stage.host.conversation(prompt)
    assert [it["outcome"] for it in await conversation.facts("turn.ended")] == ["cancelled"]
    assert await person.call("stop_async") is False
    assert await person.say(stage.prompt("And now?", say("Now this."))) == {"text": "Now this.", "done": True}


async def test_python_1_9_2_stops_a_turn_that_it_left_at_its_deadline(stage: Stage, clients: Clients) -> None:
    person = await clients.python("python-1.9.2", stage.host)
    prompt = held(stage, "Work.", "deadline")
    working = person.begin("input_async", {"prompt": prompt, "timeout": 4.0})
    await stage.reached("deadline")
    with pytest.raises(Raised, match="The turn may still be running") as raised:
        await working
    assert raised.value.kind == "TurnTimeoutError"
    assert (await person.state())["status"] == "unknown"
    assert await person.call("stop_async") is True
    conversation = await stage.host.conversation(prompt)
    assert [it["outcome"] for it in await conversation.facts("turn.ended")] == ["cancelled"]


async def test_python_1_9_2_is_told_what_this_protocol_has_not(stage: Stage, clients: Clients) -> None:
    """Tools that are called without a model, and the modes of a later protocol."""
    person = await clients.python("python-1.9.2", stage.host)
    called = await person.call("call_async", {"tool": "bash", "command": "echo hi"})
    assert (called["status"], called["error"]) == ("error", "unknown message type: 'EXEC'")
    with pytest.raises(Raised, match="Host does not support acknowledged OIP modes"):
        await person.call("set_session_mode_async", {"mode": "read-only"})


def kinds(wire: Wire, number: int) -> list[str]:
    """The types of what a connection of the wire heard."""
    return [frame["type"] for frame in wire.connections[number].heard]
