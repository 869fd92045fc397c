"""Invariant 4, one case at a time: which decision an answer is to, and what becomes of one that is to none."""

from __future__ import annotations

from typing import Any

import pytest

from .rig import ALICE, Frame, Onion, Talk, calls, of, script

STALE = {"code": "STALE_ANSWER"}
YES: dict[str, Any] = {"approved": True}


def touch(*names: str) -> str:
    """A turn that asks for one command after the other."""
    return script(*(step for name in names for step in calls(("bash", {"command": f"touch {name}"}))), "say over")


async def asked(talk: Talk, name: str) -> Frame:
    """The question whether that file may be touched."""
    return await talk.next("approval_needed", arguments={"command": f"touch {name}"})


def made(served: Onion, name: str) -> bool:
    return (served.work / name).exists()


async def test_an_answer_without_an_id_counts_only_behind_the_pong(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.wire.answers_pings = False
        talk.input(touch("behind-the-pong"))
        await asked(talk, "behind-the-pong")
        talk.say("APPROVAL_RESPONSE", **YES)
        await talk.next("ERROR", **STALE)
        assert not made(served, "behind-the-pong")
        talk.wire.pong()
        talk.say("APPROVAL_RESPONSE", **YES)
        await talk.next("OUTPUT")
        assert made(served, "behind-the-pong")


async def test_a_pong_of_another_session_proves_nothing(served: Onion) -> None:
    """The socket is connected to a second session while the pong of the first one's question is on its way."""
    async with served.client(key=ALICE) as talk, served.client(key=ALICE) as other:
        other.input(touch("marked-elsewhere"))
        await asked(other, "marked-elsewhere")
        talk.wire.answers_pings = False
        talk.input(touch("fine-here"))
        await asked(talk, "fine-here")
        first = talk.wire.pings.copy()
        await talk.connect(other.session_id, key=ALICE)
        await asked(talk, "marked-elsewhere")
        talk.wire.pings[:] = first
        talk.wire.pong()
        talk.say("APPROVAL_RESPONSE", **YES)
        await talk.next("ERROR", **STALE)
        other.say("INTERRUPT")
        await other.next("OUTPUT")
        assert not made(served, "marked-elsewhere")


async def test_a_late_answer_by_its_id_is_to_what_it_names_and_nothing_else(served: Onion) -> None:
    async with served.client(key=ALICE) as talk, served.client(talk.session_id, key=ALICE) as twin:
        talk.input(touch("fine-by-id", "marked-by-id"))
        fine = await asked(talk, "fine-by-id")
        await asked(twin, "fine-by-id")
        talk.say("APPROVAL_RESPONSE", request_id=fine["id"], **YES)
        marked = await asked(twin, "marked-by-id")
        twin.say("APPROVAL_RESPONSE", request_id=fine["id"], **YES)
        stale = await twin.next("ERROR", **STALE)
        assert stale["request_id"] == fine["id"]
        twin.say("APPROVAL_RESPONSE", request_id=marked["id"], approved=False, mode="reject_soft", feedback="never")
        await talk.next("OUTPUT")
        assert made(served, "fine-by-id")
        assert not made(served, "marked-by-id")


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
async def test_only_the_right_type_answers(served: Onion, named: bool) -> None:
    """Spec §15 row 35."""
    name = f"right-type-{named}"
    async with served.client(key=ALICE) as talk:
        talk.input(touch(name))
        fine = await asked(talk, name)
        by = {"request_id": fine["id"]} if named else {}
        wrong: tuple[tuple[str, dict[str, Any]], ...] = (
            ("ASK_USER_RESPONSE", {"answer": "yes"}),
            ("PLAN_REVIEW_RESPONSE", {"message": "approve"}),
            ("ULW_RESPONSE", {"action": "continue"}),
        )
        for kind, fields in wrong:
            talk.say(kind, **by, **fields)
            await talk.next("ERROR", **STALE)
        talk.say("mode_change", mode="safe", **by)
        await talk.status()
        assert not of(talk.frames, "tool_result")
        talk.say("APPROVAL_RESPONSE", approved=True, **by)
        await talk.next("OUTPUT")
        assert made(served, name)


async def test_the_second_click_is_stale(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.input(touch("clicked", "marked-click"))
        await asked(talk, "clicked")
        talk.wire.pause()
        talk.say("APPROVAL_RESPONSE", **YES)
        talk.say("APPROVAL_RESPONSE", **YES)
        talk.wire.resume()
        await talk.next("ERROR", **STALE)
        marked = await talk.until(lambda: of(talk.frames, "approval_needed")[1:], "the next question")
        talk.say("APPROVAL_RESPONSE", request_id=marked[0]["id"], approved=False)
        await talk.next("OUTPUT")
        assert made(served, "clicked")
        assert not made(served, "marked-click")


@pytest.mark.parametrize(
    "payload",
    [b"", b"got 1 x", b"got 1 ", b"got 1 99999999999999999999", b"asked x", b"\xff " * 9],
    ids=["empty", "no-number", "no-digits", "large", "asked", "bytes"],
)
async def test_pongs_that_nobody_asked_for_do_nothing(served: Onion, payload: bytes) -> None:
    """Invariant 8."""
    async with served.client(key=ALICE) as talk:
        talk.wire.pings.append(payload)
        talk.wire.pong()
        frames = await talk.turn(script("say still here"))
        assert frames[-1]["result"] == "still here"
