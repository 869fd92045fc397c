"""What a stop stops, and what is told around its acknowledgement: each as small as it can be."""

from __future__ import annotations

import asyncio

from .rig import House, scripted


async def test_a_stop_is_about_queries_only(house: House) -> None:
    async with house.link() as link:
        turn = await link.ask(scripted("long"))
        await house.gate("long")
        compaction = await link.tell("compact-history", force=True, conversation_ref="conv")
        ack = await link.stop("conv", compaction)
        house.open("long")
        await link.over(turn)
        assert ack["payload"]["canceled"] is False


async def test_a_stop_is_acknowledged_before_the_next_turn_begins(house: House) -> None:
    """A client takes whatever is open in the conversation when the acknowledgement comes for what was stopped."""
    async with house.link() as link:
        for number in range(10):
            firsts = [f"turn-{number}-{place}" for place in range(5)]
            for place, first in enumerate(firsts):
                await link.ask(scripted("long"), f"c{place}", first)
            for first in firsts:
                await link.first("streaming-response", first)
            stop = asyncio.create_task(link.stop())
            await asyncio.sleep(0)
            second = await link.ask("hello", f"c{number % 5}", f"turn-{number}-next")
            await stop
            await link.first("streaming-complete", second)
    link.judge()


async def test_no_event_of_a_turn_in_reach_of_a_stop_comes_after_its_acknowledgement(house: House) -> None:
    """The turn had ended in the server, and its end was not told yet; what waits behind it is stopped."""
    async with house.link() as link:
        for number in range(60):
            conversation = f"c{number}"
            first = await link.ask("hello", conversation)
            second = await link.ask(scripted("quiet"), conversation)
            await link.first("query-accepted", first)
            await asyncio.sleep(number % 20 / 1000)
            await link.stop(conversation)
            await link.until(
                lambda first=first, second=second: (
                    link.client.turns[first].state != "open" and link.client.turns[second].state != "open"
                ),
                "both ends",
            )
        await house.at_rest()
        await link.barrier()
    link.judge(quiet=False)
