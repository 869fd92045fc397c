"""The client of the bridge against the server: turns, answers, cuts at any byte, a lost server, who is refused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.cin import GAP, CinClient, CinOptions
from dragoman.client.cin_place import Message
from dragoman.client.cin_requests import data_of
from dragoman.client.errors import Denied
from tests.client.chopper import Chopper
from tests.dialects.cin.recorded.bridge import Bridge
from tests.dialects.cin.stream_checker import problems
from tests.faults.process import eventually

QUICK = CinOptions(first_retry=0.005, longest_retry=0.05)

MakeBridge = Callable[..., Awaitable[Bridge]]


@pytest.fixture(scope="module", params=[False, True], ids=["seed", "legacy"])
def bridge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """One that speaks as the seed says, and one that speaks to the dashboard in use as well."""
    made = Bridge(tmp_path_factory.mktemp("cin"), legacy=request.param)
    asyncio.run(made.start())
    yield made
    made.kill()
    assert "Traceback" not in made.log.read_text(), made.log.read_text()


@pytest.fixture
async def make_bridge(tmp_path: Path) -> AsyncIterator[MakeBridge]:
    """Start a server with these variables; all are ended after the test."""
    made: list[Bridge] = []

    async def make(**env: str) -> Bridge:
        server = Bridge(tmp_path / f"bridge-{len(made)}", env=env)
        made.append(server)
        await server.start()
        return server

    yield make
    for server in made:
        if server.process is not None:
            server.kill()
        assert "Traceback" not in server.log.read_text(), server.log.read_text()


def url(bridge: Bridge) -> str:
    return f"ws://127.0.0.1:{bridge.port}/"


class Hearing:
    """Reads all of a client's frames, and says Yes to what is asked."""

    def __init__(self, client: CinClient) -> None:
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
            if frame["type"] == "cin:permission_prompt":
                asked = data_of(frame)
                self.client.answer(asked["sessionId"], 1, asked["decisionId"])

    def events(self, session: str) -> list[Message]:
        """What came of that session."""
        told = [data_of(frame) for frame in self.frames if frame["type"] == "event"]
        return [event for event in told if event["sessionId"] == session]

    async def until(self, session: str, **fields: Any) -> Message:
        """Wait for an event of that session with these fields."""

        def found() -> Message | None:
            events = self.events(session)
            return next((one for one in events if fields.items() <= one.items()), None)

        event = await eventually(found, f"an event with {fields} among {self.events(session)}")
        assert event is not None
        return event


async def scripted(bridge: Bridge) -> str:
    """A new session whose agent does what its prompts say."""
    made = await bridge.asked("POST", "/sessions", {"kind": "scripted", "cwd": str(bridge.folder)})
    return str(made["session"])


async def prompt(bridge: Bridge, session: str, *steps: str) -> None:
    await bridge.asked("POST", f"/sessions/{session}/prompts", {"text": "\n".join(steps), "when_busy": "queue"})


async def test_a_turn_is_told_and_what_it_asks_is_answered(bridge: Bridge) -> None:
    async with CinClient(url(bridge), options=QUICK) as client, Hearing(client) as hearing:
        session = await scripted(bridge)
        await prompt(bridge, session, 'tool Bash {"command": "ls"}', "permit rm -rf build", "say all done")
        stop = await hearing.until(session, type="stop")
        assert "all done" in stop["response"]
        assert [event["type"] for event in hearing.events(session)] == [
            "user_prompt_submit",
            "pre_tool_use",
            "post_tool_use",
            "stop",
        ]
        assert client.sessions[session]["status"] == "waiting"
        assert await client.history(10, session) == hearing.events(session)
        assert (await client.history(1, session))[0]["type"] == "stop"
        assert 0 <= await client.ping() < 20
        statuses = [
            data_of(frame)["status"]
            for frame in hearing.frames
            if frame["type"] == "session:status" and data_of(frame)["id"] == session
        ]
        assert statuses == ["working", "waiting", "working", "waiting"]
        async with CinClient(url(bridge), options=QUICK) as later:
            assert later.sessions[session] == client.sessions[session]


