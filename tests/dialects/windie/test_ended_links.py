"""Links that are ended by the server, and conversations that go by two names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.dialects.windie.callers import Caller, caller_of
from dragoman.dialects.windie.settings import WindieSettings
from dragoman.hub.events import PromptSubmitted, TurnEnded
from dragoman.services.installs import Install
from tests.agents.native.native_rig import of, script
from tests.hub.rig import until

from .link_rig import Client, Place, definition, place, tool

WAIT = script("say I begin.\nwait")
CALL = script('call save_note {"text": "a"}', "say done")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as opened:
        yield opened


async def test_of_a_link_whose_token_was_revoked_nothing_goes_on(here: Place) -> None:
    """Also where its client answers no close: it is not waited for."""
    client = await here.client()
    name = client.ask(WAIT)
    await client.reply(name, "streaming-response")
    client.ask(script("say never"))
    client.link.revoked()
    heard = list(client.heard)
    session = await here.session()
    await until(lambda: session.state.turn is None and not here.dialect.tasks, "all has ended")
    client.link.receive('{"id": "late", "type": "load-settings", "payload": {}}')
    assert client.closed == (1008, "")
    facts = await here.hub.facts(session)
    assert [end.outcome for end in of(facts, TurnEnded)] == ["cancelled"]
    assert len(of(facts, PromptSubmitted)) == 1
    client.wake()
    await until(lambda: not client._pulling, "what was left is pulled")
    assert client.heard == heard
    client.leave()  # the socket goes in the end, and changes nothing


async def test_the_tools_of_a_revoked_link_are_gone_and_the_users_other_link_goes_on(here: Place) -> None:
    client = await here.client(agent_definition=definition(tool()))
    other = await here.client()
    name = client.ask(CALL)
    await client.called()
    client.link.revoked()
    assert await other.ended(name) == "done"


async def test_a_conversation_and_the_id_of_its_session_are_one_and_its_queries_follow_each_other(here: Place) -> None:
    client = await here.client()
    first = client.ask(WAIT, "conv")
    await client.reply(first, "streaming-response")
    session = await here.session("conv")
    second = client.ask(script("say by its id"), session.id)
    third = client.ask(script("say by its name"), "conv")
    await until(lambda: len(list(here.dialect.user(_caller(client)).lanes.waiting("conv"))) == 2, "both wait")
    stop = client.send("stop-query", {"conversation_ref": session.id, "turn_ref": first})
    await client.reply(stop, "stop-query-ack")
    assert [await client.ended(name) for name in (second, third)] == ["by its id", "by its name"]
    accepted = [frame["id"] for frame in client.heard if frame["type"] == "query-accepted"]
    assert accepted == [first, second, third]


def test_nobody_is_an_installs_user_by_saying_so() -> None:
    install = caller_of(Install("user_1", "install_1"), "somebody else")
    claimed = caller_of(None, "user_1")
    assert install.user_id == claimed.user_id == "user_1"
    assert install.principal.id != claimed.principal.id
    assert (install.owner, install.trusted, claimed.trusted) == ("user_1", False, True)
    assert claimed.owner != install.owner


async def test_a_client_that_stops_and_does_not_read_is_read_no_further(tmp_path: Path) -> None:
    async with place(tmp_path, settings=WindieSettings(tasks=5)) as here:
        client = await here.client()
        client._pulling = True  # it reads nothing from here on
        for _ in range(5):
            assert not client.link.congested
            client.send("stop-query", {})
        assert client.link.congested
        await until(lambda: not here.dialect.tasks, "all are worked on")
        assert client.link.congested
        client._pulling = False
        client.wake()
        await until(lambda: not client.link.congested, "the answers are read")


def _caller(client: Client) -> Caller:
    caller = client.link.caller
    assert caller is not None
    return caller
