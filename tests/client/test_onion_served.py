"""The onion client against the server: turns, cuts at any byte, answers, gates, a server that is lost."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.client.errors import Denied, OnboardingRequired, Refused, TurnFailed
from dragoman.client.onion import OnionClient, OnionKey, OnionOptions
from dragoman.client.onion_place import Message
from tests.agents.native.native_rig import script
from tests.client.chopper import Chopper
from tests.dialects.onion.conftest import MakeServer, make_server, served
from tests.dialects.onion.rig import Onion, calls

__all__ = ["make_server", "served"]

KEY, OTHER = (OnionKey(bytes([byte]) * 32) for byte in (7, 8))
QUICK = OnionOptions(first_retry=0.005, longest_retry=0.05)
POLICY = "---\nallow: [whitelisted, contact]\nonboard:\n  invite_code: [open-sesame]\ndefault: ask\n---\nBe careful.\n"
QUESTION = {"question": "Which database?", "options": ["PostgreSQL", "MySQL"]}


class Hearing:
    """Reads all of a client's frames, and answers what is asked."""

    def __init__(self, client: OnionClient) -> None:
        self.client = client
        self.frames: list[Message] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Hearing:
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _read(self) -> None:
        async for frame in self.client.frames():
            self.frames.append(frame)
            if frame["type"] == "ask_user":
                self.client.answer(frame["id"], "MySQL")
            elif frame["type"] == "approval_needed":
                self.client.approve(frame["id"], approved=True)

    def events(self) -> list[tuple[str, str, str]]:
        """Which events came."""
        found = [frame for frame in self.frames if "ts" in frame]
        return [(frame["id"], frame["type"], str(frame.get("status"))) for frame in found]


async def test_a_turn_with_a_tool_a_question_and_an_approval(served: Onion) -> None:
    asking = script(*calls(("ask", QUESTION), ("bash", {"command": "touch by-client.txt"})), "say all done")
    async with OnionClient(served.url, key=KEY, options=QUICK) as client, Hearing(client) as hearing:
        outcome = await client.run(asking)
        assert (outcome.result, outcome.session["turn"]) == ("all done", 1)
        assert (served.work / "by-client.txt").exists()
        assert await client.ask_status() == "connected"
        assert (await client.run(script("say again"))).result == "again"
        with pytest.raises(Refused, match="prompt required"):
            await client.input("")
        with pytest.raises(TurnFailed, match="unknown step: dance"):
            await client.run(script("dance"))
        assert {"ask_user", "approval_needed", "tool_result"} <= {frame["type"] for frame in hearing.frames}
        assert len(set(hearing.events())) == len(hearing.events())


async def test_the_example_of_the_manual_runs(served: Onion, tmp_path: Path) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "client-onion.md").read_text()
    example = tmp_path / "talk.py"
    example.write_text(manual.partition("```python\n")[2].partition("```")[0])
    asking = script(*calls(("bash", {"command": "touch by-the-manual.txt"}), ("ask", QUESTION)), "say They are gone.")
    command = [sys.executable, str(example), served.url, asking]
    made = await asyncio.to_thread(
        subprocess.run, command, input="y\nMySQL\n", capture_output=True, text=True, timeout=20, check=False
    )
    assert made.stderr == ""
    assert made.stdout.endswith("They are gone.\n")
    assert (served.work / "by-the-manual.txt").exists()


async def test_a_file_arrives(served: Onion) -> None:
    async with OnionClient(served.url, key=KEY, options=QUICK) as client, Hearing(client) as hearing:
        await client.run("look at this", files={"notes.txt": b"by the client"})
        (received,) = [frame for frame in hearing.frames if frame["type"] == "files_received"]
        assert (served.work / received["files"][0]["path"]).read_bytes() == b"by the client"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_cuts_at_any_byte_lose_nothing_and_repeat_nothing(served: Onion, seed: int) -> None:
    """Each prompt is one turn with its own result, and each event is handed over once, as a second client hears it."""
    path = served.url.partition("/onion")[2]
    async with Chopper(served.ready["port"], seed=seed, most=9000) as chopper:
        url = chopper.url.replace("http", "ws").replace("/hub", f"/onion{path}")
        async with (
            OnionClient(url, key=KEY, options=QUICK) as client,
            OnionClient(served.url, key=KEY, session_id=client.session_id, options=QUICK) as twin,
            Hearing(client) as hearing,
            Hearing(twin) as witness,
        ):
            chopper.cuts_left = 25
            chopper.cut()
            turns = 0
            while chopper.cuts < 25:
                turns += 1
                steps = (calls(("ask", QUESTION))[0], f"deltas 40\npause 5\nsay number {turns}")
                outcome = await client.run(script(*steps))
                assert outcome.result.endswith(f"number {turns}")
                assert outcome.session["turn"] == turns
            await twin.ask_status()
            heard, told = hearing.events(), witness.events()
            assert len(set(heard)) == len(heard)
            assert set(heard) <= set(told)
            assert heard == [event for event in told if event in set(heard)], "in order"
            assert client.connections > 2