async def test_an_agent_that_somebody_started_elsewhere_is_heard_and_found_again(
    bridge: Bridge, tmp_path: Path
) -> None:
    """By its hooks; and its history, as in the second example of the manual, by its own id."""
    agent = "6f0c2d52-6d9f-4b53-9c3e-0f4e8c1b7a10"

    async def post(name: str, **fields: Any) -> None:
        hook = {"session_id": agent, "cwd": str(bridge.folder), "hook_event_name": name, **fields}
        assert (await bridge.request("POST", "/event", hook)).status == 200

    call = {"tool_name": "Bash", "tool_input": {"command": "npm test"}, "tool_use_id": "toolu_1"}
    async with CinClient(url(bridge), options=QUICK) as client, Hearing(client) as hearing:
        await post("SessionStart", source="startup")
        found = await eventually(
            lambda: [name for name, one in client.sessions.items() if one.get("agentSessionId") == agent], "the session"
        )
        (session,) = found
        assert client.sessions[session]["type"] == "external"
        await post("UserPromptSubmit", prompt="make the tests pass")
        await post("PreToolUse", **call)
        await hearing.until(session, type="pre_tool_use", tool="Bash")
        assert client.sessions[session]["currentTool"] == "Bash"
        await post("PostToolUse", **call, tool_response={"stdout": "12 passing"})
        await post("Stop", stop_hook_active=False, last_assistant_message="All twelve pass.")
        await hearing.until(session, type="stop", response="All twelve pass.")
        assert client.sessions[session]["status"] == "waiting"
        assert await client.history(session=agent) == hearing.events(session)
        await post("SessionEnd", reason="logout")
        await hearing.until(session, type="session_end", reason="logout")
        assert client.sessions[session]["status"] == "offline"
    example = tmp_path / "past.py"
    example.write_text(_examples()[1].replace("ws://127.0.0.1:7337/cin/ws", url(bridge)))
    made = await asyncio.to_thread(
        subprocess.run, [sys.executable, str(example)], capture_output=True, text=True, timeout=20, check=False
    )
    assert made.stderr == ""
    said = [line.split() for line in made.stdout.splitlines()]
    assert [words[:2] for words in said[:4]] == [
        ["claude", "pre_tool_use"],
        ["claude", "post_tool_use"],
        ["claude", "stop"],
        ["claude", "session_end"],
    ]
    assert said[4][:2] == ["there", "in"]


def _examples() -> list[str]:
    manual = (Path(__file__).parents[2] / "docs" / "client-cin.md").read_text()
    return [text.partition("```")[0] for text in manual.split("```python\n")[1:]]


async def test_a_subscription_leaves_the_rest_out(bridge: Bridge) -> None:
    async with CinClient(url(bridge), options=QUICK) as client, Hearing(client) as hearing:
        one, other = await scripted(bridge), await scripted(bridge)
        client.subscribe([one], ["stop"])
        await client.ping()
        await prompt(bridge, other, "say unheard")
        await prompt(bridge, one, "say heard")
        await hearing.until(one, type="stop", response="heard")
        client.subscribe()
        await client.ping()
        await prompt(bridge, other, "say heard again")
        await hearing.until(other, type="stop", response="heard again")
        assert [event["type"] for event in hearing.events(one)] == ["stop"]
        assert [event["type"] for event in hearing.events(other)] == ["user_prompt_submit", "stop"]


async def test_a_message_of_an_extension_reaches_the_others(bridge: Bridge) -> None:
    async with (
        CinClient(url(bridge), options=QUICK) as client,
        CinClient(url(bridge), options=QUICK) as other,
        Hearing(other) as hearing,
    ):
        client.send("harness:test_started", {"test": 7})
        await eventually(lambda: any(frame["type"] == "harness:test_started" for frame in hearing.frames), "the relay")
        (frame,) = [frame for frame in hearing.frames if frame["type"] == "harness:test_started"]
        assert data_of(frame) == {"test": 7}


