"""SIGKILL of the server while it is used: nothing acknowledged is lost, nothing is repeated (invariants 1, 3, 6, 7)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from dragoman.agents.terminal.drivers.hook_socket import hook_command

from .process import LIMIT, Message, Served, alive, eventually, marked

KILLS = 50
SCRIPT = "think about it\nsay answer {n} in several words\ntool look {{}}"


class Client:
    """Submits without pause and follows by cursor, over any number of server lives."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.log: list[Message] = []
        self.acknowledged: dict[str, Message] = {}
        self.sent: set[str] = set()

    async def live(self, socket: ClientConnection) -> None:
        """Use one server until it is gone."""
        asked: dict[int, str] = {}
        await socket.send(json.dumps({"op": "follow", "id": 0, "session": self.session, "after": len(self.log)}))

        async def submit() -> None:
            while True:
                name = f"m{len(self.sent)}"
                self.sent.add(name)
                asked[len(self.sent)] = name
                prompt = {"op": "submit", "id": len(self.sent), "session": self.session, "when_busy": "queue"}
                await socket.send(json.dumps(prompt | {"text": SCRIPT.format(n=name), "client_message_id": name}))
                await eventually(lambda: len(asked) < 20, "answers to submissions")

        submitting = asyncio.create_task(submit())
        try:
            async for text in socket:
                self._take(json.loads(text), asked)
        except ConnectionClosed:
            pass
        finally:
            submitting.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                await submitting

    def _take(self, message: Message, asked: dict[int, str]) -> None:
        if message["type"] == "events":
            for event in message["events"]:
                assert event["seq"] == len(self.log) + 1, "a follower neither loses nor repeats"
                self.log.append(event)
        elif message.get("id") in asked:
            name = asked.pop(message["id"])
            if message["type"] == "ok":
                self.acknowledged[name] = message
            else:
                assert message["code"] == "limit_reached", message


@pytest.mark.slow
async def test_fifty_kills_lose_nothing_that_was_acknowledged(served: Served) -> None:
    chance = random.Random(7)
    await served.start()
    made = await served.asked("POST", "/sessions", {"kind": "scripted", "cwd": str(served.folder)})
    client = Client(made["session"])
    for _ in range(KILLS):
        async with served.socket() as socket:
            living = asyncio.create_task(client.live(socket))
            before = len(client.log)
            await eventually(lambda before=before: len(client.log) > before + 3, "the log grows")
            await asyncio.sleep(chance.uniform(0, 0.05))  # a moment that nobody chose
            served.kill()
            await living
        await served.start()
        row = await served.asked("GET", f"/sessions/{client.session}")
        assert row["seq"] >= len(client.log), "seq goes on, nothing that was shown is taken back"

    # everything that was acknowledged is there, once; so is everything that was only sent, if it is there at all
    await _settled(served, client.session)
    log = await served.whole_log(client.session)
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    assert log[: len(client.log)] == client.log
    submitted = [event["fact"] for event in log if event["fact"]["type"] == "prompt.submitted"]
    names = [fact["client_message_id"] for fact in submitted]
    assert len(names) == len(set(names))
    assert set(client.acknowledged) <= set(names) <= client.sent
    assert len(client.acknowledged) > KILLS

    # no turn is open or was run twice, no call is without a result, and the next prompt works
    kinds = [event["fact"]["type"] for event in log]
    assert kinds.count("turn.started") == kinds.count("turn.ended") == len(names)
    calls = [event["fact"]["call"] for event in log if event["fact"]["type"] == "tool.called"]
    results = [event["fact"]["call"] for event in log if event["fact"]["type"] == "tool.ended"]
    assert sorted(calls) == sorted(results)
    await served.asked("POST", f"/sessions/{client.session}/prompts", {"text": "say still here"})
    await _settled(served, client.session)
    assert (await served.whole_log(client.session))[-1]["fact"]["result"] == "still here"
    assert served.stop() == 0


async def _settled(served: Served, session: str) -> None:
    async with asyncio.timeout(60):
        while True:
            state = await served.asked("GET", f"/sessions/{session}")
            if not state["turn"] and not state["queue"]:
                return
            await asyncio.sleep(0.02)


