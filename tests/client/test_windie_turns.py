"""A Windie client's turns: asked, followed, stopped, failed, and out of order."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.client.windie import (
    AgentSdkClient,
    ClientClosed,
    EventsMissed,
    OutOfSequence,
    Refused,
    TurnFailed,
    TurnStopped,
)
from tests.client import few_lines
from tests.client.windie_fake import QUICK, Played, Served, awake

RECORDED = Path(__file__).parents[2].parent / "shared" / "frames" / "windie" / "py.jsonl"


async def test_ask_returns_the_final_response() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        assert turn.query["payload"] == {
            "text": "1 < 2?",
            "conversation_ref": "conv",
            "content": "<user_query>\n1 &lt; 2?\n</user_query>",
        }
        await turn.tell("query-accepted", status="accepted")
        await turn.tell("streaming-response", text="Ye")
        await turn.tell("streaming-response", text="s")
        await turn.end("Yes")

    async with awake(talk) as agent:
        assert await agent.ask("1 < 2?", "conv", limit=10) == "Yes"


async def test_query_returns_the_id_by_which_the_turn_is_known() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        await turn.tell("streaming-response", text=turn.id)
        await turn.tell("streaming-complete")

    async with awake(talk) as agent:
        message_id = await agent.query(text="who?", conversation_ref="conv")
        turn = agent.turn(message_id)
        assert await turn.result(10) == message_id  # no final response: what was streamed is it
        assert turn.over


async def test_a_turn_gives_its_events_in_order_and_ends() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        await turn.tell("llm-thought", status="hm")
        await turn.tell("streaming-response", text="a")
        await turn.end("a")

    async with awake(talk) as agent:
        kinds = [event["type"] async for event in agent.stream("go", "conv")]
    assert kinds == ["llm-thought", "streaming-response", "assistant-message-full", "streaming-complete"]


async def test_turns_of_two_conversations_do_not_mix() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        one, two = await served.turn(), await served.turn()
        await two.tell("streaming-response", text="2")
        await one.tell("streaming-response", text="1")
        await two.end("2")
        await one.end("1")

    async with awake(talk) as agent, asyncio.timeout(10):
        answers = await asyncio.gather(agent.ask("first", "a"), agent.ask("second", "b"))
    assert answers == ["1", "2"]


async def test_an_error_of_the_server_ends_the_turn_with_its_words() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        await turn.tell("error", message="the model is gone")
        bare = await served.turn()
        await served.tell({"id": bare.id, "type": "error", "payload": {"message": "Too many concurrent requests."}})

    async with awake(talk) as agent:
        with pytest.raises(TurnFailed, match="the model is gone"):
            await agent.ask("go", "conv", limit=10)
        with pytest.raises(TurnFailed, match="Too many"):
            await agent.ask("go", "conv", limit=10)


async def test_a_gap_is_told_to_the_turn() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        await turn.tell("streaming-response", text="a")
        turn.event("streaming-response", text="lost")
        await turn.end("a")

    async with awake(talk) as agent:
        with pytest.raises(OutOfSequence) as caught:
            await agent.ask("go", "conv", limit=10)
    assert (caught.value.expected, caught.value.got) == (2, 3)


@pytest.mark.parametrize("missing", ["event_id", "sequence"])
async def test_an_event_that_does_not_say_its_number_ends_the_turn(missing: str) -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        event = turn.event("streaming-response", text="a")
        del event[missing]
        await served.tell(event)

    async with awake(talk) as agent:
        with pytest.raises(OutOfSequence, match="missing event_id or sequence"):
            await agent.ask("go", "conv", limit=10)


async def test_an_event_that_does_not_say_its_conversation_is_dropped_and_leaves_a_gap() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        event = turn.event("streaming-response", text="a")
        del event["conversation_ref"]
        await served.tell(event)
        await turn.end("a")

    async with awake(talk) as agent:
        turn = agent.turn(await agent.query("go", "conv"))
        with pytest.raises(OutOfSequence, match="has sequence 2 where 1 was due"):
            await turn.result(10)
        assert turn.text == ""


async def test_a_last_event_without_a_conversation_does_not_leave_the_turn_waiting() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        event = turn.event("streaming-complete", final_response="a")
        del event["conversation_ref"]
        await served.tell(event)

    async with awake(talk) as agent:
        with pytest.raises(OutOfSequence, match="conversation"):
            await agent.ask("go", "conv", limit=10)


async def test_an_event_that_comes_twice_counts_once() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        event = turn.event("streaming-response", text="a")
        await served.tell(event, event)
        await served.tell({"id": turn.id, "type": "audio-chunk", "payload": {"audio": "", "sample_rate": 22050}})
        await turn.tell("streaming-complete")

    async with awake(talk) as agent:
        assert await agent.ask("go", "conv", limit=10) == "a"


async def test_stop_ends_the_turn_and_nothing_of_it_is_heard_later() -> None:
    heard: list[str] = []

    async def talk(served: Served) -> None:
        await served.begin()
        stopped, other = await served.turn(), await served.turn()
        await stopped.tell("streaming-response", text="a")
        request = await served.hear("stop-query")
        assert request["payload"] == {"conversation_ref": "one"}
        await served.reply(request, "stop-query-ack", status="stopped", canceled=True, conversation_ref="one")
        await stopped.tell("streaming-response", text="late")
        await other.end("done")

    async with awake(talk) as agent, asyncio.timeout(10):
        agent.on("streaming-response", lambda frame: heard.append(frame["payload"]["text"]))
        one = agent.turn(await agent.query("go", "one"))
        two = agent.turn(await agent.query("go", "two"))
        async for _ in one:
            break
        assert (await agent.stop(conversation_ref="one"))["status"] == "stopped"
        with pytest.raises(TurnStopped):
            await one.result()
        assert await two.result() == "done"
    assert heard == ["a"]


async def test_events_that_nobody_reads_are_let_go_and_that_is_said() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        for text in "abcde":
            await turn.tell("streaming-response", text=text)
        await turn.tell("streaming-complete")

    few = type(QUICK)(event_backlog=3)
    async with awake(talk, client={"options": few}) as agent:
        turn = agent.turn(await agent.query("go", "conv"))
        assert await turn.result(10) == "abcde"
        with pytest.raises(EventsMissed) as caught:
            _ = [event async for event in turn]
        assert caught.value.count == 3
        assert [event["sequence"] async for event in turn] == [4, 5, 6]


async def test_settings_models_and_their_refusal() -> None:
    heard: list[dict[str, Any]] = []

    async def talk(served: Served) -> None:
        await served.begin()
        await served.reply(await served.hear("load-settings"), "settings-loaded", config={"model_mode": "online"})
        request = await served.hear("update-settings")
        assert request["payload"] == {"model_provider": "openai"}
        await served.reply(request, "settings-updated", updated_keys=["model_provider"])
        await served.reply(await served.hear("update-settings"), "error", message="Invalid settings: model_mode")
        await served.reply(await served.hear("list-models"), "models-listed", local=[], online=[], vision=[])

    async with awake(talk) as agent:
        assert await agent.load_settings() == {"config": {"model_mode": "online"}}
        assert await agent.update_settings(model_provider="openai") == ["model_provider"]
        with pytest.raises(Refused, match="Invalid settings"):
            await agent.update_settings(model_mode="sideways")
        agent.on("models-listed", heard.append)
        assert await agent.list_models() == {"local": [], "online": [], "vision": []}
    assert [frame["payload"]["local"] for frame in heard] == [[]]


async def test_rehydrate_is_silent_where_it_is_done_and_raises_where_it_is_refused() -> None:
    entry = {"role": "user", "content": "Earlier prompt", "message_type": "user_query"}

    async def talk(served: Served) -> None:
        await served.begin()
        request = await served.hear("rehydrate-conversation")
        assert request["payload"] == {"conversation_ref": "c", "messages": [entry], "rehydrate_mode": "replace"}
        await served.reply(await served.hear("rehydrate-conversation"), "error", message="messages.0.role: no")
        turn = await served.turn()
        await turn.end("after")

    async with awake(talk) as agent:
        await agent.rehydrate("c", [entry])
        with pytest.raises(Refused, match=r"messages\.0\.role"):
            await agent.rehydrate("c", [{"role": "nobody", "content": ""}])
        assert await agent.ask("go", "c", limit=10) == "after"


async def test_listeners_hear_what_comes_and_one_that_fails_hurts_nobody() -> None:
    heard: list[str] = []
    slow = asyncio.Event()

    async def talk(served: Served) -> None:
        await served.begin()
        turn = await served.turn()
        await turn.tell("streaming-response", text="a")
        await turn.tell("streaming-response", text="b")
        await turn.end("ab")

    def broken(frame: dict[str, Any]) -> None:
        raise ValueError(frame["type"])

    async def later(frame: dict[str, Any]) -> None:
        slow.set()

    async with awake(talk) as agent:
        agent.on("streaming-response", broken)
        agent.on("*", lambda frame: heard.append(frame["type"]))
        agent.on("streaming-complete", later)
        agent.on("streaming-complete", broken)()
        assert await agent.ask("go", "conv", limit=10) == "ab"
        async with asyncio.timeout(10):
            await slow.wait()
    assert heard[-4:] == ["streaming-response", "streaming-response", "assistant-message-full", "streaming-complete"]


async def test_close_ends_turns_that_run() -> None:
    async def talk(served: Served) -> None:
        await served.begin()
        await served.turn()

    async with awake(talk) as agent:
        turn = agent.turn(await agent.query("go", "conv"))
    with pytest.raises(ClientClosed):
        await turn.result(10)


async def test_the_recorded_turns_are_understood() -> None:
    """What a recorded server said, with the ids that this client gives its queries."""
    if not RECORDED.exists():
        pytest.skip(f"the recorded frames are not here: {RECORDED}")
    said = [line["frame"] for line in map(json.loads, RECORDED.read_text().splitlines()) if line["dir"] == "s2c"]
    turns: dict[str, list[dict[str, Any]]] = {}
    for frame in said:
        if "sequence" in frame:
            turns.setdefault(frame["turn_ref"], []).append(frame)
    results: list[dict[str, Any]] = []

    async def talk(served: Served) -> None:
        await served.begin()
        for frames in turns.values():
            query = Played(served, await served.hear("query"))
            for frame in frames:
                await served.tell({**frame, "id": query.id, "turn_ref": query.id})
                if frame["type"] in {"tool-call", "tool-bundle"}:
                    results.append(json.loads(await served.socket.recv())["payload"])

    note = {"name": "save_note", "handler": lambda text: "saved"}
    async with awake(talk, tools=[note]) as agent:
        answers = [await agent.ask("go", "convp", limit=10) for _ in turns]
    assert answers == ["Hello world", "Hello done", "Hello done"]
    assert results == [
        {"request_id": "req-1", "success": True, "data": {"output": "saved"}, "error": None},
        {
            "bundle_id": "bun-1",
            "status": "success",
            "step_results": [{"tool": "save_note", "status": "ok", "output": "saved"}] * 2,
            "error": None,
        },
    ]


async def test_a_server_that_says_nothing_first_is_taken_to_be_content() -> None:
    async def talk(served: Served) -> None:
        await served.hear("handshake")
        turn = await served.turn()
        await turn.end("here")

    quick = type(QUICK)(startup_limit=0.01)
    async with few_lines.serving(talk, Served) as url:
        sdk = AgentSdkClient(url, "dev-user", options=quick)
        async with await sdk.wake_up() as agent:
            assert await agent.ask("there?", "conv", limit=10) == "here"
