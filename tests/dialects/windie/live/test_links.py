"""The way in: the handshake on a real socket, how it is refused, and how a link ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from dragoman.dialects.windie import client_manifest

from .rig import LIMIT, SAVE_NOTE, Closed, House, Link, MakeHouse, definition


async def closing(socket: ClientConnection) -> int:
    """The code with which the server ends it, whatever it says before."""
    async with asyncio.timeout(LIMIT):
        await socket.wait_closed()
    assert socket.close_code is not None
    return socket.close_code


async def test_a_handshake_is_answered_with_what_was_taken_and_what_there_is(house: House) -> None:
    wrong = [{**SAVE_NOTE, "name": "web_search"}, {"description": "nameless"}]
    async with house.link(agent=definition([SAVE_NOTE, *wrong])) as link:
        first, second = link.heard
    assert [first["type"], second["type"]] == ["client-tool-manifest", "remote-tool-catalog"]
    assert [tool["name"] for tool in first["payload"]["accepted"]] == ["save_note"]
    assert first["payload"]["rejected"] == [
        {"name": "web_search", "reason": "reserved backend tool names cannot be overridden"},
        {"name": "#2", "reason": "tool name is required"},
    ]
    assert [tool["name"] for tool in second["payload"]["remote_tools"]] == ["web_search"]
    link.judge()


async def test_without_a_manifest_only_the_catalog_is_said(house: House) -> None:
    async with house.link(agent=definition(None)) as link:
        assert [frame["type"] for frame in link.heard] == ["remote-tool-catalog"]
    link.judge()


REFUSED: dict[str, str | bytes] = {
    "bad JSON": "{",
    "no object": "[]",
    "binary": b'{"type":"handshake","user_id":"u"}',
    "another type": '{"type":"query","user_id":"u"}',
    "no user": '{"type":"handshake"}',
    "blank user": '{"type":"handshake","user_id":"  "}',
    "operating_system": '{"type":"handshake","user_id":"u","operating_system":"Linux"}',
    "available_tools": '{"type":"handshake","user_id":"u","available_tools":[]}',
    "client_tool_manifest": '{"type":"handshake","user_id":"u","client_tool_manifest":{}}',
    "a definition of version 2": '{"type":"handshake","user_id":"u","agent_definition":{"version":2}}',
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_handshake_that_is_none_closes_with_1008_and_no_frame(house: House, name: str) -> None:
    async with house.socketed() as socket:
        await socket.send(REFUSED[name])
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(LIMIT):
                await socket.recv()
        assert socket.close_code == 1008


async def test_who_says_nothing_is_let_go(make_house: MakeHouse) -> None:
    house = await make_house(windie={"handshake_seconds": 0.05})
    async with house.socketed() as socket:
        assert await closing(socket) == 1008


async def test_a_link_that_is_silent_for_too_long_is_let_go(make_house: MakeHouse) -> None:
    house = await make_house(windie={"receive_seconds": 0.3})
    async with house.link() as link:
        await link.barrier()
        closed = await link.ended()
    assert closed.code == 1008
    assert closed.reason
    link.judge()


async def test_a_link_that_waits_for_its_turn_hears_it_though_it_says_nothing(make_house: MakeHouse) -> None:
    """The limit is on what the client says; frames of the server do not count, and the close still comes in order."""
    house = await make_house(windie={"receive_seconds": 30.0})
    async with house.link() as link:
        turn = await link.ask("hello")
        assert (await link.over(turn)).outcome == "completed"
    link.judge()


async def test_a_large_handshake_is_taken_apart_in_a_thread(
    make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 400 kB holds up no other link: the loop goes on while it is decoded."""
    import threading

    where: list[bool] = []
    real = client_manifest.validate_manifest

    def seen(*given: Any, **named: Any) -> Any:
        where.append(threading.current_thread() is threading.main_thread())
        return real(*given, **named)

    for module in list(__import__("sys").modules.values()):
        if getattr(module, "validate_manifest", None) is real:
            monkeypatch.setattr(module, "validate_manifest", seen)
    house = await make_house()
    tools = [{**SAVE_NOTE, "name": f"tool_{number}", "description": "x" * 2000} for number in range(40)]
    schema = {"type": "object", "properties": {f"field_{number}": {"type": "string"} for number in range(150)}}
    async with house.link(agent=definition([{**tool, "schema": schema} for tool in tools])) as link:
        first = await link.first("client-tool-manifest")
        assert len(first["payload"]["accepted"]) == 40
    assert where == [False]
    link.judge()


