"""Our own client against our own server, over a real socket: all that an agent does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from dragoman.client.windie import (
    RECONNECTED,
    Agent,
    AgentSdkClient,
    ConnectionLost,
    Denied,
    Refused,
    TurnFailed,
    TurnStopped,
    WindieOptions,
)
from tests.agents.native.model_server.heard import Assistant, Result
from tests.agents.native.model_server.script import Failure
from tests.client.chopper import Chopper
from tests.dialects.hub.rig import eventually

from .rig import LIMIT, House, MakeHouse, scripted

QUICK = WindieOptions(first_retry=0.01, longest_retry=0.1, answer_limit=LIMIT, startup_limit=LIMIT, refusal_limit=0.3)

HELLO = scripted("hello")

TOOLS = [
    {
        "name": "save_note",
        "module": "tests.client.windie_tools:save_note",
        "schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }
]


def sdk(house: House, **more: str) -> AgentSdkClient:
    return AgentSdkClient(house.url, "dev-user", options=QUICK, **more)


@pytest.fixture
async def agent(house: House) -> AsyncIterator[Agent]:
    async with await sdk(house).wake_up(tools=TOOLS) as agent:
        yield agent


async def test_waking_up_says_which_tools_were_taken(agent: Agent) -> None:
    assert [tool["name"] for tool in agent.accepted] == ["save_note"]
    assert agent.rejected == []
    assert [tool["name"] for tool in agent.remote_tools] == ["web_search"]


async def test_ask(agent: Agent) -> None:
    assert await agent.ask(HELLO, "conv", limit=LIMIT) == "Hello world"


async def test_a_tool_of_this_process(house: House, agent: Agent) -> None:
    assert (await agent.ask(scripted("tool"), "conv", limit=LIMIT)).endswith("done")
    (result,) = [message for message in house.asked()[-1].messages if isinstance(message, Result)]
    assert result.text == "saved x"


async def test_a_bundle(house: House, agent: Agent) -> None:
    assert (await agent.ask(scripted("two"), "conv", limit=LIMIT)).endswith("done")
    texts = [message.text for message in house.asked()[-1].messages if isinstance(message, Result)]
    assert len(texts) == 2
    assert "saved a" in texts[0]
    assert "saved b" in texts[1]


async def test_a_turn_that_fails(house: House, agent: Agent) -> None:
    text = house.script("fails", Failure("invalid", "no such thing"))
    with pytest.raises(TurnFailed):
        await agent.ask(text, "conv", limit=LIMIT)
    assert await agent.ask(HELLO, "conv", limit=LIMIT) == "Hello world"


async def test_a_stop(house: House, agent: Agent) -> None:
    asking = asyncio.create_task(agent.ask(scripted("long"), "conv", limit=LIMIT))
    await house.gate("long")
    ack = await agent.stop("conv")
    assert (ack["status"], ack["canceled"]) == ("stopped", True)
    with pytest.raises(TurnStopped):
        await asking
    assert await agent.ask(HELLO, "conv", limit=LIMIT) == "Hello world"


async def test_settings(agent: Agent) -> None:
    assert await agent.update_settings(interaction_mode="chat", wakeword_enabled=True) == [
        "interaction_mode",
        "wakeword_enabled",
    ]
    config = (await agent.load_settings())["config"]
    assert (config["interaction_mode"], config["wakeword_enabled"]) == ("chat", True)
    with pytest.raises(Refused, match="Invalid settings"):
        await agent.update_settings(interaction_mode="dance")
    assert (await agent.load_settings())["config"] == config
    assert set(await agent.list_models()) == {"local", "online", "vision"}


async def test_a_key_that_was_set_is_never_told(house: House, agent: Agent) -> None:
    """Bug 21: settings were told with raw keys."""
    heard: list[str] = []
    agent.on("*", lambda frame: heard.append(repr(frame)))
    await agent.update_settings(provider_api_keys={"openai": {"enabled": True, "api_key": "sk-t0p-secret"}})
    config = (await agent.load_settings())["config"]
    assert config["provider_api_keys"]["openai"] == {"enabled": True, "api_key": ""}
    assert not [frame for frame in heard if "sk-t0p-secret" in frame]
    holders = [
        path.name
        for path in (house.folder / "data").rglob("*")
        if path.is_file() and b"sk-t0p-secret" in path.read_bytes() and "keys" not in str(path)
    ]
    assert holders == []


async def test_rehydrate(house: House, agent: Agent) -> None:
    history = [
        {"role": "user", "content": "My name is Ada.", "message_type": "user_query"},
        {"role": "assistant", "content": "Hello Ada.", "message_type": "assistant_response"},
    ]
    await agent.ask(scripted("hello", "forget this"), "conv", limit=LIMIT)
    await agent.rehydrate("conv", history)
    assert await agent.ask(HELLO, "conv", limit=LIMIT) == "Hello world"
    told = str(house.asked()[-1].messages)
    assert "My name is Ada." in told
    assert "Hello Ada." in told
    assert "forget this" not in told


async def test_calls_of_a_history_stay_with_their_results(house: House, agent: Agent) -> None:
    """Bug 15: a web search vanished from a history that was brought back; and a result without a call is nobody's."""
    call = {"id": "call_7", "type": "function", "function": {"name": "web_search", "arguments": '{"query": "cats"}'}}
    history = [
        {"role": "user", "content": "Find cats.", "message_type": "user_query"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {
            "role": "tool",
            "content": "A cat.",
            "message_type": "tool_output",
            "tool_name": "web_search",
            "tool_call_id": "call_7",
        },
        {
            "role": "tool",
            "content": "An orphan.",
            "message_type": "tool_output",
            "tool_name": "web_search",
            "tool_call_id": "call_8",
        },
        {"role": "assistant", "content": "There is one.", "message_type": "assistant_response"},
    ]
    await agent.rehydrate("conv", history)
    await agent.ask(HELLO, "conv", limit=LIMIT)
    messages = house.asked()[-1].messages
    (result,) = [message for message in messages if isinstance(message, Result)]
    (called,) = [called for message in messages if isinstance(message, Assistant) for called in message.calls]
    assert (result.text, called.id) == ("A cat.", result.id)
    assert "There is one." in str(messages)


async def test_a_history_that_is_none_is_refused_and_changes_nothing(house: House, agent: Agent) -> None:
    """Bugs 13 and 14."""
    await agent.ask(scripted("hello", "remember this"), "conv", limit=LIMIT)
    with pytest.raises(Refused, match="Invalid message format"):
        await agent.rehydrate("conv", [{"role": "user", "content": "new"}, {"role": "narrator", "content": "!"}])
    await agent.ask(HELLO, "conv", limit=LIMIT)
    told = str(house.asked()[-1].messages)
    assert "remember this" in told
    assert "new" not in told


async def test_reconnecting(house: House) -> None:
    """The cut ends the turn; the next connection is made by itself, and the conversation is what it was."""
    async with Chopper(house.server.port) as wire:
        client = AgentSdkClient(wire.url.replace("/hub", "/windie"), "dev-user", options=QUICK)
        async with await client.wake_up(tools=TOOLS) as agent:
            await agent.ask(scripted("hello", "remember this"), "conv", limit=LIMIT)
            again = asyncio.Event()
            agent.on(RECONNECTED, lambda _: again.set())
            asking = asyncio.create_task(agent.ask(scripted("long"), "conv", limit=LIMIT))
            await house.gate("long")
            wire.cut()
            with pytest.raises(ConnectionLost):
                await asking
            async with asyncio.timeout(LIMIT):
                await again.wait()
            house.open("long")
            assert await agent.ask(HELLO, "conv", limit=LIMIT) == "Hello world"
            assert (await agent.ask(scripted("tool"), "conv", limit=LIMIT)).endswith("done")
            assert "remember this" in str(house.asked()[-1].messages)


async def test_a_restart_of_the_server(house: House) -> None:
    """The same address, the same conversation; a history may be put in its place."""
    port = house.server.port
    async with await sdk(house).wake_up(tools=TOOLS) as agent:
        await agent.ask(scripted("hello", "remember this"), "conv", limit=LIMIT)
        await house.stop()
        house.at(port)
        await house.start()
        await eventually(lambda: agent.connected and agent.connections > 1, "another connection", LIMIT)
        assert (await agent.ask(scripted("tool"), "conv", limit=LIMIT)).endswith("done")
        assert "remember this" in str(house.asked()[-1].messages)
        await agent.rehydrate("conv", [{"role": "user", "content": "My name is Ada."}])
        await agent.ask(HELLO, "conv", limit=LIMIT)
        told = str(house.asked()[-1].messages)
        assert ("My name is Ada." in told, "remember this" in told) == (True, False)


async def test_an_install_registers_and_is_known(make_house: MakeHouse) -> None:
    house = await make_house(installs={"auth": "on"})
    client = sdk(house)
    with pytest.raises(Denied) as caught:
        await client.wake_up()
    assert caught.value.close_code == 1008
    made = await client.register("Linux")
    async with await client.wake_up(tools=TOOLS) as agent:
        assert await agent.ask(HELLO, "conv", limit=LIMIT) == "Hello world"
        event = {}
        agent.on("streaming-complete", event.update)
        await agent.ask(HELLO, "conv", limit=LIMIT)
        assert event["user_id"] == made["user_id"]


async def test_many_agents_at_once(house: House) -> None:
    async with (
        await sdk(house).wake_up(user_id="a", tools=TOOLS) as a,
        await sdk(house).wake_up(user_id="b", tools=TOOLS) as b,
    ):
        answers = await asyncio.gather(
            *(agent.ask(scripted("tool"), f"c{number}", limit=LIMIT) for agent in (a, b) for number in range(5))
        )
    assert all(answer.endswith("done") for answer in answers)
