"""What a link is refused or told of an end, and in which words (seed: Error Reference)."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus

from dragoman.client.errors import Refused

from .rig import Coworker, raw_link, script


async def test_a_message_id_with_another_text_is_refused_by_the_clients_own_name_for_it(served: Coworker) -> None:
    async with served.client(features=("resume",)) as link:
        await link.client.say(script("say hi"), message_id="m")
        await link.client.idle()
        with pytest.raises(Refused, match=r": client message id 'm' was already used with other content$") as refused:
            await link.client.say(script("say other"), message_id="m")
        assert refused.value.code == "validation_failed"


async def test_what_a_closed_session_cannot_do_is_the_clients_mistake(served: Coworker) -> None:
    async with served.client() as link:
        session = link.client.session
    await served.closed(session)
    async with served.client(session=session) as late:
        for asked in (late.client.say("hi"), late.client.reset()):
            with pytest.raises(Refused, match=r"is closed$") as refused:
                await asked
            assert refused.value.code == "validation_failed"


async def test_a_turn_that_ended_with_its_link_is_not_blamed_on_the_server_alone(served: Coworker) -> None:
    async with served.client() as link:
        session = link.client.session
        await link.client.say(script("wait"))
    await served.closed(session)
    async with served.client(session=session, after=1) as late:
        (abort,) = await late.until(lambda: [f for f in late.frames if f.get("partType") == "abort"], "an abort")
        assert abort["part"]["reason"].endswith("the session was closed.")


async def test_a_cursor_without_a_session_is_refused_and_makes_none(served: Coworker) -> None:
    before = await _sessions(served)
    with pytest.raises(InvalidStatus) as refused:
        async with raw_link(f"{served.url}?after=1"):
            pass
    assert refused.value.response.status_code == 400
    assert await _sessions(served) == before


async def _sessions(served: Coworker) -> set[str]:
    """Those that there are, closed ones among them."""
    return {row["session"] for row in (await served.asked("GET", "/sessions"))["sessions"]}