async def test_a_server_that_is_lost_is_come_back_to(make_server: MakeServer) -> None:
    served = await make_server()
    async with Chopper(served.ready["port"]) as chopper:
        url = chopper.url.replace("http", "ws").replace("/hub", "/onion/ws")
        async with OnionClient(url, key=KEY, options=QUICK) as client, Hearing(client) as hearing:
            running = asyncio.create_task(client.run(script("deltas 5\nwait")))
            async with asyncio.timeout(20):
                while not any(frame["type"] == "assistant_delta" for frame in hearing.frames):
                    await asyncio.sleep(0.01)
            served.kill()
            await served.start()
            chopper.target = served.ready["port"]
            with pytest.raises(TurnFailed, match="without a result"):
                await running
            assert (await client.run(script("say here again"))).result == "here again"
            assert len(set(hearing.events())) == len(hearing.events())
            errors = [frame["message"] for frame in hearing.frames if frame["type"] == "ERROR"]
            assert errors == ["turn interrupted by a restart"]


async def test_a_stranger_becomes_known_and_stays_known(make_server: MakeServer, tmp_path: Path) -> None:
    policy = tmp_path / "policy.md"
    policy.write_text(POLICY)
    served = await make_server(config=f"[trust]\npolicy = {json.dumps(str(policy))}\n")
    client = OnionClient(served.url, key=KEY, options=QUICK)
    with pytest.raises(OnboardingRequired) as gate:
        await client.start()
    assert (gate.value.methods, gate.value.identity) == (("invite_code",), KEY.address)
    with pytest.raises(Refused, match="Invalid invite code"):
        await client.onboard(invite_code="guess")
    await client.onboard(invite_code="open-sesame")
    async with Hearing(client):
        assert (await client.run(script("say welcome"))).result == "welcome"
    await client.close()
    async with OnionClient(served.url, key=KEY, options=QUICK) as known:
        assert known.gate is None
    async with OnionClient(served.url, key=OTHER, invite_code="open-sesame", options=QUICK) as other:
        assert other.status == "new"


async def test_who_is_refused_hears_why(make_server: MakeServer) -> None:
    served = await make_server(config='[trust]\npolicy = "strict"\n')
    with pytest.raises(Denied, match="unauthorized: signed request required"):
        await OnionClient(served.url, options=QUICK).start()
    with pytest.raises(Denied, match="forbidden"):
        await OnionClient(served.url, key=KEY, options=QUICK).start()


@pytest.mark.slow
async def test_a_prompt_is_one_turn_though_the_server_is_lost_before_it_answered(make_server: MakeServer) -> None:
    """Invariant 3: it goes out again under its id, also to the next server."""
    served = await make_server()
    dice = random.Random(1)
    async with Chopper(served.ready["port"]) as chopper:
        url = chopper.url.replace("http", "ws").replace("/hub", "/onion/ws")
        async with OnionClient(url, key=KEY, options=QUICK) as client, Hearing(client):
            prompts = [script(f"pause 20\nsay number {number}") for number in range(6)]
            for prompt in prompts:
                running = asyncio.create_task(client.run(prompt))
                await asyncio.sleep(dice.choice((0, 0.002, 0.005, 0.01, 0.03)))
                served.kill()
                await served.start()
                chopper.target = served.ready["port"]
                try:
                    assert (await running).result.startswith("number")
                except TurnFailed:
                    assert not client.running
            log = await served.whole_log(str(client.session_id))
    facts = [event["fact"] for event in log]
    submitted = [fact["prompt"] for fact in facts if fact["type"] == "prompt.submitted"]
    assert [fact["text"] for fact in facts if fact["type"] == "prompt.submitted"] == prompts
    assert [fact["prompt"] for fact in facts if fact["type"] == "turn.started"] == submitted
