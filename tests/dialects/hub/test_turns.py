"""Prompts, turns and decisions over the WebSocket: one turn per message id, one outcome per decision."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dragoman.hub.permissions import LOCAL

from .conftest import MakeRig
from .rig import Link, Rig


async def opened(link: Link, session: str) -> str:
    """The decision that the newest script opened."""
    await link.until(lambda: "decision.opened" in link.facts(session), "a decision")
    facts = [event["fact"] for event in link.events(session)]
    return str([fact["decision"] for fact in facts if fact["type"] == "decision.opened"][-1])


async def test_a_prompt_runs_and_its_receipt_names_its_turn(rig: Rig) -> None:
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        receipt = await link.ask("submit", session=session.id, text="say hello")
        assert receipt["disposition"] == "started"
        assert receipt["duplicate"] is False
        await link.until(lambda: "turn.ended" in link.facts(session.id), "the end")
        by_seq = {event["seq"]: event["fact"] for event in link.events(session.id)}
        assert by_seq[receipt["seq"]]["prompt"] == receipt["prompt"]
        ended = next(fact for fact in by_seq.values() if fact["type"] == "turn.ended")
        assert (ended["turn"], ended["outcome"], ended["result"]) == (receipt["turn"], "completed", "hello")


async def test_the_same_message_id_gives_one_turn_also_after_a_restart(make_rig: MakeRig) -> None:
    """V3."""
    rig = await make_rig()
    session = await rig.session()
    async with rig.link() as link:
        ask = {"session": session.id, "text": "say once", "client_message_id": "m1", "when_busy": "queue"}
        receipts = [await link.ask("submit", **ask) for _ in range(5)]
        assert [receipt["duplicate"] for receipt in receipts] == [False, True, True, True, True]
        assert len({receipt["prompt"] for receipt in receipts}) == 1
        assert await link.refused("submit", **{**ask, "text": "say twice"}) == "conflicting_repeat"
    await rig.stop()
    again = await make_rig(store=rig.store)
    async with again.link() as link:
        receipt = await link.ask("submit", **ask)
        assert (receipt["prompt"], receipt["duplicate"]) == (receipts[0]["prompt"], True)
    reply = await again.http("POST", f"/sessions/{session.id}/prompts", {"text": "say once"}, {"Idempotency-Key": "m1"})
    assert reply.json["prompt"] == receipts[0]["prompt"]
    assert reply.json["duplicate"] is True


async def test_a_busy_session_refuses_queues_or_steers_as_asked(rig: Rig) -> None:
    """V10."""
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("submit", session=session.id, text="sleep 20\nsteer\nwait")
        assert await link.refused("submit", session=session.id, text="say no") == "busy"
        queued = await link.ask("submit", session=session.id, text="say later", when_busy="queue")
        assert (queued["disposition"], queued["turn"]) == ("queued", None)
        steered = await link.ask("submit", session=session.id, text="also", when_busy="steer")
        assert steered["disposition"] == "steering"
        await link.ask("withdraw", session=session.id, prompt=queued["prompt"])
        assert await link.refused("withdraw", session=session.id, prompt=queued["prompt"]) == "invalid_request"
        await link.ask("cancel", session=session.id)


async def test_cancel_names_a_turn_and_closes_what_it_asked(rig: Rig) -> None:
    """V14 and invariant 9."""
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        turn = (await link.ask("submit", session=session.id, text="permit rm -rf /"))["turn"]
        await opened(link, session.id)
        assert await link.refused("cancel", session=session.id, turn="another") == "unknown_turn"
        assert (await link.ask("cancel", session=session.id, turn=turn))["turn"] == turn
        await link.caught_up(session)
        facts = link.facts(session.id)
        assert facts.index("decision.resolved") < facts.index("turn.ended")
        assert await link.refused("cancel", session=session.id) == "unknown_turn"
        assert (await link.ask("snapshot", session=session.id))["decisions"] == []


async def test_a_decision_opened_before_is_shown_on_attach_and_answered_once(rig: Rig) -> None:
    session = await rig.session()
    async with rig.link() as asker:
        await asker.ask("submit", session=session.id, text="permit make install")
        async with rig.link() as late:
            snapshot = await late.ask("snapshot", session=session.id)
            assert snapshot["status"] == "waiting"
            (decision,) = snapshot["decisions"]
            assert decision["text"] == "make install"
            fields = {"session": session.id, "decision": decision["decision"], "answer": {"accept": True}}
            links = [asker, late] * 5
            answers = [await link.answer(await link.send("answer", **fields)) for link in links]
        won = [answer for answer in answers if answer["type"] == "ok"]
        lost = [answer for answer in answers if answer["type"] == "error"]
        assert len(won) == 1
        assert {(answer["code"], answer["outcome"]) for answer in lost} == {("already_resolved", "answered")}
        assert await asker.refused("answer", **{**fields, "decision": "never"}) == "unknown_decision"


async def test_answers_that_race_have_one_winner_each(rig: Rig) -> None:
    session = await rig.session()
    async with rig.link() as one, rig.link() as two:
        await one.ask("follow", session=session.id, after=0)
        for round_ in range(20):
            await one.ask("submit", session=session.id, text=f"permit {round_}", when_busy="queue")
            await one.until(lambda: session.shown.decisions, "a decision")
            (decision,) = session.shown.decisions
            fields: dict[str, Any] = {"session": session.id, "decision": decision, "answer": {"accept": False}}
            asked = await asyncio.gather(*(link.send("answer", **fields) for link in (one, two)))
            answers = [await link.answer(number) for link, number in zip((one, two), asked, strict=True)]
            assert sorted(answer["type"] for answer in answers) == ["error", "ok"]
            await one.until(lambda: session.shown.turn is None, "the turn ended")
        await one.caught_up(session)
        assert one.facts(session.id).count("decision.resolved") == 20


@pytest.mark.parametrize(
    ("script", "answer", "result"),
    [
        ("ask Which? | red | blue", {"option": 2}, "answer: blue"),
        ("ask Why?", {"text": "because"}, "answer: because"),
        ("permit ls", {"accept": False}, "ls: refused"),
    ],
)
async def test_an_answer_that_does_not_fit_leaves_the_decision_open(
    rig: Rig, script: str, answer: dict[str, Any], result: str
) -> None:
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        await link.ask("submit", session=session.id, text=script)
        fields = {"session": session.id, "decision": await opened(link, session.id)}
        assert await link.refused("answer", **fields, answer={"option": 99}) == "invalid_answer"
        assert await link.refused("answer", **fields, answer={}) == "invalid_answer"
        await link.ask("answer", **fields, answer=answer)
        await link.until(lambda: session.shown.turn is None, "the turn ended")
        assert session.shown.status.last_message == result


async def test_the_answer_to_a_secret_decision_is_in_no_message_and_a_claimed_mark_counts_for_nothing(rig: Rig) -> None:
    """Invariant 10."""
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("follow", session=session.id, after=0)
        fact = {"type": "decision.opened", "decision": "d1", "kind": "question", "text": "Code?", "secret": True}
        await link.ask("submit", session=session.id, text=f"fact {json.dumps(fact)}\nwait")
        await opened(link, session.id)
        await link.ask("answer", session=session.id, decision="d1", answer={"text": "123-456"})
        await link.caught_up(session)
        assert "123-456" not in json.dumps(link.messages)
        await link.ask("submit", session=session.id, text="permit ls", when_busy="queue")
        await link.ask("cancel", session=session.id)
        await link.until(lambda: session.shown.decisions, "the next decision")
        (decision,) = session.shown.decisions
        answer = {"accept": True, "withheld": True}
        await link.ask("answer", session=session.id, decision=decision, answer=answer)
        await link.caught_up(session)
        said = [e["fact"]["answer"] for e in link.events(session.id) if e["fact"]["type"] == "decision.resolved"]
        assert said[0] == {"withheld": True}
        assert said[-1] == {"accept": True}


async def test_nothing_is_acknowledged_that_is_not_on_disk(rig: Rig) -> None:
    """Invariant 3 and V9."""
    session = await rig.session()
    async with rig.link() as link:
        rig.journal.fail("disk full")
        assert await link.refused("submit", session=session.id, text="say lost") == "storage_unavailable"
        health = await rig.http("GET", "/health")
        assert (health.status, health.json["status"], health.json["problem"]) == (503, "degraded", "disk full")
        rig.journal.heal()
        await link.ask("submit", session=session.id, text="say kept")
    assert session.id == (await rig.registry.get(LOCAL, session.id)).id


async def test_losing_every_client_changes_nothing(rig: Rig) -> None:
    """V9: a lost socket is not a lost agent."""
    session = await rig.session()
    async with rig.link() as link:
        await link.ask("submit", session=session.id, text="pace 30 5\nsay done")
    await link.until(lambda: session.shown.turn is None, "the turn ended")
    assert session.shown.status.last_message == "done"
