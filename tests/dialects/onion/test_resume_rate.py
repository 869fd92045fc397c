"""Bar W5 without its times, which ``python -m bench --only onion`` measures: nothing lost and nothing told twice at a
thousand events a second, and a short turn that weighs the same however old its session is."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from .conftest import MakeServer
from .rig import ALICE, Frame, Onion, Talk, events, of, script

DROPS = 20
HOLD, AWAY = 0.1, 0.05
"""Seconds of each connection, and between two."""

SCRIPTED = '\n[dialects.onion]\nkind = "scripted"\n'


def numbers(frames: list[Frame]) -> list[int]:
    """Of the deltas, in the order in which they came."""
    return [int(number) for frame in of(frames, "assistant_delta") for number in re.findall(r"\d+", frame["content"])]


@pytest.mark.slow
async def test_a_thousand_events_a_second_over_twenty_drops_come_once_and_in_order(make_server: MakeServer) -> None:
    served = await make_server(config=SCRIPTED)
    count = int(DROPS * (HOLD + AWAY + 0.05) * 1000)
    heard: list[Frame] = []
    async with served.client(key=ALICE) as first:
        session = first.session_id
        first.input(f"pace {count} 1")
        await first.next("assistant_delta")
        await asyncio.sleep(HOLD)
        await first.wire.reset()
        heard += events(first.frames)
    for _ in range(DROPS):
        await asyncio.sleep(AWAY)
        async with served.client(session, key=ALICE, last_msg_id=heard[-1]["id"]) as talk:
            assert talk.frames[0]["status"] == "running"
            await asyncio.sleep(HOLD)
            await talk.wire.reset()
            heard += events(talk.frames)
    async with served.client(session, key=ALICE, last_msg_id=heard[-1]["id"]) as talk:
        await talk.next("OUTPUT")
        heard += events(talk.frames)
    assert numbers(heard) == list(range(count))
    names = [frame["id"] for frame in heard]
    assert len(names) == len(set(names))


async def test_a_short_turn_weighs_the_same_at_turn_21(served: Onion) -> None:
    """The original sends the whole session again and again: 5 kB at turn 1, 79 kB at turn 21 (bar W1)."""
    async with served.client(key=ALICE) as talk:
        turns = [await talk.turn(script("deltas 10\nsay hello")) for _ in range(21)]
    first, last = (weight(turn) for turn in (turns[0], turns[-1]))
    assert last < 1.05 * first, (first, last)
    assert len(of(turns[-1], "assistant_delta")) == len(of(turns[0], "assistant_delta"))


def weight(frames: list[Frame]) -> int:
    """Bytes without what OUTPUT repeats by the protocol."""
    left = [{key: value for key, value in frame.items() if key not in ("session", "chat_items")} for frame in frames]
    return sum(len(json.dumps(frame)) for frame in left)


@pytest.mark.parametrize("links", [1, 2])
async def test_the_session_is_told_once_a_turn_where_that_is_tolerated(make_server: MakeServer, links: int) -> None:
    config = '\n[dialects.onion]\ntolerate = ["assistant_delta", "session_sync", "replay_interrupted"]\n'
    served = await make_server(config=config)
    async with served.client(key=ALICE) as talk:
        twins: list[Talk] = [talk]
        async with served.client(talk.session_id, key=ALICE) as twin:
            twins += [twin] * (links - 1)
            for _ in range(3):
                await talk.turn(script("say hello"))
            for each in twins:
                each.mark = 0
                for _ in range(3):
                    synced = await each.next("session_sync")
                    output = await each.next("OUTPUT")
                    assert synced["session"] == output["session"]
                assert len({frame["id"] for frame in of(each.frames, "session_sync")}) == 3
