"""Questions that wait, over sockets that come and go: who is asked again, and what answers (invariant 4; §6, §9)."""

from __future__ import annotations

import asyncio

import pytest

from .rig import ALICE, Frame, Onion, Talk, calls, kinds, of, script

ASK = script(*calls(("ask", {"question": "Which?", "options": ["Python 3", "Rust"]})), "say over")
TOUCH = script(*calls(("bash", {"command": "touch asked"})), "say over")
STALE = {"code": "STALE_ANSWER", "reason": "stale"}


async def _seen(talk: Talk, kind: str) -> Frame:
    """What is asked, once the client has proved to have got it: its next answer names nothing."""
    asked = await talk.next(kind)
    await talk.status()
    return asked


@pytest.mark.parametrize("how", ["by its id", "by nothing"])
async def test_what_is_asked_is_asked_again_on_a_new_socket(served: Onion, how: str) -> None:
    async with served.client(key=ALICE) as gone:
        gone.input(TOUCH)
        asked = await gone.next("approval_needed")
        session = gone.session_id
        await gone.wire.reset()
    async with served.client(session, key=ALICE) as talk:
        assert talk.frames[0]["status"] == "running"
        again = await _seen(talk, "approval_needed")
        assert again == asked
        talk.say("APPROVAL_RESPONSE", approved=True, **({"request_id": again["id"]} if how == "by its id" else {}))
        assert (await talk.next("OUTPUT"))["result"] == "over"


async def test_who_says_to_have_seen_it_is_not_asked_again_and_may_answer(served: Onion) -> None:
    async with served.client(key=ALICE) as gone:
        gone.input(ASK)
        asked = await gone.next("ask_user")
        session = gone.session_id
        await gone.wire.reset()
    async with served.client(session, key=ALICE, last_msg_id=asked["id"]) as talk:
        talk.say("ASK_USER_RESPONSE", answer="Rust")
        assert (await talk.next("tool_result"))["result"] == "Rust"
        await talk.next("OUTPUT")
        assert not of(talk.frames, "ask_user")


async def test_only_a_response_of_its_kind_answers(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.input(ASK)
        asked = await _seen(talk, "ask_user")
        for kind, fields in (
            ("APPROVAL_RESPONSE", {"approved": True}),
            ("PLAN_REVIEW_RESPONSE", {"message": "Plan approved"}),
            ("ULW_RESPONSE", {"action": "continue"}),
            ("APPROVAL_RESPONSE", {"approved": True, "request_id": asked["id"]}),
        ):
            talk.say(kind, **fields)
            error = await talk.next("ERROR")
            assert STALE.items() <= error.items()
        talk.say("mode_change", mode="accept_edits")
        await talk.next("mode_changed")
        talk.say("ASK_USER_RESPONSE", answer="Python 3")
        assert (await talk.next("tool_result"))["result"] == "Python 3"
        await talk.next("OUTPUT")


async def test_an_answer_without_a_question_is_an_error(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        for fields in ({}, {"request_id": "ev-999"}, {"request_id": "nonsense"}):
            talk.say("ASK_USER_RESPONSE", answer="x", **fields)
            assert STALE.items() <= (await talk.next("ERROR")).items()
    async with served.talk() as stranger:
        stranger.say("APPROVAL_RESPONSE", approved=True)
        assert (await stranger.next("ERROR"))["message"] == "authenticate first (send CONNECT)"


async def test_the_second_answer_is_late_whoever_gave_the_first(served: Onion) -> None:
    async with served.client(key=ALICE) as first, served.client(first.session_id, key=ALICE) as second:
        first.input(script(*calls(("bash", {"command": "touch asked-late"})), "say over"))
        asked = await _seen(first, "approval_needed")
        await _seen(second, "approval_needed")
        second.say("APPROVAL_RESPONSE", approved=False, mode="reject_soft")
        await first.next("tool_result")
        first.say("APPROVAL_RESPONSE", approved=True, request_id=asked["id"])
        first.say("APPROVAL_RESPONSE", approved=True)
        for _ in range(2):
            assert STALE.items() <= (await first.next("ERROR")).items()
        await second.next("OUTPUT")
        assert not (served.work / "asked-late").exists()


async def test_a_list_of_choices_is_an_answer(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.input(ASK)
        asked = await talk.next("ask_user")
        talk.say("ASK_USER_RESPONSE", answer=["Rust", "Python 3"], request_id=asked["id"])
        assert (await talk.next("tool_result"))["result"] == "Rust, Python 3"
        await talk.next("OUTPUT")


async def test_a_plan_is_accepted_in_words_and_anything_else_is_what_to_change(served: Onion) -> None:
    plan = calls(("presentPlan", {"plan": "# Plan"}))
    async with served.client(key=ALICE) as talk:
        talk.say("mode_change", mode="plan")
        await talk.next("mode_changed")
        talk.input(script(*plan, *plan, "say over"))
        first = await talk.next("plan_review")
        assert first["plan_content"] == "# Plan"
        talk.say("PLAN_REVIEW_RESPONSE", message="fewer lines", request_id=first["id"])
        second = await talk.next("plan_review")
        assert "fewer lines" in of(talk.frames, "tool_result")[0]["result"]
        talk.say("PLAN_REVIEW_RESPONSE", message="Plan approved", request_id=second["id"])
        assert (await talk.next("mode_changed"))["mode"] == "safe"
        await talk.next("OUTPUT")


async def test_an_answer_before_the_client_has_got_the_question_is_to_nothing(served: Onion) -> None:
    async with served.client(key=ALICE) as talk:
        talk.wire.answers_pings = False
        talk.input(ASK)
        await talk.next("ask_user")
        talk.say("ASK_USER_RESPONSE", answer="Rust")
        assert STALE.items() <= (await talk.next("ERROR")).items()
        talk.wire.answers_pings = True
        talk.wire.pong()
        talk.say("ASK_USER_RESPONSE", answer="Rust")
        assert (await talk.next("tool_result"))["result"] == "Rust"
        assert "tool_result" in kinds(talk.frames)
        await asyncio.wait_for(talk.next("OUTPUT"), 20)
