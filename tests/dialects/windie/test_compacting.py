"""A conversation shortened on demand: told as a turn of its own, once, and seen by the query behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.agents.native.providers.conversation import UserMessage
from dragoman.dialects.windie.compacting import NOT_FORCED
from dragoman.hub.events import Compacted
from dragoman.hub.permissions import LOCAL
from tests.agents.native.native_rig import script
from tests.hub.rig import until

from .judges.sequence import faults, heard
from .link_rig import Client, Place, place


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Place]:
    async with place(tmp_path) as made:
        yield made


def talk(summing: str = "say The gist.") -> list[dict[str, Any]]:
    """A history of which the older half is summed up by this step of the scripted model."""
    return [
        {"role": "user", "content": "What is the plan?"},
        {"role": "assistant", "content": f"To win.\n{script(summing)}"},
        {"role": "user", "content": "And then?"},
        {"role": "assistant", "content": "To rest."},
    ]


def rehydrate(client: Client, ref: str = "conv", summing: str = "say The gist.") -> None:
    client.send(
        "rehydrate-conversation", {"conversation_ref": ref, "messages": talk(summing), "rehydrate_mode": "replace"}
    )


def compactions(client: Client) -> list[dict[str, Any]]:
    """What was told of shortening."""
    return [frame for frame in client.heard if frame["type"].startswith("context-compaction-")]


async def refused(client: Client, **payload: Any) -> str:
    """What a refusal says; it has the message's own id."""
    frame = await client.reply(client.send("compact-history", payload), "error")
    said: str = frame["payload"]["message"]
    return said


async def test_it_is_told_as_a_turn_of_its_own_and_the_query_behind_it_sees_the_summary(here: Place) -> None:
    client = await here.client()
    rehydrate(client)
    asked = client.send("compact-history", {"force": True, "conversation_ref": "conv"})
    await client.ended(client.ask(script("say hello")))
    started, completed = compactions(client)
    assert (started["type"], completed["type"]) == ("context-compaction-started", "context-compaction-completed")
    assert started["turn_ref"] == completed["turn_ref"] != asked
    assert [frame["sequence"] for frame in (started, completed)] == [1, 2]
    assert [frame["conversation_ref"] for frame in (started, completed)] == ["conv", "conv"]
    assert completed["payload"]["summary_text"] == "The gist."
    assert completed["payload"]["removed_messages"] == 1
    assert faults(map(heard, client.heard)) == []
    assert client.told(asked) == []
    first = here.model.last[0]
    assert isinstance(first, UserMessage)
    assert "The gist." in first.text
    assert "What is the plan?" not in str(here.model.last)
    assert "To rest." in str(here.model.last), "the newest stays as it is"


async def test_without_a_name_it_is_the_conversation_that_the_link_was_told_of_last(here: Place) -> None:
    client = await here.client()
    for ref in ("one", "two", "one"):
        rehydrate(client, ref)
        await client.ended(client.ask(script("say hello"), ref=ref))
    client.send("compact-history", {})
    await until(lambda: len(compactions(client)) == 2)
    assert {frame["conversation_ref"] for frame in compactions(client)} == {"one"}


async def test_where_there_is_none_it_says_so_and_makes_none(here: Place) -> None:
    client = await here.client()
    assert "no conversation here yet" in await refused(client)
    assert await refused(client, conversation_ref="nowhere") == "there is no conversation 'nowhere'"
    assert here.hub.registry.rows(LOCAL) == []
    rehydrate(client)
    await client.ended(client.ask(script("say hello")))
    other = await here.client("other")
    assert await refused(other, conversation_ref="conv") == "there is no conversation 'conv'", "it is another user's"


async def test_a_conversation_in_which_nothing_was_said_is_left_as_it_is(here: Place) -> None:
    client = await here.client()
    client.send("rehydrate-conversation", {"conversation_ref": "conv", "messages": [], "rehydrate_mode": "replace"})
    assert "it is short" in await refused(client, conversation_ref="conv")
    assert compactions(client) == []


async def test_a_model_that_fails_is_told_once(here: Place) -> None:
    client = await here.client()
    rehydrate(client, summing="fail unauthorized No key.")
    asked = client.send("compact-history", {"conversation_ref": "conv"})
    await client.ended(client.ask(script("say hello")))
    kinds = [frame["type"] for frame in compactions(client)]
    assert kinds == ["context-compaction-started", "context-compaction-failed"]
    assert compactions(client)[1]["payload"]["error"] == "No key."
    assert client.told(asked) == [], "and not as an error too"
    assert "What is the plan?" in str(here.model.last)


async def test_while_somebody_elses_turn_runs_it_is_refused(here: Place) -> None:
    client = await here.client()
    rehydrate(client)
    await client.ended(client.ask(script("say hello")))
    session = await here.session()
    await session.submit(LOCAL, script("wait"), via="test")
    assert await refused(client, conversation_ref="conv") == "a turn is running"
    await session.cancel(LOCAL, via="test")


async def test_unforced_nothing_is_shortened(here: Place) -> None:
    client = await here.client()
    rehydrate(client)
    assert await refused(client, force=False, conversation_ref="conv") == NOT_FORCED
    await client.ended(client.ask(script("say hello")))
    assert not [fact for fact in await here.hub.facts(await here.session()) if isinstance(fact, Compacted)]


async def test_an_agent_of_another_kind_is_not_shortened(here: Place) -> None:
    session = await here.hub.create("scripted")
    client = await here.client()
    assert await refused(client, conversation_ref=session.id)
    assert compactions(client) == []
