"""Turns over a real socket: their identity and order, failures, stops, several at once."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.agents.native.model_server.script import Answer, Broken, Failure, Gate, Say, Think, Usage, say
from tests.dialects.windie.judges.sequence import faults

from .rig import SAVE_NOTE, House, Link, definition, note, scripted


async def test_a_turn_from_its_acceptance_to_its_response(house: House) -> None:
    text = house.script("thinks", Answer((Think(("Hm.",)), Say(("Hello ", "world")))))
    async with house.link() as link:
        turn = await link.ask(text)
        told = await link.over(turn)
    assert (told.outcome, told.answer, told.text) == ("completed", "Hello world", "Hello world")
    assert [kind for kind in link.kinds(turn) if kind != "llm-thought"] == [
        *("query-accepted", "system-prompt", "user-message-full", "tool-schemas"),
        *("streaming-response", "streaming-response", "assistant-message-full", "token-count", "streaming-complete"),
    ]
    for number, event in enumerate(link.events(turn), 1):
        assert (event["id"], event["turn_ref"], event["conversation_ref"]) == (turn, turn, "conv")
        assert (event["sequence"], event["user_id"]) == (number, "user")
    assert link.client.dropped == []
    link.judge()


async def test_event_ids_are_of_their_own(house: House) -> None:
    """Bugs 4 and 5: a turn's id was an event's, and events did not say their conversation."""
    async with house.link() as link:
        turns = [await link.ask("hello", f"c{number % 2}") for number in range(4)]
        for turn in turns:
            await link.over(turn)
    events = [event for turn in turns for event in link.events(turn)]
    names = [event["event_id"] for event in events]
    assert len(set(names)) == len(names)
    assert not set(names) & set(turns)
    assert all(event["conversation_ref"] in ("c0", "c1") for event in events)
    link.judge()


async def test_prompt_and_tools_are_told_once_and_the_message_each_time(house: House) -> None:
    async with house.link() as link:
        first = await link.ask("hello")
        await link.over(first)
        second = await link.ask("hello again")
        await link.over(second)
    assert "system-prompt" in link.kinds(first)
    assert not {"system-prompt", "tool-schemas"} & set(link.kinds(second))
    assert "user-message-full" in link.kinds(second)
    link.judge()


async def test_the_model_is_told_what_the_client_made_of_the_query(house: House) -> None:
    """And where it made nothing of it, what the contract says."""
    content = "<episodic_memory>\nA day\n</episodic_memory>\n\n<user_query>\nhello\n</user_query>"
    async with house.link() as link:
        await link.over(await link.ask("hello", content=content))
        bare = link.client.ask("1 < 2", "other", "turn-bare")
        del bare["payload"]["content"]
        await link.say(bare)
        await link.over("turn-bare")
    made, built = (heard.newest_text for heard in house.asked())
    assert content in made
    assert "<user_query>\n1 &lt; 2\n</user_query>" in built
    assert "<episodic_memory>\nNone\n</episodic_memory>" in built


async def test_a_system_prompt_that_replaces_is_the_one_that_is_told(house: House) -> None:
    prompt = {"mode": "replace", "content": "You are a duck."}
    async with house.link(agent=definition(system_prompt=prompt)) as link:
        turn = await link.ask("hello")
        await link.over(turn)
    assert "You are a duck." in (await link.first("system-prompt", turn))["payload"]["content"]
    assert "You are a duck." in house.asked()[0].system


@pytest.mark.parametrize("last", [Failure("invalid", "no such thing"), Answer((Say(("Hel",)),), broken=Broken("oh"))])
async def test_a_model_that_fails_ends_the_turn_with_one_error(house: House, last: Any) -> None:
    text = house.script("fails", last)
    async with house.link() as link:
        turn = await link.ask(text)
        told = await link.over(turn)
        assert told.outcome == "failed"
        assert link.kinds(turn)[-1] == "error"
        again = await link.ask("hello")
        assert (await link.over(again)).outcome == "completed"
    link.judge()


async def test_a_model_that_says_nothing_has_a_sentence(house: House) -> None:
    text = house.script("silent", Answer(()))
    async with house.link() as link:
        turn = await link.ask(text)
        told = await link.over(turn)
    assert told.outcome == "completed"
    assert told.answer.strip()
    link.judge()


async def test_two_quick_queries_of_one_conversation_come_one_after_the_other(house: House) -> None:
    """Bug 6: events of a turn that was replaced took over the new one."""
    async with house.link() as link:
        first = await link.ask("[[script:long]]")
        second = await link.ask("hello")
        await house.gate("long")
        assert link.events(second) == []
        house.open("long")
        assert (await link.over(first)).text == "Long story"
        assert (await link.over(second)).text == "Hello world"
    order = [event["turn_ref"] for event in link.heard if "sequence" in event]
    assert order == sorted(order, key=[first, second].index)
    link.judge()


async def test_conversations_run_beside_each_other(house: House) -> None:
    async with house.link() as link:
        waits = await link.ask("[[script:long]]", "slow")
        await house.gate("long")
        quick = await link.ask("hello", "quick")
        assert (await link.over(quick)).outcome == "completed"
        assert link.client.turns[waits].state == "open"
        house.open("long")
        assert (await link.over(waits)).text == "Long story"
    link.judge()


async def test_the_tokens_of_turns_beside_each_other_are_their_own(house: House) -> None:
    """Bug 30: streams that overlapped shared their counters."""
    names = [f"counts{number}" for number in range(4)]
    async with house.link() as link:
        turns = {}
        for number, name in enumerate(names, 1):
            usage = Usage(100 * number, 10 * number)
            text = house.script(name, Answer((Say(("a", Gate("all"), "b")),), usage=usage))
            turns[number] = await link.ask(text, name)
        await asyncio.gather(*(link.first("streaming-response", turn) for turn in turns.values()))
        house.open("all")
        for number, turn in turns.items():
            await link.over(turn)
            counted = link.of("token-count", turn)[0]["payload"]
            assert (counted["prompt_tokens"], counted["output_tokens_total"]) == (100 * number, 10 * number)
            assert (counted["total_tokens"], counted["usage_source"]) == (110 * number, "provider")
    link.judge()


# Stops


async def test_a_stop_is_acknowledged_and_nothing_more_is_told_of_the_turn(house: House) -> None:
    """Bugs 1 to 3: a stop made an end of its own, without identity, and late chunks revived the turn."""
    async with house.link() as link:
        other = await link.ask("[[script:long]]", "other")
        turn = await link.ask(house.script("tale", Answer((Say(("Once ", Gate("tale"), "upon")),))))
        await house.gate("tale")
        await house.gate("long")
        await link.first("streaming-response", turn)
        ack = await link.stop("conv", turn)
        assert (ack["type"], ack["payload"]) == (
            "stop-query-ack",
            {"status": "stopped", "canceled": True, "conversation_ref": "conv", "turn_ref": turn},
        )
        place = len(link.heard)
        house.open("tale")
        house.open("long")
        assert (await link.over(other)).text == "Long story"
        again = await link.ask("hello")
        assert (await link.over(again)).outcome == "completed"
        assert [frame for frame in link.heard[place:] if frame.get("turn_ref") == turn] == []
        assert "streaming-complete" not in link.kinds(turn)
        assert link.client.turns[turn].outcome == "stopped"
    link.judge()


async def test_nothing_runs_nothing_stops(house: House) -> None:
    async with house.link() as link:
        turn = await link.ask("hello")
        await link.over(turn)
        for conversation, ref in (("conv", None), (None, None), ("conv", turn), ("nowhere", "turn-of-nobody")):
            ack = await link.stop(conversation, ref)
            expected = {"status": "not-running", "canceled": False, "conversation_ref": conversation, "turn_ref": ref}
            assert ack["payload"] == expected
    link.judge()


async def test_a_stop_of_a_conversation_takes_what_waits_there_as_well(house: House) -> None:
    async with house.link() as link:
        runs = await link.ask("[[script:long]]")
        waits = [await link.ask("hello"), await link.ask("hello")]
        other = await link.ask("[[script:quiet]]", "other")
        await house.gate("long")
        ack = await link.stop("conv")
        assert ack["payload"]["canceled"] is True
        assert [link.client.turns[turn].state for turn in (runs, *waits)] == ["stopped"] * 3
        house.open("quiet")
        assert (await link.over(other)).outcome == "completed"
        for turn in waits:
            assert link.events(turn) == []
    link.judge()


async def test_a_stop_without_a_scope_takes_all(house: House) -> None:
    async with house.link() as link:
        turns = [await link.ask("[[script:long]]", f"c{number}") for number in range(3)]
        for turn in turns:
            await link.first("streaming-response", turn)
        assert (await link.stop())["payload"]["canceled"] is True
        assert [link.client.turns[turn].state for turn in turns] == ["stopped"] * 3
    link.judge()


async def test_a_stop_of_one_turn_leaves_the_one_that_waits(house: House) -> None:
    async with house.link() as link:
        runs, waits = await link.ask("[[script:long]]"), await link.ask("hello")
        await house.gate("long")
        await link.stop("conv", runs)
        assert (await link.over(waits)).outcome == "completed"
    link.judge()


async def test_a_query_and_its_stop_in_one_breath(house: House) -> None:
    """Wherever the stop finds it, there is one acknowledgement, and a turn that was stopped says no more."""
    async with house.link() as link:
        for number in range(10):
            await link.ask("[[script:long]]", f"c{number % 3}", f"turn-{number}")
            ack = await link.stop(f"c{number % 3}", f"turn-{number}")
            assert ack["payload"]["canceled"] is True, number
        house.open("long")
        await link.over(await link.ask("hello", "c0"))
    link.judge()


async def test_a_stop_in_the_midst_of_a_tool(house: House) -> None:
    async with house.link() as link:
        link.runs = False
        turn = await link.ask(scripted("tool"))
        await link.first("tool-call", turn)
        assert (await link.stop("conv"))["payload"]["canceled"] is True
        await link.release()  # a result that comes too late is nobody's
        again = await link.ask("hello")
        assert (await link.over(again)).outcome == "completed"
        assert link.of("error") == []
    link.judge()


async def test_another_users_turn_is_not_stopped(house: House) -> None:
    async with house.link("me") as link, house.link("you") as other:
        turn = await link.ask("[[script:long]]")
        await house.gate("long")
        assert (await other.stop("conv", turn))["payload"]["canceled"] is False
        assert (await other.stop())["payload"]["canceled"] is False
        house.open("long")
        assert (await link.over(turn)).text == "Long story"
        assert other.of("streaming-response") == []
    link.judge()
    other.judge()


async def test_no_event_of_a_turn_that_was_in_reach_of_a_stop_comes_after_its_acknowledgement(house: House) -> None:
    """The client is behind: a turn has ended, and it has not heard so; it stops what runs in the conversation."""
    text = house.script("flood", Answer((Say(tuple("x" * 100_000 for _ in range(70))),)))
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect(("127.0.0.1", house.server.port))
    wire.setblocking(False)
    async with connect(house.socket, sock=wire, max_size=None, compression=None, proxy=None, max_queue=4) as slow:
        link = Link(slow, "user", house)
        await link.greet()
        await link.ask(text, "other", "t0")
        await house.at_rest()
        await link.ask("hello", ident="t1")
        await link.ask(scripted("quiet"), ident="t2")
        await house.gate("quiet")
        stop = {"id": "stop-1", "type": "stop-query", "payload": {"conversation_ref": "conv", "turn_ref": None}}
        link.client.stopping(stop)
        await link.say(stop)
        async with link.reading():
            await link.reply("stop-1")
            await link.over("t0")
            await link.over(await link.ask("hello"))
    assert faults(link.lines) == []


# Limits and repeats


async def test_no_more_than_so_many_messages_are_worked_on_at_once(house: House) -> None:
    """The contract's 50; a stop and a tool's result are always taken."""
    async with house.link() as link:
        turns = [await link.ask("[[script:long]]", f"c{number}") for number in range(50)]
        await link.first("streaming-response", turns[0])
        refused = await link.ask("hello", "one-more")
        error = await link.reply(refused)
        assert (error["type"], error["payload"]["message"]) == (
            "error",
            "Too many concurrent requests. Please wait.",
        )
        assert (await link.stop("c0"))["payload"]["canceled"] is True
        assert (await link.over(await link.ask("hello", "one-more"))).outcome == "completed"
        house.open("long")
        for turn in turns[1:]:
            assert (await link.over(turn)).outcome == "completed"
    link.judge()


async def test_results_are_taken_when_all_tasks_wait_for_them(make_house: Any) -> None:
    house = await make_house(windie={"tasks": 2})
    async with house.link() as link:
        link.runs = False
        turns = [await link.ask(scripted("tool"), f"c{number}") for number in range(2)]
        for turn in turns:
            await link.first("tool-call", turn)
        assert (await link.reply(await link.ask("hello", "more")))["type"] == "error"
        await link.until(lambda: len(link.held) == 2, "both calls")
        await link.release()
        for turn in turns:
            assert (await link.over(turn)).outcome == "completed"
    link.judge()


async def test_a_query_that_comes_twice_is_one_turn(house: House) -> None:
    async with house.link() as link:
        turn = await link.ask(scripted("long"))
        await house.gate("long")
        query = (
            link.lines[-1].frame
            if link.lines[-1].ours
            else next(line.frame for line in link.lines if line.ours and line.frame.get("id") == turn)
        )
        await link.socket.send(json.dumps(query))
        await link.barrier()
        house.open("long")
        assert (await link.over(turn)).outcome == "completed"
        await link.socket.send(json.dumps(query))
        await link.over(await link.ask("hello"))
        assert link.kinds(turn).count("streaming-complete") == 1
    assert sum("[[script:long]]" in heard.newest_text for heard in house.asked()) == 1
    link.judge()


# Definitions


def tools_told(link: Link, turn: str) -> list[str]:
    told = link.of("tool-schemas", turn)[-1]["payload"]["tool_schemas"]
    return [each["function"]["name"] for each in told]


async def test_an_empty_manifest_counts_only_beside_a_policy(house: House) -> None:
    """Bug 16: tools that were disabled stayed visible."""
    empty = {"version": 1, "tools": []}
    async with house.link() as link:
        first = await link.ask("hello")
        await link.over(first)
        assert "save_note" in tools_told(link, first)
        plain = {"version": 1, "tools": {"mode": "default_plus_client", "client_manifest": empty}}
        await link.over(await link.ask("hello", agent_definition=plain))
        assert "save_note" in [tool.name for tool in house.asked()[-1].tools]
        policy = {"version": 1, "tools": {"mode": "client_only", "client_manifest": empty}}
        third = await link.ask("hello", agent_definition=policy)
        await link.over(third)
        assert "save_note" not in tools_told(link, third)
        assert "save_note" not in [tool.name for tool in house.asked()[-1].tools]
    link.judge()


async def test_disabled_tools_are_hidden_from_the_next_turn_on(house: House) -> None:
    async with house.link() as link:
        await link.over(await link.ask("hello"))
        disabled = {"version": 1, "tools": {"mode": "default_plus_client", "disabled_tools": ["save_note"]}}
        turn = await link.ask("hello", agent_definition=disabled)
        await link.over(turn)
        assert "save_note" not in tools_told(link, turn)
        assert "save_note" not in [tool.name for tool in house.asked()[-1].tools]


@pytest.mark.parametrize("mode", ["default", "default_plus_client", "explicit", "client_only"])
async def test_no_mode_lets_a_client_have_tools_of_this_host(house: House, mode: str) -> None:
    """Bug 18, at large: what clients declare narrows, and never widens."""
    wishes = ["bash", "read", "write", "web_search", "mouse_control"]
    tools = {
        "mode": mode,
        "available_tools": wishes,
        "enabled_remote_tools": wishes,
        "client_manifest": {"version": 1, "tools": [SAVE_NOTE]},
    }
    runtime = {"coordinate_methods": ["manual", "ocr", "prediction"]}
    async with house.link(agent={"version": 1, "tools": tools, "runtime": runtime}) as link:
        turn = await link.ask("hello")
        await link.over(turn)
    assert not {tool.name for tool in house.asked()[0].tools} & {"bash", "read", "write", "edit", "webFetch"}
    link.judge()


@pytest.mark.parametrize("nested", [True, False])
async def test_schemas_are_taken_flat_and_nested(house: House, nested: bool) -> None:
    """Bug 17."""
    entry = {key: value for key, value in SAVE_NOTE.items() if key != "schema"}
    entry |= {"parameters" if nested else "model_schema": SAVE_NOTE["schema"]}
    async with house.link(agent=definition([entry])) as link:
        turn = await link.ask(scripted("tool"))
        assert (await link.over(turn)).calls == ["save_note"]
        (schema,) = [
            each["function"]
            for each in link.of("tool-schemas", turn)[0]["payload"]["tool_schemas"]
            if each["function"]["name"] == "save_note"
        ]
        assert schema["parameters"]["properties"] == {"text": {"type": "string"}}
    link.judge()


async def test_what_the_model_calls_though_it_was_not_offered_reaches_no_client(house: House) -> None:
    text = house.script("stray", Answer((note("x"),)), say("done"))
    async with house.link(agent=definition(None)) as link:
        turn = await link.ask(text)
        told = await link.over(turn)
        assert told.calls == []
    link.judge()