async def test_a_terminal_session_of_a_lost_server_is_exited_and_can_be_started_again(served: Served) -> None:
    await served.start()
    stubborn = "trap '' HUP; (trap '' HUP TERM; exec sleep 1000) & echo up; cat"
    asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": ["sh", "-c", stubborn]}}
    made = await served.asked("POST", "/sessions", asked)
    session = made["session"]
    await eventually(lambda: len(marked(session)) >= 2, "the program and its child run")
    left = marked(session)
    served.kill()
    await served.start()

    state = await served.asked("GET", f"/sessions/{session}")
    assert state["status"] == "exited"
    assert state["exit"]["cause"] == "server-lost"
    await eventually(lambda: not any(map(alive, left)), "orphans are gone")
    async with asyncio.timeout(10):
        while not (told := [e["fact"] for e in await served.whole_log(session) if e["fact"]["type"] == "log.written"]):
            await asyncio.sleep(0.02)
    assert any(str(pid) in told[0]["line"] for pid in left), "what was found is listed"

    await served.asked("POST", f"/sessions/{session}/start")
    await eventually(lambda: len(marked(session)) >= 2, "the program runs again")
    state = await served.asked("GET", f"/sessions/{session}")
    assert state["status"] == "working"
    log = await served.whole_log(session)
    started = [event["fact"] for event in log if event["fact"]["type"] == "agent.started"]
    assert [fact.get("run", 1) for fact in started] == [1, 2]
    assert started[1]["tape_offset"] >= started[0]["tape_reserved"], "no offset is used twice"
    again = marked(session)
    assert served.stop() == 0
    await eventually(lambda: not any(map(alive, again)), "a stop leaves nothing behind")


async def test_an_agent_that_is_started_again_has_its_first_hook_answered(tmp_path: Path, short_path: Path) -> None:
    """Whatever the killed server left where hooks are posted."""
    served = Served(tmp_path / "server", env={"TMPDIR": str(short_path)})
    posted = f'echo \'{{"source": "startup"}}\' | {hook_command("SessionStart")}'
    hook = f"{posted}; code=$?; echo; echo left with $code; exec sleep 1000"
    asked = {"kind": "terminal", "agent": "claude", "cwd": str(tmp_path), "options": {"command": ["sh", "-c", hook]}}
    await served.start()
    try:
        made = await served.asked("POST", "/sessions", asked | {"settings": {"start_config": {"text": "the milk"}}})
        await _hook_answered(served, made["session"], 1)
        left = marked(made["session"])
        served.kill()
        assert list(short_path.glob("dragoman-hooks-*/hooks.sock")), "it left its socket behind"
        await served.start()
        await eventually(lambda: not any(map(alive, left)), "orphans are gone")
        await served.asked("POST", f"/sessions/{made['session']}/start")
        await _hook_answered(served, made["session"], 2)
    finally:
        if served.process is not None:
            served.kill()


async def _hook_answered(served: Served, session: str, times: int) -> None:
    """As often as that, in the log; and the program was told what it was to be told, and went on."""
    lines: list[str] = []
    async with asyncio.timeout(LIMIT):
        while not any(line == "left with 0" for line in lines):
            lines = (await served.asked("GET", f"/sessions/{session}/screen"))["lines"]
            await asyncio.sleep(0.02)
    assert any("the milk" in line for line in lines), lines
    answered = [event["fact"] for event in await served.whole_log(session) if event["fact"]["type"] == "hook.answered"]
    assert [(fact["hook"], fact["injected"]) for fact in answered] == [("start", True)] * times


async def test_a_kill_hangs_up_every_terminal(served: Served) -> None:
    await served.start()
    sessions = []
    for _ in range(5):
        asked = {"kind": "terminal", "cwd": str(served.folder), "options": {"command": ["cat"]}}
        sessions.append((await served.asked("POST", "/sessions", asked))["session"])
    pids = [pid for session in sessions for pid in marked(session)]
    assert len(pids) == 5
    served.kill()
    await eventually(lambda: not any(map(alive, pids)), "every program is hung up")


async def test_a_second_server_on_the_same_folder_names_the_holder(served: Served, tmp_path: Path) -> None:
    await served.start()
    other = Served(served.folder)
    with pytest.raises(AssertionError, match=f"in use by pid {served.pid}"):
        await other.start()
    assert other.process is not None
    assert other.process.wait(10) == 2
    other.process.stdout.close()
    other.process = None
