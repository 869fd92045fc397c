"""A link that fell behind is told in the end of what changes beside the events, too."""

from __future__ import annotations

from pathlib import Path

from dragoman.dialects.cin import messages as wire
from dragoman.hub.events import DecisionOpened, Notified, Option
from tests.dialects.cin.rig import bridge
from tests.hub.rig import until


async def test_a_link_that_fell_behind_has_the_tiles_that_there_are(tmp_path: Path) -> None:
    async with bridge(tmp_path, feed_bytes=4000) as b:
        client = await b.open()
        client.take()
        tile = wire.TextTile(id="t", text="note", position=wire.Position(1, 2), created_at=5)
        await b.dialect.tiles.add(tile)
        session = await b.hub.create("puppet")
        for number in range(100):
            session.record(Notified(message=f"{number:>0100}"))
        await session.durable(session.head)

        await until(lambda: client.take() is not None and len(client.events()) == 100)
        told = [frame["data"] for frame in client.frames if frame["type"] == "cin:text_tiles"]
        assert told
        assert told[-1] == [{"id": "t", "text": "note", "position": {"q": 1, "r": 2}, "createdAt": 5}]


async def test_a_link_that_fell_behind_is_told_that_what_it_was_shown_is_no_longer_asked(tmp_path: Path) -> None:
    async with bridge(tmp_path, feed_bytes=4000) as b:
        client = await b.open()
        session = await b.hub.create("puppet")
        asked = DecisionOpened(decision="d1", kind="permission", text="may I", options=(Option("Yes"), Option("No")))
        session.open_decision(asked)
        await session.durable(session.head)
        await client.hear("cin:permission_prompt")
        session.settle_decision("d1", reason="gone")
        for number in range(100):
            session.record(Notified(message=f"{number:>0100}"))
        await session.durable(session.head)

        (over,) = await client.hear("cin:permission_resolved")
        assert over["data"] == {"sessionId": session.id, "decisionId": "d1"}


async def test_a_link_that_falls_behind_again_before_it_took_anything_misses_nothing(tmp_path: Path) -> None:
    async with bridge(tmp_path, feed_bytes=4000) as b:
        client = await b.open()
        client.take()
        session = await b.hub.create("puppet")
        for _ in range(3):
            for number in range(50):
                session.record(Notified(message=f"{number:>0100}"))
            await session.durable(session.head)
            await until(lambda: b.dialect.feed.end > 0 and not len(b.dialect.tasks))  # all of it is read by now

        await until(lambda: client.take() is not None and len(client.events()) == 150)
        assert len({event["id"] for event in client.events()}) == 150
