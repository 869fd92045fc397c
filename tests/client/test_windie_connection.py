"""How a Windie client connects, is refused, and comes back."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from websockets.asyncio.server import serve

from dragoman.client.windie import (
    RECONNECTED,
    AgentSdkClient,
    ConnectionLost,
    Denied,
    ReconnectFailed,
    Tool,
    WindieOptions,
)
from tests.client import few_lines
from tests.client.cin_bridge import Clock
from tests.client.windie_fake import QUICK, Message, Served, awake


async def test_the_handshake_says_only_what_the_protocol_has() -> None:
    said: list[Message] = []

    async def talk(served: Served) -> None:
        assert served.socket.request is not None
        assert served.socket.request.headers["Authorization"] == "Bearer wnd_install_x"
        said.append(await served.begin())

    agent = {
        "system_prompt": "You are a concise coding agent.",
        "workspace_path": "/p",
        "operating_system": "Linux",
        "disabled_capabilities": ["ocr"],
        "coordinate_methods": ("manual",),
    }
    async with awake(talk, client={"install_token": "wnd_install_x"}, **agent):
        pass
    assert said == [
        {
            "type": "handshake",
            "user_id": "dev-user",
            "agent_definition": {
                "version": 1,
                "system_prompt": {"mode": "replace", "content": "You are a concise coding agent."},
                "tools": {"disabled_capabilities": ["ocr"]},
                "runtime": {"operating_system": "Linux", "workspace_path": "/p", "coordinate_methods": ["manual"]},
            },
        }
    ]


async def test_a_handshake_that_is_refused_is_final() -> None:
    connections: list[int] = []

    async def talk(served: Served) -> None:
        connections.append(served.number)
        await served.hear("handshake")
        await served.socket.close(1008)

    with pytest.raises(Denied) as caught:
        async with awake(talk):
            pass
    assert caught.value.close_code == 1008
    assert connections == [1]


async def test_a_1008_later_is_final_for_whoever_waits() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        await served.turn()
        await served.hear("list-models")
        await served.socket.close(1008)

    async with awake(talk) as agent, asyncio.timeout(10):
        turn = agent.turn(await agent.query("go", "conv"))
        with pytest.raises(Denied):
            await agent.list_models()
        with pytest.raises(Denied):
            await turn.result()
        with pytest.raises(Denied):
            await agent.query("again", "conv")


async def test_a_cut_ends_the_turn_and_the_next_connection_takes_the_next_query() -> None:
    async def talk(served: Served) -> None:
        handshake = await served.begin()
        assert handshake["user_id"] == "dev-user"
        turn = await served.turn()
        await turn.tell("streaming-response", text=str(served.number))
        if served.number == 1:
            await served.cut()
        else:
            await turn.end("second")

    back = asyncio.Event()
    async with awake(talk) as agent, asyncio.timeout(10):
        agent.on(RECONNECTED, lambda frame: back.set())
        with pytest.raises(ConnectionLost, match="before the turn's end"):
            await agent.ask("go", "conv")
        assert await agent.ask("go", "conv") == "second"
        assert back.is_set()
        assert agent.connections == 2


async def test_what_only_reads_is_asked_again_after_a_cut_and_a_query_waits_for_the_next_connection() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        request = await served.hear("list-models")
        if served.number == 1:
            await served.cut()
        else:
            await served.reply(request, "models-listed", online=[])
            await (await served.turn()).end("later")

    clock = Clock()
    async with awake(talk, client={"sleep": clock.sleep}) as agent, asyncio.timeout(10):
        models = asyncio.ensure_future(agent.list_models())
        while not clock.asked:
            await asyncio.sleep(0)
        turn = agent.turn(await agent.query("go", "conv"))
        await clock.ring()
        assert await models == {"online": []}
        assert await turn.result() == "later"


async def test_a_cut_stops_the_tools_that_run_for_it() -> None:
    stopped, running = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        if served.number == 1:
            await turn.tell("tool-call", tool_name="hang", parameters={}, request_id="req-1")
            await running.wait()
            await served.cut()
        else:  # whose query comes first: no result of the other connection's call
            await turn.end("done")

    async with awake(talk, tools=[Tool(name="hang", handler=hang)]) as agent, asyncio.timeout(10):
        with pytest.raises(ConnectionLost):
            await agent.ask("go", "conv")
        await stopped.wait()
        assert await agent.ask("go", "conv") == "done"


async def test_five_attempts_with_doubled_pauses_and_then_whoever_waits_is_told() -> None:
    """The server goes away for good, with the turn and the questions of a client that stays."""
    clock = Clock(by_itself=True)
    gone = asyncio.Event()

    async def talk(served: Served) -> None:
        await served.begin()
        await served.hear("list-models")
        gone.set()
        await served.cut()

    async with contextlib.AsyncExitStack() as server:
        url = await server.enter_async_context(few_lines.serving(talk, Served))
        sdk = AgentSdkClient(url, "dev-user", options=WindieOptions(), sleep=clock.sleep)
        agent = await server.enter_async_context(await sdk.wake_up())
        models = asyncio.ensure_future(agent.list_models())
        async with asyncio.timeout(10):
            await gone.wait()
            agent._url = "ws://127.0.0.1:1/ws"  # where nobody listens
            with pytest.raises(ReconnectFailed) as caught:
                await models
        assert caught.value.attempts == 5
        with pytest.raises(ReconnectFailed):
            await agent.query("go", "conv")
    assert len(clock.asked) == 5
    for pause, longest in zip(clock.asked, (1, 2, 4, 8, 16), strict=True):
        assert longest / 2 <= pause <= longest


async def test_a_server_that_is_not_there_is_said_after_as_many_attempts() -> None:
    async with serve(lambda socket: socket.close(), "127.0.0.1", 0) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
    clock = Clock(by_itself=True)
    sdk = AgentSdkClient(f"http://127.0.0.1:{port}", "dev-user", options=QUICK, sleep=clock.sleep)
    with pytest.raises(ReconnectFailed):
        await sdk.wake_up()
    assert len(clock.asked) == 5


async def test_attempts_begin_anew_after_a_connection_that_was_good() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        if served.number < 5:
            await served.cut()
        else:
            await (await served.turn()).end("still here")

    few = replace(QUICK, attempts=1)
    async with awake(talk, client={"options": few}) as agent, asyncio.timeout(10):
        while agent.connections < 5:
            await asyncio.sleep(0)
        assert await agent.ask("go", "conv") == "still here"


async def test_a_server_that_answers_no_ping_is_left() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        if served.number == 1:
            served.socket.transport.pause_reading()
        else:
            await (await served.turn()).end("here")

    quick = replace(QUICK, ping_every=0.01, pong_limit=0.5)
    async with awake(talk, client={"options": quick}) as agent, asyncio.timeout(10):
        while agent.connections < 2:
            await asyncio.sleep(0.001)
        assert await agent.ask("go", "conv") == "here"


async def test_an_agent_needs_a_user() -> None:
    with pytest.raises(ValueError, match="default_user_id"):
        await AgentSdkClient("http://127.0.0.1:1").wake_up()


async def test_a_stop_that_a_cut_left_without_an_answer_does_not_go_out_again() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        if served.number == 1:
            await served.hear("stop-query")
            await served.cut()
        else:  # whose query comes first: no stop, which could be to a turn that began since
            await (await served.turn()).end("done")

    async with awake(talk) as agent, asyncio.timeout(10):
        with pytest.raises(ConnectionLost, match="before the answer"):
            await agent.stop()
        assert await agent.ask("go", "conv") == "done"
