"""Sessions that are closed or deleted from elsewhere while clients of this dialect show them."""

from __future__ import annotations

import asyncio

import pytest

from .rig import ALICE, Onion, Talk, of, script

GONE = "the session is gone"


async def newest(served: Onion) -> str:
    """The hub's id of the session that was made last."""
    return str(max(await served.hub_sessions(), key=lambda row: row["created_at"])["session"])


async def end(served: Onion, session: str, how: str) -> None:
    if how == "deleted":
        await served.asked("DELETE", f"/sessions/{session}")
    else:
        await served.asked("POST", f"/sessions/{session}/close", {})


async def told(talk: Talk) -> list[str]:
    """The ERRORs about it; everything that was on its way has been heard."""
    await talk.next("ERROR", message=GONE)
    for _ in range(2):
        assert await talk.status() == "not_found"
    return [frame["message"] for frame in of(talk.frames, "ERROR")]


@pytest.mark.parametrize("how", ["closed", "deleted"])
async def test_every_link_is_told_once_that_its_session_is_gone_and_connects_to_a_new_one(
    served: Onion, how: str
) -> None:
    name = f"{how} while it is shown"
    async with served.client(name, key=ALICE) as one, served.client(name, key=ALICE) as two:
        for _ in range(2):  # on the same sockets again: they are told of each
            await one.turn(script("say hello"))
            session = await newest(served)
            for talk in (one, two):
                talk.frames.clear()
                talk.mark = 0
            await end(served, session, how)
            for talk in (one, two):
                talk.frames.append({"type": "CONNECTED", "session_id": name})
                assert await told(talk) == [GONE]
            one.input(script("say too late"))
            await one.next("ERROR")
            for talk in (one, two):
                talk.mark = len(talk.frames)
            connected = await asyncio.gather(*(talk.connect(name, key=ALICE) for talk in (one, two)))
            assert {frame["status"] for frame in connected} <= {"new", "connected"}
            assert not any(frame.get("server_newer") for frame in connected)


async def test_the_turn_of_a_session_that_is_closed_ends_with_an_error_and_no_output(served: Onion) -> None:
    async with served.client("closed at work", key=ALICE) as talk:
        talk.input(script("wait"))
        await talk.next("llm_call")
        await end(served, await newest(served), "closed")
        assert (await told(talk))[-1] == GONE
        assert not of(talk.frames, "OUTPUT")
