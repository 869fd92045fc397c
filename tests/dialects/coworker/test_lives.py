"""How long sessions live that links made, and what a lost server left open. Without sockets: it is about who counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.agents.scripted import ScriptedFactory
from dragoman.dialects.coworker.lives import OF_LINKS, Lives
from dragoman.hub.events import Json
from dragoman.hub.limits import HubLimits
from dragoman.hub.permissions import LOCAL
from dragoman.hub.session import Session
from dragoman.hub.tasks import TaskOwner
from tests.hub.rig import Hub, InMemory, proven, turns_of_the_loop, until


class Native(ScriptedFactory):
    """What links make, without a model."""

    kind = "native"
    elsewhere = False

    def check_settings(self, settings: dict[str, Json]) -> None:
        """Any will do."""


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    made = Hub(InMemory(), tmp_path, limits=HubLimits(loaded_idle=4), factories=[Native()])
    async with proven(made):
        yield made


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    owner = TaskOwner("lives")
    yield owner
    await owner.close(1.0)


async def of_links(hub: Hub) -> Session:
    return await hub.create("native", settings={OF_LINKS: True})


def closed(hub: Hub, *names: str) -> bool:
    return all(hub.registry.row(LOCAL, name).status == "closed" for name in names)


async def test_what_was_left_open_is_not_even_looked_at_before_its_time(hub: Hub, tasks: TaskOwner) -> None:
    left = [(await of_links(hub)).id for _ in range(50)]
    other = (await hub.create("native")).id
    registry = await hub.restart()
    lives = Lives(tasks, grace=0.2)
    waiting = tasks.start(lives.end_left_open(registry), "left open")
    await turns_of_the_loop()
    assert registry.loaded == 0, "the start of a server loads none of them"
    await waiting
    assert closed(hub, *left)
    assert not closed(hub, other), "no link made that one"
    await until(lambda: registry.loaded <= 4, "they leave memory again")


async def test_a_session_that_somebody_came_back_to_ends_after_its_last_link(hub: Hub, tasks: TaskOwner) -> None:
    """However many links there were before it was known that nobody else comes, each counts once."""
    name = (await of_links(hub)).id
    registry = await hub.restart()
    lives = Lives(tasks, grace=0.05)
    waiting = tasks.start(lives.end_left_open(registry), "left open")
    session = await registry.get(LOCAL, name)
    lives.joined(session, 0.0)
    await waiting
    lives.joined(session, 0.0)
    lives.left(session)
    await asyncio.sleep(0.2)
    assert not closed(hub, name), "there is one link still"
    lives.left(session)
    lives.joined(session, 0.0)
    await asyncio.sleep(0.2)
    assert not closed(hub, name), "one came in time"
    lives.left(session)
    await until(lambda: closed(hub, name), "it ends")


async def test_a_session_that_is_viewed_elsewhere_when_its_time_comes_goes_on(
    hub: Hub, tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.dialects.coworker.lives.LOOK_AGAIN", 0.05)
    name = (await of_links(hub)).id
    registry = await hub.restart()
    session = await registry.get(LOCAL, name)
    unwatch = session.watch(lambda: None)
    await Lives(tasks, grace=0.0).end_left_open(registry)
    await asyncio.sleep(0.2)
    assert not closed(hub, name)
    unwatch()
    await until(lambda: closed(hub, name), "it ends once nobody is there")


async def test_a_session_ends_whose_only_link_did_not_come_about(hub: Hub, tasks: TaskOwner) -> None:
    session = await of_links(hub)
    lives = Lives(tasks, grace=60.0)
    lives.made(session)
    lives.joined(session, 0.0)
    lives.left(session)
    await until(lambda: closed(hub, session.id))


async def test_a_session_stays_that_another_link_views_when_one_does_not_come_about(hub: Hub, tasks: TaskOwner) -> None:
    session = await of_links(hub)
    lives = Lives(tasks, grace=60.0)
    lives.made(session)
    lives.joined(session, 0.0)
    lives.joined(session, 0.0)
    lives.left(session)
    await turns_of_the_loop()
    assert not closed(hub, session.id)
    lives.left(session)
    await until(lambda: closed(hub, session.id))


async def test_a_session_that_was_deleted_meanwhile_is_no_matter(
    hub: Hub, tasks: TaskOwner, caplog: pytest.LogCaptureFixture
) -> None:
    names = [(await of_links(hub)).id for _ in range(2)]
    registry = await hub.restart()
    waiting = tasks.start(Lives(tasks, grace=0.05).end_left_open(registry), "left open")
    await turns_of_the_loop()
    await registry.delete(LOCAL, names[0])
    await waiting
    assert closed(hub, names[1])
    assert not caplog.records