async def test_the_first_example_of_the_manual_runs(bridge: Bridge, tmp_path: Path) -> None:
    example = tmp_path / "watch.py"
    example.write_text(_examples()[0])
    watching = await asyncio.create_subprocess_exec(
        sys.executable, str(example), url(bridge), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert watching.stdout is not None
    assert watching.stdin is not None
    assert watching.stderr is not None
    try:
        async with asyncio.timeout(20):
            first = (await watching.stdout.readline()).decode()
            assert first.endswith("sessions\n"), first + (await watching.stderr.read()).decode()
            session = await scripted(bridge)
            await prompt(bridge, session, 'tool Bash {"command": "ls"}', "permit rm -rf build", "say all done")
            watching.stdin.write(b"1\n")
            lines: list[str] = []
            while not lines or "work stop" not in lines[-1]:
                lines.append((await watching.stdout.readline()).decode())
                assert lines[-1], (await watching.stderr.read()).decode()
    finally:
        watching.kill()
        await watching.wait()
    said = "".join(lines)
    assert "work pre_tool_use Bash\n" in said
    assert "rm -rf build" in said
    assert lines[-1].rstrip().endswith("all done")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_cuts_at_any_byte_lose_nothing_and_repeat_nothing(bridge: Bridge, seed: int) -> None:
    """It hands over the very events, in the very order, that a client hears whose connection holds."""
    cuts = 25
    async with (
        Chopper(bridge.port, seed=seed, most=20_000) as chopper,
        CinClient(chopper.url, options=QUICK) as client,
        CinClient(url(bridge), options=QUICK) as twin,
        Hearing(client) as hearing,
        Hearing(twin) as witness,
    ):
        session, turns = await scripted(bridge), 0
        chopper.cuts_left = cuts
        chopper.cut()
        async with asyncio.timeout(120):
            while chopper.cuts < cuts:
                turns += 1
                steps = [f'tool Bash {{"command": "step {turns}-{step}"}}' for step in range(10)]
                await prompt(bridge, session, *steps, f"say turn {turns}")
                await witness.until(session, response=f"turn {turns}")
            await hearing.until(session, response=f"turn {turns}")
        assert hearing.events(session) == witness.events(session)
        assert client.gaps == twin.gaps == 0
        assert client.connections > 2
        assert problems(witness.frames, legacy=any(frame["type"] == "connected" for frame in witness.frames)) == []


async def test_a_server_that_is_lost_is_come_back_to(make_bridge: MakeBridge) -> None:
    bridge = await make_bridge()
    async with (
        Chopper(bridge.port) as chopper,
        CinClient(chopper.url, options=QUICK) as client,
        Hearing(client) as hearing,
    ):
        session = await scripted(bridge)
        await prompt(bridge, session, 'tool Bash {"command": "ls"}', "say before")
        await hearing.until(session, type="stop", response="before")
        chopper.target = 1  # nobody listens there
        chopper.cut()
        await eventually(lambda: not client.connected, "the cut")
        await prompt(bridge, session, "say meanwhile")
        bridge.kill()
        await bridge.start()
        await prompt(bridge, session, "say after")
        chopper.target = bridge.port
        await hearing.until(session, type="stop", response="after")
        told = hearing.events(session)
        assert len({event["id"] for event in told}) == len(told)
        assert told == await client.history(100, session)
        assert not [frame for frame in hearing.frames if frame["type"] == GAP]


async def test_who_is_refused_hears_why(make_bridge: MakeBridge) -> None:
    secret = "s3cret-s3cret-s3cret"
    bridge = await make_bridge(DRAGOMAN_TOKEN=secret)
    for token in (None, "another"):
        with pytest.raises(Denied) as denied:
            await CinClient(url(bridge), token=token, options=QUICK).start()
        assert denied.value.status == 401
    async with CinClient(url(bridge), token=secret, options=QUICK) as client:
        assert client.sessions == {}
    with pytest.raises(Denied) as denied:
        await CinClient(url(bridge), token=secret, origin="http://evil.example", options=QUICK).start()
    assert denied.value.status == 403
    async with CinClient(url(bridge), token=secret, origin="http://localhost:4003", options=QUICK):
        pass
