"""Beyond the page: which features a link has, how it asks for them, and what is said to who asks wrongly."""

from __future__ import annotations

import json

import pytest
from websockets.exceptions import InvalidStatus

from dragoman.client.errors import ConnectionLost, Denied

from .rig import Coworker, Frame, calls, kinds, raw_link, read_until, script

QUESTION = {"question": "Which database?", "options": ["PostgreSQL", "MySQL"]}


async def test_features_may_be_asked_for_by_the_greeting(served: Coworker) -> None:
    async with raw_link(served.url) as socket:
        frames: list[Frame] = []
        hello = await read_until(socket, frames, "provider_status")
        assert frames[0]["capabilities"] == {"modelStreamChunk": "v1"}
        await socket.send(json.dumps({"type": "client_hello", "client": "ui", "features": ["resume", "void", "other"]}))
        told = await read_until(socket, frames, "features")
        assert list(told) == ["type", "sessionId", "features", "cursor"]
        assert (told["sessionId"], told["features"]) == (hello["sessionId"], ["resume", "void"])
        say = {"type": "user_message", "sessionId": hello["sessionId"], "text": script("say hi")}
        await socket.send(json.dumps(say))
        end = await read_until(socket, frames, "session_busy", busy=False)
        assert list(end)[-1] == "cursor"
        cursors = [frame["cursor"] for frame in frames if "cursor" in frame]
        assert cursors == sorted(cursors)
        assert cursors[0] == told["cursor"]
    async with served.client(session=hello["sessionId"], features=("resume",), after=end["cursor"]) as again:
        await again.client.ping()


async def test_a_hello_with_features_says_where_the_session_is_read_from(served: Coworker) -> None:
    async with served.client(features=("resume", "void")) as link:
        (hello, *_) = await link.connected()
        assert list(hello)[-1] == "cursor"
        assert hello["capabilities"] == {"modelStreamChunk": "v1", "resume": "v1"}
        assert link.client.resumes


@pytest.mark.parametrize("session", ["00000000-0000-4000-8000-000000000000", "nonsense", "%00"])
async def test_a_session_that_is_not_there_is_refused_for_good(served: Coworker, session: str) -> None:
    with pytest.raises((Denied, ConnectionLost)):
        async with served.client(session=session, features=("resume",)):
            pass


async def test_void_prompts_are_told_only_to_whoever_asked(served: Coworker) -> None:
    async with (
        served.client() as owner,
        served.client(session=owner.client.session, features=("void",)) as other,
    ):
        await other.connected()
        for outcome in ("answered", "cancelled"):
            await owner.client.say(script(*calls(("ask", QUESTION)), "say ok"))
            asked = await owner.next("ask")
            assert (await other.next("ask"))["requestId"] == asked["requestId"]
            if outcome == "answered":
                owner.client.answer(asked["requestId"], "MySQL")
            else:
                owner.client.cancel()
            void = await other.next("prompt_void")
            assert (void["requestId"], void["outcome"]) == (asked["requestId"], outcome)
            await owner.next("session_busy", busy=False)
        assert "prompt_void" not in kinds(owner.frames)


@pytest.mark.parametrize("query", ["", "?features=", "?features=RESUME", "?features=other,,"])
async def test_who_asks_for_no_feature_that_there_is_has_the_page_and_nothing_else(
    served: Coworker, query: str
) -> None:
    async with served.client(url=f"{served.url}{query}") as link:
        await link.connected()
        await link.turn(script(*calls(("todoWrite", {"todos": []})), "say hi"))
        assert not link.client.resumes
        assert not [frame for frame in link.frames if "cursor" in frame]


@pytest.mark.parametrize("after", ["", "abc", "-1", "1.5", "0", "99999999", "9" * 30])
async def test_a_cursor_that_is_none_is_refused_with_a_reason(served: Coworker, after: str) -> None:
    async with served.client(features=("resume",)) as link:
        with pytest.raises(InvalidStatus) as refused:
            async with raw_link(f"{served.url}?session={link.client.session}&features=resume&after={after}"):
                pass
        assert refused.value.response.status_code == 400
        assert b"cursor" in (refused.value.response.body or b"")
