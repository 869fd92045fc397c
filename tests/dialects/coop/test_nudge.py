"""``nudge`` over WebSocket and HTTP: only to an idle agent, and told what became of it."""

from __future__ import annotations

import pytest

from dragoman.dialects.coop.settings import CoopSettings
from dragoman.hub.events import PromptSubmitted, TurnStarted
from dragoman.hub.permissions import LOCAL

from .driven import Frame, Play, eventually
from .harness import NO_DRIVER, NOT_READY, UNAUTHENTICATED, error

NUDGE = {"event": "nudge", "message": "Please continue"}


def result(delivered: bool, before: str | None, reason: str | None) -> Frame:
    return {"event": "nudge:result", "delivered": delivered, "state_before": before, "reason": reason}


DELIVERED = result(True, "idle", None)


def fields(frame: Frame) -> Frame:
    return {key: value for key, value in frame.items() if key != "event"}


async def test_an_idle_agent_takes_it(play: Play) -> None:
    play.moves("idle")
    await play.durable()
    async with play.link("raw") as link:
        assert await link.answers(NUDGE) == [DELIVERED]
    assert play.factory.typed == ["Please continue"]
    prompt = (await play.session.read(0))[-2].fact
    assert isinstance(prompt, PromptSubmitted)
    assert (prompt.via, prompt.by, play.factory.asked_for) == ("coop", "local", [f"prompt {prompt.prompt}"])


async def test_an_idle_agent_takes_it_over_http(play: Play) -> None:
    play.moves("idle")
    await play.durable()
    reply = await play.post("agent/nudge", {"message": "Please continue"})
    assert (reply.status, reply.json) == (200, fields(DELIVERED))


async def test_an_agent_that_failed_stands_at_its_input_box_and_takes_it(play: Play) -> None:
    play.moves("error")
    await play.durable()
    async with play.link("raw") as link:
        assert await link.answers(NUDGE) == [result(True, "error", None)]
    assert play.factory.typed == ["Please continue"]


async def test_an_agent_that_failed_takes_it_over_http(play: Play) -> None:
    play.moves("error")
    await play.durable()
    reply = await play.post("agent/nudge", {"message": "x"})
    assert (reply.status, reply.json, play.factory.typed) == (200, fields(result(True, "error", None)), ["x"])


@pytest.mark.parametrize("state", ["working", "prompt", "unknown", "exited"])
async def test_in_any_other_state_nothing_is_typed(play: Play, state: str) -> None:
    if state == "prompt":
        play.asks()
    else:
        play.moves(state)
    await play.durable()
    refused = result(False, state, f"agent is {state}")
    async with play.link("raw") as link:
        assert await link.answers(NUDGE) == [refused]
    reply = await play.post("agent/nudge", {"message": "x"})
    assert (reply.status, reply.json, play.factory.typed) == (200, fields(refused), [])


async def test_an_open_turn_is_work_although_the_agent_does_not_show_it_yet(play: Play) -> None:
    play.moves("idle")
    await play.session.submit(LOCAL, "first", via="hub")
    async with play.link("raw") as link:
        assert await link.answers(NUDGE) == [result(False, "working", "agent is working")]
    assert play.factory.typed == ["first"]


async def test_what_the_agent_did_not_take_was_not_delivered(play: Play) -> None:
    play.moves("idle")
    await play.durable()
    play.factory.says = "the agent did not take the text"
    async with play.link("raw") as link:
        assert await link.answers(NUDGE) == [result(False, "idle", "the agent did not take the text")]


async def test_a_driver_without_a_word_is_not_waited_for_for_ever(play: Play) -> None:
    play.dialect.settings = CoopSettings(delivery=0.05)
    play.moves("idle")
    await play.durable()
    play.factory.free.clear()
    async with play.link("raw") as link:
        (reply,) = await link.answers(NUDGE)
        assert (reply["delivered"], reply["reason"]) == (False, "the agent was not seen to take it within 0.05 s")


