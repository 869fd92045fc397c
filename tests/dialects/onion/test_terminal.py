"""An onion client on a terminal session: a prompt is typed into the agent, its dialog is asked here (design §1)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fake_agent.test_launch import Place, Run

from .rig import Talk, of


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@contextlib.asynccontextmanager
async def joined(run: Run, session: str | None = None) -> AsyncIterator[Talk]:
    """A client of the one session that is run."""
    talk = Talk()
    await talk.open(run.server.ready["dialects"]["onion"])
    try:
        await talk.connect(session)
        yield talk
    finally:
        await talk.wire.close()


def session_of(run: Run) -> str:
    (row,) = run.server.http("GET", "/hub/sessions").json["sessions"]
    return str(row["session"])


async def test_a_client_shows_the_one_session_that_is_run(place: Place) -> None:
    async with place.run() as run:
        async with joined(run) as talk, joined(run, session_of(run)) as named:
            await run.becomes("idle")
            assert await talk.status() == await named.status() == "connected"
        assert session_of(run), "there is still one, and it goes on"


async def test_a_prompt_is_typed_and_its_turn_is_told(place: Place) -> None:
    async with place.run() as run, joined(run) as talk:
        await run.becomes("idle")
        frames = await talk.turn("[[say:Here you are.]]")
        assert frames[0]["content"] == "[[say:Here you are.]]"
        assert frames[-1]["result"] == "Here you are."
        assert frames[-1]["session"]["messages"] == [
            {"role": "user", "content": "[[say:Here you are.]]"},
            {"role": "assistant", "content": "Here you are."},
        ]
        assert place.effects("submitted")[-1]["text"] == "[[say:Here you are.]]"


@pytest.mark.parametrize(("approved", "made"), [(True, True), (False, False)], ids=["yes", "no"])
async def test_its_dialog_is_an_approval(place: Place, approved: bool, made: bool) -> None:
    async with place.run() as run, joined(run) as talk:
        await run.becomes("idle")
        talk.input("[[permission:touch made.txt]]")
        asked = await talk.next("approval_needed")
        talk.say("APPROVAL_RESPONSE", approved=approved, request_id=asked["id"])
        await talk.next("OUTPUT")
        assert place.effects("permission")[-1]["result"] == ("allowed" if made else "denied")
        talk.say("APPROVAL_RESPONSE", approved=approved, request_id=asked["id"])
        assert (await talk.next("ERROR"))["code"] == "STALE_ANSWER"
        assert len(of(talk.frames, "approval_needed")) == 1


async def test_its_question_has_options(place: Place) -> None:
    async with place.run() as run, joined(run) as talk:
        await run.becomes("idle")
        talk.input("[[ask]]")
        asked = await talk.next("ask_user")
        chosen = asked["options"][1]
        talk.say("ASK_USER_RESPONSE", answer=chosen)
        await talk.next("OUTPUT")
        assert list(place.effects("question")[-1]["answers"].values()) == [chosen]


async def test_what_a_person_does_at_the_terminal_is_told(place: Place) -> None:
    async with place.run() as run, joined(run) as talk:
        await run.becomes("idle")
        await run.link.send({"event": "input", "text": "[[say:typed here]]\r"})
        assert (await talk.next("user_input"))["content"] == "[[say:typed here]]"
        assert (await talk.next("assistant"))["content"] == "typed here"
