"""Following a log: no gap, no overlap, nothing twice, from memory and from the journal, however slow the reader."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dragoman.dialects.hub import HubDialectSettings
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session

from .conftest import MakeRig
from .rig import Link, Message, Rig


def contiguous(events: list[Message], first: int = 1) -> bool:
    return [event["seq"] for event in events] == list(range(first, first + len(events)))


async def test_the_whole_log_comes_from_cursor_zero(rig: Rig) -> None:
    session = await rig.session()
    await rig.play(session, "say hello there")
    async with rig.link() as link:
        answer = await link.ask("follow", session=session.id, after=0)
        assert (answer["session"], answer["after"], answer["head"]) == (session.id, 0, session.shown.seq)
        events = await link.caught_up(session)
        assert contiguous(events)
        assert link.facts(session.id)[0] == "session.created"
        assert link.facts(session.id)[-1] == "turn.ended"
        assert {"seq", "at", "epoch", "fact"} == events[0].keys()


async def test_the_answer_comes_before_the_first_event(rig: Rig) -> None:
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        await link.caught_up(session)
        assert [message["type"] for message in link.messages] == ["hello", "ok", "events"]


async def test_without_a_cursor_only_new_events_come(rig: Rig) -> None:
    session = await rig.session()
    await rig.play(session, "say old")
    async with rig.link() as link:
        after = (await link.ask("follow", session=session.id))["after"]
        await rig.play(session, "say new")
        assert contiguous(await link.caught_up(session), after + 1)


async def test_a_snapshot_and_following_from_its_cursor_leave_no_gap_and_no_overlap(rig: Rig) -> None:
    session = await rig.session()
    await rig.play(session, "say before")
    async with rig.link() as link:
        snapshot = await link.ask("snapshot", session=session.id)
        await rig.play(session, "say between")
        await link.ask("follow", session=session.id, after=snapshot["seq"])
        await rig.play(session, "say after")
        assert contiguous(await link.caught_up(session), snapshot["seq"] + 1)


async def test_attaching_again_and_again_while_a_writer_runs_never_misses_an_event(rig: Rig) -> None:
    """V5: events published while history is being sent."""
    session = await rig.session()
    await session.submit(LOCAL, "burst 4000\npace 400 2", via="test")
    async with rig.link() as link:
        attached = 0
        while session.state.turn is not None:
            await link.ask("follow", session=session.id, after=session.shown.seq // 2)
            attached += 1
        await link.caught_up(session)
        assert attached >= 20
        cursor = 0
        for message in link.messages:
            cursor = message.get("after", cursor)
            if message["type"] == "events":
                assert contiguous(message["events"], cursor + 1)
                cursor = message["events"][-1]["seq"]
        assert cursor == session.shown.seq


async def test_following_twice_goes_on_at_the_new_cursor(rig: Rig) -> None:
    session = await rig.session()
    await rig.play(session, "say hello")
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        await link.caught_up(session)
        head = session.shown.seq
        await link.ask("follow", session=session.id, after=head)
        await rig.play(session, "say more")
        assert contiguous(await link.caught_up(session))


async def test_unfollowing_ends_it_and_takes_back_a_follow_that_waits(rig: Rig) -> None:
    session = await rig.session()
    async with rig.link() as link:
        follow = await link.send("follow", session=session.id, after=0)
        unfollow = await link.send("unfollow", session=session.id)
        await link.answer(follow)
        await link.answer(unfollow)
        await rig.play(session, "say hello")
        await link.ask("ping")
        assert link.of("events") == []
        await link.ask("unfollow", session=session.id)


async def test_a_cursor_beyond_the_log_is_refused(rig: Rig) -> None:
    session = await rig.session()
    async with rig.link() as link:
        assert await link.refused("follow", session=session.id, after=999) == "invalid_request"
        assert await link.refused("follow", session="nobody", after=0) == "unknown_session"


async def test_far_behind_readers_are_fed_from_the_journal(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=HubLimits(tail_events=50))
    session = await rig.session()
    await rig.play(session, "burst 3000")
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        events = await link.caught_up(session)
        assert contiguous(events)
        assert len(events) == session.shown.seq


async def test_many_sessions_are_fed_from_the_journal_a_few_at_a_time(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=HubLimits(tail_events=10), settings=HubDialectSettings(fetches=2))
    sessions = [await rig.session() for _ in range(8)]
    for session in sessions:
        await rig.play(session, "burst 100")
    async with rig.link() as link:
        for session in sessions:
            await link.ask("follow", session=session.id, after=0)
        for session in sessions:
            assert contiguous(await link.caught_up(session))


async def test_messages_stay_below_their_limit_except_for_one_large_event(make_rig: MakeRig) -> None:
    rig = await make_rig(settings=HubDialectSettings(events_frame=4096))
    session = await rig.session()
    await rig.play(session, "burst 500")
    await rig.play(session, "say " + "x" * 20_000)
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        assert contiguous(await link.caught_up(session))
        large = [m for m in link.of("events") if len(json.dumps(m)) > 4700]
        assert all(len(m["events"]) == 1 for m in large)
        assert large


async def test_deltas_are_joined_for_whoever_asks_and_nothing_else_is_lost(rig: Rig) -> None:
    session = await rig.session()
    await rig.play(session, "burst 600\nthink so so so\ntool look {}")
    async with rig.link() as plain, rig.link() as joined:
        await plain.ask("follow", session=session.id, after=0)
        await joined.ask("follow", session=session.id, after=0, coalesce=True)
        every = await plain.caught_up(session)
        few = await joined.caught_up(session)
    assert len(few) < len(every) / 10
    assert texts(few) == texts(every)
    assert rest(few) == rest(every)
    covered = [seq for event in few for seq in range(event.get("first", event["seq"]), event["seq"] + 1)]
    assert covered == [event["seq"] for event in every]


def texts(events: list[Message]) -> dict[Any, str]:
    parts: dict[Any, str] = {}
    for event in events:
        fact = event["fact"]
        if fact["type"] == "part.delta":
            parts[fact["part"]] = parts.get(fact["part"], "") + fact["text"]
    return parts


def rest(events: list[Message]) -> list[Message]:
    return [event for event in events if event["fact"]["type"] != "part.delta"]


async def test_a_flood_in_one_session_does_not_starve_another(rig: Rig) -> None:
    loud, quiet = await rig.session(), await rig.session()
    await rig.play(loud, "burst 20000")
    async with rig.link() as link:
        await link.ask("follow", session=loud.id, after=0)
        await link.ask("follow", session=quiet.id, after=0)
        await link.caught_up(loud)
        order = [message["session"] for message in link.of("events")]
    assert order.index(quiet.id) < len(order) / 2


async def test_a_reader_that_stops_costs_the_others_nothing_and_misses_nothing(rig: Rig) -> None:
    """V26: more than any socket buffer holds, while one does not read."""
    session = await rig.session()
    await rig.play(session, "say hello")
    async with rig.link(max_queue=2) as slow, rig.link() as quick:
        await slow.ask("follow", session=session.id, after=0)
        await slow.caught_up(session)
        stop_reading(slow)
        await quick.ask("follow", session=session.id, after=0)
        await rig.play(session, "\n".join("say " + "y" * 200_000 for _ in range(20)))
        await rig.play(session, "burst 10000")
        assert contiguous(await quick.caught_up(session))
        slow.socket.transport.resume_reading()
        assert contiguous(await slow.caught_up(session))
        assert slow.of("error") == []


def stop_reading(link: Link) -> None:
    link.socket.transport.pause_reading()


async def test_a_session_that_is_deleted_is_gone_after_its_last_event(rig: Rig) -> None:
    session = await rig.session()
    await rig.play(session, "say hello")
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        await link.ask("delete", session=session.id)
        gone = await link.message("gone")
        assert gone == {"type": "gone", "session": session.id, "stream": "events"}
        assert contiguous(link.events(session.id))
        assert link.facts(session.id)[-1] == "session.closed"
        assert await link.refused("follow", session=session.id, after=0) == "gone"


async def test_a_reader_far_behind_is_told_that_the_log_is_gone(make_rig: MakeRig) -> None:
    rig = await make_rig(limits=HubLimits(tail_events=10))
    session = await rig.session()
    for _ in range(6):
        await rig.play(session, "\n".join("say " + "z" * 100_000 for _ in range(20)))
    async with rig.link(max_queue=2) as link:
        await link.ask("ping")
        stop_reading(link)
        await link.send("follow", session=session.id, after=0)
        await wait_for_follower(session)
        await rig.registry.delete(LOCAL, session.id)
        link.socket.transport.resume_reading()
        await link.message("gone")
        assert contiguous(link.events(session.id))


async def wait_for_follower(session: Session) -> None:
    async with asyncio.timeout(5):
        while session.idle:
            await asyncio.sleep(0.005)


async def test_no_more_sessions_are_followed_than_the_limit_says(make_rig: MakeRig) -> None:
    rig = await make_rig(settings=HubDialectSettings(follows=2))
    sessions = [await rig.session() for _ in range(3)]
    async with rig.link() as link:
        for session in sessions[:2]:
            await link.ask("follow", session=session.id, after=0)
        assert await link.refused("follow", session=sessions[2].id, after=0) == "limit_reached"
        await link.ask("follow", session=sessions[0].id, after=0)
        await link.ask("unfollow", session=sessions[0].id)
        await link.ask("follow", session=sessions[2].id, after=0)


async def test_a_restart_keeps_cursors_and_names_a_new_epoch(make_rig: MakeRig) -> None:
    first = await make_rig()
    session = await first.session()
    await first.play(session, "say hello")
    async with first.link() as link:
        await link.ask("follow", session=session.id, after=0)
        before = await link.caught_up(session)
        epoch = (await link.message("hello"))["epoch"]
    await first.stop()
    second = await make_rig(store=first.store)
    again = await second.registry.get(LOCAL, session.id)
    await second.play(again, "say again")
    async with second.link() as link:
        await link.ask("follow", session=session.id, after=before[-1]["seq"])
        events = await link.caught_up(again)
        assert contiguous(before + events)
        assert (await link.message("hello"))["epoch"] != epoch
        assert {event["epoch"] for event in events} == {(await link.message("hello"))["epoch"]}


@pytest.mark.parametrize("coalesce", [False, True])
async def test_an_environment_in_the_log_is_shown_by_its_names_only(rig: Rig, coalesce: bool) -> None:
    session = await rig.session("terminal", options={"command": ["/bin/cat"], "env": {"SECRET_KEY": "hunter2"}})
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0, coalesce=coalesce)
        await link.caught_up(session)
        await link.ask("snapshot", session=session.id)
        await link.ask("events", session=session.id)
        await link.ask("newest")
        await link.ask("close", session=session.id)
        assert "hunter2" not in json.dumps(link.messages)