async def test_readiness_comes_before_the_driver(play: Play) -> None:
    play.factory.driven = False
    async with play.link("raw") as link:
        assert await link.answers(NUDGE) == [NOT_READY]
        assert (await play.post("agent/nudge", {"message": "x"})).error == (
            503,
            "NOT_READY",
            "agent is still starting",
        )
        play.moves("idle")
        await play.durable()
        assert await link.answers(NUDGE) == [NO_DRIVER]
        assert (await play.post("agent/nudge", {"message": "x"})).error[:2] == (404, "NO_DRIVER")


async def test_pushes_go_on_while_it_is_on_its_way_and_what_follows_waits_in_order(play: Play) -> None:
    """A nudge takes as long as the agent; nothing else does, but the connection's own messages stay in order."""
    play.moves("idle")
    await play.durable()
    play.factory.free.clear()
    async with play.link() as link, play.link("raw") as other:
        await link.send(NUDGE)
        await link.send({"event": "input", "text": "later"})
        await link.send({"event": "ping"})
        await eventually(lambda: play.factory.asked_for, "the driver is asked")
        play.moves("working")
        assert (await link.receive())["next"] == "working"
        assert not await other.until_pong()
        assert play.session.terminal.written == b""
        play.factory.free.set()
        assert [(await link.receive())["event"] for _ in range(2)] == ["nudge:result", "pong"]
        assert play.session.terminal.written == b"later"


async def test_it_runs_on_when_its_sender_leaves(play: Play) -> None:
    play.moves("idle")
    await play.durable()
    play.factory.free.clear()
    async with play.link("raw") as link:
        await link.send(NUDGE)
        await eventually(lambda: play.factory.asked_for, "the driver is asked")
    play.factory.free.set()
    await eventually(lambda: not len(play.dialect.tasks), "the delivery ends")
    await eventually(lambda: not play.dialect.link_count(play.session.id), "the link is gone")
    assert play.factory.typed == ["Please continue"]


async def test_the_same_key_gives_one_turn(play: Play) -> None:
    """Invariant 3."""
    play.moves("idle")
    await play.durable()
    first = await play.post("agent/nudge", {"message": "go"}, Idempotency_Key="k1")
    play.moves("working")
    again = await play.post("agent/nudge", {"message": "go"}, Idempotency_Key="k1")
    assert (first.json, again.json) == (fields(DELIVERED), fields(DELIVERED))
    other = await play.post("agent/nudge", {"message": "go"}, Idempotency_Key="k2")
    assert other.json == fields(result(False, "working", "agent is working"))
    changed = await play.post("agent/nudge", {"message": "stop"}, Idempotency_Key="k1")
    assert changed.error[:2] == (400, "BAD_REQUEST")
    events = await play.session.read(0)
    assert sum(isinstance(event.fact, TurnStarted) for event in events) == 1


async def test_a_failure_of_ours_is_an_error_and_the_link_lives(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """Invariant 8."""
    play.moves("idle")
    await play.durable()

    async def fails(_: str) -> str | None:
        raise RuntimeError("no such thing")

    play.session.driver.taken = fails  # type: ignore[union-attr, method-assign]
    async with play.link("raw") as link:
        answer = error("INTERNAL", "the server failed here; its log says why")
        assert await link.answers(NUDGE) == [answer]
    caplog.clear()


async def test_without_the_token_nothing_is_typed(tmp_path) -> None:
    play = Play(tmp_path, token="secret")
    await play.start()
    try:
        play.moves("idle")
        await play.durable()
        async with play.link("raw") as link:
            assert await link.answers(NUDGE) == [UNAUTHENTICATED]
            assert await link.answers({"event": "respond", "accept": True}) == [UNAUTHENTICATED]
            await link.send({"event": "auth", "token": "secret"})
            assert await link.answers(NUDGE) == [DELIVERED]
        assert (await play.post("agent/nudge", {"message": "x"})).status == 401
    finally:
        await play.stop()
