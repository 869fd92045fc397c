"""The conversation as a whole: begun anew, taken over from a client, shortened; never while somebody works with it."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.hub.errors import (
    Busy,
    Closed,
    HubError,
    InvalidRequest,
    LimitReached,
    NotPermitted,
    StorageUnavailable,
    Unsupported,
)
from dragoman.hub.events import Compacted, HistoryMerged, HistoryMessage, HistoryReset
from dragoman.hub.events.lifecycle import HistoryCall
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL, STRANGER
from dragoman.hub.session import Session
from dragoman.hub.turns import TurnContext

from .conftest import MakeHub
from .rig import Hub, idle, turns_of_the_loop

SAID = (
    HistoryMessage(role="user", content="hello"),
    HistoryMessage(role="assistant", content=None, calls=(HistoryCall("c", "look", {"at": 1}),)),
    HistoryMessage(role="tool", content=["seen"], call="c"),
    HistoryMessage(role="system", content="be kind"),
)


async def merge(session: Session, *messages: HistoryMessage, replace: bool = False) -> None:
    await session.merge_history(LOCAL, messages or SAID, replace=replace, via="test", detail={"from": "a client"})


async def test_a_claimed_history_is_recorded_as_it_came(any_hub: Hub) -> None:
    session = await any_hub.create("puppet")
    await merge(session)
    await merge(session, SAID[0], replace=True)
    await session.reset_history(LOCAL)
    first, second, reset = (await any_hub.facts(session))[-3:]
    assert isinstance(first, HistoryMerged)
    assert (first.messages, first.replace, first.by, first.via) == (SAID, False, "local", "test")
    assert first.detail == {"from": "a client"}
    assert isinstance(second, HistoryMerged)
    assert second.replace
    assert reset == HistoryReset(by="local")


async def test_nothing_touches_the_history_of_a_running_turn(hub: Hub) -> None:
    async def forever(turn: TurnContext) -> str | None:
        return await asyncio.get_running_loop().create_future()

    hub.puppets.behave = forever
    session = await hub.create("puppet")
    receipt = await session.submit(LOCAL, "go", via="test")
    head = session.head
    for command in (session.reset_history(LOCAL), session.compact(LOCAL), merge(session)):
        with pytest.raises(Busy) as refusal:
            await command
        assert refusal.value.turn == receipt.turn
    assert session.head == head
    await session.cancel(LOCAL, via="test")
    await session.reset_history(LOCAL)


async def test_what_is_too_much_or_of_nobody_is_refused_whole(make_hub: MakeHub) -> None:
    hub = await make_hub(limits=HubLimits(history_messages=3, history_bytes=1000))
    session = await hub.create("puppet")
    deep: object = "end"
    for _ in range(200):
        deep = [deep]
    refused: list[tuple[type[HubError], tuple[HistoryMessage, ...]]] = [
        (LimitReached, SAID),
        (LimitReached, (HistoryMessage(role="user", content="x" * 1000),)),
        (InvalidRequest, (SAID[0], HistoryMessage(role="root", content="obey"))),
        (InvalidRequest, (HistoryMessage(role="user", content="\ud800"),)),
        (InvalidRequest, (HistoryMessage(role="user", content=deep),)),
    ]
    for kind, messages in refused:
        with pytest.raises(kind):
            await merge(session, *messages)
    assert session.head == 1


async def test_rights_a_closed_session_and_a_full_disk(hub: Hub) -> None:
    session = await hub.create("puppet")
    for command in (
        session.reset_history(STRANGER),
        session.compact(STRANGER),
        session.merge_history(STRANGER, SAID, replace=True, via="test"),
    ):
        with pytest.raises(NotPermitted):
            await command
    hub.journal.fail("disk full")
    with pytest.raises(StorageUnavailable):
        await session.reset_history(LOCAL)
    hub.journal.heal()
    await session.close("done")
    for command in (session.reset_history(LOCAL), session.compact(LOCAL)):
        with pytest.raises(Closed):
            await command


async def test_the_agent_shortens_its_context_when_asked(hub: Hub) -> None:
    session = await hub.create("puppet")
    await session.compact(LOCAL)
    facts = await hub.facts(session)
    assert [fact.phase for fact in facts if isinstance(fact, Compacted)] == ["started", "done"]
    await idle(session)


async def test_one_compaction_at_a_time_and_nothing_else_meanwhile(hub: Hub) -> None:
    done = asyncio.Event()

    async def slowly(session: Session) -> None:
        await done.wait()

    hub.puppets.compacts = slowly
    session = await hub.create("puppet")
    first = asyncio.create_task(session.compact(LOCAL))
    await turns_of_the_loop()
    assert not session.idle
    for command in (session.compact(LOCAL), session.reset_history(LOCAL), merge(session)):
        with pytest.raises(Busy):
            await command
    done.set()
    await first
    assert session.idle
    await session.compact(LOCAL)


async def test_an_agent_without_a_context_says_so(hub: Hub) -> None:
    session = await hub.create("scripted")
    with pytest.raises(Unsupported):
        await session.compact(LOCAL)
    await session.reset_history(LOCAL)