async def test_frames_right_behind_the_handshake_are_worked_on_in_their_order(house: House) -> None:
    """Bug 32: they were refused until the handshake was complete."""
    async with house.socketed() as socket:
        link = Link(socket, "user", house)
        await link.greet()
        models = await link.tell("list-models")
        updated = await link.tell("update-settings", interaction_mode="chat")
        loaded = await link.tell("load-settings")
        turn = await link.ask("hello")
        async with link.reading():
            await link.over(turn)
            for ident, kind in ((models, "models-listed"), (updated, "settings-updated"), (loaded, "settings-loaded")):
                assert (await link.reply(ident))["type"] == kind
            assert (await link.reply(loaded))["payload"]["config"]["interaction_mode"] == "chat"
            assert [frame["type"] for frame in link.heard[:2]] == ["client-tool-manifest", "remote-tool-catalog"]
        link.judge()


REPLIES: dict[str, tuple[str, str]] = {
    "malformed JSON": ("{", "Malformed JSON"),
    "no object": ("[1]", "Invalid message format: root must be an object, got list"),
    "an unknown type": ('{"id":"m1","type":"dance","payload":{}}', "Invalid message format: "),
    "a query without text": ('{"id":"m1","type":"query","payload":{"conversation_ref":"c"}}', "query.payload.text"),
    "an unknown key of the payload": (
        '{"id":"m1","type":"query","payload":{"text":"x","conversation_ref":"c","colour":1}}',
        "query.payload.colour",
    ),
    "an unknown key of the envelope": ('{"id":"m1","type":"load-settings","payload":{},"colour":1}', "colour"),
    "a blank text": ('{"id":"m1","type":"query","payload":{"text":"  ","conversation_ref":"c"}}', ""),
    "a blank conversation": ('{"id":"m1","type":"query","payload":{"text":"x","conversation_ref":" "}}', ""),
}


@pytest.mark.parametrize("name", REPLIES)
async def test_a_message_that_is_none_is_answered_and_the_link_goes_on(house: House, name: str) -> None:
    raw, text = REPLIES[name]
    async with house.link() as link:
        await link.socket.send(raw)
        error = await link.first("error")
        assert text in error["payload"]["message"]
        assert error.get("id") in ("m1", None)
        if '"m1"' in raw:
            assert error["id"] == "m1"
        await link.over(await link.ask("hello"))


async def test_a_message_that_is_too_large_is_answered_and_the_link_goes_on(make_house: MakeHouse) -> None:
    """The transport lets through more than is allowed, so that there can be an answer."""
    house = await make_house(windie={"message_limit": 20_000})
    async with house.link() as link:
        ident = await link.tell("query", text="x" * 30_000, conversation_ref="c")
        sent = link.lines[-1].frame
        error = await link.first("error")
        size = len(json.dumps(sent).encode())
        assert error["payload"]["message"] == f"Message too large: {size} bytes (max: 20000 bytes)"
        assert error.get("id") in (None, ident)
        turn = await link.ask("hello")
        assert (await link.over(turn)).outcome == "completed"
        assert link.closed is None


async def test_binary_frames_do_not_end_a_link(house: House) -> None:
    async with house.link() as link:
        await link.socket.send(b"\x00\x01")
        await link.barrier()
        assert link.closed is None


async def test_another_user_id_in_an_envelope_changes_nothing(house: House) -> None:
    async with house.link("me") as link:
        turn = await link.ask("hello")
        link.lines[-1].frame["user_id"] = "somebody-else"
        await link.over(turn)
        assert {event["user_id"] for event in link.events(turn)} == {"me"}


# Tokens


async def test_without_a_token_where_one_is_needed_the_handshake_is_refused(make_house: MakeHouse) -> None:
    house = await make_house(installs={"auth": "on"})
    made = await house.register()
    for token in (None, "wnd_install_" + "x" * 43, made.token[:-1]):
        async with house.link(token=token) as link:
            assert (await link.ended()).code == 1008
        assert link.heard == []


async def test_the_token_says_who_it_is(make_house: MakeHouse) -> None:
    house = await make_house(installs={"auth": "on"})
    made = await house.register()
    async with house.link("somebody-else", token=made.token) as link:
        turn = await link.ask("hello")
        await link.over(turn)
        assert {event["user_id"] for event in link.events(turn)} == {made.install.user_id}
    link.judge()


async def test_an_install_that_is_revoked_loses_its_sockets(make_house: MakeHouse) -> None:
    house = await make_house(installs={"auth": "on"})
    made, other = await house.register(), await house.register()
    async with (
        house.link(token=made.token) as link,
        house.link(token=made.token) as second,
        house.link(token=other.token) as stays,
    ):
        turn = await link.ask("[[script:long]]")
        await house.gate("long")
        status, _ = await house.ask("DELETE", "/api/install/me", {"Authorization": f"Bearer {made.token}"})
        assert status == 200
        assert (await link.ended()).code == 1008
        assert (await second.ended()).code == 1008
        await stays.over(await stays.ask("hello"))
        assert link.client.turns[turn].state == "open"
        house.open("long")
    async with house.link(token=made.token) as again:
        assert (await again.ended()) == Closed(1008, again.closed.reason if again.closed else "")
